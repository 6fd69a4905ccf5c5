"""Staging the body of a parallel map."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import final

import attrs

from effx.array import Array
from effx.effects import Effect, Frame, Handler, current_frame, handle
from effx.handlers.sharding_types.axes_in_types import tracked
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
        what: the transformation that maps.
    """

    name = "replicas"
    size: int
    axis_name: AxisName = UNNAMED
    what: str = "pmap"

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


def replicas_around() -> dict[str, int]:
    """Returns the number of devices in use by surrounding parallel maps, by the transformation that maps."""
    frame: Frame | None = current_frame()
    counts: dict[str, int] = {}
    while frame is not None:
        if type(frame.handler) is Replicas:
            what = frame.handler.what
            counts[what] = counts.get(what, 1) * frame.handler.size
        frame = frame.outer
    return counts


@contextmanager
def bound(axes: NamedSizes, checked: bool, origin: str = "", what: str = "pmap") -> Iterator[None]:
    """Binds the axes of a parallel map in a block.

    Args:
        axes: names and sizes.
        checked: whether types say along which of them values vary.
        origin: the user's function, for errors.
        what: the transformation.
    """
    names = frozenset([name for name, _ in axes])
    before = tracked.value
    after = before | names if checked else before - names
    with ExitStack() as stack:
        for name, size in axes:
            stack.enter_context(handle(Replicas(size, name, what), origin))
        if after != before:
            stack.enter_context(tracked(after))
        yield


def stage_replica(
    function: Callable[[list[Array]], Sequence[Array]],
    types: Sequence[ArrayType],
    axes: NamedSizes,
    name: str,
    origin: str = "",
    checked: bool = False,
    what: str = "pmap",
    mesh: Mesh | AbstractMesh | None = None,
) -> Staged:
    """Records the program of one index.

    Args:
        function: of its arrays.
        types: their types, without the axes that cut them; where `checked`, they say along which values vary.
        axes, checked, what: as for `bound`.
        name: the program's name.
        origin: the user's function, for errors.
        mesh: in force meanwhile; None for no other.
    """
    with bound(axes, checked, origin, what), nullcontext() if mesh is None else ambient(mesh):
        return stage(function, types, name, "", origin)
