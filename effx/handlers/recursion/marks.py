"""Operations that mark values under any handler, array by array: checkpoint names, memory kinds, barriers, weak types."""

from collections.abc import Sequence
from typing import cast

import attrs

from effx.array import Array
from effx.effects import Frame, Operation
from effx.handlers.recursion.layout import flatten_boxes, rebuild_boxes
from effx.ir.ops.checkpoint import Identity
from effx.ir.ops.convert import Convert, OptimizationBarrier

MARK_OPERATIONS = (Identity, OptimizationBarrier)
"""Checkpoint names, memory kinds and barriers."""


def is_mark(op: Operation[object], operands: Sequence[Array]) -> bool:
    """Returns whether an operation only marks its operands, as a conversion does that changes no dtype: what it changes is
    whether the type is weak. A loop converts its carry so.
    """
    return isinstance(op, MARK_OPERATIONS) or (type(op) is Convert and operands[0].dtype == op.dtype)


def mark_payloads(
    frame: Frame, op: Operation[object], operands: Sequence[Array]
) -> Array | tuple[Array, ...]:
    """Performs a marking operation outward on the arrays of payloads; boxes stay boxes."""
    leaves, layouts = flatten_boxes(frame, operands)
    if op.multiple:
        return tuple(rebuild_boxes(frame, cast("tuple[Array, ...]", op(*leaves)), layouts))
    if type(op) is Convert:
        leaves = [op(x) if x.dtype == op.dtype else x for x in leaves]
        return rebuild_boxes(frame, leaves, [attrs.evolve(layouts[0], type=op.infer(layouts[0].type))])[0]
    fits = cast("Identity", op).applies_to
    return rebuild_boxes(frame, [cast("Array", op(x)) if fits(x.type) else x for x in leaves], layouts)[0]
