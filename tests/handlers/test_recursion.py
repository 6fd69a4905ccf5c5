"""A user's handler inside loops, branches and calls, under and around every transformation.

Never: gives a handler a line of control-flow code beyond the methods that PayloadHandler lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.array import Box
from effx.effects import Frame, Operation, RuleTable, Value, handle
from effx.errors import NoRuleError, TransformError
from effx.families.sort import Sort
from effx.handlers.authoring.boxing import BoxHandler
from effx.handlers.recursion import PayloadHandler, branches, recur, recursion
from effx.handling import ArrayOperation, ArrayType
from effx.ir.ops.base import Elementwise, Structural
from effx.ir.ops.compare import Gt
from effx.ir.ops.control import Cond
from effx.ir.ops.convert import Convert
from effx.ir.ops.elementwise import Add, Mul, Sin

R = TypeVar("R")
Model = Callable[..., Any]


@attrs.frozen
class Bounds:
    low: Array
    high: Array


@attrs.frozen
class Interval(BoxHandler[Bounds]):
    """Rules for add, mul and sin, and nothing else."""

    def lift(self, x: Any) -> Bounds:
        return Bounds(x, x)


@Interval.rule(Add)
def _(op: Add, x: Bounds, y: Bounds) -> Bounds:
    return Bounds(x.low + y.low, x.high + y.high)


@Interval.rule(Mul)
def _(op: Mul, x: Bounds, y: Bounds) -> Bounds:
    corners = [x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high]
    low = high = corners[0]
    for c in corners[1:]:
        low, high = enp.minimum(low, c), enp.maximum(high, c)
    return Bounds(low, high)


@Interval.rule(Sin)
def _(op: Sin, x: Bounds) -> Bounds:
    # The models stay on [-pi/2, pi/2], where sin grows.
    return Bounds(enp.sin(x.low), enp.sin(x.high))


@attrs.frozen
class Structured(Interval):
    """Also moves elements, which the Python form of loops does, and batching."""


@Structured.rule(Structural)
def _(op: Any, *xs: Bounds) -> Bounds:
    return Bounds(op(*[x.low for x in xs]), op(*[x.high for x in xs]))


def scanned(x: Any, rows: Any) -> Any:
    """The carry starts plain, becomes boxed, and meets a boxed constant."""

    def f(carry: Array, row: Array) -> tuple[Array, Array]:
        carry = enp.sin(carry * 0.5 + row * x)
        return carry, carry * row

    last, ys = lax.scan(f, enp.float32(0.25), rows)
    return last * x + lax.scan(lambda c, y: (c + y, None), 0.0, ys)[0]


def scanned_inputs(x: Any, rows: Any) -> Any:
    """Boxed inputs and boxed stacked outputs, which a second scan takes."""
    _, ys = lax.scan(lambda c, row: (c + row, enp.sin(row) * x), x, rows * x, reverse=True)
    return lax.scan(lambda c, y: (c + y * 0.5, None), x, ys)[0]


def branched(x: Any, rows: Any) -> Any:
    """A plain predicate; one branch returns a plain value, the other a boxed one."""
    plain = rows[0] * 3.0
    inside = lax.cond(rows[1] > 0.0, lambda v: enp.sin(v * 0.5), lambda v: plain, x)
    return inside + lax.switch(enp.int32(1), [lambda: plain, lambda: x * x, lambda: x], *())


def looped(x: Any, rows: Any) -> Any:
    """A plain counter and a boxed value."""
    n = enp.int32(3) + (rows[0] > 5.0)
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, enp.sin(s[1] + x * 0.1)), (0, x * 0.5))[1]


def counted(x: Any, rows: Any) -> Any:
    """A for loop with static bounds around a jitted body."""
    body = effx.jit(lambda v, r: enp.sin(v * r) + v * 0.1)
    return lax.fori_loop(0, 3, lambda i, v: body(v, rows[i] * x), x)


def nested(x: Any, rows: Any) -> Any:
    """A scan in a branch in a while loop."""

    def turn(state: tuple[Array, Array]) -> tuple[Array, Array]:
        i, v = state
        v = lax.cond(
            i > 0, lambda v: lax.scan(lambda c, r: (enp.sin(c * r + x * 0.2), None), v, rows)[0], enp.sin, v
        )
        return i + 1, v * 0.5

    return lax.while_loop(lambda s: s[0] < 3, turn, (0, x))[1]


def mapped(x: Any, rows: Any) -> Any:
    """lax.map, whose output is boxed and whose input is not."""
    return lax.scan(lambda c, y: (c + y, None), 0.0, lax.map(lambda r: enp.sin(r * x), rows))[0]


MODELS: list[Model] = [scanned, scanned_inputs, branched, looped, counted, nested, mapped]
models = pytest.mark.parametrize("model", MODELS, ids=lambda m: cast("str", m.__name__))
ROWS = np.array([0.5, 0.25, -0.75], np.float32)
LOW, HIGH = np.float32(0.25), np.float32(0.75)


def bounds(model: Model, low: Any, high: Any, handler: Interval | None = None) -> tuple[Array, Array]:
    rows = enp.asarray(ROWS)
    out = (handler or Interval()).run(
        lambda x: model(x, rows), Bounds(enp.asarray(low), enp.asarray(high)), like=LOW
    )
    return out.low, out.high


def unrolled(model: Model, low: Any, high: Any) -> tuple[Array, Array]:
    with effx.disable_jit():
        return bounds(model, low, high, Structured())


@models
def test_loops_and_branches_are_their_python_form(model: Model) -> None:
    """What the handler makes of the program is what it makes of the steps, one after the other."""
    got, want = bounds(model, LOW, HIGH), unrolled(model, LOW, HIGH)
    np.testing.assert_allclose([float(v) for v in got], [float(v) for v in want], rtol=1e-6)
    assert float(got[0]) < float(got[1])
    for x in np.linspace(LOW, HIGH, 7, dtype=np.float32):
        y = float(model(enp.asarray(x), enp.asarray(ROWS)))
        assert float(got[0]) - 1e-5 <= y <= float(got[1]) + 1e-5


@models
def test_inside_jit_and_vmap(model: Model) -> None:
    """The handler is installed in what is compiled or batched."""
    want = [float(v) for v in bounds(model, LOW, HIGH)]
    np.testing.assert_allclose(
        [float(v) for v in effx.jit(bounds, static_argnums=0)(model, LOW, HIGH)], want, rtol=1e-6
    )
    np.testing.assert_allclose([float(v) for v in bounds(effx.jit(model), LOW, HIGH)], want, rtol=1e-6)
    lows, highs = np.array([LOW, 0.5], np.float32), np.array([HIGH, 0.625], np.float32)
    batch = effx.vmap(lambda a, b: bounds(model, a, b))(lows, highs)
    np.testing.assert_allclose([float(v[0]) for v in batch], want, rtol=1e-6)
    other = bounds(model, lows[1], highs[1])
    np.testing.assert_allclose([float(v[1]) for v in batch], [float(v) for v in other], rtol=1e-6)


@models
def test_around_vmap(model: Model) -> None:
    """The handler sees what vmap makes of the loop."""
    lows, highs = np.array([LOW, 0.5], np.float32), np.array([HIGH, 0.625], np.float32)

    def batched(x: Any) -> Any:
        return effx.vmap(lambda v: model(v, enp.asarray(ROWS)))(x)

    structured = Structured()
    with structured.installed() as frame:
        start = Bounds(enp.asarray(lows), enp.asarray(highs))
        out = structured.payload(frame, batched(Box(frame, start, start.low.type)))
    for m in range(2):
        want = bounds(model, lows[m], highs[m])
        np.testing.assert_allclose(
            [float(out.low[m]), float(out.high[m])], [float(v) for v in want], rtol=1e-6
        )


@models
def test_gradients_of_bounds(model: Model) -> None:
    """The handler inside of grad, and of grad in jit."""
    for place in (0, 1):

        def got(a: Any, b: Any, place: int = place) -> Any:
            return effx.grad(lambda a, b: bounds(model, a, b)[place], (0, 1))(a, b)

        if model is looped or model is nested:
            # Its while loops have no bound, so there is forward mode only.
            def got(a: Any, b: Any, place: int = place) -> Any:
                return [
                    effx.jvp(lambda a, b: bounds(model, a, b)[place], (a, b), (v, 1 - v))[1]
                    for v in (np.float32(1), np.float32(0))
                ]

        want = effx.grad(lambda a, b, place=place: unrolled(model, a, b)[place], (0, 1))(LOW, HIGH)
        for result in (got(LOW, HIGH), effx.jit(got)(LOW, HIGH)):
            np.testing.assert_allclose(
                [float(v) for v in result], [float(v) for v in want], rtol=1e-5, atol=1e-6
            )


# Handlers that decide, join, widen and thread a state


@attrs.frozen
class Deciding(Interval):
    """A boxed predicate whose bounds differ is not decided: both branches run and are joined."""

    def join(self, a: Bounds, b: Bounds) -> Bounds:
        return Bounds(enp.minimum(a.low, b.low), enp.maximum(a.high, b.high))


@Deciding.rule(Gt)
def _(op: Gt, x: Bounds, y: Bounds) -> Bounds:
    return Bounds(x.low > y.high, x.high > y.low)


@Deciding.rule(Convert)
def _(op: Convert, x: Bounds) -> Bounds:
    return Bounds(op(x.low), op(x.high))


def test_branches_are_joined() -> None:
    """Where no plain value decides, the result stands for what either branch gives."""

    def f(x: Any) -> Any:
        return lax.cond(x > 0.5, lambda v: v * 2.0, lambda v: v * -1.0, x)

    out = Deciding().run(f, Bounds(enp.asarray(LOW), enp.asarray(HIGH)), like=LOW)
    assert (float(out.low), float(out.high)) == (-0.75, 1.5)
    joined = effx.jit(lambda a, b: Deciding().run(f, Bounds(a, b), like=LOW))(LOW, HIGH)
    assert (float(joined.low), float(joined.high)) == (-0.75, 1.5)


def test_undecided_branches_need_join() -> None:
    """Without it the error names what to define."""

    @attrs.frozen
    class Undecided(Interval):
        pass

    @Undecided.rule(Gt)
    def _(op: Gt, x: Bounds, y: Bounds) -> Bounds:
        return Bounds(x.low > y.high, x.high > y.low)

    @Undecided.rule(Convert)
    def _(op: Convert, x: Bounds) -> Bounds:
        return Bounds(op(x.low), op(x.high))

    start = Bounds(enp.asarray(LOW), enp.asarray(HIGH))
    with pytest.raises(TransformError) as caught:
        Undecided().run(lambda x: lax.cond(x > 0.5, enp.sin, enp.sin, x), start, like=LOW)
    assert caught.value.message == (
        "undecided: a boxed value decides between branches; define primal(payload) to decide by a plain value, "
        "or join(a, b) to run both branches"
    )
    with pytest.raises(TransformError) as caught:
        Undecided().run(lambda x: lax.while_loop(lambda v: v > 0.5, lambda v: v * 0.5, x), start, like=LOW)
    assert caught.value.message == (
        "undecided: a boxed value decides whether a loop goes on; define primal(payload) to decide by a plain value, "
        "or grow(before, after) to go on until nothing changes"
    )


@attrs.frozen
class Series:
    """Coefficients of a polynomial; how many there are is part of the structure."""

    parts: tuple[Array, ...]


@attrs.frozen
class Polynomial(BoxHandler[Series]):
    """Multiplies polynomials and truncates them after `most` coefficients."""

    most: int = 4
    height: ClassVar[int] = 6

    def lift(self, x: Any) -> Series:
        return Series((x,))

    def widen(self, a: Series, b: Series) -> Series:
        return a if len(a.parts) >= len(b.parts) else b

    def conform(self, payload: Series, like: Series) -> Series:
        missing = len(like.parts) - len(payload.parts)
        return Series((*payload.parts, *[enp.zeros_like(payload.parts[0])] * missing))


@Polynomial.rule(Add)
def _(op: Add, x: Series, y: Series) -> Series:
    n = max(len(x.parts), len(y.parts))
    return Series(
        tuple([sum([s.parts[i] for s in (x, y) if i < len(s.parts)], enp.float32(0)) for i in range(n)])
    )


def _product(x: Series, y: Series, most: int) -> Series:
    n = min(len(x.parts) + len(y.parts) - 1, most)
    parts: list[Array] = [enp.float32(0)] * n
    for i, a in enumerate(x.parts):
        for j, b in enumerate(y.parts):
            if i + j < n:
                parts[i + j] = parts[i + j] + a * b
    return Series(tuple(parts))


@Polynomial.rule(Mul)
def _(op: Mul, x: Series, y: Series) -> Series:
    return _product(x, y, 4)


def test_carries_widen_to_a_fixed_point() -> None:
    """(1 + t)^n mod t^4, where the carry starts as a plain number and gains coefficients."""
    x = Series((enp.float32(1), enp.float32(1)))

    def counted_power(v: Any, n: int) -> Any:
        return lax.fori_loop(0, n, lambda i, c: c * v, enp.float32(1))

    def looped_power(v: Any, n: int) -> Any:
        start = (enp.int32(0), enp.float32(1))
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * v), start)[1]

    def power(f: Model, n: int) -> Series:
        found: Series = Polynomial().run(lambda v: f(v, n), x, like=LOW)
        return found

    for n, want in ((1, [1, 1, 0, 0]), (3, [1, 3, 3, 1]), (5, [1, 5, 10, 10])):
        for f in (counted_power, looped_power):
            assert [float(c) for c in power(f, n).parts] == want
            assert [float(c) for c in effx.jit(power, static_argnums=(0, 1))(f, n).parts] == want


def test_branches_meet_in_the_wider_structure() -> None:
    """One branch gives a plain value, one two coefficients, one three."""
    x = Series((enp.float32(2), enp.float32(1)))
    for i, want in enumerate(([7, 0, 0], [2, 1, 0], [4, 4, 1])):
        f = lambda v, i=i: lax.switch(i, [lambda v: enp.float32(7), lambda v: v, lambda v: v * v], v)  # noqa: E731
        assert [float(c) for c in Polynomial().run(f, x, like=LOW).parts] == want


def test_a_carry_that_grows_without_end_is_an_error() -> None:
    """The search for a structure ends after `height` rounds for each value."""

    @attrs.frozen
    class Endless(Polynomial):
        height: ClassVar[int] = 3

    @Endless.rule(Mul)
    def _(op: Mul, x: Series, y: Series) -> Series:
        return _product(x, y, 1000)

    def grow(v: Any) -> Any:
        def step(c: Any, _: None) -> tuple[Array, None]:
            return c * v, None

        return lax.scan(step, v, None, length=2)[0]

    with pytest.raises(TransformError) as caught:
        Endless().run(grow, Series((enp.float32(1), enp.float32(1))), like=LOW)
    assert caught.value.message == (
        "endless: what step carries keeps growing; its payloads have no largest structure"
    )


@attrs.frozen
class Tagged:
    value: Array


@attrs.frozen
class Tally(PayloadHandler):
    """Counts multiplications of boxed values while the program runs."""

    threads_state: ClassVar[bool] = True

    def lift(self, x: Any) -> Tagged:
        return Tagged(x)

    def primal(self, payload: Tagged) -> Any:
        return payload.value

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        arrays = cast("tuple[Array, ...]", operands)
        inside = recur(frame, op, arrays)
        if inside is not None:
            return cast("R", inside)
        if isinstance(op, Mul):
            frame.state = {"count": cast("dict[str, Array]", frame.state)["count"] + 1}
        result = op(*[x.payload.value if type(x) is Box and x.frame is frame else x for x in arrays])
        return cast("R", Box(frame, Tagged(cast("Array", result)), cast("Array", result).type))


def tally(function: Model, x: Any) -> tuple[Array, Array]:
    with handle(Tally()) as frame:
        frame.state = {"count": enp.int32(0)}
        y = payload_value(frame, function(Box(frame, Tagged(enp.asarray(x)), enp.asarray(x).type)))
        state: Any = frame.state
        return y, state["count"]


def payload_value(frame: Frame, x: Any) -> Any:
    return cast("Array", x.payload.value) if type(x) is Box and x.frame is frame else x


def _while_product(x: Any) -> Any:
    return lax.while_loop(lambda v: v * 1.0 < 20.0, lambda v: v * x, x)


def _scan_product(x: Any) -> Any:
    constant = enp.float32(2)
    return lax.scan(lambda c, r: (c * (x + constant), None), x, enp.ones(5))[0]


def _some_product(x: Any) -> Any:
    return lax.fori_loop(0, 4, lambda i, c: lax.cond(i % 2 == 0, lambda c: c * x * x, lambda c: c + x, c), x)


@pytest.mark.parametrize(
    ("function", "count"),
    [(_while_product, 5), (_scan_product, 5), (_some_product, 4)],
    ids=["while", "scan", "cond"],
)
def test_state_goes_through_loops_and_branches(function: Model, count: int) -> None:
    """The count is that of the steps that ran; a while loop asks its condition once more than its body runs."""
    x = np.float32(3)
    want = function(enp.asarray(x))
    compiled = effx.jit(lambda v: tally(function, v))
    inside = effx.jit(function)
    for y, n in (tally(function, x), compiled(x), tally(inside, x)):
        assert float(y) == float(want)
        assert int(n) == count
    ys, ns = effx.vmap(lambda v: tally(function, v))(np.array([3, 3], np.float32))
    assert ys.tolist() == [float(want)] * 2
    assert np.broadcast_to(np.asarray(ns), (2,)).tolist() == [count] * 2
    slope = effx.jvp(lambda v: tally(function, v)[0], (x,), (np.float32(1),))[1]
    np.testing.assert_allclose(float(slope), float(effx.jvp(function, (x,), (np.float32(1),))[1]), rtol=1e-6)


def test_a_state_that_changes_its_type_is_an_error() -> None:
    """A loop carries the state, so that its parts keep dtype and shape."""

    @attrs.frozen
    class Growing(Tally):
        def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
            result = super().handle(frame, op, operands)
            if isinstance(op, Mul):
                frame.state = {"count": enp.zeros(2)}
            return result

    def run() -> None:
        with handle(Growing()) as frame:
            frame.state = {"count": enp.int32(0)}
            _scan_product(Box(frame, Tagged(enp.float32(3)), enp.float32(3).type))

    with pytest.raises(TransformError) as caught:
        run()
    assert (
        caught.value.message == "growing: a part of the state changed from i32[] to f32[2] inside a program"
    )


@attrs.frozen
class Doubling(PayloadHandler):
    """Sees all operations, and has bare tables of its own."""

    intercepts: ClassVar[bool] = True
    rules: ClassVar[RuleTable[Any]] = RuleTable("doubling")
    recursions: ClassVar[RuleTable[Any]] = RuleTable("recursion of doubling", PayloadHandler.recursions)


Doubling.rules.register(Sin)(lambda op, x: op(x) * 2)
Doubling.rules.register(Elementwise)(lambda op, *xs: op(*xs))
Doubling.rules.register(Mul)(lambda op, x, y: 7.0)
Doubling.rules.register(Sort)(lambda op, *xs: [x * 2 for x in op(*xs)])


class Bare(ArrayOperation):
    """Neither decomposes nor holds programs."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]


