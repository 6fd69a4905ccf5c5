"""Functions with custom rules under any handler. A handler that uses one of the rules applies it. Under any
other, the function is staged again. Its derivative rules are kept, staged under the handler too, if
the handler commutes with differentiation, as batching does, and what works on plain values. Otherwise the handled
function is differentiated itself, because the rules would compute something else: bounds of a derivative are no
derivatives of bounds. The batching rule is always kept, because handlers commute with batching.

The rules say nothing of what the handler brings out of the function, its state and collected values. So these are
results of the call that the rules do not cover, its record: under a handler that applies a rule, the record comes from a
call of the function itself, whose derivatives and batches are those of its operations.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import final

import attrs

from effx.array import Array, Box
from effx.array.promotion import zeros
from effx.effects import Frame, Handler, handle
from effx.errors import ClosedOverError, TransformError
from effx.handlers.recursion.layout import (
    ValueLayout,
    fit_to_layout,
    flatten_boxes,
    layout_types,
    payload_for,
    payload_layout,
    rebuild_boxes,
    split_by_layouts,
)
from effx.handlers.recursion.payloads import PayloadHandler, payload_handler, recur, recursion
from effx.handlers.recursion.staging import (
    STATELESS,
    HandledProgram,
    StateLayout,
    cache_on_program,
    collect_values,
    flatten_state,
    has_record,
    set_state,
    stage_under,
    take_state,
)
from effx.ir.ops.control import Call
from effx.ir.ops.custom import BackwardRule, CustomCall, CustomRules, CustomTangent
from effx.ir.ops.groups import split_into
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.passes.pruning import prune_program
from effx.ir.passes.redundancy import eliminate_dead_code
from effx.ir.program import Program
from effx.tree.registry import PyTree, flatten

Layouts = tuple[ValueLayout, ...]
MaybeArrays = Sequence[Array | None]


@recursion(CustomCall)
def recur_custom_call(frame: Frame, op: CustomCall, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Applies the handler's own rule for the function, or performs one call of the function staged under the handler."""
    handler = payload_handler(frame)
    # Of arrays that handlers within have, the rules know nothing: by these the function itself is differentiated.
    if handler.uses(op.rules) and not any([x.frame is frame for x in operands[: op.rules.captured]]):
        applied = handler.apply_custom(frame, op.rules, *op.split_operands(operands))
        if applied is not None:
            return (*_recur_record(frame, op, operands), *applied)
    # False by default: the derivative of an interval's upper bound is not the upper bound of a custom
    # derivative.
    keeps_rules = handler.keeps_rules and op.rules.has_rules
    if not keeps_rules and (op.rules.batch is None or has_record(frame)):
        return _recur_program(frame, op.program, operands)
    leaves, layouts = flatten_boxes(frame, operands)
    state_leaves, state = flatten_state(frame)
    # A rule may return a boxed value where the function itself returns a plain one, such as a constant.
    # Results that the handler's own effects made plain, such as a sum along its axis, must stay plain.
    # Results that all batch elements share stay plain if the user allows rules for a single element.
    lifts_results = (
        keeps_rules
        and handler.owns_boxes
        and not handler.takes(op.effects)
        and not _has_shared_results(op.rules)
    )
    handled = stage_under(
        op.program,
        handler,
        layouts,
        state,
        _flatten_lifted if lifts_results else _flatten_unchanged,
        ("custom", lifts_results),
    )
    # The rules, which run later, need the values that the handler's arrays have then, and know nothing of their tangents.
    traced = [] if handler.owns_boxes else [x for x in handled.constants if type(x) is Box]
    if any([not _holds_array(handler, x) or _is_boxed_by_user_of(op.rules, x) for x in traced]):
        return _recur_program(frame, op.program, operands)
    captured, (constants, primals) = len(handled.constants), op.split_operands(layouts)
    of_constants = len(layout_types(constants))

    def make() -> CustomCall:
        program = _put_record_first(handled, len(state.leaves), of_constants)
        rules = _RulesUnderHandler(
            handler,
            op.rules,
            handled.constants,
            tuple(constants),
            tuple(primals),
            handled.results[op.record :],
            state,
            _results_use_state(handled, len(state.leaves), op.record),
        )
        record = (
            len(state.leaves) + len(handled.collected.types) + len(layout_types(handled.results[: op.record]))
        )
        return CustomCall(program, rules.rules(keeps_rules), captured + of_constants, record)

    call = cache_on_program(
        op.program, ("custom call", op, handler.cache_key(), layouts, handled.program), make
    )
    constant_leaves, primal_leaves = split_into(leaves, of_constants)
    outputs = call(*handled.constants, *constant_leaves, *state_leaves, *primal_leaves)
    new_state, collected, results = split_into(outputs, len(state.leaves), len(handled.collected.types))
    set_state(frame, new_state, state)
    collect_values(frame, collected, handled.collected)
    return tuple(rebuild_boxes(frame, results, handled.results))


