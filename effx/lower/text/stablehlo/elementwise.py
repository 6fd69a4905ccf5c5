"""StableHLO text of elementwise operations, comparisons and conversions."""

import math

from effx import dtypes
from effx.ir.ops import compare as c
from effx.ir.ops import convert as v
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Binary, Elementwise, Unary
from effx.ir.passes.key_words import is_wide_key
from effx.ir.program import Atom, Var
from effx.ir.types import ArrayType, array_type
from effx.lower.placement.key_storage import check_keys_for_tpu
from effx.lower.text import sizes
from effx.lower.text.emit import Body, emits, rules
from effx.lower.text.stablehlo.complex import has_complex_form, write_complex

Inputs = tuple[Atom, ...]
Outputs = tuple[Var, ...]


def has_one_type(kind: type[Unary] | type[Binary]) -> bool:
    """Says whether a class declares an operation of StableHLO whose text has one type, that of operands and result."""
    keeps_type = kind.infer in (Unary.infer, Binary.infer)
    return keeps_type and kind.stablehlo.startswith("stablehlo.")


# Most lines of a module are written by the first two rules.
@rules.register_declared(Unary, "stablehlo", where=has_one_type)  # type: ignore[arg-type]  # the table holds rules of all operations
def emit_declared_unary(body: Body, op: Unary, inputs: Inputs, outputs: Outputs) -> str:
    x = inputs[0]
    if has_complex_form(op, x.type):
        return write_complex(body, op, body.name(x), x.type)
    return body.line(f"{op.stablehlo} {body.name(x)} : {x.type.mlir}")


@rules.register_declared(Binary, "stablehlo", where=has_one_type)  # type: ignore[arg-type]  # the table holds rules of all operations
def emit_declared_binary(body: Body, op: Binary, inputs: Inputs, outputs: Outputs) -> str:
    x, y = inputs
    t = outputs[0].type
    return body.line(f"{op.stablehlo} {body.fit(x, t.shape)}, {body.fit(y, t.shape)} : {t.mlir}")


@rules.register_declared(Elementwise, "stablehlo")  # type: ignore[arg-type]  # the table holds rules of all operations
def emit_declared(body: Body, op: Elementwise, inputs: Inputs, outputs: Outputs) -> str:
    """Writes an operation of CHLO, or one whose result has another type than its operands."""
    t = outputs[0].type
    if len(inputs) == 1 and has_complex_form(op, t):
        return write_complex(body, op, body.name(inputs[0]), t)
    operands = ", ".join([body.fit(x, t.shape) for x in inputs])
    operand_type = array_type(inputs[0].type.dtype, t.shape).mlir
    operand_types = ", ".join([operand_type] * len(inputs))
    if op.stablehlo.startswith("chlo."):
        form = f"{operand_types} -> {t.mlir}"
    else:
        form = t.mlir if operand_type == t.mlir else f"({operand_types}) -> {t.mlir}"
    return body.line(f"{op.stablehlo} {operands} : {form}")


@emits(e.Square)
def square(body: Body, op: e.Square, inputs: Inputs, outputs: Outputs) -> str:
    x = body.name(inputs[0])
    return body.line(f"stablehlo.multiply {x}, {x} : {inputs[0].type.mlir}")


@emits(e.OneMinusSquare)
def one_minus_square(body: Body, op: e.OneMinusSquare, inputs: Inputs, outputs: Outputs) -> str:
    t = inputs[0].type
    one, x = body.constant(1, t), body.name(inputs[0])
    factors = [body.line(f"stablehlo.{sign} {one}, {x} : {t.mlir}") for sign in ("subtract", "add")]
    return body.line(f"stablehlo.multiply {factors[0]}, {factors[1]} : {t.mlir}")


@emits(e.Exp2)
def exp2(body: Body, op: e.Exp2, inputs: Inputs, outputs: Outputs) -> str:
    t = inputs[0].type
    if t.kind == "c":
        return write_complex(body, op, body.name(inputs[0]), t)
    # A power of 2 is exact for integers, exp(x log 2) is not.
    if body.module.platform == "cpu" and t.dtype in (dtypes.float32, dtypes.float64):
        return _emit_power_of_two(body, body.name(inputs[0]), t)
    return body.line(f"stablehlo.power {body.constant(2.0, t)}, {body.name(inputs[0])} : {t.mlir}")


