"""Tangents are slopes of central differences, and transposes are adjoints: for every row of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from effx.array import Array
from effx.handlers.jvp import jvp
from effx.handlers.linear import LinearProgram, record_linear
from effx.handlers.linearize import linearize
from effx.handlers.staging.stage import run_program
from effx.handlers.transpose import backward_pass
from effx.ir.checker import check_program
from effx.ir.program import Var
from effx.laws.samples import Data
from tests.ops.rows import Row, Sample, assert_close, c128, f64, host, on_device
from tests.ops.table import CASES, WIDE, Case, leave_repeats_to_deep_runs, name

Function = Callable[[list[Array]], list[Array]]
STEP = 1e-5  # the error of a central difference is about STEP ** 2, that of rounding 1e-16 / STEP

every_wide_case = pytest.mark.parametrize("case", leave_repeats_to_deep_runs(WIDE))


def arrays(data: Sequence[Data], like: Sequence[Array]) -> list[Array]:
    return [on_device(d, x.type) for d, x in zip(data, like, strict=True)]


def restricted(sample: Sample, active: list[int], operands: list[Array]) -> Function:
    """The operation as a function of its active operands."""

    def function(xs: list[Array]) -> list[Array]:
        full = list(operands)
        for i, x in zip(active, xs, strict=True):
            full[i] = x
        return sample.apply(full)

    return function


def direction(rng: np.random.Generator, x: Array) -> Data:
    data = rng.standard_normal(x.shape)
    return np.asarray(data + 1j * rng.standard_normal(x.shape) if x.type.kind == "c" else data)


def difference(function: Function, xs: list[Array], along: Sequence[Data]) -> list[Data]:
    """The central difference along a direction; zero for results that are no floats."""
    ends = []
    for sign in (1, -1):
        moved = [host(x) + sign * STEP * d for x, d in zip(xs, along, strict=True)]
        ends.append([host(y) for y in function(arrays(moved, xs))])
    return [
        np.subtract(a, b, out=np.zeros_like(a), where=a != b) / (2 * STEP)
        if a.dtype.kind in "fc"
        else np.zeros(a.shape)
        for a, b in zip(*ends, strict=True)
    ]


def dense(tangents: Sequence[Array | None], results: Sequence[Array]) -> list[Data]:
    """Tangents as data, zeros for None."""
    return [np.zeros(y.shape) if d is None else host(d) for d, y in zip(tangents, results, strict=True)]


def setup(row: Row, sample: Sample, seed: int) -> tuple[Function, list[Array], np.random.Generator]:
    active = row.active(sample)
    operands = sample.arrays(sample.draw(seed))
    function = restricted(sample, active, operands)
    return function, [operands[i] for i in active], np.random.default_rng(100 + seed)


@every_wide_case
def test_tangent_is_the_slope(case: Case) -> None:
    """By central differences, along all active operands together and along each alone."""
    row, sample = case
    with sample.settings():
        function, xs, rng = setup(row, sample, 0)
        vs = [direction(rng, x) for x in xs]
        choices = [set(range(len(xs)))] + ([{i} for i in range(len(xs))] if len(xs) > 1 else [])
        for chosen in choices:
            tangents = [v if i in chosen else None for i, v in enumerate(arrays(vs, xs))]
            results, moved = jvp(function, xs, tangents)
            for y, d in zip(results, moved, strict=True):
                assert d is None or (d.type.dtype, d.type.shape) == (y.type.dtype, y.type.shape)
            want = difference(function, xs, [v if i in chosen else 0 * v for i, v in enumerate(vs)])
            for got, w in zip(dense(moved, results), want, strict=True):
                assert_close(got, w, 2e-6, f"along {sorted(chosen)}")


SMOOTH = [(row, sample) for row, sample in WIDE if row.second]


@pytest.mark.parametrize("case", leave_repeats_to_deep_runs(SMOOTH))
def test_second_tangent_is_the_slope_of_the_first(case: Case) -> None:
    """The tangents' own operations have tangents."""
    row, sample = case
    with sample.settings():
        function, xs, rng = setup(row, sample, 1)
        vs = arrays([direction(rng, x) for x in xs], xs)

        def slope(points: list[Array]) -> list[Array]:
            results, moved = jvp(function, points, vs)
            return [d for y, d in zip(results, moved, strict=True) if d is not None]

        ws = [direction(rng, x) for x in xs]
        results, moved = jvp(slope, xs, arrays(ws, xs))
        for got, want in zip(dense(moved, results), difference(slope, xs, ws), strict=True):
            assert_close(got, want, 5e-6)


