"""Reductions over windows, by any function."""

from collections.abc import Callable, Sequence

import numpy as np

from effx.array import Array, HostArray
from effx.array.arithmetic import where
from effx.array.promotion import broadcast_to, to_host_array, zeros
from effx.array.shaping import reshape
from effx.errors import ShapeError, name_user_call
from effx.families.convolution import dilated_size
from effx.families.windows import ReduceWindowMax, ReduceWindowMin, ReduceWindowSum, WindowReduction
from effx.ir.ops.shape import Pad, Slice
from effx.ir.types import Shape, array_type
from effx.lax.control.scans import scan
from effx.lax.conv_shapes import Padding, padding_pairs, padtype_to_pads
from effx.lax.elementwise.arithmetic import add, max, min
from effx.lax.monoids import check_monoid_operands, make_combiner
from effx.lax.operands import int_tuple
from effx.lax.slicing import dynamic_slice
from effx.transforms.maps.vmap import vmap
from effx.tree.registry import PyTree

__all__ = ["reduce_window", "reduce_window_shape_tuple"]

UNROLLED = 32
"""A larger window is a loop over its elements."""

_MONOIDS: dict[Callable[..., PyTree], type[WindowReduction]] = {
    add: ReduceWindowSum,
    max: ReduceWindowMax,
    min: ReduceWindowMin,
}


