"""The suite's own boxing handlers, written as a user writes them: intervals, dual numbers, sizes, depths."""

from typing import ClassVar, final

import attrs

import effx.numpy as enp
from effx.array import Array
from effx.handlers.authoring.boxing import BoxHandler, Default
from effx.handlers.authoring.site import Site
from effx.ir.ops.base import ArrayOperation, Elementwise, Linear, Monotone, Structural
from effx.ir.ops.collective import PSum
from effx.ir.ops.elementwise import Add, Cos, Exp, Max, Min, Mul, Neg, Sin, Sub, Tanh
from effx.ir.ops.index import Gather
from effx.ir.ops.reduce import CumSum, ReduceSum
from effx.ir.ops.shape import DynamicSlice, DynamicUpdateSlice


@final
@attrs.frozen(eq=False)
class IntervalBounds:
    """Bounds of a value.

    Attributes:
        low: the lower bound.
        high: the upper bound, of the same type.
    """

    low: Array
    high: Array


@attrs.frozen
class IntervalArithmetic(BoxHandler[IntervalBounds]):
    """Interval arithmetic (Moore, Interval Analysis, 1966), without outward rounding."""

    name = "interval"

    def lift(self, x: Array) -> IntervalBounds:
        """A point."""
        return IntervalBounds(x, x)

    def join(self, a: IntervalBounds, b: IntervalBounds) -> IntervalBounds:
        """The hull."""
        return IntervalBounds(enp.minimum(a.low, b.low), enp.maximum(a.high, b.high))


