"""Eliminate dead code inside calls, branches and loops: drop their unused results one by one, and the operands
that only these need, such as an unused part of a loop's carry.

`eliminate_dead_code` keeps or drops an equation as a whole.

XLA leaves in a loop what only the loop itself reads, once two such values need each other. The gradient of a
diffrax solve, whose equations for counters and for interpolation nobody differentiates, went by this from 281
fused kernels to 200, the number that JAX's has.
"""

from collections.abc import Sequence
from itertools import compress
from typing import TypeAlias, cast

import attrs

from effx.effects import must_happen
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.control import Call, Calling, Cond, HigherOrder, Scan, While
from effx.ir.ops.custom import CustomCall, CustomTangent
from effx.ir.ops.parallel import ParallelMap
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.program import Atom, Equation, Program, Var, effect_row

__all__ = ["drop_unneeded", "prune_equation", "prune_program"]

Bools: TypeAlias = Sequence[bool]
PrunedProgram: TypeAlias = tuple[Program, tuple[bool, ...]]


def drop_unneeded(program: Program, *, final: bool = True) -> Program:
    """Returns a program with the same inputs and results, without unneeded operations.

    Args:
        program: the program.
        final: False if it is transformed again. Otherwise functions with rules become plain calls where something
            was dropped: their rules are no longer needed.
    """
    results, kept_inputs = (True,) * len(program.outputs), (True,) * len(program.inputs)
    return prune_program(program, results, kept_inputs, final=final)[0]


def prune_program(
    program: Program, results: Bools, kept_inputs: Bools, *, final: bool = False
) -> PrunedProgram:
    """Returns a program with the selected results only, without operations that these do not need. Cached.

    Args:
        program: the program. results: for each result whether it is wanted.
        kept_inputs: for each input whether it stays in any case.
        final: True if the program is compiled and not transformed again.

    Returns:
        The program, the same one if everything is needed, and for each input whether it remains.

    >>> from effx.ir.text import parse_program
    >>> small, left = prune_program(parse_program(
    ...     "f(a: f32[], b: f32[]) { c: f32[] = sin a\\n d: f32[] = mul b b\\n return c, d }"), [True, False], [False] * 2)
    >>> print(small, left)
    f(a: f32[]) {
      b: f32[] = sin a
      return b
    } (True, False)
    """
    key = ("pruned", tuple(results), tuple(kept_inputs), final)
    cached = program.derived.get(key)
    if cached is None:
        cached = program.derived[key] = _prune_uncached(program, results, kept_inputs, final)
    return cast("PrunedProgram", cached)


def _prune_uncached(program: Program, results: Bools, kept_inputs: Bools, final: bool) -> PrunedProgram:
    outputs = tuple(compress(program.outputs, results))
    needed: set[Atom] = {x for x in outputs if type(x) is Var}
    equations: list[Equation] = []
    is_unchanged = len(outputs) == len(program.outputs)
    for e in reversed(program.equations):
        if needed.isdisjoint(e.outputs) and not must_happen(e.op.effects):
            is_unchanged = False
            continue
        if isinstance(e.op, HigherOrder):
            smaller = prune_equation(e, [v in needed for v in e.outputs], final)
            is_unchanged = is_unchanged and smaller is e
            e = smaller
        equations.append(e)
        for x in e.inputs:
            if type(x) is Var:
                needed.add(x)
    used_inputs = tuple([k or x in needed for x, k in zip(program.inputs, kept_inputs, strict=True)])
    if is_unchanged and all(used_inputs):
        return program, used_inputs
    equations.reverse()
    inputs = tuple(compress(program.inputs, used_inputs))
    return Program(inputs, tuple(equations), outputs, program.name, effect_row(equations)), used_inputs


