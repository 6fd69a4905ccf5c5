"""zeros_like and its relatives put their arrays where the others of the shape are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.sharding import AxisType, NamedSharding, PartitionSpec

FUNCTIONS: dict[str, tuple[Callable[..., Any], float]] = {
    "zeros_like": (enp.zeros_like, 0.0),
    "ones_like": (enp.ones_like, 1.0),
    "empty_like": (enp.empty_like, 0.0),
    "full_like": (lambda x, **options: enp.full_like(x, 2.5, **options), 2.5),
    "full_like of an array": (lambda x, **options: enp.full_like(x, enp.array(2.5), **options), 2.5),
    "lax.full_like": (lambda x, **options: lax.full_like(x, 2.5, **options), 2.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["device", "auto", "explicit"])
def test_on_the_same_devices(name: str, kind: str) -> None:
    function, value = FUNCTIONS[name]
    target: Any = effx.devices()[3]
    if kind != "device":
        axis_type = AxisType.Auto if kind == "auto" else AxisType.Explicit
        mesh = effx.make_mesh((4, 2), ("a", "b"), axis_types=(axis_type, axis_type))
        target = NamedSharding(mesh, PartitionSpec("a"))
    for shape in ((8,), (4, 3), (0, 2), (8, 20_000)):
        x = effx.device_put(np.ones(shape, "f4"), target)
        for options in ({}, {"dtype": "int32"}):
            result = function(x, **options)
            assert result.sharding == x.sharding
            assert result.committed
            assert {part.data.shape for part in result.addressable_shards} == {
                part.data.shape for part in x.addressable_shards
            }
            np.testing.assert_array_equal(result, np.full(shape, value).astype(result.dtype))
        # One of another shape goes to the same device, but has nothing of the placement of parts.
        assert function(x, shape=(3,)).devices() == {effx.devices()[3 if kind == "device" else 0]}


def test_full_like_of_a_row_and_weak_types() -> None:
    mesh = effx.make_mesh((8,), ("a",))
    x = effx.device_put(np.ones((8, 2), "f4"), NamedSharding(mesh, PartitionSpec("a")))
    result = enp.full_like(x, np.array([1.0, 2.0], "f4"))
    assert result.sharding == x.sharding
    np.testing.assert_array_equal(result, np.tile([1.0, 2.0], (8, 1)))
    weak = effx.device_put(enp.asarray(2.0), effx.devices()[2])
    assert enp.zeros_like(weak).weak_type == weak.weak_type
    assert enp.zeros_like(x, device=effx.devices()[5]).devices() == {effx.devices()[5]}


def test_uncommitted_arrays_and_programs_are_as_before() -> None:
    assert not enp.zeros_like(enp.ones(3)).committed
    x = effx.device_put(np.ones(3, "f4"), effx.devices()[3])
    np.testing.assert_array_equal(effx.jit(enp.zeros_like)(x), np.zeros(3))
    np.testing.assert_array_equal(effx.vmap(enp.ones_like)(x), np.ones(3))
    np.testing.assert_array_equal(effx.grad(lambda x: (x * enp.full_like(x, 2.0)).sum())(x), np.full(3, 2.0))


def test_state_of_an_optimizer() -> None:
    """Momentum beside cut parameters stays cut through a jitted step."""
    mesh = effx.make_mesh((8,), ("a",))
    parameters = {"w": effx.device_put(np.ones((16, 2), "f4"), NamedSharding(mesh, PartitionSpec("a")))}
    state = effx.tree.map(enp.zeros_like, parameters)
    step = effx.jit(lambda s, p: effx.tree.map(lambda m, x: 0.9 * m + x, s, p))
    for _ in range(2):
        state = step(state, parameters)
    assert state["w"].sharding == parameters["w"].sharding
    np.testing.assert_allclose(state["w"], np.full((16, 2), 1.9), rtol=1e-6)
