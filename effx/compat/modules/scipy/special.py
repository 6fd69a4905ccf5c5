"""`jax.scipy.special`: the tables of associated Legendre functions, which JAX is giving up and programs still use."""

import math

import numpy as np

import effx.numpy as enp
from effx import jvp
from effx.array import Array, Operand
from effx.errors import DTypeError, ShapeError, TransformError

__all__ = ["lpmn", "lpmn_values"]


def lpmn_values(m: int, n: int, z: Operand, is_normalized: bool) -> Array:
    """Returns associated Legendre functions of the first kind, of all orders and degrees up to n.

    Source: by degree, l P_l = (2l - 1) z P_(l-1) - (l - 1) P_(l-2) and its kin for other orders, in the normalised form
    of Holmes and Featherstone, "A unified approach to the Clenshaw summation", Journal of Geodesy 76, 2002.

    Args:
        m, n: the largest order and degree, which must be equal.
        z: points from -1 to 1, `f32[k]` or `f64[k]`.
        is_normalized: whether they are factors of orthonormal spherical harmonics.

    Returns:
        An array `[n + 1, n + 1, k]`, by order and degree; 0 where the order is above the degree.

    Raises:
        TransformError: m is not n.
        DTypeError: z is neither f32 nor f64.
        ShapeError: z is no vector.

    >>> import numpy as np
    >>> print(np.asarray(lpmn_values(1, 1, np.float32([0.5]), False))[:, :, 0].round(3))
    [[ 1.     0.5  ]
     [ 0.    -0.866]]
    """
    x = enp.asarray(z)
    if m != n:
        raise TransformError(f"lpmn_values: the largest order must be the largest degree, got {m} and {n}")
    if x.dtype not in (np.float32, np.float64):
        raise DTypeError(f"lpmn_values: z must be f32 or f64, got {x.type!r}")
    if x.ndim != 1:
        raise ShapeError(f"lpmn_values: z must be a vector, got {x.type!r}")
    orders = np.arange(n + 1)
    sine = enp.sqrt(1 - x * x)
    # The diagonal P_m^m, and above it row by row; a row holds all orders of a degree.
    diagonal = [enp.full_like(x, math.sqrt(1 / (4 * math.pi)) if is_normalized else 1)]
    for k in range(1, n + 1):
        factor = math.sqrt((2 * k + 1) / (2 * k)) if is_normalized else 2 * k - 1
        diagonal.append(diagonal[-1] * sine * -factor)
    rows = [enp.zeros((n + 1, x.size), x.dtype).at[0].set(diagonal[0])]
    for degree in range(1, n + 1):
        above = np.maximum(degree - orders, 1)
        if is_normalized:
            grow = np.sqrt((4 * degree**2 - 1) / (above * (degree + orders)))
            lag = np.sqrt(np.maximum((degree - 1) ** 2 - orders**2, 0) / abs(4 * (degree - 1) ** 2 - 1))
        else:
            grow, lag = (2 * degree - 1) / above, (degree + orders - 1) / (2 * degree - 1)
        by, less = [enp.asarray(c * (orders < degree), x.dtype)[:, None] for c in (grow, lag)]
        before = rows[-2] if degree > 1 else enp.zeros_like(rows[-1])
        rows.append((by * (x * rows[-1] - less * before)).at[degree].set(diagonal[degree]))
    return enp.stack(rows, axis=1)


def lpmn(m: int, n: int, z: Operand) -> tuple[Array, Array]:
    """Returns associated Legendre functions of the first kind and their derivatives, as `lpmn_values` does the former.

    >>> import numpy as np
    >>> values, slopes = lpmn(1, 1, np.float32([0.5]))
    >>> print(slopes[:, :, 0].round(3))
    [[0.    1.   ]
     [0.    0.577]]
    """
    x = enp.asarray(z)
    values, slopes = jvp(lambda x: lpmn_values(m, n, x, False), (x,), (enp.ones_like(x),))
    return values, slopes
