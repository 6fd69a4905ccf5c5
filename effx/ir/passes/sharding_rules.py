"""The rules of `effx.ir.passes.sharding_propagation` for the core's operations; those of families stand with them.

Operations that hold programs take what these programs' results say: who records them brings the programs to the types of
the operands first.
"""

from collections.abc import Hashable, Sequence

from effx.ir.ops.base import Elementwise
from effx.ir.ops.collective import AxisIndex, Collective
from effx.ir.ops.control import Calling, Cond, HigherOrder, Scan, While
from effx.ir.ops.convert import Bitcast, OptimizationBarrier
from effx.ir.ops.custom import CustomTangent
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
from effx.ir.passes.sharding_propagation import Cut, Cuts, Lies, cuts_of, lies, shown
from effx.ir.types import Shape, without_axes

__all__: list[str] = []


@lies(Elementwise, Threefry2x32)
def elementwise(op: object, given: Lies) -> list[Cuts]:
    """Axis by axis; a scalar goes to all elements."""
    return [merged(given, range(len(given.types)), t.ndim) for t in given.results]


def merged(given: Lies, operands: Sequence[int], ndim: int) -> Cuts:
    """Returns what cuts a result whose axes are those of some operands."""
    found: list[Cut] = [()] * ndim
    for k in operands:
        if len(given.cuts[k]) != ndim:
            continue
        for i, cut in enumerate(given.cuts[k]):
            found[i] = given.together(found[i], cut, f"axis {i}")
    return tuple(found)


@lies(OptimizationBarrier)
def each_alone(op: object, given: Lies) -> list[Cuts]:
    """Each result is an operand."""
    return list(given.cuts)


@lies(Iota, AxisIndex)
def made(op: object, given: Lies) -> list[Cuts]:
    """What is made of nothing is whole."""
    return [((),) * t.ndim for t in given.results]


@lies(Constrain)
def constrained(op: Constrain, given: Lies) -> list[Cuts]:
    """As it says; axes of which it says nothing stay as they are."""
    if not op.explicit:
        return [given.cuts[0]]
    names = [name for name, _ in op.mesh]
    new = [None if cut is None else tuple([names[a] for a in cut]) for cut in op.cuts]
    used = {name for cut in new for name in cut or ()}
    return [
        tuple(
            [
                tuple([n for n in own if n not in used]) if cut is None else cut
                for own, cut in zip(given.cuts[0], new, strict=True)
            ]
        )
    ]


@lies(Release)
def released(op: Release, given: Lies) -> list[Cuts]:
    """Types no longer speak of some mesh axes."""
    return [without_axes(given.cuts[0], op.axes)]


@lies(BroadcastInDim)
def broadcast(op: BroadcastInDim, given: Lies) -> list[Cuts]:
    """New axes are whole."""
    found: list[Cut] = [()] * len(op.shape)
    for i, at in enumerate(op.dims):
        if given.types[0].shape[i] == op.shape[at]:
            found[at] = given.cuts[0][i]
    return [tuple(found)]


@lies(Transpose)
def transposed(op: Transpose, given: Lies) -> list[Cuts]:
    """Its axes in another order."""
    return [tuple([given.cuts[0][i] for i in op.perm])]


@lies(Reverse)
def reversed_(op: Reverse, given: Lies) -> list[Cuts]:
    """The same."""
    return [given.cuts[0]]


@lies(Reduction)
def reduced(op: Reduction, given: Lies) -> list[Cuts]:
    """The axes that are left; what is summed over parts is whole afterwards."""
    return [tuple([cut for i, cut in enumerate(given.cuts[0]) if i not in op.axes])]


@lies(ArgReduction)
def arg_reduced(op: ArgReduction, given: Lies) -> list[Cuts]:
    """The axes that are left."""
    return [tuple([cut for i, cut in enumerate(given.cuts[0]) if i != op.axis])]


@lies(Cumulative)
def cumulated(op: Cumulative, given: Lies) -> list[Cuts]:
    """The same, if the axis is whole."""
    return along(op.axis, given, "along which it goes")


def along(axis: int, given: Lies, why: str) -> list[Cuts]:
    """Returns what cuts results with the operands' axes, of which one must be whole."""
    for k, t in enumerate(given.types):
        if t.ndim:
            given.whole(k, (axis,), why)
    cuts = merged(given, range(len(given.types)), given.results[0].ndim)
    cuts = tuple([() if i == axis % len(cuts) else cut for i, cut in enumerate(cuts)])
    return [cuts] * len(given.results)


def leading(count: int, given: Lies, why: str) -> list[Cuts]:
    """Returns what cuts results of which only the first axes, so many, are axes of the operands, which have others whole."""
    front: list[Cut] = [()] * count
    for k, (t, cuts) in enumerate(zip(given.types, given.cuts, strict=True)):
        given.whole(k, range(count, t.ndim), why)
        front = [given.together(a, b, f"axis {i}") for i, (a, b) in enumerate(zip(front, cuts, strict=False))]
    return [(*front, *[()] * (t.ndim - count)) for t in given.results]


