"""Which results of a program differ between the members of a named axis.

Never: say that a result is the same for all where it might not be.
"""

from collections.abc import Sequence

from effx.ir.ops.collective import AllGather, AxisName, Collective, PMax, PMin, PSum
from effx.ir.ops.control import Cond, HigherOrder, Scan, While
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Equation, Program, Var

__all__ = ["varying"]

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
