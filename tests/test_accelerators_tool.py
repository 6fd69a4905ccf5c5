"""The tool that compiles and runs functions for accelerators: its list, its counts and its reports."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import effx
from effx.errors import DeviceCountError
from effx.library.scaling import plan
from examples.plan_7b import V5E, Sizes
from tests import gpu_runs
from tools.accelerators import __main__ as accelerators
from tools.accelerators.__main__ import compare
from tools.accelerators.compiling import count_kernels, count_kernels_within
from tools.accelerators.functions import FUNCTIONS, Function, Library
from tools.accelerators.running import draw, format_report, relative_error
from tools.accelerators.training_step import NAME, compile_training_step, count_collectives, count_memory

LIBRARY = Library("effx")


def test_names_are_unique() -> None:
    names = [f.name for f in FUNCTIONS]
    assert len(names) == len(set(names)) == 217


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if not f.axes], ids=lambda f: f.name)
def test_functions_take_their_operands(function: Function) -> None:
    operands = [draw(s, 0) for s in function.operands]
    assert [(x.shape, str(x.dtype)) for x in operands] == [(s.shape, s.dtype) for s in function.operands]
    result = effx.eval_shape(lambda *xs: function.apply(LIBRARY, *xs), *operands)
    assert effx.tree.leaves(result)


def test_kernels() -> None:
    """Parameters, constants and tuples are none."""
    text = """
%fused (p: f32[3]) -> f32[3] {
  ROOT %exp = f32[3]{0} exponential(%p)
}

ENTRY %main (x: f32[3]) -> (f32[3], f32[3]) {
  %x = f32[3]{0} parameter(0)
  %c = f32[] constant(1)
  %fusion = f32[3]{0} fusion(%x), kind=kLoop, calls=%fused
  %call.1 = (f32[3]{0}, s8[128]{0}) custom-call(%fusion), custom_call_target="solve"
  %part = f32[3]{0} get-tuple-element(%call.1), index=0
  ROOT %t = (f32[3]{0}, f32[3]{0}) tuple(%fusion, %part)
}
"""
    assert count_kernels(text) == 2


def test_kernels_of_loops_and_branches() -> None:
    """A loop's body counts once, nested ones too, and of a choice the branch with more kernels."""
    text = """HloModule jit_f

%inner (a: f32[3]) -> f32[3] {
  ROOT %x = f32[3]{0} fusion(%a), calls=%fused
}

%body (a: f32[3]) -> f32[3] {
  %w = f32[3]{0} while(%a), condition=%test, body=%inner
  ROOT %x = f32[3]{0} fusion(%w), calls=%fused
}

%longer (a: f32[3]) -> f32[3] {
  %x = f32[3]{0} fusion(%a), calls=%fused
  ROOT %y = f32[3]{0} copy(%x)
}

ENTRY %main (x: f32[3], p: pred[], i: s32[]) -> f32[3] {
  %x = f32[3]{0} parameter(0)
  %w = f32[3]{0} while(%x), condition=%test, body=%body
  %c = f32[3]{0} conditional(%p, %w, %w), true_computation=%longer, false_computation=%inner
  %d = f32[3]{0} conditional(%i, %c, %c, %c), branch_computations={%inner, %longer, %inner}
  ROOT %y = f32[3]{0} copy(%d)
}
"""
    assert count_kernels(text) == 4
    assert count_kernels_within(text) == 2 + 2 + 2 + 1


@pytest.mark.parametrize(
    ("x", "y", "agreement", "error"),
    [
        ([1.0, 2.0], [1.0, 1.0], "values", 1.0),
        ([1.0, np.nan], [2.0, np.nan], "values", 0.5),
        ([1.0, np.nan], [1.0, 1.0], "values", np.inf),
        ([np.inf], [-np.inf], "values", np.inf),
        ([1.0], [1.0, 1.0], "values", np.inf),
        ([1.0], [1], "values", np.inf),
        ([1.0, -2.0], [-1.0, 2.0], "sizes", 0.0),
        ([1.0], [5.0], "shapes", 0.0),
        ([], [], "values", 0.0),
        ([1j], [-1j], "sizes", 0.0),
        ([0.0], [0.0], "values", 0.0),
    ],
)
def test_differences(x: list[complex], y: list[complex], agreement: str, error: float) -> None:
    assert relative_error(x, y, agreement) == error


def test_report_on_compiling() -> None:
    """What effx alone does not compile is a failure, what needs more than JAX is listed."""
    ours = {
        "sin": {"kernels": 1, "bytes": 8.0, "temporaries": 0},
        "sort": {"kernels": 3, "bytes": 8.0, "temporaries": 200_000},
        "svd": {"kernels": 9, "kernels_within": 9},
        "eig": {"error": "NoRuleError: eig"},
        "odd": {"error": "no"},
    }
    theirs = {
        "sin": {"kernels": 1, "bytes": 8.0, "temporaries": 0},
        "sort": {"kernels": 1, "bytes": 8.0, "temporaries": 100_000},
        "eig": {"kernels": 1, "bytes": 1.0, "temporaries": 0},
        "svd": {"kernels": 3, "kernels_within": 27},
        "odd": {"error": "neither"},
    }
    lines, failures = compare(ours, theirs)  # type: ignore[arg-type]  # mypy infers no TypedDicts
    assert failures == 1
    assert lines == [
        "  eig: NoRuleError: eig",
        "  odd: no (as JAX)",
        "  kernels: geometric mean of the ratios to JAX 2.080, of 3 functions",
        "    sort: 3 for 1",
        "    svd: 9 for 3 (9 for 27 with those of loops, each once, and of branches)",
        "  bytes: geometric mean of the ratios to JAX 1.000, of 2 functions",
        "    sort: 200,000 for 100,000",
    ]


