"""Convert between users' functions of pytrees and functions of lists of arrays (`FlatFunction`, `as_arrays`)."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from operator import index
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from effx.array import Array, Box, HostArray
from effx.array.promotion import as_operand
from effx.caching import WeakStore
from effx.dtypes import DType, DTypeLike, canonicalize, float0, narrow_described
from effx.effects import current_frame
from effx.errors import DTypeError, RefError, RefGivenError, TransformError, short_file_name
from effx.ir.types import ArrayType, ManualAxisType, array_type
from effx.ir.values.refs import ReferenceBase
from effx.lower.placement.concrete import ConcreteArray, to_concrete
from effx.lower.placement.shardings import NamedSharding, type_sharding_of
from effx.lower.runtime.dispatch import FastFunction
from effx.tree.mapping import flatten_with_path
from effx.tree.prefixes import keystr
from effx.tree.registry import DictKey, PyTree, PyTreeDef, SequenceKey, flatten

R = TypeVar("R")

# `(args, kwargs)`
Arguments = tuple[Sequence[PyTree], dict[str, PyTree]]
# Static arguments, each with its number or name, the numbers in order.
StaticArguments = Sequence[tuple[int | str, object]]


def callable_name(function: Callable[..., object]) -> str:
    """Returns a function's name, that of the wrapped function for a partial."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


def function_origin(function: Callable[..., object]) -> str:
    """Returns `f at file.py:12`, for errors: the user's function inside partials and transformations."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    code = getattr(function, "__code__", None)
    if code is None:
        return callable_name(function)
    return f"{callable_name(function)} at {short_file_name(code.co_filename)}:{code.co_firstlineno}"


def leaf_path(tree: PyTree, leaf: int) -> str:
    """Returns `[0]['w']` for a leaf of a pytree; "" for a pytree that is one leaf."""
    return keystr(flatten_with_path(tree)[0][leaf][0])


def argument_path(tree: PyTree, leaf: int, names: Sequence[str] = ()) -> str:
    """Returns `argument 0['w']` for a leaf of a pair (args, kwargs); `names` are those of positional parameters."""
    path = flatten_with_path(tree)[0][leaf][0]
    key = path[1]
    if isinstance(key, SequenceKey):
        which = names[key.idx] if key.idx < len(names) else str(key.idx)
    else:
        which = repr(cast("DictKey", key).key)
    return f"argument {which}{keystr(path[2:])}"


def positional_parameter_names(function: Callable[..., object]) -> list[str]:
    """Returns the names of a function's positional parameters, as far as Python knows them."""
    signature = function_signature(function)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in signature.parameters.values() if p.kind in kinds] if signature else []


def as_arrays(function_name: str, leaves: Sequence[PyTree], tree: PyTree) -> list[Array]:
    """Returns the leaves of arguments as arrays.

    Args:
        function_name: the transformation, for errors.
        leaves: the arguments' leaves. tree: the pair (args, kwargs), to name a leaf that is no array.

    Raises:
        DTypeError: a leaf is neither an array nor a number.
    """
    arrays: list[Array] = []
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Array):
            arrays.append(leaf)
            continue
        try:
            arrays.append(as_operand(leaf, function_name))
        except DTypeError:
            raise DTypeError(
                f"{function_name}: {argument_path(tree, i)} must be an array, a number, or a pytree of them, "
                f"got {leaf!r} of type {type(leaf).__name__}; an argument that is no array can be static in jit"
            ) from None
    return arrays


def flatten_output(function_name: str, name: str, result: PyTree) -> tuple[list[Array], PyTreeDef]:
    """Flattens the result of a user's function to arrays.

    Raises:
        DTypeError: a leaf is neither an array nor a number.
    """
    leaves, tree = flatten(result)
    return as_results(function_name, name, leaves), tree


def as_results(function_name: str, name: str, leaves: Sequence[PyTree]) -> list[Array]:
    """Returns the leaves of a user's function's result as arrays."""
    arrays: list[Array] = []
    for leaf in leaves:
        if isinstance(leaf, Array):
            arrays.append(leaf)
            continue
        try:
            arrays.append(as_operand(leaf, function_name))
        except RefGivenError:
            raise RefError(
                f"{function_name}: {name} returned a Ref {cast('ReferenceBase', leaf).type!r}; return what it holds, "
                "ref[...], or pass "
                f"the ref as an argument and write to it"
            ) from None
        except DTypeError:
            raise DTypeError(
                f"{function_name}: {name} must return arrays, numbers, or pytrees of them, "
                f"got {leaf!r} of type {type(leaf).__name__}"
            ) from None
    return arrays


