"""Transposes of parallel maps, which are parallel maps. A slice of an operand gets its replica's cotangent; along axes
that do not shard the operand it gets the sum. A result is taken from the first replica along axes that do not shard it,
so its cotangent goes there.

Where types show varying axes, the body's own transpose has summed, and a result that does not vary along
an axis has one cotangent for all replicas.
"""

from collections.abc import Sequence

import attrs

from effx import dtypes
from effx.array import Array
from effx.array.promotion import zeros
from effx.handlers.staging.parallel_maps import bind_replica_axes
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.transpose.control import TransposedProgram, expand_cotangents, known_mask, stage_transpose
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, rule
from effx.ir.ops.collective import AxisIndex, PSum
from effx.ir.ops.compare import Eq
from effx.ir.ops.elementwise import Select
from effx.ir.ops.parallel import Cuts, ParallelMap
from effx.ir.program import Program
from effx.ir.values.scalars import scalar


@rule(ParallelMap)
def transpose_parallel_map(
    op: ParallelMap, cts: Sequence[Cotangent], operands: tuple[Operand, ...]
) -> list[Cotangent]:
    known_in, present = known_mask(operands), tuple([ct is not None for ct in cts])
    with bind_replica_axes(op.axes, op.checked):  # users' rules use their axes
        transposed_body = stage_transpose(op.body, known_in, present)
    linear_cuts = [c for c, known in zip(op.cuts_in, known_in, strict=True) if not known]
    ct_cuts = tuple([c for c, p in zip(op.cuts_out, present, strict=True) if p])
    result_cuts = tuple([c for c, keep in zip(linear_cuts, transposed_body.nonzero, strict=True) if keep])
    captured = transposed_body.staged.captured
    known_cuts = [c for c, known in zip(op.cuts_in, known_in, strict=True) if known]
    body = transposed_body.staged.program
    if not op.checked:
        key = ("parallel back", op.axes, known_in, present, op.cuts_in, op.cuts_out)
        cached = op.body.derived.get(key)
        if cached is None:
            cached = op.body.derived[key] = _add_index_sums(op, transposed_body, ct_cuts, result_cuts)
        assert isinstance(cached, Program)
        body = cached
    transposed_map = attrs.evolve(
        op, body=body, cuts_in=(*[()] * len(captured), *known_cuts, *ct_cuts), cuts_out=result_cuts
    )
    known = [x for x in operands if not isinstance(x, LinearOperand)]
    results = transposed_map(*captured, *known, *[ct for ct in cts if ct is not None]) if result_cuts else ()
    return expand_cotangents(known_in, transposed_body.nonzero, results)


def _add_index_sums(
    op: ParallelMap, transposed_body: TransposedProgram, ct_cuts: Cuts, result_cuts: Cuts
) -> Program:
    """Returns a replica's backward program, with sums over replicas."""
    inner = transposed_body.staged.program
    axis_count = len(op.axes)
    if all([len(c) == axis_count for c in (*ct_cuts, *result_cuts)]):
        return inner
    first = len(inner.inputs) - len(ct_cuts)

    def body(arrays: list[Array]) -> list[Array]:
        cts = [_keep_first_index(op, x, c) for x, c in zip(arrays[first:], ct_cuts, strict=True)]
        results = run_program(inner, [*arrays[:first], *cts])
        return [_sum_over_uncut(op, x, c) for x, c in zip(results, result_cuts, strict=True)]

    return stage(body, inner.in_types, inner.name, "transpose").program


def _sum_over_uncut(op: ParallelMap, x: Array, cut: tuple[int, ...]) -> Array:
    """Returns the sum over the axes that do not shard the operand."""
    for a, (name, _) in enumerate(op.axes):
        if a not in cut:
            x = PSum(name)(x)
    return x


def _keep_first_index(op: ParallelMap, ct: Array, cut: tuple[int, ...]) -> Array:
    """Returns the cotangent on the first replica along axes that do not shard the result, and zeros on the others."""
    for a, (name, _) in enumerate(op.axes):
        if a not in cut:
            is_first = Eq()(AxisIndex(name)(), scalar(0, dtypes.int32, False))
            ct = Select()(is_first, zeros(ct.type), ct)
    return ct
