"""Units of measure: a function is run on quantities, and what does not fit together is an error.

Units cost nothing where the function is compiled: they are part of the structure of values, checked while it is traced.
A zero that is written down fits any unit, so that a sum may start at 0.0.

Never: convert between units of one dimension; metres and feet are different here.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Self, final

import attrs
import numpy as np

import effx.numpy as enp
from effx import Array
from effx.array.values import Operand
from effx.errors import EffxError
from effx.handling import BoxHandler, Elementwise, Site, Structural
from effx.ir.ops import elementwise as e
from effx.ir.ops import reduce as r
from effx.ir.ops.checkpoint import Identity
from effx.ir.ops.collective import Collective
from effx.ir.ops.compare import Comparison
from effx.ir.ops.convert import Convert, Copy, ReducePrecision, StopGradient
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.shape import Concatenate, DynamicSlice, DynamicUpdateSlice, Pad
from effx.ir.ops.sort import Sort

__all__ = ["Quantity", "Unit", "UnitError", "quantity", "with_units"]


class UnitError(EffxError, TypeError):
    """Quantities whose units do not fit together."""


@final
@attrs.frozen(repr=False)
class Unit:
    """A product of powers of base units; `any` is that of a written zero.

    Attributes:
        powers: names and exponents, sorted by name; None for any unit.
    """

    powers: tuple[tuple[str, Fraction], ...] | None = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `kg*m/s^2`; "" or "1" is the unit of plain numbers.

        Raises:
            UnitError: it is none.
        """
        powers: dict[str, Fraction] = {}
        sign = 1
        tight = text.replace(" ", "")
        parts = re.findall(r"[*/]|1|[A-Za-z_]+(?:\^(?:-?\d+|\(-?\d+/\d+\)))?", tight)
        if "".join(parts) != tight:
            raise UnitError(f"units: {text!r} is no unit; write products and quotients such as 'kg*m/s^2'")
        for part in parts:
            if part in "*/":
                sign = 1 if part == "*" else -1
            elif part != "1":
                name, _, power = part.partition("^")
                powers[name] = powers.get(name, Fraction(0)) + sign * Fraction(power.strip("()") or 1)
        return cls(tuple(sorted([(k, p) for k, p in powers.items() if p])))

    def __repr__(self) -> str:
        if self.powers is None:
            return "any"
        texts = {k: f"({p})" if p.denominator > 1 else str(p) for k, p in self.powers}
        return "*".join([k if p == 1 else f"{k}^{texts[k]}" for k, p in self.powers]) or "1"

    def times(self, other: Self, power: int = 1) -> Self:
        """Returns the unit of a product (or quotient, for power -1)."""
        if self.powers is None or other.powers is None:
            return type(self)(None)
        powers = dict(self.powers)
        for k, p in other.powers:
            powers[k] = powers.get(k, Fraction(0)) + power * p
        return type(self)(tuple(sorted([(k, p) for k, p in powers.items() if p])))

    def to(self, power: Fraction | int) -> Self:
        """Returns the unit of a power."""
        if self.powers is None:
            return self
        return type(self)(tuple([(k, p * power) for k, p in self.powers if power]))


ANY = Unit(None)
ONE = Unit()


@final
@attrs.frozen
class Quantity:
    """An array with a unit.

    Attributes:
        value: the numbers.
        unit: what they count.
    """

    value: Array
    unit: Unit = attrs.field(metadata={"static": True})

    def __str__(self) -> str:
        return f"{self.value} {self.unit}"


def quantity(value: Operand, unit: str) -> Quantity:
    """Returns numbers with a unit such as `kg*m/s^2`.

    >>> print(quantity(3.0, "m/s"))
    3.0 m*s^-1
    """
    return Quantity(enp.asarray(value), Unit.parse(unit))


@final
@attrs.frozen
class Units(BoxHandler[Quantity]):
    """Computes with quantities."""

    lifts_carries = True

    def lift(self, x: Array) -> Quantity:
        """A plain number; a written zero has any unit."""
        known = x.host("units") if x.frame is None and x.size else None
        return Quantity(x, ANY if known is not None and not np.any(known) else ONE)

    def primal(self, payload: Quantity) -> Array:
        """The numbers decide."""
        return payload.value

    def widen(self, a: Quantity, b: Quantity) -> Quantity:
        """A zero takes the other's unit."""
        return b if a.unit == ANY else a

    def conform(self, payload: Quantity, like: Quantity) -> Quantity:
        """Checks that what a loop carries, or a branch gives, keeps its unit."""
        return Quantity(payload.value, same("a loop or branch", payload, like))


def same(what: str, *xs: Quantity) -> Unit:
    """Returns the one unit of quantities.

    Raises:
        UnitError: there are several.
    """
    units = [x.unit for x in xs if x.unit != ANY]
    if any([u != units[0] for u in units]):
        raise UnitError(f"{what}: units differ: {', '.join([str(x.unit) for x in xs])}")
    return units[0] if units else ANY


