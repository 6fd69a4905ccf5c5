"""Elementwise functions with a required accuracy of their results."""

import math
from typing import ClassVar, final

import attrs

from effx.array import Array
from effx.errors import ProgramError
from effx.handling import ArrayType, Atom, Body, Elementwise, Unary, Var, decomposes, emits
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import check_int
from effx.ir.values.described import HostData

__all__ = ["Accurate"]

FUNCTIONS: dict[str, Unary] = {
    op.name: op
    for op in (
        e.Exp(), e.Exp2(), e.Expm1(), e.Log(), e.Log1p(), e.Logistic(), e.Sin(), e.Cos(), e.Tan(), e.Tanh(), e.Sqrt(),
        e.Rsqrt(), e.Cbrt(),
    )
}  # fmt: skip


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

    def reference(self, x: HostData) -> object:
        assert self.plain.reference is not None
        return self.plain.reference(x)

    def tangent(self, dx: Array, x: Array, y: Array) -> Array:
        return self.plain.tangent(dx, x, y)


@decomposes(Accurate)
def _(op: Accurate, x: Array) -> Array:
    return op.plain(x)


@emits(Accurate)
def _(body: Body, op: Accurate, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    x, t, plain = body.name(inputs[0]), inputs[0].type, op.plain
    if plain is e.Exp2():
        plain = e.Exp()
        x = body.line(f"stablehlo.multiply {x}, {body.constant(math.log(2), t)} : {t.mlir}")
    parts = [
        *[f"{name} = {value:.17e}" for name, value in (("atol", op.atol), ("rtol", op.rtol)) if value],
        *([f"ulps = {op.ulps}"] if op.ulps else []),
        f"mode = #stablehlo.result_accuracy_mode<{'HIGHEST' if op.highest else 'TOLERANCE'}>",
    ]
    return body.line(
        f"{plain.stablehlo} {x} "
        f"{{result_accuracy = #stablehlo.result_accuracy<{', '.join(parts)}>}} : {t.mlir}"
    )
