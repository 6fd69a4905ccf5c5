"""`checkpoint`: recompute intermediate values in reverse mode to save memory; name and list residuals."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar, cast, final, overload

import attrs

from effx.array import Array
from effx.array.promotion import as_operand
from effx.errors import RefGivenError, TransformError, check_function, resolve_source
from effx.handlers.staging.stage import stage
from effx.ir.ops.checkpoint import Checkpoint, CheckpointName, Policy, Unpinned
from effx.ir.passes import inline_calls
from effx.ir.program import Equation, Var
from effx.ir.values.refs import has_refs
from effx.tracing.arguments import (
    Arguments,
    FlatFunction,
    adapt_arguments,
    argument_path,
    as_arrays,
    function_signature,
    positional_parameter_names,
)
from effx.tracing.wrapping import update_wrapper
from effx.transforms.autodiff.pullbacks import flatten_flags
from effx.transforms.jit.function import Function
from effx.transforms.jit.options import (
    Options,
    match_names_and_numbers,
    parse_argnames,
    parse_argnums,
    valid_argument_numbers,
)
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import NoFunction

P = ParamSpec("P")
R = TypeVar("R")

ArgsKwargs = tuple[tuple[object, ...], dict[str, object]]


class CheckpointDecorator(Protocol):
    """The decorator that `checkpoint(...)` returns when called without a function."""

    def __call__(self, fun: Callable[P, R]) -> Callable[P, R]:
        """Makes the function recompute, with the options of `checkpoint(...)`."""
        ...


def _check_prevent_cse(prevent_cse: bool | tuple[PyTree, ...]) -> None:
    """Refuses what is neither a bool nor a tuple of pytrees of bools.

    Raises:
        TransformError: that is so.
    """
    for leaf in flatten(prevent_cse)[0] if isinstance(prevent_cse, tuple) else [prevent_cse]:
        if not isinstance(leaf, bool):
            raise TransformError(
                f"checkpoint: prevent_cse must be a bool or a tuple of bools for the arguments, got {prevent_cse!r}"
            )


def _mark_unpinned(prevent_cse: tuple[PyTree, ...], arguments: Arguments) -> Arguments:
    """Marks the arrays among the positional arguments that XLA may share between the two computations."""
    args, kwargs = arguments
    leaves, tree = flatten(args)
    flags = flatten_flags("checkpoint", "prevent_cse", prevent_cse, tree)
    op = Unpinned()
    return (
        tree.unflatten(
            [
                x if is_pinned or not isinstance(x, Array) else op(x)
                for x, is_pinned in zip(leaves, flags, strict=True)
            ]
        ),
        kwargs,
    )


@overload
def checkpoint(  # for `partial(checkpoint, static_argnums=1)`, of whose overloads mypy takes the first
    fun: "NoFunction",
) -> Callable[..., PyTree]: ...
@overload
def checkpoint(
    fun: Callable[P, R],
    *,
    concrete: bool = False,
    prevent_cse: bool | tuple[PyTree, ...] = True,
    static_argnums: "int | Iterable[int]" = (),
    policy: Policy | None = None,
    static_argnames: "str | Iterable[str]" = (),
) -> Callable[P, R]: ...
@overload
def checkpoint(
    fun: None = None,
    *,
    concrete: bool = False,
    prevent_cse: bool | tuple[PyTree, ...] = True,
    static_argnums: "int | Iterable[int]" = (),
    policy: Policy | None = None,
    static_argnames: "str | Iterable[str]" = (),
) -> CheckpointDecorator: ...
def checkpoint(
    fun: Callable[P, R] | None = None,
    *,
    concrete: bool = False,
    prevent_cse: bool | tuple[PyTree, ...] = True,
    static_argnums: "int | Iterable[int]" = (),
    policy: Policy | None = None,
    static_argnames: "str | Iterable[str]" = (),
) -> "Callable[P, R] | CheckpointDecorator":
    """Makes reverse-mode differentiation recompute a function's intermediate values instead of saving them.

    The value does not change. Differentiation saves the arguments and the intermediate values that
    the policy selects; the others are computed a second time in the backward pass. Checkpoints nest, and a chain
    of n steps that is halved recursively needs the memory of log n steps. Source: Griewank and
    Walther, "Algorithm 799: revolve", 2000.

    Args:
        fun: takes and returns pytrees of arrays. Without it, `checkpoint(...)` is a decorator.
        concrete: must be False; make arguments that Python control flow reads static instead.
        prevent_cse: True to prevent XLA from merging the second computation with the first. Inside a scan,
            where the loop does that already, False leaves XLA more freedom. Or a tuple with a bool for each positional
            argument, or a prefix of its pytree of bools, in which tuples may stand for other containers: what is
            computed from those with False alone may be merged. What a policy saves is kept apart as well.
        static_argnums, static_argnames: static arguments. With an unhashable one, the
            function is staged at each call.
        policy: `(op, *operand types) -> bool`, called for each operation: whether its results are saved.
            See `effx.checkpoint_policies`.

    Returns:
        A function with the same values.

    Raises:
        TransformError: `fun` cannot be called, `concrete` is true, or `prevent_cse` holds something else.
        TreeError: when called, `prevent_cse` is no prefix of the arguments.

    >>> import effx, effx.numpy as enp
    >>> @effx.checkpoint
    ... def g(x):
    ...     return enp.sin(enp.sin(x))
    >>> print(f"{effx.grad(g)(2.0):.7f}")
    -0.2556391
    """
    if fun is None:
        return cast(
            "CheckpointDecorator",
            partial(
                checkpoint,
                concrete=concrete,
                prevent_cse=prevent_cse,
                static_argnums=static_argnums,
                policy=policy,
                static_argnames=static_argnames,
            ),
        )
    check_function(fun)
    if concrete:
        raise TransformError(
            "checkpoint: concrete=True is not supported: the function is staged; name the arguments that Python "
            "control flow reads in static_argnums"
        )
    if policy is not None and not callable(policy):
        raise TransformError(
            f"checkpoint: policy must be callable, got {policy!r} of type {type(policy).__name__}"
        )
    numbers = parse_argnums("checkpoint: static_argnums", static_argnums)
    names = parse_argnames("checkpoint: static_argnames", static_argnames)
    signature = function_signature(fun)
    if signature is not None and names:
        numbers, names = match_names_and_numbers("checkpoint", signature, fun, "static", numbers, names)
    options = Options(static_argnums=numbers, static_argnames=names)
    _check_prevent_cse(prevent_cse)
    is_protected = prevent_cse is not False
    marked = fun
    if isinstance(prevent_cse, tuple):
        marked = adapt_arguments(fun, partial(_mark_unpinned, prevent_cse))
    function = Function(
        marked, options, "checkpoint", lambda program: Checkpoint(program, policy, is_protected)
    )

    def call_checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        prepared = None
        arguments: ArgsKwargs = args, kwargs
        staged_function = function
        if numbers or names:
            wrapped = _wrap_unhashable(options, arguments)
            if wrapped is not arguments:
                arguments = wrapped
                staged_function = Function(
                    adapt_arguments(marked, _unwrap_unhashable), options, "checkpoint", function.operation
                )
        try:
            prepared = staged_function.prepare_call(*arguments)
        except RefGivenError:
            if not has_refs(arguments):
                raise
        if prepared is None:
            from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
                close_over_refs,
                extract_refs,
            )

            # Not cached: the program is specific to the references that it reads and writes.
            (inner, named), refs = extract_refs(arguments)
            closed = Function(
                close_over_refs(staged_function.fun, refs), options, "checkpoint", function.operation
            )
            trace, _, arrays, _ = closed.prepare_call(inner, named)
            return closed.perform(trace, arrays)
        trace, _, arrays, _ = prepared
        return staged_function.perform(trace, arrays)

    return update_wrapper(call_checkpointed, fun)


@final
@attrs.frozen(eq=False)
class _UnhashableStatic:
    """An unhashable static argument, equal only to itself."""

    value: object


def _wrap_unhashable(options: Options, arguments: ArgsKwargs) -> ArgsKwargs:
    """Wraps unhashable static arguments; returns the same object if there are none."""
    args, kwargs = arguments
    static = valid_argument_numbers(options.static_argnums, len(args))
    unhashable = [i for i in static if not _is_hashable(args[i])]
    unhashable_names = [
        name for name in options.static_argnames if name in kwargs and not _is_hashable(kwargs[name])
    ]
    if not unhashable and not unhashable_names:
        return arguments
    return (
        tuple([_UnhashableStatic(x) if i in unhashable else x for i, x in enumerate(args)]),
        {name: _UnhashableStatic(x) if name in unhashable_names else x for name, x in kwargs.items()},
    )


def _unwrap_unhashable(arguments: Arguments) -> Arguments:
    args, kwargs = arguments
    return (
        tuple([x.value if isinstance(x, _UnhashableStatic) else x for x in args]),
        {name: x.value if isinstance(x, _UnhashableStatic) else x for name, x in kwargs.items()},
    )


def _is_hashable(x: object) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


remat = checkpoint


def checkpoint_name(x: PyTree, name: str) -> PyTree:
    """Names values, so that a policy of `checkpoint` can save them.

    Args:
        x: an array or a pytree of arrays.
        name: the name, for `checkpoint_policies.save_only_these_names` and others.

    Returns:
        `x`, unchanged.

    >>> import effx.numpy as enp
    >>> checkpoint_name(enp.sin(0.0), "hidden")
    Array(0., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):
        raise TransformError(f"checkpoint_name: the name must be a string, got {name!r}")
    leaves, tree = flatten(x)
    op = CheckpointName(name)
    return tree.unflatten([op(as_operand(leaf)) for leaf in leaves])


