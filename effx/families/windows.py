"""Reductions over windows: a window moves along all axes, and its elements are combined at each position.

The tangent of an extreme element is that of the first one that equals it. So there is an operation that finds elements
by labels, and tangents are gathered with these.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, ClassVar, TypeVar, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import where
from effx.array.indexing import gather_along_axis
from effx.array.promotion import convert, zeros
from effx.array.shaping import reshape
from effx.errors import DTypeError, NoRuleError, ShapeError
from effx.families.convolution import count_positions, dilated_size
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Body,
    Cotangent,
    Linear,
    LinearOperand,
    Tangent,
    Var,
    Vmap,
    array_type,
    emits,
    jvp_rule,
    materialize,
    reference_rule,
    tangent_of,
    transpose_rule,
    vmap_rule,
)
from effx.ir.ops.base import check_arity, check_int_tuple, check_kind
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.ops.reduce import ReduceSum
from effx.ir.ops.shape import BroadcastInDim, Iota, Pad, Slice
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.passes.sharding_rules import merge_operand_axes
from effx.ir.program import Scalar
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import Shape, highest_value, lowest_value
from effx.ir.values.scalars import scalar
from effx.lower.text import sizes
from effx.lower.text.stablehlo.elementwise import COMPARE_KIND
from effx.lower.text.stablehlo.reduce import ORDER, choosing_region, loses_nan, symmetric_pair_lines

__all__ = [
    "ReduceWindowMax",
    "ReduceWindowMin",
    "ReduceWindowSum",
    "WindowArgMax",
    "WindowArgMin",
    "WindowReduction",
]

Data = np.ndarray[Any, Any]


@attrs.frozen
class WindowReduction(ArrayOperation):
    """Trait: combines the elements in a window, at each of its positions. StableHLO: reduce_window.

    Each attribute has one entry for each axis.

    Attributes:
        window: the window's sizes.
        strides: by how much it moves.
        low, high: how many neutral elements pad each axis before and after; negative ones crop.
        base_dilation, window_dilation: the distances of neighbouring elements of x and of the window.
    """

    window: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    strides: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    low: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    high: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    base_dilation: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    window_dilation: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    kinds: ClassVar[str] = "biuf"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The dtype of x, and for each axis the number of the window's positions."""
        check_arity(self, types, 1)
        return types[0].with_shape(self.positions(types[0]))

    def positions(self, t: ArrayType) -> tuple[int, ...]:
        """Returns the shape of the result."""
        check_kind(self, t, self.kinds)
        for field_name, values, least in (
            ("window", self.window, 1),
            ("strides", self.strides, 1),
            ("low", self.low, None),
            ("high", self.high, None),
            ("base_dilation", self.base_dilation, 1),
            ("window_dilation", self.window_dilation, 1),
        ):
            if len(values) != t.ndim:
                raise ShapeError(
                    f"{self.name}: {field_name} must have one entry for each of the {t.ndim} axes of {t!r}, got {values}"
                )
            if least is not None and any([v < least for v in values]):
                raise ShapeError(f"{self.name}: {field_name} must be at least {least}, got {values}")
        sizes = [
            low + dilated_size(n, b) + high
            for n, low, high, b in zip(t.shape, self.low, self.high, self.base_dilation, strict=True)
        ]
        spread = [dilated_size(w, d) for w, d in zip(self.window, self.window_dilation, strict=True)]
        return tuple([count_positions(n, w, s) for n, w, s in zip(sizes, spread, self.strides, strict=True)])

    def neutral(self, t: ArrayType) -> Scalar:
        """Returns the result of an empty window."""
        if isinstance(self, ReduceWindowSum):
            return 0
        return lowest_value(t) if isinstance(self, ReduceWindowMax | WindowArgMax) else highest_value(t)

    def covered(self, t: ArrayType) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
        """Yields for each position the indices of the elements in the window, in order."""
        for position in np.ndindex(*self.positions(t)):
            element_indices = []
            for offset in np.ndindex(*self.window):
                spots = [
                    divmod(p * s + k * d - low, b)
                    for p, s, k, d, low, b in zip(
                        position,
                        self.strides,
                        offset,
                        self.window_dilation,
                        self.low,
                        self.base_dilation,
                        strict=True,
                    )
                ]
                if all([not rest and 0 <= i < n for (i, rest), n in zip(spots, t.shape, strict=True)]):
                    element_indices.append(tuple([i for i, _ in spots]))
            yield position, element_indices

    def beside(self, axis: int) -> "WindowReduction":
        """Returns the operation for a batch along an axis: a window of one element."""
        return attrs.evolve(
            self,
            **{
                f.name: (*value[:axis], 0 if f.name in ("low", "high") else 1, *value[axis:])
                for f in attrs.fields(type(self))
                for value in (getattr(self, f.name),)
            },
        )


