"""Transpose linear programs; importing this registers all rules."""

from effx.handlers.transpose import (
    checkpoint,
    collective,
    control,
    custom,
    elementwise,
    index,
    linalg,
    parallel,
    recurring,
    reduce,
    shape,
    solve,
)
from effx.handlers.transpose.handler import LinearOperand, backward_pass
from effx.handlers.transpose.recurring import pull_back

__all__ = ["LinearOperand", "backward_pass", "pull_back"]
