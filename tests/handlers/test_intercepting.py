"""Handlers that watch: state, collecting, effects, stepping, and rules for everything, through all programs.

Never: has a handler with a rule for control flow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import NoRuleError, TransformError
from effx.handling import ArrayOperation, Frame, InterceptHandler, Label, Operation, Site, array_type
from effx.ir.ops.elementwise import Cos, Exp, Mul, Sin

Model = Callable[..., Any]


@attrs.frozen
class Count(InterceptHandler[Array]):
    """Counts sines."""

    def initial(self) -> Array:
        return enp.int32(0)

    def merge_states(self, a: Array, b: Array) -> Array:
        return a + b

    def returns(self, result: Any, frame: Frame) -> Any:
        return result, frame.state


@Count.rule(Sin)
def _(site: Site[Count, Array], op: Sin, x: Array) -> Array:
    site.state = site.state + 1
    return op(x)


@attrs.frozen
class Collect(InterceptHandler[None]):
    """Collects what sines and cosines are taken of."""

    collects = True

    def returns(self, result: Any, frame: Frame) -> Any:
        return result, frame.collected


@Collect.rule(Sin, Cos)
def _(site: Site[Collect, None], op: Sin | Cos, x: Array) -> Array:
    site.collect(op.name, {"x": x})
    return op(x)


def nested(x: Any) -> Any:
    def inner(c: Any, _: None) -> Any:
        return effx.jit(enp.sin)(c), None

    def outer(c: Any, _: None) -> Any:
        return lax.scan(inner, c, None, length=2)[0], enp.sin(c)

    return lax.scan(outer, x, None, length=3)


@effx.custom_jvp
def with_rule(x: Any) -> Any:
    return enp.sin(x)


with_rule.defjvps(lambda dx, y, x: dx * 2.0)

COUNTED: dict[str, tuple[Model, int]] = {
    "none": (enp.cos, 0),
    "plain": (lambda x: enp.sin(enp.sin(x)), 2),
    "jit": (lambda x: effx.jit(lambda y: enp.sin(y) + enp.sin(2 * y))(x), 2),
    "same jit twice": (lambda x: effx.jit(enp.sin)(effx.jit(enp.sin)(x)), 2),
    "cond": (lambda x: lax.cond(x > 0, lambda y: enp.sin(enp.sin(y)), lambda y: y, x), 2),
    "other branch": (lambda x: lax.cond(x < 0, lambda y: enp.sin(enp.sin(y)), lambda y: y, x), 0),
    "switch": (lambda x: lax.switch(1, [enp.cos, enp.sin, lambda y: enp.sin(enp.sin(y))], x), 1),
    "scan": (lambda x: lax.scan(lambda c, _: (enp.sin(c), None), x, None, length=5), 5),
    "reverse scan": (lambda x: lax.scan(lambda c, _: (enp.sin(c), None), x, None, length=5, reverse=True), 5),
    "empty scan": (lambda x: lax.scan(lambda c, _: (enp.sin(c), None), x, None, length=0), 0),
    "nested scans": (nested, 9),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, enp.sin(c[1])), (0, x)), 4),
    "while never": (lambda x: lax.while_loop(lambda c: c > 9, enp.sin, x), 0),
    # The condition is asked once more than the body runs.
    "sine in the condition": (lambda x: lax.while_loop(lambda c: enp.sin(c) > 2, enp.cos, x), 1),
    "sines in both": (
        lambda x: lax.while_loop(
            lambda c: c[0] + enp.sin(enp.sin(x)) < 3, lambda c: (c[0] + 1, enp.sin(c[1])), (0.0, x)
        ),
        3 + 2 * 4,
    ),
    "fori": (lambda x: lax.fori_loop(0, 3, lambda i, c: enp.sin(c), x), 3),
    "checkpoint": (effx.checkpoint(enp.sin), 1),
    "vmap": (lambda x: effx.vmap(enp.sin)(enp.stack([x, x])), 1),
    "pmap": (lambda x: effx.pmap(enp.sin)(enp.stack([x, x])), 2),
    # The primal and, for the derivative of cos, one more.
    "grad": (lambda x: effx.grad(lambda y: enp.sin(enp.cos(y)))(x), 2),
    "jvp": (lambda x: effx.jvp(enp.sin, (x,), (x,)), 1),
    "custom_jvp": (with_rule, 1),
    "solve": (
        lambda x: lax.custom_linear_solve(lambda y: 2 * y, x, lambda f, b: enp.sin(b), symmetric=True),
        1,
    ),
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", COUNTED)
def test_state_is_threaded(name: str, jitted: bool) -> None:
    """A count goes through every kind of program, and the result is what it is without the handler."""
    f, want = COUNTED[name]
    run = Count().run
    result, count = (effx.jit(lambda x: run(f, x)) if jitted else lambda x: run(f, x))(0.5)
    assert int(count) == want
    for a, b in zip(effx.tree.leaves(result), effx.tree.leaves(f(0.5)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_state_of_batch_elements() -> None:
    """Under vmap outside, each batch element counts for itself."""

    def f(x: Any) -> Any:
        return lax.while_loop(lambda c: c > 0.5, enp.sin, x)

    xs = np.array([0.1, 0.6, 0.7], np.float32)
    counts = effx.vmap(lambda x: Count().run(f, x)[1])(xs)
    want = []
    for x in xs:
        n = 0
        while x > 0.5:
            x, n = np.sin(x), n + 1
        want.append(n)
    assert counts.tolist() == want


def test_state_must_keep_its_type() -> None:
    """A state that changes shape inside a program is an error that names both."""

    @attrs.frozen
    class Grow(InterceptHandler[Array]):
        def initial(self) -> Array:
            return enp.zeros(1)

    @Grow.rule(Sin)
    def _(site: Site[Grow, Array], op: Sin, x: Array) -> Array:
        site.state = enp.concatenate([site.state, site.state])
        return op(x)

    with pytest.raises(TransformError, match=r"^grow: a part of the state changed from f32\[1\] to f32\[2\]"):
        Grow().run(effx.jit(enp.sin), 0.5)


def test_derivatives_perform_nothing_again() -> None:
    """A state counts each operation once, through checkpoints, also where the function was compiled without it."""
    f = effx.checkpoint(lambda x: enp.sin(enp.sin(x)))
    gradient = effx.jit(effx.grad(f))
    alone = gradient(0.4)
    for g in (effx.grad(f), gradient):
        found, count = Count().run(g, 0.4)
        assert int(count) == 2
        assert float(found) == pytest.approx(float(alone))
    assert float(gradient(0.4)) == pytest.approx(float(alone))


def test_loops_that_run_again_for_their_derivative_are_refused() -> None:
    """Forward mode and loops with a bound do not."""

    def loop(x: Any, **options: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, enp.sin(s[1])), (0, x), **options)[1]

    with pytest.raises(TransformError) as info:
        Count().run(lambda x: effx.linearize(loop, x)[1](1.0), 0.4)
    assert str(info.value).splitlines()[0] == (
        "linearize: the derivative of a while loop runs the loop again, and a handler around keeps a state or "
        "collects values that this would change; pass max_steps=N to while_loop or fori_loop, or use scan or jvp"
    )
    want = effx.linearize(loop, 0.4)[1](1.0)
    assert float(Count().run(lambda x: effx.jvp(loop, (x,), (1.0,))[1], 0.4)[0]) == pytest.approx(float(want))
    found, count = Count().run(lambda x: effx.linearize(lambda v: loop(v, max_steps=4), x)[1](1.0), 0.4)
    assert float(found) == pytest.approx(float(want))
    assert int(count) == 3


def test_collecting() -> None:
    """Scan stacks what is collected, in order of the steps; a loop's values equal those of a Python loop."""

    def f(x: Any) -> Any:
        return lax.scan(lambda c, v: (enp.sin(c * v), enp.cos(v)), x, enp.arange(1.0, 4.0))

    _, found = effx.jit(lambda x: Collect().run(effx.jit(f), x))(0.5)
    c, sines = np.float32(0.5), []
    for v in (1, 2, 3):
        sines.append(c * v)
        c = np.sin(c * v)
    np.testing.assert_allclose(found["sin"]["x"], sines, rtol=1e-6)
    np.testing.assert_allclose(found["cos"]["x"], [1, 2, 3])


