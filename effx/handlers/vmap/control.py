"""Batching of branches and loops with a batched predicate; others are handled as under any handler."""

from collections.abc import Sequence
from typing import cast, final

import attrs

from effx import dtypes
from effx.array import Array, Box
from effx.effects import Frame, handle, use_frame
from effx.errors import NoRuleError
from effx.handlers.recursion import branches, while_loops
from effx.handlers.recursion.layout import (
    ValueLayout,
    flatten_boxes,
    layout_types,
    payload_for,
    payload_layout,
    rebuild_boxes,
)
from effx.handlers.recursion.loops import flatten_carry
from effx.handlers.recursion.payloads import recursion
from effx.handlers.recursion.staging import align_constants, cache_on_program
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.vmap.handler import Batched, Vmap, values_in_front
from effx.handlers.vmap.masking import mask_program, needs_mask
from effx.ir.ops.base import Elementwise
from effx.ir.ops.compare import Eq
from effx.ir.ops.control import Call, Cond, HigherOrder, While
from effx.ir.ops.convert import StopGradient
from effx.ir.ops.elementwise import Select
from effx.ir.ops.groups import LoopOperands, split_into
from effx.ir.ops.host import describe_side_effect
from effx.ir.ops.reduce import ReduceOr
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.program import Program, Staged
from effx.ir.types import array_type
from effx.ir.values.scalars import scalar

SELECT = Select()
BOOL = array_type(dtypes.bool_)


def select_elements(mask: Array, x: Array, y: Array) -> Array:
    """Returns x where the batched scalar mask is true, else y."""
    if x is y:
        return x
    shape = x.type.shape
    return SELECT(BroadcastInDim(shape, ())(mask) if shape else mask, y, x)


def mask_derivative(frame: Frame, mask: Array, x: Array) -> Array:
    """Returns x with a derivative only where the mask is true.

    A batch element that does not take a branch has zero cotangents there, and zero times the branch's
    infinite derivative is NaN. Selecting between x and a constant x keeps the value and stops the NaN.
    Unbatched arrays are not masked: that would make a copy for each batch element.
    """
    shared = x.frame is not frame and x.type.shape != ()
    # XLA removes the select, both of whose operands are the same value.
    return x if shared or x.type.kind not in "fc" else select_elements(mask, x, StopGradient()(x))


def check_effects_undecided(op: HigherOrder) -> None:
    """Checks that an operation that only some batch elements need may run for all of them.

    Raises:
        NoRuleError: it has side effects.
    """
    effect = describe_side_effect(op.effects)
    if effect:
        raise NoRuleError(
            f"{op.name}: vmap runs it for all elements of a batch where they decide differently, "
            f"but it has {effect}; use effx.lax.map, or decide outside of vmap"
        )


@recursion(Cond, under=Vmap)
def batch_cond(frame: Frame, op: Cond, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs one cond; with a batched index all branches run, and each batch element selects."""
    results_if_decided = branches.recur_decided_cond(frame, op, operands)
    if results_if_decided is not None:
        return results_if_decided
    check_effects_undecided(op)
    index, *inputs = operands
    with use_frame(frame):
        is_taken = [Eq()(index, scalar(k, dtypes.int32, False)) for k in range(len(op.branches) - 1)]
        rest = is_taken[0]
        for branch_mask in is_taken[1:]:
            rest = rest | branch_mask
        is_taken.append(~rest)
        results = [
            _run_branch(branch, branch_mask, [mask_derivative(frame, branch_mask, x) for x in inputs])
            for branch_mask, branch in zip(is_taken, op.branches, strict=True)
        ]
        outputs = results[-1]
        for branch_mask, values in zip(is_taken[:-1], results[:-1], strict=True):
            outputs = [select_elements(branch_mask, x, y) for x, y in zip(values, outputs, strict=True)]
    # What all branches hand on is the operand itself, which need not differ between batch elements.
    passed_on = [{_input_position(branch, i) for branch in op.branches} for i in range(len(outputs))]
    positions = [next(iter(candidates)) if len(candidates) == 1 else None for candidates in passed_on]
    return tuple([y if i is None else inputs[i] for i, y in zip(positions, outputs, strict=True)])


def _input_position(program: Program, output: int) -> int | None:
    """Returns the position of the input that a program hands on as an output; None if it computes the output."""
    y = program.outputs[output]
    for i, x in enumerate(program.inputs):
        if x is y:
            return i
    for e in program.equations:
        if isinstance(e.op, Call) and y in e.outputs:  # as the body of fori_loop does
            inner = _input_position(e.op.program, e.outputs.index(y))
            return next(
                (i for i, x in enumerate(program.inputs) if inner is not None and x is e.inputs[inner]), None
            )
    return None


def _run_branch(branch: Program, mask: Array, operands: Sequence[Array]) -> Sequence[Array]:
    """Runs a branch, in vain for the batch elements where the mask is False.

    A branch that holds programs stays a call, which is staged once. Both branches of nested conds may hold the same
    program: running it in each would double the work on each level.
    """
    if needs_mask(branch):
        branch, operands = mask_program(branch), [mask, *operands]
    if any([isinstance(e.op, HigherOrder) for e in branch.equations]):
        return Call(branch)(*operands)
    return run_program(branch, operands)


@recursion(While, under=Vmap)
def batch_while(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs one loop. With a batched condition it runs until all batch elements are done; elements that are done keep
    their carry. The conditions' values are carried, so that the condition is evaluated once in an iteration; but a
    condition of elementwise operations only, which XLA fuses with its uses, is evaluated twice, which is faster.
    """
    results_if_decided = while_loops.recur_decided_while(frame, op, operands)
    if results_if_decided is not None:
        return results_if_decided
    check_effects_undecided(op)
    handler, values = cast("Vmap", frame.handler), op.group_operands(operands)
    constants, constant_layouts = flatten_boxes(frame, values.constants)
    positions = op.group_operands(range(len(operands))).carry
    carry = tuple(
        [
            ValueLayout(None, (x.type,), x.type)
            if _input_position(op.body, i) == position and not (type(x) is Box and x.frame is frame)
            else payload_layout(payload_for(frame, x), x.type)
            for i, (position, x) in enumerate(zip(positions, values.carry, strict=True))
        ]
    )
    start = flatten_carry(frame, values.carry, carry)
    layouts = LoopOperands(constant_layouts, carry)
    carries = not all([isinstance(e.op, Elementwise | BroadcastInDim) for e in op.condition.equations])
    first, (test, step), captured = cache_on_program(
        op.body,
        ("undecided", handler, op.condition, layouts),
        lambda: _stage_batched_loop(_BatchedLoop(handler, op, layouts, carries)),
    )
    initial_going = [run_program(first.program, [*first.captured, *constants, *start])[0]] if carries else []
    k = len(captured) + len(constants)
    results = While(test, step, k)(*captured, *constants, *initial_going, *start)
    return tuple(rebuild_boxes(frame, results[len(initial_going) :], carry))


@final
@attrs.frozen(eq=False)
class _BatchedLoop:
    """A while loop with a batched condition.

    Attributes:
        handler: the batch.
        op: the loop of one batch element.
        layouts: of its operands.
        carries_mask: whether the conditions' values are carried, before the carry.
    """

    handler: Vmap
    op: While
    layouts: LoopOperands[ValueLayout]
    carries_mask: bool

    def split_mask(self, leaves: list[Array]) -> tuple[Sequence[Array], list[Array]]:
        """Splits the leaves into the conditions' values, one array or none, and those of constants and carry."""
        constants, mask, carry = split_into(
            leaves, len(layout_types(self.layouts.constants)), int(self.carries_mask)
        )
        return mask, [*constants, *carry]

    def evaluate_conditions(self, leaves: list[Array]) -> list[Array]:
        """Evaluates the condition of all batch elements."""
        with handle(self.handler) as frame:
            (test,) = run_program(self.op.condition, rebuild_boxes(frame, leaves, self.layouts.join()))
        return [values_in_front(self.handler, frame, test)]

    def does_any_continue(self, leaves: list[Array]) -> list[Array]:
        """Returns whether any batch element continues."""
        mask, values = self.split_mask(leaves)
        (conditions,) = mask or self.evaluate_conditions(values)
        return [ReduceOr((0,))(conditions)]

    def run_iteration(self, leaves: list[Array]) -> list[Array]:
        """Runs one iteration: batch elements that continue take the body's result."""
        op = self.op
        carried_mask, value_leaves = self.split_mask(leaves)
        with handle(self.handler) as frame:
            values = self.layouts.group_like(rebuild_boxes(frame, value_leaves, self.layouts.join()))
            current = values.carry
            if carried_mask:
                mask: Array = Box(frame, Batched(carried_mask[0], 0), BOOL)
            else:
                (mask,) = run_program(op.condition, values.join())
            operands = [*values.constants, *[mask_derivative(frame, mask, x) for x in current]]
            if needs_mask(op.body):
                after = run_program(mask_program(op.body), [mask, *operands])
            else:
                after = run_program(op.body, operands)
            after = [
                x if layout.tree is None else select_elements(mask, y, x)
                for x, y, layout in zip(current, after, self.layouts.carry, strict=True)
            ]
            still_going = mask
            if self.carries_mask:
                still_going = run_program(op.condition, [*values.constants, *after])[0] & mask
        flat = flatten_carry(frame, after, self.layouts.carry)
        return [values_in_front(self.handler, frame, still_going), *flat] if self.carries_mask else flat


def _stage_batched_loop(loop: _BatchedLoop) -> tuple[Staged, list[Program], list[Array]]:
    """Stages the initial condition, the condition and an iteration, the last two with one list of constants."""
    constants, carry = layout_types(loop.layouts.constants), layout_types(loop.layouts.carry)
    going_types = [array_type(dtypes.bool_, (loop.handler.size,))] if loop.carries_mask else []
    condition, body = loop.op.condition.name, loop.op.body.name
    first = stage(loop.evaluate_conditions, (*constants, *carry), f"vmap_{condition}", "vmap")
    types = (*constants, *going_types, *carry)
    test = stage(loop.does_any_continue, types, f"any_{condition}", "vmap")
    step = stage(loop.run_iteration, types, f"vmap_{body}", "vmap")
    programs, captured = align_constants([test, step])
    return first, programs, captured
