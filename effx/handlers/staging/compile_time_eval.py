"""Evaluate operations on known values at once, inside functions that are being staged."""

from typing import ClassVar, TypeVar, final

import attrs

from effx.effects import Frame, Handler, Operation, Value, forward, isolated, perform

R = TypeVar("R")


@final
@attrs.frozen
class EvaluateKnown(Handler):
    """Runs operations without effects on plain values at once, past all handlers; forwards the others outward."""

    name = "ensure_compile_time_eval"
    intercepts: ClassVar[bool] = True
    owns_boxes: ClassVar[bool] = False

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Runs an operation, or forwards it."""
        if op.effects or any([x.frame is not None for x in operands]):
            return forward(op, operands)
        with isolated():
            return perform(op, operands)
