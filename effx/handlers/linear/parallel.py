"""Split parallel maps into a known and a linear part: each replica has its own residuals."""

import attrs

from effx.handlers.linear.partial_eval import OperationParts, Residual, split_program, splitter
from effx.ir.ops.parallel import ParallelMap


@splitter(ParallelMap)
def split_parallel_map(op: ParallelMap, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    parts = split_program(op.body, linear_in, must_run_once)
    all_axes = tuple(range(len(op.axes)))
    residual_cuts = (all_axes,) * parts.computed
    if op.checked:  # a value that does not vary along an axis is one residual
        residual_cuts = tuple(
            [tuple([a for a in all_axes if op.axes[a][0] in t.vma]) for t in parts.residual_types]
        )
    known_out = [c for c, is_linear in zip(op.cuts_out, parts.linear_out, strict=True) if not is_linear]
    linear_out = [c for c, is_linear in zip(op.cuts_out, parts.linear_out, strict=True) if is_linear]
    known = attrs.evolve(
        op,
        body=parts.known,
        cuts_in=tuple([op.cuts_in[i] for i in parts.known_indices]),
        cuts_out=(*known_out, *residual_cuts),
    )
    linear_in_cuts = [
        residual_cuts[x.index] if isinstance(x, Residual) else op.cuts_in[x] for x in parts.linear_sources
    ]
    linear = attrs.evolve(op, body=parts.linear, cuts_in=tuple(linear_in_cuts), cuts_out=tuple(linear_out))
    return parts.make_operation_parts(known, linear)
