"""Reductions by unitary similarity, tridiagonal systems, and products and updates of factors."""

from collections.abc import Callable

from effx.array import Array, Operand, shaping
from effx.array.arithmetic import where
from effx.array.shaping import matrix_transpose
from effx.errors import BackendError, DTypeError, ShapeError
from effx.families.linalg.matrices import adjoint, check_matrix, diagonal, multiply
from effx.families.linalg.qr import HouseholderProduct, Qr
from effx.families.linalg.similarity import Hessenberg, Schur, Tridiagonal
from effx.families.linalg.tridiagonal import TridiagonalSolve
from effx.ir.ops.shape import Pad
from effx.ir.values.scalars import scalar
from effx.lax.linalg.operands import widen_operands
from effx.lax.linalg.perturbed import solve_perturbed

__all__ = [
    "cholesky_update", "hessenberg", "ormqr", "schur", "symmetric_product", "tridiagonal", "tridiagonal_solve",
]  # fmt: skip


def cholesky_update(r_matrix: Operand, w_vector: Operand) -> Array:
    """Returns the upper triangular factor of R^T R + w w^T, by the QR factorisation of R with w as another row.

    Args:
        r_matrix: R, `[*batch, n, n]`, upper triangular and real.
        w_vector: w, `[*batch, n]`.

    Returns:
        An array of R's shape, with a positive diagonal.

    Raises:
        ShapeError, DTypeError: R is not of square matrices, w does not fit, or R is complex.

    >>> import numpy as np
    >>> cholesky_update(np.array([[3.]], np.float32), np.array([4.], np.float32)).round(3).tolist()
    [[5.0]]
    """
    (r, w), back = widen_operands(r_matrix, w_vector)
    check_matrix(r.type, "r_matrix", square=True)
    if r.type.kind == "c":
        raise DTypeError(f"cholesky_update: r_matrix must be real, got {r.type!r}")
    if (w.type.dtype, w.type.shape) != (r.type.dtype, r.type.shape[:-1]):
        raise ShapeError(
            f"cholesky_update: w_vector must have r_matrix's dtype and shape without the last axis: "
            f"r_matrix is {r.type!r}, w_vector is {w.type!r}"
        )
    upper = Qr()(shaping.concatenate([r, shaping.expand_dims(w, -2)], -2))[1]
    signs = where(diagonal(upper) < 0, -1.0, 1.0)
    return back(upper * shaping.expand_dims(signs, -1))


