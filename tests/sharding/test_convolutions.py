"""Gradients of convolutions of which an axis is cut along one mesh axis of several: XLA's partitioner alone sums kernels'
gradients over too many devices.
"""

from typing import Any

import numpy as np
import pytest

import effx
from effx import lax
from effx.sharding import AxisType, NamedSharding
from effx.sharding import PartitionSpec as P

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("spec", [P("X"), P("Y"), P(("X", "Y")), P(None, None, "Y")], ids=str)
@pytest.mark.parametrize(("groups", "features", "kernels"), [(1, 2, 4), (2, 2, 4), (2, 4, 2), (4, 4, 4)])
def test_gradients(groups: int, features: int, kernels: int, spec: P, kind: AxisType) -> None:
    """Those of whole arrays: compiled, and operation by operation."""
    x = RNG.normal(size=(8, features, 6)).astype(np.float32)
    k = RNG.normal(size=(kernels, features // groups, 3)).astype(np.float32)

    def loss(x: Any, k: Any) -> Any:
        y = lax.conv_general_dilated(x, k, (1,), "SAME", feature_group_count=groups)
        return (y**2).sum()

    gradient = effx.grad(loss, (0, 1))
    want = gradient(x, k)
    mesh = effx.make_mesh((4, 2), ("X", "Y"), AxisType.Auto if None in spec else kind)
    cut = effx.device_put(x, NamedSharding(mesh, spec))
    for got in (effx.jit(gradient)(cut, k), gradient(cut, k)):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_random(seed: int) -> None:
    """Of two spatial axes, strided and dilated, in groups, with the kernel cut too."""
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 2, 4]))
    features, kernels = 4 * groups, 2 * groups
    x = rng.normal(size=(8, features, 8, 8)).astype(np.float32)
    k = rng.normal(size=(kernels, features // groups, 3, int(rng.choice([1, 2])))).astype(np.float32)
    strides, spread = [tuple(map(int, rng.choice([1, 2], 2))) for _ in range(2)]
    cuts = [P("X"), P(None, None, "Y"), P("X", None, "Y"), P(None, None, None, "Y"), P(None, "Y", "X")]

    def loss(x: Any, k: Any) -> Any:
        y = lax.conv_general_dilated(x, k, strides, "VALID", rhs_dilation=spread, feature_group_count=groups)
        return (y**2).sum()

    gradient = effx.value_and_grad(loss, (0, 1))
    mesh = effx.make_mesh((4, 2), ("X", "Y"))
    cut = effx.device_put(x, NamedSharding(mesh, cuts[seed % len(cuts)]))
    kernel = effx.device_put(k, NamedSharding(mesh, P("Y") if seed % 2 else P()))
    for a, b in zip(
        effx.tree.leaves(effx.jit(gradient)(cut, kernel)), effx.tree.leaves(gradient(x, k)), strict=True
    ):
        np.testing.assert_allclose(
            np.asarray(a), np.asarray(b), rtol=2e-3, atol=1e-3 * float(np.abs(b).max())
        )


def test_inside_a_map_over_another_axis() -> None:
    """Where the partitioner has one axis left."""
    mesh = effx.make_mesh((4, 2), ("X", "Y"))
    x = RNG.normal(size=(8, 2, 6)).astype(np.float32)
    k = RNG.normal(size=(2, 1, 3)).astype(np.float32)

    def loss(x: Any, k: Any) -> Any:
        return (lax.conv_general_dilated(x, k, (1,), "SAME", feature_group_count=2) ** 2).sum()

    def part(x: Any, k: Any) -> Any:
        return effx.grad(loss, 1)(effx.lax.with_sharding_constraint(x, P("Y")), k)

    mapped = effx.shard_map(
        part, mesh=mesh, in_specs=(P("X"), P()), out_specs=P(), axis_names={"X"}, check_vma=True
    )
    got = effx.jit(mapped)(x, k)
    np.testing.assert_allclose(np.asarray(got), np.asarray(effx.grad(loss, 1)(x, k)), rtol=1e-4, atol=1e-4)
