"""Python functions that XLA's programs call: the text of a call, the functions of a program, and their errors.

A program with such functions runs synchronously, and from Python: so the call that runs it raises what a function
raises, and programs with ordered effects need no order between them. A program whose functions are pure and were not
called in its first run (a check of errors, say) is run by C++ afterwards: see `HostCalls.is_pure_before_first_call`.
"""

import contextvars
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar, final
from weakref import ref

import numpy as np
from jaxlib import _jax
from jaxlib._jax import ArrayImpl, Device

from effx import dtypes
from effx.errors import BackendError, callback_errors, hide_internal_frames
from effx.ir.ops.control import HigherOrder, While
from effx.ir.ops.host import Hosted
from effx.ir.program import Atom, Program
from effx.ir.types import ArrayType, array_type
from effx.ir.values.described import HostData
from effx.lower.placement.shardy import tiling_text
from effx.lower.process_exit import in_callback
from effx.lower.runtime.host_transfers import emit_transfers, make_receiver
from effx.lower.text.emit import HostedCall
from effx.lower.text.foreign_calls import custom_call_text
from effx.lower.text.hlo import mlir_module

if TYPE_CHECKING:
    from effx.lower.text.emit import Body

T = TypeVar("T")

TARGETS = {
    "cpu": "xla_ffi_python_cpu_callback",
    "cuda": "xla_ffi_python_gpu_callback",
    "rocm": "xla_ffi_python_gpu_callback",
}
# Of calls that XLA's partitioner repeats on each device, with its parts.
PARTITIONED_TARGETS = {
    platform: target.replace("xla_ffi_", "xla_ffi_partitioned_") for platform, target in TARGETS.items()
}
# How many calls after one that raised return zeros, where several devices run a program.
PATIENCE = 100_000
_FAILURE = re.compile(r"<effx callback failure (\d+)>")


def _widen_to_bytes(t: ArrayType) -> ArrayType:
    """Returns a type of whole bytes: XLA gives Python no smaller elements."""
    if not dtypes.is_sub_byte(t.dtype):
        return t
    return array_type({"f": dtypes.float16, "i": dtypes.int8, "u": dtypes.uint8}[t.kind], t.shape)


def host_call(
    body: "Body",
    op: Hosted,
    inputs: Sequence[Atom],
    out_types: Sequence[ArrayType],
    counts: bool,
    everywhere: bool = False,
) -> tuple[str, ...]:
    """Writes the call of an operation that runs on the host.

    Args:
        body: the function under construction.
        op: the operation to call.
        inputs: its operands.
        out_types: of its results.
        counts: True to keep the call where nothing uses its results.
        everywhere: True to call on each device that runs the program, with its parts of the operands; else the first
            calls for all, outside of parallel maps.

    Raises:
        BackendError: the platform's programs cannot call Python, or a TPU is to call with parts of an array.
    """
    module = body.module
    target = TARGETS.get(module.platform)
    names, types = zip(*[body.widened(x) for x in inputs], strict=True) if inputs else ((), ())
    wide = [_widen_to_bytes(t) for t in out_types]
    if module.platform == "tpu":
        if module.partly is not None or (everywhere and module.devices > 1 and not module.axes):
            raise BackendError(
                f"{op.name}: programs for TPUs call Python once for all devices, or in parallel maps over all axes; this "
                "call is for the parts of an array"
            )
        results = emit_transfers(body, op, names, types, wide)
        return tuple([body.convert(y, w, t) for y, w, t in zip(results, wide, out_types, strict=True)])
    if target is None:
        raise BackendError(
            f"{op.name}: programs for {module.platform} cannot call Python; run this one on a CPU, a GPU or a TPU"
        )
    index = np.uint64(len(module.hosted))
    module.hosted.append(HostedCall(op, tuple(types), tuple(wide)))
    if counts and module.devices > 1 and not module.axes and everywhere:
        target = PARTITIONED_TARGETS[module.platform]

    def write_call(operands: Sequence[str]) -> str:
        return custom_call_text(
            target, operands, types, wide, attributes={"index": index}, has_side_effect=counts
        )

    call = write_call(names)
    if counts and module.partly is not None:
        # XLA has no place for the effect where some axes are left to it: inside, each device is one place.
        mesh, rest = module.partly
        arguments = [f"%p{body.fresh()}" for _ in names]
        region_lines = body.region(lambda: body.block(write_call(arguments), len(wide)), wide, "sdy.return")
        call = manual_call_text(
            mesh, rest, names, arguments, types=types, out_types=wide, region_lines=region_lines
        )
    elif counts and module.devices > 1 and not module.axes and not everywhere:
        # A call without results has a sharding as well. A call that does not count is left to the partitioner.
        module.on_first = True
        shardings = ", ".join(["<@one, []>"] * max(len(wide), 1))
        call = call.replace("{", f"{{sdy.sharding = #sdy.sharding_per_value<[{shardings}]>, ", 1)
    result_names = body.block(call, len(wide))
    return tuple([body.convert(y, w, t) for y, w, t in zip(result_names, wide, out_types, strict=True)])


