"""`jax.dtypes`: what takes more there than in `effx.dtypes`."""

from typing import Any

import numpy as np

from effx import dtypes
from effx.errors import DTypeError

__all__ = ["issubdtype"]


def issubdtype(a: Any, b: Any) -> bool:
    """`effx.dtypes.issubdtype`, which also answers for dtypes that arrays cannot have: what NumPy answers.

    Libraries ask it of dtypes of strings and objects, and of None, which NumPy takes for float64.

    >>> issubdtype("U3", np.character), issubdtype(None, dtypes.prng_key)
    (True, False)
    """
    try:
        return dtypes.issubdtype(a, b)
    except DTypeError:
        return bool(np.issubdtype(a, b))
