"""Operands of linear algebra."""

from collections.abc import Callable

from effx.array import Array, Operand
from effx.array.arithmetic import to_inexact
from effx.array.promotion import as_operand, promote_dtypes
from effx.lax.linalg.operands import widen_operands


def kernel_operands(*operands: Operand) -> tuple[list[Array], Callable[[Array], Array]]:
    """Returns operands converted to one dtype of the kernels, and a function that converts results to their dtype."""
    return widen_operands(*promote_dtypes(*[to_inexact(as_operand(x)) for x in operands]))
