"""Values at infinity, at zero and on branch points, against NumPy."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import DTypeError

inf, nan = np.inf, np.nan
Z = np.asarray([0j, complex(inf, nan), complex(nan, -inf), complex(-inf, 1), complex(3, 4)], np.complex64)
F = np.asarray([inf, -inf, 1, -1, nan, 0, 1, -1, 1, 7, -7], np.float32)
G = np.asarray([2, 2, 0, 0, 1, 0, inf, inf, -inf, -2, 2], np.float32)
I = np.asarray([5, -5, 0, 7, -7], np.int32)  # noqa: E741 - integers
BY = np.asarray([0, 0, 0, -2, 2], np.int32)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("abs", (Z,)),
        ("log10", (Z[:1],)),
        ("log2", (Z[:1],)),
        ("floor_divide", (F, G)),
        ("remainder", (F, G)),
        ("fmod", (F, G)),
        ("remainder", (I, BY)),
        ("remainder", (I.astype(np.uint8), BY.astype(np.uint8))),
        ("remainder", (I, np.int32(0))),
        ("remainder", (np.int32(5), BY)),
        ("fmod", (I, BY)),
    ],
)
def test_edges_against_numpy(name: str, operands: Any) -> None:
    """Eager and compiled, alone and over a batch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = getattr(np, name)(*operands)
    function = getattr(enp, name)
    for result in (function(*operands), effx.jit(function)(*operands)):
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-6)


def test_integers_divided_by_zero() -> None:
    """JAX's values: there is no exception to raise, and no infinity."""
    np.testing.assert_array_equal(enp.floor_divide(I[:3], BY[:3]), [-2, -2, -1])
    np.testing.assert_array_equal(
        enp.remainder(np.asarray([True, False]), np.asarray([False, False])), [0, 0]
    )


def test_slope_of_the_cube_root_at_zero() -> None:
    """It is infinite, as the limit is."""
    assert float(effx.grad(enp.cbrt)(0.0)) == inf
    np.testing.assert_allclose(effx.grad(enp.cbrt)(8.0), 1 / 12, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "bool"])
def test_integers_become_the_default_float(dtype: str) -> None:
    """rint and angle give NumPy's double precision for integers where that is enabled."""
    x = np.ones(2, dtype)
    with effx.enable_x64(True):
        assert enp.rint(x).dtype == enp.angle(x).dtype == np.float64
    assert enp.rint(x).dtype == enp.angle(x).dtype == np.float32


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sine_and_cosine_of_complex_numbers_at_infinity_and_on_the_axes(name: str, dtype: str) -> None:
    """As NumPy has them, with the signs of zeros; where the real part is infinite the signs are nobody's."""
    ends = [0.0, -0.0, 0.5, 1.0, -1.0, np.inf, -np.inf, 100.0, -100.0]
    z = np.array([complex(a, b) for a in ends if np.isfinite(a) for b in ends], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    with effx.enable_x64(dtype == "complex128"):
        got = np.asarray(getattr(enp, name)(z))
    rtol = 1e-5 if dtype == "complex64" else 1e-13
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(got, part), getattr(expected, part), rtol=rtol)
        np.testing.assert_array_equal(np.signbit(getattr(got, part)), np.signbit(getattr(expected, part)))


def test_logaddexp_of_complex_numbers() -> None:
    """The principal value of the logarithm of the sum, without overflow."""
    rng = np.random.default_rng(3)
    z, w = [(rng.normal(size=20) * 2 + 1j * rng.normal(size=20)).astype(np.complex64) for _ in range(2)]
    np.testing.assert_allclose(enp.logaddexp(z, w), np.log(np.exp(z) + np.exp(w)), rtol=2e-5)
    np.testing.assert_allclose(enp.logaddexp2(z, w), np.log(2.0**z + 2.0**w) / np.log(2.0), rtol=2e-5)
    np.testing.assert_allclose(
        enp.logaddexp(z + 200, w + 200), np.log(np.exp(z) + np.exp(w)) + 200, rtol=1e-5
    )
    with pytest.raises(DTypeError, match=r"^heaviside: takes real numbers only, got c64\[20\] and c64\[20\]"):
        enp.heaviside(z, w)


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_sinc_at_infinity(dtype: str) -> None:
    """It is the limit 0 there, where NumPy gives NaN, and so is its derivative; NaN stays NaN."""
    x = np.array([-inf, inf, nan], dtype)
    if dtype == "complex64":
        x = x + np.array([1.5j, 0, 0], dtype)
    np.testing.assert_array_equal(enp.sinc(x)[:2], np.zeros(2, dtype))
    assert np.isnan(np.asarray(enp.sinc(x)[2]))
    assert effx.jvp(enp.sinc, (x[:2],), (np.ones(2, dtype),))[1].tolist() == [0, 0]
    near = np.array([0, 0.25, 1.5, 100.25], dtype)
    np.testing.assert_allclose(
        enp.sinc(near), np.sinc(near.astype(complex)), rtol=5e-3 if dtype == "float16" else 1e-4, atol=1e-6
    )


