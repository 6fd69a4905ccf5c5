"""Programs that operations hold, brought to types that say along which axes the operation's own values vary.

An operation's results vary along all axes along which one of its branches' or iterations' results do. The program's own
results must then have that type too: its transpose takes them for what they are.
"""

from collections.abc import Callable, Sequence

import attrs

from effx.effects import Operation
from effx.handlers.tracking import apart, diverging, tracked_equation
from effx.ir.ops.collective import PCast
from effx.ir.ops.control import Call, Cond, HigherOrder, Scan, While
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import Vma

Vmas = tuple[Vma, ...]


def conformed(op: HigherOrder, given: Sequence[Vma]) -> HigherOrder:
    """Returns an operation whose programs' types are those that operands which vary so make them have.

    Args:
        op: the operation; calls, branches and loops are changed, others are returned as they are.
        given: along which axes the operands vary.
    """
    facts = tuple(given)
    if isinstance(op, Call):
        program = widened(op.program, facts)
        return op if program is op.program else attrs.evolve(op, program=program)
    if isinstance(op, Cond):
        return _branches(op, facts)
    if isinstance(op, Scan):
        return _scan(op, facts)
    if isinstance(op, While):
        return _while(op, facts)
    return op


def _vmas(program: Program) -> tuple[Vmas, Vmas]:
    return tuple([t.vma for t in program.in_types]), tuple([t.vma for t in program.out_types])


def _kept(program: Program, key: object, make: Callable[[], Program]) -> Program:
    found = program.derived.get(key)
    if found is None:
        found = program.derived[key] = make()
    assert isinstance(found, Program)
    return found


def widened(program: Program, given: Vmas, results: Vmas | None = None) -> Program:
    """Returns a program that takes values which vary along more axes, and whose results do.

    Args:
        program: the program.
        given: along which axes its operands vary.
        results: along which its results vary at least; None for what comes of it.
    """
    ins, outs = _vmas(program)
    wider = tuple([a | b for a, b in zip(ins, given, strict=True)])
    wanted = outs if results is None else tuple([a | b for a, b in zip(outs, results, strict=True)])
    if wider == ins and wanted == outs:
        return program

    return _kept(program, ("widened", wider, results, apart.value), lambda: _retyped(program, wider, results))


def _retyped(program: Program, given: Vmas, results: Vmas | None) -> Program:
    """Returns a program with the types that its values have if operands vary so; its results are cast to theirs."""
    renamed: dict[Var, Atom] = {}
    inputs = [Var(x.type.varying(vma | apart.value)) for x, vma in zip(program.inputs, given, strict=True)]
    renamed.update(zip(program.inputs, inputs, strict=True))
    equations: list[Equation] = []

    def read(x: Atom) -> Atom:
        return renamed[x] if type(x) is Var else x

    def write(op: Operation[object], operands: tuple[Atom, ...], like: Equation | None) -> tuple[Var, ...]:
        types = [x.type for x in operands]
        if isinstance(op, HigherOrder):
            op = conformed(op, [t.vma for t in types])
        e = tracked_equation(op, operands, types, "")
        equations.append(e if like is None else attrs.evolve(e, source=like.source, scope=like.scope))
        return e.outputs

    for e in program.equations:
        renamed.update(zip(e.outputs, write(e.op, tuple(map(read, e.inputs)), e), strict=True))
    outputs = list(map(read, program.outputs))
    for i, vma in enumerate(results or ()):
        for axis in sorted(vma - outputs[i].type.vma, key=repr):
            (outputs[i],) = write(PCast(axis), (outputs[i],), None)
    return Program(tuple(inputs), tuple(equations), tuple(outputs), program.name, effect_row(equations))


def _branches(op: Cond, given: Vmas) -> HigherOrder:
    index, *rest = given
    operands = tuple(rest)
    with diverging(index):
        branches = [widened(b, operands) for b in op.branches]
        results = tuple([index.union(*outs) for outs in zip(*[_vmas(b)[1] for b in branches], strict=True)])
        branches = [widened(b, operands, results) for b in branches]
    return op if tuple(branches) == op.branches else attrs.evolve(op, branches=tuple(branches))


def _scan(op: Scan, given: Vmas) -> HigherOrder:
    c, n = op.constants, op.constants + op.carries
    body = op.body
    while True:
        body = widened(body, given)
        outs = _vmas(body)[1]
        carry = tuple([a | b for a, b in zip(_vmas(body)[0][c:n], outs[: op.carries], strict=True)])
        if carry == _vmas(body)[0][c:n]:
            break
        given = (*given[:c], *carry, *given[n:])
    body = widened(body, given, (*carry, *outs[op.carries :]))
    return op if body is op.body else attrs.evolve(op, body=body)


def _while(op: While, given: Vmas) -> HigherOrder:
    c, condition, body = op.constants, op.condition, op.body
    while True:
        condition = widened(condition, given)
        (decision,) = _vmas(condition)[1]
        with diverging(decision):
            body = widened(body, given)
        ins, outs = _vmas(body)
        carry = tuple([a | b | decision for a, b in zip(ins[c:], outs, strict=True)])
        if carry == given[c:]:
            break
        given = (*given[:c], *carry)
    with diverging(decision):
        body = widened(body, given, carry)
    changed = body is not op.body or condition is not op.condition
    return attrs.evolve(op, condition=condition, body=body) if changed else op
