"""Generalised matrix products."""

from typing import final

import attrs

from effx.dtypes import DType
from effx.errors import DTypeError, ShapeError
from effx.ir.ops.base import ArrayOperation, check_arity, check_axes, check_kind, is_ints
from effx.ir.types import ArrayType, array_type

PRECISIONS = ("DEFAULT", "HIGH", "HIGHEST")


@final
@attrs.frozen
class DotGeneral(ArrayOperation):
    """Sums products over contracted axes, for each index along batch axes. StableHLO: dot_general.

    The result's axes: batch axes, the remaining ones of lhs, the remaining ones of rhs.

    Attributes:
        lhs_contract, rhs_contract: the axes summed over, pairwise of equal size.
        lhs_batch, rhs_batch: the batch axes, pairwise of equal size.
        precision: of lhs and rhs, each "DEFAULT", "HIGH" or "HIGHEST"; CPUs compute in full anyway.
        preferred: the dtype of the sums and of the result; None for the operands' own.
    """

    lhs_contract: tuple[int, ...] = attrs.field(validator=is_ints)
    rhs_contract: tuple[int, ...] = attrs.field(validator=is_ints)
    lhs_batch: tuple[int, ...] = attrs.field(default=(), validator=is_ints)
    rhs_batch: tuple[int, ...] = attrs.field(default=(), validator=is_ints)
    precision: tuple[str, str] = attrs.field(
        default=("DEFAULT", "DEFAULT"),
        validator=attrs.validators.deep_iterable(attrs.validators.in_(PRECISIONS)),
    )
    preferred: DType | None = None

    def infer(self, *types: ArrayType) -> ArrayType:
        """Batch sizes, remaining sizes of lhs, remaining sizes of rhs."""
        check_arity(self, types, 2)
        lhs, rhs = types
        check_kind(self, lhs, "biufc", "lhs")
        if lhs.dtype != rhs.dtype:
            raise DTypeError(f"dot_general: operand dtypes differ: lhs is {lhs!r}, rhs is {rhs!r}")
        check_axes(self, self.lhs_contract + self.lhs_batch, lhs, "lhs axes")
        check_axes(self, self.rhs_contract + self.rhs_batch, rhs, "rhs axes")
        for what, left, right in (
            ("contracting", self.lhs_contract, self.rhs_contract),
            ("batch", self.lhs_batch, self.rhs_batch),
        ):
            if len(left) != len(right):
                raise ShapeError(f"dot_general: {what} axes differ in number: lhs {left}, rhs {right}")
            for i, j in zip(left, right, strict=True):
                if lhs.shape[i] != rhs.shape[j]:
                    raise ShapeError(
                        f"dot_general: {what} sizes differ: lhs {lhs!r} axis {i} is {lhs.shape[i]}, "
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
