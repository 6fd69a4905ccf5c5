"""Communication along named axes: effects that the handler binding the name takes.

Never: know what binds an axis; vmap and the parallel map do.
"""

from collections.abc import Hashable
from typing import ClassVar, final

import attrs

from effx import dtypes
from effx.effects import Effect
from effx.ir.ops.base import ArrayOperation, Linear, check_arity, check_axis, check_kind, is_int
from effx.ir.types import ArrayType, array_type

AxisName = Hashable


@final
@attrs.frozen
class AxisEffect:
    """The effect of naming an axis."""

    axis: AxisName


@attrs.frozen
class Collective(ArrayOperation):
    """Trait: communicates along one named axis.

    Attributes:
        axis_name: the axis; a handler further out binds it.
        kinds: the dtype kinds it takes.
    """

    axis_name: AxisName
    kinds: ClassVar[str] = "biufc"

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The named axis."""
        return frozenset((AxisEffect(self.axis_name),))

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        check_arity(self, types, 1)
        check_kind(self, types[0], self.kinds)
        return types[0]


@final
@attrs.frozen
class PSum(Collective, Linear):
    """The sum over all members of the axis. StableHLO: all_reduce."""

    name = "psum"

    kinds: ClassVar[str] = "iufc"


@final
@attrs.frozen
class PMax(Collective):
    """The maximum over all members of the axis. StableHLO: all_reduce."""

    name = "pmax"

    kinds: ClassVar[str] = "biuf"


@final
@attrs.frozen
class PMin(Collective):
    """The minimum over all members of the axis. StableHLO: all_reduce."""

    name = "pmin"

    kinds: ClassVar[str] = "biuf"


@final
@attrs.frozen
class AxisIndex(Collective):
    """The member's own position on the axis: an i32 scalar; no operands. StableHLO: partition_id."""

    def infer(self, *types: ArrayType) -> ArrayType:
        """An i32 scalar."""
        check_arity(self, types, 0)
        return array_type(dtypes.int32)


@final
@attrs.frozen
class AllGather(Collective, Linear):
    """The values of all members, stacked along a new axis or joined along an old one. StableHLO: all_gather.

    Attributes:
        axis: where the members' axis goes.
        size: the number of members.
        tiled: True to join along `axis` instead of stacking.
    """

    axis: int = attrs.field(validator=is_int)
    size: int = attrs.field(validator=is_int)
    tiled: bool = False

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with an axis of `size`, or `axis` times `size`."""
        check_arity(self, types, 1)
        t = types[0]
        check_kind(self, t, "biufc")
        if self.tiled:
            check_axis(self, self.axis, t)
            return t.with_shape(
                t.shape[: self.axis] + (t.shape[self.axis] * self.size,) + t.shape[self.axis + 1 :]
            )
        check_axis(self, self.axis, t.with_shape((*t.shape, self.size)))
        return t.with_shape(t.shape[: self.axis] + (self.size,) + t.shape[self.axis :])
