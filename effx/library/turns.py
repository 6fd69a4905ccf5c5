"""Values for sites that are visited many times: each visit takes the next row.

Never: know what the values are for.
"""

from collections.abc import Mapping
from typing import Any, Self, final

import attrs

import effx.numpy as enp
from effx import Array
from effx.array.values import Operand
from effx.errors import ShapeError
from effx.handling import ArrayType

__all__ = ["Turns"]


@final
@attrs.frozen
class Turns:
    """How often each name was visited: a handler's state.

    Attributes:
        counts: i32 scalars by name.

    >>> turns, t, rows = Turns.of({"x": 0}), enp.zeros(()).type, enp.array([5.0, 6.0])
    >>> print(turns.row("f", "x", rows, t), turns.after("x").row("f", "x", rows, t))
    5.0 6.0
    """

    counts: dict[str, Array]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Returns the state before all visits."""
        return cls(dict.fromkeys(values, enp.int32(0)))

    def after(self, name: str) -> Self:
        """Returns the state after a visit."""
        return type(self)({**self.counts, name: self.counts[name] + 1})

    def row(self, what: str, name: str, value: Operand, t: ArrayType) -> Array:
        """Returns what this visit gets, of the type that is wanted.

        Args:
            what: the transformation, for errors.
            name: what is visited.
            value: for all visits; with more axes than wanted it has a row for each.
            t: the type that is wanted.

        Raises:
            ShapeError: the value does not fit the type.
        """
        x = enp.asarray(value)
        extra = x.ndim - len(t.shape)
        if extra < 0 or x.shape[extra:] != t.shape:
            raise ShapeError(f"{what}: the value for {name!r} is {x.type!r}, but {t!r} is wanted")
        x = x.astype(t.dtype)
        return x if not extra else enp.reshape(x, (-1, *t.shape))[self.counts[name]]
