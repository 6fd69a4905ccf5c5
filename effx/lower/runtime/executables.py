"""Compiling programs with XLA and running them.

Never: decide what to compile; jit and the evaluator do.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias, cast, final
from weakref import finalize

import attrs
from jaxlib import _jax
from jaxlib._hlo import HloSharding
from jaxlib._jax import ArrayImpl, Device

from effx import caching, dtypes
from effx.errors import BackendError, EffxError, ShapeError
from effx.flags import log_compiles
from effx.ir.ops.control import HigherOrder, holds
from effx.ir.ops.host import Hosted
from effx.ir.program import Program, Var
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType
from effx.lower.compile_options import CompilerOptions, compile_options
from effx.lower.disk.compile_cache import compiled_before, keep_compiled
from effx.lower.placement.assignment import Assignment
from effx.lower.placement.backends import check_process, check_there, is_there, platform_of
from effx.lower.placement.concrete import ConcreteArray, buffer_for, memory_in
from effx.lower.placement.concrete import constants as constant_buffers
from effx.lower.placement.memories import Memories
from effx.lower.placement.parallel_maps import Partitioning
from effx.lower.placement.processes import current as group
from effx.lower.placement.results import result_handler
from effx.lower.placement.shardings import (
    NamedSharding,
    Placement,
    SingleDeviceSharding,
    held_at,
    odd_sharding,
    placement,
    typed,
)
from effx.lower.placement.tiling import Tiling, tiling_found
from effx.lower.process_exit import in_xla
from effx.lower.runtime.callbacks import HostCalls, compile_calling
from effx.lower.runtime.failures import failed, names, refused
from effx.lower.runtime.memory_maps import make_room
from effx.lower.runtime.phases import Phase
from effx.lower.runtime.topologies import compile_only
from effx.lower.runtime.ynnpack import better_without
from effx.lower.text.module import module_of, values_text
from effx.monitoring import record_event

_log = logging.getLogger("effx")
_ALIKE = frozenset((dtypes.uint64, dtypes.complex128, dtypes.KEYS["rbg"], dtypes.KEYS["unsafe_rbg"]))

Location = Device | SingleDeviceSharding | NamedSharding
"""Where an array lies; a `SingleDeviceSharding` for another memory than a device's default one."""


@final
@attrs.frozen(eq=False)
class Executable:
    """A compiled program on one device, or on several.

    Attributes:
        loaded: XLA's executable; it takes the constants, then the kept inputs. For devices that are not there one that
            cannot run.
        devices: where it runs.
        locations: where each input lies, the constants left out.
        in_shardings, out_shardings: jaxlib's form of where what it takes and gives lies, constants included.
        in_types, out_types: of all inputs, the constants left out, and of the outputs.
        constants: hidden leading arguments.
        kept: for each input whether the executable takes it.
        committed: whether results are bound to the device.
        text, options: the StableHLO it was compiled from, and XLA's options; empty where it was read from bytes.
        name: what errors call it.
        calls: the Python functions that it calls; None for a program without.
        may_fail: whether a run may fail: it calls foreign functions, or may want more memory than there is.
        handlers: jaxlib's, which make the results.
        written: constants that stand in the text.
    """

    loaded: _jax.LoadedExecutable | _jax.Executable
    devices: tuple[Device, ...]
    locations: tuple[Location, ...]
    in_shardings: tuple[_jax.Sharding, ...]
    out_shardings: tuple[_jax.Sharding, ...]
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    constants: tuple[ArrayImpl, ...]
    kept: tuple[bool, ...]
    committed: bool
    text: str
    options: CompilerOptions
    name: str
    calls: HostCalls | None
    may_fail: bool
    handlers: list[_jax.ResultHandler]
    written: tuple[ArrayImpl, ...] = ()

    def __attrs_post_init__(self) -> None:
        # What has none needs no finaliser, in which Python would lose an interrupt.
        if held := tuple(map(id, (*self.constants, *self.written))):
            constant_buffers.update(held)
            # Not __del__, which may run when the interpreter has ended half.
            finalize(self, _let_go, held).atexit = False

    def runnable(self) -> _jax.LoadedExecutable:
        """Returns XLA's executable, to run it.

        Raises:
            BackendError: it was compiled for devices that are not there.
        """
        if not isinstance(self.loaded, _jax.LoadedExecutable):
            check_there(self.name, self.devices[0])
        return cast("_jax.LoadedExecutable", self.loaded)

    def takes_as_is(self, arrays: Sequence[ConcreteArray]) -> bool:
        """Says whether C++ can do without Python: the arrays lie where the executable takes them, and C++ tells
        their types from others.

        C++ goes by shapes, weakness, and the elements as the device has them. For it keys are weak, so that only
        weak numbers as wide look the same. Of what looks the same one at most is kept there: keys of threefry2x32,
        and neither those of rbg nor of unsafe_rbg.
        """
        if not is_there(self.devices[0]):
            return False
        if self.may_fail:
            return False  # Python names the function in the error
        if any([x.type.dtype in _ALIKE and x.type.weak_type for x in arrays]):
            return False
        one = len(self.devices) == 1
        return all(
            [
                one and memory_in(x) == (None if isinstance(location, Device) else location.other_memory)
                if type(lies := x.buffer._sharding) is not Placement
                else isinstance(location, NamedSharding) and lies is placement(location, x.type.ndim)
                for x, location, keep in zip(arrays, self.locations, self.kept, strict=True)
                if keep
            ]
        )

    def run(self, arrays: Sequence[ConcreteArray]) -> list[ConcreteArray]:
        """Runs on arrays for all inputs, moved where they must be; gives one array for each output."""
        check_process()
        loaded = self.loaded
        if not isinstance(loaded, _jax.LoadedExecutable):
            loaded = self.runnable()
        if group and len(self.devices) > 1:
            from effx.lower.placement.process_agreement import check_agreement  # most processes are alone

            check_agreement(self.name, self.text, loaded, self.devices, self.in_types, self.out_types)
        given = zip(arrays, self.locations, self.kept, strict=True)
        arguments = [buffer_for(x, location) for x, location, keep in given if keep]
        try:
            if self.calls is None:
                results = loaded.execute_sharded([*self.constants, *arguments])
            else:
                results = self.calls.execute(loaded, [*self.constants, *arguments])
        except _jax.JaxRuntimeError as error:
            raise failed(self.name, self.devices, self.out_types, error) from error
        found = results.consume_with_handlers(self.handlers)
        if self.may_fail:
            for b in found:
                b._made_by = partial(failed, self.name, self.devices, self.out_types)
        return [ConcreteArray(b) for b in found]


