"""JAX's settings: the setting of effx for each, or the behaviour of effx without it.

A setting of JAX's is one of effx's, or a value that effx cannot but have, and any other value would change results and
is refused. What changes no result, of speed, logs and other devices' compilers, is kept, and a warning says once that it
has no effect.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Protocol, final

import attrs

from effx.errors import warn_user
from effx.flag_values import check_bool, check_path, parse_bool, parse_float, parse_int, parse_text
from effx.flags import FLAGS, config

__all__ = ["RefusedSettingError", "Setting", "names", "parsed", "read_environment", "setting"]


@final
class RefusedSettingError(ValueError):
    """A setting is to be what effx does not do."""


class Setting(Protocol):
    """A setting by JAX's name."""

    def read(self) -> object:
        """Returns its value, as JAX has it."""

    def assign(self, value: object) -> None:
        """Makes a value that JAX has the global one.

        Raises:
            TypeError, ValueError: it does not take this value.
            RefusedSettingError: effx does not support the value.
        """


def _same(value: object) -> object:
    return value


@final
@attrs.frozen
class EffxSetting:
    """A setting of effx's.

    Attributes:
        flag: effx's name.
        into: gives effx's value for one of JAX's. out: gives it back.
    """

    flag: str
    into: Callable[[object], object] = _same
    out: Callable[[object], object] = _same

    def read(self) -> object:
        return self.out(FLAGS[self.flag].read())

    def assign(self, value: object) -> None:
        config.update(self.flag, self.into(value))


@final
@attrs.frozen
class FixedSetting:
    """What cannot be chosen.

    Attributes:
        name: JAX's name.
        values: those that say what effx does; the first is read.
        why: what effx does.
    """

    name: str
    values: tuple[object, ...]
    why: str

    def read(self) -> object:
        return self.values[0]

    def assign(self, value: object) -> None:
        if not any([type(value) is type(v) and value == v for v in self.values]):
            raise RefusedSettingError(
                f"jax.config: {self.name} is {' or '.join(map(repr, self.values))} on effx, got {value!r}: {self.why}"
            )


@final
class IneffectiveSetting:
    """What changes no result on effx, whatever its value.

    Attributes:
        name: JAX's name. value: its value, at first JAX's default. why: what effx does instead. alike: other values
            that ask for what effx does.
    """

    def __init__(self, name: str, value: object, why: str, alike: tuple[object, ...] = ()) -> None:
        self.name, self.value, self.why, self.alike = name, value, why, (value, *alike)
        self.has_warned = False

    def read(self) -> object:
        return self.value

    def assign(self, value: object) -> None:
        if value not in self.alike and not self.has_warned:
            self.has_warned = True
            warn_user(f"jax.config: {self.name} has no effect on effx: {self.why}")
        self.value = value


@final
class _CacheDirectory:
    """The directory of compiled programs and whether it is used, which are one setting of effx's."""

    def __init__(self) -> None:
        self.on = True
        self.unused: str | None = None  # the directory, while it is not used

    def read(self) -> str | None:
        return config.cache_dir if self.on else self.unused

    def put(self, value: object) -> None:
        if self.on:
            config.update("cache_dir", value or None)
        else:
            self.unused = check_path("jax_compilation_cache_dir", value or None)

    def switch(self, value: object) -> None:
        directory, self.on = self.read(), check_bool("jax_enable_compilation_cache", value)
        self.unused = None if self.on else directory
        config.update("cache_dir", directory if self.on else None)


@final
@attrs.frozen
class _Attribute:
    """A setting that an object holds.

    Attributes:
        get, put: read and set it.
        flag: effx's name; empty where it has none of its own.
    """

    get: Callable[[], object]
    put: Callable[[object], None]
    flag: str = ""

    def read(self) -> object:
        return self.get()

    def assign(self, value: object) -> None:
        self.put(value)


def _traceback_filtering(value: object) -> object:
    """JAX's ways to hide frames are one for effx."""
    if value in ("auto", "tracebackhide", "remove_frames", "quiet_remove_frames"):
        return True
    return False if value == "off" else value


def _compile_mode(value: object) -> object:
    return "fast" if check_bool("jax_disable_most_optimizations", value) else "full"


def _nonnegative_seconds(value: object) -> object:
    """JAX takes negative numbers for no least time."""
    return max(value, 0) if isinstance(value, int | float) else value


def _set_logging_level(value: object) -> None:
    logging.getLogger("effx").setLevel(str(value))


_directory = _CacheDirectory()

