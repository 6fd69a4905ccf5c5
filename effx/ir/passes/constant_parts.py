"""`split_constant_part`: what of a program depends on its constants alone, apart from the rest, to be computed once."""

from collections.abc import Iterable
from typing import cast, final

import attrs

from effx.dtypes import is_inexact
from effx.ir.ops.base import Elementwise, Rearranging, Structural
from effx.ir.ops.control import Call, HigherOrder, contains_operation
from effx.ir.ops.convert import Bitcast, OptimizationBarrier
from effx.ir.ops.host import Hosted
from effx.ir.ops.shape import Iota, Pad
from effx.ir.passes.inlining import inline_calls
from effx.ir.passes.redundancy import eliminate_dead_code
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.sizes.dimensions import has_symbolic

# An operation with a larger result, in bytes, is left to every call, and so is what depends on it: to hold the result could
# take more memory than the program itself.
LARGEST_VALUE = 2**20


@final
@attrs.frozen
class ConstantSplit:
    """A program in two parts.

    Attributes:
        constant_part: computes values from constants.
        constant_positions: those, among the program's constants, of the inputs of `constant_part`.
        rest: takes constants, the values of `constant_part`, and then the program's arguments.
        rest_constant_positions: those of the constants that `rest` takes.
    """

    constant_part: Program
    constant_positions: tuple[int, ...]
    rest: Program
    rest_constant_positions: tuple[int, ...]


def split_constant_part(program: Program, count: int) -> ConstantSplit | None:
    """Splits off what depends on constants alone, is exact and takes time: sorts, scans, sums of integers, random bits.

    What computes with floats stays: alone it would be rounded otherwise than among other operations. So do elementwise
    operations and moves of elements, unless they follow an operation that takes time: XLA fuses them with what reads
    them. Cached.

    Args:
        program: the program.
        count: how many of its first inputs are constants.

    Returns:
        The two parts; None where nothing is split off.

    >>> from effx.ir.text import parse_program
    >>> parts = split_constant_part(parse_program('''
    ... f(a: i32[2,2], b: i32[2]) {
    ...   c: i32[2] = reduce_sum[axes=(0,)] a
    ...   d: i32[2] = mul b c
    ...   return d
    ... }'''), 1)
    >>> print(parts.constant_part, parts.rest)
    f(a: i32[2,2]) {
      b: i32[2] = reduce_sum[axes=(0,)] a
      return b
    } f(a: i32[2], b: i32[2]) {
      c: i32[2] = mul b a
      return c
    }
    """
    if not count:
        return None
    key = ("constant part", count)
    if key not in program.derived:
        program.derived[key] = _split_uncached(program, count)
    return cast("ConstantSplit | None", program.derived[key])


def _split_uncached(program: Program, count: int) -> ConstantSplit | None:
    constants = program.inputs[:count]
    if _calls_hold_costly_values(program, _find_known_values(program, constants)[0]):
        program = inline_calls(program)
        constants = program.inputs[:count]
    known, costly = _find_known_values(program, constants)
    left = [e for e in program.equations if costly.isdisjoint(e.outputs)]
    read_later = _read_variables(left, program.outputs)
    values = [v for e in program.equations for v in e.outputs if v in costly and v in read_later]
    if not values:
        return None
    # An equation without results does something: it is none of these, though all of its results are known.
    known_equations = [e for e in program.equations if e.outputs and known.issuperset(e.outputs)]
    constant_part = _prune(_make_program(program, constants, known_equations, values), count)
    rest_inputs = (*constants, *values, *program.inputs[count:])
    rest = _prune(_make_program(program, rest_inputs, left, program.outputs), count)
    return ConstantSplit(
        constant_part,
        tuple([i for i, x in enumerate(constants) if x in constant_part.inputs]),
        rest,
        tuple([i for i, x in enumerate(constants) if x in rest.inputs]),
    )


def _find_known_values(program: Program, constants: Iterable[Var]) -> tuple[set[Var], set[Var]]:
    """Returns the variables that depend on constants and literals alone, and which of them are worth computing once.

    These depend on a constant, and take time to compute or follow one that does. What comes from literals alone is known,
    but no reason to split a program: XLA folds it.
    """
    from_constants = set(constants)
    known, costly = set(from_constants), set[Var]()
    for e in program.equations:
        operands = [x for x in e.inputs if type(x) is Var]
        if not known.issuperset(operands) or not _may_be_computed_once(e):
            continue
        known.update(e.outputs)
        if from_constants.isdisjoint(operands):
            continue
        from_constants.update(e.outputs)
        if _takes_time(e) or not costly.isdisjoint(operands):
            costly.update(e.outputs)
    return known, costly


def _calls_hold_costly_values(program: Program, known: set[Var]) -> bool:
    """Says whether calls of which some operands are known compute costly values from these."""
    for e in program.equations:
        if type(e.op) is not Call or (e.outputs and known.issuperset(e.outputs)):
            continue
        inner_constants = [
            x for x, operand in zip(e.op.program.inputs, e.inputs, strict=True) if operand in known
        ]
        inner_known, inner_costly = _find_known_values(e.op.program, inner_constants)
        if inner_costly or _calls_hold_costly_values(e.op.program, inner_known):
            return True
    return False


def _may_be_computed_once(e: Equation) -> bool:
    stays = (Hosted, OptimizationBarrier)
    if not e.outputs or e.op.effects or isinstance(e.op, stays):
        return False
    inner_programs = e.op.programs if isinstance(e.op, HigherOrder) else ()
    if any([contains_operation(p, trait) for p in inner_programs for trait in stays]):
        return False
    return _is_exact(e) and all(
        [
            not has_symbolic(v.type.shape) and v.type.size * v.type.dtype.itemsize <= LARGEST_VALUE
            for v in e.outputs
        ]
    )


def _is_exact(e: Equation) -> bool:
    """Says whether an operation computes no floats: it may read them, as comparisons do, or move them."""
    if isinstance(e.op, HigherOrder):
        return all([_is_exact(inner) for p in e.op.programs for inner in p.equations])
    return isinstance(e.op, Structural | Rearranging) or not any(
        [is_inexact(v.type.dtype) for v in e.outputs]
    )


def _takes_time(e: Equation) -> bool:
    """Says whether an operation is neither elementwise nor a move of elements."""
    if type(e.op) is Call:
        return any([_takes_time(inner) for inner in e.op.program.equations])
    return not isinstance(e.op, Elementwise | Structural | Bitcast | Iota | Pad)


def _read_variables(equations: Iterable[Equation], outputs: Iterable[Atom]) -> set[Var]:
    atoms = [*[x for e in equations for x in e.inputs], *outputs]
    return {x for x in atoms if type(x) is Var}


def _make_program(
    program: Program, inputs: Iterable[Var], equations: Iterable[Equation], outputs: Iterable[Atom]
) -> Program:
    equations = tuple(equations)
    return Program(tuple(inputs), equations, tuple(outputs), program.name, effect_row(equations))


def _prune(program: Program, count: int) -> Program:
    """Drops what a program does not need, and those of its first `count` inputs that are not read then."""
    program = eliminate_dead_code(program)
    read = _read_variables(program.equations, program.outputs)
    kept = [x for i, x in enumerate(program.inputs) if i >= count or x in read]
    return attrs.evolve(program, inputs=tuple(kept), derived={})
