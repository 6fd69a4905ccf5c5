"""The benchmarks' sweep measures functions that give NumPy's and SciPy's values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.special

import effx
from benchmarks import peers, sweep
from benchmarks.functions import Library

LAYOUTS = (
    sweep.Layout("60", (60,)),
    sweep.Layout("6 rows of 20", (6, 20)),
    sweep.Layout("6 columns", (20, 6), 0),
)
NAMES = [function.name for function in sweep.FUNCTIONS]


def library_of_oracle() -> Any:
    """NumPy and SciPy under the names of a library's namespaces."""
    return SimpleNamespace(xp=np, special=scipy.special, linalg=np.linalg)


def small_layout(function: sweep.Function) -> sweep.Layout:
    """The small layout of as many axes as the function's own, with the same axis."""
    own = function.layouts[-1]
    return next(t for t in LAYOUTS if (len(t.shape), t.axis) == (len(own.shape), own.axis))


def test_names_are_unique() -> None:
    """A filter by name finds one function, so no two have one name."""
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("function", sweep.FUNCTIONS, ids=NAMES)
def test_a_function_of_the_sweep_gives_the_oracles_values(function: sweep.Function) -> None:
    """What is measured is right: values are those of NumPy and SciPy, gradients those of finite differences."""
    library = Library(peers.load("effx"))
    layout = small_layout(function)
    operands = function.draw(layout)
    result = effx.jit(sweep.apply_to_arrays(function, layout, library))(*operands)
    if function.has_oracle:
        with np.errstate(all="ignore"):
            wanted = function.apply(library_of_oracle(), layout, *operands)
        for leaf, value in zip(effx.tree.leaves(result), effx.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(leaf, value, rtol=1e-4, atol=1e-4, err_msg=function.name)
    if function.has_gradient:
        gradient = effx.jit(sweep.pull_back(function, layout, library))(*operands)
        with effx.enable_x64():
            x = operands[0].astype(np.float64)
            rest = [a.astype(np.float64) if a.dtype == np.float32 else a for a in operands[1:]]
            direction = np.random.default_rng(0).normal(size=x.shape)
            h = 1e-6

            def half_squares(x: np.ndarray[Any, Any]) -> float:
                y = np.asarray(function.apply(library, layout, effx.numpy.asarray(x), *rest))
                return float((y**2).sum() / 2)

            slope = (half_squares(x + h * direction) - half_squares(x - h * direction)) / (2 * h)
        np.testing.assert_allclose((np.asarray(gradient) * direction).sum(), slope, rtol=1e-3, atol=1e-3)


def test_quick_is_a_part_of_all() -> None:
    """With --quick each function is measured at some of its layouts, or at none."""
    titles = {case.title for case in sweep.cases(quick=False)}
    quick = [case.title for case in sweep.cases(quick=True)]
    assert set(quick) < titles
    assert len(set(quick)) == len(quick)


def test_summary_lists_what_is_above_the_limit_slowest_first() -> None:
    """Below the table are the geometric mean and the rows above the limit."""
    lines = list(sweep.summarize([("a", 2.0), ("b", 0.5), ("c", 8.0), ("d", 0.125)]))
    assert lines == [
        "4 rows, geometric mean 1.000 of JAX's time, 2 above 1.2",
        "    8.00  c",
        "    2.00  a",
    ]


def test_reasons_are_of_functions_that_are_measured() -> None:
    """A reason stands beside its function's row."""
    assert set(sweep.REASONS) <= set(NAMES)
    assert list(sweep.summarize([("gelu: 1,000", 2.0)]))[1:] == [
        f"    2.00  gelu: 1,000 ({sweep.REASONS['gelu']})"
    ]
