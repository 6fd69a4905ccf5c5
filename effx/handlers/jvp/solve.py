"""Forward mode through solutions of equations: the implicit function theorem."""

from collections.abc import Sequence
from typing import cast

from effx.array import Array, Box
from effx.effects import handle
from effx.handlers.jvp.handler import JVP, Dual, Tangent, rule, zeros_like
from effx.ir.ops.control import Call
from effx.ir.ops.elementwise import Neg, Sub
from effx.ir.ops.groups import split_into
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.program import Program

NEG, SUB = Neg(), Sub()


def tangents_from_constants(
    program: Program, constants: Sequence[Array], tangents: Sequence[Tangent], x: Sequence[Array]
) -> list[Tangent]:
    """Returns the tangents of a program's results from the tangents of its constants; its last inputs have none."""
    if all([t is None for t in tangents]):
        return [None] * len(program.outputs)
    with handle(JVP()) as frame:
        results = Call(program, True)(
            *[
                c if t is None else Box(frame, Dual(c, t), c.type)
                for c, t in zip(constants, tangents, strict=True)
            ],
            *x,
        )
    return [cast("Dual", y.payload).tangent if type(y) is Box and y.frame is frame else None for y in results]


@rule(LinearSolve)
def jvp_linear_solve(
    op: LinearSolve, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    # A x = b, so dA x + A dx = db, and A dx = db - dA x.
    (constants, b), (constant_tangents, b_tangents) = op.split_operands(primals), op.split_operands(tangents)
    results = op(*primals)
    x, _ = split_into(results, len(b))
    matvec_tangents = tangents_from_constants(op.matvec, constants, constant_tangents, x)
    sides: list[Tangent] = []
    for db, dax in zip(b_tangents, matvec_tangents, strict=True):
        if dax is None:
            sides.append(db)
        else:
            sides.append(NEG(dax) if db is None else SUB(db, dax))
    if all([side is None for side in sides]):
        return results, (None,) * len(results)
    dense_sides = [zeros_like(y) if side is None else side for y, side in zip(x, sides, strict=True)]
    dx, auxiliary = split_into(op(*constants, *dense_sides), len(b))
    return results, (*dx, *[None] * len(auxiliary))


@rule(Root)
def jvp_root(
    op: Root, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    # f(a, x(a)) = 0, so f_a da + f_x dx = 0, and f_x dx = -f_a da. The guess does not matter.
    constants, guess = op.split_operands(primals)
    results = op(*primals)
    x, auxiliary = split_into(results, len(guess))
    residual_tangents = tangents_from_constants(op.residual, constants, op.split_operands(tangents)[0], x)
    if all([t is None for t in residual_tangents]):
        return results, (None,) * len(results)
    sides = [zeros_like(y) if t is None else NEG(t) for y, t in zip(x, residual_tangents, strict=True)]
    dx, _ = split_into(op.linear(*constants, *x, *sides), len(guess))
    return results, (*dx, *[None] * len(auxiliary))
