"""`jax._src.traceback_util`: equinox, jaxtyping and flax say that their frames are to be left out of tracebacks."""

from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

from effx.errors import hide_frames_of as register_exclusion
from effx.errors import is_internal

__all__ = ["api_boundary", "include_frame", "register_exclusion"]

P = ParamSpec("P")
R = TypeVar("R")


def include_frame(frame: FrameType) -> bool:
    """Says whether a frame is the user's."""
    return not is_internal(frame.f_code)


def api_boundary(fun: Callable[P, R]) -> Callable[P, R]:
    """Returns the function: effx's errors shorten their tracebacks themselves."""
    return fun
