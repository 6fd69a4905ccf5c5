"""Reductions by Householder's reflections, written as loops over columns: the forms of platforms without such kernels.

A reflection is I - tau v v^H with v[j] = 1 and zeros above, for LAPACK's v, tau and real results. Each step works on
whole matrices under masks, since a loop's body has one shape: two to six times the arithmetic of what LAPACK does.

Source: Golub and Van Loan, "Matrix Computations", 4th edition, 5.1, 5.4, 7.4 and 8.3.
"""

from collections.abc import Callable, Sequence

from effx import dtypes
from effx.array import Array, reducing
from effx.array.arithmetic import absolute, conj, imag, real, where
from effx.array.promotion import broadcast_to, convert, zeros
from effx.array.shaping import expand_dims, reshape
from effx.array.triangles import tril, triu
from effx.families.linalg.matrices import adjoint, diagonal, make_hermitian, multiply, real_type
from effx.handlers.staging.stage import stage
from effx.handling import array_type
from effx.ir.ops.control import While
from effx.ir.ops.reduce import ReduceSum
from effx.ir.ops.shape import Iota, Reverse
from effx.ir.values.scalars import scalar

__all__ = [
    "Carry",
    "factorize_with_pivots",
    "matrix_indices",
    "reduce_to_hessenberg",
    "reduce_to_hessenberg_parts",
    "reduce_to_tridiagonal",
    "repeat_step",
    "select",
]

Carry = list[Array]


def repeat_step(count: int, step: Callable[[Array, Carry], Carry], carry: Sequence[Array]) -> Carry:
    """Returns the carry after `carry = step(i, carry)` for i = 0, 1, …, count - 1."""
    counter, last = (scalar(n, dtypes.int32, False) for n in (0, count))
    types = [x.type for x in (last, counter, *carry)]
    condition = stage(lambda xs: [xs[1] < xs[0]], types, "goes_on").program
    body = stage(lambda xs: [xs[1] + 1, *step(xs[1], xs[2:])], types, "step").program
    return list(While(condition, body, 1)(last, counter, *carry)[1:])


def matrix_indices(x: Array, axis: int) -> Array:
    """Returns the index along an axis of matrices, for each of their elements."""
    return Iota(array_type(dtypes.int32, x.type.shape), x.type.ndim + axis)()


def select(a: Array, axis: int, index: Array) -> Array:
    """Returns a row `[*batch, 1, n]` of matrices (axis -2), or a column `[*batch, m, 1]` (axis -1).

    The index is a number, or one for each matrix and column or row: what broadcasts with the matrices.
    """
    selected = where(matrix_indices(a, axis) == index, a, scalar(0, a.type.dtype, False))
    # The sum of the functions for users widens integers.
    return expand_dims(ReduceSum((a.type.ndim + axis,))(selected), axis)


def compute_reflection(column: Array, row: Array) -> tuple[Array, Array, Array]:
    """Returns the v `[*batch, m, 1]`, tau and beta `[*batch, 1, 1]` of the reflection whose adjoint turns columns
    `[*batch, m, 1]` below a row into zeros, and the row's element into the real beta.
    """
    dtype, rows = column.type.dtype, matrix_indices(column, -2)
    zero, one = (scalar(x, dtype, False) for x in (0, 1))
    pivot = select(column, -2, row)
    tail = where(rows > row, column, zero)
    sizes = absolute(where(rows >= row, column, zero))
    # Divided by the largest element, no square overflows.
    largest = reducing.max(sizes, -2, keepdims=True)
    scale = where(largest == 0, 1.0, largest)
    length = reducing.sum((sizes / scale) ** 2, -2, keepdims=True) ** 0.5 * scale
    is_reduced = reducing.max(absolute(tail), -2, keepdims=True) == 0
    if column.type.kind == "c":
        is_reduced = is_reduced & (imag(pivot) == 0)
    leading = real(pivot)
    beta = where(is_reduced, leading, where(leading < 0, length, -length))
    divisor = convert(where(is_reduced, 1.0, beta), dtype)
    tau = where(is_reduced, zero, (divisor - pivot) / divisor)
    v = where(rows == row, one, tail / where(is_reduced, one, pivot - divisor))
    return where(rows < row, zero, v), tau, beta


def reflect_rows(a: Array, v: Array, tau: Array) -> Array:
    """Returns (I - tau v v^H)^H a."""
    return a - conj(tau) * multiply(v, multiply(adjoint(v), a))


def reflect_columns(a: Array, v: Array, tau: Array) -> Array:
    """Returns a (I - tau v v^H)."""
    return a - tau * multiply(multiply(a, v), adjoint(v))


def _store(vectors: Array, v: Array, j: Array) -> Array:
    """Returns matrices whose column j is v."""
    return where(matrix_indices(vectors, -1) == j, broadcast_to(v, vectors.type.shape), vectors)


def _store_factor(taus: Array, tau: Array, j: Array) -> Array:
    """Returns factors `[*batch, k]` of which number j is tau `[*batch, 1, 1]`."""
    factor = broadcast_to(reducing.sum(tau, -1), taus.type.shape)
    return where(matrix_indices(taus, -1) == j, factor, taus)


