"""Functions with rules under users' handlers: some keep the rules, others differentiate what they make.

Never: uses a handler of effx's own, but to differentiate or batch.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import attrs
import numpy as np
import pytest

import effx.numpy as enp
from effx import Array, custom_jvp, custom_vjp, grad, jit, jvp, vmap
from effx.effects import Frame, Handler, Operation, Value, forward, handle
from effx.handlers import oracle
from effx.handlers.authoring.boxing import BoxHandler
from effx.ir.ops.base import Monotone
from effx.ir.ops.custom import CustomCall
from effx.ir.ops.elementwise import Mul
from effx.laws.zoo import IntervalArithmetic, IntervalBounds

R = TypeVar("R")
XS = np.array([0.3, 1.0, 2.0], np.float32)


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5)


@attrs.frozen
class Tag:
    """A value and a number that goes with it."""

    value: Array
    tag: int = attrs.field(metadata={"static": True}, default=0)


@attrs.frozen
class Tags(BoxHandler[Tag]):
    """Leaves values alone, so the derivative of what it makes is what it makes of the derivative."""

    keeps_rules: ClassVar[bool] = True

    def lift(self, x: Array) -> Tag:
        return Tag(x)

    def conform(self, payload: Tag, like: Tag) -> Tag:
        return Tag(payload.value, like.tag)

    def reduce_cotangent(self, payload: Tag) -> Array:
        return payload.value


@Tags.rule(Mul)
def _(op: Mul, x: Tag, y: Tag) -> Tag:
    return Tag(op(x.value, y.value), max(x.tag, y.tag))


@Tags.rule(Monotone)
def _(op: Monotone, x: Tag) -> Tag:
    return Tag(op(x.value), x.tag)


def forward_rule() -> Any:
    """exp(x) * y, a hundred and a thousand times the derivatives."""
    f: Any = custom_jvp(lambda x, y: enp.exp(x) * y)
    f.defjvp(lambda p, t: (f(*p), f(*p) * 100.0 * t[0] + enp.exp(p[0]) * 1000.0 * t[1]))
    return f


def reverse_rule() -> Any:
    f: Any = custom_vjp(lambda x, y: enp.exp(x) * y)
    f.defvjp(
        lambda x, y: (f(x, y), (enp.exp(x), y)), lambda r, ct: (ct * r[0] * r[1] * 100.0, ct * r[0] * 1000.0)
    )
    return f


@pytest.mark.parametrize("make", [reverse_rule])
@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_a_handler_that_keeps_rules(make: Any, wrap: Any) -> None:
    """Rules run under the handler; the cotangent of a plain argument is what the handler reduces."""
    f = wrap(make())

    def value(x: Any, y: Any) -> Any:
        return Tags().run(lambda x: f(x, y), Tag(x, 3), like=1.0).value

    dx, dy = grad(value, (0, 1))(1.0, 2.0)
    close(dx, 200.0 * np.exp(1.0))
    close(dy, 1000.0 * np.exp(1.0))
    close(vmap(grad(value), (0, None))(XS, 2.0), 200.0 * np.exp(XS))
    close(grad(lambda x: vmap(value, (0, None))(x, 2.0).sum())(XS), 200.0 * np.exp(XS))


def test_forward_mode_under_a_handler_that_keeps_rules() -> None:
    """The rule for forward mode runs under the handler too."""
    f: Any = custom_jvp(lambda x: enp.exp(x))
    f.defjvp(lambda p, t: (f(*p), f(*p) * 100.0 * t[0]))
    for g in (f, jit(f)):
        result, tangent = jvp(lambda x: Tags().run(g, Tag(x, 3), like=1.0), (1.0,), (1.0,))  # noqa: B023
        assert result.tag == 3
        close(tangent.value, 100.0 * np.exp(1.0))


@pytest.mark.parametrize("make", [forward_rule, reverse_rule])
@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_other_handlers_are_differentiated_as_they_compute(make: Any, wrap: Any) -> None:
    """The upper bound of f depends on the upper bound of x, whatever the derivative rule: the bound's derivative is f's."""
    f = wrap(make())

    def high(low: Any, high: Any) -> Any:
        return IntervalArithmetic().run(lambda x: f(x, 2.0), IntervalBounds(low, high), like=1.0).high

    dl, dh = grad(high, (0, 1))(0.5, 1.0)
    close(dl, 0.0)
    close(dh, 2.0 * np.exp(1.0))


def test_a_handler_outside_sees_the_rule() -> None:
    """What a rule computes is operations like others."""
    f: Any = custom_jvp(lambda x: enp.exp(x))
    f.defjvp(lambda p, t: (f(*p), enp.exp(p[0]) * 7.0 * t[0]))
    got = IntervalArithmetic().run(
        lambda x: grad(f)(x), IntervalBounds(enp.asarray(0.0), enp.asarray(1.0)), like=1.0
    )
    close(got.low, 7.0)
    close(got.high, 7.0 * np.exp(1.0))


@attrs.frozen
class Counts(BoxHandler[Tag]):
    """Counts multiplications in its state."""

    threads_state: ClassVar[bool] = True

    def lift(self, x: Array) -> Tag:
        return Tag(x)

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        if type(op) is Mul:
            frame.state = frame.state + 1  # type: ignore[operator]  # an array
        return super().handle(frame, op, operands)


@Counts.rule(Mul)
def _(op: Mul, x: Tag, y: Tag) -> Tag:
    return Tag(op(x.value, y.value))


@Counts.rule(Monotone)
def _(op: Monotone, x: Tag) -> Tag:
    return Tag(op(x.value))


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_state_goes_through_functions_with_rules(wrap: Any) -> None:
    """A handler that threads state counts what is inside."""
    f = wrap(forward_rule())

    def count(x: Any) -> Any:
        counts = Counts()
        with counts.installed() as frame:
            frame.state = enp.asarray(0)
            y = f(counts.box(frame, Tag(x), enp.asarray(1.0)), 2.0) * 3.0
            return counts.payload(frame, y).value, frame.state

    value, number = count(enp.asarray(1.0))
    close(value, 6.0 * np.exp(1.0))
    assert int(number) == 2
    (_, number), (slope, _) = jvp(count, (enp.asarray(1.0),), (enp.asarray(1.0),))
    assert int(number) == 2
    close(slope, 6.0 * np.exp(1.0))


@attrs.frozen
class Log(Handler):
    """Writes down what passes."""

    intercepts: ClassVar[bool] = True

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        frame.state.append(op)  # type: ignore[attr-defined]  # a list
        return forward(op, operands)


def test_an_intercepting_handler_sees_one_operation() -> None:
    """Such a handler gets the function with its rules, and passes both on."""
    f = forward_rule()

    def logged(x: Any) -> Any:
        with handle(Log()) as frame:
            seen: list[Operation[Any]] = []
            frame.state = seen
            result = f(x, 2.0)
            assert [type(op) for op in seen] == [CustomCall]
        return result

    close(grad(logged)(1.0), 200.0 * np.exp(1.0))


def test_the_reference_handler_runs_the_function() -> None:
    """On the host, and the rules where differentiation is asked for."""
    f = forward_rule()
    for g in (f, jit(f)):
        close(oracle.evaluate(g, 1.0, 2.0), 2.0 * np.exp(1.0))
        close(oracle.evaluate(grad(g), 1.0, 2.0), 200.0 * np.exp(1.0))
