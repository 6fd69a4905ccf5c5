"""JAX's settings: the setting of effx for each, or the behaviour of effx without it.

A setting of JAX's is one of effx's, or a value that effx cannot but have. Any other value is refused, and
none is accepted and ignored.
"""

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


def _nonnegative_seconds(value: object) -> object:
    """JAX takes negative numbers for no least time."""
    return max(value, 0) if isinstance(value, int | float) else value


_directory = _CacheDirectory()

_TRANSLATED: Mapping[str, Setting] = {
    "platform_name": EffxSetting("platforms", lambda v: v or None, lambda v: v or ""),
    "platforms": EffxSetting("platforms", lambda v: v or None),
    "traceback_filtering": EffxSetting(
        "traceback_filtering", _traceback_filtering, lambda v: "auto" if v else "off"
    ),
    "compilation_cache_dir": _Attribute(_directory.read, _directory.put, "cache_dir"),
    "enable_compilation_cache": _Attribute(lambda: _directory.on, _directory.switch),
    "compilation_cache_max_size": EffxSetting(
        "cache_max_size", lambda v: sys.maxsize if v == -1 else v, lambda v: -1 if v == sys.maxsize else v
    ),
    "persistent_cache_min_compile_time_secs": EffxSetting("cache_min_compile_seconds", _nonnegative_seconds),
}

_FIXED: Mapping[str, tuple[tuple[object, ...], str]] = {
    "bcoo_cusparse_lowering": ((False,), "sparse products are programs of XLA's"),
    "cpu_enable_async_dispatch": (
        (True,),
        "programs run beside Python; x.block_until_ready() waits for a result",
    ),
    "cuda_visible_devices": (("all",), "CUDA_VISIBLE_DEVICES in the environment chooses devices"),
    "disable_most_optimizations": ((False,), "compiler_options of jit choose what XLA does"),
    "distributed_debug": ((False,), "what processes say of each other is in their errors"),
    "dump_ir_to": (("", None), "jit(f).lower(x).as_text() gives a program's text"),
    "enable_pgle": ((False,), "compiler_options of jit choose what XLA does"),
    "include_full_tracebacks_in_locations": (
        (False,),
        "an operation has the one line of the user's that it comes from",
    ),
    "memory_fitting_level": (("O2",), "compiler_options of jit choose what XLA does"),
    "optimization_level": (("UNKNOWN",), "compiler_options of jit choose what XLA does"),
    "persistent_cache_enable_xla_caches": (
        ("xla_gpu_per_fusion_autotune_cache_dir", "all", "none", "", None),
        "executables are kept whole, with what XLA has tuned",
    ),
    "persistent_cache_min_entry_size_bytes": ((0, -1), "executables of all sizes are kept"),
    "raise_persistent_cache_errors": ((False,), "what goes wrong with the cache is a warning"),
    "random_seed_offset": ((0,), "a seed is all that a key depends on"),
    "rocm_visible_devices": (("all",), "ROCR_VISIBLE_DEVICES in the environment chooses devices"),
    "share_binary_between_hosts": ((False,), "each process compiles or has its cache"),
    "use_direct_linearize": ((True,), "linearize stages a function once"),
    "use_shardy_partitioner": ((True,), "programs on several devices are lowered for Shardy"),
}


def setting(name: str) -> Setting | None:
    """Returns a setting by JAX's name, with or without `jax_`; None if effx has nothing of the kind.

    >>> from effx.compat.settings import setting
    >>> setting("jax_persistent_cache_min_entry_size_bytes").assign(-1)
    >>> setting("jax_use_shardy_partitioner").assign(False)
    Traceback (most recent call last):
    effx.compat.settings.RefusedSettingError: jax.config: jax_use_shardy_partitioner is True on effx, got False: ...
    """
    short = name.removeprefix("jax_")
    if short in _TRANSLATED:
        return _TRANSLATED[short]
    if short in _FIXED:
        return FixedSetting(f"jax_{short}", *_FIXED[short])
    return EffxSetting(short) if short in FLAGS else None


def names() -> list[str]:
    """Returns all names, without `jax_`."""
    return sorted({*_TRANSLATED, *_FIXED, *FLAGS})


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
