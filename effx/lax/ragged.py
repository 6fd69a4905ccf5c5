"""Matrix products over groups of rows of any sizes, as in mixtures of experts."""

from collections.abc import Sequence
from math import prod
from typing import final

import attrs

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, broadcast_to, convert, promote_dtypes
from effx.array.shaping import moveaxis, reshape, transpose
from effx.dtypes import DTypeLike
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.families.ragged import GroupedMatmul, GroupedOuter, group_bounds
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.shape import Slice
from effx.lax.operands import int_tuple
from effx.lax.products import DotDimensionNumbers, PrecisionLike, split_dot_numbers
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]

GENERAL = "ragged_dot_general"


def _check_dot_numbers(numbers: DotDimensionNumbers) -> tuple[tuple[tuple[int, ...], ...], ...]:
    (a, b), (c, d) = split_dot_numbers(f"{GENERAL}: dot_dimension_numbers", numbers)
    return (int_tuple("dot_dimension_numbers", a), int_tuple("dot_dimension_numbers", b)), (
        int_tuple("dot_dimension_numbers", c),
        int_tuple("dot_dimension_numbers", d),
    )


def _axes_tuple(values: Sequence[int]) -> tuple[int, ...]:
    return int_tuple("dimension numbers", values)


@final
@attrs.frozen
class RaggedDotDimensionNumbers:
    """The roles of axes in a ragged product.

    Attributes:
        dot_dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`.
        lhs_ragged_dimensions: the axis of lhs with the groups.
        rhs_group_dimensions: the axis of rhs that counts the groups' matrices, if there are any.

    >>> RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]).lhs_ragged_dimensions
    (0,)
    """

    dot_dimension_numbers: tuple[tuple[tuple[int, ...], ...], ...] = attrs.field(converter=_check_dot_numbers)
    lhs_ragged_dimensions: tuple[int, ...] = attrs.field(converter=_axes_tuple)
    rhs_group_dimensions: tuple[int, ...] = attrs.field(converter=_axes_tuple)


