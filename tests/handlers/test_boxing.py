"""Users' handlers: rules by class and trait, defaults, and life inside every transformation.

Never: uses anything but the public interface of handlers.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, errors, lax
from effx.effects import Frame, Handler, Operation, Value, forward, handle
from effx.handlers.authoring.boxing import BoxHandler, Default
from effx.ir.ops.elementwise import Add, Mul
from effx.laws.zoo import IntervalArithmetic, IntervalBounds

R = TypeVar("R")


def model(x: Any) -> Any:
    return enp.tanh(x * x + 1.5) + (-x)


def bounds(low: Any, high: Any, function: Any = model) -> tuple[Array, Array]:
    out = IntervalArithmetic().run(function, IntervalBounds(enp.asarray(low), enp.asarray(high)), like=low)
    return out.low, out.high


def test_sound_on_random_points() -> None:
    rng = np.random.default_rng(0)
    low = rng.normal(size=20).astype("f4")
    high = low + rng.uniform(0, 2, 20).astype("f4")
    a, b = bounds(low, high)
    for weight in rng.uniform(0, 1, 50).astype("f4"):
        y = np.asarray(model(low + weight * (high - low)))
        assert np.all(np.asarray(a) - 1e-5 <= y)
        assert np.all(y <= np.asarray(b) + 1e-5)


def test_the_same_inside_every_transformation() -> None:
    low, high = np.float32(-0.5), np.float32(1.0)
    expected = [float(v) for v in bounds(low, high)]
    inner = effx.jit(effx.jit(model))
    for got in (
        bounds(low, high, inner),
        effx.jit(bounds)(low, high),
        effx.jit(lambda a, b: bounds(a, b, inner))(low, high),
        [
            v[0]
            for v in effx.vmap(lambda a, b: bounds(a, b, inner))(
                enp.asarray(low)[None], enp.asarray(high)[None]
            )
        ],
        effx.jvp(lambda a: bounds(a, high, inner), (low,), (np.float32(1),))[0],
    ):
        np.testing.assert_allclose([float(v) for v in got], expected, rtol=1e-6)


def test_derivatives_of_bounds() -> None:
    low, high = 0.5, 1.0

    def upper(b: Any) -> Array:
        return bounds(enp.float32(low), b, effx.jit(model))[1]

    step = 1e-2
    slope = (float(upper(enp.float32(high + step))) - float(upper(enp.float32(high - step)))) / (2 * step)
    np.testing.assert_allclose(float(effx.grad(upper)(enp.float32(high))), slope, rtol=1e-3)


def test_a_handler_over_gradients() -> None:
    # The derivative of x * x + 1.5 on [1, 2] lies in [2, 4]: forward mode outside of nothing,
    # inside of the interval handler.
    def slope(x: Any) -> Any:
        return effx.jvp(lambda y: y * y + 1.5, (x,), (enp.ones_like(x),))[1]

    low, high = bounds(np.float32(1.0), np.float32(2.0), slope)
    assert (float(low), float(high)) == (2.0, 4.0)


def test_missing_rule() -> None:
    with pytest.raises(errors.NoRuleError) as caught:
        bounds(1.0, 2.0, enp.sqrt)
    assert caught.value.message == (
        "sqrt: the handler interval has no rule for this operation, and the operation does not decompose into others"
    )
    assert caught.value.handlers == "interval"


@attrs.frozen
class Dual:
    x: Array
    dx: Array


@attrs.frozen
class Tangents(BoxHandler[Dual]):
    """The guide's handler, with a rule for products alone."""

    default: ClassVar[Default] = "forward"

    def lift(self, x: Array) -> Dual:
        return Dual(x, enp.zeros_like(x))

    def primal(self, payload: Dual) -> Array:
        return payload.x


@Tangents.rule(Mul)
def _(op: Mul, x: Dual, y: Dual) -> Dual:
    return Dual(op(x.x, y.x), x.dx * y.x + x.x * y.dx)


def test_forward_passes_on_what_carries_no_payload_by_nature() -> None:
    """Comparisons and positions; a sum, whose tangent would be 0, is refused."""
    x = Dual(enp.array([1.0, 3.0, 2.0]), enp.ones(3))
    y, larger, position, finite = Tangents().run(
        lambda x: (x * x, x > 1.5, enp.argmax(x), enp.isfinite(x)), x
    )
    np.testing.assert_array_equal(y.dx, [2.0, 6.0, 4.0])
    assert larger.x.tolist() == [False, True, True]
    assert (int(position.x), bool(finite.x.all())) == (1, True)
    for g in (
        lambda x: enp.sin(x) + x * x,
        lambda x: x.sum(),
        effx.jit(lambda x: x + 1.0),
        lambda x: lax.sort(x),
    ):
        with pytest.raises(
            errors.NoRuleError, match="write a rule, or use default = 'drop', which drops payloads"
        ):
            Tangents().run(g, x)
    # Plain operands have no payload to lose.
    np.testing.assert_allclose(
        Tangents().run(lambda x: x * enp.sin(2.0), x).dx, np.full(3, np.sin(2.0)), rtol=1e-6
    )


