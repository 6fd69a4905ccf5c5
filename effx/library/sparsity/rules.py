"""Rules of operations for sets of inputs, and for the inputs that interact."""

import math
from typing import TypeAlias

import attrs

import effx
import effx.numpy as enp
from effx import Array
from effx.handling import ArrayOperation, Elementwise, Linear, Site, Structural, ops
from effx.library.sparsity.dependence import Dependence, Dependences, broadcast_set, every_one, refuse, union

__all__ = ["interact"]

Here: TypeAlias = Site[Dependences, Array]

# Elementwise operations whose derivative is zero almost everywhere, or whose second one is.
FLAT = (ops.Floor, ops.Ceil, ops.RoundAwayFromZero, ops.RoundToEven, ops.StopGradient)
STRAIGHT = (
    Linear, Structural, ops.Convert, ops.Select, ops.Abs, ops.Max, ops.Min, ops.Clamp, ops.Rem, ops.NextAfter,
)  # fmt: skip


def interact(site: Here, a: Array, b: Array) -> None:
    """Records that inputs in corresponding sets interact."""
    site.state = site.handler.meeting(site.state, a, b)


def _no_dependence(site: Here) -> tuple[Dependence, ...]:
    return tuple(
        [Dependence(None, enp.zeros((*t.shape, site.handler.size), bool)) for t in site.result_types]
    )


def _is_flat(site: Here) -> bool:
    """Says whether the result has no derivative: integers, booleans, steps."""
    return (
        site.result_types[0].kind not in "fc"
        or isinstance(site.op, FLAT)
        or (isinstance(site.op, ops.Sign) and site.types[0].kind != "c")
    )


@Dependences.site_rule(ArrayOperation)
def any_operation(site: Here, op: ArrayOperation, *xs: Dependence) -> Dependence:
    # The general rule: each element depends on all elements of all operands.
    if _is_flat(site):
        return _no_dependence(site)[0]
    every = every_one([site.handler.sets(x) for x in xs])
    interact(site, every, every)
    return Dependence(None, broadcast_set(every, site.result_types[0].shape))


@Dependences.site_rule(Elementwise)
def elementwise(site: Here, op: Elementwise, *xs: Dependence) -> Dependence:
    if _is_flat(site):
        return _no_dependence(site)[0]
    on = union([site.handler.sets(x) for x in xs], site.result_types[0].shape)
    if not isinstance(op, STRAIGHT) and not (isinstance(op, ops.IntegerPow) and op.exponent in (0, 1)):
        interact(site, on, on)
    return Dependence(None, on)


def _where_nonzero(x: Dependence, on: Array, shape: tuple[int, ...]) -> Array:
    """Returns the sets of a factor of x: empty where x is known to be zero."""
    on = broadcast_set(on, shape)
    return on if x.value is None else on & (enp.broadcast_to(x.value, shape) != 0)[..., None]


@Dependences.site_rule(ops.Mul)
def product(site: Here, op: ops.Mul, x: Dependence, y: Dependence) -> Dependence:
    shape, sets = site.result_types[0].shape, site.handler.sets
    if _is_flat(site):
        return _no_dependence(site)[0]
    a, b = _where_nonzero(y, sets(x), shape), _where_nonzero(x, sets(y), shape)
    interact(site, a, b)
    return Dependence(None, a | b)


@Dependences.site_rule(ops.Div)
def quotient(site: Here, op: ops.Div, x: Dependence, y: Dependence) -> Dependence:
    shape, sets = site.result_types[0].shape, site.handler.sets
    if _is_flat(site):
        return _no_dependence(site)[0]
    below = _where_nonzero(x, sets(y), shape)
    combined = broadcast_set(sets(x), shape) | below
    interact(site, combined, below)
    return Dependence(None, combined)


