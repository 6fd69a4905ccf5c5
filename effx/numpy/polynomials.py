"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from effx import dtypes, lax
from effx.array import Array, arithmetic, shaping
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, convert, promote_dtypes
from effx.errors import ShapeError, name_user_call
from effx.lax.operands import check_int
from effx.numpy.creation import make_filled
from effx.numpy.filtering import convolve
from effx.numpy.known import known_data
from effx.numpy.padding import pad
from effx.numpy.ranges import arange
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.transforms.custom.custom_rules import SymbolicZero

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = ["polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval"]


def check_coefficients(p: Operand) -> Array:
    """Returns the vector of coefficients."""
    x = as_operand(p)
    if x.type.ndim > 1:
        raise ShapeError(f"{name_user_call()}: coefficients must be a vector, got {x.type!r}")
    return shaping.reshape(x, -1)


def _align_coefficients(a1: Operand, a2: Operand) -> tuple[Array, Array]:
    """Both with as many coefficients, of one dtype."""
    x, y = promote_dtypes(check_coefficients(a1), check_coefficients(a2))
    n, m = x.type.size, y.type.size
    return pad(x, (max(m - n, 0), 0)), pad(y, (max(n - m, 0), 0))


def strip_leading_zeros(p: Array, tolerance: float = 0.0) -> Array:
    """Returns concrete coefficients from the first on that is not 0."""
    unknown = "how many leading zeros the abstract {} has is not known while it is traced"
    data = known_data(p, unknown)
    nonzero_indices = (abs(data) > tolerance).nonzero()[0]
    return p[int(nonzero_indices[0]) if nonzero_indices.size else data.size :]


def polyadd(a1: Operand, a2: Operand) -> Array:
    """The sum of two polynomials.

    Args:
        a1, a2: `[n]` and `[m]` coefficients.

    Returns:
        `[max(n, m)]` coefficients.

    >>> import numpy as np
    >>> polyadd(np.array([1, 2]), np.array([3, 0, 1])).tolist()
    [3, 1, 3]
    """
    x, y = _align_coefficients(a1, a2)
    return x + y


def polysub(a1: Operand, a2: Operand) -> Array:
    """The difference of two polynomials. Arguments as for `polyadd`.

    >>> import numpy as np
    >>> polysub(np.array([1, 2]), np.array([3, 0, 1])).tolist()
    [-3, 1, 1]
    """
    x, y = _align_coefficients(a1, a2)
    return x - y


