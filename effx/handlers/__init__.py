"""The handlers that effx ships, each written on the public interface of `effx.effects`.

Never: import jaxlib.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from effx.handlers import jvp as jvp
    from effx.handlers import linear as linear
    from effx.handlers import linearize as linearize
    from effx.handlers import transpose as transpose
    from effx.handlers import vmap as vmap

__all__ = ["jvp", "linear", "linearize", "transpose", "vmap"]


def __getattr__(name: str) -> object:
    # Rules are in many modules: a program that never differentiates imports none of the rules for it.
    if name in __all__:
        return importlib.import_module(f"effx.handlers.{name}")
    raise AttributeError(f"module 'effx.handlers' has no attribute {name!r}")
