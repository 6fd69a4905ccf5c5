"""Generalised matrix products."""

from collections.abc import Hashable
from typing import final

import attrs

from effx.dtypes import DType, bits
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.base import (
    ArrayOperation,
    NamedAttribute,
    check_arity,
    check_axes,
    check_int_tuple,
    check_kind,
)
from effx.ir.types import ArrayType, array_type

PRECISIONS = ("DEFAULT", "HIGH", "HIGHEST")

Algorithm = tuple[str, str, str, int, int, int, bool]
"""The dtype that lhs and rhs are rounded to, the dtype of sums, the number of components that lhs and rhs are split into,
the number of their products, and whether sums may be less exact. "f8" is any dtype of 8 bits, "any" any dtype."""
Precision = tuple[str, str] | Algorithm

PRESETS: dict[str, Algorithm] = {
    "ANY_F8_ANY_F8_F32": ("f8", "f8", "f32", 1, 1, 1, False),
    "ANY_F8_ANY_F8_F32_FAST_ACCUM": ("f8", "f8", "f32", 1, 1, 1, True),
    "ANY_F8_ANY_F8_ANY": ("f8", "f8", "any", 1, 1, 1, False),
    "ANY_F8_ANY_F8_ANY_FAST_ACCUM": ("f8", "f8", "any", 1, 1, 1, True),
    "F16_F16_F16": ("f16", "f16", "f16", 1, 1, 1, False),
    "F16_F16_F32": ("f16", "f16", "f32", 1, 1, 1, False),
    "BF16_BF16_BF16": ("bf16", "bf16", "bf16", 1, 1, 1, False),
    "BF16_BF16_F32": ("bf16", "bf16", "f32", 1, 1, 1, False),
    "BF16_BF16_F32_X3": ("bf16", "bf16", "f32", 1, 1, 3, False),
    "BF16_BF16_F32_X6": ("bf16", "bf16", "f32", 1, 1, 6, False),
    "BF16_BF16_F32_X9": ("bf16", "bf16", "f32", 1, 1, 9, False),
    "TF32_TF32_F32": ("tf32", "tf32", "f32", 1, 1, 1, False),
    "TF32_TF32_F32_X3": ("tf32", "tf32", "f32", 1, 1, 3, False),
    "F32_F32_F32": ("f32", "f32", "f32", 1, 1, 1, False),
    "F64_F64_F64": ("f64", "f64", "f64", 1, 1, 1, False),
}
"""The algorithms that XLA supports on some platform."""


def check_precision(instance: object, attribute: NamedAttribute, value: Precision) -> None:
    """An attrs validator: a pair of precisions, or an algorithm."""
    pair = type(value) is tuple and len(value) == 2 and all([p in PRECISIONS for p in value])
    kinds = [type(p) for p in value] if type(value) is tuple else []
    if not pair and kinds != [str, str, str, int, int, int, bool]:
        raise ValueError(
            f"{type(instance).__name__}: {attribute.name} must be two of {PRECISIONS} or an algorithm, got {value!r}"
        )


def swap_precision(precision: Precision) -> Precision:
    """Returns the precision of the product with lhs and rhs exchanged."""
    if len(precision) == 2:
        return precision[1], precision[0]
    lhs, rhs, total, left, right, products, imprecise = precision
    return rhs, lhs, total, right, left, products, imprecise


@final
@attrs.frozen
class DotGeneral(ArrayOperation):
    """Sums products over contracted axes, for each index along batch axes. StableHLO: dot_general.

    The result's axes: batch axes, the remaining ones of lhs, the remaining ones of rhs.

    Attributes:
        lhs_contract, rhs_contract: the contracted axes, pairwise of equal size.
        lhs_batch, rhs_batch: the batch axes, pairwise of equal size.
        precision: of lhs and rhs, each "DEFAULT", "HIGH" or "HIGHEST"; CPUs compute in full anyway. Or an algorithm.
        preferred: the dtype of the sums and of the result; None for the operands' own.
        unreduced: the mesh axes over which the sum is left to be taken, where they shard contracted axes.
    """

    lhs_contract: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    rhs_contract: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    lhs_batch: tuple[int, ...] = attrs.field(default=(), validator=check_int_tuple)
    rhs_batch: tuple[int, ...] = attrs.field(default=(), validator=check_int_tuple)
    precision: Precision = attrs.field(default=("DEFAULT", "DEFAULT"), validator=check_precision)
    preferred: DType | None = None
    unreduced: tuple[Hashable, ...] = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        """The batch sizes, the remaining sizes of lhs, and those of rhs."""
        check_arity(self, types, 2)
        lhs, rhs = types
        check_kind(self, lhs, "biufc", "lhs")
        if lhs.dtype != rhs.dtype:
            raise DTypeError(f"dot_general: operand dtypes differ: lhs is {lhs!r}, rhs is {rhs!r}")
        if len(self.precision) != 2:
            check_kind(self, lhs, "iuf", "lhs of a product by an algorithm")
            if self.precision[0] == "f8" and not (lhs.kind == "f" and bits(lhs.dtype) == 8):
                raise DTypeError(f"dot_general: the algorithm is for floats of 8 bits, got {lhs!r}")
        check_axes(self, self.lhs_contract + self.lhs_batch, lhs, "lhs axes")
        check_axes(self, self.rhs_contract + self.rhs_batch, rhs, "rhs axes")
        for role, left, right in (
            ("contracting", self.lhs_contract, self.rhs_contract),
            ("batch", self.lhs_batch, self.rhs_batch),
        ):
            if len(left) != len(right):
                raise ShapeError(f"dot_general: {role} axes differ in number: lhs {left}, rhs {right}")
            for i, j in zip(left, right, strict=True):
                if lhs.shape[i] != rhs.shape[j]:
                    raise ShapeError(
                        f"dot_general: {role} sizes differ: lhs {lhs!r} axis {i} is {lhs.shape[i]}, "
                        f"rhs {rhs!r} axis {j} is {rhs.shape[j]}"
                    )
        shape = (
            *[lhs.shape[i] for i in self.lhs_batch],
            *[n for i, n in enumerate(lhs.shape) if i not in self.lhs_contract and i not in self.lhs_batch],
            *[n for i, n in enumerate(rhs.shape) if i not in self.rhs_contract and i not in self.rhs_batch],
        )
        if self.preferred is not None:
            return array_type(self.preferred, shape)
        return array_type(lhs.dtype, shape, lhs.weak and rhs.weak)
