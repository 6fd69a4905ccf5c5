"""`fwd_and_bwd`: the forward and backward passes of reverse mode as two functions."""

from collections.abc import Callable, Sequence
from typing import ParamSpec

from effx.tracing.arguments import select_arguments
from effx.transforms.autodiff.core import vjp
from effx.transforms.jit.jit import jit
from effx.tree.registry import PyTree

__all__ = ["fwd_and_bwd"]

P = ParamSpec("P")


def fwd_and_bwd(
    fun: Callable[P, PyTree], argnums: "int | Sequence[int]" = 0, has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[P, tuple[PyTree, ...]], Callable[[PyTree, PyTree], PyTree]]:
    """Returns reverse mode as two functions, which can be compiled and scheduled separately.

    Args:
        fun: takes and returns pytrees of arrays.
        argnums: which positional argument or arguments to differentiate by.
        has_aux: whether `fun` returns a pair whose second part is not differentiated.
        jitted: whether both functions are compiled.

    Returns:
        `(fwd, bwd)`. `fwd(*args)` returns `(result, residuals)`, with has_aux `(result, residuals, aux)`;
        the residuals are a pytree. `bwd(residuals, cotangent)` returns the cotangent of the argument, a tuple
        if `argnums` is a sequence.

    >>> import effx, effx.numpy as enp
    >>> fwd, bwd = effx.fwd_and_bwd(lambda x, w: x @ w, argnums=(0, 1))
    >>> y, residuals = fwd(enp.ones((2, 3)), enp.ones(3))
    >>> [ct.shape for ct in bwd(residuals, enp.ones(2))]
    [(2, 3), (3,)]
    """

    def fwd(*args: P.args, **kwargs: P.kwargs) -> tuple[PyTree, ...]:
        selected, chosen = select_arguments("fwd_and_bwd", fun, argnums, args, kwargs)
        # The result type depends on has_aux, whose value is not known here.
        untyped: Callable[..., tuple[PyTree, ...]] = vjp
        return untyped(selected, *chosen, has_aux=has_aux)

    def bwd(residuals: PyTree, cotangent: PyTree) -> PyTree:
        cotangents = residuals(cotangent)
        return cotangents if isinstance(argnums, Sequence) else cotangents[0]

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
