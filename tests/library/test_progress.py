"""Loops that report their progress: the values of a plain loop, and the same counts under every transformation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import TracerIntegerConversionError, TransformError
from effx.library import progress

XS = enp.arange(10.0)


def step(carry: Any, x: Any) -> tuple[Any, Any]:
    return enp.sin(carry + x), carry * x


def first(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda c, xs: f(c, xs)[0].sum()


TRANSFORMED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda f: f,
    "jit": effx.jit,
    "vmap": lambda f: effx.vmap(f, (0, None)),
    "vmap of rows": lambda f: lambda c, xs: effx.vmap(f, (0, 0))(c, enp.stack([xs, xs, xs])),
    "jvp": lambda f: lambda c, xs: effx.jvp(lambda c: f(c, xs), (c,), (c,)),
    "grad": lambda f: effx.grad(first(f)),
    "jit of grad": lambda f: effx.jit(effx.grad(first(f))),
    "grad of vmap": lambda f: effx.grad(first(effx.vmap(f, (0, None)))),
    "grad of checkpoint": lambda f: effx.grad(effx.checkpoint(first(f))),
    "hessian": lambda f: effx.hessian(first(f)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_scan_has_its_values_and_reports_once(name: str) -> None:
    """Nothing of the result changes, and each run reports the same counts, once for a batch."""
    reported: list[tuple[int, int]] = []

    def watched(c: Any, xs: Any) -> Any:
        return progress.scan(step, c, xs, every=4, report=lambda *counts: reported.append(counts))

    transform = TRANSFORMED[name]
    found = transform(watched)(enp.ones(3), XS)
    expected = transform(lambda c, xs: lax.scan(step, c, xs))(enp.ones(3), XS)
    effx.effects_barrier()
    for x, y in zip(effx.tree.leaves(found), effx.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(x, y)
    assert reported == [(1, 10), (4, 10), (8, 10), (10, 10)]


def test_a_compiled_loop_reports_in_each_run() -> None:
    """The second run, which is not traced, reports like the first."""
    reported: list[int] = []
    f = effx.jit(
        lambda x: progress.fori_loop(
            2, 8, lambda i, x: x + i, x, every=3, report=lambda n, _: reported.append(n)
        )
    )
    for start in (0.0, 1.0):
        assert float(f(start)) == start + 27
        effx.effects_barrier()
    assert reported == [1, 3, 6] * 2


def test_about_100_reports_by_default() -> None:
    """A long loop calls Python about a hundred times."""
    reported: list[int] = []
    progress.fori_loop(0, 12_345, lambda i, x: x + 1, 0, report=lambda n, _: reported.append(n))
    effx.effects_barrier()
    assert 90 < len(reported) < 110
    assert reported[-1] == 12_345


def test_loops_of_one_and_of_no_iteration() -> None:
    """A single iteration reports once; none reports nothing."""
    reported: list[int] = []
    for length in (1, 0):
        carry, ys = progress.scan(
            lambda c, _: (c + 1, c), 5, length=length, report=lambda n, _: reported.append(n)
        )
        assert int(carry) == 5 + length
        assert np.asarray(ys).size == length
    assert progress.fori_loop(3, 3, lambda i, x: x + 1, 7, report=lambda n, _: reported.append(n)) == 7
    effx.effects_barrier()
    assert reported == [1]


def test_reverse_counts_upwards() -> None:
    """Counts are of iterations done, whatever the order of the rows."""
    reported: list[int] = []
    carry, _ = progress.scan(step, 1.0, XS, reverse=True, every=5, report=lambda n, _: reported.append(n))
    effx.effects_barrier()
    np.testing.assert_array_equal(carry, lax.scan(step, 1.0, XS, reverse=True)[0])
    assert reported == [1, 5, 10]


def test_bar_of_tqdm(capfd: pytest.CaptureFixture[str]) -> None:
    """With tqdm there is a bar, which is full at the end, and a new one for each run."""
    pytest.importorskip("tqdm")
    f = effx.jit(lambda c: progress.scan(step, c, XS, label="training")[0])
    f(1.0)
    f(2.0)
    effx.effects_barrier()
    shown = capfd.readouterr().err
    assert shown.count("training: 100%") == 2
    assert shown.count("10/10") == 2


def test_bar_starts_again_after_a_run_that_broke_off(capfd: pytest.CaptureFixture[str]) -> None:
    """A smaller count than before is of a new run."""
    pytest.importorskip("tqdm")
    bar = progress.Bar("steps")
    for count in (1, 6, 1, 10):
        bar(count, 10)
    shown = capfd.readouterr().err
    assert shown.count("0/10 ") == 3  # two bars that start, and one that ends
    assert shown.count("10/10") == 1


def test_lines_without_tqdm(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tqdm each report is a line."""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    progress.scan(step, 1.0, XS, every=5, label="steps")
    effx.effects_barrier()
    assert capfd.readouterr().err == "steps: 1 of 10\nsteps: 5 of 10\nsteps: 10 of 10\n"


def test_refusals() -> None:
    """What is no loop and no step is refused, and so are bounds that nobody knows."""
    with pytest.raises(TransformError, match=r"progress\.scan: expected xs with a leading axis, or a length"):
        progress.scan(step, 1.0)
    with pytest.raises(TransformError, match="scan: every must be at least 1, got 0"):
        progress.scan(step, 1.0, XS, every=0)
    with pytest.raises(TracerIntegerConversionError):
        effx.jit(lambda n: progress.fori_loop(0, n, lambda i, x: x + 1, 0))(3)
