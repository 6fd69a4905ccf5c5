"""For each flag another value, and for those of keys a function whose call tells which value is in force."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import effx
import effx.numpy as enp
from effx import Array, lax, random
from effx.errors import EffxError
from effx.flags import FLAGS, config

LEFT: list[object] = []


def use_key_twice(x: Array) -> Array:
    key = random.key(0)
    return random.normal(key, (2,)) + random.normal(key, (2,))


def leave_a_value(x: Array) -> Array:
    LEFT.append(x * 2)
    return x


OTHER_VALUES: dict[str, object] = {
    "array_garbage_collection_guard": "log",
    "cache_max_size": 2**20,
    "cache_min_compile_seconds": 0.0,
    "compile": "fast",
    "cpu_collectives_implementation": "none",
    "default_device": effx.devices()[-1],
    "default_matmul_precision": "highest",
    "default_prng_impl": "rbg",
    "explicit_x64_dtypes": "error",
    "host_memory": "keep",
    "legacy_prng_key": "error",
    "num_cpu_devices": 3,
    "numpy_dtype_promotion": "strict",
    "numpy_rank_promotion": "raise",
    "platforms": "cpu",
    "transfer_guard": "disallow",
    "transfer_guard_device_to_device": "disallow",
    "transfer_guard_device_to_host": "disallow",
    "transfer_guard_host_to_device": "disallow",
}
"""Of flags that are no switches; a directory for `cache_dir` comes from the test."""

PROBES: dict[str, Callable[[Array], Array]] = {
    "enable_x64": lambda x: enp.arange(3) + 0,
    "disable_jit": lambda x: lax.fori_loop(0, 3, lambda _, y: y + x, x),
    "threefry_partitionable": lambda x: random.bits(random.key(1), (3,)),
    "debug_nans": lambda x: enp.log(-x),
    "debug_infs": lambda x: enp.log(x - 1.0),
    "debug_key_reuse": use_key_twice,
    "default_matmul_precision": lambda x: enp.dot(x, x),
    "numpy_rank_promotion": lambda x: x + enp.ones((2, 3)),
    "explicit_x64_dtypes": lambda x: x + enp.zeros(3, "float64"),
    "numpy_dtype_promotion": lambda x: x + enp.ones(3, "int32"),
    "default_prng_impl": lambda x: random.key_data(random.key(0)),
    "check_static_indices": lambda x: x[5],
    "allow_f16_reductions": lambda x: lax.reduce_sum(x.astype("float16"), [0]),
    "check_tracer_leaks": leave_a_value,
    "enable_custom_prng": lambda x: random.PRNGKey(0),
    "legacy_prng_key": lambda x: random.normal(random.PRNGKey(0), (2,)),
    "default_device": lambda x: x + 1.0,
}


def other_value(name: str) -> object:
    """Another value of a flag than its default."""
    return OTHER_VALUES[name] if name in OTHER_VALUES else not FLAGS[name].read()


@contextlib.contextmanager
def flipped(name: str, value: object, globally: bool) -> Iterator[None]:
    """A block in which a flag has a value, for this context or for all."""
    flag: Any = FLAGS[name]
    if not globally:
        with flag(value):
            yield
        return
    before = flag.read()
    config.update(name, value)
    try:
        yield
    finally:
        config.update(name, before)


def describe_call(f: Any, x: Array) -> str:
    """What a call of a jitted function gives: an error, or a result with its dtype and device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            y = f(x)
            return f"{y!r} on {y.device}"
        except EffxError as error:
            return f"{type(error).__name__}: {error.message}"


def describe_program(f: Any, x: Array) -> str:
    """The text of its program, or the error of staging it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(f.lower(x).as_text())
        except EffxError as error:
            return f"{type(error).__name__}: {error.message}"
