"""Meshes without their devices, and how arrays are cut along the axes of a mesh.

Never: know devices; `effx.lower.placement.shardings` does.
"""

import enum
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, ClassVar, TypeAlias, cast, final

import attrs

from effx.errors import ShardingError
from effx.tree.registry import register_leaf

__all__ = ["AbstractMesh", "AxisType", "MeshAxisName", "PartitionSpec", "trimmed"]

MeshAxisName: TypeAlias = Any  # anything hashable


class AxisType(enum.Enum):
    """Who decides how arrays are cut along an axis of a mesh.

    Attributes:
        Auto: XLA's partitioner, from the shardings of arguments and from constraints.
        Explicit: the types of arrays, which say it.
        Manual: the user, who writes what one device does: inside `shard_map`.
    """

    Auto = "Auto"
    Explicit = "Explicit"
    Manual = "Manual"

    def __repr__(self) -> str:
        return self.value

    def __str__(self) -> str:
        return self.value


AxisTypes: TypeAlias = AxisType | Sequence[AxisType] | None


@final
class _Unconstrained:
    """What a PartitionSpec says of an axis that is left to the partitioner."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "_UNCONSTRAINED"


_UNCONSTRAINED = _Unconstrained()

# What a PartitionSpec says of one array axis.
Entry: TypeAlias = MeshAxisName | tuple[MeshAxisName, ...] | None


def _entry(given: object) -> Entry:
    if isinstance(given, list):
        given = tuple(given)
    if isinstance(given, tuple):
        return None if not given else given[0] if len(given) == 1 else given
    if given is not None and given is not _UNCONSTRAINED:
        try:
            hash(given)
        except TypeError:
            raise ShardingError(
                f"PartitionSpec: an entry is None, the name of a mesh axis or a tuple of names, got {given!r}"
            ) from None
    return given


@final
class PartitionSpec:
    """For each axis of an array the mesh axes along which it is cut.

    Args:
        partitions: for each array axis None, if it is whole everywhere, the name of a mesh axis, or a tuple of names, the
            first of which cuts coarsest. What is left out at the end is None. `PartitionSpec.UNCONSTRAINED` leaves
            an axis to the partitioner, in `with_sharding_constraint`.

    Raises:
        ShardingError: an entry is something else.

    >>> P = PartitionSpec
    >>> P("data", None, ("model", "expert"))
    P('data', None, ('model', 'expert'))
    >>> P("data")[0], len(P("data", None))
    ('data', 2)
    """

    UNCONSTRAINED: ClassVar[_Unconstrained] = _UNCONSTRAINED
    __slots__ = ("partitions",)
    __match_args__ = ("partitions",)
    partitions: tuple[Entry, ...]

    def __init__(self, *partitions: Entry) -> None:
        object.__setattr__(self, "partitions", tuple(map(_entry, partitions)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a PartitionSpec is immutable: cannot set {name!r}")

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, index: Any) -> Any:
        return self.partitions[index]

    def __add__(self, other: "PartitionSpec | tuple[Entry, ...]") -> "PartitionSpec":
        return PartitionSpec(*self, *other)

    def __radd__(self, other: "PartitionSpec | tuple[Entry, ...]") -> "PartitionSpec":
        return PartitionSpec(*other, *self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self.partitions == other.partitions

    def __hash__(self) -> int:
        return hash(self.partitions)

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.partitions))
        return f"P({inner})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionSpec, self.partitions

    def index(self, value: Entry) -> int:
        """Returns the first array axis with this entry."""
        return self.partitions.index(_entry(value))

    def count(self, value: Entry) -> int:
        """Counts the array axes with this entry."""
        return self.partitions.count(_entry(value))

    def update(self, partitions: Sequence[Entry] | None = None) -> "PartitionSpec":
        """Returns a PartitionSpec with other entries."""
        return self if partitions is None else PartitionSpec(*partitions)


def axes_of(entry: Entry) -> tuple[MeshAxisName, ...]:
    """Returns the names in an entry of a PartitionSpec."""
    if entry is None or entry is _UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def trimmed(spec: PartitionSpec) -> tuple[Entry, ...]:
    """Returns a PartitionSpec's entries without None at the end, which says nothing."""
    entries = spec.partitions
    n = len(entries)
    while n and entries[n - 1] is None:
        n -= 1
    return entries[:n]


def check_axes(
    what: str, names: Sequence[MeshAxisName], sizes: Sequence[int], types: AxisTypes
) -> tuple[tuple[MeshAxisName, ...], tuple[int, ...], tuple[AxisType, ...]]:
    """Returns a mesh's names, sizes and types as tuples.

    Raises:
        ShardingError: their numbers differ, a name comes twice, or something is of another type.
    """
    listed = (names,) if isinstance(names, str) else tuple(names)
    lengths = tuple(sizes)
    if len(listed) != len(lengths):
        raise ShardingError(
            f"{what}: {len(lengths)} axes have {len(listed)} names: sizes {lengths}, names {listed}"
        )
    twice = [name for i, name in enumerate(listed) if name in listed[:i]]
    if twice:
        raise ShardingError(f"{what}: the axis name {twice[0]!r} is given twice")
    for n in lengths:
        if type(n) is not int or n < 1:
            raise ShardingError(f"{what}: axis sizes must be positive ints, got {lengths}")
    if types is None:
        kinds: tuple[AxisType, ...] = (AxisType.Auto,) * len(listed)
    elif isinstance(types, AxisType):
        kinds = (types,) * len(listed)
    else:
        kinds = tuple(types)
    if len(kinds) != len(listed) or not all([isinstance(k, AxisType) for k in kinds]):
        raise ShardingError(
            f"{what}: axis_types must hold an AxisType for each of {len(listed)} axes, got {types!r}"
        )
    return listed, lengths, kinds


