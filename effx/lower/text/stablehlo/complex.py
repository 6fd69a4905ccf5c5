"""StableHLO text of functions of complex numbers.

XLA's own forms are exact to a few roundings for most finite numbers, and mostly NaN where a part is infinite or NaN; they
lose the signs of zeros besides. The values there are those of the C standard's Annex G, as NumPy's. Each function is written
by its real and imaginary parts; `a` and `b` are those of the argument.

Functions of a rotated argument share a form: sin z = -i sinh(iz), tan, asin and atan likewise, and cos z = cosh(iz).
"""

import math
from collections.abc import Callable
from typing import final

from effx import dtypes
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Elementwise
from effx.ir.types import ArrayType, array_type
from effx.lower.text.emit import Body

Pair = tuple[str, str]


@final
class Parts:
    """Writes real operations on the parts of complex numbers of one type."""

    __slots__ = ("bits", "body", "complex", "mask", "real")

    def __init__(self, body: Body, t: ArrayType) -> None:
        self.body, self.complex = body, t
        self.real = array_type(dtypes.real_dtype(t.dtype), t.shape)
        self.bits = array_type(dtypes.int64 if t.dtype == dtypes.complex128 else dtypes.int32, t.shape)
        self.mask = array_type(dtypes.bool_, t.shape).mlir

    def split(self, z: str) -> Pair:
        """Writes the parts of a complex number."""
        form = f"({self.complex.mlir}) -> {self.real.mlir}"
        return self.body.line(f"stablehlo.real {z} : {form}"), self.body.line(f"stablehlo.imag {z} : {form}")

    def join(self, parts: Pair) -> str:
        """Writes the complex number of two parts."""
        return self.body.line(f"stablehlo.complex {parts[0]}, {parts[1]} : {self.complex.mlir}")

    def call(self, function: str, *operands: str) -> str:
        """Writes a real operation of StableHLO."""
        return self.body.line(f"stablehlo.{function} {', '.join(operands)} : {self.real.mlir}")

    def call_chlo(self, function: str, operand: str) -> str:
        """Writes a real operation of CHLO."""
        return self.body.line(f"chlo.{function} {operand} : {self.real.mlir} -> {self.real.mlir}")

    def call_whole(self, function: str, z: Pair) -> Pair:
        """Writes XLA's own form of a complex function."""
        form = self.complex.mlir
        form = f"{form} -> {form}" if function.startswith("chlo.") else form
        return self.split(self.body.line(f"{function} {self.join(z)} : {form}"))

    def constant(self, value: float) -> str:
        """Writes a real number."""
        return self.body.constant(value, self.real)

    def times(self, x: str, y: str) -> str:
        """Writes a product."""
        return self.call("multiply", x, y)

    def compare(self, direction: str, x: str, y: float | str) -> str:
        """Writes a comparison."""
        other = y if isinstance(y, str) else self.constant(y)
        form = f"({self.real.mlir}, {self.real.mlir}) -> {self.mask}"
        return self.body.line(f"stablehlo.compare {direction}, {x}, {other}, FLOAT : {form}")

    def is_infinite(self, x: str) -> str:
        """Writes whether a number is an infinity."""
        return self.compare("EQ", self.call("abs", x), math.inf)

    def is_finite(self, x: str) -> str:
        """Writes whether a number is neither an infinity nor NaN."""
        return self.body.line(f"stablehlo.is_finite {x} : ({self.real.mlir}) -> {self.mask}")

    def both(self, x: str, y: str) -> str:
        """Writes the conjunction of two conditions."""
        return self.body.line(f"stablehlo.and {x}, {y} : {self.mask}")

    def either(self, x: str, y: str) -> str:
        """Writes the disjunction of two conditions."""
        return self.body.line(f"stablehlo.or {x}, {y} : {self.mask}")

    def negation(self, x: str) -> str:
        """Writes the negation of a condition."""
        return self.body.line(f"stablehlo.not {x} : {self.mask}")

    def select(self, condition: str, on_true: str, on_false: str) -> str:
        """Writes a choice of two real numbers."""
        form = f"{self.mask}, {self.real.mlir}"
        return self.body.line(f"stablehlo.select {condition}, {on_true}, {on_false} : {form}")

    def copy_sign(self, x: str, y: str) -> str:
        """Writes |x| with the sign of y, that of a zero or NaN too."""
        bits = self.body.line(f"stablehlo.bitcast_convert {y} : ({self.real.mlir}) -> {self.bits.mlir}")
        form = f"({self.bits.mlir}, {self.bits.mlir}) -> {self.mask}"
        zero = self.body.constant(0, self.bits)
        is_negative = self.body.line(f"stablehlo.compare LT, {bits}, {zero}, SIGNED : {form}")
        size = self.call("abs", x)
        return self.select(is_negative, self.call("negate", size), size)


