"""What is staged under a handler is staged again when a rule, or the handler, has changed."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import NoRuleError
from effx.handling import (
    BoxHandler,
    InterceptHandler,
    Operation,
    Site,
    decomposes,
    named_function,
    ops,
    tangent_of,
)
from effx.handling import Unary as UnaryOperation


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-6)


def make_scaling() -> Any:
    """A class of handlers whose rules are added in the tests."""

    @attrs.frozen
    class Scaling(InterceptHandler[None]):
        pass

    return Scaling


def scale_by(kind: type, factor: float, handler: Any) -> None:
    @handler.rule(kind)  # type: ignore[untyped-decorator]  # of any handler
    def _(site: Any, op: Any, x: Array) -> Array:
        return op(x) * factor  # type: ignore[no-any-return]  # an array


def body(x: Any) -> Any:
    """Holds operations directly, in a call and in a loop."""
    y = effx.jit(lambda x: enp.sin(x) + enp.cos(x))(x)
    return lax.fori_loop(0, 2, lambda i, z: z + enp.sin(x), y)


def expected(x: float, sine: float, cosine: float) -> float:
    return 3.0 * sine * float(np.sin(x)) + cosine * float(np.cos(x))


def test_a_rule_that_is_added_or_replaced_counts() -> None:
    """In a jitted function that has run, in a new one of the same function, and in a program that is kept."""
    handler = make_scaling()
    scale_by(ops.Sin, 2.0, handler)

    def run(x: Any) -> Any:
        return handler().run(body, x)

    jitted = effx.jit(run)
    program = effx.make_jaxpr(body)(0.5)

    def check(sine: float, cosine: float) -> None:
        want = expected(0.5, sine, cosine)
        for f in (
            run,
            jitted,
            effx.jit(run),
            lambda x: handler().run(lambda x: ops.Call(program)(x)[0], enp.asarray(x)),
        ):
            close(f(0.5), want)
        close(effx.grad(jitted)(0.5), 3.0 * sine * np.cos(0.5) - cosine * np.sin(0.5))

    check(2.0, 1.0)
    scale_by(ops.Tan, 7.0, handler)  # which nothing uses, and which hides no use of the others
    scale_by(ops.Cos, 10.0, handler)
    check(2.0, 10.0)
    scale_by(ops.Sin, 5.0, handler)
    check(5.0, 10.0)


def test_a_base_of_the_handler_changes() -> None:
    base = make_scaling()

    @attrs.frozen
    class Derived(base):  # type: ignore[misc, valid-type]  # made by a function
        pass

    jitted = effx.jit(lambda x: Derived().run(body, x))
    close(jitted(0.5), expected(0.5, 1.0, 1.0))
    scale_by(ops.Sin, 3.0, base)
    close(jitted(0.5), expected(0.5, 3.0, 1.0))


def test_other_functions_stay_compiled() -> None:
    """A rule for operations that nothing has handled yet clears no cache."""
    f: Any = effx.jit(lambda x: x + 1.0)
    f(1.0)
    handler = make_scaling()
    scale_by(ops.Sin, 2.0, handler)
    assert f._cache_size() == 1


def test_a_derivative_and_a_decomposition_change() -> None:
    @attrs.frozen
    class Cube(UnaryOperation):
        def decompose(self, x: Any) -> Array:  # type: ignore[override]  # one operand
            return x * x * x  # type: ignore[no-any-return]  # an array

    tangent_of(Cube)(lambda op, dx, x, y: 3.0 * dx * x * x)
    f = effx.jit(effx.grad(lambda x: Cube()(x)))
    close(f(enp.asarray(2.0)), 12.0)
    tangent_of(Cube)(lambda op, dx, x, y: 30.0 * dx * x * x)
    close(f(enp.asarray(2.0)), 120.0)

    @attrs.frozen
    class Half(UnaryOperation):
        pass

    decomposes(Half)(lambda op, x: x * 0.5)
    g = effx.jit(lambda x: Half()(x))
    close(g(enp.asarray(3.0)), 1.5)
    decomposes(Half)(lambda op, x: x * 0.25)
    close(g(enp.asarray(3.0)), 0.75)


def test_a_rule_for_a_named_function_changes() -> None:
    @named_function
    def double(x: Any) -> Any:
        return 2.0 * x

    handler = make_scaling()
    jitted = effx.jit(lambda x: handler().run(double, x))
    close(jitted(1.0), 2.0)
    handler.function_rule(double)(lambda x: x * 7.0)
    close(jitted(1.0), 7.0)
    handler.function_rule(double)(lambda x: x * 8.0)
    close(jitted(1.0), 8.0)


def test_a_handler_that_changes() -> None:
    """One that is no frozen value is told apart by its attributes."""

    class Loose(InterceptHandler[None]):
        def __init__(self, factor: Any) -> None:
            self.factor = factor

    @Loose.rule(ops.Sin)
    def _(site: Site[Loose, None], op: ops.Sin, x: Array) -> Array:
        return op(x) * site.handler.factor  # type: ignore[no-any-return]  # an array

    handler = Loose(2.0)
    inner = effx.jit(enp.sin)
    for factor in (2.0, 3.0, 2.0, enp.asarray(5.0), enp.asarray([4.0, 5.0])):
        handler.factor = factor
        close(handler.run(inner, 0.5), np.asarray(handler.factor) * np.sin(np.float32(0.5)))


def test_a_handler_with_slots_that_changes() -> None:
    @attrs.define(eq=False)
    class Slotted(InterceptHandler[None]):
        factor: float

    @Slotted.rule(ops.Sin)
    def _(site: Site[Slotted, None], op: ops.Sin, x: Array) -> Array:
        return op(x) * site.handler.factor

    handler, inner = Slotted(1.0), effx.jit(enp.sin)
    for factor in (1.0, 5.0):
        handler.factor = factor
        close(handler.run(inner, 0.5), factor * np.sin(np.float32(0.5)))


# --- rules for all operations ---------------------------------------------------------------------


@attrs.frozen
class Tainted:
    """A value, and whether it is tainted."""

    value: Array
    tainted: Array


@attrs.frozen
class Taint(BoxHandler[Tainted]):
    """With one rule for all operations."""

    def lift(self, x: Array) -> Tainted:
        return Tainted(x, enp.asarray(False))


@Taint.rule(Operation)
def _(op: Any, *xs: Tainted) -> Tainted:
    tainted = xs[0].tainted
    for x in xs[1:]:
        tainted = tainted | x.tainted
    return Tainted(op(*[x.value for x in xs]), tainted)


def test_a_rule_for_all_operations_serves_no_collectives() -> None:
    """It would send the values, and leave the payloads where they are: another device's taint is not seen."""
    handler = Taint()
    run: Any = lambda f: lambda x, t: handler.run(f, Tainted(x, t)).tainted  # noqa: E731
    xs, ts = enp.arange(2.0), enp.asarray([True, False])
    assert effx.vmap(run(lambda x: enp.sin(x) * 2.0))(xs, ts).tolist() == [True, False]
    with pytest.raises(NoRuleError, match="psum"):
        effx.vmap(run(lambda x: lax.psum(x, "i")), axis_name="i")(xs, ts)


def test_a_rule_for_collectives_serves_them() -> None:
    @attrs.frozen
    class Sent(Taint):
        pass

    @Sent.rule(ops.PSum)
    def _(op: ops.PSum, x: Tainted) -> Tainted:
        return Tainted(op(x.value), lax.pmax(x.tainted.astype(np.int32), op.axis_name) > 0)

    handler = Sent()
    run = lambda x, t: handler.run(lambda x: lax.psum(x, "i"), Tainted(x, t)).tainted  # noqa: E731
    assert effx.vmap(run, axis_name="i")(enp.arange(2.0), enp.asarray([True, False])).tolist() == [True, True]