def _emit_power_of_two(body: Body, x: str, t: ArrayType) -> str:
    """Writes 2**x as 2**r 2**n, with n the integer below x and r what is left: a tenth of XLA:CPU's time for powers.

    The first factor is its power series, the second is put together from its bits: 0 where it would be subnormal, which
    XLA:CPU flushes to 0 anyway, and infinite where it overflows.
    """
    info = dtypes.finfo(t.dtype)
    integers = array_type(dtypes.bits_dtype(t.dtype), t.shape)
    bias = 2 ** (info.nexp - 1) - 1
    low, high = body.constant(-bias, t), body.constant(bias + 1, t)
    x = body.line(f"stablehlo.clamp {low}, {x}, {high} : {t.mlir}")
    below = body.line(f"stablehlo.floor {x} : {t.mlir}")
    rest = body.line(f"stablehlo.subtract {x}, {below} : {t.mlir}")
    terms = [math.log(2) ** k / math.factorial(k) for k in range(10 if t.dtype == dtypes.float32 else 17)]
    result = body.constant(terms[-1], t)
    for term in reversed(terms[:-1]):
        product = body.line(f"stablehlo.multiply {result}, {rest} : {t.mlir}")
        result = body.line(f"stablehlo.add {product}, {body.constant(term, t)} : {t.mlir}")
    n = body.convert(below, t, integers)
    biased = body.line(f"stablehlo.add {n}, {body.constant(bias, integers)} : {integers.mlir}")
    bits = body.line(
        f"stablehlo.shift_left {biased}, {body.constant(info.nmant, integers)} : {integers.mlir}"
    )
    factor = body.line(f"stablehlo.bitcast_convert {bits} : ({integers.mlir}) -> {t.mlir}")
    return body.line(f"stablehlo.multiply {result}, {factor} : {t.mlir}")


@emits(e.Sign)
def sign(body: Body, op: e.Sign, inputs: Inputs, outputs: Outputs) -> str:
    t = inputs[0].type
    x = body.name(inputs[0])
    if t.kind == "u":
        return body.line(f"stablehlo.minimum {x}, {body.constant(1, t)} : {t.mlir}")
    return body.line(f"stablehlo.sign {x} : {t.mlir}")


@emits(e.IntegerPow)
def integer_pow(body: Body, op: e.IntegerPow, inputs: Inputs, outputs: Outputs) -> str:
    t = inputs[0].type
    n, base, result = abs(op.exponent), body.name(inputs[0]), ""
    while n:
        if n & 1:
            result = body.line(f"stablehlo.multiply {result}, {base} : {t.mlir}") if result else base
        n >>= 1
        if n:
            base = body.line(f"stablehlo.multiply {base}, {base} : {t.mlir}")
    one = body.constant(1, t)
    if not result:
        return one
    return body.line(f"stablehlo.divide {one}, {result} : {t.mlir}") if op.exponent < 0 else result


@emits(e.Abs)
def abs_(body: Body, op: e.Abs, inputs: Inputs, outputs: Outputs) -> str:
    x, out = inputs[0], outputs[0]
    if x.type.kind == "u":
        return body.name(x)  # StableHLO has no abs of unsigned integers
    name = body.line(f"stablehlo.abs {body.name(x)} : ({x.type.mlir}) -> {out.type.mlir}")
    if x.type.kind != "c":
        return name
    # XLA returns NaN for an infinite number with a NaN part; its absolute value is infinite all the same.
    t, mask = out.type.mlir, array_type(dtypes.bool_, out.type.shape).mlir
    infinity = body.constant(math.inf, out.type)
    for part in ("real", "imag"):
        number = body.line(f"stablehlo.{part} {body.name(x)} : ({x.type.mlir}) -> {t}")
        size = body.line(f"stablehlo.abs {number} : ({t}) -> {t}")
        infinite = body.line(f"stablehlo.compare EQ, {size}, {infinity}, FLOAT : ({t}, {t}) -> {mask}")
        name = body.line(f"stablehlo.select {infinite}, {infinity}, {name} : {mask}, {t}")
    return name


@emits(e.Complex)
def complex_(body: Body, op: e.Complex, inputs: Inputs, outputs: Outputs) -> str:
    out = outputs[0].type
    re, im = [body.fit(a, out.shape) for a in inputs]
    return body.line(f"stablehlo.complex {re}, {im} : {out.mlir}")


