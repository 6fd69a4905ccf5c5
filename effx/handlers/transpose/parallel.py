"""Transposes of parallel maps, which are parallel maps. A slice of a mapped operand gets its replica's
cotangent, an unmapped operand the sum over all replicas. An unmapped result is taken from the first replica,
so its cotangent goes there.
"""

from collections.abc import Sequence

import attrs

from effx import dtypes
from effx.array import Array
from effx.array.promotion import scalar, zeros
from effx.effects import handle
from effx.handlers.parallel import Replicas
from effx.handlers.stage import run_program, stage
from effx.handlers.transpose.control import Transposed, in_places, known_of, transposed
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, rule
from effx.ir.ops.collective import AxisIndex, PSum
from effx.ir.ops.compare import Eq
from effx.ir.ops.elementwise import Select
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Program


@rule(ParallelMap)
def parallel_map(op: ParallelMap, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    known_in, present = known_of(operands), tuple([ct is not None for ct in cts])
    with handle(Replicas(op.size, op.axis_name)):  # rules of users' ask for their axes
        found = transposed(op.body, known_in, present)
    linear_mapped = [m for m, known in zip(op.mapped_in, known_in, strict=True) if not known]
    ct_mapped = [m for m, p in zip(op.mapped_out, present, strict=True) if p]
    results_mapped = tuple([m for m, keep in zip(linear_mapped, found.nonzero, strict=True) if keep])
    captured = found.staged.captured
    known_mapped = [m for m, known in zip(op.mapped_in, known_in, strict=True) if known]
    key = ("parallel back", op.axis_name, known_in, present, op.mapped_in, op.mapped_out)
    body = op.body.derived.get(key)
    if body is None:
        body = op.body.derived[key] = _summed(op, found, ct_mapped, results_mapped)
    assert isinstance(body, Program)
    back = attrs.evolve(
        op,
        body=body,
        mapped_in=(*[False] * len(captured), *known_mapped, *ct_mapped),
        mapped_out=results_mapped,
    )
    known = [x for x in operands if not isinstance(x, LinearOperand)]
    results = back(*captured, *known, *[ct for ct in cts if ct is not None]) if results_mapped else ()
    return in_places(known_in, found.nonzero, results)


def _summed(
    op: ParallelMap, found: Transposed, ct_mapped: Sequence[bool], results_mapped: Sequence[bool]
) -> Program:
    """Returns a replica's backward program, with sums over replicas."""
    inner = found.staged.program
    if all(ct_mapped) and all(results_mapped):
        return inner
    first = len(inner.inputs) - len(ct_mapped)

    def body(arrays: list[Array]) -> list[Array]:
        cts = [x if m else _of_first(op, x) for x, m in zip(arrays[first:], ct_mapped, strict=True)]
        results = run_program(inner, [*arrays[:first], *cts])
        return [x if m else PSum(op.axis_name)(x) for x, m in zip(results, results_mapped, strict=True)]

    return stage(body, inner.in_types, inner.name, "transpose").program


def _of_first(op: ParallelMap, ct: Array) -> Array:
    """Returns the cotangent for the first replica and zeros for the others."""
    is_first = Eq()(AxisIndex(op.axis_name)(), scalar(0, dtypes.int32, False))
    return Select()(is_first, zeros(ct.type), ct)
