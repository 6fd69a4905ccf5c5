"""Solutions of equations under any handler: the layout of the unknown is a fix-point of all programs."""

from collections.abc import Sequence

import attrs

from effx.array import Array
from effx.effects import Frame, use_frame
from effx.handlers.recursion.layout import flatten_boxes, rebuild_boxes
from effx.handlers.recursion.loops import Layouts, flatten_carry, initial_carry_layouts, stage_to_fixpoint
from effx.handlers.recursion.payloads import payload_handler, recursion
from effx.handlers.recursion.staging import STATELESS, HandledProgram, align_constants, has_record
from effx.handlers.staging.stage import run_program
from effx.ir.ops.groups import LoopOperands
from effx.ir.ops.solve import EquationSolution, LinearSolve, Root
from effx.ir.program import Program


def stage_programs(
    frame: Frame, op: EquationSolution, operands: Sequence[Array]
) -> tuple[list[HandledProgram], list[Array], list[Array]]:
    """Stages the programs under the handler, with an unknown of one structure for all of them.

    Args:
        frame: the handler's frame.
        op: its programs take the constants, the unknown any number of times, and last the unknown; they give the
            unknown.
        operands: the operation's.

    Returns:
        The programs, the constants' arrays, and the unknown's.
    """
    constant_values, start = op.split_operands(operands)
    constants, constant_layouts = flatten_boxes(frame, constant_values)
    unknown = initial_carry_layouts(frame, start, op.unknown_types)

    def stage_program(program: Program, unknown: Layouts) -> tuple[HandledProgram, Layouts]:
        unknown_copies = (len(program.inputs) - op.constants) // len(unknown) - 1
        return stage_to_fixpoint(
            program,
            payload_handler(frame),
            LoopOperands((*constant_layouts, *unknown * unknown_copies), unknown),
            STATELESS,
        )

    while True:
        parts: list[HandledProgram] = []
        previous = unknown
        for program in op.programs:
            handled, unknown = stage_program(program, unknown)
            parts.append(handled)
        if unknown == previous:
            return parts, constants, flatten_carry(frame, start, unknown)


def recur_solve(frame: Frame, op: LinearSolve | Root, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Performs one solution of the staged programs."""
    if has_record(frame):
        # A solver threads state and collects values like any program.
        with use_frame(frame):
            return tuple(run_program(op.solve, operands))
    parts, constants, start = stage_programs(frame, op, operands)
    programs, captured = align_constants(parts)
    staged_programs = dict(zip(op.programs, programs, strict=True))
    program_fields = {
        name: value for name, value in attrs.asdict(op, recurse=False).items() if type(value) is Program
    }
    staged = attrs.evolve(
        op,
        **{name: staged_programs[p] for name, p in program_fields.items()},  # type: ignore[arg-type]  # programs, by their names
        constants=len(captured) + len(constants),
    )
    return tuple(rebuild_boxes(frame, staged(*captured, *constants, *start), parts[0].results))


recursion(LinearSolve)(recur_solve)
recursion(Root)(recur_solve)
