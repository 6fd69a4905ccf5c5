"""The cases that laws of several areas are checked on."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import effx
import effx.numpy as enp
from effx import tree
from effx.array import Array
from effx.laws.comparing import leaves
from effx.laws.programs import cases, programs
from effx.tree.registry import PyTree

Function = Callable[..., PyTree]
E = TypeVar("E", bound=BaseException)
Points = Sequence[Array]
ELEMENTS = 2

FLAT = cases(programs(constructs=(), most_steps=5))
SMOOTH = cases(programs())
SMALL = cases(programs(most_steps=3, depth=1))
ANY = cases(programs(smooth=False))
LOOPS = cases(programs(constructs=("scan", "while", "fori", "cond", "switch", "map"), most_steps=2))
# Few shapes and statements, because each operation on new types is compiled.
COMPILED = cases(programs(most_steps=2, depth=1, shapes=((3,), (), (2, 3))))


def weighted_sum_loss(f: Function) -> Callable[..., Array]:
    """Returns the sum of all elements of all results, each with a weight of its own."""

    def total(*xs: PyTree) -> Array:
        result = enp.zeros((), enp.float64)
        for index, y in enumerate(leaves(f(*xs))):
            weights = 1.0 + 0.1 * index + 0.3 * enp.arange(float(y.type.size)).reshape(y.type.shape)
            result = result + enp.sum(weights * y)
        return result

    return total


def gradient_of_loss(f: Function) -> Function:
    """The gradient of a weighted sum with respect to all arguments, by grad."""
    return lambda *xs: effx.grad(weighted_sum_loss(f), tuple(range(len(xs))))(*xs)


def compose_smoothly(values: PyTree) -> PyTree:
    """A smooth function to compose with, from a tuple of arrays to one of the same types."""
    ys = leaves(values)
    total = enp.sin(enp.sum(ys[0])) * 0.3
    return tuple([enp.cos(y) * 0.5 + y * total for y in ys])


def error_raised_by(kind: type[E], run: Callable[[], object]) -> E:
    """Returns the error that a function raises.

    Raises:
        AssertionError: it raises none of that kind.
    """
    try:
        run()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was to be raised")


def make_batch(xs: Points, elements: int = ELEMENTS) -> tuple[Array, ...]:
    """Returns a batch of points: each argument with the batch axis in front."""
    weights = (1.0, -0.7, 0.4, 0.9)[:elements]
    return tuple([enp.stack([x * w for w in weights]) for x in xs])


def loop_over_batch(f: Function, batches: Points, axis: int = 0) -> PyTree:
    """Returns a function's results for the elements of a batch, one after the other, stacked."""
    elements = batches[0].type.shape[0]
    rows = [f(*[b[m] for b in batches]) for m in range(elements)]
    return tree.map(lambda *ys: enp.stack(ys, axis), *rows)
