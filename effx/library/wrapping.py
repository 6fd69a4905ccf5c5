"""Functions that run under a handler, with arguments and keywords of their own."""

from collections.abc import Callable
from functools import wraps
from typing import ClassVar, ParamSpec, Protocol

from effx.errors import check_function
from effx.lazy import list_names
from effx.tree import PyTree

__all__ = ["under"]
__dir__ = list_names(__all__)

P = ParamSpec("P")


class RunsFunctions(Protocol):
    """A boxing or intercepting handler."""

    name: ClassVar[str]

    def run(self, function: Callable[..., PyTree], /, *args: PyTree) -> PyTree:
        """Runs a function under the handler."""
        ...


def under(handler: RunsFunctions, fun: Callable[P, PyTree]) -> Callable[P, PyTree]:
    """Returns a function that runs `fun` under a handler.

    Args:
        handler: for a boxing one, payloads may be in arguments and keywords.
        fun: any function.

    Returns:
        A function that returns what `handler.run` returns.

    Raises:
        TransformError: `fun` is no function.

    >>> import attrs, effx, effx.numpy as enp
    >>> from effx.handling import InterceptHandler
    >>> from effx.handling.ops import Sin
    >>> @attrs.frozen
    ... class Half(InterceptHandler[None]):
    ...     pass
    >>> @Half.rule(Sin)
    ... def _(site, op, x): return site.forward(x / 2)
    >>> print(under(Half(), lambda *, x: enp.sin(x))(x=1.0), enp.sin(0.5))
    0.47942555 0.47942555
    """
    check_function(fun, what=handler.name)

    @wraps(fun)
    def handled(*args: P.args, **kwargs: P.kwargs) -> PyTree:
        return handler.run(lambda given, named: fun(*given, **named), args, kwargs)

    return handled
