"""Arithmetic with NumPy's semantics, for the operators of `Array` and for `effx.numpy`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from effx import dtypes
from effx.array.promotion import (
    as_operand,
    broadcast_arrays,
    convert,
    promote,
    promote_dtypes,
    promote_factors,
)
from effx.dtypes import DType, DTypeLike
from effx.effects import perform
from effx.errors import DTypeError, OptionError, ShapeError, name_user_call
from effx.ir.ops import compare as c
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Unary
from effx.ir.ops.convert import Bitcast, Copy, OptimizationBarrier
from effx.ir.ops.linalg import PRESETS, DotGeneral, Precision
from effx.ir.ops.reduce import ReduceSum
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.values.array import Array, Operand
from effx.ir.values.scalars import scalar

ADD, SUB, MUL, DIV, REM = e.Add(), e.Sub(), e.Mul(), e.Div(), e.Rem()
AND, OR, XOR, NOT = e.And(), e.Or(), e.Xor(), e.Not()
SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_LOGICAL = e.ShiftLeft(), e.ShiftRightArithmetic(), e.ShiftRightLogical()
MAX, MIN, POW, NEG, SELECT, COPY = e.Max(), e.Min(), e.Pow(), e.Neg(), e.Select(), Copy()
EQ, NE, LT, LE, GT, GE = c.Eq(), c.Ne(), c.Lt(), c.Le(), c.Gt(), c.Ge()
FLOOR, SIGN, ABS = e.Floor(), e.Sign(), e.Abs()
REAL, IMAG, CONJ = e.Real(), e.Imag(), e.Conj()
ROUND_TO_EVEN = e.RoundToEven()


def inexact_dtype(dtype: DType) -> DType:
    """Returns the result dtype of a function of real numbers for operands of `dtype`. Floating and complex
    dtypes are unchanged; 64-bit integers give f64, others f32.
    """
    if dtypes.is_inexact(dtype):
        return dtype
    if dtypes.keeps_64_bits(dtype):
        return dtypes.float64
    return dtypes.canonicalize(dtypes.float64 if dtype.itemsize == 8 else dtypes.float32)


def to_inexact(x: Operand) -> Array:
    """Returns the operand as an array of floating or complex dtype."""
    x = as_operand(x)
    t = x.type
    return x if t.kind in "fc" else convert(x, inexact_dtype(t.dtype), t.weak)


def promote_inexact(*operands: Operand) -> list[Array]:
    """Promotes operands to one floating or complex dtype and one shape."""
    arrays = promote_dtypes(*operands)
    if arrays[0].type.kind not in "fc":
        dtype, weak = inexact_dtype(arrays[0].type.dtype), all([x.type.weak for x in arrays])
        arrays = [convert(x, dtype, weak) for x in arrays]
    return broadcast_arrays(arrays)


def unary(op: Unary, x: Operand) -> Array:
    """Performs a function of real or complex numbers; integers are converted first."""
    if not isinstance(x, Array):
        x = as_operand(x)
    return perform(op, (x if x.type.kind in "fc" else to_inexact(x),))


def invert(x: Array) -> Array:
    """Inverts bits, or truth values."""
    return perform(NOT, (x,))


def copy(x: Array) -> Array:
    """Copies an array to separate memory."""
    return perform(COPY, (x,))


def negative(x: Operand) -> Array:
    """Returns `-x`."""
    x = as_operand(x)
    if x.type.kind == "b":
        raise DTypeError(f"negative: booleans have no negative, got {x.type!r}; use ~x")
    return perform(NEG, (x,))


def absolute(x: Operand) -> Array:
    """Returns `|x|`; booleans and unsigned integers are unchanged."""
    x = as_operand(x)
    return x if x.type.kind in "bu" else perform(ABS, (x,))


def true_divide(x: Operand, y: Operand) -> Array:
    """Returns `x / y` as floating or complex numbers."""
    return perform(DIV, tuple(promote_inexact(x, y)))


def floor_divide(x: Operand, y: Operand) -> Array:
    """Returns the quotient rounded toward minus infinity."""
    a, b = promote(x, y)
    kind = a.type.kind
    if kind == "c":
        raise DTypeError(f"floor_divide: complex numbers have no floor, got {a.type!r} and {b.type!r}")
    if kind == "b":
        a, b = convert(a, dtypes.int32), convert(b, dtypes.int32)
    if kind == "u":
        return perform(DIV, (a, b))
    if kind in "ib":
        quotient = perform(DIV, (a, b))
        # DIV truncates: one too high where the signs differ and the remainder is not 0.
        inexact = perform(
            AND, (perform(NE, (perform(SIGN, (a,)), perform(SIGN, (b,)))), perform(REM, (a, b)) != 0)
        )
        return perform(SELECT, tuple(broadcast_arrays([inexact, quotient, quotient - 1])))
    _, a, b = _make_divisor_positive(a, b, _is_positive_number(y))
    rest = perform(REM, (a, b))
    # (a - a rem b) / b: floor(a / b) alone is one too high where a / b rounds up to an integer.
    quotient = perform(ROUND_TO_EVEN, (perform(DIV, (a - rest, b)),))
    quotient = where(rest < 0, quotient - 1, quotient)
    # The quotient of a zero, and that by a zero, are those of division; rounding takes their derivative away.
    plain = perform(ROUND_TO_EVEN, (perform(DIV, (a, b)),))
    return where(perform(OR, (a == 0, b == 0)), plain, quotient)


def _float_remainder(a: Array, b: Array, b_is_positive: bool) -> Array:
    flip, a, b = _make_divisor_positive(a, b, b_is_positive)
    rest = perform(REM, (a, b))
    zero = scalar(0.0, rest.type.dtype)
    # REM's remainder has a's sign. The sum makes +0 of a remainder -0., and leaves the derivative 1 there.
    rest = perform(ADD, (rest, where(rest < zero, b, zero)))
    return rest if flip is None else where(flip, -rest, rest)


def _is_positive_number(y: Operand) -> bool:
    """Says whether y is a Python number above 0."""
    return isinstance(y, int | float) and y > 0


def _make_divisor_positive(a: Array, b: Array, is_positive: bool) -> tuple[Array | None, Array, Array]:
    """Returns where b is negative, or None, and a and b with both signs changed there.

    A quotient is unchanged by it, and a remainder changes its sign. Zeros get the right sign so: Python's remainder has
    that of the divisor.
    """
    if is_positive:
        return None, a, b
    flip = b < 0
    return flip, where(flip, -a, a), where(flip, -b, b)


def truncated_remainder(a: Array, b: Array) -> Array:
    """Returns the remainder of integers with the dividend's sign; of a division by 0 it is 0."""
    rest = perform(REM, (a, b))
    from effx.ir.values.boxes import HostArray

    if type(b) is HostArray and np.all(b.value):
        return rest
    return where(b == 0, scalar(0, a.type.dtype), rest)


