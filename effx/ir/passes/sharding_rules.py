"""The sharding rules of `effx.ir.passes.sharding_propagation` for core operations; families define their own.

Operations that hold programs take the shardings of the programs' results: the recorder first converts the programs to
the operands' types.
"""

from collections.abc import Hashable, Sequence

from effx.ir.ops.base import Elementwise
from effx.ir.ops.collective import AxisIndex, Collective
from effx.ir.ops.control import Calling, Cond, HigherOrder, Scan, While
from effx.ir.ops.convert import Bitcast, OptimizationBarrier
from effx.ir.ops.custom import CustomTangent
from effx.ir.ops.host import Hosted
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.parallel import ParallelMap
from effx.ir.ops.random import Threefry2x32
from effx.ir.ops.reduce import ArgReduction, Cumulative, Reduction
from effx.ir.ops.shape import (
    BroadcastInDim,
    Concatenate,
    DynamicSlice,
    DynamicUpdateSlice,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from effx.ir.ops.sharding import Constrain, Release
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.passes.sharding_propagation import (
    DimensionShardings,
    MeshAxisNames,
    OperandShardings,
    format_mesh_axes,
    mesh_axes_by_dimension,
    sharding_rule,
)
from effx.ir.types import Shape, drop_mesh_axes

__all__: list[str] = []


@sharding_rule(Elementwise, Threefry2x32)
def shard_elementwise(op: object, shardings: OperandShardings) -> list[DimensionShardings]:
    """Shards results as operands, axis by axis; a scalar is broadcast."""
    return [merge_operand_axes(shardings, range(len(shardings.types)), t.ndim) for t in shardings.results]


def merge_operand_axes(shardings: OperandShardings, operands: Sequence[int], ndim: int) -> DimensionShardings:
    """Returns the sharding of a result whose axes are those of some operands."""
    merged_axes: list[MeshAxisNames] = [()] * ndim
    for k in operands:
        if len(shardings.mesh_axes[k]) != ndim:
            continue
        for i, cut in enumerate(shardings.mesh_axes[k]):
            merged_axes[i] = shardings.merge_axes(merged_axes[i], cut, f"axis {i}")
    return tuple(merged_axes)


@sharding_rule(OptimizationBarrier)
def shard_barrier(op: object, shardings: OperandShardings) -> list[DimensionShardings]:
    """Shards each result as its operand."""
    return list(shardings.mesh_axes)


@sharding_rule(Iota, AxisIndex, Hosted)
def shard_generated(op: object, shardings: OperandShardings) -> list[DimensionShardings]:
    """Replicates results without operands, and those of Python functions, which get whole arrays."""
    return [((),) * t.ndim for t in shardings.results]


@sharding_rule(Constrain)
def shard_constrain(op: Constrain, shardings: OperandShardings) -> list[DimensionShardings]:
    """Shards the result by the constraint; unconstrained axes keep their shardings."""
    if not op.explicit:
        return [shardings.mesh_axes[0]]
    names = [name for name, _ in op.mesh]
    new = [None if cut is None else tuple([names[a] for a in cut]) for cut in op.cuts]
    used = {name for cut in new for name in cut or ()}
    return [
        tuple(
            [
                tuple([n for n in own if n not in used]) if cut is None else cut
                for own, cut in zip(shardings.mesh_axes[0], new, strict=True)
            ]
        )
    ]


@sharding_rule(Release)
def shard_release(op: Release, shardings: OperandShardings) -> list[DimensionShardings]:
    """Removes some mesh axes from the sharding in types."""
    return [drop_mesh_axes(shardings.mesh_axes[0], op.axes)]


@sharding_rule(BroadcastInDim)
def shard_broadcast(op: BroadcastInDim, shardings: OperandShardings) -> list[DimensionShardings]:
    """Replicates new axes."""
    result_axes: list[MeshAxisNames] = [()] * len(op.shape)
    for i, dim in enumerate(op.dims):
        if shardings.types[0].shape[i] == op.shape[dim]:
            result_axes[dim] = shardings.mesh_axes[0][i]
    return [tuple(result_axes)]


@sharding_rule(Transpose)
def shard_transpose(op: Transpose, shardings: OperandShardings) -> list[DimensionShardings]:
    """Permutes the axes' shardings."""
    return [tuple([shardings.mesh_axes[0][i] for i in op.perm])]


@sharding_rule(Reverse)
def shard_reverse(op: Reverse, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the operand's sharding."""
    return [shardings.mesh_axes[0]]


@sharding_rule(Reduction)
def shard_reduction(op: Reduction, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the shardings of the remaining axes; a sum over sharded axes is replicated."""
    return [tuple([cut for i, cut in enumerate(shardings.mesh_axes[0]) if i not in op.axes])]


@sharding_rule(ArgReduction)
def shard_arg_reduction(op: ArgReduction, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the shardings of the remaining axes."""
    return [tuple([cut for i, cut in enumerate(shardings.mesh_axes[0]) if i != op.axis])]


@sharding_rule(Cumulative)
def shard_cumulative(op: Cumulative, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the sharding, if the axis is unsharded."""
    return shard_along_axis(op.axis, shardings, "along which it goes")


def shard_along_axis(axis: int, shardings: OperandShardings, why: str) -> list[DimensionShardings]:
    """Returns the shardings of results with the operands' axes, one of which must be unsharded."""
    for k, t in enumerate(shardings.types):
        if t.ndim:
            shardings.require_unsharded(k, (axis,), why)
    cuts = merge_operand_axes(shardings, range(len(shardings.types)), shardings.results[0].ndim)
    cuts = tuple([() if i == axis % len(cuts) else cut for i, cut in enumerate(cuts)])
    return [cuts] * len(shardings.results)


def shard_leading_axes(count: int, shardings: OperandShardings, why: str) -> list[DimensionShardings]:
    """Returns the shardings of results whose first `count` axes are the operands'; the others must be unsharded."""
    front: list[MeshAxisNames] = [()] * count
    for k, (t, cuts) in enumerate(zip(shardings.types, shardings.mesh_axes, strict=True)):
        shardings.require_unsharded(k, range(count, t.ndim), why)
        front = [
            shardings.merge_axes(a, b, f"axis {i}") for i, (a, b) in enumerate(zip(front, cuts, strict=False))
        ]
    return [(*front, *[()] * (t.ndim - count)) for t in shardings.results]


@sharding_rule(Concatenate)
def shard_concatenate(op: Concatenate, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the operands' sharding, if they agree."""
    return [merge_operand_axes(shardings, range(len(shardings.types)), shardings.results[0].ndim)]


@sharding_rule(Pad)
def shard_pad(op: Pad, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the operand's sharding; the scalar is broadcast."""
    return [shardings.mesh_axes[0]]


@sharding_rule(Slice)
def shard_slice(op: Slice, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the sharding, if the parts remain equal."""
    return [shardings.mesh_axes[0]]


@sharding_rule(DynamicSlice)
def shard_dynamic_slice(op: DynamicSlice, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the sharding of axes that are not sliced; sliced axes must be unsharded."""
    x = shardings.types[0]
    shardings.require_unsharded(
        0, [i for i, n in enumerate(op.sizes) if n != x.shape[i]], "which is sliced at a computed start"
    )
    return [
        tuple(
            [
                cut if n == k else ()
                for cut, n, k in zip(shardings.mesh_axes[0], op.sizes, x.shape, strict=True)
            ]
        )
    ]


@sharding_rule(DynamicUpdateSlice)
def shard_dynamic_update_slice(
    op: DynamicUpdateSlice, shardings: OperandShardings
) -> list[DimensionShardings]:
    """Keeps the operand's sharding; the update agrees along axes that it fills, other axes must be unsharded."""
    x, update = shardings.types[:2]
    part = [i for i in range(x.ndim) if x.shape[i] != update.shape[i]]
    shardings.require_unsharded(0, part, "which is updated at a computed start")
    shardings.require_unsharded(1, part, "which is written at a computed start")
    return [
        tuple(
            [
                () if i in part else shardings.merge_axes(a, b, f"axis {i}")
                for i, (a, b) in enumerate(zip(*shardings.mesh_axes[:2], strict=True))
            ]
        )
    ]


@sharding_rule(Bitcast)
def shard_bitcast(op: Bitcast, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the sharding; an axis for the parts of an element is added or removed."""
    cuts, n = shardings.mesh_axes[0], shardings.results[0].ndim
    if len(cuts) > n:
        shardings.require_unsharded(0, (len(cuts) - 1,), "whose elements become one")
    return [(*cuts, ())[:n] if len(cuts) != n else cuts]


@sharding_rule(Reshape)
def shard_reshape(op: Reshape, shardings: OperandShardings) -> list[DimensionShardings]:
    """Merges or splits the shardings of reshaped axes, where each device's part remains its own."""
    x, out = shardings.types[0].shape, shardings.results[0].shape
    result_axes: list[MeshAxisNames] = [()] * len(out)
    for old, new in group_reshaped_axes(x, out):
        cuts = [shardings.mesh_axes[0][i] for i in old]
        if not any(cuts) or not new:  # an axis of one element, which can only have one part, may go
            continue
        flat = _flatten_axes(shardings, [x[i] for i in old], cuts)
        left = None if flat is None else _distribute_axes(shardings, flat, [out[j] for j in new])
        if left is None:
            shardings.refuse(f"{list(x)} becomes {list(out)}, of which these parts are not equal parts")
            continue
        for j, cut in zip(new, left, strict=True):
            result_axes[j] = cut
    return [tuple(result_axes)]


def group_reshaped_axes(a: Shape, b: Shape) -> list[tuple[list[int], list[int]]]:
    """Pairs the axes of two shapes of one size so that each pair has the same number of elements, as finely as possible."""
    if 0 in a:
        same = min(
            [i for i, (m, n) in enumerate(zip(a, b, strict=False)) if m != n], default=min(len(a), len(b))
        )
        rest = (list(range(same, len(a))), list(range(same, len(b))))
        return [*[([i], [i]) for i in range(same)], rest]
    pairs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        old, new = ([i], [j]) if i < len(a) and j < len(b) else ([], [])
        if not old:  # remaining axes of size 1
            pairs.append((list(range(i, len(a))), list(range(j, len(b)))))
            break
        m, n = a[i], b[j]
        i, j = i + 1, j + 1
        while m != n:
            if m < n:
                m *= a[i]
                old.append(i)
                i += 1
            else:
                n *= b[j]
                new.append(j)
                j += 1
        pairs.append((old, new))
    return pairs


def _flatten_axes(
    shardings: OperandShardings, sizes: Sequence[int], cuts: Sequence[MeshAxisNames]
) -> MeshAxisNames | None:
    """Returns the mesh axes that shard merged axes; None if the parts are not contiguous."""
    flat_axes: list[Hashable] = []
    pieces = True  # whether what comes next divides single elements of what has come
    for n, cut in zip(sizes, cuts, strict=True):
        if cut and not pieces:
            return None
        flat_axes += cut
        if shardings.part_count(cut) != n:
            pieces = False
    return tuple(flat_axes)


def _distribute_axes(
    shardings: OperandShardings, flat: MeshAxisNames, sizes: Sequence[int]
) -> list[MeshAxisNames] | None:
    """Returns the mesh axes that shard each of several axes split from one; None if the parts are unequal."""
    left = list(flat)
    axes_by_size: list[MeshAxisNames] = []
    for n in sizes:
        axis_names: list[Hashable] = []
        while left and n % (shardings.part_count(tuple(axis_names)) * shardings.part_count((left[0],))) == 0:
            axis_names.append(left.pop(0))
        axes_by_size.append(tuple(axis_names))
        if left and shardings.part_count(tuple(axis_names)) != n:
            return None
    return None if left else axes_by_size


@sharding_rule(DotGeneral)
def shard_dot_general(op: DotGeneral, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the shardings of batch and free axes; contracted axes must not be sharded in both operands."""
    lhs, rhs = shardings.mesh_axes
    for i, j in zip(op.lhs_contract, op.rhs_contract, strict=True):
        if lhs[i] and rhs[j]:
            shardings.refuse(
                f"axes that are summed over, {i} of the first and {j} of the second, are sharded over "
                f"{format_mesh_axes(lhs[i])} and "
                f"{format_mesh_axes(rhs[j])}, and the sum may be sharded or replicated"
            )
    batch = [
        shardings.merge_axes(lhs[i], rhs[j], f"the batch axis {k}")
        for k, (i, j) in enumerate(zip(op.lhs_batch, op.rhs_batch, strict=True))
    ]
    free = [
        *[cut for i, cut in enumerate(lhs) if i not in op.lhs_contract + op.lhs_batch],
        *[cut for i, cut in enumerate(rhs) if i not in op.rhs_contract + op.rhs_batch],
    ]
    return [(*batch, *free)]


@sharding_rule(Gather)
def shard_gather(op: Gather, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the shardings of the indices' axes, and of axes of x that slices take whole."""
    x, indices = shardings.types
    x_axes, indices_axes = shardings.mesh_axes
    shardings.require_unsharded(
        0,
        [i for i, n in enumerate(op.slice_sizes) if n != x.shape[i] and i not in op.operand_batch],
        "from which slices are taken",
    )
    shardings.require_unsharded(1, (indices.ndim - 1,), "which holds the starts")
    window = [
        cut if op.slice_sizes[i] == x.shape[i] else ()
        for i, cut in enumerate(x_axes)
        if i not in op.collapsed + op.operand_batch
    ]
    batch = list(indices_axes[:-1])
    for i, j in zip(op.operand_batch, op.indices_batch, strict=True):
        batch[j] = shardings.merge_axes(x_axes[i], batch[j], f"the batch axis {j}")
    n = shardings.results[0].ndim
    left = iter(batch)
    inner = iter(window)
    return [tuple([next(inner) if i in op.offset_dims else next(left) for i in range(n)])]


@sharding_rule(Scatter)
def shard_scatter(op: Scatter, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps x's sharding along axes that windows take whole; other axes, and the updates' own, must be unsharded."""
    x, indices, updates = shardings.types
    x_axes, indices_axes, update_axes = shardings.mesh_axes
    axes = [i for i in range(x.ndim) if i not in op.inserted + op.operand_batch]
    shardings.require_unsharded(0, op.inserted, "along which updates are written")
    shardings.require_unsharded(1, (indices.ndim - 1,), "which holds the starts")
    merged_axes: list[MeshAxisNames] = [()] * x.ndim
    for i, j in zip(axes, op.window_dims, strict=True):
        if x.shape[i] != updates.shape[j]:
            shardings.require_unsharded(0, (i,), "along which updates are written")
            shardings.require_unsharded(2, (j,), "which is written at a computed start")
            continue
        merged_axes[i] = shardings.merge_axes(x_axes[i], update_axes[j], f"axis {i}")
    outer = [j for j in range(updates.ndim) if j not in op.window_dims]
    for k, j in enumerate(outer):
        if k in op.indices_batch:
            i = op.operand_batch[op.indices_batch.index(k)]
            merged_axes[i] = shardings.merge_axes(
                shardings.merge_axes(x_axes[i], indices_axes[k], f"axis {i}"), update_axes[j], f"axis {i}"
            )
        elif indices_axes[k] or update_axes[j]:
            shardings.refuse(
                f"the updates are sharded along axis {j}, and parts would be written to the same elements"
            )
    return [tuple(merged_axes)]


@sharding_rule(Collective)
def shard_collective(op: Collective, shardings: OperandShardings) -> list[DimensionShardings]:
    """Keeps the sharding over other axes than Manual ones, if the shapes are unchanged."""
    if any([t.shape != shardings.types[0].shape for t in shardings.results]):
        for k, t in enumerate(shardings.types):
            shardings.require_unsharded(k, range(t.ndim), "and the collective changes the shape")
        return [((),) * t.ndim for t in shardings.results]
    return [merge_operand_axes(shardings, range(len(shardings.types)), t.ndim) for t in shardings.results]


@sharding_rule(HigherOrder)
def shard_higher_order(op: HigherOrder, shardings: OperandShardings) -> list[DimensionShardings]:
    """Takes the shardings of the programs' results."""
    if isinstance(op, Cond):
        outs = [[mesh_axes_by_dimension(t) for t in b.out_types] for b in op.branches]
        return [
            tuple([_merge_branch_axes(shardings, [cuts[i] for cuts in ends], i) for i in range(len(ends[0]))])
            for ends in zip(*outs, strict=True)
        ]
    if isinstance(op, Scan):
        body_axes = [mesh_axes_by_dimension(t) for t in op.body.out_types]
        results = op.group_results(body_axes)
        return [*results.carry, *[((), *cuts) for cuts in results.ys]]
    if isinstance(op, While):
        return [mesh_axes_by_dimension(t) for t in op.body.out_types]
    if isinstance(op, ParallelMap):
        return _shard_parallel_map(op, shardings)
    if isinstance(op, Calling):
        return [mesh_axes_by_dimension(t) for t in op.program.out_types]
    if isinstance(op, LinearSolve | Root):
        return [mesh_axes_by_dimension(t) for t in op.solve.out_types]
    if isinstance(op, CustomTangent):
        return [mesh_axes_by_dimension(t) for t in op.out_types]
    shardings.refuse("the sharding of its results is not defined")
    return [((),) * t.ndim for t in shardings.results]


def _merge_branch_axes(
    shardings: OperandShardings, cuts: Sequence[MeshAxisNames], axis: int
) -> MeshAxisNames:
    merged_axis: MeshAxisNames = ()
    for cut in cuts:
        merged_axis = shardings.merge_axes(merged_axis, cut, f"axis {axis} of what the branches give")
    return merged_axis


def _shard_parallel_map(op: ParallelMap, shardings: OperandShardings) -> list[DimensionShardings]:
    """Shards leading axes by the axes of the map, and the others as the body's results."""
    result_axes: list[DimensionShardings] = []
    for cut, t in zip(op.cuts_out, op.body.out_types, strict=True):
        result_axes.append((*[(op.axes[a][0],) for a in cut], *mesh_axes_by_dimension(t)))
    return result_axes
