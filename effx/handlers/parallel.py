"""Staging the program of a replica of a parallel map."""

from collections.abc import Callable, Sequence
from typing import final

import attrs

from effx.array import Array
from effx.effects import Effect, Frame, Handler, current_frame, handle
from effx.handlers.stage import stage
from effx.ir.ops.collective import UNNAMED, AxisEffect, AxisName
from effx.ir.program import Staged
from effx.ir.types import ArrayType


@final
@attrs.frozen
class Replicas(Handler):
    """Binds the axis of a parallel map while a replica's program is staged; staging records the operations.

    Attributes:
        size: the number of replicas. axis_name: the axis of their collectives.
    """

    name = "replicas"
    size: int
    axis_name: AxisName = UNNAMED

    def describe(self) -> str:
        """Names the handler with its parameters."""
        name = "" if self.axis_name == UNNAMED else f", axis_name={self.axis_name!r}"
        return f"replicas(axis_size={self.size}{name})"

    def axes(self) -> tuple[tuple[AxisName, int], ...]:
        """The axis of the map."""
        return ((self.axis_name, self.size),)

    def takes(self, effects: frozenset[Effect]) -> bool:
        """Says whether a collective is along this axis."""
        return AxisEffect(self.axis_name) in effects


def replicas_around() -> int:
    """Returns the number of replicas of all surrounding parallel maps: of devices in use."""
    frame: Frame | None = current_frame()
    count = 1
    while frame is not None:
        if type(frame.handler) is Replicas:
            count *= frame.handler.size
        frame = frame.outer
    return count


def stage_replica(
    function: Callable[[list[Array]], Sequence[Array]],
    types: Sequence[ArrayType],
    size: int,
    axis_name: AxisName,
    name: str,
    origin: str = "",
) -> Staged:
    """Records the program of a replica.

    Args:
        function: of one replica's arrays.
        types: their types, without the replicas' axis.
        size: the number of replicas.
        axis_name: their axis's name for collectives.
        name: the program's name.
        origin: the user's function, for errors.
    """
    with handle(Replicas(size, axis_name), origin):
        return stage(function, types, name, "", origin)
