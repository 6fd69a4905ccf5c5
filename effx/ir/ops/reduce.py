"""Reductions and cumulative reductions along axes."""

from collections.abc import Hashable
from typing import ClassVar, final

import attrs

from effx import dtypes
from effx.dtypes import DType, bits
from effx.errors import DTypeError, OptionError, ShapeError
from effx.flags import allow_f16_reductions
from effx.ir.ops.base import (
    ArrayOperation,
    Linear,
    check_arity,
    check_axes,
    check_axis,
    check_int,
    check_int_tuple,
    check_kind,
)
from effx.ir.types import ArrayType, array_type


@attrs.frozen
class Reduction(ArrayOperation):
    """Trait: combines all elements along some axes. StableHLO: reduce.

    Attributes:
        axes: the reduced axes, increasing.
    """

    axes: tuple[int, ...] = attrs.field(validator=check_int_tuple)
    kinds: ClassVar[str] = "biufc"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of x without the axes."""
        check_arity(self, types, 1)
        t = types[0]
        check_kind(self, t, self.kinds)
        check_axes(self, self.axes, t)
        return t.with_shape(tuple([n for i, n in enumerate(t.shape) if i not in self.axes]))


@final
@attrs.frozen
class ReduceSum(Reduction, Linear):
    """The sum; 0 for no elements.

    Attributes:
        unreduced: the mesh axes over which the sum is left to be taken, where they shard reduced axes.
    """

    kinds: ClassVar[str] = "iufc"
    unreduced: tuple[Hashable, ...] = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type without the axes."""
        result = super().infer(*types)
        (t,) = types
        is_sum_of_16_bits = t.kind == "f" and bits(t.dtype) == 16 and result.shape != t.shape
        if is_sum_of_16_bits and not allow_f16_reductions.value and any([t.shape[i] != 1 for i in self.axes]):
            raise OptionError(
                f"reduce_sum: a sum of {t!r} is not allowed, with allow_f16_reductions=False; convert to float32 first"
            )
        return result


@final
class ReduceProd(Reduction):
    """The product; 1 for no elements."""

    __slots__ = ()
    kinds: ClassVar[str] = "iufc"
    domain: ClassVar[tuple[float, float]] = (0.5, 1.5)


@final
@attrs.frozen
class ReduceMax(Reduction):
    """The largest element, NaN if there is one; the smallest value of the dtype for no elements.

    Attributes:
        may_lose_nan: whether NaN may be passed over, since it comes through elsewhere: the largest exponent of a sum.
    """

    kinds: ClassVar[str] = "biuf"
    may_lose_nan: bool = False


@final
class ReduceMin(Reduction):
    """The smallest element, NaN if there is one; the largest value of the dtype for no elements."""

    __slots__ = ()
    kinds: ClassVar[str] = "biuf"


@final
class ReduceAnd(Reduction):
    """Logical or bitwise and of all."""

    __slots__ = ()
    kinds: ClassVar[str] = "biu"


@final
class ReduceOr(Reduction):
    """Logical or bitwise or of all."""

    __slots__ = ()
    kinds: ClassVar[str] = "biu"


@final
class ReduceXor(Reduction):
    """Logical or bitwise exclusive or of all."""

    __slots__ = ()
    kinds: ClassVar[str] = "biu"


@attrs.frozen
class ArgReduction(ArrayOperation):
    """Trait: the index along one axis of the extreme element, the first of equal ones; NaN is the most extreme.

    StableHLO: reduce over (value, index) pairs.

    Attributes:
        axis: the reduced axis, of size at least 1.
        index_dtype: the result's integer dtype.
    """

    axis: int = attrs.field(validator=check_int)
    index_dtype: DType
    kinds: ClassVar[str] = "biuf"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The shape of x without the axis, with the index dtype."""
        check_arity(self, types, 1)
        t = types[0]
        check_kind(self, t, self.kinds)
        check_axis(self, self.axis, t)
        if t.shape[self.axis] == 0:
            raise ShapeError(f"{self.name}: axis {self.axis} of {t!r} has no elements")
        if not dtypes.is_integer(self.index_dtype):
            raise DTypeError(f"{self.name}: index_dtype must be an integer dtype, got {self.index_dtype}")
        return array_type(self.index_dtype, t.shape[: self.axis] + t.shape[self.axis + 1 :])


@final
class ArgMax(ArgReduction):
    """The index of the largest element."""

    __slots__ = ()
    name = "argmax"


@final
class ArgMin(ArgReduction):
    """The index of the smallest element."""

    __slots__ = ()
    name = "argmin"


@attrs.frozen
class Cumulative(ArrayOperation):
    """Trait: element i combines all elements up to and including i along an axis.

    StableHLO: reduce_window, or a tree of slices and pads, whichever runs faster on the platform.

    Attributes:
        axis: the axis to combine along. reverse: True to start at the end.
    """

    axis: int = attrs.field(validator=check_int)
    reverse: bool = False
    kinds: ClassVar[str] = "iufc"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The type of x."""
        check_arity(self, types, 1)
        check_kind(self, types[0], self.kinds)
        check_axis(self, self.axis, types[0])
        return types[0]


@final
class CumSum(Cumulative, Linear):
    """Cumulative sums."""

    __slots__ = ()
    name = "cumsum"


@final
class CumProd(Cumulative):
    """Cumulative products."""

    __slots__ = ()
    name = "cumprod"
    domain: ClassVar[tuple[float, float]] = (0.5, 1.5)


@final
class CumMax(Cumulative):
    """Cumulative maxima; NaN from the first NaN on."""

    __slots__ = ()
    name = "cummax"
    kinds: ClassVar[str] = "biuf"


@final
class CumMin(Cumulative):
    """Cumulative minima; NaN from the first NaN on."""

    __slots__ = ()
    name = "cummin"
    kinds: ClassVar[str] = "biuf"
