"""Concrete values on which a shape or an error depends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from effx.array import Array, arithmetic
from effx.errors import ConcretizationError, IndexingError, name_user_call

if TYPE_CHECKING:
    import numpy as np

__all__ = ["bound_indices", "known_data"]


def known_data(x: Array, unknown: str) -> np.ndarray[Any, Any]:
    """Returns the data of a concrete array.

    Args:
        x: the array.
        unknown: the sentence for an abstract one, with {} for its type.

    Raises:
        ConcretizationError: the array is abstract.
    """
    try:
        return x.host("x")
    except ConcretizationError as error:
        raise ConcretizationError(f"{name_user_call()}: {unknown.format(repr(x.type))}") from error


def bound_indices(x: Array, n: int, mode: str, entries: str, outside: str) -> Array:
    """Returns indices below n: clipped, modulo n, or as they are, which must be concrete and inside then.

    Args:
        x: the indices.
        n: the bound.
        mode: "clip", "wrap" or "raise".
        entries: what the indices are for NumPy, for the error. outside: what an index out of bounds is.

    Raises:
        IndexingError: an index out of bounds, with mode "raise".
        ConcretizationError: abstract indices, with mode "raise".
    """
    if mode == "wrap":
        return arithmetic.remainder(x, n)
    if mode == "clip":
        return arithmetic.clip(x, 0, n - 1)
    unknown = "whether the abstract indices {} are inside is not known while they are traced; use mode='clip' or mode='wrap'"
    data = known_data(x, unknown)
    if ((data < 0) | (data >= n)).any():
        # Programs match how NumPy's text begins.
        raise IndexingError(f"invalid entry in {entries}: {name_user_call()}: an index is {outside}")
    return x
