"""Elementwise operations, comparisons and conversions in NumPy.

Never: compute in 16 or 32 bits; results are rounded once, at the end.
"""

import numpy as np

from effx import dtypes
from effx.handlers.oracle.handler import Data, Reference, round_to_dtype, rule, widen_floats
from effx.ir.ops import compare as c
from effx.ir.ops import convert as v
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Elementwise
from effx.ir.ops.checkpoint import Identity
from effx.ir.types import array_type


@Reference.rules.register_declared(Elementwise, "reference")
def apply_declared_reference(op: Elementwise, *operands: Data) -> Data:
    assert op.reference is not None
    values = op.reference(*[widen_floats(x) for x in operands])
    return round_to_dtype(values, op.infer(*[array_type(x.dtype, x.shape) for x in operands]).dtype)


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


@rule(e.Select)
def select(op: e.Select, which: Data, *cases: Data) -> Data:
    # An index past either end means the case at that end.
    case_index = np.clip(which.astype(np.int64), 0, len(cases) - 1)
    shape = np.broadcast_shapes(which.shape, *[case.shape for case in cases])
    stacked = np.stack([np.broadcast_to(case, shape) for case in cases])
    return np.asarray(np.take_along_axis(stacked, np.broadcast_to(case_index, shape)[None], 0)[0])


@rule(c.Eq, c.Ne)
def equality(op: c.Equality, x: Data, y: Data) -> Data:
    if not dtypes.is_key(x.dtype):
        compare = np.not_equal if type(op) is c.Ne else np.equal
        return np.asarray(compare(widen_floats(x), widen_floats(y)))
    words = [bitcast(v.Bitcast(dtypes.uint32), key) for key in (x, y)]
    differ = np.not_equal(*words).any(axis=-1)
    return np.asarray(differ if type(op) is c.Ne else ~differ)


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


@rule(Identity, v.StopGradient, v.Copy)
def identity(op: Elementwise | Identity, x: Data) -> Data:
    return x


@rule(v.OptimizationBarrier)
def optimization_barrier(op: v.OptimizationBarrier, *operands: Data) -> tuple[Data, ...]:
    return operands
