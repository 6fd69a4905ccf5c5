"""Programs of effx are programs of JAX: the same text with the other name gives the same numbers."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import effx
from tools.slow_tests import read_list

HERE = Path(__file__).parent
PROGRAMS = sorted([path.stem for path in HERE.glob("*.py") if not path.stem.startswith("test_")])
# These compile for ten seconds each, in both libraries.
LONG = (
    "arrays", "gaussian_process", "log_densities", "neural_network", "per_example", "random_numbers", "transformer",
)  # fmt: skip
CASES = [pytest.param(name, marks=pytest.mark.deep if name in LONG else ()) for name in PROGRAMS]
RTOL, ATOL = 2e-3, 2e-4


def with_jax(name: str) -> ModuleType:
    """The program, with jax read as effx."""
    path = HERE / f"{name}.py"
    module = ModuleType(f"with_jax_{name}")
    # Decorators of dataclasses look their module up.
    sys.modules[module.__name__] = module
    exec(compile(path.read_text().replace("effx", "jax"), f"{path} with jax", "exec"), module.__dict__)
    return module


def numbers(module: ModuleType, tree: ModuleType) -> Iterator[tuple[str, object]]:
    """The name and the leaf of each result, in order."""
    for name, result in module.results().items():
        for i, leaf in enumerate(tree.leaves(result)):
            yield f"{name}, leaf {i}", leaf


def test_there_are_programs() -> None:
    listed = [
        name
        for name in PROGRAMS
        if f"tests/programs/test_programs.py::test_same_numbers[{name}]" in read_list()
    ]
    assert len({*PROGRAMS} - {*LONG, *listed}) >= 10


@pytest.mark.parametrize("name", CASES)
def test_same_numbers(name: str) -> None:
    """Each leaf of each result has JAX's shape, dtype and value."""
    jax = pytest.importorskip("jax")
    ours = list(numbers(importlib.import_module(f"tests.programs.{name}"), effx.tree))
    jax.config.update("jax_disable_most_optimizations", True)  # theirs need not be fast
    try:
        theirs = list(numbers(with_jax(name), jax.tree))
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
    assert [title for title, _ in ours] == [title for title, _ in theirs]
    for (title, got), (_, want) in zip(ours, theirs, strict=True):
        if isinstance(want, str):
            assert got == want, title
            continue
        a, b = np.asarray(got), np.asarray(want)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), title
        np.testing.assert_allclose(a, b, RTOL, ATOL, err_msg=title)
