"""Stage the functions of loops, branches and solvers as programs, and check their carries and results."""

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from typing_extensions import Unpack

from effx import dtypes
from effx.array import Array, Box, Scalar
from effx.array.promotion import as_operand, convert
from effx.errors import DTypeError, EffxError, ShapeError, TransformError, TreeError, name_user_call
from effx.ir.types import ArrayType, array_type
from effx.ir.values.array import Numeric
from effx.tracing.arguments import finalize_results, leaf_path
from effx.tracing.traces import FunctionTrace, Types
from effx.tree.prefixes import prefix_errors
from effx.tree.registry import PyTree, PyTreeDef, flatten

C = TypeVar("C")

Leaf = TypeVar("Leaf", bound=Array | complex)
LooseLeaf: TypeAlias = Numeric | Scalar
"""Arguments for a function's array: numbers, NumPy data, scalars."""

LooseSingle: TypeAlias = tuple[PyTree]
LoosePair: TypeAlias = tuple[PyTree, PyTree]
LooseTriple: TypeAlias = tuple[PyTree, PyTree, PyTree]
LooseMany: TypeAlias = tuple[PyTree, PyTree, PyTree, PyTree, Unpack[tuple[PyTree, ...]]]
"""Arguments for a function's tuple, of numbers and the like. The lengths count: a tuple of another one is an error."""


def check_callable(name: str, function: object) -> None:
    """Refuses an argument that cannot be called.

    Raises:
        TransformError: with the argument's name.
    """
    if not callable(function):
        raise TransformError(
            f"{name_user_call()}: {name} must be a function, got {function!r} of type {type(function).__name__}"
        )


def flatten_to_arrays(name: str, value: PyTree) -> tuple[list[Array], PyTreeDef]:
    """Flattens an argument to its arrays and its structure.

    Raises:
        DTypeError: a leaf is no array or number.
    """
    leaves, tree = flatten(value)
    arrays: list[Array] = []
    for i, leaf in enumerate(leaves):
        try:
            arrays.append(as_operand(leaf))
        except DTypeError:
            path = leaf_path(value, i)
            raise DTypeError(
                f"{name_user_call()}: {name}{path} must be an array or a number, got {leaf!r} of type {type(leaf).__name__}"
            ) from None
    return arrays, tree


def arrays_of_first_carry(name: str, value: C) -> C:
    """Returns a carry with arrays for NumPy's, which Python's in-place operators would change.

    Raises:
        DTypeError: a leaf is no array or number.
    """
    arrays, tree = flatten_to_arrays(name, value)
    result: C = tree.unflatten(finalize_results(arrays))
    return result


def array_types(arrays: Sequence[Array]) -> Types:
    """Returns the arrays' types."""
    return tuple([x.type for x in arrays])


def convert_to_types(arrays: Sequence[Array], types: Types) -> list[Array]:
    """Converts arrays to types of the same shapes."""
    return [convert(x, t.dtype, t.weak) for x, t in zip(arrays, types, strict=True)]


def concrete_value(x: Array) -> Array | None:
    """Returns the concrete value of an array: its own, or its handler's primal."""
    while type(x) is Box:
        handler = x.frame.handler
        decide = getattr(handler, "primal", None)
        plain = None if decide is None else decide(x.payload)
        if plain is None:
            return None
        x = plain
    return x


def infer_carry_types(
    name: str,
    carry: PyTree,
    types: Types,
    stage_body: Callable[[Types], tuple[FunctionTrace, PyTreeDef, Types]],
) -> tuple[Types, FunctionTrace]:
    """Finds the types of a loop's carry: Python numbers among the initial values take the body's types.

    Args:
        name: the body's name.
        carry: the initial carry, for the paths in errors.
        types: its leaves' types.
        stage_body: for types of the carry, returns the body and the structure and types of the next carry.

    Returns:
        The types, and the body for them.

    Raises:
        TreeError, ShapeError, DTypeError: the carry changes its structure or types.
    """
    tree = flatten(carry)[1]
    while True:
        body, out_tree, out_types = stage_body(types)
        check_structure(name, tree, out_tree)
        wider = tuple([_promote_carry_type(t, out) for t, out in zip(types, out_types, strict=True)])
        # Each round makes a type strong or its dtype wider, so the search ends.
        if wider == types:
            break
        types = wider
    for i, (t, out) in enumerate(zip(types, out_types, strict=True)):
        if not t.matches(out):
            raise carry_error(name, carry, i, t, out)
    return types, body


