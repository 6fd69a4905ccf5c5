"""Convolutions, transposed ones, and windows as features."""

from collections.abc import Sequence
from operator import index

import numpy as np

from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, to_host_array
from effx.array.shaping import moveaxis, reshape, swapaxes, transpose
from effx.dtypes import DTypeLike
from effx.errors import ShapeError, name_user_call
from effx.families.convolution import Convolution, dilated_size
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.shape import Reverse
from effx.lax.conv_shapes import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    Padding,
    conv_dimension_numbers,
    padding_pairs,
    padtype_to_pads,
    resolve_named_padding,
    transposed_conv_padding,
)
from effx.lax.operands import int_tuple
from effx.lax.products import PrecisionLike
from effx.transforms.placement.out_sharding import OutSharding, apply_with_sharding

__all__ = [
    "conv", "conv_general_dilated", "conv_general_dilated_local", "conv_general_dilated_patches", "conv_transpose",
    "conv_with_general_padding",
]  # fmt: skip


def conv_general_dilated(
    lhs: Operand,
    rhs: Operand,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Convolves lhs with the kernel rhs, which is not reversed, along any number of spatial axes.

    Args:
        lhs: `[n, c, *space]`, or with axes in the order of `dimension_numbers`.
        rhs: `[o, c / feature_group_count, *window]`, of lhs's dtype.
        window_strides: by how much the kernel moves along each spatial axis.
        padding: "VALID", "SAME" or "SAME_LOWER", or a pair of amounts for each spatial axis, possibly negative.
        lhs_dilation, rhs_dilation: the distance of neighbouring elements along each spatial axis; 1 by default.
        dimension_numbers: three strings such as ("NHWC", "HWIO", "NHWC"), or `ConvDimensionNumbers`.
        feature_group_count: in how many groups the features of lhs and of the result are convolved.
        batch_group_count: in how many groups the batch of lhs and the features of the result are.
        precision: for accelerators, one for both operands or a pair.
        preferred_element_type: the dtype of the sums and of the result.
        out_sharding: the sharding of the result; by default inferred from the operands'.

    Returns:
        An array `[n / batch_group_count, o, *positions]`.

    Raises:
        ShapeError: ranks, sizes or groups do not fit.
        DTypeError: dtypes differ.

    >>> import numpy as np
    >>> x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    >>> conv_general_dilated(x, np.ones((1, 1, 2), np.float32), (2,), "SAME")
    Array([[[1., 5., 4.]]], dtype=float32)
    """
    if out_sharding is not None:
        return apply_with_sharding(
            out_sharding,
            conv_general_dilated,
            lhs,
            rhs,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            batch_group_count,
            precision,
            preferred_element_type,
        )
    x, kernel = as_operand(lhs), as_operand(rhs)
    numbers = conv_dimension_numbers(x.type.shape, kernel.type.shape, dimension_numbers)
    specs = [int_tuple(name, spec) for name, spec in zip(numbers._fields, numbers, strict=True)]
    strides = int_tuple("window_strides", window_strides)
    ones = (1,) * len(strides)
    below = ones if lhs_dilation is None else int_tuple("lhs_dilation", lhs_dilation)
    between = ones if rhs_dilation is None else int_tuple("rhs_dilation", rhs_dilation)
    if isinstance(padding, str):
        if padding.upper() != "VALID" and below != ones:
            raise ShapeError(
                f"{name_user_call()}: padding {padding!r} has no meaning with lhs_dilation {below}; give amounts, or use "
                "conv_transpose"
            )
        # Shapes that do not fit get padding 0, and the operation raises the error.
        fits = len(between) == len(strides) == len(specs[0]) - 2 == kernel.type.ndim - 2
        pads = [(0, 0)] * len(strides)
        if fits or padding.upper() not in ("VALID", "SAME", "SAME_LOWER"):
            window = [
                dilated_size(kernel.type.shape[a], d) for a, d in zip(specs[1][2:], between, strict=False)
            ]
            sizes = [x.type.shape[a] for a in specs[0][2:]]
            pads = padtype_to_pads(sizes[: len(window)], window, strides[: len(window)], padding)
    else:
        pads = padding_pairs(padding)
    return Convolution(
        strides, tuple([low for low, _ in pads]), tuple([high for _, high in pads]), below, between,
        specs[0], specs[1], specs[2], index(feature_group_count), index(batch_group_count),
        arithmetic.precision_pair(precision),
        arithmetic.resolve_preferred_dtype(preferred_element_type),
    )(x, kernel)  # fmt: skip


def conv(
    lhs: Operand,
    rhs: Operand,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
) -> Array:
    """Convolves `[n, c, *space]` with a kernel `[o, c, *window]`; see `conv_general_dilated`.

    Args:
        lhs, rhs: of one dtype.
        window_strides: by how much the kernel moves along each spatial axis.
        padding: "VALID", "SAME" or "SAME_LOWER".
        precision: for accelerators, one for both operands or a pair.
        preferred_element_type: the dtype of the sums and of the result.

    Raises:
        ShapeError: ranks or sizes do not fit.
        DTypeError: dtypes differ.

    >>> import numpy as np
    >>> conv(np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.float32), (1,), "VALID")
    Array([[[2., 2., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Operand,
    rhs: Operand,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
) -> Array:
    """Convolves `[n, c, *space]` with a kernel `[o, c, *window]`; see `conv_general_dilated`.

    Args:
        lhs, rhs: of one dtype.
        window_strides: by how much the kernel moves along each spatial axis.
        padding: a name, or a pair of amounts for each spatial axis.
        lhs_dilation, rhs_dilation: the distance of neighbouring elements along each spatial axis; None for 1.
        precision: for accelerators, one for both operands or a pair.
        preferred_element_type: the dtype of the sums and of the result.

    Raises:
        ShapeError: ranks or sizes do not fit.
        DTypeError: dtypes differ.

    >>> import numpy as np
    >>> x, k = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.float32)
    >>> conv_with_general_padding(x, k, (1,), [(1, 0)], None, None)
    Array([[[1., 2., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


TRANSPOSED = {2: ("NC", "IO", "NC"), 3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"),
              5: ("NHWDC", "HWDIO", "NHWDC")}  # fmt: skip


def conv_transpose(
    lhs: Operand,
    rhs: Operand,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    transpose_kernel: bool = False,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Convolves lhs, spread by the strides, with a kernel: the gradient of a strided convolution, as a layer.

    Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, section 4.

    Args:
        lhs: `[n, *space, c]`, or with axes in the order of `dimension_numbers`.
        rhs: `[*window, c, o]`, of lhs's dtype.
        strides: by how much lhs is spread along each spatial axis.
        padding: "SAME" or "VALID" as that of the convolution whose gradient this is; or a pair of amounts for each
            spatial axis, which is that of this convolution.
        rhs_dilation: the distance of neighbouring elements of the kernel along each spatial axis.
        dimension_numbers: as in `conv_general_dilated`; by default features are last.
        transpose_kernel: True to reverse the kernel and to exchange its features: the gradient itself.
        precision: for accelerators, one for both operands or a pair.
        preferred_element_type: the dtype of the sums and of the result.
        use_consistent_padding: True to read amounts as those of the other convolution too.

    Returns:
        An array `[n, *positions, o]`.

    Raises:
        ShapeError: ranks or sizes do not fit.
        DTypeError: dtypes differ.

    >>> import numpy as np
    >>> x = np.array([[[1.], [2.]]], np.float32)
    >>> conv_transpose(x, np.ones((2, 1, 1), np.float32), (2,), "SAME")[0, :, 0]
    Array([1., 1., 2., 2.], dtype=float32)
    """
    x, kernel = as_operand(lhs), as_operand(rhs)
    if dimension_numbers is None:
        dimension_numbers = TRANSPOSED.get(x.type.ndim)
        if dimension_numbers is None:
            raise ShapeError(
                f"{name_user_call()}: needs dimension_numbers for lhs {x.type!r} of {x.type.ndim} axes"
            )
    numbers = conv_dimension_numbers(x.type.shape, kernel.type.shape, dimension_numbers)
    moves = int_tuple("strides", strides)
    into, out_features, *space = int_tuple("rhs_spec", numbers.rhs_spec)
    if len(moves) != len(space):
        raise ShapeError(
            f"{name_user_call()}: strides must have one entry for each of the {len(space)} spatial axes, got {moves}"
        )
    between = (1,) * len(moves) if rhs_dilation is None else int_tuple("rhs_dilation", rhs_dilation)
    if len(between) != len(moves):
        raise ShapeError(
            f"{name_user_call()}: rhs_dilation must have one entry for each of the {len(space)} spatial axes, got {between}"
        )
    window = [dilated_size(kernel.type.shape[a], d) for a, d in zip(space, between, strict=True)]
    if isinstance(padding, str):
        pads = resolve_named_padding(window, moves, padding)
    else:
        pads = padding_pairs(padding)
        if use_consistent_padding:
            pads = [transposed_conv_padding(w, s, p) for w, s, p in zip(window, moves, pads, strict=True)]
    if transpose_kernel:
        kernel = swapaxes(Reverse(tuple(space))(kernel), into, out_features)
    return conv_general_dilated(
        x, kernel, (1,) * len(moves), pads, moves, between, numbers,
        precision=precision, preferred_element_type=preferred_element_type,
    )  # fmt: skip


def conv_general_dilated_patches(
    lhs: Operand,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
    preferred_element_type: "DTypeLike | None" = None,
) -> Array:
    """Returns for each position of a window the elements that it covers, as features.

    Args:
        lhs: `[n, c, *space]`, or with axes in the order of `dimension_numbers`.
        filter_shape: the window's sizes.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers: as in `conv_general_dilated`.
        precision: for accelerators.
        preferred_element_type: the dtype of the result.

    Returns:
        An array `[n, c * size, *positions]` for a window of `size` elements: those of the first feature come first.

    Raises:
        ShapeError: ranks or sizes do not fit.

    >>> import numpy as np
    >>> conv_general_dilated_patches(np.arange(4.).reshape(1, 1, 4), (2,), (1,), "VALID")[0]
    Array([[0., 1., 2.],
           [1., 2., 3.]], dtype=float32)
    """
    patches, numbers = _patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation,
        dimension_numbers, precision, preferred_element_type,
    )  # fmt: skip
    return moveaxis(patches, range(patches.type.ndim), int_tuple("out_spec", numbers.out_spec))


def _patches(
    lhs: Operand,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers,
    precision: PrecisionLike,
    preferred: "DTypeLike | None",
) -> tuple[Array, ConvDimensionNumbers]:
    """Returns the elements under a window as `[n, c * size, *positions]`, and which axes are what.

    Each feature is a batch element of its own, so no groups are needed, which XLA:CPU convolves slowly.
    """
    x, window = as_operand(lhs), int_tuple("filter_shape", filter_shape)
    numbers = conv_dimension_numbers(x.type.shape, (1, 1, *window), dimension_numbers)
    x = transpose(x, numbers.lhs_spec)
    n, c, *space = x.type.shape
    size = int(np.prod(window, dtype=int))
    kernel = to_host_array(np.eye(size), x.type.dtype)
    alone = conv_general_dilated(
        reshape(x, (n * c, 1, *space)), reshape(kernel, (size, 1, *window)), window_strides, padding,
        lhs_dilation, rhs_dilation, precision=precision, preferred_element_type=preferred,
    )  # fmt: skip
    return reshape(alone, (n, c * size, *alone.type.shape[2:])), numbers


def conv_general_dilated_local(
    lhs: Operand,
    rhs: Operand,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvGeneralDilatedDimensionNumbers = None,
    precision: PrecisionLike = None,
) -> Array:
    """Convolves with a kernel of its own at each position.

    Args:
        lhs: `[n, c, *space]`, or with axes in the order of `dimension_numbers`.
        rhs: `[o, c * size, *positions]` for a window of `size` elements.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers: as in `conv_general_dilated`.
        filter_shape: the window's sizes.
        precision: for accelerators, one for both operands or a pair.

    Returns:
        An array `[n, o, *positions]`.

    Raises:
        ShapeError: ranks or sizes do not fit.

    >>> import numpy as np
    >>> x, k = np.ones((1, 1, 3), np.float32), np.array([[[1, 2], [0, 5]]], np.float32)
    >>> conv_general_dilated_local(x, k, (1,), "VALID", (2,))
    Array([[[1., 7.]]], dtype=float32)
    """
    kernel = as_operand(rhs)
    patches, numbers = _patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
        precision, None,
    )  # fmt: skip
    kernel = transpose(kernel, numbers.rhs_spec)
    space = tuple(range(2, patches.type.ndim))
    product = DotGeneral((1,), (1,), space, space, arithmetic.resolve_precision(precision))(patches, kernel)
    # Positions, batch, features; then each where it belongs.
    _, _, *spatial_axes = numbers.out_spec
    return moveaxis(product, range(product.type.ndim), [*spatial_axes, *numbers.out_spec[:2]])