def _halve_where_large(p: Parts, a: str, is_large: str) -> str:
    """Writes a/2 where a is large: exp(a) = exp(a/2)^2 may overflow, where its product with a sine does not."""
    return p.select(is_large, p.times(a, p.constant(0.5)), a)


def _largest_exponent(p: Parts) -> float:
    """Returns a number below the one whose exponential overflows."""
    return 700.0 if p.real.dtype == dtypes.float64 else 80.0


def _write_exp(p: Parts, a: str, b: str) -> Pair:
    # exp(a) (cos b + i sin b)
    is_large = p.compare("GT", a, _largest_exponent(p))
    size = p.call("exponential", _halve_where_large(p, a, is_large))
    factor = p.select(is_large, size, p.constant(1.0))
    re, im = [p.times(p.times(size, p.call(f, b)), factor) for f in ("cosine", "sine")]
    is_lost = p.negation(p.is_finite(b))
    vanishes = p.both(is_lost, p.compare("EQ", a, -math.inf))
    grows = p.both(is_lost, p.compare("EQ", a, math.inf))
    zero = p.constant(0.0)
    re = p.select(grows, p.constant(math.inf), p.select(vanishes, zero, re))
    im = p.select(p.compare("EQ", b, 0.0), b, p.select(vanishes, zero, im))
    return re, im


def _write_expm1(p: Parts, a: str, b: str) -> Pair:
    # Near 0 by expm1(a) cos b + (cos b - 1), where nothing cancels but the two terms themselves.
    large_re, im = _write_exp(p, a, b)
    real_expm1, half = p.call("exponential_minus_one", a), p.call("sine", p.times(b, p.constant(0.5)))
    near = p.times(real_expm1, p.call("cosine", b))
    near = p.call("subtract", near, p.times(p.constant(2.0), p.times(half, half)))
    is_near = p.both(p.compare("LE", p.call("abs", a), 1.0), p.is_finite(b))
    re = p.select(is_near, near, p.call("subtract", large_re, p.constant(1.0)))
    return p.select(p.compare("EQ", b, 0.0), real_expm1, re), im


def _write_exp2(p: Parts, a: str, b: str) -> Pair:
    scale = p.constant(math.log(2))
    return _write_exp(p, p.times(a, scale), p.times(b, scale))


def _write_log(p: Parts, a: str, b: str) -> Pair:
    return _infinite_where_infinite(p, a, b, p.call_whole("stablehlo.log", (a, b)))


def _write_log1p(p: Parts, a: str, b: str) -> Pair:
    re, im = p.call_whole("stablehlo.log_plus_one", (a, b))
    # |1 + z| is |b| there, whose square XLA takes.
    re = p.select(p.compare("EQ", a, -1.0), p.call("log", p.call("abs", b)), re)
    return _infinite_where_infinite(p, a, b, (re, im))


def _infinite_where_infinite(p: Parts, a: str, b: str, parts: Pair) -> Pair:
    is_infinite = p.either(p.is_infinite(a), p.is_infinite(b))
    return p.select(is_infinite, p.constant(math.inf), parts[0]), parts[1]


def _write_sqrt(p: Parts, a: str, b: str) -> Pair:
    re, im = p.call_whole("stablehlo.sqrt", (a, b))
    infinity, zero = p.constant(math.inf), p.constant(0.0)
    rises, falls, turns = p.compare("EQ", a, math.inf), p.compare("EQ", a, -math.inf), p.is_infinite(b)
    b_is_nan = p.compare("NE", b, b)
    nan = p.constant(math.nan)
    re = p.select(rises, infinity, p.select(falls, p.select(b_is_nan, nan, zero), re))
    im = p.select(rises, p.select(b_is_nan, nan, zero), p.select(falls, infinity, im))
    return p.select(turns, infinity, re), p.copy_sign(p.select(turns, infinity, im), b)


