"""Collectives along named axes that move parts of arrays between indices: gathering, scattering, exchange, permutation."""

from collections.abc import Iterator, Sequence
from operator import index
from typing import TypeVar, cast

import numpy as np

from effx import dtypes, tree
from effx.array import Array, HostArray, Operand, arithmetic
from effx.array.indexing import getitem
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.errors import DTypeError, ShapeError, TransformError, name_user_call
from effx.handlers.sharding_types.axes_in_types import tracked_axes
from effx.ir.ops import collective as c
from effx.ir.ops.elementwise import Select
from effx.ir.ops.reduce import ReduceSum
from effx.ir.ops.shape import BroadcastInDim, Reshape
from effx.ir.types import array_type
from effx.ir.values.scalars import scalar
from effx.lax.collective import bool_to_int, mapped_mesh
from effx.lax.named_axes import (
    AxisNames,
    Groups,
    axis_index,
    axis_names,
    communicating_sizes,
    gather_group,
    index_in_group,
    resolve_index_groups,
    total_size,
)
from effx.lax.operands import resolve_axis

__all__ = ["all_gather", "all_to_all", "ppermute", "pshuffle", "psum_scatter", "pswapaxes"]

T = TypeVar("T")


def all_gather(
    x: T,
    axis_name: AxisNames,
    *,
    axis_index_groups: Groups = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> T:
    """Gathers all values along a named axis.

    Args:
        x: a tree of arrays `[*s]`.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several, joined into one axis
            with the last name fastest.
        axis_index_groups: groups of indices, each of which is gathered by itself.
        axis: the index of the named axis in the result; negative ones count from the end.
        tiled: whether to concatenate along x's own axis `axis` instead of making a new one.
        to: how types in `shard_map` mark the result: "varying", so that cotangents are summed over the axis;
            "invarying", as the one array that it is, with one cotangent; or "reduced", as this, with a cotangent that is
            still to be summed.

    Returns:
        A tree of arrays with the named axis, or with `axis` as many times longer.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: `axis` is out of range, or the groups do not name each index once or differ in size.
        TransformError: `to` is something else, or not "varying" with groups.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: all_gather(x, "i"), axis_name="i")(np.arange(2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    if to not in ("varying", "invarying", "reduced"):
        raise TransformError(f"all_gather: to must be 'varying', 'invarying' or 'reduced', got {to!r}")
    if to != "varying" and axis_index_groups is not None:
        raise TransformError(f"all_gather: groups have different results, so to={to!r} is for no groups")
    names = axis_names(axis_name)
    rows, _ = resolve_index_groups(names, axis_index_groups)
    sizes = communicating_sizes(names, rows)

    def leaf(value: Operand) -> Array:
        array = as_operand(value)
        result_type = array.type if tiled else array.type.with_shape((*array.type.shape, 1))
        resolved_axis = resolve_axis(axis, result_type)
        if rows is not None and len(names) > 1:
            group = moveaxis(gather_group(array, names, rows), 0, resolved_axis)
            shape = group.type.shape
            merged = (*shape[:resolved_axis], -1, *shape[resolved_axis + 2 :])
            return group.reshape(merged) if tiled else group
        # The last name runs fastest, so it is gathered first.
        for i, (name, size) in enumerate(reversed(list(zip(names, sizes, strict=True)))):
            mesh = mapped_mesh() if to == "reduced" and name in tracked_axes.value else None
            gather = c.AllGather(
                name, resolved_axis, size, tiled or i > 0, to != "varying", mesh, groups=rows
            )
            array = gather(array)
        return array

    return cast("T", tree.map(leaf, x))


def _check_untiled(array: Array, axis: int, group_size: int, which: str) -> None:
    if array.type.shape[axis] != group_size:
        raise ShapeError(
            f"{name_user_call()}: {which} {axis} of {array.type!r} must have the size of the named axis, {group_size}; "
            f"use tiled=True to cut it into parts"
        )


def _check_tiled(array: Array, axis: int, group_size: int, which: str) -> None:
    if array.type.shape[axis] % group_size:
        raise ShapeError(
            f"{name_user_call()}: {which} {axis} of {array.type!r} must be divisible by {group_size}, the axis size"
        )


def _take_part(x: Array, axis: int, parts: int, position: Array, tiled: bool) -> Array:
    """Returns one of the equal parts of an array's axis; without the axis if it is not tiled."""
    shape = x.type.shape
    split = Reshape((*shape[:axis], parts, shape[axis] // parts, *shape[axis + 1 :]))(x)
    part = getitem(moveaxis(split, axis, 0), position)
    return part if tiled else Reshape((*shape[:axis], *shape[axis + 1 :]))(part)


def psum_scatter(
    x: T,
    axis_name: AxisNames,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> T:
    """Returns the sum over a named axis, scattered: index i gets the i-th part.

    Args:
        x: a tree of arrays; booleans are counted.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several, the last fastest.
        scatter_dimension: the axis that is split into parts; negative ones count from the end.
        axis_index_groups: groups of indices, each of which is summed by itself.
        tiled: whether the axis is kept, divided by the size of the named axis; else the sizes are equal and
            it is removed.

    Returns:
        A tree of arrays.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: the axis is out of range or of a wrong size, or the groups do not name each index once or
            differ in size.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(np.arange(4).reshape(2, 2))
    Array([2, 4], dtype=int32)
    """
    names = axis_names(axis_name)
    rows, group_size = resolve_index_groups(names, axis_index_groups)
    sizes = communicating_sizes(names, rows)

    def leaf(value: Operand) -> Array:
        array = bool_to_int(as_operand(value))
        resolved_axis = resolve_axis(scatter_dimension, array.type)
        check = _check_tiled if tiled else _check_untiled
        check(array, resolved_axis, group_size, "scatter_dimension")
        if rows is not None and len(names) > 1:
            total = ReduceSum((0,))(gather_group(array, names, rows))
            return _take_part(total, resolved_axis, group_size, index_in_group(names, rows), tiled)
        for name, size in zip(names, sizes, strict=True):
            array = c.PSumScatter(name, resolved_axis, size, groups=rows)(array)
        shape = array.type.shape
        return array if tiled else Reshape((*shape[:resolved_axis], *shape[resolved_axis + 1 :]))(array)

    return cast("T", tree.map(leaf, x))


def all_to_all(
    x: T,
    axis_name: AxisNames,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> T:
    """Sends the i-th part of each value to index i: exchanges the named axis with one of x's.

    Args:
        x: a tree of arrays.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several, the last fastest. With
            several, each index receives everything and takes its part.
        split_axis: the axis that is split into parts; negative ones count from the end.
        concat_axis: the axis along which the received parts are joined, in the order of the senders: among
            the remaining axes, or with `tiled` one of x's.
        axis_index_groups: groups of indices, each of which exchanges by itself.
        tiled: whether both axes are kept, one divided and the other multiplied by the size of the named axis.
            Else `split_axis` has that size and is removed, and the senders' axis is new.

    Returns:
        A tree of arrays.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: an axis is out of range or of a wrong size, or the groups do not name each index once or
            differ in size.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(np.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    names = axis_names(axis_name)
    rows, group_size = resolve_index_groups(names, axis_index_groups)

    def exchange(array: Array, split: int, concat: int) -> Array:
        if len(names) == 1:
            return c.AllToAll(names[0], split, concat, group_size, groups=rows)(array)
        every = all_gather(array, names) if rows is None else gather_group(array, names, rows)
        t = array.type
        part = t.shape[split] // group_size
        cut = Reshape((group_size, *t.shape[:split], group_size, part, *t.shape[split + 1 :]))(every)
        mine = getitem(moveaxis(cut, split + 1, 0), index_in_group(names, rows))
        mine = moveaxis(mine, 0, concat)
        shape = mine.type.shape
        return Reshape((*shape[:concat], group_size * shape[concat + 1], *shape[concat + 2 :]))(mine)

    def leaf(value: Operand) -> Array:
        array = as_operand(value)
        split = resolve_axis(split_axis, array.type)
        concat = resolve_axis(concat_axis, array.type)
        if tiled:
            _check_tiled(array, split, group_size, "split_axis")
            return exchange(array, split, concat)
        _check_untiled(array, split, group_size, "split_axis")
        return moveaxis(exchange(moveaxis(array, split, 0), 0, 0), 0, concat)

    return cast("T", tree.map(leaf, x))


def pswapaxes(x: T, axis_name: AxisNames, axis: int, *, axis_index_groups: Groups = None) -> T:
    """Exchanges the named axis with one of x's: index i gets the i-th entry of every value.

    Args:
        x: a tree of arrays.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several, the last fastest.
        axis: an axis of the named axis' size; negative ones count from the end.
        axis_index_groups: groups of indices, each of which exchanges by itself.

    Returns:
        A tree like x.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: the axis has another size, or the groups do not name each index once or differ in size.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(np.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: T, axis_name: AxisNames, perm: Sequence[tuple[int, int]]) -> T:
    """Sends values along a named axis.

    Args:
        x: a tree of arrays.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several, the last fastest. With
            several, each index receives everything and takes its source's value.
        perm: pairs (source, destination) of indices; each is source and destination at most once. An index
            that is no destination gets zeros.

    Returns:
        A tree like x.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: an index is out of range or repeats.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(np.array([5, 6, 7]))
    Array([0, 5, 6], dtype=int32)
    """
    return _permute_replicas(x, axis_name, perm)


def _permute_replicas(x: T, axis_name: AxisNames, perm: Sequence[tuple[int, int]]) -> T:
    names = axis_names(axis_name)
    group_size = total_size(names)
    if isinstance(
        perm, Iterator
    ):  # empty when the function is traced a second time, which would send nothing
        raise DTypeError(
            f"{name_user_call()}: perm must be a list or a tuple of pairs, got {type(perm).__name__}, which can be read once"
        )
    pairs = tuple([(index(s), index(d)) for s, d in perm])
    for which, replica_indices in (("source", [s for s, _ in pairs]), ("destination", [d for _, d in pairs])):
        for i in replica_indices:
            if not 0 <= i < group_size:
                raise ShapeError(
                    f"{name_user_call()}: {which} {i} is out of range for an axis of size {group_size}"
                )
        if len(set(replica_indices)) != len(replica_indices):
            raise ShapeError(f"{name_user_call()}: perm repeats a {which}: {list(pairs)}")

    def leaf(value: Operand) -> Array:
        array = as_operand(value)
        if len(names) == 1:
            return c.PPermute(names[0], pairs)(array)
        sources = np.full(group_size, -1, np.int32)
        for s, d in pairs:
            sources[d] = s
        mine = getitem(HostArray(sources, array_type(dtypes.int32, (group_size,))), axis_index(names))
        row = getitem(all_gather(array, names), arithmetic.maximum(mine, 0))
        zeros = BroadcastInDim(array.type.shape, ())(scalar(0, array.type.dtype, array.type.weak))
        return Select()(mine < 0, row, zeros)

    return cast("T", tree.map(leaf, x))


def pshuffle(x: T, axis_name: AxisNames, perm: Sequence[int]) -> T:
    """Permutes values along a named axis: index i gets the value of index `perm[i]`.

    Args:
        x: a tree of arrays.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several, the last fastest.
        perm: a permutation of the indices.

    Returns:
        A tree like x.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: `perm` is no permutation of the indices.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: pshuffle(x, "i", [2, 0, 1]), axis_name="i")(np.array([5, 6, 7]))
    Array([7, 5, 6], dtype=int32)
    """
    group_size = total_size(axis_names(axis_name))
    if sorted(perm) != list(range(group_size)):
        raise ShapeError(
            f"pshuffle: perm must be a permutation of the {group_size} indices, got {list(perm)}"
        )
    return _permute_replicas(x, axis_name, [(index(s), d) for d, s in enumerate(perm)])
