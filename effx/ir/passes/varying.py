"""Which results of a program vary along a named axis, and `psum_shared`, which depends on that.

The analysis is conservative: a result that may vary counts as varying.
"""

from collections.abc import Sequence

import attrs

from effx.ir.flow import Flow
from effx.ir.ops.collective import AllGather, AxisName, Collective, PMax, PMin, PSum, PSumShared
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Equation, Program, Var, effect_row

Mask = tuple[bool, ...]


def varying(program: Program, inputs: Sequence[bool], axis: AxisName) -> Mask:
    """Says for each output whether it varies along an axis.

    Args:
        program: the program mapped along the axis.
        inputs: for each input whether it varies.
        axis: the axis name of the program's collectives.

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
    return _Varying(axis).walk(program, tuple(inputs))


@attrs.frozen
class _Varying(Flow[bool]):
    """The facts of values are whether they differ between the replicas of an axis."""

    axis: AxisName

    def join(self, a: bool, b: bool) -> bool:
        return a or b

    def decided(self, fact: bool, results: Mask) -> Mask:
        return (True,) * len(results) if fact else results

    def walk(self, program: Program, inputs: Mask) -> Mask:
        differs = dict(zip(program.inputs, inputs, strict=True))
        for e in program.equations:
            given = tuple([type(x) is Var and differs[x] for x in e.inputs])
            differs.update(zip(e.outputs, self.results(e, given), strict=True))
        return tuple([type(x) is Var and differs[x] for x in program.outputs])

    def results(self, e: Equation, given: Mask, inside: dict[Program, Mask] | None = None) -> Mask:
        """Says which results differ, and writes into `inside` which inputs of the programs do that it goes into."""
        op, axis, count = e.op, self.axis, len(e.outputs)
        if isinstance(op, PSumShared) and op.axis_name == axis:
            return (given[0] and given[1],)
        if isinstance(op, Collective) and op.axis_name == axis:
            shared = isinstance(op, PSum | PMax | PMin | AllGather) and op.groups is None
            return (not shared,)
        # Inside a parallel map with the same name, the name means another axis.
        if not isinstance(op, HigherOrder) or (isinstance(op, ParallelMap) and op.axis_name == axis):
            return (any(given),) * count

        def walk(program: Program, inputs: Mask) -> Mask:
            if inside is not None:
                inside[program] = inputs
            return self.walk(program, inputs)

        found = self.through(e, given, walk)
        return (
            (any(given) or any([_names(p, axis) for p in op.programs]),) * count if found is None else found
        )


def _names(program: Program, axis: AxisName) -> bool:
    return any([getattr(effect, "axis", None) == axis for effect in program.effects])


def with_plain_sums(program: Program, inputs: Sequence[bool], axis: AxisName) -> Program:
    """Replaces `psum_shared` along an axis by a sum where its second operand does not vary.

    Args:
        program: the program mapped along the axis.
        inputs: for each input whether it varies.
        axis: the axis name of the program's collectives.

    >>> from effx.ir.text import parse_program
    >>> program = parse_program('''
    ... f(a: f32[], b: f32[]) {
    ...   c: f32[] = psum_shared[axis_name='i'] a b
    ...   return c
    ... }''')
    >>> print(with_plain_sums(program, [True, False], "i"))
    f(a: f32[], b: f32[]) ! AxisEffect(axis='i') {
      c: f32[] = psum[axis_name='i'] a
      return c
    }
    """
    if not _asks(program, axis):
        return program
    flow = _Varying(axis)
    differs = dict(zip(program.inputs, inputs, strict=True))
    renamed: dict[Var, Atom] = {}
    equations: list[Equation] = []

    def read(atom: Atom) -> Atom:
        return renamed.get(atom, atom) if type(atom) is Var else atom

    for e in program.equations:
        given = tuple([type(x) is Var and differs[x] for x in e.inputs])
        inside: dict[Program, Mask] = {}
        differs.update(zip(e.outputs, flow.results(e, given, inside), strict=True))
        op, operands = e.op, tuple(map(read, e.inputs))
        if isinstance(op, PSumShared) and op.axis_name == axis:
            if given[1]:
                renamed[e.outputs[0]] = operands[0]
                continue
            op, operands = PSum(axis), operands[:1]
        elif isinstance(op, HigherOrder):
            op = _with_programs(op, {p: with_plain_sums(p, mask, axis) for p, mask in inside.items()})
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


def _with_programs(op: HigherOrder, others: dict[Program, Program]) -> HigherOrder:
    """Puts other programs in the place of some that an operation holds."""
    changed: dict[str, object] = {}
    for field in attrs.fields(type(op)):  # type: ignore[arg-type]  # operations that hold programs are attrs classes
        value = getattr(op, field.name)
        if isinstance(value, Program):
            changed[field.name] = others.get(value, value)
        elif isinstance(value, tuple):
            changed[field.name] = tuple([others.get(x, x) if isinstance(x, Program) else x for x in value])
    return attrs.evolve(op, **changed)  # type: ignore[misc]  # see above