@Units.rule(Elementwise)
def _(op: Elementwise, *xs: Quantity) -> Quantity:
    # exp, sin and most others are of plain numbers.
    for x in xs:
        if x.unit not in (ANY, ONE):
            raise UnitError(f"{op.name}: takes plain numbers, got {x.unit}")
    return Quantity(op(*[x.value for x in xs]), ONE)


KEEPING: tuple[type[Any], ...] = (
    *(e.Add, e.Sub, e.Max, e.Min, e.Clamp, e.Rem, e.Neg, e.Abs, e.Floor, e.Ceil, e.RoundToEven),
    *(e.RoundAwayFromZero, e.Real, e.Imag, e.Conj, e.Complex, e.NextAfter, Convert, Copy, ReducePrecision),
    *(StopGradient, Identity, Concatenate, Pad, r.ReduceSum, r.ReduceMax, r.ReduceMin, r.CumSum, r.CumMax),
    *(r.CumMin, Structural, Collective),
)


@Units.rule(*KEEPING)
def _(op: Any, *xs: Quantity) -> Quantity:
    return Quantity(op(*[x.value for x in xs]), same(op.name, *xs))


@Units.rule(Comparison, e.Sign, e.IsFinite, r.ArgReduction, e.Atan2)
def _(op: Any, *xs: Quantity) -> Quantity:
    same(op.name, *xs)
    return Quantity(op(*[x.value for x in xs]), ONE)


@Units.rule(e.Mul, DotGeneral)
def _(op: e.Mul | DotGeneral, x: Quantity, y: Quantity) -> Quantity:
    return Quantity(op(x.value, y.value), x.unit.times(y.unit))


@Units.rule(e.Div)
def _(op: e.Div, x: Quantity, y: Quantity) -> Quantity:
    return Quantity(op(x.value, y.value), x.unit.times(y.unit, -1))


POWERS: dict[type[Any], Fraction] = {
    e.Square: Fraction(2),
    e.Sqrt: Fraction(1, 2),
    e.Rsqrt: Fraction(-1, 2),
    e.Cbrt: Fraction(1, 3),
}


@Units.rule(*POWERS)
def _(op: Any, x: Quantity) -> Quantity:
    return Quantity(op(x.value), x.unit.to(POWERS[type(op)]))


@Units.rule(e.IntegerPow)
def _(op: e.IntegerPow, x: Quantity) -> Quantity:
    return Quantity(op(x.value), x.unit.to(op.exponent))


@Units.site_rule(e.Pow)
def _(site: Site[Units, None], op: e.Pow, x: Quantity, y: Quantity) -> Quantity:
    known = site.constants[1]
    if x.unit not in (ANY, ONE) and (known is None or known.size != 1):
        raise UnitError(f"pow: {x.unit} to a power that is not written down has no unit")
    same("pow", y, Quantity(y.value, ONE))
    power = Fraction(float(known.item())).limit_denominator(1000) if known is not None else Fraction(1)
    return Quantity(op(x.value, y.value), x.unit.to(power))


@Units.rule(r.ReduceProd)
def _(op: r.ReduceProd, x: Quantity) -> Quantity:
    count = int(np.prod([x.value.shape[a] for a in op.axes]))
    return Quantity(op(x.value), x.unit.to(count))


@Units.rule(e.Select)
def _(op: e.Select, which: Quantity, *cases: Quantity) -> Quantity:
    return Quantity(op(which.value, *[x.value for x in cases]), same("select", *cases))


@Units.rule(Gather, DynamicSlice)
def _(op: Any, x: Quantity, *where: Quantity) -> Quantity:
    return Quantity(op(x.value, *[w.value for w in where]), x.unit)


@Units.rule(Scatter)
def _(op: Scatter, x: Quantity, where: Quantity, updates: Quantity) -> Quantity:
    unit = same("scatter", x, updates) if op.combiner != "mul" else x.unit
    return Quantity(op(x.value, where.value, updates.value), unit)


@Units.rule(DynamicUpdateSlice)
def _(op: DynamicUpdateSlice, x: Quantity, update: Quantity, *where: Quantity) -> Quantity:
    return Quantity(op(x.value, update.value, *[w.value for w in where]), same(op.name, x, update))


@Units.rule(Sort)
def _(op: Sort, *xs: Quantity) -> tuple[Quantity, ...]:
    return tuple([Quantity(y, x.unit) for x, y in zip(xs, op(*[x.value for x in xs]), strict=True)])


def with_units(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of quantities.

    Args:
        fun: of pytrees of arrays.

    Returns:
        The function; arrays among its arguments are plain numbers, all arrays of its result are quantities.

    Raises:
        UnitError: when called, units do not fit together.

    >>> import effx, effx.numpy as enp
    >>> fall = effx.jit(lambda g, t: 0.5 * g * t**2)
    >>> print(with_units(fall)(quantity(10.0, "m/s^2"), quantity(2.0, "s")))
    20.0 m
    >>> with_units(lambda a, b: a + b)(quantity(1.0, "m"), quantity(1.0, "s"))
    Traceback (most recent call last):
    ...
    effx.library.units.UnitError: add: units differ: m, s
    ...
    """

    def measured(*args: Any) -> Any:
        return Units().run(fun, *args)

    return measured