def polymul(a1: Operand, a2: Operand, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.

    Args:
        a1, a2: `[n]` and `[m]` coefficients.
        trim_leading_zeros: True to leave out the leading zeros of both first, as NumPy does; they must be
            concrete then.

    Returns:
        `[n + m - 1]` coefficients.

    Raises:
        ConcretizationError: zeros of a traced array are to be left out.

    >>> import numpy as np
    >>> polymul(np.array([1, 2]), np.array([1, -2])).tolist()
    [1.0, 0.0, -4.0]
    """
    x, y = promote_dtypes(check_coefficients(a1), check_coefficients(a2))
    if trim_leading_zeros:
        x, y = strip_leading_zeros(x), strip_leading_zeros(y)
    one = make_filled((1,), 0, x.type.dtype)
    x, y = [p if 0 not in p.type.shape else one for p in (x, y)]
    return convolve(x, y)


def polydiv(u: Operand, v: Operand, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the remainder of two polynomials.

    Args:
        u: `[n]` coefficients of the dividend.
        v: `[m]` coefficients of the divisor, whose first is not 0.
        trim_leading_zeros: True to leave out the leading zeros of the remainder, as NumPy does; all must be
            concrete then.

    Returns:
        `[max(n - m + 1, 1)]` coefficients of the quotient, and those of the remainder: `[n]`, unless zeros are
        left out.

    Raises:
        ConcretizationError: zeros of a traced array are to be left out.

    >>> import numpy as np
    >>> [x.tolist() for x in polydiv(np.array([1.0, 5.0, 6.0]), np.array([1.0, 2.0]))]
    [[1.0, 3.0], [0.0, 0.0, 0.0]]
    """
    x, y = promote_dtypes(check_coefficients(u), check_coefficients(v))
    x, y = arithmetic.to_inexact(x), arithmetic.to_inexact(y)
    n, m = x.type.size, y.type.size
    if not m:
        raise ShapeError(f"polydiv: the divisor {y.type!r} has no coefficients")
    quotient: list[Array] = []
    for k in range(n - m + 1):
        factor = x[k] / y[0]
        quotient.append(factor)
        x = x.at[k : k + m].add(-factor * y)
    if trim_leading_zeros:
        x = strip_leading_zeros(x, float(dtypes.finfo(x.type.dtype).eps) ** 0.5)
    return (shaping.stack(quotient, 0) if quotient else make_filled((1,), 0, x.type.dtype)), x


def polyder(p: Operand, m: int = 1) -> Array:
    """The derivative of a polynomial.

    Args:
        p: `[n]` coefficients.
        m: of which order.

    Returns:
        `[max(n - m, 0)]` coefficients.

    Raises:
        ShapeError: the order is negative.

    >>> import numpy as np
    >>> polyder(np.array([1, 3, 2])).tolist()
    [2.0, 3.0]
    """
    order = check_order("m", m)
    x = arithmetic.to_inexact(check_coefficients(p))
    for _ in range(order):
        x = _differentiate_coefficients(x)
    return x


def polyint(p: Operand, m: int = 1, k: Operand | None = None) -> Array:
    """An integral of a polynomial.

    Args:
        p: `[n]` coefficients.
        m: of which order.
        k: constants of integration: one for all orders, or `[m]`; 0 by default.

    Returns:
        `[n + m]` coefficients.

    Raises:
        ShapeError: the order is negative, or the constants do not fit it.

    >>> import numpy as np
    >>> polyint(np.array([2.0, 3.0])).tolist()
    [1.0, 3.0, 0.0]
    """
    order = check_order("m", m)
    constants = as_operand(0 if k is None else k)
    x, constants = promote_dtypes(check_coefficients(p), constants)
    x = arithmetic.to_inexact(x)
    if constants.type.size not in (1, order) or constants.type.ndim > 1:
        raise ShapeError(f"polyint: k must have 1 or {order} elements, got {constants.type!r}")
    constants = broadcast_to(convert(constants, x.type.dtype), (order,))
    for i in range(order):
        n = x.type.size
        powers = convert(arange(n, 0, -1), x.type.dtype)
        x = shaping.concatenate([x / powers, constants[i : i + 1]], 0)
    return x


def check_order(name: str, m: int) -> int:
    """Returns an order or a degree, which must not be negative."""
    order = check_int(name, m)
    if order < 0:
        raise ShapeError(f"{name_user_call()}: the order {name} must not be negative, got {order}")
    return order


def polyval(p: Operand, x: Operand, *, unroll: int | None = None) -> Array:
    """The values of a polynomial, by Horner's scheme.

    Args:
        p: `[n]` coefficients, or `[n, *shape]`, which broadcast against `x`.
        x: where, of any shape.
        unroll: how many steps of the scheme are one iteration of the loop; 16 by default.

    Returns:
        The values, in the shape to which `x` and a coefficient broadcast.

    >>> import numpy as np
    >>> polyval(np.array([1.0, 0.0, 2.0]), np.array([0.0, 3.0])).tolist()
    [2.0, 11.0]
    """
    coefficients, points = promote_dtypes(as_operand(p), as_operand(x))
    if not coefficients.type.ndim:
        raise ShapeError(f"polyval: coefficients must have an axis, got {coefficients.type!r}")
    return _evaluate_polynomial(16 if unroll is None else unroll, coefficients, points)


@partial(custom_jvp, nondiff_argnums=(0,))
def _evaluate_polynomial(unroll: int, coefficients: Array, points: Array) -> Array:
    return _run_horner_scheme(unroll, coefficients, points)


def _run_horner_scheme(unroll: int, coefficients: Array, points: Array) -> Array:
    def step(value: Array, c: Array) -> tuple[Array, None]:
        return value * points + c, None

    shape = broadcast_shapes(coefficients.type.shape[1:], points.type.shape)
    return lax.scan(step, make_filled(shape, 0, points.type.dtype), coefficients, unroll=unroll)[0]


@partial(_evaluate_polynomial.defjvp, symbolic_zeros=True)
def _(
    unroll: int, primals: tuple[Array, Array], tangents: tuple[Array | SymbolicZero, Array | SymbolicZero]
) -> tuple[Array, Array]:
    """The slope is a polynomial too; differentiating the scheme would keep the value of each step."""
    (coefficients, points), (dp, dx) = primals, tangents
    value = _evaluate_polynomial(unroll, coefficients, points)
    changes: list[Array] = []
    if not isinstance(dx, SymbolicZero):
        slopes = _differentiate_coefficients(coefficients)
        changes.append(_evaluate_polynomial(unroll, slopes, points) * dx)
    if not isinstance(dp, SymbolicZero):
        changes.append(_run_horner_scheme(unroll, dp, points))
    return value, changes[0] if len(changes) == 1 else changes[0] + changes[1]


def _differentiate_coefficients(p: Array) -> Array:
    """Returns the coefficients `[n - 1, ...]` of the derivative."""
    powers = arange(p.type.shape[0] - 1, 0, -1)
    return p[:-1] * convert(shaping.reshape(powers, (-1,) + (1,) * (p.type.ndim - 1)), p.type.dtype)
