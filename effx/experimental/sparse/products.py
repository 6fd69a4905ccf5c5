"""Products of sparse arrays: elementwise, and contractions with dense and sparse arrays.

A contraction gathers the dense operand at the coordinates, multiplies, and adds up at the coordinates of the result, so
that work and memory are in proportion to what is stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast, overload

import numpy as np

import effx.numpy as enp
from effx.array import Array, Operand
from effx.dtypes import DTypeLike
from effx.errors import DTypeError, ShapeError, ShardingError, name_user_call
from effx.experimental.sparse.coordinates import CoordinateArray, M, append_unit_axes, batch_and_coordinates
from effx.experimental.sparse.entries import (
    is_in_bounds,
    limit_nse,
    restore_batch,
    sort_order,
    sum_duplicate_entries,
)
from effx.experimental.sparse.layout import bcoo_update_layout
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.lax.operands import check_int
from effx.lax.products import PrecisionLike
from effx.transforms.placement.meshes import reshard_as
from effx.transforms.placement.out_sharding import OutSharding

__all__ = [
    "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_multiply_dense", "bcoo_multiply_sparse",
]  # fmt: skip

Axes = tuple[int, ...]
DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
LETTERS = "abcdfghijklmnoqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def bcoo_multiply_dense(sp_mat: M, v: Operand) -> Array:
    """Return the elements of a sparse array times those of a dense one at the same coordinates.

    Args:
        sp_mat: a sparse array.
        v: an array of a shape that broadcasts to that of `sp_mat`.

    Returns:
        `data` of the product, whose coordinates are those of `sp_mat`.

    Raises:
        ShapeError: the shape does not broadcast.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> bcoo_multiply_dense(BCOO.fromdense(enp.eye(3)), enp.array([1, 2, 3])).tolist()
    [1.0, 2.0, 3.0]
    """
    x = enp.asarray(v)
    missing = sp_mat.ndim - x.ndim
    fits = missing >= 0 and all([n in (1, m) for n, m in zip(x.shape, sp_mat.shape[missing:], strict=True)])
    if not fits:
        raise ShapeError(f"bcoo_multiply_dense: {x.type!r} does not broadcast to the shape of {sp_mat!r}")
    if x.size == 1:
        return sp_mat.data * x.reshape(())
    b = sp_mat.n_batch
    x = x.reshape((1,) * missing + x.shape)
    data, indices = sp_mat.clean()
    count = math.prod(sp_mat.batch_shape)
    if all([n == 1 for n in x.shape[:b]]):
        x = x.reshape((1, *x.shape[b:]))
    else:
        x = enp.broadcast_to(x, sp_mat.batch_shape + x.shape[b:]).reshape((count, *x.shape[b:]))
    if not x.size or not data.size:
        elements = enp.zeros((*data.shape[:2], *x.shape[1 + sp_mat.n_sparse :]), x.dtype)
    else:
        known = is_in_bounds(indices, sp_mat.sparse_shape)
        at = [
            enp.where(known, k, 0) if n > 1 else 0
            for k, n in zip(batch_and_coordinates(indices)[1:], x.shape[1:], strict=False)
        ]
        rows = batch_and_coordinates(indices)[0] if x.shape[0] > 1 else enp.zeros((1, 1), indices.dtype)
        elements = x[(enp.broadcast_to(rows, data.shape[:2]), *at)]
        elements = enp.where(append_unit_axes(known, elements.ndim), elements, enp.zeros((), elements.dtype))
    y = data * elements
    return y.reshape(sp_mat.batch_shape + y.shape[1:])


def bcoo_multiply_sparse(lhs: M, rhs: M) -> M:
    """Return the elementwise product of sparse arrays of one shape and layout.

    Each operand's elements with equal coordinates are added first; the result stores as many as the smaller.

    Raises:
        ShapeError: the shapes, or numbers of batch and dense axes differ.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> x = BCOO.fromdense(enp.array([1, 2, 0])), BCOO.fromdense(enp.array([0, 3, 4]))
    >>> bcoo_multiply_sparse(*x).todense().tolist()
    [0, 6, 0]
    """
    if (lhs.shape, lhs.n_batch, lhs.n_dense) != (rhs.shape, rhs.n_batch, rhs.n_dense):
        raise ShapeError(
            f"bcoo_multiply_sparse: shapes and numbers of batch and dense axes must agree, got {lhs!r} and {rhs!r}"
        )
    sizes = lhs.sparse_shape
    (x, at), (y, to) = [sum_duplicate_entries(m, m.nse, remove_zeros=False).clean() for m in (lhs, rhs)]
    n, m = lhs.nse, rhs.nse
    nse = min(n, m)
    if not nse:
        small, other = (x, y) if n == 0 else (y, x)
        data, indices = small * other[:, :0], (at if n == 0 else to)
    else:
        # Equal coordinates are neighbours after sorting; each occurs once in either operand, and the left comes first.
        joined = enp.concatenate([at, to.astype(at.dtype)], 1)
        order = sort_order(joined)
        rows = enp.arange(joined.shape[0])[:, None]
        ranked = joined[rows, order]
        known = is_in_bounds(ranked, sizes)[:, :-1]
        met = (ranked[:, 1:] == ranked[:, :-1]).all(-1) & known & (order[:, :-1] < n) & (order[:, 1:] >= n)
        number = enp.where(met, enp.cumsum(met, 1) - 1, nse)
        zero = enp.zeros((joined.shape[0], nse), order.dtype)
        left = zero.at[rows, number].set(order[:, :-1], mode="drop")
        right = zero.at[rows, number].set(order[:, 1:] - n, mode="drop")
        stored = enp.arange(nse) < met.sum(1)[:, None]
        right = enp.where(stored, right, 0)
        product = x[rows, left] * y[rows, right]
        data = enp.where(append_unit_axes(stored, product.ndim), product, enp.zeros((), product.dtype))
        indices = enp.where(stored[..., None], at[rows, left], np.asarray(sizes, at.dtype))
    return restore_batch(lhs, data, indices, unique=True)


@overload
def bcoo_dot_general(
    lhs: M, rhs: M, *, dimension_numbers: DimensionNumbers, precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None, out_sharding: OutSharding = None,
) -> M: ...  # fmt: skip
@overload
def bcoo_dot_general(
    lhs: CoordinateArray, rhs: Operand, *, dimension_numbers: DimensionNumbers, precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None, out_sharding: OutSharding = None,
) -> Array: ...  # fmt: skip
@overload
def bcoo_dot_general(
    lhs: Operand, rhs: CoordinateArray, *, dimension_numbers: DimensionNumbers, precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None, out_sharding: OutSharding = None,
) -> Array: ...  # fmt: skip
def bcoo_dot_general(
    lhs: CoordinateArray | Operand,
    rhs: CoordinateArray | Operand,
    *,
    dimension_numbers: DimensionNumbers,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> CoordinateArray | Array:
    """Contract axes of two arrays, one or both of them sparse, as `lax.dot_general`.

    Args:
        lhs: an array; a sparse one may contract and batch any of its axes.
        rhs: an array; the product of two sparse ones is sparse, with elements of equal coordinates added.
        dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
        precision: of the products of dense axes.
        preferred_element_type: the result's dtype; by default that of the operands.
        out_sharding: the sharding of a dense result; by default inferred from the operands'.

    Returns:
        An array whose axes are the batch axes, then the others of lhs, then those of rhs.

    Raises:
        ShapeError: axes do not fit, or the product of two sparse arrays has dense axes.
        DTypeError: neither operand is sparse.
        ShardingError: `out_sharding` is given for the product of two sparse arrays.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> x = BCOO.fromdense(enp.array([[1, 0], [2, 3]]))
    >>> bcoo_dot_general(x, enp.array([1, 10]), dimension_numbers=(((1,), (0,)), ((), ()))).tolist()
    [1, 32]
    """
    if out_sharding is not None:
        with allow_unresolved(True):
            product = bcoo_dot_general(
                cast("CoordinateArray", lhs), cast("Operand", rhs), dimension_numbers=dimension_numbers,
                precision=precision, preferred_element_type=preferred_element_type,
            )  # fmt: skip
        return with_user_sharding(product, out_sharding)
    x = lhs if isinstance(lhs, CoordinateArray) else enp.asarray(lhs)
    y = rhs if isinstance(rhs, CoordinateArray) else enp.asarray(rhs)
    (lc, rc), (lb, rb) = check_dimension_numbers(x.shape, y.shape, dimension_numbers)
    dtype = (
        enp.result_type(x.dtype, y.dtype)
        if preferred_element_type is None
        else enp.dtype(preferred_element_type)
    )
    if isinstance(x, CoordinateArray):
        if isinstance(y, CoordinateArray):
            return _contract_sparse(x, y, lc, rc, lb, rb, dtype)
        return _contract_with_dense(x, y, lc, rc, lb, rb, precision, dtype)
    if not isinstance(y, CoordinateArray):
        raise DTypeError(f"{name_user_call()}: one operand must be sparse, got {x.type!r} and {y.type!r}")
    swapped_product = _contract_with_dense(y, x, rc, lc, rb, lb, precision, dtype)
    b, n = len(lb), y.ndim - len(rc) - len(rb)
    return swapped_product.transpose((*range(b), *range(b + n, swapped_product.ndim), *range(b, b + n)))


def with_user_sharding(product: object, out_sharding: OutSharding) -> Array:
    """Returns a dense product, with the requested sharding.

    Raises:
        ShardingError: it is sparse: its elements have no order along its axes.
    """
    if not isinstance(product, Array):
        raise ShardingError(
            f"{name_user_call()}: out_sharding is for dense results, and the product of two sparse arrays is sparse"
        )
    return reshard_as("out_sharding", product, out_sharding)


def check_dimension_numbers(
    left: Axes, right: Axes, numbers: DimensionNumbers
) -> tuple[tuple[Axes, Axes], tuple[Axes, Axes]]:
    """Returns dimension numbers as ints.

    Raises:
        ShapeError: axes are missing, occur twice, or differ in size.
    """
    (lc, rc), (lb, rb) = [
        [tuple([check_int("dimension_numbers", k) for k in axes]) for axes in pair] for pair in numbers
    ]
    for shape, axes in ((left, (*lc, *lb)), (right, (*rc, *rb))):
        if len({*axes}) != len(axes) or any([not 0 <= k < len(shape) for k in axes]):
            raise ShapeError(
                f"{name_user_call()}: dimension_numbers must be distinct axes of shape {shape}, got {axes}"
            )
    pairs = [(lc, rc), (lb, rb)]
    if any([[left[k] for k in a] != [right[k] for k in b] for a, b in pairs]):
        raise ShapeError(
            f"{name_user_call()}: contracted and batch axes must agree in size, got shapes {left} and {right} with "
            f"dimension_numbers {((lc, rc), (lb, rb))}"
        )
    return (lc, rc), (lb, rb)


def _contract_with_dense(
    mat: CoordinateArray,
    rhs: Array,
    lc: Axes,
    rc: Axes,
    lb: Axes,
    rb: Axes,
    precision: PrecisionLike,
    dtype: np.dtype[np.generic],
) -> Array:
    """Returns the contraction of a sparse and a dense array: axes batch, free of `mat`, free of `rhs`."""
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = mat.clean()
    data, rhs = data.astype(dtype), rhs.astype(dtype)
    batch = np.unravel_index(np.arange(data.shape[0]), mat.batch_shape) if b else ()
    coordinates = [enp.asarray(k.astype(indices.dtype))[:, None] for k in batch] + [
        *batch_and_coordinates(indices)[1:]
    ]
    paired = dict(zip((*lb, *lc), (*rb, *rc), strict=True))
    indexed = [k for k in paired if k < s]
    dense_contracted = [k for k in paired if k >= s]
    rest = [k for k in range(rhs.ndim) if k not in paired.values()]
    g = rhs.transpose((*[paired[k] for k in indexed], *[paired[k] for k in dense_contracted], *rest))
    stored = data.shape[:2]
    remaining_axes = [*[k for k in lb if k < s], *[k for k in range(s) if k not in paired]]
    free = [k for k in range(s, mat.ndim) if k not in paired]
    tail = [*[k for k in lb if k >= s], *free]
    labels = [*remaining_axes, *tail]
    result_axes = [*lb, *[k for k in range(mat.ndim) if k not in paired]]
    out_shape = (*[mat.shape[k] for k in labels], *[rhs.shape[k] for k in rest])
    order = (*[labels.index(k) for k in result_axes], *range(len(result_axes), len(out_shape)))
    if not data.size or not rhs.size or not math.prod(out_shape):
        return enp.zeros(out_shape, dtype).transpose(order)
    if indexed:
        at = tuple([enp.broadcast_to(coordinates[k], stored) for k in indexed])
        g = g.at[at].get(mode="fill", fill_value=0)
    else:
        g = enp.broadcast_to(g, stored + g.shape)
    if mat.n_dense:
        letter = {k: LETTERS[k] for k in range(mat.ndim)}
        others = LETTERS[mat.ndim : mat.ndim + len(rest)]
        left, right = (
            "".join([letter[k] for k in range(s, mat.ndim)]),
            "".join([letter[k] for k in dense_contracted]),
        )
        result = "".join([letter[k] for k in tail]) + others
        # The letters p and e are for batch elements and stored elements.
        v = enp.einsum(f"pe{left},pe{right}{others}->pe{result}", data, g, precision=precision)
    else:
        v = append_unit_axes(data, g.ndim) * g
    if not remaining_axes:
        return v.sum((0, 1)).astype(dtype).transpose(order)
    to = tuple([enp.broadcast_to(coordinates[k], stored) for k in remaining_axes])
    return enp.zeros(out_shape, dtype).at[to].add(v.astype(dtype), mode="drop").transpose(order)


def _contract_sparse(
    left: CoordinateArray,
    right: CoordinateArray,
    lc: Axes,
    rc: Axes,
    lb: Axes,
    rb: Axes,
    dtype: np.dtype[np.generic],
) -> CoordinateArray:
    """Returns the contraction of two sparse arrays: every pair of elements whose contracted coordinates agree."""
    if left.n_dense or right.n_dense:
        raise ShapeError(
            f"bcoo_dot_general: the product of two sparse arrays has no dense axes, got {left!r} and {right!r}"
        )
    b = len(lb)
    leading = tuple(range(b))
    n_batch = b if lb == rb == leading and left.n_batch >= b and right.n_batch >= b else 0
    x, y = [bcoo_update_layout(m, n_batch=n_batch, on_inefficient=None) for m in (left, right)]
    (u, at), (v, to) = x.clean(), y.clean()
    dtype_of = enp.result_type(at.dtype, to.dtype)
    at, to = at.astype(dtype_of), to.astype(dtype_of)
    keys = [(*lb[n_batch:], *lc), (*rb[n_batch:], *rc)]
    columns = [[k - n_batch for k in key] for key in keys]
    met = enp.ones((u.shape[0], x.nse, y.nse), bool)
    for i, j in zip(*columns, strict=True):
        met = met & (at[:, :, None, i] == to[:, None, :, j])
    met = met & is_in_bounds(at, x.sparse_shape)[:, :, None] & is_in_bounds(to, y.sparse_shape)[:, None, :]
    one = [k for k in range(n_batch, left.ndim) if k not in lc and k not in lb[n_batch:]]
    two = [k for k in range(n_batch, right.ndim) if k not in rc and k not in rb]
    shared = [*lb[n_batch:], *one]
    sparse = [*[left.shape[k] for k in shared], *[right.shape[k] for k in two]]
    ends = np.asarray(sparse, dtype_of)
    pairs = (u.shape[0], x.nse, y.nse)
    parts = [at[:, :, None, k - n_batch] for k in shared] + [to[:, None, :, k - n_batch] for k in two]
    joined = (
        enp.stack([enp.broadcast_to(p, pairs) for p in parts], -1)
        if parts
        else enp.zeros((*pairs, 0), dtype_of)
    )
    product = u.astype(dtype)[:, :, None] * v.astype(dtype)[:, None, :]
    data = enp.where(met, product, enp.zeros((), dtype))
    indices = enp.where(met[..., None], joined, ends)
    batch, count = x.batch_shape, x.nse * y.nse
    return limit_nse(
        left.with_entries(
            data.reshape((*batch, count)), indices.reshape((*batch, count, len(sparse))), sparse
        )
    )


def bcoo_dot_general_sampled(
    A: Operand, B: Operand, indices: Array, *, dimension_numbers: DimensionNumbers
) -> Array:
    """Return elements of the contraction of dense arrays, at some coordinates; other elements are not computed.

    Args:
        A: an array.
        B: an array.
        indices: coordinates i32[*batch, nse, n_sparse] of the first axes of `lax.dot_general(A, B)`; the others are
            dense.
        dimension_numbers: those of `lax.dot_general`.

    Returns:
        `data` of a `BCOO` with these indices.

    Raises:
        ShapeError: axes do not fit.

    >>> import effx.numpy as enp
    >>> x = enp.array([[1, 2], [3, 4]])
    >>> bcoo_dot_general_sampled(x, x, enp.array([[1, 0]]), dimension_numbers=(((1,), (0,)), ((), ()))).tolist()
    [15]
    """
    x, y, at = enp.asarray(A), enp.asarray(B), enp.asarray(indices)
    (lc, rc), (lb, rb) = check_dimension_numbers(x.shape, y.shape, dimension_numbers)
    lf = [k for k in range(x.ndim) if k not in (*lc, *lb)]
    rf = [k for k in range(y.ndim) if k not in (*rc, *rb)]
    shape = [*[x.shape[k] for k in (*lb, *lf)], *[y.shape[k] for k in rf]]
    n_batch = at.ndim - 2
    used = n_batch + at.shape[-1] if n_batch >= 0 else -1
    fits = 0 <= used <= len(shape) and all([n in (1, m) for n, m in zip(at.shape[:-2], shape, strict=False)])
    if not fits:
        raise ShapeError(
            f"{name_user_call()}: indices {at.type!r} do not fit a product of shape {tuple(shape)}"
        )
    dtype = enp.result_type(x.dtype, y.dtype)
    stored = (*shape[:n_batch], at.shape[-2])
    x, y = x.astype(dtype).transpose((*lb, *lf, *lc)), y.astype(dtype).transpose((*rb, *rf, *rc))
    dense = shape[used:]
    if not x.size or not y.size or not math.prod(stored):
        return enp.zeros((*stored, *dense), dtype)
    grids = np.meshgrid(*[np.arange(n) for n in shape[:n_batch]], indexing="ij") if n_batch else []
    where = [enp.broadcast_to(enp.asarray(g.astype(at.dtype))[..., None], stored) for g in grids]
    where += [enp.broadcast_to(at[..., k], stored) for k in range(at.shape[-1])]
    b, n = len(lb), len(lb) + len(lf)
    batch = LETTERS[: len(stored)]
    letters = LETTERS[len(stored) :]
    names = letters[: len(shape)]
    contracted = letters[len(shape) : len(shape) + len(lc)]
    left = tuple(where[: min(n, used)])
    right = (*where[: min(b, used)], *where[n:used])
    g = x.at[left].get(mode="fill", fill_value=0) if left else x
    h = y.at[right].get(mode="fill", fill_value=0) if right else y
    of_x = (batch if left else "") + names[min(n, used) : n] + contracted
    of_y = (batch if right else "") + names[min(b, used) : b] + names[max(n, used) :] + contracted
    return (
        enp.einsum(f"{of_x},{of_y}->{batch}{names[used:]}", g, h)
        if left or right
        else enp.broadcast_to(enp.einsum(f"{of_x},{of_y}->{names}", g, h), (*stored, *dense))
    )
