"""What payloads may be, what only marks values, and loops that nothing decides.

Never: uses anything but the public interface of handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.handling import BoxHandler, Default, Monotone, coverage, named_function
from effx.ir.ops.base import Elementwise
from effx.ir.ops.checkpoint import CheckpointName
from effx.ir.ops.compare import Gt, Lt
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.ops.elementwise import Add, Cos, Mul, Neg, Sin
from effx.transforms.autodiff.checkpoint import checkpoint_name

Model = Callable[..., Any]
jit: Any = effx.jit
checkpoint: Any = effx.checkpoint
Pair = tuple[Array, Array]


@attrs.frozen
class Pairs(BoxHandler[tuple[Array, Array]]):
    """Two values at once, in a bare tuple."""

    default: ClassVar[Default] = "drop"

    def lift(self, x: Array) -> Pair:
        return x, x

    def primal(self, payload: Pair) -> Array:
        return payload[0]


@Pairs.rule(Elementwise)
def _(op: Elementwise, *xs: Pair) -> Pair:
    return op(*[x[0] for x in xs]), op(*[x[1] for x in xs])


MODELS: dict[str, Model] = {
    "straight": lambda x: enp.sin(x) * 2.0,
    "jit": jit(lambda x: enp.sin(x) * 2.0),
    "cond": lambda x: lax.cond(x > 0, enp.sin, enp.cos, x),
    "scan": lambda x: lax.scan(lambda c, r: (enp.sin(c) * r, c), x, enp.arange(3.0))[0],
    "tree": lambda x: {"a": (x, enp.sin(x))}["a"][1],
    "checkpoint": checkpoint(lambda x: enp.sin(x) * x),
}


@pytest.mark.parametrize("name", MODELS)
def test_tuples_are_payloads(name: str) -> None:
    """Both values go through every program, as two runs of the function would."""
    f = MODELS[name]
    got = Pairs().run(f, (enp.float32(0.5), enp.float32(0.7)))
    assert type(got) is tuple
    np.testing.assert_allclose(got, (f(0.5), f(0.7)), rtol=1e-6)


def test_tuples_among_the_arguments() -> None:
    """Each argument and each part of one may be a payload; numbers are plain."""
    got = Pairs().run(lambda d, y: d["x"] * y + 1.0, {"x": (enp.float32(2.0), enp.float32(3.0))}, 10.0)
    assert [float(x) for x in got] == [21.0, 31.0]


def test_rules_for_functions_of_tuples() -> None:
    """The structure of the function's result says where payloads are, also where they are tuples."""

    @named_function
    def f(x: Any) -> Any:
        return x, [x]

    Pairs.function_rule(f)(lambda x: (x, [(x[1], x[0])]))
    a, [b] = Pairs().run(jit(f), (enp.float32(1.0), enp.float32(2.0)))
    assert ([float(v) for v in a], [float(v) for v in b]) == ([1.0, 2.0], [2.0, 1.0])


@attrs.frozen
class Doubles(BoxHandler[Array]):
    """An array for an array: sin is twice its operand."""

    default: ClassVar[Default] = "drop"

    def lift(self, x: Array) -> Array:
        return x

    def primal(self, payload: Array) -> Array:
        return payload


@Doubles.rule(Sin)
def _(op: Sin, x: Array) -> Array:
    return x * 2.0


@pytest.mark.parametrize("wrap", [lambda f: f, jit, checkpoint])
def test_arrays_are_payloads(wrap: Any) -> None:
    """What a rule gives stays boxed, so that the next operation meets its rule."""
    assert float(Doubles().run(wrap(lambda x: enp.sin(enp.sin(x))), enp.float32(1.0))) == 4.0


@attrs.frozen
class Left:
    x: Array


@attrs.frozen
class Right:
    x: Array


L = TypeVar("L")


@attrs.frozen
class Sides(BoxHandler[Left | Right], Generic[L]):
    """One of two classes; another base has arguments too."""

    default: ClassVar[Default] = "drop"

    def lift(self, x: Array) -> Left | Right:
        return Left(x)

    def primal(self, payload: Left | Right) -> Array:
        return payload.x


@Sides.rule(Neg)
def _(op: Neg, x: Left | Right) -> Left | Right:
    return Right(op(x.x)) if isinstance(x, Left) else Left(op(x.x))


def test_payloads_of_several_classes() -> None:
    assert isinstance(Sides[int]().run(lambda x: -x, Left(enp.float32(1.0))), Right)
    assert isinstance(Sides[int]().run(jit(lambda x: enp.negative(-x)), Right(enp.float32(1.0))), Right)

    class Derived(Sides[int]): ...

    assert Derived.payload_type == Left | Right


@attrs.frozen
class Weighted:
    x: Array
    weight: Array | float


