"""Splitting rematerialised calls: the linear part computes again what the policy does not save. After jvp the
program is linear in some operands. Let r be the residuals of its linear equations. Saved are the known
operands and those ancestors of r that the policy names; the linear part computes r from these again.
"""

from collections.abc import Sequence

import attrs

from effx.effects import Label
from effx.handlers.linear.control import call, places
from effx.handlers.linear.partial_eval import Parts, Split, counts, split, splitter
from effx.ir.ops.checkpoint import Checkpoint, CheckpointName, Offload, Policy, holds_python
from effx.ir.ops.control import Call
from effx.ir.passes import dead_code, inline
from effx.ir.program import Atom, Equation, Program, Var, effect_row


@splitter(Checkpoint)
def checkpoint(op: Checkpoint, linear_in: tuple[bool, ...], once: bool) -> Parts:
    if once:
        return call(Call(op.program), linear_in, once)
    # Policies ask about operations, so calls are opened.
    half = split(inline(op.program), linear_in, once)
    n = len(half.known.outputs) - half.computed
    known_in = places(linear_in, False)
    saved, recomputed = _choose(half, op.policy)
    needed = _needed(half, recomputed, set(saved))
    operands = [k for k, x in enumerate(half.known.inputs) if x in needed]
    moved = {x: Var(x.type) for x, where in saved.items() if where is not None}
    out = tuple([Equation(w, (x,), (moved[x],)) for x, w in saved.items() if w is not None])
    back = tuple(
        [Equation(attrs.evolve(w, back=True), (moved[x],), (x,)) for x, w in saved.items() if w is not None]
    )
    kept: list[Var] = [moved.get(x, x) for x in saved]
    known = dead_code(
        attrs.evolve(
            half.known,
            equations=(*half.known.equations, *out),
            outputs=(*half.known.outputs[:n], *kept),
            derived={},
        )
    )
    active = half.linear.inputs[len(half.forwarded) + half.computed :]
    equations = (*back, *recomputed, *half.linear.equations)
    linear = Program(
        (*[half.known.inputs[k] for k in operands], *kept, *active),
        equations,
        half.linear.outputs,
        op.program.name,
        effect_row(equations),
    )
    return Parts(
        known=_called(known, op) if counts(known) else None,
        known_operands=known_in,
        computed=len(kept),
        linear=Checkpoint(linear, op.policy, op.prevent_cse) if linear.outputs else None,
        linear_operands=(
            *[known_in[k] for k in operands],
            *[~j for j in range(len(kept))],
            *places(linear_in, True),
        ),
        linear_out=half.linear_out,
    )


def _called(known: Program, op: Checkpoint) -> Call | Checkpoint:
    """Returns what performs the known part: what cannot be compiled may be checkpointed, but not called."""
    return Checkpoint(known, op.policy, op.prevent_cse) if holds_python(known) else Call(known)


def _choose(half: Split, policy: Policy | None) -> tuple[dict[Var, Offload | None], list[Equation]]:
    """Returns the saved values with their memory kinds, and the equations that are run again."""
    n = len(half.known.outputs) - half.computed
    allowed: dict[Var, Offload | None] = {}
    # A derivative reads a result before it got its name; that is the same value.
    names: dict[Atom, Equation] = {}
    unnamed: list[Equation] = []
    if policy is not None:
        for e in half.known.equations:
            answer = policy(e.op, *[x.type for x in e.inputs])
            if answer:
                where = answer if isinstance(answer, Offload) else None
                allowed.update(dict.fromkeys(e.outputs, where))
                if type(e.op) is CheckpointName:
                    names[e.inputs[0]] = e
    # An effect of a user's operation happens once: its result is saved, whatever the policy says.
    for e in half.known.equations:
        if any([type(effect) is Label for effect in e.op.effects]):
            allowed.update(dict.fromkeys(e.outputs))
    wanted: set[Atom] = set(half.known.outputs[n:])
    saved: dict[Var, Offload | None] = {}
    again: list[Equation] = []
    for e in reversed(half.known.equations):
        asked = [v for v in e.outputs if v in wanted]
        for v in asked:
            if v in allowed:
                saved[v] = allowed[v]
            elif v in names:
                (named,) = names[v].outputs
                saved[named] = allowed[named]
                unnamed.append(attrs.evolve(names[v], inputs=(named,), outputs=(v,)))
        if any([v not in allowed and v not in names for v in asked]):
            again.append(e)
            wanted.update([x for x in e.inputs if type(x) is Var])
    order = [v for e in half.known.equations for v in e.outputs if v in saved]
    # If an equation with a saved result were run again, that result would be defined twice.
    there = {*saved, *[v for e in unnamed for v in e.outputs]}
    renamed = [
        attrs.evolve(e, outputs=tuple([Var(v.type) if v in there else v for v in e.outputs]))
        for e in reversed(again)
    ]
    return {v: saved[v] for v in order}, [*unnamed, *renamed]


def _needed(half: Split, recomputed: Sequence[Equation], saved: set[Var]) -> set[Atom]:
    """Returns the known inputs that the linear part reads."""
    inputs = set(half.known.inputs)
    read: set[Atom] = {x for e in recomputed for x in e.inputs if type(x) is Var and x in inputs}
    read |= set(half.linear.inputs[: len(half.forwarded)])
    return read - saved
