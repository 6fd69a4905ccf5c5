"""Polar decomposition by Halley's iteration."""

from operator import index

from effx import dtypes
from effx.array import Array, Operand, arithmetic, shaping
from effx.array.promotion import broadcast_to, convert
from effx.dtypes import real_dtype
from effx.errors import ShapeError
from effx.families.linalg.matrices import adjoint, check_matrix, multiply
from effx.families.linalg.qr import Qr
from effx.ir.ops.shape import Iota
from effx.ir.types import array_type
from effx.ir.values.scalars import scalar
from effx.lax.control.loops import while_loop
from effx.lax.elementwise.arithmetic import max as maximum
from effx.lax.elementwise.exponential import cbrt, sqrt
from effx.lax.linalg.operands import widen_operands

__all__ = ["qdwh"]

Carry = tuple[Array, Array, Array, Array]


def qdwh(
    x: Operand,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Returns the polar decomposition of a matrix: x = u h with orthonormal columns of u and positive semidefinite h.

    Source: Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration for computing the matrix polar decomposition",
    2010: the weights grow with what is known of the smallest singular value, so about six iterations are enough.

    Args:
        x: `[m, n]` with m >= n, floating or complex, of full rank.
        is_hermitian: True if x is Hermitian; u is made so too.
        max_iterations: after how many to stop in any case, 10 by default.
        eps: the unit of the error, by default the dtype's own: the iteration ends where all singular values are near 1
            and u changes by less than (4 eps)^(1/3) of its norm.
        dynamic_shape: the shape of the matrix in the upper left corner, if the rest is not part of it.

    Returns:
        u `[m, n]`, h `[n, n]`, the number of iterations, and whether they came to an end before the last one.

    Raises:
        ShapeError: x is no matrix, has fewer rows than columns, or is smaller than `dynamic_shape`.
        DTypeError: x is neither floating nor complex.

    >>> import numpy as np
    >>> u, h, _, converged = qdwh(np.array([[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]], np.float32))
    >>> u[:2].diagonal().round(3), h.diagonal().round(3), bool(converged)
    (Array([1., 1.], dtype=float32), Array([2., 4.], dtype=float32), True)
    """
    (a,), back = widen_operands(x)
    check_matrix(a.type, "x")
    if a.type.ndim != 2 or a.type.shape[0] < a.type.shape[1]:
        raise ShapeError(f"qdwh: x must be one matrix with at least as many rows as columns, got {a.type!r}")
    m, n = a.type.shape
    if dynamic_shape is not None:
        rows, columns = dynamic_shape
        a = _zero_beyond(_zero_beyond(a, rows, 0), columns, 1)
    real = real_dtype(a.type.dtype)
    unit = float(dtypes.finfo(real).eps) if eps is None else float(eps)
    limit = 10 if max_iterations is None else index(max_iterations)
    size = arithmetic.absolute(a)
    # At least the largest singular value, and more than 0.
    norm = sqrt(size.sum(0).max(initial=0.0) * size.sum(1).max(initial=0.0))
    scale = arithmetic.where(norm > 0, norm, 1.0)
    threshold = (4 * unit) ** (1 / 3)

    # A step with too low a bound hardly changes what is far above it, so the bound must have come near 1 as well.
    def is_done(low: Array, change: Array) -> Array:
        done: Array = (change <= threshold) & (low > 0.99)
        return done

    def goes_on(carry: Carry) -> Array:
        _, low, done, change = carry
        return (done < limit) & ~is_done(low, change)

    def iteration(carry: Carry) -> Carry:
        u, low, done, _ = carry
        after, low = _halley_step(u, low)
        if is_hermitian and m == n:
            after = (after + adjoint(after)) * 0.5
        return (
            after,
            low,
            done + 1,
            _matrix_norm(after - u) / maximum(_matrix_norm(after), scalar(unit, real)),
        )

    start = (
        a / convert(scale, a.type.dtype),
        scalar(float(dtypes.finfo(real).eps), real, False),
        scalar(0, dtypes.int32, False),
        scalar(float("inf"), real, False),
    )
    u, low, done, change = while_loop(goes_on, iteration, start)
    h = multiply(adjoint(u), a)
    return back(u), back((h + adjoint(h)) * 0.5), done, is_done(low, change)


def _zero_beyond(x: Array, size: int, axis: int) -> Array:
    """Returns x with zeros from an index on."""
    if not 0 <= size <= x.type.shape[axis]:
        raise ShapeError(f"qdwh: dynamic_shape must fit into x {x.type!r}, got {size} for axis {axis}")
    positions = Iota(array_type(dtypes.int32, x.type.shape), axis)()
    return arithmetic.where(positions < size, x, scalar(0, x.type.dtype))


def _matrix_norm(x: Array) -> Array:
    size = arithmetic.absolute(x)
    return sqrt((size * size).sum())


def _halley_step(u: Array, low: Array) -> tuple[Array, Array]:
    """One iteration u (a + b u^H u) (1 + c u^H u)^-1, by a QR factorisation; `low` is at most the least singular value."""
    n = u.type.shape[1]
    square = low * low
    d = cbrt(4.0 * (1.0 - square) / (square * square))
    root = sqrt(1.0 + d)
    a = root + 0.5 * sqrt(8.0 - 4.0 * d + 8.0 * (2.0 - square) / (square * root))
    b = (a - 1.0) * (a - 1.0) * 0.25
    c = a + b - 1.0
    unit = broadcast_to(Iota(array_type(dtypes.int32, (n,)), 0)(), (n, n))
    identity = convert(unit == shaping.transpose(unit, (1, 0)), u.type.dtype)
    dtype = u.type.dtype
    q = Qr()(shaping.concatenate([u * convert(sqrt(c), dtype), identity], 0))[0]
    upper, lower = q[: u.type.shape[0]], q[u.type.shape[0] :]
    step = u * convert(b / c, dtype) + multiply(upper, adjoint(lower)) * convert((a - b / c) / sqrt(c), dtype)
    # Rounding must not carry it beyond 1, where the weights are no longer real.
    return step, arithmetic.minimum(low * (a + b * square) / (1.0 + c * square), scalar(1.0, low.type.dtype))
