"""Compile programs with XLA, and run them on arrays.

Never: decide what to compile; jit and the evaluator do.
"""

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
from effx.flags import CompileMode
from effx.ir.ops.control import HigherOrder, contains_operation
from effx.ir.ops.host import Hosted
from effx.ir.ops.sharding import Constrain
from effx.ir.passes.partial_sums import type_sums
from effx.ir.program import Equation, Program, Var
from effx.ir.sizes.dimensions import has_symbolic
from effx.ir.types import ArrayType
from effx.lower.compile_options import CompilerOptions, compile_options
from effx.lower.disk.compile_cache import look_up_compiled, store_compiled
from effx.lower.placement.assignment import Assignment
from effx.lower.placement.backends import (
    check_process,
    check_runnable_device,
    client,
    is_runnable_device,
    platform_of,
)
from effx.lower.placement.concrete import ConcreteArray, buffer_for, memory_kind_of
from effx.lower.placement.concrete import constant_counts as constant_buffers
from effx.lower.placement.layouts import AutoLayout, Layouts, read_layout
from effx.lower.placement.memories import Memories
from effx.lower.placement.parallel_maps import Partitioning
from effx.lower.placement.processes import current_group as group
from effx.lower.placement.results import make_result_handler
from effx.lower.placement.shardings import (
    BufferSharding,
    Format,
    Location,
    NamedSharding,
    SingleDeviceSharding,
    make_buffer_sharding,
    make_location,
    sharding_from_hlo,
    type_with_sharding,
)
from effx.lower.placement.tiling import Tiling, tiling_from_hlo
from effx.lower.process_exit import in_xla
from effx.lower.runtime.callbacks import HostCalls, compile_with_callbacks
from effx.lower.runtime.compile_effort import calls_before_full, fast_options
from effx.lower.runtime.excess_precision import excess_precision_options
from effx.lower.runtime.failures import device_range_text, refusal_error, run_error
from effx.lower.runtime.memory_maps import free_memory_maps
from effx.lower.runtime.phases import Phase, log_step
from effx.lower.runtime.recompilation import Recompilation
from effx.lower.runtime.topologies import compile_for_topology
from effx.lower.runtime.ynnpack import ynnpack_options
from effx.lower.text.hlo import hlo_computation
from effx.lower.text.module import array_literal_text, build_module
from effx.monitoring import record_event

_ALIKE = frozenset(
    (
        dtypes.uint64,
        dtypes.complex128,
        dtypes.KEYS["rbg"],
        dtypes.KEYS["unsafe_rbg"],
        dtypes.bool_,
        dtypes.float0,
    )
)

DeviceOrSharding: TypeAlias = Device | SingleDeviceSharding | NamedSharding
"""A `Location` without a layout."""


