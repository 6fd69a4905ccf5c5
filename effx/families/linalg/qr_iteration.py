"""Schur's form and eigenvalues of matrices that are not Hermitian, by QR iterations: the forms of platforms without kernels.

LAPACK turns two rows at a time. Here each iteration takes the QR factors of a window of rows that are coupled, in a matrix
that is the unit matrix elsewhere, so that n rows take O(n) factorizations of whole matrices. Matrices are not balanced:
of a matrix whose elements differ much in size, small eigenvalues have the errors of large ones.

Source: Golub and Van Loan, "Matrix Computations", 4th edition, 7.5 and 7.6.
"""

from effx import dtypes
from effx.array import Array, reducing
from effx.array.arithmetic import absolute, imag, maximum, real, where
from effx.array.promotion import broadcast_to, convert, zeros
from effx.array.shaping import expand_dims
from effx.array.triangles import triu
from effx.families.linalg.matrices import adjoint, diagonal, eye, multiply
from effx.families.linalg.qr import HouseholderProduct, Qr
from effx.families.linalg.reflections import (
    Carry,
    matrix_indices,
    reduce_to_hessenberg_parts,
    repeat_step,
    select,
)
from effx.handlers.staging.stage import stage
from effx.ir.ops.control import While
from effx.ir.ops.elementwise import And, Sqrt
from effx.ir.ops.shape import Pad
from effx.ir.values.scalars import scalar

__all__ = ["compute_eigenvectors", "normalize_columns", "reduce_to_schur"]

SQRT, AND = Sqrt(), And()
# Some two or three iterations a row are enough, LAPACK gives up after thirty.
ITERATIONS_PER_ROW = 30
# An iteration in so many has another shift: from a few matrices the usual ones lead nowhere.
ITERATIONS_PER_EXCEPTION = 10
# Vectors with larger elements are made smaller: the products of 1e8, the gaps of a multiple eigenvalue and the elements of
# a matrix are numbers of float32.
LARGEST_ELEMENT = 1e8
# A real matrix' eigenvalue with an imaginary part of so few roundings of the matrix is real.
ROUNDINGS_OF_REAL_VALUES = 8


def _compute_shift(t: Array, last: Array) -> Array:
    """Returns the eigenvalue of rows `last` and `last + 1` which is nearer to the lower element: Wilkinson's shift."""
    upper, lower = select(t, -2, last), select(t, -2, last + 1)
    a, b = select(upper, -1, last), select(upper, -1, last + 1)
    c, d = select(lower, -1, last), select(lower, -1, last + 1)
    half = (a - d) * 0.5
    root = SQRT(half * half + b * c)
    is_same_side = absolute(half + root) >= absolute(half - root)
    far = where(is_same_side, half + root, half - root)
    return d - where(far == 0, far, b * c / where(far == 0, far + 1.0, far))


def iterate_to_schur(h: Array, q: Array) -> tuple[Array, Array]:
    """Returns upper triangular t and unitary z with z t z^H = q h q^H, of complex h in Hessenberg's form; NaN where the
    iterations do not end.
    """
    n = h.type.shape[-1]
    eps = float(dtypes.finfo(h.type.dtype).eps)
    zero, limit = scalar(0, h.type.dtype, False), ITERATIONS_PER_ROW * n

    def mark_coupled(t: Array) -> Array:
        """Marks the elements right below the diagonal that are no roundings of their neighbours on it."""
        size, places = absolute(diagonal(t)), matrix_indices(t, -1)
        below = absolute(where(matrix_indices(t, -2) == places + 1, t, zero))
        # Of column j, rows j and j + 1 are the neighbours of the element.
        neighbours = expand_dims(size, -1) + expand_dims(size, -2)
        return below > eps * neighbours

    def iterate(counter: Array, carry: Carry) -> Carry:
        t, z = carry
        rows, places = matrix_indices(t, -2), matrix_indices(t, -1)
        is_coupled = mark_coupled(t)
        t = where((rows == places + 1) & ~is_coupled, zero, t)
        last = reducing.max(where(is_coupled, places, -1), (-2, -1), keepdims=True)
        # The window ends with row `last` + 1, and begins behind the last row before that is not coupled to the next.
        is_cut = (rows == places + 1) & ~is_coupled & (places < last)
        first = reducing.max(where(is_cut, rows, 0), (-2, -1), keepdims=True)
        shift = _compute_shift(t, last)
        lower = select(t, -2, last + 1)
        exceptional = select(lower, -1, last + 1) + absolute(select(lower, -1, last)) * 0.75
        is_exception = counter % ITERATIONS_PER_EXCEPTION == ITERATIONS_PER_EXCEPTION - 1
        shifts = where(is_exception, exceptional, shift) * eye(t)
        is_row, is_column = [(x >= first) & (x <= last + 1) for x in (rows, places)]
        factor, r = Qr()(where(is_row & is_column, t - shifts, eye(t)))
        inside = triu(multiply(r, factor) + shifts, -1)
        above, beside = multiply(t, factor), multiply(adjoint(factor), t)
        moved = where(is_row & is_column, inside, where(is_column & (rows < first), above, t))
        moved = where(is_row & (places > last + 1), beside, moved)
        # A matrix of a batch that is done waits for the others as it is.
        return [where(last < 0, t, moved), where(last < 0, z, multiply(z, factor))]

    counter = scalar(0, dtypes.int32, False)
    types = [counter.type, h.type, q.type]
    condition = stage(
        lambda xs: [AND(reducing.any(mark_coupled(xs[1])), xs[0] < limit)], types, "goes_on"
    ).program
    body = stage(lambda xs: [xs[0] + 1, *iterate(xs[0], xs[1:])], types, "iteration").program
    _, t, z = While(condition, body)(counter, h, q)
    is_done = ~reducing.any(mark_coupled(t), (-2, -1), keepdims=True)
    nan = scalar(complex("nan"), h.type.dtype, False)
    return where(is_done, triu(t), nan), where(is_done, z, nan)


