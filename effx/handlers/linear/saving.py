"""Let policies of checkpoints reach into calls, branches, loops and parallel maps: an operation that holds programs
becomes one that also returns the values to save, and one that takes these and computes only what is left.
"""

from collections.abc import Sequence
from typing import cast, final

import attrs

from effx.effects import Label
from effx.handlers.linear.control import add_slots, match_slots
from effx.ir.ops.base import TupleOperation
from effx.ir.ops.checkpoint import CheckpointName, Offload, Policy, ask_policy
from effx.ir.ops.control import Call, Cond, HigherOrder, Scan
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import ArrayType


@final
@attrs.frozen(eq=False)
class SavedProgram:
    """A program whose policy saves some of its values.

    Attributes:
        saving: returns the program's results, then the saved values that are none of them.
        recomputing: takes the program's inputs, then all saved values; returns the program's results.
        saved: for each saved value its index among the results of `saving`.
        is_complete: whether all that the program computes is saved.
    """

    saving: Program
    recomputing: Program
    saved: tuple[int, ...]
    is_complete: bool


@final
@attrs.frozen(eq=False)
class SavedOperation:
    """An operation that holds programs whose policy saves some of their values; attributes as of `SavedProgram`."""

    saving: HigherOrder
    recomputing: HigherOrder
    saved: tuple[int, ...]
    is_complete: bool


@final
@attrs.frozen(eq=False)
class SavedEquation:
    """An equation of an operation that holds programs, whose policy saves some of their values.

    Attributes:
        saving: has the equation's results, then saved values. recomputing: has the equation's results.
        saved: the saved values.
        is_complete: whether all that the operation computes is saved.
    """

    saving: Equation
    recomputing: Equation
    saved: tuple[Var, ...]
    is_complete: bool


def expose_saved_values(e: Equation, policy: Policy) -> SavedEquation | None:
    """Returns what becomes of an equation if values inside of its operation are saved; None if none is."""
    if not isinstance(e.op, HigherOrder) or any([type(effect) is Label for effect in e.op.effects]):
        return None
    parts = _expose_operation(e.op, policy)
    if parts is None:
        return None
    types = cast("TupleOperation", parts.saving).infer(*[x.type for x in e.inputs])
    outputs = (*e.outputs, *[Var(t) for t in types[len(e.outputs) :]])
    saved = tuple([outputs[i] for i in parts.saved])
    return SavedEquation(
        attrs.evolve(e, op=parts.saving, outputs=outputs),
        attrs.evolve(e, op=parts.recomputing, inputs=(*e.inputs, *saved)),
        saved,
        parts.is_complete,
    )


def _expose_operation(op: HigherOrder, policy: Policy) -> SavedOperation | None:
    match op:
        case Call(program=program):
            inner = expose_program(program, policy, 0)
            if inner is None:
                return None
            saving = attrs.evolve(op, program=inner.saving)
            recomputing = attrs.evolve(op, program=inner.recomputing)
            return SavedOperation(saving, recomputing, inner.saved, inner.is_complete)
        case Scan(body=body):
            inner = expose_program(body, policy, op.carries)
            if inner is None:
                return None
            return SavedOperation(
                attrs.evolve(op, body=inner.saving),
                attrs.evolve(op, body=inner.recomputing),
                inner.saved,
                inner.is_complete,
            )
        case ParallelMap():
            return _expose_parallel_map(op, policy)
        case Cond():
            return _expose_cond(op, policy)
    return None


def _expose_parallel_map(op: ParallelMap, policy: Policy) -> SavedOperation | None:
    inner = expose_program(op.body, policy, len(op.body.outputs))
    if inner is None:
        return None
    all_axes = tuple(range(len(op.axes)))
    cuts = tuple(
        [
            tuple([a for a in all_axes if op.axes[a][0] in t.vma]) if op.checked else all_axes
            for t in inner.saving.out_types[len(op.body.outputs) :]
        ]
    )
    return SavedOperation(
        attrs.evolve(op, body=inner.saving, cuts_out=(*op.cuts_out, *cuts)),
        attrs.evolve(op, body=inner.recomputing, cuts_in=(*op.cuts_in, *cuts)),
        inner.saved,
        inner.is_complete,
    )