@final
@attrs.frozen(eq=False)
class Executable:
    """A compiled program on one device, or on several.

    Attributes:
        loaded: XLA's executable; it takes the constants, then the inputs that `kept_mask` marks. For the devices of a
            topology one that cannot run.
        devices: those it runs on, in order.
        locations: that of each input, the constants left out.
        in_shardings, out_shardings: jaxlib's shardings of inputs and outputs, constants included.
        in_types, out_types: of all inputs, the constants left out, and of the outputs.
        constants: hidden leading arguments.
        kept_mask: for each input whether the executable takes it.
        committed: whether results are committed to the device.
        text, options: the StableHLO it was compiled from, and XLA's options; empty where it was read from bytes.
        name: its name in errors.
        calls: the Python functions that it calls; None for none.
        may_fail: whether a run may fail: it calls foreign functions, or may need more memory than there is.
        handlers: jaxlib's result handlers, which make the results.
        written: constants that are written in the text.
        later: the program's compilation in full, where this is one that was quicker; None for none.
    """

    loaded: _jax.LoadedExecutable | _jax.Executable
    devices: tuple[Device, ...]
    locations: tuple[Location, ...]
    in_shardings: tuple[_jax.Sharding, ...]
    out_shardings: tuple[_jax.Sharding, ...]
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    constants: tuple[ArrayImpl, ...]
    kept_mask: tuple[bool, ...]
    committed: bool
    text: str
    options: CompilerOptions
    name: str
    calls: HostCalls | None
    may_fail: bool
    handlers: list[_jax.ResultHandler]
    written: tuple[ArrayImpl, ...] = ()
    later: Recompilation | None = None

    def __attrs_post_init__(self) -> None:
        # Without constants there is no need for a finalizer, in which Python would lose an interrupt.
        if constant_ids := tuple(map(id, (*self.constants, *self.written))):
            constant_buffers.update(constant_ids)
            # Not __del__, which may run when the interpreter has half ended.
            finalize(self, _release_constants, constant_ids).atexit = False

    def current(self) -> "Executable":
        """Returns what a call after the first one runs: this, or the program compiled in full.

        Calls are counted here. Callers store the result in place of this.
        """
        later = self.later
        if later is None:
            return self
        if not later.is_requested:
            later.count_call()
        if not later.is_over:
            return self
        loaded = later.loaded
        if loaded is None or _interface(loaded) != _interface(self.loaded):
            return attrs.evolve(self, later=None)
        may_fail = self.may_fail or _needed_bytes(loaded, self.out_types) > MUCH
        return attrs.evolve(self, loaded=loaded, may_fail=may_fail, later=None)

    def runnable(self) -> _jax.LoadedExecutable:
        """Returns XLA's executable, to run it.

        Raises:
            BackendError: it was compiled for the devices of a topology.
        """
        if not isinstance(self.loaded, _jax.LoadedExecutable):
            check_runnable_device(self.name, self.devices[0])
        return cast("_jax.LoadedExecutable", self.loaded)

    def can_dispatch_in_cpp(
        self, arrays: Sequence[ConcreteArray], user_values: Sequence[object] = ()
    ) -> bool:
        """Says whether C++ can dispatch the arrays without Python: they have the executable's shardings, and C++
        distinguishes their types from others.

        C++ compares shapes, weak types, and the dtypes that the device has. Keys and float0 are weak types for it, so
        that they equal only weak numbers of the same width. Of types that are equal there at most one is cached: keys of
        threefry2x32, and neither those of rbg nor of unsafe_rbg, neither weak bools nor float0.

        Args:
            arrays: the operands.
            user_values: what the user passed for them, if that may be Python's numbers, which equal no array for C++.
        """
        if not is_runnable_device(self.devices[0]):
            return False
        if self.may_fail:
            return False  # Python names the function in the error
        compared = [x for x in user_values if isinstance(x, ConcreteArray)] if user_values else arrays
        if any([x.type.dtype in _ALIKE and x.type.weak_type for x in compared]):
            return False
        one = len(self.devices) == 1
        return all(
            [
                one
                and memory_kind_of(x)
                == (None if isinstance(location, Device) else location.nondefault_memory)
                if type(buffer_sharding := x.buffer._sharding) is not BufferSharding
                and not isinstance(location, Format)
                else buffer_sharding is make_buffer_sharding(location, x.type.ndim)
                for x, location, keep in zip(arrays, self.locations, self.kept_mask, strict=True)
                if keep
            ]
        )

    def run(self, arrays: Sequence[ConcreteArray]) -> list[ConcreteArray]:
        """Runs on arrays for all inputs, moved to the executable's devices; returns one array for each output."""
        check_process()
        loaded = self.loaded
        if not isinstance(loaded, _jax.LoadedExecutable):
            loaded = self.runnable()
        if group and len(self.devices) > 1:
            from effx.lower.placement.process_agreement import (  # most processes are alone
                check_agreement,  # most programs run in one process
            )

            check_agreement(self.name, self.text, loaded, self.devices, self.in_types, self.out_types)
        moved_inputs = zip(arrays, self.locations, self.kept_mask, strict=True)
        arguments = [buffer_for(x, location) for x, location, keep in moved_inputs if keep]
        try:
            if self.calls is None:
                results = loaded.execute_sharded([*self.constants, *arguments])
            else:
                results = self.calls.execute(loaded, [*self.constants, *arguments])
        except _jax.JaxRuntimeError as error:
            raise run_error(self.name, self.devices, self.out_types, error) from error
        result_arrays = results.consume_with_handlers(self.handlers)
        if self.may_fail:
            for b in result_arrays:
                b._made_by = partial(run_error, self.name, self.devices, self.out_types)
        return [ConcreteArray(b) for b in result_arrays]