@final
@attrs.frozen
class ReduceWindowSum(WindowReduction, Linear):
    """The sum; 0 for an empty window."""

    kinds: ClassVar[str] = "iufc"


@final
@attrs.frozen
class ReduceWindowMax(WindowReduction):
    """The largest element, NaN if there is one; the smallest value of the dtype for an empty window."""


@final
@attrs.frozen
class ReduceWindowMin(WindowReduction):
    """The smallest element, NaN if there is one; the largest value of the dtype for an empty window."""


@attrs.frozen
class WindowArg(WindowReduction):
    """Trait: the label of the extreme element in each window, of equal ones the smallest label.

    Operands: x, and integers of its shape, its labels; along an axis of size 1 they are repeated. The label is the largest
    integer for an empty window. NaN is the most extreme.
    """

    def infer(self, *types: ArrayType) -> ArrayType:
        """The labels' dtype, and for each axis the number of the window's positions."""
        check_arity(self, types, 2)
        x, labels = types
        fits = labels.ndim == x.ndim and all(
            [m in (1, n) for m, n in zip(labels.shape, x.shape, strict=True)]
        )
        if not fits or not dtypes.is_integer(labels.dtype):
            raise DTypeError(f"{self.name}: labels must be integers of the shape of x, {x!r}, got {labels!r}")
        return labels.with_shape(self.positions(x))


@final
@attrs.frozen
class WindowArgMax(WindowArg):
    """The label of the largest element."""


@final
@attrs.frozen
class WindowArgMin(WindowArg):
    """The label of the smallest element."""


def _unit_axes(op: WindowReduction) -> list[bool]:
    """Returns for each axis whether the window is one element that moves over all elements of x."""
    return [
        (w, s, a, b, d) == (1, 1, 0, 0, 1)
        for w, s, a, b, d in zip(op.window, op.strides, op.low, op.high, op.base_dilation, strict=True)
    ]


@sharding_rule(WindowReduction)
def infer_window_sharding(op: WindowReduction, shardings: OperandShardings) -> list[DimensionShardings]:
    """Sharded as the operands, along axes where the window is one element; others must be replicated."""
    still = _unit_axes(op)
    for k in range(len(shardings.types)):
        shardings.require_unsharded(
            k, [i for i, is_unit in enumerate(still) if not is_unit], "along which a window moves"
        )
    cuts = merge_operand_axes(shardings, range(len(shardings.types)), len(still))
    return [tuple([cut if is_unit else () for cut, is_unit in zip(cuts, still, strict=True)])]


tangent_of(ReduceWindowSum)(lambda op, dx, x, y: op(dx))


@transpose_rule(ReduceWindowSum)
def _(op: ReduceWindowSum, ct: Array, operands: tuple[Array | LinearOperand, ...]) -> tuple[Cotangent, ...]:
    # As for the lhs of a convolution: an element is in the window at k where ct, dilated by the strides, is
    # k * window_dilation before it; the window is its own mirror image.
    t = operands[0].type
    if 0 in ct.type.shape or 0 in t.shape:
        return (zeros(t),)
    window_sizes = [dilated_size(w, d) for w, d in zip(op.window, op.window_dilation, strict=True)]
    ct_sizes = [dilated_size(m, s) for m, s in zip(ct.type.shape, op.strides, strict=True)]
    dilated_sizes = [dilated_size(n, b) for n, b in zip(t.shape, op.base_dilation, strict=True)]
    low = [w - 1 - before for w, before in zip(window_sizes, op.low, strict=True)]
    high = [n + w - 1 - m - a for n, w, m, a in zip(dilated_sizes, window_sizes, ct_sizes, low, strict=True)]
    # XLA:CPU adds zeros that are written once faster than it skips elements.
    padded = Pad(tuple(low), tuple(high), tuple([n - 1 for n in op.strides]))(ct, scalar(0, t.dtype))
    none, ones = (0,) * t.ndim, (1,) * t.ndim
    return (ReduceWindowSum(op.window, op.base_dilation, none, none, ones, op.window_dilation)(padded),)


