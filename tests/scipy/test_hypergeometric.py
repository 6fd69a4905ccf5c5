"""Hypergeometric functions are SciPy's, with derivatives in all operands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special as scipy

import effx
from effx.errors import DTypeError
from effx.scipy import special

RNG = np.random.default_rng(1)
SIZE = 300
SIGNS = RNG.choice([-1.0, 1.0], SIZE)
ROWS: list[tuple[str, list[np.ndarray]]] = [
    (
        "hyp1f1",
        [RNG.uniform(-4, 9, SIZE), RNG.uniform(-4, 9, SIZE), SIGNS * 10 ** RNG.uniform(-2, 2.3, SIZE)],
    ),
    (
        "hyp2f1",
        [
            *RNG.uniform(-4, 6, (3, SIZE)),
            np.concatenate(
                [
                    RNG.uniform(-1, 1, SIZE // 3),
                    1 - 10 ** RNG.uniform(-9, 0, SIZE // 3),
                    -(10 ** RNG.uniform(-1, 3, SIZE // 3)),
                ]
            ),
        ],
    ),
]
INF, NAN = np.inf, np.nan
ENDS: list[tuple[str, np.ndarray]] = [
    (
        "hyp1f1",
        np.array(
            [(1, -2, 1), (-1, -2, 1), (NAN, 2, 1), (1, NAN, 1), (1, 2, NAN), (0, 2, 3), (2, 3, 0), (-3, 2, -5), (3, 3, -4)],
            float,
        ),
    ),
    (
        "hyp2f1",
        np.array(
            [
                (1, 1, -2, 0.5), (-1, 1, -2, 0.5), (1, 1, 2, 1.5), (-2, 1, 3, 1.5), (1, 1, 2, 1), (1, 2, 1.5, 1),
                (0.3, 0.5, 3, 1), (0, 0.5, 3, 0.5), (NAN, 0.5, 3, 0.5), (1, NAN, 3, 0.5), (1, 1, NAN, 0.5),
                (1, 1, 2, NAN), (1, -2, 1, 1), (1, 1, 2, 0), (-3, 2, 1.5, -7), (1, 0.5, 3, -1),
            ],
            float,
        ),
    ),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "operands"), ROWS)
def test_values(name: str, operands: list[np.ndarray]) -> None:
    """Of random operands; those whose parameters nearly cancel lose digits."""
    for dtype, usual, most in (("f8", 1e-12, 1e-9), ("f4", 2e-5, np.inf)):
        given = [x.astype(dtype) for x in operands]
        want = getattr(scipy, name)(*[x.astype("f8") for x in given])
        with effx.enable_x64(dtype == "f8"):
            got = getattr(special, name)(*given)
        assert got.dtype == np.dtype(dtype)
        known = (
            np.isfinite(want) & (np.abs(want) < (1e300 if dtype == "f8" else 1e30)) & (np.abs(want) > 1e-30)
        )
        error = (np.abs(np.asarray(got, "f8") - want) / np.abs(want))[known]
        assert np.quantile(error, 0.9) < usual
        assert not error.max() > most


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "rows"), ENDS)
def test_special_values(name: str, rows: np.ndarray) -> None:
    """Poles, polynomials, the ends of the domain, and NaN."""
    with effx.enable_x64(True):
        got = getattr(special, name)(*rows.T)
    np.testing.assert_allclose(got, getattr(scipy, name)(*rows.T), rtol=1e-12)


POINTS = {
    "hyp1f1": [(1.3, 2.4, 0.7), (-0.6, 1.9, -3.0), (2.5, 4.5, 12.0), (0.5, 1.5, -90.0), (-2.0, 1.5, 0.8)],
    "hyp2f1": [
        (1.3, 0.4, 2.7, 0.3),
        (-0.6, 1.9, 1.2, 0.97),
        (2.5, 0.7, 4.5, -8.0),
        (0.5, 1.5, 1.1, 0.6),
        (-2.0, 1.5, 1.2, 0.4),
    ],
}


@pytest.mark.parametrize("name", POINTS)
def test_derivatives(name: str) -> None:
    """In all operands against finite differences, compiled for a batch."""
    of, columns = getattr(scipy, name), np.array(POINTS[name]).T
    with effx.enable_x64(True):
        function = effx.value_and_grad(getattr(special, name), tuple(range(len(columns))))
        value, slopes = effx.jit(effx.vmap(function))(*[effx.numpy.asarray(x) for x in columns])
    np.testing.assert_allclose(value, of(*columns), rtol=1e-12)
    for i, slope in enumerate(slopes):
        step = np.zeros_like(columns)
        step[i] = 1e-5
        between = (of(*columns + step) - of(*columns - step)) / 2e-5
        np.testing.assert_allclose(slope, between, rtol=1e-6, atol=1e-9)


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: special.hyp1f1(1.0, 2.0, 1j), r"hyp1f1: expected real numbers, got c64\[\]~"),
    (lambda: special.hyp2f1(1.0, 2.0, 1j, 0.5), r"hyp2f1: expected real numbers, got c64\[\]~"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_refused(call: Callable[[], object], text: str) -> None:
    with pytest.raises(DTypeError, match=text):
        call()


def test_shapes() -> None:
    a = np.ones((2, 1), "f4")
    assert special.hyp1f1(a, 2, np.zeros(3, "f2")).shape == (2, 3)
    assert special.hyp2f1(1, a, 2, np.zeros(3, "f2")).dtype == np.float32
    assert special.hyp1f1(np.float16(1), np.float16(2), np.zeros(0, "f2")).dtype == np.float16