@pytest.mark.parametrize("reverse", [False, True])
def test_collecting_in_nested_scans(reverse: bool) -> None:
    """Each scan adds an axis in front, and rows stand where the step's inputs stand."""

    def f(x: Any) -> Any:
        def row(c: Any, r: Any) -> Any:
            return lax.scan(lambda c, v: (c + enp.sin(v), None), c, r, reverse=reverse)

        return lax.scan(row, x, enp.arange(6.0).reshape(2, 3), reverse=reverse)[0]

    _, found = Collect().run(f, 0.0)
    assert found["sin"]["x"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_collecting_in_branches_and_while() -> None:
    """What another branch collects reads zero; a while loop keeps its last iteration, zeros if there is none."""

    def f(x: Any) -> Any:
        y = lax.cond(x > 0, enp.sin, enp.cos, x)
        return lax.while_loop(lambda c: c < 3, lambda c: c + 1 + 0 * enp.exp(c), y)

    found = Collect().run(f, 0.5)[1]
    assert (float(found["sin"]["x"]), float(found["cos"]["x"])) == (0.5, 0.0)
    loop = lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1 + 0 * enp.sin(c), x)  # noqa: E731
    assert float(Collect().run(loop, 0.5)[1]["sin"]["x"]) == 2.5
    assert float(Collect().run(loop, 5.0)[1]["sin"]["x"]) == 0.0


