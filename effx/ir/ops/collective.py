"""Collectives along named axes: effects that the handler binding the name handles."""

from collections.abc import Hashable
from typing import ClassVar, final

import attrs

from effx import dtypes
from effx.effects import Effect
from effx.errors import ShapeError
from effx.ir.meshes import AbstractMesh
from effx.ir.ops.base import ArrayOperation, Linear, check_arity, check_axis, check_int, check_kind
from effx.ir.types import ArrayType, array_type

AxisName = Hashable

# The axis name of a parallel map without one.
UNNAMED = "<unnamed>"

# A partition of the axis into groups of one size, each of which communicates within itself.
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
        axis_name: the axis, bound by an outer handler.
        kinds: the dtype kinds it takes.
    """

    axis_name: AxisName
    kinds: ClassVar[str] = "biufc"

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The named axis."""
        return frozenset((AxisEffect(self.axis_name),))

    @property
    def is_equal(self) -> bool:
        """Whether the result is equal at all indices of the axis."""
        return False

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        check_arity(self, types, 1)
        check_kind(self, types[0], self.kinds)
        return types[0]


@attrs.frozen
class Grouped(Collective):
    """Trait: a collective that may run in groups.

    Attributes:
        groups: for each group its indices along the axis; None for one group.
    """

    groups: Groups = attrs.field(default=None, kw_only=True)


class CollectiveReduction(Grouped):
    """Trait: combines the values of all indices, or of those of each group."""

    __slots__ = ()

    @property
    def is_equal(self) -> bool:
        """Whether the result is equal at all indices of the axis: not with groups."""
        return self.groups is None


@final
class PSum(CollectiveReduction, Linear):
    """The sum over the axis. StableHLO: all_reduce."""

    __slots__ = ()
    name = "psum"

    kinds: ClassVar[str] = "iufc"


@final
@attrs.frozen
class PCast(Collective, Linear):
    """The identity, with another type along the axis.

    Attributes:
        to: "varying": the result counts as varying along the axis, so that its cotangents are summed over it. "reduced":
            the operand is equal along the axis, and the result's cotangents are not summed. "unreduced": the results are
            the terms of a sum; of an operand that is equal along the axis the first index has the value, the others zero.
        mesh: the mesh in the types of results that are reduced or unreduced.
    """

    name = "pcast"
    kinds: ClassVar[str] = "biufcV"
    to: str = "varying"
    mesh: AbstractMesh | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the result does not count as varying along the axis."""
        return self.to != "varying"


@final
class PSumShared(Collective):
    """The sum of y over the axis if x does not vary along it; else y. Operands: y, x. Performed for
    `reduce_axes` of gradients: the gradient with respect to a value that does not vary along the axis is the
    sum of the gradients along it. The handler that binds the axis knows which values vary.
    """

    __slots__ = ()
    name = "psum_shared"

    kinds: ClassVar[str] = "fc"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of y."""
        check_arity(self, types, 2)
        check_kind(self, types[0], self.kinds)
        return types[0]


@final
class PMax(CollectiveReduction):
    """The maximum over the axis; NaN if any is. StableHLO: all_reduce."""

    __slots__ = ()
    name = "pmax"

    kinds: ClassVar[str] = "biuf"


@final
class PMin(CollectiveReduction):
    """The minimum over the axis; NaN if any is. StableHLO: all_reduce."""

    __slots__ = ()
    name = "pmin"

    kinds: ClassVar[str] = "biuf"


@final
class AxisIndex(Collective):
    """The index along the axis: an i32 scalar; no operands. StableHLO: partition_id."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        """An i32 scalar."""
        check_arity(self, types, 0)
        return array_type(dtypes.int32)


@final
@attrs.frozen
class AllGather(Grouped, Linear):
    """All values along the axis, stacked along a new array axis or joined along an existing one. StableHLO:
    all_gather.

    Attributes:
        axis: the array axis.
        size: of the named axis, or of a group.
        tiled: True to join along `axis` instead of stacking.
        equal: True for a result that types show as equal at all indices. It has one cotangent, of which each index gets
            its part; otherwise there is one for each index, and they are summed.
    """

    axis: int = attrs.field(validator=check_int)
    size: int = attrs.field(validator=check_int)
    tiled: bool = False
    equal: bool = False
    mesh: AbstractMesh | None = None

    @property
    def is_equal(self) -> bool:
        """Whether types show the result as equal at all indices of the axis."""
        return self.equal and self.groups is None

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with an axis of `size`, or `axis` times `size`."""
        check_arity(self, types, 1)
        t = types[0]
        if self.tiled:
            check_axis(self, self.axis, t)
            return t.with_shape(
                t.shape[: self.axis] + (t.shape[self.axis] * self.size,) + t.shape[self.axis + 1 :]
            )
        check_axis(self, self.axis, t.with_shape((*t.shape, self.size)))
        return t.with_shape(t.shape[: self.axis] + (self.size,) + t.shape[self.axis :])


def _part_size(op: Collective, t: ArrayType, axis: int, size: int) -> int:
    """Returns the size of one part of an array axis."""
    check_axis(op, axis, t)
    if t.shape[axis] % size:
        raise ShapeError(
            f"{op.name}: axis {axis} of {t!r} must be divisible by {size}, the size of the named axis or group"
        )
    return t.shape[axis] // size


@final
@attrs.frozen
class PSumScatter(Grouped, Linear):
    """The sum over the named axis, scattered: index i gets the i-th part. StableHLO: reduce_scatter.

    Attributes:
        axis: the array axis that is split into parts.
        size: of the named axis, or of a group.
    """

    name = "psum_scatter"

    axis: int = attrs.field(validator=check_int)
    size: int = attrs.field(validator=check_int)
    kinds: ClassVar[str] = "iufc"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with `axis` divided by `size`."""
        check_arity(self, types, 1)
        t = types[0]
        check_kind(self, t, self.kinds)
        part = _part_size(self, t, self.axis, self.size)
        return t.with_shape((*t.shape[: self.axis], part, *t.shape[self.axis + 1 :]))


@final
@attrs.frozen
class AllToAll(Grouped, Linear):
    """Index i gets the i-th part of every value along the named axis, joined in order. StableHLO: all_to_all.

    Attributes:
        split: the array axis that is split into parts.
        concat: the array axis along which the received parts are joined.
        size: of the named axis, or of a group.
    """

    split: int = attrs.field(validator=check_int)
    concat: int = attrs.field(validator=check_int)
    size: int = attrs.field(validator=check_int)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type with `split` divided and `concat` multiplied by `size`."""
        check_arity(self, types, 1)
        t = types[0]
        part = _part_size(self, t, self.split, self.size)
        check_axis(self, self.concat, t)
        shape = list(t.shape)
        shape[self.split] = part
        shape[self.concat] *= self.size
        return t.with_shape(tuple(shape))


@final
@attrs.frozen
class PPermute(Collective, Linear):
    """Sends values along the named axis; zeros where none is received. StableHLO: collective_permute.

    Attributes:
        perm: pairs (source, destination) of indices; each is source and destination at most once.
    """

    name = "ppermute"
    kinds: ClassVar[str] = "biufcV"

    perm: tuple[tuple[int, int], ...]
