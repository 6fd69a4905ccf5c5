"""Meshes without devices (`AbstractMesh`), axis types, and `PartitionSpec`.

Never: refer to devices; `effx.lower.placement.shardings` does.
"""

import enum
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from math import prod
from types import EllipsisType
from typing import Any, ClassVar, TypeAlias, cast, final

import attrs

from effx.errors import ShardingError
from effx.tree.registry import register_leaf

__all__ = ["AbstractDevice", "AbstractMesh", "AxisType", "MeshAxisName", "PartitionSpec", "trim_spec"]

MeshAxisName: TypeAlias = Any  # anything hashable


class AxisType(enum.Enum):
    """The kind of a mesh axis: who decides the sharding of arrays over it.

    Attributes:
        Auto: XLA's partitioner, from the shardings of arguments and from constraints.
        Explicit: the types of arrays, which show it.
        Manual: the user, who writes what one device does: inside `shard_map`.

    >>> import effx
    >>> from effx.sharding import AxisType
    >>> effx.make_mesh((1,), ("data",), axis_types=AxisType.Explicit).axis_types
    (Explicit,)
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
    """The entry of a PartitionSpec for an axis that is left to the partitioner."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "_UNCONSTRAINED"


_UNCONSTRAINED = _Unconstrained()

# The entry of a PartitionSpec for one array axis.
Entry: TypeAlias = MeshAxisName | tuple[MeshAxisName, ...] | None


def _normalize_entry(entry: object) -> Entry:
    if isinstance(entry, list):
        entry = tuple(entry)
    if isinstance(entry, tuple):
        return None if not entry else entry[0] if len(entry) == 1 else entry
    if entry is not None and entry is not _UNCONSTRAINED:
        try:
            hash(entry)
        except TypeError:
            raise ShardingError(
                f"PartitionSpec: an entry is None, the name of a mesh axis or a tuple of names, got {entry!r}"
            ) from None
    return entry


def _as_axis_set(which: str, names: object) -> frozenset[MeshAxisName]:
    if not isinstance(names, set | frozenset):
        raise ShardingError(
            f"PartitionSpec: {which} is a set of names of mesh axes, got {names!r} of type {type(names).__name__}"
        )
    if None in names:
        raise ShardingError(f"PartitionSpec: {which} holds names of mesh axes, got None")
    return frozenset(names)


