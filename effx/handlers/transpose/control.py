"""Transposes of calls, branches and loops.

A scan y_i, c_i+1 = body(c_i, x_i), linear in c and x, is transposed by a scan in the other direction that
carries the cotangent of c, sums those of the constants, and stacks those of x.
"""

from collections.abc import Callable, Sequence
from typing import cast, final

import attrs

from effx.array import Array
from effx.array.promotion import convert, zeros
from effx.errors import NoRuleError
from effx.handlers.linear.control import carry_of
from effx.handlers.linear.partial_eval import parts_of
from effx.handlers.recursion.staging import aligned, cached
from effx.handlers.sharding_types.axes_in_types import apart, diverging
from effx.handlers.staging.stage import stage
from effx.handlers.transpose.handler import Cotangent, LinearOperand, Operand, backward, rule
from effx.ir.ops.control import Call, Cond, HigherOrder, Scan, While
from effx.ir.program import Program, Staged
from effx.ir.types import ArrayType


@final
@attrs.frozen(eq=False)
class Transposed:
    """A transposed program: constants, then known operands, then the cotangents that are not zero.

    Attributes:
        staged: the program and its constants.
        nonzero: for each linear input whether it has a cotangent; the program gives these.
    """

    staged: Staged
    nonzero: tuple[bool, ...]


def transposed(
    program: Program,
    known_in: tuple[bool, ...],
    present: tuple[bool, ...],
    wanted: tuple[bool, ...] | None = None,
    types: tuple[ArrayType, ...] | None = None,
) -> Transposed:
    """Stages the transpose of a program; cached in it.

    Args:
        program: linear in the inputs that are not known.
        known_in: for each input whether it is known.
        present: for each output whether its cotangent is given; the others are zero.
        wanted: for each linear input whether the cotangent must be there, as zeros if need be; None for those
            that are not zero.
        types: of the given cotangents; None for those of the outputs, which may differ in weakness.
    """
    if types is None:
        types = tuple([t for t, p in zip(program.out_types, present, strict=True) if p])
    key = ("transpose", known_in, present, wanted, types, apart.value)
    return cached(program, key, lambda: _transposed(program, known_in, present, wanted, types))


def _transposed(
    program: Program,
    known_in: tuple[bool, ...],
    present: tuple[bool, ...],
    wanted: tuple[bool, ...] | None,
    ct_types: tuple[ArrayType, ...],
) -> Transposed:
    known_inputs = [x for x, known in zip(program.inputs, known_in, strict=True) if known]
    linear_inputs = [x for x, known in zip(program.inputs, known_in, strict=True) if not known]
    # backward expects the residuals first.
    ordered = attrs.evolve(program, inputs=(*known_inputs, *linear_inputs), derived={})
    n = len(known_inputs)
    nonzero: tuple[bool, ...] = ()

    def body(arrays: list[Array]) -> list[Array]:
        nonlocal nonzero
        given = iter(arrays[n:])
        cts = backward(ordered, arrays[:n], [next(given) if p else None for p in present])
        nonzero = tuple([ct is not None for ct in cts]) if wanted is None else wanted
        results: list[Array] = []
        for ct, x, keep in zip(cts, linear_inputs, nonzero, strict=True):
            if ct is not None and wanted is None:
                results.append(ct)
            elif keep:  # a loop's carry keeps its type
                t = x.type
                results.append(zeros(t) if ct is None else convert(ct, t.dtype, t.weak))
        return results

    types = [x.type for x in known_inputs]
    staged = stage(body, [*types, *ct_types], f"transpose_{program.name}", "transpose")
    return Transposed(staged, nonzero)


def known_of(operands: Sequence[Operand]) -> tuple[bool, ...]:
    """Says for each operand whether it is known."""
    return tuple([not isinstance(x, LinearOperand) for x in operands])


def in_places(known_in: Sequence[bool], nonzero: Sequence[bool], results: Sequence[Array]) -> list[Cotangent]:
    """Returns a cotangent for each operand: None for known ones and for zeros, which have no result."""
    there, found = iter(nonzero), iter(results)
    return [None if is_known or not next(there) else next(found) for is_known in known_in]


