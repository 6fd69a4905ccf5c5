"""Solutions of equations under any handler: the layout of the unknown is a fix-point of all programs."""

from collections.abc import Sequence

import attrs

from effx.array import Array
from effx.effects import Frame, resumed
from effx.handlers.recursion.layout import flatten_boxes, rebuild_boxes
from effx.handlers.recursion.loops import Layouts, carried, fixed, initial
from effx.handlers.recursion.payloads import handler_of, recursion
from effx.handlers.recursion.staging import STATELESS, Handled, aligned, keeps_record
from effx.handlers.staging.stage import run_program
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.program import Program


def solved(
    frame: Frame, op: HigherOrder, operands: Sequence[Array], k: int
) -> tuple[list[Handled], list[Array], list[Array]]:
    """Stages the programs under the handler, with an unknown of one structure for all of them.

    Args:
        frame: the handler's.
        op: takes k constants and the initial value of the unknown. Its programs take the constants, the unknown
            any number of times, and last the unknown; they give the unknown.
        operands: the operation's.
        k: the number of constants.

    Returns:
        The programs, the constants' arrays, and the unknown's.
    """
    constants, constant_layouts = flatten_boxes(frame, operands[:k])
    unknown = carried(frame, operands[k:], op.in_types[k:])

    def staged(program: Program, unknown: Layouts) -> tuple[Handled, Layouts]:
        times = (len(program.inputs) - k) // len(unknown) - 1
        return fixed(
            program, handler_of(frame), (*constant_layouts, *unknown * times), unknown, (), STATELESS
        )

    while True:
        parts: list[Handled] = []
        before = unknown
        for program in op.programs:
            handled, unknown = staged(program, unknown)
            parts.append(handled)
        if unknown == before:
            return parts, constants, initial(frame, operands[k:], unknown)


def solve(frame: Frame, op: LinearSolve | Root, operands: Sequence[Array]) -> tuple[Array, ...]:
    """One solution of the staged programs."""
    if keeps_record(frame):
        # A solver threads state and collects values like any program.
        with resumed(frame):
            return tuple(run_program(op.solve, operands))
    parts, constants, start = solved(frame, op, operands, op.constants)
    programs, captured = aligned(parts)
    found = dict(zip(op.programs, programs, strict=True))
    held = {name: value for name, value in attrs.asdict(op, recurse=False).items() if type(value) is Program}
    staged = attrs.evolve(
        op,
        **{name: found[p] for name, p in held.items()},  # type: ignore[arg-type]  # programs, by their names
        constants=len(captured) + len(constants),
    )
    return tuple(rebuild_boxes(frame, staged(*captured, *constants, *start), parts[0].results))


recursion(LinearSolve)(solve)
recursion(Root)(solve)
