"""Branches: `cond` and `switch`."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar, overload

from typing_extensions import TypeVarTuple, Unpack

from effx import dtypes, flags
from effx.array import Array, Operand, Scalar
from effx.array.promotion import as_operand, convert
from effx.errors import DTypeError, RefGivenError, ShapeError, TransformError, TreeError, name_user_call
from effx.families.platform import PlatformIndex
from effx.handlers.recursion.staging import align_constants
from effx.handlers.sharding_types.axes_in_types import diverge_along
from effx.ir.ops.compare import Ne
from effx.ir.ops.control import Platforms
from effx.ir.values.array import Numeric
from effx.ir.values.scalars import scalar
from effx.lax.control.closures import array_types, check_callable, concrete_value, flatten_to_arrays
from effx.lax.control.unchanged import perform_branches
from effx.lax.elementwise.choose import clamp
from effx.tracing.arguments import finalize_results, leaf_path
from effx.tracing.traces import FunctionTrace, call_tree, trace_cached
from effx.tree.registry import PyTree

__all__ = ["cond", "platform_dependent", "switch"]

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
D = TypeVar("D")
Ts = TypeVarTuple("Ts")

Loose: TypeAlias = Numeric | Scalar | tuple[PyTree, ...] | list[PyTree] | dict[str, PyTree]
"""Arguments for a function's arrays: numbers, NumPy data, scalars, containers of such."""

# The default of an argument for which None is an operand.
_NOTHING = object()


@overload
def cond(
    pred: Operand,
    true_fun: Callable[[Unpack[Ts]], R],
    false_fun: Callable[[Unpack[Ts]], R],
    *operands: Unpack[Ts],
) -> R: ...
@overload
def cond(pred: Operand, true_fun: Callable[[A], R], false_fun: Callable[[A], R], *, operand: A) -> R: ...
@overload
def cond(  # from here on for functions of arrays called with numbers or NumPy arrays
    pred: Operand,
    true_fun: Callable[[A], R],
    false_fun: Callable[[A], R],
    x: A | Loose,
    /,
) -> R: ...
@overload
def cond(
    pred: Operand,
    true_fun: Callable[[A, B], R],
    false_fun: Callable[[A, B], R],
    x: A | Loose,
    y: B | Loose,
    /,
) -> R: ...
@overload
def cond(
    pred: Operand,
    true_fun: Callable[[A, B, D], R],
    false_fun: Callable[[A, B, D], R],
    x: A | Loose,
    y: B | Loose,
    z: D | Loose,
    /,
) -> R: ...
@overload
def cond(
    pred: Operand,
    true_fun: Callable[..., R],
    false_fun: Callable[..., R],
    x: PyTree,
    y: PyTree,
    z: PyTree,
    u: PyTree,
    /,
    *operands: PyTree,
) -> R: ...
@overload
def cond(
    pred: Operand,
    true_operand: A,
    true_fun: Callable[[A], R],
    false_operand: B,
    false_fun: Callable[[B], R],
    /,
) -> R: ...
def cond(  # type: ignore[misc]  # mypy does not match Unpack[Ts] with PyTree
    pred: Operand, true_fun: PyTree, false_fun: PyTree, *operands: PyTree, operand: PyTree = _NOTHING
) -> PyTree:
    """Calls one of two functions, chosen by a scalar.

    Both are staged, only one runs. Under `vmap` with a batched predicate both run, and the result is selected
    for each batch element; the branch not taken contributes no derivative.

    Args:
        pred: `bool[]`. A number is true if it is not 0.
        true_fun: called with the operands where `pred` is true.
        false_fun: called where it is false; returns arrays of the same structure, shapes and dtypes.
        operands: pytrees of arrays. The functions may close over arrays too.
        operand: the one operand, in an older form of this function. An even older form has an operand for
            each branch: `cond(pred, true_operand, true_fun, false_operand, false_fun)`.

    Returns:
        The function's result.

    Raises:
        ShapeError: `pred` is no scalar, or the branches' results differ in shape.
        DTypeError: `pred` is complex, or the branches' results differ in dtype.
        TreeError: the branches' results differ in structure.
        TransformError: a branch is no function.

    >>> import effx.numpy as enp
    >>> def reciprocal(x): return cond(x != 0., lambda x: 1. / x, lambda x: 0. * x, x)
    >>> reciprocal(enp.float32(4.)), reciprocal(enp.float32(0.))
    (Array(0.25, dtype=float32), Array(0., dtype=float32))
    """
    uses = (tuple(range(len(operands))),) * 2
    if operand is not _NOTHING:
        if operands:
            raise TransformError("cond: operands were given by position and by the keyword operand")
        operands, uses = (operand,), ((0,), (0,))
    elif len(operands) == 2 and callable(false_fun) and callable(operands[1]) and not callable(true_fun):
        true_fun, false_fun, operands = false_fun, operands[1], (true_fun, operands[0])
        uses = ((1,), (0,))
    check_callable("true_fun", true_fun)
    check_callable("false_fun", false_fun)
    index = _branch_index_of_predicate(pred)
    return _perform_branches("cond", index, ("false_fun", "true_fun"), (false_fun, true_fun), operands, uses)


