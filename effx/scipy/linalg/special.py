"""Matrices of special forms."""

import math

import numpy as np
import numpy.typing as npt

from effx import dtypes
from effx.array import Array, Operand, shaping
from effx.array.arithmetic import absolute, conj, to_inexact
from effx.array.indexing import getitem
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, promote_dtypes, zeros
from effx.dtypes import DTypeLike
from effx.errors import OptionError, ShapeError, name_user_call
from effx.ir.types import array_type
from effx.lax.operands import check_int
from effx.numpy.creation import asarray

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "dft", "fiedler", "fiedler_companion", "hadamard",
    "hankel", "helmert", "hilbert", "invhilbert", "invpascal", "leslie", "pascal", "toeplitz",
]  # fmt: skip


def _check_vector(x: Operand, name: str, least: int = 0) -> Array:
    """Returns vectors, a number as one of length 1."""
    a = as_operand(x)
    a = a if a.type.ndim else shaping.reshape(a, (1,))
    if a.type.shape[-1] < least:
        raise ShapeError(f"{name_user_call()}: {name} must have at least {least} elements, got {a.type!r}")
    return a


def _gather_entries(vectors: Array, indices: npt.NDArray[np.integer]) -> Array:
    """Returns matrices of a vector's elements."""
    return getitem(vectors, (Ellipsis, asarray(indices.astype(np.int32))))


def _concatenate_vectors(first: Array, second: Array) -> Array:
    """Returns vectors behind each other; batch axes broadcast."""
    batch = broadcast_shapes(first.type.shape[:-1], second.type.shape[:-1])
    parts = [broadcast_to(x, (*batch, x.type.shape[-1])) for x in promote_dtypes(first, second)]
    return shaping.concatenate(parts, -1)


def _index_grid(rows: int, columns: int) -> tuple[npt.NDArray[np.int_], npt.NDArray[np.int_]]:
    return np.arange(rows)[:, None], np.arange(columns)[None]


def _check_size(n: int, least: int = 0) -> int:
    size = check_int("n", n)
    if size < least:
        raise ShapeError(f"{name_user_call()}: n must be at least {least}, got {size}")
    return size


def toeplitz(c: Operand, r: Operand | None = None) -> Array:
    """Returns matrices with constant diagonals.

    Args:
        c: the first column, `[*batch, n]`.
        r: the first row, `[*batch, m]`, whose first element is not read; the conjugate of c by default.

    Returns:
        An array `[*batch, n, m]`.

    >>> import numpy as np
    >>> toeplitz(np.array([1, 2, 3]), np.array([1, 8, 9])).tolist()
    [[1, 8, 9], [2, 1, 8], [3, 2, 1]]
    """
    column = _check_vector(c, "c")
    row = conj(column) if r is None else _check_vector(r, "r")
    n, m = column.type.shape[-1], row.type.shape[-1]
    i, j = _index_grid(n, m)
    # Below and on the diagonal from the column, above it from the row.
    return _gather_entries(_concatenate_vectors(column, row), np.where(i >= j, i - j, n + j - i))


def hankel(c: Operand, r: Operand | None = None) -> Array:
    """Returns matrices with constant anti-diagonals.

    Args:
        c: the first column, `[*batch, n]`.
        r: the last row, `[*batch, m]`, whose first element is not read; zeros of c's shape by default.

    Returns:
        An array `[*batch, n, m]`.

    >>> import numpy as np
    >>> hankel(np.array([1, 2, 3]), np.array([3, 8, 9])).tolist()
    [[1, 2, 3], [2, 3, 8], [3, 8, 9]]
    """
    column = _check_vector(c, "c")
    row = zeros(column.type.strong()) if r is None else _check_vector(r, "r")
    n, m = column.type.shape[-1], row.type.shape[-1]
    i, j = _index_grid(n, m)
    return _gather_entries(_concatenate_vectors(column, row), np.where(i + j < n, i + j, i + j + 1))


