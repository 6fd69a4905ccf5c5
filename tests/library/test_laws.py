"""The library's boxing handlers obey the laws of users' handlers, in each operation that they have a rule for."""

from __future__ import annotations

from typing import Any

import pytest

import effx.numpy as enp
from effx import Array
from effx.laws import Report, check_handler
from effx.library.intervals import Interval, Intervals
from effx.library.lora import Lora, LowRank


def contains(p: Interval, x: Array) -> bool:
    return bool(((p.low <= x) & (x <= p.high)).all())


def equals(p: LowRank, x: Array) -> bool:
    return bool((enp.abs(p.merged() - x) <= 1e-9).all())


def around(x: Array) -> Interval:
    return Interval(x - 0.1, x + 0.2) if x.type.kind == "f" else Interval(x, x)


def run(handler: Any, **arguments: Any) -> Report:
    return check_handler(handler, exact=False, examples=1, skip=["handlers_compile"], **arguments)


@pytest.mark.deep
def test_intervals() -> None:
    """Nothing is left out but collectives, which need an axis, and complex numbers, which have no order."""
    report = run(Intervals(), payload=around, relation=contains)
    others = {name: reason for name, reason in report.not_run.items() if not reason.endswith("a named axis")}
    assert set(others) == {"complex", "conj"}
    assert all(["complex numbers have no order" in reason for reason in others.values()])
    assert "rules_are_sound_at_infinity" not in report.skipped


def test_low_rank_weights() -> None:
    """All products and sums."""
    assert run(Lora(), relation=equals).not_run == {}
