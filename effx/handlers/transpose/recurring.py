"""Compile backward passes that recur outside of all handlers: one executable instead of a kernel for each operation.

A backward pass is a program already, so it is found by its structure: operations, wiring and types, with the
literals as operands. Forward rules are not compiled so. Staging each rule once and splitting it, so that one
kernel gives an operation's value and residuals and another its transpose, was built and measured: 2.1 kernels
for an operation in place of 3.2, and the same time (80 us against 82), since a kernel with two results takes
nearly twice as long as one with one (13 us against 7.5).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import final

import attrs

from effx import caching, effects
from effx.array import Array, HostArray
from effx.effects import current_frame
from effx.flags import disable_jit
from effx.handlers.evaluate.handler import Evaluate, ProgramKernel, program_kernel
from effx.handlers.staging.stage import stage
from effx.handlers.transpose.handler import Cotangent, backward_pass
from effx.ir.ops.sharding import Move
from effx.ir.program import Atom, Program, Staged, Var
from effx.lower.placement.concrete import ConcreteArray, committed_device, to_device_operand

__all__ = ["pull_back"]

# Running an eager gradient so often takes as long as compiling its backward pass. So a short loop loses at most as
# much again, and a loop over changing structures never compiles.
# Compiled, the backward pass takes 2 us for an operation, in place of 25.
COMPILE_AFTER = 16
MAX_STRUCTURES = 64  # the number of cached structures, by least recent use


@final
@attrs.frozen(eq=False)
class _Compiled:
    """A backward pass with the linear program's literals as further residuals.

    Attributes:
        staged: the pass; its captured values are constants of the rules.
        kernel: runs it.
        reached: for each linear input whether it has a cotangent.
    """

    staged: Staged
    kernel: ProgramKernel
    reached: list[bool]


@final
@attrs.define(eq=False)
class _Structure:
    """The cache entry of linear programs of one structure: the number of uses, and the compiled backward pass."""

    count: int = 0
    compiled: _Compiled | None = None


@lru_cache(maxsize=MAX_STRUCTURES)
def _structure_entry(structure: tuple[object, ...]) -> _Structure:
    return _Structure()


caching.kernel_caches.append(_structure_entry.cache_clear)


def _compile(linear: Program, residuals: int, cotangents: Sequence[Array]) -> _Compiled:
    literals: list[Var] = []

    def variable(atom: Atom) -> Var:
        if type(atom) is Var:
            return atom
        literals.append(Var(atom.type))
        return literals[-1]

    equations = [attrs.evolve(e, inputs=tuple([variable(x) for x in e.inputs])) for e in linear.equations]
    inputs = (*literals, *linear.inputs)
    known = len(literals) + residuals
    general = Program(inputs, tuple(equations), linear.outputs, linear.name)
    reached: list[bool] = []

    def function(arrays: list[Array]) -> list[Array]:
        in_cts = backward_pass(general, arrays[:known], arrays[known:])
        reached[:] = [ct is not None for ct in in_cts]
        return [ct for ct in in_cts if ct is not None]

    types = [*general.in_types[:known], *[ct.type for ct in cotangents]]
    staged = stage(function, types, linear.name)
    return _Compiled(staged, program_kernel(staged.program), reached)


def _structure(program: Program) -> tuple[list[object], list[HostArray]] | None:
    """Returns the structure of a program without the values of literals, and these values; None for a program whose
    transpose may depend on more.
    """
    numbers = {x: i for i, x in enumerate(program.inputs)}
    structure: list[object] = [x.type for x in program.inputs]
    literals: list[HostArray] = []
    for e in program.equations:
        op = e.op
        # Rules of effx's own operations with one result read no values; a user's transpose may.
        if op.multiple or not type(op).__module__.startswith("effx."):
            return None
        structure.append(op)
        for x in e.inputs:
            if type(x) is Var:
                structure.append(numbers[x])
            else:
                structure.append(x.type)
                literals.append(HostArray(x.value, x.type))
        numbers[e.outputs[0]] = len(numbers)
    structure += [numbers[x] if type(x) is Var else x.type for x in program.outputs]
    return structure, literals


def pull_back(
    program: Program, residuals: Sequence[Array], cotangents: Sequence[Cotangent]
) -> list[Cotangent]:
    """Transposes a linear program and applies it as `backward_pass` does; a recurring structure is compiled."""
    # Under debugging flags, `disable_jit`, any handler or several devices, operations run one by one.
    if current_frame() is None and type(effects.outermost.handler) is Evaluate and not disable_jit.value:
        in_cts = _run_compiled(program, residuals, cotangents)
        if in_cts is not None:
            return in_cts
    return backward_pass(program, residuals, cotangents)


def _run_compiled(
    program: Program, residuals: Sequence[Array], cotangents: Sequence[Cotangent]
) -> list[Cotangent] | None:
    """Runs a backward pass as one executable; None if it is not compiled yet, or must not be."""
    seeds = [ct for ct in cotangents if ct is not None]
    kinds = {type(x) for x in (*residuals, *seeds)}
    devices = {committed_device(x) for x in residuals if type(x) is ConcreteArray}
    if len(seeds) < len(cotangents) or not kinds <= {ConcreteArray, HostArray} or len(devices) > 1:
        return None
    if len(program.equations) < 2 or Move in program.kinds:
        return None
    structure = _structure(program)
    if structure is None:
        return None
    structure_key, literals = structure
    # The counts delimit the parts of the key.
    entry = _structure_entry((len(residuals), len(seeds), *[ct.type for ct in seeds], *structure_key))
    entry.count += 1
    if entry.count < COMPILE_AFTER:
        return None
    compiled = entry.compiled = entry.compiled or _compile(program, len(residuals), seeds)
    arrays = (*compiled.staged.captured, *literals, *residuals, *seeds)
    results = iter(compiled.kernel(*[to_device_operand(x) for x in arrays]))
    return [next(results) if reached else None for reached in compiled.reached]
