"""Splitting parallel maps into a known and a linear part: each replica keeps its own residuals."""

import attrs

from effx.handlers.linear.control import places
from effx.handlers.linear.partial_eval import Parts, counts, split, splitter
from effx.ir.ops.parallel import ParallelMap


@splitter(ParallelMap)
def parallel_map(op: ParallelMap, linear_in: tuple[bool, ...], once: bool) -> Parts:
    half = split(op.body, linear_in, once)
    known_in, active = places(linear_in, False), places(linear_in, True)
    every = tuple(range(len(op.axes)))
    kept = (every,) * half.computed
    if op.checked:  # what is equal along an axis is one residual
        residuals = half.known.out_types[len(half.known.outputs) - half.computed :]
        kept = tuple([tuple([a for a in every if op.axes[a][0] in t.vma]) for t in residuals])
    known_out = [c for c, is_linear in zip(op.cuts_out, half.linear_out, strict=True) if not is_linear]
    linear_out = [c for c, is_linear in zip(op.cuts_out, half.linear_out, strict=True) if is_linear]
    known = attrs.evolve(
        op,
        body=half.known,
        cuts_in=tuple([op.cuts_in[i] for i in known_in]),
        cuts_out=(*known_out, *kept),
    )
    linear = attrs.evolve(
        op,
        body=half.linear,
        cuts_in=(*[op.cuts_in[i] for i in half.forwarded], *kept, *[op.cuts_in[i] for i in active]),
        cuts_out=tuple(linear_out),
    )
    return Parts(
        known=known if counts(half.known) else None,
        known_operands=known_in,
        computed=half.computed,
        linear=linear if half.linear.outputs else None,
        linear_operands=(*half.forwarded, *[~j for j in range(half.computed)], *active),
        linear_out=half.linear_out,
    )
