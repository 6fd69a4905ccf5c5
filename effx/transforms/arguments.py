"""Between users' pytrees and the lists of arrays that handlers work on.

Never: transform.
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import TypeVar, cast

from effx.array import Array, HostArray
from effx.array.promotion import as_operand
from effx.caching import WeakStore
from effx.dtypes import canonicalize, float0
from effx.effects import current_frame
from effx.errors import DTypeError, TransformError
from effx.ir.types import ArrayType, array_type
from effx.lower.concrete import as_concrete
from effx.tree import flatten_with_path
from effx.tree.prefixes import keystr
from effx.tree.registry import DictKey, PyTree, PyTreeDef, SequenceKey, flatten

__all__ = ["argument_numbers", "as_arrays", "flatten_output", "name_of", "origin_of", "plain"]

T = TypeVar("T")


def name_of(function: Callable[..., object]) -> str:
    """Returns a function's name, that of the wrapped function for a partial."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def origin_of(function: Callable[..., object]) -> str:
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
        return name_of(function)
    return f"{name_of(function)} at {os.path.basename(code.co_filename)}:{code.co_firstlineno}"


def argument_place(tree: PyTree, place: int, names: Sequence[str] = ()) -> str:
    """Returns `argument 0['w']` for a leaf of a pair (args, kwargs); `names` are those of positional parameters."""
    path = flatten_with_path(tree)[0][place][0]
    key = path[1]
    if isinstance(key, SequenceKey):
        which = names[key.idx] if key.idx < len(names) else str(key.idx)
    else:
        which = repr(cast("DictKey", key).key)
    return f"argument {which}{keystr(path[2:])}"


def positional_names(function: Callable[..., object]) -> list[str]:
    """Returns the names of a function's positional parameters, as far as Python knows them."""
    signature = signature_of(function)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in signature.parameters.values() if p.kind in kinds] if signature else []


def as_arrays(what: str, leaves: Sequence[PyTree], tree: PyTree) -> list[Array]:
    """Returns the leaves of arguments as arrays.

    Args:
        what: the transformation, for errors.
        leaves: of the arguments. tree: the structure of (args, kwargs), to name a leaf that is no array.

    Raises:
        DTypeError: a leaf is no array or number.
    """
    arrays: list[Array] = []
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Array):
            arrays.append(leaf)
            continue
        try:
            arrays.append(as_operand(leaf, what))
        except DTypeError:
            raise DTypeError(
                f"{what}: {argument_place(tree, place)} must be an array, a number, or a pytree of them, "
                f"got {leaf!r} of type {type(leaf).__name__}; an argument that is no array can be static in jit"
            ) from None
    return arrays


def flatten_output(what: str, name: str, result: PyTree) -> tuple[list[Array], PyTreeDef]:
    """Flattens what a user's function returned.

    Raises:
        DTypeError: a leaf is no array or number.
    """
    leaves, tree = flatten(result)
    return as_results(what, name, leaves), tree


def as_results(what: str, name: str, leaves: Sequence[PyTree]) -> list[Array]:
    """Returns the leaves of what a user's function returned as arrays."""
    arrays: list[Array] = []
    for leaf in leaves:
        if isinstance(leaf, Array):
            arrays.append(leaf)
            continue
        try:
            arrays.append(as_operand(leaf, what))
        except DTypeError:
            raise DTypeError(
                f"{what}: {name} must return arrays, numbers, or pytrees of them, "
                f"got {leaf!r} of type {type(leaf).__name__}"
            ) from None
    return arrays


def abstract(what: str, leaf: PyTree) -> ArrayType:
    """Returns the type of an array, a number, or anything with `shape` and `dtype`.

    Raises:
        DTypeError: it is none of these.
    """
    if isinstance(leaf, Array):
        return leaf.type
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is not None and dtype is not None:
        return array_type(canonicalize(dtype), tuple(shape), bool(getattr(leaf, "weak_type", False)))
    return as_operand(leaf, what).type


def plain(x: PyTree) -> PyTree:
    """Returns a result as users expect it: on a device, unless a handler is at work that keeps constants cheap."""
    if type(x) is not HostArray:
        return x
    if x.type.dtype == float0:
        return x.value  # tangents of integers are NumPy arrays: no device knows their dtype
    return as_concrete(x) if current_frame() is None else x


def argument_numbers(what: str, numbers: "int | Iterable[int]", count: int) -> tuple[int, ...]:
    """Returns argument numbers counted from 0.

    Raises:
        TransformError: one is no int, is out of range, or repeats.
    """
    try:
        listed = tuple([index(n) for n in (numbers if isinstance(numbers, Iterable) else (numbers,))])
    except TypeError:
        raise TransformError(
            f"{what}: argnums must be an int or a sequence of ints, got {numbers!r}"
        ) from None
    result = []
    for n in listed:
        if not -count <= n < count:
            raise TransformError(
                f"{what}: argnums {numbers!r} names argument {n}, but the function got {count} positional arguments"
            )
        result.append(n % count)
    if len(set(result)) != len(result):
        raise TransformError(f"{what}: argnums {numbers!r} repeats an argument")
    return tuple(result)


_signatures: WeakStore[Callable[..., object], inspect.Signature | None] = WeakStore()


def signature_of(function: Callable[..., object]) -> inspect.Signature | None:
    """Returns a function's signature, None where Python knows none."""

    def make() -> inspect.Signature | None:
        try:
            return inspect.signature(function)
        except (ValueError, TypeError):
            return None

    return _signatures.get(function, make)