@Dependences.site_rule(ops.Select)
def select(site: Here, op: ops.Select, which: Dependence, *cases: Dependence) -> Dependence:
    if _is_flat(site):
        return _no_dependence(site)[0]
    shape = site.result_types[0].shape
    sets = [broadcast_set(site.handler.sets(x), shape) for x in cases]
    if which.value is None:
        return Dependence(None, union(sets, shape))
    chosen = enp.broadcast_to(enp.expand_dims(enp.broadcast_to(which.value, shape), -1), sets[0].shape)
    return Dependence(None, op(chosen, *sets))


@Dependences.site_rule(ops.BroadcastInDim, ops.Reshape, ops.Transpose, ops.Reverse)
@Dependences.site_rule(ops.Concatenate, ops.Pad, ops.Slice)
def move(site: Here, op: ArrayOperation, *xs: Dependence) -> Dependence:
    return Dependence(None, effx.vmap(op, in_axes=-1, out_axes=-1)(*[site.handler.sets(x) for x in xs]))


def _dependence_at_unknown_index(on: Array, axis: int) -> Array:
    """Returns the sets of elements whose index along an axis is unknown."""
    return enp.broadcast_to(enp.any(on, axis=axis, keepdims=True), on.shape)


@Dependences.site_rule(ops.Gather)
def gather(site: Here, op: ops.Gather, x: Dependence, indices: Dependence) -> Dependence:
    on, index_values = site.handler.sets(x), indices.value
    if index_values is None:
        index_values = enp.zeros(indices.shape, site.types[1].dtype)
        for axis in op.start_index_map:
            on = _dependence_at_unknown_index(on, axis)
    return Dependence(None, effx.vmap(lambda v: op(v, index_values), in_axes=-1, out_axes=-1)(on))


@Dependences.site_rule(ops.DynamicSlice)
def dynamic_slice(site: Here, op: ops.DynamicSlice, x: Dependence, *starts: Dependence) -> Dependence:
    on = site.handler.sets(x)
    start_values: list[Array] = []
    for axis, (start, t) in enumerate(zip(starts, site.types[1:], strict=True)):
        if start.value is None:
            on = _dependence_at_unknown_index(on, axis)
        start_values.append(enp.zeros((), t.dtype) if start.value is None else start.value)
    return Dependence(None, effx.vmap(lambda v: op(v, *start_values), in_axes=-1, out_axes=-1)(on))


@Dependences.site_rule(ops.DynamicUpdateSlice)
def dynamic_update_slice(
    site: Here, op: ops.DynamicUpdateSlice, x: Dependence, update: Dependence, *starts: Dependence
) -> Dependence:
    on, new = site.handler.sets(x), site.handler.sets(update)
    start_values = [start.value for start in starts if start.value is not None]
    if len(start_values) < len(starts):
        return Dependence(None, on | every_one([new]))
    return Dependence(None, effx.vmap(lambda v, u: op(v, u, *start_values), in_axes=-1, out_axes=-1)(on, new))


@Dependences.site_rule(ops.Scatter)
def scatter(
    site: Here, op: ops.Scatter, x: Dependence, indices: Dependence, updates: Dependence
) -> Dependence:
    if _is_flat(site):
        return _no_dependence(site)[0]
    on, new, index_values = site.handler.sets(x), site.handler.sets(updates), indices.value
    if op.combiner == "mul":
        every = every_one([on, new])
        interact(site, every, every)
    if index_values is None:
        return Dependence(None, on | every_one([new]))
    put, most = attrs.evolve(op, combiner="set"), attrs.evolve(op, combiner="max")

    def placed(v: Array, u: Array) -> Array:
        # Replaced elements do not count; of several updates at one index any may win.
        v = put(v, index_values, enp.zeros_like(u)) if op.combiner == "set" else v
        return most(v, index_values, u)

    return Dependence(None, effx.vmap(placed, in_axes=-1, out_axes=-1)(on, new))


@Dependences.site_rule(ops.Reduction)
def reduction(site: Here, op: ops.Reduction, x: Dependence) -> Dependence:
    if _is_flat(site):
        return _no_dependence(site)[0]
    on = enp.any(site.handler.sets(x), axis=op.axes)
    if isinstance(op, ops.ReduceProd):
        interact(site, on, on)
    return Dependence(None, on)