def remainder(x: Operand, y: Operand) -> Array:
    """Returns the remainder with the divisor's sign, as Python's `%`."""
    a, b = promote(x, y)
    kind = a.type.kind
    if kind == "c":
        raise DTypeError(f"remainder: complex numbers have no remainder, got {a.type!r} and {b.type!r}")
    if kind == "b":
        a, b = convert(a, dtypes.int32), convert(b, dtypes.int32)
    if kind == "f":
        return _float_remainder(a, b, _is_positive_number(y))
    rest = truncated_remainder(a, b)
    if kind == "u":
        return rest
    other_sign = perform(AND, (perform(NE, (rest < 0, b < 0)), rest != 0))
    return where(other_sign, perform(ADD, (rest, b)), rest)


def divmod(x: Operand, y: Operand) -> tuple[Array, Array]:
    """Returns `x // y` and `x % y`."""
    return floor_divide(x, y), remainder(x, y)


def power(x: Operand, y: Operand) -> Array:
    """Returns `x ** y`. An int exponent is exact repeated multiplication, and differentiable at 0."""
    if type(y) is int:
        base = as_operand(x)
        if base.type.kind in "fc" or (base.type.kind in "iu" and y >= 0):
            return integer_power(base, y)
        if base.type.kind in "iu":
            raise DTypeError(
                f"power: integers have no negative integer powers: {base.type!r} to the power {y}"
            )
    a, b = as_operand(x), as_operand(y)
    exponent = known_exponent(a, y)
    if exponent is not None and a.type.kind in "iufc" and (exponent >= 0 or a.type.kind in "fc"):
        dtype, weak = dtypes.promote(a.type.dtype, a.type.weak, b.type.dtype, b.type.weak)
        return integer_power(convert(a, dtype, weak), exponent)
    if a.type.kind in "fc" and b.type.kind in "biu":
        # Keep integer exponents of negative bases real: x ** [2, 3] in x's dtype.
        dtype, weak = dtypes.promote(a.type.dtype, a.type.weak, b.type.dtype, b.type.weak)
        return perform(POW, tuple(broadcast_arrays([convert(a, dtype, weak), convert(b, dtype, weak)])))
    a, b = promote(a, b)
    if a.type.kind in "iub":
        return _integer_power_array(a, b)
    return perform(POW, (a, b))


