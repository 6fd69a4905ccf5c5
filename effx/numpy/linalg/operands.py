"""Operands of linear algebra."""

from collections.abc import Callable

from effx.array import Array, Operand
from effx.array.arithmetic import to_inexact
from effx.array.promotion import as_operand, promote_dtypes
from effx.lax.linalg.operands import widen_operands


def kernel_operands(function_name: str, *operands: Operand) -> tuple[list[Array], Callable[[Array], Array]]:
    """Returns operands of one dtype that kernels take, and what brings results back to the dtype they should have."""
    return widen_operands(
        function_name, *promote_dtypes(*[to_inexact(as_operand(x, function_name)) for x in operands])
    )