class Halves(Bare):
    """Decomposes into a sine."""

    __slots__ = ()

    def decompose(self, *operands: Value) -> Array:
        return Sin()(*operands)


def test_a_rule_then_programs_then_the_decomposition_then_an_error() -> None:
    """The order in which every handler looks for the meaning of an operation; rules may give numbers."""
    s = np.sin(np.float32(0.5))
    with handle(Doubling()):
        assert float(enp.sin(0.5)) == 2 * s
        assert float(effx.jit(enp.sin)(0.5)) == 2 * s
        assert float(Halves()(enp.float32(0.5))) == 2 * s
        assert float(enp.float32(2) * enp.float32(3)) == 7.0
        assert [x.tolist() for x in Sort(0)(enp.array([3.0, 1.0]), enp.array([4.0, 5.0]))] == [
            [2, 6],
            [10, 8],
        ]
        with pytest.raises(NoRuleError) as caught:
            Bare()(enp.float32(0.5))
    assert caught.value.message == (
        "bare: the handler doubling has no rule for this operation, and the operation does not decompose into others"
    )


@recursion(Cond, under=Doubling)
def last(frame: Frame, op: Cond, operands: Any) -> Any:
    return branches.recur_cond(frame, op, [enp.int32(len(op.branches) - 1), *operands[1:]])


def test_a_recursion_of_one_handler() -> None:
    """A recursion under one handler class serves no other."""
    f = effx.jit(lambda x: lax.cond(x > 0, lambda x: x + 1, lambda x: x + 2, x))
    with handle(Doubling()):
        assert [float(f(x)) for x in (1.0, -1.0)] == [2.0, 0.0]
    with handle(Tally()):
        assert [float(f(x)) for x in (1.0, -1.0)] == [2.0, 1.0]
    assert effx.vmap(f)(enp.array([1.0, -1.0])).tolist() == [2.0, 1.0]
