"""Masks: what is performed under one passes the masked handler by, wherever the program is opened.

Never: masks a handler by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import TransformError
from effx.families.sort import Sort
from effx.handling import BoxHandler, InterceptHandler, Site, mask
from effx.ir import check_program
from effx.ir.ops.elementwise import Sin

Model = Callable[..., Any]


@attrs.frozen
class Times(InterceptHandler[None]):
    """Multiplies sines, and what is sorted."""

    factor: float


@Times.rule(Sin)
def _(site: Site[Times, None], op: Sin, x: Array) -> Array:
    return op(x) * site.handler.factor


@Times.rule(Sort)
def _(site: Site[Times, None], op: Sort, *xs: Array) -> tuple[Array, ...]:
    return tuple([x * site.handler.factor for x in op(*xs)])


@attrs.frozen
class Plus(InterceptHandler[None]):
    """Adds to sines."""

    term: float


@Plus.rule(Sin)
def _(site: Site[Plus, None], op: Sin, x: Array) -> Array:
    return op(x) + site.handler.term


def half(x: Any) -> Any:
    """sin x under the mask, plus sin x."""
    with mask(Times):
        y = enp.sin(x)
    return y + enp.sin(x)


FORMS: dict[str, Callable[[Model], Model]] = {
    "plain": lambda f: f,
    "jit": effx.jit,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(x), None), x, None, length=2)[0],
    "cond": lambda f: lambda x: lax.cond(x > 0, f, lambda y: y, x),
    "while": lambda f: lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(x)), (0, x))[1],
    "checkpoint": effx.checkpoint,
    "vmap": lambda f: lambda x: effx.vmap(f)(enp.stack([x, x]))[0],
    "jit vmap jit": lambda f: lambda x: effx.jit(effx.vmap(effx.jit(f)))(enp.stack([x, x]))[0],
}


@pytest.mark.parametrize("form", FORMS)
def test_the_masked_handler_is_passed_by(form: str) -> None:
    """Half of the sines are multiplied, in every kind of program."""
    s = np.sin(0.5)
    f = FORMS[form](half)
    assert float(Times(10.0).run(f, 0.5)) == pytest.approx(11 * s, rel=1e-5)
    assert float(f(0.5)) == pytest.approx(2 * s, rel=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_derivatives_of_masked_operations(form: str) -> None:
    """Differentiated further in, the rules' operations are masked as well: cos is no sine, but -sin is not multiplied."""
    if form == "while":
        pytest.skip("reverse mode needs max_steps there")
    f = FORMS[form](half)
    slope = Times(10.0).run(effx.grad(f), 0.5)
    assert float(slope) == pytest.approx(2 * np.cos(0.5), rel=1e-5)
    second = Times(10.0).run(lambda x: effx.jvp(effx.grad(f), (x,), (1.0,))[1], 0.5)
    assert float(second) == pytest.approx(-11 * np.sin(0.5), rel=1e-5)


def test_only_the_innermost_is_masked() -> None:
    """One mask passes one handler by; a second mask, the next; others see the operation."""
    s = np.sin(0.5)

    def twice(x: Any) -> Any:
        with mask(Times), mask(Times):
            return enp.sin(x)

    def once(x: Any) -> Any:
        with mask(Times):
            return enp.sin(x)

    def nested(f: Model) -> Any:
        return Times(10.0).run(lambda x: Plus(1.0).run(lambda x: Times(3.0).run(effx.jit(f), x), x), 0.5)

    assert float(nested(once)) == pytest.approx(10 * s + 1, rel=1e-5)
    assert float(nested(twice)) == pytest.approx(s + 1, rel=1e-5)
    assert float(Plus(1.0).run(twice, 0.5)) == pytest.approx(s + 1, rel=1e-5)


def test_two_classes_at_once() -> None:
    """A mask may name several classes."""

    def f(x: Any) -> Any:
        with mask(Times, Plus):
            return enp.sin(x)

    assert float(Plus(1.0).run(lambda x: Times(3.0).run(effx.jit(f), x), 0.5)) == pytest.approx(np.sin(0.5))


def test_operations_with_several_results() -> None:
    """Sort passes by too, in a program that checks and compiles."""

    def f(x: Any) -> Any:
        with mask(Times):
            return enp.sort(x)

    x = enp.array([2.0, 1.0])
    assert Times(2.0).run(effx.jit(f), x).tolist() == [1.0, 2.0]
    assert Times(2.0).run(effx.jit(enp.sort), x).tolist() == [2.0, 4.0]
    check_program(effx.make_jaxpr(f)(x))
    assert effx.jit(effx.grad(lambda x: f(x)[0]))(x).tolist() == [0.0, 1.0]


@attrs.frozen
class One:
    x: Array


@attrs.frozen
class Boxes(BoxHandler[One]):
    def lift(self, x: Array) -> One:
        return One(x)


@Boxes.rule(Sin)
def _(op: Sin, x: One) -> One:
    return One(op(x.x))


def test_boxes_of_a_masked_handler_are_refused() -> None:
    """There is nothing that could compute with them."""

    def f(x: Any) -> Any:
        with mask(Boxes):
            return enp.sin(x)

    with pytest.raises(
        TransformError, match=r"^mask: sin: an operand is a box of boxes, which is masked here"
    ):
        Boxes().run(f, One(enp.float32(0.5)))


@pytest.mark.unguarded
def test_wrong_masks() -> None:
    """A mask names classes of handlers."""
    with pytest.raises(TransformError, match=r"^mask: say which classes of handlers are masked"):
        mask()
    with pytest.raises(TransformError, match=r"^mask: expected classes of handlers, got Times\(factor=1.0\)"):
        mask(Times(1.0))  # type: ignore[arg-type]  # wrong on purpose
