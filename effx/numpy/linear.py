"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from effx.array import Array, arithmetic, indexing, reducing, shaping
from effx.array.arithmetic import resolve_precision, resolve_preferred_dtype
from effx.array.promotion import (
    as_operand,
    broadcast_shapes,
    broadcast_to,
    promote_factors,
    refuse_mixed_dtypes,
)
from effx.array.shaping import normalize_axis
from effx.dtypes import DTypeLike
from effx.errors import ShapeError
from effx.ir.ops.linalg import DotGeneral
from effx.ir.values.parameters import DT, K, M, N
from effx.lax.operands import check_int
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

if TYPE_CHECKING:
    from effx.array import Operand, Scalar

__all__ = [
    "cross", "dot", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "trace", "vdot", "vecdot",
    "vecmat",
]  # fmt: skip


@overload
def dot(
    a: Array[DT, N],
    b: Array[DT, N],
    *,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: OutSharding = None,
) -> Scalar[DT]: ...
@overload
def dot(
    a: Array[DT, N, K],
    b: Array[DT, K, M],
    *,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: OutSharding = None,
) -> Array[DT, N, M]: ...
@overload
def dot(
    a: Array[DT, N, K],
    b: Array[DT, K],
    *,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: OutSharding = None,
) -> Array[DT, N]: ...
@overload
def dot(
    a: Array[DT, K],
    b: Array[DT, K, M],
    *,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: OutSharding = None,
) -> Array[DT, M]: ...
@overload
def dot(
    a: Operand,
    b: Operand,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array: ...
def dot(
    a: Operand,
    b: Operand,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """NumPy's dot: sums over the last axis of a and the second to last (or only) axis of b.

    Args:
        a, b: arrays; scalars multiply.
        precision: "default", "high" or "highest"; a pair for both operands.
        preferred_element_type: the dtype of the sums and of the result.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    >>> float(dot(np.ones(3), np.ones(3)))
    3.0
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding, dot, a, b, precision=precision, preferred_element_type=preferred_element_type
        )
    return arithmetic.dot(as_operand(a), as_operand(b), precision, preferred_element_type)


@overload
def matmul(
    a: Array[DT, N],
    b: Array[DT, N],
    *,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: OutSharding = None,
) -> Scalar[DT]: ...
@overload
def matmul(
    a: Array[DT, N, K],
    b: Array[DT, K, M],
    *,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: OutSharding = None,
) -> Array[DT, N, M]: ...
@overload
def matmul(
    a: Array[DT, N, K],
    b: Array[DT, K],
    *,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: OutSharding = None,
) -> Array[DT, N]: ...
@overload
def matmul(
    a: Array[DT, K],
    b: Array[DT, K, M],
    *,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: OutSharding = None,
) -> Array[DT, M]: ...
@overload
def matmul(
    a: Operand,
    b: Operand,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array: ...
def matmul(
    a: Operand,
    b: Operand,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """The matrix product `a @ b` over the last two axes; further axes broadcast. Options as for `dot`.

    >>> matmul(np.ones((2, 3)), np.ones((3, 4))).shape
    (2, 4)
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding, matmul, a, b, precision=precision, preferred_element_type=preferred_element_type
        )
    return arithmetic.matmul(as_operand(a), as_operand(b), precision, preferred_element_type)


def vdot(
    a: Operand, b: Operand, *, precision: object = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """The sum of products of all elements, those of a conjugated. Options as for `dot`.

    >>> complex(vdot(np.array([1j]), np.array([1j])))
    (1+0j)
    """
    x, y = arithmetic.conj(as_operand(a)), as_operand(b)
    return arithmetic.dot(shaping.reshape(x, -1), shaping.reshape(y, -1), precision, preferred_element_type)


def vecdot(
    x1: Operand,
    x2: Operand,
    /,
    *,
    axis: int = -1,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sums of products along an axis, the first conjugated; other axes broadcast. Options as for `dot`.

    >>> vecdot(np.ones((2, 3)), np.ones(3)).tolist()
    [3.0, 3.0]
    """
    a, b = promote_factors(as_operand(x1), as_operand(x2), preferred=preferred_element_type)
    a, b = (shaping.moveaxis(x, normalize_axis(axis, x.type.ndim, x.type), -1) for x in (a, b))
    if a.type.shape[-1] != b.type.shape[-1]:
        raise ShapeError(f"vecdot: sizes along the axis differ: {a.type.shape[-1]} and {b.type.shape[-1]}")
    shape = broadcast_shapes(a.type.shape, b.type.shape)
    a, b = broadcast_to(arithmetic.conj(a), shape), broadcast_to(b, shape)
    k = len(shape) - 1
    batch = tuple(range(k))
    op = DotGeneral(
        (k,),
        (k,),
        batch,
        batch,
        resolve_precision(precision),
        resolve_preferred_dtype(preferred_element_type),
    )
    return op(a, b)


def matvec(x1: Operand, x2: Operand, /) -> Array:
    """Products of matrices and vectors; axes before broadcast.

    >>> matvec(np.ones((2, 3)), np.ones(3)).tolist()
    [3.0, 3.0]
    """
    vector = shaping.expand_dims(as_operand(x2), -1)
    return shaping.squeeze(arithmetic.matmul(as_operand(x1), vector), -1)


def vecmat(x1: Operand, x2: Operand, /) -> Array:
    """Products of conjugated vectors and matrices; axes before broadcast.

    >>> vecmat(np.ones(2), np.ones((2, 3))).tolist()
    [2.0, 2.0, 2.0]
    """
    vector = shaping.expand_dims(arithmetic.conj(as_operand(x1)), -2)
    return shaping.squeeze(arithmetic.matmul(vector, as_operand(x2)), -2)


def inner(
    a: Operand, b: Operand, *, precision: object = None, preferred_element_type: DTypeLike | None = None
) -> Array:
    """Sums of products over the last axes of both; scalars multiply. Options as for `dot`.

    >>> inner(np.ones((2, 3)), np.ones((4, 3))).shape
    (2, 4)
    """
    refuse_mixed_dtypes(a, b)
    x, y = as_operand(a), as_operand(b)
    if not x.type.shape or not y.type.shape:
        return arithmetic.dot(x, y, precision, preferred_element_type)
    return tensordot(x, y, (-1, -1), precision=precision, preferred_element_type=preferred_element_type)


def outer(a: Operand, b: Operand, out: None = None) -> Array:
    """All products of an element of a and one of b.

    >>> outer(np.array([1, 2]), np.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    refuse_mixed_dtypes(a, b)
    if out is not None:
        raise ShapeError("outer: arrays are immutable, so out= is not supported; use the result")
    x, y = as_operand(a), as_operand(b)
    return shaping.reshape(x, (-1, 1)) * shaping.reshape(y, (1, -1))


def tensordot(
    a: Operand,
    b: Operand,
    axes: int | Sequence[int | Sequence[int]] = 2,
    *,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Sums of products over pairs of axes.

    Args:
        a, b: arrays.
        axes: the number of last axes of a and first axes of b, or (axes of a, axes of b).
        precision, preferred_element_type: as for `dot`.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Raises:
        ShapeError: the axes do not pair, or their sizes differ.

    >>> tensordot(np.ones((2, 3)), np.ones((3, 4)), 1).shape
    (2, 4)
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding,
            tensordot,
            a,
            b,
            axes,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
    x, y = promote_factors(as_operand(a), as_operand(b), preferred=preferred_element_type)
    left: tuple[int, ...]
    right: tuple[int, ...]
    if isinstance(axes, int | np.integer):
        n = int(axes)
        if not 0 <= n <= min(x.type.ndim, y.type.ndim):
            raise ShapeError(f"tensordot: cannot contract {n} axes of {x.type!r} and {y.type!r}")
        left, right = tuple(range(x.type.ndim - n, x.type.ndim)), tuple(range(n))
    else:
        if not hasattr(axes, "__len__") or len(axes) != 2:
            raise ShapeError(f"tensordot: axes must be an int or a pair, got {axes!r}")
        pair = [tuple(side) if isinstance(side, Sequence) else (side,) for side in axes]
        if len(pair[0]) != len(pair[1]):
            raise ShapeError(f"tensordot: axes {axes!r} do not pair: {len(pair[0])} and {len(pair[1])}")
        left = tuple([normalize_axis(i, x.type.ndim, x.type) for i in pair[0]])
        right = tuple([normalize_axis(i, y.type.ndim, y.type) for i in pair[1]])
    return DotGeneral(
        left,
        right,
        precision=resolve_precision(precision),
        preferred=resolve_preferred_dtype(preferred_element_type),
    )(x, y)


def kron(a: Operand, b: Operand) -> Array:
    """The Kronecker product: b scaled by each element of a.

    >>> kron(np.array([1, 10]), np.array([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    refuse_mixed_dtypes(a, b)
    x, y = as_operand(a), as_operand(b)
    ndim = max(x.type.ndim, y.type.ndim)
    first, second = ((1,) * (ndim - z.type.ndim) + z.type.shape for z in (x, y))
    spread = shaping.reshape(x, tuple([n for size in first for n in (size, 1)]))
    inside = shaping.reshape(y, tuple([n for size in second for n in (1, size)]))
    return shaping.reshape(spread * inside, tuple([m * n for m, n in zip(first, second, strict=True)]))


def cross(
    a: Operand, b: Operand, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """The cross product of vectors of two or three components; of two by two its third component only.

    Args:
        a, b: arrays that broadcast but for the components.
        axisa, axisb: the axis of the components.
        axisc: that of the result.
        axis: all three at once.

    >>> cross(np.array([1, 0, 0]), np.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    refuse_mixed_dtypes(a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = as_operand(a), as_operand(b)
    x = shaping.moveaxis(x, normalize_axis(axisa, x.type.ndim, x.type), -1)
    y = shaping.moveaxis(y, normalize_axis(axisb, y.type.ndim, y.type), -1)
    if x.type.shape[-1] not in (2, 3) or y.type.shape[-1] not in (2, 3):
        raise ShapeError(f"cross: vectors need 2 or 3 components, got {x.type!r} and {y.type!r}")
    u = [x[..., i] for i in range(x.type.shape[-1])]
    v = [y[..., i] for i in range(y.type.shape[-1])]
    last = u[0] * v[1] - u[1] * v[0]
    if len(u) == 2 and len(v) == 2:
        return last
    if len(u) == 2:
        parts = [u[1] * v[2], -(u[0] * v[2]), last]
    elif len(v) == 2:
        parts = [-(u[2] * v[1]), u[2] * v[0], last]
    else:
        parts = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], last]
    return shaping.moveaxis(shaping.stack(parts, -1), -1, axisc)


def trace(
    a: Operand,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """The sum of the diagonal of two axes.

    >>> float(trace(np.eye(3)))
    3.0
    """
    if out is not None:
        raise ShapeError("trace: arrays are immutable, so out= is not supported; use the result")
    first = check_int("offset", offset)
    return reducing.sum(indexing.diagonal(as_operand(a), first, axis1, axis2), -1, dtype)