def reduce_to_hessenberg(a: Array) -> tuple[Array, Array]:
    """Returns Hessenberg's form of matrices, with the vectors of reflections below it, and their factors: `Hessenberg`."""
    form, vectors, taus = reduce_to_hessenberg_parts(a)
    return form + tril(vectors, -2), taus


def reduce_to_hessenberg_parts(a: Array) -> tuple[Array, Array, Array]:
    """Returns h = q^H a q with zeros below the first diagonal under the main one, and q's reflections and factors."""
    n = a.type.shape[-1]
    taus = zeros(array_type(a.type.dtype, (*a.type.shape[:-2], max(n - 1, 0))))

    def step(j: Array, carry: Carry) -> Carry:
        h, vectors, taus = carry
        v, tau, _ = compute_reflection(select(h, -1, j), j + 1)
        h = reflect_columns(reflect_rows(h, v, tau), v, tau)
        return [h, _store(vectors, v, j), _store_factor(taus, tau, j)]

    strong = convert(a, a.type.dtype)
    if 0 in a.type.shape or n < 2:
        return strong, zeros(a.type.strong()), taus
    form, vectors, taus = repeat_step(n - 1, step, [strong, zeros(a.type.strong()), taus])
    return triu(form, -1), vectors, taus


def reduce_to_tridiagonal(a: Array, lower: bool) -> tuple[Array, ...]:
    """Returns the results of `Tridiagonal`, from the lower or the upper triangle.

    Hessenberg's form of a Hermitian matrix is Hermitian. From the upper triangle LAPACK begins at the last column: with
    rows and columns in reverse order that is the case of the lower one.
    """
    batch, n = a.type.ndim - 2, a.type.shape[-1]
    if not lower:
        flip, flip_vector = Reverse((batch, batch + 1)), Reverse((batch,))
        vectors, *parts = reduce_to_tridiagonal(flip(a), True)
        return flip(vectors), *[flip_vector(x) for x in parts]
    form, vectors, taus = reduce_to_hessenberg_parts(make_hermitian(a))
    main = real(diagonal(form))
    if n < 2:
        return convert(real(a), a.type.dtype), main, zeros(real_type(a.type, 0)), taus
    beside = real(diagonal(form[..., 1:, :-1]))
    return tril(form) + tril(vectors, -2) + triu(a, 1), main, beside, taus


def factorize_with_pivots(a: Array, columns: Array) -> tuple[Array, Array, Array]:
    """Returns the results of `Geqp3`: column j is exchanged for the next that comes first, or else for the longest of the
    rest, and reflected.
    """
    *batch, m, n = a.type.shape
    k = min(m, n)
    taus = zeros(array_type(a.type.dtype, (*batch, k)))
    order = Iota(array_type(dtypes.int32, (*batch, 1, n)), len(batch) + 1)() + 1
    strong = convert(a, a.type.dtype)
    if 0 in a.type.shape:
        return strong, taus, reshape(order, columns.type.shape)

    def exchange(x: Array, j: Array, other: Array) -> Array:
        here, there = select(x, -1, j), select(x, -1, other)
        places = matrix_indices(x, -1)
        there_or_same = where(places == j, there, x)
        return where((places == other) & (places != j), here, there_or_same)

    def step(j: Array, carry: Carry) -> Carry:
        r, taus, order, comes_first = carry
        rows, places = matrix_indices(r, -2), matrix_indices(comes_first, -1)
        is_rest = (rows >= j) & (matrix_indices(r, -1) >= j)
        rest = absolute(where(is_rest, r, scalar(0, r.type.dtype, False)))
        largest = reducing.max(rest, (-2, -1), keepdims=True)
        lengths = reducing.sum((rest / where(largest == 0, 1.0, largest)) ** 2, -2, keepdims=True)
        # Squares of scaled lengths are m at most: what comes first is before them, in its order.
        rank = where(comes_first != 0, convert(n - places, lengths.type.dtype) + float(m), lengths)
        rank = where(places >= j, rank, -1.0)
        other = expand_dims(reducing.argmax(rank, -1, dtype=dtypes.int32), -1)
        r, order, comes_first = [exchange(x, j, other) for x in (r, order, comes_first)]
        v, tau, beta = compute_reflection(select(r, -1, j), j)
        # Columns before j hold vectors, and stay.
        reflected = where(matrix_indices(r, -1) > j, reflect_rows(r, v, tau), r)
        column = where(matrix_indices(v, -2) == j, convert(broadcast_to(beta, v.type.shape), v.type.dtype), v)
        column = where(matrix_indices(v, -2) < j, select(r, -1, j), column)
        return [_store(reflected, column, j), _store_factor(taus, tau, j), order, comes_first]

    wanted = expand_dims(columns, -2)
    r, taus, order, _ = repeat_step(n, step, [strong, taus, order, wanted])
    return r, taus, reshape(order, columns.type.shape)
