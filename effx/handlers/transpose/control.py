"""Transposes of calls, branches and loops.

A scan y_i, c_i+1 = body(c_i, x_i), linear in c and x, is transposed by a scan in the other direction that
carries the cotangent of c, sums those of the constants, and stacks those of x.
"""

from collections.abc import Callable, Sequence
from typing import cast, final

import attrs

from effx.array import Array
from effx.array.promotion import convert
from effx.errors import NoRuleError
from effx.handlers.linear.control import find_linear_carry
from effx.handlers.linear.partial_eval import split_operation
from effx.handlers.recursion.staging import align_constants, cache_on_program
from effx.handlers.sharding_types.axes_in_types import diverge_along, diverging_axes, zeros_of_type
from effx.handlers.staging.stage import stage
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, backward_pass, rule
from effx.ir.ops.control import Call, Cond, HigherOrder, Scan, While
from effx.ir.passes.partial_sums import cotangent_type
from effx.ir.program import Program, Staged
from effx.ir.types import ArrayType


@final
@attrs.frozen(eq=False)
class TransposedProgram:
    """A transposed program: constants, then known operands, then the cotangents that are not zero.

    Attributes:
        staged: the program and its constants.
        nonzero: for each linear input whether it has a cotangent; the program returns these.
    """

    staged: Staged
    nonzero: tuple[bool, ...]


def stage_transpose(
    program: Program,
    known_in: tuple[bool, ...],
    present: tuple[bool, ...],
    forced_nonzero: tuple[bool, ...] | None = None,
    types: tuple[ArrayType, ...] | None = None,
) -> TransposedProgram:
    """Stages the transpose of a program; cached on the program.

    Args:
        program: linear in the inputs that are not known.
        known_in: for each input whether it is known.
        present: for each output whether its cotangent is given; the others are zero.
        forced_nonzero: for each linear input whether the cotangent must be there, as zeros if need be; None for those
            that are not zero.
        types: the types of the given cotangents; None for those of the outputs, which may differ in weak type.
    """
    if types is None:
        types = tuple([cotangent_type(t) for t, p in zip(program.out_types, present, strict=True) if p])
    key = ("transpose", known_in, present, forced_nonzero, types, diverging_axes.value)
    return cache_on_program(
        program, key, lambda: _stage_transpose_uncached(program, known_in, present, forced_nonzero, types)
    )


def _stage_transpose_uncached(
    program: Program,
    known_in: tuple[bool, ...],
    present: tuple[bool, ...],
    forced_nonzero: tuple[bool, ...] | None,
    ct_types: tuple[ArrayType, ...],
) -> TransposedProgram:
    known_inputs = [x for x, known in zip(program.inputs, known_in, strict=True) if known]
    linear_inputs = [x for x, known in zip(program.inputs, known_in, strict=True) if not known]
    # backward expects the residuals first.
    ordered = attrs.evolve(program, inputs=(*known_inputs, *linear_inputs), derived={})
    n = len(known_inputs)
    nonzero: tuple[bool, ...] = ()

    def body(arrays: list[Array]) -> list[Array]:
        nonlocal nonzero
        remaining_cts = iter(arrays[n:])
        cts = backward_pass(ordered, arrays[:n], [next(remaining_cts) if p else None for p in present])
        nonzero = tuple([ct is not None for ct in cts]) if forced_nonzero is None else forced_nonzero
        results: list[Array] = []
        for ct, x, keep in zip(cts, linear_inputs, nonzero, strict=True):
            if ct is not None and forced_nonzero is None:
                results.append(ct)
            elif keep:  # a loop's carry keeps its type
                t = cotangent_type(x.type)
                results.append(zeros_of_type(t) if ct is None else convert(ct, t.dtype, t.weak))
        return results

    types = [x.type for x in known_inputs]
    staged = stage(body, [*types, *ct_types], f"transpose_{program.name}", "transpose")
    return TransposedProgram(staged, nonzero)


def known_mask(operands: Sequence[Operand]) -> tuple[bool, ...]:
    """Returns for each operand whether it is known."""
    return tuple([not isinstance(x, LinearOperand) for x in operands])


def expand_cotangents(
    known_in: Sequence[bool], nonzero: Sequence[bool], results: Sequence[Array]
) -> list[Cotangent]:
    """Returns a cotangent for each operand: None for known operands and for zeros, which have no result."""
    remaining_flags, remaining_cts = iter(nonzero), iter(results)
    return [None if is_known or not next(remaining_flags) else next(remaining_cts) for is_known in known_in]


