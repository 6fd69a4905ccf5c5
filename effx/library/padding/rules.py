"""Rules of operations for padded arrays."""

from typing import Any

import attrs

import effx.numpy as enp
from effx import Array, lax
from effx.handling import Elementwise, Operation, Site, ops
from effx.ir.sizes.dimensions import has_symbolic, is_symbolic
from effx.library.padding.handler import Padded, Padding, is_padded, refusal_error
from effx.tree import PyTree

Here = Site[Padding, None]


def result(site: Here, y: PyTree) -> PyTree:
    """Returns results with the shapes that the function sees."""
    types = site.result_types
    parts = y if isinstance(y, tuple) else (y,)
    padded_results = tuple(
        [Padded(x, t.shape) if is_padded(t) else x for x, t in zip(parts, types, strict=True)]
    )
    return padded_results if site.op.multiple else padded_results[0]


def perform_padded(site: Here, op: Operation[PyTree], *xs: Padded) -> PyTree:
    """Performs an operation on padded arrays, with padded sizes among its parameters."""
    return result(site, site.handler.fixed(op)(*[x.value for x in xs]))


# For these each element of the result depends on elements at the same indices only, so not on padding.
Padding.site_rule(
    Elementwise, ops.Comparison, ops.Convert, ops.Copy, ops.StopGradient, ops.ReducePrecision, ops.Identity,
    ops.BroadcastInDim, ops.Transpose, ops.Iota, ops.Threefry2x32, ops.OptimizationBarrier,
)(perform_padded)  # fmt: skip


@Padding.site_rule(Operation)
def refuse_without_rule(site: Here, op: Operation[PyTree], *xs: Padded) -> PyTree:
    """What has no rule takes and gives arrays without padding; factorisations may have it along batch axes."""
    types, results = site.types, site.result_types
    if not is_padded(*types, *results):
        return op(*[x.value for x in xs])
    if type(op).__module__.startswith("effx.families.linalg") and not any(
        [has_symbolic(t.shape[-2:]) for t in (*types, *results) if t.ndim >= 2]
    ):
        return perform_padded(site, op, *xs)
    raise refusal_error(op, f"has no rule for padded arrays, got {', '.join(map(repr, types))}")


@Padding.site_rule(ops.Bitcast)
def _(site: Here, op: ops.Bitcast, x: Padded) -> PyTree:
    out = site.result_types[0].shape
    # Elements of another width are along the last axis.
    if len(out) != len(x.shape) and has_symbolic((out if len(out) > len(x.shape) else x.shape)[-1:]):
        raise refusal_error(op, f"of a padded axis has no rule, got {site.types[0]!r}")
    return perform_padded(site, op, x)


@Padding.site_rule(ops.SizeValue)
def _(site: Here, op: ops.SizeValue, *xs: Padded) -> Padded:
    t = site.result_types[0]
    return Padded(ops.Convert(t.dtype, t.weak)(enp.asarray(site.handler.length(op.size))), ())


def _lowest(dtype: Any) -> Any:
    if enp.issubdtype(dtype, enp.floating):
        return -enp.inf
    return False if dtype == enp.bool_ else enp.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    if enp.issubdtype(dtype, enp.floating):
        return enp.inf
    return True if dtype == enp.bool_ else enp.iinfo(dtype).max


def neutral_element(op: Operation[PyTree], dtype: Any) -> Any:
    """Returns what changes nothing when it is combined with another element."""
    match op:
        case ops.ReduceProd() | ops.CumProd():
            return 1
        case (
            ops.ReduceMax()
            | ops.CumMax()
            | ops.ArgMax()
            | ops.ReduceWindowMax()
            | ops.TopIndices()
            | ops.TopK()
        ):
            return _lowest(dtype)
        case ops.ApproximateTopK():
            return _highest(dtype) if op.smallest else _lowest(dtype)
        case ops.ReduceMin() | ops.CumMin() | ops.ArgMin() | ops.ReduceWindowMin():
            return _highest(dtype)
        case ops.ReduceAnd():
            if dtype == enp.bool_:
                return True
            return -1 if enp.issubdtype(dtype, enp.signedinteger) else enp.iinfo(dtype).max
        case _:
            return 0


@Padding.site_rule(ops.Reduction)
def _(site: Here, op: ops.Reduction, x: Padded) -> PyTree:
    return result(site, op(site.handler.filled(x, op.axes, neutral_element(op, x.value.dtype))))


@Padding.site_rule(ops.ArgReduction)
def _(site: Here, op: ops.ArgReduction, x: Padded) -> PyTree:
    return result(site, op(site.handler.filled(x, (op.axis,), neutral_element(op, x.value.dtype))))


