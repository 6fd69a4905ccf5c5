"""Circular and hyperbolic functions and their inverses."""

from effx.ir.ops import elementwise as e
from effx.lax.declared import declare_accurate_unary, declare_binary, declare_unary

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh",
]  # fmt: skip

SIN = e.Sin()
COS = e.Cos()
TAN = e.Tan()
ASIN = e.Asin()
ACOS = e.Acos()
ATAN = e.Atan()
SINH = e.Sinh()
COSH = e.Cosh()
TANH = e.Tanh()
ASINH = e.Asinh()
ACOSH = e.Acosh()
ATANH = e.Atanh()
ATAN2 = e.Atan2()

sin = declare_accurate_unary(SIN, "Returns the sine of x.", "sin(0.0)", "0.")
cos = declare_accurate_unary(COS, "Returns the cosine of x.", "cos(0.0)", "1.")
tan = declare_accurate_unary(TAN, "Returns the tangent of x.", "tan(0.0)", "0.")
asin = declare_unary(
    ASIN,
    "Returns the angle in [-pi/2, pi/2] whose sine is x; NaN for real x outside [-1, 1].",
    "asin(0.0)",
    "0.",
)
acos = declare_unary(
    ACOS, "Returns the angle in [0, pi] whose cosine is x; NaN for real x outside [-1, 1].", "acos(1.0)", "0."
)
atan = declare_unary(ATAN, "Returns the angle in (-pi/2, pi/2) whose tangent is x.", "atan(0.0)", "0.")
sinh = declare_unary(SINH, "Returns the hyperbolic sine of x.", "sinh(0.0)", "0.")
cosh = declare_unary(COSH, "Returns the hyperbolic cosine of x.", "cosh(0.0)", "1.")
tanh = declare_accurate_unary(TANH, "Returns the hyperbolic tangent of x.", "tanh(0.0)", "0.")
asinh = declare_unary(ASINH, "Returns the number whose hyperbolic sine is x.", "asinh(0.0)", "0.")
acosh = declare_unary(
    ACOSH,
    "Returns the number not below 0 whose hyperbolic cosine is x; NaN for real x below 1.",
    "acosh(1.0)",
    "0.",
)
atanh = declare_unary(
    ATANH,
    "Returns the number whose hyperbolic tangent is x; NaN for real x outside [-1, 1].",
    "atanh(0.0)",
    "0.",
)
atan2 = declare_binary(
    ATAN2,
    "Returns the angle of the point (y, x), in [-pi, pi].",
    "atan2(0.0, 1.0)",
    "0.",
    details="The first operand is the point's height: `atan2(x, y)` is the angle whose tangent is x / y.",
)
