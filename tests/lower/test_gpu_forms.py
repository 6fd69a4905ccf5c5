"""Forms of operations for GPUs and TPUs that XLA:CPU takes too: their values are those of CPUs' own forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import scipy.signal

import effx
import effx.numpy as enp
from effx import lax
from effx.effects import handle
from effx.handlers.oracle import Reference
from effx.lower.runtime.excess_precision import SWITCH, excess_precision_options
from effx.numpy import filtering
from effx.scipy import signal
from tests.lower.forms import Data, run_form_of, run_text, text_of_form
from tests.ops.rows import assert_close, host
from tests.ops.table import CASES, Case, name

GPU = "cuda"


def is_convolution(case: Case) -> bool:
    return case[1].op.name == "convolution" and case[1].types[0].kind != "f"


@pytest.mark.parametrize("case", [case for case in CASES if is_convolution(case)], ids=name)
def test_convolutions_without_floats(case: Case) -> None:
    """Of complex numbers by parts, of integers in float64."""
    row, sample = case
    with sample.settings():
        data = sample.draw()
        operands = sample.arrays(data)
        with handle(Reference()):
            expected = [host(y) for y in sample.apply(operands)]
        for y, want in zip(run_form_of(GPU, lambda *xs: sample.apply(xs), *data), expected, strict=True):
            assert y.dtype == want.dtype
            assert_close(y, want, row.allowed(y.dtype))


@pytest.mark.parametrize("preferred", [np.int32, np.float32])
@pytest.mark.parametrize("shape", [(2, 3), (4, 8), (8, 5)])
def test_products_of_int8(shape: tuple[int, int], preferred: Any) -> None:
    x = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    y = run_form_of(
        GPU, lambda x: lax.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=preferred), x
    )
    np.testing.assert_array_equal(y[0], (x.astype(np.int64) @ x.T.astype(np.int64)).astype(preferred))


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_the_first_nan_in_any_order(platform: str, function: str) -> None:
    """A GPU combines elements in any order; a CPU does so from left to right, so that positions are counted backwards."""
    x = np.array(
        [[1, nan, 2, nan], [nan, nan, nan, nan], [inf, -inf, inf, 0], [-0.0, 0.0, 0.0, -0.0]], np.float32
    )
    text = text_of_form(platform, partial(getattr(enp, function), axis=1), x)
    backwards, count = re.subn(
        r"(%\w+) = (stablehlo.iota dim = 1 : (tensor<4x4x.*>))",
        r"%back = \2\n\1 = stablehlo.reverse %back, dims = [1] : \3",
        text,
    )
    assert count == 1
    np.testing.assert_array_equal(run_text(text, x)[0], getattr(np, function)(x, 1))
    np.testing.assert_array_equal(run_text(backwards, x)[0], getattr(np, function)(x[:, ::-1], 1))


SPECIAL = np.array([3.0, np.nan, -0.0, 0.0, -np.inf, np.inf, 3.0, -1.0, -np.nan], np.float32)

SORTS: dict[str, Callable[..., Any]] = {
    "values": enp.sort,
    "order": enp.argsort,
    "descending": lambda x: enp.argsort(x, descending=True),
    "two keys": lambda x: enp.lexsort((enp.arange(9.0), x)),
    "pairs": lambda x: lax.sort((x, enp.arange(9)), num_keys=1)[1],
    "twelve keys": lambda x: enp.lexsort((x, *[enp.zeros(9)] * 11)),
    "halves": lambda x: enp.argsort(x.astype(enp.float16)),
    "complex": lambda x: enp.sort(enp.abs(enp.nan_to_num(x)) + 1j * enp.arange(9.0)[::-1]),
}


@pytest.mark.parametrize("platform", [GPU, "tpu"])
@pytest.mark.parametrize("which", SORTS)
def test_sorts(which: str, platform: str) -> None:
    """Zeros of both signs are equal, and NaN is last."""
    fun = SORTS[which]
    (result,) = run_form_of(platform, fun, SPECIAL)
    np.testing.assert_array_equal(result, np.asarray(fun(enp.asarray(SPECIAL))))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(100,), (3, 50), (50, 3)])
def test_prefix_sums_of_gpus(shape: tuple[int, ...], reverse: bool) -> None:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    for axis in range(len(shape)):
        (y,) = run_form_of(GPU, lambda x, axis=axis: lax.cumsum(x, axis=axis, reverse=reverse), x)
        want = np.flip(np.cumsum(np.flip(x, axis), axis), axis) if reverse else np.cumsum(x, axis)
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("platform", [GPU, "tpu"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.float16])
def test_top_k(dtype: Any, platform: str) -> None:
    x = np.random.default_rng(0).permutation(60).reshape(3, 20).astype(dtype)
    values, indices = run_form_of(platform, lambda x: lax.top_k(x, 4), x)
    np.testing.assert_array_equal(indices, np.argsort(-x.astype(int), axis=-1)[:, :4])
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, -1))


@pytest.mark.parametrize("n", [1, 2])
def test_small_tridiagonal_systems(n: int) -> None:
    """CuSPARSE refuses them."""
    d, b = np.full(n, 4.0, np.float32), np.ones((n, 2), np.float32)
    (x,) = run_form_of(GPU, lambda d, b: lax.linalg.tridiagonal_solve(d / 4, d, d / 4, b), d, b)
    matrix = 4 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    np.testing.assert_allclose(matrix @ x, b, rtol=1e-6)


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("high", [False, True])
def test_bounds_of_bools(low: bool, high: bool) -> None:
    """By and and or on TPUs."""
    x = np.array([[False, True]])
    (y,) = run_form_of("tpu", lambda x: lax.clamp(np.bool_(low), x, np.bool_(high)), x)
    np.testing.assert_array_equal(y, np.minimum(np.maximum(x, low), high))


ORDERS = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 7.0, 40.0, np.inf, np.nan, 0.0, -1.0], np.float32)
PLACES = np.array(
    [0.25, 1.0, 9.5, 1e6, np.inf, 0.0, -0.0, -1.0, -2.0, -0.5, -1.25, -7.75, -1e4 - 0.5, -np.inf, np.nan],
    np.float32,
)


@pytest.mark.parametrize("platform", [GPU, "tpu"])
@pytest.mark.parametrize("which", ["zeta", "polygamma"])
def test_zeta_functions_in_one_piece(which: str, platform: str) -> None:
    """Without a branch for negative numbers the values are the same."""
    fun = getattr(lax, which)
    orders, places = [x.ravel() for x in np.meshgrid(ORDERS, PLACES)]
    (y,) = run_form_of(platform, fun, orders, places)
    np.testing.assert_allclose(y, np.asarray(fun(orders, places)), rtol=1e-6)


def test_zeta_function_of_many_numbers_has_a_branch() -> None:
    """Two sums more of each number take longer than the device waits for a branch."""
    for n, has_branch in ((1 << 10, False), (1 << 20, True)):
        x: Any = effx.ShapeDtypeStruct((n,), np.float32)
        text = effx.jit(lax.zeta).trace(x, x).lower(lowering_platforms=(GPU,)).as_text()
        assert ("stablehlo.case" in text) == has_branch


@pytest.mark.parametrize("platform", [GPU, "tpu"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_in_turn(axis: int, n: int, platform: str) -> None:
    """Two arrays in turn are a choice between both spread out: with zeros of both signs, NaN and bools."""

    def scan(x: Any) -> Any:
        return lax.associative_scan(lambda a, b: b, x, axis=axis), lax.associative_scan(enp.add, x, axis=axis)

    x = np.resize(SPECIAL[[2, 3, 0, 7, 2, 3, 5]], (3, n) if axis else (n, 3))
    last, total = run_form_of(platform, scan, x)
    np.testing.assert_array_equal(np.signbit(last), np.signbit(x))
    np.testing.assert_array_equal(last, x)
    np.testing.assert_array_equal(total, np.cumsum(x, axis))
    flags = x > 0
    (some,) = run_form_of(platform, lambda x: lax.associative_scan(enp.logical_or, x, axis=axis), flags)
    np.testing.assert_array_equal(some, np.logical_or.accumulate(flags, axis))


@pytest.mark.parametrize("n", [2, 7, 16])
def test_slopes_of_elements_in_turn(n: int) -> None:
    """Every second element is read where two arrays in turn are transposed."""
    x = np.random.default_rng(0).uniform(0.5, 2.0, (n, 2)).astype(np.float32)

    def slope(x: Any) -> Any:
        return effx.grad(lambda x: enp.sum(lax.associative_scan(enp.multiply, x) ** 3))(x)

    assert_close(run_form_of("tpu", slope, x)[0], np.asarray(slope(x)), 1e-5)


def test_elements_in_turn_are_no_array_of_pairs() -> None:
    """The text for a CPU has the pairs; that for a TPU reads none of them."""
    x = effx.ShapeDtypeStruct((64,), np.float32)
    fun = effx.jit(lambda x: enp.stack([x, -x], 1).reshape(128))
    texts = {p: fun.trace(x).lower(lowering_platforms=(p,)).as_text() for p in ("cpu", GPU, "tpu")}
    assert {p: "stablehlo.pad" in text for p, text in texts.items()} == {"cpu": False, GPU: True, "tpu": True}


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("sizes", [(9, 4), (4, 9), (5, 5), (7, 1)])
def test_convolutions_of_vectors(sizes: tuple[int, int], mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By XLA's convolution on TPUs, and elsewhere by windows whose indices are computed if there are many."""
    monkeypatch.setattr(filtering, "KNOWN_INDICES", 0)
    x, y = [np.random.default_rng(n).normal(size=n).astype(np.float32) for n in sizes]
    for platform in ("tpu", GPU):
        (z,) = run_form_of(platform, lambda x, y: enp.convolve(x, y, mode), x, y)
        assert_close(z, np.convolve(x, y, mode), 1e-5)
        (z,) = run_form_of(platform, lambda x, y: enp.correlate(x, y, mode), x, y)
        assert_close(z, np.correlate(x, y, mode), 1e-5)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("is_complex", [False, True])
