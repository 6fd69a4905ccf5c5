"""Monomials: products of factors with their powers, the terms of polynomials of dimension variables."""

from collections.abc import Iterable
from typing import final

import attrs


@final
@attrs.frozen(order=False)
class SizeFunction:
    """A function of sizes that is no polynomial, as a factor: floordiv, mod, max or min of two operands.

    The operands are in the scope without constraints, so that one factor is the same in every scope.
    """

    function: str
    operands: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.operands))})"


Factor = str | SizeFunction
# Factors with their powers, sorted; () is the constant's.
Monomial = tuple[tuple[Factor, int], ...]
Terms = dict[Monomial, int]


def multiply_monomials(m: Monomial, n: Monomial) -> Monomial:
    """Returns the product of two monomials."""
    powers = dict(m)
    for f, p in n:
        powers[f] = powers.get(f, 0) + p
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def divide_monomials(m: Monomial, n: Monomial) -> Monomial | None:
    """Returns m / n, or None where n does not divide m."""
    powers = dict(m)
    for f, p in n:
        left = powers.get(f, 0) - p
        if left < 0:
            return None
        powers[f] = left
    return tuple([(f, p) for f, p in powers.items() if p])


def monomial_sort_key(m: Monomial) -> tuple[int, str]:
    return -sum([power for _, power in m]), _format_monomial(m)


def _format_monomial(m: Monomial) -> str:
    return "*".join([str(f) if power == 1 else f"{f}^{power}" for f, power in m])


def format_terms(terms: Iterable[tuple[Monomial, int]]) -> str:
    """Returns terms as text: `2*a*b - 1`."""
    text = ""
    for m, c in terms:
        size = abs(c)
        term = _format_monomial(m) if size == 1 and m else f"{size}*{_format_monomial(m)}" if m else str(size)
        text += (f"-{term}" if c < 0 else term) if not text else (f" - {term}" if c < 0 else f" + {term}")
    return text or "0"