@jvp_rule(ReduceWindowMax, ReduceWindowMin)
def jvp_extreme_window(
    op: WindowReduction, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """The tangent of the first element that is the extreme; zero for an empty window."""
    (x,), (dx,) = primals, tangents
    y = op(x)
    assert dx is not None
    if 0 in x.type.shape or 0 in y.type.shape:
        return y, None
    moving = [i for i, is_unit in enumerate(_unit_axes(op)) if not is_unit]
    if not moving:
        return y, dx
    # Elements are labelled along these axes only, so that the others may be batches, and sharded.
    first, last = moving[0], moving[-1] + 1
    shape, out = x.type.shape, y.type.shape
    sizes = shape[first:last]
    n = prod(sizes)
    dtype = dtypes.int32 if n < 2**31 else dtypes.int64
    labels = reshape(Iota(array_type(dtype, (n,)), 0)(), (*[1] * first, *sizes, *[1] * (x.type.ndim - last)))
    finds = WindowArgMax if isinstance(op, ReduceWindowMax) else WindowArgMin
    arg = finds(op.window, op.strides, op.low, op.high, op.base_dilation, op.window_dilation)
    extreme_labels = arg(x, labels)
    if _meets_few_windows(op, x.type):
        return y, _select_labelled(op, dx, extreme_labels, first, last)
    at = reshape(extreme_labels, (*out[:first], -1, *out[last:]))
    tangents_along = reshape(dx, (*shape[:first], -1, *shape[last:]))
    extreme_tangents = where(
        at < n, gather_along_axis(tangents_along, at, first), 0
    )  # only the label of an empty window is n or more
    return y, reshape(extreme_tangents, out)


# The cotangent of an element is a sum of so many selections at most; if it may be in more windows, cotangents are scattered.
# Of windows of 2 x 2 and 3 x 3 that move by 2, on float32[8, 56, 56, 64], value and gradient take 0.3 and 1.2 ms on 2 cores
# of an AMD EPYC (November 2026), where scattered ones took 9 and 19, and jax takes 25 and 45. The numbers are the same to
# the last bit: the selections of an element are added in the order of its windows, as the scatter adds them.
MAX_SHIFTS = 16


def _meets_few_windows(op: WindowReduction, t: ArrayType) -> bool:
    """Says whether each element is in few windows, which are at constant distances from it."""
    shifts = prod(
        [
            -(-dilated_size(w, d) // s)
            for w, d, s in zip(op.window, op.window_dilation, op.strides, strict=True)
        ]
    )
    attributes = (*op.window, *op.window_dilation, *op.strides, *op.low, *op.high)
    if has_symbolic((*t.shape, *attributes)) or any([n > 1 for n in op.base_dilation]):
        return False
    is_cropped = any([n <= -min(a, b, 0) for n, a, b in zip(t.shape, op.low, op.high, strict=True)])
    return shifts <= MAX_SHIFTS and not is_cropped


def _select_labelled(op: WindowReduction, dx: Array, labels: Array, first: int, last: int) -> Array:
    """Returns for each window the element of dx whose label it has, 0 for none.

    Along an axis a window that moves by s, and whose spread is at most m * s, takes parts of m blocks of s elements. So
    block b has elements of windows b - q, for q < m, alone. All elements of a block are compared with the label of window
    b - q at once, and the block's sum is the one that was selected. Backwards these sums are broadcasts.
    """
    t, out = dx.type, labels.type
    wide = t.dtype if t.dtype.itemsize > 2 else dtypes.float32
    moves = list(zip(op.window, op.window_dilation, op.strides, strict=True))
    reach = [-(-dilated_size(w, d) // s) for w, d, s in moves]
    blocks = [n + m - 1 for n, m in zip(out.shape, reach, strict=True)]
    low, none = op.low, (0,) * t.ndim
    high = tuple([k * s - n - a for k, s, n, a in zip(blocks, op.strides, t.shape, low, strict=True)])
    elements = Pad(low, high, none)(convert(dx, wide), scalar(0, wide))
    # The axes of blocks, and behind each that of a block's elements, if it has several.
    split: list[int] = []
    outer, inner = [], []
    for k, n in zip(blocks, op.strides, strict=True):
        outer.append(len(split))
        split.append(k)
        if n > 1:
            inner.append(len(split))
            split.append(n)
    elements = reshape(elements, split)
    # Padding has labels of elements too, and is zero.
    own: Array = scalar(0, out.dtype)
    size = 1
    for i in reversed(range(first, last)):
        along = (Iota(array_type(out.dtype, (blocks[i] * op.strides[i],)), 0)() - low[i]) * size
        axes = tuple(range(outer[i], outer[i + 1] if i + 1 < t.ndim else len(split)))
        own = BroadcastInDim(tuple(split), axes)(reshape(along, [split[a] for a in axes])) + own
        size *= t.shape[i]
    edge = tuple([m - 1 for m in reach])
    around = Pad(edge, edge, none)(labels, scalar(-1, out.dtype)) if any(edge) else labels
    # Else XLA:CPU would find the label again for each element of a block.
    (around,) = OptimizationBarrier()(around)
    total: Array | None = None
    for shift in np.ndindex(*reach):
        of_window = _slice_from(around, [a - q for a, q in zip(edge, shift, strict=True)], blocks)
        is_chosen = BroadcastInDim(tuple(split), tuple(outer))(of_window) == own
        sums = ReduceSum(tuple(inner))(where(is_chosen, elements, scalar(0, wide)))
        sums = _slice_from(sums, shift, out.shape)
        total = sums if total is None else total + sums
    assert total is not None
    return convert(total, t.dtype)


def _slice_from(x: Array, start: Sequence[int], shape: Sequence[int]) -> Array:
    """Returns the block of a shape that begins at an index."""
    limit = tuple([a + n for a, n in zip(start, shape, strict=True)])
    return Slice(tuple(start), limit, (1,) * x.type.ndim)(x)


@jvp_rule(WindowArg)
def _(op: WindowArg, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    return op(*primals), None


@vmap_rule(WindowReduction)
def _(
    handler: Vmap, op: WindowReduction, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int]:
    front = next(a for a in axes if a is not None)
    return op.beside(front)(
        *[materialize(handler, x, a, front) for x, a in zip(values, axes, strict=True)]
    ), front


@reference_rule(WindowReduction)
def _(op: WindowReduction, x: Data) -> Data:
    t = array_type(x.dtype, x.shape)
    result = np.zeros(op.positions(t), x.dtype)
    for position, indices in op.covered(t):
        values = np.asarray([x[i] for i in indices], x.dtype)
        if isinstance(op, ReduceWindowSum):
            wide = values.astype(np.float64) if x.dtype.kind in "fV" else values
            result[position] = wide.sum(dtype=wide.dtype)
        elif indices:
            result[position] = values.max() if isinstance(op, ReduceWindowMax) else values.min()
        else:
            result[position] = op.neutral(t)
    return result


@reference_rule(WindowArg)
def _(op: WindowArg, x: Data, labels: Data) -> Data:
    t = array_type(x.dtype, x.shape)
    result = np.full(op.positions(t), dtypes.iinfo(labels.dtype).max, labels.dtype)
    labels = np.broadcast_to(labels, x.shape)
    for position, indices in op.covered(t):
        values = [x[i] for i in indices]
        candidates = [i for i, v in zip(indices, values, strict=True) if v != v]
        if indices and not candidates:
            best = max(values) if isinstance(op, WindowArgMax) else min(values)
            candidates = [i for i, v in zip(indices, values, strict=True) if v == best]
        if candidates:
            result[position] = min([labels[i] for i in candidates])
    return result


def _attributes(op: WindowReduction) -> str:
    arrays = {
        "window_dimensions": op.window,
        "window_strides": op.strides,
        "base_dilations": op.base_dilation,
        "window_dilations": op.window_dilation,
    }
    padding = [[low, high] for low, high in zip(op.low, op.high, strict=True)]
    parts = [f"{name} = array<i64: {', '.join(map(str, values))}>" for name, values in arrays.items()]
    return f"{', '.join(parts)}, padding = dense<{padding}> : tensor<{len(padding)}x2xi64>"


W = TypeVar("W", WindowReduction, WindowArg)


def _emit_symbolic_padding(
    body: Body, operands: Sequence[tuple[str, ArrayType, str]], op: W
) -> tuple[list[tuple[str, ArrayType]], W]:
    """Writes symbolic amounts of padding in front of a reduction that then adds none.

    Args:
        body: where to write.
        operands: names and types, and the names of the scalars that are put around them.
        op: the reduction.
    """
    if has_symbolic(op.window):
        raise NoRuleError(f"{op.name}: XLA takes no windows of symbolic sizes, got {list(op.window)}")
    if not has_symbolic((*op.low, *op.high)):
        return [(x, t) for x, t, _ in operands], op
    interior = tuple([n - 1 for n in op.base_dilation])
    padded_operands = []
    for x, t, around in operands:
        out = Pad(op.low, op.high, interior).infer(t, array_type(t.dtype))
        padded_operands.append(
            (sizes.pad(body, x, t, around, out, low=op.low, high=op.high, interior=interior), out)
        )
    none, ones = (0,) * len(op.low), (1,) * len(op.low)
    return padded_operands, attrs.evolve(op, low=none, high=none, base_dilation=ones)


@emits(WindowReduction)
def _(body: Body, op: WindowReduction, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    (x,), (y,) = inputs, outputs
    start = op.neutral(x.type)
    combine = (
        "add"
        if isinstance(op, ReduceWindowSum)
        else "maximum"
        if isinstance(op, ReduceWindowMax)
        else "minimum"
    )
    if not op.window or 0 in x.type.shape or 0 in y.type.shape:
        return body.name(x) if not op.window else body.constant(start, y.type)
    scalar = array_type(x.type.dtype)
    first = body.constant(start, scalar)
    s = scalar.mlir
    if combine in ORDER and _is_compared_by_shifts(body, op, x.type):
        return _combine(body, combine, list(_emit_shifts(body, op, x, x.type.shape, y.type, first)), y.type)
    padded_operands, op = _emit_symbolic_padding(body, [(body.name(x), x.type, first)], op)
    ((name, t),) = padded_operands
    chooses = combine in ORDER and loses_nan(body, t)
    region = (
        choosing_region(combine, t)
        if chooses
        else f"^bb0(%a: {s}, %b: {s}): %c = stablehlo.{combine} %a, %b : {s} stablehlo.return %c : {s}"
    )
    result = body.line(
        f'"stablehlo.reduce_window"({name}, {first}) ({{ {region} }}) {{{_attributes(op)}}} '
        f": ({t.mlir}, {s}) -> {y.type.mlir}"
    )
    # As in `reduce.HALVED`: fused with a conversion to bfloat16, windows of 30 elements compiled for 14 s, of 32 never.
    return body.barrier((result, y.type))[0] if chooses else result


@emits(WindowArg)
def _(body: Body, op: WindowArg, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    (x, labels), (y,) = inputs, outputs
    none = highest_value(labels.type)
    if 0 in x.type.shape or 0 in y.type.shape:
        return body.constant(none, y.type)
    if not op.window:
        return body.name(labels)
    largest = isinstance(op, WindowArgMax)
    s, k = array_type(x.type.dtype), array_type(labels.type.dtype)
    starts = body.constant(op.neutral(x.type), s), body.constant(none, k)
    if _is_compared_by_shifts(body, op, x.type):
        return _emit_shifted_labels(body, op, inputs, starts, y.type)
    all_labels = labels.type.with_shape(x.type.shape)
    labels_name = body.name(labels)
    if labels.type.shape != x.type.shape:
        labels_name = sizes.broadcast_in_dim(
            body, labels_name, labels.type, all_labels, range(all_labels.ndim)
        )
    operands = [(body.name(x), x.type, starts[0]), (labels_name, all_labels, starts[1])]
    padded_operands, op = _emit_symbolic_padding(body, operands, op)
    (x_name, x_type), (labels_name, labels_type) = padded_operands
    input_types = f"({x_type.mlir}, {labels_type.mlir}"
    region = "\n      ".join(symmetric_pair_lines(s, k, largest))
    name = body.line(
        f'"stablehlo.reduce_window"({x_name}, {labels_name}, {starts[0]}, {starts[1]}) ({{\n      {region}\n'
        f"    }}) {{{_attributes(op)}}} : {input_types}, {s.mlir}, {k.mlir}) "
        f"-> ({x.type.with_shape(y.type.shape).mlir}, {y.type.mlir})",
        2,
    )
    return f"{name}#1"


# XLA:CPU goes through windows element by element. Arrays shifted by each element of the window are compared by vectors, up
# to so many: the largest elements of windows of 3 x 3 take 0.28 of jax's time, of 2 x 2 half, and their labels a twentieth.
MAX_COMPARED = 25


def _is_compared_by_shifts(body: Body, op: WindowReduction, t: ArrayType) -> bool:
    attributes = (*t.shape, *op.low, *op.high, *op.base_dilation, *op.window_dilation, *op.strides)
    if body.module.platform != "cpu" or has_symbolic(attributes):
        return False
    return prod(op.window) <= MAX_COMPARED and dtypes.bits(t.dtype) >= 8 and t.dtype not in dtypes.TINY_FLOATS


def _emit_shifts(
    body: Body, op: WindowReduction, v: Atom, shape: Shape, out: ArrayType, start: str
) -> Iterator[str]:
    """Writes, for each element of the window, the elements of v under it at all positions, and yields their names.

    Args:
        v: an array, or one with axes of size 1 where the window does not move. shape: that of the array.
        out: the result's type. start: the scalar that is put around v.
    """
    x, t, moves = body.name(v), v.type, [not is_unit for is_unit in _unit_axes(op)]
    whole = t.with_shape(tuple([n if m else k for n, k, m in zip(shape, t.shape, moves, strict=True)]))
    if whole.shape != t.shape:
        x, t = sizes.broadcast_in_dim(body, x, t, whole, range(t.ndim)), whole
    interior = tuple([n - 1 for n in op.base_dilation])
    if any([*op.low, *op.high, *interior]):
        around = Pad(op.low, op.high, interior).infer(t, array_type(t.dtype))
        x = sizes.pad(body, x, t, start, around, low=op.low, high=op.high, interior=interior)
        t = around
    (x,) = body.barrier((x, t))
    counts = [n if m else k for n, k, m in zip(out.shape, t.shape, moves, strict=True)]
    part, full = t.with_shape(tuple(counts)), t.with_shape(out.shape)
    for offset in np.ndindex(*op.window):
        first = [k * d for k, d in zip(offset, op.window_dilation, strict=True)]
        limit = [a + (n - 1) * s + 1 for a, n, s in zip(first, counts, op.strides, strict=True)]
        y = sizes.static_slice(body, x, t, part, start=first, limit=limit, strides=op.strides)
        yield y if part.shape == full.shape else sizes.broadcast_in_dim(body, y, part, full, range(full.ndim))


def _emit_shifted_labels(
    body: Body, op: WindowArg, inputs: tuple[Atom, ...], starts: tuple[str, str], out: ArrayType
) -> str:
    """Writes the smallest label of the elements that equal the extreme one, or are NaN, which then is extreme."""
    shape, t = inputs[0].type.shape, inputs[0].type.with_shape(out.shape)
    values, labels = [
        list(_emit_shifts(body, op, v, shape, out, start)) for v, start in zip(inputs, starts, strict=True)
    ]
    extreme = _combine(body, "maximum" if isinstance(op, WindowArgMax) else "minimum", values, t)
    flags = array_type(dtypes.bool_, out.shape).mlir
    none = body.constant(highest_value(out), out)

    def compare(test: str, x: str, y: str) -> str:
        kinds = f"({t.mlir}, {t.mlir})"
        return body.line(f"stablehlo.compare {test}, {x}, {y}, {COMPARE_KIND[t.kind]} : {kinds} -> {flags}")

    chosen = []
    for x, label in zip(values, labels, strict=True):
        is_extreme = compare("EQ", x, extreme)
        if t.kind == "f":
            is_extreme = body.line(f"stablehlo.or {is_extreme}, {compare('NE', x, x)} : {flags}")
        chosen.append(body.line(f"stablehlo.select {is_extreme}, {label}, {none} : {flags}, {out.mlir}"))
    return _combine(body, "minimum", chosen, out)


def _combine(body: Body, operation: str, parts: Sequence[str], t: ArrayType) -> str:
    total = parts[0]
    for part in parts[1:]:
        total = body.line(f"stablehlo.{operation} {total}, {part} : {t.mlir}")
    return total