def cost_estimate(executable: Executable) -> dict[str, str | bool | int | list[int] | float]:
    """Returns XLA's estimate of costs.

    Raises:
        BackendError: it has none.
    """
    try:
        return executable.loaded.cost_analysis()
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"cost_analysis: XLA estimates no costs of {executable.name}: {error}") from error


def cost_estimate_of_text(text: str) -> dict[str, float]:
    """Returns XLA's estimate of the costs of a StableHLO module that is not compiled, nor optimised.

    Raises:
        BackendError: XLA refuses the text.
    """
    return _jax.hlo_module_cost_analysis(client(), hlo_computation(text).as_hlo_module())


def _release_constants(constant_ids: tuple[int, ...]) -> None:
    """Releases the constants of an executable that is freed."""
    for key in constant_ids:
        constant_buffers[key] -= 1
        if not constant_buffers[key]:
            del constant_buffers[key]


def used_input_mask(program: Program) -> tuple[bool, ...]:
    """Says for each input whether an equation or an output reads it."""
    used = {x for e in program.equations for x in e.inputs if type(x) is Var}
    used |= {x for x in program.outputs if type(x) is Var}
    return tuple([x in used for x in program.inputs])


# XLA counts an array's bytes in 64 bits, with a sign, and ends the process where sums of them overflow.
LARGEST = 2**60


def check_sizes(program: Program) -> None:
    """Raises an error for arrays that no memory can address.

    Raises:
        ShapeError: one has more than `LARGEST` bytes.
    """
    waiting, visited = [program], {program}
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
                waiting += [p for p in op.programs if p not in visited]
                visited.update(op.programs)


# Bytes of constants that may be written in a text. XLA computes with them when it compiles, which must not take long.
# A closed-over array comes as a hidden argument, so that programs of one text share what was compiled. Each
# costs a call half a microsecond.
LITTLE = 2**12


def _are_inline_constants(
    program: Program, constants: Sequence[ConcreteArray], assignment: Assignment
) -> bool:
    """Says whether constants are written in the text, where each saves a call half a microsecond.

    Only where the program calls Python: any other text may be shared by a program with other constants.
    """
    one = len(assignment.devices) == 1 and assignment.mesh is None
    little = sum([c.nbytes for c in constants]) <= LITTLE
    return one and little and contains_operation(program, Hosted)


# Bytes whose computation takes so long that the 20 us of a call by Python are negligible.
# C++ would raise errors of a run without the function's name.
MUCH = 2**26


def _needed_bytes(loaded: _jax.LoadedExecutable | _jax.Executable, out_types: Sequence[ArrayType]) -> int:
    """Returns how many bytes a run needs for results and intermediate values."""
    return loaded.get_compiled_memory_stats().temp_size_in_bytes + sum(
        [t.size * t.dtype.itemsize for t in out_types]
    )


def _interface(loaded: _jax.LoadedExecutable | _jax.Executable) -> tuple[object, ...]:
    """Returns what XLA chose of the layouts and shardings of inputs and outputs."""
    layouts = [*loaded.get_parameter_layouts(), *loaded.get_output_layouts()]
    shardings = loaded.get_output_shardings()
    return (
        tuple(map(str, layouts)),
        None if shardings is None else tuple([s.SerializeToString() for s in shardings]),
    )