@rule(Call)
def transpose_call(op: Call, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    known_in = known_mask(operands)
    known = [x for x in operands if not isinstance(x, LinearOperand)]
    present_cts = [ct for ct in cts if ct is not None]
    present = tuple([ct is not None for ct in cts])
    transposed_program = stage_transpose(
        op.program, known_in, present, types=tuple([ct.type for ct in present_cts])
    )
    results = Call(transposed_program.staged.program, op.inline)(
        *transposed_program.staged.captured, *known, *present_cts
    )
    return expand_cotangents(known_in, transposed_program.nonzero, results)


@rule(Cond)
def transpose_cond(op: Cond, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    index, *rest = operands
    if isinstance(index, LinearOperand):
        raise NoRuleError("transpose: cond is not linear in its index")
    known_in, present = known_mask(rest), tuple([ct is not None for ct in cts])
    with diverge_along(index.type.vma):
        first = [stage_transpose(branch, known_in, present) for branch in op.branches]
        nonzero = tuple([any(flags) for flags in zip(*[f.nonzero for f in first], strict=True)])
        branches = [stage_transpose(branch, known_in, present, nonzero).staged for branch in op.branches]
    programs, constants = align_constants(branches)
    known = [x for x in rest if not isinstance(x, LinearOperand)]
    present_cts = [ct for ct in cts if ct is not None]
    transposed_cond = attrs.evolve(op, branches=tuple(programs))
    results = transposed_cond(index, *constants, *known, *present_cts) if any(nonzero) else ()
    return [None, *expand_cotangents(known_in, nonzero, results)]


def transpose_linear_part(
    op: HigherOrder,
    cts: Sequence[Cotangent],
    operands: tuple[Operand, ...],
    transpose: Callable[[HigherOrder, Sequence[Cotangent], tuple[Operand, ...]], Sequence[Cotangent]],
) -> list[Cotangent]:
    """Transposes an operation with a known and a linear part: runs the known part, transposes the linear one."""
    parts = split_operation(op, tuple([isinstance(x, LinearOperand) for x in operands]), False)
    if parts is None or parts.linear is None:
        raise NoRuleError(f"transpose: {op.name} has no linear part")
    known: tuple[Array, ...] = ()
    if parts.known is not None:
        known = parts.known(*[cast("Array", operands[i]) for i in parts.known_operands])
    n = len(known) - parts.computed
    inner = tuple([operands[i] if i >= 0 else known[n + ~i] for i in parts.linear_operands])
    inner_cts = [ct for ct, is_linear in zip(cts, parts.linear_out, strict=True) if is_linear]
    inner_operand_cts = transpose(cast("HigherOrder", parts.linear), inner_cts, inner)
    results: list[Cotangent] = [None] * len(operands)
    for i, ct in zip(parts.linear_operands, inner_operand_cts, strict=True):
        if i >= 0 and isinstance(operands[i], LinearOperand):
            results[i] = ct
    return results


@rule(Scan)
def transpose_scan(op: Scan, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    c, n = op.constants, op.constants + op.carries
    # After linearising, all carries of a scan are linear, even those that start as known zeros.
    linear_in = tuple([isinstance(x, LinearOperand) for x in operands])
    if not all(linear_in[c:n]) and not all(find_linear_carry(op.regions[0], linear_in, False)[0]):
        return transpose_linear_part(op, cts, operands, lambda o, y, x: transpose_scan(cast("Scan", o), y, x))
    known_in = (*known_mask(operands[:c]), *[False] * op.carries, *known_mask(operands[n:]))
    ys = tuple([ct is not None for ct in cts[op.carries :]])
    carry = tuple([ct is not None for ct in cts[: op.carries]])
    lc = known_in[:c].count(False)
    while True:  # cotangents of the carry appear during the loop
        transposed_body = stage_transpose(op.body, known_in, (*carry, *ys))
        wider = tuple(
            [a or b for a, b in zip(carry, transposed_body.nonzero[lc : lc + op.carries], strict=True)]
        )
        if wider == carry:
            break
        carry = wider
    constant_cts, x_cts = transposed_body.nonzero[:lc], transposed_body.nonzero[lc + op.carries :]
    transposed_body = stage_transpose(op.body, known_in, (*carry, *ys), (*constant_cts, *carry, *x_cts))
    staged = transposed_body.staged
    inner, constant_count, carry_count = staged.program, sum(constant_cts), sum(carry)
    k, kc, kx = len(staged.captured), known_in[:c].count(True), known_in[n:].count(True)

    def body(arrays: list[Array]) -> list[Array]:
        constants, rest = arrays[: k + kc], arrays[k + kc :]
        sums, carried, scanned = (
            rest[:constant_count],
            rest[constant_count : constant_count + carry_count],
            rest[constant_count + carry_count :],
        )
        results = Call(inner, True)(*constants, *scanned[:kx], *carried, *scanned[kx:])
        sums = [a + b for a, b in zip(sums, results[:constant_count], strict=True)]
        return [*sums, *results[constant_count:]]

    linear_constants = [
        cotangent_type(x.type)
        for x, keep in zip(_linear_operands(operands[:c]), constant_cts, strict=True)
        if keep
    ]
    carry_types = [cotangent_type(t) for t, keep in zip(op.body.in_types[c:n], carry, strict=True) if keep]
    out_types = op.body.out_types[op.carries :]
    types = [
        *inner.in_types[: k + kc],
        *linear_constants,
        *carry_types,
        *inner.in_types[k + kc : k + kc + kx],
        *[cotangent_type(t) for t, keep in zip(out_types, ys, strict=True) if keep],
    ]
    program = cache_on_program(
        op.body,
        ("scan back", known_in, carry, ys, constant_cts),
        lambda: stage(body, types, f"back_{op.body.name}", "transpose").program,
    )
    start = [
        zeros_of_type(cotangent_type(t)) if ct is None else ct
        for ct, t, keep in zip(cts[: op.carries], op.body.in_types[c:n], carry, strict=True)
        if keep
    ]
    results = Scan(program, op.length, k + kc, constant_count + carry_count, not op.reverse, op.unroll)(
        *staged.captured,
        *[x for x in operands[:c] if not isinstance(x, LinearOperand)],
        *map(zeros_of_type, linear_constants),
        *start,
        *[x for x in operands[n:] if not isinstance(x, LinearOperand)],
        *[ct for ct in cts[op.carries :] if ct is not None],
    )
    return expand_cotangents(known_in, (*constant_cts, *carry, *x_cts), results)


def _linear_operands(operands: Sequence[Operand]) -> list[LinearOperand]:
    return [x for x in operands if isinstance(x, LinearOperand)]


@rule(While)
def transpose_while(op: While, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    raise NoRuleError(
        "while_loop: reverse-mode differentiation needs a bound of the number of iterations, to store "
        "residuals of each; pass max_steps=N to while_loop or fori_loop, or use scan, or forward mode"
    )
