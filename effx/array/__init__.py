"""Arrays as values: the nominal class, boxes, host constants, promotion, indexing, and what methods do.

Never: import jaxlib or a handler.
"""

from effx.array.values import Array, Box, HostArray, Number, Operand

__all__ = ["Array", "Box", "HostArray", "Number", "Operand"]