_TRANSLATED: Mapping[str, Setting] = {
    "platform_name": EffxSetting("platforms", lambda v: v or None, lambda v: v or ""),
    "platforms": EffxSetting("platforms", lambda v: v or None),
    "traceback_filtering": EffxSetting(
        "traceback_filtering", _traceback_filtering, lambda v: "auto" if v else "off"
    ),
    "disable_most_optimizations": EffxSetting("compile", _compile_mode, lambda v: v == "fast"),
    "compilation_cache_dir": _Attribute(_directory.read, _directory.put, "cache_dir"),
    "enable_compilation_cache": _Attribute(lambda: _directory.on, _directory.switch),
    "compilation_cache_max_size": EffxSetting(
        "cache_max_size", lambda v: sys.maxsize if v == -1 else v, lambda v: -1 if v == sys.maxsize else v
    ),
    "persistent_cache_min_compile_time_secs": EffxSetting("cache_min_compile_seconds", _nonnegative_seconds),
    "logging_level": _Attribute(
        lambda: logging.getLevelName(logging.getLogger("effx").level), _set_logging_level
    ),
    **{
        name: EffxSetting(name, lambda v: "allow" if v is None else v)
        for name in (
            "array_garbage_collection_guard",
            "transfer_guard",
            "transfer_guard_device_to_device",
            "transfer_guard_device_to_host",
            "transfer_guard_host_to_device",
        )
    },
}

_FIXED: Mapping[str, tuple[tuple[object, ...], str]] = {
    "cuda_visible_devices": (("all",), "CUDA_VISIBLE_DEVICES in the environment chooses devices"),
    "error_checking_behavior_divide": (("ignore",), "effx.experimental.checkify checks divisions"),
    "error_checking_behavior_nan": (("ignore",), "debug_nans checks for NaN"),
    "error_checking_behavior_oob": (("ignore",), "effx.experimental.checkify checks indices"),
    "high_dynamic_range_gumbel": ((False,), "random.gumbel takes mode='high'"),
    "random_seed_offset": ((0,), "a seed is all that a key depends on"),
    "remove_size_one_mesh_axis_from_type": ((False,), "types have all axes of the mesh"),
    "rocm_visible_devices": (("all",), "ROCR_VISIBLE_DEVICES in the environment chooses devices"),
}

_XLAS = "compiler_options of jit choose what XLA does"
_WHOLE = "an executable is kept whole, whatever its size, with what XLA has tuned"
_LOGS = "JAX_LOGGING_LEVEL or Python's logging of 'effx' shows what it does"
_HAS_ONE = "effx has one implementation"
_LOCATIONS = "an operation has the one line of the user's that it comes from"
_EXPORTED = "exported programs have one form"
_CLUSTER = "effx.distributed says how processes find each other"
_PALLAS = "it has no kernels of pallas"
# Those that change no result: JAX's default, and what effx does.
_INEFFECTIVE: Mapping[str, tuple[object, str] | tuple[object, str, tuple[object, ...]]] = {
    **{
        name: (default, _XLAS)
        for name, default in {
            "bcoo_cusparse_lowering": False, "compiler_detailed_logging_min_ops": 10,
            "compiler_enable_remat_pass": True, "enable_pgle": False,
            "memory_fitting_level": "O2", "mosaic_allow_hlo": False, "mosaic_unzip_debug_locations": True,
            "optimization_level": "UNKNOWN", "pgle_aggregation_percentile": 90, "pgle_profiling_runs": 3,
            "ragged_dot_use_ragged_dot_instruction": True, "threefry_gpu_kernel_lowering": False,
            "use_magma": "auto", "use_shardy_partitioner": True, "xla_profile_version": 0,
        }.items()
    },
    **{
        name: (default, _WHOLE)
        for name, default in {
            "compilation_cache_check_contents": False, "compilation_cache_expect_pgle": False,
            "compilation_cache_include_metadata_in_key": False, "raise_persistent_cache_errors": False,
            "remove_custom_partitioning_ptr_from_cache_key": False,
            "share_binary_between_hosts": False, "share_binary_between_hosts_timeout_ms": 1200000,
        }.items()
    },
    "persistent_cache_enable_xla_caches": (
        "xla_gpu_per_fusion_autotune_cache_dir",
        _WHOLE,
        ("all", "none", "", None),
    ),
    "persistent_cache_min_entry_size_bytes": (0, _WHOLE, (-1,)),
    **{
        name: (default, _LOGS)
        for name, default in {
            "debug_log_modules": "", "captured_constants_report_frames": 0, "captured_constants_warn_bytes": 2000000000,
            "debug_leaked_clients_on_clear_backends": False, "distributed_debug": False, "dump_ir_modes": "stablehlo",
            "dump_ir_to": "", "include_debug_info_in_dumps": True, "log_checkpoint_residuals": False,
        }.items()
    },
    **{
        name: (default, _HAS_ONE)
        for name, default in {
            "accurate_erf_inv": False, "auto_pcast": True, "check_proxy_envs": True, "check_vma": False,
            "custom_jvp3": False, "custom_vjp3": False, "disable_bwd_checks": False, "disable_vmap_shmap_error": False,
            "disallow_mesh_context_manager": False, "eager_constant_folding": False, "embedded_constants_max_bytes": 32,
            "experimental_unsafe_xla_runtime_errors": False, "mutable_array_checks": True,
            "raise_on_ppermute_sort_diff": True, "remat3": False, "remat_barrier_no_cotangents": False, "scan3": False,
            "send_traceback_to_runtime": "off", "softmax_custom_jvp": False, "sort_devices_by_process_index": True,
            "use_cpp_shard_args": False, "use_direct_linearize": True, "use_emit_pipeline_primitive": False,
            "use_hlo_logistic_lowering": None, "use_rgv3": True, "use_simplified_jaxpr_constants": False,
        }.items()
    },
    **{
        name: (default, _LOCATIONS)
        for name, default in {
            "hlo_source_file_canonicalization_regex": None, "include_full_tracebacks_in_locations": True,
            "source_url_schema": None, "traceback_in_locations_limit": 100, "tracer_error_num_traceback_frames": 5,
        }.items()
    },
    **{
        name: (default, _EXPORTED)
        for name, default in {
            "export_calling_convention_version": 10, "export_deserialize_expired_versions": False,
            "export_ignore_forward_compatibility": False, "jax2tf_associative_scan_reductions": False,
            "jax2tf_default_native_serialization": True, "serialization_version": 0,
        }.items()
    },
    **{
        name: (default, _CLUSTER)
        for name, default in {
            "backend_target": "", "cpu_get_global_topology_timeout_minutes": 5,
            "cpu_get_local_topology_timeout_minutes": 2, "cross_host_transfer_socket_address": "",
            "cross_host_transfer_timeout_seconds": None, "cross_host_transfer_transfer_size": None,
            "cross_host_transport_addresses": "", "distributed_verify_secure_credentials": False,
            "enable_preemption_service": True, "enable_recoverability": False, "force_dcn_cross_host_transfers": False,
            "mock_gpu_topology": "", "mock_num_gpu_processes": 0, "mtls_ca_file": None, "mtls_cert_file": None,
            "mtls_key_file": None, "mtls_peer_uri_prefix": None, "oneapi_visible_devices": "all",
            "pjrt_client_create_options": None, "xla_backend": "",
        }.items()
    },
    **{
        name: (default, _PALLAS)
        for name, default in {
            "pallas_auto_assign_collective_ids": "no", "pallas_auto_assign_collective_ids_limit": 25,
            "pallas_enable_debug_checks": False, "pallas_poison_buffers": False, "pallas_verbose_errors": False,
        }.items()
    },
    "cpu_enable_async_dispatch": (
        True,
        "programs run beside Python; x.block_until_ready() waits for a result",
    ),
}  # fmt: skip


