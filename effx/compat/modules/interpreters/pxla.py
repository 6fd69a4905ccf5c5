"""`jax.interpreters.pxla`: the mesh in force, by the name that programs know from before `jax.set_mesh`."""

from types import SimpleNamespace
from typing import final

from effx.lower.placement.meshes import Mesh
from effx.transforms.placement.meshes import get_mesh

__all__ = ["thread_resources"]


@final
class _Environment:
    """What `thread_resources.env` has."""

    @property
    def physical_mesh(self) -> Mesh:
        """The mesh in force, a mesh without axes if there is none."""
        return get_mesh()


thread_resources = SimpleNamespace(env=_Environment())