def test_convolutions_of_matrices(is_complex: bool, mode: str) -> None:
    """GPUs and TPUs put the zeros around the matrix themselves."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 7)).astype(np.float32), rng.normal(size=(3, 4)).astype(np.float32)
    data = (x + 1j * x[::-1], y - 1j * y) if is_complex else (x, y)
    (z,) = run_form_of(GPU, lambda x, y: signal.convolve2d(x, y, mode), *data)
    assert_close(z, scipy.signal.convolve2d(*data, mode), 1e-5)


KEYS_ON_TPUS: list[tuple[str, Callable[..., Any], Any]] = [
    ("rbg", effx.random.split, effx.random.key(0, impl="rbg")),
    ("urbg", effx.random.key_data, effx.random.key(0, impl="unsafe_rbg")),
    ("rbg", partial(effx.random.wrap_key_data, impl="rbg"), np.arange(4, dtype=np.uint32)),
]


@pytest.mark.parametrize(("name", "function", "argument"), KEYS_ON_TPUS, ids=["argument", "words", "result"])
def test_a_tpu_stores_no_keys_of_16_bytes(name: str, function: Callable[..., Any], argument: Any) -> None:
    """As complex numbers of floats of 64 bits, which it computes of floats of 32, they would lose bits."""
    text = (
        f"random keys of key<{name}>: a TPU has no element of 16 bytes to store them in; give compiled functions raw "
        "keys (random.PRNGKey, random.key_data) or those of threefry2x32"
    )
    traced = effx.jit(function).trace(argument)
    traced.lower(lowering_platforms=(GPU,)).as_text()
    with pytest.raises(effx.errors.BackendError, match=re.escape(text)):
        traced.lower(lowering_platforms=("tpu",)).as_text()


R = effx.random
DRAWS: dict[str, Callable[[Any], Any]] = {
    "split": lambda k: R.key_data(R.split(k, (2, 2))),
    "fold in": lambda k: R.normal(R.fold_in(k, 3), (4,)),
    "randint": lambda k: R.randint(k, (3,), 0, 10),
    "permutation": lambda k: R.permutation(k, 5),
    "choice": lambda k: R.choice(k, 5, (3,)),
    "gamma": lambda k: R.gamma(k, 2.0, (3,)),
    "its gradient": lambda k: effx.grad(lambda a: R.gamma(k, a, (3,)).sum())(2.0),
    "poisson": lambda k: R.poisson(k, 2.0, (3,)),
    "binomial": lambda k: R.binomial(k, 5.0, 0.3, (3,)),
    "dirichlet": lambda k: R.dirichlet(k, enp.ones(3)),
    "ball": lambda k: R.ball(k, 2),
    "vmap": lambda k: effx.vmap(lambda q: R.normal(q, (2,)))(R.split(k, 3)),
    "scan": lambda k: lax.scan(lambda c, _: (R.split(c)[0], R.bits(c)), k, length=3),
    "scan of keys": lambda k: lax.scan(lambda c, q: (c + R.normal(q), R.bits(q)), 0.0, R.split(k, 4)),
    "fori_loop": lambda k: lax.fori_loop(0, 3, lambda i, c: R.fold_in(c, i), k),
    "cond": lambda k: lax.cond(R.uniform(k) < 2.0, lambda q: R.fold_in(q, 1), lambda q: q, k),
    "checkpoint": lambda k: effx.checkpoint(lambda q: R.normal(R.split(q)[0], (3,)))(k),
    "an index": lambda k: R.split(k, 3)[R.randint(k, (), 0, 3)],
    "rows": lambda k: R.split(k, 5)[enp.arange(2)[:, None] * 2 + enp.arange(2)],
    "an update": lambda k: R.split(k, 3).at[enp.arange(2) * 2].set(R.split(k)),
    "a block": lambda k: lax.dynamic_update_slice(R.split(k, 4), R.split(k), (1,)),
    "moves": lambda k: enp.flip(enp.roll(R.split(k, (2, 3)).T, 1, 0), 1)[:, :1].ravel(),
    "stack": lambda k: enp.broadcast_to(enp.stack([k, R.fold_in(k, 1)])[:, None], (2, 3)),
    "where": lambda k: enp.where(enp.arange(2) == 0, k, R.split(k)),
    "equal": lambda k: (R.split(k) == R.split(k)[0], k != R.split(k)),
    "no keys": lambda k: R.split(k, (0, 3)),
    "barrier": lambda k: lax.optimization_barrier((k, 1.0)),
}


@pytest.mark.parametrize(("platform", "impl"), [(GPU, "rbg"), ("tpu", "unsafe_rbg")])
@pytest.mark.parametrize("name", DRAWS)
def test_keys_within_a_program_are_words(name: str, platform: str, impl: str) -> None:
    """All that moves keys moves words; the numbers are those of keys."""

    def draw(words: Any) -> Any:
        leaves = effx.tree.leaves(DRAWS[name](R.wrap_key_data(words, impl=impl)))
        return [R.key_data(x) if enp.issubdtype(x.dtype, effx.dtypes.prng_key) else x for x in leaves]

    words = np.array([7, 2**32 - 1, 5, 0], np.uint32)
    assert "complex<f64>" not in text_of_form(platform, draw, words)
    for y, wanted in zip(run_form_of(platform, draw, words), draw(words), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-6 if y.dtype.kind == "f" else 0)


def test_raw_keys_on_tpus() -> None:
    with effx.default_prng_impl("rbg"):
        text = text_of_form("tpu", lambda k: effx.random.gamma(k, 2.0, (3,)), np.arange(4, dtype=np.uint32))
    assert "complex<f64>" not in text


@pytest.mark.parametrize("platform", [GPU, "tpu"])
@pytest.mark.parametrize("sizes", [(3, 0, 4), (0, 0, 10), (1, 2, 3)])
def test_grouped_products_at_once(sizes: tuple[int, ...], platform: str) -> None:
    """An infinity in another group's rows or matrix is no NaN; rows of no group give 0."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 4)).astype(np.float32), rng.normal(size=(3, 4, 5)).astype(np.float32)
    n = np.array(sizes, np.int32)
    x[2, 0], y[1, 0, 0] = np.inf, np.nan

    def multiply(x: Any, y: Any, n: Any) -> Any:
        return lax.ragged_dot(x, y, n)

    text = effx.jit(multiply).trace(x, y, n).lower(lowering_platforms=(platform,)).as_text()
    assert "stablehlo.while" not in text
    for fun in (multiply, effx.grad(lambda x, y, n: enp.sum(multiply(x, y, n) ** 2), (0, 1))):
        leaves = effx.tree_util.tree_leaves(fun(x, y, n))
        for z, want in zip(run_form_of(platform, fun, x, y, n), leaves, strict=True):
            np.testing.assert_allclose(z, np.asarray(want), rtol=1e-5, atol=1e-5)


