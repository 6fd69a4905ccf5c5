"""Communication along named axes: effects that the handler binding the name takes.

Never: know what binds an axis; vmap and the parallel map do.
"""

from collections.abc import Hashable
from typing import ClassVar, final

import attrs

from effx import dtypes
from effx.effects import Effect
from effx.errors import ShapeError
from effx.ir.ops.base import ArrayOperation, Linear, check_arity, check_axis, check_kind, is_int
from effx.ir.types import ArrayType, array_type

AxisName = Hashable

# What handlers call the axis of a parallel map to which the user gave no name.
UNNAMED = "<unnamed>"

# Members that communicate among themselves: a partition of the axis into groups of one size.
Groups = tuple[tuple[int, ...], ...] | None


@final
@attrs.frozen
class AxisEffect(Effect):
    """The effect of naming an axis. Its operations may be removed and merged: all elements of the axis do the same."""

    axis: AxisName
    ordered: ClassVar[bool] = False


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


@attrs.frozen
class Grouped(Collective):
    """Trait: a collective that may run in groups of members.

    Attributes:
        groups: the members' places, group by group; None for one group of all.
    """

    groups: Groups = attrs.field(default=None, kw_only=True)


@final
@attrs.frozen
class PSum(Grouped, Linear):
    """The sum over all members of the axis. StableHLO: all_reduce."""

    name = "psum"

    kinds: ClassVar[str] = "iufc"


@final
@attrs.frozen
class PSumShared(Collective):
    """The sum of y over the axis where x is the same for all members; else y as it is.

    Operands: y, x. What `reduce_axes` of gradients asks for: a gradient by something that all members share
    is the sum of the members' gradients. The handler that binds the axis knows what is shared.
    """

    name = "psum_shared"

    kinds: ClassVar[str] = "fc"

    def infer(self, *types: ArrayType) -> ArrayType:
        """Y's type."""
        check_arity(self, types, 2)
        check_kind(self, types[0], self.kinds)
        return types[0]


@final
@attrs.frozen
class PMax(Grouped):
    """The maximum over all members of the axis; NaN if any is. StableHLO: all_reduce."""

    name = "pmax"

    kinds: ClassVar[str] = "biuf"


@final
@attrs.frozen
class PMin(Grouped):
    """The minimum over all members of the axis; NaN if any is. StableHLO: all_reduce."""

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
class AllGather(Grouped, Linear):
    """The values of all members, stacked along a new axis or joined along an old one. StableHLO: all_gather.

    Attributes:
        axis: where the members' axis goes.
        size: the number of members, of a group if there are groups.
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


def _part(op: Collective, t: ArrayType, axis: int, size: int) -> int:
    """Returns the length of one member's part of an axis."""
    check_axis(op, axis, t)
    if t.shape[axis] % size:
        raise ShapeError(
            f"{op.name}: axis {axis} of {t!r} must be divisible by the number of members, {size}"
        )
    return t.shape[axis] // size


@final
@attrs.frozen
class PSumScatter(Grouped, Linear):
    """Each member's part of the sum over all members: member i gets the i-th. StableHLO: reduce_scatter.

    Attributes:
        axis: the axis that is cut into parts.
        size: the number of members, of a group if there are groups.
    """

    name = "psum_scatter"

    axis: int = attrs.field(validator=is_int)
    size: int = attrs.field(validator=is_int)
    kinds: ClassVar[str] = "iufc"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with `axis` divided by `size`."""
        check_arity(self, types, 1)
        t = types[0]
        check_kind(self, t, self.kinds)
        part = _part(self, t, self.axis, self.size)
        return t.with_shape((*t.shape[: self.axis], part, *t.shape[self.axis + 1 :]))


@final
@attrs.frozen
class AllToAll(Grouped, Linear):
    """Member i gets the i-th part of each member's value, joined in the members' order. StableHLO: all_to_all.

    Attributes:
        split: the axis that is cut into parts.
        concat: the axis along which the parts that a member gets are joined.
        size: the number of members, of a group if there are groups.
    """

    split: int = attrs.field(validator=is_int)
    concat: int = attrs.field(validator=is_int)
    size: int = attrs.field(validator=is_int)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with `split` divided and `concat` multiplied by `size`."""
        check_arity(self, types, 1)
        t = types[0]
        part = _part(self, t, self.split, self.size)
        check_axis(self, self.concat, t)
        shape = list(t.shape)
        shape[self.split] = part
        shape[self.concat] *= self.size
        return t.with_shape(tuple(shape))


@final
@attrs.frozen
class PPermute(Collective, Linear):
    """Sends values from member to member; who gets none has zeros. StableHLO: collective_permute.

    Attributes:
        perm: pairs (source, destination); each member is source and destination at most once.
    """

    name = "ppermute"

    perm: tuple[tuple[int, int], ...]
