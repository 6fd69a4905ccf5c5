"""Partial evaluation: what a function computes without some of its arguments is computed, and the rest is a program."""

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import attrs

from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.compat.jaxprs import Jaxpr, close_program, view
from effx.compat.wrapped import WrappedFun
from effx.effects import current_scope, handle
from effx.handlers.linear.recorder import make_linear_recorder
from effx.handlers.staging.stage import Recorder, stage
from effx.ir.passes import prune_program
from effx.ir.program import Var
from effx.ir.types import ArrayType
from effx.tree.registry import register_leaf

__all__ = ["PartialVal", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits"]


@register_leaf
class PartialVal(NamedTuple):
    """A value that is known, or of which only the type is.

    Attributes:
        aval: the type; None where the value is known.
        const: the value; None where it is not.
    """

    aval: ArrayType | None
    const: Any

    @classmethod
    def known(cls, const: Any) -> "PartialVal":
        """Returns a known value."""
        return cls(None, const)

    @classmethod
    def unknown(cls, aval: ArrayType) -> "PartialVal":
        """Returns one of which only the type is known."""
        return cls(aval, None)

    def is_known(self) -> bool:
        """Says whether the value is known."""
        return self.aval is None

    def get_known(self) -> Any:
        """Returns the value; None where it is not known."""
        return self.const

    def get_aval(self) -> ArrayType:
        """Returns the type."""
        return as_operand(self.const).type if self.aval is None else self.aval


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], list[Array]]:
    """Evaluates a function as far as known arguments allow.

    Args:
        fun: of flat arguments, gives a sequence of arrays.
        pvals: the arguments.
        instantiate: which results, of those that come out known, the program is to give all the same.

    Returns:
        The program of what depends on the unknown arguments, from its constants and these to the unknown results; the
        results; and the constants' values.
    """
    unknown = [p.aval for p in pvals if p.aval is not None]
    record = make_linear_recorder(unknown)
    with handle(record) as frame:
        frame.state = Recorder(current_scope.get())
        inputs = [Var(t) for t in unknown]
        boxes = iter([Box(frame, x, x.type) for x in inputs])
        results = fun.call_wrapped(*[p.const if p.is_known() else next(boxes) for p in pvals])
        instantiate_flags = (
            [instantiate] * len(results) if isinstance(instantiate, bool) else list(instantiate)
        )
        known = [
            not is_instantiated and not (type(y) is Box and y.frame is frame)
            for y, is_instantiated in zip(results, instantiate_flags, strict=True)
        ]
        rest = [as_operand(y, "trace_to_jaxpr") for y, k in zip(results, known, strict=True) if not k]
        program_and_constants = record.finish(frame, inputs, rest, fun.__name__)
    program = attrs.evolve(
        program_and_constants.program, constants=program_and_constants.residuals, derived={}
    )
    types = iter(program.out_types)
    outputs = [
        PartialVal.known(y) if k else PartialVal.unknown(next(types))
        for y, k in zip(results, known, strict=True)
    ]
    return close_program(program).jaxpr, outputs, list(program_and_constants.residuals)


def trace_to_jaxpr_dynamic(
    fun: WrappedFun,
    in_avals: Sequence[ArrayType],
    *,
    keep_inputs: Sequence[bool] | None = None,
    lower: bool = False,
    auto_dce: bool = False,
) -> tuple[Jaxpr, list[ArrayType], list[Array]]:
    """Stages a function of flat arguments.

    Args:
        fun: of flat arguments, gives a sequence of arrays.
        in_avals: the types of the program's operands.
        keep_inputs: which of them the function takes; None for all.
        lower: whether types that are made of others are taken apart: effx's arrays are made of none, and stay.
        auto_dce: True to leave out what no result needs.

    Returns:
        The program, the results' types, and the values that the function closed over, the program's constants.
    """
    kept_inputs = [True] * len(in_avals) if keep_inputs is None else keep_inputs

    def flat(operands: list[Array]) -> list[Array]:
        results = fun.call_wrapped(*compress(operands, kept_inputs))
        return [as_operand(y, "trace_to_jaxpr") for y in results]

    staged = stage(flat, in_avals, fun.__name__)
    program = staged.program
    if auto_dce:
        program = prune_program(program, [True] * len(program.outputs), [True] * len(program.inputs))[0]
    return view(program, len(staged.captured), program.name), list(program.out_types), list(staged.captured)
