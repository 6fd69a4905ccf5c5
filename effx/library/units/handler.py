"""The handler of units: quantities, and what each operation makes of their units."""

from fractions import Fraction
from typing import ClassVar, final

import attrs
import numpy as np

import effx.numpy as enp
from effx import Array
from effx.handling import BoxHandler, Elementwise, Operation, Site, Structural, ops
from effx.ir.values.array import Operand
from effx.library.units.unit import ANY, ONE, Unit, UnitError
from effx.tree import PyTree

Kind = type[Operation[PyTree]]


@final
@attrs.frozen
class Quantity:
    """An array with a unit.

    Attributes:
        value: the numbers.
        unit: of the numbers.

    >>> import effx.numpy as enp
    >>> from effx.library.units import quantity
    >>> length = quantity(enp.array([1.0, 2.0]), "m")
    >>> print(length.value, length.unit, length)
    [1. 2.] m [1. 2.] m
    """

    value: Array
    unit: Unit = attrs.field(metadata={"static": True})

    def __str__(self) -> str:
        return f"{self.value} {self.unit}"


def quantity(value: Operand, unit: str) -> Quantity:
    """Returns numbers with a unit such as `kg*m/s^2`.

    Raises:
        UnitError: the text is no unit.

    >>> print(quantity(3.0, "m/s"))
    3.0 m*s^-1
    """
    return Quantity(enp.asarray(value), Unit.parse(unit))


@final
@attrs.frozen
class Units(BoxHandler[Quantity]):
    """Computes with quantities. It intercepts every operation, to recognise zeros that a program makes."""

    intercepts: ClassVar[bool] = True
    lifts_carries = True

    def lift(self, x: Array) -> Quantity:
        """A plain number; a literal zero (or infinity, or NaN) has any unit."""
        known = x.host("units") if x.frame is None and x.size and x.type.kind != "b" else None
        fits = known is not None and not np.any(np.isfinite(known := known.astype(complex)) & (known != 0))
        return Quantity(x, ANY if fits else ONE)

    def primal(self, payload: Quantity) -> Array:
        """The numbers, without the unit."""
        return payload.value

    def widen(self, a: Quantity, b: Quantity) -> Quantity:
        """A zero takes the other's unit."""
        return b if a.unit == ANY else a

    def conform(self, payload: Quantity, like: Quantity) -> Quantity:
        """Checks that a loop's carry or a branch's result keeps its unit."""
        return Quantity(payload.value, shared_unit("a loop, branch or solver", payload, like))


def shared_unit(function_name: str, *xs: Quantity) -> Unit:
    """Returns the one unit of quantities.

    Raises:
        UnitError: there are several.
    """
    units = [x.unit for x in xs if x.unit != ANY]
    if any([u != units[0] for u in units]):
        raise UnitError(f"{function_name}: units differ: {', '.join([str(x.unit) for x in xs])}")
    return units[0] if units else ANY


def perform_with_unit(op: Operation[PyTree], xs: tuple[Quantity, ...], unit: Unit) -> PyTree:
    """Performs an operation on the numbers and gives its results one unit."""
    y = op(*[x.value for x in xs])
    return tuple([Quantity(part, unit) for part in y]) if isinstance(y, tuple) else Quantity(y, unit)


@Units.rule(
    Elementwise, ops.CumProd, ops.ReduceAnd, ops.ReduceOr, ops.ReduceXor, ops.Bitcast, ops.Threefry2x32,
    ops.RngBitGenerator, ops.Iota, ops.AxisIndex, ops.PlatformIndex, ops.SizeValue,
)  # fmt: skip
def require_plain_numbers(op: Operation[PyTree], *xs: Quantity) -> PyTree:
    """The rule of operations on plain numbers: exp, sin, bits and most others."""
    for x in xs:
        if x.unit not in (ANY, ONE):
            raise UnitError(f"{op.name}: takes plain numbers, got {x.unit}")
    return perform_with_unit(op, xs, ONE)


