"""Functions of matrices by Schur's form."""

from collections.abc import Callable
from typing import Literal, overload

import numpy as np

from effx import dtypes, lax
from effx.array import Array, Operand, arithmetic, reducing, shaping, triangles
from effx.array.arithmetic import absolute, where
from effx.array.promotion import broadcast_shapes, broadcast_to, convert
from effx.array.triangles import band_mask
from effx.errors import BackendError, ShapeError
from effx.families.linalg.matrices import adjoint, check_matrix, diagonal, multiply
from effx.ir.ops.elementwise import Sqrt
from effx.ir.ops.shape import Iota
from effx.ir.types import array_type
from effx.lax import linalg
from effx.lax.control.loops import fori_loop
from effx.lax.control.solves import custom_linear_solve
from effx.numpy.linalg.operands import kernel_operands
from effx.transforms.maps.vmap import vmap

__all__ = ["eigh_tridiagonal", "funm", "rsf2csf", "solve_sylvester", "sqrtm"]


def _complex_schur(x: Array) -> tuple[Array, Array]:
    form, vectors = linalg.schur(convert(x, dtypes.complex_dtype(x.type.dtype)))
    return form, vectors


def _schur_of_exact_reals(x: Array) -> tuple[Array, Array]:
    """Returns Schur's complex form and its vectors; real eigenvalues of real matrices have no imaginary part.

    A function that is cut along the negative axis, such as a root, would else take either side of the cut by rounding.
    """
    if x.type.kind == "c":
        return _complex_schur(x)
    form, vectors = linalg.schur(x)
    return _split_blocks(form, vectors)