@final
class PartitionSpec:
    """For each axis of an array the mesh axes that shard it.

    Args:
        partitions: for each array axis None, if it is unsharded, the name of a mesh axis, or a tuple of names, the
            first of which is the major one. Missing entries at the end are None. `PartitionSpec.UNCONSTRAINED` leaves
            an axis to the partitioner, in `with_sharding_constraint`.
        unreduced: the mesh axes along which the array is still to be summed: each device holds a term of the sum.
        reduced: the mesh axes along which the array is replicated, and its gradient is unreduced.

    Raises:
        ShardingError: an entry is something else, or an axis is named in two places.

    >>> P = PartitionSpec
    >>> P("data", None, ("model", "expert"))
    P('data', None, ('model', 'expert'))
    >>> P("data")[0], len(P("data", None))
    ('data', 2)
    >>> P("data", unreduced={"model"})
    P('data', unreduced={'model'})
    """

    UNCONSTRAINED: ClassVar[_Unconstrained] = _UNCONSTRAINED
    __slots__ = ("partitions", "reduced", "unreduced")
    __match_args__ = ("partitions",)
    partitions: tuple[Entry, ...]
    unreduced: frozenset[MeshAxisName]
    reduced: frozenset[MeshAxisName]

    def __init__(
        self,
        *partitions: Entry,
        unreduced: AbstractSet[MeshAxisName] = frozenset(),
        reduced: AbstractSet[MeshAxisName] = frozenset(),
    ) -> None:
        put = object.__setattr__
        put(self, "partitions", tuple(map(_normalize_entry, partitions)))
        put(self, "unreduced", _as_axis_set("unreduced", unreduced) if unreduced else frozenset())
        put(self, "reduced", _as_axis_set("reduced", reduced) if reduced else frozenset())
        if self.has_sums:
            self._check_named_once()

    @property
    def has_sums(self) -> bool:
        """Whether the array is unreduced or reduced along some axes."""
        return bool(self.unreduced or self.reduced)

    def _check_named_once(self) -> None:
        cutting = {name for entry in self.partitions for name in entry_axes(entry)}
        groups = (("partitions", cutting), ("unreduced", self.unreduced), ("reduced", self.reduced))
        for i, (which, names) in enumerate(groups):
            for other, other_names in groups[i + 1 :]:
                for name in names & other_names:
                    raise ShardingError(f"PartitionSpec: {name!r} is in {which} and in {other}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a PartitionSpec is immutable: cannot set {name!r}")

    def _check_only_partitions(self, what: str) -> None:
        if self.has_sums:
            raise ShardingError(
                f"PartitionSpec: {what} of {self!r} would leave out the axes along which it is unreduced or reduced; use "
                "its partitions"
            )

    def __iter__(self) -> Iterator[Entry]:
        self._check_only_partitions("the entries")
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __getitem__(self, index: Any) -> Any:
        self._check_only_partitions("an entry")
        return self.partitions[index]

    def __add__(self, other: "PartitionSpec | tuple[Entry, ...]") -> "PartitionSpec":
        if not isinstance(other, PartitionSpec):
            self._check_only_partitions("the sum with a tuple")
            return PartitionSpec(*self.partitions, *other)
        return PartitionSpec(
            *self.partitions,
            *other.partitions,
            unreduced=self.unreduced | other.unreduced,
            reduced=self.reduced | other.reduced,
        )

    def __radd__(self, other: "tuple[Entry, ...]") -> "PartitionSpec":
        self._check_only_partitions("the sum with a tuple")
        return PartitionSpec(*other, *self.partitions)

    def _key(self) -> object:
        return (self.partitions, self.unreduced, self.reduced) if self.has_sums else self.partitions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _sum_texts(self) -> list[str]:
        return [
            f"{which}={{{', '.join(sorted(map(repr, names)))}}}"
            for which, names in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if names
        ]

    def __repr__(self) -> str:
        return self._text()

    def _text(self) -> str:
        return f"P({', '.join([*map(repr, self.partitions), *self._sum_texts()])})"

    def tuple_text(self) -> str:
        """Returns the text with the entries as a tuple, `P('x',)`: the `repr` under `effx.compat`."""
        return self._text() if self.has_sums else f"P{self.partitions!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_spec, (self.partitions, self.unreduced, self.reduced)

    def index(self, value: Entry) -> int:
        """Returns the first array axis with this entry."""
        return self.partitions.index(_normalize_entry(value))

    def count(self, value: Entry) -> int:
        """Counts the array axes with this entry."""
        return self.partitions.count(_normalize_entry(value))

    def update(
        self,
        partitions: Sequence[Entry] | None = None,
        unreduced: AbstractSet[MeshAxisName] | None = None,
        reduced: AbstractSet[MeshAxisName] | None = None,
    ) -> "PartitionSpec":
        """Returns a PartitionSpec with other entries, or other axes along which the array is unreduced or reduced."""
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    def trim(self) -> "PartitionSpec":
        """Returns the PartitionSpec without None at the end of its entries, which has no meaning."""
        return self.update(trim_spec(self))


def _rebuild_spec(
    partitions: tuple[Entry, ...], unreduced: frozenset[MeshAxisName], reduced: frozenset[MeshAxisName]
) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


def entry_axes(entry: Entry) -> tuple[MeshAxisName, ...]:
    """Returns the names in an entry of a PartitionSpec."""
    if entry is None or entry is _UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def trim_spec(spec: PartitionSpec) -> tuple[Entry, ...]:
    """Returns a PartitionSpec's entries without trailing None, which has no meaning."""
    entries = spec.partitions
    n = len(entries)
    while n and entries[n - 1] is None:
        n -= 1
    return entries[:n]


