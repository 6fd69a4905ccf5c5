"""Transposition of linear programs; importing this registers all rules."""

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
