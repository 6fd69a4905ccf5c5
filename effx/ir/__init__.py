"""The typed intermediate representation: programs, types, operations and values.

Never: depend on a handler or on XLA.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
