"""Elementwise operations, comparisons and conversions in NumPy.

Never: compute in 16 or 32 bits; results are rounded once, at the end.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from effx import dtypes
from effx.handlers.oracle.handler import Data, round_to_dtype, rule, widen_floats
from effx.ir.ops import compare as c
from effx.ir.ops import convert as v
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Binary, Unary
from effx.ir.ops.checkpoint import Identity


def _sign(x: Data) -> Data:
    if x.dtype.kind == "c":
        return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))
    return np.where(x == 0, x, np.sign(x))  # NumPy drops the sign of -0.0


def _round_away_from_zero(x: Data) -> Data:
    # floor(|x| + 1/2) would round the float below 1/2 up, because the sum rounds to 1.
    truncated = np.trunc(x)
    return np.where(np.abs(x - truncated) >= 0.5, truncated + np.sign(x), truncated)


UNARY: dict[type[Unary], Callable[[Data], Data]] = {
    e.Neg: np.negative,
    e.Sign: _sign,
    e.Floor: np.floor,
    e.Ceil: np.ceil,
    e.RoundAwayFromZero: _round_away_from_zero,
    e.RoundToEven: np.rint,
    e.Exp: np.exp,
    e.Exp2: np.exp2,
    e.Expm1: np.expm1,
    e.Log: np.log,
    e.Log1p: np.log1p,
    e.Sqrt: np.sqrt,
    e.Rsqrt: lambda x: 1 / np.sqrt(x),
    e.Cbrt: np.cbrt,
    e.Square: lambda x: x * x,
    e.Sin: np.sin,
    e.Cos: np.cos,
    e.Tan: np.tan,
    e.Asin: np.arcsin,
    e.Acos: np.arccos,
    e.Atan: np.arctan,
    e.Sinh: np.sinh,
    e.Cosh: np.cosh,
    e.Tanh: np.tanh,
    e.Asinh: np.arcsinh,
    e.Acosh: np.arccosh,
    e.Atanh: np.arctanh,
    e.Logistic: lambda x: 1 / (1 + np.exp(-x)),
    e.OneMinusSquare: lambda x: (1 - x) * (1 + x),
    e.Conj: np.conj,
    e.Not: np.invert,
    v.StopGradient: lambda x: x,
    v.Copy: lambda x: x,
}


@rule(*UNARY)
def unary(op: Unary, x: Data) -> Data:
    return round_to_dtype(UNARY[type(op)](widen_floats(x)), x.dtype)


def _divide(x: Data, y: Data) -> Data:
    if x.dtype.kind not in "iu":
        return np.true_divide(x, y)
    # Toward zero. Dividing by zero gives all bits set, as processors without a trap do; the one
    # overflow, min / -1, wraps around.
    safe = np.where(y == 0, np.ones_like(y), y)
    if x.dtype.kind == "u":
        return np.where(y == 0, np.iinfo(x.dtype).max, x // safe).astype(x.dtype)
    quotient = x // safe
    quotient = quotient + ((quotient * safe != x) & ((x < 0) != (y < 0)))
    return np.where(y == 0, -1, np.where(y == -1, np.negative(x), quotient)).astype(x.dtype)


def _remainder(x: Data, y: Data) -> Data:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    safe = np.where(y == 0, np.ones_like(y), y)
    if x.dtype.kind == "i":
        safe = np.where(y == -1, np.ones_like(y), safe)
    return np.where(y == 0, x, np.fmod(x, safe)).astype(x.dtype)


def _shift(shift: Callable[[int, int, int], int]) -> Callable[[Data, Data], Data]:
    """Makes a shift of arrays from one of (bits of x, amount, width), all as unsigned numbers."""

    def apply(x: Data, y: Data) -> Data:
        bits = dtypes.bits(x.dtype)
        mask = (1 << bits) - 1
        x, y = np.broadcast_arrays(x, y)
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        result = [
            shift(int(a) & mask, int(b) & mask, bits) & mask for a, b in zip(x.flat, y.flat, strict=True)
        ]
        return np.asarray(result, unsigned).reshape(x.shape).view(x.dtype)

    return apply


def _shift_left(x: int, by: int, bits: int) -> int:
    return x << by if by < bits else 0


def _shift_right(x: int, by: int, bits: int) -> int:
    return x >> by if by < bits else 0


def _shift_right_signed(x: int, by: int, bits: int) -> int:
    signed = x - (1 << bits) if x >> (bits - 1) else x
    return signed >> min(by, bits)


def _maximum(x: Data, y: Data) -> Data:
    # IEEE 754-2019's maximum puts 0.0 above -0.0, which NumPy leaves open; their sum is right.
    return (
        np.where((x == 0) & (y == 0), np.add(x, y), np.maximum(x, y))
        if x.dtype.kind == "f"
        else np.maximum(x, y)
    )


def _minimum(x: Data, y: Data) -> Data:
    return -_maximum(np.asarray(-x), np.asarray(-y)) if x.dtype.kind == "f" else np.minimum(x, y)


BINARY: dict[type[Binary], Callable[[Data, Data], Data]] = {
    e.Add: np.add,
    e.Sub: np.subtract,
    e.Mul: np.multiply,
    e.Div: _divide,
    e.Rem: _remainder,
    e.Pow: np.power,
    e.Atan2: np.arctan2,
    e.Max: _maximum,
    e.Min: _minimum,
    e.And: np.bitwise_and,
    e.Or: np.bitwise_or,
    e.Xor: np.bitwise_xor,
    e.ShiftLeft: _shift(_shift_left),
    e.ShiftRightArithmetic: _shift(_shift_right_signed),
    e.ShiftRightLogical: _shift(_shift_right),
}


@rule(*BINARY)
def binary(op: Binary, x: Data, y: Data) -> Data:
    return round_to_dtype(BINARY[type(op)](widen_floats(x), widen_floats(y)), x.dtype)


@rule(e.NextAfter)
def next_after(op: e.NextAfter, x: Data, y: Data) -> Data:
    # The neighbour depends on the width, so here floats are not widened.
    return np.asarray(np.nextafter(x, y))


@rule(e.PopulationCount)
def population_count(op: e.PopulationCount, x: Data) -> Data:
    mask = (1 << dtypes.bits(x.dtype)) - 1
    return np.asarray([(int(a) & mask).bit_count() for a in x.flat], x.dtype).reshape(x.shape)


@rule(e.CountLeadingZeros)
def count_leading_zeros(op: e.CountLeadingZeros, x: Data) -> Data:
    bits = dtypes.bits(x.dtype)
    mask = (1 << bits) - 1
    return np.asarray([bits - (int(a) & mask).bit_length() for a in x.flat], x.dtype).reshape(x.shape)


@rule(e.IntegerPow)
def integer_pow(op: e.IntegerPow, x: Data) -> Data:
    base, result = widen_floats(x), np.ones_like(widen_floats(x))
    for _ in range(abs(op.exponent)):
        result = result * base
    return round_to_dtype(1 / result if op.exponent < 0 else result, x.dtype)


@rule(e.Abs)
def abs_(op: e.Abs, x: Data) -> Data:
    return round_to_dtype(
        np.abs(widen_floats(x)), dtypes.real_dtype(x.dtype) if x.dtype.kind == "c" else x.dtype
    )


@rule(e.Real)
def real(op: e.Real, x: Data) -> Data:
    return np.real(x)


@rule(e.Imag)
def imag(op: e.Imag, x: Data) -> Data:
    return np.imag(x)


@rule(e.Complex)
def complex_(op: e.Complex, re: Data, im: Data) -> Data:
    # re + 1j * im would turn an infinite im into NaN + inf j.
    result = np.empty(np.broadcast_shapes(re.shape, im.shape), dtypes.complex_dtype(re.dtype))
    result.real, result.imag = re, im
    return result


@rule(e.IsFinite)
def is_finite(op: e.IsFinite, x: Data) -> Data:
    return np.asarray(np.isfinite(widen_floats(x)))


@rule(e.Select)
def select(op: e.Select, which: Data, *cases: Data) -> Data:
    # An index past either end means the case at that end.
    case_index = np.clip(which.astype(np.int64), 0, len(cases) - 1)
    shape = np.broadcast_shapes(which.shape, *[case.shape for case in cases])
    stacked = np.stack([np.broadcast_to(case, shape) for case in cases])
    return np.asarray(np.take_along_axis(stacked, np.broadcast_to(case_index, shape)[None], 0)[0])


@rule(e.Clamp)
def clamp(op: e.Clamp, low: Data, x: Data, high: Data) -> Data:
    return round_to_dtype(
        np.minimum(np.maximum(widen_floats(low), widen_floats(x)), widen_floats(high)), x.dtype
    )


COMPARISONS: dict[type[c.Comparison], Callable[[Any, Any], Any]] = {
    c.Eq: np.equal,
    c.Ne: np.not_equal,
    c.Lt: np.less,
    c.Le: np.less_equal,
    c.Gt: np.greater,
    c.Ge: np.greater_equal,
}


@rule(*COMPARISONS)
def comparison(op: c.Comparison, x: Data, y: Data) -> Data:
    if dtypes.is_key(x.dtype):
        words = [bitcast(v.Bitcast(dtypes.uint32), key) for key in (x, y)]
        differ = np.not_equal(*words).any(axis=-1)
        return np.asarray(differ if type(op) is c.Ne else ~differ)
    return np.asarray(COMPARISONS[type(op)](widen_floats(x), widen_floats(y)))


@rule(v.Convert)
def convert(op: v.Convert, x: Data) -> Data:
    if op.dtype == dtypes.bool_:
        return np.asarray(x != 0)
    if x.dtype.kind in "fV" and dtypes.is_integer(op.dtype):
        x = np.trunc(widen_floats(x))
    return x.astype(op.dtype)


@rule(v.Bitcast)
def bitcast(op: v.Bitcast, x: Data) -> Data:
    old, new = x.dtype.itemsize, op.dtype.itemsize
    if old == new:
        return np.array(x, order="C").reshape(-1).view(op.dtype).reshape(x.shape)
    if old > new:
        return np.array(x, order="C").reshape(-1).view(op.dtype).reshape((*x.shape, old // new))
    return np.array(x, order="C").reshape(-1).view(op.dtype).reshape(x.shape[:-1])


@rule(v.ReducePrecision)
def reduce_precision(op: v.ReducePrecision, x: Data) -> Data:
    # x = m 2^e with 1/2 <= |m| < 1 holds one digit of the mantissa before the point of 2m, so
    # rounding to k digits behind it is rounding m 2^(k+1) to an integer, halves to even.
    m, exponent = np.frexp(widen_floats(x))
    scale = 2.0 ** (op.mantissa_bits + 1)
    rounded = np.ldexp(np.rint(m * scale) / scale, exponent)
    bias = 2 ** (op.exponent_bits - 1) - 1
    _, exponent = np.frexp(rounded)
    too_large = np.isfinite(rounded) & (rounded != 0) & (exponent - 1 > bias)
    too_small = np.isfinite(rounded) & (exponent - 1 < 1 - bias)
    result = np.where(too_large, np.copysign(np.inf, rounded), rounded)
    return round_to_dtype(np.where(too_small, np.copysign(0.0, rounded), result), x.dtype)


@rule(Identity)
def identity(op: Identity, x: Data) -> Data:
    return x


@rule(v.OptimizationBarrier)
def optimization_barrier(op: v.OptimizationBarrier, *operands: Data) -> tuple[Data, ...]:
    return operands