def _branch_index_of_predicate(pred: Operand) -> Array:
    """Returns 1 where pred is true, else 0."""
    x = as_operand(pred)
    if x.type.shape:
        raise ShapeError(f"cond: pred must be a scalar, got {x.type!r}")
    if x.type.kind == "c":
        raise DTypeError(f"cond: pred must be bool[] or a real number, got {x.type!r}")
    if x.type.kind != "b":
        x = Ne()(x, scalar(0, x.type.dtype, x.type.weak))
    return convert(x, dtypes.int32)


@overload
def switch(  # type: ignore[overload-overlap]  # of the same functions the results by all overloads are of one type
    index: Operand, branches: Sequence[Callable[[Unpack[Ts]], R]], *operands: Unpack[Ts]
) -> R: ...
@overload
def switch(  # from here on for functions of several types, and for numbers
    index: Operand, branches: Sequence[Callable[[PyTree], Array]], x: PyTree, /
) -> Array: ...
@overload
def switch(
    index: Operand, branches: Sequence[Callable[[PyTree, PyTree], Array]], x: PyTree, y: PyTree, /
) -> Array: ...
@overload
def switch(
    index: Operand,
    branches: Sequence[Callable[[PyTree, PyTree, PyTree], Array]],
    x: PyTree,
    y: PyTree,
    z: PyTree,
    /,
) -> Array: ...
@overload
def switch(index: Operand, branches: Sequence[Callable[[PyTree], R]], x: PyTree, /) -> R: ...
@overload
def switch(
    index: Operand, branches: Sequence[Callable[[PyTree, PyTree], R]], x: PyTree, y: PyTree, /
) -> R: ...
@overload
def switch(
    index: Operand,
    branches: Sequence[Callable[[PyTree, PyTree, PyTree], R]],
    x: PyTree,
    y: PyTree,
    z: PyTree,
    /,
) -> R: ...
@overload
def switch(
    index: Operand,
    branches: Sequence[Callable[..., Array]],
    x: PyTree,
    y: PyTree,
    z: PyTree,
    u: PyTree,
    /,
    *operands: PyTree,
) -> Array: ...
@overload
def switch(index: Operand, branches: Sequence[Callable[[PyTree], Array]], *, operand: PyTree) -> Array: ...
@overload
def switch(
    index: Operand,
    branches: Sequence[Callable[..., R]],
    x: PyTree,
    y: PyTree,
    z: PyTree,
    u: PyTree,
    /,
    *operands: PyTree,
) -> R: ...
@overload
def switch(index: Operand, branches: Sequence[Callable[[PyTree], R]], *, operand: PyTree) -> R: ...
def switch(  # type: ignore[misc]  # as above
    index: Operand, branches: Sequence[Callable[..., R]], *operands: PyTree, operand: PyTree = _NOTHING
) -> R:
    """Calls one of several functions, chosen by an integer scalar. All are staged, only one runs. Under
    `vmap` with a batched index all run, and the result is selected for each batch element.

    Args:
        index: an integer scalar of any dtype; clamped to the number of branches, as an int32.
        branches: functions that return arrays of the same structure, shapes and dtypes.
        operands: pytrees of arrays with which the function is called.
        operand: the one operand, in an older form of this function.

    Returns:
        The function's result.

    Raises:
        ShapeError: `index` is no scalar, or the branches' results differ in shape.
        DTypeError: `index` is no integer, or the branches' results differ in dtype.
        TreeError: the branches' results differ in structure.
        TransformError: there is no branch, or one is no function.

    >>> import effx.numpy as enp
    >>> [float(switch(i, [enp.sin, enp.exp, enp.negative], 0.)) for i in (-3, 1, 7)]
    [0.0, 1.0, -0.0]
    """
    branch_operands: tuple[PyTree, ...] = operands
    if operand is not _NOTHING:
        if operands:
            raise TransformError("switch: operands were given by position and by the keyword operand")
        branch_operands = (operand,)
    if not isinstance(branches, Iterable):
        raise TransformError(f"switch: branches must be a sequence of functions, got {branches!r}")
    functions = tuple(branches)
    if not functions:
        raise TransformError("switch: needs at least one branch")
    names = tuple([f"branches[{n}]" for n in range(len(functions))])
    for name, function in zip(names, functions, strict=True):
        check_callable(name, function)
    x = as_operand(index)
    if x.type.shape:
        raise ShapeError(f"switch: index must be a scalar, got {x.type!r}")
    if x.type.kind not in "iu":
        raise DTypeError(f"switch: index must be an integer, got {x.type!r}")
    last = len(functions) - 1
    chosen = clamp(scalar(0, dtypes.int32), convert(x, dtypes.int32), scalar(last, dtypes.int32))
    uses = (tuple(range(len(branch_operands))),) * len(functions)
    result: R = _perform_branches("switch", chosen, names, functions, branch_operands, uses)
    return result