def cost_estimate(executable: Executable) -> dict[str, str | bool | int | list[int] | float]:
    """Returns XLA's estimate of costs.

    Raises:
        BackendError: it has none.
    """
    try:
        return executable.loaded.cost_analysis()
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"cost_analysis: XLA estimates no costs of {executable.name}: {error}") from error


def _let_go(held: tuple[int, ...]) -> None:
    """Forgets the constants of an executable that is freed."""
    for key in held:
        constant_buffers[key] -= 1
        if not constant_buffers[key]:
            del constant_buffers[key]


def used_inputs(program: Program) -> tuple[bool, ...]:
    """Says for each input whether an equation or an output reads it."""
    used = {x for e in program.equations for x in e.inputs if type(x) is Var}
    used |= {x for x in program.outputs if type(x) is Var}
    return tuple([x in used for x in program.inputs])


# XLA counts an array's bytes in 64 bits, with a sign, and ends the process where sums of them overflow.
LARGEST = 2**60


def check_sizes(program: Program) -> None:
    """Refuses arrays that no memory can address.

    Raises:
        ShapeError: one has more than `LARGEST` bytes.
    """
    waiting, seen = [program], {program}
    while waiting:
        for equation in waiting.pop().equations:
            op = equation.op
            for var in equation.outputs:
                t = var.type
                if not has_symbolic(t.shape) and t.size * t.dtype.itemsize > LARGEST:
                    raise ShapeError(
                        f"{op.name}: {t!r} would have {t.size} elements, which no memory can hold"
                    )
            if isinstance(op, HigherOrder):
                waiting += [p for p in op.programs if p not in seen]
                seen.update(op.programs)


# Bytes of constants that may stand in a text. XLA computes with them when it compiles, which must not take long.
LITTLE = 2**12


def _are_written(program: Program, constants: Sequence[ConcreteArray], assignment: Assignment) -> bool:
    """Says whether constants stand in the text, where each saves a call half a microsecond.

    Only where the program calls Python: the text of any other may be another program's too, with other constants.
    """
    one = len(assignment.devices) == 1 and assignment.mesh is None
    little = sum([c.nbytes for c in constants]) <= LITTLE
    return one and little and holds(program, Hosted)


# Bytes whose computation takes so long that the 20 us of a call by Python do not count.
MUCH = 2**26


def _needs(loaded: _jax.LoadedExecutable | _jax.Executable, out_types: Sequence[ArrayType]) -> int:
    """Returns how many bytes a run needs for results, and for what is in between."""
    return loaded.get_compiled_memory_stats().temp_size_in_bytes + sum(
        [t.size * t.dtype.itemsize for t in out_types]
    )


