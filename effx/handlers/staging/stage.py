"""Stage functions of lists of arrays: run them on variables, and record their operations as a program."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import TypeVar, cast, final

import attrs

from effx import caching
from effx.array import Array, Box, HostArray
from effx.dtypes import KEYS, float0
from effx.effects import (
    Frame,
    Handler,
    Operation,
    Value,
    current_frame,
    current_scope,
    handle,
    is_in_scope,
    scope_read_flag,
    scope_within,
    surrounding_scope,
)
from effx.errors import NoTracingError, Source, TransformError, active_source, current_source
from effx.flags import check_tracer_leaks, enable_checks, no_tracing, read_trace_settings
from effx.handlers.sharding_types.axes_in_types import diverging_axes, is_tracking, make_tracked_equation
from effx.handlers.sharding_types.program_types import conform_operation
from effx.handlers.staging.renewal import find_substitute
from effx.ir.ops import decompositions as decompositions  # registers decompositions
from effx.ir.ops.base import TupleOperation
from effx.ir.ops.control import HigherOrder
from effx.ir.passes.sharding_constraints import explicit_mesh
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.ir.program import Atom, Equation, Literal, Program, Staged, Var, effect_row
from effx.ir.types import INVARIANT, ArrayType, Vma
from effx.lower.text import emit

R = TypeVar("R")
_KEYS = frozenset(KEYS.values())  # no literals: several words


@final
class Recorder:
    """The state of one staging: the equations, and the outside values that the function uses.

    Attributes:
        outer_scope: the name stack at the start of the recording, which is not part of the program's names.
        diverging_axes: the axes along which all values from outside vary.
    """

    __slots__ = ("captured", "diverging_axes", "equations", "outer_scope", "variables")

    def __init__(self, outer_scope: str = "", axes: Vma = INVARIANT) -> None:
        self.outer_scope = outer_scope
        self.diverging_axes = axes
        self.equations: list[Equation] = []
        # Captured values stay alive here, so that their ids are not reused.
        self.captured: list[tuple[Array, Var]] = []
        self.variables: dict[int, Var] = {}

    def capture(self, x: Array) -> Atom:
        """Returns the atom for a value from outside: a literal for numbers, else a hidden input."""
        if type(x) is HostArray and not x.type.shape and x.type.dtype not in _KEYS:
            value = x.value
            if not isinstance(value, bool | int | float | complex):
                value = value.item() if x.type.dtype != float0 else False
            return Literal(value, x.type)
        # One constant for NumPy data that is used again, each time in an array of its own.
        key = id(x.value) if type(x) is HostArray else id(x)
        var = self.variables.get(key)
        if var is not None and (
            type(x) is not HostArray or (var.type.matches(x.type) and var.type.weak == x.type.weak)
        ):
            return var
        if type(x) is Box and not is_in_scope(x.frame):
            return self.capture(find_substitute(x))
        t = x.type.with_vma(x.type.vma | self.diverging_axes) if self.diverging_axes else x.type
        var = self.variables[key] = Var(t)
        self.captured.append((x, var))
        return var

    def make_program(self, inputs: Sequence[Var], outputs: Sequence[Atom], name: str) -> Program:
        """Returns what was recorded as a program: of the captured values, and then the inputs."""
        return Program(
            (*[var for _, var in self.captured], *inputs),
            tuple(self.equations),
            tuple(outputs),
            name,
            effect_row(self.equations),
        )

    def relative_scope(self) -> str:
        """Returns the current name stack within the recording."""
        scope = current_scope.get()
        return scope[len(self.outer_scope) + 1 :] if scope and self.outer_scope else scope


@attrs.frozen
class Stage(Handler):
    """Records every operation; nothing reaches the handlers outside.

    Attributes:
        transform_name: the transformation that stages, for errors.
    """

    transform_name: str = "jit"
    intercepts = True
    only_records = True

    def describe(self) -> str:
        """Returns the name of the transformation that stages."""
        return self.transform_name

    def made_at(self, frame: Frame, payload: object) -> Source:
        """Returns the source location of the equation that defines the variable."""
        equations = cast("Recorder", frame.state).equations
        return next((e.source for e in equations if payload in e.outputs), None)

    def takes_static_arguments(self) -> bool:
        """Returns whether the transformation has `static_argnums`."""
        return self.transform_name in ("jit", "pmap", "checkpoint")

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Records one equation."""
        # The hottest code of staging: a cast() here costs 30 ns an operation, a comment nothing.
        recorder: Recorder = frame.state  # type: ignore[assignment]  # set by `stage`
        arrays: tuple[Array, ...] = operands  # type: ignore[assignment]  # all values are arrays
        inputs = tuple([x.payload if x.frame is frame else recorder.capture(x) for x in arrays])  # type: ignore[attr-defined]  # a value with a frame is a Box
        if op.multiple:
            types = cast("TupleOperation", op).infer(*[x.type for x in arrays])
            outputs = tuple([Var(t) for t in types])
            recorder.equations.append(Equation(op, inputs, outputs, current_source(3), current_scope.get()))
            return cast("R", tuple([Box(frame, var, var.type) for var in outputs]))
        t: ArrayType = op.infer(*[x.type for x in arrays])  # type: ignore[attr-defined]  # an ArrayOperation
        var = Var(t)
        recorder.equations.append(Equation(op, inputs, (var,), current_source(3), current_scope.get()))
        return Box(frame, var, t)  # type: ignore[return-value]  # R is Array for an ArrayOperation


