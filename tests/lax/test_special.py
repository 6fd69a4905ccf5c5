"""Special functions have SciPy's values, the right slopes, and limits at the ends of their domains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special as scipy

import effx
from effx import lax
from effx.array import Array
from effx.errors import DTypeError, ShapeError, TransformError

RNG = np.random.default_rng(3)
WIDE = np.concatenate([np.linspace(-40.3, 40.3, 200), np.logspace(-6, 6, 100)])
POSITIVE = np.logspace(-3, 4, 300)
SHAPES = 10 ** RNG.uniform(-2, 4, 300)
NEAR = SHAPES * 10 ** RNG.uniform(-0.5, 0.5, 300)
P, Q = 10 ** RNG.uniform(-1, 1.5, (2, 300))
UNIT = np.clip(RNG.beta(P, Q), 1e-4, 1 - 1e-4)

# Tolerances in f32 and f64: what rounding of the operands does is in them.
CASES: list[tuple[Callable[..., Array], Callable[..., object], tuple[np.ndarray, ...], float, float]] = [
    (lax.lgamma, scipy.gammaln, (WIDE,), 2e-4, 1e-10),
    (lax.digamma, scipy.digamma, (POSITIVE,), 2e-4, 1e-11),
    (lax.bessel_i0e, scipy.i0e, (WIDE,), 2e-6, 1e-14),
    (lax.bessel_i1e, scipy.i1e, (WIDE,), 2e-6, 1e-13),
    (lax.zeta, scipy.zeta, (1.3 + POSITIVE[:120], POSITIVE[120:240]), 1e-4, 1e-12),
    (lax.polygamma, scipy.polygamma, (RNG.integers(0, 5, 300).astype(float), 0.3 + POSITIVE), 1e-4, 1e-11),
    (lax.igamma, scipy.gammainc, (SHAPES, NEAR), 2e-3, 1e-10),
    (lax.igammac, scipy.gammaincc, (SHAPES, NEAR), 2e-3, 1e-10),
    (lax.betainc, scipy.betainc, (P, Q, UNIT), 2e-4, 1e-11),
]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__)
def test_values(
    case: tuple[Callable[..., Array], Callable[..., object], tuple[np.ndarray, ...], float, float], x64: bool
) -> None:
    function, want, operands, single, double = case
    with effx.enable_x64(x64):
        data = [x.astype(np.float64 if x64 else np.float32) for x in operands]
        got = np.asarray(function(*data))
    assert got.dtype == data[0].dtype
    expected = np.asarray(want(*[x.astype(np.float64) for x in data]))
    np.testing.assert_allclose(got, expected, rtol=double if x64 else single, atol=1e-300 if x64 else 1e-36)


INF, NAN = np.inf, np.nan
EDGES: list[tuple[Callable[..., Array], tuple[float, ...], float]] = [
    (lax.lgamma, (0.0,), INF),
    (lax.lgamma, (-2.0,), INF),
    (lax.lgamma, (INF,), INF),
    (lax.lgamma, (NAN,), NAN),
    (lax.digamma, (0.0,), -INF),
    (lax.digamma, (-3.0,), NAN),
    (lax.bessel_i0e, (INF,), 0.0),
    (lax.zeta, (1.0, 2.0), INF),
    (lax.igamma, (0.0, 0.0), NAN),
    (lax.igamma, (0.0, 1.0), 1.0),
    (lax.igamma, (1.0, 0.0), 0.0),
    (lax.igamma, (1.0, INF), 1.0),
    (lax.igamma, (INF, 1.0), 0.0),
    (lax.igamma, (INF, INF), NAN),
    (lax.igamma, (-1.0, 1.0), NAN),
    (lax.igamma, (1.0, -1.0), NAN),
    (lax.igammac, (0.0, 1.0), 0.0),
    (lax.igammac, (1.0, 0.0), 1.0),
    (lax.igammac, (1.0, INF), 0.0),
    (lax.igammac, (NAN, 1.0), NAN),
    (lax.betainc, (0.0, 1.0, 0.5), 1.0),
    (lax.betainc, (1.0, 0.0, 0.5), 0.0),
    (lax.betainc, (1.0, 2.0, 0.0), 0.0),
    (lax.betainc, (1.0, 2.0, 1.0), 1.0),
    (lax.betainc, (1.0, 2.0, 1.5), NAN),
    (lax.betainc, (0.0, 0.0, 0.5), NAN),
    (lax.betainc, (-1.0, 2.0, 0.5), NAN),
    (lax.betainc, (INF, 1.0, 0.5), 0.0),
]


@pytest.mark.parametrize(("function", "operands", "want"), EDGES)
def test_ends_of_the_domain(function: Callable[..., Array], operands: tuple[float, ...], want: float) -> None:
    np.testing.assert_array_equal(float(function(*operands)), want)


SLOPES: list[tuple[Callable[..., Array], Callable[..., float], tuple[float, ...], int]] = [
    (lax.bessel_i0e, scipy.i0e, (1.7,), 0),
    (lax.bessel_i1e, scipy.i1e, (-1.7,), 0),
    (lax.zeta, scipy.zeta, (2.5, 0.7), 0),
    (lax.zeta, scipy.zeta, (2.5, 0.7), 1),
    (lax.igamma, scipy.gammainc, (2.5, 1.7), 0),
    (lax.igamma, scipy.gammainc, (0.4, 3.7), 0),
    (lax.igammac, scipy.gammaincc, (30.5, 41.7), 0),
    (lax.igammac, scipy.gammaincc, (2.5, 1.7), 1),
    *[(lax.betainc, scipy.betainc, (1.5, 2.5, 0.3), i) for i in range(3)],
    *[(lax.betainc, scipy.betainc, (1.5, 2.5, 0.8), i) for i in range(3)],
]


@pytest.mark.parametrize(("function", "want", "operands", "by"), SLOPES)
def test_slopes(
    function: Callable[..., Array], want: Callable[..., float], operands: tuple[float, ...], by: int
) -> None:
    """Against a fourth-order difference of SciPy's values."""

    def at(h: float) -> float:
        return want(*[x + h * (i == by) for i, x in enumerate(operands)])

    h = 1e-3
    difference = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    with effx.enable_x64(True):
        np.testing.assert_allclose(effx.grad(function, by)(*operands), difference, rtol=1e-8)


