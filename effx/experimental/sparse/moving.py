"""Operations on sparse arrays that move elements, add them up, or multiply them: each has a function of its own."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

import effx.numpy as enp
from effx.array import Array
from effx.errors import ShapeError
from effx.experimental.sparse.bcoo import BCOO
from effx.experimental.sparse.entries import limit_nse
from effx.experimental.sparse.handler import Payload, Sparsify, constant_operand, refuse_operation
from effx.experimental.sparse.layout import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_squeeze,
    bcoo_transpose,
    bcoo_update_layout,
    match_layouts,
)
from effx.experimental.sparse.products import bcoo_dot_general
from effx.experimental.sparse.slicing import bcoo_dynamic_slice, bcoo_rev, bcoo_slice
from effx.families.convolution import Convolution
from effx.handling import Site, array_type
from effx.ir.ops import shape as s
from effx.ir.ops.index import Gather
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import ReduceSum
from effx.transforms.jit.jit import jit
from effx.transforms.maps.vmap import vmap


def to_dense_if_no_sparse_axes(m: BCOO) -> Payload:
    """Returns what has no sparse axes as a dense array."""
    return m if m.n_sparse else m.todense()


def to_all_sparse(m: BCOO) -> BCOO:
    """Returns the array without batch and dense axes."""
    return bcoo_update_layout(m, n_batch=0, n_dense=0, on_inefficient=None)


@Sparsify.rule(s.Transpose)
def _(op: s.Transpose, x: Payload) -> Payload:
    if not isinstance(x, BCOO):
        return op(x)
    kinds = [0 if k < x.n_batch else 1 if k < x.n_batch + x.n_sparse else 2 for k in op.perm]
    return bcoo_transpose(x if kinds == sorted(kinds) else to_all_sparse(x), permutation=op.perm)


@Sparsify.rule(s.Reshape)
def _(op: s.Reshape, x: Payload) -> Payload:
    if not isinstance(x, BCOO):
        return op(x)
    sizes = [n for n in op.shape if n != 1]
    if sizes == [n for n in x.shape if n != 1] and 1 in x.shape and len(op.shape) < x.ndim:
        dropped_axes = _dropped_axes(x.shape, op.shape)
        if dropped_axes is not None:
            return to_dense_if_no_sparse_axes(bcoo_squeeze(x, dimensions=dropped_axes))
    try:
        return to_dense_if_no_sparse_axes(bcoo_reshape(x, new_sizes=op.shape))
    except ShapeError:  # axes of different kinds are mixed
        return to_dense_if_no_sparse_axes(bcoo_reshape(to_all_sparse(x), new_sizes=op.shape))


def _dropped_axes(old: tuple[int, ...], new: tuple[int, ...]) -> list[int] | None:
    """Returns the axes of size 1 that make one shape the other if they are left out."""
    dropped_axes, rest = [], [*new]
    for k, n in enumerate(old):
        if rest and rest[0] == n:
            rest.pop(0)
        elif n == 1:
            dropped_axes.append(k)
        else:
            return None
    return None if rest else dropped_axes


@Sparsify.rule(s.BroadcastInDim)
def _(op: s.BroadcastInDim, x: Payload) -> Payload:
    if not isinstance(x, BCOO):
        return op(x)
    return bcoo_broadcast_in_dim(x, shape=op.shape, broadcast_dimensions=op.dims)


@Sparsify.rule(s.Reverse)
def _(op: s.Reverse, x: Payload) -> Payload:
    return bcoo_rev(x, op.axes) if isinstance(x, BCOO) else op(x)


@Sparsify.rule(s.Concatenate)
def _(op: s.Concatenate, *xs: Payload) -> Payload:
    mats = [x for x in xs if isinstance(x, BCOO)]
    if not mats:
        return op(*[x for x in xs if isinstance(x, Array)])
    if len(mats) < len(xs):
        refuse_operation(op, *xs, why="takes sparse arrays or dense ones")
    return bcoo_concatenate(match_layouts(mats), dimension=op.axis)


@Sparsify.rule(s.Slice)
def _(op: s.Slice, x: Payload) -> Payload:
    if not isinstance(x, BCOO):
        return op(x)
    return bcoo_slice(x, start_indices=op.start, limit_indices=op.limit, strides=op.strides)


@Sparsify.rule(s.DynamicSlice)
def _(op: s.DynamicSlice, x: Payload, *starts: Payload) -> Payload:
    dense_starts = [k for k in starts if isinstance(k, Array)]
    if len(dense_starts) < len(starts):
        refuse_operation(op, x, *starts, why="starts must be dense")
    return bcoo_dynamic_slice(x, dense_starts, op.sizes) if isinstance(x, BCOO) else op(x, *dense_starts)


@Sparsify.site_rule(s.Pad)
def _(site: Site[Sparsify, None], op: s.Pad, x: Payload, value: Payload) -> Payload:
    if not isinstance(x, BCOO):
        return op(x, value.todense() if isinstance(value, BCOO) else value)
    if constant_operand(site, 1) != 0:
        refuse_operation(op, x, value, why="a number other than 0 is not stored")
    m = to_all_sparse(x)
    shape = tuple(
        [
            a + z + n + max(n - 1, 0) * k
            for n, a, z, k in zip(x.shape, op.low, op.high, op.interior, strict=True)
        ]
    )
    data, indices = m.entries()
    known = (indices < np.asarray(m.shape, indices.dtype)).all(-1, keepdims=True)
    moved = indices * np.asarray([k + 1 for k in op.interior], indices.dtype) + np.asarray(
        op.low, indices.dtype
    )
    ends = np.asarray(shape, indices.dtype)
    inside = (known & (moved >= 0) & (moved < ends)).all(-1, keepdims=True)
    return limit_nse(m.with_entries(data, enp.where(inside, moved, ends), shape, unique=m.unique_indices))


@Sparsify.rule(ReduceSum)
def _(op: ReduceSum, x: Payload) -> Payload:
    return to_dense_if_no_sparse_axes(bcoo_reduce_sum(x, axes=op.axes)) if isinstance(x, BCOO) else op(x)


@Sparsify.rule(DotGeneral)
def _(op: DotGeneral, x: Payload, y: Payload) -> Payload:
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        x, y = [bcoo_update_layout(m, n_dense=0, on_inefficient=None) for m in (x, y)]
    elif not isinstance(x, BCOO) and not isinstance(y, BCOO):
        return op(x, y)
    numbers = (op.lhs_contract, op.rhs_contract), (op.lhs_batch, op.rhs_batch)
    product: Payload = bcoo_dot_general(
        cast("BCOO", x), cast("Array", y), dimension_numbers=numbers,
        precision=op.precision if len(op.precision) == 2 else None, preferred_element_type=op.preferred,
    )  # fmt: skip
    return to_dense_if_no_sparse_axes(product) if isinstance(product, BCOO) else product


@Sparsify.rule(Gather)
def _(op: Gather, x: Payload, indices: Payload) -> Payload:
    """Each start vector takes a slice of all stored elements, so the slices are a batch."""
    if isinstance(indices, BCOO):
        refuse_operation(op, x, indices, why="indices must be dense")
    return (
        to_dense_if_no_sparse_axes(gather_sparse(op, to_all_sparse(x), indices))
        if isinstance(x, BCOO)
        else op(x, indices)
    )


@jit(static_argnames=("op",), inline=True)
def gather_sparse(op: Gather, m: BCOO, indices: Array) -> BCOO:
    """Returns slices of an array without batch and dense axes."""
    batch = indices.shape[:-1]
    starts = [enp.zeros(batch, indices.dtype)] * m.ndim
    for k, axis in enumerate(op.start_index_map):
        starts[axis] = indices[..., k]
    for axis, along in zip(op.operand_batch, op.indices_batch, strict=True):
        number = enp.arange(batch[along], dtype=indices.dtype)
        starts[axis] = number.reshape([-1 if k == along else 1 for k in range(len(batch))])
    flat = enp.stack([enp.broadcast_to(k, batch).reshape((math.prod(batch),)) for k in starts], -1)
    removed = sorted({*op.collapsed, *op.operand_batch})

    def cut(start: Array) -> BCOO:
        part = bcoo_dynamic_slice(m, [start[k] for k in range(m.ndim)], op.slice_sizes)
        return bcoo_squeeze(part, dimensions=removed)

    slices = vmap(cut)(flat)
    window = slices.sparse_shape
    shaped = bcoo_reshape(slices, new_sizes=(*batch, *window)) if len(batch) != 1 else slices
    ndim = len(batch) + len(window)
    outer = [k for k in range(ndim) if k not in op.offset_dims]
    order = [outer.index(k) if k in outer else len(batch) + op.offset_dims.index(k) for k in range(ndim)]
    if order != [*range(ndim)]:
        shaped = bcoo_transpose(to_all_sparse(shaped), permutation=order)
    return shaped


@Sparsify.rule(Convolution)
def _(op: Convolution, x: Payload, kernel: Payload) -> Payload:
    """A product of each stored element of one with each of the other, at the position where they are multiplied.

    Element i of lhs and element k of the kernel are multiplied at position p where p stride + k rhs_dilation = i
    lhs_dilation + low. So the result has as many elements as there are pairs.
    """
    if not isinstance(x, BCOO) and not isinstance(kernel, BCOO):
        return op(x, kernel)
    left, right = [
        to_all_sparse(m) if isinstance(m, BCOO) else BCOO.fromdense(m, nse=m.size) for m in (x, kernel)
    ]
    return convolve_sparse(op, left, right)


@jit(static_argnames=("op",), inline=True)
def convolve_sparse(op: Convolution, x: BCOO, kernel: BCOO) -> BCOO:
    """Returns the convolution of arrays without batch and dense axes."""
    result = op.infer(*[array_type(m.dtype, m.shape) for m in (x, kernel)])
    shape, dtype = result.shape, result.dtype
    (u, at), (v, to) = x.entries(), kernel.entries()
    index = enp.result_type(at.dtype, to.dtype)
    left = [at[:, None, k].astype(index) for k in op.lhs_axes]
    right = [to[None, :, k].astype(index) for k in op.rhs_axes]
    size = [x.shape[k] for k in op.lhs_axes], [kernel.shape[k] for k in op.rhs_axes]
    known = (left[0] < size[0][0]) & (right[0] < size[1][0])
    # Groups: features of the result o belong to group o // (O / G), and use features c of that group only.
    out_of_group = max(size[1][0] // (op.feature_groups * op.batch_groups), 1)
    group = right[0] // out_of_group
    batch_size = size[0][0] // op.batch_groups
    feature = left[1]
    batch = left[0]
    if op.feature_groups > 1:
        known &= feature // size[1][1] == group
        feature = feature % size[1][1]
    if op.batch_groups > 1:
        known &= batch // batch_size == group
        batch = batch % batch_size
    known &= feature == right[1]
    coordinate_columns = [batch, right[0]]
    for k, stride in enumerate(op.strides):
        distance = left[2 + k] * op.lhs_dilation[k] + op.low[k] - right[2 + k] * op.rhs_dilation[k]
        position = distance // stride
        known &= (distance >= 0) & (distance % stride == 0) & (position < shape[op.out_axes[2 + k]])
        coordinate_columns.append(position)
    pairs = (x.nse, kernel.nse)
    columns = [enp.broadcast_to(coordinate_columns[op.out_axes.index(k)], pairs) for k in range(len(shape))]
    ends = np.asarray(shape, index)
    indices = enp.where(known[..., None], enp.stack(columns, -1), ends)
    data = enp.where(known, u.astype(dtype)[:, None] * v.astype(dtype)[None, :], enp.zeros((), dtype))
    count = math.prod(pairs)
    return limit_nse(x.with_entries(data.reshape((count,)), indices.reshape((count, len(shape))), shape))
