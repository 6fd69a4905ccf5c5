"""Complex numbers in order: real parts first, then imaginary parts, as NumPy orders them.

Never: lists what refuses complex numbers, which `test_errors` does.
"""

from __future__ import annotations

import operator

import numpy as np
import numpy.typing as npt
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError

# NumPy warns of NaN; it is what is asked.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")

PARTS = np.array([-1.0, -0.0, 0.0, 1.0, np.inf, -np.inf, np.nan], np.float32)
# All pairs of all numbers with these parts.
NUMBERS = (PARTS[:, None] + np.zeros_like(PARTS)).astype(np.complex64)
NUMBERS.imag = PARTS
X, Y = (a.ravel() for a in np.meshgrid(NUMBERS.ravel(), NUMBERS.ravel()))


def numbers(seed: int, *shape: int) -> npt.NDArray[np.complex64]:
    """Draws numbers with many equal parts and few NaN."""
    rng = np.random.default_rng(seed)
    odds = np.array([0.24, 0.12, 0.12, 0.24, 0.13, 0.13, 0.02])
    x = np.empty(shape, np.complex64)
    x.real, x.imag = rng.choice(PARTS, shape, p=odds), rng.choice(PARTS, shape, p=odds)
    return x


def same(given: object, wanted: npt.ArrayLike) -> None:
    """Compares values, NaN part by part, and dtypes."""
    a, b = np.asarray(given), np.asarray(wanted)
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.real, b.real)
    np.testing.assert_array_equal(a.imag, b.imag)


@pytest.mark.parametrize(
    "name", ["less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin"]
)
def test_pairs(name: str) -> None:
    """Eagerly, staged and mapped, all pairs of numbers on the axes, at infinity and NaN."""
    f, wanted = getattr(enp, name), getattr(np, name)(X, Y)
    same(f(X, Y), wanted)
    same(effx.jit(f)(X, Y), wanted)
    same(effx.vmap(f, in_axes=(0, None))(X[:49], Y[0]), getattr(np, name)(X[:49], Y[0]))


@pytest.mark.parametrize("op", [operator.lt, operator.le, operator.gt, operator.ge])
def test_operators(op: object) -> None:
    """Arrays with arrays, with NumPy's and with Python's numbers, on either side."""
    assert callable(op)
    x, y = NUMBERS.ravel(), NUMBERS.T.ravel()
    for a, b in [(x, y), (x, 1 + 1j), (1 + 1j, x), (x, np.complex64(1j)), (x, 1.0), (x, y.real)]:
        on_effx = [enp.asarray(v) if isinstance(v, np.ndarray) else v for v in (a, b)]
        same(op(*on_effx), op(a, b))


def lines() -> npt.NDArray[np.complex64]:
    """Draws numbers so that every line along the first axis has one that is not NaN."""
    x = numbers(0, 6, 9, 4)
    x[0] = 1 + 1j
    return x


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanmax", "nanmin"])
def test_reductions(name: str) -> None:
    """Over one axis and all of them: the first NaN, or else the first best one."""
    f, x = getattr(enp, name), lines()
    for axis in (None, 0):
        wanted = getattr(np, name)(x, axis=axis)
        same(
            effx.jit(f, static_argnames="axis")(x, axis=axis),
            wanted.astype(np.int32) if "arg" in name else wanted,
        )


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes(name: str) -> None:
    """Over any axes, mapped, of no elements, and with `where` and `initial`."""
    f, oracle, x = getattr(enp, name), getattr(np, name), lines()
    for axis in (None, 0, (1, 2), (0, 2)):
        same(f(x, axis=axis), oracle(x, axis=axis))
    same(effx.jit(effx.vmap(f))(x), oracle(x, axis=(1, 2)))
    same(f(x[:, :0], axis=1, initial=1 + 2j), np.full((6, 4), 1 + 2j, np.complex64))
    same(f(x[:0], axis=1), np.zeros((0, 4), np.complex64))
    same(f(x, initial=-1j, where=x.real > 0), oracle(x, initial=-1j, where=x.real > 0))


def test_running_extremes() -> None:
    """`cummax` and `cummin` along an axis, from either end; NaN stays."""
    for seed in range(3):
        x = numbers(seed, 5, 11)
        for f, oracle in ((lax.cummax, np.maximum), (lax.cummin, np.minimum)):
            same(effx.jit(lambda x, f=f: f(x, 1))(x), oracle.accumulate(x, 1))
            same(f(x, 1, reverse=True), oracle.accumulate(x[:, ::-1], 1)[:, ::-1])


def test_lax() -> None:
    """`lax.max` and `lax.reduce_max` take complex numbers; comparisons refuse them, as jax.lax does."""
    same(lax.max(X, Y), np.maximum(X, Y))
    same(lax.min(X, 1j), np.minimum(X, np.complex64(1j)))
    x = numbers(3, 4, 5)
    same(lax.reduce_min(x, (0,)), x.min(0))
    same(lax.reduce(x, 0j, lax.max, (1,)), np.maximum(x.max(1), np.complex64(0)))
    same(lax.reduce_max(x[:0], (0,)), np.full(5, -np.inf, np.complex64))
    with pytest.raises(DTypeError) as error:
        lax.lt(X, Y)
    first = str(error.value).splitlines()[0]
    assert first == f"lt: operand must be boolean, integer or floating, got c64[{X.size}]"


def test_searching() -> None:
    """`searchsorted` finds where complex numbers belong."""
    x = numbers(4, 40)
    x = x[~np.isnan(x)]
    same(enp.searchsorted(np.sort(x), x), np.searchsorted(np.sort(x), x).astype(np.int32))


def test_derivatives() -> None:
    """The tangent is that of the chosen element, the first one of equal ones."""
    x = np.array([1 + 2j, 2 - 1j, 2 + 1j, 2 + 1j, 0j], np.complex64)
    y = np.array([1 + 1j, 2 + 0j, 2 + 1j, 3 - 1j, 0j], np.complex64)
    dx = np.arange(1, 6).astype(np.complex64) * 1j
    for f, i in ((enp.max, 2), (enp.min, 4)):
        same(effx.jvp(f, (x,), (dx,))[1], dx[i])
        same(effx.grad(lambda x, f=f: f(x).real)(x), np.eye(5, dtype=np.complex64)[i])
        same(
            effx.jit(effx.vmap(effx.grad(lambda x, f=f: f(x).real)))(x[None]),
            np.eye(5, dtype=np.complex64)[[i]],
        )
    dz = effx.jit(lambda x, y, dx: effx.jvp(enp.maximum, (x, y), (dx, dx * 2))[1])(x, y, dx)
    same(dz, np.where(x >= y, dx, dx * 2))
    same(effx.jvp(lax.cummax, (x,), (dx,))[1], dx[[0, 1, 2, 2, 2]])
