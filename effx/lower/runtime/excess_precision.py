"""Keep the roundings that a program asks for.

XLA takes `x.astype(bfloat16).astype(float32)` to be x on GPUs: "excess precision", which spares the roundings between
operations of a short dtype, and loses those of a quantization. It has one switch for a whole program; programs that
compute in bfloat16, and convert nothing back that they have just rounded, keep it on.
"""

import os
from typing import cast

import attrs

from effx import dtypes
from effx.ir.flow import Facts, Flow
from effx.ir.ops.base import Structural
from effx.ir.ops.checkpoint import Identity
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.convert import Bitcast, Convert, Copy, OptimizationBarrier, StopGradient
from effx.ir.ops.elementwise import Select
from effx.ir.ops.linalg import DotGeneral
from effx.ir.program import Equation, Program, Var
from effx.ir.types import ArrayType
from effx.lower.compile_options import CompilerOptions

SWITCH = "xla_allow_excess_precision"
# What hands a value on as it is.
_MOVING = (Structural, Identity, StopGradient, Copy, OptimizationBarrier, Bitcast, Select)


def excess_precision_options(program: Program, chosen: CompilerOptions) -> CompilerOptions:
    """Returns the options for a program on a GPU besides those that were chosen.

    A switch that the user sets, for a function or in `XLA_FLAGS`, is left as it is.
    """
    if any([name == SWITCH for name, _ in chosen]) or SWITCH in os.environ.get("XLA_FLAGS", ""):
        return ()
    roundings = _Roundings()
    roundings.walk(program, (False,) * len(program.inputs))
    return ((SWITCH, False),) if roundings.are_lost else ()


def _is_rounding(before: ArrayType, after: ArrayType) -> bool:
    """Returns whether a conversion of a number gives a float of no more bits, of integers a shorter one than float32."""
    if before.kind == "b" or before.dtype == after.dtype or not dtypes.is_inexact(after.dtype):
        return False
    short = dtypes.bits(after.dtype)
    return short <= dtypes.bits(before.dtype) and (before.kind not in "iu" or short < 32)


def _is_tiny(t: ArrayType) -> bool:
    return t.kind == "f" and dtypes.bits(t.dtype) <= 8


@attrs.define
class _Roundings(Flow[bool]):
    """A flow analysis: the fact of a value is whether a conversion has rounded it, and it has only been moved since.

    Attributes:
        are_lost: whether a value with that fact meets what XLA takes the rounding back for: another conversion, which
            a product with a vector and all computations of 8-bit floats become.
    """

    are_lost: bool = False

    def join(self, a: bool, b: bool) -> bool:
        return a or b

    def walk(self, program: Program, inputs: Facts[bool]) -> Facts[bool]:
        """Returns the facts of results; cached."""
        key = ("roundings", inputs)
        known = program.derived.get(key)
        if known is None:
            inside = _Roundings()
            known = program.derived[key] = inside.walk_equations(program, inputs), inside.are_lost
        facts, are_lost = cast("tuple[Facts[bool], bool]", known)
        self.are_lost = self.are_lost or are_lost
        return facts

    def walk_equations(self, program: Program, inputs: Facts[bool]) -> Facts[bool]:
        rounded = dict(zip(program.inputs, inputs, strict=True))
        for e in program.equations:
            operands = tuple([type(x) is Var and rounded[x] for x in e.inputs])
            rounded.update(zip(e.outputs, self.result_facts(e, operands), strict=True))
        return tuple([type(y) is Var and rounded[y] for y in program.outputs])

    def result_facts(self, e: Equation, operands: Facts[bool]) -> Facts[bool]:
        """Returns the facts of an equation's results."""
        op = e.op
        if isinstance(op, HigherOrder):
            results = self.through(e, operands, self.walk)
            if results is None:
                for program in op.programs:
                    self.walk(program, (False,) * len(program.inputs))
                results = (False,) * len(e.outputs)
            return results
        if isinstance(op, Convert):
            before, after = e.inputs[0].type, e.outputs[0].type
            if before.dtype != after.dtype and operands[0]:
                self.are_lost = True
            return (_is_rounding(before, after) or (operands[0] and before.dtype == after.dtype),)
        if isinstance(op, _MOVING):
            return (any(operands),) * len(e.outputs)
        if any(operands):
            meets_tiny = any([r and _is_tiny(x.type) for r, x in zip(operands, e.inputs, strict=True)])
            widens = any([dtypes.is_inexact(y.type.dtype) and not _is_tiny(y.type) for y in e.outputs])
            if (meets_tiny and widens) or (isinstance(op, DotGeneral) and _multiplies_vector(op, e)):
                self.are_lost = True
        return tuple([_is_tiny(y.type) for y in e.outputs])


def _multiplies_vector(op: DotGeneral, e: Equation) -> bool:
    """Returns whether an operand has no axes of its own: XLA multiplies and adds up, in float32."""
    lhs, rhs = [x.type.ndim for x in e.inputs]
    batch = len(op.lhs_batch)
    return lhs == batch + len(op.lhs_contract) or rhs == batch + len(op.rhs_contract)
