"""Reductions by any associative function."""

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from effx.array import Array, Operand, ordering
from effx.array.promotion import as_operand, broadcast_to
from effx.array.shaping import concatenate, moveaxis, normalize_axes, reshape
from effx.errors import DTypeError, ShapeError, TransformError, TreeError, name_user_call
from effx.ir.ops import reduce as r
from effx.ir.types import highest_value, lowest_value
from effx.lax.control.closures import check_callable, flatten_to_arrays
from effx.lax.elementwise.arithmetic import add, max, min, mul
from effx.lax.elementwise.bits import bitwise_and, bitwise_or, bitwise_xor
from effx.lax.operands import adapt_operands, int_tuple
from effx.lax.slicing import slice_in_dim
from effx.lower.placement.concrete import ConcreteArray
from effx.tracing.arguments import callable_name
from effx.transforms.maps.vmap import vmap
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding
from effx.tree import PyTreeDef
from effx.tree.registry import PyTree, flatten

__all__ = ["reduce"]

_MONOIDS: dict[Callable[..., PyTree], type[r.Reduction]] = {
    add: r.ReduceSum,
    mul: r.ReduceProd,
    max: r.ReduceMax,
    min: r.ReduceMin,
    bitwise_and: r.ReduceAnd,
    bitwise_or: r.ReduceOr,
    bitwise_xor: r.ReduceXor,
}
_OF_BOOLS = {r.ReduceSum: r.ReduceOr, r.ReduceProd: r.ReduceAnd}


# The numbers that change nothing, of floats: what programs write for arrays of all dtypes.
_IDENTITIES: dict[Callable[..., PyTree], float] = {
    add: 0.0,
    mul: 1.0,
    max: -math.inf,
    min: math.inf,
    bitwise_or: 0.0,
}


def _convert_identity(computation: Callable[..., PyTree], x: Array, number: PyTree) -> PyTree:
    """Returns what changes nothing in the dtype of `x` for a number of another dtype that changes nothing in its own."""
    identity = _IDENTITIES.get(computation)
    is_known = isinstance(number, int | float | np.generic) or type(number) is ConcreteArray
    if identity is None or not is_known or np.shape(number) != () or x.type.kind not in "biuf":
        return number
    if as_operand(cast("Operand", number)).type.dtype == x.type.dtype or float(number) != identity:
        return number
    if not math.isfinite(identity):
        identity = highest_value(x.type) if identity > 0 else lowest_value(x.type)
    return np.asarray(identity, x.type.dtype)


def check_monoid_operands(
    name: str, operand: PyTree, init_value: PyTree, computation: Callable[..., PyTree]
) -> tuple[list[Array], list[Array], PyTreeDef]:
    """Returns the arrays that a function combines, the scalars that it starts from, and their structure.

    Raises:
        TransformError: there is no array, or no function.
        TreeError: structures differ.
        ShapeError: the arrays' shapes differ, or an initial value is no scalar.
        DTypeError: an array and its initial value have different dtypes.
    """
    check_callable("computation", computation)
    xs, tree = flatten_to_arrays(name, operand)
    numbers, start_tree = flatten(init_value)
    if tree != start_tree:
        raise TreeError(
            f"{name_user_call()}: init_value must have the structure of {name}, {tree}, got {start_tree}"
        )
    if not xs:
        raise TransformError(f"{name_user_call()}: {name} must hold at least one array")
    if len(xs) == len(numbers) == 1:
        numbers = [_convert_identity(computation, xs[0], numbers[0])]
    starts = [adapt_operands(x, number)[1] for x, number in zip(xs, numbers, strict=True)]
    for x, start in zip(xs, starts, strict=True):
        if start.type.shape:
            raise ShapeError(f"{name_user_call()}: an initial value must be a scalar, got {start.type!r}")
        if start.type.dtype != x.type.dtype:
            raise DTypeError(
                f"{name_user_call()}: dtypes differ: the operand is {x.type!r}, its initial value {start.type!r}"
            )
        if x.type.shape != xs[0].type.shape:
            raise ShapeError(f"{name_user_call()}: operand shapes differ: {xs[0].type!r} and {x.type!r}")
    return xs, starts, tree


