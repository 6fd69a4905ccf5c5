"""`jax._src.dtypes`: flax and equinox ask here for what `jax.dtypes` has."""

import numpy as np

from effx.dtypes import extended, finfo
from effx.errors import TypePromotionError

__all__ = ["DType", "ExtendedDType", "TypePromotionError", "extended", "finfo", "supports_inf"]

DType = np.dtype


class ExtendedDType:
    """What dtypes of a library's own derive from. effx's arrays have no such dtypes, and functions say so."""


def supports_inf(dtype: np.dtype[np.generic]) -> bool:
    """Says whether a dtype has infinities."""
    return bool(np.isinf(np.asarray(np.inf, dtype)))
