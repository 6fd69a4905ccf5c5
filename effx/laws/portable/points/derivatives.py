"""First and second derivatives of functions, in every mode, and what mpmath says of them."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, final

import attrs
import mpmath
import numpy as np
from mpmath import mp

from effx.laws.comparing import Data
from effx.laws.portable.implementation import Function, Implementation
from effx.laws.registry import NotApplicable
from effx.tree.registry import PyTree

Number: TypeAlias = PyTree  # of mpmath, which has no types, or an array
Point = tuple[float, ...]
# Positions of the operands by which a function is differentiated, in order: (0,), (0, 1).
Order = tuple[int, ...]

DIGITS = 130
# Errors in units of the dtype's precision that every row is allowed; a row's `slack` multiplies it.
UNITS = 64.0


@final
@attrs.frozen
class DerivativeRow:
    """A function with its oracle, and the points at which its derivatives are compared.

    Attributes:
        name: of the function.
        function: an expression of the names of `Implementation.namespace`, whose value is a function of arrays of one shape.
        oracle: the same of numbers of mpmath.
        points: where the oracle is differentiated numerically.
        limits: derivatives by calculus, at points where numbers cannot tell them: ends of domains, ties, infinities.
        slopes: closed forms of derivatives, for oracles that are slow or lose digits.
        excused: derivatives that may be anything, with the reason; at a point, or None for all points.
        slack: a factor of the tolerance.
        zero_scale: errors in units of the precision that are allowed near zeros of derivatives, first and second.
        digits: of mpmath's numbers.
        heavy: whether its derivatives take long to compile, so that all modes are measured in deep tests only.
    """

    name: str
    function: str
    oracle: Callable[..., Number]
    points: Sequence[Point]
    limits: Mapping[Point, Mapping[Order, float]] = attrs.field(factory=dict)
    slopes: Mapping[Order, Callable[..., Number]] = attrs.field(factory=dict)
    excused: Mapping[tuple[Point | None, Order | None], str] = attrs.field(factory=dict)
    slack: float = 1.0
    zero_scale: tuple[float, float] = (0.0, 0.0)
    digits: int = DIGITS
    heavy: bool = False

    @property
    def arity(self) -> int:
        """The number of operands."""
        return len(next(iter([*self.points, *self.limits])))

    @property
    def orders(self) -> list[Order]:
        """All first and second derivatives."""
        firsts = [(i,) for i in range(self.arity)]
        return [*firsts, *[(i, j) for i in range(self.arity) for j in range(self.arity)]]

    def reason(self, point: Point, order: Order) -> str | None:
        """Returns why a derivative is excused at a point, None if it is not."""
        for place in (point, None):
            for derivative in (order, tuple(sorted(order)), None):
                if (place, derivative) in self.excused:
                    return self.excused[place, derivative]
        return None


def measure(
    implementation: Implementation, row: DerivativeRow, dtype: str, in_one_mode: bool = False
) -> dict[tuple[Order, str], Data]:
    """Returns the derivatives at all points of a row, in every mode or in one, from one compiled function.

    Args:
        implementation: that differentiates.
        row: the function with its points.
        dtype: `f4` or `f8`.
        in_one_mode: True for reverse mode, and forward mode over it, only.

    Raises:
        NotApplicable: the implementation has no such function.
    """
    f, n = implementation.function(row.function), row.arity
    if f is None:
        raise NotApplicable(f"there is no {row.function}")
    operands = [np.array(column, dtype) for column in zip(*row.points, *row.limits, strict=True)]

    def go_forward(g: Function, i: int) -> Function:
        def derivative(*xs: Number) -> Number:
            # Other operands have no tangent: a tangent of 0 times an infinite slope would be NaN.
            one = implementation.asarray(np.ones(operands[i].shape, dtype))
            return implementation.jvp(lambda v: g(*xs[:i], v, *xs[i + 1 :]), (xs[i],), (one,))[1]

        return derivative

    def go_backward(g: Function, i: int) -> Function:
        return lambda *xs: implementation.grad(lambda *ys: g(*ys).sum(), (i,))(*xs)[0]

    def differentiate(*xs: Number) -> dict[tuple[Order, str], Number]:
        values: dict[tuple[Order, str], Number] = {}
        for i in range(n):
            forward, reverse = go_forward(f, i), go_backward(f, i)
            values[(i,), "reverse"] = reverse(*xs)
            for j in range(i if in_one_mode else 0, n):
                values[(i, j), "forward over reverse"] = go_forward(reverse, j)(*xs)
            if in_one_mode:
                continue
            values[(i,), "forward"] = forward(*xs)
            for j in range(n):
                values[(i, j), "forward over forward"] = go_forward(forward, j)(*xs)
                values[(i, j), "reverse over reverse"] = go_backward(reverse, j)(*xs)
        return values

    labels: list[tuple[Order, str]] = []

    def flat(*xs: Number) -> tuple[Number, ...]:
        values = differentiate(*xs)
        labels[:] = list(values)
        return tuple(values.values())

    compiled = flat if implementation.jit is None else implementation.jit(flat)
    with implementation.precision(dtype == "f8"):
        results = compiled(*[implementation.asarray(x) for x in operands])
        return {label: np.asarray(y, np.float64) for label, y in zip(labels, results, strict=True)}


def differentiate_oracle(row: DerivativeRow, point: Sequence[Number], order: Order) -> Number:
    """Returns a derivative of a row's oracle, as a number of mpmath."""
    if order in row.slopes:
        return row.slopes[order](*point)
    if tuple(sorted(order)) in row.slopes:
        return row.slopes[tuple(sorted(order))](*point)
    counts = [order.count(i) for i in range(len(point))]
    steps = [i for i, count in enumerate(counts) if count]
    scale = [abs(x) if x else mpmath.mpf(1) for x in point]

    # As a function of the operands' relative changes, so that steps fit to tiny and large ones.
    def moved(*changes: Number) -> Number:
        xs = list(point)
        for i, change in zip(steps, changes, strict=True):
            xs[i] = xs[i] + scale[i] * change
        return row.oracle(*xs)

    zeros = tuple([mpmath.mpf(0)] * len(steps))
    times = tuple([counts[i] for i in steps])
    value = mp.diff(moved, zeros if len(steps) > 1 else zeros[0], times if len(steps) > 1 else times[0])
    for i in steps:
        value /= scale[i] ** counts[i]
    return value