def pair(a: Sequence[Data], b: Sequence[Data]) -> float:
    """The pairing of cotangents and tangents: the real part of the sum of products, unconjugated."""
    return float(sum([np.real((x * y).sum()) for x, y in zip(a, b, strict=True)]))


def assert_adjoint(linear: LinearProgram, xs: list[Array], rng: np.random.Generator) -> None:
    """Compares <ct, J t> with <J^T ct, t>."""
    check_program(linear.program)
    types = linear.program.out_types
    tangents = [direction(rng, x) for x in xs]
    cts = [on_device(direction(rng, Fake(t)), t) for t in types]  # type: ignore[arg-type]  # a type is all it needs
    pushed = run_program(linear.program, [*linear.residuals, *arrays(tangents, xs)])
    pulled = backward_pass(linear.program, linear.residuals, cts)
    for x, ct in zip(xs, pulled, strict=True):
        assert ct is None or ct.type.matches(x.type)
    left = pair([host(ct) for ct in cts], [host(y) for y in pushed])
    right = pair(dense(pulled, xs), [host(t) for t in arrays(tangents, xs)])
    size = max(1.0, abs(left), *[float(np.abs(host(y)).sum()) for y in pushed])
    assert abs(left - right) <= 1e-9 * size, (left, right)
    for keep in range(len(types)) if len(types) > 1 else ():
        only = [ct if i == keep else None for i, ct in enumerate(cts)]
        left = pair([host(cts[keep])], [host(pushed[keep])])
        right = pair(
            dense(backward_pass(linear.program, linear.residuals, only), xs),
            [host(t) for t in arrays(tangents, xs)],
        )
        assert abs(left - right) <= 1e-9 * size, (keep, left, right)


class Fake:
    """Something with the type of an array."""

    def __init__(self, type: object) -> None:
        self.type = type
        self.shape = type.shape  # type: ignore[attr-defined]  # an ArrayType


@every_wide_case
def test_transpose_is_the_adjoint_of_the_tangent(case: Case) -> None:
    """Of the recorded linear program, for all active operands and for each alone."""
    row, sample = case
    with sample.settings():
        function, xs, rng = setup(row, sample, 2)
        results, linear, _ = linearize(function, xs, [True] * len(xs))
        for y, want in zip(results, function(xs), strict=True):
            assert_close(host(y), host(want), 1e-12)
        assert_adjoint(linear, xs, rng)
        for i in range(len(xs)) if len(xs) > 1 else ():
            _, linear, _ = linearize(function, xs, [j == i for j in range(len(xs))])
            assert_adjoint(linear, [xs[i]], rng)


LINEAR = [
    pytest.param(row, sample, kept, id=f"{name((row, sample))} in {group}")
    for row, sample in CASES
    for group in row.linear
    if all(x.dtype in (f64, c128) for x in [*sample.types, *sample.inferred()] if x.kind in "fc")
    and (kept := [i for i in group or range(len(sample.types)) if sample.types[i].kind in "fc"])
    and all(x.kind in "fc" for x in sample.inferred()[:1])
]


@pytest.mark.parametrize(("row", "sample", "group"), LINEAR)
def test_linear_operands_transpose(row: Row, sample: Sample, group: list[int]) -> None:
    """The operation itself, recorded as linear in some operands."""
    with sample.settings():
        operands = sample.arrays(sample.draw(3))
        xs = [operands[i] for i in group]
        function = restricted(sample, group, operands)
        linear, _ = record_linear(
            lambda ys: [y for y in function(ys) if y.type.kind in "fc"], [Var(x.type) for x in xs]
        )
        assert_adjoint(linear, xs, np.random.default_rng(4))


NARROW = [
    next(
        (
            (row, s)
            for s in row.samples
            if row.active(s) and s not in [w for _, w in WIDE] and s.types[0].shape
        ),
        None,
    )
    for row in {id(row): row for row, _ in WIDE}.values()
]


@pytest.mark.parametrize("case", [c for c in NARROW if c is not None], ids=name)
def test_derivatives_keep_narrow_dtypes(case: Case) -> None:
    """Tangents and cotangents have the dtype of their primals, without the 64-bit flag."""
    row, sample = case
    with sample.settings():
        function, xs, rng = setup(row, sample, 0)
        results, moved = jvp(function, xs, arrays([direction(rng, x) for x in xs], xs))
        for y, d in zip(results, moved, strict=True):
            assert d is None or d.type.matches(y.type)
        _, linear, _ = linearize(function, xs, [True] * len(xs))
        cts = [on_device(np.ones(t.shape), t) for t in linear.program.out_types]
        for x, ct in zip(xs, backward_pass(linear.program, linear.residuals, cts), strict=True):
            assert ct is None or ct.type.matches(x.type)
