"""Batching of branches and loops: those with a batched predicate; others are handled as under any handler."""

from collections.abc import Sequence
from typing import cast, final

import attrs

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import scalar
from effx.effects import Frame, handle, resumed
from effx.errors import TransformError
from effx.handlers.recursion import branches, while_loops
from effx.handlers.recursion.layout import (
    Layout,
    fit,
    flatten_boxes,
    layout_of,
    payload_of,
    rebuild_boxes,
    types_of,
)
from effx.handlers.recursion.payloads import recursion
from effx.handlers.recursion.staging import aligned, cached
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.vmap.handler import Batched, Vmap, rows
from effx.ir.ops.base import Elementwise
from effx.ir.ops.compare import Eq
from effx.ir.ops.control import Call, Cond, HigherOrder, While
from effx.ir.ops.convert import StopGradient
from effx.ir.ops.elementwise import Select
from effx.ir.ops.host import outer_effect
from effx.ir.ops.reduce import ReduceOr
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.program import Program, Staged
from effx.ir.types import array_type

SELECT = Select()
BOOL = array_type(dtypes.bool_)


def where(mask: Array, x: Array, y: Array) -> Array:
    """Returns x where the batched scalar mask is true, else y."""
    if x is y:
        return x
    shape = x.type.shape
    return SELECT(BroadcastInDim(shape, ())(mask) if shape else mask, y, x)


def masked(frame: Frame, mask: Array, x: Array) -> Array:
    """Returns x with a derivative only where the mask is true.

    A batch element that does not take a branch has zero cotangents there, and zero times the branch's
    infinite derivative is NaN. Selecting between x and a constant x keeps the value and stops the NaN.
    Unbatched arrays are not masked: that would make a copy for each batch element.
    """
    shared = x.frame is not frame and x.type.shape != ()
    return x if shared or x.type.kind not in "fc" else where(mask, x, StopGradient()(x))


def check_undecided(op: HigherOrder) -> None:
    """Checks that what not all elements of a batch ask for may be done for all of them.

    Raises:
        TransformError: it calls functions that do something to the world.
    """
    found = outer_effect(op.effects)
    if found:
        raise TransformError(
            f"{op.name}: vmap runs it for all elements of a batch where they decide differently, "
            f"but it has {found}; use effx.lax.map, or decide outside of vmap"
        )


