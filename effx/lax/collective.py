"""Collectives along named axes, which vmap, pmap or shard_map bind."""

from collections.abc import Callable, Hashable, Sequence
from operator import index
from typing import TypeVar, cast, overload

import numpy as np

from effx import dtypes, tree
from effx.array import Array, HostArray, Number, Operand, arithmetic
from effx.array.indexing import getitem
from effx.array.promotion import as_operand, convert, scalar
from effx.array.shaping import moveaxis
from effx.effects import axes_in_scope
from effx.errors import ShapeError, TransformError
from effx.handlers.evaluate import unbound
from effx.handlers.tracking import tracked
from effx.ir.ops import collective as c
from effx.ir.ops.collective import AxisEffect
from effx.ir.ops.elementwise import Select
from effx.ir.ops.shape import BroadcastInDim, Reshape
from effx.ir.types import array_type
from effx.lax.operands import count_from_start

__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast", "pmax", "pmean", "pmin", "ppermute",
    "pshuffle", "psum", "psum_scatter", "pswapaxes",
]  # fmt: skip

T = TypeVar("T")
AxisName = Hashable
AxisNames = AxisName | Sequence[AxisName]
Groups = Sequence[Sequence[int]] | None


def _names(axis_name: AxisNames) -> tuple[AxisName, ...]:
    return tuple(axis_name) if isinstance(axis_name, list | tuple) else (axis_name,)


def _size(what: str, name: AxisName) -> int:
    for bound, size in axes_in_scope():
        if bound == name:
            return size
    raise unbound(what, frozenset((AxisEffect(name),)))


def _total_size(what: str, names: tuple[AxisName, ...]) -> int:
    """Returns the product of the sizes of several axes. Called under the caller's handlers, so that an error
    can list their names.
    """
    if not names:
        raise TransformError(f"{what}: needs at least one axis name")
    total = 1
    for name in names:
        total *= _size(what, name)
    return total


def _grouped(what: str, names: tuple[AxisName, ...], groups: Groups) -> tuple[c.Groups, int]:
    """Returns the groups of indices that communicate, and the size of each."""
    group_size = _total_size(what, names)
    if groups is None:
        return None, group_size
    if len(names) != 1:
        raise TransformError(f"{what}: axis_index_groups is for one axis name, got {names!r}")
    rows = tuple([tuple([index(i) for i in group]) for group in groups])
    if sorted([i for group in rows for i in group]) != list(range(group_size)):
        raise ShapeError(
            f"{what}: axis_index_groups must name each of the {group_size} indices of {names[0]!r} once, "
            f"got {[list(r) for r in rows]}"
        )
    if len({len(group) for group in rows}) != 1:
        raise ShapeError(
            f"{what}: axis_index_groups must be of one size, got groups of {[len(r) for r in rows]}"
        )
    return rows, len(rows[0])


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
    return _total_size("axis_size", _names(axis_name))


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
    names = _names(axis_name)
    _total_size("axis_index", names)
    place: Array = as_operand(np.int32(0))
    for i, name in enumerate(names):
        own = c.AxisIndex(name)()
        place = own if i == 0 else place * _size("axis_index", name) + own
    return place


def _over(
    what: str,
    x: T,
    axis_name: AxisNames,
    groups: Groups,
    reduce: Callable[[AxisName, c.Groups], Callable[[Array], Array]],
    prepare: Callable[[Array], Array] = lambda array: array,
) -> T:
    """Reduces a tree's leaves over each axis in order."""
    names = _names(axis_name)
    rows, _ = _grouped(what, names, groups)

    def leaf(value: Operand) -> Array:
        array = prepare(as_operand(value, what))
        for name in names:
            array = reduce(name, rows)(array)
        return array

    return cast("T", tree.map(leaf, x))


def _counted(array: Array) -> Array:
    """Converts booleans to integers."""
    return convert(array, dtypes.int32) if array.type.kind == "b" else array


@overload
def psum(x: int, axis_name: AxisNames, *, axis_index_groups: Groups = None) -> int: ...
@overload
def psum(x: T, axis_name: AxisNames, *, axis_index_groups: Groups = None) -> T: ...
def psum(x: object, axis_name: AxisNames, *, axis_index_groups: Groups = None) -> object:
    """Returns the sum over a named axis.

    Args:
        x: a tree of arrays; booleans are counted. A bare Python number is constant along the axis and gives a
            Python number: `psum(1, axis_name)` is the axis size.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several.
        axis_index_groups: groups of indices, each of which is summed by itself.

    Returns:
        A tree like x, constant along the axis or in each group.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: the groups do not name each index once, or differ in size.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    >>> effx.vmap(lambda x: psum(x, "i", axis_index_groups=[[0, 2], [1, 3]]), axis_name="i")(np.arange(4))
    Array([2, 4, 2, 4], dtype=int32)
    """
    names = _names(axis_name)
    rows, group_size = _grouped("psum", names, axis_index_groups)

    def leaf(value: Operand) -> Array | Number:
        if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
            return value * group_size
        array = _counted(as_operand(value, "psum"))
        for name in names:
            array = c.PSum(name, groups=rows)(array)
        return array

    return tree.map(leaf, x)


