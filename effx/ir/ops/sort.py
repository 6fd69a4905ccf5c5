"""Sorting.

Floats sort with -0.0 equal to 0.0 and NaN last.
"""

from typing import final

import attrs

from effx.errors import ShapeError
from effx.ir.ops.base import TupleOperation, check_axis, check_kind, is_int, show
from effx.ir.types import ArrayType


@final
@attrs.frozen
class Sort(TupleOperation):
    """Sorts the operands together along an axis by the first `num_keys` of them. StableHLO: sort.

    Attributes:
        axis: the axis to sort along.
        stable: True to keep the order of equal keys.
        num_keys: how many operands are keys, compared lexicographically.
    """

    axis: int = attrs.field(validator=is_int)
    stable: bool = True
    num_keys: int = attrs.field(default=1, validator=is_int)

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The operands' types."""
        if not 1 <= self.num_keys <= len(types):
            raise ShapeError(
                f"sort: num_keys must be between 1 and the number of operands, got {self.num_keys} for {show(types)}"
            )
        for t in types:
            if t.shape != types[0].shape:
                raise ShapeError(f"sort: operand shapes differ: {show(types)}")
        for key in types[: self.num_keys]:
            check_kind(self, key, "biufc", "a key")
        check_axis(self, self.axis, types[0])
        return types
