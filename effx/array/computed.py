"""Methods of arrays that are functions of effx.numpy too: extremes, truth, sorting, cumulative sums, parts.

They are one-liners with NumPy's options; the sibling modules implement them.

Never: hold an overload for the dtypes of a kind: mypy takes it for every dtype in a base class.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, cast, overload

from typing_extensions import Unpack

import effx.array  # its modules need the class below: imported at the call
from effx.array.described import Described, Number
from effx.array.parameters import DT, Dims

if TYPE_CHECKING:
    from effx.array.aliases import Axis, Operand, Scalar
    from effx.array.scalars import bool_
    from effx.array.values import Array

__all__ = ["Computed"]


class Sorting(Protocol):
    """What arrays need of the module of functions that sort, which stands above them."""

    def sort(self, a: object, axis: int | None, *, stable: bool, descending: bool) -> Array:
        """Sorts."""
        ...

    def argsort(self, a: object, axis: int | None, *, stable: bool, descending: bool) -> Array:
        """Gives the indices that sort."""
        ...


def _sorting() -> Sorting:
    return cast("Sorting", importlib.import_module("effx.numpy.sorting"))


class Computed(Described, Generic[DT, Unpack[Dims]]):
    """The part of `Array` with these methods; every instance is an array."""

    __slots__ = ()

    @overload
    def max(
        self, axis: None = None, *, keepdims: Literal[False] = False, where: Operand | None = None
    ) -> Scalar[DT]: ...
    @overload
    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Number | None = None,
        where: Operand | None = None,
    ) -> Array[DT, *tuple[Any, ...]]: ...
    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Number | None = None,
        where: Operand | None = None,
    ) -> Array:
        """The largest element over axes; NaN if there is one."""
        effx.array.reducing.no_out("max", out)
        return effx.array.reducing.max(cast("Array", self), axis, keepdims, initial, where)

    @overload
    def min(
        self, axis: None = None, *, keepdims: Literal[False] = False, where: Operand | None = None
    ) -> Scalar[DT]: ...
    @overload
    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Number | None = None,
        where: Operand | None = None,
    ) -> Array[DT, *tuple[Any, ...]]: ...
    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Number | None = None,
        where: Operand | None = None,
    ) -> Array:
        """The smallest element over axes; NaN if there is one."""
        effx.array.reducing.no_out("min", out)
        return effx.array.reducing.min(cast("Array", self), axis, keepdims, initial, where)

    @overload
    def all(
        self, axis: None = None, *, keepdims: Literal[False] = False, where: Operand | None = None
    ) -> Scalar[bool_]: ...
    @overload
    def all(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, where: Operand | None = None
    ) -> Array[bool_, *tuple[Any, ...]]: ...
    def all(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, where: Operand | None = None
    ) -> Array:
        """Whether all elements are true."""
        effx.array.reducing.no_out("all", out)
        return effx.array.reducing.all(cast("Array", self), axis, keepdims, where)

    @overload
    def any(
        self, axis: None = None, *, keepdims: Literal[False] = False, where: Operand | None = None
    ) -> Scalar[bool_]: ...
    @overload
    def any(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, where: Operand | None = None
    ) -> Array[bool_, *tuple[Any, ...]]: ...
    def any(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, where: Operand | None = None
    ) -> Array:
        """Whether any element is true."""
        effx.array.reducing.no_out("any", out)
        return effx.array.reducing.any(cast("Array", self), axis, keepdims, where)

    @overload
    def argmax(self, axis: None = None, *, keepdims: Literal[False] = False) -> Scalar[Any]: ...
    @overload
    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array: ...
    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array:
        """The index of the largest element."""
        effx.array.reducing.no_out("argmax", out)
        return effx.array.reducing.argmax(cast("Array", self), axis, keepdims)

    @overload
    def argmin(self, axis: None = None, *, keepdims: Literal[False] = False) -> Scalar[Any]: ...
    @overload
    def argmin(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array: ...
    def argmin(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Array:
        """The index of the smallest element."""
        effx.array.reducing.no_out("argmin", out)
        return effx.array.reducing.argmin(cast("Array", self), axis, keepdims)

    @overload
    def sort(self, axis: int = -1, stable: bool = True, descending: bool = False) -> Array[DT, *Dims]: ...
    @overload
    def sort(self, axis: None, stable: bool = True, descending: bool = False) -> Array[DT, Any]: ...
    def sort(self, axis: int | None = -1, stable: bool = True, descending: bool = False) -> Array:
        """Sorted along an axis."""
        return _sorting().sort(self, axis, stable=stable, descending=descending)

    def argsort(self, axis: int | None = -1, stable: bool = True, descending: bool = False) -> Array:
        """The indices that sort along an axis."""
        return _sorting().argsort(self, axis, stable=stable, descending=descending)

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Cumulative sums along an axis."""
        effx.array.reducing.no_out("cumsum", out)
        return effx.array.reducing.cumsum(cast("Array", self), axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Cumulative products along an axis."""
        effx.array.reducing.no_out("cumprod", out)
        return effx.array.reducing.cumprod(cast("Array", self), axis, dtype)

    def dot(self, other: Operand) -> Array:
        """NumPy's dot product."""
        return effx.array.arithmetic.dot(cast("Array", self), other)

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Array:
        """Bounded to [min, max]."""
        return effx.array.arithmetic.clip(cast("Array", self), min, max)

    def round(self, decimals: int = 0) -> Array[DT, *Dims]:
        """Rounded to a number of decimals, halves to even."""
        return effx.array.arithmetic.round_(cast("Array", self), decimals)

    def take(
        self, indices: Operand, axis: int | None = None, mode: str | None = None
    ) -> Array[DT, *tuple[Any, ...]]:
        """Elements along an axis by index."""
        return effx.array.indexing.take(cast("Array", self), indices, axis, mode)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array[DT, *tuple[Any, ...]]:
        """The diagonal of two axes."""
        return effx.array.indexing.diagonal(cast("Array", self), offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """The sum of the diagonal of two axes."""
        return effx.array.reducing.sum(
            effx.array.indexing.diagonal(cast("Array", self), offset, axis1, axis2), -1
        )
