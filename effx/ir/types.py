"""Array types: dtype, shape, weak type, varying axes and sharding, interned so that equality is identity."""

import math
import warnings
from collections.abc import Collection, Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, cast, final

import attrs
import numpy as np

from effx import dtypes, ports
from effx.dtypes import DType, DTypeLike
from effx.errors import DTypeError, ShapeError, ShardingError
from effx.ir.meshes import AbstractMesh, MeshAxes, MeshAxisName, PartitionSpec, entry_axes, without_device
from effx.ir.sizes.dimensions import as_size, is_symbolic

Shape = tuple[int, ...]

Vma = frozenset[Hashable]
"""Names of axes: varying manual axes."""

INVARIANT: Vma = frozenset()

Sums = tuple[Vma, Vma]
"""The axes along which a value is still to be summed (unreduced), and those along which its cotangent is (reduced)."""

NO_SUMS: Sums = (INVARIANT, INVARIANT)

_interned: dict[
    "tuple[DType, Shape, bool, Vma] | tuple[DType, Shape, bool, Vma, TypeSharding]", "ArrayType"
] = {}


@final
@attrs.frozen
class TypeSharding:
    """The sharding of a type's arrays over the Explicit axes of a mesh.

    Attributes:
        mesh: the mesh's sizes and names; without axes if the arrays are unsharded.
        spec: for each array axis, at least up to the last sharded one, the mesh axes that shard it; and the axes along
            which the arrays are unreduced and reduced. Inside of a `shard_map` these may be axes that it maps over.
    """

    mesh: AbstractMesh
    spec: PartitionSpec

    def mesh_axes(self, ndim: int) -> tuple[tuple[Hashable, ...], ...]:
        """Returns for each of `ndim` array axes the mesh axes that shard it."""
        named = [entry_axes(entry) for entry in self.spec.partitions]
        return (*named, *[()] * (ndim - len(named)))

    def with_mesh_axes(self, cuts: Sequence[Sequence[Hashable]]) -> "TypeSharding | None":
        """Returns the sharding in which other mesh axes shard the array axes; None if it says nothing."""
        return type_sharding(self.mesh, cuts, (self.spec.unreduced, self.spec.reduced))

    def with_sums(self, sums: "Sums") -> "TypeSharding | None":
        """Returns the sharding with other unreduced and reduced axes; None if it says nothing."""
        return type_sharding(self.mesh, self.mesh_axes(len(self.spec)), sums)

    @property
    def sums(self) -> "Sums":
        """The unreduced and the reduced axes."""
        return self.spec.unreduced, self.spec.reduced


class MeshSharding(Protocol):
    """A sharding along the named axes of a mesh: what `effx.sharding.NamedSharding` is to this layer."""

    @property
    def mesh(self) -> MeshAxes:
        """The mesh."""

    @property
    def spec(self) -> PartitionSpec:
        """For each array axis the mesh axes that shard it."""

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""

    def update(self, *, spec: PartitionSpec | None = None) -> "MeshSharding":
        """Returns the sharding with another spec."""


def _as_vma(names: Collection[MeshAxisName]) -> Vma:
    return frozenset(names)