def saved_residuals(fun: Callable[..., object], *args: PyTree, **kwargs: PyTree) -> list[tuple[object, str]]:
    """Lists the residuals that reverse-mode differentiation of a function would save.

    Args:
        fun: takes and returns pytrees of arrays.
        args, kwargs: the arguments; only shapes and dtypes are read.

    Returns:
        For each residual its type and its origin.
    """
    from effx.handlers.linearize import linearize

    leaves, tree = flatten((args, kwargs))
    arrays = as_arrays("saved_residuals", leaves, (args, kwargs))

    flat = FlatFunction("saved_residuals", fun, tree)

    def body(inner: list[Array]) -> list[Array]:
        active = [x.type.kind in "fc" for x in inner]
        _, linear, _ = linearize(flat, inner, active)
        return list(linear.residuals)

    staged = stage(body, [x.type for x in arrays], flat.name, "saved_residuals")
    program = inline_calls(staged.program)
    producers: dict[Var, Equation] = {v: e for e in program.equations for v in e.outputs}
    first = len(staged.captured)
    names = positional_parameter_names(fun)
    indices = {x: i - first for i, x in enumerate(program.inputs)}
    residuals: list[tuple[object, str]] = []
    for x in dict.fromkeys(program.outputs):
        if type(x) is not Var:
            text = "from a literal"
        elif x in indices:
            i = indices[x]
            text = "from a constant" if i < 0 else f"from the {argument_path((args, kwargs), i, names)}"
        else:
            text = _describe_origin(producers[x])
        residuals.append((x.type, text))
    return residuals


def _describe_origin(e: Equation) -> str:
    description = f"named {e.op.label!r}" if isinstance(e.op, CheckpointName) else f"output of {e.op.name}"
    if e.source is None:
        return description
    file, line, function = resolve_source(e.source)
    return f"{description} from {file}:{line} ({function})"


def print_saved_residuals(f: Callable[..., object], *args: PyTree, **kwargs: PyTree) -> None:
    """Prints a line for each residual that reverse-mode differentiation of a function would save.

    >>> import effx, effx.numpy as enp
    >>> print_saved_residuals(effx.checkpoint(lambda x: enp.sin(enp.sin(x))), 2.0)
    f32[]~ from the argument x
    """
    for t, text in saved_residuals(f, *args, **kwargs):
        print(t, text)  # noqa: T201 - printing is its purpose
