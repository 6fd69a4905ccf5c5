"""Attention by cuDNN's kernels: their rules against XLA's attention, the text for CUDA, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
from effx import dtypes, lax, nn
from effx.effects import handle
from effx.errors import (
    BackendError,
    DTypeError,
    EffxError,
    OptionError,
    ShapeError,
    ShardingError,
    TransformError,
)
from effx.export import symbolic_shape
from effx.handling import Reference
from effx.lower.text.hlo import mlir_module
from effx.sharding import AxisType, NamedSharding
from effx.sharding import PartitionSpec as P

RNG = np.random.default_rng(0)
B, T, S, N, K, H = 2, 6, 8, 4, 2, 16


def draw(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float16)


Q, KEY, VALUE, WEIGHTS = draw(B, T, N, H), draw(B, S, K, H), draw(B, S, K, H), draw(B, T, N, H)
# Each query has a key: what others get differs.
MASK = RNG.random((B, 1, T, S)) < 0.7
MASK[..., 0] = True
QUERIES, KEYS = np.array([6, 3], np.int32), np.array([5, 8], np.int32)

CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "all": ({"scale": 0.3}, None),
    "causal": ({"is_causal": True}, None),
    "window": ({"is_causal": True, "local_window_size": (2, 1)}, None),
    "window alone": ({"local_window_size": (2, 0)}, None),
    "lengths": ({"query_seq_lengths": QUERIES, "key_value_seq_lengths": KEYS}, None),
    "lengths of keys": ({"key_value_seq_lengths": KEYS, "is_causal": True}, None),
    "mask": ({"mask": MASK}, None),
    "bias": ({}, draw(1, N, T, S)),
    "bias of each": ({}, draw(B, N, T, S)),
    "bias of batches": ({"mask": MASK}, draw(B, 1, T, S)),
    "bias of keys": ({"query_seq_lengths": QUERIES}, draw(1, 1, 1, S)),
}
every_case = pytest.mark.parametrize("name", CASES)


def attention(name: str, implementation: Any) -> Callable[..., effx.Array]:
    """Returns a case as a function of query, key, value and bias."""

    def f(*xs: Any) -> effx.Array:
        y: effx.Array = nn.dot_product_attention(*xs, implementation=implementation, **CASES[name][0])
        return y

    return f


def gradient(f: Callable[..., effx.Array], count: int) -> Callable[..., Any]:
    return effx.grad(lambda *xs: (f(*xs).astype(np.float32) * WEIGHTS).sum(), tuple(range(count)))


def assert_alike(results: Callable[[Any], Any]) -> None:
    """Compares what "cudnn" gives, by the operations' meaning in NumPy, with "xla"."""
    with handle(Reference()):
        ours = effx.tree.leaves(results("cudnn"))
    theirs = effx.tree.leaves(effx.jit(lambda: results("xla"))())
    assert [x.type for x in ours] == [x.type for x in theirs]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), atol=0.03, rtol=0.01)


@every_case
def test_values_and_gradients(name: str) -> None:
    bias = CASES[name][1]
    xs = [Q, KEY, VALUE, *([] if bias is None else [bias])]
    assert_alike(lambda i: [attention(name, i)(*xs), *gradient(attention(name, i), len(xs))(*xs)])


# XLA compiles for seconds: the rules for operands are all in two cases.
@pytest.mark.parametrize(
    "name", [n if n in ("lengths", "bias") else pytest.param(n, marks=pytest.mark.deep) for n in CASES]
)
def test_batches(name: str) -> None:
    """All operands have the batch, or the first or last one; the gradient is inside vmap, or vmap inside of it."""
    bias = CASES[name][1]
    xs = [Q, KEY, VALUE, *([] if bias is None else [bias])]
    many = [np.stack([x, x + np.float16(0.5), -x], 1) for x in xs]
    for moving in (range(len(xs)), (0,), (len(xs) - 1,)):
        axes = [1 if i in moving else None for i in range(len(xs))]
        operands = [y if i in moving else x for i, (x, y) in enumerate(zip(xs, many, strict=True))]

        def results(i: Any, axes: Any = axes, operands: Any = operands) -> object:
            f = attention(name, i)
            batched = effx.vmap(f, axes)
            inside = effx.vmap(gradient(f, len(xs)), axes)(*operands)
            return batched(*operands), inside, gradient(batched, len(xs))(*operands)

        assert_alike(results)


