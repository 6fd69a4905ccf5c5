"""Forward mode through functions with custom rules. For y = f(x) with a rule for reverse mode only, the
tangent dy is the result of an operation, linear in dx, of which only the transpose is known. With rules for
both modes that operation also holds the rule for forward mode: XLA runs this one, transposition uses the
other.
"""

from collections.abc import Sequence
from typing import Literal

from effx.array import Array, Box
from effx.effects import Frame
from effx.errors import ConcretizationError, EscapedBoxError, active_source
from effx.handlers.jvp.handler import JVP, Tangent, jvp, rule, zeros_like
from effx.handlers.linear.recorder import LinearRecorder
from effx.handlers.recursion.custom import closed_over_error
from effx.handlers.recursion.payloads import custom_rule
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.custom import CustomBackward, CustomRules, CustomTangent
from effx.ir.ops.groups import split_into
from effx.ir.program import Program
from effx.tree.registry import flatten

DifferentiationMode = Literal["forward", "backward", "open"]


@custom_rule(JVP)
def apply_derivative_rule(
    frame: Frame, rules: CustomRules, constants: Sequence[Array], primals: Sequence[Array]
) -> tuple[Array, ...] | None:
    """Applies a user's rule; None if no argument has a tangent."""
    xs = [x.payload.primal if type(x) is Box and x.frame is frame else x for x in primals]
    dxs = [x.payload.tangent if type(x) is Box and x.frame is frame else None for x in primals]
    if all([dx is None for dx in dxs]):
        return None
    if any([x.frame is frame for x in constants]):
        raise closed_over_error(rules, "differentiated")
    # Operations that the rule performs have the source lines of the rule.
    outer_source = active_source.get()
    try:
        active_source.set(None)
        mode = "forward" if rules.vjp is None else differentiation_mode([dx for dx in dxs if dx is not None])
        if rules.jvp is not None and mode == "forward":
            ys, dys = rules.jvp(constants, xs, dxs)
        else:
            ys, dys = _run_reverse_rule(rules, constants, xs, dxs)
    except EscapedBoxError as error:
        if error.frame is frame:
            raise closed_over_error(rules, "differentiated") from error
        raise
    finally:
        active_source.set(outer_source)
    return tuple([JVP().boxed_result(frame, y, dy) for y, dy in zip(ys, dys, strict=True)])


def differentiation_mode(tangents: Sequence[Array]) -> DifferentiationMode:
    """Returns the mode of differentiation: forward if tangents are concrete, reverse if recorded, either if staged."""
    pending = list(tangents)
    while pending:
        x = pending.pop()
        if type(x) is not Box:
            continue
        if isinstance(x.frame.handler, LinearRecorder):
            return "backward"
        if x.frame.intercepts:
            return "open"
        pending += [leaf for leaf in flatten(x.payload)[0] if isinstance(leaf, Array)]
    return "forward"


def _run_reverse_rule(
    rules: CustomRules, constants: Sequence[Array], xs: Sequence[Array], dxs: Sequence[Tangent]
) -> tuple[list[Array], list[Tangent]]:
    """Runs the forward pass of reverse mode; only the transpose of the tangents' map is known."""
    assert rules.vjp is not None
    tangent_indices = [i for i, dx in enumerate(dxs) if dx is not None]
    ys, residuals, backward_rule = rules.vjp(constants, xs, [dx is not None for dx in dxs])
    outputs = [i for i, y in enumerate(ys) if y.type.kind in "fc"]

    def backward(known: Sequence[Array], cts: Sequence[Tangent]) -> list[Tangent]:
        all_cts: list[Tangent] = [None] * len(ys)
        for i, ct in zip(outputs, cts, strict=True):
            all_cts[i] = ct
        try:
            primal_cts = backward_rule(known, all_cts)
        except EscapedBoxError as error:
            if getattr(error.frame, "live", True):
                raise
            raise closed_over_error(rules, "differentiated") from error
        return [primal_cts[i] for i in tangent_indices]

    program, forward = _stage_forward_rule(rules, constants, xs, tangent_indices, outputs)
    known = [*residuals, *forward]
    # The backward rule becomes a linear operation that knows only its transpose, so recording, splitting and
    # checkpointing treat it as any other.
    op = CustomTangent(
        CustomBackward(rules.transform_name, rules.name, backward),
        tuple([ys[i].type for i in outputs]),
        len(residuals),
        len(known),
        program,
    )
    dys: list[Tangent] = [None] * len(ys)
    if outputs:
        tangents = [dx for dx in dxs if dx is not None]
        for i, dy in zip(outputs, op(*known, *tangents), strict=True):
            dys[i] = dy
    return ys, dys


def _stage_forward_rule(
    rules: CustomRules,
    constants: Sequence[Array],
    xs: Sequence[Array],
    tangent_indices: list[int],
    outputs: list[int],
) -> tuple[Program | None, list[Array]]:
    """Stages the rule for forward mode, if there is one, as a program of known values and tangents."""
    rule = rules.jvp
    if rule is None:
        return None, []
    types = [x.type for x in (*constants, *xs, *[xs[i] for i in tangent_indices])]

    def call_rule(arrays: list[Array]) -> list[Array]:
        constant_arrays, primals, tangents = split_into(arrays, len(constants), len(xs))
        dxs: list[Tangent] = [None] * len(xs)
        for i, dx in zip(tangent_indices, tangents, strict=True):
            dxs[i] = dx
        ys, dys = rule(constant_arrays, primals, dxs)
        return [zeros_like(ys[i]) if dys[i] is None else _require_tangent(dys[i]) for i in outputs]

    try:
        staged = stage(call_rule, types, rules.name, rules.transform_name)
    except ConcretizationError:
        return None, []  # a rule that reads values runs only where they are known
    return staged.program, [*staged.captured, *constants, *xs]


def _require_tangent(dy: Tangent) -> Array:
    assert dy is not None
    return dy


@rule(CustomTangent)
def jvp_custom_tangent(
    op: CustomTangent, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    # y = A(a) x is linear in x, so dy = dA x + A dx, of which the second is this operation again, with its transpose.
    values, moved = op.group_operands(primals), op.group_operands(tangents)

    def apply_to_tangents() -> tuple[Array, ...]:
        """Returns A dx."""
        dxs = zip(values.tangents, moved.tangents, strict=True)
        return op(*values.nonlinear, *[zeros_like(x) if dx is None else dx for x, dx in dxs])

    if all([da is None for da in moved.nonlinear]):
        return op(*primals), apply_to_tangents()
    program = op.program
    if program is None:
        raise op.backward.no_forward_mode()
    zero_tangents: list[Tangent] = [None] * len(values.tangents)
    ys, dys = jvp(
        lambda arrays: run_program(program, arrays), values.of_program, [*moved.known, *zero_tangents]
    )
    if all([dx is None for dx in moved.tangents]):
        return tuple(ys), tuple(dys)
    pairs = zip(dys, apply_to_tangents(), strict=True)
    return tuple(ys), tuple([b if a is None else a + b for a, b in pairs])
