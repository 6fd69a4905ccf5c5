"""Backward passes that recur where nothing but XLA is around: one executable in place of a kernel for each operation."""

from collections.abc import Sequence
from functools import lru_cache
from typing import final

import attrs

from effx import caching, effects
from effx.array import Array, HostArray
from effx.effects import current_frame
from effx.flags import disable_jit
from effx.handlers.evaluate.handler import Evaluate, ProgramKernel, kernel_of
from effx.handlers.staging.stage import stage
from effx.handlers.transpose.handler import Cotangent, backward
from effx.ir.program import Atom, Program, Staged, Var
from effx.lower.placement.concrete import ConcreteArray, bound_device, on_device

__all__ = ["pull_back"]

# Running an eager gradient so often takes as long as compiling its backward pass. So a short loop loses at most as
# much again, and a loop over changing structures never compiles.
MEETINGS = 16
CAPACITY = 64  # of structures that are kept: those met last


@final
@attrs.frozen(eq=False)
class _Compiled:
    """A backward pass with the linear program's literals as further residuals.

    Attributes:
        staged: the pass; what it closes over are constants of the rules.
        kernel: runs it.
        reached: for each linear input whether it has a cotangent.
    """

    staged: Staged
    kernel: ProgramKernel
    reached: list[bool]


@final
@attrs.define(eq=False)
class _Structure:
    """What is kept of the linear programs of one structure: how often one was met, and the backward pass."""

    meetings: int = 0
    compiled: _Compiled | None = None


@lru_cache(maxsize=CAPACITY)
def _kept(structure: tuple[object, ...]) -> _Structure:
    return _Structure()


caching.kernel_caches.append(_kept.cache_clear)


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
        found = backward(general, arrays[:known], arrays[known:])
        reached[:] = [ct is not None for ct in found]
        return [ct for ct in found if ct is not None]

    types = [*general.in_types[:known], *[ct.type for ct in cotangents]]
    staged = stage(function, types, linear.name)
    return _Compiled(staged, kernel_of(staged.program), reached)


def _structure(program: Program) -> tuple[list[object], list[HostArray]] | None:
    """Returns what programs that differ in nothing but the values of literals share, and these values; None for a
    program whose transpose may depend on more.
    """
    number = {x: i for i, x in enumerate(program.inputs)}
    found: list[object] = [x.type for x in program.inputs]
    literals: list[HostArray] = []
    for e in program.equations:
        op = e.op
        if op.multiple or not type(op).__module__.startswith("effx."):
            return None
        found.append(op)
        for x in e.inputs:
            if type(x) is Var:
                found.append(number[x])
            else:
                found.append(x.type)
                literals.append(HostArray(x.value, x.type))
        number[e.outputs[0]] = len(number)
    found += [number[x] if type(x) is Var else x.type for x in program.outputs]
    return found, literals


def pull_back(
    program: Program, residuals: Sequence[Array], cotangents: Sequence[Cotangent]
) -> list[Cotangent]:
    """Transposes a linear program and applies it as `backward` does; what recurs is compiled."""
    if current_frame() is None and type(effects.outermost.handler) is Evaluate and not disable_jit.value:
        found = _recurring(program, residuals, cotangents)
        if found is not None:
            return found
    return backward(program, residuals, cotangents)


def _recurring(
    program: Program, residuals: Sequence[Array], cotangents: Sequence[Cotangent]
) -> list[Cotangent] | None:
    """Runs a backward pass as one executable; None where it is none yet, or must not be one."""
    seeds = [ct for ct in cotangents if ct is not None]
    kinds = {type(x) for x in (*residuals, *seeds)}
    devices = {bound_device(x) for x in residuals if type(x) is ConcreteArray}
    if len(seeds) < len(cotangents) or not kinds <= {ConcreteArray, HostArray} or len(devices) > 1:
        return None
    if len(program.equations) < 2:
        return None
    structure = _structure(program)
    if structure is None:
        return None
    form, literals = structure
    # The counts say where one part of the key ends and the next begins.
    kept = _kept((len(residuals), len(seeds), *[ct.type for ct in seeds], *form))
    kept.meetings += 1
    if kept.meetings < MEETINGS:
        return None
    compiled = kept.compiled = kept.compiled or _compile(program, len(residuals), seeds)
    arrays = (*compiled.staged.captured, *literals, *residuals, *seeds)
    results = iter(compiled.kernel(*[on_device(x) for x in arrays]))
    return [next(results) if reached else None for reached in compiled.reached]
