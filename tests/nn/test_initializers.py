"""Initializers draw with the variances that they promise; codes and standardized features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import nn, random
from effx.errors import DTypeError, EffxError, ShapeError
from effx.nn import initializers as init

KEY = random.PRNGKey(0)
SHAPE = (200, 100)


@pytest.mark.parametrize(
    ("initializer", "variance"),
    [
        (init.glorot_normal(), 2 / 300),
        (init.glorot_uniform(), 2 / 300),
        (init.xavier_normal(), 2 / 300),
        (init.xavier_uniform(), 2 / 300),
        (init.he_normal(), 2 / 200),
        (init.he_uniform(), 2 / 200),
        (init.kaiming_normal(), 2 / 200),
        (init.kaiming_uniform(), 2 / 200),
        (init.lecun_normal(), 1 / 200),
        (init.lecun_uniform(), 1 / 200),
        (init.variance_scaling(3.0, "fan_out", "normal"), 3 / 100),
        (init.variance_scaling(3.0, "fan_geo_avg", "uniform"), 3 / np.sqrt(20_000)),
        (init.normal(0.5), 0.25),
        (init.truncated_normal(0.5), 0.25 * 0.87962566103423978**2),
    ],
)
def test_variances(initializer: init.Initializer, variance: float) -> None:
    drawn = np.asarray(initializer(KEY, SHAPE))
    assert (drawn.shape, drawn.dtype) == (SHAPE, np.dtype(np.float32))
    assert drawn.var() == pytest.approx(variance, rel=0.04)
    assert abs(drawn.mean()) < 4 * np.sqrt(variance / drawn.size)


def test_receptive_fields_and_batches() -> None:
    """Inputs and outputs of a convolution count each position of the kernel; batch axes do not count."""
    he = init.he_normal(in_axis=2, out_axis=3, batch_axis=4)
    drawn = np.asarray(he(KEY, (3, 3, 20, 30, 10)))
    assert drawn.var() == pytest.approx(2 / (3 * 3 * 20), rel=0.04)
    several = init.lecun_normal(in_axis=(0, 1), out_axis=-1)
    assert np.asarray(several(KEY, (10, 20, 50))).var() == pytest.approx(1 / 200, rel=0.04)


def test_values_that_are_not_drawn() -> None:
    assert init.zeros(KEY, (2,)).tolist() == [0.0, 0.0]
    assert init.ones(KEY, (2,), "bfloat16").dtype.name == "bfloat16"
    assert init.ones(KEY, 2, int).tolist() == [1, 1]
    assert init.constant(np.array([1.0, 2.0]))(KEY, (2, 2)).tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert init.constant(3, "int8")(KEY, (1,)).dtype == np.int8
    assert not init.zeros(KEY, (2,)).weak_type


def test_dtypes() -> None:
    """The dtype of the call wins over that of the initializer, and that over the default."""
    assert init.uniform(dtype="float16")(KEY, (2,)).dtype == np.float16
    assert init.uniform(dtype="float16")(KEY, (2,), "float32").dtype == np.float32
    with effx.enable_x64(True):
        assert init.uniform()(KEY, (2,)).dtype == np.float64
    drawn = np.asarray(init.uniform(5.0)(KEY, (1000,)))
    assert 0 <= drawn.min() < drawn.max() < 5


@pytest.mark.parametrize("distribution", ["truncated_normal", "normal", "uniform"])
def test_complex_numbers(distribution: init.Distribution) -> None:
    """The draws are jax's, and of the variance asked for, within a circle but for normal ones."""
    jax = pytest.importorskip("jax")
    make = init.variance_scaling(3.0, "fan_in", distribution)
    theirs = jax.nn.initializers.variance_scaling(3.0, "fan_in", distribution)
    want = theirs(jax.random.PRNGKey(3), (3, 500), np.complex64)
    x = np.asarray(make(random.PRNGKey(3), (3, 500), np.complex64))
    assert x.dtype == np.complex64
    np.testing.assert_allclose(x, want, rtol=2e-5, atol=1e-6)
    assert abs(np.mean(np.abs(x) ** 2) - 1) < 0.08
    assert abs(np.mean(x)) < 0.08
    assert distribution == "normal" or np.abs(x).max() < 2.1