def prune_equation(e: Equation, live: list[bool], final: bool = False) -> Equation:
    """Returns an equation that computes only the live results, if its operation can be pruned."""
    match e.op:
        case Call() | Checkpoint():
            program, left = prune_program(e.op.program, live, [False] * len(e.inputs), final=final)
            return (
                e
                if program is e.op.program
                else _replace_operation(e, attrs.evolve(e.op, program=program), left, live)
            )
        case CustomCall() if not final and e.op.rules.function is None and not all(live):
            # The rules take all operands.
            program, _ = prune_program(e.op.program, live, [True] * len(e.inputs))
            rules = e.op.rules.select_results(live[e.op.record :])
            op = attrs.evolve(e.op, program=program, rules=rules, record=sum(live[: e.op.record]))
            return _replace_operation(e, op, [True] * len(e.inputs), live)
        case Cond():
            return _prune_cond(e, e.op, live, final)
        case Scan():
            return _prune_scan(e, e.op, live, final)
        case While():
            return _prune_while(e, e.op, live, final)
        case ParallelMap():
            return _prune_parallel_map(e, e.op, live, final)
    return _prune_to_call(e, live) if final else e


def _replace_operation(e: Equation, op: HigherOrder, left: Bools, live: Bools) -> Equation:
    return attrs.evolve(
        e, op=op, inputs=tuple(compress(e.inputs, left)), outputs=tuple(compress(e.outputs, live))
    )


def _prune_cond(e: Equation, op: Cond, live: Bools, final: bool) -> Equation:
    nothing = [False] * (len(e.inputs) - 1)
    needs = [prune_program(branch, live, nothing, final=final)[1] for branch in op.branches]
    left = [any(each) for each in zip(*needs, strict=True)]
    branches = tuple([prune_program(branch, live, left, final=final)[0] for branch in op.branches])
    if branches == op.branches:
        return e
    return _replace_operation(e, attrs.evolve(op, branches=branches), [True, *left], live)


def _prune_scan(e: Equation, op: Scan, live: list[bool], final: bool) -> Equation:
    results, kept_inputs = op.group_results(live), op.group_operands([False] * len(e.inputs))
    while True:  # values that the next carry depends on are live too
        kept_inputs = attrs.evolve(kept_inputs, carry=results.carry)
        body, used = prune_program(op.body, results.join(), kept_inputs.join(), final=final)
        left = op.group_operands(used)
        if left.carry == results.carry:
            break
        results = attrs.evolve(results, carry=left.carry)
    if body is op.body:
        return e
    return _replace_operation(e, op.with_body(body, left.select(left)), used, results.join())


def _prune_while(e: Equation, op: While, live: list[bool], final: bool) -> Equation:
    carry = tuple(live)
    tested = op.group_operands(prune_program(op.condition, [True], [False] * len(e.inputs), final=final)[1])
    while True:
        kept_inputs = attrs.evolve(
            tested, carry=tuple([a or b for a, b in zip(tested.carry, carry, strict=True)])
        )
        body, used = prune_program(op.body, kept_inputs.carry, kept_inputs.join(), final=final)
        left = op.group_operands(used)
        if left.carry == carry:
            break
        carry = left.carry
    condition = prune_program(op.condition, [True], used, final=final)[0]
    if body is op.body and condition is op.condition:
        return e
    smaller = attrs.evolve(op, condition=condition, body=body, constants=sum(left.constants))
    return _replace_operation(e, smaller, used, carry)


def _prune_parallel_map(e: Equation, op: ParallelMap, live: Bools, final: bool) -> Equation:
    body, left = prune_program(op.body, live, [False] * len(e.inputs), final=final)
    if body is op.body:
        return e
    cuts_in, cuts_out = tuple(compress(op.cuts_in, left)), tuple(compress(op.cuts_out, live))
    return _replace_operation(e, attrs.evolve(op, body=body, cuts_in=cuts_in, cuts_out=cuts_out), left, live)


def _prune_to_call(e: Equation, live: Bools) -> Equation:
    """Returns a plain call of the program of a function with rules or a solver, if that computes less."""
    op, skipped = e.op, 0
    match op:
        case Calling():
            body = op.program
        case CustomTangent(program=Program() as body):
            skipped = op.residuals
        case LinearSolve(solve=body) | Root(solve=body):
            pass
        case _:
            return e
    program, left = prune_program(body, live, [False] * len(body.inputs), final=True)
    return e if program is body else _replace_operation(e, Call(program), [*[False] * skipped, *left], live)
