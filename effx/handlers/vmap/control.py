"""Batching of branches and loops that decide differently for different members.

Never: touch a loop or branch on which all members agree; the general recursion does these.
"""

from collections.abc import Sequence

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import scalar
from effx.effects import Frame, handle, resumed
from effx.handlers.recursion.layout import (
    Layout,
    fit,
    flatten_boxes,
    layout_of,
    payload_of,
    rebuild_boxes,
    types_of,
)
from effx.handlers.recursion.staging import cached
from effx.handlers.stage import run_program, stage
from effx.handlers.vmap.handler import Batched, Vmap, materialize
from effx.ir.ops.compare import Eq
from effx.ir.ops.control import Cond, While
from effx.ir.ops.convert import StopGradient
from effx.ir.ops.elementwise import Select
from effx.ir.ops.reduce import ReduceOr
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.program import Program, Staged
from effx.ir.types import array_type

SELECT = Select()
BOOL = array_type(dtypes.bool_)


def where(mask: Array, x: Array, y: Array) -> Array:
    """Returns x where the member's scalar mask is true, else y."""
    if x is y:
        return x
    shape = x.type.shape
    return SELECT(BroadcastInDim(shape, ())(mask) if shape else mask, y, x)


def masked(frame: Frame, mask: Array, x: Array) -> Array:
    """Returns x with a derivative only where the mask is true.

    A member that does not take a branch has cotangents of zero there, and zero times the branch's
    infinite derivative is NaN. Selecting between x and a constant x leaves the value and stops the NaN.
    Arrays that all members share are left alone: masking one would make a copy for each member.
    """
    shared = x.frame is not frame and x.type.shape != ()
    return x if shared or x.type.kind not in "fc" else where(mask, x, StopGradient()(x))


def run_branches(frame: Frame, index: Batched, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs all branches for all members, and selects."""
    with resumed(frame):
        chosen: Array = Box(frame, index, array_type(dtypes.int32))
        takes = [Eq()(chosen, scalar(k, dtypes.int32, False)) for k in range(len(op.branches) - 1)]
        rest = takes[0]
        for take in takes[1:]:
            rest = rest | take
        takes.append(~rest)
        results = [
            run_program(branch, [masked(frame, take, x) for x in operands])
            for take, branch in zip(takes, op.branches, strict=True)
        ]
        outputs = results[-1]
        for take, values in zip(takes[:-1], results[:-1], strict=True):
            outputs = [where(take, x, y) for x, y in zip(values, outputs, strict=True)]
    return tuple(outputs)


def run_undecided(handler: Vmap, frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs the loop as long as any member goes on; the members' own answers are carried along."""
    c = op.constants
    constants, constant_layouts = flatten_boxes(frame, operands[:c])
    carry = tuple([layout_of(payload_of(frame, x), x.type) for x in operands[c:]])
    start = [a for x, layout in zip(operands[c:], carry, strict=True) for a in fit(frame, x, layout)]
    first, step = cached(
        op.body,
        ("undecided", handler, op.condition, constant_layouts, carry),
        lambda: (_first(handler, op, constant_layouts, carry), _step(handler, op, constant_layouts, carry)),
    )
    going = run_program(first.program, [*first.captured, *constants, *start])[0]
    k = len(step.captured) + len(constants)
    test = cached(step.program, ("any", k), lambda: _any_of(step, k))
    results = While(test, step.program, k)(*step.captured, *constants, going, *start)
    return tuple(rebuild_boxes(frame, results[1:], carry))


def _first(handler: Vmap, op: While, constants: tuple[Layout, ...], carry: tuple[Layout, ...]) -> Staged:
    """Stages the condition for all members."""

    def body(leaves: list[Array]) -> list[Array]:
        with handle(handler) as frame:
            (test,) = run_program(op.condition, rebuild_boxes(frame, leaves, (*constants, *carry)))
        return [_answers(handler, frame, test)]

    return stage(body, types_of((*constants, *carry)), f"vmap_{op.condition.name}", "vmap")


def _answers(handler: Vmap, frame: Frame, test: Array) -> Array:
    if type(test) is Box and test.frame is frame:
        return materialize(handler, test.payload.value, test.payload.axis)
    return materialize(handler, test, None)


def _step(handler: Vmap, op: While, constants: tuple[Layout, ...], carry: tuple[Layout, ...]) -> Staged:
    """Stages one turn: members that go on take the body's result and ask again."""
    n = len(types_of(constants))

    def body(leaves: list[Array]) -> list[Array]:
        going, rest = leaves[n], [*leaves[:n], *leaves[n + 1 :]]
        with handle(handler) as frame:
            values = rebuild_boxes(frame, rest, (*constants, *carry))
            fixed, now = values[: len(constants)], values[len(constants) :]
            mask: Array = Box(frame, Batched(going, 0), BOOL)
            after = run_program(op.body, [*fixed, *[masked(frame, mask, x) for x in now]])
            after = [where(mask, y, x) for x, y in zip(now, after, strict=True)]
            (test,) = run_program(op.condition, [*fixed, *after])
            still = test & mask
        flat = [a for y, layout in zip(after, carry, strict=True) for a in fit(frame, y, layout)]
        return [_answers(handler, frame, still), *flat]

    types = (*types_of(constants), array_type(dtypes.bool_, (handler.size,)), *types_of(carry))
    return stage(body, types, f"vmap_{op.body.name}", "vmap")


def _any_of(step: Staged, constants: int) -> Program:
    """Returns the program that says whether any member goes on."""
    types = step.program.in_types
    return stage(lambda leaves: [ReduceOr((0,))(leaves[constants])], types, "any", "vmap").program
