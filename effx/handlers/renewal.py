"""Closures of users' rules: what they closed over when the function was staged stands for what it is now.

A rule runs when a handler has a use for it: a jit or vmap around the function may have ended by then, and
boxes of it that the rule closes over would be dead. Staging made what the function closes over operands, so
their values are known. For the length of the rule, each such box is put into a frame that unwraps it.

Never: touch a box whose own handler is at work.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast, final

import attrs

from effx.array import Array, Box
from effx.effects import Frame, Handler, Operation, Value, handle, is_in_scope
from effx.tree.registry import PyTree

__all__ = ["renewed"]

R = TypeVar("R")


@final
@attrs.frozen
class _Renewed(Handler):
    """Takes operations on renewed boxes and performs them on what these stand for."""

    name = "custom rule"

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Unwraps the operands."""
        return op(*[cast("Box", x).payload if x.frame is frame else x for x in operands])


def _same(x: PyTree) -> PyTree:
    return x


@contextmanager
def renewed(old: Sequence[Array], new: Sequence[Array]) -> Iterator[Callable[[PyTree], PyTree]]:
    """Lets boxes stand for new values for the length of a `with` block.

    Args:
        old: what a function closed over when it was staged.
        new: their values now.

    Yields:
        What unwraps a leaf of the result, which may be such a box itself.
    """
    pairs = [
        (x, value)
        for x, value in zip(old, new, strict=True)
        if type(x) is Box and not (x.frame.live and is_in_scope(x.frame))
    ]
    if not pairs:
        yield _same
        return
    kept = [(x, x.frame, x.payload) for x, _ in pairs]
    with handle(_Renewed()) as frame:
        try:
            for x, value in pairs:
                x.frame, x.payload = frame, value
            yield lambda y: y.payload if type(y) is Box and y.frame is frame else y
        finally:
            for x, owner, payload in kept:
                x.frame, x.payload = owner, payload