@IntervalArithmetic.rule(Add)
def _(op: Add, x: IntervalBounds, y: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(x.low + y.low, x.high + y.high)


@IntervalArithmetic.rule(Sub)
def _(op: Sub, x: IntervalBounds, y: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(x.low - y.high, x.high - y.low)


@IntervalArithmetic.rule(Neg)
def _(op: Neg, x: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(-x.high, -x.low)


@IntervalArithmetic.rule(Mul)
def _(op: Mul, x: IntervalBounds, y: IntervalBounds) -> IntervalBounds:
    a, b, c, d = x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high
    return IntervalBounds(
        enp.minimum(enp.minimum(a, b), enp.minimum(c, d)), enp.maximum(enp.maximum(a, b), enp.maximum(c, d))
    )


@IntervalArithmetic.rule(Monotone)
def _(op: Monotone, x: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(op(x.low), op(x.high))


@IntervalArithmetic.rule(Max, Min)
def _(op: Max | Min, x: IntervalBounds, y: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(op(x.low, y.low), op(x.high, y.high))


@IntervalArithmetic.rule(Sin, Cos)
def _(op: Sin | Cos, x: IntervalBounds) -> IntervalBounds:
    # 1-Lipschitz and at most 1: op(middle) plus or minus the radius.
    middle, radius = (x.low + x.high) * 0.5, (x.high - x.low) * 0.5
    y = op(middle)
    return IntervalBounds(enp.maximum(y - radius, -1.0), enp.minimum(y + radius, 1.0))


@IntervalArithmetic.rule(Structural, ReduceSum, CumSum, PSum)
def _(op: Structural | ReduceSum | CumSum | PSum, *xs: IntervalBounds) -> IntervalBounds:
    return IntervalBounds(op(*[x.low for x in xs]), op(*[x.high for x in xs]))


@final
@attrs.frozen(eq=False)
class DualNumber:
    """A value with its derivative.

    Attributes:
        value: the value.
        slope: the derivative, of the same type.
    """

    value: Array
    slope: Array


@final
@attrs.frozen
class DualNumbers(BoxHandler[DualNumber]):
    """Forward-mode differentiation of a few operations (Clifford, 1873)."""

    def lift(self, x: Array) -> DualNumber:
        """A constant."""
        return DualNumber(x, enp.zeros_like(x))

    def primal(self, payload: DualNumber) -> Array:
        """The value."""
        return payload.value


@DualNumbers.rule(Linear)
def _(op: Linear, *xs: DualNumber) -> DualNumber:
    return DualNumber(op(*[x.value for x in xs]), op(*[x.slope for x in xs]))


@DualNumbers.rule(Mul)
def _(op: Mul, x: DualNumber, y: DualNumber) -> DualNumber:
    return DualNumber(x.value * y.value, x.slope * y.value + x.value * y.slope)


@DualNumbers.rule(Sin)
def _(op: Sin, x: DualNumber) -> DualNumber:
    return DualNumber(op(x.value), x.slope * enp.cos(x.value))


@DualNumbers.rule(Tanh)
def _(op: Tanh, x: DualNumber) -> DualNumber:
    y = op(x.value)
    return DualNumber(y, x.slope * (1.0 - y * y))


@DualNumbers.rule(Exp)
def _(op: Exp, x: DualNumber) -> DualNumber:
    y = op(x.value)
    return DualNumber(y, x.slope * y)


@final
@attrs.frozen(eq=False)
class MagnitudeBound:
    """A bound of a value's magnitude.

    Attributes:
        most: the bound, of the value's type.
    """

    most: Array


@final
@attrs.frozen
class Magnitude(BoxHandler[MagnitudeBound]):
    """Bounds of magnitudes; without a primal, so that no branch is chosen."""

    def lift(self, x: Array) -> MagnitudeBound:
        """The magnitude itself."""
        return MagnitudeBound(enp.abs(x))

    def join(self, a: MagnitudeBound, b: MagnitudeBound) -> MagnitudeBound:
        """The larger."""
        return MagnitudeBound(enp.maximum(a.most, b.most))


@Magnitude.rule(Add, Sub)
def _(op: Add | Sub, x: MagnitudeBound, y: MagnitudeBound) -> MagnitudeBound:
    return MagnitudeBound(x.most + y.most)


@Magnitude.rule(Mul)
def _(op: Mul, x: MagnitudeBound, y: MagnitudeBound) -> MagnitudeBound:
    return MagnitudeBound(x.most * y.most)


@Magnitude.rule(Neg)
def _(op: Neg, x: MagnitudeBound) -> MagnitudeBound:
    return x


@Magnitude.rule(Sin, Tanh)
def _(op: Sin | Tanh, x: MagnitudeBound) -> MagnitudeBound:
    return MagnitudeBound(enp.minimum(x.most, 1.0))


@Magnitude.rule(Structural, ReduceSum)
def _(op: Structural | ReduceSum, *xs: MagnitudeBound) -> MagnitudeBound:
    return MagnitudeBound(op(*[x.most for x in xs]))


@Magnitude.site_rule(Gather, DynamicSlice, DynamicUpdateSlice)
def _(site: Site[Magnitude, None], op: ArrayOperation, *xs: MagnitudeBound) -> MagnitudeBound:
    # An index has a sign, so that its magnitude cannot serve for it.
    arrays = 2 if isinstance(op, DynamicUpdateSlice) else 1
    return MagnitudeBound(op(*[x.most for x in xs[:arrays]], *site.operands[arrays:]))


@final
@attrs.frozen(eq=False)
class DepthTagged:
    """A value with the number of elementwise operations behind each element.

    Attributes:
        value: the value.
        depth: i32, of its shape.
    """

    value: Array
    depth: Array


@final
@attrs.frozen
class Depth(BoxHandler[DepthTagged]):
    """Counts the elementwise operations behind each element; other operations reset the count."""

    default: ClassVar[Default] = "drop"

    def lift(self, x: Array) -> DepthTagged:
        """No operations yet."""
        return DepthTagged(x, enp.zeros(x.shape, enp.int32))

    def primal(self, payload: DepthTagged) -> Array:
        """The value."""
        return payload.value


@Depth.rule(Elementwise)
def _(op: Elementwise, *xs: DepthTagged) -> DepthTagged:
    depth = xs[0].depth
    for x in xs[1:]:
        depth = enp.maximum(depth, x.depth)
    return DepthTagged(op(*[x.value for x in xs]), depth + 1)
