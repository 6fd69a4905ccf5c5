"""Substitute the current values of boxes that custom rules close over. A rule may run after the jit or vmap around
the function has ended, and boxes of it that the rule closes over would have no frame. Staging made the closed-over values
operands, so their current values are known. While the rule runs, a handler replaces each such box by its
value.

Never: write to a box: another thread may run the rule for other values.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast, final

import attrs

from effx.array import Array, Box
from effx.effects import Frame, Handler, Operation, Value, current_frame, handle, is_in_scope
from effx.tree.registry import PyTree

R = TypeVar("R")


@final
@attrs.frozen
class _BoxSubstitution(Handler):
    """Performs operations on the current values of closed-over boxes. Its state: boxes with the new values, by the ids
    of the old boxes.
    """

    name = "custom rule"
    intercepts = True

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Replaces the operands by their current values."""
        return op(*[current_value(frame, x) for x in operands])


def current_value(frame: Frame, x: Value) -> Value:
    """Returns the current value of a closed-over box, in a frame of renewed boxes; other values unchanged."""
    box = x if x.frame is frame else cast("dict[int, Box]", frame.state).get(id(x))
    return x if box is None else cast("Value", cast("Box", box).payload)


def find_substitute(x: Box) -> Box:
    """Returns the substitute of a box whose handler has ended, for programs that capture it.

    Raises:
        EscapedBoxError: there is none.
    """
    frame = current_frame()
    for f in () if frame is None else frame.outward():
        if type(f.handler) is _BoxSubstitution:
            substitute = cast("dict[int, Box]", f.state).get(id(x))
            if substitute is not None:
                return substitute
    raise x.escaped_error()


@contextmanager
def substitute_boxes(old: Sequence[Array], new: Sequence[Array]) -> Iterator[Callable[[PyTree], PyTree]]:
    """Replaces closed-over boxes by their current values in a `with` block.

    Args:
        old: the values that a function closed over when it was staged.
        new: their current values.

    Yields:
        A function that unwraps a leaf of the result, which may be such a box itself.
    """
    pairs = [
        (x, value)
        for x, value in zip(old, new, strict=True)
        if type(x) is Box and not (x.frame.live and is_in_scope(x.frame))
    ]
    if not pairs:
        yield lambda y: y
        return
    with handle(_BoxSubstitution()) as frame:
        frame.state = {id(x): Box(frame, value, x.type) for x, value in pairs}
        yield lambda y: current_value(frame, y) if isinstance(y, Array) else y
