"""Operands and results of libraries' rules that are no arrays: symbolic zeros, and operands without a value."""

from typing import TypeVar, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import zeros
from effx.handlers.jvp.handler import JVP
from effx.ir.types import ArrayType
from effx.tree_util import register_pytree_node

__all__ = [
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "instantiate_zeros",
    "is_undefined_primal",
    "is_zero",
    "zeros_like_aval",
]

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class Zero:
    """A tangent or cotangent that is known to be zero; a pytree without leaves.

    Attributes:
        aval: its type.
    """

    aval: ArrayType

    @staticmethod
    def from_primal_value(val: Array) -> "Zero":
        """Returns the zero tangent of a value."""
        return Zero(val.type.to_tangent_aval())

    def instantiate(self) -> "Array | np.ndarray[tuple[int, ...], np.dtype[np.void]]":
        """Returns an array of zeros; one of NumPy's where the type is float0, which arrays cannot have."""
        return zeros_like_aval(self.aval)


@final
@attrs.frozen(eq=False)
class UndefinedPrimal:
    """An operand in which an operation is transposed: it has a type but no value; a pytree without leaves.

    Attributes:
        aval: its type.
    """

    aval: ArrayType


register_pytree_node(Zero, lambda z: ((), z.aval), lambda aval, _: Zero(aval))
register_pytree_node(UndefinedPrimal, lambda z: ((), z.aval), lambda aval, _: UndefinedPrimal(aval))


def is_undefined_primal(x: object) -> bool:
    """Says whether an operand of a transposition rule has no value."""
    return type(x) is UndefinedPrimal


def is_zero(x: object) -> bool:
    """Says whether a rule gave nothing: None, a `Zero`, or that class itself, as some rules do."""
    return x is None or x is Zero or type(x) is Zero


def instantiate_zeros(tangent: T) -> "T | Array | np.ndarray[tuple[int, ...], np.dtype[np.void]]":
    """Returns zeros for a `Zero`, and any other value unchanged."""
    return tangent.instantiate() if isinstance(tangent, Zero) else tangent


def zeros_like_aval(aval: ArrayType) -> "Array | np.ndarray[tuple[int, ...], np.dtype[np.void]]":
    """Returns zeros of a type: NumPy's for float0, which arrays cannot have."""
    return np.zeros(aval.shape, dtypes.float0) if aval.dtype == dtypes.float0 else zeros(aval)


class _OfJVP(type):
    def __instancecheck__(cls, x: object) -> bool:
        return type(x) is Box and isinstance(x.frame.handler, JVP)


@final
class JVPTracer(metaclass=_OfJVP):
    """The values that carry a tangent, for `isinstance`."""
