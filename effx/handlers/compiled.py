"""Derivatives of single operations, compiled, where no handler is around the recorder: one kernel for the results with
the residuals, and one for the transpose, in place of one for each operation that the rules perform.

A rule of effx is a pure function of its operands, so it is staged once for an operation and its types. Rules of
users run each time.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast, final

import attrs

from effx import effects
from effx.array import Array, Box
from effx.effects import Frame, Operation, Value
from effx.errors import EffxError, current_source
from effx.handlers.evaluate import CAPACITY, Evaluate, ProgramKernel, kernel_of
from effx.handlers.linear.partial_eval import split
from effx.handlers.stage import Recorder, stage
from effx.ir.ops.control import Call, HigherOrder
from effx.ir.program import Equation, Var
from effx.ir.types import ArrayType
from effx.lower.concrete import ConcreteArray, on_device
from effx.tree.registry import PyTree

__all__ = ["linearized"]

Rule = Callable[..., Any]
# Of each operand the primal's type, and the tangent's or None.
Types = tuple[tuple[ArrayType, ArrayType | None], ...]


@final
@attrs.frozen(eq=False)
class _Linearized:
    """An operation's derivative in two parts.

    Attributes:
        forward: the kernel from constants and primals to the results, then the computed residuals.
        constants: what the rule closes over.
        moved: for each result whether it has a tangent.
        linear: from residuals and tangents to the results' tangents; None if there are none.
        forwarded: the indices among constants and primals of the other residuals.
    """

    forward: ProgramKernel
    constants: tuple[Array, ...]
    moved: tuple[bool, ...]
    linear: Call | None
    forwarded: tuple[int, ...]


@lru_cache(maxsize=CAPACITY)
def _linearized(op: Operation[object], rule: Rule, types: Types) -> _Linearized | None:
    """Stages a rule and splits it; None where it must run on values."""
    n = len(types)
    tangents = [t for _, t in types if t is not None]
    moved: list[bool] = []

    def function(arrays: list[Array]) -> Sequence[Array]:
        given = iter(arrays[n:])
        y, dy = rule(op, tuple(arrays[:n]), tuple([None if t is None else next(given) for _, t in types]))
        ys, dys = (y, dy) if op.multiple else ((y,), (dy,))
        moved[:] = [d is not None and x.type.kind in "fc" for x, d in zip(ys, dys, strict=True)]
        return [*ys, *[d for d, m in zip(dys, moved, strict=True) if m]]

    try:
        staged = stage(function, [*[t for t, _ in types], *tangents], op.name, "jvp")
    except EffxError:
        return None  # the rule itself says what is wrong
    constants = staged.captured
    linear_in = (False,) * (len(constants) + n) + (True,) * len(tangents)
    parts = split(staged.program, linear_in, False, (False,) * len(moved) + (True,) * sum(moved))
    # Many lines of the user's share it: it stands where it is called.
    equations = tuple([attrs.evolve(e, source=None, scope="") for e in parts.linear.equations])
    linear = (
        Call(attrs.evolve(parts.linear, equations=equations, derived={}), inline=True) if any(moved) else None
    )
    return _Linearized(kernel_of(parts.known), constants, tuple(moved), linear, parts.forwarded)


def linearized(
    frame: Frame, record: Frame, rule: Rule, op: Operation[object], operands: tuple[Value, ...]
) -> tuple[PyTree, PyTree] | None:
    """Computes an operation's results by one kernel, and records its derivative as one equation.

    Args:
        frame: forward mode's.
        record: the recorder's, around which there is none.
        rule: the operation's for forward mode.
        op, operands: what is performed.

    Returns:
        What the rule gives: the result and its tangent, None for zero, or tuples of them. None if it must run.
    """
    if (
        op.effects
        or isinstance(op, HigherOrder)
        or not rule.__module__.startswith("effx.")
        or type(effects.outermost.handler) is not Evaluate  # somebody looks at each operation
    ):
        return None
    primals: list[Array] = []
    variables: list[Var] = []
    types: list[tuple[ArrayType, ArrayType | None]] = []
    for x in cast("tuple[Array, ...]", operands):
        if x.frame is frame:
            primal, tangent = x.payload.primal, x.payload.tangent  # type: ignore[attr-defined]  # a value with a frame is a Box
            if tangent.frame is not record:
                return None
            primals.append(primal)
            types.append((primal.type, tangent.type))
            variables.append(tangent.payload)
        else:
            primals.append(x)
            types.append((x.type, None))
    found = _linearized(op, rule, tuple(types))
    if found is None:
        return None
    if found.constants:
        primals = [*found.constants, *primals]
    results = found.forward(*[x if type(x) is ConcreteArray else on_device(x) for x in primals])
    moved, linear = found.moved, found.linear
    tangents: list[Array | None] = [None] * len(moved)
    if linear is not None:
        recorder: Recorder = record.state  # type: ignore[assignment]  # set by who records
        outputs = tuple([Var(t) for t in linear.program.out_types])
        residuals = [*[primals[i] for i in found.forwarded], *results[len(moved) :]]
        inputs = (*map(recorder.capture, residuals), *variables)
        recorder.equations.append(Equation(linear, inputs, outputs, current_source(), recorder.scope()))
        given = iter(outputs)
        tangents = [Box(record, var := next(given), var.type) if m else None for m in moved]
    return (results[: len(moved)], tuple(tangents)) if op.multiple else (results[0], tangents[0])