def test_drop_default() -> None:
    @attrs.frozen
    class Tagged:
        value: Array

    @attrs.frozen
    class Tag(BoxHandler[Tagged]):
        default: ClassVar[Default] = "drop"

        def lift(self, x: Array) -> Tagged:
            return Tagged(x)

        def primal(self, payload: Tagged) -> Array:
            return payload.value

    @Tag.rule(Mul)
    def _(op: Mul, x: Tagged, y: Tagged) -> Tagged:
        return Tagged(op(x.value, y.value))

    out = Tag().run(lambda x: enp.sin(x) * x, Tagged(enp.asarray(2.0)), like=2.0)
    np.testing.assert_allclose(float(out.value), 2 * np.sin(2.0), rtol=1e-6)


def test_rules_of_a_subclass_come_first() -> None:
    @attrs.frozen
    class Wider(IntervalArithmetic):
        pass

    @Wider.rule(Add)
    def _(op: Add, x: IntervalBounds, y: IntervalBounds) -> IntervalBounds:
        return IntervalBounds(x.low + y.low - 1.0, x.high + y.high + 1.0)

    f = lambda x: -(x + 1.0)  # noqa: E731
    wide = Wider().run(f, IntervalBounds(enp.asarray(0.0), enp.asarray(1.0)), like=0.0)
    assert (float(wide.low), float(wide.high)) == (-3.0, 0.0)
    plain = IntervalArithmetic().run(f, IntervalBounds(enp.asarray(0.0), enp.asarray(1.0)), like=0.0)
    assert (float(plain.low), float(plain.high)) == (-2.0, -1.0)


def test_an_intercepting_handler_sees_everything_in_order() -> None:
    class Log(Handler):
        intercepts = True

        def __init__(self) -> None:
            self.names: list[str] = []

        def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
            self.names.append(op.name)
            return forward(op, operands)

    log = Log()
    f = effx.jit(lambda x: enp.sin(x))
    f(2.0)  # compiled before
    with handle(log):
        y = f(2.0) * 2.0 + enp.cos(1.0)
    assert log.names == ["call", "mul", "cos", "add"]
    np.testing.assert_allclose(float(y), 2 * np.sin(2.0) + np.cos(1.0), rtol=1e-6)
    assert float(f(2.0)) == float(np.sin(np.float32(2.0)))


def test_handlers_run_in_the_outer_context() -> None:
    # Of two logs the inner one sees what the user does, the outer one what the inner one does.
    class Twice(Handler):
        intercepts = True

        def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
            forward(op, operands)
            return forward(op, operands)

    class Count(Handler):
        intercepts = True

        def __init__(self) -> None:
            self.n = 0

        def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
            self.n += 1
            return forward(op, operands)

    outer, inner = Count(), Count()
    with handle(outer), handle(Twice()), handle(inner):
        enp.sin(enp.ones(2)) * 2.0
    assert (inner.n, outer.n) == (3, 6)  # ones is an operation too


def test_keywords_of_the_function() -> None:
    """Payloads, arrays and numbers in them, and in their pytrees, are as in arguments."""
    box = IntervalBounds(enp.asarray(-1.0), enp.asarray(2.0))

    def f(x: Any, *, scale: Any, terms: Any = ()) -> Any:
        return x * scale + sum(terms)

    run = IntervalArithmetic().run
    for result in (
        run(f, box, scale=2.0, terms=[box, 1.0]),
        run(f, box, scale=enp.asarray(2.0), terms=(1.0, box), like=1.0),
        effx.jit(lambda b: run(f, b, scale=2.0, terms=[b, 1.0]))(box),
    ):
        assert (float(result.low), float(result.high)) == (-2.0, 7.0)
    result = run(f, 2.0, scale=box)
    assert (float(result.low), float(result.high)) == (-2.0, 4.0)
    with pytest.raises(errors.TransformError, match="run got 2 payloads, but like has 1 entries"):
        run(f, box, scale=box, like=(1.0,))
