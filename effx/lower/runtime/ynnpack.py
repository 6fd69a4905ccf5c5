"""Decide which programs XLA:CPU compiles without YNNPACK, its library of reductions and products.

A run of the library's kernel takes about a microsecond and 5 ns for each result, so that 30,000 sums of 3 elements take
160 us where XLA's own loop takes 14, and a loop over 64 bodies sixteen times as long. Of long rows it is two to
five times as fast. For each product it builds a pipeline at the first run, half a millisecond long; Eigen's products,
which a gradient needs anyway for transposed operands, are as fast where there are few matrices in a batch, up to some
millions of multiplications; at 8 million the library's take a fifth less.

XLA has one switch for a whole program. The numbers are those of two cores with AVX-512, measured in loops.

50 steps of 64 bodies take 0.06 of jax's time by it, the gradient of 12 checkpointed layers 0.7, and 0.65 to
the first result; the second process of the transformer went from 0.20 s to 0.13. Writing short sums out as
slices instead was tried: XLA then computes what goes into them once for each slice, so chains of them ran ten
times as long.
"""

import math
import os
from collections.abc import Sequence
from typing import final

import attrs

from effx.dtypes import float32
from effx.ir.ops.control import HigherOrder, Scan, While
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import ArgReduction, ReduceMax, ReduceSum
from effx.ir.program import Program
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType
from effx.lower.compile_options import CompilerOptions
from effx.lower.text.stablehlo.reduce import LIBRARY_FROM

SWITCH = "xla_cpu_experimental_ynn_fusion_type"
PRODUCTS, REDUCTIONS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT", "LIBRARY_FUSION_TYPE_REDUCE"

# XLA's own kernel of a reduction takes 30 ms longer to compile: as long as this many nanoseconds in 600 runs.
WORTH = 50_000.0
# The assumed number of iterations of a loop where it is unknown.
ITERATIONS = 16
# From this many products on, the time saved in the first run counts; larger ones, and more matrices in a batch, run
# faster in the library.
# `LARGE` was 16 million, by which steps of a perceptron of 256 units took 1.3 to 1.5 of jax's time, for 4 ms
# less at the first.
MANY, LARGE, BATCH = 8, 2**22, 8


@final
@attrs.frozen
class ReductionCosts:
    """The gain of a program without the library.

    Attributes:
        reductions: how many reductions the library would take.
        gain: how many nanoseconds a run would be shorter if it did not.
        products: how many products of float32 there are.
        bound: whether some of them are faster with it.
    """

    reductions: int = 0
    gain: float = 0.0
    products: int = 0
    bound: bool = False


def ynnpack_options(program: Program, chosen: CompilerOptions, devices: int = 1) -> CompilerOptions:
    """Returns the options for a program on a CPU besides those that were chosen: they may turn the library off.

    A switch that the user sets, for a function or in `XLA_FLAGS`, is left as it is. On several devices, which share the
    cores, the library keeps all products: a step of training on eight takes 6 to 16 % less so.
    """
    if any([name == SWITCH for name, _ in chosen]) or SWITCH in os.environ.get("XLA_FLAGS", ""):
        return ()
    costs = _estimate_costs(program)
    reductions = costs.gain <= WORTH * costs.reductions
    products = costs.bound or costs.products < MANY or devices > 1
    if reductions and products:
        return ()
    return ((SWITCH, REDUCTIONS if reductions else PRODUCTS if products else ""),)


def _estimate_costs(program: Program) -> ReductionCosts:
    known = program.derived.get("libraries")
    if isinstance(known, ReductionCosts):
        return known
    reductions, gain, products, bound = 0, 0.0, 0, False
    for e in program.equations:
        op = e.op
        if isinstance(op, HigherOrder):
            loops = isinstance(op, (Scan, While))
            times = op.length if isinstance(op, Scan) else ITERATIONS if loops else 1
            for inner in map(_estimate_costs, op.programs):
                reductions += inner.reductions
                gain += inner.gain * times
                products += inner.products
                # Products in loops are small, and built once.
                bound = bound or inner.bound or (loops and inner.products > 0)
        elif isinstance(op, DotGeneral):
            if e.inputs[0].type.dtype is float32:
                n, batch = _multiplications(op, e.inputs[0].type, e.inputs[1].type)
                bound = bound or n > LARGE or batch > BATCH
                products += 1
        elif isinstance(op, (ReduceSum, ReduceMax, ArgReduction)):
            t = e.inputs[0].type
            # argmax and argmin take a reduction of indices.
            axes = (op.axis,) if isinstance(op, ArgReduction) else op.axes
            keeps_nan = isinstance(op, ReduceMax) and not op.may_lose_nan
            if t.dtype is float32 and not has_symbolic(t.shape) and t.size >= LIBRARY_FROM and not keeps_nan:
                reductions += 1
                gain += reduction_gain(t.shape, axes)
    costs = program.derived["libraries"] = ReductionCosts(reductions, gain, products, bound)
    return costs


def _multiplications(op: DotGeneral, lhs: ArrayType, rhs: ArrayType) -> tuple[int, int]:
    """Returns the number of multiplications of a product, and its batch size."""
    if has_symbolic((*lhs.shape, *rhs.shape)):
        return 0, 1
    batch = math.prod([lhs.shape[i] for i in op.lhs_batch])
    shared = batch * math.prod([lhs.shape[i] for i in op.lhs_contract])
    return lhs.size * rhs.size // max(1, shared), batch


def reduction_gain(shape: Sequence[int], axes: Sequence[int]) -> float:
    """Returns how many nanoseconds a reduction takes with the library more than without; less than 0 for a loss."""
    n = math.prod(shape)
    results = n // max(1, math.prod([shape[i] for i in axes]))
    remaining_axes = [i for i in range(len(shape)) if i not in axes and shape[i] != 1]
    last = max([i for i in range(len(shape)) if shape[i] != 1], default=0)
    if last in axes:  # each result from a row
        row = math.prod(shape[(remaining_axes[-1] + 1 if remaining_axes else 0) :])
        with_it = n / 8
        without = n / (5 if row <= 8 else 1.8 if row <= 32 else 3.3)
    else:  # rows are added up
        row = math.prod(shape[max(axes) + 1 :])
        with_it = n / min(8, row / 3)
        without = n / (6 if row >= 64 else 3)
    return 700 + 5.5 * results + with_it - without
