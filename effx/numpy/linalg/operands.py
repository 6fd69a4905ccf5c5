"""Operands of linear algebra."""

from collections.abc import Callable

from effx.array import Array, Operand
from effx.array.arithmetic import to_inexact
from effx.array.promotion import as_operand, promote_dtypes
from effx.lax.linalg.operands import widened


def inexact(what: str, *operands: Operand) -> tuple[list[Array], Callable[[Array], Array]]:
    """Returns operands of one dtype that kernels take, and what brings results back to the dtype they should have."""
    return widened(what, *promote_dtypes(*[to_inexact(as_operand(x, what)) for x in operands]))