def compile_program(
    program: Program,
    constants: Sequence[ConcreteArray],
    assignment: Assignment,
    *,
    donated: Sequence[bool] = (),
    keep_unused: bool = False,
    options: CompilerOptions = (),
) -> Executable:
    """Compiles a program for a device, or for several.

    Args:
        program: its first inputs are for the constants.
        constants: values of the first inputs.
        assignment: where to run, and how inputs and outputs lie there.
        donated: for each input behind the constants whether its memory may be reused; False where it ends.
        keep_unused: True to pass inputs that the program does not read.
        options: XLA's own, by name.

    Raises:
        BackendError: XLA refuses the program, or knows no such option.
    """
    check_sizes(program)
    n = len(constants)
    used = used_inputs(program)
    kept = (True,) * n + ((True,) * (len(used) - n) if keep_unused else used[n:])
    kept_program = attrs.evolve(
        program, inputs=tuple([x for x, keep in zip(program.inputs, kept, strict=True) if keep]), derived={}
    )
    flags = [False] * n + list(donated)
    flags += [False] * (len(used) - len(flags))
    taken_over = [f for f, keep in zip(flags, kept, strict=True) if keep]
    lying = assignment.kept(kept)
    partitioning = lying.partitioning(kept_program)
    devices = assignment.devices
    memories = lying.memories(kept_program)
    w = n if not memories.several and _are_written(program, constants, assignment) else 0
    with Phase("/effx/lower", program.name):
        text, hosted, is_foreign = module_of(
            kept_program,
            platform_of(devices[0]),
            taken_over[w:],
            partitioning=partitioning,
            memories=memories,
            constants=list(map(values_text, constants[:w])),
        )
    if platform_of(devices[0]) == "cpu":
        options = (*options, *better_without(kept_program, options, len(devices)))
    calls = HostCalls(hosted, kept_program, len(devices) > 1) if hosted else None
    there = is_there(devices[0])
    if calls is not None and not there:
        raise BackendError(
            f"compile: {program.name} calls Python functions, which programs for the devices of a topology cannot"
        )
    loaded: _jax.LoadedExecutable | _jax.Executable
    try:
        if there:
            loaded = compile_text(text, devices, program.name, options, calls)
        else:
            loaded = compile_only(text, devices, program.name, options)
    except BackendError as error:
        if not isinstance(error.__cause__, _jax.JaxRuntimeError):
            raise
        raise refused(
            kept_program, error.error_message.strip(), partial(_refuses, devices)
        ) from error.__cause__
    out_types = program.out_types
    # What lies in another memory is bound: an operation on it would not find it there on another device.
    bound = assignment.committed or memories.several
    places = _on_one(devices[0], memories.inputs), _on_one(devices[0], memories.outputs)
    if len(devices) > 1 or assignment.mesh is not None:
        places = _lying(lying, partitioning, loaded, kept_program, memories)
    taken = iter(places[0])
    # An input that is not read is not moved either: `run` leaves it out.
    locations = [next(taken) if keep else devices[0] for keep in kept]
    in_shardings = [held_at(s, t.ndim) for s, t in zip(places[0], kept_program.in_types, strict=True)]
    out_shardings = [held_at(s, t.ndim) for s, t in zip(places[1], out_types, strict=True)]
    out_types = tuple([typed(t, s) for t, s in zip(out_types, out_shardings, strict=True)])
    held = zip(constants, locations, strict=False) if there else ()
    buffers = tuple([buffer_for(c, location) for c, location in held])
    return Executable(
        loaded=loaded,
        devices=devices,
        locations=tuple(locations[n:]),
        in_shardings=tuple(in_shardings[w:]),
        out_shardings=tuple(out_shardings),
        in_types=program.in_types[n:],
        out_types=out_types,
        constants=buffers[w:],
        kept=kept[n:],
        committed=bound,
        text=text,
        options=options,
        name=program.name,
        calls=calls,
        may_fail=is_foreign or _needs(loaded, out_types) > MUCH,
        handlers=[result_handler(t, s, bound) for t, s in zip(out_types, out_shardings, strict=True)]
        if there
        else [],
        written=buffers[:w],
    )