def _leave_requested_sums(program: Program, partitioning: Partitioning) -> Program:
    """Returns a program whose results are unreduced where the user asks for that, and not their types."""
    equations: list[Equation] = []
    outputs = list(program.outputs)
    for i, (x, tiling) in enumerate(zip(program.outputs, partitioning.outputs, strict=True)):
        if tiling is None or not tiling.unreduced or type_sums(x.type)[0]:
            continue
        mesh = tuple([(f"m{a}", n) for a, n in enumerate(tiling.sizes)])
        # First as a whole: the partitioner would take what computes it for a computation of terms.
        for unreduced in ((), tiling.unreduced):
            op = Constrain(mesh, tiling.dims, unreduced=unreduced)
            equations.append(Equation(op, (outputs[i],), (Var(x.type),)))
            outputs[i] = equations[-1].outputs[0]
    if not equations:
        return program
    return attrs.evolve(
        program, equations=(*program.equations, *equations), outputs=tuple(outputs), derived={}
    )


def compile_program(
    program: Program,
    constants: Sequence[ConcreteArray],
    assignment: Assignment,
    *,
    donated: Sequence[bool] = (),
    keep_unused: bool = False,
    inline_count: int = 0,
    options: CompilerOptions = (),
    mode: CompileMode = "full",
) -> Executable:
    """Compiles a program for a device, or for several.

    Args:
        program: its first inputs are for the constants.
        constants: values of the first inputs.
        assignment: the devices, and the shardings of inputs and outputs.
        donated: for each input after the constants whether its memory may be reused; False beyond its end.
        keep_unused: True to pass inputs that the program does not read.
        inline_count: how many of the first constants are written in the text, so that XLA computes with them as it
            compiles, on one device.
        options: XLA's own, by name.
        mode: how much XLA optimizes.

    Raises:
        BackendError: XLA refuses the program, or has no such option.
    """
    check_sizes(program)
    n = len(constants)
    used = used_input_mask(program)
    kept_mask = (True,) * n + ((True,) * (len(used) - n) if keep_unused else used[n:])
    kept_program = attrs.evolve(
        program,
        inputs=tuple([x for x, keep in zip(program.inputs, kept_mask, strict=True) if keep]),
        derived={},
    )
    flags = [False] * n + list(donated)
    flags += [False] * (len(used) - len(flags))
    kept_donations = [f for f, keep in zip(flags, kept_mask, strict=True) if keep]
    kept_assignment = assignment.select_inputs(kept_mask)
    partitioning = kept_assignment.partitioning(kept_program)
    if partitioning is not None:
        kept_program = _leave_requested_sums(kept_program, partitioning)
    devices = assignment.devices
    memories = kept_assignment.memories(kept_program)
    layouts = kept_assignment.nondefault_layouts(kept_program)
    if not (memories.has_other_memories or layouts) and _are_inline_constants(program, constants, assignment):
        inline_count = n
    platform = platform_of(devices[0])
    with Phase("/effx/lower", program.name):
        text, hosted, is_foreign = build_module(
            kept_program,
            platform,
            kept_donations[inline_count:],
            partitioning=partitioning,
            memories=memories,
            constants=list(map(array_literal_text, constants[:inline_count])),
            layouts=layouts,
            device_ids=tuple([d.id for d in devices]),
        )
    if platform == "cpu":
        options = (*options, *ynnpack_options(kept_program, options, len(devices)))
    elif platform != "tpu":
        options = (*options, *excess_precision_options(kept_program, options))
    calls = HostCalls(hosted, kept_program, len(devices) > 1) if hosted else None
    can_run = is_runnable_device(devices[0])
    loaded: _jax.LoadedExecutable | _jax.Executable
    later: Recompilation | None = None
    fast = fast_options(kept_program, text, options, mode) if platform == "cpu" and can_run else ()
    try:
        if fast and (known := find_compiled(text, devices, program.name, options, calls)) is not None:
            loaded = known
        elif fast:
            loaded = compile_text(text, devices, program.name, (*options, *fast), calls)
            if mode == "tiered":
                compile_in_full = partial(compile_text, text, devices, program.name, options, calls)
                calls_left = calls_before_full(kept_program, text) - 1  # after the first call
                later = Recompilation(program.name, compile_in_full, calls_left)
            options = (*options, *fast)
        elif can_run:
            loaded = compile_text(text, devices, program.name, options, calls)
        else:
            loaded = compile_for_topology(text, devices, program.name, options)
    except BackendError as error:
        if not isinstance(error.__cause__, _jax.JaxRuntimeError):
            raise
        raise refusal_error(
            kept_program, error.error_message.strip(), partial(_refuses, devices)
        ) from error.__cause__
    out_types = program.out_types
    # Results in another memory are committed: an operation on another device could not read them there. Nor would C++
    # tell the layout of an array that is not committed.
    shardings: tuple[Sequence[Location], Sequence[Location]] = (
        _single_device_locations(devices[0], memories.inputs),
        _single_device_locations(devices[0], memories.outputs),
    )
    if len(devices) > 1 or assignment.mesh is not None:
        shardings = _compiled_shardings(kept_assignment, partitioning, loaded, kept_program, memories)
    if layouts:
        shardings = _add_layouts(program.name, shardings, layouts, loaded, kept_program, inline_count)
    have_layouts = any([isinstance(location, Format) for side in shardings for location in side])
    bound = assignment.committed or memories.has_other_memories or have_layouts
    kept_shardings = iter(shardings[0])
    # An input that is not read is not moved either: `run` leaves it out.
    locations = [next(kept_shardings) if keep else devices[0] for keep in kept_mask]
    in_shardings = [
        make_buffer_sharding(s, t.ndim) for s, t in zip(shardings[0], kept_program.in_types, strict=True)
    ]
    out_shardings = [make_buffer_sharding(s, t.ndim) for s, t in zip(shardings[1], out_types, strict=True)]
    out_types = tuple([type_with_sharding(t, s) for t, s in zip(out_types, out_shardings, strict=True)])
    located_constants = zip(constants, locations, strict=False) if can_run else ()
    buffers = tuple([buffer_for(c, location) for c, location in located_constants])
    return Executable(
        loaded=loaded,
        devices=devices,
        locations=tuple(locations[n:]),
        in_shardings=tuple(in_shardings[inline_count:]),
        out_shardings=tuple(out_shardings),
        in_types=program.in_types[n:],
        out_types=out_types,
        constants=buffers[inline_count:],
        kept_mask=kept_mask[n:],
        committed=bound,
        text=text,
        options=options,
        name=program.name,
        calls=calls,
        may_fail=is_foreign or _needed_bytes(loaded, out_types) > MUCH,
        handlers=[make_result_handler(t, s, bound) for t, s in zip(out_types, out_shardings, strict=True)]
        if can_run
        else [],
        written=buffers[:inline_count],
        later=later,
    )