def test_loops_and_checkpoints() -> None:
    """The gradient of a scan whose iterations are computed again, inside jit."""

    def results(i: Any) -> object:
        def layer(x: effx.Array, _: None) -> tuple[effx.Array, None]:
            y = nn.dot_product_attention(x, KEY, VALUE, is_causal=True, implementation=i)
            return x + y, None

        def total(x: effx.Array) -> effx.Array:
            y, _ = lax.scan(effx.checkpoint(layer), x, None, length=3)
            result: effx.Array = (y.astype(np.float32) * WEIGHTS).sum()
            return result

        return effx.jit(effx.value_and_grad(total))(Q)

    assert_alike(results)


def test_residual_and_ranks() -> None:
    """The residual is logsumexp of the products, without a derivative; three axes are one batch element."""
    assert_alike(
        lambda i: nn.dot_product_attention(Q[0], KEY[0], VALUE[0], implementation=i, return_residual=True)
    )

    def summed(q: effx.Array) -> effx.Array:
        _, sums = nn.dot_product_attention(q, KEY, VALUE, implementation="cudnn", return_residual=True)
        return sums.sum()

    with handle(Reference()):
        assert not np.asarray(effx.grad(summed)(Q)).any()


def test_shapes() -> None:
    """Types need no GPU; without elements there is nothing to call."""
    described = effx.ShapeDtypeStruct(Q.shape, np.float16)
    result = effx.eval_shape(attention("all", "cudnn"), described, KEY, VALUE)
    assert (result.shape, result.dtype) == (Q.shape, np.float16)
    text = lowered(attention("all", "cudnn"), Q[:0], KEY[:0], VALUE[:0])
    assert "custom_call" not in text


def lowered(f: Callable[..., object], *xs: Any) -> str:
    """Returns the text for CUDA, which MLIR must know how to read."""
    text = effx.jit(f).trace(*xs).lower(lowering_platforms=("cuda",)).as_text()
    mlir_module(text)
    return text


def calls(text: str) -> list[tuple[str, dict[str, Any], str, str]]:
    """Returns for each call of cuDNN its target, parameters, layouts of results, and types."""
    found = re.findall(
        r'custom_call @"__cudnn\$(\w+)".*?backend_config = "(.*?)", .*?result_layouts = (\[.*?\])\} : (.*)',
        text,
    )
    return [
        (
            target,
            json.loads(config.replace("\\22", '"'))["cudnn_fmha_backend_config"],
            " ".join(re.findall(r"dense<\[(.*?)\]>", layouts)),
            re.sub(r"tensor<(.*?)>", r"\1", types),
        )
        for target, config, layouts, types in found
    ]


MASKS = {
    "causal": "CAUSAL",
    "window": "CAUSAL",
    "window alone": "CAUSAL",
    "lengths": "PADDING",
    "lengths of keys": "PADDING_CAUSAL",
    "bias of keys": "PADDING",
}


@every_case
def test_text(name: str) -> None:
    """One call of a kernel, and with a gradient two, with the parameters of the case."""
    bias = CASES[name][1]
    xs = [Q, KEY, VALUE, *([] if bias is None else [bias])]
    target = "fmhaScaleBiasSoftmax" if bias is not None or name == "mask" else "fmhaSoftmax"
    for f, targets in (
        (attention(name, "cudnn"), [target]),
        (gradient(attention(name, "cudnn"), len(xs)), [target, f"{target}Backward"]),
    ):
        found = calls(lowered(f, *xs))
        assert [call[0] for call in found] == targets
        for _, config, _, _ in found:
            assert config["mask_type"] == MASKS.get(name, "NO_MASK")
            assert config["sliding_window_length"] == (3 if "window" in name else 0)
            assert config["fmha_scale"] == (0.3 if name == "all" else 0.25)
            assert config["intermediate_tensor_shape"]["dimensions"] == ["2", "4", "6", "8"]
            assert config["intermediate_tensor_shape"]["element_type"] == "F16"


