"""`make_jaxpr` (also `stage`) and `eval_shape`: programs and shapes of users' functions."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, cast, overload

import attrs

from effx.effects import handle
from effx.errors import check_function
from effx.handlers.staging.compile_time_eval import EvaluateKnown
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.ir.values.refs import ReferenceBase, has_refs
from effx.tracing.arguments import (
    FlatFunction,
    adapt_arguments,
    callable_name,
    leaf_type,
    merge_static_arguments,
    normalize_argnums,
)
from effx.tracing.axis_environments import AxisEnv, bind_axes, parse_axis_env
from effx.tracing.traces import FunctionTrace, trace
from effx.tracing.wrapping import wraps
from effx.transforms.jit.stages import shape_struct
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import NoFunction

__all__ = ["ensure_compile_time_eval", "eval_shape", "make_jaxpr", "stage", "typeof"]

P = ParamSpec("P")


def flatten_function(
    function_name: str,
    fun: Callable[..., Any],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
    static: tuple[int, ...],
) -> tuple[FlatFunction, list[ArrayType]]:
    """Returns a function of the dynamic arguments' leaves, and the leaves' types."""
    leaves, tree = flatten(([a for i, a in enumerate(args) if i not in static], kwargs))
    function = (
        adapt_arguments(fun, partial(merge_static_arguments, [(i, args[i]) for i in static]))
        if static
        else fun
    )
    return FlatFunction(function_name, function, tree), [leaf_type(function_name, x) for x in leaves]


def result_shapes(staged_trace: FunctionTrace) -> PyTree:
    """Returns the shapes and dtypes of a function's result, in its structure."""
    return staged_trace.out_tree.unflatten([shape_struct(t) for t in staged_trace.out_types])


@overload
def make_jaxpr(  # for `partial(make_jaxpr, static_argnums=1)`, of whose overloads mypy takes the first
    fun: "NoFunction",
) -> Callable[..., Program]: ...
@overload
def make_jaxpr(
    fun: Callable[P, PyTree],
    static_argnums: "int | Iterable[int]" = (),
    axis_env: AxisEnv | None = None,
    return_shape: Literal[False] = False,
    abstracted_axes: PyTree = None,
) -> Callable[P, Program]: ...
@overload
def make_jaxpr(
    fun: Callable[P, PyTree],
    static_argnums: "int | Iterable[int]" = (),
    axis_env: AxisEnv | None = None,
    *,
    return_shape: Literal[True],
    abstracted_axes: PyTree = None,
) -> Callable[P, tuple[Program, PyTree]]: ...
@overload
def make_jaxpr(
    fun: Callable[P, PyTree],
    static_argnums: "int | Iterable[int]" = (),
    axis_env: AxisEnv | None = None,
    *,
    return_shape: bool,
    abstracted_axes: PyTree = None,
) -> Callable[P, PyTree]: ...
@overload
def make_jaxpr(
    fun: Callable[P, PyTree],
    static_argnums: "int | Iterable[int]",
    axis_env: AxisEnv | None,
    return_shape: bool,
    abstracted_axes: PyTree = None,
) -> Callable[P, PyTree]: ...
def make_jaxpr(
    fun: Callable[P, Any],
    static_argnums: "int | Iterable[int]" = (),
    axis_env: AxisEnv | None = None,
    return_shape: bool = False,
    abstracted_axes: PyTree = None,
) -> Callable[P, Any]:
    """Returns a function that stages `fun` and returns its program.

    Args:
        fun: takes and returns pytrees of arrays.
        static_argnums: static positional arguments, which are part of the program.
        axis_env: names and sizes of axes that collectives in `fun` may name; they stay in the program's effect row.
        return_shape: True to get a pair of the program and the result's shapes and dtypes.
        abstracted_axes: names of sizes, which the program has instead of the arguments' sizes: for each positional
            argument a dict `{axis: name}`, a tuple of names and None, or None, or a pytree of these for the arrays in
            it; or one of these for all arguments. A name may be the text of a size, such as `"2*n"`.

    Returns:
        A function of arguments, or of objects with their shapes and dtypes, that returns an
        `effx.ir.Program`. Arrays that `fun` closes over are the program's first inputs; their
        values are its `constants`. For an argument that is a mutable reference, the program takes its contents,
        and returns the contents afterwards behind the result.

    Raises:
        TransformError, TreeError: `abstracted_axes` does not fit the arguments.
        ShapeError: two sizes with one name differ.

    >>> import effx, effx.numpy as enp
    >>> print(effx.make_jaxpr(lambda x: enp.sin(enp.cos(x)))(3.0))
    <lambda>(a: f32[]~) {
      b: f32[]~ = cos a
      c: f32[]~ = sin b
      return c
    }
    >>> print(effx.make_jaxpr(lambda x: effx.lax.psum(x, "i"), axis_env=[("i", 4)])(3.0))
    <lambda>(a: f32[]~) ! AxisEffect(axis='i') {
      b: f32[]~ = psum[axis_name='i'] a
      return b
    }
    >>> print(effx.make_jaxpr(lambda x: enp.append(x, 0.0), abstracted_axes={0: "n"})(enp.ones(3)))
    <lambda>(a: f32[n]) {
      b: f32[1]~ = reshape[shape=(1,)] 0.0:f32~
      c: f32[n + 1] = concatenate[axis=0] a b
      return c
    }
    """
    check_function(fun)
    axes = parse_axis_env("make_jaxpr", axis_env)

    @wraps(fun)
    def stage_function(*args: P.args, **kwargs: P.kwargs) -> Any:
        if has_refs((args, kwargs)):
            from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
                RefArguments,
                functionalize_refs,
            )

            contents_args, contents_kwargs = RefArguments(
                "make_jaxpr", callable_name(fun), args, kwargs
            ).arguments
            stage_contents = make_jaxpr(
                functionalize_refs(fun), static_argnums, axis_env, return_shape, abstracted_axes
            )
            return stage_contents(*contents_args, **contents_kwargs)
        numbers = normalize_argnums("make_jaxpr", static_argnums, len(args))
        positional: tuple[PyTree, ...] = args
        if abstracted_axes is not None:
            from effx.transforms.jit.abstracted_axes import AbstractedAxes  # rare, and not loaded before

            named_axes = AbstractedAxes("make_jaxpr", callable_name(fun), abstracted_axes)
            named_axes.refuse_keywords(kwargs)
            positional = named_axes.abstract_arguments(args, numbers)
        with bind_axes(axes):
            staged_trace = trace(
                *flatten_function("make_jaxpr", fun, positional, kwargs, tuple(sorted(numbers)))
            )
        program = attrs.evolve(staged_trace.program, constants=staged_trace.captured, derived={})
        return (program, result_shapes(staged_trace)) if return_shape else program

    return stage_function


