"""Resize images: resample arrays along any axes (`resize`, `scale_and_translate`)."""

import enum
from collections.abc import Sequence
from typing import final

import numpy as np

from effx import dtypes
from effx.array import Array, Operand, arithmetic, reducing
from effx.array.indexing import count_up, iota_along_axis
from effx.array.promotion import as_operand, convert, size_scalar, to_host_array
from effx.array.shaping import expand_dims, moveaxis, normalize_axis, to_shape
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import Shape
from effx.ir.values.scalars import scalar
from effx.lax.products import Precision
from effx.lazy import list_names
from effx.numpy.elementwise import floor, sinc
from effx.numpy.indexing import take
from effx.numpy.linear import tensordot
from effx.transforms.jit.jit import jit

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
__dir__ = list_names(__all__)


@final
class ResizeMethod(enum.Enum):
    """The kernel for resampling an image.

    Sources: Keys, "Cubic convolution interpolation for digital image processing", 1981; Duchon, "Lanczos filtering in
    one and two dimensions", 1979.

    >>> import effx.numpy as enp
    >>> from effx.image import ResizeMethod, resize
    >>> print(resize(enp.array([1.0, 3.0]), (4,), ResizeMethod.NEAREST))
    [1. 1. 3. 3.]
    """

    NEAREST = 0
    """The nearest element."""
    LINEAR = 1
    """A triangle: linear interpolation."""
    LANCZOS3 = 2
    """Lanczos' kernel of radius 3."""
    LANCZOS5 = 3
    """Lanczos' kernel of radius 5."""
    CUBIC = 4
    """Keys' cubic kernel, of slope -1/2 at 1."""
    CUBIC_PYTORCH = 5
    """PyTorch's: CUBIC with antialias; without it of slope -3/4 at 1, the outermost elements going on beyond the edges."""
    AREA = 6
    """The mean over the area of a new element."""

    @staticmethod
    def from_string(s: str) -> "ResizeMethod":
        """Returns a method by its name.

        Raises:
            DTypeError: there is no such method.

        >>> ResizeMethod.from_string("bicubic")
        <ResizeMethod.CUBIC: 4>
        """
        if s not in _NAMES:
            raise OptionError(f"ResizeMethod: the method must be one of {', '.join(_NAMES)}, got {s!r}")
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def _parse_method(method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if not isinstance(method, str):
        raise DTypeError(f"{name_user_call()}: the method must be a ResizeMethod or its name, got {method!r}")
    return ResizeMethod.from_string(method)


def _kernel_values(method: ResizeMethod, x: Array) -> Array:
    """Returns the kernel's values at distances x."""
    if method is ResizeMethod.LINEAR:
        return arithmetic.maximum(1 - x, 0)
    if method in (ResizeMethod.LANCZOS3, ResizeMethod.LANCZOS5):
        radius = 3 if method is ResizeMethod.LANCZOS3 else 5
        # Beyond the radius the argument is one at which the kernel is 0, so that nothing is computed of large ones.
        near = arithmetic.where(x < radius, x, float(radius))
        return arithmetic.where(x < radius, sinc(near) * sinc(near / radius), 0)
    a = -0.75 if method is ResizeMethod.CUBIC_PYTORCH else -0.5
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return arithmetic.where(x <= 1, inner, arithmetic.where(x < 2, outer, 0))


def _weights(
    method: ResizeMethod, size: int, integer_part: Array, fraction: Array, inverse: Array, antialias: bool
) -> Array:
    """Returns of each old element its weight in each new one, of shape `[size, new]`.

    Args:
        method: the kernel.
        size: how many old elements there are.
        integer_part, fraction: the places of the new elements' middles, where those of the old ones are 0, 1, ...
        inverse: the distance of new elements.
        antialias: True to widen the kernel where new elements are further apart than old ones.
    """
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    old = expand_dims(convert(count_up(size), fraction.type.dtype), 1)
    end = size_scalar(size, fraction.type.dtype)
    offsets = (expand_dims(integer_part, 0) - old) + expand_dims(fraction, 0)
    if method is ResizeMethod.AREA:
        half = inverse / 2
        low, high = arithmetic.maximum(offsets - half, -0.5), arithmetic.minimum(offsets + half, 0.5)
        weights = arithmetic.maximum(high - low, 0)
    else:
        wide = arithmetic.maximum(inverse, 1) if antialias else 1
        weights = _kernel_values(method, abs(offsets) / wide)
        if method is ResizeMethod.CUBIC_PYTORCH:
            # What the kernel has beyond the edges counts for the outermost elements.
            for edge, beyond in ((0, (-1, -2)), (size - 1, (size, size + 1))):
                more = [_kernel_values(method, abs((integer_part - i) + fraction)) for i in beyond]
                weights = weights.at[edge].add(more[0] + more[1])
    total = reducing.sum(weights, 0, keepdims=True)
    usable = abs(total) > 1000 * float(dtypes.finfo(np.float32).eps)
    weights = arithmetic.where(usable, weights / arithmetic.where(usable, total, 1), 0)
    position = integer_part + fraction
    return arithmetic.where((position >= -0.5) & (position <= end - 0.5), weights, 0)


def _apply_weights(x: Array, axis: int, weights: Array, precision: object) -> Array:
    resampled = tensordot(x, convert(weights, x.type.dtype), axes=((axis,), (0,)), precision=precision)
    return moveaxis(resampled, -1, axis)


def _widen_image(image: Operand) -> tuple[Array, dtypes.DType]:
    """Returns an image whose numbers have at least 32 bits, and the dtype of the result."""
    x = arithmetic.to_inexact(as_operand(image))
    dtype = x.type.dtype
    return (convert(x, dtypes.float32) if dtype.itemsize < 4 else convert(x, dtype)), dtype


def _find_nearest_indices(n: int, m: int) -> Array:
    """Returns for each of m elements the one of n that contains its middle."""
    if is_symbolic(n) or is_symbolic(m):
        return (2 * iota_along_axis((m,), 0) + 1) * n // (2 * m)
    return to_host_array((2 * np.arange(m) + 1) * n // (2 * m))


def _find_places(n: int, m: int, real: dtypes.DType) -> tuple[Array, Array, Array]:
    """Returns where the middles of m elements are among those of n: whole parts and fractions, and the distance."""
    if is_symbolic(n) or is_symbolic(m):
        distance: Array = size_scalar(n, real) / size_scalar(m, real)
        places = (convert(count_up(m), real) + 0.5) * distance - 0.5
        whole = floor(places)
        return whole, places - whole, distance
    positions = (np.arange(m) + 0.5) * (n / max(m, 1)) - 0.5
    integer_part = np.floor(positions)
    return (
        to_host_array(integer_part.astype(real)),
        to_host_array((positions - integer_part).astype(real)),
        scalar(n / max(m, 1), real),
    )


@jit(static_argnames=("shape", "method", "antialias", "precision"), inline=True)
def _resize(image: Array, shape: Shape, method: ResizeMethod, antialias: bool, precision: object) -> Array:
    if method is ResizeMethod.NEAREST:
        x = image
        for axis, (n, m) in enumerate(zip(image.type.shape, shape, strict=True)):
            if n != m:
                # The old element that contains the middle of a new one.
                x = take(x, _find_nearest_indices(n, m), axis=axis, mode="clip")
        return x
    x, dtype = _widen_image(image)
    real = dtypes.real_dtype(x.type.dtype)
    known: dict[tuple[int, int], Array] = {}
    for axis, sizes in enumerate(zip(image.type.shape, shape, strict=True)):
        n, m = sizes
        if n != m:
            if sizes not in known:
                known[sizes] = _weights(method, n, *_find_places(n, m, real), antialias)
            x = _apply_weights(x, axis, known[sizes], precision)
    return convert(x, dtype)


def resize(
    image: Operand,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: object = Precision.HIGHEST,
) -> Array:
    """Resamples an image at another size.

    The middle of an element is half an element from its edges. Beyond the image's edges there are no elements: the
    weights of the elements inside add up to 1.

    Args:
        image: `[*n]`, of any number of axes. Axes that keep their size are not resampled.
        shape: the new sizes.
        method: "nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch" or "area"; or a `ResizeMethod`.
        antialias: True to widen the kernel where the image shrinks, so that every element counts.
        precision: the precision of the products.

    Returns:
        An array of the shape; of the image's dtype with "nearest", else a floating or complex one.

    Raises:
        ShapeError: not one size for each axis, or an axis without elements is to have some.
        DTypeError: there is no such method.

    >>> resize(np.array([0.0, 2.0, 4.0, 6.0]), (2,), "area").tolist()
    [1.0, 5.0]
    """
    x, sizes, parsed_method = (
        as_operand(image),
        to_shape(shape),
        _parse_method(method),
    )
    if len(sizes) != x.type.ndim:
        raise ShapeError(f"resize: shape must have one size for each axis of {x.type!r}, got {list(sizes)}")
    for axis, (n, m) in enumerate(zip(x.type.shape, sizes, strict=True)):
        if m and not n:
            raise ShapeError(f"resize: axis {axis} of {x.type!r} has no elements to make {m} of")
    return _resize(x, sizes, parsed_method, bool(antialias), precision)


@jit(static_argnames=("shape", "axes", "method", "antialias", "precision"), inline=True)
def _scale_and_translate(
    image: Array,
    scale: Array,
    translation: Array,
    shape: Shape,
    axes: tuple[int, ...],
    method: ResizeMethod,
    antialias: bool,
    precision: object,
) -> Array:
    x, dtype = _widen_image(image)
    real = dtypes.real_dtype(x.type.dtype)
    for i, axis in enumerate(axes):
        inverse = 1 / convert(scale[i], real)
        middles = to_host_array((np.arange(shape[axis]) + 0.5).astype(real))
        position = (middles - convert(translation[i], real)) * inverse - 0.5
        integer_part = floor(position)
        weights = _weights(
            method, image.type.shape[axis], integer_part, position - integer_part, inverse, antialias
        )
        x = _apply_weights(x, axis, weights, precision)
    return convert(x, dtype)


def scale_and_translate(
    image: Operand,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Operand,
    translation: Operand,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: object = Precision.HIGHEST,
) -> Array:
    """Resamples an image that is scaled and moved: the point x moves to `scale * x + translation`.

    The image's edge, half an element from the middle of the first one, is at 0. The result is 0 outside the image.

    Args:
        image: `[*n]`, of any number of axes.
        shape: the new sizes, those of other axes than `spatial_dims` being the old ones.
        spatial_dims: the axes that are resampled.
        scale, translation: a number for each of them. The result can be differentiated by them.
        method: "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch" or "area"; or a `ResizeMethod`.
        antialias: True to widen the kernel where the image shrinks, so that every element counts.
        precision: the precision of the products.

    Returns:
        A floating or complex array of the shape.

    Raises:
        ShapeError: sizes, axes and numbers do not match.
        DTypeError: there is no such method, or it is "nearest", which has no slope.

    >>> one = np.ones(1)
    >>> scale_and_translate(np.array([1.0, 2.0, 3.0]), (4,), (0,), one, one, "linear").tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    x, sizes, parsed_method = as_operand(image), to_shape(shape), _parse_method(method)
    axes = tuple([normalize_axis(axis, x.type.ndim, x.type) for axis in spatial_dims])
    if parsed_method is ResizeMethod.NEAREST:
        raise DTypeError(
            f"{name_user_call()}: the method must not be 'nearest', which has no slope; use resize"
        )
    if len(sizes) != x.type.ndim:
        raise ShapeError(
            f"{name_user_call()}: shape must have one size for each axis of {x.type!r}, got {list(sizes)}"
        )
    for axis, (n, m) in enumerate(zip(x.type.shape, sizes, strict=True)):
        if n != m and axis not in axes:
            raise ShapeError(
                f"{name_user_call()}: axis {axis} of {x.type!r} gets size {m} but is not in spatial_dims {axes}"
            )
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name_user_call()}: spatial_dims {tuple(spatial_dims)} repeat an axis")
    factor, shift = as_operand(scale), as_operand(translation)
    for name, v in (("scale", factor), ("translation", shift)):
        if v.type.shape != (len(axes),):
            raise ShapeError(
                f"{name_user_call()}: {name} must have a number for each of {len(axes)} spatial_dims, got {v.type!r}"
            )
    return _scale_and_translate(x, factor, shift, sizes, axes, parsed_method, bool(antialias), precision)
