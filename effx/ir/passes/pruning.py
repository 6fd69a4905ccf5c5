"""Dead code with the programs inside of calls, branches and loops: their results are dropped one by one, and the operands
that only these needed, such as what a loop carries and nobody reads.

`dead_code` keeps or drops an equation whole.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import TypeAlias, cast

import attrs

from effx.effects import must_happen
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.control import Call, Calling, Cond, HigherOrder, Scan, While
from effx.ir.ops.custom import CustomTangent
from effx.ir.ops.parallel import ParallelMap
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.program import Atom, Equation, Program, Var, effect_row

__all__ = ["needed_only", "pruned"]

Bools: TypeAlias = Sequence[bool]
Left: TypeAlias = tuple[Program, tuple[bool, ...]]


def needed_only(program: Program, *, final: bool = True) -> Program:
    """Returns a program with the same inputs and results, without what they do not need.

    Args:
        program: any.
        final: False where it is transformed again. Otherwise functions with rules are plain calls in it where something
            was dropped: nobody asks for the rules any more.
    """
    results, kept = (True,) * len(program.outputs), (True,) * len(program.inputs)
    return pruned(program, results, kept, final=final)[0]


def pruned(program: Program, results: Bools, kept: Bools, *, final: bool = False) -> Left:
    """Returns a program without the results that are not asked for, and what only these needed. Found once.

    Args:
        program: any. results: which of its results are asked for.
        kept: which of its inputs stay in any case.
        final: True where the program is compiled and not transformed again.

    Returns:
        The program, the same one if everything is needed, and which inputs are left.

    >>> from effx.ir.text import parse_program
    >>> small, left = pruned(parse_program(
    ...     "f(a: f32[], b: f32[]) { c: f32[] = sin a\\n d: f32[] = mul b b\\n return c, d }"), [True, False], [False] * 2)
    >>> print(small, left)
    f(a: f32[]) {
      b: f32[] = sin a
      return b
    } (True, False)
    """
    key = ("pruned", tuple(results), tuple(kept), final)
    found = program.derived.get(key)
    if found is None:
        found = program.derived[key] = _pruned(program, results, kept, final)
    return cast("Left", found)


def _pruned(program: Program, results: Bools, kept: Bools, final: bool) -> Left:
    outputs = tuple(compress(program.outputs, results))
    needed: set[Atom] = {x for x in outputs if type(x) is Var}
    equations: list[Equation] = []
    same = len(outputs) == len(program.outputs)
    for e in reversed(program.equations):
        if needed.isdisjoint(e.outputs) and not must_happen(e.op.effects):
            same = False
            continue
        if isinstance(e.op, HigherOrder):
            smaller = _smaller(e, [v in needed for v in e.outputs], final)
            same = same and smaller is e
            e = smaller
        equations.append(e)
        for x in e.inputs:
            if type(x) is Var:
                needed.add(x)
    left = tuple([k or x in needed for x, k in zip(program.inputs, kept, strict=True)])
    if same and all(left):
        return program, left
    equations.reverse()
    inputs = tuple(compress(program.inputs, left))
    return Program(inputs, tuple(equations), outputs, program.name, effect_row(equations)), left


def _smaller(e: Equation, live: list[bool], final: bool) -> Equation:
    """Returns an equation whose operation computes no more than the live results, where it can be taken apart."""
    match e.op:
        case Call() | Checkpoint():
            program, left = pruned(e.op.program, live, [False] * len(e.inputs), final=final)
            return e if program is e.op.program else _with(e, attrs.evolve(e.op, program=program), left, live)
        case Cond():
            return _branches(e, e.op, live, final)
        case Scan():
            return _scan(e, e.op, live, final)
        case While():
            return _while(e, e.op, live, final)
        case ParallelMap():
            return _parallel(e, e.op, live, final)
    return _called(e, live) if final else e


def _with(e: Equation, op: HigherOrder, left: Bools, live: Bools) -> Equation:
    return attrs.evolve(
        e, op=op, inputs=tuple(compress(e.inputs, left)), outputs=tuple(compress(e.outputs, live))
    )


def _branches(e: Equation, op: Cond, live: Bools, final: bool) -> Equation:
    nothing = [False] * (len(e.inputs) - 1)
    needs = [pruned(branch, live, nothing, final=final)[1] for branch in op.branches]
    left = [any(each) for each in zip(*needs, strict=True)]
    branches = tuple([pruned(branch, live, left, final=final)[0] for branch in op.branches])
    if branches == op.branches:
        return e
    return _with(e, attrs.evolve(op, branches=branches), [True, *left], live)


def _scan(e: Equation, op: Scan, live: list[bool], final: bool) -> Equation:
    carry, stacked = live[: op.carries], live[op.carries :]
    before, behind = [False] * op.constants, [False] * (len(e.inputs) - op.constants - op.carries)
    while True:  # what the next carry is made of is live too
        body, left = pruned(op.body, [*carry, *stacked], [*before, *carry, *behind], final=final)
        further = list(left[op.constants : op.constants + op.carries])
        if further == carry:
            break
        carry = further
    if body is op.body:
        return e
    smaller = attrs.evolve(op, body=body, constants=_count(left[: op.constants]), carries=_count(carry))
    return _with(e, smaller, left, [*carry, *stacked])


def _while(e: Equation, op: While, live: list[bool], final: bool) -> Equation:
    n, carry = op.constants, live
    asked = pruned(op.condition, [True], [False] * len(e.inputs), final=final)[1]
    while True:
        kept = [*asked[:n], *[a or c for a, c in zip(asked[n:], carry, strict=True)]]
        body, left = pruned(op.body, kept[n:], kept, final=final)
        further = list(left[n:])
        if further == carry:
            break
        carry = further
    condition = pruned(op.condition, [True], left, final=final)[0]
    if body is op.body and condition is op.condition:
        return e
    smaller = attrs.evolve(op, condition=condition, body=body, constants=_count(left[:n]))
    return _with(e, smaller, left, carry)


def _parallel(e: Equation, op: ParallelMap, live: Bools, final: bool) -> Equation:
    body, left = pruned(op.body, live, [False] * len(e.inputs), final=final)
    if body is op.body:
        return e
    cuts_in, cuts_out = tuple(compress(op.cuts_in, left)), tuple(compress(op.cuts_out, live))
    return _with(e, attrs.evolve(op, body=body, cuts_in=cuts_in, cuts_out=cuts_out), left, live)


def _called(e: Equation, live: Bools) -> Equation:
    """Returns a plain call of what a function with rules or a solver computes, if that is less."""
    op, skipped = e.op, 0
    match op:
        case Calling():
            whole = op.program
        case CustomTangent(program=Program() as whole):
            skipped = op.residuals
        case LinearSolve(solve=whole) | Root(solve=whole):
            pass
        case _:
            return e
    program, left = pruned(whole, live, [False] * len(whole.inputs), final=True)
    return e if program is whole else _with(e, Call(program), [*[False] * skipped, *left], live)


def _count(bools: Iterable[bool]) -> int:
    return sum([1 for b in bools if b])
