"""Transposes of linear solves: x = A^-1 b has the transpose b' = A^-T x'."""

from collections.abc import Sequence
from typing import cast

from effx.array import Array
from effx.array.promotion import convert, zeros
from effx.errors import NoRuleError
from effx.handlers.linear.partial_eval import split_program
from effx.handlers.recursion.staging import align_constants, cache_on_program
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.transpose.control import known_mask
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, backward_pass, rule
from effx.ir.ops.groups import split_into
from effx.ir.ops.solve import LinearSolve
from effx.ir.program import Staged


@rule(LinearSolve)
def transpose_linear_solve(
    op: LinearSolve, cts: Sequence[Cotangent], operands: tuple[Operand, ...]
) -> list[Cotangent]:
    constants, sides = op.split_operands(operands)
    if not all(known_mask(constants)):
        raise NoRuleError("transpose: linear_solve is not linear in what the matrix is made of")
    if op.transpose_solve is None:
        raise NoRuleError(
            "transpose: linear_solve: nothing solves the transposed system; give custom_linear_solve transpose_solve "
            "or symmetric=True, and custom_root a function whose derivative can be transposed"
        )
    transposed_matvec = transpose_matvec(op)
    (matvec, solve, back_matvec, back_solve), captured = align_constants(
        [
            transposed_matvec,
            Staged(op.transpose_solve, ()),
            Staged(op.matvec, ()),
            Staged(op.solve, ()),
        ]
    )
    x_cts, _ = split_into(cts, len(sides))
    full_cts = [
        zeros(t.strong()) if ct is None else ct for ct, t in zip(x_cts, op.unknown_types, strict=True)
    ]
    transposed_solve = LinearSolve(matvec, solve, back_matvec, back_solve, len(captured) + len(constants))
    known = cast("Sequence[Array]", constants)
    results, _ = split_into(transposed_solve(*captured, *known, *full_cts), len(sides))
    # Known operands come from derivatives with respect to some of b only.
    side_cts = [ct if isinstance(x, LinearOperand) else None for ct, x in zip(results, sides, strict=True)]
    return [*[None] * len(constants), *side_cts]


def transpose_matvec(op: LinearSolve) -> Staged:
    """Returns the transposed linear function and the constants that it needs beyond the operation's."""
    if op.transpose_matvec is not None:
        return Staged(op.transpose_matvec, ())
    k, types = op.constants, op.unknown_types
    n = len(types)

    def body(arrays: list[Array]) -> list[Array]:
        # What the function computes from the constants alone need not be linear.
        parts = split_program(op.matvec, (False,) * k + (True,) * n, False, (True,) * n)
        constants, x_cts = op.split_operands(arrays)
        residuals = parts.select_residuals(constants, run_program(parts.known, constants))
        cts = backward_pass(parts.linear, residuals, x_cts)
        return [
            zeros(t.strong()) if ct is None else convert(ct, t.dtype)
            for ct, t in zip(cts, types, strict=True)
        ]

    inputs = (*op.split_operands(op.matvec.in_types)[0], *types)
    name = f"transpose_{op.matvec.name}"
    return cache_on_program(op.matvec, ("transpose solve", k), lambda: stage(body, inputs, name, "transpose"))
