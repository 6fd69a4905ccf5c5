"""Call Python functions with values while a program runs, and print them."""

import builtins
import logging
from collections.abc import Callable
from typing import Final, overload

import numpy as np

from effx.array import Array
from effx.array.promotion import as_operand
from effx.debug.formats import check_format
from effx.effects import Label
from effx.errors import DTypeError, TransformError, check_function
from effx.families.callbacks.callback import PythonCallback
from effx.families.callbacks.function import HostFunction
from effx.ir.ops.host import DEBUG, ORDERED_DEBUG
from effx.tracing.arguments import callable_name
from effx.tree.registry import PyTree, flatten

__all__ = ["DebugEffect", "OrderedDebugEffect", "callback", "log", "print"]

DebugEffect: Final[Label] = DEBUG
"""The effect of debugging in any order: handlers that name it among what they handle see each call."""
OrderedDebugEffect: Final[Label] = ORDERED_DEBUG
"""The effect of debugging in the program's order."""

_log = logging.getLogger("effx.debug")


def observe_values(
    function_name: str,
    function: Callable[..., object],
    args: tuple[PyTree, ...],
    kwargs: dict[str, PyTree],
    ordered: bool,
    everywhere: bool,
) -> None:
    """Calls a function on the host with arguments as they are when a program runs; what is no array stays as it is."""
    leaves, tree = flatten((args, kwargs))
    arrays: list[Array] = []
    array_positions: list[int] = []
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, Array | bool | int | float | complex | np.ndarray | np.generic):
            continue
        try:
            arrays.append(as_operand(leaf, function_name))
        except DTypeError:
            continue  # NumPy's strings, say
        array_positions.append(i)
    known = [None if i in array_positions else leaf for i, leaf in enumerate(leaves)]

    def call(xs: list[Array]) -> None:
        argument_leaves = list(known)
        for i, x in zip(array_positions, xs, strict=True):
            argument_leaves[i] = x
        positional, named = tree.unflatten(argument_leaves)
        function(*positional, **named)

    host = HostFunction(
        function_name, callable_name(function), call, tuple([x.type.strong() for x in arrays])
    )
    PythonCallback(host, (), "debug", bool(ordered), bool(everywhere))(*arrays)


@overload
def callback(
    callback: None = None, *, ordered: bool = False, partitioned: bool = False
) -> Callable[..., None]: ...
@overload
def callback(
    callback: Callable[..., object],
    *args: PyTree,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: PyTree,
) -> None: ...
def callback(
    callback: Callable[..., object] | None = None,
    *args: PyTree,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: PyTree,
) -> Callable[..., None] | None:
    """Calls a Python function with values, while a program runs.

    A call happens wherever a program performs it: for each iteration of a loop, for each element of a batch under
    vmap (for all of them where vmap runs all branches), for primal values under differentiation, and once in a
    checkpoint. `callback(ordered=True)` without a function gives a function that takes `(callback, *args, **kwargs)`.

    Args:
        callback: what is called; its result does not count. It may call functions of effx.
        args, kwargs: pytrees. Arrays and numbers are passed as arrays on a CPU, other leaves unchanged.
        ordered: True if calls happen in the program's order.
        partitioned: True to be called on each device that a program runs on, with its parts of the arrays; else it is
            called once, with whole arrays. In `pmap` and `shard_map` each device calls with what it has.

    Raises:
        TransformError: something that is no function.
        BackendError: the program is compiled for another platform than CPUs.

    >>> import effx
    >>> seen = []
    >>> effx.jit(lambda x: effx.debug.callback(seen.append, x))(2.0)
    >>> seen
    [Array(2., dtype=float32)]
    """
    if callback is None:
        _refuse_arguments("debug.callback", args, kwargs)

        def second(callback: Callable[..., object], *args: PyTree, **kwargs: PyTree) -> None:
            check_function(callback, what="debug.callback")
            observe_values("debug.callback", callback, args, kwargs, ordered, partitioned)

        return second
    check_function(callback, what="debug.callback")
    observe_values("debug.callback", callback, args, kwargs, ordered, partitioned)
    return None


@overload
def print(  # noqa: A001 - jax's name
    fmt: None = None, *, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False
) -> Callable[..., None]: ...
@overload
def print(  # noqa: A001 - jax's name
    fmt: str,
    *args: PyTree,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: PyTree,
) -> None: ...
def print(  # noqa: A001 - jax's name
    fmt: str | None = None,
    *args: PyTree,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: PyTree,
) -> Callable[..., None] | None:
    """Prints values, while a program runs.

    A line is printed when `callback` would call. `print(ordered=True)` without a format gives a function that takes
    `(fmt, *args, **kwargs)`.

    Args:
        fmt: as for `str.format`; no f-string, which would show values before they are there.
        args, kwargs: what is printed: pytrees. All are used.
        ordered: True if lines are printed in the program's order.
        partitioned: see `callback`.
        skip_format_check: True to find mistakes in the format only when the program runs.

    Raises:
        FormatFieldError: the format names arguments that are not there.
        TransformError: it leaves some out.
        BackendError: the program is compiled for another platform than CPUs.

    >>> import effx, effx.numpy as enp
    >>> @effx.jit
    ... def f(x):
    ...     effx.debug.print("x is {x:.2f}, its double {0}", x * 2, x=x)
    ...     return x
    >>> y = f(0.5)
    x is 0.50, its double 1.0
    >>> _ = effx.vmap(lambda x: effx.debug.print("{}", x))(enp.arange(3))
    0
    1
    2
    """
    return _print_formatted(
        "debug.print", builtins.print, fmt, args, ordered, partitioned, skip_format_check, kwargs
    )


def log(
    fmt: str | None = None,
    *args: PyTree,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: PyTree,
) -> Callable[..., None] | None:
    """Logs values, while a program runs: `print` to the logger "effx.debug", at level INFO.

    Args:
        fmt, args, kwargs, ordered, partitioned, skip_format_check: as for `print`.

    Raises:
        FormatFieldError: the format names arguments that are not there.
        TransformError: it leaves some out.

    >>> log("{}", 3)
    """
    return _print_formatted(
        "debug.log", _write_to_log, fmt, args, ordered, partitioned, skip_format_check, kwargs
    )


def _write_to_log(line: str) -> None:
    _log.info("%s", line)


def _print_formatted(
    function_name: str,
    write: Callable[[str], None],
    fmt: str | None,
    args: tuple[PyTree, ...],
    ordered: bool,
    everywhere: bool,
    skip_check: bool,
    kwargs: dict[str, PyTree],
) -> Callable[..., None] | None:
    def second(fmt: str, *args: PyTree, **kwargs: PyTree) -> None:
        if not isinstance(fmt, str):
            raise TransformError(
                f"{function_name}: the format must be a string, got {fmt!r} of type {type(fmt).__name__}"
            )
        if not skip_check:
            check_format(function_name, fmt, len(args), kwargs)

        options = np.get_printoptions()  # XLA's threads have others

        def show(*args: PyTree, **kwargs: PyTree) -> None:
            with np.printoptions(**options):
                line = fmt.format(*args, **kwargs)
            write(line)

        observe_values(function_name, show, args, kwargs, ordered, everywhere)

    if fmt is None:
        _refuse_arguments(function_name, args, kwargs)
        return second
    second(fmt, *args, **kwargs)
    return None


def _refuse_arguments(function_name: str, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> None:
    if args or kwargs:
        arguments_text = ", ".join([*map(repr, args), *[f"{k}={v!r}" for k, v in kwargs.items()]])
        raise TransformError(
            f"{function_name}: what comes first is the only thing that may be left out, got {arguments_text}"
        )