def test_collecting_of_batch_elements() -> None:
    """vmap inside hands the batch to the handler; vmap outside and pmap stack theirs."""
    xs = enp.array([0.1, 0.2])
    assert Collect().run(effx.vmap(enp.sin), xs)[1]["sin"]["x"].tolist() == xs.tolist()
    assert effx.vmap(lambda x: Collect().run(enp.sin, x)[1])(xs)["sin"]["x"].tolist() == xs.tolist()
    assert Collect().run(effx.pmap(enp.sin), xs)[1]["sin"]["x"].tolist() == xs.tolist()


def test_collecting_under_grad() -> None:
    """A reaped value inside a differentiated function is an ordinary result."""
    value, grads = effx.value_and_grad(lambda x: Collect().run(lambda y: enp.sin(y * y), x)[1]["sin"]["x"])(
        3.0
    )
    assert (float(value), float(grads)) == (9.0, 6.0)


def test_collecting_twice_is_an_error() -> None:
    """One name, two values: refused, within a function and between programs."""
    message = "^collect: two values are collected under the name 'sin'"
    with pytest.raises(TransformError, match=message):
        Collect().run(lambda x: enp.sin(enp.sin(x)), 0.5)
    once = effx.jit(enp.sin)
    with pytest.raises(TransformError, match=message):
        Collect().run(lambda x: once(once(x)), 0.5)


def test_branches_must_collect_alike() -> None:
    """Two branches with different values under one name are refused."""
    f = lambda x: lax.cond(x > 0, lambda y: enp.sin(y), lambda y: enp.sum(enp.sin(enp.stack([y, y]))), x)  # noqa: E731
    with pytest.raises(
        TransformError, match=r"^collect: branches collect different things under the name 'sin'"
    ):
        Collect().run(f, 0.5)


def test_only_who_collects_may_collect() -> None:
    """site.collect needs collects = True."""

    @attrs.frozen
    class Silent(InterceptHandler[None]): ...

    @Silent.rule(Sin)
    def _(site: Site[Silent, None], op: Sin, x: Array) -> Array:
        site.collect("x", x)
        return op(x)

    with pytest.raises(
        TransformError, match=r"^silent: site.collect\('x', ...\) needs a handler with collects = True"
    ):
        Silent().run(enp.sin, 0.5)


WANT, MAY = Label("want"), Label("may", optional=True)


@attrs.frozen
class Want(ArrayOperation):
    effects = frozenset({WANT})

    def infer(self, *types: Any) -> Any:
        return array_type(np.dtype("float32"))


@attrs.frozen
class May(ArrayOperation):
    effects = frozenset({MAY})

    def infer(self, *types: Any) -> Any:
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        result: Array = operands[0] + 1.0
        return result


@attrs.frozen
class Give(InterceptHandler[None]):
    value: float
    handles: ClassVar[frozenset[Label]] = frozenset({WANT, MAY})


@Give.rule(Want)
def _(site: Site[Give, None], op: Want) -> Array:
    return enp.float32(site.handler.value)


@Give.rule(May)
def _(site: Site[Give, None], op: May, x: Array) -> Array:
    return x * site.handler.value


def test_effects_cross_jit() -> None:
    """An operation with a label waits in a jitted function, in a loop, for the handler outside; the innermost answers."""
    f = effx.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c + Want()(), x))
    assert float(Give(2.0).run(f, 1.0)) == 7.0
    assert float(Give(5.0).run(lambda x: Give(2.0).run(f, x), 1.0)) == 7.0
    assert float(effx.grad(lambda x: Give(2.0).run(f, x) * x)(1.0)) == 8.0
    assert effx.vmap(lambda x: Give(2.0).run(f, x))(enp.arange(2.0)).tolist() == [6.0, 7.0]
    assert Give(2.0).run(effx.vmap(f), enp.arange(2.0)).tolist() == [6.0, 7.0]


def test_a_wanted_effect_without_a_handler() -> None:
    """Without a handler it is an error, eagerly and compiled."""
    with pytest.raises(NoRuleError, match=r"^want: no handler takes the effect 'want'"):
        Want()()
    with pytest.raises(NoRuleError, match=r"^call: no handler takes the effect 'want'|^f: no handler"):
        effx.jit(lambda x: x + Want()())(1.0)


