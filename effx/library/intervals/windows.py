"""Bounds of convolutions, and of reductions over windows."""

import math

import attrs

import effx.numpy as enp
from effx.handling import ops
from effx.library.intervals.combining import bilinear, widen_sum
from effx.library.intervals.enclosures import (
    Interval,
    Intervals,
    arithmetic,
    exactly,
    increasing,
    is_plain,
    magnitude,
    outward,
    top,
    where,
)

__all__: list[str] = []


@Intervals.rule(ops.Convolution)
def convolution(op: ops.Convolution, x: Interval, kernel: Interval) -> Interval:
    if x.low.type.kind != "f":
        if not (is_plain(x) or is_plain(kernel)):
            return top(op, (x, kernel))
        return arithmetic(op, bilinear, x, kernel)
    shape = kernel.low.shape
    terms = math.prod(shape) // max(shape[op.rhs_axes[0]], 1)
    size = op(magnitude(x).high, magnitude(kernel).high)
    return outward(bilinear(op, x, kernel), 1.0, size * ((3 * terms + 8) * float(enp.finfo(size.dtype).eps)))


@Intervals.rule(ops.ReduceWindowMax, ops.ReduceWindowMin)
def extreme_of_window(op: ops.WindowReduction, x: Interval) -> Interval:
    return increasing(op, x)


@Intervals.rule(ops.ReduceWindowSum)
def sum_of_window(op: ops.ReduceWindowSum, x: Interval) -> Interval:
    return widen_sum(op, arithmetic(op, increasing, x, ulps=0.0), x, math.prod(op.window))


@Intervals.rule(ops.WindowArgMax, ops.WindowArgMin)
def label_of_window(op: ops.WindowArg, x: Interval, labels: Interval) -> Interval:
    # Of known elements the label is known; of others it may be any in the window.
    window_parameters = attrs.astuple(op, recurse=False)
    low, high = (
        ops.ReduceWindowMin(*window_parameters)(labels.low),
        ops.ReduceWindowMax(*window_parameters)(labels.high),
    )
    unknown = ~(exactly(x) & exactly(labels))
    known = ops.ReduceWindowMax(*window_parameters)(unknown.astype(enp.int32)) <= 0
    point = op(x.low, labels.low)
    return where(known, Interval(point, point), Interval(low, enp.maximum(low, high)))
