"""Layout constraints: `ConstrainLayout`."""

from typing import final

import attrs

from effx.errors import ShapeError
from effx.ir.ops.base import check_arity
from effx.ir.ops.checkpoint import Identity
from effx.ir.types import ArrayType

__all__ = ["ConstrainLayout"]


@final
@attrs.frozen
class ConstrainLayout(Identity):
    """The identity on an array, with an order of its axes in memory. StableHLO: custom_call LayoutConstraint.

    Attributes:
        major_to_minor: the axes, the one that runs slowest first.

    >>> ConstrainLayout((1, 0)).with_batch_axis(0).major_to_minor
    (0, 2, 1)
    """

    major_to_minor: tuple[int, ...]

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        check_arity(self, types, 1)
        (t,) = types
        if len(self.major_to_minor) != t.ndim:
            raise ShapeError(
                f"with_layout_constraint: {t!r} has {t.ndim} axes, but the layout is for {len(self.major_to_minor)}"
            )
        return t

    def with_batch_axis(self, axis: int) -> "ConstrainLayout":
        """Returns the constraint on arrays with a batch axis at position `axis`, which runs slowest."""
        moved = [i + (i >= axis) for i in self.major_to_minor]
        return ConstrainLayout((axis, *moved))
