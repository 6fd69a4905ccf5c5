"""`axis_env`: axis names that are bound while a function is staged, without a map over them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import index
from typing import TypeAlias

from effx.effects import handle
from effx.errors import TransformError
from effx.handlers.staging.parallel_maps import Replicas
from effx.ir.ops.collective import AxisName

AxisEnv: TypeAlias = Sequence[tuple[AxisName, int]]
"""Names and sizes, the outermost axis first."""


def parse_axis_env(function_name: str, axis_env: AxisEnv | None) -> tuple[tuple[AxisName, int], ...]:
    """Checks a user's `axis_env` and returns its axes.

    Raises:
        TransformError: they are no pairs of names and positive sizes, or a name repeats.
    """
    axes: list[tuple[AxisName, int]] = []
    try:
        for name, size in axis_env or ():
            hash(name)
            axes.append((name, index(size)))
    except (TypeError, ValueError):
        raise TransformError(
            f"{function_name}: axis_env must be a sequence of pairs of an axis name and a size, got {axis_env!r}"
        ) from None
    for name, size in axes:
        if size < 1:
            raise TransformError(
                f"{function_name}: axis_env gives the axis {name!r} the size {size}; it must be positive"
            )
    if len({name for name, _ in axes}) != len(axes):
        raise TransformError(f"{function_name}: axis_env names an axis twice: {axis_env!r}")
    return tuple(axes)


@contextmanager
def bind_axes(axes: Sequence[tuple[AxisName, int]]) -> Iterator[None]:
    """Binds axes, the outermost first."""
    with ExitStack() as stack:
        for name, size in axes:
            stack.enter_context(handle(Replicas(size, name)))
        yield
