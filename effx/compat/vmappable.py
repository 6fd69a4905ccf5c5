"""`vmap` over values of a library's own classes, which say themselves how they are cut into elements and put together."""

from collections.abc import Callable, Hashable
from typing import final

import attrs

from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.effects import handle
from effx.errors import ShapeError, TransformError, TreeError, check_function
from effx.handlers.vmap.handler import Vmap, materialize
from effx.ir.meshes import entry_axes
from effx.tracing.arguments import finalize_result
from effx.tracing.wrapping import wraps
from effx.transforms.maps.vmap import vmap as vmap_of_arrays
from effx.tree.registry import PyTree, flatten

__all__ = ["register_vmappable", "unregister_vmappable", "vmap"]

# Of `(continuation, axis size, value, specification)`; the continuation treats what is inside of the value.
ToElement = Callable[..., PyTree]
FromElement = Callable[..., PyTree]


@final
@attrs.frozen
class Vmappable:
    """How values of a class are mapped over.

    Attributes:
        spec_type: of what stands for an axis. to_elt, from_elt: take a value apart, and put one together.
    """

    spec_type: type
    to_elt: ToElement
    from_elt: FromElement


_vmappables: dict[type, Vmappable] = {}


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: ToElement,
    from_elt: FromElement,
    make_iota: Callable[..., PyTree] | None,
) -> None:
    """Makes values of a class arguments and results that vmap maps over.

    Args:
        data_type: the class.
        spec_type: of what stands for its axes in `in_axes` and `out_axes`.
        axis_size_type: int; the sizes of batches are ints.
        to_elt: `(cont, axis_size, value, spec)` returns a batch element; `cont(x, axis)` returns that of an array.
        from_elt: `(cont, axis_size, element, spec)` returns the value; `cont(axis_size, y, axis)` that of an array.
        make_iota: not used.
    """
    _vmappables[data_type] = Vmappable(spec_type, to_elt, from_elt)


def unregister_vmappable(data_type: type) -> None:
    """Makes values of a class what they were before `register_vmappable`."""
    _vmappables.pop(data_type, None)


def _is_vmappable(x: object) -> bool:
    return type(x) in _vmappables


def _is_axis(x: object) -> bool:
    return x is None or isinstance(x, tuple([v.spec_type for v in _vmappables.values()]))


def _match_axes(name: str, axes: PyTree, tree: PyTree) -> list[PyTree]:
    """Returns the axis, or what stands for one, of each array or value of a tree."""
    entries, structure = flatten(axes, _is_axis)
    try:
        parts = structure.flatten_up_to(tree)
    except (ValueError, TypeError) as error:
        raise TreeError(f"vmap: {name} is no prefix of what it is for: {error}") from None
    return [
        axis
        for axis, part in zip(entries, parts, strict=True)
        for _ in range(len(flatten(part, _is_vmappable)[0]))
    ]


def vmap(
    fun: Callable[..., PyTree],
    in_axes: PyTree = 0,
    out_axes: PyTree = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
    sum_match: bool = False,
) -> Callable[..., PyTree]:
    """`effx.vmap`, which also maps over values of classes that a library has registered.

    Args:
        fun, in_axes, out_axes, axis_name, axis_size, spmd_axis_name, sum_match: as for `effx.vmap`; `in_axes` and
            `out_axes` may hold what stands for axes of such values.

    >>> import effx.numpy as enp
    >>> vmap(lambda x: x * 2)(enp.arange(3))
    Array([0, 2, 4], dtype=int32)
    """
    if not _vmappables:
        mapped: Callable[..., PyTree] = vmap_of_arrays(
            fun, in_axes, out_axes, axis_name, axis_size, spmd_axis_name, sum_match
        )
        return mapped
    check_function(fun)

    @wraps(fun)
    def call_batched(*args: PyTree, **kwargs: PyTree) -> PyTree:
        values, tree = flatten((args, kwargs), _is_vmappable)
        axes_of_arguments = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        axes = _match_axes("in_axes", axes_of_arguments, args)
        axes += [0] * (len(values) - len(axes))
        sizes = {
            as_operand(x).type.shape[axis]
            for x, axis in zip(values, axes, strict=True)
            if isinstance(axis, int) and not _is_vmappable(x)
        }
        sizes |= set() if axis_size is None else {axis_size}
        if len(sizes) != 1:
            raise TransformError(f"vmap: the batch must have one size, got {sorted(sizes)}; give axis_size")
        (size,) = sizes
        handler = Vmap(size, axis_name, entry_axes(spmd_axis_name))
        with handle(handler) as frame:

            def take_element(x: PyTree, axis: PyTree) -> PyTree:
                if _is_vmappable(x):
                    return _vmappables[type(x)].to_elt(take_element, size, x, axis)
                array = as_operand(x)
                return handler.boxed_result(frame, array, None if axis is None else axis % array.type.ndim)

            def put_together(axis_size: int, y: PyTree, axis: PyTree) -> PyTree:
                if _is_vmappable(y):
                    return _vmappables[type(y)].from_elt(put_together, axis_size, y, axis)
                array = as_operand(y)
                batch_axis = None
                if type(array) is Box and array.frame is frame:
                    array, batch_axis = array.payload.value, array.payload.axis
                if axis is None and batch_axis is not None:
                    raise ShapeError(f"vmap: out_axes is None for a result that differs: {array.type!r}")
                if axis is None:
                    return array
                ndim = array.type.ndim + (batch_axis is None)
                return materialize(handler, array, batch_axis, axis % ndim)

            elements = [take_element(x, axis) for x, axis in zip(values, axes, strict=True)]
            element_args, element_kwargs = tree.unflatten(elements)
            result = fun(*element_args, **element_kwargs)
            leaves, result_tree = flatten(result, _is_vmappable)
            specs = _match_axes("out_axes", out_axes, result)
            outputs = [put_together(size, y, axis) for y, axis in zip(leaves, specs, strict=True)]
        return result_tree.unflatten([finalize_result(y) if isinstance(y, Array) else y for y in outputs])

    return call_batched
