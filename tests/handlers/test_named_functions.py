"""Rules for users' functions: a handler with one answers, others go into the body.

Never: names a function by a string.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import TransformError, TreeError
from effx.handling import BoxHandler, InterceptHandler, named_function
from effx.ir.ops.elementwise import Mul, Sin


@attrs.frozen
class Dual:
    x: Array
    dx: Array


@attrs.frozen
class Tangents(BoxHandler[Dual]):
    def lift(self, x: Array) -> Dual:
        return Dual(x, enp.zeros_like(x))


@Tangents.rule(Mul)
def _(op: Mul, x: Dual, y: Dual) -> Dual:
    return Dual(x.x * y.x, x.dx * y.x + x.x * y.dx)


@named_function
def pair(x: Any, scale: Any = 2.0) -> Any:
    return {"s": enp.sin(x) * scale, "c": enp.cos(x)}


@Tangents.function_rule(pair)
def _(x: Dual, scale: Dual) -> Any:
    s, c = enp.sin(x.x), enp.cos(x.x)
    return {"s": Dual(s * scale.x, 100.0 * x.dx), "c": c}


@attrs.frozen
class Swap(InterceptHandler[None]): ...


@Swap.function_rule(pair)
def _(x: Any, scale: Any) -> Any:
    return {"s": x * scale, "c": x}


@attrs.frozen
class More(Swap):
    """A handler that extends another has its rules."""


def test_the_function_itself() -> None:
    """Without a handler it is the function, by position or keyword, under every transformation."""
    np.testing.assert_allclose(pair(0.5, scale=3.0)["s"], 3 * np.sin(0.5), rtol=1e-6)
    np.testing.assert_allclose(effx.jit(pair)(0.5)["s"], 2 * np.sin(0.5), rtol=1e-6)
    np.testing.assert_allclose(effx.grad(lambda x: pair(x)["s"])(0.5), 2 * np.cos(0.5), rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(pair)(enp.arange(2.0))["c"], np.cos([0, 1]), rtol=1e-6)
    assert pair.__name__ == "pair"
    assert repr(pair) == "<named_function pair>"


@pytest.mark.parametrize("jitted", [False, True])
def test_rules_on_payloads(jitted: bool) -> None:
    """The rule gets payloads, lifted ones for plain arguments, and a plain result stays plain."""
    f = effx.jit(pair) if jitted else pair
    found = Tangents().run(lambda x: f(x * x), Dual(enp.float32(3.0), enp.float32(1.0)))
    assert float(found["s"].dx) == 600.0
    assert float(found["c"].dx) == 0.0
    np.testing.assert_allclose(found["s"].x, 2 * np.sin(9.0), rtol=1e-5)


def test_rules_in_loops() -> None:
    """In a scan the rule answers at each step."""

    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (c * pair(c)["s"], None), x, None, length=2)[0]

    found = Tangents().run(f, Dual(enp.float32(0.5), enp.float32(1.0)))
    x, dx = 0.5, 1.0
    for _ in range(2):
        s = 2 * np.sin(x)
        x, dx = x * s, dx * s + x * 100 * dx
    np.testing.assert_allclose([found.x, found.dx], [x, dx], rtol=1e-5)


@pytest.mark.parametrize("handler", [Swap(), More()])
def test_rules_of_intercepting_handlers(handler: Swap) -> None:
    """The rule is called in the function's place, inside jit too, and what it performs can be differentiated."""

    def five(x: Any) -> Any:
        return pair(x, 5.0)["s"]

    def square(x: Any) -> Any:
        return pair(x, x)["s"]

    assert float(handler.run(effx.jit(five), 3.0)) == 15.0
    assert float(effx.grad(lambda x: handler.run(effx.jit(square), x))(3.0)) == 6.0


def test_handlers_without_a_rule_go_into_the_body() -> None:
    """Another handler sees the sine."""
    seen: list[str] = []

    @attrs.frozen
    class Watch(InterceptHandler[None]): ...

    @Watch.rule(Sin)
    def _(site: Any, op: Sin, x: Array) -> Array:
        seen.append(op.name)
        return op(x)

    Watch().run(pair, 0.5)
    assert seen == ["sin"]


def test_results_must_fit() -> None:
    """A rule with another structure, or for arrays another type, is an error that shows both."""

    @named_function
    def f(x: Any) -> Any:
        return x + 1.0

    @attrs.frozen
    class Wrong(InterceptHandler[None]): ...

    Wrong.function_rule(f)(lambda x: (x, x))
    with pytest.raises(TreeError, match=r"^wrong: the rule for f gives PyTreeDef\(\(\*, \*\)\) of"):
        Wrong().run(f, 1.0)
    Wrong.function_rule(f)(lambda x: enp.stack([x, x]))
    with pytest.raises(TreeError, match=r"of f32\[2\]~?, but the function gives PyTreeDef\(\*\) of f32\[\]"):
        Wrong().run(f, 1.0)
    Tangents.function_rule(f)(lambda x: [x])
    with pytest.raises(TreeError, match=r"^tangents: the rule for f gives a result of structure"):
        Tangents().run(f, Dual(enp.float32(1.0), enp.float32(1.0)))


def test_closing_over_what_is_handled() -> None:
    """A function that closes over a box of the handler is refused: the rule would know nothing of it."""

    def outer(x: Any) -> Any:
        @named_function
        def f(y: Any) -> Any:
            return x * y

        Tangents.function_rule(f)(lambda y: y)
        return f(x)

    with pytest.raises(TransformError, match=r"^tangents: f closes over a value that is handled"):
        Tangents().run(outer, Dual(enp.float32(1.0), enp.float32(1.0)))


@pytest.mark.unguarded
def test_only_functions() -> None:
    """named_function takes a function."""
    with pytest.raises(TransformError, match=r"^named_function: expected a function, got 3 of type int"):
        named_function(3)  # type: ignore[arg-type]  # wrong on purpose
