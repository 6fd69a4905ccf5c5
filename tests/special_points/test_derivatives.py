"""First, second and mixed derivatives at special points are those of mpmath, in every mode and in both precisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp

import effx
import effx.numpy as enp
from effx import nn
from effx.laws.portable.peers import of_effx
from effx.laws.portable.points import elementary, special
from effx.laws.portable.points.derivatives import DerivativeRow, find_wrong_derivatives
from effx.numpy import binary, elementwise
from effx.scipy import special as sp

ROWS: list[DerivativeRow] = [*elementary.ROWS, *special.ROWS]


def _cases() -> list[Any]:
    """Quick ones: in every mode where that compiles fast, and in the longer precision in one mode."""
    cases = []
    for row in ROWS:
        cases.append(pytest.param(row, "f8", True, id=f"{row.name}-f8-in one mode"))
        for dtype in ("f4", "f8"):
            marks = [pytest.mark.deep] if row.heavy or dtype == "f8" else []
            cases.append(pytest.param(row, dtype, False, id=f"{row.name}-{dtype}", marks=marks))
    return cases


@pytest.mark.parametrize(("row", "dtype", "in_one_mode"), _cases())
def test_derivatives(row: DerivativeRow, dtype: str, in_one_mode: bool) -> None:
    wrong = find_wrong_derivatives(of_effx(), row, dtype, in_one_mode)
    assert not wrong, "\n" + "\n".join(wrong)


def _differentiate(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: effx.jvp(f, (x,), (enp.ones_like(x),))[1]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("f", "oracle"),
    [(enp.sinc, lambda x: mp.sinc(mp.pi * x)), (sp.i0, lambda x: mp.besseli(0, x)), (enp.tanh, mp.tanh)],
    ids=["sinc", "i0", "tanh"],
)
def test_fourth_derivatives(f: Callable[..., Any], oracle: Callable[..., Any], dtype: str) -> None:
    points = np.array([0.0, 1e-3, -0.3, 0.63, 1.5], dtype)
    for _ in range(4):
        f = _differentiate(f)
    with effx.enable_x64(dtype == "f8"), mp.workdps(40):
        wanted = [float(mp.diff(oracle, mpmath.mpf(float(x)), 4)) for x in points]
        np.testing.assert_allclose(
            effx.jit(f)(points), wanted, rtol=1e-4 if dtype == "f4" else 1e-12, atol=1e-13
        )


def test_incomplete_gamma_function_of_large_parameters() -> None:
    """The expansion for large a has its derivatives where x is a, around which it is centred; numbers of mpmath."""
    points = np.array([[1e6, 1e6], [2e6, 2.002e6], [2e6, 1.999e6]])
    wanted = [
        [[3.324519834e-17, 1.994711568e-10], [1.994711568e-10, -3.989422472e-10]],
        [[-1.037422878e-7, 1.037163825e-7], [1.037163825e-7, -1.036904642e-7]],
        [[1.09893619e-7, -1.098661433e-7], [-1.098661433e-7, 1.098386333e-7]],
    ]

    def probability(point: effx.Array) -> effx.Array:
        return sp.gammainc(point[0], point[1])

    with effx.enable_x64(True):
        hessians = effx.vmap(effx.hessian(probability))(points)
        np.testing.assert_allclose(hessians, wanted, rtol=1e-6)


def test_densities_at_the_ends_of_their_domains() -> None:
    for a, first, second in [(0.5, np.inf, -np.inf), (1.0, 1.0, -1.0), (2.0, 0.0, 1.0), (3.0, 0.0, 0.0)]:
        slope = effx.grad(sp.gammainc, 1)
        np.testing.assert_allclose(slope(a, 0.0), first, rtol=1e-5)
        if np.isfinite(second):
            np.testing.assert_allclose(effx.grad(slope, 1)(a, 0.0), second, rtol=1e-5)
    for a, first in [(0.5, np.inf), (1.0, 2.0), (2.0, 0.0)]:
        np.testing.assert_allclose(effx.grad(sp.betainc, 2)(a, 2.0, 0.0), first, rtol=1e-5)
        np.testing.assert_allclose(effx.grad(sp.betainc, 2)(2.0, a, 1.0), first, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "f",
    [enp.tanh, enp.arctan, enp.expm1, enp.sinc, nn.gelu, nn.squareplus, nn.soft_sign, sp.i1],
    ids=lambda f: f.__name__,
)
def test_short_floats(f: Callable[..., Any], dtype: str) -> None:
    """In 16 bits powers and reciprocals overflow soon: second derivatives are still those of 32 bits."""
    x = enp.asarray([0.0, 1e-3, 0.5, 0.62, 1.0, 3.0, -3.0, 8.0]).astype(dtype)
    second = effx.vmap(effx.grad(effx.grad(f)))
    short, long = [np.asarray(second(v), np.float32) for v in (x, x.astype("f4"))]
    assert second(x).dtype == x.dtype
    np.testing.assert_allclose(short, long, rtol=0.04, atol=0.02)


ALIASES = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "true_divide": "divide", "mod": "remainder", "pow": "power",
    "float_power": "power", "swish": "silu", "hard_swish": "hard_silu", "loggamma": "gammaln", "minimum": "maximum",
    "fmin": "fmax", "hard_sigmoid": "relu6", "fabs": "absolute", "log_softmax": "log_softmax",
}  # fmt: skip
LINEAR, CONSTANT, WHOLE = (
    "linear",
    "piecewise constant or linear: see tests/ops/test_kinks.py",
    "of whole numbers",
)
WITHOUT_ROW = {
    **dict.fromkeys(
        ["add", "subtract", "negative", "positive", "degrees", "radians", "rad2deg", "deg2rad", "real", "imag", "conj",
         "conjugate", "identity"],
        LINEAR,
    ),
    **dict.fromkeys(
        ["around", "ceil", "fix", "rint", "round", "trunc", "floor_divide", "divmod", "heaviside", "clip", "nextafter",
         "gammasgn", "sparse_sigmoid"],
        CONSTANT,
    ),
    **dict.fromkeys(
        ["bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or",
         "bitwise_right_shift", "bitwise_xor", "invert", "left_shift", "right_shift", "bernoulli", "comb"],
        WHOLE,
    ),
    "multiply": "bilinear",
    "angle": "arctan2 of the parts",
    "glu": "a product with the sigmoid",
    "wofz": "complex: erfcx and dawsn are its values on the axes",
    "sph_harm_y": "complex: see tests/scipy/test_harmonics.py",
}  # fmt: skip


def test_every_function_has_a_row() -> None:
    """A function of one or two numbers has a row, or its reason to have none."""
    names = {row.name.split()[0] for row in ROWS}
    functions = {*elementwise.__all__, *binary.__all__, *nn.activations.__all__}
    functions |= {name for name in dir(sp) if not name.startswith("_")}
    missing = {name for name in functions if ALIASES.get(name, name) not in names and name not in WITHOUT_ROW}
    assert not missing
    assert not {name for name in WITHOUT_ROW if name in names}