@final
@attrs.frozen
class ManualAxisType:
    """How an array differs along the Manual axes of a mesh, inside of `shard_map`: `typeof(x).mat`.

    Attributes:
        varying: the axes along which devices have different values.
        unreduced: the axes along which the array is the sum of what devices have.
        reduced: the axes along which devices have the same value, with an unreduced cotangent.

    Raises:
        ShardingError: an axis is in two of them.

    >>> from effx.sharding import AbstractMesh, AxisType
    >>> ManualAxisType(varying={"i"}).invarying(AbstractMesh((2, 2), ("i", "j"), AxisType.Manual))
    frozenset({'j'})
    """

    varying: Vma = attrs.field(default=INVARIANT, converter=_as_vma, kw_only=True)
    unreduced: Vma = attrs.field(default=INVARIANT, converter=_as_vma, kw_only=True)
    reduced: Vma = attrs.field(default=INVARIANT, converter=_as_vma, kw_only=True)

    def __attrs_post_init__(self) -> None:
        twice = (self.varying & self.unreduced) | ((self.varying | self.unreduced) & self.reduced)
        if twice:
            raise ShardingError(
                f"ManualAxisType: {', '.join(axis_name_texts(twice))} is in two of varying, unreduced and reduced"
            )

    @property
    def empty(self) -> bool:
        """Whether the array is the same along all axes, and its cotangent too."""
        return not (self.varying or self.unreduced or self.reduced)

    def invarying(self, mesh: MeshAxes) -> frozenset[MeshAxisName]:
        """Returns the Manual axes of a mesh along which all devices have the same value and the same cotangent."""
        return frozenset(mesh.manual_axes) - self.varying - self.unreduced - self.reduced

    def update(
        self,
        *,
        varying: Collection[MeshAxisName] | None = None,
        unreduced: Collection[MeshAxisName] | None = None,
        reduced: Collection[MeshAxisName] | None = None,
    ) -> "ManualAxisType":
        """Returns the type with other axes."""
        return ManualAxisType(
            varying=self.varying if varying is None else varying,
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )


def drop_mesh_axes(
    cuts: Sequence[Sequence[Hashable]], axes: Collection[Hashable]
) -> tuple[tuple[Hashable, ...], ...]:
    """Returns for each array axis the mesh axes that shard it, without the dropped ones."""
    return tuple([tuple([name for name in names if name not in axes]) for names in cuts])


def type_sharding(
    mesh: AbstractMesh, cuts: Sequence[Sequence[Hashable]], sums: Sums = NO_SUMS
) -> "TypeSharding | None":
    """Returns a sharding for types over the Explicit axes of a mesh; None if it says nothing.

    Args:
        mesh: the mesh. cuts: for each array axis the mesh axes that shard it. sums: the unreduced and reduced axes.
    """
    explicit = mesh.explicit_axes
    explicit_axes = [tuple([name for name in names if name in explicit]) for names in cuts]
    unreduced, reduced = sums
    if not any(explicit_axes) and not unreduced and not reduced:
        return None
    spec = PartitionSpec(*explicit_axes, unreduced=unreduced, reduced=reduced)
    return TypeSharding(without_device(mesh), spec.trim())


def _kind_letter(dtype: DType) -> str:
    # ml_dtypes' dtypes have NumPy's kind 'V'.
    if dtypes.is_floating(dtype):
        return "f"
    if dtypes.is_integer(dtype):
        return "i" if dtypes.is_signed(dtype) else "u"
    return dtype.kind