def pmean(x: T, axis_name: AxisNames, *, axis_index_groups: Groups = None) -> T:
    """Returns the mean over a named axis.

    Args:
        x: a tree of arrays; integers give floats.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several.
        axis_index_groups: groups of indices, each of which has its own mean.

    Returns:
        A tree like x, constant along the axis or in each group.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: the groups do not name each index once, or differ in size.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x - pmean(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([-1.,  1.], dtype=float32)
    """
    _, group_size = _grouped("pmean", _names(axis_name), axis_index_groups)
    total = _over(
        "pmean", x, axis_name, axis_index_groups, lambda n, g: c.PSum(n, groups=g), arithmetic.to_inexact
    )
    return cast("T", tree.map(lambda y: arithmetic.true_divide(y, group_size), total))


def pmax(x: T, axis_name: AxisNames, *, axis_index_groups: Groups = None) -> T:
    """Returns the maximum over a named axis; NaN where any value is NaN.

    Args:
        x: a tree of real arrays.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several.
        axis_index_groups: groups of indices, each of which has its own maximum.

    Returns:
        A tree like x, constant along the axis or in each group.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: the groups do not name each index once, or differ in size.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x - pmax(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([-2.,  0.], dtype=float32)
    """
    return _over("pmax", x, axis_name, axis_index_groups, lambda n, g: c.PMax(n, groups=g))


def pmin(x: T, axis_name: AxisNames, *, axis_index_groups: Groups = None) -> T:
    """Returns the minimum over a named axis; NaN where any value is NaN.

    Args:
        x: a tree of real arrays.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several.
        axis_index_groups: groups of indices, each of which has its own minimum.

    Returns:
        A tree like x, constant along the axis or in each group.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: the groups do not name each index once, or differ in size.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x - pmin(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([0., 2.], dtype=float32)
    """
    return _over("pmin", x, axis_name, axis_index_groups, lambda n, g: c.PMin(n, groups=g))


def pbroadcast(x: T, axis_name: AxisNames, source: int) -> T:
    """Returns everywhere along a named axis what one index has: the sum of its value and of zeros.

    Args:
        x: a tree of arrays.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several: indices then run through the
            last one fastest.
        source: the index whose value it is.

    Returns:
        A tree like x, constant along the axis. Its cotangents are summed, and are the source's.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: no index is `source`.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: pbroadcast(x, "i", 1), axis_name="i")(np.array([1., 3., 5.]))
    Array([3., 3., 3.], dtype=float32)
    """
    size, place = _total_size("pbroadcast", _names(axis_name)), index(source)
    if not 0 <= place < size:
        raise ShapeError(f"pbroadcast: source must be from 0 to {size - 1}, got {place}")
    mine = axis_index(axis_name) == place

    def leaf(value: Operand) -> Array:
        array: Array = as_operand(value, "pbroadcast")
        given = convert(array, dtypes.int8) if array.type.kind == "b" else array
        return convert(psum(arithmetic.where(mine, given, 0), axis_name), array.type.dtype, array.type.weak)

    return cast("T", tree.map(leaf, x))


def pcast(x: T, axis_name: AxisNames, *, to: str) -> T:
    """Returns x as a value that counts as different along a named axis of a `shard_map`: a copy for each index.

    Gradients with respect to the copies are not summed over the axis; that with respect to x is. Values meet without
    it: an operation of one that varies with one that does not gives one that varies.

    Args:
        x: a tree of arrays.
        axis_name: a name that a surrounding `shard_map` binds, or several. Along axes of which types do not speak,
            those of vmap, of pmap, and of `check_vma=False`, x is returned as it is.
        to: "varying".

    Raises:
        AxisNameError: nothing binds the name.
        TransformError: `to` is something else.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import PartitionSpec as P
    >>> mesh = effx.make_mesh((1,), ("i",))
    >>> f = lambda w: effx.typeof(pcast(w, "i", to="varying"))
    >>> effx.shard_map(lambda w: print(f(w)) or w, mesh=mesh, in_specs=P(), out_specs=P())(enp.ones(2))
    f32[2]{V:i}
    Array([1., 1.], dtype=float32)
    """
    _check_kind("pcast", to)
    names = _names(axis_name)
    _total_size("pcast", names)

    def leaf(value: Operand) -> Array:
        array: Array = as_operand(value, "pcast")
        for name in names:
            if name in tracked.value and name not in array.type.vma:
                array = c.PCast(name)(array)
        return array

    return cast("T", tree.map(leaf, x))


