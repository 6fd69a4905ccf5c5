"""Transposes of rematerialised calls: recompute the residuals, then run the backward pass.

A barrier before the recomputation prevents XLA from merging it with the first computation.
"""

from collections.abc import Sequence

from effx.array import Array
from effx.handlers.linear.partial_eval import ProgramParts, split_program
from effx.handlers.recursion.staging import cache_on_program
from effx.handlers.staging.stage import run_program, stage
from effx.handlers.transpose.control import TransposedProgram, expand_cotangents, known_mask
from effx.handlers.transpose.elementwise import sum_to_type
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, backward_pass, rule
from effx.ir.ops.checkpoint import Checkpoint, Identity, Unpinned
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.ops.sharding import Move
from effx.ir.passes.partial_sums import cotangent_type
from effx.ir.program import Atom, Program


@rule(Checkpoint)
def transpose_checkpoint(
    op: Checkpoint, cts: Sequence[Cotangent], operands: tuple[Operand, ...]
) -> list[Cotangent]:
    known_in, present = known_mask(operands), tuple([ct is not None for ct in cts])
    transposed_program = cache_on_program(
        op.program,
        ("transpose again", known_in, present, op.prevent_cse),
        lambda: _stage_transpose(op.program, known_in, present, op.prevent_cse),
    )
    known = [x for x in operands if not isinstance(x, LinearOperand)]
    present_cts = [ct for ct in cts if ct is not None]
    # The transpose is a checkpoint too, so that higher derivatives save as little.
    transposed_call = Checkpoint(transposed_program.staged.program, op.policy, op.prevent_cse)
    return expand_cotangents(
        known_in,
        transposed_program.nonzero,
        transposed_call(*transposed_program.staged.captured, *known, *present_cts),
    )


def _stage_transpose(
    program: Program, known_in: tuple[bool, ...], present: tuple[bool, ...], prevent_cse: bool
) -> TransposedProgram:
    parts = split_program(program, tuple([not k for k in known_in]), False)
    n = len(parts.known.inputs)
    nonzero: tuple[bool, ...] = ()
    order = [i for i, k in enumerate(known_in) if k]

    def body(arrays: list[Array]) -> list[Array]:
        nonlocal nonzero
        if prevent_cse and parts.known.equations:
            arrays = _pin(arrays, find_pinned_inputs(parts))
        known, remaining_cts = arrays[:n], iter(arrays[n:])
        computed = run_program(parts.known, known)
        forwarded = [known[order.index(i)] for i in parts.forwarded]
        cts = [next(remaining_cts) if p else None for p in present]
        in_cts = backward_pass(
            parts.linear,
            [*forwarded, *computed[len(computed) - parts.computed :]],
            [ct for ct, is_linear in zip(cts, parts.linear_out, strict=True) if is_linear],
        )
        nonzero = tuple([ct is not None for ct in in_cts])
        return [ct for ct in in_cts if ct is not None]

    types = [x.type for x in parts.known.inputs]
    types += [cotangent_type(t) for t, p in zip(program.out_types, present, strict=True) if p]
    staged = stage(body, types, f"transpose_{program.name}", "transpose")
    return TransposedProgram(staged, nonzero)


def _pin(arrays: list[Array], is_pinned: list[bool]) -> list[Array]:
    """Puts a barrier before the pinned values that are recomputed from, and the cotangents, which exist only then.

    Args:
        arrays: the known values, then the cotangents. is_pinned: for each known value.
    """
    if not any(is_pinned):
        return arrays
    is_pinned = [*is_pinned, *[True] * (len(arrays) - len(is_pinned))]
    pinned = iter(OptimizationBarrier()(*[x for x, p in zip(arrays, is_pinned, strict=True) if p]))
    return [next(pinned) if p else x for x, p in zip(arrays, is_pinned, strict=True)]


def find_pinned_inputs(parts: ProgramParts) -> list[bool]:
    """Returns for each known input whether it is kept apart from the first computation: all but `Unpinned` ones."""
    read: set[Atom] = set(parts.known.outputs) | set(parts.forwarded_inputs)
    unpinned: set[Atom] = set()
    for e in parts.known.equations:
        (unpinned if type(e.op) is Unpinned else read).update(e.inputs)
    return [x in read or x not in unpinned for x in parts.known.inputs]


@rule(Identity)
def transpose_identity(op: Identity, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    (x,) = operands
    return (sum_to_type(ct, x.type),)


@rule(Move)
def transpose_move(op: Move, ct: Array, operands: tuple[Operand, ...]) -> tuple[Cotangent, ...]:
    return (ct if op.source is None else Move(op.source, op.target)(ct),)
