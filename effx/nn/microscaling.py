"""Products of arrays that are first rounded to block-scaled formats: small floats that share a scale in each block.

Source: Open Compute Project, "Microscaling formats (MX) specification", version 1.0, 2023, for the formats; NVIDIA,
"Pretraining large language models with NVFP4", 2025, for the format of two levels of scales.
"""

import math
from collections.abc import Sequence
from typing import Literal, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Operand
from effx.array.arithmetic import minimum, resolve_precision, where
from effx.array.promotion import as_operand, convert
from effx.array.shaping import moveaxis, reshape, transpose
from effx.dtypes import DType, DTypeLike
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call
from effx.ir.ops.convert import Bitcast
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.shape import Pad
from effx.ir.types import ArrayType
from effx.ir.values.scalars import scalar
from effx.lax.operands import int_tuple
from effx.lax.products import DotDimensionNumbers, dot_general
from effx.nn.scaled import scaled_matmul
from effx.transforms.custom.custom_derivatives import custom_vjp
from effx.transforms.jit.jit import jit

__all__ = ["get_scaled_dot_general_config", "scaled_dot_general"]

WHAT = "scaled_dot_general"
PREFERRED = (dtypes.float32, dtypes.bfloat16, dtypes.float16)
Mode = Literal["nvfp4", "mxfp8", "mxfp4"]


@final
@attrs.frozen
class BlockScaleFormat:
    """How many elements share a scale, and the dtypes of elements and of scales."""

    block_size: int
    data_type: DType
    scale_type: DType

    @property
    def has_global_scale(self) -> bool:
        """Whether scales are numbers of their own, relative to one for the whole array, and no powers of two."""
        return self.scale_type != dtypes.float8_e8m0fnu


FORMATS = {
    "mxfp8": BlockScaleFormat(32, dtypes.float8_e4m3fn, dtypes.float8_e8m0fnu),
    "mxfp4": BlockScaleFormat(32, dtypes.float4_e2m1fn, dtypes.float8_e8m0fnu),
    "nvfp4": BlockScaleFormat(16, dtypes.float4_e2m1fn, dtypes.float8_e4m3fn),
}


@final
@attrs.frozen(eq=False)
class BlockScaleConfig:
    """The rounding of one array in `scaled_dot_general`; made by `get_scaled_dot_general_config`.

    Attributes:
        mode: the format's name.
        block_size: how many elements along the contracted axis share a scale.
        data_type, scale_type: the dtypes of elements and of scales.
        global_scale: one number that multiplies all scales; None for formats without one.
    """

    mode: Mode
    block_size: int
    data_type: DType
    scale_type: DType
    global_scale: Array | None


def get_scaled_dot_general_config(mode: Mode, global_scale: Operand | None = None) -> BlockScaleConfig:
    """Returns the rounding of an operand or a gradient in `scaled_dot_general`.

    Args:
        mode: "mxfp8", elements f8_e4m3fn in blocks of 32, whose scales are powers of two; "mxfp4", the same with
            f4_e2m1fn; or "nvfp4", f4_e2m1fn in blocks of 16, whose scales are f8_e4m3fn.
        global_scale: for "nvfp4", one number, `[]` or `[1]`, by which the scales are multiplied; 1 by default. Scales
            reach to 448 times that, and elements to six times their scale.

    Raises:
        DTypeError: there is no such mode, or another mode gets a global scale.
        ShapeError: the global scale is more than one number.

    >>> get_scaled_dot_general_config("mxfp8").data_type
    dtype(float8_e4m3fn)
    """
    if mode not in FORMATS:
        raise OptionError(f"{name_user_call()}: mode must be 'nvfp4', 'mxfp8' or 'mxfp4', got {mode!r}")
    form, scale = FORMATS[mode], None
    if form.has_global_scale:
        scale = convert(as_operand(1.0 if global_scale is None else global_scale), dtypes.float32)
        if scale.type.size != 1:
            raise ShapeError(f"{name_user_call()}: the global scale must be one number, got {scale.type!r}")
        scale = reshape(scale, (1,))
    elif global_scale is not None:
        raise DTypeError(f"{name_user_call()}: only 'nvfp4' takes a global scale, got one for {mode!r}")
    return BlockScaleConfig(mode, form.block_size, form.data_type, form.scale_type, scale)


