"""Comparison on NumPy of what an implementation gives, and finite differences."""

from collections.abc import Sequence

import numpy as np

from effx.laws.comparing import Data
from effx.laws.portable.implementation import Function, Implementation, Leaf
from effx.laws.registry import NotApplicable
from effx.tree.registry import PyTree

STEP = 1e-6


def read_results(value: PyTree) -> list[Data]:
    """Returns the arrays of nested tuples as data of NumPy."""
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in read_results(part)]
    if hasattr(value, "resolve_neg"):
        # A tensor that stands for zeros has no data until it is forced to.
        return [value.numpy(force=True)]
    return [np.asarray(value)]


def compare(got: PyTree, want: PyTree, tolerance: float = 1e-9, note: str = "") -> None:
    """Compares results: shapes, and values relative to the largest finite one.

    Raises:
        AssertionError: they differ.
    """
    left, right = read_results(got), read_results(want)
    assert len(left) == len(right), f"{note} {len(left)} arrays against {len(right)}"
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        where = f"{note} result {index}"
        assert a.shape == b.shape, f"{where}: shape {a.shape} against {b.shape}"
        finite = np.abs(b[np.isfinite(b)])
        size = max(1.0, float(finite.max())) if finite.size else 1.0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size, err_msg=where)


def require_finite(*values: PyTree) -> None:
    """Stops where a number is infinite, NaN or large, so that roundings say nothing.

    Raises:
        NotApplicable: a number is.
    """
    for value in values:
        for x in read_results(value):
            if not bool(np.all(np.abs(x) < 1e6)):
                raise NotApplicable("numbers are infinite or large")


def pair(a: PyTree, b: PyTree) -> float:
    """Returns the sum of products of two lists of results."""
    left, right = read_results(a), read_results(b)
    return float(sum([(x * y).sum() for x, y in zip(left, right, strict=True)], 0.0))


def find_slopes(
    implementation: Implementation, f: Function, xs: Sequence[Data], vs: Sequence[Data]
) -> list[Data]:
    """Returns central differences of a function along directions.

    Raises:
        NotApplicable: the differences to both sides are not equal, as at a kink, or are large.
    """

    def evaluate(step: float) -> list[Data]:
        moved = [implementation.asarray(x + step * v) for x, v in zip(xs, vs, strict=True)]
        return read_results(f(*moved))

    slopes: list[Data] = []
    for before, here, after in zip(evaluate(-STEP), evaluate(0.0), evaluate(STEP), strict=True):
        left, right = (here - before) / STEP, (after - here) / STEP
        require_finite(left, right)
        if not np.allclose(left, right, rtol=1e-3, atol=1e-3):
            raise NotApplicable("a kink, or a derivative that changes much")
        slopes.append((after - before) / (2 * STEP))
    return slopes


def to_arrays(implementation: Implementation, data: Sequence[Data]) -> tuple[Leaf, ...]:
    """Returns data as arrays of the implementation."""
    return tuple([implementation.asarray(x) for x in data])
