"""Comparisons: two operands of one dtype, a boolean result.

Never: define an order of its own; NaN compares false, and unequal, as IEEE 754 says.
"""

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
    """X == y."""

    __slots__ = ()
    kinds = "biufc"
    direction = "EQ"


@final
class Ne(Comparison):
    """X != y."""

    __slots__ = ()
    kinds = "biufc"
    direction = "NE"


@final
class Lt(Comparison):
    """X < y."""

    __slots__ = ()
    direction = "LT"


@final
class Le(Comparison):
    """X <= y."""

    __slots__ = ()
    direction = "LE"


@final
class Gt(Comparison):
    """X > y."""

    __slots__ = ()
    direction = "GT"


@final
class Ge(Comparison):
    """X >= y."""

    __slots__ = ()
    direction = "GE"
