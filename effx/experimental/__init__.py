"""Namespaces named as in `jax.experimental`."""

from effx.lazy import lazy

_find, __dir__ = lazy(__name__)


def __getattr__(name: str) -> object:
    if name == "host_callback":
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; use effx.pure_callback, effx.experimental.io_callback "
            f"or effx.debug.callback"
        )
    return _find(name)
