"""Activations against their formulas in f64, and their derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

import effx
from effx import nn
from effx.array import Array
from effx.errors import DTypeError, EffxError, ShapeError

Reals = npt.NDArray[np.float64]

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805

TABLE: list[tuple[Callable[..., Array], Callable[[Reals], Reals]]] = [
    (nn.relu, lambda x: np.maximum(x, 0)),
    (nn.relu6, lambda x: np.clip(x, 0, 6)),
    (nn.sigmoid, special.expit),
    (nn.silu, lambda x: x * special.expit(x)),
    (nn.swish, lambda x: x * special.expit(x)),
    (nn.softplus, lambda x: np.logaddexp(x, 0)),
    (nn.log_sigmoid, special.log_expit),
    (nn.soft_sign, lambda x: x / (1 + np.abs(x))),
    (nn.tanh, np.tanh),
    (nn.hard_tanh, lambda x: np.clip(x, -1, 1)),
    (nn.hard_sigmoid, lambda x: np.clip(x + 3, 0, 6) / 6),
    (nn.hard_silu, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    (nn.mish, lambda x: x * np.tanh(np.logaddexp(x, 0))),
    (nn.selu, lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0)))),
    (nn.elu, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    (nn.celu, lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)))),
    (nn.leaky_relu, lambda x: np.where(x >= 0, x, 0.01 * x)),
    (nn.gelu, lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    (lambda x: nn.gelu(x, approximate=False), lambda x: x * special.ndtr(x)),
    (nn.squareplus, lambda x: (x + np.sqrt(x * x + 4)) / 2),
    (nn.identity, lambda x: x),
    (nn.sparse_plus, lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4))),
    (nn.sparse_sigmoid, lambda x: np.clip((x + 1) / 2, 0, 1)),
]
IDS = [
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "swish",
    "softplus",
    "log_sigmoid",
    "soft_sign",
    "tanh",
    "hard_tanh",
    "hard_sigmoid",
    "hard_silu",
    "mish",
    "selu",
    "elu",
    "celu",
    "leaky_relu",
    "gelu",
    "gelu_erf",
    "squareplus",
    "identity",
    "sparse_plus",
    "sparse_sigmoid",
]
table = pytest.mark.parametrize(("f", "reference"), TABLE, ids=IDS)
POINTS = np.array([-50.0, -6.5, -3.7, -2.0, -1.2, -0.4, -1e-3, 1e-3, 0.3, 1.1, 2.5, 5.5, 6.7, 50.0])


@table
@pytest.mark.parametrize(
    ("dtype", "rtol"), [("float64", 1e-12), ("float32", 3e-6), ("float16", 4e-3), ("bfloat16", 3e-2)]
)
def test_values(
    f: Callable[..., Array], reference: Callable[[Reals], Reals], dtype: str, rtol: float
) -> None:
    with effx.enable_x64(True):
        x = POINTS.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        y = f(x)
    assert y.dtype == x.dtype
    np.testing.assert_allclose(
        np.asarray(y).astype(np.float64), reference(x.astype(np.float64)), rtol, rtol / 10
    )


@table
def test_derivatives(f: Callable[..., Array], reference: Callable[[Reals], Reals]) -> None:
    """Forward and reverse mode agree with central differences of the reference."""
    h = 1e-6
    want = (reference(POINTS + h) - reference(POINTS - h)) / (2 * h)
    with effx.enable_x64(True):
        np.testing.assert_allclose(effx.vmap(effx.grad(f))(POINTS), want, 1e-6, 1e-8)
        np.testing.assert_allclose(effx.jvp(f, (POINTS,), (np.ones_like(POINTS),))[1], want, 1e-6, 1e-8)


@table
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (2, 3)])
def test_shapes_and_transformations(
    f: Callable[..., Array], reference: Callable[[Reals], Reals], shape: tuple[int, ...]
) -> None:
    x = np.full(shape, 0.5, np.float32)
    np.testing.assert_allclose(f(x), reference(x.astype(np.float64)), rtol=1e-6)
    np.testing.assert_array_equal(effx.jit(f)(x), f(x))
    if shape:
        np.testing.assert_array_equal(effx.vmap(f)(x), f(x))


@pytest.mark.parametrize(
    ("f", "at", "derivative"),
    [
        (nn.relu, 0.0, 0.0),
        (nn.relu6, 0.0, 0.0),
        (nn.relu6, 6.0, 0.0),
        (nn.hard_tanh, 1.0, 1.0),
        (nn.leaky_relu, 0.0, 1.0),
        (nn.elu, 0.0, 1.0),
        (nn.softplus, 0.0, 0.5),
        (nn.log_sigmoid, 0.0, 0.5),
        (nn.gelu, 0.0, 0.5),
        (nn.soft_sign, 0.0, 1.0),
    ],
)
def test_derivatives_at_corners(f: Callable[..., Array], at: float, derivative: float) -> None:
    assert float(effx.grad(f)(at)) == pytest.approx(derivative)


@pytest.mark.parametrize(
    ("f", "low", "high"),
    [
        (nn.softplus, (0.0, 0.0), (np.inf, 1.0)),
        (nn.log_sigmoid, (-np.inf, 1.0), (0.0, 0.0)),
        (nn.relu, (0.0, 0.0), (np.inf, 1.0)),
        (nn.elu, (-1.0, 0.0), (np.inf, 1.0)),
        (nn.selu, (-SELU_ALPHA * SELU_SCALE, 0.0), (np.inf, SELU_SCALE)),
        (nn.sigmoid, (0.0, 0.0), (1.0, 0.0)),
    ],
)
def test_infinities(f: Callable[..., Array], low: tuple[float, float], high: tuple[float, float]) -> None:
    """Value and derivative at -inf and inf are their limits."""
    found = [(float(f(x)), float(effx.grad(f)(x))) for x in (-np.inf, np.inf)]
    np.testing.assert_allclose(found, [low, high], rtol=1e-6)


@pytest.mark.parametrize("f", [nn.gelu, nn.silu, nn.mish, nn.softplus, nn.elu])
def test_large_values_have_finite_derivatives(f: Callable[..., Array]) -> None:
    for x in (-1e30, 1e30):
        np.testing.assert_allclose(effx.grad(f)(x), float(x > 0), atol=1e-6)


def test_nan_stays() -> None:
    for f, _ in TABLE:
        assert np.isnan(f(np.float32(np.nan)))


def test_integers() -> None:
    """relu keeps integers; smooth functions convert them."""
    assert nn.relu(np.array([-1, 2])).tolist() == [0, 2]
    assert nn.relu(np.array([-1, 2])).dtype == np.int32
    assert nn.silu(np.array([0, 1])).dtype == np.float32


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_glu(axis: int) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    a, b = np.split(x, 2, axis)
    np.testing.assert_allclose(nn.glu(x, axis), a * special.expit(b), rtol=1e-6)


def test_slopes_broadcast() -> None:
    x = np.array([[-1.0], [2.0]], np.float32)
    slopes: Any = np.array([0.1, 0.2], np.float32)
    np.testing.assert_allclose(nn.leaky_relu(x, slopes), [[-0.1, -0.2], [2.0, 2.0]], rtol=1e-6)
    np.testing.assert_allclose(nn.elu(x, slopes)[0], slopes * np.expm1(-1), rtol=1e-6)
    np.testing.assert_allclose(nn.celu(x, slopes)[0], slopes * np.expm1(-1 / slopes), rtol=1e-5)
    np.testing.assert_allclose(
        effx.grad(lambda a: nn.celu(x, a).sum())(0.5), np.expm1(-2) + 2 * np.exp(-2), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: nn.glu(np.ones(3, np.float32)), ShapeError, "glu: axis 0 of f32[3] has the odd size 3"),
        (
            lambda: nn.glu(np.ones(4), axis=1),
            ShapeError,
            "glu: axis 1 is out of range for the 1 axes of f32[4]",
        ),
        (lambda: nn.sparse_plus(1j), DTypeError, "sparse_plus: takes real numbers, got c64[]~"),
        (
            lambda: nn.gelu(1j, approximate=False),
            DTypeError,
            "erfc: operand must be floating, got c64[]~",
        ),
    ],
)
def test_errors(call: Callable[[], object], kind: type[EffxError], message: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message


def complex_softmax(z: Any) -> Any:
    return np.exp(z) / np.exp(z).sum()


COMPLEX: dict[str, tuple[Callable[[Any], Array], Callable[[Any], Any]]] = {
    "softplus": (nn.softplus, lambda z: np.log(1 + np.exp(z))),
    "log_sigmoid": (nn.log_sigmoid, lambda z: -np.log(1 + np.exp(-z))),
    "soft_sign": (nn.soft_sign, lambda z: z / (1 + abs(z))),
    "mish": (nn.mish, lambda z: z * np.tanh(np.log(1 + np.exp(z)))),
    "gelu": (nn.gelu, lambda z: z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))) / 2),
    "log1mexp": (nn.log1mexp, lambda z: np.log(1 - np.exp(-z))),
    "softmax": (nn.softmax, complex_softmax),
    "log_softmax": (nn.log_softmax, lambda z: z - np.log(np.exp(z).sum())),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name: str) -> None:
    """Formulas of complex numbers hold, the logarithms' principal values too; so do derivatives along any direction."""
    function, formula = COMPLEX[name]
    rng = np.random.default_rng(4)
    z, dz = [rng.normal(size=(2, 6)).view(np.complex128) * 2 for _ in range(2)]
    z = np.concatenate([z.ravel(), [1 + 2j, -3 + 5j, 0.5 - 4j]])
    dz = np.concatenate([dz.ravel(), [1j, 1, -1 + 1j]])
    with effx.enable_x64():
        for call in (function, effx.jit(function)):
            y, dy = effx.jvp(call, (z,), (dz,))
            np.testing.assert_allclose(np.asarray(y), formula(z), rtol=1e-11)
            step = 1e-6
            want = (formula(z + step * dz) - formula(z - step * dz)) / (2 * step)
            np.testing.assert_allclose(np.asarray(dy), want, rtol=1e-6, atol=1e-7)
    assert function(z.astype(np.complex64)).dtype == np.complex64


def test_complex_numbers_far_away() -> None:
    """No exponential overflows, and none is lost beside 1."""
    far = np.array([200 + 1j, -200 + 1j, 0j], np.complex64)
    np.testing.assert_allclose(np.asarray(nn.softplus(far)), [200 + 1j, 0, np.log(2)], rtol=1e-6)
    small = np.asarray(nn.softplus(np.complex64(-30 + 1j)))
    np.testing.assert_allclose(small, np.exp(-30 + 1j), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(nn.softmax(far)), [1, 0, 0], atol=1e-7)
    assert nn.soft_sign(np.complex64(0)) == 0
    assert nn.softplus(np.complex64(np.inf)) == np.inf
    assert nn.softplus(np.complex64(-np.inf)) == 0
    np.testing.assert_allclose(np.asarray(nn.log1mexp(np.complex64(20))), -np.exp(-20.0), rtol=1e-5)
    assert effx.jvp(nn.soft_sign, (np.complex64(0),), (np.complex64(1j),))[1] == 1j