def _has_shared_results(rules: CustomRules) -> bool:
    """Returns whether results stay plain: not if a forward-mode rule may give them different tangents."""
    return rules.shares_results and rules.jvp is None


def _recur_program(frame: Frame, program: Program, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Interprets a function as a call of its program, without rules."""
    results = recur(frame, Call(program), operands)
    assert results is not None
    return results


def _recur_record(frame: Frame, op: CustomCall, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Returns the results of which the rules know nothing, by a call of the function for these alone."""
    if not op.record:
        return ()

    def make() -> Program:
        # The rule performs the function's effects, so that they are left out here.
        outputs = op.program.outputs[: op.record]
        return eliminate_dead_code(attrs.evolve(op.program, outputs=outputs, derived={}), keeps_effects=False)

    return _recur_program(frame, cache_on_program(op.program, ("record", op.record), make), operands)


def _put_record_first(handled: HandledProgram, state: int, constants: int) -> Program:
    """Returns a staged program with the operands and results in a call's order.

    Its operands are those that it captures, the constants, the state and the primals; its results the state, the
    collected values, those of a record within, and the function's own.
    """
    collected = len(handled.collected.types)
    if not state and not collected:
        return handled.program
    captured, state_inputs, constant_inputs, primals = split_into(
        handled.program.inputs, len(handled.constants), state, constants
    )
    state_outputs, results, collected_outputs = split_into(
        handled.program.outputs, state, len(layout_types(handled.results))
    )
    return attrs.evolve(
        handled.program,
        inputs=(*captured, *constant_inputs, *state_inputs, *primals),
        outputs=(*state_outputs, *collected_outputs, *results),
        derived={},
    )


def _results_use_state(handled: HandledProgram, state: int, record: int) -> bool:
    """Returns whether the function's own results depend on the state that the handler has before it."""
    if not state:
        return False
    first = state + len(layout_types(handled.results[:record]))
    last = state + len(layout_types(handled.results))
    is_result = [first <= i < last for i in range(len(handled.program.outputs))]
    needs = prune_program(handled.program, is_result, [False] * len(handled.program.inputs))[1]
    return any(needs[len(handled.constants) : len(handled.constants) + state])


def _is_boxed_by_user_of(rules: CustomRules, x: Array) -> bool:
    """Returns whether a handler further out, which uses the rules, has boxed a value."""
    pending = [x]
    while pending:
        x = pending.pop()
        if type(x) is Box:
            handler = x.frame.handler
            if isinstance(handler, PayloadHandler) and handler.uses(rules):
                return True
            pending += [leaf for leaf in flatten(x.payload)[0] if isinstance(leaf, Array)]
    return False


def _attribute_names(handler: Handler) -> dict[str, str]:
    """Returns the names of a handler's attributes by those of its parameters; none of a class without attrs."""
    cls = type(handler)
    return {f.alias or f.name: f.name for f in attrs.fields(cls)} if attrs.has(cls) else {}


def _holds_array(handler: Handler, x: Array) -> bool:
    """Returns whether a handler has an array among the leaves of its attributes."""
    names = _attribute_names(handler).values()
    return any([leaf is x for name in names for leaf in flatten(getattr(handler, name))[0]])


def _replace_arrays(handler: PayloadHandler, old: Sequence[Array], new: Sequence[Array]) -> PayloadHandler:
    """Returns a handler with other arrays among its attributes."""
    replacements = {id(x): y for x, y in zip(old, new, strict=True) if x is not y}
    changes: dict[str, PyTree] = {}
    for parameter, name in _attribute_names(handler).items() if replacements else ():
        leaves, tree = flatten(getattr(handler, name))
        if any([id(leaf) in replacements for leaf in leaves]):
            changes[parameter] = tree.unflatten([replacements.get(id(leaf), leaf) for leaf in leaves])
    if not changes:
        return handler
    return attrs.evolve(handler, **changes)  # type: ignore[misc]  # an attrs class, as its changes show


def _flatten_unchanged(
    frame: Frame, inputs: list[Array], outputs: list[Array]
) -> tuple[list[Array], Layouts]:
    return flatten_boxes(frame, outputs)


def _flatten_lifted(frame: Frame, inputs: list[Array], outputs: list[Array]) -> tuple[list[Array], Layouts]:
    """Boxes all results."""
    return flatten_boxes(frame, [Box(frame, payload_for(frame, y), y.type) for y in outputs])


def _box_tangents(frame: Frame, parts: MaybeArrays, layouts: Layouts) -> list[Array | None]:
    """Boxes tangents (or cotangents) by the layouts of their primals: each leaf of a payload has its own tangent."""
    values: list[Array | None] = []
    for layout, own_parts in zip(layouts, split_by_layouts(parts, layouts), strict=True):
        if all([t is None for t in own_parts]):
            values.append(None)
        else:
            dense_parts = [zeros(t) if x is None else x for x, t in zip(own_parts, layout.types, strict=True)]
            values += rebuild_boxes(frame, dense_parts, (layout,))
    return values


def _fit_all(frame: Frame, values: MaybeArrays, layouts: Layouts) -> list[Array | None]:
    """Converts tangents to the layouts of their primals."""
    flat: list[Array | None] = []
    for x, layout in zip(values, layouts, strict=True):
        flat += [None] * len(layout.types) if x is None else fit_to_layout(frame, x, layout)
    return flat


def _fit_cotangents(frame: Frame, values: MaybeArrays, layouts: Layouts) -> list[Array | None]:
    """Converts cotangents to the layouts of their primals; an unbatched value gets the sum."""
    unboxed: list[Array | None] = []
    for x, layout in zip(values, layouts, strict=True):
        if layout.tree is None and type(x) is Box and x.frame is frame:
            x = payload_handler(frame).reduce_cotangent(x.payload)
        unboxed.append(x)
    return _fit_all(frame, unboxed, layouts)


def make_backward_under(
    handler: PayloadHandler,
    function: BackwardRule,
    residuals: Layouts,
    results: Layouts,
    primals: Layouts,
    *,
    state: StateLayout,
    shares: bool = False,
) -> BackwardRule:
    """Returns a backward rule that works on the leaves of boxes. The handler's state comes before the residuals; what
    the rule adds to it goes nowhere, since the pass that returns the state is over.
    """

    def backward(known: Sequence[Array], cts: MaybeArrays) -> list[Array | None]:
        state_leaves, known = split_into(known, len(state.leaves))
        with handle(handler) as frame:
            set_state(frame, state_leaves, state)
            boxed_cts = _box_tangents(frame, cts, results)
            if shares:
                boxed_cts = [
                    Box(frame, handler.on_first(ct), ct.type)
                    if ct is not None and layout.tree is None and ct.type.kind in "fc"
                    else ct
                    for ct, layout in zip(boxed_cts, results, strict=True)
                ]
            primal_cts = function(rebuild_boxes(frame, known, residuals), boxed_cts)
        return _fit_cotangents(frame, primal_cts, primals)

    return backward


@final
@attrs.frozen(eq=False)
class _RulesUnderHandler:
    """The rules of a function staged under a handler, as rules on the leaves of boxes.

    Attributes:
        handler: the handler.
        inner: the function's own rules.
        captured: the leading constants that staging added: arrays of the handler.
        constants, primals, results: the layouts of the function's operands and results.
        state: the layout of the handler's state, which comes before the primals.
        uses_state: whether results depend on the state.
    """

    handler: PayloadHandler
    inner: CustomRules
    captured: tuple[Array, ...]
    constants: Layouts
    primals: Layouts
    results: Layouts
    state: StateLayout
    uses_state: bool

    def rules(self, keeps: bool) -> CustomRules:
        """Returns the rules to keep: derivative rules only if `keeps`."""
        inner = self.inner
        return CustomRules(
            inner.transform_name,
            inner.name,
            self.jvp if keeps and inner.jvp is not None else None,
            self.vjp if keeps and inner.vjp is not None else None,
            self.batch if inner.batch is not None else None,
            shares_results=inner.shares_results,
            captured=len(self.captured) + inner.captured,
            operand_leaves=self.find_operand_leaves(),
            details=inner.details if keeps else {},
        )

    def find_operand_leaves(self) -> tuple[tuple[int, int], ...]:
        """Returns for each of the user's arguments where its leaves begin and end."""
        n = len(self.state.leaves)
        spans = [(n + a, n + b) for a, b in _layout_spans(self.primals)]
        if not self.inner.operand_leaves:
            return tuple([(a, b) for a, b in spans if b > a])
        return tuple([(spans[a][0], spans[b - 1][1]) for a, b in self.inner.operand_leaves if b > a])

    def handler_with(self, constants: Sequence[Array]) -> PayloadHandler:
        """Returns the handler with the values that its arrays have where the rules run."""
        return _replace_arrays(self.handler, self.captured, constants[: len(self.captured)])

    def enter(
        self, frame: Frame, constants: Sequence[Array], primals: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Sets the handler's state, and rebuilds the function's operands."""
        state, leaves = split_into(primals, len(self.state.leaves))
        set_state(frame, state, self.state)
        known = rebuild_boxes(frame, constants[len(self.captured) :], self.constants)
        return known, rebuild_boxes(frame, leaves, self.primals)

    def check_state_is_fixed(self, has_tangents: Sequence[bool]) -> None:
        """Refuses derivatives by a state on which results depend.

        Raises:
            ClosedOverError: the rules know nothing of it.
        """
        if self.uses_state and any(has_tangents):
            raise closed_over_error(self.inner, "differentiated")

    def jvp(
        self, constants: Sequence[Array], primals: Sequence[Array], tangents: MaybeArrays
    ) -> tuple[list[Array], list[Array | None]]:
        """Forward mode under the handler."""
        assert self.inner.jvp is not None
        of_state, of_primals = split_into(tangents, len(self.state.leaves))
        self.check_state_is_fixed([t is not None for t in of_state])
        with handle(self.handler_with(constants)) as frame:
            known, xs = self.enter(frame, constants, primals)
            ys, dys = self.inner.jvp(known, xs, _box_tangents(frame, of_primals, self.primals))
        return self.fit_results(frame, ys), _fit_all(frame, dys, self.results)

    def vjp(
        self, constants: Sequence[Array], primals: Sequence[Array], perturbed: Sequence[bool]
    ) -> tuple[list[Array], list[Array], BackwardRule]:
        """Reverse mode under the handler."""
        assert self.inner.vjp is not None
        of_state, of_primals = split_into(perturbed, len(self.state.leaves))
        self.check_state_is_fixed(of_state)
        remaining_flags = iter(of_primals)
        flags = [any([next(remaining_flags) for _ in layout.types]) for layout in self.primals]
        with handle(self.handler_with(constants)) as frame:
            known, xs = self.enter(frame, constants, primals)
            ys, residuals, backward = self.inner.vjp(known, xs, flags)
            shares = _has_shared_results(self.inner)
            if shares:
                ys = [self.unbox_shared(frame, y, layout) for y, layout in zip(ys, self.results, strict=True)]
        leaves, layouts = flatten_boxes(frame, residuals)
        state = take_state(frame, self.state)
        arrays = constants[: len(self.captured)]

        def leaf_backward(known: Sequence[Array], cts: MaybeArrays) -> list[Array | None]:
            new_arrays, rest = split_into(known, len(arrays))
            backward_under = make_backward_under(
                _replace_arrays(self.handler, self.captured, new_arrays),
                backward,
                layouts,
                self.results,
                self.primals,
                state=self.state,
                shares=shares,
            )
            return [*[None] * len(of_state), *backward_under(rest, cts)]

        return self.fit_results(frame, ys), [*arrays, *state, *leaves], leaf_backward

    def unbox_shared(self, frame: Frame, y: Array, layout: ValueLayout) -> Array:
        """Returns a result of the forward rule, plain if the function's own result is plain."""
        return (
            self.handler.first(y.payload)
            if layout.tree is None and type(y) is Box and y.frame is frame
            else y
        )

    def fit_results(self, frame: Frame, ys: Sequence[Array]) -> list[Array]:
        """Converts results to the layouts of the function's own results."""
        return [
            a for y, layout in zip(ys, self.results, strict=True) for a in fit_to_layout(frame, y, layout)
        ]

    def batch(
        self, size: int, constants: Sequence[Array], values: Sequence[Array], batched: Sequence[bool]
    ) -> tuple[list[Array], list[bool]]:
        """Batching under the handler: boxes of batches, whose leaves have a leading batch axis."""
        assert self.inner.batch is not None
        xs: list[Array] = []
        flags: list[bool] = []
        state, values = split_into(values, len(self.state.leaves))
        of_state, batched = split_into(batched, len(self.state.leaves))
        if any(of_state):
            if self.uses_state:
                raise closed_over_error(self.inner, "batched")
            # Results do not depend on the state, so that any will do.
            state = [zeros(t) for t in layout_types(self.state.leaves)]
        with handle(self.handler_with(constants)) as frame:
            set_state(frame, state, self.state)
            known = rebuild_boxes(frame, constants[len(self.captured) :], self.constants)
            for layout, (start, stop) in zip(self.primals, _layout_spans(self.primals), strict=True):
                parts, part_flags = values[start:stop], batched[start:stop]
                flags.append(any(part_flags))
                if layout.tree is None or not any(part_flags):
                    xs += rebuild_boxes(frame, parts, (layout,))
                    continue
                rows = [x if b else _repeat_rows(x, size) for x, b in zip(parts, part_flags, strict=True)]
                stacked = self.handler.stack(layout.tree.unflatten(rows))
                xs.append(Box(frame, stacked, layout.type.with_shape((size, *layout.type.shape))))
            ys, ys_batched = self.inner.batch(size, known, xs, flags)
        outputs: list[Array] = []
        out_flags: list[bool] = []
        for y, b, layout in zip(ys, ys_batched, self.results, strict=True):
            outputs += self.batch_leaves(frame, y, size, layout) if b else fit_to_layout(frame, y, layout)
            out_flags += [b] * len(layout.types)
        return outputs, out_flags

    def batch_leaves(self, frame: Frame, y: Array, size: int, layout: ValueLayout) -> list[Array]:
        """Returns the leaves of a batched result, with a leading batch axis."""
        if layout.tree is None:
            batch = layout.type.with_shape((size, *layout.type.shape))
            return fit_to_layout(frame, y, ValueLayout(None, (batch,), batch))
        parts, tree = flatten(self.handler.unstack(payload_for(frame, y)))
        types = tuple([p.type.with_shape(p.type.shape[1:]).strong() for p in parts])
        if tree != layout.tree or types != tuple([t.strong() for t in layout.types]):
            raise TransformError(
                f"{self.handler.name}: the batching rule of {self.inner.name} gives a payload of structure "
                f"{tree} for a batch of {layout.type!r}, expected {layout.tree}"
            )
        return list(parts)


def _layout_spans(layouts: Layouts) -> list[tuple[int, int]]:
    """Returns for each value where its leaves begin and end among all."""
    ends = list(accumulate([len(layout.types) for layout in layouts]))
    return list(zip([0, *ends], ends, strict=False))


def _repeat_rows(x: Array, size: int) -> Array:
    shape = (size, *x.type.shape)
    return BroadcastInDim(shape, tuple(range(1, len(shape))))(x)


@recursion(CustomTangent)
def recur_custom_tangent(frame: Frame, op: CustomTangent, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs the same operation on the leaves of boxes, if the handler keeps rules."""
    handler = payload_handler(frame)
    if op.program is None and not handler.keeps_rules:
        raise op.backward.no_forward_mode()
    if op.program is not None and (not handler.keeps_rules or has_record(frame)):
        return _recur_program(frame, op.program, op.group_operands(operands).of_program)
    leaves, all_layouts = flatten_boxes(frame, operands)
    layouts = op.group_operands(all_layouts)
    residual_leaves, program_leaves = split_into(leaves, len(layout_types(layouts.residuals)))
    state_leaves, state = flatten_state(frame)
    residuals = (*state_leaves, *residual_leaves)
    captured: tuple[Array, ...] = ()
    program = None
    if op.program is not None:
        handled = stage_under(
            op.program,
            handler,
            layouts.of_program,
            STATELESS,
            _flatten_lifted if handler.owns_boxes else _flatten_unchanged,
            ("custom", handler.owns_boxes),
        )
        program, captured, results = handled.program, handled.constants, handled.results
    elif handler.owns_boxes:
        results = tuple([payload_layout(handler.make_payload(zeros(t)), t) for t in op.out_types])
    else:
        results = tuple([ValueLayout(None, (t,), t) for t in op.out_types])
    leaf_backward = make_backward_under(
        handler, op.backward.function, layouts.residuals, results, layouts.tangents, state=state
    )
    outputs = CustomTangent(
        attrs.evolve(op.backward, function=leaf_backward),
        layout_types(results),
        len(residuals),
        len(captured) + len(layout_types(layouts.nonlinear)),
        program,
    )(*residuals, *captured, *program_leaves)
    return tuple(rebuild_boxes(frame, outputs, results))


def closed_over_error(rules: CustomRules, doing: str) -> ClosedOverError:
    """Returns the error for a function that closes over boxes, which its rules do not differentiate."""
    return ClosedOverError(
        f"{rules.transform_name}: {rules.name} depends on a value that is being {doing} and of which its rules know "
        "nothing: "
        f"it closes over it, or has it as a nondiff argument; make it an ordinary argument, by hand or with closure_convert"
    )
