"""Operations that mark values (checkpoint names, memory kinds, barriers) under any handler: they mark each array."""

from collections.abc import Sequence
from typing import cast

from effx.array import Array
from effx.effects import Frame, Operation
from effx.handlers.recursion.layout import flatten_boxes, rebuild_boxes
from effx.ir.ops.checkpoint import Identity
from effx.ir.ops.convert import OptimizationBarrier

MARK_OPERATIONS = (Identity, OptimizationBarrier)
"""Checkpoint names, memory kinds and barriers."""


def mark_payloads(
    frame: Frame, op: Operation[object], operands: Sequence[Array]
) -> Array | tuple[Array, ...]:
    """Performs a marking operation outward on the arrays of payloads; boxes stay boxes."""
    leaves, layouts = flatten_boxes(frame, operands)
    if op.multiple:
        return tuple(rebuild_boxes(frame, cast("tuple[Array, ...]", op(*leaves)), layouts))
    fits = cast("Identity", op).applies_to
    return rebuild_boxes(frame, [cast("Array", op(x)) if fits(x.type) else x for x in leaves], layouts)[0]