def symmetric_product(
    a_matrix: Operand,
    c_matrix: Operand,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """Returns `alpha A A^T + beta C`.

    Args:
        a_matrix: A, `[*batch, n, m]`.
        c_matrix: C, `[*batch, n, n]`, symmetric.
        alpha, beta: numbers.
        symmetrize_output: whether both triangles must be right; they always are.

    Returns:
        An array of C's shape.

    Raises:
        ShapeError, DTypeError: sizes or dtypes do not fit.

    >>> import numpy as np
    >>> symmetric_product(np.ones((2, 3), np.float32), np.eye(2, dtype=np.float32), beta=2.0).tolist()
    [[5.0, 3.0], [3.0, 5.0]]
    """
    (a, c), back = widen_operands(a_matrix, c_matrix)
    check_matrix(a.type, "a_matrix")
    check_matrix(c.type, "c_matrix", square=True)
    if a.type.shape[:-1] != c.type.shape[:-1] or a.type.dtype != c.type.dtype:
        raise ShapeError(
            f"symmetric_product: matrices must have the same dtype, batch axes and rows: "
            f"a_matrix is {a.type!r}, c_matrix is {c.type!r}"
        )
    return back(alpha * multiply(a, matrix_transpose(a)) + beta * c)


def hessenberg(a: Operand) -> tuple[Array, Array]:
    """Returns Hessenberg's form of matrices, with the reflections that lead to it, by LAPACK's gehrd on CPUs.

    There is no derivative.

    Args:
        a: `[*batch, n, n]`.

    Returns:
        The form in the upper triangle and on the diagonal below, with the reflections' vectors under that, of a's
        shape; the reflections' factors `[*batch, n - 1]`, for `householder_product`.

    Raises:
        ShapeError, DTypeError: a is not of square matrices of floating or complex numbers.

    >>> import numpy as np
    >>> [x.shape for x in hessenberg(np.ones((3, 3), np.float32))]
    [(3, 3), (2,)]
    """
    (x,), back = widen_operands(a)
    form, taus = Hessenberg()(x)
    return back(form), back(taus)


def tridiagonal(a: Operand, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Returns the tridiagonal form of Hermitian matrices, with the reflections that lead to it, by LAPACK's sytrd on
    CPUs.

    There is no derivative.

    Args:
        a: `[*batch, n, n]`.
        lower: True to read the lower triangle, False for the upper one.

    Returns:
        An array of a's shape with the reflections' vectors in this triangle; the form's main diagonal `[*batch, n]` and
        the next one `[*batch, n - 1]`, real; the reflections' factors `[*batch, n - 1]`.

    Raises:
        ShapeError, DTypeError: a is not of square matrices of floating or complex numbers.

    >>> import numpy as np
    >>> tridiagonal(np.eye(3, dtype=np.float32))[1].tolist()
    [1.0, 1.0, 1.0]
    """
    (x,), back = widen_operands(a)
    vectors, main, beside, taus = Tridiagonal(lower)(x)
    return back(vectors), back(main), back(beside), back(taus)


def schur(
    x: Operand,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., object] | None = None,
) -> tuple[Array, ...]:
    """Returns Schur's form of matrices, x = z t z^H.

    LAPACK's gees computes it on CPUs; on GPUs and TPUs QR iterations do, of complex matrices only. There is no
    derivative.

    Args:
        x: `[*batch, n, n]`.
        compute_schur_vectors: True for z.
        sort_eig_vals: False; LAPACK's order is not changed.
        select_callable: None.

    Returns:
        t, upper triangular, or with blocks of two rows for pairs of complex eigenvalues of real x; and z, unitary.

    Raises:
        ShapeError, DTypeError: x is not of square matrices of floating or complex numbers.
        BackendError: sorting is requested.

    >>> import numpy as np
    >>> schur(np.array([[1., 2.], [0., 3.]], np.float32))[0].tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    if sort_eig_vals or select_callable is not None:
        raise BackendError(
            "schur: eigenvalues are not sorted; use sort_eig_vals=False and select_callable=None"
        )
    (a,), back = widen_operands(x)
    return tuple([back(y) for y in Schur(compute_schur_vectors)(a)])


def tridiagonal_solve(
    dl: Operand, d: Operand, du: Operand, b: Operand, *, perturb_singular: bool = False
) -> Array:
    """Returns the x with a x = b for a tridiagonal matrix a, by LAPACK's gtsv on CPUs unless singular ones are perturbed.

    Args:
        dl: the diagonal below the main one, `[*batch, n]`, whose first element is not read.
        d: the main diagonal.
        du: the one above, whose last element is not read.
        b: `[*batch, n, k]`.
        perturb_singular: True to replace pivots near zero, by the dtype's `eps` times the largest element of the
            triangular factor: solutions of singular systems are finite then, as inverse iteration needs them.

    Returns:
        An array of b's shape.

    Raises:
        ShapeError, DTypeError: shapes or dtypes do not fit.

    >>> import numpy as np
    >>> two, one = np.full(2, 2., np.float32), np.ones(2, np.float32)
    >>> tridiagonal_solve(one, two, one, np.full((2, 1), 3., np.float32)).tolist()
    [[1.0], [1.0]]
    """
    (lower, main, upper, side), back = widen_operands(dl, d, du, b)
    if not perturb_singular:
        return back(TridiagonalSolve()(lower, main, upper, side))
    TridiagonalSolve().infer(lower.type, main.type, upper.type, side.type)
    return back(solve_perturbed(lower, main, upper, side))


def ormqr(a: Operand, taus: Operand, c: Operand, *, left: bool = True, transpose: bool = False) -> Array:
    """Returns the product of a matrix and the square Q that reflections make.

    Args:
        a: `[*batch, m, k]`, the reflections' vectors below the diagonal.
        taus: `[*batch, k]`, their factors.
        c: `[*batch, m, n]`, or `[*batch, n, m]` for the other side.
        left: True for Q c, False for c Q.
        transpose: True for Q^H instead of Q.

    Returns:
        An array of c's shape.

    Raises:
        ShapeError, DTypeError: shapes or dtypes do not fit.

    >>> import numpy as np
    >>> a, tau = np.array([[1.], [1.]], np.float32), np.array([1.], np.float32)
    >>> ormqr(a, tau, np.eye(2, dtype=np.float32)).tolist()
    [[0.0, -1.0], [-1.0, 0.0]]
    """
    (vectors, factors, x), back = widen_operands(a, taus, c)
    check_matrix(vectors.type, "a")
    check_matrix(x.type, "c")
    *_, m, k = vectors.type.shape
    if x.type.shape[-2 if left else -1] != m or k > m:
        raise ShapeError(
            f"ormqr: c must have {m} {'rows' if left else 'columns'}, as many as a has rows: "
            f"a is {vectors.type!r}, c is {x.type!r}"
        )
    none = (0,) * (vectors.type.ndim - 1)
    wide = Pad((*none, 0), (*none, m - k), (*none, 0))(vectors, scalar(0, vectors.type.dtype, False))
    q = HouseholderProduct()(wide, factors)
    q = adjoint(q) if transpose else q
    return back(multiply(q, x) if left else multiply(x, q))
