"""Handlers and their rules: payloads, sites, states and operations are typed."""

from collections.abc import Sequence
from typing import assert_type

import attrs

import effx
import effx.numpy as enp
from effx import Array
from effx.families.sort import Sort
from effx.handling import (
    BoxHandler,
    Coverage,
    Elementwise,
    Frame,
    InterceptHandler,
    Monotone,
    Site,
    Tangent,
    TupleOperation,
    Unary,
    Vmap,
    coverage,
    decompose,
    jvp_rule,
    jvp_tuple_rule,
    named_function,
    transpose_rule,
    vmap_rule,
)
from effx.ir.ops.elementwise import Add, Cos, Mul, Sin
from effx.ir.ops.shape import Concatenate


@attrs.frozen
class Bounds:
    low: Array
    high: Array


@attrs.frozen
class Interval(BoxHandler[Bounds]):
    slack: float = 0.0

    def lift(self, x: Array) -> Bounds:
        return Bounds(x, x)


@Interval.rule(Monotone)
def monotone(op: Monotone, x: Bounds) -> Bounds:
    return Bounds(op(x.low), op(x.high))


@Interval.rule(Add, Mul)
def binary(op: Add | Mul, x: Bounds, y: Bounds) -> Bounds:
    return Bounds(op(x.low, y.low), op(x.high, y.high))


@Interval.rule(Concatenate)
def joined(op: Concatenate, *xs: Bounds) -> Bounds:
    return Bounds(op(*[x.low for x in xs]), op(*[x.high for x in xs]))


@Interval.rule(Sort)
def ordered(op: Sort, *xs: Bounds) -> tuple[Bounds, ...]:
    return tuple(
        [Bounds(a, b) for a, b in zip(op(*[x.low for x in xs]), op(*[x.high for x in xs]), strict=True)]
    )


@Interval.site_rule(Sin)
def sine(site: Site[Interval, None], op: Sin, x: Bounds) -> Bounds:
    assert_type(site.handler, Interval)
    assert_type(site.handler.slack, float)
    assert_type(site.state, None)
    assert_type(site.line, str)
    return Bounds(op(x.low) - site.handler.slack, op(x.high) + site.handler.slack)


@attrs.frozen
class Count(InterceptHandler[Array]):
    def initial(self) -> Array:
        return enp.zeros((), enp.int32)

    def returns(self, result: object, frame: Frame) -> Array:
        state: Array = frame.state  # type: ignore[assignment]  # of this handler's type
        return state


@Count.rule(Sin, Cos)
def counted(site: Site[Count, Array], op: Sin | Cos, x: Array) -> Array:
    assert_type(site.handler, Count)
    site.state = site.state + 1
    return op(x)


@Count.rule(Elementwise)
def others(site: Site[Count, Array], op: Elementwise, *xs: Array) -> Array:
    return op(*xs)


@named_function
def step(x: Array, scale: float = 1.0) -> Array:
    return enp.where(x > 0, scale, 0.0)


def test_bounds() -> None:
    def f(x: Array) -> Array:
        return enp.exp(x) + x

    found: Bounds = Interval().run(f, Bounds(enp.float32(0.0), enp.float32(1.0)))
    # A rule is still the function that it was.
    assert_type(binary(Add(), found, found), Bounds)
    assert_type(coverage(Interval), Coverage)
    assert float(found.low) == 1.0


def test_functions_keep_their_types() -> None:
    assert_type(step(enp.float32(1.0), scale=2.0), Array)
    few = decompose(step.fun, to=[Add])
    assert callable(few)
    jitted = effx.jit(step)
    assert_type(jitted(enp.float32(1.0)), Array)
    assert int(Count().run(lambda x: enp.sin(enp.cos(x)), enp.float32(0.0))) == 2


class Twice(Unary):
    """An operation with one result."""

    __slots__ = ()


@attrs.frozen
class Pair(TupleOperation):
    """An operation with two results."""


@jvp_rule(Twice)
def one(op: Twice, xs: tuple[Array, ...], dxs: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    return op(*xs), dxs[0]


@jvp_rule(Pair)
@jvp_tuple_rule(Pair)
def several(
    op: Pair, xs: tuple[Array, ...], dxs: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    return op(*xs), (dxs[0], None)


@transpose_rule(Pair)
def back(op: Pair, cts: Sequence[Tangent], operands: tuple[object, ...]) -> list[Tangent]:
    return [cts[0]]


@vmap_rule(Pair)
def batched(
    handler: Vmap, op: Pair, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[tuple[Array, ...], tuple[int | None, ...]]:
    return op(*values), (axes[0], None)


@attrs.frozen
class Total(InterceptHandler[Array]):
    def initial(self) -> Array:
        return enp.zeros((), enp.int32)

    def returns(self, result: Array, frame: Frame) -> tuple[Array, Array]:
        return result, enp.zeros(())


@Total.rule(Sin)
def forwarded(site: Site[Total, Array], op: Sin, x: Array) -> Array:
    assert_type(site.forward(), Array)
    return site.forward(x)


@Total.rule(Sort)
def forwarded_together(
    site: Site[Total, Array, tuple[Array, ...]], op: Sort, *xs: Array
) -> tuple[Array, ...]:
    assert_type(site.forward(), tuple[Array, ...])
    return site.forward(*xs)


@attrs.frozen
class Width(BoxHandler[Bounds]):
    def lift(self, x: Array) -> Bounds:
        return Bounds(x, x)

    def returns(self, result: Bounds, frame: Frame) -> Array:
        return result.high - result.low


def test_run_returns_what_the_return_clause_says() -> None:
    assert_type(Total().run(enp.sort, enp.ones(3)), tuple[Array, Array])
    assert_type(Width().run(lambda x: x, Bounds(enp.zeros(3), enp.ones(3))), Array)
