"""Loops and branches give back what they do not change, without carrying it: a carry that each iteration hands on is a
constant of the loop, and an output that is the input's slice is that input.
"""

from collections.abc import Sequence
from typing import cast, final

import attrs

from effx.array import Array
from effx.effects import must_happen
from effx.ir.ops.control import Cond, Platforms, Scan
from effx.ir.ops.convert import Copy
from effx.ir.program import Atom, Program, effect_row
from effx.lower.placement.concrete import ConcreteArray


@final
@attrs.frozen(eq=False)
class _Reduced:
    """A program without the results that are its inputs.

    Attributes:
        program: it gives the other results.
        order: its inputs' numbers among those of the whole.
        results: for each result of the whole the input that it is; `~j` for the j-th result of `program`.
    """

    program: Program
    order: tuple[int, ...]
    results: tuple[int, ...]


def perform_scan(op: Scan, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs a loop, but for what it does not change."""
    reduced = _reduce_loop(op)
    if reduced is None:
        return op(*operands)
    unchanged = sum([i >= 0 for i in op.group_results(reduced.results).carry])
    smaller = attrs.evolve(
        op, body=reduced.program, constants=op.constants + unchanged, carries=op.carries - unchanged
    )
    return _collect(reduced.results, smaller, [operands[i] for i in reduced.order], operands)


def perform_branches(
    programs: Sequence[Program], platforms: Platforms, index: Array, operands: Sequence[Array]
) -> tuple[Array, ...]:
    """Performs one of several programs, but for the results that are the same operand in all of them."""
    first, rest = programs[0], tuple(programs[1:])
    results = _find_shared_results(first, rest)
    if all([i < 0 for i in results]):
        return Cond((first, *rest), platforms)(index, *operands)
    key = ("unchanged", rest)
    branches = first.derived.get(key)
    if branches is None:
        branches = first.derived[key] = tuple([_drop_results(p, results) for p in programs])
    op = Cond(cast("tuple[Program, ...]", branches), platforms)
    return _collect(results, op, [index, *operands], operands)


def _find_shared_results(first: Program, rest: Sequence[Program]) -> list[int]:
    """Returns for each result of branches the input that it is in all of them; `~j` for the j-th of the others."""
    positions: dict[Atom, int] = {x: i for i, x in enumerate(first.inputs)}
    results: list[int] = []
    computed = 0
    for j, x in enumerate(first.outputs):
        i = positions.get(x, -1)
        if i < 0 or not all([p.outputs[j] is p.inputs[i] for p in rest]):
            i = ~computed
            computed += 1
        results.append(i)
    return results


def _drop_results(program: Program, results: Sequence[int]) -> Program:
    """Returns a program without those of its results that are inputs."""
    outputs = tuple([x for x, i in zip(program.outputs, results, strict=True) if i < 0])
    return attrs.evolve(program, outputs=outputs, derived={})


def _collect(
    results: Sequence[int], op: Scan | Cond, inner: Sequence[Array], operands: Sequence[Array]
) -> tuple[Array, ...]:
    """Performs the smaller operation, if there is anything to do, and returns all results."""
    is_needed = min(results) < 0 or any([must_happen(p.effects) for p in op.programs])
    computed = op(*inner) if is_needed else ()
    # A result outside of programs has memory of its own: the caller may donate it.
    return tuple(
        [
            computed[~i]
            if i < 0
            else Copy()(operands[i])
            if type(operands[i]) is ConcreteArray
            else operands[i]
            for i in results
        ]
    )


def _reduce_loop(op: Scan) -> _Reduced | None:
    """Returns a loop's body without what it does not change; None if it changes all."""
    derived, key = op.body.derived, ("unchanged", op.constants, op.carries)
    if key not in derived:
        derived[key] = _reduce_loop_uncached(op)
    return cast("_Reduced | None", derived[key])


def _reduce_loop_uncached(op: Scan) -> _Reduced | None:
    body = op.body
    indices, inputs = op.group_operands(range(len(body.inputs))), op.group_operands(body.inputs)
    outputs_before = op.group_results(body.outputs)
    slices: dict[Atom, int] = dict(zip(inputs.xs, indices.xs, strict=True))
    carry = list(zip(indices.carry, inputs.carry, outputs_before.carry, strict=True))
    fixed = [i for i, x, y in carry if y is x]
    moving = [i for i, x, y in carry if y is not x]
    # For each result the input that it is, or -1.
    unchanged = [
        *[i if i in fixed else -1 for i in indices.carry],
        *[slices.get(y, -1) for y in outputs_before.ys],
    ]
    results: list[int] = []
    outputs: list[Atom] = []
    for i, x in zip(unchanged, body.outputs, strict=True):
        if i < 0:
            results.append(~len(outputs))
            outputs.append(x)
        else:
            results.append(i)
    if len(outputs) == len(results):
        return None
    order = (*indices.constants, *fixed, *moving, *indices.xs)
    reordered = tuple([body.inputs[i] for i in order])
    program = Program(reordered, body.equations, tuple(outputs), body.name, effect_row(body.equations))
    return _Reduced(program, order, tuple(results))
