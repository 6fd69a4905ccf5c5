"""Record operations on tangents as a linear program. Linearisation is forward mode on top of this recorder:
tangents are the recorder's boxes, so every operation on them is recorded, and the others run on the outer
handlers.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast, final

import attrs

from effx.array import Array, Box
from effx.effects import Frame, Handler, Operation, Value, current_scope, handle
from effx.errors import current_source
from effx.handlers.linear.partial_eval import OperationParts, split_operation
from effx.handlers.recursion.payloads import must_perform_once
from effx.handlers.sharding_types.axes_in_types import is_tracking, make_tracked_equation, retype
from effx.handlers.sharding_types.program_types import conform_operation
from effx.handlers.staging.stage import Recorder
from effx.ir.ops.base import TupleOperation
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.convert import OptimizationBarrier
from effx.ir.program import Atom, Equation, Program, Var
from effx.ir.types import ArrayType

R = TypeVar("R")


@final
@attrs.frozen(eq=False)
class LinearProgram:
    """A program that is linear in its last inputs.

    Attributes:
        program: the program; its first inputs are `residuals`, the others are linear.
        residuals: the known values that the program uses.
    """

    program: Program
    residuals: tuple[Array, ...]


@attrs.frozen
class LinearRecorder(Handler):
    """Records operations on linear values in a linear program and forwards the others."""

    name = "linearize"

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Writes one equation of the linear program."""
        # No cast() on the way of every operation: each costs 30 ns.
        arrays: tuple[Array, ...] = operands  # type: ignore[assignment]  # all values are arrays
        if op.multiple and isinstance(op, HigherOrder):
            parts = split_operation(
                op, tuple([x.frame is frame for x in arrays]), must_perform_once(frame.outer)
            )
            if parts is not None:
                return cast("R", self._perform_split(frame, op, parts, arrays))
        if type(op) is OptimizationBarrier and not all([x.frame is frame for x in arrays]):
            # Value by value: a known operand of a barrier has a known result.
            known = iter(op(*[x for x in arrays if x.frame is not frame]))
            boxed = iter(self.handle(frame, op, tuple([x for x in arrays if x.frame is frame])))
            return cast("R", tuple([next(boxed) if x.frame is frame else next(known) for x in arrays]))
        recorder: Recorder = frame.state  # type: ignore[assignment]  # set by `record_linear` and `linearize`
        types = [x.type for x in arrays]
        inputs = tuple([x.payload if x.frame is frame else recorder.capture(x) for x in arrays])  # type: ignore[attr-defined]  # a value with a frame is a Box
        if op.multiple:
            outputs = tuple([Var(t) for t in cast("TupleOperation", op).infer(*types)])
            recorder.equations.append(
                Equation(op, inputs, outputs, current_source(3), recorder.relative_scope())
            )
            return cast("R", tuple([Box(frame, var, var.type) for var in outputs]))
        var = Var(op.infer(*types))  # type: ignore[attr-defined]  # an ArrayOperation
        recorder.equations.append(Equation(op, inputs, (var,), current_source(3), recorder.relative_scope()))
        return Box(frame, var, var.type)  # type: ignore[return-value]  # R is Array for an ArrayOperation

    def _perform_split(
        self, frame: Frame, op: HigherOrder, parts: OperationParts, operands: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        """Performs the known part outward, and records the linear part."""
        known: tuple[Array, ...] = ()
        if parts.known is not None:
            known = parts.known(*[operands[i] for i in parts.known_operands])
        recorder = cast("Recorder", frame.state)
        outputs: tuple[Var, ...] = ()
        if parts.linear is not None:
            sources = parts.select_linear_operands(operands, parts.split_known_results(known)[1])
            inputs = [cast("Box", x).payload if x.frame is frame else recorder.capture(x) for x in sources]
            outputs = tuple(
                [Var(t) for t in cast("TupleOperation", parts.linear).infer(*[x.type for x in sources])]
            )
            recorder.equations.append(
                Equation(parts.linear, tuple(inputs), outputs, current_source(3), recorder.relative_scope())
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
        outputs = [_operand_atom(recorder, frame, x) for x in results]
        program = recorder.make_program(inputs, outputs, name)
        return LinearProgram(program, tuple([x for x, _ in recorder.captured]))


@final
@attrs.frozen
class TrackingLinearRecorder(LinearRecorder):
    """Records operations on linear values, with varying axes in the results' types."""

    name = "linearize"

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Writes one equation of the linear program."""
        recorder, arrays = cast("Recorder", frame.state), cast("tuple[Array, ...]", operands)
        if op.multiple and isinstance(op, HigherOrder):
            op = cast("Operation[R]", conform_operation(op, [x.type for x in arrays]))
        if not op.multiple:
            inputs = tuple([_operand_atom(recorder, frame, x) for x in arrays])
            equation = make_tracked_equation(op, inputs, [x.type for x in arrays], recorder.relative_scope())
            recorder.equations.append(equation)
            (var,) = equation.outputs
            return cast("R", Box(frame, var, var.type))
        # Operations that hold programs are split first, and then recorded.
        first_equation = len(recorder.equations)
        results = cast("tuple[Array, ...]", LinearRecorder.handle(self, frame, op, operands))
        for e in recorder.equations[first_equation:]:
            retype(e)
        return cast("R", tuple([_refresh_type(frame, x) for x in results]))


def _operand_atom(recorder: Recorder, frame: Frame, x: Array) -> Atom:
    return cast("Atom", x.payload) if type(x) is Box and x.frame is frame else recorder.capture(x)


def _refresh_type(frame: Frame, x: Array) -> Array:
    """Returns a new box with its variable's type."""
    return Box(frame, x.payload, cast("Var", x.payload).type) if type(x) is Box and x.frame is frame else x


def make_linear_recorder(types: Sequence[ArrayType]) -> LinearRecorder:
    """Returns the handler that records a linear program for inputs of these types."""
    return TrackingLinearRecorder() if is_tracking(types) else LinearRecorder()


def record_linear(
    function: Callable[[list[Array]], Sequence[Array]], inputs: Sequence[Var]
) -> tuple[LinearProgram, list[bool]]:
    """Records a linear function.

    Returns:
        The program of the outputs that depend on the inputs, and for each result whether it is one of them.
    """
    record = make_linear_recorder([x.type for x in inputs])
    with handle(record) as frame:
        frame.state = Recorder(current_scope.get())
        results = function([Box(frame, var, var.type) for var in inputs])
        dependent = [type(y) is Box and y.frame is frame for y in results]
        linear_results = [y for y, d in zip(results, dependent, strict=True) if d]
        return record.finish(frame, inputs, linear_results, "linear"), dependent
