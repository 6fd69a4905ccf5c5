"""Namespaces named as in `jax.experimental`."""

from importlib import import_module

from effx.lazy import lazy

_find, __dir__ = lazy(__name__)


def __getattr__(name: str) -> object:
    if name == "host_callback":
        try:
            return import_module(f"{__name__}.{name}")
        except ImportError as error:
            raise AttributeError(str(error)) from None
    return _find(name)