def scaled_dot_general(
    lhs: Operand,
    rhs: Operand,
    dimension_numbers: DotDimensionNumbers,
    preferred_element_type: DTypeLike = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: Literal["cudnn"] | None = None,
) -> Array:
    """Multiplies like `lax.dot_general`, after rounding each operand in blocks along the contracted axes.

    Elements of a block are divided by its scale and rounded to nearest, ties to even. The scale makes the largest of
    them fit: the least power of two that does, or, of "nvfp4", the nearest scale. A block that is not whole is filled
    with zeros; one with NaN or infinity becomes NaN. Several contracted axes make one, in the order in which they are
    given. Sums are in f32.

    Gradients are those of the product of what was given, as if nothing were rounded, but their own products are of
    rounded arrays again: of the cotangent by the third config and of the other operand by its own, in
    blocks along the axis that is then contracted. Without a third config, or with "nvfp4" as the third, the
    gradients' products are exact. There is no forward mode.

    Args:
        lhs, rhs: real arrays, computed with in f32.
        dimension_numbers: `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`.
        preferred_element_type: the result's dtype: f32, bf16 or f16.
        configs: for lhs, rhs and gradients, from `get_scaled_dot_general_config`; None for no rounding.
        implementation: deprecated, and without effect; the compiler chooses.

    Returns:
        As of `lax.dot_general`.

    Raises:
        ShapeError: as of `lax.dot_general`, or there are not two or three configs.
        DTypeError: there is no such dtype or implementation, or an operand is complex.

    >>> x = np.array([[1.0, 0.3], [5.0, 1.1]], np.float32)
    >>> config = get_scaled_dot_general_config("mxfp4")
    >>> scaled_dot_general(x, np.eye(2, dtype=np.float32), (((1,), (1,)), ((), ())), configs=[config] * 2)
    Array([[1.  , 0.25],
           [4.  , 1.  ]], dtype=float32)
    """
    if implementation not in (None, "cudnn"):
        raise OptionError(f"{WHAT}: implementation must be 'cudnn' or None, got {implementation!r}")
    kind = dtypes.canonicalize_requested(preferred_element_type)
    if kind not in PREFERRED:
        raise DTypeError(
            f"{WHAT}: preferred_element_type must be float32, bfloat16 or float16, got {kind.name}"
        )
    a, b = as_operand(lhs), as_operand(rhs)
    if configs is None:
        return dot_general(a, b, dimension_numbers, preferred_element_type=kind)
    if "c" in (a.type.kind, b.type.kind):
        raise DTypeError(f"{WHAT}: takes real numbers, got {a.type!r} and {b.type!r}")
    if len(configs) not in (2, 3):
        raise ShapeError(
            f"{WHAT}: takes two configs, for lhs and rhs, or three, the last for gradients, got {len(configs)}"
        )
    a, b = convert(a, dtypes.float32), convert(b, dtypes.float32)
    axes = _product_axes(dimension_numbers, a.type, b.type)
    formats = tuple([BlockScaleFormat(c.block_size, c.data_type, c.scale_type) for c in configs])
    scales = tuple(
        [scalar(1.0, dtypes.float32) if c.global_scale is None else c.global_scale for c in configs]
    )
    return _scaled_product(a, b, scales, axes=axes, formats=formats, kind=kind)


Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _product_axes(dimension_numbers: DotDimensionNumbers, a: ArrayType, b: ArrayType) -> Axes:
    (left, right), (left_batch, right_batch) = dimension_numbers
    contract, other, batch, other_batch = [
        int_tuple("axes", x) for x in (left, right, left_batch, right_batch)
    ]
    DotGeneral(contract, other, batch, other_batch).infer(a, b)  # checks them
    return contract, other, batch, other_batch


@jit(static_argnames=("axes", "formats", "kind"))
def _scaled_product(
    a: Array,
    b: Array,
    scales: tuple[Array, ...],
    axes: Axes,
    formats: tuple[BlockScaleFormat, ...],
    kind: DType,
) -> Array:
    x, left = _to_matrices(a, axes[2], axes[0])
    y, right = _to_matrices(b, axes[3], axes[1])
    product = _product(formats, x, y, scales)
    batch = [a.type.shape[i] for i in axes[2]]
    return convert(reshape(product, (*batch, *left, *right)), kind)