class FlatFunction:
    """A user's function as a function of a list of arrays; it stores the structure of the result.

    Attributes:
        transform_name: the transformation, for errors.
        fun: the user's function. name: its name, for errors.
        in_tree: the structure of `(args, kwargs)`, whose leaves are the arrays.
        out_tree: the structure of the result; not set before the function has run.
    """

    __slots__ = ("fun", "in_tree", "name", "out_tree", "transform_name")
    out_tree: PyTreeDef

    def __init__(
        self, transform_name: str, fun: Callable[..., PyTree], in_tree: PyTreeDef, name: str = ""
    ) -> None:
        self.transform_name, self.fun, self.in_tree = transform_name, fun, in_tree
        self.name = name or callable_name(fun)

    def __call__(self, arrays: list[Array]) -> list[Array]:
        """Calls the user's function on arrays; returns the arrays of the result."""
        args, kwargs = self.in_tree.unflatten(arrays)
        return self.flatten_result(self.fun(*args, **kwargs))

    def flatten_result(self, result: PyTree) -> list[Array]:
        """Returns the arrays of a result, and stores its structure.

        Raises:
            DTypeError: a leaf of the result is neither an array nor a number.
        """
        leaves, self.out_tree = flatten(result)
        return as_results(self.transform_name, self.name, leaves)


class AuxiliaryData:
    """Auxiliary data of a transformed function: its arrays among the function's outputs, other leaves unchanged.

    Attributes:
        leaves: the data's leaves. tree: their structure.
    """

    __slots__ = ("leaves", "tree")

    def __init__(self, transform_name: str, name: str, data: PyTree) -> None:
        """Takes the auxiliary data that the function `name` returned; `transform_name` is for errors.

        Raises:
            RefError: a leaf is a mutable reference.
        """
        self.leaves, self.tree = flatten(data)
        as_results(transform_name, name, [x for x in self.leaves if isinstance(x, ReferenceBase)])  # refuses

    @property
    def arrays(self) -> list[Array]:
        """The arrays of the data."""
        return [x for x in self.leaves if isinstance(x, Array)]

    def rebuild(self, values: Sequence[PyTree]) -> PyTree:
        """Returns the data with their arrays replaced by `values`."""
        arrays = iter(values)
        return self.tree.unflatten(
            [finalize_result(next(arrays)) if isinstance(x, Array) else x for x in self.leaves]
        )


class PartialLeafFunction(FlatFunction):
    """A user's function as a function of some leaves of its arguments; the other leaves are fixed.

    Attributes:
        leaves: the leaves of `(args, kwargs)`.
        varied: the indices of the leaves that arrays replace, in the arrays' order.
    """

    __slots__ = ("leaves", "varied")

    def __init__(
        self,
        transform_name: str,
        fun: Callable[..., PyTree],
        in_tree: PyTreeDef,
        leaves: Sequence[PyTree],
        varied: Sequence[int],
        name: str = "",
    ) -> None:
        super().__init__(transform_name, fun, in_tree, name)
        self.leaves, self.varied = leaves, varied

    def __call__(self, arrays: list[Array]) -> list[Array]:
        """Calls the user's function on arrays and fixed leaves; returns the arrays of the result."""
        leaves = list(self.leaves)
        for i, x in zip(self.varied, arrays, strict=True):
            leaves[i] = x
        args, kwargs = self.in_tree.unflatten(leaves)
        return self.flatten_result(self.fun(*args, **kwargs))


def adapt_arguments(fun: Callable[..., R], arguments: Callable[[Arguments], Arguments]) -> Callable[..., R]:
    """Returns a function that converts its arguments by `arguments` and calls `fun`; errors name it as `fun`."""

    def call_adapted(*args: PyTree, **kwargs: PyTree) -> R:
        inner, named = arguments((args, kwargs))
        return fun(*inner, **named)

    call_adapted.__name__ = callable_name(fun)
    call_adapted.__wrapped__ = fun  # type: ignore[attr-defined]  # as functools.wraps does: for the origin in errors
    return call_adapted


# Type functions for classes that neither have shape and dtype nor convert to arrays; libraries add their own.
leaf_type_rules: dict[type, Callable[[Any], ArrayType]] = {}


def leaf_type(function_name: str, leaf: PyTree) -> ArrayType:
    """Returns the type of an array, a number, or any object with `shape` and `dtype`.

    Raises:
        DTypeError: `leaf` is none of these.
    """
    if isinstance(leaf, Array):
        return leaf.type
    if type(leaf) is ArrayType:
        narrowed = narrow_described(leaf.dtype)
        return leaf if narrowed is leaf.dtype else leaf.with_dtype(narrowed)
    if isinstance(leaf, ReferenceBase):
        leaf.__effx_array__()  # refuses
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is not None and dtype is not None:
        t = array_type(_leaf_dtype(leaf, dtype), tuple(shape), bool(getattr(leaf, "weak_type", False)))
        manual = getattr(leaf, "manual_axis_type", None)
        if isinstance(manual, ManualAxisType):
            t = t.with_vma(manual.varying)
        sharding = getattr(leaf, "sharding", None)
        return t.with_sharding(type_sharding_of(sharding)) if isinstance(sharding, NamedSharding) else t
    if type(leaf) in leaf_type_rules:
        return leaf_type_rules[type(leaf)](leaf)
    return as_operand(leaf, function_name).type