def _write_hyperbolic(p: Parts, a: str) -> tuple[str, str, str]:
    """Writes two numbers and a factor of both: the products are sinh a and cosh a.

    Where a is large these are sinh r, cosh r and 2 cosh r of r = a/2: sinh 2r = 2 sinh r cosh r, and cosh 2r =
    2 cosh^2 r - 1, of which the 1 is lost there.
    """
    is_large = p.compare("GT", p.call("abs", a), _largest_exponent(p))
    reduced = _halve_where_large(p, a, is_large)
    sinh, cosh = p.call_chlo("sinh", reduced), p.call_chlo("cosh", reduced)
    return sinh, cosh, p.select(is_large, p.times(p.constant(2.0), cosh), p.constant(1.0))


def _write_sinh(p: Parts, a: str, b: str) -> Pair:
    # sinh a cos b + i cosh a sin b
    sinh, cosh, factor = _write_hyperbolic(p, a)
    re = p.times(p.times(sinh, p.call("cosine", b)), factor)
    im = p.times(p.times(cosh, p.call("sine", b)), factor)
    is_kept = p.both(p.negation(p.is_finite(b)), p.either(p.compare("EQ", a, 0.0), p.is_infinite(a)))
    return p.select(is_kept, a, re), p.select(p.compare("EQ", b, 0.0), b, im)


def _write_cosh(p: Parts, a: str, b: str) -> Pair:
    # cosh a cos b + i sinh a sin b. The second is a zero where a or b is, with the product of their signs.
    sinh, cosh, factor = _write_hyperbolic(p, a)
    re = p.times(p.times(cosh, p.call("cosine", b)), factor)
    im = p.times(p.times(sinh, p.call("sine", b)), factor)
    is_lost = p.negation(p.is_finite(b))
    re = p.select(p.both(is_lost, p.is_infinite(a)), p.constant(math.inf), re)
    bounded = p.call("clamp", p.constant(-1.0), a, p.constant(1.0))
    zero = p.select(p.compare("EQ", a, a), p.times(bounded, b), b)
    im = p.select(p.compare("EQ", b, 0.0), zero, im)
    return re, p.select(p.both(is_lost, p.compare("EQ", a, 0.0)), a, im)


def _write_tanh(p: Parts, a: str, b: str) -> Pair:
    re, im = p.call_whole("stablehlo.tanh", (a, b))
    is_flat = p.is_infinite(a)
    re = p.select(p.compare("EQ", a, 0.0), a, p.select(is_flat, p.call("sign", a), re))
    # The sign of sin 2b, and that of b where it has none.
    slope = p.times(p.call("sine", b), p.call("cosine", b))
    far = p.copy_sign(p.constant(0.0), p.select(p.is_finite(b), slope, b))
    return re, p.select(p.compare("EQ", b, 0.0), b, p.select(is_flat, far, im))


def _write_asinh(p: Parts, a: str, b: str) -> Pair:
    re, im = p.call_whole("chlo.asinh", (a, b))
    a_is_infinite, b_is_infinite = p.is_infinite(a), p.is_infinite(b)
    is_infinite = p.either(a_is_infinite, b_is_infinite)
    re = p.select(is_infinite, p.constant(math.inf), _nan_where_unordered(p, a, b, re))
    angle = p.copy_sign(_infinite_angle(p, a_is_infinite, b_is_infinite), b)
    im = p.select(is_infinite, _nan_where_unordered(p, a, b, angle), im)
    return p.copy_sign(re, a), p.select(p.compare("EQ", b, 0.0), b, im)


