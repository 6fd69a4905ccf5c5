"""Type variables for whole arrays, by the kind of their dtype, and the protocol of functions of one array.

They replace `Array[DT, *Dims]` because of mypy 2.4, which ends with an internal error where a conditional
expression has a function that returns such an array in one branch and a value of type Any in the other.
"""

from __future__ import annotations

from typing import Protocol

from typing_extensions import TypeVar

from effx import dtypes
from effx.ir.values.array import Array, Operand

K_co = TypeVar("K_co", covariant=True)


class HasDtypeKind(Protocol[K_co]):
    """An array whose dtype is of a kind."""

    def _element(self) -> K_co: ...


class OfOperand(Protocol):
    """A function of one array or number, such as `effx.numpy.sin`, however it is overloaded."""

    __name__: str

    def __call__(self, x: Operand, /) -> Array: ...


A = TypeVar("A", bound=Array, default=Array)
AF = TypeVar("AF", bound=HasDtypeKind[dtypes.Inexact], default=Array)
AR = TypeVar("AR", bound=HasDtypeKind[dtypes.Real], default=Array)
AN = TypeVar("AN", bound=HasDtypeKind[dtypes.Integer | dtypes.Inexact], default=Array)
