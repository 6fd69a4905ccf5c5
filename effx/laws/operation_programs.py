"""Programs of chosen operations, as source: several in one program, alone and in calls, branches and loops."""

from collections.abc import Sequence
from typing import final

import attrs
import numpy as np

from effx.array import Array
from effx.errors import EffxError
from effx.laws.drawing import AnyOperation
from effx.laws.printing import PREAMBLE, SourcePrinter
from effx.laws.programs import TypedProgram
from effx.laws.registry import Case
from effx.laws.ruled_operations import Kind, RuledOperation, is_compiled, on_reference
from effx.laws.subjects import HandlerSubject, InterceptSubject
from effx.numpy import asarray

MOST_OPERATIONS = 6  # of one program
MOST_INSTANCES = 3  # of one class
KNOWN = 0.5
CONSTRUCTS = {
    "": "{call}",
    "jit": "effx.jit(g)({xs})",
    "cond": "lax.cond(known > 0.1357, g, lambda *xs: g(*xs), {xs})",
    "scan": "lax.scan(lambda carry, _: (carry, {call}), 0.0, None, length=2)[1]",
    "checkpoint": "effx.checkpoint(g)({xs})",
    "fori": "lax.fori_loop(0, 2, lambda i, ys: {call}, {call})",
}
RESULTS_USED = ("{0} + {0}", "{0} * 0.5", "-{0}", "enp.sin({0})")


@final
@attrs.frozen(eq=False)
class Step:
    """An operation in a program.

    Attributes:
        kind: its class.
        op: the operation.
        operands: its operands.
        arguments: the indices of those that are the program's arguments; others are constants of the source.
        used: an expression of the result, with `{0}` for it; empty if there is none.
    """

    kind: Kind
    op: AnyOperation
    operands: tuple[Array, ...]
    arguments: tuple[int, ...]
    used: str = ""


@final
@attrs.frozen(eq=False)
class OperationProgram:
    """A program of operations with a point.

    Attributes:
        steps: its operations.
        case: the arguments of laws of programs: the handler, the program, its arguments with `known` last.
    """

    steps: tuple[Step, ...]
    case: Case


class _Namer:
    """Finds source for operations, and names for those that no source can say."""

    def __init__(self) -> None:
        self.printer = SourcePrinter()
        self.names: dict[str, object] = {}

    def source_of(self, op: AnyOperation) -> str:
        """Returns an expression of an operation."""
        printer = SourcePrinter()
        scope: dict[str, object] = {}
        try:
            text = printer.expression(op)
            exec("\n".join(printer.imports), scope)
            said = not printer.notes and not printer.definitions and eval(text, scope) == op
        except Exception:  # noqa: BLE001 - whatever a user's class raises, its source cannot be used
            said = False
        if said:
            return self.printer.expression(op)
        name = f"operation{len(self.names)}"
        self.names[name] = op
        return name

    def imports(self) -> list[str]:
        """Returns the lines that import the operations' classes."""
        return [
            *sorted(self.printer.imports[len(PREAMBLE) :]),
            *[f"# {n} is {' '.join(repr(op).split())[:90]}" for n, op in self.names.items()],
        ]


def write_operation_program(
    steps: Sequence[Step], construct: str = ""
) -> tuple[TypedProgram, tuple[Array, ...]]:
    """Writes a program that performs operations in a construct, and returns it with its arguments.

    Args:
        steps: the operations with their operands.
        construct: one of `CONSTRUCTS`.
    """
    namer = _Namer()
    arguments: list[Array] = []
    lines: list[str] = []
    results: list[str] = []
    for index, step in enumerate(steps):
        texts: list[str] = []
        for i, x in enumerate(step.operands):
            if i in step.arguments:
                texts.append(f"x{len(arguments)}")
                arguments.append(x)
            else:
                texts.append(_constant_source(namer, x))
        name = f"y{index}"
        lines.append(f"{name} = {namer.source_of(step.op)}({', '.join(texts)})")
        results.append(f"*{name}" if step.op.multiple else name)
        if step.used:
            results.append(step.used.format(name))
    xs = ", ".join([f"x{i}" for i in range(len(arguments))])
    returned = CONSTRUCTS[construct].format(call=f"g({xs})", xs=xs)
    source = "\n".join(
        [
            f"def f({xs}{', ' if xs else ''}known):",
            *[f"    {line}" for line in namer.imports()],
            f"    def g({xs}):",
            *[f"        {line}" for line in lines],
            f"        return ({', '.join(results)},)",
            f"    return {returned}",
        ]
    )
    shapes = (*[x.shape for x in arguments], ())
    program = TypedProgram(source, shapes, known=True, names=namer.names)
    return program, (*arguments, asarray(KNOWN, np.float64))