def test_no_inputs_draw_nothing() -> None:
    assert init.glorot_normal()(KEY, (0, 3)).shape == (0, 3)
    assert init.lecun_normal()(KEY, (0, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: init.glorot_normal()(KEY, (3,)),
            ShapeError,
            "variance_scaling: shape [3] has no axis of inputs and one of outputs; give in_axis and out_axis",
        ),
        (
            lambda: init.variance_scaling(1.0, "fan", "normal"),  # type: ignore[arg-type]
            ShapeError,
            "variance_scaling: mode must be fan_in, fan_out, fan_avg or fan_geo_avg, got 'fan'",
        ),
        (
            lambda: init.variance_scaling(1.0, "fan_in", "cauchy"),  # type: ignore[arg-type]
            ShapeError,
            "variance_scaling: distribution must be truncated_normal, normal or uniform, got 'cauchy'",
        ),
        (
            lambda: init.he_normal(in_axis=5)(KEY, (3, 4)),
            ShapeError,
            "variance_scaling: axis 5 is out of range for the 2 axes",
        ),
        (
            lambda: init.uniform()(KEY, (3,), int),
            DTypeError,
            "uniform: the dtype must be floating, got int32",
        ),
        (lambda: nn.one_hot(1j, 3), DTypeError, "one_hot: class numbers must be real, got c64[]~"),
        (lambda: nn.one_hot(1, -1), ShapeError, "one_hot: num_classes must not be negative, got -1"),
        (lambda: nn.one_hot(1, 3, axis=1), ShapeError, "one_hot: axis 1 is out of range for the 1 axes"),
    ],
)
def test_errors(call: Callable[[], object], kind: type[EffxError], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "float32", "bool"])
def test_one_hot(dtype: str, axis: int) -> None:
    x = np.array([[0, 1, 2], [1, 7, 0]]).astype(dtype)
    want = np.moveaxis((x[..., None] == np.arange(4)).astype(np.float32), -1, axis)
    np.testing.assert_array_equal(nn.one_hot(x, 4, axis=axis), want)


def test_one_hot_of_more_classes_than_the_dtype_counts() -> None:
    """Class 44 is not class 300 = 44 + 256."""
    code = np.asarray(nn.one_hot(np.uint8(44), 301))
    assert code.sum() == code[44] == 1
    assert nn.one_hot(np.array([-1, 3]), 3).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert nn.one_hot(2, 3, dtype=bool).tolist() == [False, False, True]


@pytest.mark.parametrize("axis", [-1, 0, (0, 1), None])
def test_standardize(axis: int | tuple[int, ...] | None) -> None:
    x = np.random.default_rng(0).normal(3.0, 2.0, (4, 5))
    with effx.enable_x64(True):
        want = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)
        np.testing.assert_allclose(nn.standardize(x, axis), want, 1e-12)
        mask = x > 1
        m = x.mean(axis, keepdims=True, where=mask)
        v = x.var(axis, keepdims=True, where=mask)
        np.testing.assert_allclose(nn.standardize(x, axis, where=mask), (x - m) / np.sqrt(v + 1e-5), 1e-10)
        np.testing.assert_allclose(nn.standardize(x, axis, 1.0, 4.0, 0.0), (x - 1) / 2, 1e-12)


def test_algorithms_of_standardize() -> None:
    """Both are the formula; another is refused."""
    x = np.random.default_rng(1).normal(size=(3, 6)).astype(np.complex64) * (1 + 2j) + 100
    want = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    for name in ("fast", "stable"):
        np.testing.assert_allclose(nn.standardize(x, algorithm=name), want, 1e-4, 1e-4)
    given = nn.standardize(x.real, mean=np.float32(1), algorithm="stable")
    centred = x.real - 1
    np.testing.assert_allclose(given, centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5), 1e-4)
    with pytest.raises(DTypeError) as raised:
        nn.standardize(x, algorithm="slow")  # type: ignore[arg-type]
    assert str(raised.value).startswith("standardize: algorithm must be 'fast' or 'stable', got 'slow'")


def test_standardize_keeps_digits_far_from_zero() -> None:
    """The two-pass variance of large f32 numbers is right, where E[x^2] - E[x]^2 is 0 or negative."""
    x = np.array([10_000.0, 10_001.0, 10_002.0], np.float32)
    np.testing.assert_allclose(
        nn.standardize(x, epsilon=0.0), np.array([-1, 0, 1]) * np.sqrt(1.5), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (3, 2, 2), (4, 1, 3, 2)])
@pytest.mark.parametrize("axis", [-1, 0])
def test_orthogonal(shape: tuple[int, ...], axis: int) -> None:
    """Rows or columns are orthonormal, whichever are fewer, times the scale."""
    x = np.asarray(init.orthogonal(2.0, axis)(random.PRNGKey(1), shape))
    matrix = np.moveaxis(x, axis, -1).reshape(-1, shape[axis]) / 2
    small = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-5)


