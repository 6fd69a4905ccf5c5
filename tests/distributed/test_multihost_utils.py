"""What the processes of a group exchange, against NumPy; and what happens where they do not agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from effx import errors
from effx.experimental import multihost_utils
from tests.distributed.conftest import Together
from tests.distributed.test_groups import JOIN

EXCHANGES = """
import ml_dtypes
from effx.lower.placement import processes
me = np.float32(number)
tree = {"a": enp.arange(3) + number, "b": (float(number), number > 1), "c": np.zeros((0, 2), "int8")}
tree["d"] = me * np.ones((2, 3))
together = multihost_utils.process_allgather(tree)
assert isinstance(together["a"], np.ndarray)
np.testing.assert_array_equal(together["a"], [[0, 1, 2], [1, 2, 3], [2, 3, 4]])
np.testing.assert_array_equal(together["b"][0], [0.0, 1.0, 2.0])
np.testing.assert_array_equal(together["b"][1], [False, False, True])
assert together["b"][1].dtype == np.bool_
assert (together["c"].shape, together["c"].dtype) == ((3, 0, 2), np.int8)
np.testing.assert_array_equal(together["d"], np.arange(3.0)[:, None, None] * np.ones((3, 2, 3)))
tiled = multihost_utils.process_allgather(tree, tiled=True)
np.testing.assert_array_equal(tiled["a"], [0, 1, 2, 1, 2, 3, 2, 3, 4])
np.testing.assert_array_equal(tiled["b"][0], [0.0, 1.0, 2.0])
assert (tiled["c"].shape, tiled["d"].shape) == ((0, 2), (6, 3))
for dtype in ("float16", ml_dtypes.bfloat16, "complex64", "uint64", "bool", ml_dtypes.int4):
    x = np.asarray([1, 0, 1]).astype(dtype)
    both = multihost_utils.process_allgather(x)
    assert both.dtype == x.dtype and (both == x).all() and both.shape == (3, 3)

# More than one value of the store holds; the source need not be process 0.
large = np.arange(1_500_000, dtype=np.float32) * (number + 1)
np.testing.assert_array_equal(multihost_utils.broadcast_one_to_all(large, is_source=number == 2), np.arange(1_500_000) * 3)
assert multihost_utils.broadcast_one_to_all({"x": [number, np.ones(2) * number]})["x"][1].tolist() == [0.0, 0.0]
assert multihost_utils.broadcast_one_to_all(()) == ()

multihost_utils.assert_equal({"x": [np.nan, -0.0 if number else 0.0, 1j], "y": np.ones(3)})
multihost_utils.sync_global_devices("end")
multihost_utils.sync_global_devices("end")
# What was exchanged before does not stay.
kept = processes.current_group[0].client.key_value_dir_get_bytes("effx")
assert sum([len(value) for _, value in kept]) < 5000, kept
print("done")
"""


def test_exchanges(together: Together) -> None:
    """Values of all kinds, in all processes."""
    for process in together(JOIN + EXCHANGES, 3):
        assert (process.status, process.out) == (0, "done\n"), process.error


MISMATCHES = """
def message(call, *args):
    try:
        call(*args)
    except errors.ProcessMismatchError as error:
        print(error.message)

from effx import errors
message(multihost_utils.sync_global_devices, f"place {number}")
message(multihost_utils.sync_global_devices if number else multihost_utils.process_allgather, "x" if number else 1.0)
message(multihost_utils.process_allgather, np.ones(2 + number))
message(multihost_utils.broadcast_one_to_all, [1] * (number + 1))
message(multihost_utils.broadcast_one_to_all, 1.0, True)
message(multihost_utils.broadcast_one_to_all, 1.0, False)
message(multihost_utils.assert_equal, {"step": number})
try:
    multihost_utils.assert_equal(np.arange(3) * number, "counts")
except AssertionError as error:
    print(error.message)
multihost_utils.sync_global_devices("x" * 10_000)
"""


def test_mismatches(together: Together) -> None:
    """Each process gets an error that says what the processes do, and can go on."""
    different = "the processes make different calls: process 0 "
    for process in together(JOIN + MISMATCHES, 2):
        assert process.status == 0, process.error
        assert [line for line in process.out.splitlines() if " make different calls" not in line] == [
            "broadcast_one_to_all: one process must be the source, got [0, 1]",
            "broadcast_one_to_all: one process must be the source, got none",
            "assert_equal: process 0 has 0, process 1 has 1",
            "assert_equal: counts: process 0 has [0 0 0], process 1 has [0 1 2]",
        ]
        calls = [line.partition(different)[2] for line in process.out.splitlines() if different in line]
        assert [call.split(", process 1 ") for call in calls] == [
            ["sync_global_devices('place 0')", "sync_global_devices('place 1')"],
            ["process_allgather of PyTreeDef(*) with float64[]", "sync_global_devices('x')"],
            [f"process_allgather of PyTreeDef(*) with float64[{n}]" for n in (2, 3)],
            [
                "broadcast_one_to_all of PyTreeDef([*]) with int64[]",
                "broadcast_one_to_all of PyTreeDef([*, *]) with int64[], int64[]",
            ],
        ]


@pytest.mark.parametrize(
    ("tiled", "x", "shape"),
    [
        (False, 3.0, (1,)),
        (True, 3.0, ()),
        (False, np.ones((2, 3)), (1, 2, 3)),
        (True, np.ones((2, 3)), (2, 3)),
        (True, np.ones((0, 2)), (0, 2)),
    ],
)
def test_alone(tiled: bool, x: Any, shape: tuple[int, ...]) -> None:
    """Without a group there is one process; the shapes are those of jax."""
    found = multihost_utils.process_allgather({"x": x}, tiled=tiled)["x"]
    assert found.shape == shape
    assert found.dtype == np.float64
    assert multihost_utils.broadcast_one_to_all({"x": x})["x"].shape == np.shape(x)
    multihost_utils.assert_equal(x)
    multihost_utils.sync_global_devices("here")


def test_no_arrays() -> None:
    """Text and objects are refused."""
    for x, dtype in (("text", "<U4"), (object(), "object")):
        with pytest.raises(errors.DTypeError) as caught:
            multihost_utils.process_allgather(x)
        assert caught.value.message == f"process_allgather: expected arrays and numbers, got {dtype}"