@Dependences.site_rule(ops.Cumulative)
def cumulative(site: Here, op: ops.Cumulative, x: Dependence) -> Dependence:
    if _is_flat(site):
        return _no_dependence(site)[0]
    on = site.handler.sets(x)
    if isinstance(op, ops.CumProd):
        row = enp.any(on, axis=op.axis)
        interact(site, row, row)
    return Dependence(None, ops.CumMax(op.axis, op.reverse)(on))


@Dependences.site_rule(ops.ReduceWindowSum, ops.ReduceWindowMax, ops.ReduceWindowMin)
def window(site: Here, op: ops.WindowReduction, x: Dependence) -> Dependence:
    if _is_flat(site):
        return _no_dependence(site)[0]
    counting = ops.ReduceWindowSum(*attrs.astuple(op, recurse=False))
    return Dependence(None, effx.vmap(counting, in_axes=-1, out_axes=-1)(_counts(site.handler.sets(x))) > 0)


@Dependences.site_rule(ops.DotGeneral)
def dot(site: Here, op: ops.DotGeneral, x: Dependence, y: Dependence) -> Dependence:
    if _is_flat(site):
        return _no_dependence(site)[0]
    if x.on is not None and y.on is not None:
        left = _contract_dependence(x.on, op.lhs_batch, op.lhs_contract)
        interact(site, left, _contract_dependence(y.on, op.rhs_batch, op.rhs_contract))
    return _bilinear(site, attrs.evolve(op, preferred=None), x, y)


@Dependences.site_rule(ops.Convolution)
def convolution(site: Here, op: ops.Convolution, x: Dependence, y: Dependence) -> Dependence:
    if _is_flat(site):
        return _no_dependence(site)[0]
    if x.on is not None and y.on is not None:
        interact(site, every_one([x.on]), every_one([y.on]))
    return _bilinear(site, attrs.evolve(op, preferred=None), x, y)


def _bilinear(
    site: Here, counting: ops.DotGeneral | ops.Convolution, x: Dependence, y: Dependence
) -> Dependence:
    """Returns the sets of sums of products: those of each term whose other factor is not known to be zero."""
    on = enp.zeros((*site.result_types[0].shape, site.handler.size), bool)
    if x.on is not None:
        on = on | (effx.vmap(counting, in_axes=(-1, None), out_axes=-1)(_counts(x.on), _nonzero(y)) > 0)
    if y.on is not None:
        on = on | (effx.vmap(counting, in_axes=(None, -1), out_axes=-1)(_nonzero(x), _counts(y.on)) > 0)
    return Dependence(None, on)


def _counts(on: Array) -> Array:
    return on.astype(enp.float32)


def _nonzero(x: Dependence) -> Array:
    return enp.ones(x.shape, enp.float32) if x.value is None else (x.value != 0).astype(enp.float32)


def _contract_dependence(on: Array, batch: tuple[int, ...], contract: tuple[int, ...]) -> Array:
    """Returns for each term of a sum the inputs that its factors depend on."""
    n = on.ndim - 1
    free = tuple([i for i in range(n) if i not in batch and i not in contract])
    rows = enp.transpose(enp.any(on, axis=free, keepdims=True), (*batch, *contract, *free, n))
    return rows.reshape((math.prod(rows.shape[:-1]), rows.shape[-1]))


@Dependences.site_rule(ops.Sort)
def sort(site: Here, op: ops.Sort, *xs: Dependence) -> tuple[Dependence, ...]:
    return tuple(
        [
            Dependence(None, _dependence_at_unknown_index(site.handler.sets(x), op.axis) & (t.kind in "fc"))
            for x, t in zip(xs, site.types, strict=True)
        ]
    )


@Dependences.site_rule(ops.Threefry2x32)
def random_bits(site: Here, op: ops.Threefry2x32, *xs: Dependence) -> tuple[Dependence, ...]:
    return _no_dependence(site)


@Dependences.site_rule(ops.Collective)
def collective(site: Here, op: ops.Collective, *xs: Dependence) -> Dependence:
    raise refuse(op.name)
