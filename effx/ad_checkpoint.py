"""`checkpoint` and what belongs to it, under the name that JAX users know."""

from typing import Final

from effx import checkpoint_policies
from effx.ir.ops.checkpoint import Offload
from effx.transforms.checkpoint import checkpoint, checkpoint_name, print_saved_residuals
from effx.transforms.checkpoint import checkpoint as remat

__all__ = [
    "Offloadable",
    "Recompute",
    "Saveable",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
]

# What a policy may answer.
Saveable: Final = True
Recompute: Final = False


def Offloadable(src: str, dst: str) -> Offload:
    """Returns the answer of a policy by which a value is kept in another memory.

    Args:
        src: the kind of memory that computations use. dst: that in which to keep the value.

    >>> Offloadable("device", "pinned_host").destination
    'pinned_host'
    """
    return Offload(src, dst)


def __dir__() -> list[str]:
    return sorted(__all__)
