"""What type checkers know of `x.T` and `x.mT`, by rank.

Never: transpose; at run time both are properties of `Array`.
"""

from __future__ import annotations

from typing import Any, overload

from effx.array.parameters import DT, K, M, N
from effx.array.values import Array

__all__ = ["MatrixTransposed", "Transposed"]


class Transposed:
    """`x.T`: the axes reversed."""

    @overload
    def __get__(self, x: Array[DT, N], owner: object = None) -> Array[DT, N]: ...
    @overload
    def __get__(self, x: Array[DT, N, M], owner: object = None) -> Array[DT, M, N]: ...
    @overload
    def __get__(self, x: Array[DT, K, N, M], owner: object = None) -> Array[DT, M, N, K]: ...
    @overload
    def __get__(
        self, x: Array[DT, *tuple[Any, ...]], owner: object = None
    ) -> Array[DT, *tuple[Any, ...]]: ...
    def __get__(self, x: Array, owner: object = None) -> Array:
        """Gives the array with its axes reversed."""
        return x.transpose()


class MatrixTransposed:
    """`x.mT`: the last two axes exchanged."""

    @overload
    def __get__(self, x: Array[DT, N, M], owner: object = None) -> Array[DT, M, N]: ...
    @overload
    def __get__(self, x: Array[DT, K, N, M], owner: object = None) -> Array[DT, K, M, N]: ...
    @overload
    def __get__(
        self, x: Array[DT, *tuple[Any, ...]], owner: object = None
    ) -> Array[DT, *tuple[Any, ...]]: ...
    def __get__(self, x: Array, owner: object = None) -> Array:
        """Gives the array with its last two axes exchanged."""
        return x.swapaxes(-1, -2)
