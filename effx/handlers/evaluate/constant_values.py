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

# Bytes of a constant up to which XLA computes with it as it compiles, faster than it compiles what would: nonzero of 64
# bools takes 0.04 s by this and 0.16 s without, of 512 the same by both (python -m effx.compat of a jitted function,
# seconds of processor, jaxlib 0.12).
INLINE_SIZE = 2**10

# Time for optimising is not regained: the 0.21 s of nonzero of 512 bools were 0.14 s.
RUNS_ONCE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compute_constant_part(
    program: Program, constants: Sequence[ConcreteArray], assignment: Assignment, options: CompilerOptions
) -> tuple[Program, Sequence[ConcreteArray]]:
    """Computes what depends on constants alone, and returns the rest of the program with its constants.

    The orders, masks and tables of indices that a function makes of closed-over arrays would otherwise be made at every
    call, since these are arguments of XLA's program. XLA folds constants that are written in its program, but slowly:
    the argsort of 5,000 integers takes it 0.7 s, 0.02 s here, and programs that differ in constants could not share
    what was compiled.

    Args:
        program: its first inputs are for the constants.
        constants: values of the first inputs.
        assignment: where the program runs. Nothing is computed beforehand for several devices.
        options: XLA's own, by name.
    """
    runs_on_one = len(assignment.devices) == 1 and assignment.mesh is None and not assignment.inputs
    if not constants or not runs_on_one or is_debugging() or not is_runnable_device(assignment.device):
        return program, constants
    parts = split_constant_part(program, len(constants))
    if parts is None:
        return program, constants
    order = sorted(parts.constants, key=lambda i: constants[i].nbytes)
    inputs = dict(zip(parts.constants, parts.constant_part.inputs, strict=True))
    constant_part = attrs.evolve(parts.constant_part, inputs=tuple([inputs[i] for i in order]), derived={})
    executable = compile_program(
        order_effects(constant_part),
        [constants[i] for i in order],
        Assignment(assignment.devices, assignment.committed),
        inline_count=sum([constants[i].nbytes <= INLINE_SIZE for i in order]),
        options=tuple(sorted({**RUNS_ONCE, **dict(options)}.items())),
    )
    return parts.rest, [*[constants[i] for i in parts.rest_constants], *executable.run([])]
