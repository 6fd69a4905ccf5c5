"""Named axes, which vmap, pmap or shard_map bind: their names, sizes and indices, and groups of indices."""

from collections.abc import Hashable, Sequence
from operator import index

import numpy as np
import numpy.typing as npt

from effx import dtypes
from effx.array import Array, HostArray, arithmetic
from effx.array.indexing import getitem
from effx.array.promotion import as_operand
from effx.effects import axes_in_scope
from effx.errors import ShapeError, TransformError, name_user_call
from effx.handlers.evaluate.handler import unhandled_effects_error
from effx.ir.ops import collective as c
from effx.ir.ops.collective import AxisEffect
from effx.ir.ops.reduce import ReduceSum
from effx.ir.types import array_type

__all__ = ["axis_index", "axis_size"]

AxisName = Hashable
AxisNames = AxisName | Sequence[AxisName]
IntArray = npt.NDArray[np.int32]
Groups = Sequence[Sequence[int]] | None


def axis_names(axis_name: AxisNames) -> tuple[AxisName, ...]:
    return tuple(axis_name) if isinstance(axis_name, list | tuple) else (axis_name,)


def axis_size_of(name: AxisName) -> int:
    for bound, size in axes_in_scope():
        if bound == name:
            return size
    raise unhandled_effects_error(name_user_call(), frozenset((AxisEffect(name),)))


def total_size(names: tuple[AxisName, ...]) -> int:
    """Returns the product of the sizes of several axes. Called under the caller's handlers, so that an error
    can list their names.
    """
    if not names:
        raise TransformError(f"{name_user_call()}: needs at least one axis name")
    total = 1
    for name in names:
        total *= axis_size_of(name)
    return total


def resolve_index_groups(
    names: tuple[AxisName, ...], groups: Groups, unequal: bool = False
) -> tuple[c.Groups, int]:
    """Returns the groups of indices that communicate, and the size of the first.

    Args:
        unequal: whether the groups may be of several sizes.
    """
    group_size = total_size(names)
    if groups is None:
        return None, group_size
    rows = tuple([tuple([index(i) for i in group]) for group in groups])
    if sorted([i for group in rows for i in group]) != list(range(group_size)):
        raise ShapeError(
            f"{name_user_call()}: axis_index_groups must name each of the {group_size} indices of "
            f"{', '.join(map(repr, names))} once, "
            f"got {[list(r) for r in rows]}"
        )
    if len({len(group) for group in rows}) != 1 and not unequal:
        raise ShapeError(
            f"{name_user_call()}: axis_index_groups must be of one size, got groups of {[len(r) for r in rows]}"
        )
    return rows, len(rows[0])


def communicating_sizes(names: tuple[AxisName, ...], rows: c.Groups) -> list[int]:
    """Returns how many communicate along each name; in groups, which are of one name, the size of a group."""
    return [axis_size_of(name) for name in names] if rows is None else [len(rows[0])]


def gather_group(array: Array, names: tuple[AxisName, ...], rows: tuple[tuple[int, ...], ...]) -> Array:
    """Returns the values of the own group of indices along several axes, stacked along a new first axis.

    No collective of XLA's has groups over several axes, so every index receives everything and takes its group's values.
    """
    every = _gather_all(array, names)
    members = np.empty((sum(map(len, rows)), len(rows[0])), np.int32)
    for row in rows:
        members[list(row)] = row
    return getitem(every, _own_entry(members, names))


def _gather_all(array: Array, names: tuple[AxisName, ...]) -> Array:
    """Returns the values of all indices along several axes, stacked along a new first axis."""
    for i, name in enumerate(reversed(names)):
        array = c.AllGather(name, 0, axis_size_of(name), i > 0)(array)
    return array


def sum_over_unequal_groups(
    array: Array, names: tuple[AxisName, ...], rows: tuple[tuple[int, ...], ...]
) -> Array:
    """Returns the sum of the values of the own group, where groups are of several sizes: of everything, with zeros."""
    size = sum(map(len, rows))
    members = np.zeros((size, size), np.int32)
    for row in rows:
        members[np.ix_(row, row)] = 1
    every = _gather_all(array, names)
    is_member = _own_entry(members, names).reshape(size, *[1] * array.ndim) == 1
    return ReduceSum((0,))(arithmetic.where(is_member, every, 0))


def index_in_group(names: tuple[AxisName, ...], rows: c.Groups) -> Array:
    """Returns the index along named axes; in groups the index within the own group."""
    if rows is None:
        return axis_index(names)
    positions = np.empty(sum(map(len, rows)), np.int32)
    for row in rows:
        positions[list(row)] = range(len(row))
    return _own_entry(positions, names)


def _own_entry(table: IntArray, names: tuple[AxisName, ...]) -> Array:
    """Returns the entry of a table for the index along named axes."""
    return getitem(HostArray(table, array_type(dtypes.int32, table.shape)), axis_index(names))


def axis_size(axis_name: AxisNames) -> int:
    """Returns the size of a named axis; of several axes the product.

    Args:
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several.

    Raises:
        AxisNameError: nothing binds the name.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x * axis_size("i"), axis_name="i")(np.arange(3))
    Array([0, 3, 6], dtype=int32)
    """
    return total_size(axis_names(axis_name))


def axis_index(axis_name: AxisNames) -> Array:
    """Returns the index along a named axis.

    Args:
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several: the index then runs through
            the last one fastest.

    Returns:
        An i32 scalar.

    Raises:
        AxisNameError: nothing binds the name.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x + axis_index("i"), axis_name="i")(np.zeros(3, np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    names = axis_names(axis_name)
    total_size(names)
    linear_index: Array = as_operand(np.int32(0))
    for i, name in enumerate(names):
        own = c.AxisIndex(name)()
        linear_index = own if i == 0 else linear_index * axis_size_of(name) + own
    return linear_index
