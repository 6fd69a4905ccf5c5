"""Elementwise functions with a required accuracy of their results."""

import math
from typing import Any, ClassVar, final

import attrs
import numpy as np

from effx.array import Array
from effx.errors import ProgramError
from effx.handlers.jvp.handler import JVP
from effx.handlers.oracle.handler import Reference
from effx.handling import (
    ArrayType,
    Atom,
    Body,
    Elementwise,
    Tangent,
    Unary,
    Var,
    decomposes,
    emits,
    jvp_rule,
    reference_rule,
)
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import check_int

__all__ = ["Accurate"]

Data = np.ndarray[Any, Any]

STABLEHLO: dict[Unary, str] = {
    e.Exp(): "exponential",
    e.Exp2(): "exponential",
    e.Expm1(): "exponential_minus_one",
    e.Log(): "log",
    e.Log1p(): "log_plus_one",
    e.Logistic(): "logistic",
    e.Sin(): "sine",
    e.Cos(): "cosine",
    e.Tan(): "tan",
    e.Tanh(): "tanh",
    e.Sqrt(): "sqrt",
    e.Rsqrt(): "rsqrt",
    e.Cbrt(): "cbrt",
}
FUNCTIONS = {op.name: op for op in STABLEHLO}


def _is_function(instance: object, attribute: object, value: str) -> None:
    if value not in FUNCTIONS:
        raise ProgramError(f"accurate: function must be one of {', '.join(FUNCTIONS)}, got {value!r}")


@final
@attrs.frozen
class Accurate(Elementwise):
    """An elementwise function with the accuracy that its results must have. StableHLO: the function's, with a
    result_accuracy; a compiler may refuse an accuracy that it cannot reach, and be faster where less is required.

    Attributes:
        function: the name of the operation.
        atol, rtol: the absolute and the relative error that is allowed, 0 for none.
        ulps: the error in units in the last place.
        highest: True for the most accurate form that there is.
    """

    kinds: ClassVar[str] = "fc"
    domain: ClassVar[tuple[float, float]] = (0.3, 0.9)

    function: str = attrs.field(validator=_is_function)
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = attrs.field(default=0, validator=check_int)
    highest: bool = False

    @property
    def plain(self) -> Unary:
        """The operation without an accuracy."""
        return FUNCTIONS[self.function]

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        return self.plain.infer(*types)


@decomposes(Accurate)
def _(op: Accurate, x: Array) -> Array:
    return op.plain(x)


@jvp_rule(Accurate)
def _(op: Accurate, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]) -> tuple[Array, Tangent]:
    # The plain function's rule, which performs the operation that it gets and computes the tangent of the result.
    rule = JVP.rules.find(type(op.plain))
    assert rule is not None
    result_and_tangent: tuple[Array, Tangent] = rule(op, primals, tangents)
    return result_and_tangent


@reference_rule(Accurate)
def _(op: Accurate, x: Data) -> Data:
    rule = Reference.rules.find(type(op.plain))
    assert rule is not None
    y: Data = rule(op.plain, x)
    return y


@emits(Accurate)
def _(body: Body, op: Accurate, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x, t = body.name(inputs[0]), inputs[0].type
    if op.plain is e.Exp2():
        x = body.line(f"stablehlo.multiply {x}, {body.constant(math.log(2), t)} : {t.mlir}")
    parts = [
        *[f"{name} = {value:.17e}" for name, value in (("atol", op.atol), ("rtol", op.rtol)) if value],
        *([f"ulps = {op.ulps}"] if op.ulps else []),
        f"mode = #stablehlo.result_accuracy_mode<{'HIGHEST' if op.highest else 'TOLERANCE'}>",
    ]
    return body.line(
        f"stablehlo.{STABLEHLO[op.plain]} {x} "
        f"{{result_accuracy = #stablehlo.result_accuracy<{', '.join(parts)}>}} : {t.mlir}"
    )
