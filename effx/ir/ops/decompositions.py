"""Operations expressed by others, exactly in real arithmetic.

A handler without a rule for an operation may use its decomposition, and so may a lowering to a small set of
operations. In floating point a decomposition may lose digits: that is why the operation exists.

Never: lead in a circle: each line goes towards exp, log, sin, cos, arithmetic, comparison and select.
"""

import math
from typing import TYPE_CHECKING

from effx.effects import decomposes
from effx.ir.ops import elementwise as e
from effx.ir.ops.compare import Ge, Gt, Le, Lt
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import ReduceSum
from effx.ir.ops.shape import BroadcastInDim

if TYPE_CHECKING:
    from effx.array import Array

EXP, LOG, SIN, COS, SELECT = e.Exp(), e.Log(), e.Sin(), e.Cos(), e.Select()

decomposes(e.Exp2)(lambda op, x: EXP(x * math.log(2)))
decomposes(e.Expm1)(lambda op, x: EXP(x) - 1.0)
decomposes(e.Log1p)(lambda op, x: LOG(x + 1.0))
decomposes(e.Square)(lambda op, x: x * x)
decomposes(e.Rsqrt)(lambda op, x: 1.0 / e.Sqrt()(x))
decomposes(e.Tan)(lambda op, x: SIN(x) / COS(x))
decomposes(e.Sinh)(lambda op, x: (EXP(x) - EXP(-x)) * 0.5)
decomposes(e.Cosh)(lambda op, x: (EXP(x) + EXP(-x)) * 0.5)
# 1 - 2 / (e^2x + 1) stays finite where e^2x is infinite.
decomposes(e.Tanh)(lambda op, x: 1.0 - 2.0 / (EXP(x * 2.0) + 1.0))
decomposes(e.Logistic)(lambda op, x: 1.0 / (EXP(-x) + 1.0))
decomposes(e.Asinh)(lambda op, x: LOG(x + e.Sqrt()(x * x + 1.0)))
decomposes(e.Acosh)(lambda op, x: LOG(x + e.Sqrt()(x * x - 1.0)))
decomposes(e.Atanh)(lambda op, x: LOG((x + 1.0) / (1.0 - x)) * 0.5)
decomposes(e.Acos)(lambda op, x: math.pi / 2 - e.Asin()(x))
decomposes(e.Erfc)(lambda op, x: 1.0 - e.Erf()(x))


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
    # Axes: batch, what is left of x, what is left of y, contracted; then a product and a sum over the last.
    m, n = x.type.ndim, y.type.ndim
    bx, by = op.lhs_batch, op.rhs_batch
    cx, cy = op.lhs_contract, op.rhs_contract
    fx = [i for i in range(m) if i not in (*bx, *cx)]
    fy = [i for i in range(n) if i not in (*by, *cy)]
    b, k = len(bx), len(bx) + len(fx) + len(fy)
    shape = (
        *[x.type.shape[i] for i in (*bx, *fx)],
        *[y.type.shape[i] for i in fy],
        *[x.type.shape[i] for i in cx],
    )
    place_x = {**dict(zip(bx, range(b), strict=True)), **{a: b + i for i, a in enumerate(fx)}}
    place_x |= {a: k + i for i, a in enumerate(cx)}
    place_y = {**dict(zip(by, range(b), strict=True)), **{a: b + len(fx) + i for i, a in enumerate(fy)}}
    place_y |= {a: k + i for i, a in enumerate(cy)}
    wide_x = BroadcastInDim(shape, tuple([place_x[i] for i in range(m)]))(x)
    wide_y = BroadcastInDim(shape, tuple([place_y[i] for i in range(n)]))(y)
    return ReduceSum(tuple(range(k, len(shape))))(e.Mul()(wide_x, wide_y))
