"""Reductions and cumulative reductions in NumPy.

Never: sum in less than 64 bits where rounding matters; integers wrap in their own dtype.
"""

from typing import Any

import numpy as np

from effx import dtypes
from effx.handlers.oracle.handler import Data, round_to_dtype, rule, widen_floats
from effx.ir.ops import reduce as r

COMBINING_UFUNCS: dict[type[r.Reduction] | type[r.Cumulative], "np.ufunc"] = {
    r.ReduceSum: np.add,
    r.ReduceProd: np.multiply,
    r.ReduceMax: np.maximum,
    r.ReduceMin: np.minimum,
    r.ReduceAnd: np.bitwise_and,
    r.ReduceOr: np.bitwise_or,
    r.ReduceXor: np.bitwise_xor,
    r.CumSum: np.add,
    r.CumProd: np.multiply,
    r.CumMax: np.maximum,
    r.CumMin: np.minimum,
}


def _extreme_value(dtype: np.dtype[Any], largest: bool) -> float:
    """Returns the largest or smallest value of a dtype."""
    if dtype.kind == "b":
        return largest
    if dtype.kind in "iu":
        info = dtypes.iinfo(dtype)
        return info.max if largest else info.min
    return np.inf if largest else -np.inf


def _neutral_element(op: r.Reduction, x: Data) -> Any:
    match op:
        case r.ReduceMax():
            return _extreme_value(x.dtype, largest=False)
        case r.ReduceMin():
            return _extreme_value(x.dtype, largest=True)
        case r.ReduceAnd():
            return ~x.dtype.type(0)
        case r.ReduceProd():
            return 1
        case _:
            return 0


@rule(r.Reduction)
def reduction(op: r.Reduction, x: Data) -> Data:
    data = widen_floats(x)
    result = np.full(np.delete(np.asarray(x.shape, int), op.axes), _neutral_element(op, x), data.dtype)
    kept_axes = [i for i in range(x.ndim) if i not in op.axes]
    combine = COMBINING_UFUNCS[type(op)]
    for index in np.ndindex(x.shape):
        target = tuple([index[i] for i in kept_axes])
        result[target] = combine(result[target], data[index])
    return round_to_dtype(result, x.dtype)


@rule(r.ArgMax)
def argmax(op: r.ArgMax, x: Data) -> Data:
    return np.asarray(np.argmax(widen_floats(x), op.axis)).astype(op.index_dtype)


@rule(r.ArgMin)
def argmin(op: r.ArgMin, x: Data) -> Data:
    return np.asarray(np.argmin(widen_floats(x), op.axis)).astype(op.index_dtype)


@rule(r.Cumulative)
def cumulative(op: r.Cumulative, x: Data) -> Data:
    data = np.flip(widen_floats(x), op.axis) if op.reverse else widen_floats(x)
    result = COMBINING_UFUNCS[type(op)].accumulate(data, op.axis, dtype=data.dtype)
    return round_to_dtype(np.flip(result, op.axis) if op.reverse else result, x.dtype)
