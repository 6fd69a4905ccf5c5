"""Flags: global values, overrides by context, validation, subscription, the environment."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import copy_context

import pytest

import effx
from effx import flags as c
from effx.flag_values import check_positive_int, parse_int
from effx.flags import FLAGS, Flag, Switch, config


@pytest.fixture
def flag() -> Flag[int]:
    return Flag("test_only", 1, check_positive_int, parse_int)


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    before = config.values()
    yield
    for name, value in before.items():
        config.update(name, value)


def test_defaults() -> None:
    assert {name: FLAGS[name].read() for name in FLAGS if FLAGS[name].read() not in (False, None)} == {
        "threefry_partitionable": True,
        "traceback_filtering": True,
        "check_static_indices": True,
        "compile": "full",
        "allow_f16_reductions": True,
        "pprint_use_color": True,
        "numpy_rank_promotion": "allow",
        "numpy_dtype_promotion": "standard",
        "explicit_x64_dtypes": "warn",
        "default_prng_impl": "threefry2x32",
        "num_cpu_devices": int(os.environ.get("EFFX_NUM_CPU_DEVICES", "1")),
        "legacy_prng_key": "allow",
        "cache_max_size": 2**30,
        "cache_min_compile_seconds": 0.05,
        "cache_programs": True,
        "cpu_collectives_implementation": "gloo",
        "host_memory": "return",
        "transfer_guard": "allow",
        "transfer_guard_host_to_device": "allow",
        "transfer_guard_device_to_device": "allow",
        "transfer_guard_device_to_host": "allow",
        "array_garbage_collection_guard": "allow",
    }


def test_overrides_nest_and_end_with_their_block(flag: Flag[int]) -> None:
    with flag(2):
        with flag(3):
            assert flag.value == 3
        assert flag.value == 2
    assert flag.value == 1


def test_an_error_ends_the_override(flag: Flag[int]) -> None:
    with pytest.raises(KeyError), flag(2):
        raise KeyError
    assert flag.value == 1


def test_set_is_hidden_by_an_override_and_remains_after_it(flag: Flag[int]) -> None:
    with flag(2):
        flag.set(5)
        assert flag.value == 2
    assert flag.value == 5


def test_one_override_object_can_be_entered_again(flag: Flag[int]) -> None:
    two = flag(2)
    with two, flag(3), two:
        assert flag.value == 2
    assert flag.value == 1


def test_threads_see_set_but_not_overrides(flag: Flag[int]) -> None:
    seen: list[int] = []
    with flag(2):
        for value in (1, 7):
            flag.set(value)
            thread = threading.Thread(target=lambda: seen.append(flag.value))
            thread.start()
            thread.join()
    assert seen == [1, 7]


def test_one_override_object_in_many_threads(flag: Flag[int]) -> None:
    shared, barrier, seen = flag(2), threading.Barrier(4), list[tuple[int, int]]()

    def work() -> None:
        with shared:
            barrier.wait()
            inside = flag.value
            barrier.wait()
        seen.append((inside, flag.value))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(2, 1)] * 4


def test_asyncio_tasks_keep_their_own_overrides(flag: Flag[int]) -> None:
    async def task(value: int) -> list[int]:
        seen = []
        with flag(value):
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append(flag.value)
        return [*seen, flag.value]

    async def main() -> list[list[int]]:
        return list(await asyncio.gather(task(2), task(3)))

    assert asyncio.run(main()) == [[2, 2, 2, 1], [3, 3, 3, 1]]


def test_subscribers_get_the_value_in_force(flag: Flag[int]) -> None:
    seen: list[int] = []
    everywhere: list[int] = []
    stop = flag.subscribe(seen.append)
    stop_global = flag.subscribe_global(everywhere.append)
    with flag(2), flag(3):
        flag.set(4)
    assert seen == [2, 3, 3, 2, 4]
    assert everywhere == [4]
    stop()
    stop_global()
    flag.set(6)
    assert (seen[-1], everywhere) == (4, [4])


def test_a_subscriber_that_raises_leaves_no_override(flag: Flag[int]) -> None:
    def refuse(value: int) -> None:
        raise RuntimeError(value)

    stop = flag.subscribe(refuse)
    with pytest.raises(RuntimeError, match="2"):
        flag(2).__enter__()
    stop()
    assert flag.value == 1


def test_leaving_what_was_not_entered(flag: Flag[int]) -> None:
    with pytest.raises(RuntimeError) as error:
        flag(2).__exit__(None, None, None)
    assert str(error.value) == "test_only: left an override that this context never entered"


def test_a_flag_has_no_truth_value() -> None:
    with pytest.raises(TypeError) as error:
        bool(c.enable_x64)
    assert str(error.value) == "enable_x64: a flag has no truth value, read enable_x64.value"


def test_switches_override_to_on() -> None:
    with c.disable_jit():
        assert config.disable_jit
        with c.disable_jit(disable=False):
            assert not config.disable_jit


def test_update_and_attributes() -> None:
    config.update("effx_enable_x64", True)
    assert config.enable_x64
    assert c.enable_x64.value
    config.update("enable_x64", False)
    assert config.read("effx_enable_x64") is False
    assert repr(c.enable_x64) == "<Switch enable_x64=False>"
    with pytest.raises(AttributeError):
        config.enable_x64 = True  # type: ignore[misc]  # read-only, which is what is tested


def test_every_flag_is_an_attribute() -> None:
    with c.numpy_rank_promotion("raise"), c.default_matmul_precision("float32"), c.platforms("cpu"):
        for name, value in config.values().items():
            assert getattr(config, name) == value


@pytest.mark.parametrize(
    ("name", "value", "kind", "text"),
    [
        ("enable_x64", 1, TypeError, "enable_x64: got 1 (int), expected a bool"),
        (
            "num_cpu_devices",
            True,
            TypeError,
            "num_cpu_devices: got True (bool), expected an int of at least 1",
        ),
        (
            "cpu_collectives_implementation",
            "nccl",
            ValueError,
            "cpu_collectives_implementation: got 'nccl', expected one of 'gloo', 'mpi', 'none'",
        ),
        ("host_memory", "free", ValueError, "host_memory: got 'free', expected one of 'return', 'keep'"),
        ("num_cpu_devices", 0, ValueError, "num_cpu_devices: got 0, expected an int of at least 1"),
        ("platforms", 3, TypeError, "platforms: got 3 (int), expected a str or None"),
        (
            "platforms",
            "cpu,,",
            ValueError,
            "platforms: got 'cpu,,', expected platform names separated by commas",
        ),
        (
            "numpy_rank_promotion",
            "no",
            ValueError,
            "numpy_rank_promotion: got 'no', expected one of 'allow', 'warn', 'raise'",
        ),
        (
            "numpy_dtype_promotion",
            None,
            TypeError,
            "numpy_dtype_promotion: got None, expected one of 'standard', 'strict'",
        ),
        (
            "default_matmul_precision",
            "f32",
            ValueError,
            (
                "default_matmul_precision: got 'f32', expected one of "
                "'default', 'high', 'highest', 'bfloat16', 'tensorfloat32', 'float32', 'ANY_F8_ANY_F8_F32', "
                "'ANY_F8_ANY_F8_F32_FAST_ACCUM', 'ANY_F8_ANY_F8_ANY', 'ANY_F8_ANY_F8_ANY_FAST_ACCUM', 'F16_F16_F16', "
                "'F16_F16_F32', 'BF16_BF16_BF16', 'BF16_BF16_F32', 'BF16_BF16_F32_X3', 'BF16_BF16_F32_X6', "
                "'BF16_BF16_F32_X9', 'TF32_TF32_F32', 'TF32_TF32_F32_X3', 'F32_F32_F32', 'F64_F64_F64' or None"
            ),
        ),
    ],
)
def test_bad_values(name: str, value: object, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as error:
        config.update(name, value)
    assert str(error.value) == text


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(AttributeError) as error:
        config.update("jax_enable_x64", True)
    assert str(error.value) == (
        "config.update: no flag 'jax_enable_x64', expected one of allow_f16_reductions, "
        "array_garbage_collection_guard, cache_dir, cache_max_size, "
        "cache_min_compile_seconds, cache_programs, check_static_indices, check_tracer_leaks, compile, "
        "cpu_collectives_implementation, debug_infs, debug_key_reuse, debug_nans, "
        "default_device, "
        "default_matmul_precision, default_prng_impl, disable_jit, enable_checks, "
        "enable_custom_prng, enable_x64, explain_cache_misses, explicit_x64_dtypes, "
        "host_memory, legacy_prng_key, log_compiles, "
        "no_execution, no_tracing, num_cpu_devices, numpy_dtype_promotion, numpy_rank_promotion, platforms, "
        "pprint_use_color, thread_guard, threefry_partitionable, traceback_filtering, transfer_guard, "
        "transfer_guard_device_to_device, "
        "transfer_guard_device_to_host, transfer_guard_host_to_device"
    )


def test_the_environment_replaces_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFX_TEST_ONLY", "TRUE")
    assert Switch("test_only", False).value
    monkeypatch.setenv("EFFX_TEST_ONLY", "off")
    assert not Switch("test_only", True).value
    monkeypatch.setenv("EFFX_TEST_ONLY", "12")
    assert Flag("test_only", 1, check_positive_int, parse_int).value == 12


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "ENABLE_X64",
            "maybe",
            "EFFX_ENABLE_X64: got 'maybe', expected one of 1, true, yes, on, 0, false, no, off",
        ),
        ("NUM_CPU_DEVICES", "two", "EFFX_NUM_CPU_DEVICES: got 'two', expected an int"),
        ("NUM_CPU_DEVICES", "-1", "EFFX_NUM_CPU_DEVICES: got -1, expected an int of at least 1"),
    ],
)
def test_bad_environment(name: str, text: str, said: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import effx.flags"],
        env={**os.environ, f"EFFX_{name}": text},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr.splitlines()[-1] == f"ValueError: {said}"


def test_platforms_from_the_environment() -> None:
    code = "from effx.flags import config; print(config.platforms, config.default_matmul_precision)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "EFFX_PLATFORMS": "cuda, cpu", "EFFX_DEFAULT_MATMUL_PRECISION": "high"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "cuda,cpu high\n"


def test_an_override_does_not_leave_anothers() -> None:
    """One in a copied context lives longer than the object that entered it, whose address another may have."""
    with effx.default_matmul_precision("highest"):
        context = copy_context()

    def look() -> list[object]:
        found: list[object] = [effx.config.default_matmul_precision]
        for _ in range(20):
            with effx.default_matmul_precision("high"):
                pass
            found.append(effx.config.default_matmul_precision)
        return found

    assert context.run(look) == ["highest"] * 21
