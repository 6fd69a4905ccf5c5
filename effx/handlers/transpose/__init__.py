"""Transposition of linear programs; importing this registers all rules.

Never: see an operation that is not linear in its marked operands.
"""

from effx.handlers.transpose import (
    checkpoint,
    collective,
    control,
    custom,
    elementwise,
    index,
    linalg,
    parallel,
    reduce,
    shape,
    solve,
)
from effx.handlers.transpose.handler import Linear, backward

__all__ = [
    "Linear",
    "backward",
    "checkpoint",
    "collective",
    "control",
    "custom",
    "elementwise",
    "index",
    "linalg",
    "parallel",
    "reduce",
    "shape",
    "solve",
]
