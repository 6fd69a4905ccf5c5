"""Interleaved timing: the libraries take turns round by round, so that drift hits both alike."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias, final

import attrs

Thunk: TypeAlias = Callable[[], object]


@final
@attrs.frozen
class Effort:
    """How much to measure.

    Attributes:
        rounds: samples of each library.
        least: seconds that one sample takes at least; short calls are repeated to fill them.
    """

    rounds: int
    least: float


@final
@attrs.frozen
class Sample:
    """Seconds a call took, one number a round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@final
@attrs.frozen
class Ratio:
    """How long the first library took in units of the second.

    Attributes:
        value: median over rounds of the ratio within one round.
        error: its standard error, from the median absolute deviation.
    """

    value: float
    error: float


def once(thunk: Thunk, finish: Callable[[object], object], number: int) -> float:
    """Seconds a call, over `number` calls, collector off; `finish` waits for the last result."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        result: object = None
        for _ in range(number):
            result = thunk()
        finish(result)
        return (time.perf_counter() - start) / number
    finally:
        if enabled:
            gc.enable()


def calls_to_fill(thunk: Thunk, finish: Callable[[object], object], least: float) -> int:
    """How many calls take at least `least` seconds."""
    number = 1
    while (spent := once(thunk, finish, number) * number) < least and number < 1_000_000:
        number = max(number + 1, math.ceil(number * min(20.0, 1.2 * least / max(spent, 1e-9))))
    return number


def interleave(
    thunks: Mapping[str, Thunk], finishers: Mapping[str, Callable[[object], object]], effort: Effort
) -> dict[str, Sample]:
    """Time every thunk in turns, each second round in the opposite order."""
    numbers = {name: calls_to_fill(thunk, finishers[name], effort.least) for name, thunk in thunks.items()}

    def timer(name: str) -> Callable[[], float]:
        return lambda: once(thunks[name], finishers[name], numbers[name])

    seconds = turns({name: timer(name) for name in thunks}, effort.rounds)
    return {name: Sample(tuple(times)) for name, times in seconds.items()}


def turns(timers: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Ask every timer for its seconds in turns, each second round in the opposite order."""
    seconds: dict[str, list[float]] = {name: [] for name in timers}
    order = list(timers)
    for _ in range(rounds):
        for name in order:
            seconds[name].append(timers[name]())
        order.reverse()
    return seconds


def compare(first: Sample, second: Sample) -> Ratio:
    """Ratio of two samples of one interleaved run.

    >>> compare(Sample((1.0, 2.0, 3.0)), Sample((2.0, 4.0, 6.0)))
    Ratio(value=0.5, error=0.0)
    """
    ratios = [a / b for a, b in zip(first.seconds, second.seconds, strict=True)]
    middle = statistics.median(ratios)
    spread = statistics.median(abs(ratio - middle) for ratio in ratios)
    # 1.4826 makes the deviation that of a normal law, 1.2533 is the price of a median over a mean.
    return Ratio(middle, 1.2533 * 1.4826 * spread / math.sqrt(len(ratios)))
