"""The outermost handler: runs operations on XLA, one compiled kernel for each operation and type.

Never: be installed; it is the end of every handler stack.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import TypeVar, cast, final
from weakref import ref

import attrs

from effx import caching, effects, flags
from effx.array import Array, HostArray
from effx.dtypes import int32, int64
from effx.effects import Effect, Frame, Handler, Label, Operation, Value, all_optional
from effx.errors import AxisNameError, NoRuleError
from effx.flags import read_trace_settings
from effx.handlers.evaluate.by_numpy import NUMPY_CALLS, NUMPY_RULES, can_evaluate_by_numpy, evaluate_by_numpy
from effx.handlers.evaluate.lowering_passes import order_effects
from effx.handlers.sharding_types.axes_in_types import infer_result_types
from effx.handlers.sharding_types.program_types import conform_operation
from effx.handlers.staging.stage import run_program
from effx.ir.ops.base import Elementwise
from effx.ir.ops.checkpoint import Checkpoint, contains_python_function
from effx.ir.ops.collective import UNNAMED
from effx.ir.ops.control import Call, HigherOrder, contains_operation
from effx.ir.ops.custom import CustomCall, CustomTangent
from effx.ir.ops.host import Hosted, RunsEagerly
from effx.ir.ops.shape import DynamicSlice, Slice
from effx.ir.ops.sharding import Move
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.ir.program import Equation, Program, Var
from effx.ir.types import ArrayType, array_type
from effx.lower.placement.assignment import assignment_for
from effx.lower.placement.backends import default_backend
from effx.lower.placement.concrete import (
    ConcreteArray,
    device_put,
    place_on_device,
    to_concrete,
    to_device_operand,
)
from effx.lower.runtime.callbacks import mark_running, run_nested
from effx.lower.runtime.dispatch import FastPath, fast_path, make_fast_function
from effx.lower.runtime.executables import Executable, compile_program
from effx.lower.text.emit import consists_of_operations

R = TypeVar("R")

ProgramKernel = Callable[..., tuple[ConcreteArray, ...]]

CAPACITY = 8192  # the number of cached kernels, by least recent use

_own_functions: dict[type[Operation[object]], Callable[..., object]] = {}


def run_with(kind: type[Operation[object]], function: Callable[..., object] | None) -> None:
    """Has eager calls of a class of operations run a function of the operation and its operands, not a kernel.

    A checkpoint outside of `jit` that holds such an operation runs its operations one by one.

    Args:
        kind: the class. function: None for the kernels again.
    """
    if function is None:
        _own_functions.pop(kind, None)
    else:
        _own_functions[kind] = function
    _operation_kernel.cache_clear()


@final
class Kernel:
    """The function that runs one operation.

    Attributes:
        run: a function of arrays on a device; it is replaced once the operation is used often.
    """

    __slots__ = ("run",)

    def __init__(self, run: Callable[..., object]) -> None:
        self.run = run


@final
@attrs.frozen
class Evaluate(Handler):
    """Runs operations on XLA."""

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        """Runs one operation on concrete arrays."""
        # Every eager operation passes here: no cast(), which costs 30 ns.
        if op.multiple:
            if isinstance(op, HigherOrder):
                return _run_higher_order(op, operands)  # type: ignore[arg-type, return-value]  # arrays
            if isinstance(op, Hosted):
                return _run_on_host(op, operands)  # type: ignore[arg-type, return-value]  # arrays
            if isinstance(op, RunsEagerly):
                results = op.run_eagerly(*[to_device_operand(x) for x in operands])  # type: ignore[arg-type]  # arrays
                return tuple([to_concrete(y) for y in results])  # type: ignore[return-value]  # a tuple of arrays
        kernel = _operation_kernel(op).run
        for x in operands:
            if type(x) is not ConcreteArray:
                return kernel(*[to_device_operand(x) for x in operands])  # type: ignore[arg-type, return-value]  # arrays
        return kernel(*operands)  # type: ignore[return-value]  # a kernel returns the operation's results


def _run_higher_order(op: HigherOrder, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    if not all_optional(op.effects):
        for effect in op.effects:
            if effect.carry_out is not None:
                return cast("tuple[Array, ...]", effect.carry_out(op, arrays))
        raise unhandled_effects_error(op.name, op.effects)
    if type(op) is CustomCall or type(op) is CustomTangent:
        # Functions with rules are staged at each call under handlers: they are run, not compiled.
        if op.program is None:
            raise op.backward.no_forward_mode()
        if type(op) is CustomTangent:
            arrays = op.group_operands(arrays).of_program
        return tuple([to_concrete(y) for y in run_program(op.program, arrays)])
    types = [x.type for x in arrays]
    if any([t.explicit_sharding is not None for t in types]):
        op = conform_operation(op, types)
    if type(op) is Checkpoint and any([contains_operation(op.program, kind) for kind in _own_functions]):
        return tuple([to_concrete(y) for y in run_program(op.program, arrays)])
    program = higher_order_program(op, types)
    kernel = program.derived.get("kernel")
    if kernel is None:
        body = op.programs[0]
        runs_python = type(op) is Checkpoint and contains_python_function(body)
        kernel = program.derived["kernel"] = (
            _run_each_operation(body) if runs_python else program_kernel(program)
        )
    return cast("ProgramKernel", kernel)(*[to_device_operand(x) for x in arrays])


def _run_each_operation(program: Program) -> ProgramKernel:
    """Returns a function that runs a program's operations one by one, without compilation."""
    return lambda *arrays: tuple([to_concrete(y) for y in run_program(program, arrays)])