def _lying(
    assignment: Assignment,
    partitioning: Partitioning | None,
    loaded: _jax.LoadedExecutable | _jax.Executable,
    program: Program,
    memories: Memories,
) -> tuple[list[Location], list[Location]]:
    """Returns how inputs and outputs of what was compiled lie."""
    count = len(assignment.devices)
    if partitioning is None:  # a mesh of one device
        partitioning = Partitioning(count, (None,) * len(program.inputs), (None,) * len(program.outputs))
    given = (
        assignment.inputs or (None,) * len(program.inputs),
        assignment.outputs or (None,) * len(program.outputs),
    )
    found: tuple[list[Location], list[Location]] = ([], [])
    said = loaded.get_output_shardings() if None in partitioning.outputs and count > 1 else None
    sizes = (count,) if assignment.mesh is None else assignment.mesh.axis_sizes
    for side, tilings, types in (
        (0, partitioning.inputs, program.in_types),
        (1, partitioning.outputs, program.out_types),
    ):
        for i, (tiling, t) in enumerate(zip(tilings, types, strict=True)):
            sharding = given[side][i]
            if sharding is None and tiling is None and said is not None:
                seen = HloSharding.from_proto(said[i])
                tiling = tiling_found(seen, sizes, t.ndim)
                if tiling is None:  # in parts of mesh axes
                    sharding = odd_sharding(seen, assignment.devices, t.ndim)
            if sharding is None:
                sharding = assignment.named(tiling or Tiling(sizes, ((),) * t.ndim))
            kind = (memories.inputs, memories.outputs)[side][i]
            found[side].append(sharding if kind == sharding.other_memory else sharding.with_memory_kind(kind))
    return found


def _on_one(device: Device, memories: Sequence[str | None]) -> list[Location]:
    """Returns where arrays lie on one device."""
    return [device if kind is None else SingleDeviceSharding(device, memory_kind=kind) for kind in memories]


def _refuses(devices: tuple[Device, ...], program: Program) -> bool:
    """Says whether XLA refuses a program, whose effx form is right."""
    assignment = Assignment(devices, False)
    try:
        text, hosted, _ = module_of(
            program,
            platform_of(devices[0]),
            debug_info=False,
            partitioning=assignment.partitioning(program),
        )
        calls = HostCalls(hosted, program, len(devices) > 1) if hosted else None
        _compiled(text, devices, program.name, (), calls)
    except EffxError as error:
        return isinstance(error.__cause__, _jax.JaxRuntimeError)
    return False


# A function that is made anew in each call of another, the body of a scan say, is traced again each time.
# Its text is the same, so XLA need not compile it again: the most recently used texts are kept, up to a number and
# up to a length in all, which what is compiled from them grows with.
Compilation: TypeAlias = tuple[str, tuple[Device, ...], CompilerOptions]
_kept: "OrderedDict[Compilation, _jax.LoadedExecutable]" = OrderedDict()
_KEPT, _KEPT_LENGTH = 256, 4_000_000
_lock = threading.Lock()


def _forget() -> None:
    with _lock:
        _kept.clear()


caching.kernel_caches.append(_forget)


def compile_text(
    text: str,
    devices: tuple[Device, ...],
    name: str,
    options: CompilerOptions = (),
    calls: HostCalls | None = None,
) -> _jax.LoadedExecutable:
    """Compiles a StableHLO module for one device, or for several that run it together.

    A text that was compiled lately is not compiled again, unless it calls Python functions, of which it says nothing.

    Raises:
        BackendError: XLA refuses the text, or knows no such option.
    """
    if calls is not None:
        return _compiled(text, devices, name, options, calls)[0]
    key = (text, devices, options)
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
    record_event(f"/effx/compile/cache_{'miss' if found is None else 'hit'}", fun_name=name)
    if found is not None:
        return found
    loaded = compiled_before(text, devices, options)
    if loaded is not None:
        record_event("/effx/compile/cache_dir_hit", fun_name=name)
        return _keep(key, loaded)
    loaded, seconds = _compiled(text, devices, name, options, None)
    keep_compiled(loaded, text, devices, options, seconds)
    return _keep(key, loaded)


def _keep(key: Compilation, loaded: _jax.LoadedExecutable) -> _jax.LoadedExecutable:
    with _lock:
        _kept[key] = loaded
        length = sum([len(kept) for kept, _, _ in _kept])
        while len(_kept) > _KEPT or (length > _KEPT_LENGTH and len(_kept) > 1):
            length -= len(_kept.popitem(last=False)[0][0])
    return loaded


def _compiled(
    text: str, devices: tuple[Device, ...], name: str, chosen: CompilerOptions, calls: HostCalls | None
) -> tuple[_jax.LoadedExecutable, float]:
    """Compiles for certain; returns the executable, and how many seconds it took."""
    check_process()
    make_room()
    options = compile_options(devices, chosen)
    started = time.perf_counter()
    try:
        with Phase("/effx/compile", name), in_xla:
            if calls is not None:
                loaded = compile_calling(text, devices, options, calls)
            else:
                loaded = devices[0].client.compile_and_load(text, _jax.DeviceList(devices), options)
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"compile: XLA refused the program: {error}") from error
    seconds = time.perf_counter() - started
    if log_compiles.value:
        _log.warning(
            "compiled %s (%d lines) for %s in %.3f s", name, text.count("\n"), names(devices), seconds
        )
    return loaded, seconds
