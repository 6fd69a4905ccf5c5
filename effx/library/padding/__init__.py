"""Functions of arrays whose sizes vary, run on padded arrays: one compilation for all sizes up to the padding's.

`mask` runs a function that is written for arrays of sizes such as `n` on arrays that are longer, of which only the first n
elements count; `shapecheck` shows that a function's result has a shape for all sizes, without running it.
"""

from effx.lazy import list_names
from effx.library.padding.functions import mask, shapecheck
from effx.library.padding.handler import Padded, Padding

__all__ = ["Padded", "Padding", "mask", "shapecheck"]
__dir__ = list_names(__all__)