@recursion(Cond, under=Vmap)
def cond(frame: Frame, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One cond; with a batched index all branches run, and each batch element selects."""
    found = branches.decided(frame, op, operands)
    if found is not None:
        return found
    check_undecided(op)
    index, *inputs = operands
    with resumed(frame):
        takes = [Eq()(index, scalar(k, dtypes.int32, False)) for k in range(len(op.branches) - 1)]
        rest = takes[0]
        for take in takes[1:]:
            rest = rest | take
        takes.append(~rest)
        results = [
            _run(branch, [masked(frame, take, x) for x in inputs])
            for take, branch in zip(takes, op.branches, strict=True)
        ]
        outputs = results[-1]
        for take, values in zip(takes[:-1], results[:-1], strict=True):
            outputs = [where(take, x, y) for x, y in zip(values, outputs, strict=True)]
    return tuple(outputs)


def _run(branch: Program, operands: Sequence[Array]) -> Sequence[Array]:
    """Runs a branch. One that holds programs stays a call, which is staged once. Both branches of nested
    conds may hold the same program: running it in each would double the work on each level.
    """
    if any([isinstance(e.op, HigherOrder) for e in branch.equations]):
        return Call(branch)(*operands)
    return run_program(branch, operands)


@recursion(While, under=Vmap)
def while_(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One loop. With a batched condition it runs until all batch elements are done; those that are done keep their
    carry. The conditions' values are carried, so that the condition is evaluated once in an iteration; but one of
    elementwise operations only, which XLA fuses with its uses, is evaluated twice, which is faster.
    """
    found = while_loops.decided(frame, op, operands)
    if found is not None:
        return found
    check_undecided(op)
    handler, c = cast("Vmap", frame.handler), op.constants
    constants, constant_layouts = flatten_boxes(frame, operands[:c])
    carry = tuple([layout_of(payload_of(frame, x), x.type) for x in operands[c:]])
    start = [a for x, layout in zip(operands[c:], carry, strict=True) for a in fit(frame, x, layout)]
    carries = not all([isinstance(e.op, Elementwise | BroadcastInDim) for e in op.condition.equations])
    first, (test, step), captured = cached(
        op.body,
        ("undecided", handler, op.condition, constant_layouts, carry),
        lambda: _staged(_Batch(handler, op, constant_layouts, carry, carries)),
    )
    going = [run_program(first.program, [*first.captured, *constants, *start])[0]] if carries else []
    k = len(captured) + len(constants)
    results = While(test, step, k)(*captured, *constants, *going, *start)
    return tuple(rebuild_boxes(frame, results[len(going) :], carry))


@final
@attrs.frozen(eq=False)
class _Batch:
    """A while loop with a batched condition.

    Attributes:
        handler: the batch.
        op: the loop of one batch element. constants, carry: their layouts. carries: whether the conditions'
            values are carried, before the carry.
    """

    handler: Vmap
    op: While
    constants: tuple[Layout, ...]
    carry: tuple[Layout, ...]
    carries: bool

    def values(self, frame: Frame, leaves: list[Array]) -> tuple[list[Array], list[Array]]:
        """Rebuilds constants and carry."""
        values = rebuild_boxes(frame, leaves, (*self.constants, *self.carry))
        return values[: len(self.constants)], values[len(self.constants) :]

    def conditions(self, leaves: list[Array]) -> list[Array]:
        """Evaluates the condition of all batch elements."""
        with handle(self.handler) as frame:
            (test,) = run_program(self.op.condition, [x for part in self.values(frame, leaves) for x in part])
        return [rows(self.handler, frame, test)]

    def goes_on(self, leaves: list[Array]) -> list[Array]:
        """Says whether any batch element goes on."""
        n = len(types_of(self.constants))
        return [ReduceOr((0,))(leaves[n] if self.carries else self.conditions(leaves)[0])]

    def iteration(self, leaves: list[Array]) -> list[Array]:
        """One iteration: batch elements that go on take the body's result."""
        n = len(types_of(self.constants))
        op, rest = self.op, [*leaves[:n], *leaves[n + 1 :]] if self.carries else leaves
        with handle(self.handler) as frame:
            fixed, now = self.values(frame, rest)
            mask: Array = Box(frame, Batched(leaves[n], 0), BOOL)
            if not self.carries:
                (mask,) = run_program(op.condition, [*fixed, *now])
            after = run_program(op.body, [*fixed, *[masked(frame, mask, x) for x in now]])
            after = [where(mask, y, x) for x, y in zip(now, after, strict=True)]
            still = run_program(op.condition, [*fixed, *after])[0] & mask if self.carries else mask
        flat = [a for y, layout in zip(after, self.carry, strict=True) for a in fit(frame, y, layout)]
        return [rows(self.handler, frame, still), *flat] if self.carries else flat


def _staged(batch: _Batch) -> tuple[Staged, list[Program], list[Array]]:
    """Stages the initial condition, the condition and an iteration, these two with one list of constants."""
    constants, carry = types_of(batch.constants), types_of(batch.carry)
    going = [array_type(dtypes.bool_, (batch.handler.size,))] if batch.carries else []
    condition, body = batch.op.condition.name, batch.op.body.name
    first = stage(batch.conditions, (*constants, *carry), f"vmap_{condition}", "vmap")
    types = (*constants, *going, *carry)
    test = stage(batch.goes_on, types, f"any_{condition}", "vmap")
    step = stage(batch.iteration, types, f"vmap_{body}", "vmap")
    programs, captured = aligned([test, step])
    return first, programs, captured
