"""Units: products of powers of base units, which are names."""

import re
from fractions import Fraction
from typing import final

import attrs

from effx.errors import EffxError

__all__ = ["ANY", "ONE", "Unit", "UnitError"]

SIGN = re.compile(r"([*/])(?![^(]*\))")
FACTOR = re.compile(r"1|([^\d\s*/^().]+)(?:\^(-?\d+(?:\.\d+)?|\(-?\d+/0*[1-9]\d*\)))?")


class UnitError(EffxError, TypeError):
    """Quantities whose units do not match.

    >>> from effx.library.units import UnitError, quantity, with_units
    >>> try:
    ...     with_units(lambda a, b: a + b)(quantity(1.0, "m"), quantity(1.0, "s"))
    ... except UnitError as error:
    ...     print(isinstance(error, TypeError))
    True
    """


@final
@attrs.frozen(repr=False)
class Unit:
    """A product of powers of base units; `any` is that of a literal zero.

    Attributes:
        powers: names and exponents, sorted by name; None for any unit.

    >>> Unit.parse("kg*m/s^2").times(Unit.parse("m/s"), -1)
    kg*s^-1
    """

    powers: tuple[tuple[str, Fraction], ...] | None = ()

    @staticmethod
    def parse(text: str) -> "Unit":
        """Reads `kg*m/s^2`; "" or "1" is the unit of plain numbers.

        Raises:
            UnitError: it is no unit.
        """
        unit, sign = Unit(), 1
        for part in SIGN.split(str(text) or "1"):
            match = FACTOR.fullmatch(part.strip())
            if part in ("*", "/"):
                sign = 1 if part == "*" else -1
            elif match is None:
                raise UnitError(
                    f"units: {text!r} is no unit; write products and quotients such as 'kg*m/s^2'"
                )
            elif match[1]:
                base = Unit(((match[1], Fraction((match[2] or "1").strip("()"))),))
                unit = unit.times(base, sign)
        return unit

    def __repr__(self) -> str:
        if self.powers is None:
            return "any"
        texts = {k: f"({p})" if p.denominator > 1 else str(p) for k, p in self.powers}
        return "*".join([k if p == 1 else f"{k}^{texts[k]}" for k, p in self.powers]) or "1"

    def times(self, other: "Unit", power: int = 1) -> "Unit":
        """Returns the unit of a product (or quotient, for power -1)."""
        if self.powers is None or other.powers is None:
            return Unit(None)
        powers = dict(self.powers)
        for k, p in other.powers:
            powers[k] = powers.get(k, Fraction(0)) + power * p
        return Unit(tuple(sorted([(k, p) for k, p in powers.items() if p])))

    def to(self, power: Fraction | int) -> "Unit":
        """Returns the unit of a power; anything to the power of 0 is a plain number."""
        if self.powers is None and power:
            return self
        return Unit(tuple([(k, p * power) for k, p in self.powers or () if power]))


ANY = Unit(None)
ONE = Unit()