def manual_call_text(
    mesh: str,
    axes: Sequence[int],
    operands: Sequence[str],
    arguments: Sequence[str],
    *,
    types: Sequence[ArrayType],
    out_types: Sequence[ArrayType],
    region_lines: Sequence[str],
) -> str:
    """Returns a manual computation over some axes of a mesh in which values are replicated.

    Args:
        mesh, axes: the mesh's name, and the numbers of the axes.
        operands, arguments: the operands' names outside and inside. types: their types.
        out_types: the results' types. region_lines: what is done inside.
    """
    sides = [", ".join([tiling_text(mesh, [()] * t.ndim) for t in side]) for side in (types, out_types)]
    axis_names = ", ".join([f'"m{a}"' for a in axes])
    parameters = ", ".join([f"{a}: {t.mlir}" for a, t in zip(arguments, types, strict=True)])
    kinds, results = [", ".join([t.mlir for t in side]) for side in (types, out_types)]
    head = (
        f"sdy.manual_computation({', '.join(operands)}) in_shardings=[{sides[0]}] out_shardings=[{sides[1]}] "
        f"manual_axes={{{axis_names}}} ({parameters}) {{"
    )
    return "\n".join((head, *region_lines, f"    }} : ({kinds}) -> ({results})"))


def calls_python_in_loop(program: Program) -> bool:
    """Says whether a loop without a fixed number of iterations calls Python, whose results it may wait for."""
    waiting, seen = [(program, False)], {(program, False)}
    while waiting:
        around, looping = waiting.pop()
        for op in [e.op for e in around.equations]:
            if looping and isinstance(op, Hosted):
                return True
            if isinstance(op, HigherOrder):
                inner = {(p, looping or type(op) is While) for p in op.programs} - seen
                seen |= inner
                waiting += inner
    return False


_DEVICES = -1  # instead of a thread's number: the run of several devices


