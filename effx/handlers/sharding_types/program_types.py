"""Programs that operations hold, brought to types that say what the operation's own operands say of axes.

An operation's results vary along all axes along which one of its branches' or iterations' results do, and are cut as they
are. The program's own results must then have that type too: its transpose takes them for what they are.
"""

from collections.abc import Callable, Sequence

import attrs

from effx.effects import Operation
from effx.errors import ShardingError
from effx.handlers.sharding_types.axes_in_types import apart, diverging, laid_out, tracked, tracked_equation
from effx.ir.ops.collective import PCast
from effx.ir.ops.control import Calling, Cond, HigherOrder, Scan, While
from effx.ir.passes.sharding_propagation import settled
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import ArrayType, TypeSharding, Vma, type_sharding

Fact = tuple[Vma, TypeSharding | None]
"""What a type says of axes: along which the value varies, and which cut it."""
Facts = tuple[Fact, ...]


def conformed(op: HigherOrder, given: Sequence[ArrayType]) -> HigherOrder:
    """Returns an operation whose programs' types are those that operands of these types make them have.

    Args:
        op: the operation; calls, branches and loops are changed, others are returned as they are.
        given: the operands' types.
    """
    facts = _facts(given)
    if isinstance(op, Calling):
        program = widened(op.program, facts)
        return op if program is op.program else attrs.evolve(op, program=program)
    if isinstance(op, Cond):
        return _branches(op, facts)
    if isinstance(op, Scan):
        return _scan(op, facts)
    if isinstance(op, While):
        return _while(op, facts)
    return op


def _facts(types: Sequence[ArrayType]) -> Facts:
    return tuple([(t.vma, t.cut) for t in types])


def _ends(program: Program) -> tuple[Facts, Facts]:
    return _facts(program.in_types), _facts(program.out_types)


def _wider(a: Fact, b: Fact) -> Fact:
    """Returns what holds where either does; the second fact's cut goes before the first's."""
    return a[0] | b[0], a[1] if b[1] is None else b[1]


def _all_wider(facts: Facts, others: Facts) -> Facts:
    return tuple([_wider(a, b) for a, b in zip(facts, others, strict=True)])


def _joined(what: str, a: Fact, b: Fact) -> Fact:
    """Returns what holds where either does: what is not cut may be."""
    if a[1] is None or b[1] is None or a[1] == b[1]:
        return _wider(a, b)
    if settled.value:
        return a[0] | b[0], a[1]
    raise ShardingError(
        f"{what}: {a[1].spec!r} and {b[1].spec!r} meet; lay one out as the other with effx.reshard"
    )


def _along(fact: Fact, vma: Vma) -> Fact:
    return (fact[0] | vma, fact[1])


def _kept(program: Program, key: object, make: Callable[[], Program]) -> Program:
    found = program.derived.get(key)
    if found is None:
        found = program.derived[key] = make()
    assert isinstance(found, Program)
    return found


def widened(program: Program, given: Facts, results: Facts | None = None) -> Program:
    """Returns a program that takes values of which types say more, and whose results' types do.

    Args:
        program: the program.
        given: what types say of the operands: they vary along these axes too, and are cut so where they are.
        results: what they say of the results at least; None for what comes of it.
    """
    ins, outs = _ends(program)
    wider = _all_wider(ins, given)
    wanted = outs if results is None else _all_wider(outs, results)
    if wider == ins and wanted == outs:
        return program
    key = ("widened", wider, results, apart.value, tracked.value, settled.value)
    return _kept(program, key, lambda: _retyped(program, wider, results))


def _retyped(program: Program, given: Facts, results: Facts | None) -> Program:
    """Returns a program with the types that its values have if operands are so; its results are cast to theirs."""
    renamed: dict[Var, Atom] = {}
    inputs = [
        Var(x.type.varying(vma | apart.value).lying(sharding))
        for x, (vma, sharding) in zip(program.inputs, given, strict=True)
    ]
    renamed.update(zip(program.inputs, inputs, strict=True))
    equations: list[Equation] = []

    def read(x: Atom) -> Atom:
        return renamed[x] if type(x) is Var else x

    def write(op: Operation[object], operands: tuple[Atom, ...], like: Equation | None) -> tuple[Var, ...]:
        types = [x.type for x in operands]
        if isinstance(op, HigherOrder):
            op = conformed(op, types)
        e = tracked_equation(op, operands, types, "")
        equations.append(e if like is None else attrs.evolve(e, source=like.source, scope=like.scope))
        return e.outputs

    for e in program.equations:
        renamed.update(zip(e.outputs, write(e.op, tuple(map(read, e.inputs)), e), strict=True))
    outputs = list(map(read, program.outputs))
    for i, (vma, sharding) in enumerate(results or ()):
        for axis in sorted(vma - outputs[i].type.vma, key=repr):
            (outputs[i],) = write(PCast(axis), (outputs[i],), None)
        cut = None if sharding is None else laid_out(outputs[i].type, sharding)
        if cut is not None:
            (outputs[i],) = write(cut, (outputs[i],), None)
    return Program(tuple(inputs), tuple(equations), tuple(outputs), program.name, effect_row(equations))


def _branches(op: Cond, given: Facts) -> HigherOrder:
    index, *rest = given
    operands = tuple(rest)
    with diverging(index[0]):
        branches = [widened(b, operands) for b in op.branches]
        results: list[Fact] = []
        for outs in zip(*[_ends(b)[1] for b in branches], strict=True):
            found: Fact = (index[0], None)
            for fact in outs:
                found = _joined("cond: what its branches give is cut otherwise", found, fact)
            results.append(found)
        branches = [widened(b, operands, tuple(results)) for b in branches]
    return op if tuple(branches) == op.branches else attrs.evolve(op, branches=tuple(branches))


def _row(fact: Fact) -> Fact:
    """Returns what is said of a row of a stack."""
    vma, sharding = fact
    if sharding is None:
        return fact
    first, *rest = sharding.cuts(len(sharding.spec))
    if first and not settled.value:
        raise ShardingError(
            f"scan: the axis that it goes along is cut by {first[0]!r}; lay it out whole with effx.reshard"
        )
    return vma, type_sharding(sharding.mesh, rest)


def _scan(op: Scan, given: Facts) -> HigherOrder:
    c, n = op.constants, op.constants + op.carries
    body = op.body
    given = (*given[:n], *map(_row, given[n:]))
    while True:
        body = widened(body, given)
        ins, outs = _ends(body)
        carry = tuple([_joined(_CARRY, a, b) for a, b in zip(ins[c:n], outs[: op.carries], strict=True)])
        if carry == ins[c:n]:
            break
        given = (*given[:c], *carry, *given[n:])
    body = widened(body, given, (*carry, *outs[op.carries :]))
    return op if body is op.body else attrs.evolve(op, body=body)


_CARRY = "what a loop begins with is cut otherwise than what its body gives"


def _while(op: While, given: Facts) -> HigherOrder:
    c, condition, body = op.constants, op.condition, op.body
    while True:
        condition = widened(condition, given)
        ((decision, _),) = _ends(condition)[1]
        with diverging(decision):
            body = widened(body, given)
        ins, outs = _ends(body)
        carry = tuple([_along(_joined(_CARRY, a, b), decision) for a, b in zip(ins[c:], outs, strict=True)])
        if carry == given[c:]:
            break
        given = (*given[:c], *carry)
    with diverging(decision):
        body = widened(body, given, carry)
    changed = body is not op.body or condition is not op.condition
    return attrs.evolve(op, condition=condition, body=body) if changed else op
