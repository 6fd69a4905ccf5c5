"""Steps along a line that satisfy Wolfe's conditions.

Sources: Nocedal and Wright, "Numerical optimization", 2006, algorithms 3.5 and 3.6; Hager and Zhang, "A new conjugate
gradient method with guaranteed descent and an efficient line search", 2005, for the condition that rounding allows.
"""

from collections.abc import Callable
from typing import NamedTuple

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import absolute, where
from effx.array.promotion import as_operand
from effx.ir.values.scalars import scalar
from effx.lax.control.loops import while_loop
from effx.numpy.elementwise import sqrt
from effx.numpy.linear import dot
from effx.transforms.autodiff.gradients import value_and_grad

DECREASE, CURVATURE = 1e-4, 0.9


class LinePoint(NamedTuple):
    """A point on the line.

    Attributes:
        step: its distance.
        value, slope: of the function along the line.
        gradient: of the function.
    """

    step: Array
    value: Array
    slope: Array
    gradient: Array


class LineSearchState(NamedTuple):
    """The state of a search.

    Attributes:
        trial: the point that is evaluated.
        low: the best point so far that is low enough.
        high: the other end of the interval that holds what is sought, once there is one.
        bracketed: whether there is one.
        found: whether `trial` satisfies the conditions.
        looked: how many points were evaluated.
    """

    trial: LinePoint
    low: LinePoint
    high: LinePoint
    bracketed: Array
    found: Array
    looked: Array


def select(test: Array, x: LinePoint, y: LinePoint) -> LinePoint:
    """Returns x where the test holds, else y."""
    return LinePoint(*[where(test, a, b) for a, b in zip(x, y, strict=True)])


def minimize_cubic(low: LinePoint, high: LinePoint) -> Array:
    """Returns the minimum of the cubic through two points with their slopes, away from the ends; else the middle."""
    width = high.step - low.step
    safe = where(width == 0, 1, width)
    d1 = low.slope + high.slope - 3 * (high.value - low.value) / safe
    square = d1 * d1 - low.slope * high.slope
    d2 = sqrt(where(square > 0, square, 0)) * where(width < 0, -1, 1)
    rest = high.slope - low.slope + 2 * d2
    share = 1 - (high.slope + d2 - d1) / where(rest == 0, 1, rest)
    usable = (square >= 0) & (rest != 0) & (share > 0.1) & (share < 0.9)
    return low.step + where(usable, share, 0.5) * width


def search_line(
    fun: Callable[[Array], Array], x: Array, direction: Array, start: LinePoint, first: Array, most: int
) -> LineSearchState:
    """Looks for a step at which the value has fallen enough and the slope is flatter.

    Args:
        fun: the function.
        x: where the line begins.
        direction: along which the function falls.
        start: the point of step 0.
        first: the first step to try.
        most: how many steps to try.
    """
    both = value_and_grad(fun)
    dtype = x.type.dtype
    infinity = float("inf")
    noise = float(dtypes.finfo(dtype).eps)

    def at(step: Array) -> LinePoint:
        value, gradient = both(x + step * direction)
        slope = dot(gradient, direction, precision="highest")
        sound = (value == value) & (slope == slope)
        # What is not a number is as far from a minimum as can be.
        return LinePoint(step, where(sound, value, infinity), where(sound, slope, infinity), gradient)

    def goes_on(state: LineSearchState) -> Array:
        return ~state.found & (state.looked < most)

    def advance(state: LineSearchState) -> LineSearchState:
        trial = at(state.trial.step)
        low, high = state.low, state.high
        line = start.value + DECREASE * trial.step * start.slope
        above = (trial.value > line) | (trial.value >= low.value)
        flat = absolute(trial.slope) <= -CURVATURE * start.slope
        # Near a minimum the values differ by less than rounding; then only the slopes decide what is low enough.
        level = (trial.value <= start.value + noise * absolute(start.value)) & (
            trial.slope <= (2 * DECREASE - 1) * start.slope
        )
        is_acceptable = flat & (~above | level)
        # Upward of the trial point the function falls away from the other end: that end is then the old low point.
        slope_sign_changed = trial.slope * (high.step - low.step) >= 0
        new_low = select(above, low, trial)
        new_high = select(above, trial, select(slope_sign_changed | ~state.bracketed, low, high))
        bracketed = state.bracketed | above | (trial.slope >= 0)
        step = where(bracketed, minimize_cubic(new_low, new_high), 2 * trial.step)
        later = trial._replace(step=where(is_acceptable, trial.step, step))
        return LineSearchState(later, new_low, new_high, bracketed, is_acceptable, state.looked + 1)

    begin = LineSearchState(
        start._replace(step=first),
        start,
        start,
        scalar(False, dtypes.bool_, weak=False),
        scalar(False, dtypes.bool_, weak=False),
        as_operand(0),
    )
    return while_loop(goes_on, advance, begin)