def _window_operation(
    kind: type[WindowReduction],
    shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Padding,
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> WindowReduction:
    """Returns the operation that moves the window over arrays of a shape."""
    window = int_tuple("window_dimensions", window_dimensions)
    ones = (1,) * len(window)
    strides, base, between = [
        ones if values is None else int_tuple(name, values)
        for name, values in (
            ("window_strides", window_strides),
            ("base_dilation", base_dilation),
            ("window_dilation", window_dilation),
        )
    ]
    pads = None if isinstance(padding, str) else padding_pairs(padding)
    for name, values in (
        ("window_dimensions", window),
        ("window_strides", strides),
        ("padding", pads),
        ("base_dilation", base),
        ("window_dilation", between),
    ):
        if values is not None and len(values) != len(shape):
            raise ShapeError(
                f"{name_user_call()}: {name} must have one entry for each of the {len(shape)} axes of the operand, "
                f"got {values}"
            )
    if pads is None:
        spread = [dilated_size(n, d) for n, d in zip(window, between, strict=True)]
        pads = padtype_to_pads(shape, spread, strides, str(padding))
    low, high = tuple([a for a, _ in pads]), tuple([b for _, b in pads])
    return kind(window, strides, low, high, base, between)


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """Returns the number of positions of a window along each axis; see `reduce_window`.

    Raises:
        ShapeError: the lengths differ.

    >>> reduce_window_shape_tuple((5, 6), (3, 2), (1, 2), "VALID")
    (3, 3)
    """
    shape = int_tuple("operand_shape", operand_shape)
    op = _window_operation(
        ReduceWindowMax, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )  # fmt: skip
    return op.positions(array_type(np.dtype(np.float32), shape))


def reduce_window(
    operand: PyTree,
    init_value: PyTree,
    computation: Callable[..., PyTree],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> PyTree:
    """Combines what a window covers, at each of its positions.

    Sums, and the largest and smallest elements (`lax.add`, `lax.max`, `lax.min`) are operations of XLA, of whose
    extreme elements the first has the gradient. Other functions are applied to one element of the window after another,
    at all positions at once, so they are differentiated as they are written.

    Args:
        operand: an array, or a pytree of arrays of one shape.
        init_value: what is combined with the elements at each position: a scalar, or a pytree of them like `operand`.
        computation: takes two pytrees of scalars like `operand`, and gives one; associative and commutative.
        window_dimensions: the window's sizes, one for each axis.
        window_strides: by how much it moves along each axis; 1 by default.
        padding: "VALID", "SAME" or "SAME_LOWER", or a pair of amounts for each axis; what is added does not count.
        base_dilation, window_dilation: the distances of neighbouring elements of the operand and of the window along
            each axis; 1 by default.

    Returns:
        A pytree like `operand`, with the number of positions along each axis.

    Raises:
        ShapeError: lengths or shapes differ, or an initial value is no scalar.
        DTypeError: dtypes differ.
        TreeError: structures differ.

    >>> import numpy as np
    >>> from effx import lax
    >>> image = np.arange(16, dtype=np.float32).reshape(4, 4)
    >>> reduce_window(image, -np.inf, lax.max, (2, 2), (2, 2))  # max pooling
    Array([[ 5.,  7.],
           [13., 15.]], dtype=float32)
    >>> reduce_window(image, 0.0, lax.add, (2, 2), (2, 2)) / 4  # average pooling
    Array([[ 2.5,  4.5],
           [10.5, 12.5]], dtype=float32)
    >>> reduce_window(np.arange(1.0, 6.0), 1.0, lax.mul, (2,))
    Array([ 2.,  6., 12., 20.], dtype=float32)
    """
    xs, starts, tree = check_monoid_operands("operand", operand, init_value, computation)
    kind = _MONOIDS.get(computation) if len(xs) == 1 else None
    if kind is not None and xs[0].type.kind not in kind.kinds:
        kind = None
    op = _window_operation(
        kind or ReduceWindowMax, xs[0].type.shape, window_dimensions, window_strides, padding,
        base_dilation, window_dilation,
    )  # fmt: skip
    if kind is not None:
        y, start = op(xs[0]), starts[0]
        known = type(start) is HostArray and start.value == op.neutral(xs[0].type)
        return tree.unflatten([y if known else computation(y, start)])

    combine = vmap(make_combiner(computation, xs, tree))
    return tree.unflatten(_combine_windows_stepwise(op, xs, starts, combine))


def _combine_windows_stepwise(
    op: WindowReduction,
    xs: list[Array],
    starts: list[Array],
    combine: Callable[[list[Array], list[Array]], list[Array]],
) -> list[Array]:
    """Combines the elements of the window at all positions at once, one element after another.

    So a window of any function needs no operation of its own.
    """
    t = xs[0].type
    shape = op.positions(array_type(np.dtype(np.float32), t.shape))
    flat = (int(np.prod(shape, dtype=int)),)
    if not flat[0]:
        return [zeros(x.type.with_shape(shape)) for x in xs]
    gaps = tuple([b - 1 for b in op.base_dilation])
    spread = [Pad(op.low, op.high, gaps)(x, start) for x, start in zip(xs, starts, strict=True)]
    # Which elements count: not those of the padding, nor those between two.
    counts = np.ones(spread[0].type.shape, bool)
    for axis, (n, low, b) in enumerate(zip(t.shape, op.low, op.base_dilation, strict=True)):
        at = np.arange(counts.shape[axis]) - low
        line = (at >= 0) & (at < dilated_size(n, b)) & (at % b == 0)
        counts &= line.reshape(-1, *(1,) * (t.ndim - 1 - axis))
    block = tuple([(m - 1) * s + 1 for m, s in zip(shape, op.strides, strict=True)])
    offsets = np.asarray(list(np.ndindex(*op.window)), np.int32) * np.asarray(op.window_dilation, np.int32)

    def joined(sofar: list[Array], values: list[Array], inside: Array) -> list[Array]:
        combined = combine(sofar, [reshape(v, flat) for v in values])
        which = reshape(inside, flat)
        return (
            combined if counts.all() else [where(which, y, x) for x, y in zip(sofar, combined, strict=True)]
        )

    def step(sofar: list[Array], at: Array) -> tuple[list[Array], None]:
        thin = Slice((0,) * t.ndim, block, op.strides)
        inside, *values = [thin(dynamic_slice(x, at, block)) for x in (to_host_array(counts), *spread)]
        return joined(sofar, values, inside), None

    carry = [broadcast_to(start, flat) for start in starts]
    if len(offsets) > UNROLLED:
        carry, _ = scan(step, carry, to_host_array(offsets))
    else:
        for at in offsets.tolist():
            cut = Slice(tuple(at), tuple([a + n for a, n in zip(at, block, strict=True)]), op.strides)
            inside, *values = [cut(x) for x in (to_host_array(counts), *spread)]
            carry = joined(carry, values, inside)
    return [reshape(y, shape) for y in carry]