def known_exponent(base: Array, y: Operand) -> int | None:
    """Returns the integer that an exponent is known to be, else None.

    An array that is computed already counts while a program is staged, where it would be multiplied over all its bits;
    outside, its value would have to be waited for, and would compile another kernel each time.
    """
    if isinstance(y, np.integer | np.ndarray) and not y.shape and y.dtype.kind in "iu":
        return int(y)
    if isinstance(y, Array) and y.type.kind in "iu" and not y.type.shape:
        from effx.ir.values.boxes import Box

        if isinstance(base, Box) and not isinstance(y, Box):
            return int(y.host("power"))
    return None


def integer_power(x: Array, n: int) -> Array:
    """Returns the power of x to a constant integer."""
    if n == 2:
        return perform(MUL, (x, x))
    if n == 1:
        return perform(COPY, (x,))
    return perform(e.IntegerPow(n), (x,))


def _integer_power_array(a: Array, b: Array) -> Array:
    # Square and multiply over the bits of the exponent; a negative exponent gives 0 or ±1.
    if a.type.kind == "b":
        a, b = convert(a, dtypes.int32), convert(b, dtypes.int32)
    one = scalar(1, a.type.dtype)
    result: Array = perform(ADD, (perform(MUL, (a, scalar(0, a.type.dtype))), one)) if a.type.shape else one
    base, rest = a, b
    for _ in range(dtypes.bits(a.type.dtype) - (a.type.kind == "i")):
        odd = perform(AND, (rest, one)) != 0
        result = where(odd, perform(MUL, (result, base)), result)
        base = perform(MUL, (base, base))
        rest = perform(SHIFT_RIGHT_LOGICAL, (rest, one))
    if a.type.kind == "i":
        inverse = where(a == 1, 1, where(a == -1, where(perform(AND, (b, one)) != 0, -1, 1), 0))
        result = where(b < 0, convert(inverse, a.type.dtype, a.type.weak), result)
    return result


def right_shift(x: Operand, y: Operand) -> Array:
    """Returns `x >> y`: arithmetic for signed, logical for unsigned integers."""
    a, b = promote(x, y)
    return perform(SHIFT_RIGHT_LOGICAL if a.type.kind == "u" else SHIFT_RIGHT, (a, b))


def where(condition: Operand, x: Operand, y: Operand) -> Array:
    """Returns x where the condition holds, else y; promoted and broadcast against each other."""
    test = as_operand(condition)
    if test.type.kind != "b":
        test = test != 0
    a, b = promote_dtypes(x, y)
    test, a, b = broadcast_arrays([test, a, b], checks_ranks=False)
    if test.type.shape or not (a.type.shape or b.type.shape):
        return perform(SELECT, (test, b, a))
    a, b = broadcast_arrays([a, b], checks_ranks=False)
    return perform(SELECT, (test, b, a))


def clip(x: Operand, low: Operand | None = None, high: Operand | None = None) -> Array:
    """Returns x bounded to [low, high]; None leaves a side open."""
    result = as_operand(x)
    if result.type.kind == "c":
        raise DTypeError(f"clip: complex numbers have no order, got {result.type!r}")
    if low is not None:
        result = perform(MAX, tuple(promote(low, result)))
    if high is not None:
        result = perform(MIN, tuple(promote(high, result)))
    return result