def _add_layouts(
    name: str,
    locations: tuple[Sequence[Location], Sequence[Location]],
    layouts: Layouts,
    loaded: _jax.LoadedExecutable | _jax.Executable,
    program: Program,
    inline_count: int,
) -> tuple[list[Location], list[Location]]:
    """Returns the locations of a program's inputs and outputs with their layouts, those of XLA's choice among them."""
    results: tuple[list[Location], list[Location]] = ([], [])
    for side, compiled_layouts, asked, types in (
        (0, [None] * inline_count + list(loaded.get_parameter_layouts()), layouts.inputs, program.in_types),
        (1, loaded.get_output_layouts(), layouts.outputs, program.out_types),
    ):
        padded = [*asked, *[None] * (len(types) - len(asked))]
        for location, layout, compiled, t in zip(
            locations[side], padded, compiled_layouts, types, strict=True
        ):
            if layout is None or compiled is None or isinstance(location, Format):
                results[side].append(location)
                continue
            sharding = SingleDeviceSharding(location) if isinstance(location, Device) else location
            placed = make_location(
                name, sharding, read_layout(compiled) if isinstance(layout, AutoLayout) else layout, t
            )
            results[side].append(placed if isinstance(placed, Format) else location)
    return results


def _compiled_shardings(
    assignment: Assignment,
    partitioning: Partitioning | None,
    loaded: _jax.LoadedExecutable | _jax.Executable,
    program: Program,
    memories: Memories,
) -> tuple[list[DeviceOrSharding], list[DeviceOrSharding]]:
    """Returns the shardings of the inputs and outputs of XLA's executable."""
    count = len(assignment.devices)
    if partitioning is None:  # a mesh of one device
        partitioning = Partitioning(count, (None,) * len(program.inputs), (None,) * len(program.outputs))
    requested = (
        assignment.inputs or (None,) * len(program.inputs),
        assignment.outputs or (None,) * len(program.outputs),
    )
    locations: tuple[list[DeviceOrSharding], list[DeviceOrSharding]] = ([], [])
    output_shardings = loaded.get_output_shardings() if None in partitioning.outputs and count > 1 else None
    sizes = (count,) if assignment.mesh is None else assignment.mesh.axis_sizes
    for side, tilings, types in (
        (0, partitioning.inputs, program.in_types),
        (1, partitioning.outputs, program.out_types),
    ):
        for i, (tiling, t) in enumerate(zip(tilings, types, strict=True)):
            sharding = requested[side][i]
            if sharding is None and tiling is None and output_shardings is not None:
                hlo_sharding = HloSharding.from_proto(output_shardings[i])
                tiling = tiling_from_hlo(hlo_sharding, sizes, t.ndim)
                if tiling is None:  # in parts of mesh axes
                    sharding = sharding_from_hlo(hlo_sharding, assignment.devices, t.ndim)
                elif 1 in sizes:
                    sharding = _find_spelling(tiling, locations[0], program.in_types, t)
            if sharding is None:
                sharding = assignment.name_sharding(tiling or Tiling(sizes, ((),) * t.ndim))
            kind = (memories.inputs, memories.outputs)[side][i]
            locations[side].append(
                sharding if kind == sharding.nondefault_memory else sharding.with_memory_kind(kind)
            )
    return locations