@rule(Call)
def call(op: Call, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    known_in = known_of(operands)
    known = [x for x in operands if not isinstance(x, LinearOperand)]
    given = [ct for ct in cts if ct is not None]
    present = tuple([ct is not None for ct in cts])
    found = transposed(op.program, known_in, present, types=tuple([ct.type for ct in given]))
    results = Call(found.staged.program, op.inline)(*found.staged.captured, *known, *given)
    return in_places(known_in, found.nonzero, results)


@rule(Cond)
def cond(op: Cond, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    index, *rest = operands
    if isinstance(index, LinearOperand):
        raise NoRuleError("transpose: cond is not linear in its index")
    known_in, present = known_of(rest), tuple([ct is not None for ct in cts])
    with diverging(index.type.vma):
        first = [transposed(branch, known_in, present) for branch in op.branches]
        wanted = tuple([any(found) for found in zip(*[f.nonzero for f in first], strict=True)])
        branches = [transposed(branch, known_in, present, wanted).staged for branch in op.branches]
    programs, constants = aligned(branches)
    known = [x for x in rest if not isinstance(x, LinearOperand)]
    given = [ct for ct in cts if ct is not None]
    joint = attrs.evolve(op, branches=tuple(programs))
    results = joint(index, *constants, *known, *given) if any(wanted) else ()
    return [None, *in_places(known_in, wanted, results)]


def split_first(
    op: HigherOrder,
    cts: Sequence[Cotangent],
    operands: tuple[Operand, ...],
    transpose: Callable[[HigherOrder, Sequence[Cotangent], tuple[Operand, ...]], Sequence[Cotangent]],
) -> list[Cotangent]:
    """Transposes an operation with a known and a linear part: runs the one, transposes the other."""
    parts = parts_of(op, tuple([isinstance(x, LinearOperand) for x in operands]), False)
    if parts is None or parts.linear is None:
        raise NoRuleError(f"transpose: {op.name} has no linear part")
    known: tuple[Array, ...] = ()
    if parts.known is not None:
        known = parts.known(*[cast("Array", operands[i]) for i in parts.known_operands])
    n = len(known) - parts.computed
    inner = tuple([operands[i] if i >= 0 else known[n + ~i] for i in parts.linear_operands])
    inner_cts = [ct for ct, is_linear in zip(cts, parts.linear_out, strict=True) if is_linear]
    found = transpose(cast("HigherOrder", parts.linear), inner_cts, inner)
    results: list[Cotangent] = [None] * len(operands)
    for i, ct in zip(parts.linear_operands, found, strict=True):
        if i >= 0 and isinstance(operands[i], LinearOperand):
            results[i] = ct
    return results


@rule(Scan)
def scan(op: Scan, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    c, n = op.constants, op.constants + op.carries
    # After linearising, all carries of a scan are linear, even those that start as known zeros.
    linear_in = tuple([isinstance(x, LinearOperand) for x in operands])
    if not all(linear_in[c:n]) and not all(carry_of(op.regions[0], linear_in, False)[0]):
        return split_first(op, cts, operands, lambda o, y, x: scan(cast("Scan", o), y, x))
    known_in = (*known_of(operands[:c]), *[False] * op.carries, *known_of(operands[n:]))
    ys = tuple([ct is not None for ct in cts[op.carries :]])
    carry = tuple([ct is not None for ct in cts[: op.carries]])
    lc = known_in[:c].count(False)
    while True:  # cotangents of the carry appear during the loop
        found = transposed(op.body, known_in, (*carry, *ys))
        wider = tuple([a or b for a, b in zip(carry, found.nonzero[lc : lc + op.carries], strict=True)])
        if wider == carry:
            break
        carry = wider
    constant_cts, x_cts = found.nonzero[:lc], found.nonzero[lc + op.carries :]
    found = transposed(op.body, known_in, (*carry, *ys), (*constant_cts, *carry, *x_cts))
    staged = found.staged
    inner, added, kept = staged.program, sum(constant_cts), sum(carry)
    k, kc, kx = len(staged.captured), known_in[:c].count(True), known_in[n:].count(True)

    def body(arrays: list[Array]) -> list[Array]:
        fixed, rest = arrays[: k + kc], arrays[k + kc :]
        sums, carried, moving = rest[:added], rest[added : added + kept], rest[added + kept :]
        results = Call(inner, True)(*fixed, *moving[:kx], *carried, *moving[kx:])
        sums = [a + b for a, b in zip(sums, results[:added], strict=True)]
        return [*sums, *results[added:]]

    linear_constants = [x.type for x, keep in zip(_linear(operands[:c]), constant_cts, strict=True) if keep]
    carry_types = [t for t, keep in zip(op.body.in_types[c:n], carry, strict=True) if keep]
    out_types = op.body.out_types[op.carries :]
    types = [
        *inner.in_types[: k + kc],
        *linear_constants,
        *carry_types,
        *inner.in_types[k + kc : k + kc + kx],
        *[t for t, keep in zip(out_types, ys, strict=True) if keep],
    ]
    program = cached(
        op.body,
        ("scan back", known_in, carry, ys, constant_cts),
        lambda: stage(body, types, f"back_{op.body.name}", "transpose").program,
    )
    start = [
        zeros(t) if ct is None else ct
        for ct, t, keep in zip(cts[: op.carries], op.body.in_types[c:n], carry, strict=True)
        if keep
    ]
    results = Scan(program, op.length, k + kc, added + kept, not op.reverse, op.unroll)(
        *staged.captured,
        *[x for x in operands[:c] if not isinstance(x, LinearOperand)],
        *map(zeros, linear_constants),
        *start,
        *[x for x in operands[n:] if not isinstance(x, LinearOperand)],
        *[ct for ct in cts[op.carries :] if ct is not None],
    )
    return in_places(known_in, (*constant_cts, *carry, *x_cts), results)


def _linear(operands: Sequence[Operand]) -> list[LinearOperand]:
    return [x for x in operands if isinstance(x, LinearOperand)]


@rule(While)
def while_(op: While, cts: Sequence[Cotangent], operands: tuple[Operand, ...]) -> list[Cotangent]:
    raise NoRuleError(
        "while_loop: reverse-mode differentiation needs a bound of the number of iterations, to store "
        "residuals of each; pass max_steps=N to while_loop or fori_loop, or use scan, or forward mode"
    )
