"""`compute_constant_part`: compute once, as a program is compiled, what depends on closed-over arrays alone."""

from collections.abc import Sequence

import attrs

from effx.handlers.evaluate.debugging import is_debugging
from effx.handlers.evaluate.lowering_passes import order_effects
from effx.ir.passes.constant_parts import split_constant_part
from effx.ir.program import Program
from effx.lower.compile_options import CompilerOptions
from effx.lower.placement.assignment import Assignment
from effx.lower.placement.backends import is_runnable_device
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.runtime.executables import compile_program

# Constants of up to so many bytes are written in the text: XLA folds them faster than it compiles code for them. Nonzero of
# 64 bools takes 0.04 s by this and 0.16 s without, of 512 the same by both (seconds of processor, jaxlib 0.12).
INLINE_SIZE = 2**10

# What runs once does not regain the time for optimising it: the 0.21 s of nonzero of 512 bools were 0.14 s. The user's own
# options count more.
FAST_COMPILE_OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compute_constant_part(
    program: Program, constants: Sequence[ConcreteArray], assignment: Assignment, options: CompilerOptions
) -> tuple[Program, Sequence[ConcreteArray]]:
    """Computes what depends on constants alone; returns the rest of the program, with its constants and these values.

    The orders, masks and tables of indices that a function makes of closed-over arrays would otherwise be made at every
    call, since these are arguments of XLA's program. XLA folds constants that are written in its program, but slowly:
    the argsort of 5,000 integers takes it 0.7 s, 0.02 s here, and programs that differ in constants could not share
    what was compiled.

    Args:
        program: its first inputs are for the constants.
        constants: values of the first inputs.
        assignment: where the program runs. Nothing is computed beforehand for several devices, for devices of a
            topology, and while results are checked for NaN.
        options: XLA's own, by name.
    """
    runs_on_one = len(assignment.devices) == 1 and assignment.mesh is None and not assignment.inputs
    if not constants or not runs_on_one or is_debugging() or not is_runnable_device(assignment.device):
        return program, constants
    parts = split_constant_part(program, len(constants))
    if parts is None:
        return program, constants
    # Constants that are written in the text come first.
    order = sorted(parts.constant_positions, key=lambda i: constants[i].nbytes)
    inputs = dict(zip(parts.constant_positions, parts.constant_part.inputs, strict=True))
    constant_part = attrs.evolve(parts.constant_part, inputs=tuple([inputs[i] for i in order]), derived={})
    executable = compile_program(
        order_effects(constant_part),
        [constants[i] for i in order],
        Assignment(assignment.devices, assignment.committed),
        inline_count=sum([constants[i].nbytes <= INLINE_SIZE for i in order]),
        options=tuple(sorted({**FAST_COMPILE_OPTIONS, **dict(options)}.items())),
    )
    return parts.rest, [*[constants[i] for i in parts.rest_constant_positions], *executable.run([])]