def check_mesh_axes(
    function_name: str, names: Sequence[MeshAxisName], sizes: Sequence[int], types: AxisTypes
) -> tuple[tuple[MeshAxisName, ...], tuple[int, ...], tuple[AxisType, ...]]:
    """Returns a mesh's names, sizes and types as tuples.

    Raises:
        ShardingError: their numbers differ, a name repeats, or a value has a wrong type.
    """
    name_tuple = (names,) if isinstance(names, str) else tuple(names)
    lengths = tuple(sizes)
    if len(name_tuple) != len(lengths):
        raise ShardingError(
            f"{function_name}: {len(lengths)} axes have {len(name_tuple)} names: sizes {lengths}, names {name_tuple}"
        )
    repeated = [name for i, name in enumerate(name_tuple) if name in name_tuple[:i]]
    if repeated:
        raise ShardingError(f"{function_name}: the axis name {repeated[0]!r} is given twice")
    for n in lengths:
        if type(n) is not int or n < 1:
            raise ShardingError(f"{function_name}: axis sizes must be positive ints, got {lengths}")
    if types is None:
        kinds: tuple[AxisType, ...] = (AxisType.Auto,) * len(name_tuple)
    elif isinstance(types, AxisType):
        kinds = (types,) * len(name_tuple)
    else:
        kinds = tuple(types)
    if len(kinds) != len(name_tuple) or not all([isinstance(k, AxisType) for k in kinds]):
        raise ShardingError(
            f"{function_name}: axis_types must hold an AxisType for each of {len(name_tuple)} axes, got {types!r}"
        )
    return name_tuple, lengths, kinds