# A separate handler, so that plain programs have no cost for axes in types.
@final
@attrs.frozen
class TrackingStage(Stage):
    """Records every operation, with varying and sharding axes in the types of results."""

    name = "stage"

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Records one equation."""
        recorder, arrays = cast("Recorder", frame.state), cast("tuple[Array, ...]", operands)
        inputs = tuple(
            [
                cast("Atom", x.payload) if type(x) is Box and x.frame is frame else recorder.capture(x)
                for x in arrays
            ]
        )
        types = [x.type for x in inputs]  # captured values may vary along more axes than outside
        if op.multiple and isinstance(op, HigherOrder):
            op = cast("Operation[R]", conform_operation(op, types))
        equation = make_tracked_equation(op, inputs, types, current_scope.get())
        recorder.equations.append(equation)
        boxes = tuple([Box(frame, var, var.type) for var in equation.outputs])
        return cast("R", boxes if op.multiple else boxes[0])


def make_literal(frame: Frame, number: HostArray) -> Box:
    """Returns a number as a value of the function that is being staged: where it is used, a literal is.

    Args:
        frame: of a `Stage`.
        number: of rank 0, no key.
    """
    return Box(frame, cast("Recorder", frame.state).capture(number), number.type)


def track_axes_from_here() -> None:
    """Has the stages around show sharding axes in types from here on: a value is sharded over Explicit axes.

    No mesh was in force and no input was sharded when they began.
    """
    frame = current_frame()
    while frame is not None:
        if type(frame.handler) is Stage:
            frame.handler = TrackingStage(frame.handler.transform_name)
        frame = frame.outer


def read_literal(x: Array) -> HostArray | None:
    """Returns the number that `make_literal` made a value of; None for other values."""
    if type(x) is not Box or type(x.payload) is not Literal or not isinstance(x.frame.handler, Stage):
        return None
    return HostArray(x.payload.value, x.payload.type)


def stage(
    function: Callable[[list[Array]], Sequence[Array]],
    types: Sequence[ArrayType],
    name: str = "f",
    transform_name: str = "jit",
    origin: str = "",
) -> Staged:
    """Records a function of a list of arrays as a program.

    Args:
        function: takes one array for each type, returns arrays.
        types: the inputs' types.
        name: the program's name.
        transform_name: the transformation that stages, for errors.
        origin: the user's function, for errors.

    Returns:
        The program and the values that the function closed over, its first inputs.
    """
    if no_tracing.value:
        raise NoTracingError(f"{transform_name}: no_tracing is on, and staging {origin or name} is refused")
    # The program may be called from elsewhere, so scopes around its staging are not part of it.
    outer_source, outer_scope = active_source.get(), current_scope.get()
    outer_scope_around, outer_scope_asked = surrounding_scope.get(), scope_read_flag.get()
    try:
        active_source.set(None)
        current_scope.set("")
        surrounding_scope.set("")
        scope_read_flag.set(None)
        with handle(
            TrackingStage(transform_name) if is_tracking(types) else Stage(transform_name), origin
        ) as frame:
            recorder = frame.state = Recorder(axes=diverging_axes.value)
            if recorder.diverging_axes:
                types = [t.with_vma(t.vma | recorder.diverging_axes) for t in types]
            inputs = [Var(t) for t in types]
            results = function([Box(frame, var, var.type) for var in inputs])
            outputs: list[Atom] = [
                cast("Atom", x.payload) if type(x) is Box and x.frame is frame else recorder.capture(x)
                for x in results
            ]
    finally:  # each restored even after interrupts
        try:
            active_source.set(outer_source)
        finally:
            try:
                current_scope.set(outer_scope)
            finally:
                try:
                    surrounding_scope.set(outer_scope_around)
                finally:
                    scope_read_flag.set(outer_scope_asked)
    program = recorder.make_program(inputs, outputs, name)
    if check_tracer_leaks.value:
        from effx.handlers.staging.leaks import check_leaks  # a search of all objects

        del results
        check_leaks(frame, transform_name, origin or name)
    if enable_checks.value:
        from effx.ir.checker import check_program  # imported only for checks

        check_program(program)
    return Staged(program, tuple([x for x, _ in recorder.captured]))


@final
class SourceTracker:
    """Sets the source location and name stack of performed operations to those of a program's equations.

    That is its line in the user's source, and its scopes within those around. Whoever makes one puts `source` and
    `outer` back in the end, in two `finally`s of its own: an interrupt can come before a function has begun.
    """

    __slots__ = ("outer", "scope", "source")

    def __init__(self) -> None:
        self.source, self.outer, self.scope = active_source.get(), current_scope.get(), ""

    def move_to(self, equation: Equation) -> None:
        """Sets the source location and name stack of an equation."""
        active_source.set(equation.source)
        if equation.scope != self.scope:
            self.scope = equation.scope
            current_scope.set(scope_within(self.outer, self.scope))


def run_program(
    program: Program,
    arguments: Sequence[Array],
    replace: Callable[[Operation[object]], Callable[..., object]] | None = None,
) -> list[Array]:
    """Performs a program's operations under the current handlers.

    Args:
        program: the program.
        arguments: one array for each input.
        replace: returns what is called instead of an operation.

    Returns:
        One array for each output.
    """
    env: dict[Var, Array] = dict(zip(program.inputs, arguments, strict=True))

    def read(atom: Atom) -> Array:
        return env[atom] if type(atom) is Var else HostArray(atom.value, atom.type)

    tracker = SourceTracker()
    # What types could say was asked when the program was staged, and here and there its user said the rest.
    sharding_context = nullcontext() if explicit_mesh(program) is None else allow_unresolved(True)
    try:
        with sharding_context:
            for equation in program.equations:
                tracker.move_to(equation)
                op = equation.op if replace is None else replace(equation.op)
                result = op(*[read(x) for x in equation.inputs])
                if equation.op.multiple:
                    env.update(zip(equation.outputs, cast("tuple[Array, ...]", result), strict=True))
                else:
                    env[equation.outputs[0]] = cast("Array", result)
    finally:
        try:
            active_source.set(tracker.source)
        finally:
            current_scope.set(tracker.outer)
    return [read(x) for x in program.outputs]


def stage_form(form: emit.Form, op: Operation[object], types: tuple[ArrayType, ...]) -> Program:
    """Returns a form of an operation, a function `(op, *operands)`, for operands of these types as a program.

    Raises:
        TransformError: the form closes over arrays.
    """
    return _stage_form(form, op, types, read_trace_settings())


@lru_cache(maxsize=1024)
def _stage_form(
    form: emit.Form, op: Operation[object], types: tuple[ArrayType, ...], settings: tuple[object, ...]
) -> Program:
    def body(operands: list[Array]) -> Sequence[Array]:
        result = form(op, *operands)
        return cast("Sequence[Array]", result) if op.multiple else [cast("Array", result)]

    staged = stage(body, types, op.name, op.name)
    if staged.captured:
        raise TransformError(
            f"{op.name}: the decomposition closes over arrays; make them operands or numbers"
        )
    return staged.program


emit.stage_form.append(stage_form)
caching.other_caches.append(_stage_form.cache_clear)
