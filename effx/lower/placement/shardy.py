"""Shardy's text of meshes and shardings."""

from collections.abc import Sequence

from effx.lower.placement.tiling import Tiling

__all__ = ["mesh_line", "sharding_attribute", "tiling_text"]


def mesh_line(name: str, sizes: Sequence[int], order: Sequence[int] = ()) -> str:
    """Returns the definition of a mesh of all devices, in the module's order or another."""
    axes = ", ".join([f'"m{i}"={n}' for i, n in enumerate(sizes)])
    ids = f", device_ids=[{', '.join(map(str, order))}]" if order else ""
    return f"  sdy.mesh @{name} = <[{axes}]{ids}>"


def tiling_text(
    mesh: str,
    dims: Sequence[Sequence[int]],
    open_dims: Sequence[bool] = (),
    replicated_axes: Sequence[int] = (),
    unreduced: Sequence[int] = (),
) -> str:
    """Returns Shardy's text of an array's sharding.

    Args:
        mesh: the name of a grid.
        dims: for each array axis the grid's axes that it is sharded over.
        open_dims: for each array axis whether the partitioner may shard it further; by default it may not.
        replicated_axes: the grid's axes over which it may not.
        unreduced: the grid's axes along which devices have the terms of a sum.
    """
    dim_texts = []
    for d, axes in enumerate(dims):
        names = [f'"m{a}"' for a in axes]
        dim_texts.append(f"{{{', '.join([*names, '?'] if d < len(open_dims) and open_dims[d] else names)}}}")
    rest = ""
    for which, numbers in (("replicated", replicated_axes), ("unreduced", unreduced)):
        if numbers:
            listed = ", ".join([f'"m{a}"' for a in numbers])
            rest += f", {which}={{{listed}}}"
    return f"<@{mesh}, [{', '.join(dim_texts)}]{rest}>"


def sharding_attribute(mesh: str, tiling: Tiling) -> str:
    """Returns the sharding attribute of an argument or a result of `main`."""
    return f"sdy.sharding = #sdy.sharding{tiling_text(mesh, tiling.dims, unreduced=tiling.unreduced)}"
