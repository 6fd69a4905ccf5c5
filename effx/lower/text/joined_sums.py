"""Find sums over one axis after another that devices can do as one sum over all the axes.

This happens where a function is emitted: an operation of several axes would need a rule in every
handler.
"""

from effx.ir.ops.collective import AxisName, PSum
from effx.ir.program import Program, Var


def find_sum_chains(program: Program) -> dict[Var, tuple[AxisName, ...]]:
    """Finds chains of sums in which only the next sum uses each.

    Returns:
        For the result of each sum of a chain but the last no axis; for that of the last all axes of the chain.

    >>> from effx.ir.text import parse_program
    >>> program = parse_program('''
    ... f(a: f32[]) {
    ...   b: f32[] = psum[axis_name='i'] a
    ...   c: f32[] = psum[axis_name='j'] b
    ...   return c
    ... }''')
    >>> list(find_sum_chains(program).values())
    [(), ('i', 'j')]
    """
    sums = [(e.inputs[0], e.outputs[0], e.op) for e in program.equations if type(e.op) is PSum]
    if len(sums) < 2:
        return {}
    uses: dict[Var, int] = {}
    for x in [*[x for e in program.equations for x in e.inputs], *program.outputs]:
        if type(x) is Var:
            uses[x] = uses.get(x, 0) + 1
    chain_axes: dict[Var, tuple[AxisName, ...]] = {}
    chains: dict[Var, tuple[AxisName, ...]] = {}
    for x, out, op in sums:
        if op.groups is not None:
            continue  # its members are no whole axis
        before = chains.get(x, ()) if type(x) is Var and uses[x] == 1 else ()
        if before and op.axis_name not in before:
            assert type(x) is Var
            chain_axes[x], chain_axes[out] = (), (*before, op.axis_name)
            chains[out] = chain_axes[out]
        else:
            chains[out] = (op.axis_name,)
    return chain_axes
