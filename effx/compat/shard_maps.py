"""Calls of parallel maps on a mesh as JAX's `shard_map` equations, and the collectives of types that vary.

A `shard_map` is performed as a call of a program that splits arrays into shards, maps over these, and joins them. What
splits and joins says the specs.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import final

import attrs
import numpy as np

from effx import devices, lax, shard_map
from effx.array import Array
from effx.array.promotion import as_operand
from effx.compat.composed import ComposedPrimitive
from effx.compat.defined import Evaluable, Primitive
from effx.ir.meshes import AbstractMesh, AxisType, MeshAxisName, PartitionSpec
from effx.ir.ops.collective import Collective, PCast, PSum
from effx.ir.ops.control import Call, HigherOrder
from effx.ir.ops.parallel import ParallelMap
from effx.ir.ops.shape import Reshape, Transpose
from effx.ir.ops.sharding import Constrain
from effx.ir.passes.partial_sums import type_sums
from effx.ir.program import Atom, Equation, Program, Var
from effx.ir.types import NO_SUMS, ArrayType, Shape
from effx.lower.placement.meshes import Mesh
from effx.tree.registry import PyTree

__all__ = ["Names", "ShardMapEquation", "insert_casts", "read_shard_map", "show_collective"]

Names = frozenset[MeshAxisName]


@final
@attrs.frozen
class ShardMapEquation:
    """What JAX's equation of a `shard_map` has.

    Attributes:
        op: the map. primitive: JAX's.
        params: its parameters without the program.
    """

    op: ParallelMap
    primitive: Primitive
    params: Mapping[str, object]


def _perform_shard_map(
    *operands: Array,
    jaxpr: Evaluable,
    mesh: Mesh | AbstractMesh,
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
    check_vma: bool,
    newly_manual_axes: frozenset[MeshAxisName],
    **_: object,
) -> PyTree:
    return shard_map(
        lambda *xs: tuple(jaxpr.evaluate((), [as_operand(x) for x in xs])),
        mesh=mesh,
        in_specs=tuple(in_specs),
        out_specs=tuple(out_specs),
        axis_names=newly_manual_axes,
        check_vma=check_vma,
    )(*operands)


SHARD_MAP = ComposedPrimitive("shard_map", _perform_shard_map, multiple_results=True)
_PSUM_INVARIANT = ComposedPrimitive("psum_invariant", lambda x, *, axes: lax.psum(x, axes))
_PVARY = ComposedPrimitive("pvary", lambda x, *, axes: lax.pcast(x, axes, to="varying"))


def show_collective(e: Equation) -> tuple[Primitive, dict[str, object]] | None:
    """Returns JAX's primitive and parameters for a sum over an axis along which the operand's type varies, and for the
    cast to a type that does; None for other equations.
    """
    match e.op:
        case PSum(groups=None) if e.op.axis_name in e.inputs[0].type.vma:
            return _PSUM_INVARIANT, {"axes": (e.op.axis_name,)}
        case PCast() if not e.op.is_equal:
            return _PVARY, {"axes": (e.op.axis_name,)}
    return None


def insert_casts(e: Equation, typed_axes: Names) -> list[Equation]:
    """Returns an equation behind the casts that JAX has in front of it: in effx values of different types combine.

    Operands that vary along fewer axes than others are cast, and that of a collective which does not vary along its axis.

    Args:
        e: the equation.
        typed_axes: the axes along which types say whether values vary.
    """
    if isinstance(e.op, HigherOrder | PCast) or not e.inputs:
        return [e]
    axes: Names = frozenset().union(*[x.type.vma for x in e.inputs])
    if isinstance(e.op, Collective):
        axes |= {e.op.axis_name} & typed_axes
    if all([x.type.vma == axes for x in e.inputs]):
        return [e]
    casts: list[Equation] = []
    inputs: list[Atom] = []
    for x in e.inputs:
        for axis in sorted(axes - x.type.vma, key=repr):
            result = Var(x.type.with_vma(x.type.vma | {axis}))
            casts.append(Equation(PCast(axis), (x,), (result,), e.source, e.scope))
            x = result
        inputs.append(x)
    return [*casts, attrs.evolve(e, inputs=tuple(inputs))]


def read_shard_map(e: Equation) -> ShardMapEquation | None:
    """Returns what a call of a parallel map on a mesh is in JAX; None for other equations."""
    if not isinstance(e.op, Call):
        return None
    shown = _read_program(e.op.program)
    if shown is None:
        return None
    map_op, in_specs, out_specs = shown
    mesh = _mesh_of(map_op, [x.type for x in (*e.inputs, *e.outputs)])
    params = {
        "mesh": mesh,
        "in_specs": in_specs,
        "out_specs": out_specs,
        "check_vma": map_op.checked,
        "newly_manual_axes": map_op.names,
    }
    return ShardMapEquation(map_op, SHARD_MAP, params)


Specs = tuple[PartitionSpec, ...]


def _read_program(program: Program) -> tuple[ParallelMap, Specs, Specs] | None:
    """Returns the map of a program that only splits, maps and joins, each operand and each result once and in order."""
    maps = [e for e in program.equations if type(e.op) is ParallelMap]
    if len(maps) != 1 or len(program.equations) > 1 + sum(
        [type(e.op) in (Constrain, Reshape, Transpose) for e in program.equations]
    ):
        return None
    (e,) = maps
    op = e.op
    assert isinstance(op, ParallelMap)
    makers = {y: other for other in program.equations if other is not e for y in other.outputs}
    splits, joins = [_chain_to(x, makers) for x in e.inputs], [_chain_to(y, makers) for y in program.outputs]
    if (
        op.mesh is None
        or [source for source, _ in splits] != list(program.inputs)
        or [source for source, _ in joins] != list(e.outputs)
    ):
        return None
    in_specs = [
        _find_spec(op, cut, x.type, source.type, reversed(chain), is_split=True)
        for cut, x, (source, chain) in zip(op.cuts_in, e.inputs, splits, strict=True)
    ]
    out_specs = [
        _find_spec(op, cut, source.type, y.type, chain, is_split=False)
        for cut, y, (source, chain) in zip(op.cuts_out, program.outputs, joins, strict=True)
    ]
    if None in (*in_specs, *out_specs):
        return None
    return op, tuple([x for x in in_specs if x is not None]), tuple([y for y in out_specs if y is not None])


def _chain_to(x: Atom, makers: Mapping[Var, Equation]) -> tuple[Atom, list[Equation]]:
    """Returns what a variable is made of by operations of one operand, and these in order."""
    chain: list[Equation] = []
    while isinstance(x, Var) and x in makers:
        chain.append(makers[x])
        (x,) = makers[x].inputs
    return x, chain[::-1]


@final
@attrs.frozen
class _Axis:
    """An axis on the way from the array of all shards to the whole one.

    Attributes:
        mesh_axes: the mesh axes in it. shard_axis: the axis of a shard behind them; None before it is joined with one.
    """

    mesh_axes: tuple[MeshAxisName, ...]
    shard_axis: int | None = None


def _find_spec(
    op: ParallelMap,
    cut: Sequence[int],
    split_type: ArrayType,
    whole_type: ArrayType,
    chain: Iterable[Equation],
    is_split: bool,
) -> PartitionSpec | None:
    """Returns the spec by which a whole array is split into shards or joined from them.

    Args:
        op: the map. cut: the numbers of the mesh axes that lead the array of all shards.
        split_type, whole_type: the types of the array of all shards, and of the whole one.
        chain: the equations between them, from the shards to the whole. is_split: whether they split, and are undone here.

    Returns:
        None where the equations do more than that, so that the axes of a shard are not those of the whole.
    """
    if type_sums(split_type) != NO_SUMS or type_sums(whole_type) != NO_SUMS:
        return None
    axes = [_Axis((op.axes[a][0],)) for a in cut]
    axes += [_Axis((), i) for i in range(split_type.ndim - len(cut))]
    for e in chain:
        if isinstance(e.op, Transpose):
            perm = e.op.perm
            axes = [axes[perm.index(i) if is_split else perm[i]] for i in range(len(perm))]
        elif type(e.op) is Reshape:
            split, whole = (e.outputs, e.inputs) if is_split else (e.inputs, e.outputs)
            merged = _merge_axes(axes, split[0].type.shape, whole[0].type.shape)
            if merged is None:
                return None
            axes = merged
    if [axis.shard_axis for axis in axes] != list(range(whole_type.ndim)):
        return None
    entries = [None if not n else n[0] if len(n) == 1 else n for n in [axis.mesh_axes for axis in axes]]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def _merge_axes(axes: Sequence[_Axis], split: Shape, whole: Shape) -> list[_Axis] | None:
    """Returns the axes after a reshape that joins some of the mesh axes each with the axis behind it; None for others.

    Where sizes leave a choice, mesh axes of size 1, the last ones are joined.
    """
    positions = [i for i, axis in enumerate(axes) if axis.shard_axis is None]
    for joined in combinations(reversed(positions), max(len(split) - len(whole), 0)):
        merged: list[_Axis] = []
        sizes: list[int] = []
        names: tuple[MeshAxisName, ...] = ()
        size = 1
        for i, (axis, n) in enumerate(zip(axes, split, strict=True)):
            names, size = names + axis.mesh_axes, size * n
            if i not in joined:
                merged.append(_Axis(names, axis.shard_axis))
                sizes.append(size)
                names, size = (), 1
        if tuple(sizes) == whole:
            return merged
    return None


def _mesh_of(op: ParallelMap, types: Sequence[ArrayType]) -> Mesh | AbstractMesh:
    assert op.mesh is not None
    names, sizes = [n for n, _ in op.mesh], [k for _, k in op.mesh]
    in_types = {
        name: kind
        for t in types
        if t.explicit_sharding is not None
        for name, kind in zip(
            t.explicit_sharding.mesh.axis_names, t.explicit_sharding.mesh.axis_types, strict=True
        )
    }
    kinds = tuple([in_types.get(name, AxisType.Auto) for name in names])
    by_id = {d.id: d for d in devices(op.backend)} if op.devices is not None else {}
    if op.devices is None or not by_id.keys() >= set(op.devices):
        return AbstractMesh(tuple(sizes), tuple(names), kinds)
    grid = np.empty(len(op.devices), object)
    grid[:] = [by_id[i] for i in op.devices]
    return Mesh(grid.reshape(sizes), tuple(names), kinds)