def round_(x: Operand, decimals: int = 0) -> Array:
    """Rounds x to a number of decimals, halves to even."""
    x = as_operand(x)
    kind = x.type.kind
    if kind == "c":
        return perform(e.Complex(), (round_(real(x), decimals), round_(imag(x), decimals)))
    if kind in "biu":
        if decimals >= 0:
            return x
        return _round_integers(x, 10**-decimals)
    if decimals == 0:
        return perform(ROUND_TO_EVEN, (x,))
    if x.type.dtype.itemsize == 2:  # 16-bit floats lose the scaled value
        return convert(round_(convert(x, dtypes.float32), decimals), x.type.dtype)
    info = dtypes.finfo(x.type.dtype)
    # XLA multiplies by the inverse of a constant, which must not be subnormal.
    largest_power = int(math.log10(float(info.max))) - 1
    if decimals < -largest_power - 1:  # half of that power of ten is above all numbers
        return where(perform(e.IsFinite(), (x,)), x * 0.0, x)
    # No number has digits behind those of the smallest one.
    decimals = min(decimals, largest_power + int(info.precision) + 2)
    scaled = _scale_by_ten(x, decimals, largest_power)
    rounded = _scale_by_ten(perform(ROUND_TO_EVEN, (scaled,)), -decimals, largest_power)
    # Large numbers have no such digits, and what is scaled may overflow.
    is_whole = perform(ABS, (scaled,)) >= 2.0**info.nmant
    return where(is_whole, x, rounded) if decimals > 0 else rounded


def _scale_by_ten(x: Array, power: int, largest_power: int) -> Array:
    """Returns x times a power of ten, which may be larger than a constant can be."""
    first = min(abs(power), largest_power)
    second = abs(power) - first
    factors = [10.0**first, 10.0**second] if second else [10.0**first]
    for i, factor in enumerate(factors):
        if i:  # XLA would multiply the constants
            (x,) = OptimizationBarrier()(x)
        x = x * factor if power > 0 else x / factor
    return x


def _round_integers(x: Array, tens: int) -> Array:
    """Rounds integers to multiples of a power of ten, halves to even, exactly."""
    t = x.type
    if tens > (1 if t.kind == "b" else dtypes.iinfo(t.dtype).max):
        return x * scalar(0, t.dtype)
    unit = scalar(tens, t.dtype)
    quotient = floor_divide(x, unit)
    rest = x - quotient * unit
    less = unit - rest
    odd = perform(REM, tuple(promote(quotient, 2))) != 0
    return where((rest > less) | ((rest == less) & odd), quotient + 1, quotient) * unit


def real(x: Operand) -> Array:
    """Returns the real part."""
    x = as_operand(x)
    return perform(REAL, (x,)) if x.type.kind == "c" else x


def imag(x: Operand) -> Array:
    """Returns the imaginary part; zeros for real numbers."""
    x = as_operand(x)
    return (
        perform(IMAG, (x,))
        if x.type.kind == "c"
        else BroadcastInDim(x.type.shape, ())(scalar(0, x.type.dtype))
    )


def conj(x: Operand) -> Array:
    """Returns the complex conjugate."""
    x = as_operand(x)
    return perform(CONJ, (x,)) if x.type.kind == "c" else x


def astype(x: Operand, dtype: Any) -> Array:
    """Converts elements to a dtype; complex numbers lose their imaginary part."""
    x = as_operand(x)
    target = dtypes.canonicalize_requested(dtype)
    if x.type.kind == "c" and not dtypes.is_complex(target) and target != dtypes.bool_:
        x = real(x)
    return convert(x, target)


