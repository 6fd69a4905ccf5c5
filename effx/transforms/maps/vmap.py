"""`vmap`: map a function of one batch element over a batch axis."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, final, overload

from effx import dtypes, handlers
from effx.array import Array, Box
from effx.array.reducing import sum as total
from effx.array.shaping import moveaxis
from effx.effects import call_in_transformation, current_frame
from effx.errors import RefGivenError, ShapeError, check_function
from effx.flags import check_tracer_leaks
from effx.ir.meshes import entry_axes
from effx.ir.ops.shape import BroadcastInDim
from effx.tracing.arguments import (
    PartialLeafFunction,
    as_results,
    callable_name,
    finalize_result,
    function_origin,
)
from effx.tracing.wrapping import wraps
from effx.transforms.maps.mapped_axes import InAxes, MappedAxes, OutAxes, check_hashable, make_mapped_axes
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import BatchedFunction, MappedFunction, NoFunction

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")


@final
class _ElementFunction(PartialLeafFunction):
    """A function of one batch element.

    Attributes:
        returned: the leaves of the result, as the function returned them.
    """

    returned: Sequence[PyTree]

    def flatten_result(self, result: PyTree) -> list[Array]:
        """Returns the arrays of a result, and stores its leaves and structure."""
        leaves, self.out_tree = flatten(result)
        results = as_results(self.transform_name, self.name, leaves)
        if check_tracer_leaks.value:  # a batched value here would be found
            frame = current_frame()
            leaves = [None if type(x) is Box and x.frame is frame else x for x in leaves]
        self.returned = leaves
        return results


@overload
def vmap(  # for `partial(vmap, in_axes=1)`, of whose overloads mypy takes the first; no argument matches it
    fun: NoFunction,
) -> BatchedFunction[..., PyTree]: ...
@overload
def vmap(
    fun: BatchedFunction[..., PyTree],
    in_axes: Literal[0] = 0,
    out_axes: Literal[0] = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
    sum_match: bool = False,
) -> BatchedFunction[..., PyTree]: ...
@overload
def vmap(
    fun: Callable[P, R],
    in_axes: Literal[0] = 0,
    out_axes: Literal[0] = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
    sum_match: bool = False,
) -> BatchedFunction[P, R]: ...
@overload
def vmap(
    fun: Callable[P, R],
    in_axes: InAxes = 0,
    out_axes: OutAxes = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
    sum_match: bool = False,
) -> MappedFunction[P, R]: ...
def vmap(
    fun: Callable[P, R],
    in_axes: InAxes = 0,
    out_axes: OutAxes = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
    sum_match: bool = False,
) -> PyTree:
    """Returns a function that applies `fun` to each element of a batch at once.

    Args:
        fun: takes and returns pytrees of arrays.
        in_axes: for each positional argument the batch axis, None for an unbatched argument; an int for all,
            or a pytree prefix of the arguments. Negative axes count from the end. Keyword arguments are
            mapped over axis 0.
        out_axes: the batch axis of the results, in the same form. None requires an unbatched result.
        axis_name: a name for the batch, for collectives such as `effx.lax.psum`.
        axis_size: the batch size; needed only if no argument is mapped.
        spmd_axis_name: the mesh axis, or a tuple of axes, along which the batch is sharded wherever `fun` constrains
            shardings: by `with_sharding_constraint`, where the batch axis is otherwise left to the partitioner, and by
            `shard_map`, where each device otherwise runs the whole batch on its shard.
        sum_match: whether out axis None means the sum over the batch for a result that differs between batch elements, in
            its dtype, booleans counted as int32. An unbatched result is returned unchanged.

    Returns:
        The batched function. Arguments have one axis more than `fun`'s where mapped, and so have
        the results.

    Raises:
        TreeError: `in_axes` or `out_axes` is no prefix of the arguments or results.
        ShapeError: an axis is out of range, sizes differ, or a mapped result has out axis None without
            sum_match.
        TransformError: nothing is mapped and no size is given, or too few arguments.
        ShardingError: `spmd_axis_name` is no axis of a mesh in `fun`, or already shards an array there.

    >>> import effx, effx.numpy as enp
    >>> effx.vmap(enp.dot, in_axes=(0, None))(enp.eye(2), enp.array([3., 4.]))
    Array([3., 4.], dtype=float32)
    >>> print(effx.vmap(lambda x: 2 * x, out_axes=None, sum_match=True)(enp.arange(3.)))
    6.0
    """
    check_function(fun)
    name, origin = callable_name(fun), function_origin(fun)
    mapping = make_mapped_axes("vmap", name, in_axes, out_axes, axis_size)
    check_hashable("vmap", axis_name)
    spmd_axes = entry_axes(spmd_axis_name)

    @wraps(fun)
    def call_batched(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = flatten((args, kwargs))
        # Other leaves are passed on unchanged, a Python number as a number.
        try:
            mapped_inputs = mapping.find_mapped_inputs(leaves, args, kwargs)
        except RefGivenError:
            mapped_inputs = (
                None  # the rest runs outside of the except clause, so that its errors are not chained
            )
        if mapped_inputs is None:
            return batch_refs(args, kwargs)
        indices, arrays, axes, size = mapped_inputs
        element = _ElementFunction("vmap", fun, tree, leaves, indices, name)
        results, result_axes = handlers.vmap.evaluate_batch(
            partial(call_in_transformation, "vmap", element),
            arrays,
            axes,
            size,
            axis_name,
            origin=origin,
            spmd_axes=spmd_axes,
        )
        result_out_axes = mapping.output_axes(element.out_tree.unflatten(results))
        outputs: list[PyTree] = [
            # An unbatched result is returned unchanged, a Python number as a number.
            finalize_result(
                mapped_inputs
                if axis is None and out_axis is None
                else _move_batch_axis(mapping, x, axis, out_axis, size, sum_match)
            )
            for x, axis, out_axis, mapped_inputs in zip(
                results, result_axes, result_out_axes, element.returned, strict=True
            )
        ]
        result: R = element.out_tree.unflatten(outputs)
        return result

    def batch_refs(args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> R:
        """Maps over the contents of mutable references; a reference with in axis None is passed on unchanged."""
        from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
            RefArguments,
            functionalize_refs,
        )

        leaf_axes = mapping.input_axes(args, kwargs)
        ref_arguments = RefArguments("vmap", name, args, kwargs, [axis is not None for axis in leaf_axes])
        ref_axes = [leaf_axes[i] for i in ref_arguments.leaf_indices]
        map_contents = vmap(
            functionalize_refs(fun),
            in_axes,
            (out_axes, ref_axes),
            axis_name,
            axis_size,
            spmd_axis_name,
            sum_match,
        )
        result: R = ref_arguments.call_with_contents(map_contents)
        return result

    return call_batched


def _move_batch_axis(
    mapping: MappedAxes, x: Array, axis: int | None, out_axis: int | None, size: int, sum_match: bool
) -> Array:
    """Returns a result with the batch axis at its index in `out_axes`, or its sum along the batch axis."""
    if out_axis is None and axis is not None and sum_match:
        return total(x, axis, dtype=dtypes.int32 if x.type.kind == "b" else x.type.dtype)
    if out_axis is None:
        raise ShapeError(
            f"vmap: out_axes is None for a result of {mapping.name} that differs between batch elements: "
            f"{x.type!r} with batch axis {axis}"
        )
    if axis is not None:
        target_axis = mapping.normalize_out_axis(out_axis, x.type.ndim)
        return moveaxis(x, axis, target_axis) if axis != target_axis else x
    ndim = x.type.ndim + 1
    target_axis = mapping.normalize_out_axis(out_axis, ndim)
    shape = (*x.type.shape[:target_axis], size, *x.type.shape[target_axis:])
    return BroadcastInDim(shape, tuple([i for i in range(ndim) if i != target_axis]))(x)
