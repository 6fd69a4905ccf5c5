"""Scans by any associative function, in a logarithmic number of steps: `associative_scan`."""

from collections.abc import Callable
from operator import index
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from effx.array import Array
from effx.array.prefixes import combine_prefixes
from effx.errors import ShapeError, TransformError, TreeError
from effx.lax.control.closures import check_callable, flatten_to_arrays
from effx.lax.operands import resolve_axis
from effx.lax.shape import rev
from effx.tracing.arguments import callable_name, leaf_path
from effx.tree.registry import PyTree

__all__ = ["associative_scan"]

E = TypeVar("E")


@overload
def associative_scan(
    fn: Callable[[Array, Array], Array], elems: NDArray[np.generic], reverse: bool = False, axis: int = 0
) -> Array: ...
@overload
def associative_scan(fn: Callable[[E, E], E], elems: E, reverse: bool = False, axis: int = 0) -> E: ...
@overload
def associative_scan(fn: Callable[[E, E], E], elems: PyTree, reverse: bool = False, axis: int = 0) -> E: ...
def associative_scan(fn: Callable[[E, E], E], elems: PyTree, reverse: bool = False, axis: int = 0) -> E:
    """Combines all elements up to each index along an axis. Takes about 2 log2(n) calls of `fn`, on slices of
    n/2, n/4, ... elements, so the work is that of about 2n combinations.

    Args:
        fn: combines two pytrees like `elems`, elementwise along the axis; associative. It must
            take slices of any length.
        elems: a pytree of arrays with equal sizes along the axis.
        reverse: True to combine from the last element backwards; the combination of later elements is then
            the first argument of `fn`.
        axis: the axis; negative ones count from the end.

    Returns:
        A pytree like `elems`: at each index the combination of the elements up to it.

    Raises:
        ShapeError: the axis is out of range, or sizes along it differ.
        TreeError: `fn` changes the structure.
        TransformError: `elems` has no arrays, or `fn` is no function.

    Reference: Blelloch, "Prefix sums and their applications", 1990.

    >>> import effx.numpy as enp
    >>> associative_scan(enp.add, enp.arange(5))
    Array([ 0,  1,  3,  6, 10], dtype=int32)
    >>> associative_scan(lambda a, b: a @ b, enp.stack([enp.array([[1, 1], [1, 0]])] * 6))[-1, 0]
    Array([13,  8], dtype=int32)
    """
    check_callable("fn", fn)
    arrays, tree = flatten_to_arrays("elems", elems)
    if not arrays:
        raise TransformError("associative_scan: elems must hold at least one array")
    axes = [resolve_axis(index(axis), x.type) for x in arrays]
    _check_sizes(elems, arrays, axes)
    name = callable_name(fn)

    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        combined, out_tree = flatten_to_arrays(
            f"the result of {name}", fn(tree.unflatten(left), tree.unflatten(right))
        )
        if out_tree != tree:
            raise TreeError(
                f"associative_scan: {name} must return the structure of elems, {tree}, got {out_tree}"
            )
        return combined

    if reverse:
        arrays = [rev(x, (a,)) for x, a in zip(arrays, axes, strict=True)]
    prefixes = combine_prefixes(combine, arrays, axes)
    if reverse:
        prefixes = [rev(x, (a,)) for x, a in zip(prefixes, axes, strict=True)]
    result: E = tree.unflatten(prefixes)
    return result


def _check_sizes(elems: PyTree, arrays: list[Array], axes: list[int]) -> None:
    """Refuses arrays of different sizes along the axis."""
    sizes = [x.type.shape[a] for x, a in zip(arrays, axes, strict=True)]
    for i, n in enumerate(sizes):
        if n != sizes[0]:
            raise ShapeError(
                f"associative_scan: sizes along axis {axes[0]} differ: elems{leaf_path(elems, 0)} {arrays[0].type!r} has "
                f"{sizes[0]}, elems{leaf_path(elems, i)} {arrays[i].type!r} has {n}"
            )
