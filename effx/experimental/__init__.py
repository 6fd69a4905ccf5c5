"""Namespaces named as in `jax.experimental`."""

from effx.lazy import lazy

_find, __dir__ = lazy(__name__)


def __getattr__(name: str) -> object:
    if name == "host_callback":
        try:
            from effx.experimental import host_callback
        except ImportError as error:
            raise AttributeError(str(error)) from None
        return host_callback
    return _find(name)