@lies(Concatenate)
def concatenated(op: Concatenate, given: Lies) -> list[Cuts]:
    """As the operands, if they lie alike."""
    return [merged(given, range(len(given.types)), given.results[0].ndim)]


@lies(Pad)
def padded(op: Pad, given: Lies) -> list[Cuts]:
    """The same; the scalar goes everywhere."""
    return [given.cuts[0]]


@lies(Slice)
def sliced(op: Slice, given: Lies) -> list[Cuts]:
    """The same, where equal parts are left."""
    return [given.cuts[0]]


@lies(DynamicSlice)
def dynamic_sliced(op: DynamicSlice, given: Lies) -> list[Cuts]:
    """The same along axes that are taken whole; others must be whole."""
    x = given.types[0]
    given.whole(
        0, [i for i, n in enumerate(op.sizes) if n != x.shape[i]], "which is sliced at a computed start"
    )
    return [
        tuple([cut if n == k else () for cut, n, k in zip(given.cuts[0], op.sizes, x.shape, strict=True)])
    ]


@lies(DynamicUpdateSlice)
def updated(op: DynamicUpdateSlice, given: Lies) -> list[Cuts]:
    """As what is updated; the update lies likewise along axes that it fills, others must be whole."""
    x, update = given.types[:2]
    part = [i for i in range(x.ndim) if x.shape[i] != update.shape[i]]
    given.whole(0, part, "which is updated at a computed start")
    given.whole(1, part, "which is written at a computed start")
    return [
        tuple(
            [
                () if i in part else given.together(a, b, f"axis {i}")
                for i, (a, b) in enumerate(zip(*given.cuts[:2], strict=True))
            ]
        )
    ]


@lies(Bitcast)
def bitcast(op: Bitcast, given: Lies) -> list[Cuts]:
    """The same; an axis of the parts of an element comes or goes."""
    cuts, n = given.cuts[0], given.results[0].ndim
    if len(cuts) > n:
        given.whole(0, (len(cuts) - 1,), "whose elements become one")
    return [(*cuts, ())[:n] if len(cuts) != n else cuts]


@lies(Reshape)
def reshaped(op: Reshape, given: Lies) -> list[Cuts]:
    """Axes that become one, or several, in parts that stay where they are."""
    x, out = given.types[0].shape, given.results[0].shape
    found: list[Cut] = [()] * len(out)
    for old, new in groups(x, out):
        cuts = [given.cuts[0][i] for i in old]
        if not any(cuts):
            continue
        flat = _flat(given, [x[i] for i in old], cuts)
        left = None if flat is None else _spread(given, flat, [out[j] for j in new])
        if left is None:
            given.refuse(f"{list(x)} becomes {list(out)}, of which these parts are not equal parts")
            continue
        for j, cut in zip(new, left, strict=True):
            found[j] = cut
    return [tuple(found)]


def groups(a: Shape, b: Shape) -> list[tuple[list[int], list[int]]]:
    """Pairs the axes of two shapes of one size so that each pair has the same number of elements, as finely as possible."""
    if 0 in a:
        same = min(
            [i for i, (m, n) in enumerate(zip(a, b, strict=False)) if m != n], default=min(len(a), len(b))
        )
        rest = (list(range(same, len(a))), list(range(same, len(b))))
        return [*[([i], [i]) for i in range(same)], rest]
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        old, new = ([i], [j]) if i < len(a) and j < len(b) else ([], [])
        if not old:  # ones that are left over
            found.append((list(range(i, len(a))), list(range(j, len(b)))))
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
        found.append((old, new))
    return found


def _flat(given: Lies, sizes: Sequence[int], cuts: Sequence[Cut]) -> Cut | None:
    """Returns what cuts axes taken as one; None if its parts are not in one piece."""
    found: list[Hashable] = []
    pieces = True  # whether what comes next divides single elements of what has come
    for n, cut in zip(sizes, cuts, strict=True):
        if cut and not pieces:
            return None
        found += cut
        if given.parts(cut) != n:
            pieces = False
    return tuple(found)


def _spread(given: Lies, flat: Cut, sizes: Sequence[int]) -> list[Cut] | None:
    """Returns what cuts each of several axes that one becomes; None if these are not equal parts."""
    left = list(flat)
    found: list[Cut] = []
    for n in sizes:
        mine: list[Hashable] = []
        while left and n % (given.parts(tuple(mine)) * given.parts((left[0],))) == 0:
            mine.append(left.pop(0))
        found.append(tuple(mine))
        if left and given.parts(tuple(mine)) != n:
            return None
    return None if left else found


