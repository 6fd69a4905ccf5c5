"""Operands of factorisations."""

from collections.abc import Callable

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import conj
from effx.array.promotion import as_operand, convert
from effx.array.shaping import matrix_transpose
from effx.families.linalg.matrices import check_matrix
from effx.transforms.jit.jit import jit


def widen_operands(*operands: Operand) -> tuple[list[Array], Callable[[Array], Array]]:
    """Returns operands converted to a dtype of the kernels, and a function that converts results back."""
    arrays = [as_operand(x) for x in operands]
    narrow = arrays[0].type.dtype
    if narrow.itemsize > 2 or not dtypes.is_floating(narrow):
        return arrays, lambda x: x
    return [convert(x, dtypes.float32) for x in arrays], lambda x: convert(x, narrow)


def symmetrize(x: Array) -> Array:
    """Returns the mean of matrices and their adjoints."""
    check_matrix(x.type, square=True)
    return _symmetrize(x)


@jit(inline=True)
def _symmetrize(x: Array) -> Array:
    return (x + conj(matrix_transpose(x))) * 0.5
