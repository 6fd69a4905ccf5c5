"""The handlers that effx ships, each written on the public interface of `effx.effects`.

Never: import jaxlib.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effx.handlers import batch as batch
    from effx.handlers import differentiate as differentiate

__all__ = ["batch", "differentiate"]


def __getattr__(name: str) -> object:
    # Rules are many modules: a program that never differentiates loads none of those for it.
    if name in __all__:
        return importlib.import_module(f"effx.handlers.{name}")
    raise AttributeError(f"module 'effx.handlers' has no attribute {name!r}")
