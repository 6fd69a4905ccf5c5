"""Products of matrices whose elements have a scale for each block of the contracted axis."""

import numpy as np

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import resolve_precision
from effx.array.promotion import as_operand, broadcast_to, convert
from effx.array.shaping import expand_dims, reshape
from effx.dtypes import DTypeLike
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.linalg import DotGeneral

__all__ = ["scaled_matmul"]

WHAT = "scaled_matmul"


def scaled_matmul(
    lhs: Operand,
    rhs: Operand,
    lhs_scales: Operand,
    rhs_scales: Operand,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:
    """Multiplies matrices in blocks of the contracted axis, each block times its scale; sums are in f32.

    Source: Open Compute Project, "Microscaling formats (MX)", 2023.

    Args:
        lhs: `[b, m, k]`. rhs: `[b, n, k]`.
        lhs_scales: `[b, m, i]`, of which each serves `k / i` elements in a row. rhs_scales: `[b, n, j]`.
        preferred_element_type: the result's dtype.

    Returns:
        An array `[b, m, n]`.

    Raises:
        ShapeError: shapes do not fit. DTypeError: there is no such dtype, or an operand is complex.

    >>> x = np.ones((1, 1, 4), np.float16)
    >>> scaled_matmul(x, x, np.array([[[2.0, 3.0]]]), np.ones((1, 1, 1)))
    Array([[[10.]]], dtype=float32)
    """
    a, b, x, y = [as_operand(v) for v in (lhs, rhs, lhs_scales, rhs_scales)]
    if a.type.ndim != 3 or b.type.ndim != 3 or a.type.shape[::2] != b.type.shape[::2]:
        raise ShapeError(f"{WHAT}: lhs must be [b, m, k] and rhs [b, n, k], got {a.type!r} and {b.type!r}")
    left, right = _apply_scales("lhs", a, x), _apply_scales("rhs", b, y)
    product = DotGeneral((2,), (2,), (0,), (0,), resolve_precision(None), dtypes.float32)(left, right)
    return convert(product, dtypes.canonicalize(preferred_element_type))


def _apply_scales(name: str, x: Array, scales: Array) -> Array:
    """Returns an operand in f32, times its scales."""
    shape, blocks = x.type.shape, scales.type.shape[-1] if scales.type.ndim else 0
    if scales.type.shape[:-1] != shape[:-1] or not blocks or shape[-1] % blocks:
        raise ShapeError(
            f"{WHAT}: {name}_scales must be [{shape[0]}, {shape[1]}, i] where i divides {shape[2]}, got {scales.type!r}"
        )
    if "c" in (x.type.kind, scales.type.kind):
        raise DTypeError(f"{WHAT}: takes real numbers, got {x.type!r} and {scales.type!r}")
    cut = (*shape[:-1], blocks, shape[-1] // blocks)
    factors = broadcast_to(expand_dims(convert(scales, dtypes.float32), -1), cut)
    return reshape(reshape(convert(x, dtypes.float32), cut) * factors, shape)
