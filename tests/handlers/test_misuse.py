"""Mistakes of handlers' authors and users: each is an error with expected and got.

Never: asserts an error's class alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import DTypeError, EffxError, EscapedBoxError, TransformError, TreeError
from effx.families.sort import Sort
from effx.handlers.oracle import evaluate
from effx.handling import (
    ArrayOperation,
    BoxHandler,
    Forward,
    InterceptHandler,
    Label,
    Site,
    decompose,
    named_function,
    places,
)
from effx.ir.ops.elementwise import Sin

jit: Any = effx.jit

# What is mistyped here on purpose, typeguard would refuse first.
pytestmark = pytest.mark.unguarded


@attrs.frozen
class One:
    x: Any


ONE = One(enp.float32(0.5))
THREE = One(enp.array([3.0, 1.0, 2.0]))


def boxing(kind: type, rule: Callable[..., Any]) -> BoxHandler[One]:
    """A handler with one rule."""

    @attrs.frozen
    class Bad(BoxHandler[One]):
        def lift(self, x: Array) -> One:
            return One(x)

    Bad.rule(kind)(rule)
    return Bad()


def watching(kind: type, rule: Callable[..., Any]) -> InterceptHandler[None]:
    """A handler with one rule."""

    @attrs.frozen
    class Bad(InterceptHandler[None]): ...

    Bad.rule(kind)(rule)
    return Bad()


def message(run: Callable[[], object]) -> str:
    with pytest.raises(EffxError) as caught:
        run()
    return caught.value.message


@pytest.mark.parametrize("jitted", [False, True])
def test_rules_must_give_payloads(jitted: bool) -> None:
    """A forgotten return, a number, another class: refused where the rule is, in and out of programs."""
    sin: Any = effx.jit(enp.sin) if jitted else enp.sin
    for given, said in ((None, "None of type NoneType"), (3, "3 of type int"), ("a", "'a' of type str")):
        assert message(lambda g=given: boxing(Sin, lambda op, x: g).run(sin, ONE)) == (  # type: ignore[misc]  # a default
            f"bad: the rule for sin must give an array or a payload of type One, got {said}"
        )


def test_plain_results_must_have_the_results_type() -> None:
    """A rule may give a plain array, of the shape and dtype that the operation's result has."""
    assert message(lambda: boxing(Sin, lambda op, x: enp.ones(7)).run(enp.sin, ONE)) == (
        "bad: the rule for sin gives a plain array f32[7], but the result is f32[]"
    )
    assert message(lambda: boxing(Sin, lambda op, x: x.x > 0).run(enp.sin, ONE)) == (
        "bad: the rule for sin gives a plain array bool[], but the result is f32[]"
    )


def test_leaves_must_be_arrays() -> None:
    """What stands in a payload is an array or a number, also where no program asks for it."""
    rule = r"bad: the rule for sin \(test_misuse\.py:\d+ in <lambda>\)"
    expected = f"{rule}: expected an array or a number, got 'a' of type str"
    handler = boxing(Sin, lambda op, x: One("a"))
    for f in (enp.sin, effx.jit(enp.sin)):
        assert re.fullmatch(expected, message(partial(handler.run, f, ONE)))


@pytest.mark.parametrize("make", [boxing, watching])
def test_rules_must_give_all_results(make: Any) -> None:
    """An operation with several results needs a tuple of as many."""

    def result(rule: Callable[..., Any]) -> str:
        return message(lambda: make(Sort, rule).run(enp.sort, THREE if make is boxing else THREE.x))

    assert result(lambda *_: ()) == "bad: the rule for sort must give a tuple of 1 results, got ()"
    assert result(lambda *_: None) == "bad: the rule for sort must give a tuple of 1 results, got None"
    assert result(lambda *_: (1.0, 2.0)).startswith(
        "bad: the rule for sort must give a tuple of 1 results, got (1.0"
    )


def test_watching_rules_may_give_numbers() -> None:
    """A number or NumPy array that a rule answers with becomes an array, in programs too."""
    for value in (2.0, np.float32(2.0)):

        def rule(site: Any, op: Sin, x: Array, v: Any = value) -> Any:
            return v

        handler = watching(Sin, rule)
        assert float(handler.run(lambda x: enp.sin(x) + 1, 0.5)) == 3.0
        assert float(handler.run(jit(lambda x: enp.sin(x) + 1), 0.5)) == 3.0
    with pytest.raises(
        DTypeError, match=r"^bad: the rule for sin: expected an array or a number, got None of type NoneType"
    ):
        watching(Sin, lambda site, op, x: None).run(enp.sin, 0.5)


def test_rules_for_functions_must_fit() -> None:
    """They are for named functions, and give what the function gives."""

    @named_function
    def f(x: Any) -> Any:
        return enp.sin(x)

    @attrs.frozen
    class Bad(BoxHandler[One]):
        def lift(self, x: Array) -> One:
            return One(x)

    for given in (None, "a", (ONE, ONE)):
        Bad.function_rule(f)(lambda x, g=given: g)
        with pytest.raises(TreeError, match=r"^bad: the rule for f gives a result of structure "):
            Bad().run(f, ONE)
    Bad.function_rule(f)(lambda x: enp.ones(9))
    assert message(lambda: Bad().run(f, ONE)) == (
        "bad: the rule for f gives a plain array f32[9], but the result is f32[]"
    )
    for kind in (Bad, type(watching(Sin, lambda *_: None))):
        assert message(lambda k=kind: k.function_rule(enp.sin)(lambda x: x)).startswith(  # type: ignore[misc]  # a default
            "bad: function rules are for functions that named_function made, got <function sin"
        )


