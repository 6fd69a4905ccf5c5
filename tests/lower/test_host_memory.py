"""Memory of the host: arrays that XLA uses without copying them, and an allocator that keeps what is freed."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import BackendError
from effx.lower.placement import host_memory
from effx.lower.placement.host_memory import ALIGNMENT, LEAST_BYTES_TO_SHARE, copy_aligned, is_shareable

Data: TypeAlias = np.ndarray[Any, Any]
DTYPES: list[Any] = [np.float32, np.int8, np.bool_, np.complex64, ml_dtypes.bfloat16]
MAKE: list[Callable[[Data], object]] = [
    enp.array,
    enp.asarray,
    effx.device_put,
    lambda x: effx.jit(enp.array)(x),
]


def large_array(dtype: Any, extra: int = 0) -> Data:
    count = LEAST_BYTES_TO_SHARE // np.dtype(dtype).itemsize + extra
    return (np.arange(count) % 2).astype(dtype)


@pytest.mark.parametrize("extra", [-1, 0, 3])
@pytest.mark.parametrize("make", MAKE, ids=["array", "asarray", "device_put", "argument"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_keep_their_values_when_their_data_change(
    dtype: Any, make: Callable[[Data], object], extra: int
) -> None:
    data = large_array(dtype, extra)
    before = data.copy()
    x = make(data)
    data[:] = 1
    np.testing.assert_array_equal(np.asarray(x), before)
    assert np.asarray(x).dtype == before.dtype


@pytest.mark.parametrize(
    "arrange",
    [
        np.asfortranarray,
        lambda x: x[::-1],
        lambda x: x[:, ::2],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[0], x.shape),
    ],
    ids=["fortran", "reversed", "strided", "transposed", "repeated"],
)
def test_any_strides(arrange: Callable[[Data], Data]) -> None:
    data = arrange(np.arange(2**18, dtype=np.float32).reshape(2**8, 2**10))
    np.testing.assert_array_equal(np.asarray(enp.array(data)), data)
    data.flags.writeable = False
    np.testing.assert_array_equal(np.asarray(enp.array(data)), data)


def test_constant_data_that_are_aligned_are_shared() -> None:
    data = copy_aligned(large_array(np.float32))
    assert is_shareable(data)
    owner: object = data
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
    assert enp.asarray(data).unsafe_buffer_pointer() == data.ctypes.data


def test_copies_are_aligned_and_small_arrays_too() -> None:
    for count in (1, 7, 1000):
        copy = copy_aligned(np.arange(count, dtype=np.int16))
        assert copy.ctypes.data % ALIGNMENT == 0
        np.testing.assert_array_equal(copy, np.arange(count))


def test_shared_data_can_be_donated() -> None:
    data = large_array(np.float32)
    x = enp.array(data)
    step = effx.jit(lambda x: x + 1, donate_argnums=0)
    y = step(x)
    assert x.is_deleted()
    for _ in range(3):
        y = step(y)
    np.testing.assert_array_equal(np.asarray(y), data + 4)


def test_the_result_outlives_its_data() -> None:
    def make() -> effx.Array:
        return enp.array(large_array(np.float32, 5))

    arrays = [make() for _ in range(8)]
    for x in arrays:
        np.testing.assert_array_equal(np.asarray(x), large_array(np.float32, 5))


def run(code: str, **variables: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


needs_glibc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")

FAULTS = """
import resource, effx, effx.numpy as enp
{setting}
x = enp.ones({count}, "float32")
f = effx.jit(lambda x: 2 * x + 1)
counts = []
for _ in range(40):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    y = f(x).block_until_ready()
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(counts[20:]))
"""


@needs_glibc
@pytest.mark.unguarded
@pytest.mark.parametrize("megabytes", [40, 96])
@pytest.mark.parametrize("by_variable", [False, True], ids=["flag", "variable"])
def test_memory_that_is_kept_has_its_pages(megabytes: int, by_variable: bool) -> None:
    """Above 64 MB the results come from XLA's threads, whose heaps would not hold them."""
    count = megabytes * 2**18
    code = FAULTS.format(
        count=count, setting="" if by_variable else 'effx.config.update("host_memory", "keep")'
    )
    (faults,) = run(code, **({"EFFX_HOST_MEMORY": "keep"} if by_variable else {}))
    assert int(faults) < 4 * count // os.sysconf("SC_PAGE_SIZE") // 4


@needs_glibc
@pytest.mark.unguarded
def test_kept_memory_is_given_back_on_request() -> None:
    code = """
import gc, effx, effx.numpy as enp
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 // 2**20
xs = [enp.ones(2**22, "float32").block_until_ready() for _ in range(20)]
full = resident()
del xs
gc.collect()
freed = resident()
print(full - freed, effx.memory.release_host_memory(), full - resident())
"""
    kept, released, after = run(code, EFFX_HOST_MEMORY="keep")
    # 320 MB in all.
    assert int(kept) < 100
    assert released == "True"
    assert int(after) > 200


def test_without_glibc_memory_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    effx.devices()
    monkeypatch.setattr(os, "confstr", lambda name: None)
    assert host_memory.release_host_memory() is False
    monkeypatch.setattr(host_memory, "_value_at_start", [])
    effx.config.update("host_memory", "keep")
    try:
        with pytest.warns(RuntimeWarning) as caught:
            host_memory.set_allocator_policy()
    finally:
        host_memory._value_at_start.clear()
        effx.config.update("host_memory", "return")
    assert str(caught[0].message) == (
        "host_memory: 'keep' needs the allocator of glibc, which this process does not use; memory is returned"
    )


def test_the_setting_is_read_when_the_backend_starts() -> None:
    effx.devices()
    with pytest.raises(BackendError) as caught:
        effx.config.update("host_memory", "keep")
    assert str(caught.value).splitlines()[0] == (
        "host_memory: the CPU backend has started with 'return'; set EFFX_HOST_MEMORY, or the flag before anything is "
        "computed"
    )
    assert effx.config.host_memory == "return"
