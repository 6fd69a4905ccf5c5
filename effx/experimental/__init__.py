"""Namespaces named as in `jax.experimental`."""

from effx.lazy import lazy

_find, __dir__ = lazy(__name__)


def __getattr__(name: str) -> object:
    if name == "host_callback":
        try:
            import effx.experimental.host_callback as module
        except ImportError as error:
            raise AttributeError(str(error)) from None
        return module
    return _find(name)
