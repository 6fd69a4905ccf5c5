"""Arrays made of parts: by a callback, of arrays on devices, of what a process has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import DTypeError, ShapeError, ShardingError
from effx.sharding import NamedSharding, SingleDeviceSharding
from effx.sharding import PartitionSpec as P

D = effx.devices()
MESH = effx.make_mesh((4, 2), ("x", "y"))
X = np.arange(32, dtype=np.float32).reshape(8, 4)
SPECS = [P(), P("x"), P("y", "x"), P(None, ("y",)), P(("y", "x")), P(("x", "y"))]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_of_parts(spec: P) -> None:
    """All three ways give the same array, which lies as asked."""
    sharding = NamedSharding(MESH, spec)
    seen: list[Any] = []

    def part(index: Any) -> Any:
        seen.append(index)
        return X[index]

    x = effx.make_array_from_callback(X.shape, sharding, part)
    assert len(seen) == len({str(i) for i in seen})
    y = effx.make_array_from_single_device_arrays(
        X.shape, sharding, [s.data for s in reversed(x.addressable_shards)]
    )
    z = effx.make_array_from_process_local_data(sharding, X)
    for found in (x, y, z):
        assert found.sharding == sharding
        assert found.dtype == np.float32
        assert found.is_fully_replicated == (spec == P())
        np.testing.assert_array_equal(np.asarray(found), X)
        np.testing.assert_array_equal(np.asarray(effx.jit(lambda v: v * 2)(found)), X * 2)
    assert len(x.global_shards) == 8
    moved = [s.data.unsafe_buffer_pointer() for s in y.addressable_shards]
    assert moved == [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]


def test_other_kinds() -> None:
    """One device, a dtype, keys, an array without elements."""
    one = SingleDeviceSharding(D[3])
    assert effx.make_array_from_callback((3,), one, lambda i: np.arange(3.0)[i]).devices() == {D[3]}
    assert effx.make_array_from_process_local_data(one, X).devices() == {D[3]}
    rows = NamedSharding(MESH, P("x"))
    keys = effx.random.split(effx.random.key(1), 8)
    spread = effx.make_array_from_callback((8,), rows, lambda i: keys[i])
    assert effx.random.key_data(spread).tolist() == effx.random.key_data(keys).tolist()
    empty = effx.make_array_from_callback((0, 2), rows, lambda i: np.zeros((0, 2), np.int8), dtype="int8")
    assert empty.shape == (0, 2)
    assert empty.dtype == np.dtype("int8")


ROWS = NamedSharding(MESH, P("x"))
ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: effx.make_array_from_callback((6,), ROWS, lambda i: X[0]),
        ShardingError,
        "NamedSharding: axis 0 of the shape (6,) is 6, which P('x') cannot split into 4 equal parts",
    ),
    (
        lambda: effx.make_array_from_callback((8,), ROWS, lambda i: X[0]),
        ShapeError,
        "make_array_from_callback: the part of f32[8] on cpu:0 is f32[2], got f32[4]",
    ),
    (
        lambda: effx.make_array_from_callback((8,), ROWS, lambda i: np.zeros(2, np.int8), dtype="float32"),
        DTypeError,
        "make_array_from_callback: parts must be of dtype float32, got i8[2]",
    ),
    (
        lambda: effx.make_array_from_callback((8,), P("x"), lambda i: X[0]),  # type: ignore[arg-type]  # wrong on purpose
        ShardingError,
        "make_array_from_callback: expected a NamedSharding or a SingleDeviceSharding, got P('x') of type PartitionSpec",
    ),
    (
        lambda: effx.make_array_from_single_device_arrays((8,), ROWS, [enp.ones(2)] * 8),
        ShardingError,
        (
            "make_array_from_single_device_arrays: one part must be on each of cpu:0, cpu:1, cpu:2, cpu:3, cpu:4, cpu:5, "
            "cpu:6, cpu:7, got 8 parts"
        ),
    ),
    (
        lambda: effx.make_array_from_process_local_data(ROWS, X, (16, 4)),
        ShapeError,
        "make_array_from_process_local_data: axis 0 of local_data has size 8; this process has 16 of the 16 there are",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    """The first line is the whole message."""
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).splitlines()[0] == text
