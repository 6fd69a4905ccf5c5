"""Which results of a program differ between the members of a named axis, and what depends on the answer.

Never: say that a result is the same for all where it might not be.
"""

from collections.abc import Sequence

import attrs

from effx.ir.ops.collective import AllGather, AxisName, Collective, PMax, PMin, PSum, PSumShared
from effx.ir.ops.control import Cond, HigherOrder, Scan, While
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Equation, Program, Var, effect_row

__all__ = ["settled", "varying"]

Mask = tuple[bool, ...]


def varying(program: Program, inputs: Sequence[bool], axis: AxisName) -> Mask:
    """Says for each output whether it differs between the members of an axis.

    Args:
        program: what each member does.
        inputs: for each input whether it differs.
        axis: the name under which the program's collectives refer to the members.

    >>> from effx.ir.text import parse_program
    >>> program = parse_program('''
    ... f(a: f32[]) {
    ...   b: f32[] = psum[axis_name='i'] a
    ...   c: f32[] = mul a b
    ...   return b, c
    ... }''')
    >>> varying(program, [True], "i")
    (False, True)
    """
    differs = dict(zip(program.inputs, inputs, strict=True))
    for e in program.equations:
        given = tuple([type(x) is Var and differs[x] for x in e.inputs])
        differs.update(zip(e.outputs, _results(e, given, axis), strict=True))
    return tuple([type(x) is Var and differs[x] for x in program.outputs])


def _results(e: Equation, given: Mask, axis: AxisName) -> Mask:
    op = e.op
    if isinstance(op, PSumShared) and op.axis_name == axis:
        return (given[0] and given[1],)
    if isinstance(op, Collective) and op.axis_name == axis:
        shared = isinstance(op, PSum | PMax | PMin | AllGather) and op.groups is None
        return (not shared,)
    if isinstance(op, HigherOrder):
        return _of_programs(op, given, axis, len(e.outputs))
    return (any(given),) * len(e.outputs)


def _of_programs(op: HigherOrder, given: Mask, axis: AxisName, count: int) -> Mask:
    if isinstance(op, Cond):
        if given[0]:
            return (True,) * count
        return _either([varying(p, given[1:], axis) for p in op.branches])
    if isinstance(op, While):
        return _loop(op, given, axis)
    if isinstance(op, Scan):
        n, c = op.constants + op.carries, op.constants
        carry = given[c:n]
        while True:  # a carried value that differs once differs from then on
            found = varying(op.body, (*given[:c], *carry, *given[n:]), axis)
            wider = _either([carry, found[: op.carries]])
            if wider == carry:
                return (*carry, *found[op.carries :])
            carry = wider
    if isinstance(op, ParallelMap) and op.axis_name == axis:
        return (any(given),) * count  # the name means another axis inside
    programs = op.programs
    if len(programs) == 1 and len(programs[0].inputs) == len(given) and len(programs[0].outputs) == count:
        return varying(programs[0], given, axis)
    return (any(given) or any([_names(p, axis) for p in programs]),) * count


def _names(program: Program, axis: AxisName) -> bool:
    return any([getattr(effect, "axis", None) == axis for effect in program.effects])


def _loop(op: While, given: Mask, axis: AxisName) -> Mask:
    c = op.constants
    carry = given[c:]
    while True:
        if varying(op.condition, (*given[:c], *carry), axis)[0]:
            return (True,) * len(carry)
        wider = _either([carry, varying(op.body, (*given[:c], *carry), axis)])
        if wider == carry:
            return carry
        carry = wider


def _either(masks: Sequence[Mask]) -> Mask:
    return tuple([any(found) for found in zip(*masks, strict=True)])


def settled(program: Program, inputs: Sequence[bool], axis: AxisName) -> Program:
    """Replaces `psum_shared` along an axis by a sum where its second operand is the same for all members.

    Args:
        program: what each member does.
        inputs: for each input whether it differs between members.
        axis: the name under which the program's collectives refer to the members.

    >>> from effx.ir.text import parse_program
    >>> program = parse_program('''
    ... f(a: f32[], b: f32[]) {
    ...   c: f32[] = psum_shared[axis_name='i'] a b
    ...   return c
    ... }''')
    >>> print(settled(program, [True, False], "i"))
    f(a: f32[], b: f32[]) ! AxisEffect(axis='i') {
      c: f32[] = psum[axis_name='i'] a
      return c
    }
    """
    if not _asks(program, axis):
        return program
    differs = dict(zip(program.inputs, inputs, strict=True))
    renamed: dict[Var, Atom] = {}
    equations: list[Equation] = []

    def read(atom: Atom) -> Atom:
        return renamed.get(atom, atom) if type(atom) is Var else atom

    for e in program.equations:
        given = tuple([type(x) is Var and differs[x] for x in e.inputs])
        differs.update(zip(e.outputs, _results(e, given, axis), strict=True))
        op, operands = e.op, tuple(map(read, e.inputs))
        if isinstance(op, PSumShared) and op.axis_name == axis:
            if given[1]:
                renamed[e.outputs[0]] = operands[0]
                continue
            op, operands = PSum(axis), operands[:1]
        elif isinstance(op, HigherOrder):
            op = _settled_inside(op, given, axis, len(e.outputs))
        equations.append(attrs.evolve(e, op=op, inputs=operands))
    return attrs.evolve(
        program,
        equations=tuple(equations),
        outputs=tuple(map(read, program.outputs)),
        effects=effect_row(equations),
        derived={},
    )


def _asks(program: Program, axis: AxisName) -> bool:
    return _names(program, axis) and any(
        [
            isinstance(e.op, PSumShared)
            or (isinstance(e.op, HigherOrder) and any([_asks(p, axis) for p in e.op.programs]))
            for e in program.equations
        ]
    )


def _settled_inside(op: HigherOrder, given: Mask, axis: AxisName, count: int) -> HigherOrder:
    """Settles the programs that an operation holds."""
    if isinstance(op, Cond):
        return Cond(tuple([settled(p, given[1:], axis) for p in op.branches]))
    after = _of_programs(op, given, axis, count)
    if isinstance(op, While):
        mask = (*given[: op.constants], *after)
        return attrs.evolve(
            op, condition=settled(op.condition, mask, axis), body=settled(op.body, mask, axis)
        )
    if isinstance(op, Scan):
        mask = (*given[: op.constants], *after[: op.carries], *given[op.constants + op.carries :])
        return attrs.evolve(op, body=settled(op.body, mask, axis))
    names = [
        f.name for f in getattr(type(op), "__attrs_attrs__", ()) if isinstance(getattr(op, f.name), Program)
    ]
    if len(names) != 1 or (isinstance(op, ParallelMap) and op.axis_name == axis):
        return op
    inner: Program = getattr(op, names[0])
    return attrs.evolve(op, **{names[0]: settled(inner, given, axis)})  # type: ignore[misc]  # operations that hold programs are attrs classes
