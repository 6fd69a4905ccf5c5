"""`jax.api_util`: functions of flat arguments."""

from collections.abc import Callable, Sequence
from typing import Any

from effx.compat.wrapped import debug_info, flatten_fun, flatten_fun_nokwargs
from effx.transforms.jit.make_jaxpr import typeof as shaped_abstractify

__all__ = ["debug_info", "flatten_fun", "flatten_fun_nokwargs", "safe_map", "shaped_abstractify"]


def safe_map(f: Callable[..., Any], *lists: Sequence[Any]) -> list[Any]:
    """Returns `f` of each element of lists of one length.

    Raises:
        ValueError: their lengths differ.
    """
    return [f(*each) for each in zip(*lists, strict=True)]