@pytest.mark.parametrize("a", [9.9e5, 1.01e6, 1e8, 1e12])
def test_incomplete_gamma_functions_of_large_parameters(a: float) -> None:
    """On both sides of where the expansion begins; the slopes are those of SciPy's values."""
    x, h = a + np.array([-3.0, -1.0, 0.0, 0.5, 4.0]) * np.sqrt(a), 1e-3 * np.sqrt(a)
    slopes = (scipy.gammainc(a + h, x) - scipy.gammainc(a - h, x)) / (2 * h)
    with effx.enable_x64(True):
        np.testing.assert_allclose(lax.igamma(a, x), scipy.gammainc(a, x), rtol=1e-11)
        np.testing.assert_allclose(lax.igammac(a, x), scipy.gammaincc(a, x), rtol=1e-11)
        np.testing.assert_allclose(lax.igamma_grad_a(a, x), slopes, rtol=1e-5)
        density = -lax.igamma_grad_a(a, x) / lax.random_gamma_grad(a, x)
        np.testing.assert_allclose(
            density, np.exp((a - 1) * np.log(x) - x - scipy.gammaln(a)), rtol=a * 1e-14
        )
        np.testing.assert_array_equal(lax.igamma(a, np.array([a / 3, 3 * a])), [0.0, 1.0])
        np.testing.assert_array_equal(lax.igammac(a, np.array([a / 3, 3 * a])), [1.0, 0.0])
    wide = x.astype(np.float32)
    np.testing.assert_allclose(
        lax.igamma(np.float32(a), wide),
        scipy.gammainc(np.float64(np.float32(a)), wide.astype("f8")),
        rtol=2e-4,
    )


def test_slope_of_polygamma() -> None:
    """It is the next polygamma; the order itself has none."""
    np.testing.assert_allclose(effx.grad(lax.polygamma, 1)(1.0, 2.5), scipy.polygamma(2, 2.5), rtol=1e-5)
    np.testing.assert_allclose(effx.grad(effx.grad(lax.lgamma))(2.5), scipy.polygamma(1, 2.5), rtol=1e-5)
    with pytest.raises(TransformError) as caught:
        effx.grad(lax.polygamma)(1.0, 2.5)
    first = str(caught.value).splitlines()[0]
    assert first == "polygamma: the order m is a whole number, and has no derivative"


@pytest.mark.parametrize("a", [0.2, 2.5, 300.0])
def test_slope_of_gamma_samples(a: float) -> None:
    """The slope of the quantile function."""
    p = np.array([0.05, 0.5, 0.9])
    h = 1e-3 * a

    def quantile(v: float) -> np.ndarray:
        return np.asarray(scipy.gammaincinv(v, p))

    want = (8 * (quantile(a + h) - quantile(a - h)) - (quantile(a + 2 * h) - quantile(a - 2 * h))) / (12 * h)
    with effx.enable_x64(True):
        np.testing.assert_allclose(lax.random_gamma_grad(a, quantile(a)), want, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_mulhi(dtype: str) -> None:
    info = np.iinfo(dtype)
    with effx.enable_x64(True):
        x, y = RNG.integers(info.min, info.max, (2, 50), dtype, endpoint=True)
        x[:2], y[:2] = info.min, (info.min, info.max)
        got = np.asarray(lax.mulhi(x, y)).tolist()
    assert got == [(int(a) * int(b)) >> info.bits for a, b in zip(x, y, strict=True)]


def test_small_additions() -> None:
    assert float(lax.log2(8.0)) == 3.0
    np.testing.assert_allclose(lax.log2(np.complex64(2j)), np.log2(2j), rtol=1e-6)
    assert float(lax.reciprocal(4.0)) == 0.25
    assert float(lax.one_minus_square(0.5)) == 0.75
    assert lax.one_minus_square(np.array([3])).tolist() == [-8]


def test_errors() -> None:
    f = np.zeros(3, np.float32)
    with pytest.raises(DTypeError) as caught:
        lax.igamma(np.arange(3), np.arange(3))
    assert str(caught.value).splitlines()[0] == "igamma: operand must be floating, got i32[3]"
    with pytest.raises(ShapeError) as shapes:
        lax.betainc(f, f, f[:2])
    assert (
        str(shapes.value).splitlines()[0]
        == "betainc: operand shapes differ: f32[3], f32[3], f32[2]; only rank-0 operands broadcast"
    )
