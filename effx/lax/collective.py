"""Collectives along named axes that give every index the same: sums, extremes, one index's value; and `pcast`."""

from collections.abc import Callable
from typing import TypeVar, cast, overload

import numpy as np

from effx import dtypes, tree
from effx.array import Array, Number, Operand, arithmetic
from effx.array.promotion import as_operand, convert
from effx.errors import ShapeError, TransformError, name_user_call
from effx.handlers.sharding_types.axes_in_types import tracked_axes
from effx.ir.meshes import AbstractMesh
from effx.ir.ops import collective as c
from effx.ir.ops.convert import Bitcast
from effx.ir.ops.reduce import ReduceMax, ReduceMin, ReduceSum, Reduction
from effx.ir.passes.partial_sums import type_sums
from effx.lax.named_axes import (
    AxisName,
    AxisNames,
    Groups,
    axis_index,
    axis_names,
    gather_group,
    resolve_index_groups,
    sum_over_unequal_groups,
    total_size,
)
from effx.lax.operands import check_int
from effx.lower.placement.meshes import ambient

__all__ = ["pbroadcast", "pcast", "pmax", "pmean", "pmin", "psum"]

T = TypeVar("T")


def _reduce_over_axes(
    x: T,
    axis_name: AxisNames,
    groups: Groups,
    reduce: type[c.CollectiveReduction],
    prepare: Callable[[Array], Array] = lambda array: array,
) -> T:
    """Reduces a tree's leaves over each axis in order."""
    names = axis_names(axis_name)
    rows, _ = resolve_index_groups(names, groups)

    def leaf(value: Operand) -> Array:
        return _reduce_leaf(prepare(as_operand(value)), names, rows, reduce)

    return cast("T", tree.map(leaf, x))


_LOCAL_REDUCTIONS: dict[type[c.CollectiveReduction], type[Reduction]] = {
    c.PSum: ReduceSum,
    c.PMax: ReduceMax,
    c.PMin: ReduceMin,
}


def _reduce_leaf(
    array: Array, names: tuple[AxisName, ...], rows: c.Groups, reduce: type[c.CollectiveReduction]
) -> Array:
    if rows is not None and len(names) > 1:
        return _LOCAL_REDUCTIONS[reduce]((0,))(gather_group(array, names, rows))
    for name in names:
        array = reduce(name, groups=rows)(array)
    return array


