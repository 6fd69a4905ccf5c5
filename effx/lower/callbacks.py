"""Python functions that XLA's programs call: how a call looks, how a program gets the functions, what they raise.

A program with such functions runs synchronously, and from Python: so what a function raises comes out of the call
that ran it, and programs with ordered effects need no order between them.
"""

import contextvars
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, final
from weakref import ref

import numpy as np
from jaxlib import _jax
from jaxlib._jax import ArrayImpl, Device

from effx import dtypes
from effx.errors import BackendError
from effx.ir.ops.host import Hosted
from effx.ir.program import Atom
from effx.ir.types import ArrayType, array_type
from effx.ir.values.described import HostData
from effx.lower.custom_call import custom_call_text
from effx.lower.ending import calling_back
from effx.lower.hlo import mlir_module

if TYPE_CHECKING:
    from effx.lower.emit import Body

TARGET = "xla_ffi_python_cpu_callback"
# How many calls after one that raised are answered, where several devices run a program.
PATIENCE = 100_000
_FAILURE = re.compile(r"<effx callback failure (\d+)>")


def _whole(t: ArrayType) -> ArrayType:
    """Returns a type of whole bytes: XLA gives Python no smaller elements."""
    if dtypes.bits(t.dtype) >= 8 or t.kind == "b":
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
        body: where to.
        op: what is called.
        inputs: its operands.
        out_types: of its results.
        counts: True to keep the call where nothing uses its results.
        everywhere: True to call on each device that runs the program; else the first calls for all, outside of
            parallel maps.

    Raises:
        BackendError: the platform's programs cannot call Python, or several devices are to call at a place where the
            values are not theirs.
    """
    module = body.module
    if module.platform != "cpu":
        raise BackendError(
            f"{op.name}: programs for {module.platform} cannot call Python; run this one on a CPU"
        )
    names, types = zip(*[body.widened(x) for x in inputs], strict=True) if inputs else ((), ())
    wide = [_whole(t) for t in out_types]
    index = np.uint64(len(module.hosted))
    module.hosted.append((op, tuple(wide)))
    call = custom_call_text(TARGET, names, types, wide, {"index": index}, has_side_effect=counts)
    if counts and module.devices > 1 and not module.axes:
        if everywhere:
            raise BackendError(
                f"{op.name}: outside of pmap no device has a part of its own to call with; leave out partitioned=True"
            )
        # A call without results has a sharding as well. What does not count is left to the partitioner.
        module.on_first = True
        shardings = ", ".join(["<@one, []>"] * max(len(wide), 1))
        call = call.replace("{", f"{{sdy.sharding = #sdy.sharding_per_value<[{shardings}]>, ", 1)
    found = body.block(call, len(wide))
    return tuple([body.convert(y, w, t) for y, w, t in zip(found, wide, out_types, strict=True)])


_raising = threading.Lock()


@final
class HostCalls:
    """The operations that a compiled program runs on the host, and what they raised.

    XLA holds functions that refer to this object weakly, so that an operation that refers to the compiled program can
    be freed with it.

    A device whose run has failed does not come to where devices wait for one another, and XLA ends the process when they
    have waited for long. So where several devices run the program, it goes on: what raised gives zeros, and so does
    what would be called after it, without being called. What was raised comes out at the end.
    """

    __slots__ = (
        "__weakref__",
        "active",
        "context",
        "count",
        "failures",
        "first",
        "operations",
        "together",
        "zeros",
    )

    def __init__(
        self, operations: Sequence[tuple[Hosted, tuple[ArrayType, ...]]], together: bool = False
    ) -> None:
        """Takes the operations, with the types of their results; `together` where several devices run them."""
        self.operations = tuple(operations)
        self.together = together
        # Where devices run together, what was raised first, and how often zeros were given since.
        self.first: BaseException | None = None
        self.zeros = 0
        # What was raised, by numbers that XLA's error repeats: several threads may run one program.
        self.failures: dict[int, BaseException] = {}
        self.count = itertools.count()
        self.active = 0
        self.context: contextvars.Context | None = None

    def functions(self) -> list[Callable[..., tuple[HostData, ...]]]:
        """Returns what XLA is given, in the order in which the text counts the operations."""
        return [_entry(ref(self), i) for i in range(len(self.operations))]

    def call(self, index: int, values: tuple[HostData, ...]) -> tuple[HostData, ...]:
        """Runs an operation, in the context of the program's caller; keeps what it raises."""
        op, types = self.operations[index]
        if self.first is not None:
            return self.nothing(types)
        context = contextvars.Context() if self.context is None else self.context.copy()
        try:
            results = context.run(inside, op, values)
            return tuple([np.asarray(y, _whole(array_type(y.dtype)).dtype) for y in results])
        except BaseException as error:  # noqa: BLE001 - raised again where the program was called
            if self.together:
                self.stop(error)
                return self.nothing(types)
            number = next(self.count)
            self.failures[number] = error
            raise RuntimeError(f"<effx callback failure {number}>") from None

    def stop(self, error: BaseException) -> None:
        """Keeps what was raised first; nothing is called after it."""
        with _raising:
            if self.first is None:
                self.first = error

    def nothing(self, types: Sequence[ArrayType]) -> tuple[HostData, ...]:
        """Returns zeros in place of results.

        Raises:
            RuntimeError: so often that a loop may wait for another result. Then XLA ends the run, or the process.
        """
        self.zeros += 1
        if self.zeros > PATIENCE:
            raise RuntimeError("<effx callback failure>")
        return tuple([np.zeros(t.shape, t.dtype) for t in types])

    def execute(self, loaded: _jax.LoadedExecutable, arguments: Sequence[ArrayImpl]) -> _jax.ExecuteResults:
        """Runs the program to its end.

        Raises:
            BaseException: whatever an operation raised, as it raised it.
        """
        self.context = contextvars.copy_context()
        self.active += 1
        raised: BaseException
        try:
            with calling_back, running():
                results = loaded.execute_sharded(arguments, with_tokens=True)
                results.consume_token().block_until_ready()
            if self.first is None:
                return results
            raised = self.first
        except _jax.JaxRuntimeError as error:
            found = _FAILURE.search(str(error))
            raised = error if found is None else self.failures.pop(int(found[1]), error)
            if self.first is not None:
                raised = self.first
        finally:
            self.active -= 1
            if not self.active:
                self.failures.clear()
                self.first, self.zeros = None, 0
        # Outside of the except clause, so that XLA's own words are no part of what the user sees.
        raise raised


