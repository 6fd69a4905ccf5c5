"""Factorisations of matrices, eigenvalues and singular values."""

from typing import Literal, NamedTuple, overload

from effx.array import Array, Operand, arithmetic
from effx.array.indexing import take_along_axis
from effx.array.shaping import expand_dims, matrix_transpose
from effx.errors import ShapeError, name_user_call
from effx.families.linalg import qr as qr_family
from effx.families.linalg.eigen import Eig, Eigh, Svd
from effx.families.linalg.matrices import check_matrix
from effx.lax import linalg
from effx.lax.linalg.operands import symmetrize
from effx.numpy.linalg.operands import kernel_operands
from effx.numpy.sorting import argsort
from effx.transforms.jit.jit import jit

__all__ = ["cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]


class EigResult(NamedTuple):
    """Eigenvalues, and right eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and orthonormal eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Factors with orthonormal columns, and upper triangular."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Singular vectors as columns, singular values, and singular vectors as rows."""

    U: Array
    S: Array
    Vh: Array


@jit(static_argnames=("upper", "symmetrize_input"), inline=True)
def cholesky(a: Operand, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Returns the lower triangular L with a = L L^H, or the upper triangular U with a = U^H U.

    Args:
        a: `[*batch, n, n]`, Hermitian and positive definite.
        upper: True for U.
        symmetrize_input: True to factorise (a + a^H) / 2; False to read one triangle only.

    Returns:
        An array of a's shape; NaN for matrices that are not positive definite.

    Raises:
        ShapeError: a is not of square matrices.

    >>> import numpy as np
    >>> cholesky(np.array([[4, 2], [2, 2]])).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    (x,), back = kernel_operands(a)
    if not upper:
        return back(linalg.cholesky(x, symmetrize_input=symmetrize_input))
    check_matrix(x.type, square=True)
    return back(matrix_transpose(linalg.cholesky(matrix_transpose(x), symmetrize_input=symmetrize_input)))


@overload
def qr(a: Operand, mode: Literal["reduced", "complete", "full", "raw"] = "reduced") -> QRResult: ...
@overload
def qr(a: Operand, mode: Literal["r"]) -> Array: ...
@overload
def qr(a: Operand, mode: str) -> Array | QRResult: ...
@jit(static_argnames=("mode",), inline=True)
def qr(a: Operand, mode: str = "reduced") -> Array | QRResult:
    """Returns the factors with a = Q R, Q with orthonormal columns and R upper triangular.

    Args:
        a: `[*batch, m, n]`.
        mode: "reduced" for min(m, n) columns of Q, "complete" for m, "r" for R alone, "raw" for the transpose of what
            LAPACK's geqrf gives, and the factors of its reflections; "full" is "reduced".

    Returns:
        Q and R as a named tuple, or R.

    Raises:
        ShapeError: a is not of matrices, or there is no such mode.

    >>> import numpy as np
    >>> abs(qr(np.array([[3., 5.], [4., 0.]]), mode="r")).round().tolist()
    [[5.0, 3.0], [0.0, 4.0]]
    """
    (x,), back = kernel_operands(a)
    if mode == "raw":
        vectors, taus = qr_family.Geqrf()(x)
        return QRResult(back(matrix_transpose(vectors)), back(taus))
    if mode not in ("reduced", "full", "r", "complete"):
        raise ShapeError(f"qr: mode must be 'reduced', 'complete', 'r', 'raw' or 'full', got {mode!r}")
    q, r = linalg.qr(x, full_matrices=mode == "complete")
    return back(r) if mode == "r" else QRResult(back(q), back(r))


def _is_lower(uplo: str | None) -> bool:
    if uplo is not None and uplo.upper() not in ("L", "U"):
        raise ShapeError(f"{name_user_call()}: UPLO must be 'L', 'U' or None, got {uplo!r}")
    return uplo is None or uplo.upper() == "L"


@jit(static_argnames=("UPLO", "symmetrize_input"), inline=True)
def eigh(a: Operand, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Returns eigenvalues and eigenvectors of Hermitian matrices.

    Derivatives of vectors are determined for simple eigenvalues only, and are infinite or NaN otherwise.

    Args:
        a: `[*batch, n, n]`.
        UPLO: "L" to read the lower triangle, "U" for the upper one, where the input is not symmetrised.
        symmetrize_input: True to decompose (a + a^H) / 2.

    Returns:
        A named tuple of ascending real eigenvalues `[*batch, n]` and orthonormal eigenvectors as columns `[*batch, n,
        n]`.

    Raises:
        ShapeError: a is not of square matrices, or UPLO is another letter.

    >>> import numpy as np
    >>> eigh(np.array([[2., 0.], [0., 1.]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    (x,), back = kernel_operands(a)
    v, w = linalg.eigh(x, lower=_is_lower(UPLO), symmetrize_input=symmetrize_input)
    return EighResult(back(w), back(v))


@jit(static_argnames=("UPLO", "symmetrize_input"), inline=True)
def eigvalsh(a: Operand, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Returns the eigenvalues of Hermitian matrices, ascending. Parameters as for `eigh`.

    >>> import numpy as np
    >>> eigvalsh(np.array([[2., 0.], [0., 1.]])).tolist()
    [1.0, 2.0]
    """
    (x,), back = kernel_operands(a)
    lower = _is_lower(UPLO)
    return back(Eigh(lower, False)(symmetrize(x) if symmetrize_input else x)[0])


@jit(inline=True)
def eig(a: Operand) -> EigResult:
    """Returns eigenvalues and right eigenvectors of matrices.

    Eigenvalues have derivatives where they are simple, and so have eigenvectors if nothing depends on their phase.

    Args:
        a: `[*batch, n, n]`.

    Returns:
        A named tuple of eigenvalues `[*batch, n]` and eigenvectors of length 1 as columns `[*batch, n, n]`, all
        complex.

    Raises:
        ShapeError: a is not of square matrices.

    >>> import numpy as np
    >>> eig(np.array([[0., 1.], [-1., 0.]])).eigenvalues.tolist()
    [1j, -1j]
    """
    (x,), _ = kernel_operands(a)
    return EigResult(*Eig()(x))


@jit(inline=True)
def eigvals(a: Operand) -> Array:
    """Returns the eigenvalues of matrices, complex. Parameters as for `eig`.

    >>> import numpy as np
    >>> eigvals(np.array([[0., 1.], [-1., 0.]])).tolist()
    [1j, -1j]
    """
    (x,), _ = kernel_operands(a)
    return Eig(right=False)(x)[0]


@overload
def svd(
    a: Operand,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> SVDResult: ...
@overload
def svd(
    a: Operand,
    full_matrices: bool,
    compute_uv: Literal[False],
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array: ...
@overload
def svd(
    a: Operand,
    full_matrices: bool = True,
    *,
    compute_uv: Literal[False],
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array: ...
@overload
def svd(
    a: Operand,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array | SVDResult: ...
@jit(static_argnames=("full_matrices", "compute_uv", "hermitian", "subset_by_index"), inline=True)
def svd(
    a: Operand,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Array | SVDResult:
    """Returns the singular value decomposition a = U diag(S) Vh.

    Derivatives of vectors are determined for singular values that differ and are not 0, and are infinite or NaN
    otherwise; with square factors of an a that is not square there are none.

    Args:
        a: `[*batch, m, n]`.
        full_matrices: True for square U and Vh.
        compute_uv: False for the singular values only.
        hermitian: True promises that a is Hermitian; then `eigh` decomposes it.
        subset_by_index: (start, end) for some of the singular values only, without full_matrices.

    Returns:
        A named tuple of U `[*batch, m, k]`, S `[*batch, k]`, which descends, and Vh `[*batch, k, n]`, k = min(m, n),
        with square U and Vh if requested; S alone without compute_uv.

    Raises:
        ShapeError: a is not of matrices, or the subset is none of its singular values.

    >>> import numpy as np
    >>> svd(np.array([[3., 0.], [0., 4.]]), compute_uv=False).tolist()
    [4.0, 3.0]
    """
    (x,), back = kernel_operands(a)
    if not hermitian:
        if not compute_uv:
            s = linalg.svd(x, full_matrices=False, compute_uv=False, subset_by_index=subset_by_index)
            return back(s)
        u, s, vh = linalg.svd(x, full_matrices=full_matrices, subset_by_index=subset_by_index)
        return SVDResult(back(u), back(s), back(vh))
    v, w = linalg.eigh(x)
    # All reversed, as in NumPy: of equal ones the last comes first.
    order = argsort(arithmetic.absolute(w), -1)[..., ::-1]
    if subset_by_index is not None:
        order = order[..., slice(*subset_by_index)]
    w = take_along_axis(w, order, -1)
    if not compute_uv:
        return back(arithmetic.absolute(w))
    v = take_along_axis(v, expand_dims(order, -2), -1)
    signed = v * expand_dims(arithmetic.where(w < 0, -1.0, 1.0), -2)
    return SVDResult(back(v), back(arithmetic.absolute(w)), back(matrix_transpose(arithmetic.conj(signed))))


@jit(inline=True)
def svdvals(x: Operand, /) -> Array:
    """Returns the singular values of matrices, descending.

    >>> import numpy as np
    >>> svdvals(np.array([[3., 0.], [0., 4.]])).tolist()
    [4.0, 3.0]
    """
    (a,), back = kernel_operands(x)
    return back(Svd(vectors=False)(a)[0])
