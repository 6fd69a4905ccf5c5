"""Small libraries of networks and optimizers, as examples of what functions and pytrees make possible."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
