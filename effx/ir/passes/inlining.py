"""`inline_calls`: inline the calls in a program.

Only `Call` is inlined: handlers must see the other operations whole.
"""

import attrs

from effx.ir.ops.control import Call
from effx.ir.program import Atom, Equation, Program, Var, effect_row


def inline_calls(program: Program) -> Program:
    """Inlines all calls.

    >>> from effx.ir.text import parse_program
    >>> print(inline_calls(parse_program('''
    ... g(a: f32[]) {
    ...   b: f32[] = sin a
    ...   return b
    ... }
    ... f(a: f32[]) {
    ...   b: f32[] = call[program=@g] a
    ...   return b
    ... }''')))
    f(a: f32[]) {
      b: f32[] = sin a
      return b
    }
    """
    if not any([type(e.op) is Call for e in program.equations]):
        return program
    equations: list[Equation] = []
    env: dict[Var, Atom] = {x: x for x in program.inputs}
    outputs = _append_equations(program, env, equations)
    return attrs.evolve(
        program, equations=tuple(equations), outputs=tuple(outputs), effects=effect_row(equations), derived={}
    )


def _append_equations(program: Program, env: dict[Var, Atom], equations: list[Equation]) -> list[Atom]:
    """Appends a program's equations under an environment; returns its outputs."""

    def read(atom: Atom) -> Atom:
        return env[atom] if type(atom) is Var else atom

    for e in program.equations:
        inputs = tuple(map(read, e.inputs))
        if type(e.op) is Call:
            inner: dict[Var, Atom] = dict(zip(e.op.program.inputs, inputs, strict=True))
            env.update(zip(e.outputs, _append_equations(e.op.program, inner, equations), strict=True))
            continue
        fresh = tuple([Var(v.type) for v in e.outputs])
        env.update(zip(e.outputs, fresh, strict=True))
        equations.append(attrs.evolve(e, inputs=inputs, outputs=fresh))
    return [read(x) for x in program.outputs]
