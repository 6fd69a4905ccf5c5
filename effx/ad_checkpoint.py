"""`checkpoint` and what belongs to it, under the name that JAX users know."""

from effx.transforms.checkpoint import checkpoint, checkpoint_name, print_saved_residuals
from effx.transforms.checkpoint import checkpoint as remat

__all__ = ["checkpoint", "checkpoint_name", "print_saved_residuals", "remat"]


def __dir__() -> list[str]:
    return sorted(__all__)
