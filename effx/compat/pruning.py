"""Dead code with the programs inside of calls, branches and loops, as `jax.interpreters.partial_eval.dce_jaxpr` removes it.

`effx.ir.passes.dead_code` keeps or drops an equation whole. Here the results of a call or a loop are dropped one by one, and
the operands that only these needed: so it is seen which parameters a result depends on.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import TypeVar

import attrs

from effx.compat.jaxprs import Jaxpr, view, written
from effx.effects import must_happen
from effx.errors import ProgramError
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.control import Call, Cond, Scan
from effx.ir.program import Atom, Equation, Program, Var, effect_row

__all__ = ["dce_jaxpr", "pruned"]

T = TypeVar("T")
Bools = Sequence[bool]


def dce_jaxpr(
    jaxpr: Jaxpr,
    used_outputs: bool | Bools,
    instantiate: bool | Bools = False,
    live_inputs: bool | Bools = True,
) -> tuple[Jaxpr, list[bool]]:
    """Removes what the results that are used do not need.

    Args:
        jaxpr: the program; its constants stay parameters.
        used_outputs: which results are used; one bool for all.
        instantiate: which operands stay though nothing uses them.
        live_inputs: which references' contents are read afterwards. Writes stay in any case, to others too.

    Returns:
        The program with the used results and the operands left, and for each operand whether it is left.

    Raises:
        ProgramError: there are not as many bools as results or operands.

    >>> import effx, effx.numpy as enp
    >>> from effx.compat.modules import make_jaxpr
    >>> two = make_jaxpr(effx.jit(lambda x, y: (enp.sin(x), x * y)))(1.0, 2.0)
    >>> dce_jaxpr(two.jaxpr, [True, False])[1]
    [True, False]
    """
    outputs = _each("used_outputs", used_outputs, len(jaxpr.outvars))
    kept = _each("instantiate", instantiate, len(jaxpr.invars))
    _each("live_inputs", live_inputs, len(jaxpr.invars))
    constants = [True] * len(jaxpr.constvars)
    program, used = pruned(written(jaxpr), outputs, [*constants, *kept])
    return view(program, len(constants), jaxpr.debug_info), used[len(constants) :]


def _each(name: str, given: bool | Bools, number: int) -> list[bool]:
    found = [given] * number if isinstance(given, bool) else list(given)
    if len(found) != number:
        raise ProgramError(f"dce_jaxpr: {name} has {len(found)} entries for {number}")
    return found


def pruned(program: Program, results: Bools, kept: Bools) -> tuple[Program, list[bool]]:
    """Returns a program without the results that are not asked for, and what only these needed.

    Args:
        program: any. results: which of its results are asked for.
        kept: which of its inputs stay in any case.

    Returns:
        The program, and which inputs are left.
    """
    outputs = tuple(compress(program.outputs, results))
    needed: set[Atom] = {x for x in outputs if type(x) is Var}
    equations: list[Equation] = []
    for e in reversed(program.equations):
        live = [v in needed for v in e.outputs]
        if not any(live) and not must_happen(e.op.effects):
            continue
        smaller = _smaller(e, live)
        equations.append(smaller)
        needed.update([x for x in smaller.inputs if type(x) is Var])
    left = [k or x in needed for x, k in zip(program.inputs, kept, strict=True)]
    equations.reverse()
    inputs = tuple(compress(program.inputs, left))
    found = Program(inputs, tuple(equations), outputs, program.name, effect_row(equations))
    return found, left


def _smaller(e: Equation, live: list[bool]) -> Equation:
    """Returns an equation whose operation computes no more than the live results, where it can be taken apart."""
    match e.op:
        case Call() | Checkpoint():
            program, left = pruned(e.op.program, live, [False] * len(e.inputs))
            return _with(e, attrs.evolve(e.op, program=program), left, live)
        case Cond():
            return _branches(e, e.op, live)
        case Scan():
            return _loop(e, e.op, live)
    return e


def _with(e: Equation, op: Call | Checkpoint | Cond | Scan, left: Bools, live: Bools) -> Equation:
    if all(left) and all(live):
        return e  # what is compiled for it stays valid
    inputs, outputs = tuple(compress(e.inputs, left)), tuple(compress(e.outputs, live))
    return attrs.evolve(e, op=op, inputs=inputs, outputs=outputs)


def _branches(e: Equation, op: Cond, live: Bools) -> Equation:
    nothing = [False] * (len(e.inputs) - 1)
    needs = [pruned(branch, live, nothing)[1] for branch in op.branches]
    left = [any(each) for each in zip(*needs, strict=True)]
    branches = tuple([pruned(branch, live, left)[0] for branch in op.branches])
    return _with(e, attrs.evolve(op, branches=branches), [True, *left], live)


def _loop(e: Equation, op: Scan, live: list[bool]) -> Equation:
    carry, stacked = live[: op.carries], live[op.carries :]
    before, behind = [False] * op.constants, [False] * (len(e.inputs) - op.constants - op.carries)
    while True:  # what the next carry is made of is live too
        body, left = pruned(op.body, [*carry, *stacked], [*before, *carry, *behind])
        further = left[op.constants : op.constants + op.carries]
        if further == carry:
            break
        carry = further
    smaller = attrs.evolve(op, body=body, constants=_count(left[: op.constants]), carries=_count(carry))
    return _with(e, smaller, left, [*carry, *stacked])


def _count(bools: Iterable[bool]) -> int:
    return sum([1 for b in bools if b])
