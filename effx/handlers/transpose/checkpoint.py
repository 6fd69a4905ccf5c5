"""Transposes of rematerialised calls: compute the residuals again, then walk backwards.

A barrier before the computation keeps XLA from seeing that it has all that already.
"""

from collections.abc import Sequence

from effx.array import Array
from effx.handlers.linear.partial_eval import split
from effx.handlers.recursion.staging import cached
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.transpose.control import Transposed, in_places, known_of
from effx.handlers.transpose.elementwise import unspread
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, backward, rule
from effx.ir.ops.checkpoint import Checkpoint, Identity
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.program import Program


@rule(Checkpoint)
def checkpoint(op: Checkpoint, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    known_in, present = known_of(operands), tuple([ct is not None for ct in cts])
    found = cached(
        op.program,
        ("transpose again", known_in, present, op.prevent_cse),
        lambda: _transposed(op.program, known_in, present, op.prevent_cse),
    )
    known = [x for x in operands if not isinstance(x, LinearOperand)]
    given = [ct for ct in cts if ct is not None]
    # A checkpoint again, so that derivatives of the derivative save as little.
    back = Checkpoint(found.staged.program, op.policy, op.prevent_cse)
    return in_places(known_in, found.nonzero, back(*found.staged.captured, *known, *given))


def _transposed(
    program: Program, known_in: tuple[bool, ...], present: tuple[bool, ...], prevent_cse: bool
) -> Transposed:
    half = split(program, tuple([not k for k in known_in]), False)
    n = len(half.known.inputs)
    nonzero: tuple[bool, ...] = ()
    order = [i for i, k in enumerate(known_in) if k]

    def body(arrays: list[Array]) -> list[Array]:
        nonlocal nonzero
        if prevent_cse and half.known.equations:
            arrays = list(OptimizationBarrier()(*arrays))
        known, given = arrays[:n], iter(arrays[n:])
        computed = run_program(half.known, known)
        forwarded = [known[order.index(i)] for i in half.forwarded]
        cts = [next(given) if p else None for p in present]
        found = backward(
            half.linear,
            [*forwarded, *computed[len(computed) - half.computed :]],
            [ct for ct, is_linear in zip(cts, half.linear_out, strict=True) if is_linear],
        )
        nonzero = tuple([ct is not None for ct in found])
        return [ct for ct in found if ct is not None]

    types = [x.type for x in half.known.inputs]
    types += [t for t, p in zip(program.out_types, present, strict=True) if p]
    staged = stage(body, types, f"transpose_{program.name}", "transpose")
    return Transposed(staged, nonzero)


@rule(Identity)
def identity(op: Identity, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    (x,) = operands
    return (unspread(ct, x.type),)