def test_many_grouped_products_are_in_a_loop() -> None:
    """Where all rows by all matrices take longer than the loop's waiting."""
    x: Any = effx.ShapeDtypeStruct((1 << 14, 1 << 10), np.float32)
    y: Any = effx.ShapeDtypeStruct((8, 1 << 10, 1 << 10), np.float32)
    n: Any = effx.ShapeDtypeStruct((8,), np.int32)
    text = effx.jit(lax.ragged_dot).trace(x, y, n).lower(lowering_platforms=(GPU,)).as_text()
    assert "stablehlo.while" in text


@pytest.mark.parametrize("which", ["igamma", "igammac", "betainc"])
def test_loops_in_strides(which: str) -> None:
    """What is computed beyond the end of a series or fraction does not change its value."""
    a, x = [v.ravel() for v in np.meshgrid(np.geomspace(0.1, 50, 7), np.geomspace(0.01, 60, 9))]
    operands = [v.astype(np.float32) for v in ((a, x, x / 61) if which == "betainc" else (a, x))]
    fun = getattr(lax, which)
    (y,) = run_form_of(GPU, fun, *operands)
    np.testing.assert_allclose(y, np.asarray(fun(*operands)), rtol=2e-6)


@pytest.mark.parametrize("platform", [GPU, "tpu"])
def test_medians(platform: str) -> None:
    """By sorts that need not keep the order of equal elements."""
    x = np.resize(SPECIAL, (5, 8))
    for fun, want in ((enp.median, np.median), (enp.nanmedian, np.nanmedian)):
        np.testing.assert_array_equal(run_form_of(platform, lambda x, fun=fun: fun(x, 1), x)[0], want(x, 1))