class Axes:
    """What meshes with devices and without have in common: names, sizes and types of their axes."""

    __slots__ = ()
    axis_names: tuple[MeshAxisName, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> "OrderedDict[MeshAxisName, int]":
        """The axes' sizes by name."""
        return OrderedDict(self.shape_tuple)

    @property
    def shape_tuple(self) -> tuple[tuple[MeshAxisName, int], ...]:
        """The axes' names and sizes."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return prod(self.axis_sizes) if self.axis_sizes else 0

    @property
    def empty(self) -> bool:
        """Whether there are no axes."""
        return not self.axis_names

    def _of_type(self, kind: AxisType) -> tuple[MeshAxisName, ...]:
        return tuple([n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind])

    @property
    def auto_axes(self) -> tuple[MeshAxisName, ...]:
        """The axes that are left to the partitioner."""
        return self._of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[MeshAxisName, ...]:
        """The axes of which types say how they cut."""
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[MeshAxisName, ...]:
        """The axes along which each device does what it is told."""
        return self._of_type(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether all axes are left to the partitioner."""
        return len(self.auto_axes) == len(self.axis_names)

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether types say how all axes cut."""
        return len(self.explicit_axes) == len(self.axis_names)

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether each device does what it is told along all axes."""
        return len(self.manual_axes) == len(self.axis_names)

    @property
    def are_all_axes_explicit_or_manual(self) -> bool:
        """Whether no axis is left to the partitioner."""
        return not self.auto_axes

    def _shown(self) -> str:
        sizes = ", ".join([f"{n!r}: {k}" for n, k in self.shape_tuple]) or "()"
        return f"{sizes}, axis_types=({', '.join(map(str, self.axis_types))})"


def with_types(mesh: Axes, types: Mapping[MeshAxisName, AxisType]) -> tuple[AxisType, ...]:
    """Returns a mesh's axis types, some of them changed.

    Raises:
        ShardingError: the mesh has no such axis.
    """
    for name in types:
        if name not in mesh.axis_names:
            raise ShardingError(f"update_axis_types: the mesh has no axis {name!r}; it has {mesh.axis_names}")
    return tuple([types.get(n, t) for n, t in zip(mesh.axis_names, mesh.axis_types, strict=True)])


@register_leaf
@final
@attrs.frozen(init=False, repr=False)
class AbstractMesh(Axes):
    """A mesh of which only sizes and names of the axes are known: enough to trace and to lower.

    Args:
        axis_sizes: the number of devices along each axis.
        axis_names: the axes' names, all different.
        axis_types: an AxisType for all axes or for each; by default Auto.

    Raises:
        ShardingError: these do not fit together.

    >>> mesh = AbstractMesh((4, 2), ("data", "model"))
    >>> mesh.shape["data"], mesh.size
    (4, 8)
    """

    axis_sizes: tuple[int, ...]
    axis_names: tuple[MeshAxisName, ...]
    axis_types: tuple[AxisType, ...]

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: "str | Sequence[MeshAxisName]",
        axis_types: AxisTypes = None,
    ) -> None:
        names, sizes, types = check_axes("AbstractMesh", axis_names, axis_sizes, axis_types)
        self.__attrs_init__(sizes, names, types)

    @property
    def abstract_mesh(self) -> "AbstractMesh":
        """The mesh itself."""
        return self

    def update(
        self,
        axis_sizes: Sequence[int] | None = None,
        axis_names: Sequence[MeshAxisName] | None = None,
        axis_types: AxisTypes = None,
    ) -> "AbstractMesh":
        """Returns a mesh that differs in what is given."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def update_axis_types(self, name_to_type: Mapping[MeshAxisName, AxisType]) -> "AbstractMesh":
        """Returns the mesh with other types of some axes."""
        return self.update(axis_types=with_types(self, name_to_type))

    def __repr__(self) -> str:
        return f"AbstractMesh({self._shown()})"


def check_spec(what: str, mesh: Axes, spec: PartitionSpec) -> None:
    """Checks that a PartitionSpec cuts along axes that a mesh has, along each at most once.

    Raises:
        ShardingError: it does not.
    """
    seen: list[MeshAxisName] = []
    for entry in spec:
        for name in axes_of(entry):
            if name not in mesh.axis_names:
                raise ShardingError(
                    f"{what}: the mesh has no axis {name!r}, by which {spec!r} cuts; it has {mesh.axis_names}"
                )
            if name in seen:
                raise ShardingError(f"{what}: {spec!r} cuts along the mesh axis {name!r} twice")
            seen.append(name)


def cuts_of(mesh: Axes, spec: PartitionSpec) -> tuple[tuple[int, ...], ...]:
    """Returns for each array axis that a PartitionSpec names the numbers of the mesh axes that cut it."""
    at = {name: i for i, name in enumerate(mesh.axis_names)}
    return tuple([tuple([at[n] for n in axes_of(entry)]) for entry in cast("Any", trimmed(spec))])
