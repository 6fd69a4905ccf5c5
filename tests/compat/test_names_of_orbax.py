"""What orbax uses of JAX: functions on hosts of devices, layouts in `device_put`, dtypes without arrays, the group."""

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.compat.colocated import colocated_cpu_devices, colocated_python, colocated_python_class
from effx.compat.modules import numpy as jnp
from effx.compat.modules._src import distributed
from effx.compat.modules.dtypes import issubdtype
from effx.compat.modules.experimental import multihost_utils, pjit
from effx.compat.modules.experimental.colocated_python.serialization import DeviceList
from effx.compat.modules.extend.ifrt_programs import ifrt_programs
from effx.dtypes import extended, prng_key
from effx.errors import BackendError, DistributedError, ShardingError, TransformError
from effx.experimental.layout import Format, Layout
from effx.lower.placement import processes
from effx.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

FIRST, SECOND = effx.devices("cpu")[:2]
X = np.arange(6, dtype=np.float32)


class Fake:
    """A device of another kind or process, as far as is asked."""

    id, client, device_kind = 0, FIRST.client, "accelerator"

    def __init__(self, platform: str, process_index: int) -> None:
        self.platform, self.process_index = platform, process_index

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


# --- functions beside devices ---------------------------------------------------------------------


def host(x: Any, *, scale: Any) -> Any:
    return {"y": enp.asarray(np.cumsum(np.asarray(x))) * scale, "none": None}


def test_a_function_runs_where_its_arguments_are() -> None:
    x, scale = effx.device_put((X, np.float32(2)), SECOND)
    found = colocated_python(host)(x, scale=scale)
    assert found["y"].devices() == {SECOND}
    np.testing.assert_array_equal(found["y"], np.cumsum(X) * 2)


def test_a_function_without_arguments_runs_on_its_devices() -> None:
    made = colocated_python(lambda: enp.ones(3))
    assert made.specialize(devices=[SECOND])().devices() == {SECOND}
    with pytest.raises(TransformError) as caught:
        made()
    assert caught.value.message == (
        "<lambda>: a function of colocated_python without arguments runs where specialize(devices=) says"
    )


def test_specs_are_those_of_the_arguments_and_results() -> None:
    """Earlier specializations remain."""
    x = effx.device_put(X, FIRST)
    spec = effx.ShapeDtypeStruct((6,), np.float32)
    seen = []

    def doubled(x: Any) -> Any:
        seen.append(x)
        return effx.ShapeDtypeStruct((12,), x.dtype)

    twice: Any = colocated_python(lambda x: enp.concatenate([x, x])).specialize(in_specs=((spec,), {}))
    f = twice.specialize(out_specs_fn=doubled)
    np.testing.assert_array_equal(f(x), [*X, *X])
    assert seen == [effx.ShapeDtypeStruct((6,), np.float32, sharding=x.sharding)]
    wrong = twice.specialize(out_specs_fn=lambda x: x)
    with pytest.raises(
        TransformError, match=r"^<lambda>: gives f32\[12\], and was said to take or give Shape"
    ):
        wrong(x)
    with pytest.raises(
        TransformError, match=r"^<lambda>: takes f32\[3\], and was said to take or give Shape"
    ):
        twice(x[:3])
    with pytest.raises(TransformError, match=r"^<lambda>: takes .*, and was said to take or give "):
        twice(x, x)


def test_arrays_on_one_device_go_in_and_out() -> None:
    first, second = effx.device_put(X, FIRST), effx.device_put(X, SECOND)
    add: Any = colocated_python(lambda x, y: (x, y))
    with pytest.raises(ShardingError) as apart:
        add(first, second)
    assert apart.value.message == (
        "<lambda>: arguments, and results, must be on the same devices, got cpu:0 and cpu:1"
    )
    with pytest.raises(ShardingError) as gone:
        colocated_python(lambda x: second)(first)
    assert gone.value.message == "<lambda>: ran on cpu:0, and gives arrays on cpu:1"
    refused: list[Any] = [lambda: add(1.0, first), lambda: effx.jit(add)(first, first)]
    for f in refused:
        with pytest.raises(
            TransformError, match="a function of colocated_python takes and gives arrays, got "
        ):
            f()
    with pytest.raises(TransformError, match=r"takes and gives arrays, got 1\.0\n"):
        colocated_python(lambda x: 1.0)(first)


def test_handlers_around_see_nothing_of_it() -> None:
    """It runs for known values, whatever is around: it is no part of a program."""
    held = effx.device_put(X, FIRST)
    total = colocated_python(lambda y: enp.cumsum(y)[-1])
    program = effx.make_jaxpr(lambda x: x + total(held))(1.0)
    assert [e.op.name for e in program.equations] == ["add"]