def circulant(c: Operand) -> Array:
    """Returns circulant matrices, whose columns are the first one, `[*batch, n]`, rotated by 0, 1, … elements.

    >>> import numpy as np
    >>> circulant(np.array([1, 2, 3])).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    column = _check_vector(c, "c")
    n = column.type.shape[-1]
    i, j = _index_grid(n, n)
    return _gather_entries(column, (i - j) % max(n, 1))


def companion(a: Operand) -> Array:
    """Returns the companion matrices of polynomials, whose eigenvalues are the roots.

    Args:
        a: coefficients `[*batch, n]`, that of the highest power first, n >= 2.

    Returns:
        An array `[*batch, n - 1, n - 1]`.

    Raises:
        ShapeError: there are fewer than two coefficients.

    >>> import numpy as np
    >>> companion(np.array([1., -3., 2.])).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    x = to_inexact(_check_vector(a, "a", 2))
    top = shaping.expand_dims(-x[..., 1:] / x[..., :1], -2)
    n = x.type.shape[-1] - 1
    below = broadcast_to(asarray(np.eye(n - 1, n), x.type.dtype), (*x.type.shape[:-1], n - 1, n))
    return shaping.concatenate([top, below], -2)


def fiedler_companion(a: Operand) -> Array:
    """Returns a companion matrix of a polynomial with five diagonals (Fiedler, 2003).

    Args:
        a: coefficients `[*batch, n]`, that of the highest power first, n >= 1.

    Returns:
        An array `[*batch, n - 1, n - 1]`.

    Raises:
        ShapeError: there are no coefficients.

    >>> import numpy as np
    >>> fiedler_companion(np.array([1., -3., 2.])).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    x = to_inexact(_check_vector(a, "a", 1))
    batch, size = x.type.shape[:-1], x.type.shape[-1] - 1
    if not size:
        return shaping.reshape(x[..., :0], (*batch, 0, 0))
    x = x / x[..., :1]
    # Zero, one, and the negated coefficients 1 … size, from which each entry is taken.
    constants = broadcast_to(asarray(np.array([0.0, 1.0]), x.type.dtype), (*batch, 2))
    entries = shaping.concatenate([constants, -x[..., 1:]], -1)
    chosen = np.zeros((size, size), np.int32)
    if size == 1:
        return _gather_entries(entries, np.array([[2]]))
    for i in range(0, size - 2, 2):
        chosen[i, i + 2] = 1
    for i in range(1, size - 2, 2):
        chosen[i + 2, i] = 1
    for i in range(0, size - 1, 2):
        chosen[i, i + 1] = i + 3
    for i in range(1, size - 1, 2):
        chosen[i + 1, i] = i + 3
    chosen[0, 0], chosen[1, 0] = 2, 1
    return _gather_entries(entries, chosen)


def convolution_matrix(a: Operand, n: int, mode: str = "full") -> Array:
    """Returns matrices by which the convolution with a vector is a product.

    Args:
        a: vectors `[*batch, m]`, m >= 1.
        n: the number of columns, at least 1.
        mode: "full" for m + n - 1 rows, "same" for max(m, n), "valid" for max(m, n) - min(m, n) + 1.

    Raises:
        ShapeError: a or n is too small, or there is no such mode.

    >>> import numpy as np
    >>> convolution_matrix(np.array([1, 2]), 2).tolist()
    [[1, 0], [2, 1], [0, 2]]
    """
    x, columns = _check_vector(a, "a", 1), _check_size(n, 1)
    m = x.type.shape[-1]
    if mode not in ("full", "same", "valid"):
        raise ShapeError(f"convolution_matrix: mode must be 'full', 'same' or 'valid', got {mode!r}")
    total, most, least = m + columns - 1, max(m, columns), min(m, columns)
    rows = {"full": total, "same": most, "valid": most - least + 1}[mode]
    first = {"full": 0, "same": (total - most) // 2, "valid": least - 1}[mode]
    i, j = _index_grid(rows, columns)
    lag = i + first - j
    padded = _concatenate_vectors(x, zeros(array_type(x.type.dtype, (1,))))
    return _gather_entries(padded, np.where((lag >= 0) & (lag < m), lag, m))


def fiedler(a: Operand) -> Array:
    """Returns the absolute differences of all pairs of elements of vectors `[*batch, n]`.

    >>> import numpy as np
    >>> fiedler(np.array([1, 4, 6])).tolist()
    [[0, 3, 5], [3, 0, 2], [5, 2, 0]]
    """
    x = _check_vector(a, "a")
    return absolute(shaping.expand_dims(x, -1) - shaping.expand_dims(x, -2))


def leslie(f: Operand, s: Operand) -> Array:
    """Returns the Leslie matrix of a population.

    Args:
        f: the birth rate of each age, `[*batch, n]`, n >= 2.
        s: the rate of survivors of each age but the last, `[*batch, n - 1]`.

    Raises:
        ShapeError: sizes do not fit.

    >>> import numpy as np
    >>> leslie(np.array([0., 3., 2.]), np.array([0.5, 0.25])).tolist()
    [[0.0, 3.0, 2.0], [0.5, 0.0, 0.0], [0.0, 0.25, 0.0]]
    """
    births, survivors = promote_dtypes(_check_vector(f, "f", 2), as_operand(s))
    n = births.type.shape[-1]
    if not survivors.type.shape or survivors.type.shape[-1] != n - 1:
        raise ShapeError(
            f"leslie: s must have one element less than f: f is {births.type!r}, s is {survivors.type!r}"
        )
    entries = _concatenate_vectors(
        _concatenate_vectors(births, survivors), zeros(array_type(births.type.dtype, (1,)))
    )
    i, j = _index_grid(n, n)
    return _gather_entries(entries, np.where(i == 0, j, np.where(i == j + 1, n + j, 2 * n - 1)))


def block_diag(*arrs: Operand) -> Array:
    """Returns a matrix with other matrices along its diagonal, and zeros elsewhere; vectors and numbers are rows.

    Raises:
        ShapeError: an operand has more than two axes.

    >>> import numpy as np
    >>> block_diag(np.array([[1, 2], [3, 4]]), 5).tolist()
    [[1, 2, 0], [3, 4, 0], [0, 0, 5]]
    """
    blocks = promote_dtypes(*[as_operand(x) for x in arrs]) if arrs else [asarray(np.zeros((1, 0)))]
    for i, x in enumerate(blocks):
        if x.type.ndim > 2:
            raise ShapeError(f"block_diag: operand {i} must have at most two axes, got {x.type!r}")
    matrices = [shaping.reshape(x, (1,) * (2 - x.type.ndim) + x.type.shape) for x in blocks]
    width = sum([x.type.shape[1] for x in matrices])
    rows: list[Array] = []
    before = 0
    for x in matrices:
        height, size = x.type.shape
        sides = [zeros(array_type(x.type.dtype, (height, n))) for n in (before, width - before - size)]
        rows.append(shaping.concatenate([sides[0], x, sides[1]], 1))
        before += size
    return shaping.concatenate(rows, 0)


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Returns the matrix of the discrete Fourier transformation of n elements.

    Args:
        n: the size.
        scale: None for no scale, "sqrtn" for a unitary matrix, "n" to divide by n.
        dtype: complex; by default the default complex dtype.

    Raises:
        ShapeError: n is negative, or there is no such scale.
        OptionError: the dtype is not complex.

    >>> dft(2).real.round(3).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    size = _check_size(n)
    if scale not in (None, "sqrtn", "n"):
        raise ShapeError(f"dft: scale must be None, 'sqrtn' or 'n', got {scale!r}")
    result_dtype = dtypes.canonicalize_requested(complex if dtype is None else dtype)
    if not dtypes.is_complex(result_dtype):
        raise OptionError(f"dft: dtype must be complex, got {result_dtype}")
    i, j = _index_grid(size, size)
    data = np.exp(-2j * np.pi * (i * j % max(size, 1)) / max(size, 1))
    data /= {None: 1.0, "sqrtn": math.sqrt(max(size, 1)), "n": max(size, 1)}[scale]
    return asarray(data, result_dtype)


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Returns Sylvester's Hadamard matrix of size n, a power of 2: orthogonal rows of 1 and -1.

    Raises:
        ShapeError: n is no power of 2.

    >>> hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    size = check_int("n", n)
    if size < 1 or size & (size - 1):
        raise ShapeError(f"hadamard: n must be a power of 2, got {size}")
    i, j = _index_grid(size, size)
    parity = np.array([[int(x).bit_count() % 2 for x in row] for row in (i & j)])
    return asarray(1 - 2 * parity, dtypes.canonicalize_requested(dtype))


def helmert(n: int, full: bool = False) -> Array:
    """Returns Helmert's matrix of size n, which is orthogonal; without its first row, of equal elements, unless full.

    >>> helmert(2, full=True).round(3).tolist()
    [[0.707..., 0.707...], [0.707..., -0.707...]]
    """
    size = _check_size(n, 1)
    i, j = _index_grid(size, size)
    k = np.maximum(i, 1)
    data = np.where(j < i, 1.0, np.where(j == i, -i * 1.0, 0.0)) / np.sqrt(k * (k + 1.0))
    data[0] = 1 / math.sqrt(size)
    return asarray(data if full else data[1:], dtypes.canonicalize_requested(float))


def hilbert(n: int) -> Array:
    """Returns Hilbert's matrix, 1 / (i + j + 1).

    >>> hilbert(2).tolist()
    [[1.0, 0.5], [0.5, 0.333...]]
    """
    i, j = _index_grid(_check_size(n), n)
    return asarray(1.0 / (i + j + 1), dtypes.canonicalize_requested(float))


def _exact_integers(rows: list[list[int]], n: int) -> Array:
    return asarray(np.array(rows, dtype=np.float64).reshape(n, n), dtypes.canonicalize_requested(float))


def invhilbert(n: int) -> Array:
    """Returns the inverse of Hilbert's matrix, from exact integers.

    >>> invhilbert(2).tolist()
    [[4.0, -6.0], [-6.0, 12.0]]
    """
    size, c = _check_size(n), math.comb
    entries = [
        [
            (-1) ** (i + j)
            * (i + j + 1)
            * c(size + i, size - j - 1)
            * c(size + j, size - i - 1)
            * c(i + j, i) ** 2
            for j in range(size)
        ]
        for i in range(size)
    ]
    return _exact_integers(entries, size)


def _check_kind(kind: str | None) -> str:
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ShapeError(
            f"{name_user_call()}: kind must be 'symmetric', 'lower', 'upper' or None, got {kind!r}"
        )
    return kind or "symmetric"


def pascal(n: int, kind: str | None = None) -> Array:
    """Returns Pascal's matrix of binomial coefficients: "symmetric" (None), or its "lower" or "upper" triangular
    factor.

    >>> pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    size, form = _check_size(n), _check_kind(kind)
    lower = [[math.comb(i, j) for j in range(size)] for i in range(size)]
    upper = [list(row) for row in zip(*lower, strict=True)]
    if form != "symmetric":
        return _exact_integers(lower if form == "lower" else upper, size)
    return _exact_integers([[math.comb(i + j, i) for j in range(size)] for i in range(size)], size)


def invpascal(n: int, kind: str | None = None) -> Array:
    """Returns the inverse of Pascal's matrix, from exact integers. Parameters as for `pascal`.

    >>> invpascal(2).tolist()
    [[2.0, -1.0], [-1.0, 1.0]]
    """
    size, form = _check_size(n), _check_kind(kind)
    lower = [[(-1) ** (i + j) * math.comb(i, j) for j in range(size)] for i in range(size)]
    upper = [list(row) for row in zip(*lower, strict=True)]
    if form != "symmetric":
        return _exact_integers(lower if form == "lower" else upper, size)
    # p = l l^T, so p^-1 = l^-T l^-1.
    product = [
        [sum([upper[i][k] * lower[k][j] for k in range(size)]) for j in range(size)] for i in range(size)
    ]
    return _exact_integers(product, size)