def _split_blocks(t: Array, z: Array) -> tuple[Array, Array]:
    """Returns the complex form of a real one and its vectors: each block of two rows is rotated, from the last on.

    Source: Golub and Van Loan, "Matrix computations", 4th edition, 7.4.1.
    """
    batch, n = t.type.shape[:-2], t.type.shape[-1]
    dtype = dtypes.complex_dtype(t.type.dtype)
    eps = float(dtypes.finfo(t.type.dtype).eps)
    indices = Iota(array_type(dtypes.int32, (n,)), 0)()

    def rotate(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        form, vectors = state
        last = n - 1 - k
        first = last - 1
        block = lax.dynamic_slice(form, (first, first), (2, 2))
        below = block[1, 0]
        is_whole = absolute(below) > eps * (absolute(block[0, 0]) + absolute(block[1, 1]))
        value = linalg.eig(block, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0][0]
        shifted = value - block[1, 1]
        length = where(is_whole, arithmetic.unary(Sqrt(), absolute(shifted) ** 2 + absolute(below) ** 2), 1.0)
        c = where(is_whole, shifted / length, 1.0)
        s = where(is_whole, below / length, 0.0)
        rotation = shaping.stack([shaping.stack([arithmetic.conj(c), s]), shaping.stack([-s, c])])
        rows = lax.dynamic_slice_in_dim(form, first, 2, 0)
        rows = where(shaping.expand_dims(indices >= first, 0), multiply(rotation, rows), rows)
        form = lax.dynamic_update_slice_in_dim(form, rows, first, 0)
        columns = lax.dynamic_slice_in_dim(form, first, 2, 1)
        columns = where(
            shaping.expand_dims(indices <= last, 1), multiply(columns, adjoint(rotation)), columns
        )
        form = lax.dynamic_update_slice_in_dim(form, columns, first, 1)
        form = form.at[last, first].set(0.0)
        turned = multiply(lax.dynamic_slice_in_dim(vectors, first, 2, 1), adjoint(rotation))
        return form, lax.dynamic_update_slice_in_dim(vectors, turned, first, 1)

    def split(form: Array, vectors: Array) -> tuple[Array, Array]:
        result: tuple[Array, Array] = fori_loop(0, n - 1, rotate, (form, vectors))
        return result

    t, z = convert(t, dtype), convert(z, dtype)
    if n < 2 or 0 in batch:
        return t, z
    form, vectors = vmap(split)(shaping.reshape(t, (-1, n, n)), shaping.reshape(z, (-1, n, n)))
    return shaping.reshape(form, t.type.shape), shaping.reshape(vectors, t.type.shape)


def _fill_by_diagonals(values: Array, step: Callable[[Array], tuple[Array, Array]]) -> Array:
    """Returns an upper triangular matrix with a known diagonal, one diagonal above after the other.

    Args:
        values: the diagonal.
        step: returns numerators and denominators of the next diagonal's elements, given the matrix with zeros from
            there on.
    """
    n = values.type.shape[-1]
    unit = convert(band_mask((n, n), 0, "EQ"), values.type.dtype)
    index_type = array_type(dtypes.int32, (n, n))
    above = Iota(index_type, 1)() - Iota(index_type, 0)()

    def next_diagonal(k: Array, partial_matrix: Array) -> Array:
        numerator, denominator = step(partial_matrix)
        return where(above == k, numerator / where(denominator == 0, 1.0, denominator), partial_matrix)

    return fori_loop(1, n, next_diagonal, shaping.expand_dims(values, -1) * unit)


def _pairwise_differences(values: Array) -> tuple[Array, Array]:
    return shaping.expand_dims(values, -1), shaping.expand_dims(values, -2)


def sqrtm(A: Operand, blocksize: int = 1) -> Array:
    """Returns the principal square roots of matrices, by Schur's form (Björck and Hammarling, 1983). There is no
    derivative.

    Args:
        A: `[n, n]`.
        blocksize: 1.

    Returns:
        A complex array of A's shape.

    Raises:
        ShapeError: A is no square matrix.
        BackendError: blocks are requested.

    >>> import numpy as np
    >>> sqrtm(np.array([[4., 0.], [0., 9.]])).real.round().tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    if blocksize != 1:
        raise BackendError(f"sqrtm: there are no blocks; use blocksize=1, got {blocksize!r}")
    (x,), _ = kernel_operands(A)
    check_matrix(x.type, "A", square=True)
    form, vectors = _schur_of_exact_reals(x)
    roots = arithmetic.unary(Sqrt(), diagonal(form))
    row, column = _pairwise_differences(roots)
    # An element times the sum of the adjacent roots is what the product of the roots so far lacks.
    root = _fill_by_diagonals(roots, lambda found: (form - multiply(found, found), row + column))
    return multiply(vectors, multiply(root, adjoint(vectors)))


@overload
def funm(A: Operand, func: Callable[[Array], Array], disp: Literal[True] = True) -> Array: ...
@overload
def funm(A: Operand, func: Callable[[Array], Array], disp: Literal[False]) -> tuple[Array, Array]: ...
@overload
def funm(A: Operand, func: Callable[[Array], Array], disp: bool) -> Array | tuple[Array, Array]: ...
def funm(A: Operand, func: Callable[[Array], Array], disp: bool = True) -> Array | tuple[Array, Array]:
    """Returns a function of matrices, by Schur's form and Parlett's recurrence (1976). There is no derivative.

    It is inexact where eigenvalues are close to one another.

    Args:
        A: `[n, n]`.
        func: of arrays, element by element.
        disp: False for an estimate of the relative error too.

    Returns:
        A complex array of A's shape.

    Raises:
        ShapeError: A is no square matrix.

    >>> import numpy as np
    >>> funm(np.array([[4., 0.], [0., 9.]]), lambda x: x * x).real.round().tolist()
    [[16.0, 0.0], [0.0, 81.0]]
    """
    (x,), _ = kernel_operands(A)
    check_matrix(x.type, "A", square=True)
    form, vectors = _schur_of_exact_reals(x)
    values = diagonal(form)
    row, column = _pairwise_differences(values)
    # The function commutes with the matrix.
    triangular_result = _fill_by_diagonals(
        func(values), lambda f: (multiply(form, f) - multiply(f, form), column - row)
    )
    result = multiply(vectors, multiply(triangular_result, adjoint(vectors)))
    if disp:
        return result
    eps = float(dtypes.finfo(x.type.dtype).eps)
    n = x.type.shape[-1]
    distances = where(band_mask((n, n), 0), 1.0, absolute(column - row))
    least = reducing.min(distances, (-2, -1), initial=1.0)
    size = reducing.max(reducing.sum(absolute(triangles.triu(form, 1)), -2), -1, initial=0.0)
    error = arithmetic.maximum(eps, eps / where(least == 0, eps, least) * size)
    return result, arithmetic.minimum(1.0, error)


def rsf2csf(T: Operand, Z: Operand, check_finite: bool = True) -> tuple[Array, Array]:
    """Returns Schur's complex form from the real one. There is no derivative.

    Args:
        T: `[*batch, n, n]`, with blocks of two rows.
        Z: the vectors, of T's shape; batch axes broadcast.
        check_finite: changes nothing.

    Returns:
        An upper triangular form and its vectors, both complex.

    Raises:
        ShapeError: T or Z is not of square matrices, or their sizes differ.

    >>> import numpy as np
    >>> t, z = rsf2csf(np.array([[0., 1.], [-1., 0.]]), np.eye(2))
    >>> sorted(t.diagonal().imag.round(3).tolist())
    [-1.0, 1.0]
    """
    (t, z), _ = kernel_operands(T, Z)
    check_matrix(t.type, "T", square=True)
    check_matrix(z.type, "Z", square=True)
    if t.type.shape[-1] != z.type.shape[-1]:
        raise ShapeError(f"rsf2csf: T and Z must have equal sizes, got {t.type!r} and {z.type!r}")
    batch = broadcast_shapes(t.type.shape[:-2], z.type.shape[:-2])
    t, z = (broadcast_to(x, (*batch, *x.type.shape[-2:])) for x in (t, z))
    return _split_blocks(t, z)


def solve_sylvester(A: Operand, B: Operand, C: Operand, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """Returns the X with A X + X B = C, by Schur's forms of A and B (Bartels and Stewart, 1972).

    Args:
        A: `[*batch, m, m]`.
        B: `[*batch, n, n]`.
        C: `[*batch, m, n]`; batch axes broadcast.
        method: "schur" or "eigen"; the solution is that of Schur's forms either way.
        tol: NaN where an eigenvalue of A and one of B add up to no more than this.

    Returns:
        An array `[*batch, m, n]`.

    Raises:
        ShapeError: sizes do not fit, or there is no such method.

    >>> import numpy as np
    >>> solve_sylvester(np.eye(2), np.eye(1), np.array([[2.], [4.]])).round(3).tolist()
    [[1.0], [2.0]]
    """
    if method not in ("schur", "eigen"):
        raise ShapeError(f"solve_sylvester: method must be 'schur' or 'eigen', got {method!r}")
    (a, b, c), back = kernel_operands(A, B, C)
    check_matrix(a.type, "A", square=True)
    check_matrix(b.type, "B", square=True)
    check_matrix(c.type, "C")
    m, n = a.type.shape[-1], b.type.shape[-1]
    if c.type.shape[-2:] != (m, n):
        raise ShapeError(f"solve_sylvester: C must be [{m}, {n}] in its last two axes, got {c.type!r}")
    batch = broadcast_shapes(*[x.type.shape[:-2] for x in (a, b, c)])
    a, b, c = (broadcast_to(x, (*batch, *x.type.shape[-2:])) for x in (a, b, c))

    def solver(left: Array, right: Array) -> Callable[[object, Array], Array]:
        return lambda _, side: _solve_triangular_sylvester(left, right, side, tol)

    solution: Array = custom_linear_solve(
        lambda x: multiply(a, x) + multiply(x, b),
        c,
        solver(a, b),
        solver(shaping.matrix_transpose(a), shaping.matrix_transpose(b)),
    )
    return back(solution)


def _solve_triangular_sylvester(a: Array, b: Array, c: Array, tol: float) -> Array:
    (r, u), (s, v) = _complex_schur(a), _complex_schur(b)
    f = multiply(adjoint(u), multiply(convert(c, r.type.dtype), v))
    m, n = f.type.shape[-2:]
    unit = convert(band_mask((m, m), 0, "EQ"), r.type.dtype)
    column_indices = Iota(array_type(dtypes.int32, (n,)), 0)()

    def next_column(k: Array, partial_solution: Array) -> Array:
        """Writes column k: the columns before it are known, and those after it are zeros."""
        on = convert(column_indices == k, r.type.dtype)
        of_s = multiply(s, shaping.expand_dims(on, -1))
        eigenvalue = reducing.sum(of_s * shaping.expand_dims(on, -1), (-2, -1), keepdims=True)
        side = multiply(f, shaping.expand_dims(on, -1)) - multiply(partial_solution, of_s)
        column = linalg.triangular_solve(r + eigenvalue * unit, side, left_side=True)
        return partial_solution + column * on

    solved = multiply(u, multiply(fori_loop(0, n, next_column, f * 0.0), adjoint(v)))
    left, right = shaping.expand_dims(diagonal(r), -1), shaping.expand_dims(diagonal(s), -2)
    singular = reducing.any(absolute(left + right) <= tol, (-2, -1), keepdims=True)
    x = where(singular, np.nan, solved)
    return x if c.type.kind == "c" else convert(arithmetic.real(x), c.type.dtype)


def eigh_tridiagonal(
    d: Operand,
    e: Operand,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Array | None = None,
) -> Array | tuple[Array, Array]:
    """Returns eigenvalues and eigenvectors of a real symmetric tridiagonal matrix, by `eigh` of the whole matrix.

    Args:
        d: the main diagonal, `[n]`, real.
        e: the diagonal next to it, `[n - 1]`.
        eigvals_only: True for the eigenvalues only.
        select: "a" for all, "i" for those from index select_range[0] to select_range[1].
        select_range: for "i".
        tol, key: change nothing: nothing is iterated, and nothing is random.

    Returns:
        Ascending eigenvalues, and orthonormal eigenvectors as columns.

    Raises:
        ShapeError: sizes do not fit, or select or its range are invalid.

    >>> import numpy as np
    >>> eigh_tridiagonal(np.zeros(2), np.ones(1), eigvals_only=True).round(3).tolist()
    [-1.0, 1.0]
    """
    (main, beside), back = kernel_operands(d, e)
    n = main.type.shape[0] if main.type.ndim == 1 else 0
    if main.type.ndim != 1 or main.type.kind == "c" or beside.type.shape != (max(n - 1, 0),):
        raise ShapeError(
            f"eigh_tridiagonal: d must be a real vector and e one element shorter, got {main.type!r} and {beside.type!r}"
        )
    if select not in ("a", "i") or (select == "i") != (select_range is not None):
        raise ShapeError(
            f"eigh_tridiagonal: select must be 'a', or 'i' with a select_range, got {select!r} and {select_range!r}"
        )
    padded = shaping.concatenate([beside, main[:1] * 0], 0)
    upper = shaping.expand_dims(padded, -1) * convert(band_mask((n, n), 1, "EQ"), main.type.dtype)
    unit = convert(band_mask((n, n), 0, "EQ"), main.type.dtype)
    v, w = linalg.eigh(shaping.expand_dims(main, -1) * unit + upper + shaping.matrix_transpose(upper))
    if select_range is not None:
        chosen = slice(int(select_range[0]), int(select_range[1]) + 1)
        v, w = v[:, chosen], w[chosen]
    return back(w) if eigvals_only else (back(w), back(v))