def test_run_takes_a_function() -> None:
    expected = "bad: run takes a function and its arguments, got 3"
    assert message(lambda: boxing(Sin, lambda *_: ONE).run(3, ONE)) == expected  # type: ignore[arg-type]  # wrong on purpose
    assert message(lambda: watching(Sin, lambda *_: None).run(3)) == expected  # type: ignore[arg-type]  # wrong on purpose


def test_handlers_without_lift() -> None:
    """A plain value has no payload then."""

    @attrs.frozen
    class Bare(BoxHandler[One]): ...

    handler: BoxHandler[One] = Bare()  # type: ignore[abstract]  # wrong on purpose
    assert message(lambda: handler.run(lambda x: enp.ones(2), ONE)) == (
        "bare: a plain value f32[2] stands where a payload is expected; define lift(x)"
    )


@pytest.mark.parametrize("labels", [[Label("a")], {Label("a")}, Label("a"), "a", frozenset({"a"})], ids=repr)
def test_labels_are_a_frozenset(labels: Any) -> None:
    """A handler that would take no effect because of its brackets is refused when it is written."""
    with pytest.raises(TransformError, match=r"^takes: handles must be a frozenset of labels, got "):

        class Takes(InterceptHandler[None]):
            handles: ClassVar[Any] = labels


@pytest.mark.parametrize("labels", [[Label("a")], {Label("a")}, (Label("a"),), Label("a"), "a"], ids=repr)
def test_effects_are_a_frozenset(labels: Any) -> None:
    """So is an operation of a user's, before any jit tries to key a cache with it."""
    with pytest.raises(TransformError, match=r"^draws_lots: effects must be a frozenset of labels, got "):

        class DrawsLots(ArrayOperation):
            effects = labels


def test_labels_may_be_a_property_or_a_field() -> None:
    """Then each instance has its own."""

    @attrs.frozen
    class Takes(InterceptHandler[None]):
        handles: Any = frozenset({Label("a")})  # type: ignore[misc]  # a class variable elsewhere

    assert Takes().takes(frozenset({Label("a")}))
    assert not Takes(frozenset()).takes(frozenset({Label("a")}))


def test_the_default_is_one_of_four() -> None:
    with pytest.raises(
        TransformError, match=r"^odd: default is 'error', 'forward', 'drop' or 'derive', got 'derived'"
    ):

        class Odd(BoxHandler[One]):
            default: ClassVar[Any] = "derived"


def test_names_of_collected_values_are_strings() -> None:
    @attrs.frozen
    class Gather(InterceptHandler[None]):
        collects = True

    @Gather.rule(Sin)
    def _(site: Site[Gather, None], op: Sin, x: Array) -> Array:
        site.collect(3, x)  # type: ignore[arg-type]  # wrong on purpose
        return x

    assert message(lambda: Gather().run(enp.sin, 0.5)) == "gather: values are collected under names, got 3"


def test_wrong_arguments_of_functions() -> None:
    """decompose, places and analyses say what they take."""
    bad: Any = 3
    assert message(lambda: decompose(bad, to=[Sin])) == "decompose: expected a function, got 3 of type int"
    assert message(lambda: decompose(enp.sin, to=bad)) == (
        "decompose: to must list operation classes or traits, got 3"
    )
    assert message(lambda: places(bad)) == (
        "places: expected a staged program, got 3; effx.make_jaxpr(f)(*args) gives one"
    )

    class Walk(Forward[int]): ...

    assert message(lambda: Walk.rule(bad)) == "Walk: rules are for classes of operations or traits, got 3"
    assert message(lambda: Walk.rule()) == "Walk: a rule needs the classes of operations that it is for"


USES: dict[str, Callable[[Any], object]] = {
    "operation": enp.sin,
    "jit": lambda x: effx.jit(enp.sin)(x),
    "grad": lambda x: effx.grad(lambda y: y * x)(1.0),
    "reference handler": lambda x: evaluate(enp.sin, x),
    "number": float,
    "NumPy": np.asarray,
    "truth": bool,
    "text": lambda x: f"{x:.2f}",
    "branch": lambda x: lax.cond(x, lambda: 1.0, lambda: 2.0),
}


@pytest.mark.parametrize("use", USES)
def test_values_that_outlive_their_handler(use: str) -> None:
    """A box that outlives its handler is an error in any use, and also where it has a primal value."""

    @attrs.frozen
    class Brief(BoxHandler[One]):
        def lift(self, x: Array) -> One:
            return One(x)

        def primal(self, payload: One) -> Array:
            found: Array = payload.x
            return found

    kept: list[Any] = []
    Brief().run(lambda x: kept.append(x), One(enp.array(True)))
    with pytest.raises(
        EscapedBoxError, match=r"^escaped box: a value bool\[\] that belongs to brief was used after"
    ):
        USES[use](kept[0])


def test_names_of_lazy_packages_are_listed() -> None:
    """`dir` lists what has not been loaded yet, for people at a prompt."""
    for package in (effx.lax, effx.numpy, effx.random, effx.nn):
        assert set(package.__all__) <= set(dir(package))