def _find_spelling(
    tiling: Tiling, inputs: Sequence[DeviceOrSharding], in_types: Sequence[ArrayType], t: ArrayType
) -> NamedSharding | None:
    """Returns the sharding of an input that is sharded as an output is, the one that names most axes.

    XLA does not tell mesh axes of size 1. So what is computed from an array elementwise has its sharding as users wrote it.
    """
    alike = [
        sharding
        for sharding, in_type in zip(inputs, in_types, strict=True)
        if isinstance(sharding, NamedSharding)
        and in_type.shape == t.shape
        and sharding.tiling(t.ndim).is_like(tiling)
    ]
    return max(
        alike,
        key=lambda sharding: len(sharding.mesh.axis_names) - len(sharding.replicated_axes),
        default=None,
    )


def _single_device_locations(device: Device, memories: Sequence[str | None]) -> list[DeviceOrSharding]:
    """Returns the locations of arrays on one device with these memories."""
    return [device if kind is None else SingleDeviceSharding(device, memory_kind=kind) for kind in memories]


def _refuses(devices: tuple[Device, ...], program: Program) -> bool:
    """Says whether XLA refuses a program, whose effx form is right."""
    assignment = Assignment(devices, False)
    try:
        text, hosted, _ = build_module(
            program,
            platform_of(devices[0]),
            debug_info=False,
            partitioning=assignment.partitioning(program),
        )
        calls = HostCalls(hosted, program, len(devices) > 1) if hosted else None
        _compile(text, devices, program.name, (), calls)
    except EffxError as error:
        return isinstance(error.__cause__, _jax.JaxRuntimeError)
    return False


# A function that each call of another one defines again, such as the body of a scan, is traced again each time.
# Its text is the same, so XLA need not compile it again: executables of the most recently used texts are cached, up to
# a number and up to a total length, since their memory grows with the texts.
Compilation: TypeAlias = tuple[str, tuple[Device, ...], CompilerOptions]
# By these the eager gradient of a GRU goes from 160 ms to 4, where jax compiles each time.
_compiled_texts: "OrderedDict[Compilation, _jax.LoadedExecutable]" = OrderedDict()
_MOST_TEXTS, _MOST_TEXT_LENGTH = 256, 4_000_000
_lock = threading.Lock()