KEEPING: tuple[Kind, ...] = (
    ops.Add, ops.Sub, ops.Max, ops.Min, ops.Clamp, ops.Rem, ops.Neg, ops.Abs, ops.Floor, ops.Ceil, ops.RoundToEven,
    ops.RoundAwayFromZero, ops.Real, ops.Imag, ops.Conj, ops.Complex, ops.NextAfter, ops.Convert, ops.Copy,
    ops.ReducePrecision, ops.StopGradient, ops.Identity, ops.Concatenate, ops.Pad, ops.ReduceSum, ops.ReduceMax,
    ops.ReduceMin, ops.CumSum, ops.CumMax, ops.ReduceWindowSum, ops.ReduceWindowMax, ops.ReduceWindowMin, ops.CumMin,
    Structural, ops.Collective, ops.Fft, ops.RngUniform,
)  # fmt: skip


@Units.rule(*KEEPING)
def _(op: Operation[PyTree], *xs: Quantity) -> PyTree:
    return perform_with_unit(op, xs, shared_unit(op.name, *xs))


@Units.rule(ops.Comparison, ops.Sign, ops.IsFinite, ops.ArgReduction, ops.Atan2, ops.TopIndices)
def _(op: Operation[PyTree], *xs: Quantity) -> PyTree:
    shared_unit(op.name, *xs)
    return perform_with_unit(op, xs, ONE)


@Units.rule(ops.Selection)
def _(op: ops.Selection, x: Quantity) -> tuple[Quantity, Quantity]:
    values, indices = op(x.value)
    return Quantity(values, x.unit), Quantity(indices, ONE)


@Units.rule(ops.WindowArg)
def _(op: ops.WindowArg, x: Quantity, labels: Quantity) -> Quantity:
    return Quantity(op(x.value, labels.value), ONE)


@Units.rule(ops.Mul, ops.DotGeneral, ops.Convolution)
def _(op: ops.Mul | ops.DotGeneral | ops.Convolution, x: Quantity, y: Quantity) -> Quantity:
    return Quantity(op(x.value, y.value), x.unit.times(y.unit))


@Units.rule(ops.GroupedMatmul, ops.GroupedOuter)
def _(op: ops.GroupedMatmul | ops.GroupedOuter, x: Quantity, y: Quantity, bounds: Quantity) -> Quantity:
    return Quantity(op(x.value, y.value, bounds.value), x.unit.times(y.unit))


def require_plain_logits(op: Operation[PyTree], query: Quantity, key: Quantity, *others: Quantity) -> None:
    """Checks that products of queries and keys, biases and lengths are plain numbers."""
    for unit in (query.unit.times(key.unit), *[x.unit for x in others]):
        if unit not in (ANY, ONE):
            raise UnitError(f"{op.name}: the softmax takes plain numbers, got {unit}")


@Units.rule(ops.FusedAttention)
def _(op: ops.FusedAttention, query: Quantity, key: Quantity, value: Quantity, *others: Quantity) -> PyTree:
    require_plain_logits(op, query, key, *others)
    means, *sums = op(*[x.value for x in (query, key, value, *others)])
    return Quantity(means, value.unit), *[Quantity(y, ONE) for y in sums]


@Units.rule(ops.FusedAttentionGradient)
def _(op: ops.FusedAttentionGradient, *xs: Quantity) -> PyTree:
    query, key, value, *others = xs
    require_plain_logits(op, query, key, *others[:-3])
    of_values = xs[-1].unit
    of_logits = of_values.times(value.unit)
    units = (of_logits.times(key.unit), of_logits.times(query.unit), of_values, of_logits)
    return tuple([Quantity(y, unit) for y, unit in zip(op(*[x.value for x in xs]), units, strict=False)])


@Units.rule(ops.FusedAttentionTangent)
def _(op: ops.FusedAttentionTangent, *xs: Quantity) -> Quantity:
    query, key, value = xs[:3]
    known = len(xs) - len(op.by)
    require_plain_logits(op, query, key, *xs[3 : known - 2])
    factors = (key.unit.times(value.unit), query.unit.times(value.unit), ONE, value.unit)
    parts = [Quantity(dx.value, dx.unit.times(factors[i])) for i, dx in zip(op.by, xs[known:], strict=True)]
    return Quantity(op(*[x.value for x in xs]), shared_unit(op.name, *parts))