def bool_to_int(array: Array) -> Array:
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
        axis_index_groups: groups of indices, each of which is summed by itself. They may differ in size.

    Returns:
        A tree like x, constant along the axis or in each group.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: the groups do not name each index once.

    >>> import effx, numpy as np
    >>> effx.vmap(lambda x: x / psum(x, "i"), axis_name="i")(np.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    >>> effx.vmap(lambda x: psum(x, "i", axis_index_groups=[[0, 2], [1, 3]]), axis_name="i")(np.arange(4))
    Array([2, 4, 2, 4], dtype=int32)
    """
    names = axis_names(axis_name)
    rows, group_size = resolve_index_groups(names, axis_index_groups, unequal=True)
    is_unequal = rows is not None and len({len(row) for row in rows}) > 1

    def leaf(value: Operand) -> Array | Number:
        if is_unequal and rows is not None:
            return sum_over_unequal_groups(bool_to_int(as_operand(value)), names, rows)
        if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
            return value * group_size
        return _reduce_leaf(bool_to_int(as_operand(value)), names, rows, c.PSum)

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
    _, group_size = resolve_index_groups(axis_names(axis_name), axis_index_groups)
    total = _reduce_over_axes(x, axis_name, axis_index_groups, c.PSum, arithmetic.to_inexact)
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
    return _reduce_over_axes(x, axis_name, axis_index_groups, c.PMax)


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
    return _reduce_over_axes(x, axis_name, axis_index_groups, c.PMin)


def pbroadcast(x: T, axis_name: AxisNames, source: int) -> T:
    """Returns everywhere along a named axis what one index has: the sum of its value and of zeros.

    Args:
        x: a tree of arrays.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several: indices then run through
            the last one fastest.
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
    size, source_index = (
        total_size(axis_names(axis_name)),
        check_int("source", source),
    )
    if not 0 <= source_index < size:
        raise ShapeError(f"pbroadcast: source must be from 0 to {size - 1}, got {source_index}")
    mine = axis_index(axis_name) == source_index

    def leaf(value: Operand) -> Array:
        array: Array = as_operand(value)
        if dtypes.is_key(array.type.dtype):
            words: Array = leaf(Bitcast(dtypes.uint32)(array))
            return Bitcast(array.type.dtype)(words)
        numeric = convert(array, dtypes.int8) if array.type.kind == "b" else array
        return convert(psum(arithmetic.where(mine, numeric, 0), axis_name), array.type.dtype, array.type.weak)

    return cast("T", tree.map(leaf, x))


def pcast(x: T, axis_name: AxisNames, *, to: str) -> T:
    """Returns x as a value of another type along a named axis of a `shard_map`, without communication.

    Along an axis a value is equal (invarying), which is the default; or it varies; or it is unreduced, the term of a
    sum that `psum` or `psum_scatter` take; or it is reduced: equal, with a cotangent that is unreduced. Gradients with
    respect to an equal value are summed over the axis at once, those with respect to a reduced one are left to be
    summed. Values combine without a cast: an operation of one that varies with one that does not gives one that varies.

    Args:
        x: a tree of arrays.
        axis_name: a name that a surrounding `shard_map` binds, or several. Along axes that types do not contain,
            those of vmap, of pmap, and of `check_vma=False`, x is returned as it is.
        to: "varying", of an equal or reduced value; "reduced", of an equal one; "unreduced", of a varying one.

    Raises:
        AxisNameError: nothing binds the name.
        TransformError: `to` is something else, or x has a type that does not become this one.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import PartitionSpec as P
    >>> mesh = effx.make_mesh((1,), ("i",))
    >>> f = lambda w: effx.typeof(pcast(w, "i", to="varying"))
    >>> effx.shard_map(lambda w: print(f(w)) or w, mesh=mesh, in_specs=P(), out_specs=P())(enp.ones(2))
    f32[2]{V:i}
    Array([1., 1.], dtype=float32)
    """
    if to not in _CASTS:
        raise TransformError(f"pcast: to must be 'varying', 'reduced' or 'unreduced', got {to!r}")
    names = axis_names(axis_name)
    total_size(names)

    def leaf(value: Operand) -> Array:
        array: Array = as_operand(value)
        for name in names:
            if name in tracked_axes.value:
                array = _cast_along(array, name, to)
        return array

    return cast("T", tree.map(leaf, x))


# The kinds of values that become a value of each kind without communication.
_CASTS = {
    "varying": ("varying", "invarying", "reduced"),
    "reduced": ("invarying",),
    "unreduced": ("varying",),
}


def _cast_along(x: Array, axis: AxisName, to: str) -> Array:
    unreduced, reduced = type_sums(x.type)
    kind = (
        "varying"
        if axis in x.type.vma
        else "unreduced"
        if axis in unreduced
        else "reduced"
        if axis in reduced
        else "invarying"
    )
    if kind not in _CASTS[to]:
        raise TransformError(
            f"pcast: {x.type!r} is {kind} along {axis!r}, and only what is {' or '.join(_CASTS[to])} becomes {to}"
        )
    if kind == to:
        return x
    return c.PCast(axis)(x) if to == "varying" else c.PCast(axis, to, mapped_mesh())(x)


def mapped_mesh() -> AbstractMesh:
    """Returns the mesh of the enclosing `shard_map`.

    Raises:
        TransformError: there is none.
    """
    mesh = ambient.value
    if mesh is None:
        raise TransformError(
            f"{name_user_call()}: only the axes of a shard_map's mesh can be reduced or unreduced"
        )
    return mesh.abstract_mesh
