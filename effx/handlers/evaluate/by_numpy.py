"""Evaluate the first calls of single operations by NumPy.

Only operations that give the same bits: elements are moved, compared, or rounded once by IEEE 754. Where XLA flushes
denormals that NumPy preserves, or may choose a NaN, XLA is used.

XLA takes 8 to 30 ms to compile an addition, and initialising a flax transformer asks for 79 such kernels,
most of them a few times; a call by NumPy takes 45 us. flax's first step went from 0.71 to 0.47 of jax's time
by it, numpyro's from 0.67 to 0.48, the first eager gradient of a transformer block from 1.4 s to 1.2.

Never: wait for a long computation; hold an array's memory.
"""

import time
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from effx.effects import Operation
from effx.handlers.evaluate.numpy_moves import block_slices, broadcast_view
from effx.ir.ops import compare as c
from effx.ir.ops import elementwise as e
from effx.ir.ops import shape as s
from effx.ir.ops.convert import Convert
from effx.ir.ops.reduce import ReduceAnd, ReduceOr
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType
from effx.ir.values.described import HostData
from effx.lower.placement.backends import check_process, default_device
from effx.lower.placement.concrete import ConcreteArray, fetch_to_host, place_result
from effx.lower.placement.shardings import single_device_buffer_sharding

__all__ = ["MAX_NUMPY_SIZE", "NUMPY_CALLS", "can_evaluate_by_numpy", "evaluate_by_numpy"]

# So many calls, of arrays of so many elements, together take a fraction of the compile time.
NUMPY_CALLS, MAX_NUMPY_SIZE = 16, 2**15
# To wait for operands, well below the time to compile.
MAX_WAIT_SECONDS = 0.005

Rule: TypeAlias = Callable[..., HostData]


def _divide(x: HostData, y: HostData) -> HostData:
    """Divides. Where one number divides several, XLA multiplies by its rounded reciprocal; so does this."""
    if y.shape or x.size == 1:
        return np.asarray(x / y)
    reciprocal = np.asarray(x.dtype.type(1) / y)
    # XLA flushes a reciprocal this small to zero. With NaN, the caller leaves the quotient to XLA.
    return np.asarray(x * (reciprocal if _has_same_bits_in_xla(reciprocal) else np.nan))


# They move elements of any dtype.
MOVE_RULES: dict[type[object], Rule] = {
    s.BroadcastInDim: broadcast_view,
    s.Reshape: lambda op, x: x.reshape(op.shape),
    s.Transpose: lambda op, x: np.transpose(x, op.perm),
    s.Concatenate: lambda op, *xs: np.concatenate(xs, op.axis),
    s.DynamicSlice: lambda op, x, *starts: np.asarray(x[block_slices(x, starts, op.sizes)]),
    e.Select: lambda op, which, *cases: np.where(which, cases[-1], cases[0]),
}
# They compute. Left out: what IEEE 754 does not round, and minimum and maximum, which may choose another of the two zeros.
COMPUTE_RULES: dict[type[object], Rule] = {
    e.Neg: lambda op, x: np.negative(x),
    e.Abs: lambda op, x: np.abs(x),
    e.Not: lambda op, x: np.invert(x),
    e.Square: lambda op, x: x * x,
    e.IsFinite: lambda op, x: np.isfinite(x),
    e.Add: lambda op, x, y: x + y,
    e.Sub: lambda op, x, y: x - y,
    e.Mul: lambda op, x, y: x * y,
    e.And: lambda op, x, y: x & y,
    e.Or: lambda op, x, y: x | y,
    e.Xor: lambda op, x, y: x ^ y,
    c.Eq: lambda op, x, y: x == y,
    c.Ne: lambda op, x, y: x != y,
    c.Lt: lambda op, x, y: x < y,
    c.Le: lambda op, x, y: x <= y,
    c.Gt: lambda op, x, y: x > y,
    c.Ge: lambda op, x, y: x >= y,
    ReduceAnd: lambda op, x: x.all(op.axes),
    ReduceOr: lambda op, x: x.any(op.axes),
}
_BOOLEAN = (ReduceAnd, ReduceOr)
NUMPY_RULES: dict[type[object], Rule] = {
    **MOVE_RULES,
    **COMPUTE_RULES,
    e.Div: lambda op, x, y: _divide(x, y),
    Convert: lambda op, x: x != 0 if op.dtype == np.bool_ else x.astype(op.dtype),
}


def can_evaluate_by_numpy(op: Operation[object], types: tuple[ArrayType, ...], result: ArrayType) -> bool:
    """Returns whether NumPy gives the same bits for operands of these types, except for rare values."""
    kind = type(op)
    if kind not in NUMPY_RULES or any(
        [has_symbolic(t.shape) or t.size > MAX_NUMPY_SIZE for t in (*types, result)]
    ):
        return False
    # Those of ml_dtypes, and keys, are not built in.
    if any([t.explicit_sharding is not None or t.kind not in "biuf" for t in types]):
        return False
    if any([t.dtype.isbuiltin != 1 or (t.dtype.itemsize == 2 and t.kind == "f") for t in (*types, result)]):
        return False
    kinds = {t.kind for t in types}
    if kind is e.Div:
        return kinds == {"f"}
    if kind is Convert:  # XLA does not wrap a float around to an integer as NumPy does
        return result.kind != "c" and (kinds != {"f"} or result.kind in "fb")
    if kind is e.Select:
        return types[0].kind == "b"
    return kind not in _BOOLEAN or kinds == {"b"}


def evaluate_by_numpy(
    op: Operation[object], arrays: tuple[ConcreteArray, ...], result: ArrayType
) -> ConcreteArray | None:
    """Returns the result of an operation that passed `can_evaluate_by_numpy`; None if XLA must compute it.

    Args:
        op: the operation. arrays: its operands. result: its result's type.
    """
    device = default_device()
    default_sharding = single_device_buffer_sharding(device)
    if device.platform != "cpu" or result.explicit_sharding is not None:
        return None
    for x in arrays:
        buffer = x.buffer
        if buffer._sharding is not default_sharding or buffer._committed:
            return None
    check_process()
    if not _wait_until_ready(arrays):
        return None
    try:
        values = [fetch_to_host(x) for x in arrays]
    except Exception:  # noqa: BLE001  an array's computation has failed: its own error comes with the result
        return None
    computes = type(op) not in MOVE_RULES
    if computes and not all([_has_same_bits_in_xla(x) for x in values]):
        return None
    with np.errstate(all="ignore"):
        data = np.asarray(NUMPY_RULES[type(op)](op, *values))
    if (
        data.dtype != result.dtype
        or data.shape != result.shape
        or (computes and not _has_same_bits_in_xla(data))
    ):
        return None
    return place_result(data, result)


def _wait_until_ready(arrays: tuple[ConcreteArray, ...]) -> bool:
    """Waits briefly for arrays that are being computed; returns whether they are ready."""
    limit = 0.0
    while not all([x.buffer.is_ready() for x in arrays]):
        limit = limit or time.perf_counter() + MAX_WAIT_SECONDS
        if time.perf_counter() > limit:
            return False
        time.sleep(2e-5)
    return True


def _has_same_bits_in_xla(x: HostData) -> bool:
    """Returns whether each element is zero, infinite or normal: XLA may choose another NaN, and flushes denormals."""
    if x.dtype.kind != "f":
        return True
    size = np.abs(x)
    return bool(((size >= np.finfo(x.dtype).tiny) | (size == 0)).all())
