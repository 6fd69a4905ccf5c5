"""logsumexp, softmax and log_softmax against scipy.special, and at the edges of the number line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import effx
from effx import nn
from effx.array import Array
from effx.errors import EffxError, ShapeError

DATA: Any = np.random.default_rng(0).normal(size=(3, 4, 5)) * 3
MASK = DATA > -2
AXES = [-1, 0, 1, (0, 2), None]
INF = np.inf


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 1e-5), ("bfloat16", 4e-2)])
@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_values(name: str, dtype: str, rtol: float, axis: int | tuple[int, ...] | None) -> None:
    with effx.enable_x64(True):
        x = DATA.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        found = getattr(nn, name)(x, axis=axis)
    assert found.dtype == x.dtype
    want = getattr(special, name)(x.astype(np.float64), axis=axis)
    np.testing.assert_allclose(np.asarray(found).astype(np.float64), want, rtol, rtol)


@pytest.mark.parametrize("axis", AXES)
def test_masks_leave_elements_out(axis: int | tuple[int, ...] | None) -> None:
    x = np.where(MASK, DATA, -INF)
    with effx.enable_x64(True):
        for name in ("logsumexp", "softmax", "log_softmax"):
            want = getattr(special, name)(x, axis=axis)
            # What is masked out may be anything.
            given: Any = np.where(MASK, DATA, np.nan)
            np.testing.assert_allclose(getattr(nn, name)(given, axis=axis, where=MASK), want, 1e-12)
            weights = np.where(np.isfinite(want), 1.5, 0)

            def total(x: Array, name: str = name, weights: Any = weights) -> Array:
                result: Array = (getattr(nn, name)(x, axis=axis, where=MASK) * weights).sum()
                return result

            ct = effx.grad(total)(given)
            assert np.isfinite(ct).all()
            assert (np.asarray(ct)[~MASK] == 0).all()


@pytest.mark.parametrize("keepdims", [False, True])
def test_factors_and_signs(keepdims: bool) -> None:
    b = np.random.default_rng(1).normal(size=(4, 1))
    with effx.enable_x64(True):
        log, sign = nn.logsumexp(DATA, axis=1, b=b, keepdims=keepdims, return_sign=True)
        want = special.logsumexp(DATA, axis=1, b=b, keepdims=keepdims, return_sign=True)
        np.testing.assert_allclose(log, want[0], 1e-12)
        np.testing.assert_array_equal(sign, want[1])
        np.testing.assert_allclose(
            nn.logsumexp(DATA, axis=1, b=np.abs(b)), special.logsumexp(DATA, axis=1, b=np.abs(b))
        )
        assert np.isnan(nn.logsumexp(np.array([0.0, 1.0]), b=np.array([1.0, -1.0])))
        assert float(nn.logsumexp(np.array([0.0, INF]), b=np.array([2.0, 0.0]))) == pytest.approx(np.log(2))


def test_complex_logsumexp() -> None:
    z = DATA[0] + 1j * DATA[1]
    with effx.enable_x64(True):
        np.testing.assert_allclose(np.exp(nn.logsumexp(z, axis=1)), np.exp(z).sum(1), 1e-12)


EDGES = [
    # elements, logsumexp, its derivative
    ([-INF, 0.0], 0.0, [0.0, 1.0]),
    ([-INF, -INF], -INF, [0.0, 0.0]),
    ([1e30, 0.0], 1e30, [1.0, 0.0]),
    ([-1e30, -1e30], -1e30, [0.5, 0.5]),
    ([3e38, 3e38], 3e38, [0.5, 0.5]),
    ([88.0, 88.0], 88.0 + np.log(2), [0.5, 0.5]),
    ([-104.0, -200.0], -104.0, [1.0, 0.0]),
]


@pytest.mark.parametrize(("x", "value", "derivative"), EDGES)
def test_edges_of_logsumexp(x: list[float], value: float, derivative: list[float]) -> None:
    data = np.array(x, np.float32)
    np.testing.assert_allclose(nn.logsumexp(data), value, rtol=1e-6)
    np.testing.assert_allclose(effx.grad(nn.logsumexp)(data), derivative, atol=1e-7)
    np.testing.assert_allclose(effx.jacfwd(nn.logsumexp)(data), derivative, atol=1e-7)


@pytest.mark.parametrize(("x", "value", "derivative"), [e for e in EDGES if e[0] != [-INF, -INF]])
def test_edges_of_softmax(x: list[float], value: float, derivative: list[float]) -> None:
    """The softmax is logsumexp's derivative, and its own is diag(s) - s s^T."""
    s, data = np.array(derivative), np.array(x, np.float32)
    np.testing.assert_allclose(nn.softmax(data), s, atol=1e-7)
    np.testing.assert_allclose(effx.jacobian(nn.softmax)(data), np.diag(s) - np.outer(s, s), atol=1e-7)
    np.testing.assert_allclose(effx.jacobian(nn.log_softmax)(data), np.eye(2) - s, atol=1e-7)


def test_no_distribution_where_all_is_impossible() -> None:
    assert np.isnan(nn.softmax(np.array([-INF, -INF]))).all()
    masked = nn.softmax(np.array([1.0, 2.0]), where=np.array([False, False]))
    assert masked.tolist() == [0.0, 0.0]


