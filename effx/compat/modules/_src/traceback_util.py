"""`jax._src.traceback_util`: equinox, jaxtyping and flax say that their frames are to be left out of tracebacks."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from effx.errors import left_out as _exclude_paths

__all__ = ["_exclude_paths", "api_boundary", "register_exclusion"]

P = ParamSpec("P")
R = TypeVar("R")


def register_exclusion(path: str) -> None:
    """Leaves the frames of a file, or of files below a folder, out of tracebacks and of the lines that errors name."""
    _exclude_paths.append(path)


def api_boundary(fun: Callable[P, R]) -> Callable[P, R]:
    """Returns the function: effx's errors shorten their tracebacks themselves."""
    return fun
