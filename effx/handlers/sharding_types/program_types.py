"""Convert the programs that operations hold to the varying and sharding axes in their operands' types.

An operation's results vary along all axes along which one of its branches' or iterations' results do, and have their
sharding. The program's own results must then have that type too: its transpose takes them for what they are.
"""

from collections.abc import Callable, Sequence

import attrs

from effx.effects import Operation
from effx.errors import ShardingError
from effx.handlers.sharding_types.axes_in_types import (
    diverge_along,
    diverging_axes,
    make_tracked_equation,
    sharding_operations,
    tracked_axes,
)
from effx.ir.ops.collective import PCast
from effx.ir.ops.control import Calling, Cond, HigherOrder, Scan, While
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import ArrayType, TypeSharding, Vma

AxisFact = tuple[Vma, TypeSharding | None]
"""The axes in a type: the varying axes, and those that shard each array axis."""
AxisFacts = tuple[AxisFact, ...]


def conform_operation(op: HigherOrder, operand_types: Sequence[ArrayType]) -> HigherOrder:
    """Returns an operation whose programs have the axes of these operand types.

    Args:
        op: the operation; calls, branches and loops are changed, others are returned unchanged.
        operand_types: the operands' types.
    """
    facts = _axis_facts(operand_types)
    if isinstance(op, Calling):
        program = widen_program(op.program, facts)
        return op if program is op.program else attrs.evolve(op, program=program)
    if isinstance(op, Cond):
        return _conform_cond(op, facts)
    if isinstance(op, Scan):
        return _conform_scan(op, facts)
    if isinstance(op, While):
        return _conform_while(op, facts)
    return op


def _axis_facts(types: Sequence[ArrayType]) -> AxisFacts:
    return tuple([(t.vma, t.explicit_sharding) for t in types])


def _boundary_facts(program: Program) -> tuple[AxisFacts, AxisFacts]:
    return _axis_facts(program.in_types), _axis_facts(program.out_types)


def _widen_fact(a: AxisFact, b: AxisFact) -> AxisFact:
    """Returns the union of varying axes, with the second fact's sharding before the first's.

    Raises:
        ShardingError: the first is unreduced along an axis, and the second is not.
    """
    if (
        a[1] is not None
        and a[1].spec.unreduced
        and (b[1] is None or a[1].spec.unreduced != b[1].spec.unreduced)
    ):
        shown = "nothing" if b[1] is None else repr(b[1].spec)
        raise ShardingError(
            f"a program is for a value with {a[1].spec!r}, and gets one with {shown}; change its sharding with effx.reshard"
        )
    return a[0] | b[0], a[1] if b[1] is None else b[1]


def _widen_facts(facts: AxisFacts, others: AxisFacts) -> AxisFacts:
    return tuple([_widen_fact(a, b) for a, b in zip(facts, others, strict=True)])


def _join_facts(problem: str, a: AxisFact, b: AxisFact) -> AxisFact:
    """Returns the union of varying axes, and the sharding of the one that is sharded."""
    if a[1] == b[1] or (None in (a[1], b[1]) and _unreduced_axes(a) == _unreduced_axes(b)):
        return a[0] | b[0], a[1] if b[1] is None else b[1]
    if allow_unresolved.value:
        return a[0] | b[0], b[1] if a[1] is None or (_unreduced_axes(b) and not _unreduced_axes(a)) else a[1]
    shown = ["P()" if sharding is None else repr(sharding.spec) for _, sharding in (a, b)]
    raise ShardingError(f"{problem}: {shown[0]} and {shown[1]} meet; change one of them with effx.reshard")


def _unreduced_axes(fact: AxisFact) -> Vma:
    return frozenset() if fact[1] is None else fact[1].spec.unreduced


def _vary_fact(fact: AxisFact, vma: Vma) -> AxisFact:
    return (fact[0] | vma, fact[1])


def _cache_program(program: Program, key: object, make: Callable[[], Program]) -> Program:
    cached = program.derived.get(key)
    if cached is None:
        cached = program.derived[key] = make()
    assert isinstance(cached, Program)
    return cached


def widen_program(program: Program, input_facts: AxisFacts, result_facts: AxisFacts | None = None) -> Program:
    """Returns a program with more axes in the types of its inputs and results.

    Args:
        program: the program.
        input_facts: the axes to add to the inputs' types.
        result_facts: the axes that the results must have at least; None for those that follow.
    """
    ins, outs = _boundary_facts(program)
    wider_inputs = _widen_facts(ins, input_facts)
    wider_outputs = outs if result_facts is None else _widen_facts(outs, result_facts)
    if wider_inputs == ins and wider_outputs == outs:
        return program
    key = (
        "widened",
        wider_inputs,
        result_facts,
        diverging_axes.value,
        tracked_axes.value,
        allow_unresolved.value,
    )
    return _cache_program(program, key, lambda: _retype_program(program, wider_inputs, result_facts))