def make_combiner(
    computation: Callable[..., PyTree], xs: Sequence[Array], tree: PyTreeDef
) -> Callable[[list[Array], list[Array]], list[Array]]:
    """Returns the function of lists of scalars; it checks that its results are like the elements of `xs`."""

    def combined(first: list[Array], second: list[Array]) -> list[Array]:
        result, out_tree = flatten_to_arrays(
            f"the result of {callable_name(computation)}",
            computation(tree.unflatten(first), tree.unflatten(second)),
        )
        if out_tree != tree:
            raise TreeError(
                f"{name_user_call()}: {callable_name(computation)} must return the structure of operand, {tree}, "
                f"got {out_tree}"
            )
        for x, y in zip(xs, result, strict=True):
            if y.type.dtype != x.type.dtype or y.type.shape:
                raise DTypeError(
                    f"{name_user_call()}: {callable_name(computation)} must return a scalar of the operand's dtype, "
                    f"{x.type.with_shape(())!r}, got {y.type!r}"
                )
        return result

    return combined


def reduce(
    operands: PyTree,
    init_values: PyTree,
    computation: Callable[..., PyTree],
    dimensions: Sequence[int],
    out_sharding: OutSharding = None,
) -> PyTree:
    """Combines all elements along some axes.

    Functions of effx.lax (`add`, `mul`, `max`, `min`, `bitwise_and`, `bitwise_or`, `bitwise_xor`) are operations of
    XLA. Others are applied to neighbours, then to neighbouring results, and so on: as often as the binary logarithm of
    the number of elements, each time for all elements at once, so they are differentiated as they are written.

    Args:
        operands: an array, or a pytree of arrays of one shape.
        init_values: what is combined with the elements once: a scalar, or a pytree of them like `operands`. What
            changes nothing may be of another dtype: 0 or 0.0 of a sum, -inf of a maximum of integers.
        computation: takes two pytrees of scalars like `operands`, and gives one; associative.
        dimensions: the axes.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        A pytree like `operands`, of arrays without the axes.

    Raises:
        ShapeError: an axis is out of range or repeats, shapes differ, or an initial value is no scalar.
        DTypeError: dtypes differ.
        TreeError: structures differ.

    >>> import numpy as np
    >>> from effx import lax
    >>> reduce(np.array([3., 5.], np.float32), 1.0, lax.add, (0,))
    Array(9., dtype=float32)
    >>> argmax = lambda a, b: lax.cond(a[0] >= b[0], lambda: a, lambda: b)
    >>> [int(v) for v in reduce((np.array([3, 7, 5]), np.arange(3)), (0, -1), argmax, (0,))]
    [7, 1]
    """
    if out_sharding is not None:
        return apply_with_sharding(out_sharding, reduce, operands, init_values, computation, dimensions)
    xs, starts, tree = check_monoid_operands("operands", operands, init_values, computation)
    axes = tuple(sorted(int_tuple("axes", dimensions)))
    kind = _MONOIDS.get(computation) if len(xs) == 1 else None
    if kind is not None:
        (x,), (start,) = xs, starts
        op = (_OF_BOOLS.get(kind, kind) if x.type.kind == "b" else kind)(axes)
        if x.type.kind == "c" and isinstance(op, r.ReduceMax | r.ReduceMin):
            y = ordering.reduce_extreme(op, x)
        else:
            y = op(x)
        return tree.unflatten([computation(y, start)])
    t = xs[0].type
    axes = normalize_axes(axes, t)
    shape = tuple([n for i, n in enumerate(t.shape) if i not in axes])
    form = (math.prod([t.shape[i] for i in axes]), math.prod(shape))
    lines = [reshape(moveaxis(x, axes, range(len(axes))), form) for x in xs]
    combine = vmap(make_combiner(computation, xs, tree))
    first = [broadcast_to(start, form[1:]) for start in starts]
    combined = combine(first, _combine_in_pairs(combine, lines)) if math.prod(form) else first
    return tree.unflatten([reshape(y, shape) for y in combined])


def _combine_in_pairs(
    combine: Callable[[list[Array], list[Array]], list[Array]], lines: list[Array]
) -> list[Array]:
    """Combines the rows of `[n, m]` arrays, each with the next, until one is left; their order stays."""
    while (n := lines[0].type.shape[0]) > 1:
        m, half = lines[0].type.shape[1], n // 2
        pairs = [[reshape(slice_in_dim(x, side, 2 * half, 2), (half * m,)) for x in lines] for side in (0, 1)]
        results = [reshape(y, (half, m)) for y in combine(*pairs)]
        rest = [slice_in_dim(x, 2 * half, n) for x in lines]
        lines = (
            [concatenate([y, last], 0) for y, last in zip(results, rest, strict=True)] if n % 2 else results
        )
    return [reshape(x, x.type.shape[1:]) for x in lines]
