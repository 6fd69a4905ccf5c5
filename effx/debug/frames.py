"""Capture the variables of the user's frames while a function is staged, and fill in values when the program runs."""

import linecache
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, final

import attrs

from effx.array import Array, Box
from effx.effects import is_in_scope
from effx.errors import EffxError, is_internal
from effx.tree.registry import PyTreeDef, flatten

__all__ = ["FrameStack", "StoppedFrame", "stack_here"]


@final
@attrs.frozen(eq=False)
class StoppedFrame:
    """A Python frame with its values.

    Attributes:
        function, file, line: where it is.
        variables: its local variables, with values.
        surroundings: the global ones.
    """

    function: str
    file: str
    line: int
    variables: dict[str, Any]
    surroundings: dict[str, Any]

    def where(self) -> str:
        """Returns the location, with the line of source."""
        source = linecache.getline(self.file, self.line).strip()
        return f"{self.file}:{self.line} in {self.function}" + f"\n  {source}" * bool(source)

    def listing(self, around: int = 5) -> str:
        """Returns the lines of source near the location, which is marked by an arrow."""
        lines = linecache.getlines(self.file)
        first = max(self.line - around, 1)
        shown = lines[first - 1 : self.line + around]
        return "".join(
            [f"{'->' if n == self.line else '  '} {n:4} {text}" for n, text in enumerate(shown, first)]
        ).rstrip("\n")

    def evaluate(self, expression: str) -> object:
        """Computes an expression of the frame's variables."""
        return eval(expression, {**self.surroundings, **self.variables})

    def text(self) -> str:
        """Returns the location and all variables."""
        return "\n".join([self.where(), *[f"  {k} = {v!r}" for k, v in self.variables.items()]])


@final
@attrs.frozen(eq=False)
class FrameStack:
    """The user's frames, innermost first, with the traced values in them.

    Attributes:
        frames: with the variables as they are when the function is staged.
        places: for each frame and variable that holds traced values its structure and leaves; a number represents the
            traced value of that number.
        traced: these values.
    """

    frames: tuple[StoppedFrame, ...]
    places: tuple[dict[str, tuple[PyTreeDef, tuple[object, ...]]], ...]
    traced: tuple[Array, ...]

    def filled(self, values: Sequence[Array]) -> list[StoppedFrame]:
        """Returns the frames with values instead of traced ones."""
        return [
            attrs.evolve(
                frame,
                variables={
                    **frame.variables,
                    **{
                        name: tree.unflatten([values[x.number] if type(x) is Slot else x for x in leaves])
                        for name, (tree, leaves) in slots.items()
                    },
                },
            )
            for frame, slots in zip(self.frames, self.places, strict=True)
        ]


@final
@attrs.frozen
class Slot:
    """Stands for a traced value."""

    number: int


def _iterate_outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def stack_here(filtered: bool, count: int | None) -> FrameStack:
    """Takes the frames around the caller's caller.

    Args:
        filtered: True to leave out effx's own frames.
        count: of frames, the innermost first; None for all.
    """
    results = [f for f in _iterate_outward(sys._getframe(2)) if not filtered or not is_internal(f.f_code)]
    frames: list[StoppedFrame] = []
    slots_of_frames: list[dict[str, tuple[PyTreeDef, tuple[object, ...]]]] = []
    traced: dict[int, tuple[int, Array]] = {}
    for f in results[:count]:
        code, variables = f.f_code, dict(f.f_locals)
        frames.append(StoppedFrame(code.co_name, code.co_filename, f.f_lineno, variables, f.f_globals))
        slots: dict[str, tuple[PyTreeDef, tuple[object, ...]]] = {}
        for name, value in variables.items():
            try:
                leaves, tree = flatten(value, _is_iterator)
            except (EffxError, RecursionError):
                continue  # no pytree: shown as it is
            if any([type(x) is Box and is_in_scope(x.frame) for x in leaves]):
                slots[name] = tree, tuple([_slot_of(x, traced) for x in leaves])
        slots_of_frames.append(slots)
    return FrameStack(tuple(frames), tuple(slots_of_frames), tuple([x for _, x in traced.values()]))


def _is_iterator(x: object) -> bool:
    # Those are leaves, and jaxlib warns of them.
    return isinstance(x, Iterator)


def _slot_of(x: object, traced: dict[int, tuple[int, Array]]) -> object:
    if type(x) is not Box or not is_in_scope(x.frame):
        return x
    return Slot(traced.setdefault(id(x), (len(traced), x))[0])