def _write_acos(p: Parts, a: str, b: str) -> Pair:
    re, im = p.call_whole("chlo.acos", (a, b))
    a_is_infinite, b_is_infinite = p.is_infinite(a), p.is_infinite(b)
    is_infinite = p.either(a_is_infinite, b_is_infinite)
    # The angle of a + i|b|, from that of |a| + i|b|.
    angle = _infinite_angle(p, a_is_infinite, b_is_infinite)
    angle = p.select(p.compare("EQ", a, -math.inf), p.call("subtract", p.constant(math.pi), angle), angle)
    re = p.select(is_infinite, _nan_where_unordered(p, a, b, angle), re)
    re = p.select(p.compare("EQ", a, 0.0), p.constant(math.pi / 2), re)
    im = p.select(is_infinite, p.constant(math.inf), _nan_where_unordered(p, a, b, im))
    return re, p.call("negate", p.copy_sign(im, b))


def _infinite_angle(p: Parts, a_is_infinite: str, b_is_infinite: str) -> str:
    """Writes the angle of |a| + i|b|, of which a part is infinite."""
    diagonal = p.select(b_is_infinite, p.constant(math.pi / 4), p.constant(0.0))
    return p.select(a_is_infinite, diagonal, p.constant(math.pi / 2))


def _nan_where_unordered(p: Parts, a: str, b: str, x: str) -> str:
    """Writes x, or NaN where a or b is NaN."""
    is_nan = p.either(p.compare("NE", a, a), p.compare("NE", b, b))
    return p.select(is_nan, p.constant(math.nan), x)


def _write_acosh(p: Parts, a: str, b: str) -> Pair:
    re, im = _write_acos(p, a, b)
    return p.call("abs", im), p.copy_sign(re, b)


def _write_atanh(p: Parts, a: str, b: str) -> Pair:
    re, im = p.call_whole("chlo.atanh", (a, b))
    # Beside 1 and -1 it is half the logarithm of 2/|b|, of which XLA takes the square.
    size = p.call("abs", b)
    is_beside = p.both(
        p.compare("EQ", p.call("abs", a), 1.0), p.compare("LT", size, float(dtypes.finfo(p.real.dtype).eps))
    )
    distance = p.call("subtract", p.constant(math.log(2)), p.call("log", size))
    re = p.select(is_beside, p.times(p.constant(0.5), distance), re)
    is_infinite = p.either(p.is_infinite(a), p.is_infinite(b))
    a_is_zero = p.compare("EQ", a, 0.0)
    is_unknown = p.either(p.compare("NE", b, b), p.both(p.compare("NE", a, a), p.negation(is_infinite)))
    re = p.select(p.either(is_infinite, a_is_zero), p.constant(0.0), re)
    im = p.select(is_infinite, p.constant(math.pi / 2), im)
    im = p.select(is_unknown, p.constant(math.nan), im)
    return p.copy_sign(re, a), p.copy_sign(im, b)


def _rotated(write: Callable[[Parts, str, str], Pair]) -> Callable[[Parts, str, str], Pair]:
    """Returns the writer of f with f(z) = -i g(iz) for that of g."""

    def write_rotated(p: Parts, a: str, b: str) -> Pair:
        re, im = write(p, p.call("negate", b), a)
        return im, p.call("negate", re)

    return write_rotated


_WRITERS: dict[type[Elementwise], Callable[[Parts, str, str], Pair]] = {
    e.Exp: _write_exp,
    e.Exp2: _write_exp2,
    e.Expm1: _write_expm1,
    e.Log: _write_log,
    e.Log1p: _write_log1p,
    e.Sqrt: _write_sqrt,
    e.Sinh: _write_sinh,
    e.Cosh: _write_cosh,
    e.Tanh: _write_tanh,
    e.Sin: _rotated(_write_sinh),
    e.Cos: lambda p, a, b: _write_cosh(p, p.call("negate", b), a),
    e.Tan: _rotated(_write_tanh),
    e.Asinh: _write_asinh,
    e.Acosh: _write_acosh,
    e.Atanh: _write_atanh,
    e.Asin: _rotated(_write_asinh),
    e.Acos: _write_acos,
    e.Atan: _rotated(_write_atanh),
}


def has_complex_form(op: Elementwise, t: ArrayType) -> bool:
    """Says whether `write_complex` writes an operation on values of a type."""
    return t.kind == "c" and type(op) in _WRITERS


def write_complex(body: Body, op: Elementwise, z: str, t: ArrayType) -> str:
    """Writes a function of complex numbers; `z` is the name of the argument."""
    parts = Parts(body, t)
    return parts.join(_WRITERS[type(op)](parts, *parts.split(z)))
