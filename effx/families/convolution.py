"""Convolutions: sums of products with a kernel that is moved along the spatial axes.

Both transposes and all batches of a convolution are again a convolution.
"""

from math import prod
from typing import Any, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.arithmetic import imag, real
from effx.array.promotion import convert, zeros
from effx.array.shaping import concatenate, moveaxis, reshape
from effx.dtypes import DType
from effx.errors import DTypeError, ShapeError
from effx.families.shifted_products import (
    emit_shifted_products,
    emit_shifted_sums,
    has_few_products,
    has_few_sums,
)
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Body,
    Cotangent,
    LinearOperand,
    Tangent,
    Var,
    Vmap,
    array_type,
    emits,
    jvp_rule,
    reference_rule,
    transpose_rule,
    vmap_rule,
)
from effx.ir.ops import shape as s
from effx.ir.ops.base import check_arity, check_int, check_int_tuple, check_kind
from effx.ir.ops.elementwise import Complex
from effx.ir.ops.linalg import PRECISIONS
from effx.ir.ops.shape import Reverse
from effx.ir.passes.sharding_propagation import (
    DimensionShardings,
    MeshAxisNames,
    OperandShardings,
    sharding_rule,
)
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.sizes.division import maximum
from effx.lower.text import sizes
from effx.lower.text.emit import emit_form
from effx.lower.text.stablehlo.sharding import emit_replicated_axes, is_partitioned
from effx.lower.text.sum_types import name_operands

__all__ = ["Convolution", "count_positions", "dilated_size"]

Data = np.ndarray[Any, Any]
Operand = Array | LinearOperand


def dilated_size(size: int, dilation: int) -> int:
    """Returns the size of an axis after `dilation - 1` elements are inserted between its own."""
    return size if dilation == 1 else maximum((size - 1) * dilation + 1, 0)