@final
class ArrayType:
    """The type of an array: `f32[3,4]`, with a `~` if weak, `f32[3]{V:i}` if it varies along the axis `i`, `f32[4@i]` if
    this mesh axis shards it, `f32[4]{U:i}` and `f32[4]{R:i}` if it is unreduced or reduced along it.

    There is one instance per (dtype, shape, weak, vma, sharding), so `is` compares types.

    >>> ArrayType((3, 4), "float32") is array_type(dtypes.float32, (3, 4))
    True

    Attributes:
        dtype: the NumPy dtype.
        shape: a tuple of sizes; () for a scalar. A size may be symbolic, see `effx.ir.sizes.dimensions`.
        weak: True if the dtype came from a bare Python number and yields in promotion.
        vma: the axes of surrounding `shard_map`s (with `check_vma`) along which devices have different values. Typing
            rules ignore it: the recorder joins that of the operands.
        explicit_sharding: the sharding over Explicit mesh axes; None if there is none. Typing rules ignore it too: the
            recorder uses `effx.ir.passes.sharding_propagation`.
    """

    # A plain class, because attrs' frozen classes cannot intern in __new__ without running __init__ again on the shared
    # instance.
    __slots__ = (
        "__weakref__",
        "dtype",
        "explicit_sharding",
        "kind",
        "mlir",
        "ndim",
        "shape",
        "size",
        "vma",
        "weak",
        "weak_type",
    )
    dtype: DType
    shape: Shape
    weak: bool
    vma: Vma
    explicit_sharding: TypeSharding | None

    def __new__(
        cls,
        shape: Sequence[int],
        dtype: DTypeLike,
        weak_type: bool = False,
        *,
        sharding: MeshSharding | None = None,
        vma: Vma = INVARIANT,
        manual_axis_type: ManualAxisType | None = None,
    ) -> "ArrayType":
        """Returns the type of arrays of this shape and dtype, of which there is one."""
        varying = vma if manual_axis_type is None else manual_axis_type.varying
        t = array_type(dtypes.as_dtype(dtype), shape, weak_type, varying)
        return t if sharding is None else t.with_sharding(ports.meshes.shardings.type_sharding_of(sharding))

    # 'b' boolean, 'i' signed, 'u' unsigned, 'f' floating, 'c' complex, 'V' other
    kind: str
    mlir: str
    ndim: int
    size: int
    weak_type: bool

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"array types are immutable: cannot set {name!r}")

    def __repr__(self) -> str:
        sizes = list(map(str, self.shape))
        if self.explicit_sharding is not None:
            for i, names in enumerate(self.explicit_sharding.mesh_axes(self.ndim)):
                if names:
                    shown = ",".join([axis_name_text(n) for n in names])
                    sizes[i] += f"@({shown})" if names[1:] else f"@{shown}"
        text = f"{dtypes.short_name(self.dtype)}[{','.join(sizes)}]{'~' if self.weak else ''}"
        unreduced, reduced = NO_SUMS if self.explicit_sharding is None else self.explicit_sharding.sums
        if not (self.vma or unreduced or reduced):
            return text
        groups = (("V", self.vma), ("U", unreduced), ("R", reduced))
        parts = [f"{letter}:{','.join(axis_name_texts(names))}" for letter, names in groups if names]
        return f"{text}{{{', '.join(parts)}}}"

    def long_text(self) -> str:
        """Returns the text with NumPy's name of the dtype, `~float32[3]` if weak: `str` of it under `effx.compat`."""
        short = dtypes.short_name(self.dtype)
        name = short if dtypes.is_key(self.dtype) else self.dtype.name
        return ("~" if self.weak else "") + name + repr(self.strong())[len(short) :]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_type, (self.dtype, self.shape, self.weak, self.vma, self.explicit_sharding)

    @property
    def sharding(self) -> MeshSharding:
        """The sharding over Explicit mesh axes, a NamedSharding with an entry for each array axis.

        Its mesh has no devices: it is the one in the type, of an unsharded array the one in force. Axes over which a
        `shard_map` maps are Manual inside of it.
        """
        return cast("MeshSharding", ports.meshes.named.describe_type_sharding(self))

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """How the array differs along the Manual axes of a mesh."""
        if self.explicit_sharding is None or not self.explicit_sharding.spec.has_sums:
            return ManualAxisType(varying=self.vma)
        manual = frozenset(self.sharding.mesh.manual_axes)
        unreduced, reduced = [names & manual for names in self.explicit_sharding.sums]
        return ManualAxisType(varying=self.vma, unreduced=unreduced, reduced=reduced)

    mat = manual_axis_type

    def with_shape(self, shape: Shape) -> "ArrayType":
        """Returns the type with another shape, unsharded."""
        return array_type(self.dtype, shape, self.weak, self.vma)

    def drop_first_axis(self) -> "ArrayType":
        """Returns the type of the slices along the first axis, which keep the sharding of the other axes."""
        t, sharding = self.with_shape(self.shape[1:]), self.explicit_sharding
        return (
            t
            if sharding is None
            else t.with_sharding(sharding.with_mesh_axes(sharding.mesh_axes(self.ndim)[1:]))
        )

    def with_dtype(self, dtype: DType) -> "ArrayType":
        """Returns the strong type with another dtype."""
        return array_type(dtype, self.shape, False, self.vma).with_sharding(self.explicit_sharding)

    def strong(self) -> "ArrayType":
        """Returns the type with `weak` False."""
        if not self.weak:
            return self
        return array_type(self.dtype, self.shape, False, self.vma).with_sharding(self.explicit_sharding)

    strip_weak_type = strong

    def to_tangent_aval(self) -> "ArrayType":
        """Returns the type of tangents: float0 for integers and booleans."""
        return self if self.kind in "fc" else array_type(dtypes.float0, self.shape)

    at_least_vspace = to_tangent_aval

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Names before 0.1.
            new = {"cut": "explicit_sharding", "lying": "with_sharding", "varying": "with_vma"}.get(name)
            if new is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warnings.warn(f"ArrayType.{name} is now called {new}", DeprecationWarning, stacklevel=2)
            return getattr(self, new)

    def with_vma(self, vma: Vma) -> "ArrayType":
        """Returns the type of a value that varies along these axes and no others."""
        if self.vma == vma:
            return self
        return array_type(self.dtype, self.shape, self.weak, vma).with_sharding(self.explicit_sharding)

    def with_sharding(self, sharding: TypeSharding | None) -> "ArrayType":
        """Returns the type with this sharding.

        Raises:
            ShardingError: it has fewer axes, or one that cannot be sharded into equal parts.
        """
        if sharding is self.explicit_sharding or sharding == self.explicit_sharding:
            return self
        if sharding is None:
            return array_type(self.dtype, self.shape, self.weak, self.vma)
        key = (self.dtype, self.shape, self.weak, self.vma, sharding)
        interned = _interned.get(key)
        if interned is None:
            check_divisible(self.with_shape(self.shape), sharding)
            interned = _interned.setdefault(key, _make_type(*key))
        return interned

    def plain(self) -> "ArrayType":
        """Returns the type without varying axes and sharding."""
        if self.explicit_sharding is None and not self.vma:
            return self
        return array_type(self.dtype, self.shape, self.weak)

    def update(
        self,
        *,
        shape: Shape | None = None,
        dtype: DType | None = None,
        weak_type: bool | None = None,
    ) -> "ArrayType":
        """Returns the type with some attributes replaced; with another shape it is unsharded."""
        t = self if shape is None else self.with_shape(tuple(shape))
        updated = array_type(
            t.dtype if dtype is None else dtype, t.shape, t.weak if weak_type is None else weak_type, t.vma
        )
        return updated.with_sharding(t.explicit_sharding)

    def str_short(self, short_dtypes: bool = False) -> str:
        """Returns dtype and shape in a few letters: `float32[3]`, or `f32[3]`."""
        return (
            repr(self.strong().plain())
            if short_dtypes
            else f"{self.dtype.name}[{','.join(map(str, self.shape))}]"
        )

    def matches(self, other: "ArrayType") -> bool:
        """Returns whether both types have the same dtype and shape; the rest is ignored."""
        return self is other or (self.dtype == other.dtype and self.shape == other.shape)