def _constant_source(namer: _Namer, x: Array) -> str:
    if 0 in x.shape:
        return f"np.zeros({x.shape}, {namer.printer.expression(x.dtype)})"
    return namer.printer.expression(np.asarray(x))


def write_operation_programs(
    subject: HandlerSubject | InterceptSubject, operations: Sequence[RuledOperation]
) -> list[OperationProgram]:
    """Writes programs of the operations that a handler has rules for: each in some instances, the constructs in turn."""
    with on_reference():
        # What runs on XLA would be compiled again for each batch and loop.
        fast = [operation for operation in operations if not is_compiled(operation.kind)]
        steps = [step for operation in fast for step in _steps_of(subject, operation)]
        names = _constructs_of(subject)
        return [
            _write_first_that_runs(
                subject, steps[start : start + MOST_OPERATIONS], (names[number % len(names)], "")
            )
            for number, start in enumerate(range(0, len(steps), MOST_OPERATIONS))
        ]


def write_single_programs(
    program: OperationProgram, constructs: Sequence[str] = tuple(CONSTRUCTS)
) -> list[OperationProgram]:
    """Writes a program for each operation of a program, to find the one that fails.

    Args:
        program: the program.
        constructs: in which of `CONSTRUCTS`; as far as the handler can run them.
    """
    subject = program.case[0]
    assert isinstance(subject, HandlerSubject | InterceptSubject)
    usable = [name for name in _constructs_of(subject) if name in constructs]
    with on_reference():
        return [
            _write_first_that_runs(subject, (step,), (name, "")) for name in usable for step in program.steps
        ]


def _steps_of(subject: HandlerSubject | InterceptSubject, operation: RuledOperation) -> list[Step]:
    """Returns instances of an operation with operands: of floats of 64 bits where it takes them, and not empty."""
    ordered = sorted(operation.runnable, key=lambda x: (x.instance.size == 0, not x.instance.is_judged))
    steps: list[Step] = []
    for runnable in ordered[:MOST_INSTANCES]:
        instance = runnable.instance
        floats = [i for i, t in enumerate(instance.types) if t.kind == "f"]
        if isinstance(subject, HandlerSubject):
            # Arguments become boxes, so they are operands that may be boxed together.
            fitting = [b for b in runnable.boxed if all([i in floats for i in b])]
            if not fitting or not instance.is_judged:
                continue
            floats = list(fitting[0])
        operands = instance.operands(0)
        steps.append(
            Step(
                operation.kind,
                instance.op,
                operands,
                tuple(floats),
                _use_of_result(subject, instance.op, operands),
            )
        )
    return steps


def _use_of_result(
    subject: HandlerSubject | InterceptSubject, op: AnyOperation, operands: Sequence[Array]
) -> str:
    """Returns an expression of an operation's result that the handler supports."""
    if op.multiple:
        return ""
    result = op(*operands)
    if not isinstance(result, Array) or result.dtype != np.float64:
        return ""
    supported = [
        text
        for text in RESULTS_USED
        if isinstance(subject, InterceptSubject) or subject.supports(text, (result.shape,))
    ]
    return supported[0] if supported else ""


def _constructs_of(subject: HandlerSubject | InterceptSubject) -> tuple[str, ...]:
    if isinstance(subject, InterceptSubject):
        return tuple(CONSTRUCTS)
    usable = subject.constructs()
    return tuple([name for name in CONSTRUCTS if not name or name in usable])


def _write_first_that_runs(
    subject: HandlerSubject | InterceptSubject, steps: Sequence[Step], constructs: Sequence[str]
) -> OperationProgram:
    """Writes a program in the first construct that the handler can run; the last one is not tried."""
    *first, last = constructs
    for construct in first:
        program, xs = write_operation_program(steps, construct)
        try:
            subject.run(program, xs)
        except EffxError:
            continue
        return OperationProgram(tuple(steps), (subject, program, xs))
    return OperationProgram(tuple(steps), (subject, *write_operation_program(steps, last)))
