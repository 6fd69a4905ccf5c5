"""Polynomials by Horner's rule."""

from collections.abc import Iterable
from functools import partial
from operator import index

from effx.array import Array, Operand
from effx.array.promotion import as_operand, broadcast_shapes, broadcast_to, promote_dtypes, zeros
from effx.errors import ShapeError
from effx.ir.values.scalars import scalar
from effx.lax.control.scans import scan
from effx.lax.shape import concatenate, expand_dims
from effx.transforms.custom.custom_derivatives import custom_jvp

__all__ = ["polynomial"]

UNROLLED = 8


def polynomial(x: Operand, coeffs: Iterable[Operand], *, unroll: int | None = None) -> Array:
    """Returns `coeffs[0] + coeffs[1] * x + … + coeffs[n] * x**n`.

    The derivative in x is a polynomial again, so higher derivatives cost no more than the first.

    Args:
        x: of any shape; integer, floating or complex.
        coeffs: from the lowest degree to the highest: numbers, scalars, or arrays of x's rank whose axes of size 1
            repeat. Dtypes are promoted. Without any the result is 0.
        unroll: of more terms than this a loop is made; 8 by default.

    Returns:
        An array of the common shape and dtype.

    Raises:
        ShapeError: a coefficient has another rank, shapes do not fit, or `unroll` is negative.

    >>> polynomial(3.0, [1.0, 5.0, 2.0])
    Array(34., dtype=float32, weak_type=True)
    """
    coefficients = [as_operand(c) for c in coeffs]
    array = as_operand(x)
    ranks = sorted({a.type.ndim for a in (array, *coefficients)} - {0})
    if len(ranks) > 1:
        raise ShapeError(f"polynomial: operands must be scalars or of one rank, got the ranks {ranks}")
    limit = UNROLLED if unroll is None else index(unroll)
    if limit < 0:
        raise ShapeError(f"polynomial: unroll must not be negative, got {limit}")
    array, *terms = promote_dtypes(array, *coefficients)
    shape = broadcast_shapes(*[a.type.shape for a in (array, *terms)])
    if not terms:
        return broadcast_to(scalar(0, array.type.dtype, array.type.weak), shape)
    return broadcast_to(_horner(limit, array, tuple(terms)), shape)


@partial(custom_jvp, nondiff_argnums=(0,))
def _horner(limit: int, x: Array, terms: tuple[Array, ...]) -> Array:
    if len(terms) <= max(limit, 1) or len(terms) == 1:
        result: Array = terms[-1]
        for term in terms[-2::-1]:
            result = result * x + term
        return result
    shape = broadcast_shapes(x.type.shape, *[c.type.shape for c in terms])
    rows = concatenate([expand_dims(broadcast_to(c, shape), (0,)) for c in terms[-2::-1]], 0)
    dtype = x.type.dtype
    first = broadcast_to(terms[-1], shape).astype(dtype)
    result, _ = scan(lambda total, row: (total * x + row, None), first, rows.astype(dtype))
    return result


def _polynomial_jvp(
    limit: int, primals: tuple[Array, tuple[Array, ...]], tangents: tuple[object, tuple[object, ...]]
) -> tuple[Array, Array]:
    (x, terms), (dx, dterms) = primals, tangents
    y: Array = _horner(limit, x, terms)
    parts: list[Array] = []
    if len(terms) > 1 and isinstance(dx, Array):
        parts.append(_horner(limit, x, tuple([c * k for k, c in enumerate(terms)][1:])) * dx)
    if any([isinstance(d, Array) for d in dterms]):
        moved = [d if isinstance(d, Array) else zeros(c.type) for c, d in zip(terms, dterms, strict=True)]
        parts.append(_horner(limit, x, tuple(moved)))
    dy = sum(parts[1:], parts[0]) if parts else zeros(y.type)
    return y, broadcast_to(dy, y.type.shape)


_horner.defjvp(_polynomial_jvp, symbolic_zeros=True)
