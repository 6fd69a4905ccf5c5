"""The scope that a rule gets: complete, whatever program the operation is in, and wherever that was staged first.

Never: takes a scope from a program's equations, which have their own part of it alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import attrs
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.handling import ArrayOperation, BoxHandler, InterceptHandler, Site, places
from effx.ir.ops.control import Call
from effx.ir.ops.elementwise import Cos, Mul, Sin

Function = Callable[[Any], Any]
ASKED: list[str] = []
RUNS = itertools.count()


@attrs.frozen
class Where(InterceptHandler[None]):
    """Notes the scope of each sine, when its rule runs: each handler for itself, since its programs are cached."""

    number: int = attrs.field(factory=lambda: next(RUNS))


@Where.rule(Sin)
def _(site: Site[Where, None], op: Sin, x: effx.Array) -> effx.Array:
    ASKED.append(site.scope)
    return op(x)


@attrs.frozen
class Boxes(BoxHandler[effx.Array]):
    """The same with boxes."""

    number: int = attrs.field(factory=lambda: next(RUNS))

    def lift(self, x: effx.Array) -> effx.Array:
        return x

    def primal(self, payload: effx.Array) -> effx.Array:
        return payload


@Boxes.rule(ArrayOperation)
def _(op: ArrayOperation, *xs: effx.Array) -> effx.Array:
    return op(*xs)


@Boxes.site_rule(Sin)
def _(site: Site[Boxes, None], op: Sin, x: effx.Array) -> effx.Array:
    ASKED.append(site.scope)
    return op(x)


@attrs.frozen
class Blind(InterceptHandler[None]):
    """Asks for no scope."""

    number: int = attrs.field(factory=lambda: next(RUNS))


@Blind.rule(Sin)
def _(site: Site[Blind, None], op: Sin, x: effx.Array) -> effx.Array:
    ASKED.append("")
    return op(x)


def inner(x: Any) -> Any:
    with effx.named_scope("in"):
        return enp.sin(x)


FORMS: dict[str, Callable[[Function], Function]] = {
    "plain": lambda f: f,
    "jit": effx.jit,
    "jit in jit": lambda f: effx.jit(effx.jit(f)),
    "checkpoint": effx.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "cond": lambda f: lambda x: lax.cond(x < 9, f, lambda y: y, x),
    "while": lambda f: lambda x: lax.fori_loop(0, 2, lambda i, c: f(c), x),
    "vmap": lambda f: lambda x: effx.vmap(f)(x[None])[0],
    "jit of vmap": lambda f: lambda x: effx.jit(effx.vmap(f))(x[None])[0],
    "gradient": lambda f: lambda x: effx.value_and_grad(effx.jit(f))(x)[0],
}


@pytest.mark.parametrize("kind", [Where, Boxes])
@pytest.mark.parametrize("form", FORMS)
def test_scopes_around_programs(form: str, kind: type[Where | Boxes]) -> None:
    """One function in two scopes, of which its program knows nothing, and again where all is cached."""
    f = FORMS[form](inner)

    def model(x: Any) -> Any:
        with effx.named_scope("a"):
            x = f(x)
        with effx.named_scope("b"), effx.named_scope("c"):
            return f(x)

    def found(*models: Function) -> list[set[str]]:
        handler, scopes = kind(), []
        for model in models:
            ASKED.clear()
            assert handler.run(model, enp.float32(0.5)).shape == ()
            scopes.append(set(ASKED))
        return scopes

    assert found(model) == [{"a/in", "b/c/in"}]
    assert found(f) == [{"in"}]
    jitted = effx.jit(model)
    assert found(jitted) == [{"a/in", "b/c/in"}]

    def around(x: Any) -> Any:
        with effx.named_scope("around"):
            return jitted(x)

    # What was made of a program elsewhere is not taken for that of another place.
    assert found(jitted, around)[1] == {"around/a/in", "around/b/c/in"}
    assert found(around, jitted)[1] == {"a/in", "b/c/in"}


def test_scopes_of_rules_that_ask_alone() -> None:
    """A program is staged again for each scope if a rule has asked for it, if only of a program inside; else once."""
    f = effx.jit(lambda x: effx.jit(inner)(x) + 1.0)

    def model(x: Any) -> Any:
        for name in "abcab":
            with effx.named_scope(name):
                x = f(x)
        return x

    for handler, asked in ((Where(), ["a/in", "b/in", "c/in"]), (Blind(), [""])):
        ASKED.clear()
        handler.run(model, 0.5)
        assert asked == ASKED
        handler.run(model, 0.5)
        assert asked == ASKED


def test_scopes_of_a_handler_inside() -> None:
    """A handler within a function that is staged sees the scopes of that function alone."""
    where, g = Where(), effx.jit(inner)
    f = effx.jit(lambda x: where.run(g, x))
    ASKED.clear()
    for name in ("a", "b"):
        with effx.named_scope(name):
            Where().run(f, 0.5)
            where.run(g, 0.5)
    assert ASKED == ["in", "a/in", "a/in", "b/in", "b/in"]


@attrs.frozen
class Passes(InterceptHandler[None]):
    """Notes the transformations that perform each sine and cosine."""

    number: int = attrs.field(factory=lambda: next(RUNS))


SEEN: list[tuple[str, tuple[str, ...], str]] = []


@Passes.rule(Cos, Mul)
def _(site: Site[Passes, None], op: Cos | Mul, *xs: effx.Array) -> effx.Array:
    SEEN.append((op.name, site.transformations, site.scope))
    return site.forward()


@pytest.mark.parametrize("around", [lambda f: f, effx.jit], ids=["eager", "jit"])
def test_operations_of_the_backward_pass_are_marked(around: Any) -> None:
    """In calls and loops too; and the places of the program say the same of the same operations."""

    def f(x: Any) -> Any:
        with effx.named_scope("layer"):
            return around(enp.sin)(x)

    def g(x: Any) -> Any:
        return lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]

    for function in (f, g):
        gradient = effx.grad(function)
        SEEN.clear()
        Passes().run(gradient, 0.5)
        forward = [s for s in SEEN if s[0] == "cos"]
        backward = [s for s in SEEN if s[0] == "mul"]
        assert {s[1:] for s in forward} == {(("jvp",), "layer")}
        assert {s[1:] for s in backward} == {(("transpose", "jvp"), "layer")}
        of_places = {
            (p.op.name, p.transformations, p.scope)
            for p in places(effx.make_jaxpr(gradient)(0.5))
            if isinstance(p.op, Cos | Mul)
        }
        assert of_places == set(SEEN)


def test_batches_and_forward_derivatives_are_marked() -> None:
    def f(x: Any) -> Any:
        return effx.vmap(lambda x: enp.cos(x) * 2.0)(x)

    SEEN.clear()
    Passes().run(f, enp.ones(3))
    assert [s[:2] for s in SEEN] == [("cos", ("vmap",)), ("mul", ("vmap",))]
    SEEN.clear()
    Passes().run(enp.cos, 0.5)
    assert SEEN == [("cos", (), "")]


def test_a_place_and_its_site_agree() -> None:
    """In operation, name stack and line, also within programs, in the same order."""
    body = effx.jit(lambda c, x: (enp.sin(c) * enp.sin(x), enp.sin(c)))

    def f(x: Any) -> Any:
        with effx.named_scope("a"):
            y = enp.sin(x)
        with effx.named_scope("b"):
            z, zs = lax.scan(body, y, enp.ones(3))
        return lax.cond(z > 0, enp.sin, lambda x: enp.sin(enp.sin(x)), z + zs.sum())

    program = effx.make_jaxpr(f)(0.5)
    expected = [(p.op, p.scope, p.source) for p in places(program) if isinstance(p.op, Sin)]
    seen: list[Any] = []

    @attrs.frozen
    class Watch(InterceptHandler[None]):
        pass

    @Watch.rule(Sin)
    def _(site: Site[Watch, None], op: Sin, x: effx.Array) -> effx.Array:
        seen.append((site.op, site.scope, site.source))
        return site.forward()

    Watch().run(effx.jit(Call(program)), 0.5)
    assert seen == expected
    assert len(expected) == 7
