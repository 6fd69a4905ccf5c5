"""Functions of complex numbers with infinities, NaN and signed zeros among their parts: C99, Annex G, as NumPy's.

NumPy takes these values from the C library. Where the standard leaves the sign of a part open the sign is not compared, and
where it leaves it open whether a part is NaN, a NaN on one side is no difference.
"""

import itertools
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp

Values = np.ndarray[Any, np.dtype[Any]]

PARTS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, np.inf, -np.inf, np.nan)
POINTS = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])
FUNCTIONS = [
    *("exp", "exp2", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"),
]
# sinh(inf + i inf) is ±inf + i NaN, cosh(0 + i inf) NaN ± i 0, exp(-inf + i inf) ±0 ± i 0, and their rotations.
OPEN_SIGNS = {"exp", "exp2", "expm1", "sin", "cos", "sinh", "cosh"}


def _agree(x: Values, y: Values, open_signs: Values) -> Any:
    """Returns where two parts are the same: NaN, or equal with their signs, to a few roundings."""
    tolerance = 16 * np.finfo(x.dtype).eps
    with np.errstate(invalid="ignore"):
        near = np.isclose(x, y, rtol=tolerance, atol=tolerance / 8)
        opposite = open_signs & np.isclose(x, -y, rtol=tolerance, atol=0)
    return (np.isnan(x) & np.isnan(y)) | (near & (np.signbit(x) == np.signbit(y))) | opposite


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_the_c_standard(name: str, dtype: str) -> None:
    """Each part is the standard's, its sign too, in a jitted vmap as well as in an eager call."""
    z = POINTS.astype(dtype)
    if name == "expm1":  # NumPy computes exp(x) cos y - 1 and exp(x) sin y: NaN for an infinite x
        z = z[np.isfinite(z.real)]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    is_open = np.zeros(z.shape, bool)
    if name in OPEN_SIGNS:
        is_open = ~np.isfinite(z.real) | ~np.isfinite(z.imag)
    with effx.enable_x64(dtype == "complex128"):
        eager = np.asarray(getattr(enp, name)(enp.asarray(z)))
        mapped = np.asarray(effx.jit(effx.vmap(getattr(enp, name)))(z))
    for values in (eager, mapped):
        same = _agree(values.real, expected.real, is_open) & _agree(values.imag, expected.imag, is_open)
        wrong = [(z[i], values[i], expected[i]) for i in np.flatnonzero(~same)]
        assert not wrong


def test_expm1_of_infinities() -> None:
    """The standard's exp less 1."""
    z = np.array(
        [complex(np.inf, 0.0), complex(np.inf, -0.0), complex(-np.inf, 2.0), complex(-np.inf, np.nan)]
    )
    values = np.asarray(enp.expm1(z.astype(np.complex64)))
    np.testing.assert_array_equal(values.real, [np.inf, np.inf, -1, -1])
    np.testing.assert_array_equal(values.imag, [0, 0, 0, 0])
    assert np.signbit(values.imag[:2]).tolist() == [False, True]


NEAR_EDGES: list[tuple[str, complex, complex]] = [
    # Where the exponential overflows, but its product with a small sine does not.
    *[(name, 89.5 + 1.5j, 1000 + 1e-300j) for name in ("exp", "sinh", "cosh")],
    *[(name, -160 + 1e-37j, -1000 + 1e-300j) for name in ("sinh", "cosh")],
    *[(name, 1e-37 + 160j, 1e-300 + 1000j) for name in ("sin", "cos")],
    ("exp2", 200 + 1e-37j, 1500 + 1e-300j),
    # Beside a singularity, where squares vanish.
    ("log1p", -1 + 1e-20j, -1 + 1e-300j),
    *[("arctanh", a + 1e-20j, a + 1e-300j) for a in (1, -1)],
    *[("arctan", 1e-24 + b * 1j, 1e-300 + b * 1j) for b in (1, -1)],
    ("arctanh", 1 + 0.5j, 1 + 0.5j),
]


@pytest.mark.parametrize(("name", "single", "double"), NEAR_EDGES)
def test_finite_values_near_edges(name: str, single: complex, double: complex) -> None:
    """What a part's magnitude allows is not lost in between."""
    for z, dtype, tolerance in ((single, np.complex64, 2e-5), (double, np.complex128, 2e-13)):
        with effx.enable_x64(dtype is np.complex128), np.errstate(all="ignore"):
            point = dtype(z)
            expected = getattr(np, name)(np.complex128(point)).astype(dtype)
            value = np.asarray(effx.jit(getattr(enp, name))(point))
        np.testing.assert_allclose(value.real, expected.real, rtol=tolerance)
        np.testing.assert_allclose(value.imag, expected.imag, rtol=tolerance)


def test_derivatives_at_signed_zeros() -> None:
    """The choices for special points leave the derivatives of ordinary ones alone."""
    for name, slope in (("exp", 1), ("sinh", 1), ("tanh", 1), ("arcsinh", 1), ("arctanh", 1), ("expm1", 1)):
        tangent = effx.jvp(getattr(enp, name), (enp.complex64(0),), (enp.complex64(1),))[1]
        assert complex(tangent) == slope, name


DIVIDENDS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 7.5, -7.5, 1e30, -1e30, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "divmod"])
def test_signs_of_zero_quotients_and_remainders(name: str, dtype: str) -> None:
    """-0. // 2 is -0., a remainder of 0 has the sign of the divisor; all as NumPy, by arrays and by numbers."""
    with effx.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        x, y = np.array(list(itertools.product(DIVIDENDS, DIVIDENDS))).T.astype(dtype)
        pairs = [(effx.jit(getattr(enp, name))(x, y), getattr(np, name)(x, y))]
        row = np.array(DIVIDENDS, dtype)
        pairs += [(getattr(enp, name)(row, c), getattr(np, name)(row, c)) for c in (2.0, 3, -2.0, 0.0)]
        for values, expected in pairs:
            np.testing.assert_array_equal(np.asarray(values), np.asarray(expected))
            numbers = ~np.isnan(np.asarray(expected))
            signs = np.signbit(np.asarray(values)), np.signbit(np.asarray(expected))
            np.testing.assert_array_equal(signs[0][numbers], signs[1][numbers])


def test_derivatives_of_quotients_and_remainders() -> None:
    """The remainder's slope is 1 by the dividend at multiples too, -(x // y) by the divisor; a quotient's are 0."""
    for divisor in (2.0, -2.0):
        assert float(effx.grad(lambda x, d=divisor: x % d)(4.0)) == 1
        assert float(effx.grad(lambda x, d=divisor: enp.remainder(x, enp.float32(d)))(4.0)) == 1
        assert float(effx.grad(lambda x, d=divisor: x // d)(0.0)) == 0
    assert float(effx.grad(lambda y: 5.0 % y)(2.0)) == -2
    assert float(effx.grad(lambda y: 5.0 % y)(-2.0)) == 3
    assert float(effx.grad(lambda y: 5.0 // y)(2.0)) == 0
