"""Transposes of calls, branches and loops."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import cast, final

import attrs

from effx.array import Array
from effx.array.promotion import convert
from effx.errors import NoRuleError
from effx.handlers.linear.control import split_loop_body
from effx.handlers.linear.partial_eval import split_operation
from effx.handlers.recursion.staging import align_constants, cache_on_program
from effx.handlers.sharding_types.axes_in_types import diverge_along, diverging_axes, zeros_of_type
from effx.handlers.staging.stage import stage
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, backward_pass, rule
from effx.ir.ops.control import Call, Cond, HigherOrder, Scan, While
from effx.ir.ops.groups import LoopOperands, split_into
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
    # `backward_pass` expects the residuals first.
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
    inner = parts.select_linear_operands(operands, parts.split_known_results(known)[1])
    inner_cts = [ct for ct, is_linear in zip(cts, parts.linear_out, strict=True) if is_linear]
    inner_operand_cts = transpose(cast("HigherOrder", parts.linear), inner_cts, inner)
    results: list[Cotangent] = [None] * len(operands)
    for source, ct in zip(parts.linear_operands, inner_operand_cts, strict=True):
        if isinstance(source, int) and isinstance(operands[source], LinearOperand):
            results[source] = ct
    return results


@rule(Scan)
def transpose_scan(op: Scan, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    """Transposes a scan.

    One iteration is c', y = A(k, x) (a, c, z), linear in constants a, the carry c and slices z, with known constants k and
    known slices x. With bars for cotangents, going backwards,

        a_bar_i, c_bar, z_bar = A(k, x)^T (c_bar', y_bar),    a_bar = sum of a_bar_i over the iterations.

    So the transpose is a scan in the other direction, whose operands are

        constants: k;
        carry:     the sums of a_bar, from 0; c_bar, from the cotangent of the last carry;
        slices:    x, y_bar;

    and whose results are a_bar, the cotangent of the first carry, and all z_bar.
    """
    linear_in = op.group_operands([isinstance(x, LinearOperand) for x in operands])
    # After linearising, all carries of a scan are linear, even those that start as known zeros.
    if not all(linear_in.carry) and not all(split_loop_body(op, linear_in, False)[0].carry):
        return transpose_linear_part(
            op, cts, operands, lambda part, cts, operands: transpose_scan(cast("Scan", part), cts, operands)
        )
    linear_in = attrs.evolve(linear_in, carry=(True,) * op.carries)
    known_in = linear_in.map(lambda is_linear: not is_linear)
    values = op.group_operands(operands)
    known, linear = cast("LoopOperands[Array]", values.select(known_in)), values.select(linear_in)
    out_cts = op.group_results(cts)
    ys = tuple([ct is not None for ct in out_cts.ys])
    carry = tuple([ct is not None for ct in out_cts.carry])
    backward, nonzero = _transpose_body(op, known_in.join(), linear, carry, ys)
    staged, carry = backward.staged, nonzero.carry
    in_types = op.group_operands(op.body.in_types)
    sum_types = _cotangent_types([x.type for x in compress(linear.constants, nonzero.constants)])
    carry_types = _cotangent_types(compress(in_types.carry, carry))
    ct_types = _cotangent_types(compress(op.group_results(op.body.out_types).ys, ys))
    known_types = in_types.select(known_in)
    back_types = LoopOperands(
        constants=(*[x.type for x in staged.captured], *known_types.constants),
        carry=(*sum_types, *carry_types),
        xs=(*known_types.xs, *ct_types),
    )

    def iterate_back(arrays: list[Array]) -> list[Array]:
        back = back_types.group_like(arrays)
        sums, carry_cts = split_into(back.carry, len(sum_types))
        slices, y_cts = split_into(back.xs, len(known_types.xs))
        results = Call(staged.program, True)(*back.constants, *slices, *carry_cts, *y_cts)
        terms, rest = split_into(results, len(sum_types))
        return [*[total + term for total, term in zip(sums, terms, strict=True)], *rest]

    program = cache_on_program(
        op.body,
        ("scan back", known_in, carry, ys, nonzero.constants),
        lambda: stage(iterate_back, back_types.join(), f"back_{op.body.name}", "transpose").program,
    )
    last_cts = compress(zip(out_cts.carry, _cotangent_types(in_types.carry), strict=True), carry)
    backward_scan = attrs.evolve(op.with_body(program, back_types), reverse=not op.reverse)
    results = backward_scan(
        *staged.captured,
        *known.constants,
        *map(zeros_of_type, sum_types),
        *[zeros_of_type(t) if ct is None else ct for ct, t in last_cts],
        *known.xs,
        *[ct for ct in out_cts.ys if ct is not None],
    )
    return expand_cotangents(known_in.join(), nonzero.join(), results)


def _transpose_body(
    op: Scan,
    known_in: tuple[bool, ...],
    linear: LoopOperands[Operand],
    carry: tuple[bool, ...],
    ys: tuple[bool, ...],
) -> tuple[TransposedProgram, LoopOperands[bool]]:
    """Transposes a scan's body, with a cotangent of each value of the carry that has one in some iteration.

    Args:
        op: the scan.
        known_in: for each operand whether it is known.
        linear: the other operands.
        carry: for each value of the last carry whether it has a cotangent.
        ys: the same for the stacked results.

    Returns:
        The transposed body, and for each linear operand whether its cotangent is not zero.
    """
    while True:  # cotangents of the carry appear during the loop
        nonzero = linear.group_like(stage_transpose(op.body, known_in, (*carry, *ys)).nonzero)
        wider = tuple([a or b for a, b in zip(carry, nonzero.carry, strict=True)])
        if wider == carry:
            nonzero = attrs.evolve(nonzero, carry=carry)
            return stage_transpose(op.body, known_in, (*carry, *ys), nonzero.join()), nonzero
        carry = wider


def _cotangent_types(types: Iterable[ArrayType]) -> list[ArrayType]:
    return [cotangent_type(t) for t in types]


@rule(While)
def transpose_while(op: While, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    raise NoRuleError(
        "while_loop: reverse-mode differentiation needs a bound of the number of iterations, to store "
        "residuals of each; pass max_steps=N to while_loop or fori_loop, or use scan, or forward mode"
    )