def _promote_carry_type(t: ArrayType, out: ArrayType) -> ArrayType:
    t = t.with_vma(t.vma | out.vma)
    if not t.weak or t is out or t.shape != out.shape:
        return t
    dtype, weak = dtypes.promote(t.dtype, True, out.dtype, out.weak)
    # A number combined with another kind of number becomes strongly typed.
    return array_type(dtype, t.shape, weak and out.dtype == t.dtype, t.vma)


def check_structure(name: str, tree: PyTreeDef, out_tree: PyTreeDef) -> None:
    """Compares the structures of a carry before and after an iteration.

    Raises:
        TreeError: they differ.
    """
    if tree != out_tree:
        raise TreeError(
            f"{name_user_call()}: the carry must keep its structure: it starts as {tree}, but {name} returns {out_tree}"
            f"{_describe_first_difference(tree, out_tree)}"
        )


def _describe_first_difference(tree: PyTreeDef, out_tree: PyTreeDef) -> str:
    """Says where the structures begin to differ, if that is not at their roots."""
    with contextlib.suppress(Exception):  # users' own nodes need not accept these placeholders for leaves
        before, after = [t.unflatten([0] * t.num_leaves) for t in (tree, out_tree)]
        mismatches = prefix_errors(before, after, None, "the carry", "the result")
        mismatches = mismatches or prefix_errors(after, before, None, "the result", "the carry")
        texts = [f"; {text.replace(' of type int', '')}" for text in mismatches[:1] if text.startswith("at ")]
        return "".join(texts)
    return ""


def check_inexact(name: str, value: PyTree, types: Types) -> None:
    """Refuses an argument or result of a user's function with an array that is neither floating nor complex.

    Raises:
        DTypeError: with the path of the array.
    """
    for i, t in enumerate(types):
        if t.kind not in "fc":
            raise DTypeError(
                f"{name_user_call()}: {name}{leaf_path(value, i)} must be floating or complex, got {t!r}"
            )


def check_matches(
    name: str,
    like: str,
    tree: PyTreeDef,
    types: Types,
    out_tree: PyTreeDef,
    out_types: Types,
    must: str = "must return",
) -> None:
    """Refuses a result of a user's function that is not like its argument, such as a right-hand side.

    Args:
        name: the function. like: the argument. must: what the function has to do with the result.
        tree, types: of the argument. out_tree, out_types: of the result.

    Raises:
        TreeError, DTypeError, ShapeError: with the path of the array.
    """
    if tree != out_tree:
        raise TreeError(f"{name_user_call()}: {name} {must} the structure of {like}, {tree}, got {out_tree}")
    for i, (t, out) in enumerate(zip(types, out_types, strict=True)):
        if not t.matches(out) and not (out.weak and out.shape == t.shape):
            path = leaf_path(tree.unflatten(types), i)
            kind = DTypeError if t.shape == out.shape else ShapeError
            raise kind(
                f"{name_user_call()}: {name} {must} the types of {like}: {like}{path} is {t!r}, got {out!r}"
            )


def carry_error(name: str, carry: PyTree, i: int, t: ArrayType, out: ArrayType) -> EffxError:
    """Returns the error for a carry that changes its type."""
    kind = DTypeError if t.shape == out.shape else ShapeError
    path = leaf_path(carry, i)
    return kind(
        f"{name_user_call()}: the carry must keep its types: carry{path} starts as {t!r}, but {name} returns {out!r}"
    )


def check_next_carry(name: str, init: PyTree, before: PyTree, after: PyTree) -> PyTree:
    """Checks a carry against the one before, where iterations run in Python; returns it."""
    old, tree = flatten_to_arrays("carry", before)
    new, out_tree = flatten_to_arrays(f"the carry that {name} returns", after)
    check_structure(name, tree, out_tree)
    types: list[ArrayType] = []
    for i, (x, y) in enumerate(zip(old, new, strict=True)):
        t, out = x.type, y.type
        if not t.matches(out) and not (t.weak and t.shape == out.shape):
            raise carry_error(name, init, i, t, out)
        types.append(out if t.weak else t)
    return tree.unflatten(finalize_results(convert_to_types(new, tuple(types))))
