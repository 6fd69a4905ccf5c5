"""Linear programs: recording what touches tangents, and splitting programs into known and linear parts.

Linearising is forward mode on top of this recorder: tangents are the recorder's boxes, so every
operation on them lands in a linear program, and everything else runs on outward.

Never: check that an operation is linear; transposition does.
"""

from collections.abc import Sequence
from typing import TypeVar, cast, final

import attrs

from effx.array import Array, Box
from effx.effects import Frame, Handler, Operation, Value
from effx.errors import current_source
from effx.handlers.stage import Recorder
from effx.ir.ops.base import TupleOperation
from effx.ir.ops.control import Call
from effx.ir.program import Atom, Equation, Program, Var, effect_row

__all__ = ["LinearProgram", "Record", "split"]

R = TypeVar("R")


@final
@attrs.frozen(eq=False)
class LinearProgram:
    """A program that is linear in its last inputs.

    Attributes:
        program: its first inputs are for `residuals`, the rest are linear.
        residuals: the known values that it uses.
    """

    program: Program
    residuals: tuple[Array, ...]


@final
@attrs.frozen
class Record(Handler):
    """Takes operations on linear values into a linear program and lets the rest pass."""

    name = "linearize"

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Writes one equation of the linear program."""
        # No cast() on the way of every operation: each costs 30 ns.
        arrays: tuple[Array, ...] = operands  # type: ignore[assignment]  # all values are arrays
        if type(op) is Call:
            return cast("R", self._call(frame, op, arrays))
        recorder: Recorder = frame.state  # type: ignore[assignment]  # set by who records
        types = [x.type for x in arrays]
        inputs = tuple([x.payload if x.frame is frame else recorder.capture(x) for x in arrays])  # type: ignore[attr-defined]  # a value with a frame is a Box
        if op.multiple:
            outputs = tuple([Var(t) for t in cast("TupleOperation", op).infer(*types)])
            recorder.equations.append(Equation(op, inputs, outputs, current_source()))
            return cast("R", tuple([Box(frame, var, var.type) for var in outputs]))
        var = Var(op.infer(*types))  # type: ignore[attr-defined]  # an ArrayOperation
        recorder.equations.append(Equation(op, inputs, (var,), current_source()))
        return Box(frame, var, var.type)  # type: ignore[return-value]  # R is Array for an ArrayOperation

    def _call(self, frame: Frame, op: Call, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        linear_in = tuple([x.frame is frame for x in operands])
        parts = split(op.program, linear_in)
        known_operands = [x for x in operands if x.frame is not frame]
        known = Call(parts.known, op.inline)(*known_operands) if parts.known.outputs else ()
        n = len(known) - parts.computed
        residuals = [*[operands[i] for i in parts.forwarded], *known[n:]]
        recorder = cast("Recorder", frame.state)
        inputs = [recorder.capture(x) for x in residuals]
        inputs += [cast("Box", x).payload for x in operands if x.frame is frame]
        outputs = tuple([Var(t) for t in parts.linear.out_types])
        if outputs:
            recorder.equations.append(
                Equation(Call(parts.linear, op.inline), tuple(inputs), outputs, current_source())
            )
        linear_results = iter([Box(frame, var, var.type) for var in outputs])
        known_results = iter(known)
        return tuple(
            [next(linear_results) if is_linear else next(known_results) for is_linear in parts.linear_out]
        )

    def finish(
        self, frame: Frame, inputs: Sequence[Var], results: Sequence[Array], name: str
    ) -> LinearProgram:
        """Closes the recording: `results` are boxes of the frame, or known values."""
        recorder = cast("Recorder", frame.state)
        outputs: list[Atom] = [
            cast("Atom", x.payload) if type(x) is Box and x.frame is frame else recorder.capture(x)
            for x in results
        ]
        program = Program(
            (*[var for _, var in recorder.captured], *inputs),
            tuple(recorder.equations),
            tuple(outputs),
            name,
            effect_row(recorder.equations),
        )
        return LinearProgram(program, tuple([x for x, _ in recorder.captured]))


@final
@attrs.frozen(eq=False)
class Split:
    """A program in two parts.

    Attributes:
        known: from the known inputs to the known outputs, then the computed residuals.
        linear: from the residuals, forwarded ones first, and the linear inputs to the linear outputs.
        forwarded: places of the inputs that are residuals as they are.
        computed: the number of computed residuals.
        linear_out: for each output of the whole whether it is linear.
    """

    known: Program
    linear: Program
    forwarded: tuple[int, ...]
    computed: int
    linear_out: tuple[bool, ...]


def split(program: Program, linear_in: tuple[bool, ...]) -> Split:
    """Splits a program by what depends on its linear inputs; cached in the program."""
    key = ("split", linear_in)
    found = program.derived.get(key)
    if found is None:
        found = program.derived[key] = _split(program, linear_in)
    return cast("Split", found)


def _split(program: Program, linear_in: tuple[bool, ...]) -> Split:
    linear: set[Var] = {x for x, is_linear in zip(program.inputs, linear_in, strict=True) if is_linear}
    known_equations: list[Equation] = []
    linear_equations: list[Equation] = []
    for e in program.equations:
        mask = tuple([type(x) is Var and x in linear for x in e.inputs])
        if not any(mask):
            known_equations.append(e)
        elif type(e.op) is Call:
            _split_call(e, e.op, mask, linear, known_equations, linear_equations)
        else:
            linear_equations.append(e)
            linear.update(e.outputs)
    linear_out = tuple([type(x) is Var and x in linear for x in program.outputs])
    defined = {x for e in linear_equations for x in e.outputs} | {
        x for x, is_linear in zip(program.inputs, linear_in, strict=True) if is_linear
    }
    wanted: dict[Var, None] = {}
    for e in linear_equations:
        for x in e.inputs:
            if type(x) is Var and x not in defined:
                wanted[x] = None
    place = {x: i for i, x in enumerate(program.inputs)}
    forwarded = [x for x in wanted if x in place]
    computed = [x for x in wanted if x not in place]
    known_outputs = [x for x, is_linear in zip(program.outputs, linear_out, strict=True) if not is_linear]
    return Split(
        known=Program(
            tuple([x for x, is_linear in zip(program.inputs, linear_in, strict=True) if not is_linear]),
            tuple(known_equations),
            (*known_outputs, *computed),
            program.name,
            effect_row(known_equations),
        ),
        linear=Program(
            (
                *forwarded,
                *computed,
                *[x for x, is_linear in zip(program.inputs, linear_in, strict=True) if is_linear],
            ),
            tuple(linear_equations),
            tuple([x for x, is_linear in zip(program.outputs, linear_out, strict=True) if is_linear]),
            f"linear_{program.name}",
            effect_row(linear_equations),
        ),
        forwarded=tuple([place[x] for x in forwarded]),
        computed=len(computed),
        linear_out=linear_out,
    )


def _split_call(
    e: Equation,
    op: Call,
    mask: tuple[bool, ...],
    linear: set[Var],
    known_equations: list[Equation],
    linear_equations: list[Equation],
) -> None:
    parts = split(op.program, mask)
    known_inputs = tuple([x for x, is_linear in zip(e.inputs, mask, strict=True) if not is_linear])
    residuals = tuple([Var(t) for t in parts.known.out_types[len(parts.known.outputs) - parts.computed :]])
    known_outputs = [x for x, is_linear in zip(e.outputs, parts.linear_out, strict=True) if not is_linear]
    linear_outputs = tuple([x for x, is_linear in zip(e.outputs, parts.linear_out, strict=True) if is_linear])
    if known_outputs or residuals:
        known_equations.append(
            Equation(
                Call(parts.known, op.inline), known_inputs, (*known_outputs, *residuals), e.source, e.scope
            )
        )
    if linear_outputs:
        forwarded = [e.inputs[i] for i in parts.forwarded]
        linear_inputs = [x for x, is_linear in zip(e.inputs, mask, strict=True) if is_linear]
        linear_equations.append(
            Equation(
                Call(parts.linear, op.inline),
                (*forwarded, *residuals, *linear_inputs),
                linear_outputs,
                e.source,
                e.scope,
            )
        )
        linear.update(linear_outputs)
