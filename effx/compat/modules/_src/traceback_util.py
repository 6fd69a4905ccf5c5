"""`jax._src.traceback_util`: equinox, jaxtyping and flax say that their frames are to be left out of tracebacks."""

from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar, final

from effx.errors import hide_frames_of, is_internal, show_frames_of

__all__ = ["_exclude_paths", "api_boundary", "include_frame", "register_exclusion"]

P = ParamSpec("P")
R = TypeVar("R")


@final
class _HiddenPaths(list[str]):
    """The paths whose frames are hidden; flax adds and removes its own."""

    def append(self, path: str) -> None:
        """Hides the frames of a path."""
        super().append(path)
        hide_frames_of(path)

    def remove(self, path: str) -> None:
        """Shows the frames of a path again."""
        super().remove(path)
        if path not in self:
            show_frames_of(path)


_exclude_paths = _HiddenPaths()


def register_exclusion(path: str) -> None:
    """Hides the frames of a file, or of all files in a folder, like effx's own."""
    _exclude_paths.append(path)


def include_frame(frame: FrameType) -> bool:
    """Says whether a frame is the user's."""
    return not is_internal(frame.f_code)


def api_boundary(fun: Callable[P, R]) -> Callable[P, R]:
    """Returns the function: effx's errors shorten their tracebacks themselves."""
    return fun