@lies(DotGeneral)
def multiplied(op: DotGeneral, given: Lies) -> list[Cuts]:
    """Batch axes and those that are left; what is summed must not be cut on both sides."""
    lhs, rhs = given.cuts
    for i, j in zip(op.lhs_contract, op.rhs_contract, strict=True):
        if lhs[i] and rhs[j]:
            given.refuse(
                f"axes that are summed over, {i} of the first and {j} of the second, are cut by {shown(lhs[i])} and "
                f"{shown(rhs[j])}, and the sum may lie in parts or whole"
            )
    batch = [
        given.together(lhs[i], rhs[j], f"the batch axis {k}")
        for k, (i, j) in enumerate(zip(op.lhs_batch, op.rhs_batch, strict=True))
    ]
    free = [
        *[cut for i, cut in enumerate(lhs) if i not in op.lhs_contract + op.lhs_batch],
        *[cut for i, cut in enumerate(rhs) if i not in op.rhs_contract + op.rhs_batch],
    ]
    return [(*batch, *free)]


@lies(Gather)
def gathered(op: Gather, given: Lies) -> list[Cuts]:
    """Axes of the indices, and axes of x that slices have whole."""
    x, indices = given.types
    own, at = given.cuts
    given.whole(
        0,
        [i for i, n in enumerate(op.slice_sizes) if n != x.shape[i] and i not in op.operand_batch],
        "from which slices are taken",
    )
    given.whole(1, (indices.ndim - 1,), "which holds the starts")
    window = [
        cut if op.slice_sizes[i] == x.shape[i] else ()
        for i, cut in enumerate(own)
        if i not in op.collapsed + op.operand_batch
    ]
    batch = list(at[:-1])
    for i, j in zip(op.operand_batch, op.indices_batch, strict=True):
        batch[j] = given.together(own[i], batch[j], f"the batch axis {j}")
    n = given.results[0].ndim
    left = iter(batch)
    inner = iter(window)
    return [tuple([next(inner) if i in op.offset_dims else next(left) for i in range(n)])]


@lies(Scatter)
def scattered(op: Scatter, given: Lies) -> list[Cuts]:
    """As x, along axes that windows have whole; others must be whole, and so must the updates' own."""
    x, indices, updates = given.types
    own, at, new = given.cuts
    axes = [i for i in range(x.ndim) if i not in op.inserted + op.operand_batch]
    given.whole(0, op.inserted, "along which updates are written")
    given.whole(1, (indices.ndim - 1,), "which holds the starts")
    found: list[Cut] = [()] * x.ndim
    for i, j in zip(axes, op.window_dims, strict=True):
        if x.shape[i] != updates.shape[j]:
            given.whole(0, (i,), "along which updates are written")
            given.whole(2, (j,), "which is written at a computed start")
            continue
        found[i] = given.together(own[i], new[j], f"axis {i}")
    outer = [j for j in range(updates.ndim) if j not in op.window_dims]
    for k, j in enumerate(outer):
        if k in op.indices_batch:
            i = op.operand_batch[op.indices_batch.index(k)]
            found[i] = given.together(given.together(own[i], at[k], f"axis {i}"), new[j], f"axis {i}")
        elif at[k] or new[j]:
            given.refuse(f"the updates are cut along axis {j}, and parts would be written to the same places")
    return [tuple(found)]


@lies(Collective)
def collected(op: Collective, given: Lies) -> list[Cuts]:
    """Along Manual axes; the others stay as they are where the shapes do."""
    if any([t.shape != given.types[0].shape for t in given.results]):
        for k, t in enumerate(given.types):
            given.whole(k, range(t.ndim), "and the collective changes the shape")
        return [((),) * t.ndim for t in given.results]
    return [merged(given, range(len(given.types)), t.ndim) for t in given.results]


@lies(HigherOrder)
def held(op: HigherOrder, given: Lies) -> list[Cuts]:
    """What the programs' results say."""
    if isinstance(op, Cond):
        outs = [[cuts_of(t) for t in b.out_types] for b in op.branches]
        return [
            tuple([_joined(given, [cuts[i] for cuts in ends], i) for i in range(len(ends[0]))])
            for ends in zip(*outs, strict=True)
        ]
    if isinstance(op, Scan):
        found = [cuts_of(t) for t in op.body.out_types]
        return [*found[: op.carries], *[((), *cuts) for cuts in found[op.carries :]]]
    if isinstance(op, While):
        return [cuts_of(t) for t in op.body.out_types]
    if isinstance(op, ParallelMap):
        return _mapped(op, given)
    if isinstance(op, Calling):
        return [cuts_of(t) for t in op.program.out_types]
    if isinstance(op, LinearSolve | Root):
        return [cuts_of(t) for t in op.solve.out_types]
    if isinstance(op, CustomTangent):
        return [cuts_of(t) for t in op.out_types]
    given.refuse("nothing says how its results lie")
    return [((),) * t.ndim for t in given.results]


def _joined(given: Lies, cuts: Sequence[Cut], axis: int) -> Cut:
    found: Cut = ()
    for cut in cuts:
        found = given.together(found, cut, f"axis {axis} of what the branches give")
    return found


def _mapped(op: ParallelMap, given: Lies) -> list[Cuts]:
    """Leading axes by those of the map, the others as the body's results."""
    found: list[Cuts] = []
    for cut, t in zip(op.cuts_out, op.body.out_types, strict=True):
        found.append((*[(op.axes[a][0],) for a in cut], *cuts_of(t)))
    return found