@final
class HostCalls:
    """The operations that a compiled program runs on the host, and what they raised.

    XLA holds functions that refer to this object weakly, so that an operation that refers to the compiled program can
    be freed with it.

    An error that is reported to XLA ends a run. Two kinds of run go on instead: the call that raised returns zeros,
    later calls return zeros without running, and the error is raised at the end. One is a run on several devices: a
    device whose run has failed does not reach the next collective, and XLA ends the process when the others have waited
    for long. The other is a run that C++ started, which would raise a ValueError of its own.

    The limit after which XLA ends the process is 40 s.
    """

    __slots__ = (
        "__weakref__",
        "by_cpp",
        "called",
        "context",
        "count",
        "failures",
        "finished",
        "from_python",
        "hosted",
        "patient",
        "raised",
        "together",
        "zeros",
    )

    def __init__(self, hosted: Sequence[HostedCall], program: Program, together: bool) -> None:
        """Stores the calls of operations; `together` where several devices run the program."""
        self.hosted = tuple(hosted)
        self.together = together
        # Whether a run may go on with zeros: they do nothing but compute, and no loop waits for another result.
        self.patient = not (together or program.effects or calls_python_in_loop(program))
        # Whether a run has ended well, and whether one has called anything.
        self.finished = self.called = False
        self.by_cpp = False
        # The first error of each run that goes on, by thread; and how often calls of several devices returned zeros.
        self.raised: dict[int, BaseException] = {}
        self.zeros = 0
        # What was raised, by numbers that XLA's error repeats: several threads may run one program.
        self.failures: dict[int, BaseException] = {}
        self.count = itertools.count()
        # The threads in `execute`, each with how many callbacks are around it.
        self.from_python: set[tuple[int, int]] = set()
        self.context: contextvars.Context | None = None

    @property
    def is_pure_before_first_call(self) -> bool:
        """Says whether C++ may run the program by itself: its functions are pure, and none has been called yet.

        XLA calls in the thread of the run, or, where inputs are not ready, in one of its own, which does not have the
        caller's context variables.
        """
        # Run by C++, such a call is 26 us faster; diffrax checks for errors in this way.
        return self.finished and not self.called and self.patient

    def functions(self) -> list[Callable[..., tuple[HostData, ...]]]:
        """Returns the functions for XLA, in the order of the operations' numbers in the text."""
        return [_make_callback(ref(self), i, call) for i, call in enumerate(self.hosted)]

    def call(self, index: int, values: tuple[HostData, ...], thread: int | None) -> tuple[HostData, ...]:
        """Runs an operation, in the context of the program's caller; stores an error that it raises.

        Args:
            index: its number.
            values: its operands.
            thread: the thread that runs the program; None in a thread of XLA's.
        """
        op, types = self.hosted[index].op, self.hosted[index].out_types
        self.called = True
        # XLA calls in the thread of the run, which identifies errors, unless inputs are not ready:
        # then in one of its own, whose error is in the result.
        run = _DEVICES if self.together else thread
        if not self.together and (thread, _depth.get()) in self.from_python:
            run = None  # it ends where something raises
        if run is not None and run in self.raised:
            return self.zero_results(types)
        if thread is not None:
            context = contextvars.copy_context()
        else:
            context = contextvars.Context() if self.context is None else self.context.copy()
        try:
            results = context.run(run_nested, op, values)
            return tuple([np.asarray(y, _widen_to_bytes(array_type(y.dtype)).dtype) for y in results])
        except BaseException as error:  # noqa: BLE001 - raised again where the program was called
            if run is not None:
                self.raised.setdefault(run, error)
                return self.zero_results(types)
            number = next(self.count)
            self.failures[number] = error
            raise RuntimeError(f"<effx callback failure {number}>") from None

    def zero_results(self, types: Sequence[ArrayType]) -> tuple[HostData, ...]:
        """Returns zeros instead of results.

        Raises:
            RuntimeError: so often, on several devices, that a loop may wait for another result. Then XLA ends the run,
                or the process.
        """
        if self.together:
            self.zeros += 1
            if self.zeros > PATIENCE:
                raise RuntimeError("<effx callback failure>")
        return tuple([np.zeros(t.shape, t.dtype) for t in types])

    def unwrap_error(self, error: _jax.JaxRuntimeError) -> BaseException:
        """Returns the error of the Python function that XLA's error refers to, or XLA's own."""
        match = _FAILURE.search(str(error))
        return error if match is None else self.failures.pop(int(match[1]), error)

    def execute(self, loaded: _jax.LoadedExecutable, arguments: Sequence[ArrayImpl]) -> _jax.ExecuteResults:
        """Runs the program to its end.

        Raises:
            BaseException: the error of an operation, unchanged.
        """
        self.context = contextvars.copy_context()
        here = threading.get_ident(), _depth.get()
        self.from_python.add(here)
        try:
            with in_callback, mark_running():
                results = loaded.execute_sharded(arguments, with_tokens=True)
                results.consume_token().block_until_ready()
            raised = self.raised.get(_DEVICES)
            if raised is None:
                self.finished = True
                return results
        except _jax.JaxRuntimeError as error:
            raised = self.raised.get(_DEVICES) or self.unwrap_error(error)
        finally:
            self.from_python.discard(here)
            if not self.from_python:
                self.raised.pop(_DEVICES, None)
                self.zeros = 0
                if not self.by_cpp:
                    self.failures.clear()
        # Outside of the except clause, so that XLA's own error is not shown as its context.
        raise raised

    def check_first_result(self, make: Callable[[ArrayImpl], T]) -> Callable[[ArrayImpl], T]:
        """Returns a function that waits for a run by C++, and makes its first result or raises its error.

        It refers to this object weakly, for C++ holds it.
        """
        self.by_cpp = True
        return partial(_make_checked_result, ref(self), make)


