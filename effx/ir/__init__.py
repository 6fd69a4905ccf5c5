"""The typed intermediate representation.

Never: depend on a handler or on XLA.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