@pytest.mark.parametrize(("source", "target"), [("complex64", "float32"), ("float32", "complex64")])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (2, 4), (2,)], ids=str)
def test_views_of_complex_numbers(shape: tuple[int, ...], source: str, target: str) -> None:
    """Parts in turn, of arrays without elements too."""
    x = np.arange(np.prod(shape)).reshape(shape).astype(source)
    (y,) = run_form_of(GPU, lambda x: x.view(target), x)
    np.testing.assert_array_equal(y, x.view(target))


FACTORS = np.ones((1, 32, 2, 4), np.float32)
MATRICES = np.ones((2, 32, 32), np.float32)
BATCHED = (((2,), (2,)), ((0,), (0,)))


def multiply_in_mxfp8(x: Any, y: Any) -> Any:
    configs = [effx.nn.get_scaled_dot_general_config("mxfp8")] * 2
    configs.append(effx.nn.get_scaled_dot_general_config("nvfp4"))
    return effx.nn.scaled_dot_general(x, y, BATCHED, configs=configs)


@pytest.mark.parametrize(
    ("function", "operand"),
    [
        (lambda x: effx.nn.dot_product_attention(x, x, x), FACTORS),
        (lambda x: effx.nn.dot_product_attention(x, x, x, implementation="blocks"), FACTORS),
        (lambda x: effx.nn.scaled_matmul(x, x, x, x), MATRICES),
        (lambda x: multiply_in_mxfp8(x, x), MATRICES),
        (lambda x: enp.einsum("bij,bkj->bik", x, x), MATRICES),
        (lambda x: enp.linalg.matrix_power(x, 3), MATRICES),
        (lambda x: enp.convolve(x[0, 0], x[0, 1, :3]), MATRICES),
    ],
    ids=[
        "attention",
        "attention in blocks",
        "scaled_matmul",
        "scaled_dot_general",
        "einsum",
        "power",
        "convolve",
    ],
)
def test_products_have_the_default_precision(function: Callable[..., Any], operand: Data) -> None:
    """That of the setting, and their gradients too."""
    gradient = effx.grad(lambda x: function(x).sum())
    with effx.default_matmul_precision("highest"):
        text = effx.jit(gradient).trace(operand).lower(lowering_platforms=(GPU,)).as_text()
    assert "HIGHEST" in text
    assert "DEFAULT" not in text