def platform_dependent(
    *args: PyTree, default: Callable[..., R] | None = None, **per_platform: Callable[..., R]
) -> R:
    """Calls one of several functions, chosen by the platform that the program is compiled for. All are staged; what is
    compiled holds only the one that is called.

    Args:
        args: pytrees of arrays with which the function is called.
        default: called on platforms that no other function is for.
        per_platform: functions by the platform's name: cpu, cuda, rocm, tpu. They return arrays of the same structure,
            shapes and dtypes.

    Returns:
        The function's result.

    Raises:
        NoRuleError: when the program is compiled for a platform that no function is for.
        ShapeError, DTypeError, TreeError: the functions' results differ.
        TransformError: there is no function, one cannot be called, or one is for "gpu".

    >>> import effx.numpy as enp
    >>> float(platform_dependent(0.0, cpu=enp.cos, default=enp.sin))
    1.0
    """
    if "gpu" in per_platform:
        raise TransformError(
            "platform_dependent: there is no platform gpu; name cuda or rocm, or give default="
        )
    names, functions = list(per_platform), list(per_platform.values())
    platforms: list[tuple[str, ...]] = [(name,) for name in names]
    if default is not None:
        names.append("default")
        functions.append(default)
        platforms.append(())
    if not functions:
        raise TransformError("platform_dependent: needs at least one function")
    for name, function in zip(names, functions, strict=True):
        check_callable(name, function)
    choice = tuple(platforms)
    uses = (tuple(range(len(args))),) * len(functions)
    index = PlatformIndex(choice)()
    result: R = _perform_branches("platform_dependent", index, tuple(names), functions, args, uses, choice)
    return result


def _perform_branches(
    function_name: str,
    index: Array,
    names: tuple[str, ...],
    functions: Sequence[Callable[..., PyTree]],
    operands: tuple[PyTree, ...],
    uses: tuple[tuple[int, ...], ...],
    platforms: Platforms = (),
) -> PyTree:
    """Calls the function at `index`, or that of the platform, with those of the operands that it uses."""
    if flags.disable_jit.value:
        known = concrete_value(index)
        if known is not None:
            chosen = int(known)
            return functions[chosen](*[operands[i] for i in uses[chosen]])
    try:
        arrays, tree = flatten_to_arrays("operands", operands)
    except RefGivenError:
        from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
            close_over_refs,
            extract_refs,
        )

        operands, refs = extract_refs(operands)
        functions = [close_over_refs(function, refs) for function in functions]
        arrays, tree = flatten_to_arrays("operands", operands)
    inputs, types = call_tree(tree), array_types(arrays)

    def part(function: Callable[..., PyTree], used: tuple[int, ...]) -> FunctionTrace:
        if len(used) == len(operands):
            return trace_cached(function_name, function, inputs, types)
        return trace_cached(
            function_name,
            function,
            inputs,
            types,
            static_key=used,
            arguments=lambda given: ([given[0][i] for i in used], {}),
        )

    with diverge_along(index.type.vma):
        parts = [part(function, used) for function, used in zip(functions, uses, strict=True)]
    first = len(parts) - 1 if function_name == "cond" else 0  # users write true_fun first
    for name, branch_trace in zip(names, parts, strict=True):
        _check_same_results(names[first], parts[first], name, branch_trace)
    programs, constants = align_constants(parts)
    results = perform_branches(programs, platforms, index, [*constants, *arrays])
    return parts[0].out_tree.unflatten(finalize_results(results))


def _check_same_results(first: str, a: FunctionTrace, second: str, b: FunctionTrace) -> None:
    """Raises an error for branches whose results differ in structure or types."""
    if a.out_tree != b.out_tree:
        raise TreeError(
            f"{name_user_call()}: the branches must return the same structure: {first} returns {a.out_tree}, "
            f"{second} returns {b.out_tree}"
        )
    for i, (t, u) in enumerate(zip(a.out_types, b.out_types, strict=True)):
        if not t.matches(u):
            path = leaf_path(a.out_tree.unflatten(a.out_types), i)
            kind = DTypeError if t.shape == u.shape else ShapeError
            raise kind(
                f"{name_user_call()}: the branches must return the same types: result{path} of {first} is {t!r}, "
                f"of {second} {u!r}"
            )
