"""Stage the body of a parallel map."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import final

import attrs

from effx.array import Array
from effx.effects import Effect, Frame, Handler, current_frame, handle
from effx.handlers.sharding_types.axes_in_types import tracked_axes
from effx.handlers.staging.stage import stage
from effx.ir.meshes import AbstractMesh
from effx.ir.ops.collective import UNNAMED, AxisEffect, AxisName
from effx.ir.ops.parallel import NamedSizes
from effx.ir.program import Staged
from effx.ir.types import ArrayType
from effx.lower.placement.meshes import Mesh, ambient


@final
@attrs.frozen
class Replicas(Handler):
    """Binds an axis of a parallel map while its body is staged; staging records the operations.

    Attributes:
        size: the number of replicas. axis_name: the axis of their collectives.
        transform_name: the transformation that maps.
    """

    name = "replicas"
    size: int
    axis_name: AxisName = UNNAMED
    transform_name: str = "pmap"

    def describe(self) -> str:
        """Returns the handler's name with its parameters."""
        name = "" if self.axis_name == UNNAMED else f", axis_name={self.axis_name!r}"
        return f"replicas(axis_size={self.size}{name})"

    def axes(self) -> tuple[tuple[AxisName, int], ...]:
        """The axis of the map."""
        return ((self.axis_name, self.size),)

    def takes(self, effects: frozenset[Effect]) -> bool:
        """Returns whether a collective is along this axis."""
        return AxisEffect(self.axis_name) in effects


def enclosing_replicas() -> dict[str, int]:
    """Returns the number of devices in use by surrounding parallel maps, by the transformation that maps."""
    frame: Frame | None = current_frame()
    counts: dict[str, int] = {}
    while frame is not None:
        if type(frame.handler) is Replicas:
            transform_name = frame.handler.transform_name
            counts[transform_name] = counts.get(transform_name, 1) * frame.handler.size
        frame = frame.outer
    return counts


@contextmanager
def bind_replica_axes(
    axes: NamedSizes, checked: bool, origin: str = "", transform_name: str = "pmap"
) -> Iterator[None]:
    """Binds the axes of a parallel map in a block.

    Args:
        axes: names and sizes.
        checked: whether types show varying axes.
        origin: the user's function, for errors.
        transform_name: the transformation.
    """
    names = frozenset([name for name, _ in axes])
    outer_axes = tracked_axes.value
    inner_axes = outer_axes | names if checked else outer_axes - names
    with ExitStack() as stack:
        for name, size in axes:
            stack.enter_context(handle(Replicas(size, name, transform_name), origin))
        if inner_axes != outer_axes:
            stack.enter_context(tracked_axes(inner_axes))
        yield


def stage_replica(
    function: Callable[[list[Array]], Sequence[Array]],
    types: Sequence[ArrayType],
    axes: NamedSizes,
    name: str,
    origin: str = "",
    *,
    checked: bool = False,
    transform_name: str = "pmap",
    mesh: Mesh | AbstractMesh | None = None,
) -> Staged:
    """Stages the program of one replica.

    Args:
        function: a function of the replica's arrays.
        types: the arrays' types, without sharding axes; if `checked`, with varying axes.
        axes, checked, transform_name: as for `bind_replica_axes`.
        name: the program's name.
        origin: the user's function, for errors.
        mesh: in force meanwhile; None for no other.
    """
    with (
        bind_replica_axes(axes, checked, origin, transform_name),
        nullcontext() if mesh is None else ambient(mesh),
    ):
        return stage(function, types, name, "", origin)
