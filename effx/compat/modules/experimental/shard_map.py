"""`jax.experimental.shard_map`: the old name and parameters of `jax.shard_map`."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from effx.ir.meshes import AbstractMesh
from effx.lower.placement.meshes import Mesh
from effx.transforms.maps.shard_map import Specs
from effx.transforms.maps.shard_map import shard_map as sharded

__all__ = ["shard_map"]

P = ParamSpec("P")
R = TypeVar("R")


def shard_map(
    f: Callable[P, R],
    mesh: Mesh | AbstractMesh,
    in_specs: Specs,
    out_specs: Specs,
    check_rep: bool = True,
) -> Callable[P, R]:
    """`effx.shard_map` over all axes of a mesh.

    Args:
        f, mesh, in_specs, out_specs: as for `effx.shard_map`.
        check_rep: its `check_vma`.

    >>> import effx
    >>> from effx.sharding import PartitionSpec as P
    >>> mesh = effx.make_mesh((1,), ("data",))
    >>> print(shard_map(lambda x: effx.lax.psum(x, "data"), mesh, P("data"), P())(effx.numpy.arange(3.0)))
    [0. 1. 2.]
    """
    return sharded(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
