"""Solutions of linear systems, inverses, determinants, ranks and powers."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from effx import dtypes
from effx.array import Array, Operand, arithmetic, reducing, shaping
from effx.array.arithmetic import absolute, conj
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, convert, refuse_mixed_dtypes
from effx.array.triangles import band_mask
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.families.linalg.eigen import Pinv, Svd
from effx.families.linalg.lu import Det, Slogdet, Solve, sign_and_log
from effx.families.linalg.matrices import check_matrix, diagonal, multiply
from effx.families.linalg.qr import Geqrf, Qr
from effx.ir.sizes.dimensions import is_symbolic
from effx.lax.convert import stop_gradient
from effx.lax.operands import check_int
from effx.numpy import einsums
from effx.numpy.linalg.factors import eigvalsh, svdvals
from effx.numpy.linalg.operands import kernel_operands
from effx.transforms.jit.jit import jit

__all__ = [
    "det", "inv", "lstsq", "matrix_power", "matrix_rank", "multi_dot", "pinv", "slogdet", "solve", "tensorinv",
    "tensorsolve",
]  # fmt: skip


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Array
    logabsdet: Array


@jit(inline=True)
def solve(a: Operand, b: Operand) -> Array:
    """Returns the x with a x = b, by LU factorisation.

    Args:
        a: `[*batch, n, n]`.
        b: a vector `[n]`, or matrices `[*batch, n, k]`; batch axes broadcast.

    Returns:
        An array `[*batch, n]` or `[*batch, n, k]`.

    Raises:
        ShapeError: a is not of square matrices, or sizes do not fit.

    >>> import numpy as np
    >>> solve(np.array([[2., 0.], [0., 4.]]), np.array([2., 2.])).tolist()
    [1.0, 0.5]
    """
    refuse_mixed_dtypes(a, b)
    (x, y), back = kernel_operands(a, b)
    check_matrix(x.type, "a", square=True)
    s, t = x.type, y.type
    if not t.ndim or t.shape[-1 if t.ndim == 1 else -2] != s.shape[-1]:
        raise ShapeError(f"solve: b must have {s.shape[-1]} rows, as a: a is {s!r}, b is {t!r}")
    if t.ndim == 1:
        sides = broadcast_to(shaping.expand_dims(y, -1), (*s.shape[:-1], 1))
        return back(shaping.squeeze(Solve()(x, sides), -1))
    if s.ndim == 2 and t.ndim > 2:
        # One matrix is factorised once, for all columns.
        columns = shaping.moveaxis(y, -2, 0)
        solution = Solve()(x, shaping.reshape(columns, (t.shape[-2], -1)))
        return back(shaping.moveaxis(shaping.reshape(solution, columns.type.shape), 0, -2))
    batch = broadcast_shapes(s.shape[:-2], t.shape[:-2])
    return back(Solve()(broadcast_to(x, (*batch, *s.shape[-2:])), broadcast_to(y, (*batch, *t.shape[-2:]))))


@jit(inline=True)
def inv(a: Operand) -> Array:
    """Returns the inverses of matrices; `solve` is faster and more precise for a product with one.

    Args:
        a: `[*batch, n, n]`.

    Raises:
        ShapeError: a is not of square matrices.

    >>> import numpy as np
    >>> inv(np.array([[2., 0.], [0., 4.]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    (x,), back = kernel_operands(a)
    check_matrix(x.type, square=True)
    unit = convert(band_mask(x.type.shape[-2:], 0, "EQ"), x.type.dtype)
    return back(Solve()(x, broadcast_to(unit, x.type.shape)))


@jit(inline=True)
def det(a: Operand) -> Array:
    """Returns the determinants of matrices, with derivatives where they are 0 too.

    Args:
        a: `[*batch, n, n]`.

    Returns:
        An array `[*batch]`.

    Raises:
        ShapeError: a is not of square matrices.

    >>> import numpy as np
    >>> float(det(np.array([[2., 1.], [0., 4.]])))
    8.0
    """
    (x,), back = kernel_operands(a)
    check_matrix(x.type, square=True)
    n = x.type.shape[-1]
    return back(_leibniz_determinant(x) if not is_symbolic(n) and 1 <= n <= 3 else Det()(x))


def _leibniz_determinant(a: Array) -> Array:
    """Returns determinants of at most three rows as the sum over the permutations of columns."""
    n = a.type.shape[-1]
    if n == 1:
        return a[..., 0, 0]
    if n == 2:
        return a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1] * a[..., 1, 0]
    return (
        a[..., 0, 0] * (a[..., 1, 1] * a[..., 2, 2] - a[..., 1, 2] * a[..., 2, 1])
        - a[..., 0, 1] * (a[..., 1, 0] * a[..., 2, 2] - a[..., 1, 2] * a[..., 2, 0])
        + a[..., 0, 2] * (a[..., 1, 0] * a[..., 2, 1] - a[..., 1, 1] * a[..., 2, 0])
    )


@jit(static_argnames=("method",), inline=True)
def slogdet(a: Operand, *, method: str | None = None) -> SlogdetResult:
    """Returns signs and logarithms of determinants, which do not overflow.

    Args:
        a: `[*batch, n, n]`.
        method: "lu" or "qr", by which factors; None for "lu".

    Returns:
        A named tuple of signs, or complex numbers of absolute value 1, and logarithms, each `[*batch]`; 0 and
        minus infinity for singular matrices.

    Raises:
        ShapeError: a is not of square matrices, or there is no such method.
        DTypeError: complex matrices with method "qr".

    >>> import numpy as np
    >>> sign, log = slogdet(np.array([[2., 0.], [0., -4.]]))
    >>> float(sign), round(float(log), 4)
    (-1.0, 2.0794)
    """
    (x,), back = kernel_operands(a)
    check_matrix(x.type, square=True)
    if method not in (None, "lu", "qr"):
        raise ShapeError(f"slogdet: method must be 'lu', 'qr' or None, got {method!r}")
    if method != "qr":
        sign, log = Slogdet()(x)
        return SlogdetResult(back(sign), back(log))
    if x.type.kind == "c":
        raise DTypeError(f"slogdet: method 'qr' is for real matrices, got {x.type!r}; use 'lu'")
    # Each reflection changes the sign.
    has_reflection = convert(Geqrf()(stop_gradient(x))[1] != 0, dtypes.int32)
    sign, log = sign_and_log(diagonal(Qr()(x)[1]), 1 - 2 * (reducing.sum(has_reflection, -1) % 2))
    return SlogdetResult(back(sign), back(log))


def _resolve_cutoff(rtol: Operand | None, other: str, alias: Operand | None, default: float) -> Operand:
    if rtol is not None and alias is not None:
        raise ShapeError(f"{name_user_call()}: rtol and {other} are the same parameter; give one")
    return next((x for x in (rtol, alias) if x is not None), default)


@jit(static_argnames=("hermitian",), inline=True)
def pinv(
    a: Operand, rtol: Operand | None = None, hermitian: bool = False, *, rcond: Operand | None = None
) -> Array:
    """Returns the pseudo-inverses of matrices, by singular values.

    Its derivative is that of matrices of the same rank, also where singular values are equal (Golub and Pereyra, 1973).

    Args:
        a: `[*batch, m, n]`.
        rtol: singular values below this part of the largest one count as 0; `[*batch]` or a number, by default ten
            times the larger size and the dtype's resolution.
        hermitian: True promises that a is Hermitian.
        rcond: another name of rtol.

    Returns:
        An array `[*batch, n, m]`.

    Raises:
        ShapeError: a is not of matrices, or rtol and rcond are given.

    >>> import numpy as np
    >>> pinv(np.array([[2., 0.], [0., 0.]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    (x,), back = kernel_operands(a)
    check_matrix(x.type, square=hermitian)
    eps = 10.0 * max(x.type.shape[-2:]) * float(dtypes.finfo(x.type.dtype).eps)
    cutoff = convert(
        as_operand(_resolve_cutoff(rtol, "rcond", rcond, eps)),
        dtypes.real_dtype(x.type.dtype),
    )
    return back(Pinv(hermitian)(x, broadcast_to(cutoff, x.type.shape[:-2])))


@jit(static_argnames=("hermitian",), inline=True)
def matrix_rank(
    M: Operand, rtol: Operand | None = None, *, hermitian: bool = False, tol: Operand | None = None
) -> Array:
    """Returns the number of singular values that are not 0.

    Args:
        M: `[*batch, m, n]`; of vectors and numbers the rank is 1, or 0 for zeros.
        rtol: singular values up to this part of the largest one count as 0; `[*batch]` or a number, by default the
            larger size times the dtype's resolution.
        hermitian: True promises that M is Hermitian.
        tol: another name of rtol.

    Returns:
        Integers `[*batch]`.

    Raises:
        ShapeError: rtol and tol are given.

    >>> import numpy as np
    >>> int(matrix_rank(np.ones((3, 3))))
    1
    """
    (x,), _ = kernel_operands(M)
    t = x.type
    if t.ndim < 2:
        return convert(reducing.any(x != 0), dtypes.canonicalize(int))
    eps = float(max(t.shape[-2:])) * float(dtypes.finfo(t.dtype).eps)
    bound = as_operand(_resolve_cutoff(rtol, "tol", tol, eps))
    s = absolute(eigvalsh(x)) if hermitian else svdvals(x)
    most = reducing.max(s, -1, initial=0) * bound
    return reducing.sum(convert(s > shaping.expand_dims(most, -1), dtypes.canonicalize(int)), -1)


def lstsq(
    a: Operand, b: Operand, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Returns the x of least length that makes the length of a x - b least, by singular values.

    Args:
        a: `[m, n]`.
        b: `[m]` or `[m, k]`.
        rcond: singular values below this part of the largest one count as 0; by default the larger size times the
            dtype's resolution, and so for negative ones.
        numpy_resid: True for no residuals, as in NumPy, where a has not the rank n or not more rows than columns.

    Returns:
        x `[n]` or `[n, k]`; the sums of squared residuals `[1]` or `[k]`; the rank of a; its singular values.

    Raises:
        ShapeError: a is no matrix, or sizes do not fit.

    >>> import numpy as np
    >>> x, residuals, rank, s = lstsq(np.array([[1., 0.], [1., 1.], [1., 2.]]), np.array([1., 3., 5.]))
    >>> x.round(3).tolist(), int(rank)
    ([1.0, 2.0], 2)
    """
    refuse_mixed_dtypes(a, b)
    default = rcond is None or rcond < 0
    solution, residuals, rank, values = _least_squares(a, b, None if default else rcond)
    if numpy_resid:
        m, n = as_operand(a).type.shape
        residuals = residuals[:0] if m <= n or int(rank) < n else residuals
    return solution, residuals, rank, values


@jit(inline=True)
def _least_squares(a: Operand, b: Operand, rcond: Operand | None) -> tuple[Array, Array, Array, Array]:
    (x, y), back = kernel_operands(a, b)
    s, t = x.type, y.type
    check_matrix(s, "a")
    if s.ndim != 2 or t.ndim not in (1, 2) or t.shape[0] != s.shape[0]:
        raise ShapeError(
            f"lstsq: a must be a matrix, and b a vector or matrix of as many rows: a is {s!r}, b is {t!r}"
        )
    sides = shaping.expand_dims(y, -1) if t.ndim == 1 else y
    smallest = max(s.shape) * float(dtypes.finfo(s.dtype).eps) if rcond is None else rcond
    cutoff = convert(as_operand(smallest), dtypes.real_dtype(s.dtype))
    values = Svd(vectors=False)(x)[0]
    most = reducing.max(values, -1, initial=0)
    rank = reducing.sum(convert((values > 0) & (values >= cutoff * most), dtypes.int32))
    solution = multiply(Pinv()(x, cutoff), sides)
    gap = sides - multiply(x, solution)
    residuals = reducing.sum(arithmetic.real(gap * conj(gap)), 0)
    return (
        back(shaping.squeeze(solution, -1) if t.ndim == 1 else solution),
        back(residuals),
        rank,
        back(values),
    )


def matrix_power(a: Operand, n: int) -> Array:
    """Returns powers of matrices, by repeated squaring.

    Args:
        a: `[*batch, m, m]`.
        n: an int; negative ones are powers of the inverses.

    Raises:
        ShapeError: a is not of square matrices.

    >>> import numpy as np
    >>> matrix_power(np.array([[1., 1.], [0., 1.]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    x, power = as_operand(a), check_int("n", n)
    t = x.type
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise ShapeError(f"matrix_power: operand must be square in its last two axes, got {t!r}")
    if power < 0:
        x, power = inv(x), -power
    if power == 0:
        return broadcast_to(convert(band_mask(t.shape[-2:], 0, "EQ"), x.type.dtype), t.shape)
    result: Array | None = None
    while True:
        if power % 2:
            result = x if result is None else result @ x
        power //= 2
        if not power:
            assert result is not None
            return result
        x = x @ x


def multi_dot(arrays: Sequence[Operand], *, precision: object = None) -> Array:
    """Returns the product of matrices in the order that takes the fewest operations.

    Args:
        arrays: at least two matrices; the first and the last may be vectors.
        precision: of the products, for accelerators.

    Raises:
        ShapeError: there are fewer than two arrays, or one is no matrix.

    >>> import numpy as np
    >>> multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones(4)]).tolist()
    [12.0, 12.0]
    """
    operands = [as_operand(x) for x in arrays]
    if len(operands) < 2:
        raise ShapeError(f"multi_dot: needs at least two arrays, got {len(operands)}")
    for i, x in enumerate(operands):
        ends = i in (0, len(operands) - 1)
        if x.type.ndim != 2 and not (ends and x.type.ndim == 1):
            raise ShapeError(f"multi_dot: array {i} must be a matrix{' or a vector' * ends}, got {x.type!r}")
    terms, result = [], ""
    letters = [chr(ord("a") + i) if i < 26 else chr(ord("A") + i - 26) for i in range(len(operands) + 1)]
    for i, x in enumerate(operands):
        pair = letters[i] + letters[i + 1]
        terms.append(pair if x.type.ndim == 2 else pair[1] if i == 0 else pair[0])
    result = "".join(
        [letters[0]] * (operands[0].type.ndim == 2) + [letters[-1]] * (operands[-1].type.ndim == 2)
    )
    return einsums.einsum(f"{','.join(terms)}->{result}", *operands, optimize="optimal", precision=precision)


def tensorinv(a: Operand, ind: int = 2) -> Array:
    """Returns the inverse of an array as a linear map: `tensordot(tensorinv(a, ind), a, ind)` is the identity.

    Args:
        a: of which the first `ind` sizes have the same product as the others.
        ind: the number of axes of the map's values.

    Raises:
        ShapeError: the products differ, or ind is not positive.

    >>> import numpy as np
    >>> tensorinv(np.eye(6).reshape(6, 2, 3), 1).shape
    (2, 3, 6)
    """
    x, count = as_operand(a), check_int("ind", ind)
    shape = x.type.shape
    if count <= 0 or math.prod(shape[:count]) != math.prod(shape[count:]):
        raise ShapeError(
            f"tensorinv: the first ind={count} sizes must have the same product as the others, got {x.type!r}"
        )
    flat = inv(shaping.reshape(x, (math.prod(shape[:count]), -1)))
    return shaping.reshape(flat, (*shape[count:], *shape[:count]))


def tensorsolve(a: Operand, b: Operand, axes: tuple[int, ...] | None = None) -> Array:
    """Returns the x with `tensordot(a, x, x.ndim) == b`.

    Args:
        a: of which the last sizes, those of x, have the same product as b's shape.
        b: of the first sizes of a.
        axes: axes of a to move to the end first.

    Raises:
        ShapeError: the products differ.

    >>> import numpy as np
    >>> tensorsolve(np.eye(6).reshape(2, 3, 6), np.ones((2, 3))).shape
    (6,)
    """
    x, y = as_operand(a), as_operand(b)
    if axes is not None:
        x = shaping.moveaxis(x, axes, range(x.type.ndim - len(axes), x.type.ndim))
    shape = x.type.shape[y.type.ndim :]
    if math.prod(shape) != y.type.size or x.type.shape[: y.type.ndim] != y.type.shape:
        raise ShapeError(f"tensorsolve: a must have b's sizes first and then sizes of the same product: "
                         f"a is {x.type!r}, b is {y.type!r}")  # fmt: skip
    return shaping.reshape(solve(shaping.reshape(x, (-1, math.prod(shape))), shaping.reshape(y, -1)), shape)
