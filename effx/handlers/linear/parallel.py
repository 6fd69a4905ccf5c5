"""Splitting parallel maps into a known and a linear part: each replica keeps its own residuals."""

import attrs

from effx.handlers.linear.control import places
from effx.handlers.linear.partial_eval import Parts, counts, split, splitter
from effx.ir.ops.parallel import ParallelMap


@splitter(ParallelMap)
def parallel_map(op: ParallelMap, linear_in: tuple[bool, ...], once: bool) -> Parts:
    half = split(op.body, linear_in, once)
    known_in, active = places(linear_in, False), places(linear_in, True)
    kept = (True,) * half.computed
    known_out = [m for m, is_linear in zip(op.mapped_out, half.linear_out, strict=True) if not is_linear]
    linear_out = [m for m, is_linear in zip(op.mapped_out, half.linear_out, strict=True) if is_linear]
    known = attrs.evolve(
        op,
        body=half.known,
        mapped_in=tuple([op.mapped_in[i] for i in known_in]),
        mapped_out=(*known_out, *kept),
    )
    linear = attrs.evolve(
        op,
        body=half.linear,
        mapped_in=(*[op.mapped_in[i] for i in half.forwarded], *kept, *[op.mapped_in[i] for i in active]),
        mapped_out=tuple(linear_out),
    )
    return Parts(
        known=known if counts(half.known) else None,
        known_operands=known_in,
        computed=half.computed,
        linear=linear if half.linear.outputs else None,
        linear_operands=(*half.forwarded, *[~j for j in range(half.computed)], *active),
        linear_out=half.linear_out,
    )