@attrs.frozen
class Weights(BoxHandler[Weighted]):
    """A Python number stands in each payload that a rule makes."""

    def lift(self, x: Array) -> Weighted:
        return Weighted(x, 1.0)

    def primal(self, payload: Weighted) -> Array:
        return payload.x


@Weights.rule(Sin, Mul, Add)
def _(op: Any, *xs: Weighted) -> Weighted:
    return Weighted(op(*[x.x for x in xs]), 2.5)


NUMBERS: dict[str, Model] = {
    "straight": enp.sin,
    "jit": jit(enp.sin),
    "scan": lambda x: lax.scan(lambda c, r: (enp.sin(c), enp.sin(c) * r), x, enp.arange(2.0))[0],
    "stacked": lambda x: lax.scan(lambda c, r: (enp.sin(c), enp.sin(c) * r), x, enp.arange(2.0))[1][1],
    "cond": lambda x: lax.cond(True, enp.sin, lambda y: y, x),
    "while": lambda x: lax.while_loop(lambda i: i[0] < 2, lambda i: (i[0] + 1, enp.sin(i[1])), (0, x))[1],
}


@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "stacked"])
def test_numbers_in_payloads_become_arrays(name: str) -> None:
    """Inside of programs and as results."""
    found = Weights().run(NUMBERS[name], Weighted(enp.float32(0.5), 1.0))
    assert isinstance(found.weight, Array)
    assert float(found.weight) == 2.5
    np.testing.assert_allclose(found.x, NUMBERS[name](0.5), rtol=1e-6)


@attrs.frozen
class Dual:
    x: Array
    dx: Array


@attrs.frozen
class Forwarding(BoxHandler[Dual]):
    """Differentiates three operations, and forwards the others on plain values."""

    default: ClassVar[Default] = "drop"

    def lift(self, x: Array) -> Dual:
        return Dual(x, enp.zeros_like(x))

    def primal(self, payload: Dual) -> Array:
        return payload.x


@attrs.frozen
class Refusing(Forwarding):
    """Refuses the others."""

    default: ClassVar[Default] = "error"


@Forwarding.rule(Mul)
def _(op: Mul, x: Dual, y: Dual) -> Dual:
    return Dual(op(x.x, y.x), x.dx * y.x + x.x * y.dx)


@Forwarding.rule(Sin)
def _(op: Sin, x: Dual) -> Dual:
    return Dual(op(x.x), x.dx * enp.cos(x.x))


@Forwarding.rule(Cos)
def _(op: Cos, x: Dual) -> Dual:
    return Dual(op(x.x), -x.dx * enp.sin(x.x))


@Forwarding.rule(Add)
def _(op: Add, x: Dual, y: Dual) -> Dual:
    return Dual(op(x.x, y.x), x.dx + y.dx)


@pytest.mark.parametrize("handler", [Forwarding(), Refusing()], ids=repr)
@pytest.mark.parametrize("jitted", [False, True])
def test_marks_go_to_all_arrays_of_a_payload(handler: Forwarding, jitted: bool) -> None:
    """The barriers of a differentiated checkpoint, and names of values, lose nothing that a box carries."""

    def f(x: Any) -> Any:
        named = checkpoint_name(enp.sin(x) * x, "product")
        return effx.grad(checkpoint(lambda y: enp.sin(y) * y))(named)

    def second(x: Any) -> Any:
        return handler.run(f, Dual(x, enp.ones_like(x))).dx

    got = (jit(second) if jitted else second)(0.5)
    np.testing.assert_allclose(got, effx.jvp(f, (0.5,), (1.0,))[1], rtol=1e-5)


@pytest.mark.parametrize("handler", [Forwarding(), Refusing()], ids=repr)
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_a_weak_type_ends_without_a_rule(handler: Forwarding, dtype: str | None) -> None:
    """The carry of a loop over arrays is not weak, so a number is converted before it."""

    def f(x: Any) -> Any:
        return lax.scan(lambda c, k: (enp.sin(c) * k, c), x, enp.asarray([1.0, 2.0, 3.0]))[0]

    def slope(x: Any) -> Any:
        return handler.run(f, Dual(x, enp.ones_like(x)))

    for g in (slope, jit(slope), effx.vmap(slope, axis_size=2, in_axes=None)):
        dual = g(enp.asarray(0.5, dtype))
        np.testing.assert_allclose(
            dual.dx, effx.jvp(f, (0.5,), (1.0,))[1] * np.ones(dual.dx.shape), rtol=1e-5
        )
        assert (dual.x.type.weak, dual.dx.type.weak) == (False, False)


