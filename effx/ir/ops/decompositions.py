"""Decompositions: operations expressed by others, exactly in real arithmetic.

A handler without a rule for an operation may use its decomposition, and so may a lowering to a small set of
operations. In floating point a decomposition may lose digits, which is why the operation exists.

Never: decompose in a circle: each leads to exp, log, sin, cos, arithmetic, comparison and select.
"""

import math
from typing import TYPE_CHECKING

from effx.effects import decomposes
from effx.ir.ops import elementwise as e
from effx.ir.ops.compare import Ge, Gt, Le, Lt
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import ReduceOr, ReduceSum
from effx.ir.ops.shape import BroadcastInDim, Transpose

if TYPE_CHECKING:
    from effx.ir.values.array import Array

EXP, LOG, SIN, COS, SELECT = e.Exp(), e.Log(), e.Sin(), e.Cos(), e.Select()

decomposes(e.Exp2)(lambda op, x: EXP(x * math.log(2)))
decomposes(e.Expm1)(lambda op, x: EXP(x) - 1.0)
decomposes(e.Log1p)(lambda op, x: LOG(x + 1.0))
decomposes(e.Square)(lambda op, x: x * x)
decomposes(e.OneMinusSquare)(lambda op, x: (1 - x) * (1 + x))
decomposes(e.Rsqrt)(lambda op, x: 1.0 / e.Sqrt()(x))
decomposes(e.Tan)(lambda op, x: SIN(x) / COS(x))
decomposes(e.Sinh)(lambda op, x: (EXP(x) - EXP(-x)) * 0.5)
decomposes(e.Cosh)(lambda op, x: (EXP(x) + EXP(-x)) * 0.5)
# 1 - 2 / (e^2x + 1) stays finite where e^2x is infinite.
decomposes(e.Tanh)(lambda op, x: 1.0 - 2.0 / (EXP(x * 2.0) + 1.0))
decomposes(e.Logistic)(lambda op, x: 1.0 / (EXP(-x) + 1.0))
decomposes(e.Asinh)(lambda op, x: LOG(x + e.Sqrt()(x * x + 1.0)))
# The product of two roots is on the right branch for complex numbers.
decomposes(e.Acosh)(lambda op, x: LOG(x + e.Sqrt()(x + 1.0) * e.Sqrt()(x - 1.0)))
decomposes(e.Atanh)(lambda op, x: LOG((x + 1.0) / (1.0 - x)) * 0.5)
decomposes(e.Acos)(lambda op, x: math.pi / 2 - e.Asin()(x))


@decomposes(e.Abs)
def _abs(op: e.Abs, x: "Array") -> "Array":
    if x.type.kind == "c":
        re, im = e.Real()(x), e.Imag()(x)
        return e.Sqrt()(re * re + im * im)
    return SELECT(Lt()(x, x * 0), x, -x)


@decomposes(e.Sign)
def _sign(op: e.Sign, x: "Array") -> "Array":
    if x.type.kind == "c":
        size = e.Abs()(x)
        return x / SELECT(Gt()(size, size * 0), size * 0 + 1, size)
    zero = x * 0
    return SELECT(Gt()(x, zero), SELECT(Lt()(x, zero), zero, zero - 1), zero + 1)


@decomposes(e.Max)
def _max(op: e.Max, x: "Array", y: "Array") -> "Array":
    return SELECT(Ge()(x, y), y, x)


@decomposes(e.Min)
def _min(op: e.Min, x: "Array", y: "Array") -> "Array":
    return SELECT(Le()(x, y), y, x)


@decomposes(e.Clamp)
def _clamp(op: e.Clamp, low: "Array", x: "Array", high: "Array") -> "Array":
    return e.Min()(e.Max()(x, low), high)


@decomposes(e.IntegerPow)
def _integer_pow(op: e.IntegerPow, x: "Array") -> "Array":
    n = abs(op.exponent)
    if n == 0:
        return x * 0 + 1
    # Square and multiply, from the highest bit down.
    y = x
    for bit in bin(n)[3:]:
        y = y * y
        if bit == "1":
            y = y * x
    return y if op.exponent > 0 else 1.0 / y


@decomposes(DotGeneral)
def _dot_general(op: DotGeneral, x: "Array", y: "Array") -> "Array":
    if op.preferred is not None and op.preferred != x.type.dtype:
        x, y = x.astype(op.preferred), y.astype(op.preferred)
    # Axes: batch, remaining ones of x, remaining ones of y, contracted; then a product and a sum over the
    # last.
    bx, by, cx, cy = op.lhs_batch, op.rhs_batch, op.lhs_contract, op.rhs_contract
    fx = [i for i in range(x.type.ndim) if i not in (*bx, *cx)]
    fy = [i for i in range(y.type.ndim) if i not in (*by, *cy)]
    x, y = Transpose((*bx, *fx, *cx))(x), Transpose((*by, *fy, *cy))(y)
    b, m, n, c = len(bx), len(fx), len(fy), len(cx)
    left, right = x.type.shape, y.type.shape
    shape = (*left[: b + m], *right[b : b + n], *left[b + m :])
    last = tuple(range(b + m + n, b + m + n + c))
    wide_x = BroadcastInDim(shape, (*range(b + m), *last))(x)
    wide_y = BroadcastInDim(shape, (*range(b), *range(b + m, b + m + n), *last))(y)
    if x.type.kind == "b":
        return ReduceOr(last)(e.And()(wide_x, wide_y))
    return ReduceSum(last)(e.Mul()(wide_x, wide_y))
