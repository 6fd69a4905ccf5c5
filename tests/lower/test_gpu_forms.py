"""Forms of operations for GPUs and TPUs that XLA:CPU takes too: their values are those of CPUs' own forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx.numpy as enp
from effx import lax
from effx.effects import handle
from effx.handlers.oracle import Reference
from tests.lower.forms import run_form_of
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
