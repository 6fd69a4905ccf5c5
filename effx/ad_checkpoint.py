"""`checkpoint` and what belongs to it, under the name that JAX users know."""

from typing import Final

from effx import checkpoint_policies
from effx.ir.ops.checkpoint import Offload as Offloadable
from effx.transforms.autodiff.checkpoint import checkpoint, checkpoint_name, print_saved_residuals
from effx.transforms.autodiff.checkpoint import checkpoint as remat

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


def __dir__() -> list[str]:
    return sorted(__all__)
