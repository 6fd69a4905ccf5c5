"""Discrete Fourier transforms along the last axes.

The transposes follow from the pairing Re(sum(ct * y)) of a cotangent and a result, under which the matrix of a
complex transform is its own transpose.
"""

import math
from typing import Any, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.array.promotion import convert, to_host_array
from effx.errors import DTypeError, InconclusiveDimensionOperation, ShapeError
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Body,
    Cotangent,
    Linear,
    LinearOperand,
    Var,
    Vmap,
    array_type,
    emits,
    materialize,
    reference_rule,
    transpose_rule,
    vmap_rule,
)
from effx.ir.ops.base import check_arity, check_int_tuple, check_kind
from effx.ir.ops.elementwise import Conj
from effx.ir.passes.sharding_propagation import DimensionShardings, OperandShardings, sharding_rule
from effx.ir.passes.sharding_rules import shard_leading_axes
from effx.ir.sizes.dimensions import has_symbolic

__all__ = ["KINDS", "Fft"]

Data = np.ndarray[Any, Any]

CONJ = Conj()

KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
"""Forward and inverse, between complex numbers, or from and to real ones."""


@final
@attrs.frozen
class Fft(ArrayOperation, Linear):
    """A discrete Fourier transform along the last axes, of `f32[*batch, *lengths]` and the like. StableHLO: fft.

    Attributes:
        kind: "FFT", "IFFT" (divided by the number of elements), "RFFT" (of real numbers: the half of the last
            axis that determines the rest) or "IRFFT" (its inverse).
        lengths: the sizes of the axes of the transform, one to three; for "IRFFT" those of the result.
    """

    kind: str = attrs.field(validator=attrs.validators.in_(KINDS))
    lengths: tuple[int, ...] = attrs.field(validator=check_int_tuple)

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of the spectrum or the signal."""
        check_arity(self, types, 1)
        (t,) = types
        k = len(self.lengths)
        if not 1 <= k <= 3:
            raise ShapeError(f"fft: transforms along 1 to 3 axes, got lengths {self.lengths}")
        if min(self.lengths) < 1:
            raise ShapeError(f"fft: lengths must be positive, got {self.lengths}")
        check_kind(self, t, "f" if self.kind == "RFFT" else "c", "operand")
        if t.dtype not in (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128):
            raise DTypeError(f"fft: takes numbers of 32 or 64 bits, got {t!r}")
        half = (*self.lengths[:-1], self.lengths[-1] // 2 + 1)
        expected_sizes, result_sizes = (half, self.lengths) if self.kind == "IRFFT" else (self.lengths, half)
        if t.shape[-k:] != expected_sizes or t.ndim < k:
            raise ShapeError(
                f"fft: {self.kind} of lengths {list(self.lengths)} takes [..., "
                f"{', '.join(map(str, expected_sizes))}], got {t!r}"
            )
        dtype = {"RFFT": dtypes.complex_dtype, "IRFFT": dtypes.real_dtype}.get(self.kind, lambda d: d)(
            t.dtype
        )
        result = result_sizes if self.kind in ("RFFT", "IRFFT") else self.lengths
        return array_type(dtype, (*t.shape[:-k], *result))


@sharding_rule(Fft)
def _(op: Fft, given: OperandShardings) -> list[DimensionShardings]:
    return shard_leading_axes(given.types[0].ndim - len(op.lengths), given, "along which it transforms")


@transpose_rule(Fft)
def _(op: Fft, ct: Array, operands: tuple[Array | LinearOperand, ...]) -> tuple[Cotangent, ...]:
    if op.kind in ("FFT", "IFFT"):
        return (op(ct),)
    n, size = op.lengths[-1], math.prod(op.lengths)
    # Each entry of the half spectrum counts twice, except those that are their own mirror image.
    twice = np.full(n // 2 + 1, 2.0)
    twice[0] = 1.0
    if n % 2 == 0:
        twice[-1] = 1.0
    if op.kind == "RFFT":
        weights = convert(to_host_array(size / twice), dtypes.real_dtype(ct.type.dtype))
        return (Fft("IRFFT", op.lengths)(CONJ(ct) * weights),)
    weights = convert(to_host_array(twice / size), ct.type.dtype)
    return (CONJ(Fft("RFFT", op.lengths)(ct)) * weights,)


@vmap_rule(Fft)
def _(handler: Vmap, op: Fft, values: tuple[Array, ...], axes: tuple[int | None, ...]) -> tuple[Array, int]:
    (x,), (axis,) = values, axes
    is_batch_axis = axis is not None and axis < x.type.ndim - len(op.lengths)
    return op(
        x if is_batch_axis else materialize(handler, x, axis, 0)
    ), axis if is_batch_axis and axis is not None else 0


@reference_rule(Fft)
def _(op: Fft, x: Data) -> Data:
    axes = tuple(range(-len(op.lengths), 0))
    if op.kind == "IRFFT":
        return np.asarray(np.fft.irfftn(x, op.lengths, axes))
    transform = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn}[op.kind]
    return np.asarray(transform(x, axes=axes))


@emits(Fft)
def _(body: Body, op: Fft, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    (x,), (y,) = inputs, outputs
    if 0 in x.type.shape:
        return body.constant(0, y.type)
    if has_symbolic(op.lengths):
        raise InconclusiveDimensionOperation(
            f"fft: XLA transforms axes of known sizes only, got {list(op.lengths)}; pass n= or s="
        )
    lengths = ", ".join(map(str, op.lengths))
    return body.line(
        f"stablehlo.fft {body.name(x)}, type = {op.kind}, length = [{lengths}] : ({x.type.mlir}) -> {y.type.mlir}"
    )