def test_operands_and_results() -> None:
    """Operands come in XLA's order; results have the heads before the rows, and lie as the operands do."""
    q, k, stats = "2x6x4x16xf16", "2x8x2x16xf16", "2x4x6xf32"
    y, dk = "2x4x6x16xf16", "2x2x8x16xf16"
    bias = draw(1, N, T, S)
    f = attention("lengths", "cudnn")
    (_, _, layouts, types), *_ = calls(lowered(f, Q, KEY, VALUE))
    assert layouts == "3, 1, 2, 0 0"
    assert types == f"({q}, {k}, {k}, 2xi32, 2xi32) -> ({y}, 0xui8)"
    forward, backward = calls(lowered(gradient(f, 4), Q, KEY, VALUE, bias))
    assert forward[2:] == (
        "3, 1, 2, 0 2, 1, 0 0",
        f"({q}, {k}, {k}, 1x4x6x8xf16, 2xi32, 2xi32) -> ({y}, {stats}, 0xui8)",
    )
    assert backward[2:] == (
        "3, 1, 2, 0 3, 1, 2, 0 3, 1, 2, 0 3, 2, 1, 0 0",
        f"({q}, {k}, {k}, {stats}, {q}, 1x4x6x8xf16, {q}, 2xi32, 2xi32) -> ({y}, {dk}, {dk}, 1x4x6x8xf16, 0xui8)",
    )
    products = {
        name.removesuffix("_dot_dimension_numbers"): [
            "".join(d[f"{side}_{part}_dimensions"])
            for part in ("contracting", "batch")
            for side in ("lhs", "rhs")
        ]
        for config in (forward[1], backward[1])
        for name, d in config.items()
        if name.endswith("_dot_dimension_numbers")
    }
    assert products == {
        "bmm1": ["3", "3", "02", "02"],
        "bmm2": ["3", "1", "01", "02"],
        "bmm1_grad_gemm1": ["2", "1", "01", "02"],
        "bmm1_grad_gemm2": ["3", "1", "01", "02"],
        "bmm2_grad_gemm1": ["2", "1", "01", "02"],
        "bmm2_grad_gemm2": ["3", "3", "02", "02"],
    }


def test_no_cotangent_of_masks() -> None:
    """A mask, and a bias that is no variable, have none: the kernel has one result less."""
    bias = draw(1, N, T, S)
    constant = gradient(lambda q, k, v: attention("mask", "cudnn")(q, k, v, bias), 3)
    assert calls(lowered(constant, Q, KEY, VALUE))[1][3].endswith(
        "(2x4x6x16xf16, 2x2x8x16xf16, 2x2x8x16xf16, 0xui8)"
    )


def wide(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def on_cuda(f: Callable[..., object], *xs: Any) -> Callable[[], object]:
    return lambda: lowered(f, *xs)


def with_size(text: str) -> Callable[[], object]:
    def attend() -> object:
        x = effx.ShapeDtypeStruct(symbolic_shape(text), np.float16)
        return effx.eval_shape(attention("all", "cudnn"), x, x, x)

    return attend


def sum_gradient(q: effx.Array) -> effx.Array:
    of_q: effx.Array = gradient(attention("all", "cudnn"), 1)(q, KEY, VALUE)[0]
    return of_q.sum()


def attend_with_bias(q: effx.Array, bias: effx.Array) -> effx.Array:
    y = attention("all", "cudnn")(q, KEY, VALUE, bias)
    return (y.astype(np.float32) ** 2).sum()


ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: attention("all", "cudnn")(Q, KEY, VALUE),
        BackendError,
        (
            "implementation='cudnn' runs on NVIDIA GPUs, and this program is for cpu; implementation='xla' and 'blocks' run "
            "everywhere"
        ),
    ),
    (
        lambda: (
            effx.jit(attention("all", "cudnn"))
            .trace(Q, KEY, VALUE)
            .lower(lowering_platforms=("tpu",))
            .as_text()
        ),
        BackendError,
        (
            "implementation='cudnn' runs on NVIDIA GPUs, and this program is for tpu; implementation='xla' and 'blocks' run "
            "everywhere"
        ),
    ),
    (
        lambda: attention("all", "cudnn")(wide(1, 2, 3, 8), wide(1, 2, 3, 8), wide(1, 2, 3, 8)),
        DTypeError,
        (
            "implementation='cudnn' takes query, key and value of float16 or bfloat16, got f32[1,2,3,8], f32[1,2,3,8] and "
            "f32[1,2,3,8]"
        ),
    ),
    (
        lambda: attention("all", "cudnn")(Q[..., :12], KEY[..., :12], VALUE[..., :12]),
        ShapeError,
        (
            "implementation='cudnn' takes heads of a multiple of 8 elements, at most 256 (128 before compute capability 9.0)"
            ", got 12"
        ),
    ),
    (
        with_size("b, 4, 2, 8"),
        ShapeError,
        "implementation='cudnn' takes known sizes, got f16[b,4,2,8], f16[b,4,2,8], f16[b,4,2,8]",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE, local_window_size=2, implementation="cudnn"),
        OptionError,
        (
            "implementation='cudnn' takes windows (before, 0), and with is_causal=True (before, after), none of it negative"
            ", got 2"
        ),
    ),
    (
        on_cuda(effx.grad(attend_with_bias, (0, 1)), Q[:, :5], draw(1, N, 5, S)),
        ShapeError,
        "implementation='cudnn' has gradients with a bias or mask for even numbers of queries and keys only, got 5 and 8",
    ),
    (
        on_cuda(lambda q: effx.jvp(lambda x: attention("all", "cudnn")(x, KEY, VALUE), (q,), (q,)), Q),
        TransformError,
        (
            "implementation='cudnn' has no forward-mode derivative (jvp, jacfwd, hessian); implementation='xla' and "
            "'blocks' have one"
        ),
    ),
    (
        on_cuda(effx.grad(sum_gradient), Q),
        TransformError,
        "implementation='cudnn' has no second derivatives; implementation='xla' and 'blocks' have them",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE, QUERIES, implementation="cudnn"),
        ShapeError,
        "bias must broadcast to [b, n, t, s] = [2, 4, 6, 8], got i32[2]",
    ),
    (
        lambda: nn.dot_product_attention(Q, KEY, VALUE, query_seq_lengths=KEYS[:1], implementation="cudnn"),
        ShapeError,
        "query_seq_lengths must be i32[2], got i32[1]",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "text"), ERRORS, ids=[str(i) for i in range(len(ERRORS))])