def _make_type(
    dtype: DType, shape: Shape, weak: bool, vma: Vma, sharding: TypeSharding | None = None
) -> ArrayType:
    if dtype in dtypes.NAMED:
        raise DTypeError(
            f"array_type: there are no arrays of {dtype.name}, which XLA does not compute with; use a wider dtype"
        )
    if any([not is_symbolic(n) and n < 0 for n in shape]):
        raise ShapeError(f"array_type: sizes must not be negative, got {list(shape)}")
    t, put = object.__new__(ArrayType), object.__setattr__
    put(t, "dtype", dtype)
    put(t, "shape", shape)
    put(t, "weak", weak)
    put(t, "vma", vma)
    put(t, "explicit_sharding", sharding)
    # jaxlib's C++ reads this name, and distinguishes keys from numbers by it, and float0 from bool.
    put(t, "weak_type", weak or dtypes.is_stored_as_other(dtype))
    put(t, "kind", _kind_letter(dtype))
    put(t, "ndim", len(shape))
    put(t, "size", prod(shape))
    sizes = "".join(["?x" if is_symbolic(n) else f"{n}x" for n in shape])
    # The text has no axes, so that lowering depends only on dtypes and shapes. An earlier version lowered a
    # copy of each body without axes, which took a tenth of tracing and lowering.
    put(t, "mlir", f"tensor<{sizes}{dtypes.mlir_name(dtype)}>")
    return t


