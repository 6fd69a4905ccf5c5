"""effx.scipy.special gives what SciPy gives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special as scipy

import effx
from effx.scipy import special
from tests.scipy import test_special_integrals as integrals

LINE = np.array([-7.3, -2.5, -1.0, -0.4, 0.0, 1e-3, 0.3, 1.0, 2.0, 6.5, 40.0])
ABOVE = np.array([0.2, 0.9, 1.0, 2.5, 7.0, 30.0])
OTHER = np.array([1.3, 0.4, 2.0, 2.5, 11.0, 24.0])
UNIT = np.array([0.01, 0.2, 0.5, 0.7, 0.9, 0.99])
ENTROPY = np.array([0.0, 0.5, 2.0, -1.0, 1.0, np.nan]), np.array([0.0, 0.25, 0.0, 1.0, 1.0, 1.0])

ROWS: list[tuple[str, tuple[np.ndarray, ...]]] = [
    *[
        (name, (LINE,))
        for name in ("erf", "erfc", "expit", "gammaln", "i0", "i0e", "i1", "i1e", "ndtr", "gammasgn")
    ],
    ("gamma", (ABOVE,)),
    ("loggamma", (ABOVE,)),
    ("digamma", (ABOVE,)),
    ("zeta", (ABOVE + 1,)),
    ("erfinv", (UNIT,)),
    ("logit", (UNIT,)),
    ("ndtri", (UNIT,)),
    ("entr", (ENTROPY[0],)),
    *[(name, ENTROPY) for name in ("xlogy", "xlog1py", "rel_entr", "kl_div")],
    *[(name, (ABOVE, OTHER)) for name in ("beta", "betaln", "gammainc", "gammaincc", "poch")],
    ("polygamma", (np.array([0, 1, 2, 3, 1, 2]), ABOVE)),
    ("betainc", (ABOVE, OTHER, UNIT)),
    *[(name, (np.outer(LINE, UNIT),)) for name in ("logsumexp", "softmax", "log_softmax")],
    ("factorial", (np.array([0.0, 1.0, 3.0, 12.0, 2.5, -1.0]),)),
    ("comb", (np.array([5.0, 10.0, 3.0, 7.0, 30.0]), np.array([2.0, 0.0, 4.0, 7.0, 11.0]))),
    *[(name, (ABOVE, np.array([0.0, 1.0, -1.5, 0.5, 2.0, 0.3]))) for name in ("boxcox", "boxcox1p")],
]


def test_every_function_has_a_row() -> None:
    others = [row.name for row in integrals.ROWS]
    rest = ["bernoulli", "bessel_jn", "hyp1f1", "hyp2f1", "multigammaln", "sph_harm_y", "wofz"]
    assert sorted({*[name for name, _ in ROWS], *others, *rest}) == sorted(dir(special))


@pytest.mark.parametrize(("name", "operands"), ROWS)
def test_values(name: str, operands: tuple[np.ndarray, ...]) -> None:
    with np.errstate(all="ignore"):
        want = getattr(scipy, name)(*operands)
    with effx.enable_x64(True):
        got = getattr(special, name)(*operands)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_quantiles_of_the_normal_distribution(dtype: str) -> None:
    """In the tails too, with the slope: 1 / density, infinite at the ends."""
    p = np.concatenate(
        [10.0 ** np.arange(-37, 0), [0.07, 0.08, 0.3, 0.92, 0.93], 1 - 10.0 ** np.arange(-7, -1)]
    )
    p = p.astype(dtype)
    want = scipy.ndtri(p.astype("f8"))
    exact = 1e-14 if dtype == "f8" else 1e-6
    with effx.enable_x64(dtype == "f8"):
        np.testing.assert_allclose(special.ndtri(p), want, rtol=exact)
        slopes = effx.vmap(effx.grad(special.ndtri))(p)
        np.testing.assert_allclose(slopes, np.sqrt(2 * np.pi) * np.exp(want**2 / 2), rtol=300 * exact)
        ends = np.array([0, 1, -0.5, 2, np.nan], dtype)
        np.testing.assert_array_equal(special.ndtri(ends), [-np.inf, np.inf, np.nan, np.nan, np.nan])
        np.testing.assert_array_equal(effx.vmap(effx.grad(special.ndtri))(ends[:2]), [np.inf, np.inf])


def test_sums_along_axes() -> None:
    """softmax and its logarithm take an axis or several, multigammaln a dimension."""
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    with effx.enable_x64(True):
        for axis in (None, 0, (0, 2)):
            np.testing.assert_allclose(special.softmax(x, axis=axis), scipy.softmax(x, axis), rtol=1e-12)
            np.testing.assert_allclose(
                special.log_softmax(x, axis=axis), scipy.log_softmax(x, axis), rtol=1e-12
            )
        for d in (1, 3):
            want = [scipy.multigammaln(a, d) for a in ABOVE + 1]
            np.testing.assert_allclose(special.multigammaln(ABOVE + 1, d), want, rtol=1e-12)
        want = scipy.comb(np.arange(6), 3, repetition=True)
        np.testing.assert_allclose(special.comb(np.arange(6.0), 3, repetition=True), want, rtol=1e-12)


def test_refused() -> None:
    with pytest.raises(effx.errors.DTypeError, match="factorial: exact=True needs integers of any size"):
        special.factorial(3, exact=True)
    with pytest.raises(
        effx.errors.ShapeError, match="multigammaln: the dimension must be a positive int, got 0"
    ):
        special.multigammaln(2.0, 0)
