"""Factorisations, and systems that are solved by them."""

from typing import Literal, overload

from effx import dtypes
from effx.array import Array, Operand, shaping, triangles
from effx.array.arithmetic import conj
from effx.array.promotion import as_operand_or_list, broadcast_shapes, broadcast_to, convert
from effx.array.triangles import band_mask
from effx.errors import ShapeError, name_user_call
from effx.families.linalg.lu import Lu
from effx.families.linalg.lu import lu_solve as by_factors
from effx.families.linalg.matrices import adjoint, check_matrix, make_hermitian, multiply
from effx.ir.ops.shape import Iota
from effx.ir.types import array_type
from effx.lax import linalg
from effx.numpy import linalg as nla
from effx.numpy.linalg.operands import kernel_operands

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "det", "eigh", "inv", "lu", "lu_factor", "lu_solve", "qr", "solve",
    "solve_triangular", "svd",
]  # fmt: skip


def cholesky(a: Operand, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Returns the upper triangular U with a = U^H U, or the lower triangular L with a = L L^H.

    Args:
        a: `[*batch, n, n]`, Hermitian and positive definite; only one triangle is read, as in SciPy.
        lower: True to read the lower triangle and return L, False to read the upper one and return U.
        overwrite_a, check_finite: change nothing.

    Raises:
        ShapeError: a is not of square matrices.

    >>> import numpy as np
    >>> cholesky(np.array([[4., 2.], [2., 2.]])).tolist()
    [[2.0, 1.0], [0.0, 1.0]]
    """
    return nla.cholesky(a, upper=not lower, symmetrize_input=False)


def cho_factor(
    a: Operand, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Returns `(cholesky(a, lower), lower)`, for `cho_solve`. Parameters as for `cholesky`.

    >>> import numpy as np
    >>> cho_factor(np.array([[4., 2.], [2., 2.]]), lower=True)[1]
    True
    """
    return cholesky(a, lower), lower


def _prepare_systems(a: Array, b: Array) -> tuple[Array, Array, bool]:
    """Returns matrices and the sides of their systems with the same batch axes, and whether b is one vector."""
    s, t = a.type, b.type
    check_matrix(s, "a", square=True)
    vector = t.ndim == 1
    if not t.ndim or t.shape[-1 if vector else -2] != s.shape[-1]:
        raise ShapeError(f"{name_user_call()}: b must have {s.shape[-1]} rows, as a: a is {s!r}, b is {t!r}")
    sides = shaping.expand_dims(b, -1) if vector else b
    batch = broadcast_shapes(s.shape[:-2], sides.type.shape[:-2])
    return (
        broadcast_to(a, (*batch, *s.shape[-2:])),
        broadcast_to(sides, (*batch, *sides.type.shape[-2:])),
        vector,
    )


def cho_solve(
    c_and_lower: tuple[Operand, bool], b: Operand, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """Returns the x with a x = b, from the factor of a.

    Args:
        c_and_lower: what `cho_factor` returns.
        b: a vector `[n]`, or matrices `[*batch, n, k]`.
        overwrite_b, check_finite: change nothing.

    Raises:
        ShapeError: sizes do not fit.

    >>> import numpy as np
    >>> cho_solve((np.array([[2., 0.], [0., 1.]]), True), np.array([4., 1.])).tolist()
    [1.0, 1.0]
    """
    factor, lower = c_and_lower
    (c, y), back = kernel_operands(factor, as_operand_or_list(b))
    c, y, vector = _prepare_systems(c, y)
    # a = L L^H, or U^H U: the adjoint is the conjugate of the transpose.
    first = linalg.triangular_solve(
        c, y, left_side=True, lower=lower, transpose_a=not lower, conjugate_a=not lower
    )
    x = linalg.triangular_solve(c, first, left_side=True, lower=lower, transpose_a=lower, conjugate_a=lower)
    return back(shaping.squeeze(x, -1) if vector else x)


def det(a: Operand, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Returns the determinants of matrices; see `effx.numpy.linalg.det`.

    >>> import numpy as np
    >>> float(det(np.array([[2., 1.], [0., 4.]])))
    8.0
    """
    return nla.det(a)


def inv(a: Operand, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Returns the inverses of matrices; see `effx.numpy.linalg.inv`.

    >>> import numpy as np
    >>> inv(np.array([[2., 0.], [0., 4.]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return nla.inv(a)


@overload
def lu(
    a: Operand, permute_l: Literal[False] = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array, Array]: ...
@overload
def lu(
    a: Operand, permute_l: Literal[True], overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]: ...
@overload
def lu(
    a: Operand, permute_l: bool, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array] | tuple[Array, Array, Array]: ...
def lu(
    a: Operand, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array] | tuple[Array, Array, Array]:
    """Returns the factors with a = P L U: a permutation matrix, L lower triangular with ones on its diagonal, U upper.

    Args:
        a: `[*batch, m, n]`.
        permute_l: True for the product P L instead of both.
        overwrite_a, check_finite: change nothing.

    Returns:
        P `[*batch, m, m]`, L `[*batch, m, k]` and U `[*batch, k, n]`, k = min(m, n); or P L and U.

    Raises:
        ShapeError: a is not of matrices.

    >>> import numpy as np
    >>> [x.tolist() for x in lu(np.array([[1., 2.], [2., 2.]]), permute_l=True)]
    [[[0.5, 1.0], [1.0, 0.0]], [[2.0, 2.0], [0.0, 1.0]]]
    """
    (x,), back = kernel_operands(a)
    factors, _, permutation = Lu()(x)
    *_, m, n = x.type.shape
    k = min(m, n)
    lower = triangles.tril(factors[..., :k], -1) + convert(band_mask((m, k), 0, "EQ"), x.type.dtype)
    upper = triangles.triu(factors[..., :k, :])
    rows = shaping.expand_dims(permutation, -2) == Iota(array_type(dtypes.int32, (m, m)), 0)()
    p = convert(rows, x.type.dtype)
    return (back(multiply(p, lower)), back(upper)) if permute_l else (back(p), back(lower), back(upper))


def lu_factor(a: Operand, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """Returns LU factors in one matrix, and the rows that were exchanged, for `lu_solve`; see `effx.lax.linalg.lu`.

    >>> import numpy as np
    >>> lu_factor(np.array([[1., 2.], [2., 2.]]))[1].tolist()
    [1, 1]
    """
    (x,), back = kernel_operands(a)
    factors, pivots, _ = Lu()(x)
    return back(factors), pivots


def lu_solve(
    lu_and_piv: tuple[Operand, Operand],
    b: Operand,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Returns the x with a x = b, from the factors of a.

    Args:
        lu_and_piv: what `lu_factor` returns, of square matrices.
        b: a vector `[n]`, or matrices `[*batch, n, k]`.
        trans: 0 for a x = b, 1 for a^T x = b, 2 for a^H x = b.
        overwrite_b, check_finite: change nothing.

    Raises:
        ShapeError: sizes do not fit, or trans is another number.

    >>> import numpy as np
    >>> lu_solve(lu_factor(np.array([[1., 2.], [2., 2.]])), np.array([3., 4.])).tolist()
    [1.0, 1.0]
    """
    if trans not in (0, 1, 2):
        raise ShapeError(f"lu_solve: trans must be 0, 1 or 2, got {trans!r}")
    factors, pivots = lu_and_piv
    (x, y), back = kernel_operands(factors, b)
    x, y, vector = _prepare_systems(x, y)
    permutation = linalg.lu_pivots_to_permutation(pivots, x.type.shape[-1])
    permutation = broadcast_to(permutation, x.type.shape[:-1])
    solution = by_factors(conj(x) if trans == 2 else x, permutation, y, trans != 0)
    return back(shaping.squeeze(solution, -1) if vector else solution)


def _transpose_mode(trans: int | str) -> tuple[bool, bool]:
    modes = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in modes:
        raise ShapeError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    return modes[trans] > 0, modes[trans] == 2


def solve_triangular(
    a: Operand,
    b: Operand,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: object = None,
    check_finite: bool = True,
) -> Array:
    """Returns the x with a x = b, for a triangular matrix a.

    Args:
        a: `[*batch, n, n]`; the other triangle is not read.
        b: a vector `[n]`, or matrices `[*batch, n, k]`.
        trans: 0 or "N" for a x = b, 1 or "T" for a^T x = b, 2 or "C" for a^H x = b.
        lower: True if a is lower triangular.
        unit_diagonal: True to take the diagonal as ones.
        overwrite_b, debug, check_finite: change nothing.

    Raises:
        ShapeError: sizes do not fit, or there is no such trans.

    >>> import numpy as np
    >>> solve_triangular(np.array([[2., 0.], [1., 1.]]), np.array([2., 3.]), lower=True).tolist()
    [1.0, 2.0]
    """
    is_transposed, conjugated = _transpose_mode(trans)
    (x, y), back = kernel_operands(a, b)
    x, y, vector = _prepare_systems(x, y)
    solution = linalg.triangular_solve(
        x,
        y,
        left_side=True,
        lower=lower,
        transpose_a=is_transposed,
        conjugate_a=conjugated,
        unit_diagonal=unit_diagonal,
    )
    return back(shaping.squeeze(solution, -1) if vector else solution)


def solve(
    a: Operand,
    b: Operand,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Returns the x with a x = b.

    Args:
        a: `[*batch, n, n]`.
        b: a vector `[n]`, or matrices `[*batch, n, k]`.
        lower: True to read the lower triangle where a is positive definite, False for the upper one.
        overwrite_a, overwrite_b, debug, check_finite: change nothing.
        assume_a: "pos" for a positive definite a, which Cholesky's factor solves; "gen", "sym" and "her" for LU.

    Raises:
        ShapeError: sizes do not fit, or nothing can be assumed by this word.

    >>> import numpy as np
    >>> solve(np.array([[4., 0.], [0., 4.]]), np.array([4., 2.]), assume_a="pos").tolist()
    [1.0, 0.5]
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ShapeError(f"solve: assume_a must be 'gen', 'sym', 'her' or 'pos', got {assume_a!r}")
    if assume_a != "pos":
        return nla.solve(a, b)
    (x, y), back = kernel_operands(a, b)
    x, y, vector = _prepare_systems(x, y)
    factor = nla.cholesky(x, upper=not lower, symmetrize_input=False)
    solution = cho_solve((factor, lower), y)
    return back(shaping.squeeze(solution, -1) if vector else solution)


@overload
def svd(
    a: Operand,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> tuple[Array, Array, Array]: ...
@overload
def svd(
    a: Operand,
    full_matrices: bool,
    compute_uv: Literal[False],
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array: ...
@overload
def svd(
    a: Operand,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]: ...
def svd(
    a: Operand,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Array | tuple[Array, Array, Array]:
    """Returns the singular value decomposition; see `effx.lax.linalg.svd`.

    Args:
        a: `[*batch, m, n]`.
        full_matrices: True for square factors.
        compute_uv: False for the singular values only.
        overwrite_a, check_finite: change nothing.
        lapack_driver: "gesdd" to divide and conquer, "gesvd" to iterate, on CPUs.

    Raises:
        ShapeError: a is not of matrices, or there is no such driver.

    >>> import numpy as np
    >>> svd(np.array([[3., 0.], [0., 4.]]))[1].tolist()
    [4.0, 3.0]
    """
    drivers = {"gesdd": linalg.SvdAlgorithm.DIVIDE_AND_CONQUER, "gesvd": linalg.SvdAlgorithm.QR}
    if lapack_driver not in drivers:
        raise ShapeError(f"svd: lapack_driver must be 'gesdd' or 'gesvd', got {lapack_driver!r}")
    (x,), back = kernel_operands(a)
    if not compute_uv:
        return back(linalg.svd(x, full_matrices=False, compute_uv=False, algorithm=drivers[lapack_driver]))
    u, s, vh = linalg.svd(x, full_matrices=full_matrices, algorithm=drivers[lapack_driver])
    return back(u), back(s), back(vh)


def qr(
    a: Operand,
    overwrite_a: bool = False,
    lwork: object = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array] | tuple[Array, Array] | tuple[Array, Array, Array]:
    """Returns the factors with a = Q R.

    Args:
        a: `[*batch, m, n]`.
        overwrite_a, lwork, check_finite: change nothing.
        mode: "full" for a square Q, "economic" for min(m, n) columns, "r" for R alone.
        pivoting: True to exchange the columns of a so that the diagonal of R decreases in size.

    Returns:
        Q but for mode "r", R, and with pivoting `i32[*batch, n]`, the index in the operand of each column.

    Raises:
        ShapeError: a is not of matrices, or there is no such mode.

    >>> import numpy as np
    >>> [x.shape for x in qr(np.ones((3, 2)), mode="economic")]
    [(3, 2), (2, 2)]
    """
    if mode not in ("full", "economic", "r"):
        raise ShapeError(f"qr: mode must be 'full', 'economic' or 'r', got {mode!r}")
    (x,), back = kernel_operands(a)
    if pivoting:
        q, r, columns = linalg.qr(x, pivoting=True, full_matrices=mode != "economic")
        return (back(r), columns) if mode == "r" else (back(q), back(r), columns)
    q, r = linalg.qr(x, full_matrices=mode != "economic")
    return (back(r),) if mode == "r" else (back(q), back(r))


def eigh(
    a: Operand,
    b: Operand | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Array | tuple[Array, Array]:
    """Returns eigenvalues and eigenvectors of Hermitian matrices, also of a pair of them.

    Args:
        a: `[*batch, n, n]`.
        b: positive definite, for the values w and vectors v with a v = w b v; None for the unit matrix.
        lower: True to read lower triangles, False for upper ones.
        eigvals_only: True for the eigenvalues only.
        overwrite_a, overwrite_b, turbo, check_finite: change nothing.
        eigvals: None.
        type: 1 for a v = w b v, 2 for a b v = w v, 3 for b a v = w v.

    Returns:
        Ascending eigenvalues `[*batch, n]`, and eigenvectors as columns with v^H b v = 1, for type 3 v^H b^-1 v = 1.

    Raises:
        ShapeError: a is not of square matrices, there is no such type, or eigvals is given.

    >>> import numpy as np
    >>> eigh(np.diag([4., 32.]), np.diag([4., 16.]), eigvals_only=True).tolist()
    [1.0, 2.0]
    """
    if eigvals is not None:
        raise ShapeError(f"eigh: eigvals must be None, got {eigvals!r}; all eigenvalues are computed")
    if type not in (1, 2, 3):
        raise ShapeError(f"eigh: type must be 1, 2 or 3, got {type!r}")
    if b is None:
        (x,), back = kernel_operands(a)
        v, w = linalg.eigh(x, lower=lower, symmetrize_input=False)
        return back(w) if eigvals_only else (back(w), back(v))
    (x, y), back = kernel_operands(a, b)
    check_matrix(x.type, "a", square=True)
    x = make_hermitian(x, lower)
    factor = nla.cholesky(y if lower else adjoint(y), symmetrize_input=False)
    if type == 1:
        half = linalg.triangular_solve(factor, x, left_side=True, lower=True)
        similar = adjoint(linalg.triangular_solve(factor, adjoint(half), left_side=True, lower=True))
    else:
        similar = multiply(adjoint(factor), multiply(x, factor))
    v, w = linalg.eigh(similar)
    if eigvals_only:
        return back(w)
    if type == 3:
        return back(w), back(multiply(factor, v))
    vectors = linalg.triangular_solve(
        factor, v, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )
    return back(w), back(vectors)
