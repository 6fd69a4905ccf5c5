"""The unitary polar factor of square matrices, by dynamically weighted iterations of Halley's.

Source: Nakatsukasa, Bai and Gygi, "Optimizing Halley's iteration for computing the matrix polar decomposition", 2010.
"""

import math

from effx.array import Array, reducing
from effx.array.arithmetic import absolute, where
from effx.array.promotion import broadcast_to, convert
from effx.array.shaping import concatenate, expand_dims
from effx.families.linalg.cholesky import Cholesky
from effx.families.linalg.matrices import adjoint, eye, multiply, real_type
from effx.families.linalg.qr import Qr
from effx.families.linalg.triangular import TriangularSolve

__all__ = ["compute_halley_weights", "compute_polar_factor"]

CHOLESKY, FORWARD = Cholesky(), TriangularSolve()
BACKWARD = TriangularSolve(transpose_a=True)
# Above this weight a factor of 1 + c x^H x loses too many digits, and QR takes its place.
LARGEST_WEIGHT = 100.0


def compute_halley_weights(smallest: float, precision: float) -> list[tuple[float, float, float]]:
    """Returns the weights (a, b, c) of x (a + b x^H x) / (1 + c x^H x), iteration by iteration.

    They are the best for singular values from `smallest` to 1, which an iteration maps to a shorter interval; the last
    ends within `precision` of 1.

    >>> [round(a, 2) for a, b, c in compute_halley_weights(1e-7, 1e-7)]
    [116960.71, 48.95, 4.22, 3.01]
    """
    weights: list[tuple[float, float, float]] = []
    low = smallest
    while 1 - low > precision:
        square = low * low
        d = math.cbrt(4 * (1 - square) / (square * square))
        root = math.sqrt(1 + d)
        a = root + math.sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        weights.append((a, b, c))
        low = min(low * (a + b * square) / (1 + c * square), 1.0)
    return weights


def compute_polar_factor(a: Array) -> Array:
    """Returns the unitary u of square matrices a = u h, h Hermitian and positive semidefinite.

    Singular values below a rounding of the largest are not turned into 1: their part of u is no part of a unitary
    matrix.
    """
    t = a.type
    precision = 2.0**-23 if real_type(t).dtype.itemsize == 4 else 2.0**-52
    size = absolute(a)
    # The product of the largest sums of columns and rows bounds the largest singular value's square.
    sums = [reducing.max(reducing.sum(size, axis), -1) for axis in (-1, -2)]
    bound = where(sums[0] == 0, 1.0, sums[0] ** 0.5 * sums[1] ** 0.5)
    scale = expand_dims(expand_dims(bound, -1), -1)
    x = a / convert(broadcast_to(scale, t.shape), t.dtype)
    unit = broadcast_to(eye(a), t.shape)
    for a_weight, b_weight, c_weight in compute_halley_weights(precision, precision):
        constant = b_weight / c_weight
        factor = a_weight - constant
        if c_weight > LARGEST_WEIGHT:
            root = math.sqrt(c_weight)
            q, _ = Qr()(concatenate([x * root, unit], -2))
            n = t.shape[-1]
            x = x * constant + multiply(q[..., :n, :], adjoint(q[..., n:, :])) * (factor / root)
        else:
            lower = CHOLESKY(unit + multiply(adjoint(x), x) * c_weight)
            x = x * constant + adjoint(_solve(lower, adjoint(x))) * factor
    return x


def _solve(lower: Array, b: Array) -> Array:
    """Returns the x with l l^H x = b."""
    y = FORWARD(lower, b)
    if lower.type.kind == "c":
        return TriangularSolve(lower=False)(adjoint(lower), y)
    return BACKWARD(lower, y)