@emits(e.Conj)
def conj(body: Body, op: e.Conj, inputs: Inputs, outputs: Outputs) -> str:
    t = inputs[0].type
    part = array_type(dtypes.real_dtype(t.dtype), t.shape).mlir
    x = body.name(inputs[0])
    re = body.line(f"stablehlo.real {x} : ({t.mlir}) -> {part}")
    im = body.line(f"stablehlo.imag {x} : ({t.mlir}) -> {part}")
    negated = body.line(f"stablehlo.negate {im} : {part}")
    return body.line(f"stablehlo.complex {re}, {negated} : {t.mlir}")


@emits(e.Select)
def select(body: Body, op: e.Select, inputs: Inputs, outputs: Outputs) -> str:
    out = outputs[0].type
    which, *cases = inputs
    names = [body.fit(case, out.shape) for case in cases]
    if which.type.kind == "b":
        if len(names) == 1:
            return names[0]
        test, t = body.name(which), which.type
        return _select(body, test, t.mlir, names[1], names[0], out.mlir)
    # Several cases: halve the range by comparisons.
    t = which.type
    mask = array_type(dtypes.bool_, t.shape).mlir

    def choose(low: int, high: int) -> str:
        if high - low == 1:
            return names[low]
        middle = (low + high) // 2
        test = body.line(
            f"stablehlo.compare LT, {body.name(which)}, {body.constant(middle, t)}, SIGNED : "
            f"({t.mlir}, {t.mlir}) -> {mask}"
        )
        return _select(body, test, mask, choose(low, middle), choose(middle, high), out.mlir)

    return choose(0, len(names))


def _select(body: Body, test: str, mask: str, on_true: str, on_false: str, out: str) -> str:
    return body.line(f"stablehlo.select {test}, {on_true}, {on_false} : {mask}, {out}")


@emits(e.Clamp)
def clamp(body: Body, op: e.Clamp, inputs: Inputs, outputs: Outputs) -> str:
    low, x, high = inputs
    out = outputs[0].type
    if x.type.kind == "b" and body.module.platform == "tpu":
        # XLA's compiler for TPUs has no clamp of bools.
        at_least_low = body.line(f"stablehlo.or {body.fit(low, out.shape)}, {body.name(x)} : {out.mlir}")
        return body.line(f"stablehlo.and {at_least_low}, {body.fit(high, out.shape)} : {out.mlir}")
    names = ", ".join(map(body.name, inputs))
    return body.line(
        f"stablehlo.clamp {names} : ({low.type.mlir}, {x.type.mlir}, {high.type.mlir}) -> {out.mlir}"
    )


