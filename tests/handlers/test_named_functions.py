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
from effx.handling import BoxHandler, InterceptHandler, Structural, named_function
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


@Tangents.rule(Structural)
def _(op: Structural, x: Dual) -> Dual:
    return Dual(op(x.x), op(x.dx))


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


def around(f: Any, x: Any) -> Any:
    """The rule of Tangents for one batch element."""
    return Tangents().run(f, Dual(enp.asarray(x), enp.ones_like(x)))


MAPS: dict[str, Any] = {
    "front": lambda f: effx.vmap(f),
    "behind": lambda f: effx.vmap(f, 1, 1),
    "twice": lambda f: effx.vmap(effx.vmap(f)),
    "across": lambda f: effx.vmap(effx.vmap(f), 1, 1),
    "jit inside": lambda f: effx.vmap(effx.jit(f)),
    "jit around": lambda f: effx.jit(effx.vmap(effx.vmap(f))),
    "scan inside": lambda f: effx.vmap(lambda x: lax.scan(lambda c, r: (c, f(r)), 0.0, x)[1]),
    "scan around": lambda f: lambda x: lax.scan(lambda c, r: (c, effx.vmap(f)(r)), 0.0, x)[1],
    "map": lambda f: effx.vmap(lambda x: lax.map(f, x)),
    "checkpoint": lambda f: effx.vmap(effx.checkpoint(f)),
    "cond": lambda f: effx.vmap(lambda x: lax.cond(enp.asarray(2) > 1, f, f, x)),
}


@pytest.mark.parametrize("wrap", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("outside", [lambda f: f, effx.jit], ids=["eager", "jit"])
def test_batches_further_in_keep_the_rule(wrap: Any, outside: Any) -> None:
    """The rule is applied to each batch element, for boxing and for intercepting handlers."""
    x = enp.asarray(np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(2, 3))

    def one(v: Any) -> Any:
        return pair(v)["s"]

    dual = outside(lambda x: around(wrap(one), x))(x)
    np.testing.assert_allclose(dual.x, 2.0 * np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(dual.dx, np.full((2, 3), 100.0), rtol=1e-6)
    np.testing.assert_allclose(outside(lambda x: Swap().run(wrap(one), x))(x), 2.0 * x, rtol=1e-6)


def test_batches_of_some_arguments() -> None:
    """What all batch elements share stays one value; a plain result stays plain, a plain argument is lifted."""
    lifted: list[tuple[int, ...]] = []

    @attrs.frozen
    class Shapes(BoxHandler[Dual]):
        def lift(self, x: Array) -> Dual:
            lifted.append(x.shape)
            return Dual(x, enp.zeros_like(x))

    @Shapes.function_rule(pair)
    def _(x: Dual, scale: Dual) -> Any:
        assert x.x.shape == scale.x.shape == ()
        return {"s": Dual(x.x * scale.x, x.dx), "c": x.x}

    def f(x: Any) -> Any:
        return effx.vmap(pair, (None, 0))(x, enp.arange(3.0))

    found = Shapes().run(f, Dual(enp.float32(2.0), enp.float32(1.0)))
    np.testing.assert_array_equal(found["s"].x, [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(found["s"].dx, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(found["c"].x, [2.0, 2.0, 2.0])
    assert {*lifted[:-1]} == {()}  # inside the rule one batch element's
    assert lifted[-1] == (3,)  # the plain result at the end, of all

    none = Shapes().run(
        lambda x: effx.vmap(lambda y: pair(x, y)["s"])(enp.zeros(0)), Dual(*[enp.float32(2.0)] * 2)
    )
    assert none.x.shape == (0,)


def test_batches_have_their_names() -> None:
    """A rule may sum over the batch, as the function may."""

    @named_function
    def center(x: Any) -> Any:
        return x - lax.pmean(x, "rows")

    @attrs.frozen
    class Sums(InterceptHandler[None]): ...

    @Sums.function_rule(center)
    def _(x: Any) -> Any:
        return lax.psum(x, "rows")

    rows = effx.vmap(center, axis_name="rows")
    np.testing.assert_allclose(rows(enp.arange(3.0)), [-1.0, 0.0, 1.0])
    np.testing.assert_allclose(Sums().run(rows, enp.arange(3.0)), [3.0, 3.0, 3.0])
    np.testing.assert_allclose(Sums().run(effx.jit(rows), enp.arange(3.0)), [3.0, 3.0, 3.0])


def test_axes_of_payloads() -> None:
    """A payload whose leaves have an axis of its own in front says so by unstack and stack, as for scan."""

    @attrs.frozen
    class Rows(BoxHandler[Dual]):
        def lift(self, x: Array) -> Dual:
            return Dual(x, enp.zeros((4, *x.shape)))

        def unstack(self, payload: Dual) -> Dual:
            return Dual(payload.x, enp.moveaxis(payload.dx, 1, 0))

        def stack(self, payload: Dual) -> Dual:
            return Dual(payload.x, enp.moveaxis(payload.dx, 0, 1))

    @Rows.function_rule(pair)
    def _(x: Dual, scale: Dual) -> Any:
        assert x.dx.shape == (4,)
        return {"s": Dual(x.x * 2.0, x.dx * 3.0), "c": x.x}

    dx = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = Rows().run(lambda x: effx.vmap(pair)(x)["s"], Dual(enp.arange(3.0), enp.asarray(dx)))
    np.testing.assert_array_equal(found.dx, dx * 3.0)


def test_other_transformations_go_through_batched_functions() -> None:
    """What is known of the function costs nothing where no handler has a rule for it."""
    x = enp.asarray(np.linspace(0.1, 1.0, 3, dtype=np.float32))

    def f(x: Any) -> Any:
        return enp.sum(effx.vmap(pair)(x)["s"])

    @attrs.frozen
    class Idle(InterceptHandler[None]): ...

    @Idle.function_rule(named_function(enp.cos))
    def _(x: Any) -> Any:
        raise AssertionError

    for g in (f, lambda x: Idle().run(f, x), lambda x: Idle().run(effx.jit(f), x)):
        np.testing.assert_allclose(effx.grad(g)(x), 2 * np.cos(x), rtol=1e-6)
        np.testing.assert_allclose(effx.jit(effx.grad(g))(x), 2 * np.cos(x), rtol=1e-6)
        np.testing.assert_allclose(
            effx.vmap(effx.grad(g))(enp.stack([x, x])), 2 * np.cos(np.stack([x, x])), rtol=1e-6
        )
    # The derivative is taken further in than the handler: it sees no call of the function any more.
    slope: Any = effx.grad(lambda x: pair(x)["s"])
    np.testing.assert_allclose(Swap().run(effx.vmap(slope), x), 2 * np.cos(x), rtol=1e-6)
