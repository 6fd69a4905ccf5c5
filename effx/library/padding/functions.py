"""`mask` and `shapecheck`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import effx
import effx.numpy as enp
from effx import Array, tree
from effx.errors import ShapeError, TransformError, TreeError, check_function, name_user_call
from effx.ir.sizes.dimensions import SymbolicScope
from effx.ir.sizes.shape_text import format_shape, spread_shape_texts, symbolic_shape
from effx.ir.sizes.solving import plan_solution, solve
from effx.library.padding import rules as rules  # registers them
from effx.library.padding.handler import Padded, Padding
from effx.tree import PyTree

__all__ = ["mask", "shapecheck"]

F = TypeVar("F", bound=Callable[..., Any])


def _parse_specs(specs: PyTree, args: PyTree, scope: SymbolicScope) -> list[tuple[int, ...]]:
    """Returns a shape for each array of arguments, from texts, each for all arrays of a subtree."""
    texts, form = tree.flatten(specs, is_leaf=lambda x: x is None or isinstance(x, str))
    for text in texts:
        if text is not None and not isinstance(text, str):
            raise TransformError(
                f"{name_user_call()}: shapes are given as text, got {text!r} of type {type(text).__name__}"
            )
    return [
        symbolic_shape(text, scope=scope, like=enp.shape(x))
        for text, x in zip(spread_shape_texts(texts, form, args), tree.leaves(args), strict=True)
    ]


def mask(
    fun: Callable[..., Any],
    in_shapes: Sequence[Any],
    out_shape: Any = None,
    *,
    constraints: Sequence[str] = (),
) -> Callable[[Sequence[Any], Mapping[str, Any]], Any]:
    """Returns a function of padded arrays that computes with their first elements only.

    One compilation serves all lengths up to the padded sizes: sums, means, softmax, products, convolutions, sorts and
    scans leave out the padding. It composes with jit, with derivatives inside and around it, and with vmap, which makes
    a ragged batch of it.

    Args:
        fun: takes the arrays; sizes that it reads, such as `x.shape[0]`, are the lengths.
        in_shapes: for each argument a shape as text, such as `"(n, 3)"` or `"2*n"`; `_` means the size that the array
            has. A pytree of texts is for the arrays of a pytree.
        out_shape: the same for the result, to check it; None to leave that out.
        constraints: conditions on the lengths besides that each is at least 1, such as `"n >= 2"`; see
            `effx.export.symbolic_shape`.

    Returns:
        A function of a sequence of padded arguments, and of the lengths: a mapping of names to ints. Its result is
        padded; the padding there may have any values.

    Raises:
        ShapeError: the padded sizes do not fit the shapes, a length is larger than its padded size, or the result has
            another shape.
        TransformError: a length is missing, or one is given that no shape names.
        NoRuleError: an operation has no meaning for padded arrays, or a size is not largest for the padded ones, such
            as `10 - n`.

    >>> import effx.numpy as enp
    >>> mean = mask(lambda x: enp.mean(x), ["n"], "")
    >>> mean([enp.asarray([3.0, 1.0, 4.0, 1.0, 5.0])], {"n": 3})
    Array(2.6666667, dtype=float32)
    """
    check_function(fun)
    function_name, scope = "mask", SymbolicScope(constraints)

    def masked(args: Sequence[Any], logical_env: Mapping[str, Any]) -> Any:
        argument_list = list(args)
        if len(argument_list) != len(in_shapes):
            raise TransformError(
                f"mask: {len(in_shapes)} shapes are given for {len(argument_list)} arguments"
            )
        leaves, form = tree.flatten(argument_list)
        arrays = [enp.asarray(x) for x in leaves]
        shapes = _parse_specs(list(in_shapes), form.unflatten(arrays), scope)
        plan = plan_solution(function_name, shapes, lambda i: f"argument {i}")
        sizes = solve(function_name, plan, [x.shape for x in arrays], lambda i: f"argument {i}")
        lengths = _concrete_lengths(logical_env, plan.names, sizes)
        results, out = padded_call(
            lambda xs: fun(*form.unflatten(xs)), arrays, shapes, Padding(lengths, dict(sizes))
        )
        if out_shape is not None:
            _check_result(fun, out_shape, out, [p.shape for p in results], scope)
        return out.unflatten([p.value for p in results])

    masked.__name__, masked.__doc__ = f"masked_{getattr(fun, '__name__', 'f')}", fun.__doc__
    return masked


def padded_call(
    fun: Callable[[list[Array]], PyTree],
    arrays: Sequence[Array],
    shapes: Sequence[tuple[int, ...]],
    handler: Padding,
) -> tuple[list[Padded], tree.PyTreeDef]:
    """Calls a function of a list of arrays on padded ones.

    Args:
        fun: the function.
        arrays: of padded sizes. shapes: those that the function sees.
        handler: of the lengths and the padded sizes.

    Returns:
        The arrays of the result, and its structure.
    """
    payloads = [Padded(handler.repeated(x, shape), shape) for x, shape in zip(arrays, shapes, strict=True)]
    structure: list[tree.PyTreeDef] = []

    def flat(*xs: Array) -> list[Array]:
        result_leaves, out = tree.flatten(fun(list(xs)))
        structure.append(out)
        return result_leaves

    return list(handler.run(flat, *payloads)), structure[0]


def _concrete_lengths(
    sizes_by_name: Mapping[str, Any], names: Sequence[str], sizes: Mapping[str, int]
) -> dict[str, Array]:
    for name in names:
        if name not in sizes_by_name:
            raise TransformError(
                f"mask: the shapes name {name}, of which no length is given; got {sorted(sizes_by_name)}"
            )
    for name in sizes_by_name:
        if name not in names:
            raise TransformError(
                f"mask: a length of {name} is given, which no shape names; they name {sorted(names)}"
            )
    entries = {}
    for name in names:
        n = enp.asarray(sizes_by_name[name])
        if n.ndim or not enp.issubdtype(n.dtype, enp.integer):
            raise TransformError(f"mask: the length of {name} must be an int, got {n!r}")
        if isinstance(sizes_by_name[name], int) and not 1 <= sizes_by_name[name] <= sizes[name]:
            raise ShapeError(
                f"mask: the length of {name} must lie between 1 and the padded size {sizes[name]}, got {sizes_by_name[name]}"
            )
        entries[name] = n.astype(enp.int32)
    return entries


def _check_result(
    fun: Callable[..., Any],
    out_shape: Any,
    form: Any,
    shapes: Sequence[tuple[int, ...]],
    scope: SymbolicScope,
) -> None:
    texts = tree.flatten(out_shape, is_leaf=lambda x: x is None or isinstance(x, str))[0]
    if len(texts) != len(shapes):
        texts = texts * len(shapes) if len(texts) == 1 else texts
    if len(texts) != len(shapes):
        raise TreeError(
            f"{name_user_call()}: {len(texts)} shapes are given for the {len(shapes)} arrays of the result {form}"
        )
    for i, (text, shape) in enumerate(zip(texts, shapes, strict=True)):
        if text is None:
            continue
        like = shape if "_" in text or "..." in text else None
        expected_shape = symbolic_shape(text, like=like, scope=scope)
        if expected_shape != shape:
            which = "the result" if len(shapes) == 1 else f"array {i} of the result"
            name = getattr(fun, "__name__", "f")
            raise ShapeError(
                f"{name_user_call()}: {which} of {name} has the shape {format_shape(shape)}, "
                f"not {format_shape(expected_shape)}"
            )


def shapecheck(
    in_shapes: Sequence[Any], out_shape: Any, *, constraints: Sequence[str] = ()
) -> Callable[[F], F]:
    """Returns a decorator that shows that a function gives a shape for all sizes of its arguments, without running it.

    Args:
        in_shapes: for each argument a shape as text, such as `"(m, n)"`; a pytree of texts for a pytree.
        out_shape: the same for the result.
        constraints: what is known of the sizes; see `effx.export.symbolic_shape`.

    Returns:
        A decorator, which gives the function back.

    Raises:
        ShapeError: the result has another shape, or an operation does not fit sizes that differ.

    >>> import effx.numpy as enp
    >>> @shapecheck(["(m, n)", "n"], "m")
    ... def matvec(a, b):
    ...     return enp.dot(a, b)
    """

    def checked(fun: F) -> F:
        check_function(fun)
        scope = SymbolicScope(constraints)
        specs = tree.map(
            lambda text: effx.ShapeDtypeStruct(symbolic_shape(text, scope=scope), enp.float32),
            list(in_shapes),
            is_leaf=lambda x: isinstance(x, str),
        )
        result_shapes = effx.eval_shape(fun, *specs)
        leaves, form = tree.flatten(result_shapes)
        _check_result(fun, out_shape, form, [x.shape for x in leaves], scope)
        return fun

    return checked
