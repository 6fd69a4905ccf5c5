"""`jax.experimental.sparse.coo`."""

from typing import NamedTuple

from effx.experimental.sparse import COO, coo_fromdense, coo_matmat, coo_matvec, coo_todense
from effx.ir.types import Shape

__all__ = ["COO", "COOInfo", "coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense"]


class COOInfo(NamedTuple):
    """What primitives of matrices by coordinates are told of one."""

    shape: Shape
    rows_sorted: bool = False
    cols_sorted: bool = False
