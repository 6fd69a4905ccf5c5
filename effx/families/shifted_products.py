"""Convolutions in groups in which few products make an element, or few elements are made: the form for CPUs.

With the position k in the kernel, the group g, and for each of its features i of lhs and r of the result,

    result[n, p, g r] = sum over k and i of lhs[n, p * stride + k * dilation, g i] * kernel[k, i, g r]

is a sum of slices of the padded lhs, each times a row of the kernel. XLA:CPU makes one loop of all these, and LLVM
vectorizes it along the last axis. Its own convolution in groups (YNNPACK's, of jaxlib 0.12) goes from element to element.

The cotangent of such a kernel is a convolution in groups of the batch, by the result's cotangent as a large kernel: for
each of the few positions a sum of products of slices, over all axes but that of the groups.

Times of jax, which leaves both to XLA, over those of this form, float32[8, 56, 56, 64] and kernels of 3 x 3 on 2 shared
cores of an AMD EPYC with AVX-512, November 2026, the smallest of six alternated runs: value 31, with stride 2 23, cotangent
of lhs 48, with stride 2 118, of the kernel 4.5 (the median is 11).
"""

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np

from effx.handling import ArrayType, Body, array_type
from effx.ir.sizes.dimensions import has_symbolic
from effx.lower.text import sizes

__all__ = ["Geometry", "emit_shifted_products", "emit_shifted_sums", "has_few_products", "has_few_sums"]

# More terms, and more sums, are left to XLA. 128 take 0.5 s to compile, 49 take 0.15 s; a kernel of 7 x 7 is 30 times as
# fast as in jax, one of 128 elements along one axis 12 times.
MAX_TERMS = 128
MAX_SUMS = 128
# A loop adds so many terms: in one of 81 they cost no more, in one of 128 ten times as much.
TERMS_IN_LOOP = 49
# With more features of lhs in a group, what does not fit into one loop is left to dense products.
FEW_FEATURES = 4
# So many features of the result come of one of lhs's; with more, a dense product is worth its while.
MAX_REPEATS = 64
# A loop adds so many elements of each of so many sums: more of either, and LLVM neither unrolls nor vectorizes it. Of 9 sums
# loops over 8, 14, 28 and 56 elements take 1.2, 3.1, 3.2 and 4.0 ms; of 25 sums 13 over 8.
BLOCK = 8
SUMS_IN_LOOP = 9


class Geometry(Protocol):
    """What is asked of a convolution that neither pads nor dilates lhs; see `effx.families.convolution`."""

    @property
    def strides(self) -> tuple[int, ...]:
        """By how much the kernel moves."""

    @property
    def rhs_dilation(self) -> tuple[int, ...]:
        """The distances of the kernel's elements."""

    @property
    def lhs_axes(self) -> tuple[int, ...]:
        """Batch, features and spatial axes of lhs."""

    @property
    def rhs_axes(self) -> tuple[int, ...]:
        """Features of the result, features of lhs, and spatial axes of rhs."""

    @property
    def out_axes(self) -> tuple[int, ...]:
        """Batch, features and spatial axes of the result."""

    @property
    def feature_groups(self) -> int:
        """The number of groups of features."""

    @property
    def batch_groups(self) -> int:
        """The number of groups of the batch."""


def has_few_products(op: Geometry, kernel: ArrayType) -> bool:
    """Says whether few products make each element of the result, which has features in groups."""
    o, i, *window = [kernel.shape[a] for a in op.rhs_axes]
    if op.feature_groups == 1 or has_symbolic(kernel.shape):
        return False
    most = MAX_TERMS if i <= FEW_FEATURES else TERMS_IN_LOOP
    return prod(window) * i <= most and o // op.feature_groups <= MAX_REPEATS


def has_few_sums(op: Geometry, lhs: ArrayType, kernel: ArrayType, out: ArrayType) -> bool:
    """Says whether there are few elements of the result for each group of the batch: each is a sum over lhs."""
    if op.batch_groups == 1 or has_symbolic((*lhs.shape, *kernel.shape)):
        return False
    return out.size <= MAX_SUMS * op.batch_groups


def _slice_axes(
    body: Body, x: str, t: ArrayType, ranges: dict[int, tuple[int, int, int]]
) -> tuple[str, ArrayType]:
    """Writes a slice of x: for some axes the start, the number of elements and the step."""
    start, limit, steps, shape = [0] * t.ndim, list(t.shape), [1] * t.ndim, list(t.shape)
    for axis, (first, count, step) in ranges.items():
        start[axis], limit[axis], steps[axis], shape[axis] = (
            first,
            first + (count - 1) * step + 1,
            step,
            count,
        )
    out = t.with_shape(tuple(shape))
    if out.shape == t.shape:
        return x, t
    return sizes.static_slice(body, x, t, out, start=start, limit=limit, strides=steps), out


