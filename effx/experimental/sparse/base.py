"""The base class of sparse arrays, and the errors and warnings about formats that store too much."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Self, cast

import numpy as np

import effx.numpy as enp
from effx.array import Array, Operand
from effx.dtypes import DType, DTypeLike
from effx.errors import DTypeError, ShapeError
from effx.ir.values.array import Index

__all__ = ["CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError", "SparseEfficiencyWarning"]


class SparseEfficiencyError(ShapeError):
    """An operation that would store more elements than its operand; named as in JAX.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO, SparseEfficiencyError, bcoo_update_layout
    >>> try:
    ...     bcoo_update_layout(BCOO.fromdense(enp.eye(3)), n_batch=1)
    ... except SparseEfficiencyError as error:
    ...     print("stores 18 numbers, more than 9" in str(error))
    True
    """


class SparseEfficiencyWarning(UserWarning):
    """An operation stores more elements than its operand; named as in JAX.

    >>> import warnings, effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO, SparseEfficiencyWarning, bcoo_update_layout
    >>> with warnings.catch_warnings(record=True) as messages:
    ...     warnings.simplefilter("always", SparseEfficiencyWarning)
    ...     matrix = bcoo_update_layout(BCOO.fromdense(enp.eye(3)), n_batch=1, on_inefficient="warn")
    >>> "stores 18 numbers, more than 9" in str(messages[0].message)
    True
    """


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
    # NumPy's arrays defer to these operators.
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

    @abstractmethod
    def _coordinates(self) -> JAXSparse:
        """Returns the array as a `BCOO`, which has all operators."""

    def _of(self, result: JAXSparse | Array) -> JAXSparse | Array:
        """Returns what operators of the `BCOO` have made, in this format where it can hold it."""
        return result

    # Dense operands give what they give with a BCOO.

    def __neg__(self) -> JAXSparse:
        return cast("JAXSparse", self._of(-self._coordinates()))

    def __pos__(self) -> JAXSparse:
        return self

    def __add__(self, other: JAXSparse | Operand) -> JAXSparse | Array:
        return self._of(self._coordinates() + _coordinates(other))

    def __radd__(self, other: Operand) -> JAXSparse | Array:
        return self._of(other + self._coordinates())

    def __sub__(self, other: JAXSparse | Operand) -> JAXSparse | Array:
        return self._of(self._coordinates() - _coordinates(other))

    def __rsub__(self, other: Operand) -> JAXSparse | Array:
        return self._of(other - self._coordinates())

    def __mul__(self, other: JAXSparse | Operand) -> JAXSparse | Array:
        return self._of(self._coordinates() * _coordinates(other))

    def __rmul__(self, other: Operand) -> JAXSparse | Array:
        return self._of(other * self._coordinates())

    def __matmul__(self, other: JAXSparse | Operand) -> JAXSparse | Array:
        return self._of(self._coordinates() @ _coordinates(other))

    def __rmatmul__(self, other: Operand) -> JAXSparse | Array:
        return self._of(other @ self._coordinates())

    def __getitem__(self, index: Index) -> JAXSparse | Array:
        return self._of(self._coordinates()[index])

    def sum(self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> JAXSparse | Array:
        """Returns the sum over all axes, an array, or over some, a sparse array."""
        return self._of(self._coordinates().sum(axis, keepdims=keepdims))

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


def _coordinates(x: JAXSparse | Operand) -> Any:
    return x._coordinates() if isinstance(x, JAXSparse) else x


def check_scipy_matrix(
    name: str, mat: object, form: str, index_dtype: DTypeLike | None, extra: tuple[int, int]
) -> tuple[Any, np.dtype[Any]]:
    """Returns SciPy's sparse matrix in one of SciPy's forms, and the dtype of indices.

    Args:
        name: of the class that takes it, for errors.
        mat: the matrix. form: "coo" or "csr".
        index_dtype: None for int32.
        extra: the requested numbers of batch axes and dense axes.

    Raises:
        ShapeError: any are.
        DTypeError: `mat` is no sparse matrix of SciPy.
    """
    function_name = f"{name}.from_scipy_sparse"
    if any(extra):
        n_batch, n_dense = extra
        raise ShapeError(
            f"{function_name}: a matrix of SciPy has no batch or dense axes, got n_batch={n_batch}, n_dense={n_dense}"
        )
    convert = getattr(mat, f"to{form}", None)
    if convert is None:
        raise DTypeError(f"{function_name}: takes a sparse matrix of SciPy, got {type(mat).__name__}")
    return convert(), np.dtype(np.int32 if index_dtype is None else enp.dtype(index_dtype))
