"""Scaled products are products of scaled matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import effx
from effx import dtypes, nn
from effx.errors import DTypeError, EffxError, ShapeError

RNG = np.random.default_rng(2)
A, B = RNG.normal(size=(2, 3, 8)), RNG.normal(size=(2, 5, 8))
X, Y = RNG.uniform(0.5, 2, (2, 3, 4)), RNG.uniform(0.5, 2, (2, 5, 2))


@pytest.mark.parametrize(
    "dtype", [np.dtype("f4"), np.dtype("f2"), dtypes.bfloat16, dtypes.float8_e4m3fn, np.dtype("i1")]
)
def test_values(dtype: dtypes.DType) -> None:
    """Of operands rounded to their dtype, in f32; jitted as well."""
    a, b, x, y = (4 * A).astype(dtype), (4 * B).astype(dtype), X.astype(np.float32), Y.astype(np.float32)
    left = a.astype("f4") * np.repeat(x, 2, -1)
    right = b.astype("f4") * np.repeat(y, 4, -1)
    want = np.einsum("bmk,bnk->bmn", left, right)
    np.testing.assert_allclose(nn.scaled_matmul(a, b, x, y), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(effx.jit(nn.scaled_matmul)(a, b, x, y), want, rtol=1e-4, atol=1e-4)
    few = nn.scaled_matmul(a, b, x, y, np.float16)
    assert few.dtype == np.float16
    np.testing.assert_allclose(few, want, rtol=1e-2, atol=1e-2)


def test_gradients_and_batches() -> None:
    """Against differences, and against one after the other."""
    operands = [v.astype(np.float32) for v in (A, B, X, Y)]
    effx.test_util.check_grads(nn.scaled_matmul, operands, 1, atol=0.05, rtol=0.05)
    batch = effx.vmap(nn.scaled_matmul)(*[np.stack([v, 2 * v]) for v in operands])
    np.testing.assert_allclose(batch[1], 16 * np.asarray(nn.scaled_matmul(*operands)), rtol=1e-4)


ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: nn.scaled_matmul(A, B[:, :, :4], X, Y),
        ShapeError,
        "scaled_matmul: lhs must be [b, m, k] and rhs [b, n, k], got f32[2,3,8] and f32[2,5,4]",
    ),
    (
        lambda: nn.scaled_matmul(A, B, X[..., :3], Y),
        ShapeError,
        "scaled_matmul: lhs_scales must be [2, 3, i] where i divides 8, got f32[2,3,3]",
    ),
    (
        lambda: nn.scaled_matmul(A, B * 1j, X, Y),
        DTypeError,
        "scaled_matmul: takes real numbers, got c64[2,5,8] and f32[2,5,2]",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "text"), ERRORS)
def test_errors(wrong: Callable[[], object], error: type[EffxError], text: str) -> None:
    with pytest.raises(error) as raised:
        wrong()
    assert str(raised.value).partition("\n")[0] == text
