"""Rows of the parallel map and of the collectives that move values between replicas."""

from __future__ import annotations

from effx.errors import DTypeError, ProgramError, ShapeError
from effx.ir.ops import collective as k
from effx.ir.ops.parallel import ParallelMap, parallel_map
from effx.ir.text import parse_program
from tests.ops.rows import FEW, REPLICAS, Row, Sample, b1, bf16, f32, f64, i8, of_kinds, over, refuses, t

ONE = ((),)
RING = tuple([(i, (i + 1) % REPLICAS) for i in range(REPLICAS)])

COLLECTIVE = [
    Row(
        k.PSumScatter,
        (
            *over(k.PSumScatter("i", 0, REPLICAS), (REPLICAS,), of=of_kinds("iufc")),
            *over(k.PSumScatter("i", 1, REPLICAS), (2, 2 * REPLICAS), of=[f32, f64]),
        ),
        linear=ONE,
        invalid=(
            refuses(
                k.PSumScatter("i", 0, 2),
                t(f32, 3),
                error=ShapeError,
                text="psum_scatter: axis 0 of f32[3] must be divisible by 2, the size of the named axis or group",
            ),
            refuses(
                k.PSumScatter("i", 0, 2),
                t(b1, 2),
                error=DTypeError,
                text="psum_scatter: operand must be integer, floating or complex, got bool[2]",
            ),
        ),
    ),
    Row(
        k.PCast,
        (*over(k.PCast("i"), (2,), of=FEW), *over(k.PCast("i"), (), of=[f32, f64])),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                k.PCast("i"),
                t(f32),
                t(f32),
                error=ShapeError,
                text="pcast: takes 1 operand, got 2: f32[], f32[]",
            ),
        ),
    ),
    Row(
        k.AllToAll,
        (
            *over(k.AllToAll("i", 0, 0, REPLICAS), (2 * REPLICAS,), of=FEW),
            *over(k.AllToAll("i", 1, 0, REPLICAS), (2, REPLICAS, 2), of=[f32, f64]),
            *over(k.AllToAll("i", 0, 2, REPLICAS), (REPLICAS, 1, 2), of=[f32, bf16]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                k.AllToAll("i", 0, 0, 2),
                t(f32, 3),
                error=ShapeError,
                text="all_to_all: axis 0 of f32[3] must be divisible by 2, the size of the named axis or group",
            ),
            refuses(
                k.AllToAll("i", 0, 1, 3),
                t(f32, 3),
                error=ShapeError,
                text="all_to_all: axis 1 is out of range for f32[3], which has 1 axes",
            ),
        ),
    ),
    Row(
        k.PPermute,
        (
            *over(k.PPermute("i", RING), (2,), of=FEW),
            *over(k.PPermute("i", ((0, 2),)), (2,), of=[f32, f64, i8]),
            *over(k.PPermute("i", ()), (), of=[f32, f64]),
        ),
        linear=ONE,
        exact=True,
        invalid=(
            refuses(
                k.PPermute("i", RING),
                t(f32),
                t(f32),
                error=ShapeError,
                text="ppermute: takes 1 operand, got 2: f32[], f32[]",
            ),
        ),
    ),
]

BODY = """
body(a: {0}[3], b: {0}[]) ! AxisEffect(axis='i') {{
  c: {0}[3] = mul a b
  d: {0}[3] = sin c
  e: {0}[3] = psum[axis_name='i'] d
  f: {0}[3] = ppermute[axis_name='i' perm=((0, 1),)] c
  g: {0}[3] = add e f
  return g, e
}}
"""
MAPS = {
    name: parallel_map(parse_program(BODY.format(name)), 2, (True, False), (True, False), axis_name="i")
    for name in ("f32", "f64", "bf16")
}
PARALLEL = [
    Row(
        ParallelMap,
        tuple([Sample(MAPS[n], (t(d, 2, 3), t(d))) for n, d in (("f32", f32), ("f64", f64), ("bf16", bf16))]),
        tolerance=8.0,
        invalid=(
            refuses(
                MAPS["f32"],
                t(f32, 3, 3),
                t(f32),
                error=ShapeError,
                text="parallel_map: a mapped operand must have a leading axis of 2, got f32[3,3]",
            ),
            refuses(
                MAPS["f32"],
                t(f64, 2, 3),
                t(f32),
                error=ProgramError,
                text="parallel_map: body takes (f32[2,3], f32[]), got (f64[2,3], f32[])",
            ),
            refuses(
                parallel_map(MAPS["f32"].body, 2, (True,), (True, True), axis_name="i"),
                t(f32, 2, 3),
                error=ProgramError,
                text="parallel_map: body has 2 inputs and 2 outputs, but cuts_in has 1 entries and cuts_out 2",
            ),
        ),
    )
]

ROWS = [*COLLECTIVE, *PARALLEL]