def test_infinity_has_no_share() -> None:
    """logsumexp is infinite with an infinite element, whose softmax is NaN."""
    for x in ([INF, 0.0], [INF, -INF], [INF, INF]):
        data = np.array(x)
        assert float(nn.logsumexp(data)) == INF
        assert np.isnan(nn.softmax(data)).all()
        assert np.isnan(nn.log_softmax(data)[0])


def test_nan_spreads() -> None:
    for f in (nn.softmax, nn.log_softmax, nn.logsumexp):
        assert np.isnan(f(np.array([np.nan, 0.0]))).all()


@pytest.mark.parametrize("shape", [(0,), (1,), (2, 0), (0, 2)])
@pytest.mark.parametrize("f", [nn.softmax, nn.log_softmax])
def test_small_shapes(f: Callable[..., Array], shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert f(x).shape == shape
    assert float(nn.logsumexp(np.float32(3.0))) == 3.0
    np.testing.assert_array_equal(
        nn.logsumexp(x, axis=-1), np.full(shape[:-1], np.log(shape[-1]) if shape[-1] else -INF)
    )


def test_transformations() -> None:
    x = DATA.astype(np.float32)
    for f in (nn.softmax, nn.log_softmax, lambda x: nn.logsumexp(x, axis=-1)):
        np.testing.assert_allclose(effx.jit(f)(x), f(x), rtol=1e-6)
        np.testing.assert_allclose(effx.vmap(f)(x), f(x), rtol=1e-6)
    columns = effx.vmap(effx.vmap(nn.softmax, 1, 1))(x)
    np.testing.assert_allclose(columns, nn.softmax(x, axis=1), rtol=1e-6)


def test_second_derivative_of_logsumexp() -> None:
    x = DATA[0, 0]
    with effx.enable_x64(True):
        s = special.softmax(x)
        np.testing.assert_allclose(effx.hessian(nn.logsumexp)(x), np.diag(s) - np.outer(s, s), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: nn.softmax(np.ones(2), axis=1),
            ShapeError,
            "softmax: axis 1 is out of range for the 1 axes of f32[2]",
        ),
        (
            lambda: nn.logsumexp(np.ones(2), axis=(0, 0)),
            ShapeError,
            "logsumexp: axes (0, 0) repeat an axis of f32[2]",
        ),
        (
            lambda: nn.log_softmax(np.ones(2), where=np.ones(3, bool)),
            ShapeError,
            "log_softmax: shapes do not fit: [2], [3] differ on axis -1: 2 and 3",
        ),
    ],
)
def test_errors(call: Callable[[], object], kind: type[EffxError], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message


def test_logmeanexp() -> None:
    """The logarithm of the mean of exponentials, of some elements too, without overflow."""
    x = np.array([[1.0, 2.0, 1000.0], [0.5, -3.0, 4.0]], np.float32)
    where = np.array([[True, True, False], [False, True, True]])
    for axis in (None, 0, 1, (0, 1)):
        count = x.size if axis in (None, (0, 1)) else x.shape[axis]  # type: ignore[index]  # an int
        want = special.logsumexp(x.astype(np.float64), axis) - np.log(count)
        np.testing.assert_allclose(np.asarray(nn.logmeanexp(x, axis)), want, rtol=1e-6)
    want = special.logsumexp(x.astype(np.float64), 1, b=where, keepdims=True) - np.log(2)
    found = nn.logmeanexp(x, 1, where=where, keepdims=True)
    np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5)


def test_log1mexp() -> None:
    """No digit is lost for small and for large numbers, and the slope is 1 / (exp(x) - 1)."""
    x = np.array([1e-6, 1e-3, 0.5, np.log(2), 0.7, 5.0, 50.0], np.float32)
    wide = x.astype(np.float64)
    want = np.where(wide < 0.7, np.log(-np.expm1(-wide)), np.log1p(-np.exp(-wide)))
    np.testing.assert_allclose(np.asarray(nn.log1mexp(x)), want, rtol=1e-5)
    slopes = effx.vmap(effx.grad(nn.log1mexp))(x)
    np.testing.assert_allclose(np.asarray(slopes), 1 / np.expm1(wide), rtol=1e-5)
    assert nn.log1mexp(0.0) == -np.inf
    assert np.isnan(float(nn.log1mexp(-1.0)))


@pytest.mark.parametrize("keepdims", [False, True])
def test_sign_of_a_complex_logsumexp(keepdims: bool) -> None:
    """The logarithm of the absolute value is real, the sign has the absolute value 1; as SciPy's."""
    z = DATA[0] + 1j * DATA[1]
    log, sign = nn.logsumexp(z.astype(np.complex64), axis=1, keepdims=keepdims, return_sign=True)
    want = special.logsumexp(z, axis=1, keepdims=keepdims, return_sign=True)
    assert log.dtype == np.float32
    assert sign.dtype == np.complex64
    np.testing.assert_allclose(log, want[0], 1e-5)
    np.testing.assert_allclose(sign, want[1], 1e-5)
