"""`checkpoint` and related functions, under JAX's module name."""

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

# The possible results of a policy.
Saveable: Final = True
Recompute: Final = False


def __dir__() -> list[str]:
    return sorted(__all__)
