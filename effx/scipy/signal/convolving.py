"""Convolution and correlation along any axes."""

from collections.abc import Sequence

from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, broadcast_shapes, convert, promote_dtypes
from effx.array.shaping import normalize_axes, reshape
from effx.errors import OptionError, ShapeError, name_user_call
from effx.ir.ops.elementwise import Complex
from effx.ir.ops.shape import Reverse
from effx.lax.control.branches import platform_dependent
from effx.lax.convolution import conv_general_dilated
from effx.numpy import fft
from effx.numpy.padding import pad
from effx.transforms.jit.jit import jit

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]

MODES = ("full", "same", "valid")
METHODS = ("auto", "direct", "fft")
BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
COMPLEX = Complex()


def _check_pair(in1: Operand, in2: Operand, mode: str) -> tuple[Array, Array]:
    x, y = [arithmetic.to_inexact(p) for p in promote_dtypes(as_operand(in1), as_operand(in2))]
    if mode not in MODES:
        raise OptionError(f"{name_user_call()}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if x.type.ndim != y.type.ndim:
        raise ShapeError(
            f"{name_user_call()}: in1 and in2 must have as many axes, got {x.type!r} and {y.type!r}"
        )
    return convert(x, x.type.dtype), convert(y, y.type.dtype)


def _check_order(x: Array, y: Array, axes: Sequence[int]) -> bool:
    """Says whether y is the larger one along all axes, of which one must be."""
    sizes = [(x.type.shape[a], y.type.shape[a]) for a in axes]
    if all([n >= m for n, m in sizes]):
        return False
    if all([n <= m for n, m in sizes]):
        return True
    raise ShapeError(
        f"{name_user_call()}: for mode 'valid' one of {x.type!r} and {y.type!r} must be at least as large along each axis"
    )


Amounts = Sequence[tuple[int, int]]


def _sliding_products(x: Array, kernel: Array, precision: object, zeros: Amounts | None = None) -> Array:
    """Returns the sums of products of a kernel with each part of x that it covers; x has zeros around it, so many before
    and behind along each axis.
    """
    if x.type.kind == "c":
        a, b, c, d = arithmetic.real(x), arithmetic.imag(x), arithmetic.real(kernel), arithmetic.imag(kernel)

        def slide(part: Array, of_kernel: Array) -> Array:
            return _sliding_products(part, of_kernel, precision, zeros)

        real = slide(a, c) - slide(b, d)
        return COMPLEX(real, slide(a, d) + slide(b, c))
    ndim = x.type.ndim
    products = conv_general_dilated(
        reshape(x, (1, 1, *x.type.shape)),
        reshape(kernel, (1, 1, *kernel.type.shape)),
        (1,) * ndim,
        zeros or "VALID",
        precision=precision,  # type: ignore[arg-type]  # as the operation takes it
    )
    return reshape(products, products.type.shape[2:])


def _flip_and_conjugate(x: Array) -> Array:
    return Reverse(tuple(range(x.type.ndim)))(x) if x.type.ndim else x


@jit(static_argnames=("mode", "precision", "boundary", "upper"), inline=True)
def _convolve_directly(
    x: Array,
    y: Array,
    mode: str,
    precision: object,
    boundary: str = "constant",
    fill: Array | None = None,
    upper: bool = False,
) -> Array:
    """Convolves, in the sense of mathematics: the second array is reversed. Without `fill`, zeros are around the first.

    Of an even size no element is the middle: `upper` chooses the later one of two for mode "same".
    """
    kernel = _flip_and_conjugate(y)
    if mode != "valid":
        amounts: list[tuple[int, int]] = []
        for n in y.type.shape:
            low = n // 2 if upper else (n - 1) // 2  # the elements before are cropped
            amounts.append((n - 1, n - 1) if mode == "full" else (n - 1 - low, low))
        widths = dict(enumerate(amounts))
        if boundary == "constant" and fill is None:
            # XLA:CPU is faster with a copy of x that has the zeros; others put zeros around themselves.
            return platform_dependent(
                x,
                kernel,
                cpu=lambda x, kernel: _sliding_products(pad(x, widths), kernel, precision),
                default=lambda x, kernel: _sliding_products(x, kernel, precision, amounts),
            )
        x = pad(x, widths, mode=boundary) if fill is None else pad(x, widths, constant_values=fill)
    return _sliding_products(x, kernel, precision)


def _fast_fft_size(n: int) -> int:
    """Returns the smallest size from n on whose only prime factors are 2, 3 and 5."""
    while True:
        rest = n
        for p in (2, 3, 5):
            while rest % p == 0:
                rest //= p
        if rest == 1:
            return n
        n += 1


@jit(static_argnames=("mode", "axes"), inline=True)
def _convolve_by_fft(x: Array, y: Array, mode: str, axes: tuple[int, ...]) -> Array:
    full = [x.type.shape[a] + y.type.shape[a] - 1 for a in axes]
    sizes = [_fast_fft_size(n) for n in full]
    if x.type.kind == "c":
        product = fft.fftn(x, sizes, axes) * fft.fftn(y, sizes, axes)
        full_convolution = fft.ifftn(product, sizes, axes)
    else:
        product = fft.rfftn(x, sizes, axes) * fft.rfftn(y, sizes, axes)
        full_convolution = fft.irfftn(product, sizes, axes)
    index: list[slice] = [slice(None)] * full_convolution.type.ndim
    for a, total in zip(axes, full, strict=True):
        n, m = x.type.shape[a], y.type.shape[a]
        low = {"full": 0, "same": (m - 1) // 2, "valid": min(n, m) - 1}[mode]
        size = {"full": total, "same": n, "valid": max(n, m) - min(n, m) + 1}[mode]
        index[a] = slice(low, low + size)
    return convert(full_convolution[tuple(index)], x.type.dtype)


def fftconvolve(
    in1: Operand, in2: Operand, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """Convolution along axes by Fourier transforms.

    Args:
        in1, in2: arrays with as many axes; along those that are not convolved they broadcast.
        mode: "full", "same" or "valid", as for `convolve`.
        axes: along which axes; all by default.

    Returns:
        Floating or complex numbers.

    Raises:
        ShapeError: shapes do not fit, or there are no elements.
        DTypeError: another mode.

    >>> import numpy as np
    >>> fftconvolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0])).round().astype(int).tolist()
    [1, 3, 5, 3]
    """
    x, y = _check_pair(in1, in2, mode)
    resolved_axes = normalize_axes(axes, x.type)
    broadcast_shapes(*[[n for i, n in enumerate(p.type.shape) if i not in resolved_axes] for p in (x, y)])
    if 0 in x.type.shape or 0 in y.type.shape:
        raise ShapeError(f"{name_user_call()}: needs elements, got {x.type!r} and {y.type!r}")
    if not resolved_axes:
        return x * y
    if mode == "valid":
        _check_order(x, y, resolved_axes)
    return _convolve_by_fft(x, y, mode, resolved_axes)


def _convolve(x: Array, y: Array, mode: str, method: str, precision: object) -> Array:
    if method not in METHODS:
        raise OptionError(f"{name_user_call()}: method must be one of {', '.join(METHODS)}, got {method!r}")
    if 0 in x.type.shape or 0 in y.type.shape:
        raise ShapeError(f"{name_user_call()}: needs elements, got {x.type!r} and {y.type!r}")
    if not x.type.ndim:
        return x * y
    swapped = mode == "valid" and _check_order(x, y, range(x.type.ndim))
    if method == "fft":
        return _convolve_by_fft(x, y, mode, tuple(range(x.type.ndim)))
    return _convolve_directly(y, x, mode, precision) if swapped else _convolve_directly(x, y, mode, precision)


def convolve(
    in1: Operand, in2: Operand, mode: str = "full", method: str = "auto", precision: object = None
) -> Array:
    """Convolution along all axes: `out[k] = sum_i in1[i] * in2[k - i]`.

    Args:
        in1, in2: arrays with as many axes and with elements.
        mode: "full" for all sums, "same" for those in the middle, as many as in1's elements, "valid" for those to which
            all elements of the smaller one contribute.
        method: "direct" for sums of products, "fft" for Fourier transforms, "auto" for the former.
        precision: of the products of "direct".

    Returns:
        Floating or complex numbers.

    Raises:
        ShapeError: shapes do not fit, or there are no elements.
        DTypeError: another mode or method.

    >>> import numpy as np
    >>> convolve(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0])).tolist()
    [1.0, 3.0, 5.0, 3.0]
    """
    x, y = _check_pair(in1, in2, mode)
    return _convolve(x, y, mode, method, precision)


def correlate(
    in1: Operand, in2: Operand, mode: str = "full", method: str = "auto", precision: object = None
) -> Array:
    """Correlation along all axes: `out[k] = sum_i in1[i + k] * conj(in2[i])`, from the first k with a sum on.

    Arguments as for `convolve`.

    >>> import numpy as np
    >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0])).tolist()
    [1.0, 2.0, 3.0, 0.0]
    """
    x, y = _check_pair(in1, in2, mode)
    return _convolve(x, _flip_and_conjugate(arithmetic.conj(y)), mode, method, precision)


def _convolve_planes(
    x: Array,
    y: Array,
    mode: str,
    boundary: str,
    fillvalue: Operand,
    precision: object,
    upper: bool,
) -> Array:
    if x.type.ndim != 2:
        raise ShapeError(f"{name_user_call()}: takes matrices, got {x.type!r} and {y.type!r}")
    if boundary not in BOUNDARIES:
        raise OptionError(
            f"{name_user_call()}: boundary must be one of {', '.join(BOUNDARIES)}, got {boundary!r}"
        )
    fill = as_operand(fillvalue)
    if fill.type.shape:
        raise ShapeError(f"{name_user_call()}: fillvalue must be a number, got {fill.type!r}")
    if 0 in x.type.shape or 0 in y.type.shape:
        raise ShapeError(f"{name_user_call()}: needs elements, got {x.type!r} and {y.type!r}")
    if mode == "valid" and _check_order(x, y, (0, 1)):
        x, y = y, x
    are_zeros = boundary != "fill" or (type(fillvalue) in (int, float) and fillvalue == 0)
    around = None if are_zeros else convert(fill, x.type.dtype)
    return _convolve_directly(x, y, mode, precision, BOUNDARIES[boundary], around, upper)


def convolve2d(
    in1: Operand,
    in2: Operand,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Operand = 0,
    precision: object = None,
) -> Array:
    """Convolution of matrices.

    Args:
        in1, in2, mode, precision: as for `convolve`.
        boundary: what is thought to be beyond in1's edges: "fill" `fillvalue`, "wrap" the other side, "symm" the mirror
            image. Mode "valid" does not read there.
        fillvalue: for boundary "fill".

    Raises:
        ShapeError: no matrices, or shapes do not fit.
        DTypeError: another mode or boundary.

    >>> import numpy as np
    >>> convolve2d(np.array([[1.0, 2.0]]), np.array([[1.0, 1.0]]), "same").tolist()
    [[1.0, 3.0]]
    """
    x, y = _check_pair(in1, in2, mode)
    return _convolve_planes(x, y, mode, boundary, fillvalue, precision, False)


def correlate2d(
    in1: Operand,
    in2: Operand,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Operand = 0,
    precision: object = None,
) -> Array:
    """Correlation of matrices: `out[k] = sum_i in1[i + k] * conj(in2[i])`. Arguments as for `convolve2d`.

    >>> import numpy as np
    >>> correlate2d(np.array([[1.0, 2.0]]), np.array([[1.0, 1.0]]), "valid").tolist()
    [[3.0]]
    """
    x, y = _check_pair(in1, in2, mode)
    return _convolve_planes(
        x, _flip_and_conjugate(arithmetic.conj(y)), mode, boundary, fillvalue, precision, True
    )