stage = make_jaxpr


def eval_shape(fun: Callable[..., Any], *args: PyTree, **kwargs: PyTree) -> Any:
    """Infers the shapes and dtypes of `fun(*args, **kwargs)` without computing values.

    Args:
        fun: takes and returns pytrees of arrays.
        args, kwargs: arrays, or anything with `shape` and `dtype`.

    Returns:
        The result's structure with a `ShapeDtypeStruct` for each array.

    Raises:
        ShapeError, DTypeError: as `fun` itself would.

    >>> import effx, effx.numpy as enp
    >>> effx.eval_shape(enp.dot, effx.ShapeDtypeStruct((2000, 3000), "float32"), effx.ShapeDtypeStruct((3000, 5), "float32"))
    ShapeDtypeStruct(shape=(2000, 5), dtype=float32)
    """
    if has_refs((args, kwargs)):
        from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
            RefArguments,
            functionalize_refs,
        )

        ref_arguments = RefArguments("eval_shape", callable_name(fun), args, kwargs)
        return ref_arguments.call_with_contents(
            partial(eval_shape, functionalize_refs(fun)), writes_back=False
        )
    return result_shapes(trace(*flatten_function("eval_shape", fun, args, kwargs, ())))


def typeof(x: PyTree) -> ArrayType:
    """Returns the type of an array or number: dtype, shape, and weak type.

    Of a reference it is the reference's, `ref.aval`, which has shape and dtype too.

    Raises:
        DTypeError: it is neither.

    >>> import effx
    >>> effx.typeof(1.5), effx.typeof(effx.numpy.ones((2, 3))), effx.typeof(effx.new_ref(1.5))
    (f32[]~, f32[2,3], Ref{f32[]})
    """
    if isinstance(x, ReferenceBase):
        return cast("ArrayType", x.aval)  # type: ignore[attr-defined]  # of the base's subclasses
    return leaf_type("typeof", x)


def ensure_compile_time_eval() -> handle:
    """Returns a context in which operations on known values run at once, even while a function is being staged.

    Operations on values of that function are staged as before.

    >>> import effx, effx.numpy as enp
    >>> @effx.jit
    ... def f(x):
    ...     with effx.ensure_compile_time_eval():
    ...         n = int(enp.sqrt(16.0))
    ...     return x * n
    >>> f(2.0)
    Array(8., dtype=float32, weak_type=True)
    """
    return handle(EvaluateKnown())
