"""Errors for programs that XLA refuses or fails to run: they name the function, and the equation at fault."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import attrs

from effx.effects import all_optional
from effx.errors import BackendError, set_error_position
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Equation, Program, Var
from effx.ir.types import ArrayType
from effx.lower.placement.processes import computation_error
from effx.lower.placement.shardings import Device

# Programs of one equation that are compiled to find the one that XLA refuses.
TRIED = 200

Around = Callable[[Program], Program]


def refusal_error(program: Program, reason: str, refuses: Callable[[Program], bool]) -> BackendError:
    """Returns the error for a program that XLA does not compile.

    XLA's message names no line. So each equation is compiled by itself, those inside of loops and branches before them,
    until XLA refuses one as well: this costs nothing without an error, and the equation that is named does fail.

    Args:
        program: what was to be compiled.
        reason: XLA's message.
        refuses: says whether XLA refuses another program with the same message.
    """
    for e, alone in islice(_isolate_equations(program, lambda p: p, set()), TRIED):
        if refuses(alone):
            inputs_text, outputs_text = [
                ", ".join([repr(x.type) for x in side]) for side in (e.inputs, e.outputs)
            ]
            error = BackendError(
                f"compile: XLA refused {e.op.name} ({inputs_text}) -> ({outputs_text}): {reason}"
            )
            set_error_position(error, e.source)
            return error
    return BackendError(f"compile: XLA refused the program {program.name}: {reason}")


def run_error(
    name: str, devices: tuple[Device, ...], out_types: tuple[ArrayType, ...], error: Exception
) -> BackendError:
    """Returns the error for a program whose run fails in XLA, at once or when its results are awaited."""
    if "RESOURCE_EXHAUSTED" not in str(error):
        return computation_error(f"{name}: failed on {device_range_text(devices)}", error)
    shown = ", ".join(map(repr, out_types[:4])) + ", ..." * (len(out_types) > 4)
    size = sum([t.size * t.dtype.itemsize for t in out_types])
    return BackendError(
        f"{name}: out of memory on {device_range_text(devices)}; the results ({shown}) take {size} bytes"
    )


def device_range_text(devices: tuple[Device, ...]) -> str:
    """Returns the first device's name, and the last one's if there are several."""
    return str(devices[0]) if len(devices) == 1 else f"{devices[0]} to {devices[-1]}"


def _isolate_equations(
    program: Program, around: Around, visited: set[object]
) -> Iterator[tuple[Equation, Program]]:
    """Yields equations with programs of each alone, the innermost first, none twice."""
    for e in program.equations:
        op = e.op
        if isinstance(op, HigherOrder):
            inside = partial(_wrap_in_map, around, op) if isinstance(op, ParallelMap) else around
            for inner in op.programs:
                if inner not in visited:
                    visited.add(inner)
                    yield from _isolate_equations(inner, inside, visited)
        key = (op, tuple([x.type for x in e.inputs]))
        if key in visited:
            continue
        visited.add(key)
        inputs = tuple([Var(x.type) for x in e.inputs])
        outputs = tuple([Var(x.type) for x in e.outputs])
        single = attrs.evolve(e, inputs=inputs, outputs=outputs)
        alone = around(Program(inputs, (single,), outputs, op.name, op.effects))
        if all_optional(alone.effects):
            yield e, alone


def _wrap_in_map(around: Around, op: ParallelMap, program: Program) -> Program:
    """Returns a parallel map of a program, with the axis and the devices of `op`, in the maps around it."""
    every = tuple(range(len(op.axes)))
    inside = attrs.evolve(
        op,
        body=program,
        cuts_in=(every,) * len(program.inputs),
        cuts_out=(every,) * len(program.outputs),
    )
    inputs = tuple([Var(t) for t in inside.in_types])
    outputs = tuple([Var(t) for t in inside.infer(*inside.in_types)])
    return around(
        Program(inputs, (Equation(inside, inputs, outputs),), outputs, program.name, inside.effects)
    )
