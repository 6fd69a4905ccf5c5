"""What all sparse arrays have in common, and the errors and warnings about formats that store too much."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Self

from effx.array import Array
from effx.dtypes import DType
from effx.errors import ShapeError

__all__ = ["CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError", "SparseEfficiencyWarning"]


class SparseEfficiencyError(ShapeError):
    """An operation that would store more elements than its operand; named as in JAX."""


class SparseEfficiencyWarning(UserWarning):
    """An operation stores more elements than its operand; named as in JAX."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """A product does not go to cuSPARSE. effx never sends one there, so it never warns of it; named as in JAX."""


class JAXSparse(ABC):
    """Base class of sparse arrays.

    Attributes:
        data: the stored elements.
        shape: of the array that is stood for.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO
    >>> isinstance(BCOO.fromdense(enp.eye(2)), JAXSparse)
    True
    """

    data: Array
    # NumPy's arrays leave their operators to ours.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]  # holds arrays

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of the array that is stood for."""

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, zeros that are not stored included."""
        return math.prod(self.shape)

    @property
    @abstractmethod
    def nse(self) -> int:
        """The number of stored elements (of each batch element)."""

    @property
    def T(self) -> JAXSparse:
        """The array with its axes reversed."""
        return self.transpose()

    @abstractmethod
    def todense(self) -> Array:
        """Returns the array with its zeros."""

    @abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> JAXSparse:
        """Returns the array with its axes permuted, reversed by default."""

    @abstractmethod
    def tree_flatten(self) -> tuple[tuple[Array, ...], Hashable]:
        """Returns the arrays, and what is static."""

    @classmethod
    @abstractmethod
    def tree_unflatten(cls, aux_data: Hashable, children: Sequence[Array]) -> Self:
        """Returns what `tree_flatten` took apart."""

    def block_until_ready(self) -> Self:
        """Waits until the elements have been computed, and returns the array."""
        for x in self.tree_flatten()[0]:
            x.block_until_ready()
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError(f"len: an array without axes has no length, got {self!r}")
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            extra = "".join([f", {k}={v}" for k in ("n_batch", "n_dense") if (v := getattr(self, k, 0))])
            sizes = ", ".join(map(str, self.shape))
            return f"{type(self).__name__}({self.dtype.name}[{sizes}], nse={self.nse}{extra})"
        except AttributeError:  # a tree whose leaves are no arrays
            return f"{type(self).__name__}(<{', '.join(map(repr, self.tree_flatten()[0]))}>)"
