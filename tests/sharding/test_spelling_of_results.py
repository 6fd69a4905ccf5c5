"""Results are sharded as their operands' specs say, mesh axes of size 1 included; stages show requested shardings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.sharding import AxisType, NamedSharding, PartitionSpec

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + 1,
    "jit": effx.jit(lambda x: enp.sin(x) * 2),
    "grad": effx.grad(lambda x: (x * x).sum()),
    "convert": lambda x: x.astype("int32"),
}


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_axes_of_size_one(name: str, kind: AxisType) -> None:
    mesh = effx.make_mesh((1, 8), ("a", "b"), axis_types=(kind, kind))
    for spec in (
        PartitionSpec("a", "b"),
        PartitionSpec("b", "a"),
        PartitionSpec(("a", "b")),
        PartitionSpec("a"),
    ):
        # C++ takes shardings for equal that shard alike, and answers with the first call's spelling.
        effx.clear_caches()
        x = effx.device_put(np.ones((8, 8), "f4"), NamedSharding(mesh, spec))
        result = FUNCTIONS[name](x)
        assert result.sharding == x.sharding
        assert result.sharding.is_equivalent_to(x.sharding, 2)


def test_stages_show_requested_shardings() -> None:
    mesh = effx.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto, AxisType.Auto))
    rows = NamedSharding(mesh, PartitionSpec("a"))
    f = effx.jit(lambda x: {"y": x + 1, "n": x.sum()}, out_shardings={"y": rows, "n": None})
    x = effx.ShapeDtypeStruct((8, 2), "float32")
    for shapes in (f.eval_shape(x), f.trace(x).out_info, f.lower(x).out_info, f.lower(x).compile().out_info):
        assert shapes["y"] == effx.ShapeDtypeStruct((8, 2), "float32", sharding=rows)
        assert shapes["n"].sharding is None
    assert effx.jit(lambda x: x).eval_shape(x).sharding is None