def _retype_program(program: Program, input_facts: AxisFacts, result_facts: AxisFacts | None) -> Program:
    """Returns a program retyped for these input axes, with its results cast to the result axes."""
    renamed: dict[Var, Atom] = {}
    inputs = [
        Var(x.type.with_vma(vma | diverging_axes.value).with_sharding(sharding))
        for x, (vma, sharding) in zip(program.inputs, input_facts, strict=True)
    ]
    renamed.update(zip(program.inputs, inputs, strict=True))
    equations: list[Equation] = []

    def read(x: Atom) -> Atom:
        return renamed[x] if type(x) is Var else x

    def append_equation(
        op: Operation[object], operands: tuple[Atom, ...], like: Equation | None
    ) -> tuple[Var, ...]:
        types = [x.type for x in operands]
        if isinstance(op, HigherOrder):
            op = conform_operation(op, types)
        e = make_tracked_equation(op, operands, types, "")
        equations.append(e if like is None else attrs.evolve(e, source=like.source, scope=like.scope))
        return e.outputs

    for e in program.equations:
        renamed.update(zip(e.outputs, append_equation(e.op, tuple(map(read, e.inputs)), e), strict=True))
    outputs = list(map(read, program.outputs))
    for i, (vma, sharding) in enumerate(result_facts or ()):
        for axis in sorted(vma - outputs[i].type.vma, key=repr):
            (outputs[i],) = append_equation(PCast(axis), (outputs[i],), None)
        for op in [] if sharding is None else sharding_operations(outputs[i].type, sharding):
            (outputs[i],) = append_equation(op, (outputs[i],), None)
    return Program(tuple(inputs), tuple(equations), tuple(outputs), program.name, effect_row(equations))


def _conform_cond(op: Cond, operand_facts: AxisFacts) -> HigherOrder:
    index, *rest = operand_facts
    operands = tuple(rest)
    with diverge_along(index[0]):
        branches = [widen_program(b, operands) for b in op.branches]
        results: list[AxisFact] = []
        for outs in zip(*[_boundary_facts(b)[1] for b in branches], strict=True):
            joined_fact: AxisFact = (index[0] | outs[0][0], outs[0][1])
            for fact in outs[1:]:
                joined_fact = _join_facts(
                    "cond: its branches' results have different shardings", joined_fact, fact
                )
            results.append(joined_fact)
        branches = [widen_program(b, operands, tuple(results)) for b in branches]
    return op if tuple(branches) == op.branches else attrs.evolve(op, branches=tuple(branches))


def _row_fact(fact: AxisFact) -> AxisFact:
    """Returns the axes of a slice of a stacked value."""
    vma, sharding = fact
    if sharding is None:
        return fact
    first, *rest = sharding.mesh_axes(max(1, len(sharding.spec)))
    if first and not allow_unresolved.value:
        raise ShardingError(
            f"scan: the scanned axis is sharded over {first[0]!r}; replicate it with effx.reshard"
        )
    return vma, sharding.with_mesh_axes(rest)


def _conform_scan(op: Scan, operand_facts: AxisFacts) -> HigherOrder:
    body, facts = op.body, op.group_operands(operand_facts)
    facts = attrs.evolve(facts, xs=tuple(map(_row_fact, facts.xs)))
    while True:
        body = widen_program(body, facts.join())
        ins, outs = _boundary_facts(body)
        before, results = op.group_operands(ins).carry, op.group_results(outs)
        carry = tuple([_join_facts(_CARRY, a, b) for a, b in zip(before, results.carry, strict=True)])
        if carry == before:
            break
        facts = attrs.evolve(facts, carry=carry)
    body = widen_program(body, facts.join(), (*carry, *results.ys))
    return op if body is op.body else attrs.evolve(op, body=body)


_CARRY = "a loop's initial carry and its body's result have different shardings"


def _conform_while(op: While, operand_facts: AxisFacts) -> HigherOrder:
    condition, body, facts = op.condition, op.body, op.group_operands(operand_facts)
    while True:
        condition = widen_program(condition, facts.join())
        ((decision, _),) = _boundary_facts(condition)[1]
        with diverge_along(decision):
            body = widen_program(body, facts.join())
        ins, outs = _boundary_facts(body)
        before = op.group_operands(ins).carry
        carry = tuple(
            [_vary_fact(_join_facts(_CARRY, a, b), decision) for a, b in zip(before, outs, strict=True)]
        )
        if carry == facts.carry:
            break
        facts = attrs.evolve(facts, carry=carry)
    with diverge_along(decision):
        body = widen_program(body, facts.join(), carry)
    changed = body is not op.body or condition is not op.condition
    return attrs.evolve(op, condition=condition, body=body) if changed else op