def _to_matrices(
    x: Array, batch: tuple[int, ...], contract: tuple[int, ...]
) -> tuple[Array, tuple[int, ...]]:
    """Returns an operand as `[batch, rows, contracted]`, and the shape of the rows."""
    shape = x.type.shape
    free = tuple([i for i in range(len(shape)) if i not in batch and i not in contract])
    groups = [tuple([shape[i] for i in part]) for part in (batch, free, contract)]
    sizes = tuple([math.prod(group) for group in groups])
    return reshape(transpose(x, (*batch, *free, *contract)), sizes), groups[1]


def _quantized_product(
    formats: tuple[BlockScaleFormat, ...], x: Array, y: Array, scales: tuple[Array, ...]
) -> Array:
    """Returns the product `[b, m, n]` of `[b, m, k]` and `[b, n, k]` in f32."""
    left, left_scales = _quantize(x, formats[0], scales[0])
    right, right_scales = _quantize(y, formats[1], scales[1])
    product = scaled_matmul(left, right, left_scales, right_scales)
    for form, scale in zip(formats, scales, strict=False):
        if form.has_global_scale:
            product = product * scale
    return product


_product = custom_vjp(
    lambda formats, x, y, scales: _quantized_product(formats[:2], x, y, scales[:2]), nondiff_argnums=(0,)
)


def _product_forward(
    formats: tuple[BlockScaleFormat, ...], x: Array, y: Array, scales: tuple[Array, ...]
) -> tuple[Array, tuple[Array, Array, tuple[Array, ...]]]:
    return _product(formats, x, y, scales), (x, y, scales)


def _product_backward(
    formats: tuple[BlockScaleFormat, ...], residuals: tuple[Array, Array, tuple[Array, ...]], ct: Array
) -> tuple[Array, Array, None]:
    x, y, scales = residuals
    results = []
    # ct is [b, m, n], contracted with y [b, n, k] along n, and with x [b, m, k] along m.
    for i, dy, other in ((1, ct, moveaxis(y, 1, 2)), (0, moveaxis(ct, 1, 2), moveaxis(x, 1, 2))):
        if len(formats) == 3 and not formats[2].has_global_scale:
            results.append(_quantized_product((formats[2], formats[i]), dy, other, (scales[2], scales[i])))
        else:
            results.append(DotGeneral((2,), (2,), (0,), (0,), resolve_precision(None))(dy, other))
    return results[0], results[1], None


_product.defvjp(_product_forward, _product_backward)


def _quantize(x: Array, form: BlockScaleFormat, global_scale: Array) -> tuple[Array, Array]:
    """Returns the elements `[b, m, k]`, with zeros after the last, and the scales of their blocks `[b, m, i]`."""
    rest = -x.type.shape[2] % form.block_size
    if rest or not x.type.shape[2]:
        rest = rest or form.block_size
        x = Pad((0, 0, 0), (0, 0, rest), (0, 0, 0))(x, scalar(0.0, dtypes.float32))
    b, m, k = x.type.shape
    blocks = reshape(x, (b, m, k // form.block_size, form.block_size))
    # At which the largest element becomes the largest number of the dtype.
    needed = abs(blocks).max(-1) / float(dtypes.finfo(form.data_type).max)
    if form.has_global_scale:
        needed = needed / global_scale
        most = float(dtypes.finfo(form.scale_type).max)
        scales = convert(where(needed < math.inf, minimum(needed, most), math.nan), form.scale_type)
        divisor = convert(scales, dtypes.float32) * global_scale
    else:
        divisor = _power_of_two(needed)
        scales = convert(divisor, form.scale_type)
    divisor = reshape(divisor, (*divisor.type.shape, 1))
    # Where a scale rounds to 0, so do the elements.
    data = where(divisor == 0.0, 0.0, blocks / where(divisor == 0.0, 1.0, divisor))
    return convert(reshape(data, (b, m, k)), form.data_type), scales


def _power_of_two(x: Array) -> Array:
    """Returns the least power of two not below a positive number, at least the smallest normal one; NaN above all."""
    bits = Bitcast(dtypes.int32)(x)
    exponent = (bits >> 23) + convert((bits & 0x7FFFFF) != 0, dtypes.int32)
    power = Bitcast(dtypes.float32)(where(exponent < 1, 1, exponent) << 23)
    return where(x < math.inf, power, math.nan)
