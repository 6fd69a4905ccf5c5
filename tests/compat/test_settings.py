"""`jax.config`: names and values of JAX's, and the environment. `compat/jobs/test_settings.py` has absl's flags."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import effx
from effx.compat import missing
from effx.compat.config import config
from effx.compat.modules.experimental.compilation_cache.compilation_cache import reset_cache, set_cache_dir
from effx.compat.settings import IneffectiveSetting, RefusedSettingError, names, setting
from effx.flags import FLAGS

# What takes effect when the backend starts cannot be set in a process that has one.
SETTABLE = [name for name in names() if name not in ("num_cpu_devices", "cpu_collectives_implementation")]


@pytest.fixture(autouse=True)
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(missing, "_found", {})  # what `report` tells of
    before = effx.config.values()
    yield
    config.update("jax_enable_compilation_cache", True)
    for name, value in before.items():
        if FLAGS[name].read() != value:
            effx.config.update(name, value)


@pytest.mark.parametrize("name", SETTABLE)
def test_a_setting_takes_the_value_that_it_has(name: str) -> None:
    now = config.read(f"jax_{name}")
    config.update(f"jax_{name}", now)
    assert config.read(f"jax_{name}") == config.values[f"jax_{name}"] == getattr(config, name) == now


# JAX's name and value; effx's; what JAX's reads then.
TRANSLATED = [
    ("jax_platform_name", "cpu", "platforms", "cpu", "cpu"),
    ("jax_platform_name", "", "platforms", None, ""),
    ("jax_platforms", "", "platforms", None, None),
    ("jax_traceback_filtering", "off", "traceback_filtering", False, "off"),
    ("jax_traceback_filtering", "remove_frames", "traceback_filtering", True, "auto"),
    ("jax_traceback_filtering", False, "traceback_filtering", False, "off"),
    ("jax_compilation_cache_dir", "somewhere", "cache_dir", "somewhere", "somewhere"),
    ("jax_compilation_cache_dir", None, "cache_dir", None, None),
    ("jax_compilation_cache_max_size", -1, "cache_max_size", sys.maxsize, -1),
    ("jax_compilation_cache_max_size", 1000, "cache_max_size", 1000, 1000),
    ("jax_persistent_cache_min_compile_time_secs", 2, "cache_min_compile_seconds", 2.0, 2.0),
    ("jax_persistent_cache_min_compile_time_secs", -1, "cache_min_compile_seconds", 0.0, 0.0),
    ("jax_debug_nans", True, "debug_nans", True, True),
    ("jax_pprint_use_color", False, "pprint_use_color", False, False),
    ("jax_disable_most_optimizations", True, "compile", "fast", True),
    ("jax_disable_most_optimizations", False, "compile", "full", False),
]


@pytest.mark.parametrize(("name", "value", "own", "expected", "read"), TRANSLATED)
def test_values_of_jax(name: str, value: object, own: str, expected: object, read: object) -> None:
    config.update(name, value)
    assert effx.config.read(own) == expected
    assert config.read(name) == read
    assert type(config.read(name)) is type(read)


def kept(directory: Path) -> int:
    return len(list(directory.iterdir())) if directory.exists() else 0


# As JAX's page on its cache sets them.
def test_settings_of_the_cache(tmp_path: Path) -> None:
    config.update("jax_compilation_cache_dir", str(tmp_path))
    config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    config.update("jax_persistent_cache_min_compile_time_secs", 0)
    config.update("jax_persistent_cache_enable_xla_caches", "xla_gpu_per_fusion_autotune_cache_dir")
    assert float(effx.jit(lambda x: x * 5.5)(2.0)) == 11.0
    assert kept(tmp_path) >= 1


def test_the_cache_off_and_on(tmp_path: Path) -> None:
    """While it is off, its directory can be read and set, and nothing is written."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    config.update("jax_persistent_cache_min_compile_time_secs", 0)
    set_cache_dir(first)
    for off in (1, 2):
        config.update("jax_enable_compilation_cache", False)
        assert (config.jax_compilation_cache_dir, effx.config.read("cache_dir")) == (first, None), off
    set_cache_dir(second)
    reset_cache()
    assert (config.jax_compilation_cache_dir, effx.config.read("cache_dir")) == (second, None)
    assert float(effx.jit(lambda x: x * 6.5)(2.0)) == 13.0
    assert kept(tmp_path) == 0
    for on in (1, 2):
        config.update("jax_enable_compilation_cache", True)
        assert (config.jax_compilation_cache_dir, effx.config.read("cache_dir")) == (second, second), on
    assert float(effx.jit(lambda x: x * 7.5)(2.0)) == 15.0
    assert kept(tmp_path / "second") >= 1


