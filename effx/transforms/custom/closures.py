"""`closure_convert`: turn a function's closed-over values into arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, overload

from effx.array import Array, Box
from effx.errors import DTypeError, ShapeError, TreeError, check_function
from effx.handlers.staging.stage import run_program
from effx.tracing.arguments import FlatFunction, as_arrays, callable_name, finalize_results, leaf_type
from effx.tracing.traces import trace
from effx.tree.registry import PyTree, flatten

if TYPE_CHECKING:
    from effx.tracing.signatures import OfOperand

__all__ = ["closure_convert"]

R = TypeVar("R")


@overload
def closure_convert(fun: OfOperand, *example_args: PyTree) -> tuple[Callable[..., Array], list[Array]]: ...
@overload
def closure_convert(fun: Callable[..., R], *example_args: PyTree) -> tuple[Callable[..., R], list[Array]]: ...
def closure_convert(fun: Callable[..., R], *example_args: PyTree) -> tuple[Callable[..., R], list[Array]]:
    """Converts closed-over values to arguments, for rules that depend on them. Only values that may be
    differentiated are hoisted: floating and complex values that belong to a surrounding transformation.
    Others remain in the function.

    Args:
        fun: the function.
        example_args: arguments, or anything with their shapes and dtypes; `fun` is staged for them.

    Returns:
        `(converted, consts)`: `converted(*args, *consts)` returns `fun(*args)`. `converted` takes only arguments
        like the examples.

    Raises:
        TransformError: `fun` is not callable.
        TreeError, ShapeError, DTypeError: `converted` is called with arguments unlike the examples.

    >>> import effx
    >>> def power(x, exponent):
    ...     converted, consts = effx.closure_convert(lambda y: y ** exponent, x)
    ...     return converted(x, *consts) + 10. * len(consts)
    >>> print(power(3., 2.), effx.value_and_grad(power, 1)(3., 2.)[0])
    9.0 19.0
    """
    check_function(fun)
    name = callable_name(fun)
    leaves, tree = flatten((example_args, {}))
    types = [leaf_type("closure_convert", x) for x in leaves]
    staged = trace(FlatFunction("closure_convert", fun, tree), types)
    hoisted = [type(x) is Box and x.type.kind in "fc" for x in staged.captured]
    consts = [x for x, h in zip(staged.captured, hoisted, strict=True) if h]

    def call_converted(*args: PyTree) -> R:
        """Calls the function; the hoisted values are the last arguments."""
        n = len(args) - len(consts)
        if n < 0:
            raise TreeError(
                f"closure_convert: {name} takes {len(consts)} hoisted values behind its arguments, "
                f"got {len(args)} arguments in all"
            )
        arg_leaves, arg_tree = flatten((args[:n], {}))
        if arg_tree != tree:
            raise TreeError(
                f"closure_convert: {name} was converted for arguments of structure {tree.children()[0]}, "
                f"got {arg_tree.children()[0]}"
            )
        arrays = as_arrays("closure_convert", arg_leaves, (args[:n], {}))
        for i, (x, t) in enumerate(zip(arrays, types, strict=True)):
            if not x.type.matches(t):
                kind = ShapeError if x.type.shape != t.shape else DTypeError
                raise kind(
                    f"closure_convert: {name} was converted for {t!r} as leaf {i} of its arguments, got {x.type!r}"
                )
        values = iter(as_arrays("closure_convert", list(args[n:]), (args[n:], {})))
        captured = [next(values) if h else x for x, h in zip(staged.captured, hoisted, strict=True)]
        results = run_program(staged.program, [*captured, *arrays])
        result: R = staged.out_tree.unflatten(finalize_results(results))
        return result

    call_converted.__name__ = name
    return call_converted, consts