def reduce_to_schur(a: Array) -> tuple[Array, Array]:
    """Returns upper triangular t and unitary z with a = z t z^H, of complex matrices; NaN where the iterations fail."""
    t, z, scale = _reduce_scaled_to_schur(a)
    return t * scale, z


def _reduce_scaled_to_schur(a: Array) -> tuple[Array, Array, Array]:
    """Returns t, z and a number `[*batch, 1, 1]` for each matrix, a = scale * z t z^H."""
    a = convert(a, a.type.dtype)
    n = a.type.shape[-1]
    if 0 in a.type.shape:
        return a, a, scalar(1, a.type.dtype, False)
    # Of large and small numbers the squares in a shift would leave the range. Others are not scaled, which rounds.
    largest = reducing.max(absolute(a), (-2, -1), keepdims=True)
    limits = dtypes.finfo(a.type.dtype)
    smallest = float(limits.tiny) ** 0.5 / float(limits.eps)
    is_far = (largest < smallest) | (largest > 1 / smallest)
    scale = convert(where(is_far & (largest > 0), largest, 1.0), a.type.dtype)
    h, vectors, taus = reduce_to_hessenberg_parts(a / scale)
    q = broadcast_to(eye(a), a.type.shape)
    if n > 1:
        none = (0,) * (a.type.ndim - 2)
        inner = HouseholderProduct()(vectors[..., 1:, :-1], taus)
        padded = Pad((*none, 1, 1), (*none, 0, 0), (*none, 0, 0))(inner, scalar(0, a.type.dtype, False))
        first = (matrix_indices(a, -2) == 0) & (matrix_indices(a, -1) == 0)
        q = padded + convert(first, a.type.dtype)
    return *iterate_to_schur(h, q), scale


def compute_eigenvectors(a: Array) -> tuple[Array, Array]:
    """Returns the eigenvalues and right eigenvectors of matrices: the diagonal of Schur's form t, and z x for the
    eigenvectors x of t.

    Of real matrices eigenvalues that come in pairs are conjugate but for roundings.
    """
    is_real = a.type.kind != "c"
    a = convert(a, dtypes.complex_dtype(a.type.dtype))
    if 0 in a.type.shape:
        return zeros(a.type.with_shape(a.type.shape[:-1])), a
    t, z, scale = _reduce_scaled_to_schur(a)
    w = diagonal(t)
    if is_real:
        size = reducing.max(absolute(t), (-2, -1)) * float(dtypes.finfo(w.type.dtype).eps)
        is_rounding = absolute(imag(w)) <= expand_dims(size, -1) * ROUNDINGS_OF_REAL_VALUES
        w = where(is_rounding, convert(real(w), w.type.dtype), w)
    r = multiply(z, _solve_for_vectors(t, w))
    r = normalize_columns(r)
    if is_real:
        r = where(expand_dims(imag(w) == 0, -2), convert(real(r), r.type.dtype), r)
    return w * scale[..., 0], r


def normalize_columns(vectors: Array) -> Array:
    """Returns eigenvectors as LAPACK does, by which their derivatives are defined: of length 1, with a real largest
    element, which is positive here.
    """
    largest = expand_dims(reducing.argmax(absolute(vectors), -2, dtype=dtypes.int32), -2)
    is_largest = matrix_indices(vectors, -2) == largest
    vectors = where(is_largest, 1.0, vectors / select(vectors, -2, largest))
    length = reducing.sum(absolute(vectors) ** 2, -2, keepdims=True) ** 0.5
    return vectors / convert(length, vectors.type.dtype)


def _solve_for_vectors(t: Array, w: Array) -> Array:
    """Returns the eigenvectors of upper triangular matrices as columns.

    Row after row from the last, for all columns at once: of column k the rows above k follow from (t - w_k) x = 0.
    """
    n, dtype = t.type.shape[-1], t.type.dtype
    zero = scalar(0, dtype, False)
    # A multiple eigenvalue has no gap: a rounding of the eigenvalue stands in its place, as in LAPACK, or of nearly nothing.
    eps = float(dtypes.finfo(dtype).eps)
    largest = reducing.max(absolute(t), (-2, -1), keepdims=True)
    nearly_nothing = where(largest == 0, 1.0, largest) * eps**2
    smallest = maximum(expand_dims(absolute(w), -2) * eps, nearly_nothing)

    def step(counter: Array, carry: Carry) -> Carry:
        x, t, w, smallest = carry
        rows, places = matrix_indices(t, -2), matrix_indices(t, -1)
        i = (n - 2) - counter
        row = select(t, -2, i)
        above = where(matrix_indices(row, -1) > i, row, zero)
        gap = expand_dims(w, -2) - select(row, -1, i)
        gap = where(absolute(gap) < smallest, convert(smallest, dtype), gap)
        x = where((rows == i) & (places > i), multiply(above, x) / gap, x)
        # Small gaps make large numbers, whose products with further ones would be infinite.
        size = reducing.max(absolute(x), -2, keepdims=True)
        return [x / convert(where(size > LARGEST_ELEMENT, size, 1.0), dtype), t, w, smallest]

    return repeat_step(n - 1, step, [broadcast_to(eye(t), t.type.shape), t, w, smallest])[0]