def count_positions(size: int, window: int, stride: int) -> int:
    """Returns at how many positions a window fits into an axis."""
    return maximum((size - window) // stride + 1, 0)


@final
@attrs.frozen
class Convolution(ArrayOperation):
    """Sums products of lhs and a kernel moved along it, over features and kernel positions. StableHLO: convolution.

    Operands: lhs, and the kernel rhs; the kernel is not reversed.

    Attributes:
        strides: by how much the kernel moves, for each spatial axis.
        low, high: how many zeros pad each spatial axis of lhs before and after; negative ones crop.
        lhs_dilation, rhs_dilation: distances of neighbouring elements along each spatial axis.
        lhs_axes: the axes of lhs: batch, features, then the spatial ones.
        rhs_axes: the axes of rhs: features of the result, features of lhs, then the spatial ones.
        out_axes: the axes of the result: batch, features, then the spatial ones.
        feature_groups: the features of lhs and of the result are in so many groups, convolved one by one.
        batch_groups: the batch of lhs and the features of the result are, likewise.
        precision: of lhs and rhs, each "DEFAULT", "HIGH" or "HIGHEST"; CPUs compute in full anyway.
        preferred: the dtype of the sums and of the result; None for the operands' own.
    """

    strides: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    low: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    high: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    lhs_dilation: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    rhs_dilation: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    lhs_axes: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    rhs_axes: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    out_axes: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    feature_groups: int = attrs.field(default=1, validator=check_int)
    batch_groups: int = attrs.field(default=1, validator=check_int)
    precision: tuple[str, str] = attrs.field(
        default=("DEFAULT", "DEFAULT"),
        validator=attrs.validators.deep_iterable(attrs.validators.in_(PRECISIONS)),
    )
    preferred: DType | None = None

    def infer(self, *types: ArrayType) -> ArrayType:
        """Batch and features by the groups, and for each spatial axis the number of positions of the kernel."""
        check_arity(self, types, 2)
        lhs, rhs = types
        check_kind(self, lhs, "biufc", "lhs")
        if lhs.dtype != rhs.dtype:
            raise DTypeError(f"convolution: operand dtypes differ: lhs is {lhs!r}, rhs is {rhs!r}")
        self._check_axes(lhs, rhs)
        n, c, *space = [lhs.shape[i] for i in self.lhs_axes]
        o, i, *window = [rhs.shape[i] for i in self.rhs_axes]
        self._check_groups(lhs, rhs, n, c, o, i)
        shape = [0] * lhs.ndim
        shape[self.out_axes[0]], shape[self.out_axes[1]] = n // self.batch_groups, o
        for j, axis in enumerate(self.out_axes[2:]):
            if window[j] < 1:
                raise ShapeError(f"convolution: rhs must have elements along its spatial axes, got {rhs!r}")
            size = self.low[j] + dilated_size(space[j], self.lhs_dilation[j]) + self.high[j]
            if size < 0:
                raise ShapeError(
                    f"convolution: padding {(self.low[j], self.high[j])} cuts off more than spatial axis {j} of "
                    f"lhs {lhs!r} has"
                )
            shape[axis] = count_positions(
                size, dilated_size(window[j], self.rhs_dilation[j]), self.strides[j]
            )
        if self.preferred is not None:
            return array_type(self.preferred, tuple(shape))
        return array_type(lhs.dtype, tuple(shape), lhs.weak and rhs.weak)

    def _check_axes(self, lhs: ArrayType, rhs: ArrayType) -> None:
        if lhs.ndim != rhs.ndim or lhs.ndim < 2:
            raise ShapeError(
                f"convolution: operands must have equal ranks of at least 2, got lhs {lhs!r} and rhs {rhs!r}"
            )
        for side, axes in (("lhs", self.lhs_axes), ("rhs", self.rhs_axes), ("result", self.out_axes)):
            if sorted(axes) != list(range(lhs.ndim)):
                raise ShapeError(
                    f"convolution: {side} axes {axes} must name each of the {lhs.ndim} axes once"
                )
        for side, values, least in (
            ("strides", self.strides, 1),
            ("low", self.low, None),
            ("high", self.high, None),
            ("lhs_dilation", self.lhs_dilation, 1),
            ("rhs_dilation", self.rhs_dilation, 1),
        ):
            if len(values) != lhs.ndim - 2:
                raise ShapeError(
                    f"convolution: {side} must have one entry for each of the {lhs.ndim - 2} spatial axes of "
                    f"lhs {lhs!r}, got {values}"
                )
            if least is not None and any([v < least for v in values]):
                raise ShapeError(f"convolution: {side} must be at least {least}, got {values}")

    def _check_groups(self, lhs: ArrayType, rhs: ArrayType, n: int, c: int, o: int, i: int) -> None:
        groups, batches = self.feature_groups, self.batch_groups
        if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
            raise ShapeError(
                f"convolution: feature_groups and batch_groups must be positive, and one of them 1, "
                f"got {groups} and {batches}"
            )
        if c != groups * i:
            raise ShapeError(
                f"convolution: lhs {lhs!r} has {c} features, rhs {rhs!r} takes {i} in each of {groups} groups"
            )
        if n % batches:
            raise ShapeError(
                f"convolution: the batch of lhs {lhs!r}, {n}, does not divide into {batches} groups"
            )
        if o % (groups * batches):
            raise ShapeError(
                f"convolution: the result's features in rhs {rhs!r}, {o}, do not divide into {groups * batches} groups"
            )

    def split_padding(self) -> "tuple[s.Pad, Convolution]":
        """Returns what adds the zeros around and between the elements of lhs, and the convolution of its result."""
        low, high, interior = ([0] * len(self.lhs_axes) for _ in range(3))
        for i, axis in enumerate(self.lhs_axes[2:]):
            low[axis], high[axis], interior[axis] = self.low[i], self.high[i], self.lhs_dilation[i] - 1
        none, ones = (0,) * len(self.low), (1,) * len(self.low)
        unpadded = attrs.evolve(self, low=none, high=none, lhs_dilation=ones)
        return s.Pad(tuple(low), tuple(high), tuple(interior)), unpadded


@sharding_rule(Convolution)
def infer_convolution_sharding(op: Convolution, shardings: OperandShardings) -> list[DimensionShardings]:
    """Sharded as the batch of lhs and the features of rhs, if these have no groups; other axes are replicated."""
    (n, *lhs), (o, *rhs) = op.lhs_axes, op.rhs_axes
    grouped = op.batch_groups > 1, op.batch_groups > 1 or op.feature_groups > 1
    for k, (axis, others) in enumerate(((n, lhs), (o, rhs))):
        shardings.require_unsharded(k, others, "over which it sums or moves")
        if grouped[k]:
            shardings.require_unsharded(k, (axis,), "which comes in groups")
    result_cuts: list[MeshAxisNames] = [()] * shardings.results[0].ndim
    for k, (axis, at) in enumerate(zip((n, o), op.out_axes, strict=False)):
        result_cuts[at] = () if grouped[k] else shardings.mesh_axes[k][axis]
    return [tuple(result_cuts)]


@jvp_rule(Convolution)
def jvp_convolution(
    op: Convolution, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    """The convolution is linear in each operand."""
    (x, y), (dx, dy) = primals, tangents
    first = None if dx is None else op(dx, y)
    second = None if dy is None else op(x, dy)
    return op(x, y), first if second is None else second if first is None else first + second


def move_axis_factor(x: Array, source: int, target: int, groups: int) -> Array:
    """Moves the leading factor `groups` of one axis's size to the front of another's."""
    if groups == 1:
        return x
    shape = list(x.type.shape)
    shape[source : source + 1] = [groups, shape[source] // groups]
    apart = moveaxis(reshape(x, shape), source, target)
    shape = list(x.type.shape)
    shape[source] //= groups
    shape[target] *= groups
    return reshape(apart, shape)


@transpose_rule(Convolution)
def _(op: Convolution, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    lhs, rhs = operands
    if isinstance(lhs, LinearOperand):
        assert not isinstance(rhs, LinearOperand)
        return _transpose_lhs(op, _match_dtype(ct, rhs), lhs.type, rhs), None
    assert isinstance(rhs, LinearOperand)
    return None, _transpose_rhs(op, _match_dtype(ct, lhs), lhs, rhs.type)


def _match_dtype(ct: Array, known: Array) -> Array:
    return ct if ct.type.dtype == known.type.dtype else convert(ct, known.type.dtype)


def _transpose_lhs(op: Convolution, ct: Array, t: ArrayType, rhs: Array) -> Array:
    """The cotangent of lhs: that of the result, convolved with the reversed kernel.

    With kernel position k, ct at p is multiplied with lhs at p * stride + k * rhs_dilation - low, in units of the
    dilated lhs. So ct is dilated by the strides, and lhs's own dilation is the stride.
    """
    if 0 in ct.type.shape or 0 in t.shape:
        return zeros(t)
    window = [
        dilated_size(rhs.type.shape[a], d) for a, d in zip(op.rhs_axes[2:], op.rhs_dilation, strict=True)
    ]
    output_sizes = [
        dilated_size(ct.type.shape[a], s) for a, s in zip(op.out_axes[2:], op.strides, strict=True)
    ]
    input_sizes = [dilated_size(t.shape[a], d) for a, d in zip(op.lhs_axes[2:], op.lhs_dilation, strict=True)]
    low = [w - 1 - before for w, before in zip(window, op.low, strict=True)]
    high = [n + w - 1 - m - a for n, w, m, a in zip(input_sizes, window, output_sizes, low, strict=True)]
    groups = op.feature_groups * op.batch_groups
    into, out_features, *space = op.rhs_axes
    kernel = Reverse(tuple(space))(move_axis_factor(rhs, into, out_features, groups))
    lhs_cotangent = Convolution(
        op.lhs_dilation, tuple(low), tuple(high), op.strides, op.rhs_dilation,
        op.out_axes, (out_features, into, *space), op.lhs_axes, groups, 1, op.precision,
    )(ct, kernel)  # fmt: skip
    lhs_cotangent = move_axis_factor(lhs_cotangent, op.lhs_axes[1], op.lhs_axes[0], op.batch_groups)
    return convert(lhs_cotangent, t.dtype, t.weak)


def _transpose_rhs(op: Convolution, ct: Array, lhs: Array, t: ArrayType) -> Array:
    """The cotangent of rhs: lhs convolved with the result's, summed over the batch instead of the features.

    Strides and the kernel's dilation change roles, and so do the groups of features and of the batch.
    """
    if 0 in ct.type.shape or 0 in t.shape:
        return zeros(t)
    window = [dilated_size(t.shape[a], d) for a, d in zip(op.rhs_axes[2:], op.rhs_dilation, strict=True)]
    output_sizes = [
        dilated_size(ct.type.shape[a], s) for a, s in zip(op.out_axes[2:], op.strides, strict=True)
    ]
    space = [
        dilated_size(lhs.type.shape[a], d) for a, d in zip(op.lhs_axes[2:], op.lhs_dilation, strict=True)
    ]
    high = [w + m - 1 - n - low for w, m, n, low in zip(window, output_sizes, space, op.low, strict=True)]

    def swap_leading_axes(axes: tuple[int, ...]) -> tuple[int, ...]:
        return (axes[1], axes[0], *axes[2:])

    rhs_cotangent = Convolution(
        op.rhs_dilation, op.low, tuple(high), op.lhs_dilation, op.strides,
        swap_leading_axes(op.lhs_axes), swap_leading_axes(op.out_axes), swap_leading_axes(op.rhs_axes),
        op.batch_groups, op.feature_groups, op.precision,
    )(lhs, ct)  # fmt: skip
    return convert(rhs_cotangent, t.dtype, t.weak)


@vmap_rule(Convolution)
def _(
    handler: Vmap, op: Convolution, values: tuple[Array, ...], axes: tuple[int | None, ...]
) -> tuple[Array, int]:
    (lhs, rhs), (left, right) = values, axes
    if not handler.size:
        element = [_drop_axis(x.type, a) for x, a in zip(values, axes, strict=True)]
        t = op.infer(*element)
        return zeros(t.with_shape((0, *t.shape))), 0
    grouped = op.feature_groups > 1 or op.batch_groups > 1
    if right is None:
        assert left is not None
        # Groups come first within an axis, so the batch comes last.
        y = op(_merge_batch_axis(lhs, left, op.lhs_axes[0], behind=grouped), rhs)
        return _split_batch_axis(y, op.out_axes[0], handler.size, behind=grouped)
    if left is None:
        y = op(lhs, _merge_batch_axis(rhs, right, op.rhs_axes[0], behind=grouped))
        return _split_batch_axis(y, op.out_axes[1], handler.size, behind=grouped)
    by_batch = op.batch_groups > 1
    y = attrs.evolve(
        op,
        feature_groups=op.feature_groups * (1 if by_batch else handler.size),
        batch_groups=op.batch_groups * (handler.size if by_batch else 1),
    )(
        _merge_batch_axis(lhs, left, op.lhs_axes[0 if by_batch else 1], behind=False),
        _merge_batch_axis(rhs, right, op.rhs_axes[0], behind=False),
    )
    return _split_batch_axis(y, op.out_axes[1], handler.size, behind=False)


def _drop_axis(t: ArrayType, axis: int | None) -> ArrayType:
    return t if axis is None else t.with_shape(t.shape[:axis] + t.shape[axis + 1 :])


def _merge_batch_axis(x: Array, axis: int, into: int, *, behind: bool) -> Array:
    """Makes the batch axis a factor of one axis of a batch element, the leading or the last one."""
    x = moveaxis(x, axis, into + behind)
    shape = x.type.shape
    return reshape(x, (*shape[:into], shape[into] * shape[into + 1], *shape[into + 2 :]))


def _split_batch_axis(y: Array, axis: int, size: int, *, behind: bool) -> tuple[Array, int]:
    """Takes the batch axis out of another; returns its index too."""
    shape = y.type.shape
    rest = shape[axis] // size
    parts = (rest, size) if behind else (size, rest)
    return reshape(y, (*shape[:axis], *parts, *shape[axis + 1 :])), axis + behind


@reference_rule(Convolution)
def _(op: Convolution, lhs: Data, rhs: Data) -> Data:
    dtype = lhs.dtype if op.preferred is None else op.preferred
    wide = {"c": np.complex128, "f": np.float64, "V": np.float64, "b": np.int64}.get(dtype.kind, dtype)
    x = lhs.transpose(op.lhs_axes).astype(dtype).astype(wide)
    kernel = rhs.transpose(op.rhs_axes).astype(dtype).astype(wide)
    for i, dilation in enumerate(op.lhs_dilation):
        x = _dilate_and_pad(x, i + 2, dilation, op.low[i], op.high[i])
    for i, dilation in enumerate(op.rhs_dilation):
        kernel = _dilate_and_pad(kernel, i + 2, dilation, 0, 0)
    window = kernel.shape[2:]
    out = [count_positions(n, w, s) for n, w, s in zip(x.shape[2:], window, op.strides, strict=True)]
    parts = []
    groups = op.feature_groups * op.batch_groups
    for g in range(groups):
        features = np.array_split(x, groups, 0 if op.batch_groups > 1 else 1)[g]
        weights = np.array_split(kernel, groups, 0)[g]
        part = np.zeros((features.shape[0], weights.shape[0], *out), x.dtype)
        for position in np.ndindex(*out):
            window_slices = tuple(
                [slice(p * s, p * s + w) for p, s, w in zip(position, op.strides, window, strict=True)]
            )
            covered = features[(slice(None), slice(None), *window_slices)]
            part[(slice(None), slice(None), *position)] = np.tensordot(
                covered, weights, (range(1, x.ndim), range(1, x.ndim))
            )
        parts.append(part)
    total = np.concatenate(parts, 1).transpose(np.argsort(op.out_axes))
    return np.asarray(total != 0 if dtype.kind == "b" else total.astype(dtype))


def _dilate_and_pad(x: Data, axis: int, dilation: int, low: int, high: int) -> Data:
    """Puts zeros between the elements along an axis, and at its ends; negative amounts crop."""
    n = dilated_size(x.shape[axis], dilation)
    result = np.zeros((*x.shape[:axis], n + max(low, 0) + max(high, 0), *x.shape[axis + 1 :]), x.dtype)
    line = np.moveaxis(result, axis, 0)
    line[max(low, 0) : max(low, 0) + n : dilation] = np.moveaxis(x, axis, 0)
    line = line[max(-low, 0) : len(line) - max(-high, 0)]
    return np.moveaxis(line, 0, axis)


def convolve_floats(op: Convolution, x: Array, kernel: Array) -> Array:
    """The form of a convolution for cuDNN, which takes real floats alone.

    Complex numbers are convolved by parts. Sums of integers are exact up to 2^53.
    """
    out = op.infer(x.type, kernel.type)
    if x.type.kind == "c":
        if out.dtype.itemsize > x.dtype.itemsize:
            x, kernel = convert(x, out.dtype), convert(kernel, out.dtype)
        parts = attrs.evolve(op, preferred=None)
        (xr, xi), (kr, ki) = [(real(y), imag(y)) for y in (x, kernel)]
        product = Complex()(parts(xr, kr) - parts(xi, ki), parts(xr, ki) + parts(xi, kr))
        return convert(product, out.dtype)
    exact = attrs.evolve(op, preferred=None, precision=("HIGHEST", "HIGHEST"))
    sums = exact(convert(x, dtypes.float64), convert(kernel, dtypes.float64))
    return convert(convert(sums, dtypes.int64) if out.kind in "iu" else sums, out.dtype)


@emits(Convolution, platform="cuda")
@emits(Convolution, platform="rocm")
def emit_convolution_on_gpu(
    body: Body, op: Convolution, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> "str | tuple[str, ...]":
    if inputs[0].type.kind != "f":
        return emit_form(convolve_floats, body, op, inputs, outputs)
    return emit_convolution(body, op, inputs, outputs)


# XLA:CPU computes convolutions in groups element by element. So each group is a convolution of its own, up to so many of
# them: four groups of 32 features take a quarter of the time. Narrow groups of the batch are convolved together, up to so
# many features, and the products of one group with another dropped: the gradient of a kernel of 3 x 3 in 32 groups of 4
# features, on float32[8, 28, 28, 128], takes 9 ms where jax takes 2,800 to 7,400, and that in 4 groups of 32 features 8.5
# instead of 340 to 1,000. With fewer products a group than `MANY_PRODUCTS` the calls would take longer than the
# products, and with more groups than `MAX_GROUPS` their slices seconds to compile.
MAX_CONVOLUTIONS = 32
MAX_GROUPS = 64
WIDE = 64
MANY_PRODUCTS = 2**16


def _join_groups(op: Convolution, lhs: ArrayType, rhs: ArrayType) -> int:
    """Returns how many groups are convolved together."""
    if op.batch_groups == 1:
        return 1
    widest = max(lhs.shape[op.lhs_axes[0]], rhs.shape[op.rhs_axes[0]]) // op.batch_groups
    return max(
        [m for m in range(1, op.batch_groups + 1) if op.batch_groups % m == 0 and m * widest <= WIDE],
        default=1,
    )


def _has_few_groups(op: Convolution, lhs: ArrayType, rhs: ArrayType, out: ArrayType) -> bool:
    groups = max(op.feature_groups, op.batch_groups)
    if groups == 1 or groups > MAX_GROUPS or has_symbolic((*lhs.shape, *rhs.shape, *out.shape)):
        return False
    _, i, *window = [rhs.shape[a] for a in op.rhs_axes]
    is_large = out.size // groups * i * prod(window) >= MANY_PRODUCTS
    return is_large and groups // _join_groups(op, lhs, rhs) <= MAX_CONVOLUTIONS


def convolve_groups(op: Convolution, x: Array, kernel: Array) -> Array:
    """The form of a convolution in few groups: convolutions without groups, and their results side by side."""
    joined = _join_groups(op, x.type, kernel.type)
    groups = max(op.feature_groups, op.batch_groups)
    plain = attrs.evolve(op, feature_groups=1, batch_groups=1)
    axis = op.lhs_axes[0 if op.batch_groups > 1 else 1]
    batch, features = op.out_axes[:2]
    parts = []
    for k in range(groups // joined):
        part = plain(
            _slice_part(x, axis, k, groups // joined),
            _slice_part(kernel, op.rhs_axes[0], k, groups // joined),
        )
        parts += [
            _slice_part(_slice_part(part, batch, m, joined), features, m, joined) for m in range(joined)
        ]
    return concatenate(parts, features)


def _slice_part(x: Array, axis: int, part: int, parts: int) -> Array:
    """Returns one of several equal parts along an axis."""
    if parts == 1:
        return x
    start, limit = [0] * x.type.ndim, list(x.type.shape)
    size = limit[axis] // parts
    start[axis], limit[axis] = part * size, (part + 1) * size
    return s.Slice(tuple(start), tuple(limit), (1,) * x.type.ndim)(x)


# The operands of sums of shifted products; others are left to XLA.
SHIFTED = (
    *dtypes.SIGNED[2:], *dtypes.UNSIGNED[2:], dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64,
    *dtypes.COMPLEX,
)  # fmt: skip


@emits(Convolution, platform="cpu")
def emit_convolution_on_cpu(
    body: Body, op: Convolution, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]
) -> "str | tuple[str, ...]":
    """A convolution in groups is written by operations that XLA:CPU computes by vectors; see `shifted_products`."""
    (lhs, rhs), (out,) = inputs, outputs
    t, u, y = lhs.type, rhs.type, out.type
    is_empty = 0 in t.shape or 0 in u.shape or 0 in y.shape
    if is_empty or t.dtype not in SHIFTED or y.dtype not in SHIFTED or t.kind != y.kind:
        return emit_convolution(body, op, inputs, outputs)
    if has_few_products(op, u):
        write, axes = emit_shifted_products, (op.lhs_axes[2:], op.rhs_axes[2:])
    elif has_few_sums(op, t, u, y):
        write, axes = emit_shifted_sums, (op.lhs_axes[2:], op.rhs_axes[2:])
    elif _has_few_groups(op, t, u, y) and not is_partitioned(body.module):
        return emit_form(convolve_groups, body, op, inputs, outputs)
    else:
        return emit_convolution(body, op, inputs, outputs)
    x, kernel = [
        emit_replicated_axes(body, body.name(v), v.type, a) for v, a in zip(inputs, axes, strict=True)
    ]
    if any(op.low) or any(op.high) or any([n > 1 for n in op.lhs_dilation]):
        x, t, op = _emit_padding(body, x, t, op)
    sums = y
    if y.kind in "fc":
        widest = max(t.dtype, y.dtype, key=lambda d: d.itemsize)
        sums = y.with_dtype(dtypes.float32 if widest.itemsize < 4 else widest)
    return body.convert(write(body, op, x, t, kernel, u, sums), sums, y)


@emits(Convolution)
def emit_convolution(body: Body, op: Convolution, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    (lhs, rhs), (out,) = inputs, outputs
    if 0 in lhs.type.shape or 0 in rhs.type.shape or 0 in out.type.shape:
        return body.constant(0, out.type)

    def spec(axes: tuple[int, ...], names: str) -> str:
        marks: list[object] = [*names, *range(len(axes) - 2)]
        return "[" + ", ".join([str(marks[axes.index(i)]) for i in range(len(axes))]) + "]"

    ((x, t), (kernel, u)), total = name_operands(body, op.name, inputs, out.type)
    if has_symbolic((*op.low, *op.high)):
        x, t, op = _emit_padding(body, x, t, op)
    # XLA's partitioner gives wrong numbers for some convolutions with sharded spatial axes, and for sharded batches in
    # groups: of kernels' gradients, and where the kernel is sharded too. So these axes are replicated.
    axes = (None, None) if op.batch_groups > 1 else (op.lhs_axes[2:], op.rhs_axes[2:])
    x, kernel = (
        emit_replicated_axes(body, x, t, axes[0]),
        emit_replicated_axes(body, kernel, u, axes[1]),
    )
    window = (
        f"stride = {list(op.strides)}, pad = {[[a, b] for a, b in zip(op.low, op.high, strict=True)]}, "
        f"lhs_dilate = {list(op.lhs_dilation)}, rhs_dilate = {list(op.rhs_dilation)}"
        if op.strides
        else ""
    )
    precision = ", ".join([f"#stablehlo<precision {p}>" for p in op.precision])
    sums = body.line(
        f"stablehlo.convolution({x}, {kernel}) "
        f"dim_numbers = {spec(op.lhs_axes, 'bf')}x{spec(op.rhs_axes, 'oi')}->{spec(op.out_axes, 'bf')}, "
        f"window = {{{window}}} {{batch_group_count = {op.batch_groups} : i64, "
        f"feature_group_count = {op.feature_groups} : i64, precision_config = [{precision}]}} "
        f": ({t.mlir}, {u.mlir}) -> {total.mlir}"
    )
    return body.convert(sums, total, out.type)


def _emit_padding(body: Body, x: str, t: ArrayType, op: Convolution) -> tuple[str, ArrayType, Convolution]:
    """Writes zeros around and between the elements of lhs; returns the convolution of that, which adds none."""
    pad, unpadded = op.split_padding()
    out = pad.infer(t, array_type(t.dtype))
    zero = body.constant(0, array_type(t.dtype))
    padded = sizes.pad(body, x, t, zero, out, low=pad.low, high=pad.high, interior=pad.interior)
    return padded, out, unpadded
