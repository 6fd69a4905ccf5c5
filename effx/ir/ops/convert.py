"""Conversions between dtypes, and identities with a meaning for some handlers."""

from typing import ClassVar, final

import attrs

from effx import dtypes
from effx.dtypes import DType
from effx.errors import DTypeError
from effx.ir.ops.base import (
    ArrayOperation,
    Elementwise,
    Linear,
    Monotone,
    PiecewiseConstant,
    Singleton,
    TupleOperation,
    Unary,
    check_arity,
    check_kind,
)
from effx.ir.types import ArrayType, array_type


@final
@attrs.frozen
class Convert(Elementwise):
    """Converts the values to another dtype. StableHLO: convert.

    Floats to integers truncate toward zero; to bool: `x != 0`.

    Attributes:
        dtype: the result's dtype.
        weak: whether the result's type is weak.
    """

    dtype: DType
    weak: bool = False
    arity: ClassVar[int] = 1

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's shape with the new dtype."""
        check_arity(self, types, 1)
        if dtypes.is_key(types[0].dtype) or dtypes.is_key(self.dtype):
            raise DTypeError(
                f"convert: {types[0]!r} does not become {dtypes.short_name(self.dtype)}; keys are made of words by "
                f"random.wrap_key_data, and give them by random.key_data"
            )
        if types[0].kind == "c" and not dtypes.is_complex(self.dtype) and self.dtype != dtypes.bool_:
            raise DTypeError(
                f"convert: {types[0]!r} has an imaginary part, which {self.dtype} cannot hold; take real(x) first"
            )
        return array_type(self.dtype, types[0].shape, self.weak)


@final
@attrs.frozen
class Bitcast(ArrayOperation, PiecewiseConstant):
    """Reads the bits as another dtype; a change of width adds or removes a last axis. StableHLO:
    bitcast_convert.

    Attributes:
        dtype: the result's dtype.
    """

    dtype: DType

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's shape, with a last axis for the ratio of the widths."""
        check_arity(self, types, 1)
        t = types[0]
        old, new = dtypes.bits(t.dtype), dtypes.bits(self.dtype)
        if dtypes.is_key(t.dtype) or dtypes.is_key(self.dtype):
            if dtypes.uint32 not in (t.dtype, self.dtype):
                raise DTypeError(
                    f"bitcast: {t!r} cannot be read as {dtypes.short_name(self.dtype)}: the words of keys are u32"
                )
        elif (t.dtype == dtypes.bool_) != (self.dtype == dtypes.bool_) or (
            t.kind == "c"
        ) != dtypes.is_complex(self.dtype):
            raise DTypeError(
                f"bitcast: {t!r} cannot be read as {self.dtype}: bool and complex keep to themselves"
            )
        if old == new:
            return array_type(self.dtype, t.shape)
        if old > new:
            return array_type(self.dtype, (*t.shape, old // new))
        if not t.shape or t.shape[-1] != new // old:
            raise DTypeError(f"bitcast: reading {t!r} as {self.dtype} needs a last axis of size {new // old}")
        return array_type(self.dtype, t.shape[:-1])


@final
@attrs.frozen
class ReducePrecision(Elementwise, Monotone):
    """Rounds to a float format of fewer bits and back. StableHLO: reduce_precision.

    Attributes:
        exponent_bits: at least 1.
        mantissa_bits: at least 0.
    """

    exponent_bits: int
    mantissa_bits: int
    kinds: ClassVar[str] = "f"
    arity: ClassVar[int] = 1

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        check_arity(self, types, 1)
        check_kind(self, types[0], "f")
        if self.exponent_bits < 1 or self.mantissa_bits < 0:
            raise DTypeError(
                f"reduce_precision: needs exponent_bits >= 1 and mantissa_bits >= 0, "
                f"got {self.exponent_bits} and {self.mantissa_bits}"
            )
        return types[0]


class _Identity(Unary):
    """The base of identities, which take keys too."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        return types[0] if len(types) == 1 and dtypes.is_key(types[0].dtype) else super().infer(*types)


@final
class StopGradient(_Identity, PiecewiseConstant):
    """The identity, with a derivative of zero."""

    __slots__ = ()


@final
class Copy(_Identity, Linear):
    """The identity, into separate memory."""

    __slots__ = ()


@final
class OptimizationBarrier(Singleton, TupleOperation):
    """The identity on all operands; XLA moves no computation across. StableHLO: optimization_barrier."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The operands' types."""
        return types