class MeshAxes:
    """The base of meshes with and without devices: names, sizes and types of their axes."""

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

    def _axes_of_type(self, kind: AxisType) -> tuple[MeshAxisName, ...]:
        return tuple([n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind])

    @property
    def auto_axes(self) -> tuple[MeshAxisName, ...]:
        """The axes that are left to the partitioner."""
        return self._axes_of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[MeshAxisName, ...]:
        """The axes whose shardings types show."""
        return self._axes_of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[MeshAxisName, ...]:
        """The axes along which the user programs each device."""
        return self._axes_of_type(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether all axes are left to the partitioner; False of a mesh without axes."""
        return len(self.auto_axes) == len(self.axis_names) > 0

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether all axes are Explicit: types show their shardings; False of a mesh without axes."""
        return len(self.explicit_axes) == len(self.axis_names) > 0

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether all axes are Manual: the user programs each device; False of a mesh without axes."""
        return len(self.manual_axes) == len(self.axis_names) > 0

    @property
    def are_all_axes_explicit_or_manual(self) -> bool:
        """Whether no axis is left to the partitioner; False of a mesh without axes."""
        return bool(self.axis_names) and not self.auto_axes

    def _axes_text(self) -> str:
        sizes = ", ".join([f"{n!r}: {k}" for n, k in self.shape_tuple]) or "()"
        return f"{sizes}, axis_types=({', '.join(map(str, self.axis_types))})"


def replace_axis_types(mesh: MeshAxes, types: Mapping[MeshAxisName, AxisType]) -> tuple[AxisType, ...]:
    """Returns a mesh's axis types with some replaced.

    Raises:
        ShardingError: the mesh has no such axis.
    """
    for name in types:
        if name not in mesh.axis_names:
            raise ShardingError(f"update_axis_types: the mesh has no axis {name!r}; it has {mesh.axis_names}")
    return tuple([types.get(n, t) for n, t in zip(mesh.axis_names, mesh.axis_types, strict=True)])


@register_leaf
@final
@attrs.frozen
class AbstractDevice:
    """What the devices of a mesh without devices are, for functions that ask when they are traced.

    Attributes:
        device_kind: the kind of device, as `Device.device_kind`.
        num_cores: the number of cores of each; None where it is not known.
        platform: "cpu", "cuda", "rocm" or "tpu".

    >>> AbstractDevice("NVIDIA H100", None, "cuda").platform
    'cuda'
    """

    device_kind: str
    num_cores: int | None
    platform: str


@register_leaf
@final
@attrs.frozen(init=False, repr=False)
class AbstractMesh(MeshAxes):
    """A mesh without devices, only with the axes' sizes and names: enough to trace and to lower.

    Args:
        axis_sizes: the number of devices along each axis.
        axis_names: the axes' names, all different.
        axis_types: an AxisType for all axes or for each; by default Auto.
        abstract_device: what the devices are: in force, programs are lowered for their platform. None to say nothing.
            Meshes that differ in it alone are equal.

    Raises:
        ShardingError: sizes, names and types do not match.

    >>> mesh = AbstractMesh((4, 2), ("data", "model"))
    >>> mesh.shape["data"], mesh.size
    (4, 8)
    """

    axis_sizes: tuple[int, ...]
    axis_names: tuple[MeshAxisName, ...]
    axis_types: tuple[AxisType, ...]
    abstract_device: AbstractDevice | None = attrs.field(eq=False)

    def __init__(
        self,
        axis_sizes: Sequence[int],
        axis_names: "str | Sequence[MeshAxisName]",
        axis_types: AxisTypes = None,
        *,
        abstract_device: AbstractDevice | None = None,
    ) -> None:
        names, sizes, types = check_mesh_axes("AbstractMesh", axis_names, axis_sizes, axis_types)
        if abstract_device is not None and not isinstance(abstract_device, AbstractDevice):
            raise ShardingError(
                f"AbstractMesh: abstract_device must be an AbstractDevice, got {abstract_device!r} of type "
                f"{type(abstract_device).__name__}"
            )
        self.__attrs_init__(sizes, names, types, abstract_device)

    @property
    def abstract_mesh(self) -> "AbstractMesh":
        """The mesh itself."""
        return self

    def update(
        self,
        axis_sizes: Sequence[int] | None = None,
        axis_names: Sequence[MeshAxisName] | None = None,
        axis_types: AxisTypes = None,
        *,
        abstract_device: "AbstractDevice | EllipsisType | None" = ...,
    ) -> "AbstractMesh":
        """Returns a mesh with the given parts replaced."""
        return AbstractMesh(
            self.axis_sizes if axis_sizes is None else axis_sizes,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
            abstract_device=self.abstract_device if abstract_device is ... else abstract_device,
        )

    def update_axis_types(self, name_to_type: Mapping[MeshAxisName, AxisType]) -> "AbstractMesh":
        """Returns the mesh with other types of some axes."""
        return self.update(axis_types=replace_axis_types(self, name_to_type))

    def __repr__(self) -> str:
        return f"AbstractMesh({self._axes_text()})"


@cache
def without_device(mesh: AbstractMesh) -> AbstractMesh:
    """Returns a mesh that does not say what its devices are, as in types."""
    return mesh if mesh.abstract_device is None else mesh.update(abstract_device=None)


def check_spec(function_name: str, mesh: MeshAxes, spec: PartitionSpec) -> None:
    """Checks that a PartitionSpec names axes that a mesh has, each at most once.

    Raises:
        ShardingError: it does not.
    """
    seen: list[MeshAxisName] = []
    for entry in (*spec.partitions, tuple(spec.unreduced), tuple(spec.reduced)):
        for name in entry_axes(entry):
            if name not in mesh.axis_names:
                raise ShardingError(
                    f"{function_name}: the mesh has no axis {name!r}, which {spec!r} names; it has {mesh.axis_names}"
                )
            if name in seen:
                raise ShardingError(f"{function_name}: {spec!r} shards along the mesh axis {name!r} twice")
            seen.append(name)
    for name in (spec.unreduced | spec.reduced) & frozenset(mesh.auto_axes):
        raise ShardingError(
            f"{function_name}: {spec!r} is unreduced or reduced along {name!r}, an {AxisType.Auto} axis, of which types "
            f"say nothing; make it an {AxisType.Explicit} one"
        )


def spec_axis_numbers(mesh: MeshAxes, spec: PartitionSpec) -> tuple[tuple[int, ...], ...]:
    """Returns for each entry of a PartitionSpec the numbers of the mesh axes that shard it."""
    axis_number = {name: i for i, name in enumerate(mesh.axis_names)}
    return tuple(
        [tuple([axis_number[n] for n in entry_axes(entry)]) for entry in cast("Any", trim_spec(spec))]
    )
