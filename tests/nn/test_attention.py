"""dot_product_attention against a loop over queries, with every kind of mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from scipy import special

import effx
import effx.numpy as enp
from effx import nn
from effx.errors import DTypeError, EffxError, OptionError, ShapeError
from effx.laws.samples import Data

RNG = np.random.default_rng(0)
B, T, S, N, K, H = 2, 3, 4, 4, 2, 5
Q = RNG.normal(size=(B, T, N, H)).astype(np.float32)
KEY, VALUE = RNG.normal(size=(2, B, S, K, H)).astype(np.float32)
BIAS = RNG.normal(size=(1, N, T, S)).astype(np.float32)
MASK = RNG.random((B, 1, T, S)) < 0.7
QUERIES, KEYS = np.array([3, 2], np.int32), np.array([2, 4], np.int32)

CASES: dict[str, tuple[dict[str, Any], Callable[[int, int, int], bool]]] = {
    "all": ({}, lambda b, i, j: True),
    "bias and scale": ({"bias": BIAS, "scale": 0.7}, lambda b, i, j: True),
    "mask": ({"mask": MASK}, lambda b, i, j: bool(MASK[b, 0, i, j])),
    "causal": ({"is_causal": True}, lambda b, i, j: j <= i),
    "window": ({"local_window_size": (1, 2)}, lambda b, i, j: i - 1 <= j <= i + 2),
    "one width": ({"local_window_size": 1}, lambda b, i, j: abs(i - j) <= 1),
    "lengths": (
        {"query_seq_lengths": QUERIES, "key_value_seq_lengths": KEYS},
        lambda b, i, j: bool(i < QUERIES[b] and j < KEYS[b]),
    ),
    "every mask": (
        {
            "mask": MASK,
            "is_causal": True,
            "local_window_size": (2, 0),
            "key_value_seq_lengths": KEYS,
            "bias": BIAS,
        },
        lambda b, i, j: bool(MASK[b, 0, i, j] and i - 2 <= j <= i and j < KEYS[b]),
    ),
}


@pytest.mark.parametrize("implementation", [None, "blocks"])
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, implementation: Literal["blocks"] | None) -> None:
    """One query after the other; without a key it gets the mean, and behind the length 0."""
    options, takes = {**CASES[name][0], "implementation": implementation}, CASES[name][1]
    got, sums = nn.dot_product_attention(Q, KEY, VALUE, **options, return_residual=True)
    plain = nn.dot_product_attention(Q, KEY, VALUE, **options)
    want = np.zeros(Q.shape)
    for b, i, n in np.ndindex(B, T, N):
        k, v = KEY[b, :, n // (N // K)], VALUE[b, :, n // (N // K)]
        logits = k @ Q[b, i, n] * options.get("scale", H**-0.5)
        if "bias" in options:
            logits = logits + BIAS[0, n, i]
        chosen = [j for j in range(S) if takes(b, i, j)]
        if "query_seq_lengths" in options and i >= QUERIES[b]:
            continue
        want[b, i, n] = special.softmax(logits[chosen]) @ v[chosen] if chosen else v.mean(0)
        if chosen:
            np.testing.assert_allclose(sums[b, i, n], special.logsumexp(logits[chosen]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(plain, got)


def test_without_a_batch_and_in_few_bits() -> None:
    """Three axes are one batch element; products of bf16 are added up in f32."""
    one = nn.dot_product_attention(Q[0], KEY[0], VALUE[0])
    both = nn.dot_product_attention(Q, KEY, VALUE)
    np.testing.assert_allclose(one, both[0], rtol=1e-5, atol=1e-6)
    few = nn.dot_product_attention(*[x.astype(effx.dtypes.bfloat16) for x in (Q, KEY, VALUE)])
    assert few.dtype == effx.dtypes.bfloat16
    np.testing.assert_allclose(np.asarray(few).astype(np.float32), both, atol=0.05)


def test_gradients() -> None:
    """Against differences, through the softmax, with masked pairs."""
    with effx.enable_x64(True):
        wide: list[Data] = [x.astype(np.float64) for x in (Q, KEY, VALUE)]
        effx.test_util.check_grads(
            lambda q, k, v: nn.dot_product_attention(q, k, v, mask=MASK, is_causal=True), wide, 1
        )


LONG = 300  # two blocks of keys and a part of one


@pytest.mark.parametrize("of_keys", [True, False])
def test_blocks_are_the_whole(of_keys: bool) -> None:
    """Values, gradients by all operands, tangents and batches are those of all pairs at once."""
    q, k, v = [RNG.normal(size=(1, n, h, 8)).astype(np.float32) for n, h in ((70, 4), (LONG, 2), (LONG, 2))]
    bias = RNG.normal(size=(1, 4, 70 if of_keys else 1, LONG if of_keys else 1)).astype(np.float32)
    mask = RNG.random((1, 1, 70, LONG)) < 0.8
    lengths = np.array([250], np.int32)

    def attention(implementation: Literal["xla", "blocks"]) -> Callable[..., effx.Array]:
        def f(q: effx.Array, k: effx.Array, v: effx.Array, bias: effx.Array) -> effx.Array:
            return nn.dot_product_attention(
                q,
                k,
                v,
                bias,
                mask if of_keys else None,
                local_window_size=(200, 90) if of_keys else None,
                key_value_seq_lengths=lengths,
                implementation=implementation,
            )

        return f

    def results(f: Callable[..., effx.Array]) -> object:
        operands = q, k, v, bias
        gradients = effx.grad(lambda *given: (f(*given) ** 2).sum(), (0, 1, 2, 3))(*operands)
        return (
            f(*operands),
            gradients,
            effx.jvp(f, operands, operands),
            effx.vmap(f)(*[x[None] for x in operands]),
        )

    whole = effx.tree.leaves(effx.jit(lambda: results(attention("xla")))())
    parts = effx.tree.leaves(effx.jit(lambda: results(attention("blocks")))())
    for a, b in zip(parts, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def test_memory_of_blocks() -> None:
    """What a gradient keeps doubles where the sequence doubles; of all pairs at once it is four times as much."""

    def kept(implementation: Literal["xla", "blocks"], n: int) -> int:
        x = enp.zeros((1, n, 1, 16))

        def loss(q: effx.Array, k: effx.Array, v: effx.Array) -> effx.Array:
            return nn.dot_product_attention(q, k, v, is_causal=True, implementation=implementation).sum()

        analysis = effx.jit(effx.grad(loss, (0, 1, 2))).lower(x, x, x).compile().memory_analysis()
        assert analysis is not None
        return int(analysis.temp_size_in_bytes)

    assert kept("blocks", 4096) < 2.3 * kept("blocks", 2048)
    assert kept("xla", 2048) > 3.5 * kept("xla", 1024)
    assert 4 * kept("blocks", 4096) < kept("xla", 4096)


ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE, implementation="triton"),  # type: ignore[call-overload]  # an error
        OptionError,
        "implementation must be 'xla', 'cudnn', 'blocks' or None, got 'triton'",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE[:, :2]),
        ShapeError,
        "query must be [b, t, n, h], key and value [b, s, k, h], got f32[2,3,4,5], f32[2,4,2,5] and f32[2,2,2,5]",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE.astype(np.float16)),
        DTypeError,
        "query, key and value must be of one floating dtype, got f32[2,3,4,5], f32[2,4,2,5] and f16[2,4,2,5]",
    ),
    (
        lambda: nn.dot_product_attention(Q[:, :, :3], KEY, VALUE),
        ShapeError,
        "the number of heads of query must be a multiple of that of key, got 3 and 2",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE[0, 0]),
        ShapeError,
        "value must have 3 or 4 axes, got f32[2,5]",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE, mask=MASK[:, :, :2]),
        ShapeError,
        "mask must broadcast to [b, n, t, s] = [2, 4, 3, 4], got bool[2,1,2,4]",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE, mask=BIAS),
        DTypeError,
        "mask must be bool, got f32[2,4,3,4]; add other masks as bias",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE, query_seq_lengths=QUERIES[:1]),
        ShapeError,
        "query_seq_lengths must be i32[2], got i32[1]",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "text"), ERRORS, ids=[text for _, _, text in ERRORS])
def test_errors(wrong: Callable[[], object], error: type[EffxError], text: str) -> None:
    """The whole sentence."""
    with pytest.raises(EffxError) as caught:
        wrong()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == f"dot_product_attention: {text}"
