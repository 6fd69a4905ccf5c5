"""Several processes that compute together: how they find each other, and what happens when one fails."""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
