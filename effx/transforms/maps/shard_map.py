"""`shard_map`: run a function on the shards of arrays over the devices of a mesh."""

from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from math import prod
from operator import index
from typing import Any, ParamSpec, TypeVar, cast, final, overload

import attrs

from effx.array import Array
from effx.array.promotion import as_operand
from effx.errors import EffxError, OptionError, ShardingError, TransformError, TreeError, check_function
from effx.handlers.sharding_types.axes_in_types import cast_to_varying, with_type_sharding
from effx.handlers.staging.parallel_maps import enclosing_replicas, stage_replica
from effx.ir.meshes import AbstractMesh, AxisType, MeshAxisName, PartitionSpec, check_spec, entry_axes
from effx.ir.ops.collective import PCast
from effx.ir.ops.parallel import NamedSizes, ParallelMap
from effx.ir.ops.reduce import ReduceSum
from effx.ir.ops.shape import Reshape, Transpose
from effx.ir.ops.sharding import Constrain
from effx.ir.passes.partial_sums import left_sums, type_sums
from effx.ir.passes.sharding_propagation import mesh_axes_by_dimension
from effx.ir.types import INVARIANT, NO_SUMS, ArrayType, axis_name_texts, drop_mesh_axes, type_sharding
from effx.ir.values.refs import ReferenceBase
from effx.lower.placement.meshes import Mesh, ambient
from effx.tracing.arguments import (
    FlatFunction,
    argument_path,
    callable_name,
    finalize_results,
    function_origin,
)
from effx.tracing.wrapping import wraps
from effx.transforms.jit.function import Function
from effx.transforms.jit.options import Options
from effx.transforms.placement.meshes import make_mesh_constraint, manual_axes
from effx.tree.mapping import flatten_with_path
from effx.tree.prefixes import broadcast_prefix, keystr
from effx.tree.registry import PyTree, SequenceKey, flatten

__all__ = ["shard_map", "smap"]

P = ParamSpec("P")
R = TypeVar("R")
Specs = Any
"""A PartitionSpec, or a pytree prefix of them."""

NO_AXES: AbstractSet[MeshAxisName] = frozenset()


@final
class _Infer:
    """The default of `in_specs`: infer them from types."""

    def __repr__(self) -> str:
        return "Infer"

    def __reduce__(self) -> str:
        return "Infer"


Infer = _Infer()


