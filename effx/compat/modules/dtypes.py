"""`jax.dtypes`: what is another kind of thing there than in `effx.dtypes`, or takes more."""

from typing import Any

import numpy as np
from ml_dtypes import bfloat16  # the class of its scalars: libraries ask `isinstance(x, bfloat16)`

from effx import dtypes
from effx.errors import DTypeError

__all__ = ["bfloat16", "issubdtype"]


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
