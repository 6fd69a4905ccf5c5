"""Progress of loops that run in compiled programs: a bar that moves while `scan` and `fori_loop` iterate.

Values do not change. The loop counts its iterations, and at every n-th of them calls Python with the count. That works
inside `jit`. Under `vmap` one bar stands for the whole batch. Under `grad` the forward pass reports, and the backward pass
is silent. In `pmap` and `shard_map` each device reports.
"""

import sys
import warnings
from collections.abc import Callable
from operator import index
from typing import Protocol, SupportsIndex, TypeVar, final

import effx.numpy as enp
from effx import Array, debug, lax, tree
from effx.errors import TransformError, check_function, name_user_call
from effx.lazy import list_names
from effx.tree import PyTree

__all__ = ["Bar", "fori_loop", "scan"]
__dir__ = list_names(__all__)

Carry = TypeVar("Carry")
Y = TypeVar("Y")
Report = Callable[[int, int], object]


class TqdmBar(Protocol):
    """What is used of a bar of tqdm."""

    def update(self, n: int) -> object:
        """Moves it by so many iterations."""

    def close(self) -> None:
        """Leaves it as it is."""


@final
class Bar:
    """Shows how far a loop is: by tqdm, or in lines of text where tqdm is not installed.

    A smaller count than before is another run of the loop, and starts a new bar.

    Args:
        label: stands before the bar.
    """

    def __init__(self, label: str) -> None:
        self._label, self._count = label, 0
        self._bar: TqdmBar | None = None
        try:
            with warnings.catch_warnings():
                # tqdm's, that a notebook without ipywidgets gets a bar of text
                warnings.simplefilter("ignore")
                from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self._make: Callable[..., TqdmBar] | None = tqdm

    def __call__(self, count: int, total: int) -> None:
        """Shows that so many of all iterations are done."""
        if self._make is None:
            print(f"{self._label}: {count} of {total}", file=sys.stderr)  # noqa: T201 - what it is for
            return
        if count < self._count:
            self._close()
        bar = self._make(total=total, desc=self._label) if self._bar is None else self._bar
        self._bar = bar
        bar.update(count - self._count)
        self._count = count
        if count == total:
            self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar, self._count = None, 0


def _make_counter(
    total: int, every: int | None, label: str, report: Report | None
) -> Callable[[Array], Array]:
    """Returns a function that takes the number of iterations done before one, reports, and returns the number after it."""
    if report is not None:
        check_function(report)
    if every is not None and every < 1:
        raise TransformError(f"{name_user_call()}: every must be at least 1, got {every}")
    step = every or max(total // 100, 1)
    show = report or Bar(label)

    def call(count: Array) -> None:
        show(int(count), total)

    def count_one(before: Array) -> Array:
        count = before + 1
        is_due = (count == 1) | (count % step == 0) | (count == total)
        lax.cond(is_due, lambda n: debug.callback(call, n), lambda n: None, count)
        return count

    return count_one


def scan(
    f: Callable[[Carry, PyTree], tuple[Carry, Y]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    unroll: int | bool = 1,
    every: int | None = None,
    label: str = "scan",
    report: Report | None = None,
) -> tuple[Carry, Y]:
    """Runs `effx.lax.scan`, and shows its progress: at the first iteration, at every n-th, and at the last.

    Args:
        f, init, xs, length, reverse, unroll: as for `effx.lax.scan`.
        every: how many iterations from one report to the next; by default so many that there are about 100 reports.
        label: stands before the bar.
        report: called with the number of iterations done and the number of all, instead of a bar.

    Returns:
        What `effx.lax.scan` returns.

    Raises:
        TransformError: there is nothing to iterate over, `every` is below 1, or `report` is no function.
        BackendError: the program is compiled for another platform than CPUs.

    >>> import effx
    >>> def tell(count, total): print(f"{count} of {total}")
    >>> add = lambda total, x: (total + x, None)
    >>> print(effx.jit(lambda xs: scan(add, 0.0, xs, every=3, report=tell))(enp.arange(8.0))[0])
    1 of 8
    3 of 8
    6 of 8
    8 of 8
    28.0
    """
    rows = tree.leaves(xs)
    if length is None and not (rows and enp.shape(rows[0])):
        raise TransformError("progress.scan: expected xs with a leading axis, or a length")
    total = int(enp.shape(rows[0])[0]) if length is None else index(length)
    count_one = _make_counter(total, every, label, report)

    def step(carry: tuple[Carry, Array], x: PyTree) -> tuple[tuple[Carry, Array], Y]:
        inner, y = f(carry[0], x)
        return (inner, count_one(carry[1])), y

    start = init, enp.int32(0)
    (carry, _), ys = lax.scan(step, start, xs, length, reverse=reverse, unroll=unroll)
    return carry, ys


def fori_loop(
    lower: SupportsIndex,
    upper: SupportsIndex,
    body_fun: Callable[[Array, Carry], Carry],
    init_val: PyTree,
    *,
    every: int | None = None,
    label: str = "fori_loop",
    report: Report | None = None,
) -> Carry:
    """Runs `effx.lax.fori_loop` between known bounds, and shows its progress as `scan` does.

    Args:
        lower, upper: ints; of traced bounds nobody knows how far the loop is.
        body_fun, init_val: as for `effx.lax.fori_loop`.
        every, label, report: as for `scan`.

    Returns:
        What `effx.lax.fori_loop` returns.

    Raises:
        TransformError: `every` is below 1, or `report` is no function.
        TracerIntegerConversionError: a bound is traced.
        BackendError: the program is compiled for another platform than CPUs.

    >>> print(fori_loop(2, 5, lambda i, x: x * i, 1.0, report=lambda count, total: print(count, "of", total)))
    1 of 3
    2 of 3
    3 of 3
    24.0
    """
    first, last = index(lower), index(upper)
    count_one = _make_counter(max(last - first, 0), every, label, report)

    def body(i: Array, state: tuple[Carry, Array]) -> tuple[Carry, Array]:
        return body_fun(i, state[0]), count_one(state[1])

    start: tuple[PyTree, Array] = init_val, enp.int32(0)
    result: tuple[Carry, Array] = lax.fori_loop(first, last, body, start)
    return result[0]
