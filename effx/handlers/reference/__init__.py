"""The meaning of every operation in NumPy: the oracle; importing this registers all rules.

Never: be fast.
"""

from effx.handlers.reference import (
    collective,
    elementwise,
    index,
    linalg,
    parallel,
    random,
    reduce,
    shape,
    solve,
)
from effx.handlers.reference.handler import Reference, evaluate

__all__ = [
    "Reference",
    "collective",
    "elementwise",
    "evaluate",
    "index",
    "linalg",
    "parallel",
    "random",
    "reduce",
    "shape",
    "solve",
]