def _rebuild_type(
    dtype: DType, shape: Shape, weak: bool, vma: Vma, sharding: TypeSharding | None = None
) -> ArrayType:
    return array_type(dtype, shape, weak, vma).with_sharding(sharding)


def check_divisible(t: ArrayType, sharding: TypeSharding) -> None:
    """Checks that arrays of a type can be sharded into equal parts.

    Raises:
        ShardingError: they cannot.
    """
    if len(sharding.spec) > t.ndim:
        raise ShardingError(f"{sharding.spec!r} speaks of {len(sharding.spec)} axes, but {t!r} has {t.ndim}")
    sizes = sharding.mesh.shape
    for i, names in enumerate(sharding.mesh_axes(t.ndim)):
        parts = prod([sizes[n] for n in names])
        if parts > 1 and (is_symbolic(t.shape[i]) or t.shape[i] % parts):
            raise ShardingError(
                f"{t!r} cannot be sharded by {sharding.spec!r}: axis {i} of size {t.shape[i]} into {parts} equal parts"
            )


def axis_name_text(name: Hashable) -> str:
    """Returns an axis name, without quotes if it is a word."""
    return name if isinstance(name, str) and name.isidentifier() else repr(name)


def axis_name_texts(vma: Vma) -> list[str]:
    """Returns the names of axes in order, those that are words without quotes."""
    return sorted(map(axis_name_text, vma))


def array_type(
    dtype: DType, shape: Sequence[int] = (), weak: bool = False, vma: Vma = INVARIANT
) -> ArrayType:
    """Returns the array type with this dtype, shape, weak type and varying axes.

    Raises:
        ShapeError: a size is negative or no int.

    >>> import numpy as np
    >>> array_type(np.dtype("float32"), (3, 4))
    f32[3,4]
    >>> array_type(np.dtype("float32"), (3, 4)) is array_type(np.dtype("float32"), (3, 4))
    True
    """
    key = (dtype, shape, weak, vma)
    try:
        return _interned[key]  # type: ignore[index]  # a list as shape falls through to the slow path
    except (KeyError, TypeError):
        # Unpickled dtypes are equal to NumPy's own, but are not marked as builtin.
        numpy_dtype = np.dtype(dtype)
        dtype = dtypes.OWN.get(numpy_dtype, numpy_dtype)
        sizes = tuple([as_size(n) for n in shape])
        axes = frozenset(vma)
        return _interned.setdefault((dtype, sizes, weak, axes), _make_type(dtype, sizes, bool(weak), axes))


def lowest_value(t: ArrayType) -> bool | int | float:
    """Returns the smallest value of a dtype that has an order: minus infinity for floats that have it.

    >>> lowest_value(array_type(dtypes.int8)), lowest_value(array_type(dtypes.float8_e4m3fn))
    (-128, -448.0)
    """
    if t.kind == "f":
        return -math.inf if dtypes.has_infinity(t.dtype) else float(dtypes.finfo(t.dtype).min)
    if t.kind == "b":
        return False
    return int(dtypes.iinfo(t.dtype).min)


def highest_value(t: ArrayType) -> bool | int | float:
    """Returns the largest value of a dtype that has an order: infinity for floats that have it.

    >>> highest_value(array_type(dtypes.int8)), highest_value(array_type(dtypes.float8_e4m3fn))
    (127, 448.0)
    """
    if t.kind == "f":
        return math.inf if dtypes.has_infinity(t.dtype) else float(dtypes.finfo(t.dtype).max)
    if t.kind == "b":
        return True
    return int(dtypes.iinfo(t.dtype).max)
