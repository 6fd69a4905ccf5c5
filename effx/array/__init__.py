"""Arrays as values: the nominal class, boxes, host constants, promotion, indexing, and methods.

Never: import jaxlib or a handler.
"""

from effx.array.values import Array, Number, Operand, Scalar  # isort: skip - first: the siblings need it
from effx.array.boxes import Box, HostArray

__all__ = ["Array", "Box", "HostArray", "Number", "Operand", "Scalar"]
