"""Compiling programs with XLA and running them.

Never: decide what to compile; jit and the evaluator do.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import final

import attrs
import numpy as np
from jaxlib import _jax
from jaxlib._jax import ArrayImpl, Device

from effx.errors import BackendError
from effx.flags import log_compiles
from effx.ir.program import Program, Var
from effx.ir.types import ArrayType
from effx.lower.backends import platform_of
from effx.lower.concrete import ConcreteArray
from effx.lower.emit import module_text
from effx.lower.sharding import single

__all__ = ["Executable", "compile_program"]

_log = logging.getLogger("effx")


@final
@attrs.frozen(eq=False)
class Executable:
    """A compiled program on one device.

    Attributes:
        loaded: XLA's executable; it takes the constants, then the kept inputs.
        sharding: where its inputs and outputs lie.
        in_types, out_types: of all inputs, the constants left out, and of the outputs.
        constants: hidden leading arguments.
        kept: for each input whether the executable takes it.
        committed: whether results are bound to the device.
        text: the StableHLO it was compiled from.
    """

    loaded: _jax.LoadedExecutable
    sharding: _jax.SingleDeviceSharding
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    constants: tuple[ArrayImpl, ...]
    kept: tuple[bool, ...]
    committed: bool
    text: str
    handlers: list[_jax.ResultHandler]

    def run(self, buffers: Sequence[ArrayImpl]) -> list[ConcreteArray]:
        """Runs on buffers for all inputs; gives one array for each output."""
        arguments = [*self.constants, *[b for b, keep in zip(buffers, self.kept, strict=True) if keep]]
        results = self.loaded.execute_sharded(arguments)
        return [ConcreteArray(b) for b in results.consume_with_handlers(self.handlers)]


# jaxlib 0.10 checks results by a Python method that jax patches in, unless told not to; 0.12
# neither checks nor takes the argument.
_UNCHECKED = {"_skip_checks": True} if "_skip_checks" in (_jax.array_result_handler.__doc__ or "") else {}


def result_handler(t: ArrayType, sharding: _jax.SingleDeviceSharding, committed: bool) -> _jax.ResultHandler:
    """Returns what makes one result of an execution an array of type `t`."""
    return _jax.array_result_handler(t, sharding, committed, **_UNCHECKED)


def used_inputs(program: Program) -> tuple[bool, ...]:
    """Says for each input whether an equation or an output reads it."""
    used = {x for e in program.equations for x in e.inputs if type(x) is Var}
    used |= {x for x in program.outputs if type(x) is Var}
    return tuple([x in used for x in program.inputs])


def compile_program(
    program: Program,
    constants: Sequence[ConcreteArray],
    device: Device,
    *,
    donated: Sequence[bool] = (),
    keep_unused: bool = False,
    committed: bool = False,
) -> Executable:
    """Compiles a program for a device.

    Args:
        program: its first inputs are for the constants.
        constants: values of the first inputs.
        device: where to run.
        donated: for each input behind the constants whether its memory may be reused.
        keep_unused: True to pass inputs that the program does not read.
        committed: whether results are bound to the device.

    Raises:
        BackendError: XLA refuses the program.
    """
    n = len(constants)
    used = used_inputs(program)
    kept = (True,) * n + ((True,) * (len(used) - n) if keep_unused else used[n:])
    kept_program = attrs.evolve(
        program, inputs=tuple([x for x, keep in zip(program.inputs, kept, strict=True) if keep]), derived={}
    )
    flags = [False] * n + list(donated or [False] * (len(used) - n))
    text = module_text(
        kept_program, platform_of(device), [f for f, keep in zip(flags, kept, strict=True) if keep]
    )
    loaded = compile_text(text, device, program.name)
    sharding = single(device)
    out_types = program.out_types
    return Executable(
        loaded=loaded,
        sharding=sharding,
        in_types=program.in_types[n:],
        out_types=out_types,
        constants=tuple([c.buffer for c in constants]),
        kept=kept[n:],
        committed=committed,
        text=text,
        handlers=[result_handler(t, sharding, committed) for t in out_types],
    )


# A function that is made anew in each call of another, the body of a scan say, is traced again each time.
# Its text is the same, so XLA need not compile it again: the most recently used texts are kept.
_kept: "OrderedDict[tuple[str, Device], _jax.LoadedExecutable]" = OrderedDict()
_KEPT = 256
_lock = threading.Lock()


def compile_text(text: str, device: Device, name: str) -> _jax.LoadedExecutable:
    """Compiles a StableHLO module for one device; a text that was compiled lately is not compiled again.

    Raises:
        BackendError: XLA refuses the text.
    """
    key = (text, device)
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found
    started = time.perf_counter()
    loaded = _compile(text, device)
    if log_compiles.value:
        seconds = time.perf_counter() - started
        _log.warning("compiled %s (%d lines) for %s in %.3f s", name, text.count("\n"), device, seconds)
    with _lock:
        _kept[key] = loaded
        if len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return loaded


def _compile(text: str, device: Device) -> _jax.LoadedExecutable:
    options = _jax.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    build = options.executable_build_options
    build.num_replicas = build.num_partitions = 1
    build.device_assignment = _jax.DeviceAssignment.create(_one_device(device))
    try:
        return device.client.compile_and_load(text, _jax.DeviceList((device,)), options)
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"compile: XLA refused the program: {error}") from error


def _one_device(device: Device) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    return np.asarray([[device.id]], dtype=np.int64)
