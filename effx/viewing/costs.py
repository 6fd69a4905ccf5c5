"""Compute the cost of each equation of a program for one run, with the programs that it holds."""

import math
from collections.abc import Iterable
from typing import final

import attrs

from effx.handlers.authoring.analysis import Place
from effx.ir.ops.control import HigherOrder
from effx.ir.program import Equation, Program
from effx.library.cost import flops_of, size_of, used_equations

__all__ = ["Costs", "Price"]


@final
@attrs.frozen
class Price:
    """What something costs once.

    Attributes:
        flops: arithmetic operations.
        traffic: bytes read and written, summed over single operations.
        bounded: False if it runs a while loop, of which one iteration is counted.
    """

    flops: float = 0.0
    traffic: float = 0.0
    bounded: bool = True


def _sum_prices(prices: Iterable[tuple[float, Price]]) -> Price:
    terms = list(prices)
    return Price(
        math.fsum([n * p.flops for n, p in terms]),
        math.fsum([n * p.traffic for n, p in terms]),
        all([p.bounded for _, p in terms]),
    )


@final
class Costs:
    """Counts each program once, however many equations hold it."""

    def __init__(self) -> None:
        self._programs: dict[Program, Price] = {}

    def of(self, equation: Equation) -> Price:
        """Returns what an equation costs: of branches the mean, of a while loop one iteration."""
        location, op = Place(equation), equation.op
        if not isinstance(op, HigherOrder):
            return Price(flops_of(location), sum(map(size_of, (*location.types, *location.result_types))))
        inside = [(location.inside(p), self.whole(p)) for p in op.programs]
        total = _sum_prices([(at.repeats * at.share, price) for at, price in inside])
        return attrs.evolve(total, bounded=total.bounded and not any([at.unbounded for at, _ in inside]))

    def whole(self, program: Program) -> Price:
        """Returns what one run of a program costs; what nothing reads is not computed."""
        entry = self._programs.get(program)
        if entry is None:
            entry = self._programs[program] = _sum_prices(
                [(1.0, self.of(e)) for e in used_equations(program)]
            )
        return entry
