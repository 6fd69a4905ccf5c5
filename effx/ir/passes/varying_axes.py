"""Find the named axes along which a program's results vary, and replace `psum_shared`, which depends on them.

The analysis is conservative: a result that may vary counts as varying.
"""

from collections.abc import Sequence
from typing import cast

import attrs

from effx.ir.flow import Flow
from effx.ir.ops.collective import AllGather, AxisName, Collective, PSum, PSumShared
from effx.ir.ops.control import Call, HigherOrder
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import INVARIANT, Vma

Mask = tuple[bool, ...]
Facts = tuple[Vma, ...]
# The operations whose results may vary along other axes than all operands together.
SPECIAL_VMA_RULES = (HigherOrder, Collective, OptimizationBarrier)


def find_varying_outputs(program: Program, inputs: Sequence[bool], axis: AxisName) -> Mask:
    """Returns for each output whether it varies along an axis.

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
    >>> find_varying_outputs(program, [True], "i")
    (False, True)
    """
    axes = frozenset([axis])
    output_vma = _Varying(axes).walk(program, tuple([axes if v else INVARIANT for v in inputs]))
    return tuple(map(bool, output_vma))


def result_vma(e: Equation, operands: Sequence[Vma], axes: Vma) -> Facts:
    """Returns the axes along which the results of an equation vary.

    Results of gathers count as varying, though they are equal everywhere: their gradient is scattered.

    Args:
        e: the equation.
        operands: the axes along which its operands vary.
        axes: the axes in types.
    """
    operand_vma, op = tuple(operands), e.op
    if type(op) is Call:  # the same few functions recur
        key = ("varying", operand_vma, axes)
        cached = cast("Facts | None", op.program.derived.get(key))
        if cached is None:
            cached = op.program.derived[key] = _Varying(axes, typed=True).result_facts(e, operand_vma)
        return cached
    if isinstance(op, SPECIAL_VMA_RULES):
        return _Varying(axes, typed=True).result_facts(e, operand_vma)
    return (INVARIANT.union(*operand_vma),) * len(e.outputs)


@attrs.frozen
class _Varying(Flow[Vma]):
    """A flow analysis: the fact of a value is the set of axes along which it varies."""

    axes: Vma
    typed: bool = False

    def join(self, a: Vma, b: Vma) -> Vma:
        return a | b

    def decided(self, fact: Vma, results: Facts) -> Facts:
        return tuple([fact | r for r in results]) if fact else results

    def walk(self, program: Program, inputs: Facts) -> Facts:
        differs = dict(zip(program.inputs, inputs, strict=True))
        for e in program.equations:
            operand_vma = tuple([differs[x] if type(x) is Var else INVARIANT for x in e.inputs])
            differs.update(zip(e.outputs, self.result_facts(e, operand_vma), strict=True))
        return tuple([differs[x] if type(x) is Var else INVARIANT for x in program.outputs])

    def result_facts(
        self, e: Equation, operand_vma: Facts, inside: dict[Program, Facts] | None = None
    ) -> Facts:
        """Returns the varying axes of results, and stores those of nested programs' inputs in `inside`."""
        op, count = e.op, len(e.outputs)
        if isinstance(op, Collective) and op.axis_name in self.axes:
            own_axis = frozenset([op.axis_name])
            if isinstance(op, PSumShared):
                y, x = operand_vma
                return (y if own_axis <= x else y - own_axis,)
            equal = op.is_equal or (isinstance(op, AllGather) and op.groups is None and not self.typed)
            all_axes = INVARIANT.union(*operand_vma)
            return (all_axes - own_axis if equal else all_axes | own_axis,)
        if type(op) is OptimizationBarrier:
            return operand_vma
        if not isinstance(op, HigherOrder):
            return (INVARIANT.union(*operand_vma),) * count
        if isinstance(op, ParallelMap) and op.names & self.axes:
            # Inside, the names mean other axes.
            return (INVARIANT.union(*operand_vma),) * count

        def walk(program: Program, inputs: Facts) -> Facts:
            if inside is not None:
                inside[program] = inputs
            return self.walk(program, inputs)

        region_results = self.through(e, operand_vma, walk)
        if region_results is None:
            named = self.axes & {effect.axis for p in op.programs for effect in p.effects}
            region_results = (named.union(*operand_vma),) * count
        return region_results


def _has_axis_effect(program: Program, axis: AxisName) -> bool:
    return any([getattr(effect, "axis", None) == axis for effect in program.effects])


def replace_shared_sums(program: Program, inputs: Sequence[bool], axis: AxisName) -> Program:
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
    >>> print(replace_shared_sums(program, [True, False], "i"))
    f(a: f32[], b: f32[]) ! AxisEffect(axis='i') {
      c: f32[] = psum[axis_name='i'] a
      return c
    }
    """
    axes = frozenset([axis])
    return _replace_in_program(
        program, tuple([axes if v else INVARIANT for v in inputs]), axis, _Varying(axes)
    )


def _replace_in_program(program: Program, inputs: Facts, axis: AxisName, flow: _Varying) -> Program:
    if not _has_shared_sum(program, axis):
        return program
    differs = dict(zip(program.inputs, inputs, strict=True))
    renamed: dict[Var, Atom] = {}
    equations: list[Equation] = []

    def read(atom: Atom) -> Atom:
        return renamed.get(atom, atom) if type(atom) is Var else atom

    for e in program.equations:
        operand_vma = tuple([differs[x] if type(x) is Var else INVARIANT for x in e.inputs])
        inside: dict[Program, Facts] = {}
        differs.update(zip(e.outputs, flow.result_facts(e, operand_vma, inside), strict=True))
        op, operands = e.op, tuple(map(read, e.inputs))
        if isinstance(op, PSumShared) and op.axis_name == axis:
            if operand_vma[1]:
                renamed[e.outputs[0]] = operands[0]
                continue
            op, operands = PSum(axis), operands[:1]
        elif isinstance(op, HigherOrder):
            op = replace_programs(
                op, {p: _replace_in_program(p, mask, axis, flow) for p, mask in inside.items()}
            )
        equations.append(attrs.evolve(e, op=op, inputs=operands))
    return attrs.evolve(
        program,
        equations=tuple(equations),
        outputs=tuple(map(read, program.outputs)),
        effects=effect_row(equations),
        derived={},
    )


def _has_shared_sum(program: Program, axis: AxisName) -> bool:
    return _has_axis_effect(program, axis) and any(
        [
            isinstance(e.op, PSumShared)
            or (isinstance(e.op, HigherOrder) and any([_has_shared_sum(p, axis) for p in e.op.programs]))
            for e in program.equations
        ]
    )


def replace_programs(op: HigherOrder, others: dict[Program, Program]) -> HigherOrder:
    """Replaces programs that an operation holds."""
    changed: dict[str, object] = {}
    for field in attrs.fields(type(op)):  # type: ignore[arg-type]  # operations that hold programs are attrs classes
        value = getattr(op, field.name)
        if isinstance(value, Program):
            changed[field.name] = others.get(value, value)
        elif isinstance(value, tuple):
            changed[field.name] = tuple([others.get(x, x) if isinstance(x, Program) else x for x in value])
    return attrs.evolve(op, **changed)  # type: ignore[misc]  # see above
