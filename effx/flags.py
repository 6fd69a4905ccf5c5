"""Configuration flags: one global value each, set from code or `EFFX_*`, overridden per context.

Never: import another effx module but those imported here, or depend on a flag's readers (layers subscribe instead).
"""

from __future__ import annotations

import os
from typing import Final, Generic, Protocol, TypeVar, final

from effx import errors
from effx.flag_kinds import (
    AnyFlag,
    Changes,
    DisablingSwitch,
    Flag,
    FlagGroup,
    Override,
    Switch,
    UserContext,
    make_user_context,
    overrides,
    read_values,
    user_context_listeners,
    user_contexts,
)
from effx.flag_values import (
    CollectionGuard,
    CompileMode,
    CpuCollectives,
    DTypePromotion,
    ExplicitX64,
    HostMemory,
    MatmulPrecision,
    PrngImplementation,
    RankPromotion,
    RawKeys,
    TransferGuard,
    check_collection_guard,
    check_compile_mode,
    check_cpu_collectives,
    check_device,
    check_dtype_promotion,
    check_explicit_x64,
    check_host_memory,
    check_matmul_precision,
    check_path,
    check_platforms,
    check_positive_int,
    check_prng_impl,
    check_rank_promotion,
    check_raw_keys,
    check_seconds,
    check_transfer_guard,
    parse_float,
    parse_int,
)

__all__ = [
    "FLAGS",
    "AnyFlag",
    "Changes",
    "CollectionGuard",
    "CompileMode",
    "Config",
    "CpuCollectives",
    "DTypePromotion",
    "ExplicitX64",
    "Flag",
    "FlagGroup",
    "HostMemory",
    "MatmulPrecision",
    "Override",
    "RankPromotion",
    "Switch",
    "TransferGuard",
    "UserContext",
    "allow_f16_reductions",
    "array_garbage_collection_guard",
    "cache_dir",
    "cache_max_size",
    "cache_min_compile_seconds",
    "cache_programs",
    "check_static_indices",
    "check_tracer_leaks",
    "checking_leaks",
    "compile",
    "config",
    "cpu_collectives_implementation",
    "debug_infs",
    "debug_key_reuse",
    "debug_nans",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "disable_jit",
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "explain_cache_misses",
    "explicit_x64_dtypes",
    "flags_that_change",
    "host_memory",
    "legacy_prng_key",
    "log_compiles",
    "make_user_context",
    "no_execution",
    "no_tracing",
    "num_cpu_devices",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "overrides",
    "platforms",
    "pprint_use_color",
    "read_trace_settings",
    "read_values",
    "thread_guard",
    "threefry_partitionable",
    "traceback_filtering",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "user_context_listeners",
    "user_contexts",
]

T_co = TypeVar("T_co", covariant=True)

# A row for each: name, default, how it is checked, what it changes, what it says.
# fmt: off
enable_x64: Final = Switch("enable_x64", False, Changes.TRACES,
    "Whether 64-bit dtypes are kept; otherwise they become 32-bit.")
disable_jit: Final = DisablingSwitch("disable_jit", False, Changes.TRACES,
    "Whether `jit` and control flow run operation by operation.")
threefry_partitionable: Final = Switch("threefry_partitionable", True, Changes.TRACES,
    "Whether threefry bits are generated so that they can be partitioned.")
enable_checks: Final = Switch("enable_checks", False, Changes.TRACES,
    "Whether programs are checked after every pass and handler.")
debug_nans: Final = Switch("debug_nans", False, Changes.CALLS, "Whether a NaN in a result raises an error.")
debug_infs: Final = Switch("debug_infs", False, Changes.CALLS,
    "Whether an infinity in a result raises an error.")
debug_key_reuse: Final = Switch("debug_key_reuse", False, Changes.TRACES,
    "Whether using a random key twice raises an error.", needs_python=True)
log_compiles: Final = Switch("log_compiles", False, Changes.NOTHING, "Whether each compilation is logged.")
traceback_filtering: Final = Switch("traceback_filtering", True, Changes.NOTHING,
    "Whether effx's own frames are hidden in tracebacks.")
