"""Comparisons element by element."""

from effx.array import arithmetic
from effx.lax.declared import declare_comparison

__all__ = ["eq", "ge", "gt", "le", "lt", "ne"]

eq = declare_comparison(arithmetic.EQ, "Returns x == y.", "eq(1, 2)", "False")
ne = declare_comparison(arithmetic.NE, "Returns x != y.", "ne(1, 2)", "True")
lt = declare_comparison(arithmetic.LT, "Returns x < y.", "lt(1, 2)", "True")
le = declare_comparison(arithmetic.LE, "Returns x <= y.", "le(1, 2)", "True")
gt = declare_comparison(arithmetic.GT, "Returns x > y.", "gt(1, 2)", "False")
ge = declare_comparison(arithmetic.GE, "Returns x >= y.", "ge(1, 2)", "False")
