"""Transposes of parallel maps, which are parallel maps. A slice of an operand gets its index's cotangent; along axes that
do not cut the operand it gets the sum. A result is taken from the first index along axes that it does not have, so its
cotangent goes there.

Where types say along which axes values vary, the body's own transpose has summed, and a result that does not vary along
an axis has one cotangent for all indices.
"""

from collections.abc import Sequence

import attrs

from effx import dtypes
from effx.array import Array
from effx.array.promotion import scalar, zeros
from effx.handlers.staging.parallel_maps import bound
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.transpose.control import Transposed, in_places, known_of, transposed
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, rule
from effx.ir.ops.collective import AxisIndex, PSum
from effx.ir.ops.compare import Eq
from effx.ir.ops.elementwise import Select
from effx.ir.ops.parallel import Cuts, ParallelMap
from effx.ir.program import Program


@rule(ParallelMap)
def parallel_map(op: ParallelMap, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    known_in, present = known_of(operands), tuple([ct is not None for ct in cts])
    with bound(op.axes, op.checked):  # rules of users' ask for their axes
        found = transposed(op.body, known_in, present)
    linear_cuts = [c for c, known in zip(op.cuts_in, known_in, strict=True) if not known]
    ct_cuts = tuple([c for c, p in zip(op.cuts_out, present, strict=True) if p])
    result_cuts = tuple([c for c, keep in zip(linear_cuts, found.nonzero, strict=True) if keep])
    captured = found.staged.captured
    known_cuts = [c for c, known in zip(op.cuts_in, known_in, strict=True) if known]
    body = found.staged.program
    if not op.checked:
        key = ("parallel back", op.axes, known_in, present, op.cuts_in, op.cuts_out)
        kept = op.body.derived.get(key)
        if kept is None:
            kept = op.body.derived[key] = _summed(op, found, ct_cuts, result_cuts)
        assert isinstance(kept, Program)
        body = kept
    back = attrs.evolve(
        op, body=body, cuts_in=(*[()] * len(captured), *known_cuts, *ct_cuts), cuts_out=result_cuts
    )
    known = [x for x in operands if not isinstance(x, LinearOperand)]
    results = back(*captured, *known, *[ct for ct in cts if ct is not None]) if result_cuts else ()
    return in_places(known_in, found.nonzero, results)


def _summed(op: ParallelMap, found: Transposed, ct_cuts: Cuts, result_cuts: Cuts) -> Program:
    """Returns an index's backward program, with sums over indices."""
    inner = found.staged.program
    every = len(op.axes)
    if all([len(c) == every for c in (*ct_cuts, *result_cuts)]):
        return inner
    first = len(inner.inputs) - len(ct_cuts)

    def body(arrays: list[Array]) -> list[Array]:
        cts = [_of_first(op, x, c) for x, c in zip(arrays[first:], ct_cuts, strict=True)]
        results = run_program(inner, [*arrays[:first], *cts])
        return [_total(op, x, c) for x, c in zip(results, result_cuts, strict=True)]

    return stage(body, inner.in_types, inner.name, "transpose").program


def _total(op: ParallelMap, x: Array, cut: tuple[int, ...]) -> Array:
    """Returns the sum over the axes that do not cut."""
    for a, (name, _) in enumerate(op.axes):
        if a not in cut:
            x = PSum(name)(x)
    return x


def _of_first(op: ParallelMap, ct: Array, cut: tuple[int, ...]) -> Array:
    """Returns the cotangent for the first index along axes that do not cut, and zeros for the others."""
    for a, (name, _) in enumerate(op.axes):
        if a not in cut:
            is_first = Eq()(AxisIndex(name)(), scalar(0, dtypes.int32, False))
            ct = Select()(is_first, zeros(ct.type), ct)
    return ct
