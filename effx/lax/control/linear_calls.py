"""`linear_call`: a linear function with a transpose of the user's."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from effx.array import Array
from effx.array.promotion import zeros
from effx.handlers.recursion.staging import align_constants
from effx.ir.ops.custom import CustomBackward, CustomTangent
from effx.ir.program import Program
from effx.lax.control.closures import (
    array_types,
    check_callable,
    check_inexact,
    check_matches,
    convert_to_types,
    flatten_to_arrays,
)
from effx.tracing.arguments import callable_name
from effx.tracing.traces import positional_tree, trace_cached

__all__ = ["linear_call"]

Residuals = TypeVar("Residuals")
X = TypeVar("X")
Y = TypeVar("Y")


def linear_call(
    fun: Callable[[Residuals, X], Y],
    fun_transpose: Callable[[Residuals, Y], X],
    residual_args: Residuals,
    linear_args: X,
) -> Y:
    """Calls a linear function whose transpose is another function, and the other way round.

    Reverse mode and `linear_transpose` call `fun_transpose` where they would transpose `fun`; the transpose of that
    call calls `fun`. By `residual_args` it is `fun` itself that is differentiated.

    Args:
        fun: from `residual_args` and `linear_args`, in which it is linear, to a pytree of floating or complex arrays.
        fun_transpose: from `residual_args` and a pytree like the result of `fun`, in which it is linear, to one like
            `linear_args`.
        residual_args: a pytree of arrays.
        linear_args: a pytree of floating or complex arrays.

    Returns:
        `fun(residual_args, linear_args)`.

    Raises:
        TransformError: `fun` or `fun_transpose` is no function.
        DTypeError: `linear_args` or the result has an array that is neither floating nor complex, or `fun_transpose`
            gives other dtypes than those of `linear_args`.
        TreeError, ShapeError: `fun_transpose` gives another structure or other shapes than those of `linear_args`.

    >>> import effx
    >>> def halved(r, x): return linear_call(lambda r, x: x / r, lambda r, ct: 10. * ct / r, r, x)
    >>> print(halved(2., 3.), effx.grad(halved, argnums=1)(2., 3.))
    1.5 5.0
    """
    check_callable("fun", fun)
    check_callable("fun_transpose", fun_transpose)
    residuals, residual_tree = flatten_to_arrays("residual_args", residual_args)
    linear, tree = flatten_to_arrays("linear_args", linear_args)
    known, types = array_types(residuals), array_types(linear)
    check_inexact("linear_args", linear_args, types)
    there = trace_cached("linear_call", fun, positional_tree(residual_tree, tree), (*known, *types))
    example = there.out_tree.unflatten(there.out_types)
    check_inexact(f"the result of {callable_name(fun)}", example, there.out_types)
    inputs = positional_tree(residual_tree, there.out_tree)
    back = trace_cached("linear_call", fun_transpose, inputs, (*known, *there.out_types))
    check_matches(callable_name(fun_transpose), "linear_args", tree, types, back.out_tree, back.out_types)
    programs, constants = align_constants([there, back])
    results = _call(callable_name(fun), programs[0], programs[1], [*constants, *residuals], linear)
    result: Y = there.out_tree.unflatten(results)
    return result


def _call(
    name: str, program: Program, transpose: Program, known: Sequence[Array], linear: Sequence[Array]
) -> Sequence[Array]:
    """Calls a program that is linear in all operands but the known ones; both programs take the same known values."""
    n = len(known)

    def backward(residuals: Sequence[Array], cts: Sequence[Array | None]) -> Sequence[Array]:
        cotangents = [zeros(t) if ct is None else ct for ct, t in zip(cts, program.out_types, strict=True)]
        return _call(name, transpose, program, residuals, cotangents)

    op = CustomTangent(CustomBackward("linear_call", name, backward), program.out_types, n, 2 * n, program)
    return op(*known, *known, *convert_to_types(linear, program.in_types[n:]))