def test_what_effx_does_not_do() -> None:
    with pytest.raises(RefusedSettingError) as error:
        config.update("jax_high_dynamic_range_gumbel", True)
    assert str(error.value) == (
        "jax.config: jax_high_dynamic_range_gumbel is False on effx, got True: random.gumbel takes mode='high'"
    )
    with pytest.raises(RefusedSettingError, match=r"jax_random_seed_offset is 0 on effx, got False"):
        config.update("jax_random_seed_offset", False)
    with pytest.raises(TypeError, match=r"jax_enable_compilation_cache: got 'no' .str., expected a bool"):
        config.update("jax_enable_compilation_cache", "no")
    with pytest.raises(TypeError, match=r"cache_min_compile_seconds: got 'soon'"):
        config.update("jax_persistent_cache_min_compile_time_secs", "soon")
    assert setting("jax_no_such") is None
    with pytest.raises(
        AttributeError, match=r"jax.config has no setting 'jax_no_such' in effx; .*test_settings.py:"
    ):
        config.read("jax_no_such")


# Some that programs have at their first lines, and others of each group.
INEFFECTIVE: dict[str, object] = {
    "jax_bcoo_cusparse_lowering": True, "jax_cpu_enable_async_dispatch": False, "jax_use_shardy_partitioner": False,
    "jax_share_binary_between_hosts": True, "jax_raise_persistent_cache_errors": True,
    "jax_persistent_cache_min_entry_size_bytes": 4096, "jax_enable_pgle": True,
    "jax_include_full_tracebacks_in_locations": False, "jax_threefry_gpu_kernel_lowering": True,
    "jax_debug_log_modules": "jax", "jax_use_direct_linearize": False, "jax_softmax_custom_jvp": True,
    "jax_captured_constants_warn_bytes": -1, "jax_compiler_enable_remat_pass": False, "jax_serialization_version": 2,
    "jax_xla_backend": "x", "jax_pallas_verbose_errors": True, "eager_constant_folding": True,
}  # fmt: skip


@pytest.mark.parametrize("name", INEFFECTIVE)
def test_what_changes_no_result_warns_once(name: str) -> None:
    before, value = config.read(name), INEFFECTIVE[name]
    assert before != value
    noted = setting(name)
    assert isinstance(noted, IneffectiveSetting)
    noted.has_warned = False
    with pytest.warns(UserWarning, match="has no effect on effx: ") as record:
        config.update(name, value)
    assert record[0].filename == __file__
    assert config.read(name) == value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.update(name, before)
        config.update(name, value)
        config.update(name, before)


def test_settings_with_none() -> None:
    config.update("jax_transfer_guard", None)
    assert effx.config.read("transfer_guard") == "allow"


def test_the_level_of_logs() -> None:
    logger = logging.getLogger("effx")
    before = logger.level
    try:
        config.update("jax_logging_level", "WARNING")
        assert (logger.level, config.read("jax_logging_level")) == (logging.WARNING, "WARNING")
        with pytest.raises(ValueError, match="Unknown level"):
            config.update("jax_logging_level", "LOUD")
    finally:
        logger.setLevel(before)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"EFFX_TRACEBACK_FILTERING": "1", **environment},
    )


SHOWN = """
import effx.compat.jax, jax, jax.numpy as jnp
print(jnp.arange(2.0).dtype, jax.device_count(), jax.config.jax_platform_name, jax.config.jax_debug_nans)
print(jax.config.jax_compilation_cache_dir)
"""


def test_the_environment_of_jax() -> None:
    done = run(
        SHOWN,
        JAX_ENABLE_X64="true",
        JAX_NUM_CPU_DEVICES="3",
        JAX_PLATFORM_NAME="cpu",
        JAX_DEBUG_NANS="1",
        EFFX_DEBUG_NANS="0",  # goes before
        JAX_COMPILATION_CACHE_DIR="theirs",
        EFFX_CACHE_DIR="ours",
        JAX_TRACEBACK_FILTERING="off",
        JAX_NO_SUCH="1",
        JAX_CPU_ENABLE_ASYNC_DISPATCH="0",
        JAX_RANDOM_SEED_OFFSET="3",
    )
    assert done.stdout == "float64 3 cpu False\nours\n", done.stderr
    assert (
        "RuntimeWarning: JAX_RANDOM_SEED_OFFSET: jax.config: jax_random_seed_offset is 0 on effx, got 3"
        in done.stderr
    )
    assert "UserWarning: jax.config: jax_cpu_enable_async_dispatch has no effect on effx" in done.stderr
    done = run(SHOWN, JAX_ENABLE_X64="maybe")
    assert done.returncode == 1
    assert "ValueError: JAX_ENABLE_X64: got 'maybe', expected one of 1, true" in done.stderr
