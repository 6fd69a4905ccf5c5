"""`with_overloads_of`: share overloads between functions of one signature."""

from collections.abc import Callable
from types import FunctionType
from typing import TypeVar, cast

Overloaded = TypeVar("Overloaded", bound=Callable[..., object])


def with_overloads_of(other: Overloaded) -> Callable[[Callable[..., object]], Overloaded]:
    """Declares to type checkers that a function has the overloads of another; the parameters must be equal.

    Not for a method whose overloads bring type variables of their own: mypy forgets these when it reads its cache.

    Raises:
        TypeError: the parameters or their defaults differ.

    >>> def least(x: int, y: int = 0) -> int:
    ...     return min(x, y)
    >>> @with_overloads_of(least)
    ... def greatest(x: int, y: int = 0) -> int:
    ...     return max(x, y)
    >>> greatest(3)
    3
    >>> with_overloads_of(least)(lambda x: x)
    Traceback (most recent call last):
        ...
    TypeError: with_overloads_of: <lambda> must have the parameters of least
    """

    def check_parameters(function: Callable[..., object]) -> Overloaded:
        if _parameters(function) != _parameters(other):
            raise TypeError(
                f"with_overloads_of: {function.__qualname__} must have the parameters of {other.__qualname__}"
            )
        # Not typed as taking an `Overloaded`: basedpyright then forgets the type variables of methods.
        return cast("Overloaded", function)

    return check_parameters


def _parameters(function: Callable[..., object]) -> tuple[object, ...]:
    assert isinstance(function, FunctionType)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names, code.co_argcount, function.__defaults__, function.__kwdefaults__
