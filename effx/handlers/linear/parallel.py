"""Split parallel maps into a known and a linear part: each replica has its own residuals."""

import attrs

from effx.handlers.linear.control import mask_indices
from effx.handlers.linear.partial_eval import OperationParts, is_needed, split_program, splitter
from effx.ir.ops.parallel import ParallelMap


@splitter(ParallelMap)
def split_parallel_map(op: ParallelMap, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    parts = split_program(op.body, linear_in, must_run_once)
    known_in, active = mask_indices(linear_in, False), mask_indices(linear_in, True)
    all_axes = tuple(range(len(op.axes)))
    residual_cuts = (all_axes,) * parts.computed
    if op.checked:  # a value that does not vary along an axis is one residual
        residuals = parts.known.out_types[len(parts.known.outputs) - parts.computed :]
        residual_cuts = tuple([tuple([a for a in all_axes if op.axes[a][0] in t.vma]) for t in residuals])
    known_out = [c for c, is_linear in zip(op.cuts_out, parts.linear_out, strict=True) if not is_linear]
    linear_out = [c for c, is_linear in zip(op.cuts_out, parts.linear_out, strict=True) if is_linear]
    known = attrs.evolve(
        op,
        body=parts.known,
        cuts_in=tuple([op.cuts_in[i] for i in known_in]),
        cuts_out=(*known_out, *residual_cuts),
    )
    linear = attrs.evolve(
        op,
        body=parts.linear,
        cuts_in=(*[op.cuts_in[i] for i in parts.forwarded], *residual_cuts, *[op.cuts_in[i] for i in active]),
        cuts_out=tuple(linear_out),
    )
    return OperationParts(
        known=known if is_needed(parts.known) else None,
        known_operands=known_in,
        computed=parts.computed,
        linear=linear if parts.linear.outputs else None,
        linear_operands=(*parts.forwarded, *[~j for j in range(parts.computed)], *active),
        linear_out=parts.linear_out,
    )