def _entry(calls: "ref[HostCalls]", index: int) -> Callable[..., tuple[HostData, ...]]:
    def entry(*values: HostData) -> tuple[HostData, ...]:
        found = calls()
        if found is None:
            raise BackendError("callback: the program that called it is gone")
        return found.call(index, values)

    return entry


def compile_calling(
    text: str, devices: Sequence[Device], options: _jax.CompileOptions, calls: HostCalls
) -> _jax.LoadedExecutable:
    """Compiles a text whose custom calls run operations on the host."""
    module = mlir_module(text)  # jaxlib takes functions with a parsed module only
    return devices[0].client.compile_and_load(
        module, _jax.DeviceList(tuple(devices)), options, calls.functions()
    )


# How many callbacks are around this one: a part of C++'s key. C++ takes a call with the key of one that has not
# returned for the first time as endless recursion, or waits for it, which a callback must not.
_depth: contextvars.ContextVar[int] = contextvars.ContextVar("effx_callback_depth", default=0)
_keyed: "_jax.config.Config[int]" = _jax.config.Config("effx_callback_depth", 0, include_in_jit_key=True)


def inside(op: Hosted, values: Sequence[HostData]) -> tuple[HostData, ...]:
    """Runs an operation on the host, one callback deeper."""
    around, before = _depth.get(), _keyed.get_local()
    try:
        _depth.set(around + 1)
        _keyed.set_local(around + 1)
        return op.on_host(*values)
    finally:
        _depth.set(around)
        _keyed.set_local(before)


# What `effects_barrier` waits for: the programs with effects that run in some thread now.
_runs: set[threading.Event] = set()


@contextmanager
def running() -> Iterator[None]:
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
