"""`auto_axes` and `explicit_axes`: set the mesh axes' types inside a function, so that types show shardings or not."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast, overload

from effx.array import Array
from effx.array.promotion import as_operand
from effx.errors import ShardingError
from effx.ir.meshes import AxisType, MeshAxisName
from effx.ir.ops.sharding import Release
from effx.lower.placement.meshes import ambient
from effx.tracing.wrapping import wraps
from effx.transforms.jit.jit import jit
from effx.transforms.placement.meshes import MeshContext, reshard_as
from effx.tree import PyTree
from effx.tree.registry import flatten

__all__ = ["auto_axes", "explicit_axes"]

P = ParamSpec("P")
R = TypeVar("R")

Names: TypeAlias = "str | tuple[MeshAxisName, ...] | None"


def _select_axes(function_name: str, axes: Names) -> tuple[MeshAxisName, ...]:
    """Returns the selected axes of the mesh in force."""
    mesh = ambient.value
    if mesh is None:
        raise ShardingError(f"{function_name}: there is no mesh in force; use effx.set_mesh")
    named = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    for name in named:
        if name not in mesh.axis_names:
            raise ShardingError(f"{function_name}: the mesh has no axis {name!r}; it has {mesh.axis_names}")
    return named


def _use_axis_types(names: tuple[MeshAxisName, ...], kind: AxisType) -> MeshContext:
    """Returns the mesh in force, with the type of some axes replaced."""
    mesh = ambient.value
    assert mesh is not None
    return MeshContext(mesh.update_axis_types(dict.fromkeys(names, kind)))


@overload
def auto_axes(f: Callable[P, R], /, *, axes: Names = None, out_sharding: PyTree = None) -> Callable[P, R]: ...
@overload
def auto_axes(
    f: None = None, /, *, axes: Names = None, out_sharding: PyTree = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def auto_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Names = None, out_sharding: PyTree = None
) -> Any:
    """Leaves the shardings inside a function to the partitioner: types there do not show them.

    Args:
        f: the function; without it a decorator is returned.
        axes: the mesh axes that are Auto inside; all by default.
        out_sharding: the results' shardings: shardings or PartitionSpecs, as a pytree prefix of the results.

    Returns:
        The function. It takes `out_sharding` too if none is given here.

    Raises:
        ShardingError: no mesh is in force, it has no such axis, or the results' shardings are not specified.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import AxisType, PartitionSpec as P, auto_axes
    >>> flipped = auto_axes(lambda x: x[::-1].cumsum(), out_sharding=P("i"))
    >>> with effx.set_mesh(effx.make_mesh((1,), ("i",), AxisType.Explicit)):
    ...     print(flipped(effx.device_put(enp.arange(3), P("i"))).type)
    i32[3@i]
    """
    if f is None:
        return lambda g: auto_axes(g, axes=axes, out_sharding=out_sharding)
    function = f

    @wraps(function)
    def call_auto(*args: Any, **kwargs: Any) -> Any:
        result_sharding = kwargs.pop("out_sharding", None) if out_sharding is None else out_sharding
        if result_sharding is None:
            raise ShardingError(
                "auto_axes: the results' shardings are not specified; give out_sharding, to auto_axes or to the function"
            )
        names = _select_axes("auto_axes", axes)
        released_args, released_kwargs = _map_leaves((args, kwargs), lambda x: _release(x, names))
        with _use_axis_types(names, AxisType.Auto):
            results = function(*released_args, **released_kwargs)
        return reshard_as("auto_axes", results, result_sharding)

    return call_auto


def _map_leaves(tree: PyTree, change: Callable[[Any], Any]) -> Any:
    leaves, form = flatten(tree)
    return form.unflatten([change(x) for x in leaves])


def _release(x: Any, names: tuple[MeshAxisName, ...]) -> Any:
    if not isinstance(x, Array):
        return x
    array = as_operand(x)
    return array if array.type.explicit_sharding is None else Release(names)(array)


@overload
def explicit_axes(
    f: Callable[P, R], /, *, axes: Names = None, in_sharding: PyTree = None
) -> Callable[P, R]: ...
@overload
def explicit_axes(
    f: None = None, /, *, axes: Names = None, in_sharding: PyTree = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def explicit_axes(
    f: Callable[..., Any] | None = None, /, *, axes: Names = None, in_sharding: PyTree = None
) -> Any:
    """Shows shardings in types inside a function, while the partitioner chooses them outside.

    Args:
        f: the function; without it a decorator is returned.
        axes: the mesh axes that are Explicit inside; all by default.
        in_sharding: the arguments' shardings: a sharding or PartitionSpec, or a pytree of them that is a prefix of the
            positional arguments.

    Returns:
        The function. It takes `in_sharding` too if none is given here. Outside, types do not show its results'
        shardings.

    Raises:
        ShardingError: no mesh is in force, it has no such axis, or the arguments' shardings are not specified.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import PartitionSpec as P, explicit_axes
    >>> def double(x):
    ...     print(x.type)
    ...     return 2 * x
    >>> with effx.set_mesh(effx.make_mesh((1,), ("i",))):
    ...     y = effx.jit(explicit_axes(double, in_sharding=P("i")))(enp.ones(3))
    f32[3@i]
    """
    if f is None:
        return lambda g: explicit_axes(g, axes=axes, in_sharding=in_sharding)
    function = f

    def jit_with_sharding(sharding: PyTree) -> Callable[..., Any]:
        # Staged separately: the surrounding program does not read shardings from types.
        return jit(lambda args, kwargs: function(*reshard_as("explicit_axes", args, sharding), **kwargs))

    compiled = None if in_sharding is None else jit_with_sharding(in_sharding)

    @wraps(function)
    def call_explicit(*args: Any, **kwargs: Any) -> Any:
        run = compiled
        if run is None:
            argument_sharding = kwargs.pop("in_sharding", None)
            if argument_sharding is None:
                raise ShardingError(
                    "explicit_axes: the arguments' shardings are not specified; give in_sharding, to explicit_axes or "
                    "to the function"
                )
            run = jit_with_sharding(argument_sharding)
        names = _select_axes("explicit_axes", axes)
        with _use_axis_types(names, AxisType.Explicit):
            results = run(args, kwargs)
        return _map_leaves(results, lambda x: _release(x, names))

    return cast("Any", call_explicit)