default_matmul_precision: Final[Flag[MatmulPrecision | None]] = Flag(
    "default_matmul_precision", None, check_matmul_precision, changes=Changes.TRACES,
    doc="Precision of matrix products and convolutions that ask for none, or the name of an algorithm for products.")
numpy_rank_promotion: Final[Flag[RankPromotion]] = Flag("numpy_rank_promotion", "allow", check_rank_promotion,
    changes=Changes.TRACES, doc="What broadcasting between different ranks does.")
explicit_x64_dtypes: Final[Flag[ExplicitX64]] = Flag("explicit_x64_dtypes", "warn", check_explicit_x64,
    changes=Changes.TRACES, doc="What a request for a 64-bit dtype does while `enable_x64` is off.")
numpy_dtype_promotion: Final[Flag[DTypePromotion]] = Flag("numpy_dtype_promotion", "standard", check_dtype_promotion,
    changes=Changes.TRACES, doc="Whether different dtypes promote implicitly.")
default_prng_impl: Final[Flag[PrngImplementation]] = Flag("default_prng_impl", "threefry2x32", check_prng_impl,
    changes=Changes.TRACES, doc="The generator of keys that name none.")
explain_cache_misses: Final = Switch("explain_cache_misses", False, Changes.NOTHING,
    "Whether each new staging is logged with what differs from the nearest earlier one.")
check_static_indices: Final = Switch("check_static_indices", True, Changes.TRACES,
    "Whether an int out of range is refused as an index; otherwise it reads the nearest element and writes none.")
allow_f16_reductions: Final = Switch("allow_f16_reductions", True, Changes.TRACES,
    "Whether sums may be taken in float16 and bfloat16, which lose what they add up.")
check_tracer_leaks: Final = Switch("check_tracer_leaks", False, Changes.TRACES,
    "Whether a value that outlives the staging of its function raises an error at once.")
checking_leaks: Final = check_tracer_leaks
# What was staged before may be called while it is on, so it is part of no key.
no_tracing: Final = Switch("no_tracing", False, Changes.NOTHING,
    "Whether staging a function for new arguments raises an error.")
no_execution: Final = Switch("no_execution", False, Changes.NOTHING,
    "Whether running a compiled program raises an error.", needs_python=True)
enable_custom_prng: Final = Switch("enable_custom_prng", False, Changes.TRACES,
    "Whether `random.PRNGKey` gives typed keys.")
legacy_prng_key: Final[Flag[RawKeys]] = Flag("legacy_prng_key", "allow", check_raw_keys, changes=Changes.TRACES,
    doc="What a key of plain words, given to a sampler, does.")
# A device, or a platform's name: this layer has no devices.
default_device: Final[Flag[object]] = Flag("default_device", None, check_device, changes=Changes.CALLS,
    doc="The device, or platform, of what no array or argument binds to another one.")
compile: Final[Flag[CompileMode]] = Flag("compile", "full", check_compile_mode, changes=Changes.CALLS,  # noqa: A001  as `jit`'s
    doc="How much XLA optimizes on CPUs: 'full', 'fast' for programs that run a few times, or 'tiered', first fast and "
    "then in full in a thread of its own. A function's own `jit(compile=...)` counts more.")
cache_dir: Final[Flag[str | None]] = Flag("cache_dir", None, check_path, changes=Changes.NOTHING,
    doc="The directory of compiled programs that outlive the process; None for no such cache.")
cache_max_size: Final[Flag[int]] = Flag("cache_max_size", 2**30, check_positive_int, parse_int, Changes.NOTHING,
    "How many bytes the cache in cache_dir may take.")
cache_min_compile_seconds: Final[Flag[float]] = Flag("cache_min_compile_seconds", 0.05, check_seconds, parse_float,
    Changes.NOTHING, "How many seconds compiling must take for the cache to keep the result.")
cache_programs: Final = Switch("cache_programs", True, Changes.NOTHING,
    "Whether the cache in cache_dir has staged programs too, so that tracing is skipped.")


def _make_transfer_guard(direction: str, doc: str) -> Flag[TransferGuard]:
    for_all = os.environ.get("EFFX_TRANSFER_GUARD")
    default = "allow" if for_all is None else check_transfer_guard("EFFX_TRANSFER_GUARD", for_all)
    name = f"transfer_guard_{direction}"
    return Flag(name, default, check_transfer_guard, changes=Changes.NOTHING, doc=doc, needs_python=True)


