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
from effx.handlers.transpose.handler import LinearOperand, backward

__all__ = [
    "LinearOperand",
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