def _make_checked_result(calls: "ref[HostCalls]", make: Callable[[ArrayImpl], T], result: ArrayImpl) -> T:
    host_calls = calls()
    raised: BaseException | None = None
    try:
        if host_calls is not None and host_calls.raised:
            raised = host_calls.raised.pop(threading.get_ident(), None)
        result.block_until_ready()
    except _jax.JaxRuntimeError as error:
        raised = error if host_calls is None else host_calls.unwrap_error(error)
    if raised is None:
        return make(result)
    try:
        raise raised
    except BaseException as error:
        hide_internal_frames(error)  # of this frame too: a bare raise adds none
        raise


def _make_callback(
    calls: "ref[HostCalls]", index: int, call: HostedCall
) -> Callable[..., tuple[HostData, ...]]:
    # On TPUs a number stands for no operands, and another for no results.
    count, received = len(call.in_types), len(call.channels[1])

    def entry(*values: HostData) -> tuple[HostData, ...]:
        host_calls = calls()
        if host_calls is None:
            raise BackendError("callback: the program that called it was freed")
        # In a thread of XLA's there is no Python frame around the call.
        thread = None if sys._getframe().f_back is None else threading.get_ident()
        results = host_calls.call(index, values[:count], thread)
        return results if results or not received else (np.zeros((), np.float32),)

    return entry


def compile_with_callbacks(
    text: str, devices: Sequence[Device], options: _jax.CompileOptions, calls: HostCalls
) -> _jax.LoadedExecutable:
    """Compiles a text whose custom calls run operations on the host."""
    # Texts that call Python are not shared, because they say nothing of the functions.
    module = mlir_module(text)  # jaxlib takes functions with a parsed module only
    client, device_list = devices[0].client, _jax.DeviceList(tuple(devices))
    if devices[0].platform != "tpu":
        return client.compile_and_load(module, device_list, options, calls.functions())
    receivers = [
        make_receiver(client, call, function)
        for call, function in zip(calls.hosted, calls.functions(), strict=True)
    ]
    return client.compile_and_load(module, device_list, options, receivers)


# The depth of nested callbacks: a part of C++'s key. C++ treats a call with the key of one that has not returned for
# the first time as endless recursion, or waits for it, which a callback must not.
_depth: contextvars.ContextVar[int] = contextvars.ContextVar("effx_callback_depth", default=0)
_keyed: "_jax.config.Config[int]" = _jax.config.Config("effx_callback_depth", 0, include_in_jit_key=True)


def run_nested(op: Hosted, values: Sequence[HostData]) -> tuple[HostData, ...]:
    """Runs an operation on the host, one callback deeper."""
    around, before = _depth.get(), _keyed.get_local()
    try:
        _depth.set(around + 1)
        _keyed.set_local(around + 1)
        return op.run_on_host(*values)
    except Exception as error:
        if not callback_errors:
            raise
        raised: BaseException = error
    finally:
        _depth.set(around)
        _keyed.set_local(before)
    for change in callback_errors:
        raised = change(op.called_function, raised)
    raise raised


# The programs with effects that run in some thread now; `effects_barrier` waits for them.
_runs: set[threading.Event] = set()


@contextmanager
def mark_running() -> Iterator[None]:
    """Marks that a program with effects runs."""
    run = threading.Event()
    _runs.add(run)
    try:
        yield
    finally:
        _runs.discard(run)
        run.set()


def wait_for_effects() -> None:
    """Waits for the programs with effects that other threads run; not inside a callback, which they may wait for."""
    if not _depth.get():
        for run in tuple(_runs):
            run.wait()