@overload
def shard_map(
    f: Callable[P, R],
    /,
    *,
    out_specs: Specs,
    in_specs: Specs = Infer,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: AbstractSet[MeshAxisName] = NO_AXES,
    check_vma: bool = True,
) -> Callable[P, R]: ...
@overload
def shard_map(
    f: None = None,
    /,
    *,
    out_specs: Specs,
    in_specs: Specs = Infer,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: AbstractSet[MeshAxisName] = NO_AXES,
    check_vma: bool = True,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Specs,
    in_specs: Specs = Infer,
    mesh: Mesh | AbstractMesh | None = None,
    axis_names: AbstractSet[MeshAxisName] = NO_AXES,
    check_vma: bool = True,
) -> Callable[..., Any]:
    """Returns a function that runs `f` on all devices of a mesh at once, each on its own parts of the arguments. The
    devices communicate in collectives such as `effx.lax.psum`, by the names of the mesh's axes. The function is
    compiled as under `jit`, and composes with `jit`, `grad`, `vmap`, loops and users' handlers.

    With `check_vma` the type of each value shows along which axes it varies between devices: `f32[4]{V:data}`.
    Gradients inside of `f` with respect to a value that does not vary are then summed over the devices, as it is one
    value; `lax.pcast` makes a separate copy for each device.

    Args:
        f: takes and returns pytrees of arrays: the parts. A reference among the arguments becomes one to its part on
            each device. Left out, a decorator is returned.
        out_specs: for each result a PartitionSpec: the mesh axes along which the parts are concatenated. Along axes
            that it does not name, parts must be equal. One for all, or a pytree prefix of the result.
        in_specs: for each argument a PartitionSpec: the mesh axes along which it is sharded, into equal parts; along
            other mesh axes it is replicated. One for all arguments, or a pytree prefix of the tuple of arguments, in which
            None stands for P() of arrays and floats; other values pass as they are. Left out, types show the
            shardings, for Explicit mesh axes.
        mesh: the mesh; None for the mesh in force when the function is called.
        axis_names: the mesh axes that `f` knows; the partitioner shards along the others. Empty for all axes.
        check_vma: whether types show varying axes, and parts that must be equal are checked to be so. False: gradients
            inside of `f` are those of one device, and of parts that must be equal the first device's is used.

    Returns:
        A function of whole arrays; positional arguments only. Results are sharded on the mesh by `out_specs`.

    Raises:
        ShardingError: specs name unknown axes, an array cannot be sharded into equal parts, a result varies
            along an axis that its spec does not name, the type of an argument contradicts `in_specs`, or there is no
            mesh.
        OptionError: specs are left out, and an axis is not Explicit.
        TreeError: specs are no prefix of the arguments or the result.
        TransformError: there are keyword arguments, or it is inside pmap.

    >>> import effx, effx.numpy as enp
    >>> from effx.sharding import PartitionSpec as P
    >>> mesh = effx.make_mesh((1,), ("data",))
    >>> @effx.shard_map(mesh=mesh, in_specs=P("data"), out_specs=P())
    ... def total(x):
    ...     return effx.lax.psum(x.sum(), "data")
    >>> total(enp.arange(4.))
    Array(6., dtype=float32)
    """

    def transform(fun: Callable[..., Any]) -> Callable[..., Any]:
        check_function(fun)
        return _shard_map(
            fun,
            "shard_map",
            mesh,
            in_specs,
            out_specs,
            axis_names=frozenset(axis_names),
            checked=bool(check_vma),
            is_leaf=_is_spec,
        )

    if mesh is not None and not isinstance(mesh, Mesh | AbstractMesh):
        raise ShardingError(f"shard_map: mesh must be a Mesh, got {mesh!r} of type {type(mesh).__name__}")
    if not isinstance(axis_names, AbstractSet | list | tuple):
        raise ShardingError(
            f"shard_map: axis_names must be a set of names of mesh axes, got {axis_names!r}; write {{{axis_names!r}}}"
        )
    return transform if f is None else transform(f)


