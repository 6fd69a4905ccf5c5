"""`jax.experimental.xla_metadata`: attributes for XLA's operations, which change no value and are not passed on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from effx.compat.hints import warn_of_hint
from effx.tree.registry import PyTree

__all__ = ["fuse_limit", "must_fuse_call", "set_xla_metadata", "xla_metadata_call"]

_INSTEAD = "XLA decides by itself how to fuse operations, and profiles have scopes of jax.named_scope"


@contextmanager
def _without_effect() -> Iterator[None]:
    yield


def set_xla_metadata(x: PyTree = None, **kwargs: object) -> PyTree:
    """Returns the values, or, without values, a context and decorator in which nothing is different.

    Args:
        x: values, whose operations would have the attributes. kwargs: the attributes.
    """
    if kwargs:
        warn_of_hint("set_xla_metadata", _INSTEAD)
    return _without_effect() if x is None else x


def fuse_limit() -> PyTree:
    """Returns a context in which nothing is different."""
    warn_of_hint("fuse_limit", _INSTEAD)
    return _without_effect()


def xla_metadata_call(f: Callable[..., PyTree] | None = None, **meta: object) -> PyTree:
    """Returns the function, or a decorator that does.

    Args:
        f: the function. meta: the attributes that its operations would have.
    """
    if meta:
        warn_of_hint("xla_metadata_call", _INSTEAD)
    return (lambda g: g) if f is None else f


def must_fuse_call(identifier: str) -> Callable[[Callable[..., PyTree]], Callable[..., PyTree]]:
    """Returns a decorator that returns the function.

    Args:
        identifier: of the operations that would be fused.
    """
    warn_of_hint("must_fuse_call", _INSTEAD)
    return lambda f: f
