"""`vmap`: a function of one batch element becomes a function of a batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar, final, overload

from effx import dtypes, handlers
from effx.array import Array
from effx.array.reducing import sum as total
from effx.array.shaping import moveaxis
from effx.errors import RefGivenError, ShapeError
from effx.ir.meshes import axes_of
from effx.ir.ops.shape import BroadcastInDim
from effx.tracing.arguments import PartlyFixed, as_results, name_of, origin_of, plain
from effx.transforms.maps.mapped_axes import AxisTree, MappedAxes, mapped_axes
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import Batched, Mapped

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")


@final
class _Element(PartlyFixed):
    """A function of one batch element.

    Attributes:
        returned: the leaves of its result, as the function returned them.
    """

    returned: Sequence[PyTree]

    def flat(self, result: PyTree) -> list[Array]:
        """Returns the arrays of a result, whose leaves and structure are remembered."""
        self.returned, self.out_tree = flatten(result)
        return as_results(self.what, self.name, self.returned)


@overload
def vmap(
    fun: Batched[..., PyTree],
    in_axes: Literal[0] = 0,
    out_axes: Literal[0] = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
    sum_match: bool = False,
) -> Batched[..., PyTree]: ...
@overload
def vmap(
    fun: Callable[P, R],
    in_axes: Literal[0] = 0,
    out_axes: Literal[0] = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
    sum_match: bool = False,
) -> Batched[P, R]: ...
@overload
def vmap(
    fun: Callable[P, R],
    in_axes: AxisTree = 0,
    out_axes: AxisTree = 0,
    axis_name: Hashable = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable = None,
    sum_match: bool = False,
) -> Mapped[P, R]: ...
def vmap(
    fun: Callable[P, R],
    in_axes: AxisTree = 0,
    out_axes: AxisTree = 0,
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
        out_axes: likewise the batch axis of the results. None requires an unbatched result.
        axis_name: a name for the batch, for collectives such as `effx.lax.psum`.
        axis_size: the batch size; needed only if no argument is mapped.
        spmd_axis_name: the axis of a mesh, or a tuple of axes, along which the batch is cut wherever `fun` says how
            arrays lie: by `with_sharding_constraint`, where it is otherwise left to the partitioner, and by `shard_map`,
            where each device otherwise runs the whole batch on its part.
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
        ShardingError: `spmd_axis_name` is no axis of a mesh in `fun`, or cuts an array there already.

    >>> import effx, effx.numpy as enp
    >>> effx.vmap(enp.dot, in_axes=(0, None))(enp.eye(2), enp.array([3., 4.]))
    Array([3., 4.], dtype=float32)
    >>> print(effx.vmap(lambda x: 2 * x, out_axes=None, sum_match=True)(enp.arange(3.)))
    6.0
    """
    name, origin = name_of(fun), origin_of(fun)
    mapping = mapped_axes("vmap", name, in_axes, out_axes, axis_size)
    spmd_axes = axes_of(spmd_axis_name)

    @wraps(fun)
    def batched(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, tree = flatten((args, kwargs))
        # Other leaves are passed on as they are, a Python number as a number.
        try:
            given = mapping.inputs(leaves, args, kwargs)
        except RefGivenError:
            given = None  # the rest happens outside of the clause, so that its errors stand alone
        if given is None:
            return borrowed(args, kwargs)
        indices, arrays, axes, size = given
        element = _Element("vmap", fun, tree, leaves, indices, name)
        results, result_axes = handlers.vmap.batch(element, arrays, axes, size, axis_name, origin, spmd_axes)
        wanted = mapping.outputs(element.out_tree.unflatten(results))
        outputs = [
            # An unbatched result is returned unchanged, a Python number as a number.
            plain(given)
            if axis is None and want is None
            else _with_axis(mapping, x, axis, want, size, sum_match)
            for x, axis, want, given in zip(results, result_axes, wanted, element.returned, strict=True)
        ]
        result: R = element.out_tree.unflatten(outputs)
        return result

    def borrowed(args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> R:
        """Maps over the contents of mutable references; a ref with in axis None is passed on as it is."""
        from effx.transforms.refs.ref_arguments import Lending, borrowing  # rare, and not loaded before

        wanted = mapping.axes_of(args, kwargs)
        lent = Lending("vmap", name, args, kwargs, [axis is not None for axis in wanted])
        places = [wanted[i] for i in lent.places]
        whole = vmap(
            borrowing(fun), in_axes, (out_axes, places), axis_name, axis_size, spmd_axis_name, sum_match
        )
        result: R = lent.to(whole)
        return result

    return batched


def _with_axis(
    mapping: MappedAxes, x: Array, axis: int | None, want: int | None, size: int, sum_match: bool
) -> Array:
    """Returns a result with the batch axis where `out_axes` wants it, or its sum along it."""
    if want is None and axis is not None and sum_match:
        return total(x, axis, dtype=dtypes.int32 if x.type.kind == "b" else x.type.dtype)
    if want is None:
        raise ShapeError(
            f"vmap: out_axes is None for a result of {mapping.name} that differs between batch elements: "
            f"{x.type!r} with batch axis {axis}"
        )
    if axis is not None:
        at = mapping.out_axis(want, x.type.ndim)
        return moveaxis(x, axis, at) if axis != at else x
    ndim = x.type.ndim + 1
    at = mapping.out_axis(want, ndim)
    shape = (*x.type.shape[:at], size, *x.type.shape[at:])
    return BroadcastInDim(shape, tuple([i for i in range(ndim) if i != at]))(x)