def view(x: Operand, dtype: Any) -> Array:
    """Reads the bits as another dtype; the last axis grows or shrinks with the width."""
    x = as_operand(x)
    target = dtypes.canonicalize_requested(dtype)
    t = x.type
    if t.dtype == target:
        return convert(x, target)
    widths = [8 if d == dtypes.bool_ else dtypes.bits(d) for d in (t.dtype, target)]
    if not t.shape and widths[0] != widths[1]:
        raise ShapeError(f"view: a scalar cannot be read as a dtype of another width: {t!r} as {target}")
    from effx.array.shaping import reshape, stack

    # Bools are bytes, complex numbers pairs of floats, and neither can be bitcast.
    if t.kind == "b":
        return view(convert(x, dtypes.uint8), target)
    if target == dtypes.bool_:
        return view(x, dtypes.uint8) != 0
    if t.kind == "c":
        flat = reshape(stack([real(x), imag(x)], -1), (*t.shape[:-1], -1))
        return view(flat, target) if t.shape else reshape(view(flat, target), ())
    if dtypes.is_complex(target):
        parts = view(x if t.shape else reshape(x, (1,)), dtypes.real_dtype(target))
        if parts.type.shape[-1] % 2:
            raise ShapeError(
                f"view: the last axis of {t!r} does not divide into pairs to be read as {target}"
            )
        pairs = reshape(parts, (*parts.type.shape[:-1], parts.type.shape[-1] // 2, 2) if t.shape else (2,))
        return perform(e.Complex(), (pairs[..., 0], pairs[..., 1]))
    old, new = dtypes.bits(t.dtype), dtypes.bits(target)
    if old == new:
        return Bitcast(target)(x)
    if old > new:
        return reshape(Bitcast(target)(x), (*x.type.shape[:-1], -1))
    ratio = new // old
    if x.type.shape[-1] % ratio:
        raise ShapeError(
            f"view: the last axis of {x.type!r} does not divide by {ratio} to be read as {target}"
        )
    return Bitcast(target)(reshape(x, (*x.type.shape[:-1], x.type.shape[-1] // ratio, ratio)))


def byteswap(x: Operand) -> Array:
    """The elements with their bytes in the opposite order; of complex numbers each part by itself."""
    x = as_operand(x)
    t = x.type
    if t.kind == "c":
        return perform(e.Complex(), (byteswap(real(x)), byteswap(imag(x))))
    if t.kind == "b" or dtypes.bits(t.dtype) <= 8:
        return convert(x, t.dtype)
    from effx.ir.ops.shape import Reverse

    return Bitcast(t.dtype)(Reverse((t.ndim,))(Bitcast(dtypes.uint8)(x)))


def dot(x: Operand, y: Operand, precision: Any = None, preferred: Any = None) -> Array:
    """NumPy's dot: sums over the last axis of x and the second to last (or only) axis of y."""
    a, b = promote_factors(x, y, preferred=preferred)
    if not a.type.shape or not b.type.shape:
        preferred_dtype = resolve_preferred_dtype(preferred)
        return perform(
            MUL,
            (a, b) if preferred_dtype is None else (convert(a, preferred_dtype), convert(b, preferred_dtype)),
        )
    axis = max(b.type.ndim - 2, 0)
    if a.type.shape[-1] != b.type.shape[axis]:
        raise ShapeError(
            f"dot: contracting sizes differ: lhs {a.type!r} axis {a.type.ndim - 1} is {a.type.shape[-1]}, "
            f"rhs {b.type!r} axis {axis} is {b.type.shape[axis]}"
        )
    return DotGeneral(
        (a.type.ndim - 1,),
        (axis,),
        precision=resolve_precision(precision),
        preferred=resolve_preferred_dtype(preferred),
    )(a, b)


def matmul(x: Operand, y: Operand, precision: Any = None, preferred: Any = None) -> Array:
    """The matrix product over the last two axes; further axes broadcast, vectors become row or column."""
    from effx.array.promotion import broadcast_shapes, broadcast_to
    from effx.array.shaping import transpose

    a, b = promote_factors(x, y, preferred=preferred)
    for side, t in (("lhs", a.type), ("rhs", b.type)):
        if not t.shape:
            raise ShapeError(f"matmul: operands need at least one axis, {side} is {t!r}; use x * y")
    n, axis = a.type.shape[-1], max(b.type.ndim - 2, 0)
    if n != b.type.shape[axis]:
        raise ShapeError(
            f"matmul: contracting sizes differ: lhs {a.type!r} axis {a.type.ndim - 1} is {n}, "
            f"rhs {b.type!r} axis {axis} is {b.type.shape[axis]}"
        )
    op_precision, op_preferred = resolve_precision(precision), resolve_preferred_dtype(preferred)
    if a.type.ndim <= 2 or b.type.ndim <= 2:
        # One side has no batch axes: contract directly. With the batch on the right, the row axis of lhs
        # comes first and is moved after the batch axes.
        out = DotGeneral((a.type.ndim - 1,), (axis,), precision=op_precision, preferred=op_preferred)(a, b)
        if a.type.ndim == 2 and b.type.ndim > 2:
            k = b.type.ndim - 2
            return transpose(out, (*range(1, k + 1), 0, k + 1))
        return out
    batch = broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    a = broadcast_to(a, (*batch, *a.type.shape[-2:]))
    b = broadcast_to(b, (*batch, *b.type.shape[-2:]))
    k = len(batch)
    axes = tuple(range(k))
    return DotGeneral((k + 1,), (k,), axes, axes, precision=op_precision, preferred=op_preferred)(a, b)


_PRECISIONS = {
    None: "DEFAULT",
    "default": "DEFAULT",
    "fastest": "DEFAULT",
    "bfloat16": "DEFAULT",
    "high": "HIGH",
    "tensorfloat32": "HIGH",
    "highest": "HIGHEST",
    "float32": "HIGHEST",
}
_PRECISION_BY_FACTORS = {"tf32": "high", "f32": "highest", "f64": "highest"}


def resolve_precision(precision: object) -> Precision:
    """Returns DotGeneral's precision from a name, a pair of names, an enum, an algorithm, or None for the default."""
    from effx.flags import default_matmul_precision

    if isinstance(precision, tuple) and len(precision) == 7:
        return (*[_algorithm_dtype(p) for p in precision[:3]], *map(int, precision[3:6]), bool(precision[6]))  # type: ignore[return-value]  # of seven parts
    if isinstance(precision, tuple):
        return precision_pair(precision, _ALGORITHMS)
    if precision is None:
        precision = default_matmul_precision.value
    name = getattr(precision, "name", precision)
    if isinstance(name, str) and name in PRESETS:
        return PRESETS[name]
    return precision_pair(precision, _ALGORITHMS)


_ALGORITHMS = ", an algorithm or its name"


def _algorithm_dtype(dtype: DTypeLike) -> str:
    return dtypes.mlir_name(dtypes.as_dtype(dtype))


def precision_pair(precision: object, others: str = "") -> tuple[str, str]:
    """Returns a pair of precisions from a name, a pair of names, an enum, or None for the default.

    Args:
        precision: the precision.
        others: what else the function takes, for the error.
    """
    from effx.flags import default_matmul_precision

    if isinstance(precision, tuple) and len(precision) == 2:
        return precision_pair(precision[0], others)[0], precision_pair(precision[1], others)[0]
    if precision is None:
        precision = default_matmul_precision.value
        # An algorithm is for products; a convolution has the precision that comes nearest.
        if precision in PRESETS:
            precision = _PRECISION_BY_FACTORS.get(PRESETS[str(precision)][0], "default")
    name = getattr(precision, "name", precision)
    key = name.lower() if isinstance(name, str) else name
    if not isinstance(key, str | None) or key not in _PRECISIONS:
        raise OptionError(
            f"{name_user_call()}: precision must be 'default', 'high' or 'highest'{others}, got {precision!r}"
        )
    return _PRECISIONS[key], _PRECISIONS[key]


def resolve_preferred_dtype(preferred: Any) -> DType | None:
    """Returns the dtype of `preferred_element_type`, None for none."""
    return None if preferred is None else dtypes.canonicalize_requested(preferred)


def horner(x: Array, coefficients: Sequence[float]) -> Array:
    """Returns the values of a polynomial with these coefficients, from the constant on."""
    total = x * 0.0 + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def maximum(x: Operand, y: Operand) -> Array:
    """Returns the larger of both, NaN if one is NaN."""
    return perform(MAX, tuple(promote(x, y)))


def minimum(x: Operand, y: Operand) -> Array:
    """Returns the smaller of both, NaN if one is NaN."""
    return perform(MIN, tuple(promote(x, y)))


def sum_to(x: Array, axes: tuple[int, ...]) -> Array:
    """Sums over axes."""
    return ReduceSum(axes)(x) if axes else x
