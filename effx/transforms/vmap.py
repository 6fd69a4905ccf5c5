"""`vmap`: a function of one batch element becomes a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from operator import index
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from effx import handlers
from effx.array import Array
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.errors import ShapeError, TransformError, TreeError
from effx.ir.ops.shape import BroadcastInDim
from effx.transforms.arguments import argument_place, as_results, name_of, origin_of, plain
from effx.tree import unflatten
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, PyTreeDef, flatten

if TYPE_CHECKING:
    from effx.transforms.signatures import Batched, Mapped

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")

AxisTree = Any
"""An int, None, or a pytree prefix of them; its leaves are axes."""


def _is_axis(x: object) -> bool:
    return x is None


@overload
def vmap(
    fun: Batched[..., PyTree],
    in_axes: Literal[0] = 0,
    out_axes: Literal[0] = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
) -> Batched[..., PyTree]: ...
@overload
def vmap(
    fun: Callable[P, R],
    in_axes: Literal[0] = 0,
    out_axes: Literal[0] = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
) -> Batched[P, R]: ...
@overload
def vmap(
    fun: Callable[P, R],
    in_axes: AxisTree = 0,
    out_axes: AxisTree = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
) -> Mapped[P, R]: ...
def vmap(
    fun: Callable[P, R],
    in_axes: AxisTree = 0,
    out_axes: AxisTree = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
) -> PyTree:
    """Returns a function that applies `fun` to each element of a batch at once.

    Args:
        fun: takes and returns pytrees of arrays.
        in_axes: for each positional argument the batch axis, None for an unbatched argument; an int for all,
            or a pytree prefix of the arguments. Negative axes count from the end. Keyword arguments are
            mapped over axis 0.
        out_axes: likewise the batch axis of the results. None requires an unbatched result.
        axis_name: a name for the batch, for collectives such as `effx.lax.psum`.
        axis_size: the batch size; needed only if no argument is mapped.

    Returns:
        The batched function. Arguments have one axis more than `fun`'s where mapped, and so have
        the results.

    Raises:
        TreeError: `in_axes` or `out_axes` is no prefix of the arguments or results.
        ShapeError: an axis is out of range, sizes differ, or a mapped result has out axis None.
        TransformError: nothing is mapped and no size is given, or too few arguments.

    >>> import effx, effx.numpy as enp
    >>> effx.vmap(enp.dot, in_axes=(0, None))(enp.eye(2), enp.array([3., 4.]))
    Array([3., 4.], dtype=float32)
    """
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, int | tuple)):
        raise TransformError(
            f"vmap: in_axes must be an int, None, or a tuple with an entry for each argument, got {in_axes!r}"
        )
    name, origin = name_of(fun), origin_of(fun)

    @wraps(fun)
    def batched(*args: P.args, **kwargs: P.kwargs) -> R:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise TransformError(
                f"vmap: in_axes has {len(in_axes)} entries, but {name} got {len(args)} positional arguments"
            )
        leaves, tree = flatten((args, kwargs))
        axes = [*_axes("in_axes", in_axes, args), *[0] * len(flatten(kwargs)[0])]
        arrays: list[Array] = []
        mapped: list[PyTree] = []
        places: list[int | None] = []
        for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
            if axis is None:
                continue  # passed on as it is, a Python number as a number
            x = as_operand(leaf, "vmap")
            ndim = x.type.ndim
            if not -ndim <= axis < ndim:
                raise ShapeError(
                    f"vmap: in_axes asks for axis {axis} of {argument_place((args, kwargs), i)} of {name}, "
                    f"which is {x.type!r} with {ndim} axes"
                )
            arrays.append(x)
            places.append(axis % ndim)
            mapped.append(i)
        size = _size(name, axis_size, arrays, places, mapped, (args, kwargs))
        out_tree: PyTreeDef | None = None
        returned: list[PyTree] = []

        def flat(members: list[Array]) -> Sequence[Array]:
            nonlocal out_tree, returned
            inner = list(leaves)
            for i, x in zip(mapped, members, strict=True):
                inner[i] = x
            inner_args, inner_kwargs = tree.unflatten(inner)
            returned, out_tree = flatten(fun(*inner_args, **inner_kwargs))
            return as_results("vmap", name, returned)

        results, result_axes = handlers.vmap.batch(flat, arrays, places, size, axis_name, origin)
        assert out_tree is not None
        wanted = _axes("out_axes", out_axes, unflatten(out_tree, results))
        outputs = [
            # An unbatched result is returned unchanged, a Python number as a number.
            plain(given) if axis is None and want is None else _place(name, x, axis, want, size)
            for x, axis, want, given in zip(results, result_axes, wanted, returned, strict=True)
        ]
        result: R = out_tree.unflatten(outputs)
        return result

    return batched


def _axes(what: str, prefix: AxisTree, full: PyTree) -> list[int | None]:
    try:
        axes = broadcast_prefix(prefix, full, is_leaf=_is_axis)
    except TreeError as error:
        raise TreeError(
            f"vmap: {what} must be an int, None, or a pytree prefix of the "
            f"{'arguments' if what == 'in_axes' else 'results'}: {error.message}"
        ) from None
    result: list[int | None] = []
    for axis in axes:
        try:
            result.append(None if axis is None else index(axis))
        except TypeError:
            raise TransformError(f"vmap: {what} must hold ints and None, got {axis!r}") from None
    return result


def _size(
    name: str,
    axis_size: int | None,
    arrays: Sequence[Array],
    places: Sequence[int | None],
    mapped: Sequence[int],
    tree: PyTree,
) -> int:
    sizes = [x.type.shape[axis] for x, axis in zip(arrays, places, strict=True) if axis is not None]
    if not sizes:
        if axis_size is None:
            raise TransformError(
                f"vmap: no argument of {name} is mapped; give axis_size, or an axis in in_axes for at least one"
            )
        return index(axis_size)
    expected = sizes[0] if axis_size is None else index(axis_size)
    if any([n != expected for n in sizes]):
        parts = [
            f"{argument_place(tree, i)} {x.type!r} axis {axis} is {n}"
            for i, x, axis, n in zip(mapped, arrays, places, sizes, strict=True)
        ]
        given = "" if axis_size is None else f", axis_size is {axis_size}"
        raise ShapeError(f"vmap: sizes of the mapped axes of {name} differ: {', '.join(parts)}{given}")
    return expected


def _place(name: str, x: Array, axis: int | None, want: int | None, size: int) -> Array:
    if axis is None:
        assert want is not None
        ndim = x.type.ndim + 1
        if not -ndim <= want < ndim:
            raise ShapeError(f"vmap: out_axes asks for axis {want} of a result of {name} with {ndim} axes")
        place = want % ndim
        shape = (*x.type.shape[:place], size, *x.type.shape[place:])
        return BroadcastInDim(shape, tuple([i for i in range(ndim) if i != place]))(x)
    if want is None:
        raise ShapeError(
            f"vmap: out_axes is None for a result of {name} that differs between batch elements: "
            f"{x.type!r} with batch axis {axis}"
        )
    ndim = x.type.ndim
    if not -ndim <= want < ndim:
        raise ShapeError(f"vmap: out_axes asks for axis {want} of a result of {name} with {ndim} axes")
    return moveaxis(x, axis, want % ndim) if axis != want % ndim else x
