"""Products, traces and diagonals, of matrices in the last two axes."""

from collections.abc import Sequence

from effx.array import Array, Operand
from effx.array.promotion import as_operand
from effx.array.shaping import matrix_transpose as transposed
from effx.dtypes import DTypeLike
from effx.errors import ShapeError
from effx.lax.products import PrecisionLike
from effx.numpy import linear, shaping
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = ["cross", "diagonal", "matmul", "matrix_transpose", "outer", "tensordot", "trace", "vecdot"]


def cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Array:
    """Returns cross products of vectors of three components.

    Args:
        x1, x2: arrays that broadcast.
        axis: of the components.

    Raises:
        ShapeError: vectors have not three components.

    >>> import numpy as np
    >>> cross(np.array([1, 0, 0]), np.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    a, b = as_operand(x1), as_operand(x2)
    for t in (a.type, b.type):
        if not -t.ndim <= axis < t.ndim or t.shape[axis] != 3:
            raise ShapeError(
                f"cross: vectors need 3 components along axis {axis}, got {a.type!r} and {b.type!r}"
            )
    return linear.cross(a, b, axis=axis)


def diagonal(x: Operand, /, *, offset: int = 0) -> Array:
    """Returns diagonals of matrices, `[*batch, m, n]`, as a new last axis.

    >>> import numpy as np
    >>> diagonal(np.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return shaping.diagonal(x, offset, -2, -1)


def matmul(
    x1: Operand,
    x2: Operand,
    /,
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Returns matrix products; see `effx.numpy.matmul`.

    >>> import numpy as np
    >>> matmul(np.ones((2, 3)), np.ones((3, 4))).shape
    (2, 4)
    """
    return linear.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def matrix_transpose(x: Operand, /) -> Array:
    """Exchanges the last two axes.

    >>> import numpy as np
    >>> matrix_transpose(np.ones((2, 3))).shape
    (3, 2)
    """
    return transposed(as_operand(x))


def outer(x1: Operand, x2: Operand, /) -> Array:
    """Returns all products of an element of one vector and one of the other.

    Raises:
        ShapeError: an operand is no vector.

    >>> import numpy as np
    >>> outer(np.array([1, 2]), np.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = as_operand(x1), as_operand(x2)
    if a.type.ndim != 1 or b.type.ndim != 1:
        raise ShapeError(f"outer: operands must be vectors, got {a.type!r} and {b.type!r}; use numpy.outer")
    return linear.outer(a, b)


def tensordot(
    x1: Operand,
    x2: Operand,
    /,
    *,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Returns sums of products over pairs of axes; see `effx.numpy.tensordot`.

    >>> import numpy as np
    >>> tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding,
            tensordot,
            x1,
            x2,
            axes=axes,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
    return linear.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def trace(x: Operand, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Returns the sums of diagonals of matrices, `[*batch, m, n]`.

    >>> import numpy as np
    >>> trace(np.array([[1, 2], [3, 4]])).tolist()
    5
    """
    return linear.trace(x, offset, -2, -1, dtype)


def vecdot(
    x1: Operand,
    x2: Operand,
    /,
    *,
    axis: int = -1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Returns sums of products along an axis, the first conjugated; see `effx.numpy.vecdot`.

    >>> import numpy as np
    >>> vecdot(np.ones((2, 3)), np.ones(3)).tolist()
    [3.0, 3.0]
    """
    return linear.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )
