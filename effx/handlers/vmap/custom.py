"""Batching of functions with custom rules: by a batching rule, or with the other rules kept."""

from collections.abc import Sequence
from typing import cast

import attrs

from effx.array import Array, Box
from effx.dtypes import int32
from effx.effects import Frame
from effx.errors import EscapedBoxError, active_source
from effx.handlers.recursion import custom
from effx.handlers.recursion.custom import closed_over_error
from effx.handlers.recursion.layout import ValueLayout, flatten_boxes, layout_types, rebuild_boxes
from effx.handlers.recursion.payloads import custom_rule, recursion
from effx.handlers.recursion.staging import cache_on_program, flatten_state, stage_under
from effx.handlers.vmap.handler import Vmap, evaluate_batch, move_to_front, values_in_front
from effx.ir.ops.custom import Batch, BatchRule, CustomCall, CustomRules
from effx.ir.ops.shape import DynamicSlice, Iota, Reshape
from effx.ir.types import array_type
from effx.ir.values.scalars import scalar


@custom_rule(Vmap)
def apply_batching_rule(
    frame: Frame, rules: CustomRules, constants: Sequence[Array], primals: Sequence[Array]
) -> tuple[Array, ...] | None:
    """Applies a user's batching rule; None if no argument has a batch axis."""
    handler = cast("Vmap", frame.handler)
    assert rules.batch is not None
    values: list[Array] = []
    batched: list[bool] = []
    for x in primals:
        is_batched = type(x) is Box and x.frame is frame
        batched.append(is_batched)
        values.append(move_to_front(x.payload.value, x.payload.axis) if type(x) is Box and is_batched else x)
    if not any(batched):
        return None
    if any([x.frame is frame for x in constants]):
        raise closed_over_error(rules, "batched")
    # Operations that the rule performs have the source lines of the rule.
    outer_source = active_source.get()
    try:
        active_source.set(None)
        if rules.operand_leaves and not any([batched[a] for a, _ in rules.operand_leaves]):
            ys, flags = _batch_elements(handler, rules.batch, constants, values, batched)
        else:
            ys, flags = rules.batch(handler.size, constants, values, batched)
    except EscapedBoxError as error:
        if error.frame is frame:
            raise closed_over_error(rules, "batched") from error
        raise
    finally:
        active_source.set(outer_source)
    return tuple([handler.boxed_result(frame, y, 0 if b else None) for y, b in zip(ys, flags, strict=True)])


def _batch_elements(
    handler: Vmap,
    rule: BatchRule,
    constants: Sequence[Array],
    values: Sequence[Array],
    batched: Sequence[bool],
) -> tuple[list[Array], list[bool]]:
    """Batches a rule's results where only tangents are batched: the rule sees the one primal."""

    def evaluate_element(arrays: list[Array]) -> list[Array]:
        index, *elements = arrays
        remaining = iter(elements)
        operands = [next(remaining) if b else x for x, b in zip(values, batched, strict=True)]
        ys, flags = rule(handler.size, constants, operands, [False] * len(operands))
        return [_select_row(y, index) if b else y for y, b in zip(ys, flags, strict=True)]

    rows = Iota(array_type(int32, (handler.size,)), 0)()
    mapped = [rows, *[x for x, b in zip(values, batched, strict=True) if b]]
    ys, axes = evaluate_batch(evaluate_element, mapped, [0] * len(mapped), handler.size)
    flags = [a is not None for a in axes]
    return [y if a is None else move_to_front(y, a) for y, a in zip(ys, axes, strict=True)], flags


def _select_row(x: Array, index: Array) -> Array:
    """Returns the element of a leading batch axis at an index."""
    zero = scalar(0, index.type.dtype)
    row = DynamicSlice((1, *x.type.shape[1:]))(x, index, *[zero] * (x.type.ndim - 1))
    return Reshape(x.type.shape[1:])(row)


@recursion(CustomCall, under=Vmap)
def batch_custom_call(frame: Frame, op: CustomCall, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs one call on the batch. A named function keeps its batch: outer handlers apply their rules to each element."""
    handler, function = cast("Vmap", frame.handler), op.rules.function
    if function is None:
        return custom.recur_custom_call(frame, op, operands)
    operands_in_front = [
        handler.boxed_result(frame, move_to_front(x.payload.value, x.payload.axis), 0)
        if type(x) is Box and x.frame is frame
        else x
        for x in operands
    ]
    leaves, layouts = flatten_boxes(frame, operands_in_front)
    handled = stage_under(op.program, handler, layouts, flatten_state(frame)[1], _flatten_in_front, "named")

    def make() -> CustomCall:
        batched = tuple([x.frame is frame for x in op.split_operands(operands)[1]])
        # The batched operation remembers the handlers that batched it, so that a handler further out can
        # batch its own rule the same way (`apply_over_batches`), by the `unstack` and `stack` that also serve
        # scans.
        batch = Batch(handler.size, handler.axis_name, batched, handler.spmd_axes)
        types = layout_types(handled.results)
        tree = function.result()[0]
        called = attrs.evolve(function, result=lambda: (tree, types), batches=(batch, *function.batches))
        rules = CustomRules(op.rules.transform_name, op.rules.name, function=called)
        return CustomCall(handled.program, rules, len(handled.constants) + op.constants)

    outer = cache_on_program(op.program, ("named", op, handler, layouts, handled.program), make)
    return tuple(rebuild_boxes(frame, outer(*handled.constants, *leaves), handled.results))


def _flatten_in_front(
    frame: Frame, inputs: list[Array], outputs: list[Array]
) -> tuple[list[Array], tuple[ValueLayout, ...]]:
    """Moves the batch axis of all results to the front, and broadcasts unbatched ones."""
    handler = frame.handler
    assert isinstance(handler, Vmap)
    return flatten_boxes(
        frame, [handler.boxed_result(frame, values_in_front(handler, frame, y), 0) for y in outputs]
    )
