"""Eliminate dead code, and merge common subexpressions."""

import attrs

from effx.effects import must_happen
from effx.ir.program import Atom, Equation, Literal, Program, Var, effect_row


def eliminate_dead_code(program: Program, *, keeps_effects: bool = True) -> Program:
    """Removes equations whose results are not used, unless each occurrence has an effect that is to be kept.

    >>> from effx.ir.text import parse_program
    >>> print(eliminate_dead_code(parse_program("f(a: f32[]) { b: f32[] = sin a\\n c: f32[] = cos a\\n return c }")))
    f(a: f32[]) {
      b: f32[] = cos a
      return b
    }
    """
    needed = {x for x in program.outputs if type(x) is Var}
    needed_equations: list[Equation] = []
    for e in reversed(program.equations):
        if (keeps_effects and must_happen(e.op.effects)) or any([v in needed for v in e.outputs]):
            needed_equations.append(e)
            needed.update([x for x in e.inputs if type(x) is Var])
    if len(needed_equations) == len(program.equations):
        return program
    return _replace_equations(program, tuple(reversed(needed_equations)), program.outputs)


def eliminate_common_subexpressions(program: Program) -> Program:
    """Replaces an equation by an earlier one with the same operation and operands.

    >>> from effx.ir.text import parse_program
    >>> print(eliminate_common_subexpressions(parse_program(
    ...     "f(a: f32[]) { b: f32[] = sin a\\n c: f32[] = sin a\\n d: f32[] = mul b c\\n return d }")))
    f(a: f32[]) {
      b: f32[] = sin a
      c: f32[] = mul b b
      return c
    }
    """
    renamed: dict[Var, Var] = {}
    outputs_by_key: dict[tuple[object, ...], tuple[Var, ...]] = {}
    unique_equations: list[Equation] = []

    def read(atom: Atom) -> Atom:
        return renamed.get(atom, atom) if type(atom) is Var else atom

    for e in program.equations:
        inputs = tuple(map(read, e.inputs))
        key = (e.op, tuple([(x.type, repr(x.value)) if type(x) is Literal else x for x in inputs]))
        earlier = None if must_happen(e.op.effects) else outputs_by_key.get(key)
        if earlier is not None:
            renamed.update(zip(e.outputs, earlier, strict=True))
            continue
        outputs_by_key[key] = e.outputs
        unique_equations.append(e if inputs == e.inputs else attrs.evolve(e, inputs=inputs))
    return _replace_equations(program, tuple(unique_equations), tuple(map(read, program.outputs)))


def _replace_equations(
    program: Program, equations: tuple[Equation, ...], outputs: tuple[Atom, ...]
) -> Program:
    return attrs.evolve(
        program, equations=equations, outputs=outputs, effects=effect_row(equations), derived={}
    )