HALF, EIGHTH, WORD = enp.bfloat16, enp.float8_e4m3fn, np.float32


def half(x: Any) -> Any:
    return x.astype(HALF)


def whole(x: Any) -> Any:
    return x.astype(WORD)


def nest_calls(levels: int) -> Callable[[Any], Any]:
    """Calls a function twice, which calls another twice, …: 2^levels calls."""

    def call_twice(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return effx.jit(lambda x: f(x) + f(x + 1))

    f: Callable[[Any], Any] = effx.jit(lambda x: whole(x) * 2)
    for _ in range(levels):
        f = call_twice(f)
    return f


ROUNDINGS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "there and back": (lambda x: whole(half(x)), True),
    "a quantization": (lambda x: whole((x / 3).astype(EIGHTH).reshape(-1)) * 3, True),
    "twice": (lambda x: half(x).astype(EIGHTH), True),
    "of two halves": (lambda x: half(x).astype(np.float16), True),
    "of integers": (lambda x: whole(x.astype(np.int32).astype(np.float16)), True),
    "in a call": (lambda x: whole(effx.jit(half)(x)), True),
    "after a call": (lambda x: effx.jit(whole)(half(x)), True),
    "in a loop": (lambda x: lax.scan(lambda c, _: (whole(half(c)), None), x, length=2)[0], True),
    "through a loop": (lambda x: lax.fori_loop(0, 1, lambda i, c: half(whole(c) * 2), half(x)), True),
    "out of a loop": (lambda x: whole(lax.scan(lambda c, _: (c, half(c)), x, length=1)[1]), True),
    "by a carry": (lambda x: whole(lax.fori_loop(0, 3, lambda i, c: half(whole(c) * 2), half(x))), True),
    "in a branch": (lambda x: lax.cond(x[0, 0] > 0, whole, lambda y: whole(y) * 3, half(x)), True),
    "of a platform": (lambda x: lax.platform_dependent(half(x), cuda=whole, default=whole), True),
    "by a choice": (lambda x: whole(enp.where(x > 0, half(x), half(x * 2))), True),
    "without a gradient": (lambda x: whole(lax.stop_gradient(half(x))), True),
    "copied": (lambda x: whole(enp.copy(half(x))), True),
    "named": (lambda x: whole(effx.ad_checkpoint.checkpoint_name(half(x), "a")), True),
    "by bits": (
        lambda x: whole(lax.bitcast_convert_type(lax.bitcast_convert_type(half(x), np.uint16), HALF)),
        True,
    ),
    "by a vector": (lambda x: lax.dot(half(x), half(x[0]), preferred_element_type=WORD), True),
    "of short vectors": (lambda x: lax.dot(half(x[0]), half(x[1])), True),
    "of eighths": (
        lambda x: lax.dot(x.astype(EIGHTH), x.T.astype(EIGHTH), preferred_element_type=WORD),
        True,
    ),
    "negated eighths": (lambda x: whole(-x.astype(EIGHTH)), True),
    "many calls": (lambda x: nest_calls(40)(half(x)), True),
    "there": (half, False),
    "and computed": (lambda x: whole(half(x) * 2), False),
    "by a matrix": (lambda x: lax.dot(half(x), half(x.T), preferred_element_type=WORD), False),
    "by layers": (
        lambda x: lax.scan(lambda c, w: (half(whole(c @ w) * 2), None), half(x), half(enp.ones((3, 4, 4))))[
            0
        ],
        False,
    ),
    "to complex numbers": (lambda x: x.astype(np.complex64), False),
    "to integers": (lambda x: half(whole(x.astype(np.int32))), False),
    "to small integers": (lambda x: half(whole(x.astype(np.int8))), False),
    "nothing": (lambda x: x + 1, False),
}


@pytest.mark.parametrize("name", ROUNDINGS)
def test_roundings_are_kept(name: str) -> None:
    """XLA would take conversions back on GPUs: where a program has such, it may not; but a user's word counts."""
    function, is_kept = ROUNDINGS[name]
    program = effx.make_jaxpr(function)(np.ones((2, 4), np.float32))
    assert excess_precision_options(program, ()) == (((SWITCH, False),) if is_kept else ())
    assert excess_precision_options(program, ((SWITCH, True),)) == ()