_SETTINGS: Mapping[str, Setting] = {
    **_TRANSLATED,
    **{name: FixedSetting(f"jax_{name}", *entry) for name, entry in _FIXED.items()},
    **{name: IneffectiveSetting(f"jax_{name}", *entry) for name, entry in _INEFFECTIVE.items()},
}


def setting(name: str) -> Setting | None:
    """Returns a setting by JAX's name, with or without `jax_`; None if effx has nothing of the kind.

    >>> from effx.compat.settings import setting
    >>> setting("jax_compilation_cache_max_size").read()
    1073741824
    >>> setting("jax_random_seed_offset").assign(1)
    Traceback (most recent call last):
    effx.compat.settings.RefusedSettingError: jax.config: jax_random_seed_offset is 0 on effx, got 1: ...
    """
    short = name.removeprefix("jax_")
    return _SETTINGS.get(short) or (EffxSetting(short) if short in FLAGS else None)


def names() -> list[str]:
    """Returns all names, without `jax_`."""
    return sorted({*_SETTINGS, *FLAGS})


def parsed(where: str, name: str, text: str) -> object:
    """Returns the value of a setting from a text of the environment or a command line.

    Args:
        where: what the error begins with. name: one of `names()`.

    >>> parsed("JAX_ENABLE_X64", "enable_x64", "true"), parsed("JAX_PLATFORM_NAME", "platform_name", "cpu")
    (True, 'cpu')
    """
    jax_setting = setting(name)
    match None if jax_setting is None else jax_setting.read():
        case bool():
            return parse_bool(where, text)
        case int():
            return parse_int(where, text)
        case float():
            return parse_float(where, text)
    return parse_text(where, text)


def read_environment() -> None:
    """Follows JAX's variables, `JAX_ENABLE_X64` and the like; effx's own ones go before them.

    Raises:
        TypeError, ValueError: a variable has a value that its setting does not take. One that needs what effx does
            not do is a warning.
    """
    for name in names():
        variable, jax_setting = f"JAX_{name.upper()}", setting(name)
        text = os.environ.get(variable)
        if text is None or jax_setting is None:
            continue
        own = FLAGS.get(jax_setting.flag) if isinstance(jax_setting, EffxSetting | _Attribute) else None
        if own is not None and own.env in os.environ:
            continue
        try:
            jax_setting.assign(parsed(variable, name, text))
        except RefusedSettingError as error:
            warn_user(f"{variable}: {error}", RuntimeWarning)
