"""Random numbers from keys, with the bits of JAX's threefry2x32.

A key determines the numbers: the same key gives the same ones. To draw again, split the key.
"""

from effx.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
