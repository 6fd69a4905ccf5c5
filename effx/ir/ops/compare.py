"""Comparisons: two operands of one dtype, a boolean result."""

from typing import ClassVar, final

from effx import dtypes
from effx.ir.ops.base import Elementwise, Singleton, elementwise_type
from effx.ir.types import ArrayType, array_type


class Comparison(Singleton, Elementwise):
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


@final
class Eq(Comparison):
    """Whether x == y; NaN compares false."""

    __slots__ = ()
    kinds = "biufc"
    direction = "EQ"


@final
class Ne(Comparison):
    """Whether x != y; NaN compares true."""

    __slots__ = ()
    kinds = "biufc"
    direction = "NE"


@final
class Lt(Comparison):
    """Whether x < y; NaN compares false."""

    __slots__ = ()
    direction = "LT"


@final
class Le(Comparison):
    """Whether x <= y; NaN compares false."""

    __slots__ = ()
    direction = "LE"


@final
class Gt(Comparison):
    """Whether x > y; NaN compares false."""

    __slots__ = ()
    direction = "GT"


@final
class Ge(Comparison):
    """Whether x >= y; NaN compares false."""

    __slots__ = ()
    direction = "GE"
