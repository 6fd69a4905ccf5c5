"""Type aliases for arguments and results of functions of arrays: operands, scalars, arrays of unknown rank."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from typing_extensions import TypeVar, Unpack

from effx.array.described import HostData, Number, SupportsArray
from effx.array.parameters import DT
from effx.array.values import Array

__all__ = ["AnyRank", "Axis", "MatrixTransposable", "Numeric", "Operand", "Other", "Scalar", "Transposable"]

R_co = TypeVar("R_co", covariant=True)


class _Unknown:
    """A size that no array has: only arrays of unknown rank match `AnyRank`."""


Scalar: TypeAlias = Array[DT, Unpack[tuple[()]]]
"""An array of rank 0."""

AnyRank: TypeAlias = Array[
    Any, _Unknown, _Unknown, _Unknown, _Unknown, _Unknown, _Unknown, _Unknown, _Unknown, _Unknown
]
"""Arrays of unknown rank. An overload for it stands before those for ranks, all of which a bare `Array` matches."""

Numeric: TypeAlias = Number | HostData | np.generic
"""Numbers and NumPy data. Not what only has `__array__`: to type checkers arrays are among that."""

Other: TypeAlias = Numeric | SupportsArray
Operand: TypeAlias = Array | Other
Axis: TypeAlias = int | Sequence[int] | None


class Transposable(Protocol[R_co]):
    """The type of `x.T`: a property cannot be overloaded, but this method can."""

    if TYPE_CHECKING:  # at run time arrays have no such method

        def _turned(self) -> R_co: ...


class MatrixTransposable(Protocol[R_co]):
    """The type of `x.mT`."""

    if TYPE_CHECKING:

        def _matrix_turned(self) -> R_co: ...
