"""Configuration flags: one global value each, set from code or `EFFX_*`, overridden per context.

Never: import another effx module but those imported here, or depend on a flag's readers (layers subscribe instead).
"""

from __future__ import annotations

import os
from typing import Final, Generic, TypeVar, final

from effx import errors
from effx.flag_kinds import (
    AnyFlag,
    DisablingSwitch,
    Flag,
    FlagGroup,
    Override,
    Switch,
    UserContext,
    make_user_context,
    overrides,
    user_context_listeners,
    user_contexts,
)
from effx.flag_values import (
    CollectionGuard,
    CpuCollectives,
    DTypePromotion,
    ExplicitX64,
    MatmulPrecision,
    PrngImplementation,
    RankPromotion,
    RawKeys,
    TransferGuard,
    check_collection_guard,
    check_cpu_collectives,
    check_device,
    check_dtype_promotion,
    check_explicit_x64,
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
    parse_text,
)

__all__ = [
    "FLAGS",
    "AnyFlag",
    "CollectionGuard",
    "Config",
    "CpuCollectives",
    "DTypePromotion",
    "ExplicitX64",
    "Flag",
    "FlagGroup",
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

T = TypeVar("T")

FLAGS: Final[dict[str, AnyFlag]] = {}

enable_x64: Final = Switch("enable_x64", False)
disable_jit: Final = DisablingSwitch("disable_jit", False)
threefry_partitionable: Final = Switch("threefry_partitionable", True)
enable_checks: Final = Switch("enable_checks", False)
debug_nans: Final = Switch("debug_nans", False)
debug_infs: Final = Switch("debug_infs", False)
debug_key_reuse: Final = Switch("debug_key_reuse", False)
log_compiles: Final = Switch("log_compiles", False)
traceback_filtering: Final = Switch("traceback_filtering", True)
default_matmul_precision: Final[Flag[MatmulPrecision | None]] = Flag(
    "default_matmul_precision", None, check_matmul_precision, parse_text
)
numpy_rank_promotion: Final[Flag[RankPromotion]] = Flag(
    "numpy_rank_promotion", "allow", check_rank_promotion, parse_text
)
explicit_x64_dtypes: Final[Flag[ExplicitX64]] = Flag(
    "explicit_x64_dtypes", "warn", check_explicit_x64, parse_text
)
numpy_dtype_promotion: Final[Flag[DTypePromotion]] = Flag(
    "numpy_dtype_promotion", "standard", check_dtype_promotion, parse_text
)
default_prng_impl: Final[Flag[PrngImplementation]] = Flag(
    "default_prng_impl", "threefry2x32", check_prng_impl, parse_text
)
explain_cache_misses: Final = Switch("explain_cache_misses", False)
check_static_indices: Final = Switch("check_static_indices", True)
allow_f16_reductions: Final = Switch("allow_f16_reductions", True)
check_tracer_leaks: Final = Switch("check_tracer_leaks", False)
checking_leaks: Final = check_tracer_leaks
no_tracing: Final = Switch("no_tracing", False)
no_execution: Final = Switch("no_execution", False)
enable_custom_prng: Final = Switch("enable_custom_prng", False)
legacy_prng_key: Final[Flag[RawKeys]] = Flag("legacy_prng_key", "allow", check_raw_keys, parse_text)
# A device, or a platform's name: this layer has no devices.
default_device: Final[Flag[object]] = Flag("default_device", None, check_device, parse_text)
cache_dir: Final[Flag[str | None]] = Flag("cache_dir", None, check_path, parse_text)
cache_max_size: Final[Flag[int]] = Flag("cache_max_size", 2**30, check_positive_int, parse_int)
cache_min_compile_seconds: Final[Flag[float]] = Flag(
    "cache_min_compile_seconds", 0.05, check_seconds, parse_float
)
cache_programs: Final = Switch("cache_programs", True)


def _make_transfer_guard(direction: str) -> Flag[TransferGuard]:
    for_all = os.environ.get("EFFX_TRANSFER_GUARD")
    default = "allow" if for_all is None else check_transfer_guard("EFFX_TRANSFER_GUARD", for_all)
    return Flag(f"transfer_guard_{direction}", default, check_transfer_guard, parse_text)


transfer_guard_host_to_device: Final = _make_transfer_guard("host_to_device")
transfer_guard_device_to_device: Final = _make_transfer_guard("device_to_device")
transfer_guard_device_to_host: Final = _make_transfer_guard("device_to_host")
transfer_guard: Final = FlagGroup(
    "transfer_guard",
    (transfer_guard_host_to_device, transfer_guard_device_to_device, transfer_guard_device_to_host),
)
array_garbage_collection_guard: Final[Flag[CollectionGuard]] = Flag(
    "array_garbage_collection_guard", "allow", check_collection_guard, parse_text
)
thread_guard: Final = Switch("thread_guard", False)
num_cpu_devices: Final[Flag[int]] = Flag("num_cpu_devices", 1, check_positive_int, parse_int)
cpu_collectives_implementation: Final[Flag[CpuCollectives]] = Flag(
    "cpu_collectives_implementation", "gloo", check_cpu_collectives, parse_text
)
platforms: Final[Flag[str | None]] = Flag("platforms", None, check_platforms, parse_text)
pprint_use_color: Final = Switch("pprint_use_color", True)

_ALL: tuple[AnyFlag, ...] = (
    enable_x64, disable_jit, threefry_partitionable, enable_checks, debug_nans, debug_infs, debug_key_reuse,
    log_compiles, traceback_filtering, default_matmul_precision, numpy_rank_promotion, numpy_dtype_promotion,
    default_prng_impl, num_cpu_devices, platforms, explain_cache_misses, check_tracer_leaks, no_tracing, no_execution,
    enable_custom_prng, legacy_prng_key, default_device, transfer_guard, transfer_guard_host_to_device,
    transfer_guard_device_to_device, transfer_guard_device_to_host, cache_dir, cache_max_size, cache_min_compile_seconds,
    cache_programs, cpu_collectives_implementation, array_garbage_collection_guard, thread_guard,
    pprint_use_color, explicit_x64_dtypes, check_static_indices,
    allow_f16_reductions,
)  # fmt: skip
FLAGS.update({flag.name: flag for flag in _ALL})


@final
class _FlagAttribute(Generic[T]):
    """An attribute of `config`: a flag's value in force, which cannot be set."""

    def __init__(self, flag: Flag[T], doc: str) -> None:
        self.flag, self.__doc__ = flag, doc

    def __get__(self, config: object, owner: object = None) -> T:
        return self.flag.value


@final
class Config:
    """All flags by name: read them as attributes, change them with `update`.

    >>> config.enable_x64
    False
    >>> config.update("effx_log_compiles", False)
    """

    __slots__ = ()

    enable_x64 = _FlagAttribute(enable_x64, "Whether 64-bit dtypes are kept; otherwise they become 32-bit.")
    disable_jit = _FlagAttribute(disable_jit, "Whether `jit` and control flow run operation by operation.")
    threefry_partitionable = _FlagAttribute(
        threefry_partitionable, "Whether threefry bits are generated so that they can be partitioned."
    )
    enable_checks = _FlagAttribute(
        enable_checks, "Whether programs are checked after every pass and handler."
    )
    debug_nans = _FlagAttribute(debug_nans, "Whether a NaN in a result raises an error.")
    debug_infs = _FlagAttribute(debug_infs, "Whether an infinity in a result raises an error.")
    debug_key_reuse = _FlagAttribute(debug_key_reuse, "Whether using a random key twice raises an error.")
    log_compiles = _FlagAttribute(log_compiles, "Whether each compilation is logged.")
    traceback_filtering = _FlagAttribute(
        traceback_filtering, "Whether effx's own frames are hidden in tracebacks."
    )
    default_matmul_precision = _FlagAttribute(
        default_matmul_precision,
        "Precision of matrix products and convolutions that ask for none, or the name of an algorithm for products.",
    )
    numpy_rank_promotion = _FlagAttribute(
        numpy_rank_promotion, "What broadcasting between different ranks does."
    )
    explicit_x64_dtypes = _FlagAttribute(
        explicit_x64_dtypes, "What a request for a 64-bit dtype does while `enable_x64` is off."
    )
    numpy_dtype_promotion = _FlagAttribute(
        numpy_dtype_promotion, "Whether different dtypes promote implicitly."
    )
    default_prng_impl = _FlagAttribute(default_prng_impl, "The generator of keys that name none.")
    num_cpu_devices = _FlagAttribute(
        num_cpu_devices,
        "How many devices the CPU backend offers; read once, when the backend starts. Where it is 1, and not by its "
        "environment variable, `--xla_force_host_platform_device_count` in `XLA_FLAGS` counts.",
    )
    cpu_collectives_implementation = _FlagAttribute(
        cpu_collectives_implementation,
        "What carries collectives between the CPUs of several processes; read once, when the backend starts.",
    )
    platforms = _FlagAttribute(
        platforms, "Platforms to start, in order of preference; None lets effx choose."
    )

    allow_f16_reductions = _FlagAttribute(
        allow_f16_reductions,
        "Whether sums may be taken in float16 and bfloat16, which lose what they add up.",
    )
    explain_cache_misses = _FlagAttribute(
        explain_cache_misses,
        "Whether each new staging is logged with what differs from the nearest earlier one.",
    )
    check_static_indices = _FlagAttribute(
        check_static_indices,
        "Whether an int out of range is refused as an index; otherwise it reads the nearest element and writes none.",
    )
    check_tracer_leaks = _FlagAttribute(
        check_tracer_leaks,
        "Whether a value that outlives the staging of its function raises an error at once.",
    )
    no_tracing = _FlagAttribute(no_tracing, "Whether staging a function for new arguments raises an error.")
    no_execution = _FlagAttribute(no_execution, "Whether running a compiled program raises an error.")
    enable_custom_prng = _FlagAttribute(enable_custom_prng, "Whether `random.PRNGKey` gives typed keys.")
    legacy_prng_key = _FlagAttribute(legacy_prng_key, "What a key of plain words, given to a sampler, does.")
    default_device = _FlagAttribute(
        default_device, "The device, or platform, of what no array or argument binds to another one."
    )
    cache_dir = _FlagAttribute(
        cache_dir, "The directory of compiled programs that outlive the process; None for no such cache."
    )
    cache_max_size = _FlagAttribute(cache_max_size, "How many bytes the cache in cache_dir may take.")
    cache_min_compile_seconds = _FlagAttribute(
        cache_min_compile_seconds, "How many seconds compiling must take for the cache to keep the result."
    )
    cache_programs = _FlagAttribute(
        cache_programs, "Whether the cache in cache_dir has staged programs too, so that tracing is skipped."
    )
    transfer_guard_host_to_device = _FlagAttribute(
        transfer_guard_host_to_device, "What moving data from the host to a device does."
    )
    transfer_guard_device_to_device = _FlagAttribute(
        transfer_guard_device_to_device, "What moving data between devices does."
    )
    transfer_guard_device_to_host = _FlagAttribute(
        transfer_guard_device_to_host, "What moving data from a device to the host does."
    )

    array_garbage_collection_guard = _FlagAttribute(
        array_garbage_collection_guard,
        "What happens to an array that Python's garbage collector frees, because it was in a cycle of references.",
    )
    thread_guard = _FlagAttribute(
        thread_guard,
        "Whether only the thread that set it runs programs on the devices of several processes.",
    )
    pprint_use_color = _FlagAttribute(
        pprint_use_color,
        "Whether programs are shown in colours where the output is a terminal; their `str` never is.",
    )

    @property
    def transfer_guard(self) -> TransferGuard | None:
        """What moving data in any direction does; None where the directions differ."""
        return transfer_guard.value

    def describe(self) -> str:
        """Return a text with a line for each flag: its name, value, environment variable and meaning.

        >>> print(next(line for line in config.describe().splitlines() if line.startswith("cache_max_size")))
        cache_max_size=1073741824 (EFFX_CACHE_MAX_SIZE): How many bytes the cache in cache_dir may take.
        """
        lines = []
        for name, flag in sorted(FLAGS.items()):
            attribute = vars(Config).get(name)
            doc = (getattr(attribute, "__doc__", None) or "").split("\n")[0]
            lines.append(f"{name}={flag.read()!r} ({flag.env}): {doc}")
        return "\n".join(lines)

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
