"""Integrals and functions related to them in effx.scipy.special give what SciPy gives, in both precisions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import attrs
import numpy as np
import pytest
from scipy import special as scipy

import effx
from effx.errors import DTypeError, ShapeError
from effx.scipy import special

RNG = np.random.default_rng(0)
ABOVE = np.concatenate([10.0 ** np.linspace(-6, 2.5, 60), [0.9, 1.0, 1.1, 2.4, 2.6, 5.0, 6.0, 8.0, 12.0]])
BOTH = np.concatenate([ABOVE, -ABOVE, [0.0, np.nan]])
ENDS = np.array([0.0, np.inf, -np.inf, np.nan, -1.0])
TALL, WIDE = RNG.uniform(-6, 6, 60), 10.0 ** RNG.uniform(-3, 3, 60) * RNG.choice([-1, 1], 60)
PLANE = 10.0 ** RNG.uniform(-3, 2, 80) * np.exp(1j * RNG.uniform(0, np.pi, 80))
ORDERS = RNG.integers(0, 30, len(ABOVE)).astype("f8")


@attrs.frozen
class Row:
    """A function of floats.

    Attributes:
        name: of the function.
        operands: points.
        exact: relative errors in float64 and float32.
        part: which of several results.
        mixed: whether errors are absolute where values are small.
        slope: the derivative in the last operand, given all operands.
    """

    name: str
    operands: tuple[np.ndarray, ...]
    exact: tuple[float, float]
    slope: Callable[..., np.ndarray]
    part: int | None = None
    mixed: bool = False

    def of(self, module: object, *xs: object) -> effx.Array:
        found = getattr(module, self.name)(*xs)
        chosen: effx.Array = found if self.part is None else found[self.part]
        return chosen


ROWS = [
    Row("exp1", (np.concatenate([ABOVE, ENDS]),), (2e-14, 2e-6), lambda x: -np.exp(-x) / x),
    Row("expi", (np.concatenate([BOTH, ENDS]),), (3e-14, 2e-6), lambda x: np.exp(x) / x, mixed=True),
    Row(
        "expn",
        (
            np.concatenate([ORDERS, [0.0, 1.0, 3.0, 2.0, 2.0]]),
            np.concatenate([ABOVE, [0.0, 0.0, 0.0, -1.0, np.nan]]),
        ),
        (1e-13, 3e-5),
        lambda n, x: np.where(n > 0, -scipy.expn(np.maximum(n - 1, 0), x), -np.exp(-x) / x * (1 + 1 / x)),
    ),
    Row("sici", (np.concatenate([BOTH, ENDS]),), (2e-14, 1e-6), lambda x: np.sinc(x / np.pi), 0),
    Row("sici", (np.concatenate([BOTH, ENDS]),), (2e-14, 1e-6), lambda x: np.cos(x) / x, 1, True),
    Row(
        "fresnel", (np.concatenate([BOTH, ENDS]),), (1e-14, 3e-5), lambda x: np.sin(x * x % 4 * np.pi / 2), 0
    ),
    Row(
        "fresnel", (np.concatenate([BOTH, ENDS]),), (1e-14, 3e-5), lambda x: np.cos(x * x % 4 * np.pi / 2), 1
    ),
    Row(
        "dawsn",
        (np.concatenate([BOTH, ENDS[:1]]),),
        (2e-14, 1e-6),
        lambda x: 1 - 2 * x * scipy.dawsn(x),
        mixed=True,
    ),
    Row(
        "spence",
        (np.concatenate([ABOVE, [0.0, -1.0, np.nan]]),),
        (3e-15, 1e-6),
        lambda x: np.where(x == 1, -1.0, np.log(x) / (1 - np.where(x == 1, 0, x))),
        mixed=True,
    ),
    Row(
        "owens_t",
        (np.concatenate([TALL, [np.inf, 0.0, 1.0]]), np.concatenate([WIDE, [1.0, np.inf, np.nan]])),
        (3e-13, 3e-5),
        lambda h, a: np.exp(-h * h * (1 + a * a) / 2) / (1 + a * a) / (2 * np.pi),
    ),
    Row(
        "erfcx",
        (np.concatenate([ABOVE, -ABOVE[ABOVE < 5], ENDS]),),
        (1e-14, 4e-6),
        lambda x: np.where(x < 30, 2 * x * scipy.erfcx(x) - 2 / np.sqrt(np.pi), np.nan),
    ),
    Row(
        "log_ndtr",
        (np.concatenate([BOTH, ENDS]),),
        (1e-14, 1e-5),
        lambda x: np.exp(-x * x / 2 - scipy.log_ndtr(x)) / np.sqrt(2 * np.pi),
    ),
    Row(
        "erfcinv",
        (np.concatenate([10.0 ** np.arange(-30, 0), [0.5, 1.9, 0.0, 2.0, 3.0, np.nan]]),),
        (1e-14, 1e-6),
        lambda y: -np.exp(scipy.erfcinv(y) ** 2) * np.sqrt(np.pi) / 2,
    ),
]


def distance(got: effx.Array, want: np.ndarray, mixed: bool) -> np.ndarray:
    """The relative error, of infinite and undefined values 0 where they are the same."""
    value = np.asarray(got, want.dtype)
    size = np.where(mixed, np.maximum(np.abs(want), 1), np.abs(want))
    same = (value == want) | (np.isnan(value) & np.isnan(want))
    return np.where(same, 0.0, np.abs(value - want) / size)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name + str(row.part or ""))
def test_values_and_derivatives(row: Row, dtype: str) -> None:
    """Values, and in float64 jit of vmap of derivatives, where neither overflows nor underflows."""
    operands = [x.astype(dtype) for x in row.operands]
    wide = [x.astype("f8") for x in operands]
    given = [x.astype(int) if row.name == "expn" and i == 0 else x for i, x in enumerate(wide)]
    want = np.asarray(row.of(scipy, *given))
    known = np.abs(want) < (1e300 if dtype == "f8" else 1e37)
    known &= (np.abs(want) > (1e-290 if dtype == "f8" else 1e-36)) | (want == 0)
    known |= ~np.isfinite(want)
    last = len(operands) - 1
    with effx.enable_x64(dtype == "f8"):
        got = row.of(special, *operands)
        assert got.dtype == np.dtype(dtype)
        error = np.where(known, distance(got, want, row.mixed), 0.0)
        assert error.max() <= row.exact[dtype == "f4"], [x[int(np.argmax(error))] for x in wide]
        if dtype == "f8":
            compiled = effx.jit(effx.vmap(effx.value_and_grad(lambda *xs: row.of(special, *xs), last)))
            value, slope = compiled(*[effx.numpy.asarray(x) for x in operands])
            np.testing.assert_allclose(value, got, rtol=1e-13, atol=1e-300)
            exact = np.asarray(row.slope(*wide))
            inner = np.isfinite(exact) & np.isfinite(want) & (np.abs(exact) > 1e-290)
            bad = inner & ~(np.abs(np.asarray(slope) - exact) <= 1e-10 * np.abs(exact) + 1e-11)
            assert not bad.any(), ([x[bad] for x in wide], slope[bad], exact[bad])


def test_faddeeva() -> None:
    """In all of the plane; its derivative is complex."""
    for dtype, exact in (("c16", 2e-14), ("c8", 2e-6)):
        z = np.concatenate([PLANE, np.conj(PLANE[np.abs(PLANE) < 3]), [0.0]]).astype(dtype)
        want = scipy.wofz(z.astype("c16"))
        with effx.enable_x64(dtype == "c16"):
            got = special.wofz(z)
            assert got.dtype == np.dtype(dtype)
            assert (np.abs(np.asarray(got) - want) <= exact * np.abs(want)).all()
            if dtype == "c16":
                slope = effx.jit(effx.vmap(effx.grad(special.wofz, holomorphic=True)))(effx.numpy.asarray(z))
                exactly = -2 * z * want + 2j / np.sqrt(np.pi)
                np.testing.assert_allclose(slope, exactly, rtol=1e-9, atol=1e-9)
    assert special.wofz(np.ones(2, "f4")).dtype == np.complex64


def test_bessel_functions() -> None:
    """With derivatives of the first and second order, of small and negative arguments too."""
    x = np.array([-22.0, -3.0, 0.0, 1e-5, 9e-4, 2e-3, 0.5, 7.0, 22.0])
    orders = np.arange(4)[:, None]
    for dtype, exact in (("f8", 5e-14), ("f4", 1e-6)):
        with effx.enable_x64(dtype == "f8"):
            given = x.astype(dtype)
            got = special.bessel_jn(given, v=3)
            np.testing.assert_allclose(got, scipy.jv(orders, given.astype("f8")), rtol=0, atol=exact)
    with effx.enable_x64(True):
        np.testing.assert_allclose(special.bessel_jn(40.0, v=0, n_iter=100), scipy.jv([0], 40.0), rtol=1e-12)
        function = effx.jacfwd(lambda z: special.bessel_jn(z, v=3))
        points = effx.numpy.asarray(x)
        found = effx.jit(effx.vmap(function))(points)
        np.testing.assert_allclose(found, scipy.jvp(orders.T, x[:, None]), atol=1e-12)
        found = effx.vmap(effx.jacrev(function))(points)
        np.testing.assert_allclose(found, scipy.jvp(orders.T, x[:, None], 2), atol=1e-12)


def test_bernoulli_numbers() -> None:
    for n in (0, 1, 2, 31):
        with effx.enable_x64(True):
            want = scipy.bernoulli(max(n, 2))[: n + 1]
            np.testing.assert_allclose(special.bernoulli(n), want, rtol=1e-11)  # SciPy's are not exact
    np.testing.assert_array_equal(special.bernoulli(262)[-5:], [np.inf, 0, -np.inf, 0, np.inf])


def test_second_derivatives() -> None:
    """Are finite and right where the first ones are written with differences."""
    cases: list[tuple[Callable[[effx.Array], effx.Array], float, float]] = [
        (special.dawsn, 30.0, 3.7161e-05),
        (special.spence, 1.0, 0.5),
        (special.log_ndtr, 50.0, 0.0),
        (special.log_ndtr, -50.0, -0.99960096),
        (lambda x: special.expn(2, x), 1.0, np.exp(-1.0)),
        (lambda x: special.expn(0, x), 1.0, 5 * np.exp(-1.0)),
    ]
    with effx.enable_x64(True):
        for function, x, want in cases:
            np.testing.assert_allclose(
                effx.grad(effx.grad(function))(effx.numpy.asarray(x)), want, rtol=1e-4, atol=1e-12
            )


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    *[
        (partial(getattr(special, name), 1j), DTypeError, f"{name}: expected real numbers, got c64[]~")
        for name in ("exp1", "expi", "sici", "fresnel", "dawsn", "spence", "erfcinv", "log_ndtr")
    ],
    (lambda: special.expn(1, 1j), DTypeError, "expn: expected real numbers, got c64[]~"),
    (lambda: special.owens_t(1j, 1.0), DTypeError, "owens_t: expected real numbers, got c64[]~"),
    (lambda: special.bernoulli(-1), ShapeError, "bernoulli: n must be an int >= 0, got -1"),
    (
        lambda: special.bessel_jn(1.0, v=-1),
        ShapeError,
        "bessel_jn: v must be an int >= 0 and n_iter one >= 1, got -1 and 50",
    ),
    (
        lambda: special.log_ndtr(1.0, 31),
        ShapeError,
        "log_ndtr: series_order must be an int between 0 and 30, got 31",
    ),
    (
        lambda: special.wofz([1.0]),  # type: ignore[arg-type]
        DTypeError,
        "wofz: expected an array or a number, got a list; lists are converted only by array and asarray",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_refused(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text) + r"(\n|$)"):
        call()


def test_dtypes_and_shapes() -> None:
    """16-bit floats are computed in 32 bits, numbers become floats of full type, and operands broadcast."""
    half = np.array([0.5, 2.0], np.float16)
    assert special.exp1(half).dtype == np.float16
    np.testing.assert_array_equal(
        special.dawsn(half), np.asarray(special.dawsn(half.astype("f4"))).astype("f2")
    )
    assert repr(special.expi(2).type) == "f32[]"
    assert repr(special.wofz(2.0).type) == "c64[]"
    assert special.expn(np.arange(3)[:, None], np.ones(2, "f4")).shape == (3, 2)
    assert special.owens_t(np.ones((0, 1), "f4"), np.ones(3, "f4")).shape == (0, 3)
    assert special.bessel_jn(np.ones((2, 3), "f4"), v=1).shape == (2, 2, 3)
