"""Keep the roundings that a program asks for.

XLA takes `x.astype(bfloat16).astype(float32)` to be x on GPUs: "excess precision", which spares the roundings between
operations of a short dtype, and loses those of a quantization. It has one switch for a whole program.
"""

import os
from collections.abc import Sequence

from effx import dtypes
from effx.ir.ops.base import Structural
from effx.ir.ops.control import Calling, HigherOrder, contains_operation
from effx.ir.ops.convert import Convert
from effx.ir.program import Program, Var
from effx.lower.compile_options import CompilerOptions

SWITCH = "xla_allow_excess_precision"


def excess_precision_options(program: Program, chosen: CompilerOptions) -> CompilerOptions:
    """Returns the options for a program on a GPU besides those that were chosen: none where no value is rounded by a
    conversion, moved at most, and converted back.

    A switch that the user sets, for a function or in `XLA_FLAGS`, is left as it is.
    """
    if any([name == SWITCH for name, _ in chosen]) or SWITCH in os.environ.get("XLA_FLAGS", ""):
        return ()
    if not contains_operation(program, Convert):
        return ()
    return ((SWITCH, False),) if _converts_back(program) else ()


def _converts_back(program: Program) -> bool:
    """Returns whether a program, or one that it holds, converts a rounded value back; cached."""
    known = program.derived.get("converts back")
    if known is None:
        known = program.derived["converts back"] = (
            _find_rounded(program, [False] * len(program.inputs)) is None
        )
    return bool(known)


def _find_rounded(program: Program, inputs: Sequence[bool]) -> list[bool] | None:
    """Returns which results are values that a conversion has rounded; None if one is converted back.

    Args:
        inputs: which of the inputs are such values.
    """
    rounded = {x for x, is_rounded in zip(program.inputs, inputs, strict=True) if is_rounded}
    for e in program.equations:
        op = e.op
        operands = [type(x) is Var and x in rounded for x in e.inputs]
        if isinstance(op, Convert):
            before, after = e.inputs[0].type.dtype, e.outputs[0].type.dtype
            if before == after or not dtypes.is_inexact(before):
                is_rounded = operands[0]
            elif operands[0]:
                return None
            else:
                is_rounded = dtypes.bits(after) <= dtypes.bits(before)
            rounded.update(e.outputs if is_rounded else ())
        elif isinstance(op, Calling):
            results = _find_rounded(op.program, operands)
            if results is None:
                return None
            rounded.update([y for y, is_rounded in zip(e.outputs, results, strict=True) if is_rounded])
        elif isinstance(op, HigherOrder):
            # What goes into a loop or a branch, or comes out of it, is in memory.
            if any([_converts_back(p) for p in op.programs]):
                return None
        elif isinstance(op, Structural) and any(operands):
            rounded.add(e.outputs[0])
    return [type(y) is Var and y in rounded for y in program.outputs]