def _clear_compiled_texts() -> None:
    with _lock:
        _compiled_texts.clear()


caching.kernel_caches.append(_clear_compiled_texts)


def compile_text(
    text: str,
    devices: tuple[Device, ...],
    name: str,
    options: CompilerOptions = (),
    calls: HostCalls | None = None,
) -> _jax.LoadedExecutable:
    """Compiles a StableHLO module for one device, or for several that run it together.

    A text that was compiled lately is not compiled again, unless it calls Python functions, which it does not identify.

    Raises:
        BackendError: XLA refuses the text, or has no such option.
    """
    if calls is not None or "@InspectSharding" in text:
        return _compile(text, devices, name, options, calls)[0]
    loaded = find_compiled(text, devices, name, options)
    if loaded is not None:
        return loaded
    loaded, seconds = _compile(text, devices, name, options, None)
    store_compiled(loaded, text, devices, options, seconds)
    return _store_compiled((text, devices, options), loaded)


def find_compiled(
    text: str,
    devices: tuple[Device, ...],
    name: str,
    options: CompilerOptions,
    calls: HostCalls | None = None,
) -> _jax.LoadedExecutable | None:
    """Returns the executable of a text that was compiled lately, or is on disk; None for others."""
    if calls is not None or "@InspectSharding" in text:
        return None
    key = (text, devices, options)
    with _lock:
        cached = _compiled_texts.get(key)
        if cached is not None:
            _compiled_texts.move_to_end(key)
    record_event(f"/effx/compile/cache_{'miss' if cached is None else 'hit'}", fun_name=name)
    if cached is not None:
        return cached
    loaded = look_up_compiled(text, devices, options)
    if loaded is not None:
        record_event("/effx/compile/cache_dir_hit", fun_name=name)
        return _store_compiled(key, loaded)
    return None


def _store_compiled(key: Compilation, loaded: _jax.LoadedExecutable) -> _jax.LoadedExecutable:
    with _lock:
        _compiled_texts[key] = loaded
        length = sum([len(stored_text) for stored_text, _, _ in _compiled_texts])
        while len(_compiled_texts) > _MOST_TEXTS or (length > _MOST_TEXT_LENGTH and len(_compiled_texts) > 1):
            length -= len(_compiled_texts.popitem(last=False)[0][0])
    return loaded


def _compile(
    text: str, devices: tuple[Device, ...], name: str, chosen: CompilerOptions, calls: HostCalls | None
) -> tuple[_jax.LoadedExecutable, float]:
    """Compiles a text without the cache; returns the executable, and how many seconds it took."""
    check_process()
    free_memory_maps()
    # A first call is XLA's time: of that of a gradient of a perceptron (107 ms) 100 ms are XLA's, of an
    # attention's 237 of 245, where JAX's take 97 of 119 and 222 of 267; tracing and lowering are 2 to 3 ms
    # here. From effx's text and from JAX's XLA compiles equally long (0.99 to 1.07 of the time). Of ten of
    # its options that could spare some (how many modules LLVM compiles side by side, cheaper passes, narrower
    # vectors, no verification) none changes the geometric mean of six programs by more than 1 %, but for
    # LLVM's lowest level (`compile_effort.py`), and the
    # compiled programs of five of them have JAX's number of kernels. What spares time is fewer and simpler
    # kernels: first calls are at 0.6 to 0.95 of JAX's, 0.78 on the geometric mean of eleven.
    options = compile_options(devices, chosen)
    log_step("Compiling jit(%s) for %s: %d lines", name, device_range_text(devices), text.count("\n"))
    started = time.perf_counter()
    try:
        with Phase("/effx/compile", name), in_xla:
            if calls is not None:
                loaded = compile_with_callbacks(text, devices, options, calls)
            else:
                loaded = devices[0].client.compile_and_load(text, _jax.DeviceList(devices), options)
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"compile: XLA refused the program: {error}") from error
    seconds = time.perf_counter() - started
    log_step("Finished XLA compilation of jit(%s) in %.3f sec", name, seconds)
    return loaded, seconds