@pytest.mark.parametrize(("platform", "process"), [("tpu", 0), ("cpu", 1)])
def test_other_devices_are_refused(platform: str, process: int) -> None:
    f: Any = colocated_python(lambda: enp.ones(3)).specialize(devices=[Fake(platform, process)])  # type: ignore[list-item]  # a stand-in
    with pytest.raises(
        BackendError, match=r"^<lambda>: effx runs Python beside the CPU devices of its own process, got"
    ):
        f()


def test_cpu_devices_of_devices() -> None:
    mesh = Mesh(np.array([[SECOND], [FIRST]]), ("a", "b"))
    assert colocated_cpu_devices([SECOND, FIRST]) == [SECOND, FIRST]
    assert colocated_cpu_devices(mesh) == mesh
    others: list[Any] = [Fake("tpu", 0), Fake("tpu", 0)]
    assert colocated_cpu_devices(others) == [FIRST, SECOND]
    with pytest.raises(BackendError) as caught:
        colocated_cpu_devices([*others] * 8)
    assert caught.value.message.startswith("colocated_cpu_devices: process 0 has no CPU device left for ")


def test_an_object_is_made_by_its_first_method() -> None:
    class Counter:
        """Counts, where it is made."""

        made = 0

        def __init__(self, start: int) -> None:
            type(self).made += 1
            self.total: Any = start

        def add(self, x: Any) -> Any:
            self.total = self.total + x
            return self.total

        def place(self) -> Any:
            return enp.zeros(())

    make: Any = colocated_python_class(Counter)
    there = make(1)
    assert Counter.made == 0
    assert type(there).__name__ == "Counter"
    x = effx.device_put(X, SECOND)
    there.add(x)
    np.testing.assert_array_equal(there.add(x), 2 * X + 1)
    assert Counter.made == 1
    assert there.place.specialize(devices=[SECOND])().devices() == {SECOND}
    assert not hasattr(there, "total")


# --- names ----------------------------------------------------------------------------------------


def test_a_format_has_the_device() -> None:
    there = SingleDeviceSharding(SECOND)
    found = effx.device_put({"a": X, "b": 1.0}, {"a": Format(Layout((0,)), there), "b": SECOND})
    assert [y.devices() for y in found.values()] == [{SECOND}, {SECOND}]
    assert effx.device_put(X, Format()).devices() == {FIRST}
    mesh = Mesh(np.array([FIRST, SECOND]), "a")
    assert effx.device_put(X, Format(None, NamedSharding(mesh, PartitionSpec("a")))).addressable_shards[
        1
    ].data.shape == (3,)


KINDS: list[tuple[Any, Any, bool]] = [
    (None, np.floating, True), (None, prng_key, False), ("U3", np.character, True), ("U3", np.floating, False),
    (object, object, True), (np.dtype("M8[s]"), np.generic, True), (np.dtype("O"), extended, False),
    (np.float32, np.inexact, True), ("bfloat16", np.floating, True), ("bfloat16", np.character, False),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "expected"), KINDS)
def test_kinds_of_dtypes_that_arrays_cannot_have(a: Any, b: Any, expected: bool) -> None:
    """As in JAX."""
    assert issubdtype(a, b) is expected
    assert jnp.issubdtype(a, b) is expected


def test_this_process_in_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    state = distributed.global_state
    assert (state.client, state.process_id, state.num_processes, state.partition_index) == (None, 0, 1, None)
    client: Any = object()
    group = processes.Group(2, 3, client, "127.0.0.1", lambda of: None, partition_index=1)
    monkeypatch.setattr(processes, "current_group", processes.current_group)
    processes.current_group.append(group)
    try:
        assert (state.client, state.process_id, state.num_processes, state.partition_index) == (
            client,
            2,
            3,
            1,
        )
    finally:
        processes.current_group.clear()


def test_one_process_is_never_preempted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert multihost_utils.reached_preemption_sync_point(3) is False
    monkeypatch.setattr(multihost_utils, "is_initialized", lambda: True)
    with pytest.raises(DistributedError) as caught:
        multihost_utils.reached_preemption_sync_point(3)
    assert caught.value.message == (
        "reached_preemption_sync_point: effx runs no preemption service, which step 3 would ask"
    )


def test_names_of_other_modules() -> None:
    assert pjit.pjit is effx.jit
    assert list(DeviceList((SECOND, FIRST))) == [SECOND, FIRST]
    assert hasattr(ifrt_programs, "make_plugin_program")
    mesh = Mesh(np.array([SECOND, FIRST]), "a")
    cut, whole = NamedSharding(mesh, PartitionSpec("a")), SingleDeviceSharding(FIRST)
    assert cut._addressable_device_assignment == (SECOND, FIRST)
    assert whole._addressable_device_assignment == (FIRST,)