@pytest.mark.parametrize("window", [(3,), (2, 3), (1, 2, 4)])
def test_delta_orthogonal(window: tuple[int, ...]) -> None:
    """The middle of the window is orthonormal, and all else is 0."""
    x = np.array(init.delta_orthogonal()(random.PRNGKey(1), (*window, 2, 3)))
    middle = tuple([(n - 1) // 2 for n in window])
    np.testing.assert_allclose(x[middle] @ x[middle].T, np.eye(2), atol=1e-5)
    x[middle] = 0
    assert not x.any()


def test_orthogonal_refuses_shapes() -> None:
    """A vector has no rows and columns; a convolution has a window and enough outputs."""
    with pytest.raises(ShapeError, match=r"orthogonal: weights must have at least 2 axes, got shape \[3\]"):
        init.orthogonal()(random.PRNGKey(0), (3,))
    with pytest.raises(ShapeError, match=r"delta_orthogonal: weights must be \[\*window, inputs, outputs\]"):
        init.delta_orthogonal()(random.PRNGKey(0), (3, 3, 2))


@pytest.mark.parametrize("algorithm", ["fast", "stable"])
@pytest.mark.parametrize("axis", [-1, 0, (0, 2), None])
def test_derivatives_of_standardize(axis: int | tuple[int, ...] | None, algorithm: Any) -> None:
    """By x and by epsilon, forwards, backwards and twice: finite differences of the formula in float64."""
    rng = np.random.default_rng(0)
    x, dx, ct = (rng.normal(size=(3, 4, 5)) for _ in range(3))

    def formula(x: Any, epsilon: Any) -> Any:
        return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + epsilon)

    def f(x: Any, epsilon: Any) -> Any:
        return nn.standardize(x, axis, epsilon=epsilon, algorithm=algorithm)

    with effx.enable_x64(True):
        h = 1e-6
        along = (formula(x + h * dx, 0.1 + h) - formula(x - h * dx, 0.1 - h)) / (2 * h)
        y, tangent = effx.jit(lambda x, d: effx.jvp(f, (x, 0.1), (d, 1.0)))(x, dx)
        np.testing.assert_allclose(y, formula(x, 0.1), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(tangent, along, rtol=1e-6, atol=1e-8)
        of_x, of_epsilon = effx.jit(lambda x, c: effx.vjp(f, x, 0.1)[1](c))(x, ct)
        np.testing.assert_allclose((of_x * dx).sum() + of_epsilon, (ct * along).sum(), rtol=1e-6)
        mapped = effx.vmap(lambda x, c: effx.vjp(f, x, 0.1)[1](c)[0])(np.stack([x, dx]), np.stack([ct, ct]))
        np.testing.assert_allclose(mapped[0], of_x, rtol=1e-9, atol=1e-12)

        def gradient(x: Any) -> Any:
            return effx.grad(lambda x: (f(x, 0.1) ** 3 * ct).sum())(x)

        twice = effx.jit(lambda x, d: effx.jvp(gradient, (x,), (d,))[1])(x, dx)
        differences = (gradient(x + h * dx) - gradient(x - h * dx)) / (2 * h)
        np.testing.assert_allclose(twice, differences, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 1e-5), (np.float16, 2e-2), ("bfloat16", 0.2)])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_cotangents_of_standardize_far_from_zero(offset: float, dtype: Any, bound: float) -> None:
    """With the digits that elements leave; rows of equal elements have finite cotangents."""
    rng = np.random.default_rng(0)
    x = enp.asarray(rng.normal(size=(50, 64)) + offset, dtype)
    ct = enp.asarray(rng.normal(size=(50, 64)), dtype)
    wide, c = np.asarray(x).astype(np.float64), np.asarray(ct).astype(np.float64)
    r = 1 / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    z = (wide - wide.mean(-1, keepdims=True)) * r
    want = r * (c - c.mean(-1, keepdims=True) - z * (c * z).mean(-1, keepdims=True))
    got = effx.jit(lambda x, c: effx.vjp(nn.standardize, x)[1](c)[0])(x, ct)
    assert got.dtype == x.dtype
    assert np.abs(np.asarray(got).astype(np.float64) - want).max() < bound
    flat = effx.vjp(nn.standardize, enp.full((2, 64), offset, dtype))[1](ct[:2])[0]
    assert np.isfinite(np.asarray(flat).astype(np.float64)).all()
