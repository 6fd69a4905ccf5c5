"""Triangular factors: Cholesky's, LU and QR, and triangular systems."""

from typing import Literal, overload

from effx.array import Array, Operand
from effx.array.arithmetic import conj
from effx.array.promotion import as_operand
from effx.array.shaping import expand_dims, squeeze
from effx.errors import BackendError
from effx.families.linalg import lu as lu_family
from effx.families.linalg import qr as qr_family
from effx.families.linalg.cholesky import Cholesky
from effx.families.linalg.triangular import TriangularSolve
from effx.lax.linalg.operands import symmetrize, widen_operands

__all__ = ["cholesky", "householder_product", "lu", "lu_pivots_to_permutation", "qr", "triangular_solve"]

CHOLESKY, LU, PRODUCT = Cholesky(), lu_family.Lu(), qr_family.HouseholderProduct()


def cholesky(x: Operand, *, symmetrize_input: bool = True) -> Array:
    """Returns the lower triangular L with x = L L^H, by LAPACK's potrf on CPUs.

    Args:
        x: `[*batch, n, n]`, Hermitian and positive definite.
        symmetrize_input: True to factorise (x + x^H) / 2; False to read the lower triangle only.

    Returns:
        An array of x's shape and dtype; NaN for matrices that are not positive definite.

    Raises:
        ShapeError, DTypeError: x is not of square matrices of floating or complex numbers.

    >>> import numpy as np
    >>> cholesky(np.array([[4., 2.], [2., 2.]], np.float32))
    Array([[2., 0.],
           [1., 1.]], dtype=float32)
    """
    (a,), back = widen_operands(x)
    return back(CHOLESKY(symmetrize(a) if symmetrize_input else a))


def triangular_solve(
    a: Operand,
    b: Operand,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Returns the x with `op(a) x = b` or `x op(a) = b` for a triangular matrix a, by substitution.

    Args:
        a: `[*batch, n, n]`; the other triangle is not read.
        b: `[*batch, n, k]` with left_side, else `[*batch, k, n]`; or vectors `[*batch, n]`.
        left_side: True for `op(a) x = b`.
        lower: True if a is lower triangular.
        transpose_a: True if op(a) is a's transpose.
        conjugate_a: True if op(a) has the conjugates of a's elements.
        unit_diagonal: True to take the diagonal as ones, whatever its elements.

    Returns:
        An array of b's shape.

    Raises:
        ShapeError, DTypeError: a is not of square matrices, sizes or batch axes do not fit, or dtypes differ.

    >>> import numpy as np
    >>> a, b = np.array([[2., 0.], [1., 1.]], np.float32), np.array([2., 3.], np.float32)
    >>> triangular_solve(a, b, left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    (matrix, sides), back = widen_operands(a, b)
    if conjugate_a:
        matrix = conj(matrix)
    vector = sides.type.ndim == matrix.type.ndim - 1
    if vector:
        sides = expand_dims(sides, -1 if left_side else -2)
    solution = TriangularSolve(left_side, lower, transpose_a, unit_diagonal)(matrix, sides)
    return back(squeeze(solution, -1 if left_side else -2) if vector else solution)


def lu(x: Operand) -> tuple[Array, Array, Array]:
    """Returns the LU factors of matrices whose rows are exchanged: `x[permutation] = L U`, by LAPACK's getrf on CPUs.

    Args:
        x: `[*batch, m, n]`.

    Returns:
        U, with what L has below its diagonal of ones, in one array of x's shape; the rows `i32[*batch, min(m, n)]` that
        row 0, 1, … was exchanged with; the permutation `i32[*batch, m]`.

    Raises:
        ShapeError, DTypeError: x is not of matrices of floating or complex numbers.

    >>> import numpy as np
    >>> lu(np.array([[1., 2.], [2., 2.]], np.float32))
    (Array([[2. , 2. ],
           [0.5, 1. ]], dtype=float32), Array([1, 1], dtype=int32), Array([1, 0], dtype=int32))
    """
    (a,), back = widen_operands(x)
    factors, pivots, permutation = LU(a)
    return back(factors), pivots, permutation


def lu_pivots_to_permutation(pivots: Operand, permutation_size: int) -> Array:
    """Returns the permutation that exchanges row 0, 1, … with those that pivots say, one after the other.

    Args:
        pivots: `i32[*batch, k]`.
        permutation_size: the number of rows, at least k.

    Returns:
        A permutation `i32[*batch, permutation_size]`.

    Raises:
        ShapeError, DTypeError: there are more pivots than rows, or they are not i32.

    >>> import numpy as np
    >>> lu_pivots_to_permutation(np.array([2, 2], np.int32), 3)
    Array([2, 0, 1], dtype=int32)
    """
    rows = as_operand(pivots)
    return lu_family.PivotsToPermutation(permutation_size)(rows)


def householder_product(a: Operand, taus: Operand) -> Array:
    """Returns the first n columns of the product of reflections `I - tau v v^H`, by LAPACK's orgqr on CPUs.

    Args:
        a: `[*batch, m, n]`, m >= n; column i has below its diagonal the vector of reflection i, whose entry on it is 1.
        taus: `[*batch, k]`, k <= n.

    Returns:
        An array of a's shape.

    Raises:
        ShapeError, DTypeError: sizes or batch axes do not fit, or dtypes differ.

    >>> import numpy as np
    >>> householder_product(np.array([[1.], [1.]], np.float32), np.array([1.], np.float32))
    Array([[ 0.],
           [-1.]], dtype=float32)
    """
    (vectors, factors), back = widen_operands(a, taus)
    return back(PRODUCT(vectors, factors))


@overload
def qr(
    x: Operand, *, pivoting: Literal[False] = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array]: ...
@overload
def qr(
    x: Operand, *, pivoting: Literal[True], full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array, Array]: ...
@overload
def qr(
    x: Operand, *, pivoting: bool, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array] | tuple[Array, Array, Array]: ...
def qr(
    x: Operand, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Returns the factors with x = Q R, Q with orthonormal columns and R upper triangular, by Householder's
    reflections.

    With full_matrices and m > n there is no derivative: the last columns of Q are not determined.

    Args:
        x: `[*batch, m, n]`.
        pivoting: True to exchange the columns of x such that the diagonal of R decreases in size.
        full_matrices: True for a square Q.
        use_magma: whether GPUs should use MAGMA, which effx does not.

    Returns:
        Q `[*batch, m, k]` and R `[*batch, k, n]`, k = m with full_matrices and else min(m, n); with pivoting also
        `i32[*batch, n]`, the index in the operand of each column.

    Raises:
        ShapeError, DTypeError: x is not of matrices of floating or complex numbers.
        BackendError: MAGMA is requested.

    >>> import numpy as np
    >>> q, r = qr(np.array([[3., 5.], [4., 0.]], np.float32))
    >>> np.abs(r).round(3).tolist()
    [[5.0, 3.0], [0.0, 4.0]]
    """
    if use_magma:
        raise BackendError("qr: use_magma=True asks for MAGMA, which effx does not call")
    (a,), back = widen_operands(x)
    q, r, *columns = qr_family.Qr(full_matrices, pivoting)(a)
    return (back(q), back(r), columns[0]) if pivoting else (back(q), back(r))
