"""Split rematerialised calls: the linear part recomputes the values that the policy does not save. After jvp the
program is linear in some operands. Let r be the residuals of its linear equations. Saved are the known
operands and those ancestors of r that the policy names; the linear part computes r from these again.
"""

from collections.abc import Container, Sequence

import attrs

from effx.effects import Label, scope_within
from effx.handlers.linear.control import split_call
from effx.handlers.linear.partial_eval import (
    OperationParts,
    ProgramParts,
    Residual,
    is_needed,
    mask_indices,
    split_program,
    splitter,
)
from effx.handlers.linear.saving import SavedEquation, expose_saved_values
from effx.ir.ops.checkpoint import (
    Checkpoint,
    CheckpointName,
    Offload,
    Policy,
    ask_policy,
    contains_python_function,
)
from effx.ir.ops.control import Call
from effx.ir.passes import drop_unneeded, inline_calls, prune_equation
from effx.ir.program import Atom, Equation, Program, Var, effect_row


@splitter(Checkpoint)
def split_checkpoint(op: Checkpoint, linear_in: tuple[bool, ...], must_run_once: bool) -> OperationParts:
    if must_run_once:
        return split_call(Call(op.program), linear_in, must_run_once)
    # Policies decide by operation, so calls are inlined.
    parts = split_program(inline_calls(op.program), linear_in, must_run_once)
    known_equations, saved, recomputed = _choose_saved(parts, op.policy)
    linear_reads = _needed_inputs(parts, recomputed, set(saved))
    operands = [k for k, x in enumerate(parts.known.inputs) if x in linear_reads]
    offloaded = {x: Var(x.type) for x, where in saved.items() if where is not None}
    offload_equations = tuple([Equation(w, (x,), (offloaded[x],)) for x, w in saved.items() if w is not None])
    reload_equations = tuple(
        [
            Equation(attrs.evolve(w, back=True), (offloaded[x],), (x,))
            for x, w in saved.items()
            if w is not None
        ]
    )
    saved_variables: list[Var] = [offloaded.get(x, x) for x in saved]
    known = drop_unneeded(
        attrs.evolve(
            parts.known,
            equations=(*known_equations, *offload_equations),
            outputs=(*parts.results, *saved_variables),
            derived={},
        ),
        final=False,
    )
    linear_inputs = dict(zip(parts.linear_sources, parts.linear.inputs, strict=True))
    active = mask_indices(linear_in, True)
    equations = (*reload_equations, *recomputed, *parts.linear.equations)
    linear = Program(
        (*[parts.known.inputs[k] for k in operands], *saved_variables, *[linear_inputs[i] for i in active]),
        equations,
        parts.linear.outputs,
        op.program.name,
        effect_row(equations),
    )
    return OperationParts(
        known=_known_call(known, op) if is_needed(known) else None,
        known_operands=parts.known_indices,
        computed=len(saved_variables),
        linear=Checkpoint(linear, op.policy, op.prevent_cse) if linear.outputs else None,
        linear_operands=(
            *[parts.known_indices[k] for k in operands],
            *[Residual(j) for j in range(len(saved_variables))],
            *active,
        ),
        linear_out=parts.linear_out,
    )


def _known_call(known_program: Program, op: Checkpoint) -> Call | Checkpoint:
    """Returns the operation of the known part: a program that cannot be compiled is checkpointed, not called."""
    return (
        Checkpoint(known_program, op.policy, op.prevent_cse)
        if contains_python_function(known_program)
        else Call(known_program)
    )


def _choose_saved(
    parts: ProgramParts, policy: Policy | None
) -> tuple[list[Equation], dict[Var, Offload | None], list[Equation]]:
    """Returns the known equations, the saved values with their memory kinds, and the recomputed equations."""
    known_equations = list(parts.known.equations)
    allowed: dict[Var, Offload | None] = {}
    exposed: dict[int, SavedEquation] = {}
    # A derivative may read a result before `checkpoint_name`; that is the same value.
    names: dict[Atom, Equation] = {}
    unnamed: list[Equation] = []
    if policy is not None:
        for k, e in enumerate(known_equations):
            inner = expose_saved_values(e, policy)
            if inner is not None and not inner.is_complete:
                exposed[k] = inner
                allowed.update(dict.fromkeys(inner.saved))
                continue
            answer = inner is not None or ask_policy[-1](policy, e.op, [x.type for x in e.inputs])
            if answer:
                where = answer if isinstance(answer, Offload) else None
                allowed.update(dict.fromkeys(e.outputs, where))
                if type(e.op) is CheckpointName:
                    names[e.inputs[0]] = e
    # An effect of a user's operation happens once: its result is saved, regardless of the policy.
    # Performed again, it could give another result.
    for e in known_equations:
        if any([type(effect) is Label for effect in e.op.effects]):
            allowed.update(dict.fromkeys(e.outputs))
    required: set[Atom] = set(parts.residuals)
    saved: dict[Var, Offload | None] = {}
    recomputed: list[Equation] = []
    for k in reversed(range(len(known_equations))):
        e = known_equations[k]
        required_outputs = [v for v in e.outputs if v in required]
        for v in required_outputs:
            if v in allowed:
                saved[v] = allowed[v]
            elif v in names:
                (named,) = names[v].outputs
                saved[named] = allowed[named]
                unnamed.append(attrs.evolve(names[v], inputs=(named,), outputs=(v,)))
        missing = [v in required and v not in allowed and v not in names for v in e.outputs]
        if any(missing):
            if k in exposed:
                e = prune_equation(exposed[k].recomputing, missing)
                saved.update({v: None for v in exposed[k].saved if v in e.inputs})
                known_equations[k] = _save_values(exposed[k].saving, len(missing), saved)
            recomputed.append(e)
            required.update([x for x in e.inputs if type(x) is Var])
    order = [v for e in known_equations for v in e.outputs if v in saved]
    # If an equation with a saved result were run again, that result would be defined twice.
    available = {*saved, *[v for e in unnamed for v in e.outputs]}
    renamed = [
        attrs.evolve(
            e,
            outputs=tuple([Var(v.type) if v in available else v for v in e.outputs]),
            scope=scope_within("rematted_computation", e.scope),  # profiles tell by it what is computed twice
        )
        for e in reversed(recomputed)
    ]
    return known_equations, {v: saved[v] for v in order}, [*unnamed, *renamed]


def _save_values(saving: Equation, n: int, saved: Container[Var]) -> Equation:
    """Returns an equation with its first n results and the saved ones behind them."""
    return prune_equation(saving, [i < n or v in saved for i, v in enumerate(saving.outputs)])


def _needed_inputs(parts: ProgramParts, recomputed: Sequence[Equation], saved: set[Var]) -> set[Atom]:
    """Returns the known inputs that the linear part reads."""
    inputs = set(parts.known.inputs)
    read: set[Atom] = {x for e in recomputed for x in e.inputs if type(x) is Var and x in inputs}
    read |= set(parts.forwarded_inputs)
    return read - saved
