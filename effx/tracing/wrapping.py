"""Give a function the name, docstring and signature of the function that it wraps."""

import functools
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

# What a function's attributes must be.
_TYPES = {"__name__": str, "__qualname__": str, "__annotations__": dict}


def update_wrapper(wrapper: F, wrapped: Callable[..., object]) -> F:
    """Does what `functools.update_wrapper` does, of callables whose attributes are of other types too.

    A module of a neural network may have a field `__name__`; the wrapper then keeps its own name. It may refuse to hand out
    its class's annotations as a dict; the wrapper then has none.

    >>> class Layer:
    ...     __name__ = 3
    ...     def __call__(self, x): return x
    >>> update_wrapper(lambda x: x, Layer()).__name__
    '<lambda>'
    """
    assigned = [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if name not in _TYPES or isinstance(getattr(wrapped, name, None), _TYPES[name])
    ]
    functools.update_wrapper(wrapper, wrapped, assigned)
    return wrapper


def wraps(wrapped: Callable[..., object]) -> Callable[[F], F]:
    """Does what `functools.wraps` does, as `update_wrapper`."""
    return functools.partial(update_wrapper, wrapped=wrapped)
