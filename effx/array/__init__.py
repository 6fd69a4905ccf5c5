"""Arrays as values: the nominal class, boxes, host constants, promotion, indexing, and methods.

Never: import jaxlib or a handler.
"""

from effx.ir.values.array import Array, Number, Operand, Scalar
from effx.ir.values.boxes import Box, HostArray

__all__ = ["Array", "Box", "HostArray", "Number", "Operand", "Scalar"]