Bounds = tuple[float, float]


def find_truth(row: DerivativeRow, dtype: str, point: Point, order: Order) -> Bounds:
    """Returns a derivative of a row's oracle, and by how much it changes when all operands change by their own size."""
    if point in row.limits:
        limits = row.limits[point]
        return limits.get(order, limits.get(tuple(sorted(order)), math.nan)), 0.0
    with mp.workdps(row.digits):
        exact = [mpmath.mpf(float(np.dtype(dtype).type(x))) for x in point]
        condition = mpmath.mpf(0)
        for i, x in enumerate(exact):
            if x:
                condition += abs(x * differentiate_oracle(row, exact, tuple(sorted((*order, i)))))
        return float(differentiate_oracle(row, exact, order)), float(condition)


def is_right(row: DerivativeRow, dtype: str, order: Order, value: float, truth: Bounds) -> bool:
    """Says whether a derivative is the oracle's but for roundings; a truth of NaN says that there is none."""
    want, condition = truth
    info = np.finfo(dtype)
    eps, largest = float(info.eps), float(info.max)
    if math.isnan(want):
        return True
    if abs(want) > largest:
        return math.isinf(value) and (value > 0) == (want > 0)
    allowed = UNITS * row.slack * abs(want) + 2 * condition + row.zero_scale[len(order) - 1]
    if abs(want) > largest / 2 and math.isinf(value):
        return True
    return bool(abs(value - want) <= eps * allowed + float(info.tiny) + 10.0 ** (-row.digits / 2))


def find_wrong_derivatives(
    implementation: Implementation, row: DerivativeRow, dtype: str, in_one_mode: bool = False
) -> list[str]:
    """Returns a line for each derivative that is not the oracle's.

    Args:
        implementation: that differentiates.
        row: the function with its points.
        dtype: `f4` or `f8`.
        in_one_mode: True for reverse mode, and forward mode over it, only.
    """
    points = [*row.points, *row.limits]
    truth = functools.cache(lambda point, order: find_truth(row, dtype, point, order))
    wrong: list[str] = []
    for (order, mode), values in measure(implementation, row, dtype, in_one_mode).items():
        for point, value in zip(points, np.broadcast_to(values, len(points)), strict=True):
            if row.reason(point, order) is not None:
                continue
            expected = truth(point, tuple(sorted(order)))
            if not is_right(row, dtype, order, float(value), expected):
                wrong.append(f"at {point} by {order}, {mode}: {value:.9g}, not {expected[0]:.9g}")
    return wrong
