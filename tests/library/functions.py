"""The elementwise functions that tests of handlers run over, by the names of their operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import effx
from effx import Array, dtypes
from effx.ir.ops.base import Elementwise
from effx.ir.types import array_type
from effx.laws.samples import Data, plain_operations, sample_of, values

F32 = array_type(dtypes.float32)


def real_operations(arity: int) -> list[Elementwise]:
    """Operations from floats to floats with a true derivative."""
    found = [op for op in plain_operations(arity) if "f" in op.kinds and sample_of(type(op)).smooth]
    return [op for op in found if op.infer(*[F32] * arity) is F32]


def defined_at(point: Data) -> dict[str, Callable[[Array], Array]]:
    """The functions of one float; one that is not defined at the point is moved by 1."""

    def moved(op: Elementwise) -> Callable[[Array], Array]:
        with effx.enable_x64(True), np.errstate(all="ignore"):
            return op if np.all(np.isfinite(values(op, point))) else lambda x: op(x + 1.0)

    return {op.name: moved(op) for op in real_operations(1)}
