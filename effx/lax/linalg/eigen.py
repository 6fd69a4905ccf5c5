"""Eigenvalues and singular values."""

import enum
from typing import Literal, overload

from effx.array import Array, Operand
from effx.errors import BackendError, ShapeError, name_user_call
from effx.families.linalg.eigen import Eig, Eigh, Svd
from effx.lax.linalg.operands import symmetrize, widen_operands

__all__ = ["EigImplementation", "EighImplementation", "SvdAlgorithm", "eig", "eigh", "svd"]


class EigImplementation(enum.Enum):
    """Libraries with eigenvalues of general matrices; effx calls LAPACK, on CPUs.

    >>> import effx.lax as lax, effx.numpy as enp
    >>> values, _, _ = lax.linalg.eig(enp.diag(enp.array([1.0, 2.0])), implementation=lax.linalg.EigImplementation.LAPACK)
    >>> print(values)
    [1.+0.j 2.+0.j]
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """Methods for eigenvalues of Hermitian matrices; CPUs and GPUs have QR.

    >>> import effx.lax as lax, effx.numpy as enp
    >>> _, values = lax.linalg.eigh(enp.diag(enp.array([2.0, 1.0])), implementation=lax.linalg.EighImplementation.QR)
    >>> print(values)
    [1. 2.]
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """Methods for singular values; CPUs have QR and DIVIDE_AND_CONQUER, which is their default.

    >>> import effx.lax as lax, effx.numpy as enp
    >>> x = enp.diag(enp.array([3.0, 4.0]))
    >>> print(lax.linalg.svd(x, compute_uv=False, algorithm=lax.linalg.SvdAlgorithm.QR))
    [4. 3.]
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _subset_bounds(subset: tuple[int, int], size: int) -> slice:
    start, end = subset
    if not 0 <= start <= end <= size:
        raise ShapeError(
            f"{name_user_call()}: subset_by_index must be (start, end) with 0 <= start <= end <= {size}, got {subset}"
        )
    return slice(start, end)


def eigh(
    x: Operand,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Returns eigenvectors and eigenvalues of Hermitian matrices, by LAPACK's syevd on CPUs.

    Derivatives of vectors are determined for simple eigenvalues only, and are infinite or NaN otherwise.

    Args:
        x: `[*batch, n, n]`.
        lower: True to read the lower triangle, False for the upper one, where the input is not symmetrised.
        symmetrize_input: True to decompose (x + x^H) / 2.
        sort_eigenvalues: False where the order does not matter; the eigenvalues ascend all the same.
        subset_by_index: (start, end) for some of the eigenvalues only.
        implementation: None for the platform's own.

    Returns:
        Orthonormal eigenvectors as columns, `[*batch, n, k]`, and k real eigenvalues `[*batch, k]`.

    Raises:
        ShapeError, DTypeError: x is not of square matrices of floating or complex numbers.
        BackendError: effx does not call this implementation.

    >>> import numpy as np
    >>> eigh(np.array([[2., 0.], [0., 1.]], np.float32))[1]
    Array([1., 2.], dtype=float32)
    """
    if implementation not in (None, EighImplementation.QR):
        raise BackendError(f"eigh: there is no implementation {implementation.name} here; use QR or None")
    (a,), back = widen_operands(x)
    w, v = Eigh(lower)(symmetrize(a) if symmetrize_input else a)
    if subset_by_index is not None:
        chosen = _subset_bounds(subset_by_index, w.type.shape[-1])
        v, w = v[..., chosen], w[..., chosen]
    return back(v), back(w)


@overload
def svd(
    x: Operand,
    *,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> tuple[Array, Array, Array]: ...
@overload
def svd(
    x: Operand,
    *,
    full_matrices: bool = True,
    compute_uv: Literal[False],
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array: ...
@overload
def svd(
    x: Operand,
    *,
    full_matrices: bool = True,
    compute_uv: bool,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]: ...
def svd(
    x: Operand,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Array | tuple[Array, Array, Array]:
    """Returns the singular value decomposition x = u diag(s) vh, by LAPACK's gesdd or gesvd on CPUs.

    Derivatives of vectors are determined for singular values that differ and are not 0, and are infinite or NaN
    otherwise; with square factors of x that is not square there are none.

    Args:
        x: `[*batch, m, n]`.
        full_matrices: True for square u and vh.
        compute_uv: False for the singular values only.
        subset_by_index: (start, end) for some of the singular values only, without full_matrices.
        algorithm: None for the platform's own.

    Returns:
        u `[*batch, m, k]`, s `[*batch, k]` and vh `[*batch, k, n]`, k = min(m, n), with square u and vh if full_matrices
        is True; s alone without compute_uv. s descends.

    Raises:
        ShapeError, DTypeError: x is not of matrices of floating or complex numbers.
        BackendError: effx does not call this algorithm.

    >>> import numpy as np
    >>> svd(np.array([[3., 0.], [0., 4.]], np.float32), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise BackendError(
            f"svd: there is no algorithm {algorithm.name} here; use QR, DIVIDE_AND_CONQUER or None"
        )
    (a,), back = widen_operands(x)
    if subset_by_index is not None and full_matrices and compute_uv:
        raise ShapeError("svd: subset_by_index chooses singular vectors, so it needs full_matrices=False")
    factors = Svd(
        full_matrices and compute_uv, compute_uv, "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
    )(a)
    parts = [back(part) for part in factors]
    if subset_by_index is not None:
        chosen = _subset_bounds(subset_by_index, parts[0].type.shape[-1])
        parts = [
            parts[0][..., chosen],
            *[u[..., chosen] for u in parts[1:2]],
            *[v[..., chosen, :] for v in parts[2:]],
        ]
    return (parts[1], parts[0], parts[2]) if compute_uv else parts[0]


def eig(
    x: Operand,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Returns eigenvalues and eigenvectors of matrices, by LAPACK's geev on CPUs.

    Where eigenvalues are simple, they have derivatives, and so have eigenvectors, as LAPACK returns them: of length 1, with
    a real largest element.

    Args:
        x: `[*batch, n, n]`.
        compute_left_eigenvectors: True for vectors l with `l^H x = w l^H`.
        compute_right_eigenvectors: True for vectors r with `x r = w r`.
        enable_eigvec_derivs: JAX differentiates eigenvectors if True only; effx always does.
        implementation: None or LAPACK.
        use_magma: whether GPUs should use MAGMA, which effx does not.

    Returns:
        The eigenvalues `[*batch, n]`, then left and right eigenvectors of length 1 as columns, `[*batch, n, n]`, those
        that are requested; all complex.

    Raises:
        ShapeError, DTypeError: x is not of square matrices of floating or complex numbers.
        BackendError: effx does not call this implementation.

    >>> import numpy as np
    >>> eig(np.array([[0., 1.], [-1., 0.]], np.float32))[0]
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    if implementation not in (None, EigImplementation.LAPACK) or use_magma:
        implementation_name = "MAGMA" if implementation is None else implementation.name
        raise BackendError(f"eig: there is no implementation {implementation_name} here; use LAPACK or None")
    (a,), _ = widen_operands(x)
    return list(Eig(compute_left_eigenvectors, compute_right_eigenvectors)(a))
