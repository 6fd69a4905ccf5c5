"""Units of measure: results have the right units, and what does not fit is an error that says why.

Never: computes a unit by the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.library.units import Quantity, Unit, UnitError, quantity, with_units

M, S, KG = (quantity(v, u) for v, u in ((3.0, "m"), (2.0, "s"), (5.0, "kg")))
ROW = quantity(np.array([1.0, 2.0, 4.0], np.float32), "m")

RESULTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float | list[float], str]] = {
    "sum": (lambda a: a + a, (M,), 6.0, "m"),
    "speed": (lambda a, b: a / b, (M, S), 1.5, "m/s"),
    "energy": (lambda m, a, b: 0.5 * m * (a / b) ** 2, (KG, M, S), 5.625, "kg*m^2/s^2"),
    "square root": (lambda a, b: enp.sqrt(a * a / b**4), (M, S), 0.75, "m/s^2"),
    "written power": (lambda a: a**1.5, (M,), 3.0**1.5, "m^(3/2)"),
    "reciprocal": (lambda a: 1.0 / a, (S,), 0.5, "1/s"),
    "ratio": (lambda a: enp.exp(a / a), (M,), np.e, "1"),
    "mean": (lambda a: a.mean(), (ROW,), 7 / 3, "m"),
    "variance": (lambda a: enp.sum((a - a.mean()) ** 2), (ROW,), 14 / 3, "m^2"),
    "product": (lambda a: enp.prod(a), (ROW,), 8.0, "m^3"),
    "dot": (lambda a, b: a @ (a * b), (ROW, S), 42.0, "m^2*s"),
    "sort": (lambda a: enp.sort(-a), (ROW,), [-4.0, -2.0, -1.0], "m"),
    "index": (lambda a: a[enp.array([2, 0])], (ROW,), [4.0, 1.0], "m"),
    "where": (lambda a: enp.where(a > a.mean(), a, 0.0), (ROW,), [0.0, 0.0, 4.0], "m"),
    "running sum": (lambda a: enp.cumsum(a), (ROW,), [1.0, 3.0, 7.0], "m"),
    "at": (lambda a: a.at[0].set(a[2]), (ROW,), [4.0, 2.0, 4.0], "m"),
    "concatenate": (lambda a: enp.concatenate([a, a])[2:4], (ROW,), [4.0, 1.0], "m"),
    "plain stays plain": (lambda a, x: x + 1.0, (M, 2.0), 3.0, "1"),
    "scan from zero": (lambda a: lax.scan(lambda c, v: (c + v, None), 0.0, a)[0], (ROW,), 7.0, "m"),
    "cond": (lambda a: lax.cond(a[0] > a[1], lambda v: v.sum(), lambda v: v.max(), a), (ROW,), 4.0, "m"),
    "branch of zero": (lambda a: lax.cond(True, lambda v: v, lambda v: 0.0, a), (M,), 3.0, "m"),
    "while": (lambda a, b: lax.while_loop(lambda c: c < b, lambda c: c + c, a), (M, quantity(20.0, "m")), 24.0, "m"),
    "jit": (lambda a, b: effx.jit(lambda x, y: x * y)(a, b), (M, S), 6.0, "m*s"),
    "vmap inside": (lambda a: effx.vmap(lambda v: v * v)(a), (ROW,), [1.0, 4.0, 16.0], "m^2"),
    # The derivative by metres of a square has metres.
    "checkpoint": (lambda a: effx.checkpoint(lambda v: v * v)(a), (M,), 9.0, "m^2"),
    "abs, min, clip": (lambda a: enp.clip(abs(-a), 0.0, a.max()), (ROW,), [1.0, 2.0, 4.0], "m"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    """Values are the function's, and units are those found by thinking."""
    f, args, value, unit = RESULTS[name]
    found: Quantity = with_units(f)(*args)
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    assert found.unit == Unit.parse(unit)


ERRORS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "sum": (lambda a, b: a + b, (M, S), "add: units differ: m, s"),
    "comparison": (lambda a, b: a < b, (M, S), "lt: units differ: m, s"),
    "function": (lambda a: enp.sin(a), (M,), "sin: takes plain numbers, got m"),
    "plain number": (lambda a: a + 1.0, (M,), "add: units differ: m, 1"),
    "power": (lambda a, n: a**n, (M, 2.0), "pow: m to a power that is not written down has no unit"),
    "select": (lambda a, b: enp.where(True, a, b), (M, S), "select: units differ: s, m"),
    "loop": (lambda a: lax.fori_loop(0, 3, lambda i, c: c * a, a), (M,), "a loop or branch: units differ"),
    "branches": (
        lambda a, b: lax.cond(True, lambda x, y: x, lambda x, y: y, a, b),
        (M, S),
        "a loop or branch: units differ",
    ),
    "scatter": (lambda a, b: a.at[0].set(b), (ROW, S), "scatter: units differ: m, s"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    """What does not fit together says so, with the units and the user's line."""
    f, args, text = ERRORS[name]
    with pytest.raises(UnitError) as caught:
        with_units(effx.jit(f) if name != "loop" else f)(*args)
    assert str(caught.value).startswith(text)
    assert "test_units.py:" in str(caught.value)


def test_under_transformations() -> None:
    """Quantities are pytrees: functions of them are jitted, batched and differentiated."""
    f = with_units(lambda a, b: a / b)
    found = effx.jit(f)(M, S)
    assert (float(found.value), found.unit) == (1.5, Unit.parse("m/s"))
    rows = effx.vmap(lambda v: f(Quantity(v, M.unit), S).value)(ROW.value)
    assert rows.tolist() == [0.5, 1.0, 2.0]
    slope = effx.grad(lambda v: f(M, Quantity(v, S.unit)).value)(2.0)
    assert float(slope) == -0.75


def test_parsing() -> None:
    """Units are products and quotients of powers; they print as one product."""
    assert str(Unit.parse("kg * m / s^2")) == "kg*m*s^-2"
    assert str(Unit.parse("m/m")) == "1"
    assert str(Unit.parse("m^(1/2)")) == "m^(1/2)"
    assert str(quantity(2.0, "1/s")) == "2.0 s^-1"
    with pytest.raises(UnitError, match="^units: '3m' is no unit; write products and quotients"):
        Unit.parse("3m")