def _transpose(body: Body, x: str, t: ArrayType, order: Sequence[int]) -> tuple[str, ArrayType]:
    if list(order) == list(range(t.ndim)):
        return x, t
    out = t.with_shape(tuple([t.shape[a] for a in order]))
    return body.line(f"stablehlo.transpose {x}, dims = {list(order)} : ({t.mlir}) -> {out.mlir}"), out


# Products are added from the first position on, as in XLA's own convolution, with one rounding each. Only of the first two
# either is the one that is rounded by itself: so a tenth of results in float32 differ in the last bit, with equal errors.
def emit_shifted_products(
    body: Body, op: Geometry, x: str, t: ArrayType, kernel: str, u: ArrayType, out: ArrayType
) -> str:
    """Writes a convolution for which `has_few_products`; x is padded, and out the type of sums."""
    groups = op.feature_groups
    _, i, *window = [u.shape[a] for a in op.rhs_axes]
    repeats = u.shape[op.rhs_axes[0]] // groups
    feature = op.out_axes[1]
    split = (groups, repeats) if repeats > 1 else (groups,)
    spread = out.with_shape((*out.shape[:feature], *split, *out.shape[feature + 1 :]))
    order = [op.lhs_axes[op.out_axes.index(a)] for a in range(out.ndim)]
    one_each = [a + (repeats > 1 and a > feature) for a in range(out.ndim)]
    # Else padding would be a branch for each factor, which takes 6 times as long.
    (x,) = body.barrier((x, t))
    kernel, u = body.convert(kernel, u, u.with_dtype(out.dtype)), u.with_dtype(out.dtype)
    total, terms = "", 0
    for position in np.ndindex(*window):
        ranges = {
            a: (p * d, out.shape[b], s)
            for a, b, p, d, s in zip(
                op.lhs_axes[2:], op.out_axes[2:], position, op.rhs_dilation, op.strides, strict=True
            )
        }
        at = {a: (p, 1, 1) for a, p in zip(op.rhs_axes[2:], position, strict=True)}
        for k in range(i):
            part, v = _slice_axes(body, x, t, {**ranges, op.lhs_axes[1]: (k, groups, i)})
            part, v = _transpose(body, part, v, order)
            part, v = body.convert(part, v, v.with_dtype(out.dtype)), v.with_dtype(out.dtype)
            if repeats > 1:
                part = sizes.broadcast_in_dim(body, part, v, spread, one_each)
            weights, w = _slice_axes(body, kernel, u, {**at, op.rhs_axes[1]: (k, 1, 1)})
            row = w.with_shape(split)
            weights = sizes.reshape(body, weights, w, row)
            weights = sizes.broadcast_in_dim(body, weights, row, spread, range(feature, feature + len(split)))
            product = body.line(f"stablehlo.multiply {part}, {weights} : {spread.mlir}")
            total = body.line(f"stablehlo.add {total}, {product} : {spread.mlir}") if total else product
            terms += 1
            if terms % TERMS_IN_LOOP == 0 and terms < i * prod(window):
                (total,) = body.barrier((total, spread))
    return sizes.reshape(body, total, spread, out)


def _choose_block(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, int]:
    """Returns how many elements of which axis are added in one loop; 1 for no such axis."""
    return max([(n, a) for a in axes for n in range(1, BLOCK + 1) if shape[a] % n == 0], default=(1, 0))