transfer_guard_host_to_device: Final = _make_transfer_guard(
    "host_to_device", "What moving data from the host to a device does."
)
transfer_guard_device_to_device: Final = _make_transfer_guard(
    "device_to_device", "What moving data between devices does."
)
transfer_guard_device_to_host: Final = _make_transfer_guard(
    "device_to_host", "What moving data from a device to the host does."
)
transfer_guard: Final = FlagGroup(
    "transfer_guard",
    (transfer_guard_host_to_device, transfer_guard_device_to_device, transfer_guard_device_to_host),
    "What moving data in any direction does; None where the directions differ.",
)
array_garbage_collection_guard: Final[Flag[CollectionGuard]] = Flag(
    "array_garbage_collection_guard", "allow", check_collection_guard, changes=Changes.NOTHING,
    doc="What happens to an array that Python's garbage collector frees, because it was in a cycle of references.")
thread_guard: Final = Switch("thread_guard", False, Changes.NOTHING,
    "Whether only the thread that set it runs programs on the devices of several processes.", needs_python=True)
num_cpu_devices: Final[Flag[int]] = Flag("num_cpu_devices", 1, check_positive_int, parse_int, Changes.PROCESSES,
    "How many devices the CPU backend offers; read once, when the backend starts. Where it is 1, and not by its "
    "environment variable, `--xla_force_host_platform_device_count` in `XLA_FLAGS` counts.")
cpu_collectives_implementation: Final[Flag[CpuCollectives]] = Flag(
    "cpu_collectives_implementation", "gloo", check_cpu_collectives, changes=Changes.PROCESSES,
    doc="What carries collectives between the CPUs of several processes; read once, when the backend starts.")
host_memory: Final[Flag[HostMemory]] = Flag("host_memory", "return", check_host_memory, changes=Changes.PROCESSES,
    doc="What becomes of large pieces of the host's memory that are freed: the system gets them back, or the process "
    "keeps them for the next array; read once, when the CPU backend starts.")
platforms: Final[Flag[str | None]] = Flag("platforms", None, check_platforms, changes=Changes.PROCESSES,
    doc="Platforms to start, in order of preference; None lets effx choose.")
pprint_use_color: Final = Switch("pprint_use_color", True, Changes.NOTHING,
    "Whether programs are shown in colours where the output is a terminal; their `str` never is.")
# fmt: on

# All of the above.
FLAGS: Final = {flag.name: flag for flag in tuple(globals().values()) if isinstance(flag, AnyFlag)}


def flags_that_change(least: Changes) -> tuple[Flag[object], ...]:
    """Returns the flags that change this or more, whose values are part of its keys."""
    return tuple([flag for flag in FLAGS.values() if isinstance(flag, Flag) and flag.changes >= least])


_OF_TRACES: Final = flags_that_change(Changes.TRACES)


def read_trace_settings() -> tuple[object, ...]:
    """Returns what a trace depends on, as this context sees it: values of flags, and those of users' own at the end."""
    return *read_values(_OF_TRACES), read_values(user_contexts)


class _Readable(Protocol[T_co]):
    doc: str

    @property
    def value(self) -> T_co: ...


@final
class _ValueOf(Generic[T_co]):
    """An attribute of `config`: a flag's value in force, which cannot be set."""

    def __init__(self, flag: _Readable[T_co]) -> None:
        self.flag, self.__doc__ = flag, flag.doc

    def __get__(self, config: object, owner: object = None) -> T_co:
        return self.flag.value


