"""vmap of shard_map over an axis that an Explicit mesh cuts: the batch stays cut, and values are those of one device."""

from typing import Any

import numpy as np
import pytest

import effx
from effx import lax
from effx.sharding import AxisType, NamedSharding, PartitionSpec

X = np.arange(32.0, dtype="f4").reshape(8, 4)


def make_mesh() -> Any:
    return effx.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Explicit, AxisType.Explicit))


def place(x: Any, *spec: Any) -> Any:
    return effx.device_put(x, NamedSharding(make_mesh(), PartitionSpec(*spec)))


@pytest.mark.parametrize("transform", [lambda f: f, effx.jit], ids=["eager", "jit"])
def test_the_batch_stays_cut(transform: Any) -> None:
    mesh = make_mesh()
    double = effx.shard_map(
        lambda x: 2.0 * x, mesh=mesh, in_specs=PartitionSpec("b"), out_specs=PartitionSpec("b")
    )
    result = transform(effx.vmap(double))(place(X, "a", "b"))
    assert result.sharding.spec == PartitionSpec("a", "b")
    np.testing.assert_array_equal(result, 2.0 * X)
    columns = transform(effx.vmap(double, in_axes=1, out_axes=1))(place(X.T, "b", "a"))
    assert columns.sharding.spec == PartitionSpec("b", "a")
    np.testing.assert_array_equal(columns, 2.0 * X.T)


def test_with_collectives_other_operands_and_derivatives() -> None:
    mesh, weights = make_mesh(), np.array([1.0, -1.0, 2.0, 3.0], "f4")
    dot = effx.shard_map(
        lambda x, w: lax.psum((x * w).sum(), "b"),
        mesh=mesh, in_specs=(PartitionSpec("b"), PartitionSpec("b")), out_specs=PartitionSpec(),
    )  # fmt: skip
    batched = effx.jit(effx.vmap(dot, in_axes=(0, None)))
    x, w = place(X, "a", "b"), place(weights, "b")
    result = batched(x, w)
    assert result.sharding.spec == PartitionSpec("a")
    np.testing.assert_allclose(result, X @ weights, rtol=1e-6)
    slopes = effx.jit(effx.grad(lambda x, w: (batched(x, w) ** 2).sum(), (0, 1)))(x, w)
    np.testing.assert_allclose(slopes[0], 2 * (X @ weights)[:, None] * weights, rtol=1e-5)
    np.testing.assert_allclose(slopes[1], 2 * (X @ weights) @ X, rtol=1e-5)


def test_a_batch_that_the_map_needs_whole() -> None:
    """An axis that the map itself uses cannot cut its batch: values are right all the same."""
    mesh = make_mesh()
    over_a = effx.shard_map(
        lambda x: 2.0 * x, mesh=mesh, in_specs=PartitionSpec("a"), out_specs=PartitionSpec("a")
    )
    np.testing.assert_array_equal(effx.vmap(over_a)(place(X, None, "a")), 2.0 * X)
    mean = effx.shard_map(
        lambda x: x - lax.pmean(x, "rows"),
        mesh=mesh,
        in_specs=PartitionSpec("b"),
        out_specs=PartitionSpec("b"),
    )
    named = effx.jit(effx.vmap(mean, axis_name="rows"))(place(X, "a", "b"))
    np.testing.assert_allclose(named, X - X.mean(0), rtol=1e-6)