def _check_kind(what: str, to: str) -> None:
    if to in ("reduced", "unreduced"):
        raise TransformError(
            f"{what}: to={to!r} is of types in which a sum is still to be taken, which effx has not; a gradient with "
            f"respect to what does not vary is summed at once"
        )
    if to != "varying":
        raise TransformError(f"{what}: to must be 'varying', got {to!r}")


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
        to: "varying": what types in `shard_map` say of the result.

    Returns:
        A tree of arrays with the named axis, or with `axis` as many times longer.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: `axis` is out of range, or the groups do not name each index once or differ in size.
        TransformError: `to` is something else.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: all_gather(x, "i"), axis_name="i")(np.arange(2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    _check_kind("all_gather", to)
    names = _names(axis_name)
    rows, group_size = _grouped("all_gather", names, axis_index_groups)
    sizes = [group_size] if rows else [_size("all_gather", name) for name in names]

    def leaf(value: Operand) -> Array:
        array = as_operand(value, "all_gather")
        result_type = array.type if tiled else array.type.with_shape((*array.type.shape, 1))
        place = count_from_start("all_gather", index(axis), result_type)
        # The last name runs fastest, so it is gathered first.
        for i, (name, size) in enumerate(reversed(list(zip(names, sizes, strict=True)))):
            array = c.AllGather(name, place, size, tiled or i > 0, groups=rows)(array)
        return array

    return cast("T", tree.map(leaf, x))


def _check_untiled(what: str, array: Array, axis: int, group_size: int, which: str) -> None:
    if array.type.shape[axis] != group_size:
        raise ShapeError(
            f"{what}: {which} {axis} of {array.type!r} must have the size of the named axis, {group_size}; "
            f"use tiled=True to cut it into parts"
        )


def _check_tiled(what: str, array: Array, axis: int, group_size: int, which: str) -> None:
    if array.type.shape[axis] % group_size:
        raise ShapeError(
            f"{what}: {which} {axis} of {array.type!r} must be divisible by {group_size}, the axis size"
        )


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
        scatter_dimension: the axis that is cut into parts; negative ones count from the end.
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
    names = _names(axis_name)
    rows, group_size = _grouped("psum_scatter", names, axis_index_groups)
    sizes = [group_size] if rows else [_size("psum_scatter", name) for name in names]

    def leaf(value: Operand) -> Array:
        array = _counted(as_operand(value, "psum_scatter"))
        place = count_from_start("psum_scatter", index(scatter_dimension), array.type)
        check = _check_tiled if tiled else _check_untiled
        check("psum_scatter", array, place, group_size, "scatter_dimension")
        for name, size in zip(names, sizes, strict=True):
            array = c.PSumScatter(name, place, size, groups=rows)(array)
        shape = array.type.shape
        return array if tiled else Reshape((*shape[:place], *shape[place + 1 :]))(array)

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
        split_axis: the axis that is cut into parts; negative ones count from the end.
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
    names = _names(axis_name)
    rows, group_size = _grouped("all_to_all", names, axis_index_groups)

    def exchange(array: Array, split: int, concat: int) -> Array:
        if len(names) == 1:
            return c.AllToAll(names[0], split, concat, group_size, groups=rows)(array)
        every = all_gather(array, names)
        t = array.type
        part = t.shape[split] // group_size
        cut = Reshape((group_size, *t.shape[:split], group_size, part, *t.shape[split + 1 :]))(every)
        mine = getitem(moveaxis(cut, split + 1, 0), axis_index(names))
        mine = moveaxis(mine, 0, concat)
        shape = mine.type.shape
        return Reshape((*shape[:concat], group_size * shape[concat + 1], *shape[concat + 2 :]))(mine)

    def leaf(value: Operand) -> Array:
        array = as_operand(value, "all_to_all")
        split = count_from_start("all_to_all", index(split_axis), array.type)
        concat = count_from_start("all_to_all", index(concat_axis), array.type)
        if tiled:
            _check_tiled("all_to_all", array, split, group_size, "split_axis")
            return exchange(array, split, concat)
        _check_untiled("all_to_all", array, split, group_size, "split_axis")
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
    return _permuted("ppermute", x, axis_name, perm)


def _permuted(what: str, x: T, axis_name: AxisNames, perm: Sequence[tuple[int, int]]) -> T:
    names = _names(axis_name)
    group_size = _total_size(what, names)
    pairs = tuple([(index(s), index(d)) for s, d in perm])
    for which, places in (("source", [s for s, _ in pairs]), ("destination", [d for _, d in pairs])):
        for i in places:
            if not 0 <= i < group_size:
                raise ShapeError(f"{what}: {which} {i} is out of range for an axis of size {group_size}")
        if len(set(places)) != len(places):
            raise ShapeError(f"{what}: perm repeats a {which}: {list(pairs)}")

    def leaf(value: Operand) -> Array:
        array = as_operand(value, what)
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
    group_size = _total_size("pshuffle", _names(axis_name))
    if sorted(perm) != list(range(group_size)):
        raise ShapeError(
            f"pshuffle: perm must be a permutation of the {group_size} indices, got {list(perm)}"
        )
    return _permuted("pshuffle", x, axis_name, [(index(s), d) for d, s in enumerate(perm)])