@Units.rule(ops.Div)
def _(op: ops.Div, x: Quantity, y: Quantity) -> Quantity:
    return Quantity(op(x.value, y.value), x.unit.times(y.unit, -1))


POWERS: dict[Kind, Fraction] = {
    ops.Square: Fraction(2),
    ops.Sqrt: Fraction(1, 2),
    ops.Rsqrt: Fraction(-1, 2),
    ops.Cbrt: Fraction(1, 3),
}


@Units.rule(*POWERS)
def _(op: Operation[PyTree], x: Quantity) -> Quantity:
    return Quantity(op(x.value), x.unit.to(POWERS[type(op)]))


@Units.rule(ops.Accurate)
def _(op: ops.Accurate, x: Quantity) -> PyTree:
    power = POWERS.get(type(op.plain))
    return require_plain_numbers(op, x) if power is None else Quantity(op(x.value), x.unit.to(power))


@Units.rule(ops.IntegerPow)
def _(op: ops.IntegerPow, x: Quantity) -> Quantity:
    return Quantity(op(x.value), x.unit.to(op.exponent))


@Units.site_rule(ops.Pow)
def _(site: Site[Units, None], op: ops.Pow, x: Quantity, y: Quantity) -> Quantity:
    shared_unit("pow", y, Quantity(y.value, ONE))
    known = site.constants[1]
    values = set() if known is None else set(known.ravel().tolist())
    if len(values) == 1:
        return Quantity(op(x.value, y.value), x.unit.to(Fraction(*values).limit_denominator(1000)))
    if x.unit not in (ANY, ONE):
        raise UnitError(f"pow: {x.unit} to a power that is not written down has no unit")
    return Quantity(op(x.value, y.value), ONE)


@Units.rule(ops.ReduceProd)
def _(op: ops.ReduceProd, x: Quantity) -> Quantity:
    count = int(np.prod([x.value.shape[a] for a in op.axes]))
    return Quantity(op(x.value), x.unit.to(count))


@Units.rule(ops.Select)
def _(op: ops.Select, which: Quantity, *cases: Quantity) -> PyTree:
    return perform_with_unit(op, (which, *cases), shared_unit("select", *cases))


@Units.rule(ops.Gather, ops.DynamicSlice)
def _(op: Operation[PyTree], x: Quantity, *where: Quantity) -> PyTree:
    shared_unit(f"{op.name}: indices", *where, *[Quantity(w.value, ONE) for w in where])
    return perform_with_unit(op, (x, *where), x.unit)


@Units.rule(ops.Scatter)
def _(op: ops.Scatter, x: Quantity, where: Quantity, updates: Quantity) -> PyTree:
    if op.combiner == "mul":  # by plain numbers: elements not updated keep their unit
        shared_unit("scatter: factors", updates, Quantity(updates.value, ONE))
        return perform_with_unit(op, (x, where, updates), x.unit)
    return perform_with_unit(op, (x, where, updates), shared_unit("scatter", x, updates))


@Units.rule(ops.DynamicUpdateSlice)
def _(op: ops.DynamicUpdateSlice, x: Quantity, update: Quantity, *where: Quantity) -> PyTree:
    return perform_with_unit(op, (x, update, *where), shared_unit(op.name, x, update))


@Units.rule(ops.Sort)
def _(op: ops.Sort, *xs: Quantity) -> tuple[Quantity, ...]:
    return tuple([Quantity(y, x.unit) for x, y in zip(xs, op(*[x.value for x in xs]), strict=True)])


@Units.rule(ops.OrderStatistics)
def _(op: ops.OrderStatistics, x: Quantity, ranks: Quantity) -> tuple[Quantity, ...]:
    return tuple([Quantity(y, x.unit) for y in op(x.value, ranks.value)])