def _run_on_host(op: Hosted, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Runs an operation on the host: nothing is compiled, and nothing refers to the operation afterwards."""
    types = op.infer(*[x.type for x in arrays])
    with mark_running():
        results = run_nested(op, [to_concrete(x).host(op.name) for x in arrays])
    return tuple([place_on_device(y, t) for y, t in zip(results, types, strict=True)])


@lru_cache(maxsize=CAPACITY)
def _operation_kernel(op: Operation[object]) -> Kernel:
    if not all_optional(op.effects):
        raise unhandled_effects_error(op.name, op.effects)
    own = _own_functions.get(type(op))
    return _make_kernel(op) if own is None else Kernel(lambda *arrays: own(op, *arrays))


def _make_kernel(op: Operation[object]) -> Kernel:
    if type(op) is Move:
        target = op.target
        return Kernel(lambda x: device_put(x, target))
    if type(op) is Slice and all([s == 1 for s in op.strides]):
        return Kernel(_slice_kernel(op))
    if type(op) in NUMPY_RULES:
        return numpy_first_kernel(op)

    # effx's own elementwise decompositions read no settings.
    reads_no_settings = isinstance(op, Elementwise) and type(op).__module__.startswith("effx.")
    if reads_no_settings or not consists_of_operations(type(op), default_backend()):
        return Kernel(compile_operation(op))
    return Kernel(_compile_for_settings(op))


def _compile_for_settings(op: Operation[object]) -> Callable[..., object]:
    """Returns the function that runs an operation which decomposes, in the form that the settings in force give it."""
    compile_once = lru_cache(maxsize=16)(lambda settings: compile_operation(op))

    def run(*arrays: ConcreteArray) -> object:
        result: object = compile_once(read_trace_settings())(*arrays)
        return result

    return run


def numpy_first_kernel(op: Operation[object]) -> Kernel:
    """Returns a kernel that runs an operation's first calls by NumPy if possible, and compiles it by XLA afterwards.

    C++ would call Python for ever if the first call ran there. So C++ is not used before an operation has been called
    often on arrays of some types, and then it is used for all types.
    """
    # Through Python each call would cost 25 us instead of 7.
    compiled_run = compile_operation(op)
    # By operand types: the number of calls left, and the result's type if NumPy may compute it.
    seen: dict[tuple[bool, tuple[ArrayType, ...]], tuple[int, ArrayType | None]] = {}

    def run(*arrays: ConcreteArray) -> object:
        types = tuple([x.type for x in arrays])
        key = allow_unresolved.value, types
        if key in seen:
            calls_left, numpy_type = seen[key]
        else:
            (result_type,) = infer_result_types(op, types)
            calls_left, numpy_type = (
                NUMPY_CALLS,
                result_type if can_evaluate_by_numpy(op, types, result_type) else None,
            )
        # An operation's kernel is a Python function until it is called often for some types, and then C++'s,
        # for all types.
        if not calls_left:
            kernel.run = compiled_run
            return compiled_run(*arrays)
        if numpy_type is not None:
            for x in arrays:
                x._check_alive(op.name)
            result = evaluate_by_numpy(op, arrays, numpy_type)
            if result is not None:
                seen[key] = calls_left - 1, numpy_type
                return result
        seen[key] = calls_left - 1, None
        return compiled_run(*arrays)

    kernel = Kernel(run)
    return kernel


def compile_operation(op: Operation[object]) -> Callable[..., object]:
    """Returns the function of arrays on a device that runs one operation."""
    programs: dict[tuple[bool, tuple[ArrayType, ...]], Program] = {}

    def miss(*arrays: ConcreteArray) -> tuple[object, FastPath | None, bool]:
        types = tuple([x.type for x in arrays])
        program = programs.get((allow_unresolved.value, types))
        if program is None:
            program = programs[allow_unresolved.value, types] = operation_program(op, types)
        return _run_first_time(program, arrays, op.multiple)

    return make_fast_function(op.name, miss, miss)


caching.kernel_caches.append(_operation_kernel.cache_clear)


def run_kernel(op: Operation[object], *arrays: Array) -> object:
    """Runs an operation's kernel, whatever `run_with` has set."""
    return _make_kernel(op).run(*[to_device_operand(x) for x in arrays])


def operation_program(op: Operation[object], types: tuple[ArrayType, ...]) -> Program:
    """Returns a program of a single operation."""
    inputs = tuple([Var(t) for t in types])
    outputs = tuple([Var(t) for t in infer_result_types(op, types)])
    return Program(inputs, (Equation(op, inputs, outputs),), outputs, op.name)


def program_kernel(program: Program) -> ProgramKernel:
    """Returns a function of arrays on a device that runs a program to a tuple; the caller must hold the program."""

    # The program refers to the function, which must not refer back: so both are freed at once.
    owner = ref(program)

    def miss(*arrays: ConcreteArray) -> tuple[object, FastPath | None, bool]:
        held_program = owner()
        assert held_program is not None
        return _run_first_time(held_program, arrays, True)

    return make_fast_function(program.name, miss, miss)


def _run_first_time(
    program: Program, arrays: tuple[ConcreteArray, ...], multiple: bool
) -> tuple[object, FastPath | None, bool]:
    """Compiles and runs a program; returns the result, and the fast path by which C++ runs it the next time.

    C++ misses where a context has state that it cannot see, so the executable is stored with the program.
    """
    for x in arrays:
        x._check_alive(program.name)
    assignment = assignment_for(program, program.name, arrays)
    mode = flags.compile.value
    key: Hashable = ("executable", assignment, mode)
    executable = program.derived.get(key)
    if executable is None:
        executable = compile_program(order_effects(program), (), assignment, keep_unused=True, mode=mode)
    else:
        assert isinstance(executable, Executable)
        executable = executable.current()
    program.derived[key] = executable
    results = executable.run(arrays)
    result = tuple(results) if multiple else results[0]
    if executable.later is not None:
        return result, None, True  # C++ forgets the call: it would call Python for ever
    return result, fast_path(executable, result) if executable.can_dispatch_in_cpp(arrays) else None, False


def _slice_kernel(op: Slice) -> Callable[..., object]:
    """Slices a block at a start that is an operand, so that x[0], x[1], … share one compiled kernel.

    Staged programs have static slices, which XLA optimises better.
    """
    block = DynamicSlice(tuple([b - a for a, b in zip(op.start, op.limit, strict=True)]))
    index = array_type(int32 if max(op.limit, default=0) < 2**31 else int64)
    starts = [to_device_operand(HostArray(a, index)) for a in op.start]

    run_slice = compile_operation(op)

    def slice_by_start(x: ConcreteArray) -> object:
        if x.type.explicit_sharding is not None:  # a static start is allowed along a sharded axis too
            return run_slice(x)
        x._check_alive(op.name)
        op.infer(x.type)  # refuses a start out of bounds, which a dynamic slice would clamp
        return _operation_kernel(block).run(x, *starts)

    return slice_by_start


def higher_order_program(op: HigherOrder, operand_types: Sequence[ArrayType]) -> Program:
    """Returns a program of the single operation `op`; it is cached on the op's programs, with its executable.

    Args:
        op: the operation. operand_types: the operands' types, with their shardings.
    """
    if type(op) is Call:
        return op.program
    derived = op.programs[0].derived
    types = tuple(
        [t.with_sharding(x.explicit_sharding) for t, x in zip(op.in_types, operand_types, strict=True)]
    )
    program = derived.get(("alone", op, types))
    if program is None:
        inputs = tuple([Var(t) for t in types])
        outputs = tuple([Var(t) for t in infer_result_types(op, types)])
        program = derived["alone", op, types] = Program(
            inputs, (Equation(op, inputs, outputs),), outputs, op.name, op.effects
        )
    return cast("Program", program)


def unhandled_effects_error(name: str, row: frozenset[Effect]) -> "AxisNameError | NoRuleError":
    """Returns the error for effects that no handler handled."""
    for effect in row:
        if effect.axis is not None:
            scope = [name for name, _ in effects.axes_in_scope() if name != UNNAMED]
            known = (
                f"names in scope: {', '.join(map(repr, scope))}" if scope else "no axis names are in scope"
            )
            return AxisNameError(
                f"{name}: axis name {effect.axis!r} is not bound by vmap, pmap or shard_map; {known}"
            )
    labels = sorted([repr(e.name if isinstance(e, Label) else e) for e in row])
    advice = "".join(sorted({f"; {e.advice}" for e in row if e.advice}))
    return NoRuleError(
        f"{name}: no handler takes the effect{'s' * (len(labels) > 1)} {', '.join(labels)}{advice}"
    )
