"""Logical and bitwise operations, shifts and counts of bits."""

from effx.array import arithmetic
from effx.ir.ops import elementwise as e
from effx.lax.declared import declare_binary, declare_unary

__all__ = [
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clz", "population_count", "shift_left",
    "shift_right_arithmetic", "shift_right_logical",
]  # fmt: skip

POPULATION_COUNT = e.PopulationCount()
COUNT_LEADING_ZEROS = e.CountLeadingZeros()

bitwise_not = declare_unary(
    arithmetic.NOT,
    "Returns logical not of booleans, bitwise not of integers.",
    "bitwise_not(5)",
    "-6",
    name="bitwise_not",
)
population_count = declare_unary(
    POPULATION_COUNT, "Returns the number of bits that are 1.", "population_count(7)", "3"
)
clz = declare_unary(
    COUNT_LEADING_ZEROS, "Returns the number of leading bits that are 0.", "clz(1)", "31", name="clz"
)
bitwise_and = declare_binary(
    arithmetic.AND, "Returns logical or bitwise and.", "bitwise_and(6, 3)", "2", name="bitwise_and"
)
bitwise_or = declare_binary(
    arithmetic.OR, "Returns logical or bitwise or.", "bitwise_or(6, 3)", "7", name="bitwise_or"
)
bitwise_xor = declare_binary(
    arithmetic.XOR, "Returns logical or bitwise exclusive or.", "bitwise_xor(6, 3)", "5", name="bitwise_xor"
)
shift_left = declare_binary(
    arithmetic.SHIFT_LEFT,
    "Returns x shifted left by y bits; 0 if y is not below the width.",
    "shift_left(1, 4)",
    "16",
)
shift_right_arithmetic = declare_binary(
    arithmetic.SHIFT_RIGHT,
    "Returns x shifted right by y bits, the sign bit repeated.",
    "shift_right_arithmetic(-8, 1)",
    "-4",
)
shift_right_logical = declare_binary(
    arithmetic.SHIFT_RIGHT_LOGICAL,
    "Returns x shifted right by y bits, zeros shifted in.",
    "shift_right_logical(8, 1)",
    "4",
)
