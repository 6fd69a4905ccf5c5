"""Functions of one number, element by element: powers, logarithms, trigonometry, rounding, parts.

Integers become floats of the default width (64-bit ones f64) where a result need not be an integer;
weak types stay weak.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from effx import dtypes
from effx.array import Array, arithmetic
from effx.array.declared import Declaration, bind_one
from effx.array.promotion import as_operand, convert
from effx.array.reducing import refuse_out
from effx.effects import perform
from effx.errors import DTypeError
from effx.ir.ops import elementwise as e
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.values.scalars import scalar
from effx.lax.elementwise import exponential, trigonometric
from effx.numpy.creation import returnable_operand
from effx.numpy.signatures import typed_as_inexact, typed_as_numeric, typed_as_real, typed_as_type_preserving
from effx.numpy.ufuncs import make_ufunc
from effx.transforms.jit.jit import jit

if TYPE_CHECKING:
    from collections.abc import Callable

    from effx.array import Operand
    from effx.ir.ops.base import Unary
    from effx.numpy.signatures import InexactFunction

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "angle",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "around",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fix",
    "floor",
    "imag",
    "log",
    "log1p",
    "log2",
    "log10",
    "nan_to_num",
    "negative",
    "positive",
    "rad2deg",
    "radians",
    "real",
    "reciprocal",
    "rint",
    "round",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]  # fmt: skip

_COMPLEX = e.Complex()

# Functions that turn integers into floats, and keep other dtypes and shapes.
declare_inexact = Declaration(
    cast("Callable[[Unary], InexactFunction]", bind_one(arithmetic.unary)),
    {"x": "Operand", "return": "Array"},
)

sqrt = declare_inexact(
    exponential.SQRT, "The square root; NaN below 0 for real numbers.", "float(sqrt(4.0))", "2.0"
)
cbrt = declare_inexact(exponential.CBRT, "The real cube root.", "float(cbrt(-8.0))", "-2.0")
exp = declare_inexact(exponential.EXP, "Returns e to the power x.", "float(exp(0.0))", "1.0")
exp2 = declare_inexact(exponential.EXP2, "2 to the power x.", "float(exp2(3.0))", "8.0")
expm1 = declare_inexact(exponential.EXPM1, "Returns exp(x) - 1, exact near 0.", "float(expm1(0.0))", "0.0")
log = declare_inexact(exponential.LOG, "The natural logarithm.", "float(log(1.0))", "0.0")
log1p = declare_inexact(exponential.LOG1P, "Returns log(1 + x), exact near 0.", "float(log1p(0.0))", "0.0")
sin = declare_inexact(trigonometric.SIN, "The sine of x radians.", "float(sin(0.0))", "0.0")
cos = declare_inexact(trigonometric.COS, "The cosine of x radians.", "float(cos(0.0))", "1.0")
tan = declare_inexact(trigonometric.TAN, "The tangent of x radians.", "float(tan(0.0))", "0.0")
arcsin = declare_inexact(
    trigonometric.ASIN,
    "The inverse sine, in radians from -pi/2 to pi/2.",
    "float(arcsin(0.0))",
    "0.0",
    name="arcsin",
)
arccos = declare_inexact(
    trigonometric.ACOS,
    "The inverse cosine, in radians from 0 to pi.",
    "float(arccos(1.0))",
    "0.0",
    name="arccos",
)
arctan = declare_inexact(
    trigonometric.ATAN,
    "The inverse tangent, in radians from -pi/2 to pi/2.",
    "float(arctan(0.0))",
    "0.0",
    name="arctan",
)
sinh = declare_inexact(trigonometric.SINH, "The hyperbolic sine.", "float(sinh(0.0))", "0.0")
cosh = declare_inexact(trigonometric.COSH, "The hyperbolic cosine.", "float(cosh(0.0))", "1.0")
tanh = declare_inexact(trigonometric.TANH, "The hyperbolic tangent.", "float(tanh(0.0))", "0.0")
arcsinh = declare_inexact(
    trigonometric.ASINH, "The inverse hyperbolic sine.", "float(arcsinh(0.0))", "0.0", name="arcsinh"
)
arccosh = declare_inexact(
    trigonometric.ACOSH,
    "The inverse hyperbolic cosine; NaN below 1 for real numbers.",
    "float(arccosh(1.0))",
    "0.0",
    name="arccosh",
)
arctanh = declare_inexact(
    trigonometric.ATANH, "The inverse hyperbolic tangent.", "float(arctanh(0.0))", "0.0", name="arctanh"
)


asin, acos, atan = arcsin, arccos, arctan
asinh, acosh, atanh = arcsinh, arccosh, arctanh


@typed_as_inexact
def log2(x: Operand, /) -> Array:
    """The logarithm to base 2.

    >>> float(log2(8.0))
    3.0
    """
    return _scale_inexact(arithmetic.unary(exponential.LOG, x), 1 / math.log(2))


@typed_as_inexact
def log10(x: Operand, /) -> Array:
    """The logarithm to base 10.

    >>> f"{float(log10(1000.0)):.3f}"
    '3.000'
    """
    return _scale_inexact(arithmetic.unary(exponential.LOG, x), 1 / math.log(10))


def _scale_inexact(x: Array, factor: float) -> Array:
    # A complex product would have infinity times 0.
    if x.type.kind != "c":
        return x * factor
    return perform(_COMPLEX, (arithmetic.real(x) * factor, imag(x) * factor))


@typed_as_real
def absolute(x: Operand, /) -> Array:
    """The absolute value `|x|`; of complex numbers the modulus, a real number.

    >>> int(absolute(-3)), float(absolute(3 + 4j))
    (3, 5.0)
    """
    return arithmetic.absolute(returnable_operand(x))


abs = absolute


def fabs(x: Operand, /) -> Array:
    """The absolute value as a float.

    Raises:
        DTypeError: complex operands.

    >>> fabs(-3)
    Array(3., dtype=float32, weak_type=True)
    """
    a = arithmetic.to_inexact(as_operand(x))
    if a.type.kind == "c":
        raise DTypeError(f"fabs: takes real numbers only, got {a.type!r}; use absolute")
    return perform(arithmetic.ABS, (a,))


@make_ufunc(nin=1)
@typed_as_numeric
def negative(x: Operand, /) -> Array:
    """The negative `-x`; unsigned integers wrap.

    >>> int(negative(3))
    -3
    """
    return arithmetic.negative(as_operand(x))


@typed_as_type_preserving
def positive(x: Operand, /) -> Array:
    """The operand itself, as an array.

    >>> int(positive(-3))
    -3
    """
    return perform(arithmetic.COPY, (returnable_operand(x),))


@typed_as_type_preserving
def sign(x: Operand, /) -> Array:
    """-1, 0 or 1 by sign; x / |x| for complex numbers; NaN for NaN. A zero keeps its sign.

    >>> float(sign(-2.5))
    -1.0
    """
    return perform(arithmetic.SIGN, (as_operand(x),))


_SQUARE = e.Square()


@typed_as_numeric
def square(x: Operand, /) -> Array:
    """The square `x * x`; of booleans as integers.

    >>> int(square(-3))
    9
    """
    a = as_operand(x)
    return perform(_SQUARE, (convert(a, dtypes.int32) if a.type.kind == "b" else a,))


@typed_as_inexact
def reciprocal(x: Operand, /) -> Array:
    """Returns `1 / x` as a float.

    >>> float(reciprocal(4))
    0.25
    """
    return arithmetic.integer_power(arithmetic.to_inexact(as_operand(x)), -1)


@typed_as_inexact
def degrees(x: Operand, /) -> Array:
    """Radians to degrees.

    >>> f"{float(degrees(math.pi)):.3f}"
    '180.000'
    """
    return arithmetic.to_inexact(as_operand(x)) * (180 / math.pi)


@typed_as_inexact
def radians(x: Operand, /) -> Array:
    """Degrees to radians.

    >>> f"{float(radians(180)):.4f}"
    '3.1416'
    """
    return arithmetic.to_inexact(as_operand(x)) * (math.pi / 180)


rad2deg, deg2rad = degrees, radians


def _perform_rounding(op: e.Floor | e.Ceil, x: Operand) -> Array:
    a = returnable_operand(x)
    return a if a.type.kind in "biu" else perform(op, (a,))


_CEIL = e.Ceil()


@typed_as_type_preserving
def floor(x: Operand, /) -> Array:
    """The largest integer not above x; integers are unchanged.

    >>> float(floor(-1.5))
    -2.0
    """
    return _perform_rounding(arithmetic.FLOOR, x)


@typed_as_type_preserving
def ceil(x: Operand, /) -> Array:
    """The smallest integer not below x; integers are unchanged.

    >>> float(ceil(-1.5))
    -1.0
    """
    return _perform_rounding(_CEIL, x)


@typed_as_type_preserving
def trunc(x: Operand) -> Array:
    """The integer part: rounded toward zero; integers are unchanged.

    >>> float(trunc(-1.5))
    -1.0
    """
    a = returnable_operand(x)
    if a.type.kind in "biu":
        return a
    zero = scalar(0.0, a.type.dtype, a.type.weak)
    return arithmetic.where(a < zero, perform(_CEIL, (a,)), perform(arithmetic.FLOOR, (a,)))


fix = trunc


@typed_as_inexact
def rint(x: Operand, /) -> Array:
    """The nearest integer as a float, halves to even.

    >>> float(rint(2.5))
    2.0
    """
    a = as_operand(x)
    if a.type.kind in "biu":
        a = arithmetic.to_inexact(a) if a.type.weak else convert(a, dtypes.canonicalize(dtypes.float64))
    return arithmetic.round_(a) if a.type.kind == "c" else perform(arithmetic.ROUND_TO_EVEN, (a,))


def round(a: Operand, decimals: int = 0, out: None = None) -> Array:
    """Rounded to a number of decimals, halves to even; integers are unchanged unless `decimals` is negative.

    >>> float(round(2.345, 1))
    2.299999952316284
    """
    refuse_out(out)
    return arithmetic.round_(returnable_operand(a), decimals)


around = round


@typed_as_real
def real(x: Operand, /) -> Array:
    """The real part.

    >>> float(real(1 + 2j))
    1.0
    """
    return arithmetic.real(returnable_operand(x))


def imag(x: Operand, /) -> Array:
    """The imaginary part; zeros for real numbers.

    >>> float(imag(1 + 2j))
    2.0
    """
    a = as_operand(x)
    if a.type.kind == "c":
        return perform(arithmetic.IMAG, (a,))
    return BroadcastInDim(a.type.shape, ())(scalar(0, a.type.dtype, a.type.weak))


@typed_as_type_preserving
def conj(x: Operand, /) -> Array:
    """The complex conjugate; real numbers are unchanged.

    >>> complex(conj(1 + 2j))
    (1-2j)
    """
    return arithmetic.conj(returnable_operand(x))


conjugate = conj


def angle(z: Operand, deg: bool = False) -> Array:
    """The angle of complex numbers in the plane, from -pi to pi.

    Args:
        z: complex or real numbers.
        deg: True for degrees instead of radians.

    >>> float(angle(1j, deg=True))
    90.0
    """
    a = as_operand(z)
    # An integer has no part to measure from: the result is strong, as JAX has it.
    parts = (a if a.type.kind in "fc" else convert(a, dtypes.canonicalize(dtypes.float64)),)
    result = perform(trigonometric.ATAN2, (imag(parts[0]), arithmetic.real(parts[0])))
    return degrees(result) if deg else result


@typed_as_inexact
def sinc(x: Operand, /) -> Array:
    """sin(pi x) / (pi x), 1 at 0, and 0 at infinity.

    >>> float(sinc(0.0))
    1.0
    """
    a = arithmetic.to_inexact(as_operand(x))
    if a.type.kind != "c":
        return _divide_sine_of_pi(a)
    # Part by part, since the product of an infinite number by a complex one has NaN in it.
    return divide_sine(perform(_COMPLEX, (arithmetic.real(a) * math.pi, arithmetic.imag(a) * math.pi)))


# (-1)^k pi^(2 k) / (2 k + 1)!, as many as sin(pi x) / (pi x) and its derivatives up to the fourth need for |x| <= 1/2.
_SINE_OF_PI_SERIES = tuple([(-1) ** k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(13)])


@jit(inline=True)
def _divide_sine_of_pi(x: Array) -> Array:
    """Returns sin(pi x) / (pi x) of real numbers, 1 at 0, and 0 at other integers and infinities.

    What is left of x by the nearest integer is exact, so that one polynomial serves all x: a twelfth of the sine's time.
    """
    integer = perform(arithmetic.ROUND_TO_EVEN, (x,))
    rest = x - integer
    # An infinite number minus itself is NaN.
    rest = arithmetic.where(perform(arithmetic.ABS, (x,)) == math.inf, scalar(0, x.type.dtype), rest)
    terms = {2: 6, 4: 9}.get(x.type.dtype.itemsize, 13)
    series = arithmetic.horner(rest * rest, _SINE_OF_PI_SERIES[:terms])
    is_zero = integer == 0
    is_odd = perform(arithmetic.ROUND_TO_EVEN, (integer * 0.5,)) * 2 != integer
    denominator = arithmetic.where(is_zero, scalar(1, x.type.dtype, x.type.weak), x)
    quotient = rest * series / arithmetic.where(is_odd, -denominator, denominator)
    return arithmetic.where(is_zero, series, quotient)


# (-1)^k / (2 k + 1)!, as many as sin(x) / x and its derivatives up to the fourth need for |x| < 2.
_SINE_SERIES = tuple([(-1) ** k / math.factorial(2 * k + 1) for k in range(15)])


@jit(inline=True)
def divide_sine(x: Array) -> Array:
    """Returns sin(x) / x of floating or complex numbers, 1 at 0, and 0 at infinities of the real axis.

    Near 0 it is the power series: there derivatives of the quotient are differences of large numbers.
    """
    near = perform(arithmetic.ABS, (x,)) < 2
    square = arithmetic.where(near, x * x, scalar(0, x.type.dtype))
    # In 16 bits higher powers would overflow.
    terms = {2: 6, 4: 10}.get(x.type.dtype.itemsize, 15)
    series = arithmetic.horner(square, _SINE_SERIES[:terms])
    far = perform(arithmetic.ABS, (arithmetic.real(x) if x.type.kind == "c" else x,)) == math.inf
    if x.type.kind == "c":
        far = far & (perform(arithmetic.ABS, (arithmetic.imag(x),)) < math.inf)
    safe = arithmetic.where(near | far, scalar(1, x.type.dtype, x.type.weak), x)
    quotient = arithmetic.where(far, scalar(0, x.type.dtype), perform(trigonometric.SIN, (safe,)) / safe)
    return arithmetic.where(near, series, quotient)


def nan_to_num(
    x: Operand,
    copy: bool = True,
    nan: Operand = 0.0,
    posinf: Operand | None = None,
    neginf: Operand | None = None,
) -> Array:
    """Replaces NaN by `nan`, infinities by `posinf` and `neginf` (by default the largest finite numbers).

    >>> nan_to_num(float("nan"))
    Array(0., dtype=float32)
    """
    a = returnable_operand(x)
    t = a.type
    if t.kind == "c":
        parts = [
            nan_to_num(part, copy, nan, posinf, neginf) for part in (arithmetic.real(a), arithmetic.imag(a))
        ]
        return perform(e.Complex(), tuple(parts))
    if t.kind != "f":
        return a
    a = convert(a, t.dtype)
    limits = dtypes.finfo(t.dtype)
    high = scalar(float(limits.max), t.dtype) if posinf is None else convert(as_operand(posinf), t.dtype)
    low = scalar(float(limits.min), t.dtype) if neginf is None else convert(as_operand(neginf), t.dtype)
    inf = scalar(math.inf, t.dtype)
    a = arithmetic.where(perform(arithmetic.NE, (a, a)), convert(as_operand(nan), t.dtype), a)
    a = arithmetic.where(perform(arithmetic.EQ, (a, inf)), high, a)
    return arithmetic.where(perform(arithmetic.EQ, (a, perform(arithmetic.NEG, (inf,)))), low, a)
