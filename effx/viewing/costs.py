"""What each equation of a program costs when its program runs once, the programs that it holds counted in."""

import math
from collections.abc import Iterable
from typing import final

import attrs

from effx.handlers.authoring.analysis import Place
from effx.ir.ops.control import HigherOrder
from effx.ir.program import Equation, Program
from effx.library.cost import flops_of, size_of, used

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


def _sum(prices: Iterable[tuple[float, Price]]) -> Price:
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
        place, op = Place(equation), equation.op
        if not isinstance(op, HigherOrder):
            return Price(flops_of(place), sum(map(size_of, (*place.types, *place.result_types))))
        inside = [(place.inside(p), self.whole(p)) for p in op.programs]
        found = _sum([(at.repeats * at.share, price) for at, price in inside])
        return attrs.evolve(found, bounded=found.bounded and not any([at.unbounded for at, _ in inside]))

    def whole(self, program: Program) -> Price:
        """Returns what one run of a program costs; what nothing reads is not computed."""
        found = self._programs.get(program)
        if found is None:
            found = self._programs[program] = _sum([(1.0, self.of(e)) for e in used(program)])
        return found
