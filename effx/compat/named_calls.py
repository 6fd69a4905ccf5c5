"""`jax.named_call`: a name for what a function does, and no boundary."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from effx.errors import check_function
from effx.transforms.arguments import name_of
from effx.transforms.naming import named_scope

__all__ = ["named_call"]

P = ParamSpec("P")
R = TypeVar("R")


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """Names what a function performs, as `named_scope` does.

    `effx.named_call` makes a call that handlers may have rules for, of a function of arrays. Libraries wrap methods that
    take what they like and keep values in modules, which a call could not let out.

    Args:
        fun: any function.
        name: of the scope, by default the function's.

    Raises:
        TransformError: `fun` is no function, or the name is empty.

    >>> import effx, effx.numpy as enp
    >>> kept = []
    >>> double = named_call(lambda x: kept.append(2 * x), name="double")
    >>> print(effx.jit(lambda x: (double(x), kept.pop())[1])(3.0))
    6.0
    """
    check_function("named_call", fun)
    return named_scope(name_of(fun) if name is None else name)(fun)
