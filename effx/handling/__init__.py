"""What authors of handlers and operations need, from one place; frozen at 0.1.

The guide is docs/handlers.md. Everything else in effx that has no underscore may change between versions; what stands
here may not.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
