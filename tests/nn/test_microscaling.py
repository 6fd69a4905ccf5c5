"""scaled_dot_general multiplies what a plain reading of the formats gives, and its gradients do too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import dtypes, nn
from effx.array import Array
from effx.errors import DTypeError, EffxError, ShapeError

Data = np.ndarray[Any, Any]
Mode = Literal["nvfp4", "mxfp8", "mxfp4"]
MODES: list[Mode] = ["nvfp4", "mxfp8", "mxfp4"]
RNG = np.random.default_rng(4)
X, Y, CT = [RNG.normal(size=s).astype(np.float32) for s in ((2, 32, 64), (2, 32, 64), (2, 32, 32))]
LAST = (((2,), (2,)), ((0,), (0,)))


def table(exponent: int, mantissa: int, bias: int, top: float) -> Data:
    """The non-negative numbers of a float format, in the order of their codes."""
    codes = np.arange(2 ** (exponent + mantissa))
    e, f = codes >> mantissa, (codes & (2**mantissa - 1)) / 2**mantissa
    values = np.where(e == 0, f * 2.0 ** (1 - bias), (1 + f) * 2.0 ** (e - bias))
    found: Data = values[values <= top]
    return found


# E4M3 without infinities, whose last code is NaN, and E2M1, which has numbers only.
E4M3, E2M1 = table(4, 3, 7, 448.0), table(2, 1, 1, 6.0)


def nearest(x: Data, values: Data) -> Data:
    """The nearest number of a table, of two the one with an even code; beyond the last, the last."""
    size = abs(x)
    high = np.clip(np.searchsorted(values, size), 1, len(values) - 1)
    low = high - 1
    below, above = size - values[low], values[high] - size
    code = np.where((below < above) | ((below == above) & (low % 2 == 0)), low, high)
    return np.copysign(values[code], x)


def rounded(x: Data, mode: Mode, global_scale: float = 1.0) -> Data:
    """An array rounded in blocks along its last axis, in f64."""
    size, values = (16, E2M1) if mode == "nvfp4" else (32, E4M3 if mode == "mxfp8" else E2M1)
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape[:-1]):
        for start in range(0, x.shape[-1], size):
            block = x[index][start : start + size].astype(np.float64)
            needed = np.max(abs(block)) / values[-1]
            if mode == "nvfp4":
                scale = float(nearest(np.array(needed / global_scale), E4M3)) * global_scale
            else:
                scale = 2.0 ** np.ceil(np.log2(needed)) if needed else 1.0
            if scale:
                out[index][start : start + size] = nearest(block / scale, values) * scale
    return out


def product(x: Data, y: Data, modes: tuple[Mode, Mode], scales: tuple[float, float] = (1.0, 1.0)) -> Data:
    found: Data = np.einsum("bmk,bnk->bmn", rounded(x, modes[0], scales[0]), rounded(y, modes[1], scales[1]))
    return found


def turned(x: Data) -> Data:
    return x.swapaxes(1, 2)


def configs_of(modes: tuple[Mode, ...], scales: tuple[float, ...]) -> list[Any]:
    return [
        nn.get_scaled_dot_general_config(m, np.array([s], np.float32) if m == "nvfp4" else None)
        for m, s in zip(modes, scales, strict=True)
    ]


ROWS: list[tuple[tuple[Mode, Mode, Mode], tuple[float, float, float]]] = [
    *[((mode, mode, mode), (1.0, 1.0, 1.0)) for mode in MODES],
    (("nvfp4", "nvfp4", "nvfp4"), (0.5, 0.002, 1.0)),
    (("mxfp4", "mxfp4", "mxfp8"), (1.0, 1.0, 1.0)),
    (("mxfp8", "mxfp4", "mxfp8"), (1.0, 1.0, 1.0)),
    (("nvfp4", "mxfp8", "mxfp8"), (0.01, 1.0, 1.0)),
    (("mxfp8", "mxfp8", "nvfp4"), (1.0, 1.0, 1.0)),
]


@pytest.mark.parametrize(("modes", "scales"), ROWS)
def test_values_and_gradients(modes: tuple[Mode, Mode, Mode], scales: tuple[float, float, float]) -> None:
    """Products of rounded arrays; the gradients' are of rounded ones too, except where the third mode is nvfp4."""

    @effx.jit
    def both(x: Array, y: Array, ct: Array) -> tuple[Array, ...]:
        configs = configs_of(modes, scales)
        found, back = effx.vjp(lambda x, y: nn.scaled_dot_general(x, y, LAST, configs=configs), x, y)
        return found, *back(ct)

    found, dx, dy = [np.asarray(v) for v in both(*map(enp.asarray, (X, Y, CT)))]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, product(X, Y, modes[:2], scales[:2]), rtol=1e-5, atol=1e-4)
    if modes[2] == "nvfp4":
        want_x, want_y = np.einsum("bmn,bnk->bmk", CT, Y), np.einsum("bmn,bmk->bnk", CT, X)
    else:
        want_x = product(CT, turned(Y), (modes[2], modes[1]), (1.0, scales[1]))
        want_y = product(turned(CT), turned(X), (modes[2], modes[0]), (1.0, scales[0]))
    np.testing.assert_allclose(dx, want_x, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(dy, want_y, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("modes", "scales"), [*ROWS[:3], ROWS[4], ROWS[5]])
def test_jax(modes: tuple[Mode, Mode, Mode], scales: tuple[float, float, float]) -> None:
    """The bits of JAX's on the CPU, and of its gradients."""
    jax = pytest.importorskip("jax")
    if jax.__version_info__ < (0, 12):
        pytest.skip("earlier releases of jax have not all the formats")
    theirs = [jax.nn.get_scaled_dot_general_config(m) for m in modes]
    found, back = effx.vjp(
        lambda x, y: nn.scaled_dot_general(x, y, LAST, configs=configs_of(modes, scales)), X, Y
    )
    want, there = jax.vjp(lambda x, y: jax.nn.scaled_dot_general(x, y, LAST, configs=theirs), X, Y)
    for a, b in zip((found, *back(CT)), (want, *there(CT)), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_blocks(mode: Mode) -> None:
    """Blocks of zeros, of tiny and of huge numbers, at every distance between two powers of two, and last ones in part."""
    k = 40
    sizes = np.concatenate([2.0 ** np.linspace(0, 1, 23), [0.0, 1e-20, 1e20, 1e36]]).astype(np.float32)
    x = RNG.uniform(-1, 1, (len(sizes), k)).astype(np.float32)
    x[:, 3] = 1.0
    x *= sizes[:, None]
    one = np.eye(k, dtype=np.float32)
    config = nn.get_scaled_dot_general_config(mode)
    # In a format that is exact for 0 and 6 (or 1), the other operand chooses elements.
    chooser = one * 6.0 if mode == "nvfp4" else one
    found = nn.scaled_dot_general(x, chooser, (((1,), (1,)), ((), ())), configs=[config, config])
    want = rounded(x, mode).astype(np.float64) @ chooser.T
    np.testing.assert_allclose(found, want, rtol=1e-6)
    broken = x.copy()
    broken[0, 0], broken[1, 1] = np.nan, np.inf
    size = config.block_size
    y = np.asarray(
        nn.scaled_dot_general(
            broken[:, :size], chooser[:size, :size], (((1,), (1,)), ((), ())), configs=[config, config]
        )
    )
    assert np.isnan(y[:2]).all()
    np.testing.assert_allclose(y[2:], (rounded(x[:, :size], mode) @ chooser[:size, :size].T)[2:], rtol=1e-6)


def test_a_global_scale_reaches_what_scales_alone_do_not() -> None:
    """Scales of nvfp4 are between 2^-9 and 448: numbers of another size need a scale for all of them."""
    x = (X[0] * 1e-4).astype(np.float32)
    scale = np.float32(abs(x).max() / (6 * 448))
    numbers = (((1,), (1,)), ((), ()))
    plain, scaled = [
        nn.scaled_dot_general(x, Y[0], numbers, configs=[
            nn.get_scaled_dot_general_config("nvfp4", s), nn.get_scaled_dot_general_config("mxfp8"),
        ])
        for s in (None, scale)
    ]  # fmt: skip
    assert not np.asarray(plain).any()
    want = product(x[None], Y[:1], ("nvfp4", "mxfp8"), (float(scale), 1.0))[0]
    np.testing.assert_allclose(scaled, want, rtol=1e-5, atol=1e-8)
    assert abs(want - x @ Y[0].T).mean() < 1e-4


@pytest.mark.parametrize(
    ("left", "right", "numbers", "formula"),
    [
        ((3, 64), (64, 5), (((1,), (0,)), ((), ())), "mk,kn->mn"),
        ((64,), (64,), (((0,), (0,)), ((), ())), "k,k->"),
        ((3, 4, 32), (32, 4, 2), (((1, 2), (1, 0)), ((), ())), "mlk,kln->mn"),
        ((3, 2, 32, 4), (4, 32, 5, 2), (((2,), (1,)), ((1, 3), (3, 0))), "makb,bkna->abmn"),
        ((3,), (5,), (((), ()), ((), ())), "m,n->mn"),
        ((0, 32), (5, 32), (((1,), (1,)), ((), ())), "mk,nk->mn"),
        ((2, 0), (5, 0), (((1,), (1,)), ((), ())), "mk,nk->mn"),
    ],
)
def test_axes(left: tuple[int, ...], right: tuple[int, ...], numbers: Any, formula: str) -> None:
    """Axes stand as in lax.dot_general; of small powers of two, nothing is lost."""
    x, y = [2.0 ** RNG.integers(-1, 2, shape).astype(np.float32) for shape in (left, right)]
    config = nn.get_scaled_dot_general_config("mxfp8")
    found = nn.scaled_dot_general(x, y, numbers, configs=[config] * 3)
    np.testing.assert_array_equal(found, np.einsum(formula, x, y))
    assert found.dtype == np.float32


def test_dtypes_vmap_and_no_configs() -> None:
    """Of any real dtype; results in three dtypes; gradients in the operands' dtypes; without configs, exact."""
    configs = configs_of(("mxfp8",) * 3, (1.0,) * 3)
    numbers = (((1,), (1,)), ((), ()))
    whole = nn.scaled_dot_general(
        np.arange(64).reshape(2, 32) % 8, np.ones((3, 32), np.int8), numbers, configs=configs
    )
    np.testing.assert_array_equal(whole, np.full((2, 3), 112.0))
    for kind in (dtypes.bfloat16, dtypes.float16):
        x, y = X[0].astype(kind), Y[0].astype(kind)
        multiply = functools.partial(
            nn.scaled_dot_general, dimension_numbers=numbers, preferred_element_type=kind, configs=configs
        )
        found, back = effx.vjp(multiply, x, y)
        assert found.dtype == kind
        assert [d.dtype for d in back(found)] == [kind, kind]
        assert nn.scaled_dot_general(x, y, numbers).dtype == np.float32
    batch = effx.vmap(
        lambda x, y: nn.scaled_dot_general(x, y, numbers, configs=configs, implementation="cudnn")
    )(X, Y)
    np.testing.assert_allclose(batch, nn.scaled_dot_general(X, Y, LAST, configs=configs), rtol=1e-6)
    np.testing.assert_allclose(nn.scaled_dot_general(X, Y, LAST), np.einsum("bmk,bnk->bmn", X, Y), atol=1e-4)
    # Gradients without a config are exact.
    slopes = effx.grad(lambda x: (nn.scaled_dot_general(x, Y, LAST, configs=configs[:2]) * CT).sum())(X)
    np.testing.assert_allclose(slopes, np.einsum("bmn,bnk->bmk", CT, Y), rtol=1e-4, atol=1e-4)


def test_configs() -> None:
    """What the formats are."""
    found = {m: nn.get_scaled_dot_general_config(m) for m in MODES}
    assert {m: (c.mode, c.block_size, c.data_type, c.scale_type) for m, c in found.items()} == {
        "mxfp8": ("mxfp8", 32, dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu),
        "mxfp4": ("mxfp4", 32, dtypes.float4_e2m1fn, dtypes.float8_e8m0fnu),
        "nvfp4": ("nvfp4", 16, dtypes.float4_e2m1fn, dtypes.float8_e4m3fn),
    }
    assert found["mxfp8"].global_scale is found["mxfp4"].global_scale is None
    assert found["nvfp4"].global_scale is not None
    assert found["nvfp4"].global_scale.tolist() == [1.0]


CONFIGS = configs_of(("mxfp8",) * 3, (1.0,) * 3)
CONFIG: Callable[..., object] = nn.get_scaled_dot_general_config
ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: CONFIG("mxfp6"),
        DTypeError,
        "get_scaled_dot_general_config: mode must be 'nvfp4', 'mxfp8' or 'mxfp4', got 'mxfp6'",
    ),
    (
        lambda: CONFIG("mxfp8", 0.5),
        DTypeError,
        "get_scaled_dot_general_config: only 'nvfp4' takes a global scale, got one for 'mxfp8'",
    ),
    (
        lambda: CONFIG("nvfp4", np.ones(2, np.float32)),
        ShapeError,
        "get_scaled_dot_general_config: the global scale must be one number, got f32[2]",
    ),
    (
        lambda: nn.scaled_dot_general(X, Y, LAST, "float64"),
        DTypeError,
        "scaled_dot_general: preferred_element_type must be float32, bfloat16 or float16, got float64",
    ),
    (
        lambda: nn.scaled_dot_general(X, Y, LAST, configs=CONFIGS[:1]),
        ShapeError,
        "scaled_dot_general: takes two configs, for lhs and rhs, or three, the last for gradients, got 1",
    ),
    (
        lambda: nn.scaled_dot_general(X, Y * 1j, LAST, configs=CONFIGS),
        DTypeError,
        "scaled_dot_general: takes real numbers, got f32[2,32,64] and c64[2,32,64]",
    ),
    (
        lambda: nn.scaled_dot_general(X, Y[:, :, :32], LAST, configs=CONFIGS),
        ShapeError,
        "dot_general: contracting sizes differ: lhs f32[2,32,64] axis 2 is 64, rhs f32[2,32,32] axis 2 is 32",
    ),
    (
        lambda: nn.scaled_dot_general(X, Y, LAST, implementation="fast"),  # type: ignore[arg-type]
        DTypeError,
        "scaled_dot_general: implementation must be 'cudnn' or None, got 'fast'",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "text"), ERRORS)
def test_errors(wrong: Callable[[], object], error: type[EffxError], text: str) -> None:
    with effx.enable_x64(True), pytest.raises(error) as raised:
        wrong()
    assert str(raised.value).partition("\n")[0] == text
