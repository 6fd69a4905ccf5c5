"""Matrix products in their general form."""

import enum
from collections.abc import Sequence

from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, promote_dtypes
from effx.dtypes import DTypeLike
from effx.errors import ShapeError
from effx.ir.ops.linalg import DotGeneral
from effx.lax.operands import ints

__all__ = ["DotDimensionNumbers", "Precision", "PrecisionLike", "batch_matmul", "dot", "dot_general"]


class Precision(enum.Enum):
    """The precision of products on accelerators; CPUs multiply in full precision."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


PrecisionLike = str | Precision | tuple[str, str] | tuple[Precision, Precision] | None
Axes = Sequence[int]
DotDimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
"""((contracting axes of lhs, of rhs), (batch axes of lhs, of rhs))."""


def dot_general(
    lhs: Operand,
    rhs: Operand,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
) -> Array:
    """Multiplies, and sums over the contracting axes, for each index along the batch axes.

    Args:
        lhs, rhs: of any dtype; different ones are promoted.
        dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`; the axes
            in each pair of lists have equal sizes.
        precision: for accelerators, one for both operands or a pair.
        preferred_element_type: the dtype of the sums and of the result.

    Returns:
        An array with the batch axes, then the other axes of lhs, then those of rhs.

    Raises:
        ShapeError: axes are out of range, repeat, or differ in size.

    >>> import numpy as np
    >>> a = np.arange(4, dtype=np.float32).reshape(2, 2)
    >>> dot_general(a, a, (((1,), (0,)), ((), ())))
    Array([[ 2.,  3.],
           [ 6., 11.]], dtype=float32)
    """
    try:
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    except (TypeError, ValueError):
        raise ShapeError(
            f"dot_general: dimension_numbers must be ((lhs_contracting, rhs_contracting), "
            f"(lhs_batch, rhs_batch)), got {dimension_numbers!r}"
        ) from None
    op = DotGeneral(
        ints("dot_general", "lhs contracting axes", lhs_contract),
        ints("dot_general", "rhs contracting axes", rhs_contract),
        ints("dot_general", "lhs batch axes", lhs_batch),
        ints("dot_general", "rhs batch axes", rhs_batch),
        arithmetic.precision_of(precision),
        arithmetic.preferred_of(preferred_element_type),
    )
    return op(*promote_dtypes(as_operand(lhs, "dot_general"), as_operand(rhs, "dot_general")))


def dot(
    lhs: Operand,
    rhs: Operand,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
) -> Array:
    """Returns the product of vectors and matrices.

    Args:
        lhs: `[n]` or `[m, n]`, of any dtype.
        rhs: `[n]` or `[n, k]`; dtypes are promoted.
        dimension_numbers: to contract other axes of arrays of any rank; see `dot_general`.
        precision: for accelerators, one for both operands or a pair.
        preferred_element_type: the dtype of the sums and of the result.

    Returns:
        A scalar, `[m]`, `[k]` or `[m, k]`.

    Raises:
        ShapeError: an operand has another rank, or sizes differ.

    >>> import numpy as np
    >>> dot(np.arange(3, dtype=np.float32), np.arange(3, dtype=np.float32))
    Array(5., dtype=float32)
    """
    if dimension_numbers is None:
        a, b = as_operand(lhs, "dot").type, as_operand(rhs, "dot").type
        if not (1 <= a.ndim <= 2 and 1 <= b.ndim <= 2):
            raise ShapeError(f"dot: operands must have one or two axes, got {a!r} and {b!r}; use dot_general")
        dimension_numbers = (((a.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Operand, rhs: Operand, precision: PrecisionLike = None) -> Array:
    """Returns a stack of matrix products.

    Args:
        lhs: `[*b, m, n]`.
        rhs: `[*b, n, k]`; dtypes are promoted.
        precision: for accelerators.

    Returns:
        An array `[*b, m, k]`.

    Raises:
        ShapeError: ranks differ or are below 2, or sizes differ.

    >>> import numpy as np
    >>> batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    a, b = as_operand(lhs, "batch_matmul"), as_operand(rhs, "batch_matmul")
    n = a.type.ndim
    if n < 2 or b.type.ndim != n:
        raise ShapeError(
            f"batch_matmul: operands must have equal ranks of at least 2, got {a.type!r} and {b.type!r}"
        )
    batch = tuple(range(n - 2))
    return dot_general(a, b, (((n - 1,), (n - 2,)), (batch, batch)), precision)
