"""Linear systems and eigenvalues of sparse matrices, named as in `jax.experimental.sparse.linalg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

import effx.numpy as enp
from effx import lax
from effx.array import Array, Operand
from effx.errors import ConcretizationError, DTypeError, ShapeError, name_user_call
from effx.experimental.sparse.base import JAXSparse
from effx.experimental.sparse.compressed import row_numbers
from effx.lax.control.solves import custom_linear_solve
from effx.lax.operands import check_int
from effx.lazy import list_names
from effx.scipy.linalg import lu_factor, lu_solve
from effx.transforms.jit.jit import jit

__all__ = ["lobpcg_standard", "spsolve"]
__dir__ = list_names(__all__)

Indices = np.ndarray


def spsolve(
    data: Operand, indices: Operand, indptr: Operand, b: Operand, tol: Operand = 1e-6, reorder: int = 1
) -> Array:
    """Solve A x = b for a sparse matrix A by elimination.

    Rows and columns are reordered so that stored elements are near the diagonal, and the band is eliminated with
    partial
    pivoting: n (bandwidth)^2 steps of arithmetic, n bandwidth numbers. Where the band is wide, or where the coordinates
    are abstract (arguments of a jitted function), the matrix is made dense. Derivatives by `data` and `b`, of any
    order, solve systems with A and its transpose; `vmap` goes over either.

    Args:
        data: the stored elements [nse], floating or complex.
        indices: their columns i32[nse].
        indptr: where rows start and the last one ends, i32[n + 1].
        b: f32[n], or f32[n, k] for k right-hand sides, of data's dtype.
        tol: A counts as singular where a pivot is smaller than this times the largest absolute element of its column;
            then the result is NaN.
        reorder: 1 for the reverse Cuthill-McKee ordering, 0 for none.

    Returns:
        x, of b's type.

    Raises:
        ShapeError: the arrays do not fit, or `reorder` is something else.
        DTypeError: dtypes differ, or are not floating.

    Sources: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969; Golub and Van Loan, "Matrix
    Computations", 4.3.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import CSR
    >>> m = CSR.fromdense(enp.array([[2.0, 1.0], [0.0, 4.0]]))
    >>> spsolve(m.data, m.indices, m.indptr, enp.array([3.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    elements, cols, starts, right = [enp.asarray(x) for x in (data, indices, indptr, b)]
    n = starts.shape[0] - 1 if starts.ndim == 1 else -1
    if (
        n < 0
        or elements.ndim != 1
        or cols.shape != elements.shape
        or right.ndim not in (1, 2)
        or right.shape[0] != n
    ):
        raise ShapeError(
            f"{name_user_call()}: needs data [nse], indices [nse], indptr [n + 1] and b [n] or [n, k], "
            f"got {elements.type!r}, {cols.type!r}, {starts.type!r} and {right.type!r}"
        )
    if (
        elements.dtype != right.dtype
        or elements.dtype.kind not in "fc"
        or {cols.dtype.kind, starts.dtype.kind} - {*"iu"}
    ):
        raise DTypeError(
            f"{name_user_call()}: needs data and b of one floating dtype and integer indices, got {elements.type!r}, "
            f"{cols.type!r}, {starts.type!r} and {right.type!r}"
        )
    if check_int("reorder", reorder) not in (0, 1):
        raise ShapeError(
            f"{name_user_call()}: reorder must be 0 (none) or 1 (reverse Cuthill-McKee), got {reorder}"
        )
    rows = row_numbers(starts, elements.shape[0])
    bound = enp.asarray(tol)
    if not n or not right.size:
        return right

    def product(x: Array, transposed: bool) -> Array:
        to, of = (cols, rows) if transposed else (rows, cols)
        terms = elements.reshape((-1,) + (1,) * (x.ndim - 1)) * x.at[of].get(mode="fill", fill_value=0)
        return enp.zeros_like(x).at[to].add(terms, mode="drop")

    def solve(matvec: Callable[[Array], Array], c: Array) -> Array:
        return _solve_on_host(elements, rows, cols, c, bound, reorder)

    def solve_transposed(matvec: Callable[[Array], Array], c: Array) -> Array:
        return _solve_on_host(elements, cols, rows, c, bound, reorder)

    return cast("Array", custom_linear_solve(lambda x: product(x, False), right, solve, solve_transposed))


def _solve_on_host(elements: Array, rows: Array, cols: Array, b: Array, tol: Array, reorder: int) -> Array:
    n = b.shape[0]
    try:
        i, j = np.asarray(rows), np.asarray(cols)
    except ConcretizationError:
        return _solve_by_lu(elements, rows, cols, b, tol)
    known = (i < n) & (j >= 0) & (j < n)
    i, j = i[known], j[known]
    order = cuthill_mckee(i, j, n)[::-1] if reorder else np.arange(n)
    position_of = np.empty(n, int)
    position_of[order] = np.arange(n)
    i, j = position_of[i], position_of[j]
    below, above = int(max([0, *(i - j)])), int(max([0, *(j - i)]))
    if 2 * (2 * below + above + 1) > n:
        return _solve_by_lu(elements, rows, cols, b, tol)
    x = _solve_band(elements[np.flatnonzero(known)], i, j, b.reshape((n, -1))[order], tol, below, above)
    return x[position_of].reshape(b.shape)


def cuthill_mckee(i: Indices, j: Indices, n: int) -> Indices:
    """Returns the numbers of n vertices in breadth-first order, those of low degree first, from edges i, j."""
    left, right = np.concatenate([i, j]), np.concatenate([j, i])
    by = np.lexsort((right, left))
    left, right = left[by], right[by]
    starts = np.searchsorted(left, np.arange(n + 1))
    degree = np.diff(starts)
    results: list[int] = []
    seen = np.zeros(n, bool)
    for root in np.argsort(degree, kind="stable"):
        if seen[root]:
            continue
        seen[root] = True
        results.append(int(root))
        k = len(results) - 1
        while k < len(results):
            v = results[k]
            near = np.unique(right[starts[v] : starts[v + 1]])
            near = near[~seen[near]]
            seen[near] = True
            results += near[np.argsort(degree[near], kind="stable")].tolist()
            k += 1
    return np.array(results, int)


@jit(static_argnames=("below", "above"))
def _solve_band(elements: Array, i: Array, j: Array, b: Array, tol: Array, below: int, above: int) -> Array:
    """Solves a band system: `below` diagonals below the main one, `above` above it.

    A window of below + 1 rows, from column k on, holds all that step k changes; pivoting keeps its width, since rows
    from below reach below + above columns to the right. Each step lets one row of U go and takes one row of A.
    """
    n, width = b.shape[0], below + above + 1
    band = enp.zeros((n + below + 1, width), elements.dtype).at[i, j - i + below].add(elements)
    # The first rows begin left of column 0, where nothing is.
    first = enp.stack(
        [enp.concatenate([band[r, below - r :], enp.zeros(below - r, band.dtype)]) for r in range(below + 1)]
    )
    column = enp.zeros(n, enp.abs(elements).dtype).at[j].max(enp.abs(elements))
    right = enp.concatenate([b, enp.zeros((below + 1, b.shape[1]), b.dtype)])

    def eliminate(
        carry: tuple[Array, Array, Array], new: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array, Array], tuple[Array, Array]]:
        window, c, singular = carry
        row, value, largest = new
        p = enp.argmax(enp.abs(window[:, 0]))
        order = enp.arange(below + 1).at[p].set(0).at[0].set(p)
        window, c = window[order], c[order]
        factors = window[1:, :1] / window[0, 0]
        rest = window[1:] - factors * window[0]
        rest_c = c[1:] - factors * c[0]
        shifted = enp.concatenate([rest[:, 1:], enp.zeros((below, 1), window.dtype)], 1)
        singular |= ~(enp.abs(window[0, 0]) > tol.astype(largest.dtype) * largest)
        after = enp.concatenate([shifted, row[None]]), enp.concatenate([rest_c, value[None]]), singular
        return after, (window[0], c[0])

    def substitute(behind: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        u, c = row
        x = (c - u[1:] @ behind) / u[0]
        return enp.concatenate([x[None], behind])[: width - 1], x

    start = first, right[: below + 1], enp.asarray(False)
    (_, _, singular), (upper, y) = lax.scan(eliminate, start, (band[below + 1 :], right[below + 1 :], column))
    _, x = lax.scan(substitute, enp.zeros((width - 1, b.shape[1]), b.dtype), (upper, y), reverse=True)
    return enp.where(singular, enp.nan, x)


@jit
def _solve_by_lu(elements: Array, rows: Array, cols: Array, b: Array, tol: Array) -> Array:
    n = b.shape[0]
    # Negative coordinates would count from the end.
    inside = (rows >= 0) & (cols >= 0)
    A = enp.zeros((n, n), elements.dtype).at[enp.where(inside, rows, n), cols].add(elements, mode="drop")
    lu, pivots = lu_factor(A)
    largest = enp.abs(A).max(0)
    singular = ~(enp.abs(enp.diagonal(lu)) > tol.astype(largest.dtype) * largest).all()
    return enp.where(singular, enp.nan, lu_solve((lu, pivots), b))


def lobpcg_standard(
    A: Operand | JAXSparse | Callable[[Array], Array], X: Operand, m: int = 100, tol: Operand | None = None
) -> tuple[Array, Array, Array]:
    """Compute the largest eigenvalues of a Hermitian matrix, and their eigenvectors, by LOBPCG.

    Each iteration takes the best vectors of the space of the current ones, their residuals and the last step. The basis
    of that space is orthonormal, by a QR decomposition, so that residuals near 0 do no harm.

    Args:
        A: a Hermitian matrix f32[n, n], sparse or dense, or a function that multiplies it with f32[n, j].
        X: f32[n, k], linearly independent first guesses, with 0 < 5 k < n.
        m: the most iterations.
        tol: a pair is accurate where the norm of its residual is below 10 n tol (|eigenvalue| + norm of A v); the
            machine epsilon of X's dtype by default. The iteration ends when all are.

    Returns:
        The eigenvalues f32[k], the largest first, the eigenvectors f32[n, k], and the number of iterations i32[].

    Raises:
        ShapeError: the shapes do not fit.
        DTypeError: A gives another dtype than X's, or it is not floating.

    Source: Knyazev, "Toward the optimal preconditioned eigensolver", 2001.

    >>> import effx.numpy as enp
    >>> values, vectors, _ = lobpcg_standard(enp.diag(enp.arange(10.0)), enp.ones((10, 1)))
    >>> round(float(values[0]), 4), vectors.shape
    (9.0, (10, 1))
    """
    function_name, guess = "lobpcg_standard", enp.asarray(X)
    if guess.dtype.kind not in "fc":
        raise DTypeError(f"{function_name}: X must be floating or complex, got {guess.type!r}")
    if guess.ndim != 2 or not 0 < 5 * guess.shape[1] < guess.shape[0]:
        raise ShapeError(f"{function_name}: X must have shape (n, k) with 0 < 5 k < n, got {guess.type!r}")
    matrix = A if isinstance(A, JAXSparse) or callable(A) else enp.asarray(A)

    def times(V: Array) -> Array:
        return cast("Array", matrix(V) if callable(matrix) else matrix @ V)

    n, k = guess.shape
    product = times(guess)
    if product.shape != guess.shape:
        raise ShapeError(
            f"{function_name}: A times X must have X's shape, got {product.type!r} for {guess.type!r}"
        )
    if product.dtype != guess.dtype:
        raise DTypeError(
            f"{function_name}: A times X must have X's dtype, got {product.type!r} for {guess.type!r}"
        )
    epsilon = enp.asarray(float(enp.finfo(guess.dtype).eps) if tol is None else tol)
    most = check_int("m", m)

    def ritz(Q: Array) -> tuple[Array, Array, Array]:
        """Returns the k largest Ritz values in the space of Q, the coefficients, and A Q."""
        AQ = times(Q)
        small = Q.conj().T @ AQ
        values, vectors = enp.linalg.eigh((small + small.conj().T) / 2)
        return values[::-1][:k], vectors[:, ::-1][:, :k], AQ

    def accurate(theta: Array, U: Array, AU: Array) -> Array:
        residual = enp.linalg.norm(AU - U * theta.astype(U.dtype), axis=0)
        scale = enp.abs(theta) + enp.linalg.norm(AU, axis=0)
        return (residual < epsilon.astype(scale.dtype) * (10 * n) * scale).all()

    State = tuple[Array, Array, Array, Array, Array]

    def goes_on(state: State) -> Array:
        i, theta, U, AU, _ = state
        return (i < most) & ~accurate(theta, U, AU)

    def improve(state: State) -> State:
        i, theta, U, AU, P = state
        Q = enp.linalg.qr(enp.concatenate([U, AU - U * theta.astype(U.dtype), P], 1))[0]
        theta, C, AQ = ritz(Q)
        # The step: what is new, without the part along the vectors so far.
        V = Q @ C
        return i + 1, theta, V, AQ @ C, V - U @ (U.conj().T @ V)

    Q = enp.linalg.qr(guess)[0]
    theta, C, AQ = ritz(Q)
    start = enp.asarray(0, enp.int32), theta, Q @ C, AQ @ C, enp.zeros_like(Q)
    i, theta, U, _, _ = lax.while_loop(goes_on, improve, start)
    return theta, U, i