def _leaf_dtype(leaf: PyTree, dtype: DTypeLike) -> DType:
    """Returns the dtype of the array that a leaf becomes or describes; NumPy's arrays ask for no dtype."""
    return canonicalize(dtype) if isinstance(leaf, np.ndarray | np.generic) else narrow_described(dtype)


def finalize_result(x: PyTree) -> PyTree:
    """Returns a result in users' form: on a device; under a handler, constants remain on the host.

    Tangents of integers, of dtype float0, are NumPy arrays outside of programs, as in JAX.
    """
    kind = type(x)
    if kind is ConcreteArray:
        return _as_numpy_if_float0(x) if x.type.kind == "V" else x
    if kind is not HostArray:
        return x
    if x.type.dtype == float0:
        return _as_numpy_if_float0(x)
    return to_concrete(x) if current_frame() is None else x


def finalize_results(arrays: Sequence[Array]) -> list[PyTree]:
    """Returns an operation's results in users' form: those of float0 as NumPy arrays."""
    return [_as_numpy_if_float0(x) if x.type.kind == "V" else x for x in arrays]


def _as_numpy_if_float0(x: Array) -> PyTree:
    is_constant = x.type.dtype == float0 and not isinstance(x, Box)
    return np.zeros(x.type.shape, float0) if is_constant else x


def normalize_argnums(function_name: str, numbers: "int | Iterable[int]", count: int) -> tuple[int, ...]:
    """Returns argument numbers as indices from 0.

    Raises:
        TransformError: a number is no int, is out of range, or repeats.
    """
    try:
        argnums = tuple([index(n) for n in (numbers if isinstance(numbers, Iterable) else (numbers,))])
    except TypeError:
        raise TransformError(
            f"{function_name}: argnums must be an int or a sequence of ints, got {numbers!r}"
        ) from None
    result = []
    for n in argnums:
        if not -count <= n < count:
            raise TransformError(
                f"{function_name}: argnums {numbers!r} names argument {n}, but the function got {count} positional arguments"
            )
        result.append(n % count)
    if len(set(result)) != len(result):
        raise TransformError(f"{function_name}: argnums {numbers!r} repeats an argument")
    return tuple(result)


def normalize_parameter_numbers(
    where: str, fun: Callable[..., object], numbers: Sequence[int], count: int
) -> tuple[int, ...]:
    """Returns numbers of a function's `count` positional parameters, counted from 0.

    Raises:
        TransformError: there is no such parameter.
    """
    for n in numbers:
        if not -count <= n < count:
            raise TransformError(
                f"{where} names argument {n}, but {callable_name(fun)} takes {count} positional arguments"
            )
    return tuple([n % count for n in numbers])


def merge_static_arguments(static: StaticArguments, arguments: Arguments) -> Arguments:
    """Merges static arguments into the dynamic ones."""
    args, kwargs = list(arguments[0]), dict(arguments[1])
    for position, value in static:
        if isinstance(position, int):
            args.insert(position, value)
        else:
            kwargs[position] = value
    return args, kwargs


def select_arguments(
    function_name: str,
    fun: Callable[..., R],
    argnums: "int | Iterable[int]",
    args: Sequence[PyTree],
    kwargs: dict[str, PyTree],
) -> tuple[Callable[..., R], tuple[PyTree, ...]]:
    """Returns `fun` as a function of the selected positional arguments, and their values; the others are fixed."""
    numbers = normalize_argnums(function_name, argnums, len(args))

    def insert_fixed(chosen: Arguments) -> Arguments:
        positional = list(args)
        for i, value in zip(numbers, chosen[0], strict=True):
            positional[i] = value
        return positional, kwargs

    return adapt_arguments(fun, insert_fixed), tuple([args[i] for i in numbers])


_signatures: WeakStore[Callable[..., object], inspect.Signature | None] = WeakStore()


def _only_wraps(function: object) -> bool:
    """Says whether a function has the signature of the one that it wraps."""
    if type(function) is FunctionType:
        return "__wrapped__" in vars(function) and "__signature__" not in vars(function)
    return type(function) is FastFunction


def function_signature(function: Callable[..., object]) -> inspect.Signature | None:
    """Returns a function's signature; None if Python has none."""

    def inspect_signature() -> inspect.Signature | None:
        # C++ functions compute `__signature__` at each access, and inspect reads it twice: 2**n times for n nested
        # jits. So what only wraps a function is unwrapped here.
        inner = inspect.unwrap(function, stop=lambda f: not _only_wraps(f))
        try:
            return inspect.signature(inner)
        except (ValueError, TypeError):
            return None

    return _signatures.get(function, inspect_signature)
