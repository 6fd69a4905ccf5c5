"""`jax._src.flattree`: quax asks here for the groups of a scan's operands."""

from effx.compat.flat_trees import FlatTree, nones, pack

__all__ = ["FlatTree", "nones", "pack"]
