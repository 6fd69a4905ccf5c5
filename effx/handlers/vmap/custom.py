"""Batching by a rule of the user's.

Never: look into the function.
"""

from collections.abc import Sequence

from effx.array import Array, Box
from effx.effects import Frame
from effx.errors import EscapedBoxError, source_in_force
from effx.handlers.recursion.custom import closed_over
from effx.handlers.vmap.handler import Vmap, box, to_front
from effx.ir.ops.custom import Rules


def apply(
    handler: Vmap, frame: Frame, rules: Rules, constants: Sequence[Array], primals: Sequence[Array]
) -> tuple[Array, ...] | None:
    """Applies a user's rule; None where no argument has a batch axis."""
    assert rules.batch is not None
    values: list[Array] = []
    batched: list[bool] = []
    for x in primals:
        mine = type(x) is Box and x.frame is frame
        batched.append(mine)
        values.append(to_front(x.payload.value, x.payload.axis) if type(x) is Box and mine else x)
    if not any(batched):
        return None
    if any([x.frame is frame for x in constants]):
        raise closed_over(rules, "batched")
    # What the rule performs stands where the user wrote it.
    token = source_in_force.set(None)
    try:
        ys, flags = rules.batch(handler.size, constants, values, batched)
    except EscapedBoxError as error:
        if error.frame is frame:
            raise closed_over(rules, "batched") from error
        raise
    finally:
        source_in_force.reset(token)
    return tuple([box(frame, y, 0 if b else None) for y, b in zip(ys, flags, strict=True)])