@Padding.site_rule(ops.Cumulative)
def _(site: Here, op: ops.Cumulative, x: Padded) -> PyTree:
    return result(
        site,
        op(site.handler.filled(x, (op.axis,), neutral_element(op, x.value.dtype)) if op.reverse else x.value),
    )


@Padding.site_rule(ops.TopIndices, ops.Selection)
def _(site: Here, op: ops.TopIndices | ops.Selection, x: Padded) -> PyTree:
    kept = site.handler.filled(x, (len(x.shape) - 1,), neutral_element(op, x.value.dtype))
    return result(site, site.handler.fixed(op)(kept))


@Padding.site_rule(ops.Sort)
def _(site: Here, op: ops.Sort, *xs: Padded) -> PyTree:
    kept = site.handler.inside(xs[0].shape, (op.axis,))
    values = [x.value for x in xs]
    if kept is None:
        return result(site, op(*values))
    # Padding comes last, after NaN too.
    beyond = (~kept).astype(enp.int32)
    return result(site, attrs.evolve(op, num_keys=op.num_keys + 1)(beyond, *values)[1:])


@Padding.site_rule(ops.OrderStatistics)
def _(site: Here, op: ops.OrderStatistics, x: Padded, ranks: Padded) -> PyTree:
    last = len(x.shape) - 1
    kept = site.handler.inside(x.shape, (last,))
    if kept is None:
        return result(site, op(x.value, ranks.value))
    _, ordered = ops.Sort(last, False, 2)((~kept).astype(enp.int32), x.value)
    end = site.handler.length(x.shape[last]) - 1
    rank = enp.clip(ranks.value, 0, end)
    indices = (rank, enp.minimum(rank + 1, end))
    return result(site, tuple([enp.take_along_axis(ordered, i, last, mode="clip") for i in indices]))


@Padding.site_rule(ops.DotGeneral)
def _(site: Here, op: ops.DotGeneral, x: Padded, y: Padded) -> PyTree:
    handler = site.handler
    # Both, since zero times NaN is NaN.
    return result(site, op(handler.filled(x, op.lhs_contract, 0), handler.filled(y, op.rhs_contract, 0)))


@Padding.site_rule(ops.Fft)
def _(site: Here, op: ops.Fft, x: Padded) -> PyTree:
    if has_symbolic(x.shape[len(x.shape) - len(op.lengths) :]) or has_symbolic(op.lengths):
        raise refusal_error(op, "of a padded axis has no meaning that one compilation could have")
    return perform_padded(site, op, x)


# --- moving ----------------------------------------------------------------------------------------------


def take_along_axis(x: Array, take_indices: Array, axis: int) -> Array:
    """Returns the elements at indices along an axis."""
    return enp.take(x, take_indices, axis, mode="clip")


