"""The elementwise functions of effx.numpy, found by their signatures: those of one and of two arrays, and nothing else.

A function that is new is in the tables that are made of these without being named there.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np

import effx.numpy as enp


def _arity(name: str) -> int:
    """The number of arrays that a function takes; 0 if it takes anything else."""
    f = getattr(enp, name)
    if isinstance(f, type) or not callable(f) or not hasattr(np, name):
        return 0
    parameters = inspect.signature(f).parameters.values()
    return len(parameters) if all([p.kind is p.POSITIONAL_ONLY for p in parameters]) else 0


UNARY, BINARY = [sorted([name for name in dir(enp) if _arity(name) == n]) for n in (1, 2)]


def result(name: str, *operands: Any) -> Any:
    """NumPy's result; None where it takes no such operands, or the result is NaN where they are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = getattr(np, name)(*operands)
        except (TypeError, ValueError):
            return None
    given = any([np.isnan(x).any() for x in operands])
    return None if not given and any([np.isnan(x).any() for x in np.atleast_1d(found)]) else found


def taking(names: list[str], *operands: Any) -> list[str]:
    """The functions that are defined for some operands."""
    return [name for name in names if result(name, *operands) is not None]


def inexact(name: str, *operands: Any) -> bool:
    """Says whether NumPy's result has floats."""
    return np.asarray(result(name, *operands)).dtype.kind in "fc"


def once(names: list[str]) -> list[str]:
    """The functions without those that are another name of one before."""
    return list({id(getattr(enp, name)): name for name in reversed(names)}.values())