def test_optional_effects_do_without_a_handler() -> None:
    """Without a handler an optional effect decomposes; the compiled fast path never hides it from one that comes later."""
    f = effx.jit(lambda x: May()(x) * 10.0)
    x = enp.float32(1.0)
    for _ in range(3):
        assert float(f(x)) == 20.0
        assert float(Give(7.0).run(f, x)) == 70.0
        assert float(f(x)) == 20.0
    assert float(May()(x)) == 2.0
    assert float(effx.grad(f)(x)) == 10.0
    assert effx.vmap(f)(enp.arange(2.0)).tolist() == [10.0, 20.0]


def test_rules_for_everything_leave_control_flow_alone() -> None:
    """A rule for Operation sees what loops perform, and not the loops."""
    seen: list[str] = []

    @attrs.frozen
    class Watch(InterceptHandler[None]): ...

    @Watch.rule(Operation)
    def _(site: Site[Watch, None], op: Operation[Any], *xs: Array) -> Any:
        seen.append(op.name)
        return site.forward()

    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (enp.exp(c) * 2.0, None), x, None, length=3)[0]

    Watch().run(effx.jit(f), 0.0)
    assert seen == ["exp", "mul"]


def test_stepping_sees_values() -> None:
    """With steps = True rules see concrete values inside jitted functions and loops, in the order in which they run."""
    values: list[float] = []

    @attrs.frozen
    class Look(InterceptHandler[None]):
        steps = True

    @Look.rule(Exp, Mul)
    def _(site: Site[Look, None], op: Operation[Any], *xs: Array) -> Any:
        y = site.forward()
        values.append(float(y))
        return y

    def f(x: Any) -> Any:
        c, ys = lax.scan(lambda c, v: (c * v, c), x, enp.arange(1.0, 4.0), reverse=True)
        return lax.cond(c > 0, enp.exp, lambda y: y, c), ys

    (y, ys) = Look().run(effx.jit(f), 2.0)
    assert values == [6.0, 12.0, 12.0, pytest.approx(np.exp(12.0))]
    assert float(y) == pytest.approx(np.exp(12.0))
    assert ys.tolist() == [12.0, 6.0, 2.0]


def test_what_rules_perform_stands_at_the_users_line() -> None:
    """The program's equations have the line of the function, not of the rule."""

    @attrs.frozen
    class Double(InterceptHandler[None]): ...

    lines: list[str] = []

    @Double.rule(Sin)
    def _(site: Site[Double, None], op: Sin, x: Array) -> Array:
        lines.append(site.line)
        return enp.cos(op(x)) * 2.0

    def model(x: Any) -> Any:
        return enp.sin(x)

    program = effx.make_jaxpr(lambda x: Double().run(model, x))(1.0)
    from effx.errors import source_of

    assert lines[0].endswith("in model")
    assert {source_of(e.source) for e in program.equations} == {lines[0]}


@pytest.mark.unguarded
def test_wrong_registrations() -> None:
    """Rules for nothing, or for what is no operation, are refused."""
    with pytest.raises(
        TransformError, match=r"^count: a rule needs the classes of operations that it is for"
    ):
        Count.rule()
    with pytest.raises(TransformError, match=r"^count: rules are for classes of operations or traits, got 3"):
        Count.rule(3)  # type: ignore[call-overload]  # wrong on purpose
    with pytest.raises(TransformError, match=r"^give: a handler of effects sees no functions"):
        Give.function_rule(enp.sin)


@attrs.frozen
class CountOnce(Count):
    """Counts sines; replicas of a pmap start from nothing, but the first."""

    def split_state(self, state: Array, size: int) -> Array:
        return enp.zeros(size, enp.int32).at[0].set(state)


@attrs.frozen
class SplitWrongly(Count):
    def split_state(self, state: Array, size: int) -> Array:
        return enp.zeros(size + 1, enp.int32)


@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit, effx.vmap], ids=["plain", "jit", "vmap"])
def test_replicas_start_from_a_state_of_their_own(wrap: Any) -> None:
    """What was counted before a parallel map counts once."""

    def f(x: Any) -> Any:
        return enp.sin(effx.pmap(lambda v: enp.sin(enp.sin(v)))(enp.sin(x)))

    x = np.zeros((2, 3), np.float32)
    count = wrap(lambda x: CountOnce().run(f, x)[1])(x)
    # Two rows are two replicas, or under vmap two runs with three replicas each.
    want = [1 + 3 * 2 + 1] * 2 if wrap is effx.vmap else 1 + 2 * 2 + 1
    assert count.tolist() == want


def test_states_must_be_split_for_each_replica() -> None:
    """One row for each."""
    with pytest.raises(
        TransformError, match=r"^split_wrongly: split_state must give the state of each of 2 replicas, "
    ):
        SplitWrongly().run(effx.pmap(enp.sin), enp.zeros(2))