def _expose_cond(op: Cond, policy: Policy) -> SavedOperation | None:
    n = len(op.branches[0].outputs)
    inner = [expose_program(branch, policy, n) for branch in op.branches]
    if all([b is None for b in inner]):
        return None
    # Only one branch is taken, so the saved values of all branches use common slots, matched by type.
    branches = [
        SavedProgram(p, p, (), not p.equations) if b is None else b
        for b, p in zip(inner, op.branches, strict=True)
    ]
    slots, slots_by_branch = match_slots([b.saving.out_types[n:] for b in branches])
    saving = [add_slots(b.saving, n, s, slots) for b, s in zip(branches, slots_by_branch, strict=True)]
    recomputing = [
        _take_slots(b.recomputing, len(op.branches[0].inputs), s, slots)
        for b, s in zip(branches, slots_by_branch, strict=True)
    ]
    return SavedOperation(
        attrs.evolve(op, branches=tuple(saving)),
        attrs.evolve(op, branches=tuple(recomputing)),
        tuple(range(n, n + len(slots))),
        all([b.is_complete for b in branches]),
    )


def _take_slots(program: Program, n: int, branch_slots: Sequence[int], slots: Sequence[ArrayType]) -> Program:
    """Returns a program that takes all slots behind its first n inputs, instead of its own ones."""
    own = dict(zip(branch_slots, program.inputs[n:], strict=True))
    inputs = tuple([own[j] if j in own else Var(t) for j, t in enumerate(slots)])
    return attrs.evolve(program, inputs=(*program.inputs[:n], *inputs), derived={})


def expose_program(program: Program, policy: Policy, first: int) -> SavedProgram | None:
    """Returns what becomes of a program if its policy saves values; None if it saves none. Cached.

    Args:
        program: the program. policy: the checkpoint's.
        first: the first of its results that may themselves serve as saved values.
    """
    key = ("saved values", policy, first)
    if key not in program.derived:
        program.derived[key] = _expose_program_uncached(program, policy, first)
    return cast("SavedProgram | None", program.derived[key])


def _expose_program_uncached(program: Program, policy: Policy, first: int) -> SavedProgram | None:
    saving: list[Equation] = []
    reloading: list[Equation] = []
    recomputing: list[Equation] = []
    saved: dict[Var, Var] = {}  # what `saving` returns: what `recomputing` takes
    unnamed: dict[Var, Equation] = {}
    is_complete = True
    for e in program.equations:
        inner = expose_saved_values(e, policy)
        if inner is not None:
            saving.append(inner.saving)
            recomputing.append(inner.recomputing)
            saved.update({v: v for v in inner.saved})
            is_complete = is_complete and inner.is_complete
            continue
        saving.append(e)
        answer = ask_policy[-1](policy, e.op, [x.type for x in e.inputs])
        if not answer:
            recomputing.append(e)
            is_complete = False
            continue
        if isinstance(answer, Offload):
            is_complete = False
            for v in e.outputs:
                stored, loaded = Var(v.type), Var(v.type)
                saving.append(Equation(answer, (v,), (stored,)))
                reloading.append(Equation(attrs.evolve(answer, back=True), (loaded,), (v,)))
                saved[stored] = loaded
        else:
            saved.update({v: v for v in e.outputs})
        if type(e.op) is CheckpointName:
            # A derivative may read a value before it is named; that is the same value.
            (value,) = e.inputs
            if type(value) is Var:
                unnamed[value] = attrs.evolve(e, inputs=e.outputs, outputs=(value,))
    if not saved:
        return None
    defined: set[Atom] = {*program.inputs, *saved.values(), *[v for e in reloading for v in e.outputs]}
    renaming = [e for x, e in unnamed.items() if x not in defined]
    defined.update([v for e in renaming for v in e.outputs])
    renamed = [
        attrs.evolve(e, outputs=tuple([Var(v.type) if v in defined else v for v in e.outputs]))
        for e in recomputing
    ]
    equations = (*reloading, *renaming, *renamed)
    extra = [v for v in saved if v not in program.outputs[first:]]
    results: tuple[Atom, ...] = (*program.outputs, *extra)
    return SavedProgram(
        Program(program.inputs, tuple(saving), results, program.name, effect_row(saving)),
        Program(
            (*program.inputs, *saved.values()),
            equations,
            program.outputs,
            program.name,
            effect_row(equations),
        ),
        tuple([_last_index(results, v) for v in saved]),
        is_complete,
    )


def _last_index(results: Sequence[Atom], v: Var) -> int:
    return max([i for i, x in enumerate(results) if x is v])
