"""What every test shares: quiet start-up and the hypothesis profile.

Never: imports effx at the top, so that collection shows import errors as test failures.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
# Two workers share the cores; more threads each would only have them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Parallel maps want devices; a CPU can pass for several.
os.environ.setdefault("EFFX_NUM_CPU_DEVICES", "8")

from typing import Any

import pytest

from tests import profiles

profiles.load()


def pytest_configure(config: pytest.Config) -> None:
    """Keeps typeguard from reading the class of C++ functions, whose attributes are each function's own."""
    from typeguard import checker_lookup_functions

    def lookup(origin: object, args: tuple[Any, ...], extras: tuple[Any, ...]) -> Any:
        if getattr(origin, "__qualname__", "") == "Jitted":
            return lambda value, origin, args, memo: None
        return None

    checker_lookup_functions.insert(0, lookup)