@final
class Config:
    """All flags by name: read them as attributes, change them with `update`.

    >>> config.enable_x64
    False
    >>> config.update("effx_log_compiles", False)
    """

    __slots__ = ()

    enable_x64 = _ValueOf(enable_x64)
    disable_jit = _ValueOf(disable_jit)
    threefry_partitionable = _ValueOf(threefry_partitionable)
    enable_checks = _ValueOf(enable_checks)
    debug_nans = _ValueOf(debug_nans)
    debug_infs = _ValueOf(debug_infs)
    debug_key_reuse = _ValueOf(debug_key_reuse)
    log_compiles = _ValueOf(log_compiles)
    traceback_filtering = _ValueOf(traceback_filtering)
    default_matmul_precision = _ValueOf(default_matmul_precision)
    numpy_rank_promotion = _ValueOf(numpy_rank_promotion)
    explicit_x64_dtypes = _ValueOf(explicit_x64_dtypes)
    numpy_dtype_promotion = _ValueOf(numpy_dtype_promotion)
    default_prng_impl = _ValueOf(default_prng_impl)
    explain_cache_misses = _ValueOf(explain_cache_misses)
    check_static_indices = _ValueOf(check_static_indices)
    allow_f16_reductions = _ValueOf(allow_f16_reductions)
    check_tracer_leaks = _ValueOf(check_tracer_leaks)
    no_tracing = _ValueOf(no_tracing)
    no_execution = _ValueOf(no_execution)
    enable_custom_prng = _ValueOf(enable_custom_prng)
    legacy_prng_key = _ValueOf(legacy_prng_key)
    default_device = _ValueOf(default_device)
    compile = _ValueOf(compile)
    cache_dir = _ValueOf(cache_dir)
    cache_max_size = _ValueOf(cache_max_size)
    cache_min_compile_seconds = _ValueOf(cache_min_compile_seconds)
    cache_programs = _ValueOf(cache_programs)
    transfer_guard_host_to_device = _ValueOf(transfer_guard_host_to_device)
    transfer_guard_device_to_device = _ValueOf(transfer_guard_device_to_device)
    transfer_guard_device_to_host = _ValueOf(transfer_guard_device_to_host)
    transfer_guard = _ValueOf(transfer_guard)
    array_garbage_collection_guard = _ValueOf(array_garbage_collection_guard)
    thread_guard = _ValueOf(thread_guard)
    num_cpu_devices = _ValueOf(num_cpu_devices)
    cpu_collectives_implementation = _ValueOf(cpu_collectives_implementation)
    host_memory = _ValueOf(host_memory)
    platforms = _ValueOf(platforms)
    pprint_use_color = _ValueOf(pprint_use_color)

    def describe(self) -> str:
        """Return a text with a line for each flag: its name, value, environment variable and meaning.

        >>> print(next(line for line in config.describe().splitlines() if line.startswith("cache_max_size")))
        cache_max_size=1073741824 (EFFX_CACHE_MAX_SIZE): How many bytes the cache in cache_dir may take.
        """
        return "\n".join(
            [f"{name}={flag.read()!r} ({flag.env}): {flag.doc}" for name, flag in sorted(FLAGS.items())]
        )

    def update(self, name: str, value: object) -> None:
        """Make `value` the global value of the flag `name`, with or without the prefix `effx_`.

        Args:
            name: `"enable_x64"` or `"effx_enable_x64"`.
            value: checked against the flag's type.

        Raises:
            AttributeError: no flag has this name.
            TypeError, ValueError: the flag does not take this value.

        >>> config.update("enable_x64", "yes")
        Traceback (most recent call last):
        TypeError: enable_x64: got 'yes' (str), expected a bool
        """
        self._find("config.update", name).assign(value)

    def read(self, name: str) -> object:
        """The value of the flag `name`, with or without the prefix `effx_`.

        >>> config.read("effx_enable_x64")
        False
        """
        return self._find("config.read", name).read()

    def values(self) -> dict[str, object]:
        """The values of all flags, as this context sees them.

        >>> config.values()["threefry_partitionable"]
        True
        """
        return {name: flag.read() for name, flag in FLAGS.items()}

    def _find(self, where: str, name: str) -> AnyFlag:
        flag = FLAGS.get(name.removeprefix("effx_"))
        if flag is None:
            raise AttributeError(f"{where}: no flag {name!r}, expected one of {', '.join(sorted(FLAGS))}")
        return flag

    def __repr__(self) -> str:
        return f"<Config {', '.join(f'{name}={value!r}' for name, value in self.values().items())}>"


errors.hide_frames_setting[0] = traceback_filtering.read

config: Final = Config()


def __dir__() -> list[str]:
    return sorted(__all__)
