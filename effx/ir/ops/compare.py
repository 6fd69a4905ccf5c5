"""Comparisons: two operands of one dtype, a boolean result."""

from typing import ClassVar, final

import numpy as np

from effx import dtypes
from effx.errors import DTypeError
from effx.ir.ops.base import Elementwise, PiecewiseConstant, Singleton, elementwise_type
from effx.ir.types import ArrayType, array_type


class Comparison(Singleton, Elementwise, PiecewiseConstant):
    """Trait: compares element by element. StableHLO: compare.

    Attributes:
        direction: StableHLO's comparison_direction.
    """

    __slots__ = ()
    arity = 2
    kinds = "biuf"
    direction: ClassVar[str]

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operands' common shape with dtype bool."""
        return array_type(dtypes.bool_, elementwise_type(self, types).shape)


class Equality(Comparison):
    """Trait: compares values without an order too: complex numbers, random keys of one generator, and float0."""

    __slots__ = ()
    kinds = "biufc"

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operands' common shape with dtype bool."""
        if not all([dtypes.is_stored_as_other(t.dtype) for t in types]):
            return super().infer(*types)
        if len({t.dtype for t in types}) > 1:
            raise DTypeError(f"{self.name}: keys of different generators: {', '.join(map(repr, types))}")
        return super().infer(*[array_type(dtypes.uint32, t.shape) for t in types])


@final
class Eq(Equality):
    """Whether x == y; NaN compares false."""

    __slots__ = ()
    direction = "EQ"


@final
class Ne(Equality):
    """Whether x != y; NaN compares true."""

    __slots__ = ()
    direction = "NE"


@final
class Lt(Comparison):
    """Whether x < y; NaN compares false."""

    __slots__ = ()
    direction = "LT"
    reference = np.less


@final
class Le(Comparison):
    """Whether x <= y; NaN compares false."""

    __slots__ = ()
    direction = "LE"
    reference = np.less_equal


@final
class Gt(Comparison):
    """Whether x > y; NaN compares false."""

    __slots__ = ()
    direction = "GT"
    reference = np.greater


@final
class Ge(Comparison):
    """Whether x >= y; NaN compares false."""

    __slots__ = ()
    direction = "GE"
    reference = np.greater_equal
