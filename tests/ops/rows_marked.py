"""Rows of products over groups of rows, and of operations that say something of what is to be compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from effx.errors import DTypeError, ProgramError, ShapeError
from effx.families.accuracy import FUNCTIONS, Accurate
from effx.families.attention import FusedAttention, FusedAttentionGradient, FusedAttentionTangent
from effx.families.callbacks.callback import PythonCallback
from effx.families.callbacks.function import HostFunction
from effx.families.composite import Composite
from effx.families.foreign import ForeignCall
from effx.families.order_statistics import OrderStatistics
from effx.families.platform import PlatformIndex
from effx.families.ragged import GroupedMatmul, GroupedOuter
from effx.families.topk import ApproximateTopK, TopIndices, TopK
from effx.ir.types import ArrayType
from effx.laws.samples import Data, anything
from effx.tree import structure
from tests.ops.rows import Invalid, Row, Sample, b1, bf16, c128, f16, f32, f64, i32, refuses, spaced, t, u8
from tests.ops.rows_control import PAIRS, SINE, program


def rising(rng: np.random.Generator, type: ArrayType) -> Data:
    """Draws bounds of groups, the last one at times after the last row."""
    return np.sort(rng.integers(0, 6, type.shape), axis=-1).astype(type.dtype)


def ranks(rng: np.random.Generator, type: ArrayType) -> Data:
    """Draws ranks of rows, some beyond both ends."""
    return rng.integers(-1, 6, type.shape).astype(type.dtype)


def grouped(op: Any, lhs: tuple[int, ...], rhs: tuple[int, ...], groups: int, *of: Any) -> list[Sample]:
    domains = (anything, anything, rising)
    return [Sample(op, (t(d, *lhs), t(d, *rhs), t(i32, lhs[0], groups + 1)), domains) for d in of]


def hyperbolic(type: ArrayType) -> PythonCallback:
    """Calls NumPy for an array of this type, or for a batch."""
    function = HostFunction(
        "pure_callback", "tanh", lambda xs: np.tanh(np.asarray(xs[0])), (type,), structure(0)
    )
    return PythonCallback(function, (type,), vmap_method="broadcast_all")


COMPOSITES = {n: Composite(program(SINE, n), "my.sine", 1, (("a", "1 : i64"),)) for n, _ in PAIRS}

ROWS = [
    Row(
        GroupedMatmul,
        (
            *grouped(GroupedMatmul(), (1, 5, 2), (1, 3, 2, 4), 3, i32, bf16, f32, f64, c128),
            *grouped(GroupedMatmul(), (4, 3, 2), (2, 2, 2, 3), 2, f32, f64),
            *grouped(GroupedMatmul(preferred=f64), (1, 5, 2), (1, 3, 2, 4), 3, f64),
            *grouped(GroupedMatmul(), (1, 0, 2), (1, 3, 2, 4), 3, f32),
            *grouped(GroupedMatmul(), (1, 5, 0), (1, 3, 0, 4), 3, f32),
            *grouped(GroupedMatmul(), (0, 5, 2), (0, 3, 2, 4), 3, f32),
            *grouped(GroupedMatmul(), (1, 5, 2), (1, 0, 2, 4), 0, f32),
        ),
        smooth=(0, 1),
        linear=((0,), (1,)),
        tolerance=4.0,
        invalid=(
            refuses(
                GroupedMatmul(),
                t(f32, 1, 5, 2),
                t(f64, 1, 3, 2, 4),
                t(i32, 1, 4),
                error=DTypeError,
                text="grouped_matmul: operand dtypes differ: lhs is f32[1,5,2], rhs is f64[1,3,2,4]",
            ),
            refuses(
                GroupedMatmul(),
                t(f32, 1, 5, 2),
                t(f32, 1, 3, 2, 4),
                t(f32, 1, 4),
                error=DTypeError,
                text="grouped_matmul: the groups' bounds must be i32, got f32[1,4]",
            ),
            refuses(
                GroupedMatmul(),
                t(f32, 5, 2),
                t(f32, 3, 2, 4),
                t(i32, 4),
                error=ShapeError,
                text="grouped_matmul: operands must have (3, 4, 2) axes, got f32[5,2], f32[3,2,4], i32[4]",
            ),
            refuses(
                GroupedMatmul(),
                t(f32, 1, 5, 2),
                t(f32, 1, 3, 2, 4),
                t(i32, 1, 3),
                error=ShapeError,
                text="grouped_matmul: sizes do not fit: f32[1,5,2], f32[1,3,2,4], i32[1,3]",
            ),
            refuses(
                GroupedMatmul(),
                t(f32, 2, 5, 2),
                t(f32, 1, 3, 2, 4),
                t(i32, 1, 4),
                error=ShapeError,
                text="grouped_matmul: needs a row of bounds for each element of lhs, got f32[2,5,2], f32[1,3,2,4], i32[1,4]",
            ),
        ),
    ),
    Row(
        GroupedOuter,
        (
            *grouped(GroupedOuter(), (1, 5, 2), (1, 5, 3), 3, i32, bf16, f32, f64, c128),
            *grouped(GroupedOuter(2), (4, 3, 2), (4, 3, 3), 2, f32, f64),
            *grouped(GroupedOuter(), (1, 0, 2), (1, 0, 3), 3, f32),
            *grouped(GroupedOuter(), (0, 5, 2), (0, 5, 3), 3, f32),
            *grouped(GroupedOuter(), (1, 5, 2), (1, 5, 3), 0, f32),
        ),
        smooth=(0, 1),
        linear=((0,), (1,)),
        tolerance=4.0,
        invalid=(
            refuses(
                GroupedOuter(2),
                t(f32, 1, 5, 2),
                t(f32, 1, 5, 3),
                t(i32, 1, 4),
                error=ShapeError,
                text="grouped_outer: sizes do not fit: f32[1,5,2], f32[1,5,3], i32[1,4]",
            ),
        ),
    ),
    Row(
        Accurate,
        (
            *[
                Sample(Accurate(name, highest=True), (t(d, 4),), ((0.3, 0.9),))
                for name in FUNCTIONS
                for d in (f32, f64)
            ],
            Sample(Accurate("exp", 1e-3, 1e-3, 2), (t(f32),), ((0.3, 0.9),)),
            Sample(Accurate("exp", ulps=2), (t(f32, 0),)),
            Sample(Accurate("sin", ulps=2), (t(c128, 3),)),
        ),
        tolerance=8.0,
        invalid=(
            Invalid(
                lambda: Accurate("sine"),
                ProgramError,
                f"accurate: function must be one of {', '.join(FUNCTIONS)}, got 'sine'",
            ),
            refuses(
                Accurate("exp"),
                t(i32),
                error=DTypeError,
                text="exp: operand must be floating or complex, got i32[]",
            ),
        ),
    ),
    Row(
        TopIndices,
        tuple(
            [
                Sample(TopIndices(k), (t(f32, *shape),))
                for k, shape in ((2, (3, 4)), (0, (2, 3)), (1, (1, 1)), (3, (2, 3)), (1, (0, 2)))
            ]
        ),
        exact=True,
        invalid=(
            refuses(
                TopIndices(3),
                t(f32, 2, 2),
                error=ShapeError,
                text="top_indices: takes rows of at least 3 elements, got f32[2,2]",
            ),
            refuses(
                TopIndices(1),
                t(i32, 2, 2),
                error=DTypeError,
                text="top_indices: takes f32 numbers, got i32[2,2]",
            ),
        ),
    ),
    Row(
        TopK,
        tuple(
            [
                Sample(TopK(k), (t(d, *shape),), (spaced,))
                for d in (i32, u8, bf16, f32, f64, c128)
                for k, shape in ((2, (3, 4)), (0, (2, 3)), (1, (1,)), (3, (2, 2, 3)), (1, (0, 2)))
            ]
            + [Sample(TopK(2, stable=False), (t(f64, 5),), (spaced,)), Sample(TopK(1), (t(b1, 3),))]
        ),
        invalid=(
            refuses(
                TopK(3),
                t(f32, 2, 2),
                error=ShapeError,
                text="top_k: takes rows of at least 3 elements, got f32[2,2]",
            ),
            refuses(
                TopK(0), t(f32), error=ShapeError, text="top_k: takes rows of at least 0 elements, got f32[]"
            ),
        ),
    ),
    Row(
        OrderStatistics,
        tuple(
            [
                Sample(OrderStatistics(), (t(d, *rows, n), t(i32, *rows, k)), (spaced, ranks))
                for d in (i32, u8, bf16, f16, f32, f64)
                for rows, n, k in (((3,), 4, 2), ((), 5, 1), ((2, 2), 1, 1), ((2,), 3, 0), ((0,), 2, 1))
            ]
            + [Sample(OrderStatistics(), (t(b1, 3), t(i32, 2)), (anything, ranks))]
        ),
        invalid=(
            refuses(
                OrderStatistics(),
                t(f32, 2, 3),
                t(i32, 2),
                error=ShapeError,
                text="order_statistics: rows and their ranks must have the same axes: f32[2,3], i32[2]",
            ),
            refuses(
                OrderStatistics(),
                t(f32, 2, 3),
                t(f32, 2, 1),
                error=DTypeError,
                text="order_statistics: ranks must be i32, got f32[2,1]",
            ),
            refuses(
                OrderStatistics(),
                t(c128, 3),
                t(i32, 1),
                error=DTypeError,
                text="order_statistics: the operand must be boolean, integer or floating, got c128[3]",
            ),
            refuses(
                OrderStatistics(),
                t(f32, 2, 0),
                t(i32, 2, 1),
                error=ShapeError,
                text="order_statistics: rows must have an element, got f32[2,0]",
            ),
        ),
    ),
    Row(
        ApproximateTopK,
        tuple(
            [
                Sample(ApproximateTopK(k, smallest=smallest), (t(d, *shape),), (spaced,))
                for d in (bf16, f32, f64)
                for k, shape, smallest in ((2, (3, 4), False), (3, (2, 3), True), (1, (0, 2), False))
            ]
        ),
        invalid=(
            refuses(
                ApproximateTopK(1),
                t(i32, 2, 2),
                error=DTypeError,
                text="approximate_top_k: the operand must be floating, got i32[2,2]",
            ),
        ),
    ),
    Row(
        PythonCallback,
        smooth=(),
        samples=tuple(
            [
                Sample(hyperbolic(t(d, *shape)), (t(d, *shape),))
                for d in (f32, f64)
                for shape in ((), (2, 3), (0,))
            ]
        ),
        invalid=(
            refuses(
                hyperbolic(t(f32)),
                error=ShapeError,
                text="pure_callback: tanh takes 1 arrays, got 0",
            ),
        ),
    ),
    # What a foreign function computes only XLA knows: tests/test_ffi.py are its tests.
    Row(
        ForeignCall,
        samples=(),
        invalid=(
            refuses(
                ForeignCall("f", (t(f32),), in_layouts=((1, 0),)),
                t(f32, 2),
                error=ShapeError,
                text="ffi_call: the layout of input 0 of f must list the 1 axes of f32[2], got (1, 0)",
            ),
            refuses(
                ForeignCall("f", (t(f32),), aliases=((0, 1),)),
                t(f32),
                error=ShapeError,
                text="ffi_call: input_output_aliases of f has the pair 0: 1, but there are 1 inputs and 1 outputs",
            ),
        ),
    ),
    # These run on NVIDIA GPUs alone: tests/nn/test_cudnn_attention.py are their tests.
    Row(
        FusedAttention,
        samples=(),
        invalid=(
            refuses(
                FusedAttention(1.0, padded=True),
                *[t(f16, 2, 4, 2, 8)] * 3,
                t(i32, 2),
                error=ShapeError,
                text="dot_product_attention: cuDNN's kernel takes 5 operands, got f16[2,4,2,8], f16[2,4,2,8], f16[2,4,2,8], "
                "i32[2]",
            ),
            refuses(
                FusedAttention(1.0, padded=True),
                *[t(f16, 2, 4, 2, 8)] * 3,
                *[t(i32, 3)] * 2,
                error=ShapeError,
                text="dot_product_attention: cuDNN's kernel takes lengths i32[2], got i32[3]",
            ),
            refuses(
                FusedAttention(1.0, biased=True),
                *[t(f16, 2, 4, 2, 8)] * 3,
                t(f16, 2, 2, 1, 4),
                error=ShapeError,
                text="dot_product_attention: cuDNN's kernel takes a bias [b or 1, n or 1, t, s] for [2, 2, 4, 4], got "
                "f16[2,2,1,4]",
            ),
            refuses(
                FusedAttention(1.0, biased=True),
                *[t(f16, 2, 4, 2, 8)] * 3,
                t(f32, 2, 2, 4, 4),
                error=DTypeError,
                text="dot_product_attention: cuDNN's kernel takes a bias of query's dtype, got f32[2,2,4,4] for "
                "f16[2,4,2,8]",
            ),
            refuses(
                FusedAttention(1.0),
                *[t(f16, 2, 4, 3, 8), t(f16, 2, 4, 2, 8), t(f16, 2, 4, 2, 8)],
                error=ShapeError,
                text="dot_product_attention: the number of heads of query must be a multiple of that of key, got 3 and 2",
            ),
            refuses(
                FusedAttention(1.0),
                *[t(f16, 2, 4, 2, 8), t(f16, 3, 4, 2, 8), t(f16, 3, 4, 2, 8)],
                error=ShapeError,
                text="dot_product_attention: query must be [b, t, n, h], key and value [b, s, k, h], got f16[2,4,2,8], "
                "f16[3,4,2,8] and f16[3,4,2,8]",
            ),
        ),
    ),
    Row(FusedAttentionGradient, samples=()),
    Row(FusedAttentionTangent, samples=()),
    Row(
        PlatformIndex,
        (
            Sample(PlatformIndex((("cuda",), ("cpu",), ())), ()),
            Sample(PlatformIndex((("cuda", "rocm"), ())), ()),
        ),
        exact=True,
        invalid=(
            refuses(
                PlatformIndex((("cpu",),)),
                t(f32),
                error=ShapeError,
                text="platform_index: takes 0 operands, got 1: f32[]",
            ),
        ),
    ),
    Row(
        Composite,
        tuple([Sample(COMPOSITES[n], (t(d, 3), t(d))) for n, d in PAIRS]),
        tolerance=4.0,
        invalid=(
            refuses(
                COMPOSITES["f32"],
                t(f32, 3),
                error=ProgramError,
                text="composite: my.sine takes (f32[3], f32[]), got (f32[3])",
            ),
        ),
    ),
]
