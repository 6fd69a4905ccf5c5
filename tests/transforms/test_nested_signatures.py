"""Signatures of functions that only wrap others are read through them once."""

from collections.abc import Callable
from typing import Any

import pytest

import effx
from effx.tracing.arguments import function_signature

# typeguard asks `inspect.signature` of the functions itself, which jaxlib answers level by level.
pytestmark = pytest.mark.unguarded

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "jit": effx.jit,
    "jit of vmap": lambda f: effx.jit(effx.vmap(f, in_axes=None, axis_size=2, out_axes=None)),
    "jit of grad": lambda f: effx.jit(effx.grad(f)),
    "checkpoint of jit": lambda f: effx.checkpoint(effx.jit(f)),
    "jit with a donated argument": lambda f: effx.jit(f, donate_argnames="x"),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_many_nested_wrappers_are_built_at_once(wrapper: str) -> None:
    """Forty levels take forty times one level's time, not 2 ** 40 times; the innermost function's signature is seen."""

    def f(x: Any, *, flag: bool = False) -> Any:
        return x * x

    nested: Any = f
    for _ in range(40):
        nested = WRAPPERS[wrapper](nested)
    signature = function_signature(nested)
    assert signature is not None
    assert list(signature.parameters) == ["x", "flag"]


def test_a_signature_of_its_own_stays() -> None:
    """A wrapper that states another signature keeps it."""
    import functools
    import inspect

    def f(x: Any) -> Any:
        return x

    @functools.wraps(f)
    def g(*args: Any) -> Any:
        return f(*args)

    g.__signature__ = inspect.signature(lambda y, z: None)  # type: ignore[attr-defined]  # as decorators do
    signature = function_signature(effx.jit(g))
    assert signature is not None
    assert list(signature.parameters) == ["y", "z"]


def test_nested_jits_compute() -> None:
    """A deep nest of jits gives the innermost function's value."""
    f: Any = lambda x: x + 1.0  # noqa: E731  # a function without a name
    for _ in range(30):
        f = effx.jit(f)
    assert float(f(1.0)) == 2.0