@overload
def smap(
    f: Callable[P, R], /, *, in_axes: Any = Infer, out_axes: Any, axis_name: MeshAxisName
) -> Callable[P, R]: ...
@overload
def smap(
    f: None = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: MeshAxisName
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def smap(
    f: "Callable[P, R] | None" = None, /, *, in_axes: Any = Infer, out_axes: Any, axis_name: MeshAxisName
) -> Any:
    """Returns a function that runs `f` along one axis of the mesh in force: `shard_map` with axes as in `vmap`.

    Args:
        f: takes and returns pytrees of arrays: the parts. Without it a decorator is returned.
        in_axes: for each argument the sharded array axis, None for a replicated argument; a pytree prefix.
            Left out, types show it, if the mesh axis is Explicit.
        out_axes: for the results, the axis along which parts are concatenated; None for equal parts.
        axis_name: the mesh axis; along others the partitioner shards.

    Raises:
        As `shard_map`; TransformError: an axis is neither None nor an int from 0.

    >>> import effx, effx.numpy as enp
    >>> with effx.set_mesh(effx.make_mesh((1,), ("data",))):
    ...     print(effx.smap(lambda x: x * 2, in_axes=0, out_axes=0, axis_name="data")(enp.ones(2)))
    [2. 2.]
    """
    if f is None:
        return partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    check_function(f)

    def spec(axis: object) -> PartitionSpec:
        if axis is None:
            return PartitionSpec()
        try:
            position = index(cast("int", axis))
        except TypeError:
            position = -1
        if position < 0:
            raise TransformError(f"smap: in_axes and out_axes hold ints from 0 and None, got {axis!r}")
        return PartitionSpec(*[None] * position, axis_name)

    def specs(axes: object) -> PyTree:
        leaves, form = flatten(axes, lambda x: x is None)
        return form.unflatten(list(map(spec, leaves)))

    mapped_function = _shard_map(
        f,
        "smap",
        None,
        in_axes if in_axes is Infer else specs(in_axes),
        specs(out_axes),
        axis_names=frozenset([axis_name]),
        checked=True,
        is_leaf=_is_spec,
    )
    return cast("Callable[P, R]", mapped_function)


def _is_spec(x: object) -> bool:
    return isinstance(x, PartitionSpec) or x is None


def _replace_none(specs: Specs, is_leaf: Callable[[object], bool]) -> Specs:
    """Writes P() for None, which stands for a part without arrays too."""
    leaves, form = flatten(specs, is_leaf)
    return form.unflatten([PartitionSpec() if spec is None else spec for spec in leaves])


def _shard_map(
    fun: Callable[..., Any],
    transform_name: str,
    mesh: Mesh | AbstractMesh | None,
    in_specs: Specs,
    out_specs: Specs,
    *,
    axis_names: frozenset[MeshAxisName],
    checked: bool,
    is_leaf: Callable[[object], bool],
) -> Callable[..., Any]:
    if isinstance(in_specs, list):
        in_specs = tuple(in_specs)
    if None in flatten(in_specs, is_leaf)[0]:
        make_mapped = partial(
            _shard_map,
            transform_name=transform_name,
            mesh=mesh,
            out_specs=out_specs,
            axis_names=axis_names,
            checked=checked,
            is_leaf=is_leaf,
        )
        return _pass_unmapped(fun, make_mapped, in_specs, is_leaf)
    in_specs, out_specs = [_replace_none(specs, is_leaf) for specs in (in_specs, out_specs)]
    for which, specs in (("in_specs", in_specs), ("out_specs", out_specs)):
        if specs is Infer and which == "in_specs":
            continue
        for spec in flatten(specs, is_leaf)[0]:
            if not isinstance(spec, PartitionSpec):
                raise ShardingError(
                    f"{transform_name}: {which} must hold PartitionSpecs, got {spec!r} of type {type(spec).__name__}; "
                    "P() is for "
                    f"an array that is whole on each device"
                )
            if PartitionSpec.UNCONSTRAINED in spec.partitions:
                raise ShardingError(
                    f"{transform_name}: {which}: {spec!r}: inside, each axis is sharded or whole, so UNCONSTRAINED says "
                    "nothing; "
                    f"leave mesh axes out of axis_names for the partitioner"
                )
    shards = ShardMapParameters(
        fun, transform_name, callable_name(fun), mesh, in_specs, out_specs, axis_names, checked
    )

    def call_mapped(*args: Any, **kwargs: Any) -> Any:
        return shards.run(args, kwargs)

    call_mapped.__name__ = shards.name
    call_mapped.__wrapped__ = fun  # type: ignore[attr-defined]  # for signatures and origins
    return Function(call_mapped, Options(), transform_name, wrapped=fun).make_jitted()


def _pass_unmapped(
    fun: Callable[..., PyTree],
    make_mapped: Callable[..., Callable[..., PyTree]],
    in_specs: Specs,
    is_leaf: Callable[[object], bool],
) -> Callable[..., PyTree]:
    """Returns a mapped function that passes what has the spec None as it is, unless it is an array.

    Objects of any kind, and ints and bools, from which functions take shapes and choices. Others are mapped with P().
    """
    mapped: dict[object, Callable[..., PyTree]] = {}

    @wraps(fun)
    def call_mapped(*args: PyTree, **kwargs: PyTree) -> PyTree:
        leaves, form = flatten(args)
        try:
            specs = broadcast_prefix(in_specs, args, is_leaf)
        except TreeError:
            specs = []  # told by the mapped function
        passed = {
            i: leaf
            for i, (leaf, spec) in enumerate(zip(leaves, specs, strict=False))
            if spec is None and (isinstance(leaf, bool | int) or not _is_array_like(leaf))
        }
        if not passed:
            if None not in mapped:
                mapped[None] = make_mapped(fun, in_specs=_replace_none(in_specs, is_leaf))
            return mapped[None](*args, **kwargs)
        key = (
            form,
            tuple([(i, type(x), x if isinstance(x, bool | int) else id(x)) for i, x in passed.items()]),
        )
        if key not in mapped:
            if len(mapped) > 32:
                mapped.clear()
            rest_specs = tuple(
                [PartitionSpec() if spec is None else spec for i, spec in enumerate(specs) if i not in passed]
            )

            def call_rest(*rest: PyTree) -> PyTree:
                operands = iter(rest)
                merged = [passed[i] if i in passed else next(operands) for i in range(len(leaves))]
                return fun(*form.unflatten(merged))

            call_rest.__name__ = callable_name(fun)
            mapped[key] = make_mapped(call_rest, in_specs=rest_specs)
        return mapped[key](*[leaf for i, leaf in enumerate(leaves) if i not in passed], **kwargs)

    return call_mapped


def _is_array_like(x: PyTree) -> bool:
    try:
        as_operand(x)
    except EffxError:
        return False
    return True


@final
@attrs.frozen(eq=False)
class ShardMapParameters:
    """The parameters of one `shard_map`.

    Attributes:
        fun: the function that each device runs. transform_name: "shard_map" or "smap", for errors. name: the
            function's name.
        mesh: None for the mesh in force. in_specs, out_specs: pytree prefixes.
        axis_names: the mesh axes that the function maps over; empty for all.
        checked: whether types show varying axes.
        ref_paths: where the references were among the arguments, of a function that returns their final contents too.
    """

    fun: Callable[..., Any]
    transform_name: str
    name: str
    mesh: Mesh | AbstractMesh | None
    in_specs: Specs
    out_specs: Specs
    axis_names: frozenset[MeshAxisName]
    checked: bool
    ref_paths: tuple[str, ...] = ()

    def describe_result(self, path: tuple[object, ...]) -> str:
        """Returns what errors call a leaf of the result."""
        if not self.ref_paths:
            return f"result{keystr(path)} of {self.name}"
        if path[0] == SequenceKey(0):
            return f"result{keystr(path[1:])} of {self.name}"
        index = next(i for i in range(len(self.ref_paths)) if path[1] == SequenceKey(i))
        return f"what {self.name} leaves in the ref {self.ref_paths[index]}"

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Performs the parallel map."""
        if kwargs:
            raise TransformError(
                f"{self.transform_name}: {self.name} takes arguments by position, as in_specs says how each is sharded; got "
                f"{', '.join(sorted(kwargs))} by name"
            )
        mesh, axes = self.resolve_mesh()
        leaves, tree = flatten((args, {}))
        if any([isinstance(x, ReferenceBase) for x in leaves]):
            return self.run_with_refs(args, mesh, axes)
        paths = [argument_path((args, {}), i) for i in range(len(leaves))]
        operands = [as_operand(x, self.transform_name) for x in leaves]
        if self.in_specs is Infer:
            specs = [self.infer_spec(x.type, mesh, axes) for x in operands]
        else:
            specs = self.broadcast_specs("in_specs", self.in_specs, args, mesh, axes)
        in_partitioners = [
            Partitioner(self, mesh, axes, spec, f"{path} of {self.name}")
            for spec, path in zip(specs, paths, strict=True)
        ]
        for c, x in zip(in_partitioners, operands, strict=True):
            c.check_type(x.type)
        types = [c.shard_type(x.type) for c, x in zip(in_partitioners, operands, strict=True)]
        replica = FlatFunction(self.transform_name, self.fun, tree, self.name)
        out_partitioners: list[Partitioner] = []

        def run_shard(arrays: list[Array]) -> list[Array]:
            outputs = replica(arrays)
            result = replica.out_tree.unflatten(outputs)
            out_specs = self.broadcast_specs("out_specs", self.out_specs, result, mesh, axes)
            for y, spec, (path, _) in zip(outputs, out_specs, flatten_with_path(result)[0], strict=True):
                partitioner = Partitioner(self, mesh, axes, spec, self.describe_result(path))
                partitioner.check_result(y.type)
                out_partitioners.append(partitioner)
            if not self.checked:
                return outputs
            return [
                partitioner.cast_result(y) for y, partitioner in zip(outputs, out_partitioners, strict=True)
            ]

        origin = function_origin(self.fun)
        staged = stage_replica(
            run_shard,
            types,
            axes,
            self.name,
            origin,
            checked=self.checked,
            transform_name="shard_map",
            mesh=mesh,
        )
        op = ParallelMap(
            staged.program,
            axes,
            (*[()] * len(staged.captured), *[c.cut for c in in_partitioners]),
            tuple([j.cut for j in out_partitioners]),
            mesh.shape_tuple,
            tuple([d.id for d in mesh.ordered]) if isinstance(mesh, Mesh) else None,
            mesh.ordered[0].platform if isinstance(mesh, Mesh) else None,
            self.checked,
        )
        parts = [c.split_array(x) for c, x in zip(in_partitioners, operands, strict=True)]
        results = op(*staged.captured, *parts)
        joined = [j.join_shards(y) for j, y in zip(out_partitioners, results, strict=True)]
        return replica.out_tree.unflatten(finalize_results(joined))

    def run_with_refs(self, args: tuple[PyTree, ...], mesh: Mesh | AbstractMesh, axes: NamedSizes) -> PyTree:
        """Performs the parallel map of the contents of references: each device gets a reference to its shard, and the
        final shards are joined as the contents are split.
        """
        from effx.transforms.refs.ref_arguments import (  # rare, and not loaded before
            RefArguments,
            functionalize_refs,
        )

        lending = RefArguments(self.transform_name, self.name, args, {})
        contents = lending.arguments[0]
        if self.in_specs is Infer:
            leaves = flatten(contents)[0]
            specs = [self.infer_spec(as_operand(x, self.transform_name).type, mesh, axes) for x in leaves]
        else:
            specs = self.broadcast_specs("in_specs", self.in_specs, contents, mesh, axes)
        ref_specs = [specs[i] for i in lending.leaf_indices]
        shards = attrs.evolve(
            self,
            fun=functionalize_refs(self.fun, always_return=True),
            out_specs=(self.out_specs, ref_specs),
            ref_paths=tuple([argument_path((args, {}), i) for i in lending.leaf_indices]),
        )
        return lending.call_with_contents(lambda *arrays: shards.run(arrays, {}))

    def resolve_mesh(self) -> tuple[Mesh | AbstractMesh, NamedSizes]:
        """Returns the mesh, and the names and sizes of the axes to bind."""
        mesh = ambient.value if self.mesh is None else self.mesh
        if mesh is None or mesh.empty:
            raise ShardingError(
                f"{self.transform_name}: {self.name} has no mesh, and none is in force; give mesh, or use effx.set_mesh"
            )
        outer_maps = enclosing_replicas()
        if "pmap" in outer_maps:
            raise TransformError(
                f"{self.transform_name}: {self.name} is inside pmap, whose replicas are on no mesh; map over two mesh "
                "axes instead"
            )
        sizes = dict(mesh.shape_tuple)
        unknown = [n for n in self.axis_names if n not in sizes]
        if unknown:
            raise ShardingError(
                f"{self.transform_name}: the mesh has no axis {unknown[0]!r}, which axis_names names; it has "
                f"{mesh.axis_names}"
            )
        bound_axes = manual_axes(mesh)
        repeated = [n for n in mesh.axis_names if n in bound_axes and n in self.axis_names]
        if repeated:
            raise ShardingError(
                f"{self.transform_name}: {self.name} maps over the mesh axis {repeated[0]!r}, over which a shard_map "
                "around it maps"
            )
        chosen_names = self.axis_names or sizes.keys()
        axes = tuple([(n, k) for n, k in mesh.shape_tuple if n in chosen_names and n not in bound_axes])
        if not axes:
            raise ShardingError(
                f"{self.transform_name}: {self.name} has no axis to map over: shard_maps around it map over "
                f"{mesh.axis_names}"
            )
        return mesh, axes

    def infer_spec(self, t: ArrayType, mesh: Mesh | AbstractMesh, axes: NamedSizes) -> PartitionSpec:
        """Returns the spec that a type shows.

        Raises:
            OptionError: one of the axes is not Explicit, so types do not show it.
        """
        names = [name for name, _ in axes]
        undescribed = [name for name in names if name not in mesh.explicit_axes]
        if undescribed:
            raise OptionError(
                f"{self.transform_name}: in_specs must say how the arguments of {self.name} are sharded along "
                f"{undescribed[0]!r}: it is an "
                f"{AxisType.Auto} axis, of which types say nothing; use P() for an argument that each device gets whole"
            )
        unreduced, reduced = [along.intersection(names) for along in type_sums(t)]
        entries = [tuple([n for n in cut if n in names]) for cut in mesh_axes_by_dimension(t)]
        return PartitionSpec(*entries, unreduced=unreduced, reduced=reduced)

    def broadcast_specs(
        self, which: str, specs: Specs, full: PyTree, mesh: Mesh | AbstractMesh, axes: NamedSizes
    ) -> list[PartitionSpec]:
        """Returns the spec of each leaf of the arguments or the result.

        Raises:
            TreeError, ShardingError: as `shard_map`.
        """
        try:
            leaf_specs: list[PartitionSpec] = broadcast_prefix(specs, full, _is_spec)
        except TreeError as error:
            raise TreeError(
                f"{self.transform_name}: {which} of {self.name} must be a PartitionSpec or a pytree prefix of the "
                f"{'arguments' if which == 'in_specs' else 'result'}: {error.message}"
            ) from None
        names = [name for name, _ in axes]
        for spec in leaf_specs:
            check_spec(f"{self.transform_name}: {which}", mesh, spec)
            if spec.has_sums and len(axes) != len(mesh.axis_names):
                raise ShardingError(
                    f"{self.transform_name}: {which} of {self.name} has {spec!r}, but it maps over "
                    f"{', '.join(map(repr, names))} only; what is unreduced or reduced is for maps over all axes of the mesh"
                )
            for name in [n for entry in spec.partitions for n in entry_axes(entry)]:
                if name not in names:
                    raise ShardingError(
                        f"{self.transform_name}: {which} of {self.name} names {name!r}, which is none of the "
                        "axes that it maps "
                        f"over: {', '.join(map(repr, names))}"
                    )
        return leaf_specs


@final
@attrs.frozen(eq=False)
class Partitioner:
    """Splits one array into shards, or joins it from them.

    Attributes:
        shards: the `shard_map`. mesh: the mesh. axes: the mesh axes that it maps over.
        spec: the array's spec. where: a description of the array, for errors.
        dims: for each array axis in the spec, the numbers of the mesh axes that shard it.
        terms: the numbers of the mesh axes along which shards are the terms of a sum, where types do not show it.
        cut: all these numbers in order. names: the names of the axes that shard the array.
    """

    shards: ShardMapParameters
    mesh: Mesh | AbstractMesh
    axes: NamedSizes
    spec: PartitionSpec
    where: str
    dims: list[tuple[int, ...]] = attrs.field(init=False)
    terms: tuple[int, ...] = attrs.field(init=False)
    cut: tuple[int, ...] = attrs.field(init=False)
    names: frozenset[Hashable] = attrs.field(init=False)

    @dims.default
    def _default_dims(self) -> list[tuple[int, ...]]:
        axis_index = {name: i for i, (name, _) in enumerate(self.axes)}
        return [tuple([axis_index[n] for n in entry_axes(entry)]) for entry in self.spec.partitions]

    @terms.default
    def _default_terms(self) -> tuple[int, ...]:
        names = () if self.shards.checked else self.spec.unreduced
        return tuple([a for a, (name, _) in enumerate(self.axes) if name in names])

    @cut.default
    def _default_cut(self) -> tuple[int, ...]:
        return (*self.terms, *[a for dim in self.dims for a in dim])

    @names.default
    def _default_names(self) -> frozenset[Hashable]:
        return frozenset([self.axes[a][0] for dim in self.dims for a in dim])

    def split_sizes(self, ndim: int) -> list[tuple[int, ...]]:
        """Returns for each array axis the sizes of the mesh axes that shard it."""
        axis_sizes = [tuple([self.axes[a][1] for a in dim]) for dim in self.dims]
        return axis_sizes + [()] * (ndim - len(axis_sizes))

    def check_rank(self, t: ArrayType) -> None:
        """Raises a ShardingError if the spec names more axes than the array has."""
        if len(self.spec) > t.ndim:
            raise ShardingError(
                f"{self.shards.transform_name}: {self.spec!r} speaks of {len(self.spec)} axes, but {self.where} is {t!r}"
            )

    def check_type(self, t: ArrayType) -> None:
        """Raises a ShardingError if the array's type shows another sharding than the spec."""
        if type_sums(t)[0] != self.spec.unreduced:
            raise ShardingError(
                f"{self.shards.transform_name}: in_specs says {self.spec!r} of {self.where}, but its type is {t!r}; change "
                "what it is unreduced along with effx.reshard"
            )
        if t.explicit_sharding is None:
            return
        bound = [name for name, _ in self.axes]
        type_axes = [tuple([n for n in cut if n in bound]) for cut in mesh_axes_by_dimension(t)]
        if not any(type_axes):
            return  # a replicated array can be split without communication
        entries = [entry_axes(entry) for entry in self.spec.partitions]
        entries += [()] * (t.ndim - len(entries))
        if type_axes != entries:
            raise ShardingError(
                f"{self.shards.transform_name}: in_specs says {self.spec!r} of {self.where}, but its type is {t!r}; "
                "leave in_specs "
                f"out, or change its sharding with effx.reshard"
            )

    def shard_type(self, t: ArrayType) -> ArrayType:
        """Returns the type of a shard.

        Raises:
            ShardingError: an axis does not split into equal parts.
        """
        self.check_rank(t)
        shape: list[int] = []
        for d, (n, sizes) in enumerate(zip(t.shape, self.split_sizes(t.ndim), strict=True)):
            if n % prod(sizes):
                names = " x ".join([repr(x) for x in entry_axes(self.spec.partitions[d])])
                raise ShardingError(
                    f"{self.shards.transform_name}: axis {d} of {self.where}, {t!r}, cannot be sharded into "
                    f"{prod(sizes)} equal parts "
                    f"along {names}"
                )
            shape.append(n // prod(sizes))
        vma = t.vma | self.names if self.shards.checked else t.vma
        local_type = t.with_shape(tuple(shape)).with_vma(vma)
        sums = (self.spec.unreduced, self.spec.reduced) if self.shards.checked else NO_SUMS
        if t.explicit_sharding is None and sums == NO_SUMS:
            return local_type
        mesh = self.mesh.abstract_mesh if t.explicit_sharding is None else t.explicit_sharding.mesh
        bound = [name for name, _ in self.axes]
        return local_type.with_sharding(
            type_sharding(mesh, drop_mesh_axes(mesh_axes_by_dimension(t), bound), sums)
        )

    def check_result(self, t: ArrayType) -> None:
        """Raises a ShardingError if a shard has too few axes, or varies along a mesh axis that is not in the spec."""
        self.check_rank(t)
        bound = frozenset([name for name, _ in self.axes])
        differs = (t.vma & bound) - self.names - self.spec.unreduced
        if differs:
            shown = ", ".join(axis_name_texts(differs))
            raise ShardingError(
                f"{self.shards.transform_name}: out_specs says {self.spec!r} of {self.where}, but its parts {t!r} may "
                "differ along "
                f"{shown}; name the axis in out_specs, combine the parts by psum or pmax, or give check_vma=False if they "
                f"are equal"
            )

        if not self.shards.checked:
            return
        unreduced, _ = type_sums(t)
        if not unreduced <= self.spec.unreduced:
            raise ShardingError(
                f"{self.shards.transform_name}: out_specs says {self.spec!r} of {self.where}, but its parts are {t!r}; take "
                "what is still to be summed by psum or psum_scatter, or name it in out_specs, as unreduced"
            )
        if not self.spec.unreduced <= unreduced | t.vma:
            raise ShardingError(
                f"{self.shards.transform_name}: out_specs says {self.spec!r} of {self.where}, but its parts {t!r} are equal "
                f"along {', '.join(axis_name_texts(self.spec.unreduced - t.vma))}, so they are no terms of a sum; name them "
                "in out_specs where they are"
            )

    def cast_result(self, y: Array) -> Array:
        """Returns a shard that varies, and is unreduced and reduced, along the axes that the spec says."""
        sums = self.spec.unreduced, self.spec.reduced
        unreduced = (self.spec.unreduced & y.type.vma) - type_sums(y.type)[0]
        mesh = self.mesh.abstract_mesh
        for axis in sorted(unreduced, key=repr):
            y = PCast(axis, "unreduced", mesh)(y)
        y = cast_to_varying(y, self.names)
        if sums == NO_SUMS and type_sums(y.type) == NO_SUMS:
            return y
        return with_type_sharding(y, type_sharding(mesh, mesh_axes_by_dimension(y.type), sums))

    def constraint(self, ndim: int) -> Constrain | None:
        """Returns the sharding constraint on the whole array; None if its sharding is left open."""
        if len(self.axes) != len(self.mesh.axis_names) or (self.mesh.size == 1 and not self.spec.has_sums):
            return None
        return make_mesh_constraint(self.mesh, self.spec, ndim)

    def split_array(self, x: Array) -> Array:
        """Returns the array with the mesh axes that shard it as leading axes."""
        if not self.shards.checked and x.type.explicit_sharding is not None and type_sums(x.type)[1]:
            sums = type_sums(x.type)[0], INVARIANT
            x = with_type_sharding(x, x.type.explicit_sharding.with_sums(sums))
        if not self.cut:
            return x
        op = None if self.terms else self.constraint(x.type.ndim)
        x = x if op is None else op(x)
        x = self.reveal_terms(x) if self.terms else x
        k = len(self.terms)
        shape: list[int] = list(x.type.shape[:k])
        leading: list[int] = list(range(k))
        rest: list[int] = []
        for n, sizes in zip(x.type.shape[k:], self.split_sizes(x.type.ndim - k), strict=True):
            leading += range(len(shape), len(shape) + len(sizes))
            rest.append(len(shape) + len(sizes))
            shape += [*sizes, n // prod(sizes)]
        return _transpose_axes(Reshape(tuple(shape))(x), (*leading, *rest))

    def reveal_terms(self, x: Array) -> Array:
        """Returns the terms of the sums that an array is, with the mesh axes as leading axes."""
        t = x.type
        types = [
            t.with_shape(t.shape).with_sharding(type_sharding(self.mesh.abstract_mesh, (), type_sums(t)))
        ]
        names = [self.axes[a][0] for a in self.terms]

        def spread(arrays: list[Array]) -> list[Array]:
            (y,) = arrays
            for name in names:
                y = PCast(name)(y)
            return [y]

        staged = stage_replica(
            spread, types, self.axes, "terms", "", checked=True, transform_name="shard_map", mesh=self.mesh
        )
        mesh = self.mesh
        op = ParallelMap(
            staged.program,
            self.axes,
            ((),),
            (self.terms,),
            mesh.shape_tuple,
            tuple([d.id for d in mesh.ordered]) if isinstance(mesh, Mesh) else None,
            mesh.ordered[0].platform if isinstance(mesh, Mesh) else None,
            True,
        )
        return op(x)[0]

    def join_shards(self, y: Array) -> Array:
        """Returns the whole array from one with the mesh axes as leading axes."""
        if not self.cut:
            op = self.constraint(y.type.ndim) if self.spec.has_sums and not self.shards.checked else None
            return y if op is None else op(y)
        k = len(self.cut)
        if self.terms:
            sharding = type_sharding(self.mesh.abstract_mesh, [(self.axes[a][0],) for a in self.cut])
            y = with_type_sharding(y, sharding)
        parts = y.type.shape[k:]
        front = len(self.terms)
        order: list[int] = list(range(front))
        shape: list[int] = list(y.type.shape[:front])
        for d, (n, sizes) in enumerate(zip(parts, self.split_sizes(len(parts)), strict=True)):
            order += [*range(front, front + len(sizes)), k + d]
            front += len(sizes)
            shape.append(prod(sizes) * n)
        joined = Reshape(tuple(shape))(_transpose_axes(y, tuple(order)))
        if self.terms:
            with left_sums(self.spec.unreduced):
                joined = ReduceSum(tuple(range(len(self.terms))))(joined)
        op = self.constraint(joined.type.ndim)
        return joined if op is None else op(joined)


def _transpose_axes(x: Array, order: Sequence[int]) -> Array:
    return x if list(order) == list(range(x.type.ndim)) else Transpose(tuple(order))(x)