def test_errors(wrong: Callable[[], object], error: type[EffxError], text: str) -> None:
    """The whole sentence."""
    with pytest.raises(EffxError) as caught:
        wrong()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == f"dot_product_attention: {text}"


def test_bfloat16() -> None:
    xs = [x.astype(dtypes.bfloat16) for x in (Q, KEY, VALUE)]
    ((_, config, _, types),) = calls(lowered(attention("all", "cudnn"), *xs))
    assert config["intermediate_tensor_shape"]["element_type"] == "BF16"
    assert types == "(2x6x4x16xbf16, 2x8x2x16xbf16, 2x8x2x16xbf16) -> (2x4x6x16xbf16, 0xui8)"


def test_shardings() -> None:
    """Results are cut as query's batch and heads are, cotangents as their operands; rows must be whole."""
    mesh = effx.make_mesh((2, 2), ("X", "Y"), AxisType.Explicit)
    cut = [effx.device_put(x, NamedSharding(mesh, P("X", None, "Y"))) for x in (Q, KEY, VALUE)]
    seen: list[str] = []

    def attend(q: effx.Array, k: effx.Array, v: effx.Array) -> effx.Array:
        y, sums = nn.dot_product_attention(q, k, v, implementation="cudnn", return_residual=True)
        seen.extend([repr(y.type), repr(sums.type)])
        return y

    of_key = effx.grad(lambda k: attend(cut[0], k, cut[2]).astype(np.float32).sum())
    result = effx.eval_shape(of_key, cut[1])
    assert seen == ["f16[2@X,6,4@Y,16]", "f16[2@X,6,4@Y]"]
    assert result.sharding.spec == P("X", None, "Y", None)
    rows = effx.device_put(Q, NamedSharding(mesh, P(None, "X")))
    with pytest.raises(ShardingError) as caught:
        effx.eval_shape(attend, rows, *cut[1:])
    assert "axis 1 is sharded over 'X', and queries, keys and heads must be whole" in str(caught.value)


def test_shard_map() -> None:
    """Each device calls the kernel for its part; cotangents of a bias that all have are added up."""
    mesh = effx.make_mesh((2,), ("X",))
    whole, bias = P("X"), draw(1, N, T, S)

    def attend(*xs: effx.Array) -> effx.Array:
        return attention("causal", "cudnn")(*xs)

    mapped = effx.shard_map(attend, mesh=mesh, in_specs=(whole, whole, whole, P()), out_specs=whole)
    text = lowered(gradient(mapped, 4), Q, KEY, VALUE, bias)
    assert [call[0] for call in calls(text)] == ["fmhaScaleBiasSoftmax", "fmhaScaleBiasSoftmaxBackward"]
    assert "(1x6x4x16xf16, " in calls(text)[0][3]
    assert text.count("stablehlo.all_reduce") == 1
