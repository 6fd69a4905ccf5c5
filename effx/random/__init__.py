"""Random numbers from keys, with the bits of JAX's threefry2x32.

A key stands for a stream of numbers. Functions draw from it without changing it, so the same key
gives the same numbers: split a key to go on.

Never: hold a state, or draw from a source outside the key.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