# Sums of 8 products, one axis after the other, and then sums of these: of 25,088 products in float32 the error is at most
# 9e-5, where it is 2.7e-3 in XLA's convolution, which adds them all to one number.
def emit_shifted_sums(
    body: Body, op: Geometry, x: str, t: ArrayType, kernel: str, u: ArrayType, out: ArrayType
) -> str:
    """Writes a convolution for which `has_few_sums`; x is padded, and out the type of sums."""
    groups = op.batch_groups
    (n, _, *space), (o, _, *window) = op.lhs_axes, op.rhs_axes
    batch, repeats = t.shape[n] // groups, u.shape[o] // groups
    positions = [out.shape[a] for a in op.out_axes[2:]]
    order = [op.rhs_axes[op.lhs_axes.index(a)] for a in range(t.ndim)]
    terms = list(np.ndindex(*positions, batch, repeats))
    sums: list[str] = []
    vector = out.with_shape((groups,))
    for first in range(0, len(terms), SUMS_IN_LOOP):
        # Loops come one after another, so that each has the memory of the one before.
        x, kernel, *sums = body.barrier((x, t), (kernel, u), *[(y, vector) for y in sums])
        products = []
        v = t
        for *position, b, r in terms[first : first + SUMS_IN_LOOP]:
            ranges = {
                a: (p * s, u.shape[w], d)
                for a, w, p, s, d in zip(space, window, position, op.strides, op.rhs_dilation, strict=True)
            }
            part, v = _slice_axes(body, x, t, {**ranges, n: (b, groups, batch)})
            part = body.convert(part, v, v.with_dtype(out.dtype))
            weights, w = _slice_axes(body, kernel, u, {o: (r, groups, repeats)})
            weights, w = _transpose(body, weights, w, order)
            weights = body.convert(weights, w, w.with_dtype(out.dtype))
            v = v.with_dtype(out.dtype)
            products.append(body.line(f"stablehlo.multiply {part}, {weights} : {v.mlir}"))
        sums += _sum_products(body, products, v, n)
    return _stack_sums(body, op, sums, vector, out, (*positions, batch, repeats))


def _sum_products(body: Body, products: list[str], t: ArrayType, axis: int) -> list[str]:
    """Writes the sums of several arrays over all axes but one."""
    summed = [a for a in range(t.ndim) if a != axis]
    block, of = _choose_block(t.shape, [a for a in summed if a != t.ndim - 1])
    if block < 2:
        return _sum_together(body, products, t, summed)
    shape = t.shape
    apart = t.with_shape((*shape[:of], shape[of] // block, block, *shape[of + 1 :]))
    sums = _sum_together(body, [sizes.reshape(body, y, t, apart) for y in products], apart, [of + 1])
    v = t.with_shape((*shape[:of], shape[of] // block, *shape[of + 1 :]))
    zero, s = body.constant(0, array_type(t.dtype)), array_type(t.dtype).mlir
    return [
        body.line(
            f"stablehlo.reduce({y} init: {zero}) applies stablehlo.add across dimensions = {summed} : ({v.mlir}, {s}) "
            f"-> {t.with_shape((shape[axis],)).mlir}"
        )
        for y in sums
    ]


def _stack_sums(
    body: Body, op: Geometry, sums: list[str], t: ArrayType, out: ArrayType, shape: tuple[int, ...]
) -> str:
    """Writes the result of the sums for each group; shape: their spatial axes, the batch, and what repeats in a group."""
    row, whole = t.with_shape((1, *t.shape)), t.with_shape((len(sums), *t.shape))
    rows = [sizes.reshape(body, y, t, row) for y in sums]
    kinds = ", ".join([row.mlir] * len(rows))
    y = (
        body.line(f"stablehlo.concatenate {', '.join(rows)}, dim = 0 : ({kinds}) -> {whole.mlir}")
        if len(rows) > 1
        else rows[0]
    )
    apart = t.with_shape((*shape, *t.shape))
    y = sizes.reshape(body, y, whole, apart)
    space = len(shape) - 2
    order: list[int] = []
    for axis in range(out.ndim):
        role = op.out_axes.index(axis)
        order += [space] if role == 0 else [space + 2, space + 1] if role == 1 else [role - 2]
    y, v = _transpose(body, y, apart, order)
    return sizes.reshape(body, y, v, out)


def _sum_together(body: Body, products: Sequence[str], t: ArrayType, axes: Sequence[int]) -> list[str]:
    """Writes the sums over axes of several arrays of one type, in one loop, and what no later loop computes again."""
    s = array_type(t.dtype).mlir
    out = t.with_shape(tuple([n for a, n in enumerate(t.shape) if a not in axes]))
    k = len(products)
    zero = body.constant(0, array_type(t.dtype))
    region = " ".join(
        [
            f"^bb0({', '.join([f'%{side}{m}: {s}' for side in ('left', 'right') for m in range(k)])}):",
            *[f"%sum{m} = stablehlo.add %left{m}, %right{m} : {s}" for m in range(k)],
            f"stablehlo.return {', '.join([f'%sum{m}' for m in range(k)])} : {', '.join([s] * k)}",
        ]
    )
    names = body.block(
        f'"stablehlo.reduce"({", ".join([*products, *[zero] * k])}) ({{ {region} }}) '
        f"{{dimensions = array<i64: {', '.join(map(str, axes))}>}} "
        f": ({', '.join([*[t.mlir] * k, *[s] * k])}) -> ({', '.join([out.mlir] * k)})",
        k,
    )
    return list(body.barrier(*[(y, out) for y in names]))
