"""The indices of the largest elements of each row, which XLA finds without a full sort."""

from typing import final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.shaping import reshape
from effx.errors import DTypeError, ShapeError
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Body,
    Tangent,
    Var,
    Vmap,
    array_type,
    emits,
    jvp_rule,
    materialize,
    reference_rule,
    vmap_rule,
)
from effx.ir.ops.base import check_arity, check_int
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.passes.sharding_rules import shard_leading_axes
from effx.ir.values.described import HostData

__all__ = ["TopIndices"]


@final
@attrs.frozen
class TopIndices(ArrayOperation):
    """The indices of the largest elements of each row of `f32[m, n]`, as `i32[m, k]`, of equal ones the first. CHLO:
    top_k.

    The order is that of the bits: 0.0 is above -0.0, NaN above all, and NaN with a sign below all.

    Attributes:
        k: how many of each row.
    """

    k: int = attrs.field(validator=check_int)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The indices' type."""
        check_arity(self, types, 1)
        (t,) = types
        if t.dtype != dtypes.float32:
            raise DTypeError(f"top_indices: takes f32 numbers, got {t!r}")
        if t.ndim != 2 or not 0 <= self.k <= t.shape[1]:
            raise ShapeError(f"top_indices: takes rows of at least {self.k} elements, got {t!r}")
        return array_type(dtypes.int32, (t.shape[0], self.k))


@sharding_rule(TopIndices)
def _(op: TopIndices, given: OperandShardings) -> list[DimensionShardings]:
    return shard_leading_axes(1, given, "of which it finds the largest")


@emits(TopIndices)
def _(body: Body, op: TopIndices, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x, t, out = body.name(inputs[0]), inputs[0].type, outputs[0].type
    values = t.with_shape(out.shape)
    results = body.block(f"chlo.top_k({x}, k = {op.k}) : {t.mlir} -> ({values.mlir}, {out.mlir})", 2)
    return results[1]


@jvp_rule(TopIndices)
def _(op: TopIndices, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    return op(*primals), None


@vmap_rule(TopIndices)
def _(
    handler: Vmap, op: TopIndices, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int]:
    x = materialize(handler, values[0], axes[0], 0)
    size, m, n = x.type.shape
    return reshape(op(reshape(x, (size * m, n))), (size, m, op.k)), 0


@reference_rule(TopIndices)
def _(op: TopIndices, x: HostData) -> HostData:
    bits = x.view(np.int32)
    ordered = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return np.argsort(~ordered, axis=1, kind="stable")[:, : op.k].astype(np.int32)
