"""Staging what one member of a parallel map does.

Never: see a pytree; the public transform flattens.
"""

from collections.abc import Callable, Sequence
from typing import final

import attrs

from effx.array import Array
from effx.effects import Effect, Frame, Handler, current_frame, handle
from effx.handlers.stage import stage
from effx.ir.ops.collective import UNNAMED, AxisEffect, AxisName
from effx.ir.program import Staged
from effx.ir.types import ArrayType

__all__ = ["Members", "members_around", "stage_member"]


@final
@attrs.frozen
class Members(Handler):
    """Binds the axis of a parallel map while a member's program is staged: staging takes the operations.

    Attributes:
        size: the number of members.
        axis_name: the name under which collectives refer to them.
    """

    name = "members"
    size: int
    axis_name: AxisName = UNNAMED

    def describe(self) -> str:
        """Names the handler with its parameters."""
        name = "" if self.axis_name == UNNAMED else f", axis_name={self.axis_name!r}"
        return f"members(axis_size={self.size}{name})"

    def axes(self) -> tuple[tuple[AxisName, int], ...]:
        """The axis of the map."""
        return ((self.axis_name, self.size),)

    def takes(self, effects: frozenset[Effect]) -> bool:
        """Says whether a collective names these members."""
        return AxisEffect(self.axis_name) in effects


def members_around() -> int:
    """Returns how many members the parallel maps around have together: the devices that are in use."""
    frame: Frame | None = current_frame()
    count = 1
    while frame is not None:
        if type(frame.handler) is Members:
            count *= frame.handler.size
        frame = frame.outer
    return count


def stage_member(
    function: Callable[[list[Array]], Sequence[Array]],
    types: Sequence[ArrayType],
    size: int,
    axis_name: AxisName,
    name: str,
    origin: str = "",
) -> Staged:
    """Records what one member does.

    Args:
        function: of one member's arrays.
        types: their types, without the members' axis.
        size: the number of members.
        axis_name: their axis's name for collectives.
        name: the program's name.
        origin: the user's function, for errors.
    """
    with handle(Members(size, axis_name), origin):
        return stage(function, types, name, "", origin)