def test_report_on_the_training_step() -> None:
    """Its memory and collectives stand beside JAX's, and beside zeros where JAX was not reached."""
    ours = {NAME: {"memory": 4_000_000_000, "collectives": {"all-reduce": {"count": 2.0, "bytes": 1e9}}}}
    theirs = {
        NAME: {
            "memory": 5_000_000_000,
            "collectives": {
                "all-reduce": {"count": 1.0, "bytes": 5e8},
                "all-gather": {"count": 1.0, "bytes": 1e6},
            },
        }
    }
    lines, failures = compare(ours, theirs)  # type: ignore[arg-type]  # mypy infers no TypedDicts
    assert failures == 0
    assert lines == [
        f"  {NAME}, each of 256 chips:",
        "    memory: 4.000 GB for 5.000 GB",
        "    all-gather: 0 that send 0.000 GB for 1 that send 0.001 GB",
        "    all-reduce: 2 that send 1.000 GB for 1 that send 0.500 GB",
    ]
    assert compare(ours, {})[0][1] == "    memory: 4.000 GB for 0.000 GB"  # type: ignore[arg-type]  # mypy infers no TypedDicts


@pytest.mark.deep
def test_training_step() -> None:
    """What the tool counts of a small step for 256 CPUs is what the plan says."""
    small = Sizes(2, 256, 16, 512, 512, 64, 256)
    compiled = compile_training_step("effx", "16x16", "cpu", small)
    found = plan(compiled, V5E)
    counted = count_collectives(compiled.as_text(), 256)
    for kind, exchange in counted.items():
        planned = [c for c in found.collectives if c.kind == kind]
        assert exchange["count"] == sum([c.count for c in planned])
        assert exchange["bytes"] == pytest.approx(sum([c.bytes for c in planned]))
    assert set(counted) == {c.kind for c in found.collectives}
    assert count_memory(compiled.memory_analysis()) == found.memory.total


def test_what_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nexec sleep 3600\n", encoding="utf-8")
    hanging.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hanging))
    monkeypatch.setattr(accelerators, "LONGEST", 0.1)
    outcomes = accelerators.compile_with_library("effx", "cuda", tmp_path, "sin", 0.1)
    assert outcomes
    assert {outcome["error"] for outcome in outcomes.values()} == {
        "not reached, ended by force, 0.1 s after the limit"
    }


def test_an_error_is_no_less_where_jax_was_not_reached() -> None:
    error = {"sin": {"error": "no"}}
    for theirs, failures in [({}, 1), ({"sin": {"error": "not reached, exit code -6"}}, 1), (error, 0)]:
        assert compare(error, theirs)[1] == failures  # type: ignore[arg-type]  # mypy infers no TypedDicts


def test_report_on_running() -> None:
    lines = format_report(
        {"sin": {"difference": 1e-7, "microseconds": 20.0}, "cos": {"difference": 1.0, "microseconds": 5.0}},
        {"sin": {"microseconds": 10.0}, "cos": {"error": "OutOfMemory"}},
    ).splitlines()
    assert lines[1].split() == ["sin", "1.0e-07", "20", "10", "2.00"]
    assert lines[2].split() == ["cos", "1.0e+00", "5", "FAIL"]
    assert lines[3].strip() == "jax: OutOfMemory"
    assert lines[4] == "2 functions, 1 failures, geometric mean of the ratios 2.000"


@pytest.mark.parametrize(
    ("error", "nodeid", "is_on_gpu", "outcome"),
    [
        (DeviceCountError("needs 8 devices"), "tests/lax/test_collective.py::test_dtypes", True, "skipped"),
        (DeviceCountError("needs 8 devices"), "tests/lax/test_collective.py::test_dtypes", False, "failed"),
        (AssertionError(), "tests/lax/test_algebra.py::test_top_k[0]", True, "skipped"),
        (AssertionError(), "tests/lax/test_algebra.py::test_cumsum[0]", True, "failed"),
    ],
)
def test_what_is_excused_on_a_gpu(
    error: Exception, nodeid: str, is_on_gpu: bool, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_runs, "is_on_accelerator", lambda: is_on_gpu)

    def fail() -> None:
        raise error

    call = pytest.CallInfo.from_call(fail, "call")
    report = pytest.TestReport(nodeid, (nodeid.split("::")[0], 1, "test"), {}, "failed", "text", "call")
    gpu_runs.excuse(report, call)
    assert report.outcome == outcome


def test_excuses_are_of_tests() -> None:
    """Each line of the list starts the name of a file that is there, and gives a reason."""
    for name, reason in gpu_runs.read_differences().items():
        assert Path(name.split("::")[0]).exists()
        assert gpu_runs.is_for_gpu(Path(name.split("::")[0]).resolve())
        assert reason
