"""Convolution and correlation along any axes."""

from collections.abc import Sequence

from effx.array import Array, Operand, arithmetic
from effx.array.promotion import as_operand, broadcast_shapes, convert, promote_dtypes
from effx.array.shaping import normalize_axes, reshape
from effx.errors import OptionError, ShapeError
from effx.ir.ops.elementwise import Complex
from effx.ir.ops.shape import Reverse
from effx.lax.convolution import conv_general_dilated
from effx.numpy import fft
from effx.numpy.padding import pad
from effx.transforms.jit.jit import jit

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]

MODES = ("full", "same", "valid")
METHODS = ("auto", "direct", "fft")
BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
COMPLEX = Complex()


def _pair(what: str, in1: Operand, in2: Operand, mode: str) -> tuple[Array, Array]:
    x, y = [arithmetic.to_inexact(p) for p in promote_dtypes(as_operand(in1, what), as_operand(in2, what))]
    if mode not in MODES:
        raise OptionError(f"{what}: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if x.type.ndim != y.type.ndim:
        raise ShapeError(f"{what}: in1 and in2 must have as many axes, got {x.type!r} and {y.type!r}")
    return convert(x, x.type.dtype), convert(y, y.type.dtype)


def _ordered(what: str, x: Array, y: Array, axes: Sequence[int]) -> bool:
    """Says whether y is the larger one along all axes, of which one must be."""
    sizes = [(x.type.shape[a], y.type.shape[a]) for a in axes]
    if all([n >= m for n, m in sizes]):
        return False
    if all([n <= m for n, m in sizes]):
        return True
    raise ShapeError(
        f"{what}: for mode 'valid' one of {x.type!r} and {y.type!r} must be at least as large along each axis"
    )


def _sums(x: Array, kernel: Array, precision: object) -> Array:
    """Returns the sums of products of a kernel with each part of x that it covers."""
    if x.type.kind == "c":
        a, b, c, d = arithmetic.real(x), arithmetic.imag(x), arithmetic.real(kernel), arithmetic.imag(kernel)
        real = _sums(a, c, precision) - _sums(b, d, precision)
        return COMPLEX(real, _sums(a, d, precision) + _sums(b, c, precision))
    ndim = x.type.ndim
    found = conv_general_dilated(
        reshape(x, (1, 1, *x.type.shape)),
        reshape(kernel, (1, 1, *kernel.type.shape)),
        (1,) * ndim,
        "VALID",
        precision=precision,  # type: ignore[arg-type]  # as the operation takes it
    )
    return reshape(found, found.type.shape[2:])


def _reversed(x: Array) -> Array:
    return Reverse(tuple(range(x.type.ndim)))(x) if x.type.ndim else x


@jit(static_argnames=("mode", "precision", "boundary", "upper"), inline=True)
def _direct(
    x: Array,
    y: Array,
    mode: str,
    precision: object,
    boundary: str = "constant",
    fill: Array | float = 0.0,
    upper: bool = False,
) -> Array:
    """Convolves, in the sense of mathematics: the second array is turned around.

    Of an even size no element is the middle: `upper` says that it is the later one of two for mode "same".
    """
    kernel = _reversed(y)
    if mode != "valid":
        amounts = []
        for n in y.type.shape:
            low = n // 2 if upper else (n - 1) // 2  # what comes before is cut off
            amounts.append((n - 1, n - 1) if mode == "full" else (n - 1 - low, low))
        widths = dict(enumerate(amounts))
        if boundary == "constant":
            x = pad(x, widths, constant_values=fill)
        else:
            x = pad(x, widths, mode=boundary)
    return _sums(x, kernel, precision)


def _size(n: int) -> int:
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
def _by_transform(x: Array, y: Array, mode: str, axes: tuple[int, ...]) -> Array:
    full = [x.type.shape[a] + y.type.shape[a] - 1 for a in axes]
    sizes = [_size(n) for n in full]
    if x.type.kind == "c":
        product = fft.fftn(x, sizes, axes) * fft.fftn(y, sizes, axes)
        found = fft.ifftn(product, sizes, axes)
    else:
        product = fft.rfftn(x, sizes, axes) * fft.rfftn(y, sizes, axes)
        found = fft.irfftn(product, sizes, axes)
    index: list[slice] = [slice(None)] * found.type.ndim
    for a, total in zip(axes, full, strict=True):
        n, m = x.type.shape[a], y.type.shape[a]
        low = {"full": 0, "same": (m - 1) // 2, "valid": min(n, m) - 1}[mode]
        size = {"full": total, "same": n, "valid": max(n, m) - min(n, m) + 1}[mode]
        index[a] = slice(low, low + size)
    return convert(found[tuple(index)], x.type.dtype)


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
    what = "fftconvolve"
    x, y = _pair(what, in1, in2, mode)
    places = normalize_axes(what, axes, x.type)
    broadcast_shapes(*[[n for i, n in enumerate(p.type.shape) if i not in places] for p in (x, y)])
    if 0 in x.type.shape or 0 in y.type.shape:
        raise ShapeError(f"{what}: needs elements, got {x.type!r} and {y.type!r}")
    if not places:
        return x * y
    if mode == "valid":
        _ordered(what, x, y, places)
    return _by_transform(x, y, mode, places)


def _convolved(what: str, x: Array, y: Array, mode: str, method: str, precision: object) -> Array:
    if method not in METHODS:
        raise OptionError(f"{what}: method must be one of {', '.join(METHODS)}, got {method!r}")
    if 0 in x.type.shape or 0 in y.type.shape:
        raise ShapeError(f"{what}: needs elements, got {x.type!r} and {y.type!r}")
    if not x.type.ndim:
        return x * y
    swapped = mode == "valid" and _ordered(what, x, y, range(x.type.ndim))
    if method == "fft":
        return _by_transform(x, y, mode, tuple(range(x.type.ndim)))
    return _direct(y, x, mode, precision) if swapped else _direct(x, y, mode, precision)


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
    x, y = _pair("convolve", in1, in2, mode)
    return _convolved("convolve", x, y, mode, method, precision)


def correlate(
    in1: Operand, in2: Operand, mode: str = "full", method: str = "auto", precision: object = None
) -> Array:
    """Correlation along all axes: `out[k] = sum_i in1[i + k] * conj(in2[i])`, from the first k with a sum on.

    Arguments as for `convolve`.

    >>> import numpy as np
    >>> correlate(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0])).tolist()
    [1.0, 2.0, 3.0, 0.0]
    """
    x, y = _pair("correlate", in1, in2, mode)
    return _convolved("correlate", x, _reversed(arithmetic.conj(y)), mode, method, precision)


def _of_planes(
    what: str,
    x: Array,
    y: Array,
    mode: str,
    boundary: str,
    fillvalue: Operand,
    precision: object,
    upper: bool,
) -> Array:
    if x.type.ndim != 2:
        raise ShapeError(f"{what}: takes matrices, got {x.type!r} and {y.type!r}")
    if boundary not in BOUNDARIES:
        raise OptionError(f"{what}: boundary must be one of {', '.join(BOUNDARIES)}, got {boundary!r}")
    fill = as_operand(fillvalue, what)
    if fill.type.shape:
        raise ShapeError(f"{what}: fillvalue must be a number, got {fill.type!r}")
    if 0 in x.type.shape or 0 in y.type.shape:
        raise ShapeError(f"{what}: needs elements, got {x.type!r} and {y.type!r}")
    if mode == "valid" and _ordered(what, x, y, (0, 1)):
        x, y = y, x
    return _direct(x, y, mode, precision, BOUNDARIES[boundary], convert(fill, x.type.dtype), upper)


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
            image. Mode "valid" does not look there.
        fillvalue: for boundary "fill".

    Raises:
        ShapeError: no matrices, or shapes do not fit.
        DTypeError: another mode or boundary.

    >>> import numpy as np
    >>> convolve2d(np.array([[1.0, 2.0]]), np.array([[1.0, 1.0]]), "same").tolist()
    [[1.0, 3.0]]
    """
    x, y = _pair("convolve2d", in1, in2, mode)
    return _of_planes("convolve2d", x, y, mode, boundary, fillvalue, precision, False)


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
    x, y = _pair("correlate2d", in1, in2, mode)
    return _of_planes(
        "correlate2d", x, _reversed(arithmetic.conj(y)), mode, boundary, fillvalue, precision, True
    )