@pytest.mark.parametrize("width", [1, 2, 20, 31, 32, 40, 1000])
@pytest.mark.parametrize("axis", [0, 1])
def test_argmax_of_rows_of_all_widths(width: int, axis: int) -> None:
    """The first extreme element is found among ties, infinities and NaN, whatever form the width gets on a CPU."""
    rng = np.random.default_rng(width)
    x = rng.integers(-2, 3, (100, width)).astype(np.float32)
    x[rng.random(x.shape) < 1 / width] = nan
    x[rng.random(x.shape) < 0.1] = -inf
    x[:4] = np.array([[-inf], [inf], [nan], [-0.0]])
    for function in ("argmax", "argmin", "nanargmax"):
        y = np.where(np.isnan(x), 0, x) if function == "nanargmax" else x
        y = y if axis else y.T
        wanted = getattr(np, function)(y, axis)
        np.testing.assert_array_equal(effx.jit(partial(getattr(enp, function), axis=axis))(y), wanted)
        np.testing.assert_array_equal(effx.jit(partial(getattr(enp, function), axis=axis))(y * 2), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp2_of_integers_is_exact(dtype: str) -> None:
    """Powers of 2 are exact over the whole range, infinite above it and 0 below; NaN stays NaN."""
    with effx.enable_x64():
        info = np.finfo(dtype)
        n = np.arange(info.minexp, info.maxexp).astype(dtype)
        exp2 = effx.jit(lambda v: enp.exp2(v))
        np.testing.assert_array_equal(exp2(n), np.ldexp(np.ones_like(n), n.astype(int)))
        edges = exp2(np.array([info.maxexp, inf, 1e30, -inf, -1e30, nan], dtype))
        np.testing.assert_array_equal(edges, np.array([inf, inf, inf, 0, 0, nan], dtype))
        x = np.linspace(info.minexp, info.maxexp - 1, 5001).astype(dtype)
        np.testing.assert_allclose(exp2(x), np.exp2(x.astype(float)), rtol=4 * float(info.eps))


def test_trapezoid_of_infinite_ends() -> None:
    """Ends count half, infinite ones too, and so do their derivatives."""
    for y in ([inf, 1, 2], [1, 2, -inf], [-inf, 1, inf], [nan, 1, 2], [1, 5], [3]):
        x = np.array(y, np.float32)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(enp.trapezoid(x, dx=2), np.trapezoid(x, dx=2))
    np.testing.assert_array_equal(effx.grad(enp.trapezoid)(np.array([inf, 1, 2], np.float32)), [0.5, 1, 0.5])


@pytest.mark.parametrize(
    "index", [[0, 3, 6], [9, 6, 3, 0], [-1, -2, -3], [-3, -2, -1], [-1, 0, 1], [1, 1], [5], [0, 2, 5], [3, 2]]
)
def test_known_indices_that_are_equally_far_apart(index: list[int]) -> None:
    """They read what any indices read, whether they go up, down or across 0; the gradient counts each reading."""
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    which = np.array(index)
    np.testing.assert_array_equal(effx.jit(lambda v: enp.take(v, which, 0))(x), x[which])
    np.testing.assert_array_equal(effx.jit(lambda v: v[:, None][which])(enp.asarray(x)), x[:, None][which])
    counts = np.zeros_like(x)
    np.add.at(counts, which, 1)
    np.testing.assert_array_equal(effx.grad(lambda v: enp.take(v, which, 0).sum())(x), counts)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "uint8", "int8", "bool"])
@pytest.mark.parametrize(("shape", "axis"), [((5000,), 0), ((100, 60), 1), ((100, 60), 0), ((30,), 0)])
def test_sorts_of_several_operands_are_stable(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    """Equal keys keep their order, zeros of both signs among them, NaN is last, and all operands are moved alike."""
    rng = np.random.default_rng(1)
    key = rng.integers(0, 2**32 if dtype == "uint32" else 40, shape).astype(dtype)
    if key.dtype.kind == "f":
        key[rng.random(shape) < 0.1] = nan
        key[rng.random(shape) < 0.1] = -inf
        key[rng.random(shape) < 0.1] = -0.0
        key[rng.random(shape) < 0.1] = -np.finfo(dtype).smallest_subnormal
        key[rng.random(shape) < 0.1] = 2 * np.finfo(dtype).smallest_subnormal
    others = rng.normal(size=shape).astype(np.float32), rng.integers(0, 9, shape).astype(np.int16)
    order = np.argsort(key, axis, kind="stable")
    operands: list[np.ndarray[Any, Any]] = [key, *others]
    results = effx.jit(lambda *v: effx.lax.sort(v, dimension=axis, num_keys=1))(*operands)
    for result, x in zip(results, operands, strict=True):
        np.testing.assert_array_equal(result, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (5, 3), (3, 5)])
def test_gradient_of_a_product_with_zeros(shape: tuple[int, ...]) -> None:
    """It is the product of the other elements, also where elements are 0."""
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    x.flat[0] = 0
    others = [np.prod(np.delete(x, i, 0), 0) for i in range(shape[0])]
    np.testing.assert_allclose(effx.grad(lambda v: enp.prod(v, 0).sum())(x), np.stack(others), rtol=1e-5)