@Padding.site_rule(ops.Reshape)
def _(site: Here, op: ops.Reshape, x: Padded) -> PyTree:
    handler, out = site.handler, site.result_types[0].shape
    if not is_padded(*site.types, *site.result_types) or _keeps_padding_last(x.shape, out):
        return perform_padded(site, op, x)
    # The index of each element among those within the lengths, and from it the index in the padded array.
    sizes = handler.padded(out)
    index = sum_of(
        [lax.broadcasted_iota(enp.int32, sizes, i) * stride for i, stride in enumerate(strides(handler, out))]
    )
    source: Array | int = 0
    for n, step, length in zip(
        x.shape, _static_strides(handler.padded(x.shape)), strides(handler, x.shape), strict=True
    ):
        source = source + (index // length) % handler.length(n) * step
    flat = enp.reshape(x.value, -1)
    return result(site, take_along_axis(flat, enp.ravel(enp.asarray(source)), 0).reshape(sizes))


def strides(handler: Padding, shape: tuple[int, ...]) -> list[Array | int]:
    """Returns by how many elements that count neighbours along each axis are apart."""
    results: list[Array | int] = []
    step: Array | int = 1
    for n in reversed(shape):
        results.append(enp.maximum(step, 1) if isinstance(step, Array) else max(step, 1))
        step = step * handler.length(n)
    return results[::-1]


def _static_strides(shape: tuple[int, ...]) -> list[int]:
    row_major_strides, step = [], 1
    for n in reversed(shape):
        row_major_strides.append(step)
        step *= n
    return row_major_strides[::-1]


def sum_of(parts: list[Any]) -> Any:
    """Returns the sum of arrays; 0 of none."""
    total: Any = 0
    for part in parts:
        total = total + part
    return total


def _keeps_padding_last(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Says whether what counts stays first: axes of size 1 apart, sizes are equal, or only the first is symbolic."""
    a, b = [tuple([n for n in shape if n != 1]) for shape in (a, b)]
    return a == b or not (has_symbolic(a[1:]) or has_symbolic(b[1:]))


@Padding.site_rule(ops.Reverse)
def _(site: Here, op: ops.Reverse, x: Padded) -> PyTree:
    y = x.value
    for axis in op.axes:
        if is_symbolic(x.shape[axis]):
            y = take_along_axis(y, site.handler.length(x.shape[axis]) - 1 - enp.arange(y.shape[axis]), axis)
        else:
            y = enp.flip(y, axis)
    return result(site, y)


@Padding.site_rule(ops.Slice)
def _(site: Here, op: ops.Slice, x: Padded) -> PyTree:
    handler, y, out = site.handler, x.value, site.result_types[0].shape
    for axis, (a, k, n) in enumerate(zip(op.start, op.strides, out, strict=True)):
        count, there = handler.size(n), y.shape[axis]
        if is_symbolic(a) or is_symbolic(k) or (count and a + (count - 1) * k >= there):
            y = take_along_axis(y, handler.length(a) + enp.arange(count) * handler.length(k), axis)
        else:
            y = lax.slice_in_dim(y, a, min(a + count * k, there) if count else a, k, axis)
    return result(site, y)


@Padding.site_rule(ops.Concatenate)
def _(site: Here, op: ops.Concatenate, *xs: Padded) -> PyTree:
    handler, t = site.handler, site.result_types[0]
    if not is_symbolic(t.shape[op.axis]):
        return perform_padded(site, op, *xs)
    # Each part overwrites what the one before has beyond its length.
    y = enp.zeros(handler.padded(t.shape), t.dtype)
    at: Array | int = 0
    for x in xs:
        starts: list[Any] = [0] * t.ndim
        starts[op.axis] = at
        y = lax.dynamic_update_slice(y, x.value.astype(t.dtype), starts)
        at = at + handler.length(x.shape[op.axis])
    return result(site, y)


@Padding.site_rule(ops.Pad)
def _(site: Here, op: ops.Pad, x: Padded, value: Padded) -> PyTree:
    return result(site, pad_operand(site.handler, op, x, value.value, site.result_types[0].shape))


def pad_operand(handler: Padding, op: ops.Pad, x: Padded, value: Array, out: tuple[int, ...]) -> Array:
    """Returns an array with a value at the edges and between its elements."""
    y = x.value
    for axis, (low, inner, n, m) in enumerate(zip(op.low, op.interior, x.shape, out, strict=True)):
        there, target_size = y.shape[axis], handler.size(m)
        # For each element of the result the index that it comes from.
        position = enp.arange(target_size) - handler.length(low)
        length = handler.length(n)
        is_inner_element = (
            (position >= 0) & (position % (inner + 1) == 0) & (position // (inner + 1) < length)
        )
        if there == target_size and low == 0 and inner == 0 and not is_symbolic(n):
            continue
        shape = [1] * len(out)
        shape[axis] = target_size
        inner_elements = (
            take_along_axis(y, position // (inner + 1), axis)
            if there
            else enp.zeros((*y.shape[:axis], target_size, *y.shape[axis + 1 :]), y.dtype)
        )
        y = enp.where(enp.reshape(is_inner_element, shape), inner_elements, value)
    return y


@Padding.site_rule(ops.DynamicSlice)
def _(site: Here, op: ops.DynamicSlice, x: Padded, *starts: Padded) -> PyTree:
    handler, y = site.handler, x.value
    for axis, (size, n, start) in enumerate(zip(op.sizes, x.shape, starts, strict=True)):
        last = handler.length(n) - handler.length(size)
        first = enp.clip(start.value, 0, last)
        y = take_along_axis(y, first + enp.arange(handler.size(size), dtype=first.dtype), axis)
    return result(site, y)


@Padding.site_rule(ops.DynamicUpdateSlice)
def _(site: Here, op: ops.DynamicUpdateSlice, x: Padded, update: Padded, *starts: Padded) -> PyTree:
    handler, block = site.handler, update.value
    sizes = x.value.shape
    inside: Array | None = None
    for axis, (n, m, start) in enumerate(zip(x.shape, update.shape, starts, strict=True)):
        count = handler.length(m)
        first = enp.clip(start.value.astype(enp.int32), 0, handler.length(n) - count)
        offsets = enp.arange(sizes[axis], dtype=enp.int32) - first
        block = take_along_axis(block, offsets, axis)
        shape = [1] * len(sizes)
        shape[axis] = sizes[axis]
        here = enp.reshape((offsets >= 0) & (offsets < count), shape)
        inside = here if inside is None else inside & here
    return result(site, block.astype(x.value.dtype) if inside is None else enp.where(inside, block, x.value))


@Padding.site_rule(ops.Gather)
def _(site: Here, op: ops.Gather, x: Padded, indices: Padded) -> PyTree:
    handler, starts = site.handler, indices.value
    bounds = [handler.length(x.shape[a]) - handler.length(op.slice_sizes[a]) for a in op.start_index_map]
    if any([is_symbolic(x.shape[a]) for a in op.start_index_map]):
        starts = enp.clip(starts, 0, enp.stack([enp.asarray(b, starts.dtype) for b in bounds]))
    return result(site, handler.fixed(op)(x.value, starts))


@Padding.site_rule(ops.Scatter)
def _(site: Here, op: ops.Scatter, x: Padded, indices: Padded, updates: Padded) -> PyTree:
    handler, starts = site.handler, indices.value
    removed = (*op.inserted, *op.operand_batch)
    window = [updates.shape[i] for i in op.window_dims]
    rest = [n for i, n in enumerate(x.shape) if i not in removed]
    if any([is_symbolic(w) and w != n for w, n in zip(window, rest, strict=True)]):
        raise refusal_error(op, f"of blocks of symbolic sizes {window} has no rule for padded arrays")
    kept = handler.inside(indices.shape[:-1], range(len(indices.shape) - 1))
    if kept is not None:
        # An update of padding gets an index out of bounds, where it is dropped.
        starts = enp.where(kept[..., None], starts, enp.iinfo(starts.dtype).max)
    return result(
        site,
        attrs.evolve(handler.fixed(op), sorted=op.sorted and kept is None)(x.value, starts, updates.value),
    )


# --- windows ----------------------------------------------------------------------------------------------


@Padding.site_rule(ops.ReduceWindowSum, ops.ReduceWindowMax, ops.ReduceWindowMin)
def _(site: Here, op: ops.WindowReduction, x: Padded) -> PyTree:
    handler, fill = site.handler, neutral_element(op, x.value.dtype)
    if not has_symbolic((*op.low, *op.high)):
        return result(site, handler.fixed(op)(handler.filled(x, range(len(x.shape)), fill)))
    interior = tuple([n - 1 for n in op.base_dilation])
    around = ops.Pad(op.low, op.high, interior)
    out = around.infer(site.types[0], site.types[0].with_shape(())).shape
    y = pad_operand(handler, around, x, enp.asarray(fill, x.value.dtype), out)
    none, ones = (0,) * len(op.low), (1,) * len(op.low)
    return result(site, attrs.evolve(op, low=none, high=none, base_dilation=ones)(y))


@Padding.site_rule(ops.Convolution)
def _(site: Here, op: ops.Convolution, lhs: Padded, rhs: Padded) -> PyTree:
    handler = site.handler
    along = op.lhs_axes[1:]
    if has_symbolic([n for i, n in enumerate(rhs.shape) if i != op.rhs_axes[0]]):
        raise refusal_error(
            op, f"of a kernel of symbolic sizes has no rule for padded arrays, got {site.types[1]!r}"
        )
    if not has_symbolic((*op.low, *op.high)):
        return result(site, handler.fixed(op)(handler.filled(lhs, along, 0), rhs.value))
    around, unpadded = op.split_padding()
    out = around.infer(site.types[0], site.types[0].with_shape(())).shape
    padded = Padded(handler.filled(lhs, along, 0), lhs.shape)
    y = pad_operand(handler, around, padded, enp.zeros((), lhs.value.dtype), out)
    return result(site, unpadded(y, rhs.value))


# --- loops ------------------------------------------------------------------------------------------------


@Padding.site_rule(ops.Scan)
def _(site: Here, op: ops.Scan, *xs: Padded) -> PyTree:
    handler, values, types = site.handler, op.group_operands(xs), op.group_operands(op.body.in_types)
    length, steps = handler.length(op.length), handler.size(op.length)

    def step(
        state: tuple[Array, list[Array]], rows: list[Array]
    ) -> tuple[tuple[Array, list[Array]], list[Array]]:
        i, carry = state
        inner = zip([*carry, *rows], [*types.carry, *types.xs], strict=True)
        operands = [Padded(v, t.shape) for v, t in inner]
        run = handler.run(lambda *arrays: ops.Call(op.body)(*arrays), *values.constants, *operands)
        results = op.group_results(run)
        after = [y.value.astype(v.dtype) for y, v in zip(results.carry, carry, strict=True)]
        if is_symbolic(op.length):
            after = [enp.where(i < length, y, v) for y, v in zip(after, carry, strict=True)]
        return (i - 1 if op.reverse else i + 1, after), [y.value for y in results.ys]

    first = enp.asarray(steps - 1 if op.reverse else 0, enp.int32)
    start = (first, [x.value for x in values.carry])
    (_, last), rows = lax.scan(step, start, [x.value for x in values.xs], steps, op.reverse)
    return result(site, (*last, *rows))
