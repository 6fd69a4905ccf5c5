"""Stopping inside a program, at a prompt on the values of the user's frames."""

from typing import IO, Any

from effx.array import Array
from effx.debug.frames import stack_here
from effx.debug.printing import observe_values
from effx.debug.prompt import stop
from effx.errors import TransformError
from effx.families.callbacks.callback import PythonCallback
from effx.families.callbacks.function import HostFunction
from effx.tracing.arguments import as_arrays
from effx.transforms.custom.custom_derivatives import custom_jvp
from effx.tree.registry import PyTree, flatten

__all__ = ["breakpoint"]

OPTIONS = {"stdin": None, "stdout": None, "completekey": "tab"}


def breakpoint(  # noqa: A001 - jax's name
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: PyTree = None,
    **kwargs: IO[str] | str | None,
) -> PyTree:
    """Stops a program where it performs this, at a prompt on the values of the user's frames.

    The prompt has pdb's commands `p`, `pp`, `l`, `w`, `a`, `u`, `d`, `c` and `q`, and evaluates other input as
    expressions. Where standard input is no terminal, the innermost frame's variables are printed instead.

    Args:
        backend: "cli", or None.
        filter_frames: True to leave out effx's own frames.
        num_frames: how many frames can be inspected, from the innermost one; None for all.
        ordered: True if the program stops in the order of other ordered effects.
        token: instead of `ordered`: a pytree of arrays, which is returned. The program stops where it has computed
            these values, and not at all if it does not use what is returned.
        kwargs: of the prompt: `stdin` and `stdout`, files instead of the terminal, and `completekey`.

    Returns:
        The token.

    Raises:
        TransformError: unknown backends or options; a token of an ordered breakpoint; a number of frames below 1.
        BdbQuit: when run, the user quits.

    >>> import effx
    >>> @effx.jit
    ... def f(x):
    ...     y = x + 1.0
    ...     effx.debug.breakpoint(num_frames=1)
    ...     return y
    >>> print(f(2.0))  # doctest: +ELLIPSIS
    breakpoint at ... in f
      effx.debug.breakpoint(num_frames=1)
      x = Array(2., dtype=float32)
      y = Array(3., dtype=float32)
    3.0
    """
    function_name = "debug.breakpoint"
    if backend not in (None, "cli"):
        raise TransformError(f"{function_name}: backend must be 'cli' or None, got {backend!r}")
    if num_frames is not None and num_frames < 1:
        raise TransformError(f"{function_name}: num_frames must be at least 1, got {num_frames}")
    unknown = sorted(set(kwargs).difference(OPTIONS))
    if unknown:
        raise TransformError(
            f"{function_name}: the prompt has no option {unknown[0]!r}, only {', '.join(OPTIONS)}"
        )
    options: dict[str, Any] = {**OPTIONS, **kwargs}
    stack = stack_here(filter_frames, num_frames)

    def here(*values: Array) -> None:
        stop(stack.filled(values), **options)

    if token is None:
        observe_values(function_name, here, stack.traced, {}, ordered, False)
        return None
    if ordered:
        raise TransformError(f"{function_name}: a token takes the place of ordered=True; give one of them")
    leaves, tree = flatten(token)
    arrays = as_arrays(function_name, leaves, ((), {"token": token}))
    types = tuple([x.type for x in arrays])
    n = len(stack.traced)

    def through(values: list[Array]) -> list[Array]:
        here(*values[:n])
        return values[n:]

    host = HostFunction(
        function_name,
        "breakpoint",
        through,
        (*[x.type for x in stack.traced], *types),
        flatten([0] * len(types))[1],
    )
    op = PythonCallback(host, types, "pure", vmap_method="sequential")

    @custom_jvp
    def stopped(values: tuple[Array, ...], captured: list[Array]) -> list[Array]:
        return list(op(*values, *captured))

    @stopped.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return stopped(*primals), tangents[1]

    return tree.unflatten(stopped(stack.traced, arrays))
