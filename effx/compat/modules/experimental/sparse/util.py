"""`jax.experimental.sparse.util`."""

from typing import NamedTuple

from effx.experimental.sparse import CuSparseEfficiencyWarning, SparseEfficiencyError, SparseEfficiencyWarning
from effx.ir.types import Shape

__all__ = ["CuSparseEfficiencyWarning", "SparseEfficiencyError", "SparseEfficiencyWarning", "SparseInfo"]


class SparseInfo(NamedTuple):
    """What primitives of sparse arrays are told of one."""

    shape: Shape
    indices_sorted: bool = False
    unique_indices: bool = False