def ragged_dot(
    lhs: Operand,
    rhs: Operand,
    group_sizes: Operand,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Operand | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Multiplies each of several consecutive groups of rows by a matrix of its own. Rows of no group give 0.

    Args:
        lhs: `[m, k]`.
        rhs: `[g, k, n]`; dtypes are promoted.
        group_sizes: integers `[g]`: how many rows each group has.
        precision: as of `dot`.
        preferred_element_type: the dtype of the sums and of the result.
        group_offset: an integer scalar: rhs holds the matrices of g groups from this one on; there may be more groups.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array `[m, n]`.

    Raises:
        ShapeError: shapes do not fit.
        DTypeError: group sizes are no integers.

    >>> import numpy as np
    >>> rows, matrices = np.ones((4, 1), np.float32), np.array([[[2.0]], [[3.0]]], np.float32)
    >>> ragged_dot(rows, matrices, np.array([1, 2]))[:, 0]
    Array([2., 3., 3., 0.], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding, ragged_dot, lhs, rhs, group_sizes, precision, preferred_element_type, group_offset
        )
    x, y = as_operand(lhs), as_operand(rhs)
    if x.type.ndim != 2 or y.type.ndim != 3 or x.type.shape[1] != y.type.shape[1]:
        raise ShapeError(f"ragged_dot: lhs must be [m, k] and rhs [g, k, n], got {x.type!r} and {y.type!r}")
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return _perform_ragged_dot(x, y, group_sizes, numbers, precision, preferred_element_type, group_offset)


def ragged_dot_general(
    lhs: Operand,
    rhs: Operand,
    group_sizes: Operand,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: Operand | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Multiplies as `dot_general` does, with consecutive groups along an axis of lhs.

    Where the groups are along a free axis of lhs, rhs has a matrix for each group. Where they are along a contracted
    axis, each group is summed by itself, and the result has the groups in front. Along a batch axis nothing changes,
    since each index has its own product.

    Args:
        lhs, rhs: of any numeric dtype; different ones are promoted.
        group_sizes: integers `[g]`, or `[*b, *x, g]` with sizes of their own for each index along lhs's batch axes and
            along the free (or contracted, or batch) axes that come before the groups' one.
        ragged_dot_dimension_numbers: the roles of the axes.
        precision: as of `dot_general`.
        preferred_element_type: the dtype of the sums and of the result.
        group_offset: an integer scalar: rhs holds the matrices of the groups from this one on.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        As of `dot_general`; with groups along a contracted axis, `[g, *]`. Rows of no group give 0.

    Raises:
        ShapeError: shapes and dimension numbers do not fit, or there is an offset but no matrix for each group.
        DTypeError: group sizes are no integers.

    >>> import numpy as np
    >>> x = np.arange(4, dtype=np.float32).reshape(4, 1)
    >>> numbers = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    >>> ragged_dot_general(x, x, np.array([2, 2]), numbers).ravel()
    Array([ 1., 13.], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding,
            ragged_dot_general,
            lhs,
            rhs,
            group_sizes,
            ragged_dot_dimension_numbers,
            precision,
            preferred_element_type,
            group_offset,
        )
    if not isinstance(ragged_dot_dimension_numbers, RaggedDotDimensionNumbers):
        raise ShapeError(
            f"{GENERAL}: ragged_dot_dimension_numbers must be RaggedDotDimensionNumbers, "
            f"got {type(ragged_dot_dimension_numbers).__name__}"
        )
    x, y = as_operand(lhs), as_operand(rhs)
    return _perform_ragged_dot(
        x,
        y,
        group_sizes,
        ragged_dot_dimension_numbers,
        precision,
        preferred_element_type,
        group_offset,
    )


def _perform_ragged_dot(
    lhs: Array,
    rhs: Array,
    group_sizes: Operand,
    numbers: RaggedDotDimensionNumbers,
    precision: PrecisionLike,
    preferred_element_type: DTypeLike | None,
    group_offset: Operand | None,
) -> Array:
    (contract, rhs_contract), (batch, rhs_batch) = numbers.dot_dimension_numbers
    how, preferred = (
        arithmetic.resolve_precision(precision),
        arithmetic.resolve_preferred_dtype(preferred_element_type),
    )
    x, y = promote_dtypes(lhs, rhs)
    if len(numbers.lhs_ragged_dimensions) != 1 or not 0 <= numbers.lhs_ragged_dimensions[0] < x.type.ndim:
        raise ShapeError(
            f"{name_user_call()}: lhs_ragged_dimensions must be one axis of {x.type!r}, got {numbers.lhs_ragged_dimensions}"
        )
    (ragged,) = numbers.lhs_ragged_dimensions
    free = tuple([a for a in range(x.type.ndim) if a not in contract + batch])
    grouped = ragged in free
    if len(numbers.rhs_group_dimensions) != grouped:
        raise ShapeError(
            f"{name_user_call()}: rhs_group_dimensions must be one axis where the groups lie along a free axis of lhs, "
            "else none, "
            f"got {numbers.rhs_group_dimensions}"
        )
    group = numbers.rhs_group_dimensions
    one = y if not group else _drop_axis(y, group[0])
    rest = (
        [_group_matrix_axis(a, group) for a in rhs_contract],
        [_group_matrix_axis(a, group) for a in rhs_batch],
    )
    plain = DotGeneral(contract, tuple(rest[0]), batch, tuple(rest[1]), how, preferred)
    plain.infer(x.type, one.type)  # checks the axes that the next lines read
    kind = free if grouped else contract if ragged in contract else batch
    ragged_kind = kind.index(ragged)
    outer, inner = kind[:ragged_kind], kind[ragged_kind + 1 :]
    before = outer if kind is batch else batch + outer
    sizes = _check_group_sizes(group_sizes, tuple([x.type.shape[a] for a in before]))
    offset = None if group_offset is None else _check_group_offset(group_offset)
    if offset is not None and not grouped:
        raise ShapeError(
            f"{name_user_call()}: group_offset is for groups along a free axis of lhs, with a matrix each"
        )
    if kind is batch:
        return plain(x, y)
    groups = sizes.type.shape[-1]
    if grouped:
        rhs_groups = y.type.shape[group[0]]
        if rhs_groups > groups or (offset is None and rhs_groups != groups):
            raise ShapeError(
                f"{name_user_call()}: rhs {y.type!r} must have a matrix for each of the {groups} groups along axis "
                f"{group[0]}, has {rhs_groups}"
            )
        groups = rhs_groups
    size = [prod([x.type.shape[a] for a in axes]) for axes in (batch, outer, inner)]
    bounds = group_bounds(reshape(sizes, (size[0] * size[1], sizes.type.shape[-1])), offset, groups) * size[2]
    rows = x.type.shape[ragged] * size[2]
    rhs_free = tuple([a for a in range(y.type.ndim) if a not in rhs_contract + rhs_batch + group])
    n = [y.type.shape[a] for a in rhs_free]
    sizes_of_batch = [x.type.shape[a] for a in batch]
    if grouped:
        k = prod([x.type.shape[a] for a in contract])
        left = reshape(transpose(x, batch + free + contract), (size[0] * size[1], rows, k))
        right = reshape(
            transpose(y, rhs_batch + group + rhs_contract + rhs_free), (size[0], groups, k, prod(n))
        )
        product_array = GroupedMatmul(how, preferred)(left, right, bounds)
        return reshape(product_array, (*sizes_of_batch, *[x.type.shape[a] for a in free], *n))
    m = [x.type.shape[a] for a in free]
    left = reshape(transpose(x, batch + contract + free), (size[0] * size[1], rows, prod(m)))
    right = reshape(transpose(y, rhs_batch + rhs_contract + rhs_free), (size[0] * size[1], rows, prod(n)))
    product_array = GroupedOuter(max(size[1], 1), how, preferred)(left, right, bounds)
    return moveaxis(reshape(product_array, (*sizes_of_batch, groups, *m, *n)), len(batch), 0)


def _drop_axis(y: Array, axis: int) -> Array:
    if not 0 <= axis < y.type.ndim:
        raise ShapeError(f"{name_user_call()}: rhs_group_dimensions names axis {axis}, but rhs is {y.type!r}")
    shape = y.type.shape
    if not shape[axis]:
        raise ShapeError(f"{name_user_call()}: rhs {y.type!r} has no matrices along axis {axis}")
    starts = (0,) * len(shape)
    limits = tuple([1 if a == axis else s for a, s in enumerate(shape)])
    return reshape(Slice(starts, limits, (1,) * len(shape))(y), shape[:axis] + shape[axis + 1 :])


def _group_matrix_axis(axis: int, group: tuple[int, ...]) -> int:
    """Returns an axis of rhs as one of a single group's matrix."""
    return axis - 1 if group and axis > group[0] else axis


def _check_group_sizes(group_sizes: Operand, before: tuple[int, ...]) -> Array:
    sizes = as_operand(group_sizes)
    if sizes.type.kind not in "iu":
        raise DTypeError(f"{name_user_call()}: group_sizes must be integers, got {sizes.type!r}")
    shape = sizes.type.shape
    if not shape or shape[:-1] not in ((), before):
        expected_shape = ", ".join([*map(str, before), "g"])
        raise ShapeError(
            f"{name_user_call()}: group_sizes must be [g] or [{expected_shape}], got {sizes.type!r}"
        )
    return broadcast_to(convert(sizes, dtypes.int32), (*before, shape[-1]))


def _check_group_offset(group_offset: Operand) -> Array:
    offset = as_operand(group_offset)
    if offset.type.kind not in "iu" or offset.type.size != 1:
        raise DTypeError(f"{name_user_call()}: group_offset must be an integer scalar, got {offset.type!r}")
    return reshape(offset, ())