COMPARE_KIND = {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED", "V": "UNSIGNED"}


@emits(c.Comparison)
def comparison(body: Body, op: c.Comparison, inputs: Inputs, outputs: Outputs) -> str:
    x, y = inputs
    out = outputs[0].type
    t = array_type(x.type.dtype, out.shape)
    a, b = body.fit(x, out.shape), body.fit(y, out.shape)
    if not dtypes.is_key(t.dtype):
        return body.line(
            f"stablehlo.compare {op.direction}, {a}, {b}, {COMPARE_KIND[t.kind]} : ({t.mlir}, {t.mlir}) -> {out.mlir}"
        )
    bits = array_type(dtypes.uint64, out.shape)
    comparisons = [
        body.line(
            f"stablehlo.compare {op.direction}, {m}, {n}, UNSIGNED : ({bits.mlir}, {bits.mlir}) -> {out.mlir}"
        )
        for m, n in zip(_sortable_halves(body, a, t), _sortable_halves(body, b, t), strict=True)
    ]
    together = "and" if type(op) is c.Eq else "or"
    return (
        comparisons[0]
        if len(comparisons) == 1
        else body.line(f"stablehlo.{together} {comparisons[0]}, {comparisons[1]} : {out.mlir}")
    )


def _sortable_halves(body: Body, keys: str, t: ArrayType) -> list[str]:
    """Writes keys as integers of 64 bits: one, or two where a key is stored as a complex number."""
    if not is_wide_key(t):
        return [keys]
    part, bits = array_type(dtypes.float64, t.shape).mlir, array_type(dtypes.uint64, t.shape).mlir
    values = [body.line(f"stablehlo.{which} {keys} : ({t.mlir}) -> {part}") for which in ("real", "imag")]
    return [body.line(f"stablehlo.bitcast_convert {value} : ({part}) -> {bits}") for value in values]


@emits(v.Convert)
def convert(body: Body, op: v.Convert, inputs: Inputs, outputs: Outputs) -> str:
    x, t, out = body.name(inputs[0]), inputs[0].type, outputs[0].type
    if t.mlir == out.mlir:
        return x
    if out.kind == "b":
        zero = body.constant(0, t)
        return body.line(
            f"stablehlo.compare NE, {x}, {zero}, {COMPARE_KIND[t.kind]} : ({t.mlir}, {t.mlir}) -> {out.mlir}"
        )
    if t.dtype == dtypes.float4_e2m1fn and out.kind in "iu":
        # XLA:CPU takes the largest exponent as infinity, and converts 6.0 to the largest integer.
        x, t = body.widened(inputs[0])
    return body.line(f"stablehlo.convert {x} : ({t.mlir}) -> {out.mlir}")


@emits(v.Bitcast)
def bitcast(body: Body, op: v.Bitcast, inputs: Inputs, outputs: Outputs) -> str:
    x, y = inputs[0], outputs[0].type
    if body.module.platform == "tpu":
        check_keys_for_tpu([x.type, y])
    if is_wide_key(y):
        return _words_to_keys(body, body.name(x), y)
    if is_wide_key(x.type):
        return _keys_to_words(body, body.name(x), x.type)
    return body.line(f"stablehlo.bitcast_convert {body.name(x)} : ({x.type.mlir}) -> {y.mlir}")


def _words_to_keys(body: Body, words: str, t: ArrayType) -> str:
    # Four words are two floats, which are one complex number.
    word_types, pairs = array_type(dtypes.uint32, (*t.shape, 4)), array_type(dtypes.uint32, (*t.shape, 2, 2))
    floats, part = array_type(dtypes.float64, (*t.shape, 2)), array_type(dtypes.float64, (*t.shape, 1))
    one = array_type(dtypes.float64, t.shape)
    halves = sizes.reshape(body, words, word_types, pairs)
    both = body.line(f"stablehlo.bitcast_convert {halves} : ({pairs.mlir}) -> {floats.mlir}")
    parts = []
    for i in range(2):
        start, limit = (*[0] * t.ndim, i), (*t.shape, i + 1)
        half = sizes.static_slice(
            body, both, floats, part, start=start, limit=limit, strides=[1] * (t.ndim + 1)
        )
        parts.append(sizes.reshape(body, half, part, one))
    return body.line(f"stablehlo.complex {parts[0]}, {parts[1]} : {t.mlir}")


def _keys_to_words(body: Body, keys: str, t: ArrayType) -> str:
    one, pair = array_type(dtypes.float64, t.shape), array_type(dtypes.uint32, (*t.shape, 2))
    halves = []
    for which in ("real", "imag"):
        value = body.line(f"stablehlo.{which} {keys} : ({t.mlir}) -> {one.mlir}")
        halves.append(body.line(f"stablehlo.bitcast_convert {value} : ({one.mlir}) -> {pair.mlir}"))
    words = array_type(dtypes.uint32, (*t.shape, 4))
    return body.line(
        f"stablehlo.concatenate {halves[0]}, {halves[1]}, dim = {t.ndim} : ({pair.mlir}, {pair.mlir}) -> {words.mlir}"
    )


@emits(v.ReducePrecision)
def reduce_precision(body: Body, op: v.ReducePrecision, inputs: Inputs, outputs: Outputs) -> str:
    x = inputs[0]
    return body.line(
        f"stablehlo.reduce_precision {body.name(x)}, format = e{op.exponent_bits}m{op.mantissa_bits} : {x.type.mlir}"
    )


@emits(v.StopGradient, v.Copy)
def identity(body: Body, op: Unary, inputs: Inputs, outputs: Outputs) -> str:
    return body.name(inputs[0])


@emits(v.OptimizationBarrier)
def optimization_barrier(
    body: Body, op: v.OptimizationBarrier, inputs: Inputs, outputs: Outputs
) -> tuple[str, ...]:
    if not inputs:
        return ()
    return body.barrier(*[(body.name(x), x.type) for x in inputs])


def flip_float_order(body: Body, bits: str, it: ArrayType, width: int) -> str:
    """Maps floats' bits to integers of the same order, and back; the largest and the smallest are both NaN."""
    sign = body.line(f"stablehlo.shift_right_arithmetic {bits}, {body.constant(width - 1, it)} : {it.mlir}")
    low = body.line(f"stablehlo.and {sign}, {body.constant(2 ** (width - 1) - 1, it)} : {it.mlir}")
    return body.line(f"stablehlo.xor {bits}, {low} : {it.mlir}")
