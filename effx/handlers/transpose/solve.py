"""Transposes of linear solves: x = A^-1 b has the transpose b' = A^-T x'."""

from collections.abc import Sequence

from effx.array import Array
from effx.array.promotion import convert, zeros
from effx.errors import NoRuleError
from effx.handlers.linear.partial_eval import split_program
from effx.handlers.recursion.staging import align_constants, cache_on_program
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.transpose.control import known_mask
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, backward_pass, rule
from effx.ir.ops.solve import LinearSolve
from effx.ir.program import Staged


@rule(LinearSolve)
def transpose_linear_solve(
    op: LinearSolve, cts: Sequence[Cotangent], operands: tuple[Operand, ...]
) -> list[Cotangent]:
    k, n = op.constants, len(operands) - op.constants
    if not all(known_mask(operands[:k])):
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
    constants = [x for x in operands[:k] if not isinstance(x, LinearOperand)]
    types = op.solve.in_types[k:]
    full_cts = [zeros(t.strong()) if ct is None else ct for ct, t in zip(cts[:n], types, strict=True)]
    transposed_solve = LinearSolve(matvec, solve, back_matvec, back_solve, len(captured) + k)
    results: Sequence[Array] = transposed_solve(*captured, *constants, *full_cts)[:n]
    # Known operands come from derivatives with respect to some of b only.
    return [
        *[None] * k,
        *[ct if isinstance(x, LinearOperand) else None for ct, x in zip(results, operands[k:], strict=True)],
    ]


def transpose_matvec(op: LinearSolve) -> Staged:
    """Returns the transposed linear function and the constants that it needs beyond the operation's."""
    if op.transpose_matvec is not None:
        return Staged(op.transpose_matvec, ())
    k, types = op.constants, op.solve.in_types[op.constants :]
    n = len(types)

    def body(arrays: list[Array]) -> list[Array]:
        # What the function computes from the constants alone need not be linear.
        parts = split_program(op.matvec, (False,) * k + (True,) * n, False, (True,) * n)
        residuals = [*[arrays[i] for i in parts.forwarded], *run_program(parts.known, arrays[:k])]
        cts = backward_pass(parts.linear, residuals, arrays[k:])
        return [
            zeros(t.strong()) if ct is None else convert(ct, t.dtype)
            for ct, t in zip(cts, types, strict=True)
        ]

    inputs = (*op.matvec.in_types[:k], *types)
    name = f"transpose_{op.matvec.name}"
    return cache_on_program(op.matvec, ("transpose solve", k), lambda: stage(body, inputs, name, "transpose"))