def test_a_weak_type_ends_in_leaves_of_the_values_dtype() -> None:
    @attrs.frozen
    class Counted:
        x: Array
        count: Array

    @attrs.frozen
    class Count(BoxHandler[Counted]):
        def lift(self, x: Array) -> Counted:
            return Counted(x, enp.int32(0))

    x = Counted(enp.asarray(0.5), enp.int32(7))
    last = Count().run(lambda y: y.astype("float32"), x)
    assert (last.x.type.weak, last.count.dtype, int(last.count)) == (False, np.int32, 7)


def test_marks_are_covered() -> None:
    table = coverage(Refusing)
    assert (table[OptimizationBarrier].how, table[CheckpointName].how) == ("recursion", "recursion")


@attrs.frozen
class Bounds:
    low: Array
    high: Array


@attrs.frozen
class Interval(BoxHandler[Bounds]):
    """Bounds, with comparisons that may be undecided."""

    def lift(self, x: Array) -> Bounds:
        return Bounds(x, x)

    def join(self, a: Bounds, b: Bounds) -> Bounds:
        return Bounds(enp.minimum(a.low, b.low), enp.maximum(a.high, b.high))

    def grow(self, before: Bounds, after: Bounds) -> Bounds:
        # A bound that moves may move for ever.
        low = enp.where(after.low < before.low, -enp.inf, before.low)
        high = enp.where(after.high > before.high, enp.inf, before.high)
        return Bounds(low, high)


Interval.rule(Add)(lambda op, x, y: Bounds(x.low + y.low, x.high + y.high))
Interval.rule(Monotone)(lambda op, x: Bounds(op(x.low), op(x.high)))
Interval.rule(Gt)(lambda op, x, y: Bounds(x.low > y.high, x.high > y.low))
Interval.rule(Lt)(lambda op, x, y: Bounds(x.high < y.low, x.low < y.high))


@Interval.rule(Mul)
def _(op: Mul, x: Bounds, y: Bounds) -> Bounds:
    ends = enp.stack([op(a, b) for a in (x.low, x.high) for b in (y.low, y.high)])
    return Bounds(ends.min(axis=0), ends.max(axis=0))


def halving(x: Any) -> Any:
    """Ends after a number of iterations that depends on x."""
    return lax.while_loop(lambda c: c[0] > 0.1, lambda c: (c[0] * 0.5, enp.tanh(c[1] + c[0])), (x, x * 0.0))


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.9), (-0.5, 0.9), (0.0, 0.0)])
@pytest.mark.parametrize("jitted", [False, True])
def test_loops_that_nothing_decides(low: float, high: float, jitted: bool) -> None:
    """The result covers that of every starting value in the box."""

    def run(a: Any, b: Any) -> Any:
        return Interval().run(jit(halving), Bounds(a, b))

    found = (jit(run) if jitted else run)(enp.float32(low), enp.float32(high))
    for x in np.linspace(low, high, 7):
        for y, box in zip(halving(np.float32(x)), found, strict=True):
            assert float(box.low) <= float(y) <= float(box.high)
    # Halving leaves a box around zero as it is.
    if low <= 0:
        assert [float(found[0].low), float(found[0].high)] == pytest.approx([low, high])
    assert all([box.low.dtype == np.float32 for box in found])


def test_loops_that_nothing_decides_in_batches() -> None:
    """Each batch element grows until it has settled, whatever the others need."""
    ends = enp.array([[-0.5, 0.9], [0.2, 0.9]])
    both = effx.vmap(lambda e: Interval().run(halving, Bounds(e[0], e[1]))[0])(ends)
    one = [Interval().run(halving, Bounds(e[0], e[1]))[0] for e in ends]
    assert both.low.tolist() == [float(b.low) for b in one] == [-0.5, -np.inf]
    assert both.high.tolist() == [float(b.high) for b in one]


@attrs.frozen
class Counting(Interval, BoxHandler[Bounds, Array]):
    """Also knows whether a product was ever taken: a state that only grows."""

    def initial(self) -> Array:  # type: ignore[override]  # Interval has no state
        return enp.array(False)

    def merge_states(self, a: Array, b: Array) -> Array:
        return a | b

    def returns(self, result: Any, frame: Any) -> Any:
        return result, frame.state


@Counting.site_rule(Mul)
def _(site: Any, op: Mul, x: Bounds, y: Bounds) -> Bounds:
    site.state = enp.array(True)
    return Bounds(x.low, x.high)


def test_state_of_loops_that_nothing_decides() -> None:
    """It is merged with what it was before each iteration."""
    boxed = Bounds(enp.float32(0.2), enp.float32(0.9))
    assert bool(Counting().run(halving, boxed)[1])
    tame = lambda x: lax.while_loop(lambda c: c > 0.1, enp.tanh, x)  # noqa: E731 - no product
    assert not bool(Counting().run(tame, boxed)[1])
