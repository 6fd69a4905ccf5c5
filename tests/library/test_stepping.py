"""Stepping: every operation runs on NumPy by itself, and a debugger can stop at it."""

from __future__ import annotations

import inspect
import io
import pdb  # noqa: T100 - what is tested
import sys
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import TransformError
from effx.handling import Site
from effx.library.stepping import step_through


def f(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        return effx.jit(lambda c: c * v)(c), c

    with effx.named_scope("loop"):
        c, ys = lax.scan(step, x, enp.arange(1.0, 4.0))
    return lax.cond(c > 0, enp.log, lambda y: y, c), ys


@pytest.mark.parametrize("reference", [True, False])
def test_log(reference: bool) -> None:
    """The log has every operation in the order in which it ran, with values, scope and line."""
    log = step_through(effx.jit(f), reference=reference)(2.0)
    names = [e.op.name for e in log.entries]
    assert names.count("mul") == 3
    products = [float(e.results[0]) for e in log.entries if e.op.name == "mul"]
    assert products == [2.0, 4.0, 12.0]
    y, ys = log.result
    np.testing.assert_allclose(y, np.log(12.0), rtol=1e-6)
    assert np.asarray(ys).tolist() == [2.0, 2.0, 4.0]
    entry = next(e for e in log.entries if e.op.name == "mul")
    assert entry.scope == "loop"
    assert entry.line.startswith("test_stepping.py:")
    assert entry.seconds > 0
    assert "mul(2.0, 1.0) = 2.0 [loop]" in str(log)
    assert str(log).count("\n") == len(log.entries) - 1
    assert log.by_operation()["mul"][0] == 3


def test_stopping() -> None:
    """Before an operation that is asked for, with its operands as NumPy values in hand."""
    seen: list[Any] = []
    sites: list[Any] = []

    def stop(site: Site[Any, Any]) -> bool:
        if site.op.name == "log":
            sites.append([np.asarray(x).item() for x in site.operands])
            return True
        return False

    step_through(f, stop=stop, pause=lambda: seen.append(len(sites)))(2.0)
    assert seen == [1]
    assert sites == [[12.0]]


def test_values_are_known_while_stepping() -> None:
    """Python may branch on what jit would not show, and gradients step too."""
    looked: list[float] = []

    def g(x: Any) -> Any:
        y = enp.sin(x)
        looked.append(float(y))
        return y * y

    step_through(g)(0.5)
    assert looked == [pytest.approx(np.sin(0.5))]
    log = step_through(effx.grad(effx.jit(enp.sin)))(0.5)
    np.testing.assert_allclose(log.result, np.cos(0.5), rtol=1e-6)
    assert "cos" in [e.op.name for e in log.entries]
    batch = step_through(effx.vmap(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x)))(
        enp.array([1.0, 3.0])
    )
    assert np.asarray(batch.result).tolist() == [16.0, 12.0]


def looked_into(x: Any) -> Any:
    doubled = x * 2.0
    return enp.log(doubled)


def test_pause_is_inside_of_the_users_function() -> None:
    """Going up from where it stops, jitted or not, there is the user's frame with NumPy's numbers."""
    found: list[Any] = []

    def pause() -> None:
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_name != "looked_into":
            frame = frame.f_back
        assert frame is not None
        found.append(np.asarray(frame.f_locals["doubled"]).item())
        assert "Concrete" not in type(frame.f_locals["doubled"]).__name__  # no array of XLA's

    at_log = lambda site: site.op.name == "log"  # noqa: E731
    for f in (looked_into, effx.jit(looked_into), effx.jit(effx.jit(looked_into))):
        assert float(step_through(f, stop=at_log, pause=pause)(3.0).result) == pytest.approx(np.log(6.0))
    assert found == [6.0, 6.0, 6.0]


def test_a_debugger() -> None:
    """pdb stops before the operation; `up` leads to the user's line, whose variables print."""
    typed = io.StringIO("up\n" * 12 + "continue\n")
    shown = io.StringIO()
    debugger = pdb.Pdb(stdin=typed, stdout=shown, nosigint=True, readrc=False)
    debugger.use_rawinput = False

    def pause() -> None:
        debugger.set_trace(inspect.currentframe())

    try:
        step_through(effx.jit(looked_into), stop=lambda site: site.op.name == "log", pause=pause)(3.0)
    finally:
        sys.settrace(None)
    assert "-> return enp.log(doubled)" in shown.getvalue()


@pytest.mark.unguarded
def test_wrong_arguments() -> None:
    """What stops and what pauses are functions."""
    with pytest.raises(TransformError, match=r"^step_through: stop and pause are functions, got 'log'"):
        step_through(f, stop="log")  # type: ignore[arg-type]  # wrong on purpose
