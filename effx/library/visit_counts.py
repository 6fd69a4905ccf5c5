"""Values for sites that are visited many times: each visit takes the next row."""

from collections.abc import Mapping
from typing import Any, Self, final

import attrs

import effx.numpy as enp
from effx import Array
from effx.errors import DTypeError, ShapeError, TransformError
from effx.handling import ArrayType, ops
from effx.ir.values.array import Operand
from effx.lazy import list_names
from effx.library.checks import check

__all__ = ["VisitCounts", "is_name"]
__dir__ = list_names(__all__)

LOSSLESS = {"b": "biufc", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}  # the kinds to which a kind converts


def is_name(operation: object, attribute: ops.NamedAttribute, value: str) -> None:
    """An attrs validator for names, which are strings.

    Raises:
        TransformError: it is no string.
    """
    if type(value) is not str:
        raise TransformError(
            f"{type(operation).__name__.lower()}: {attribute.name} must be a string, got {value!r}"
        )


@final
@attrs.frozen
class VisitCounts:
    """The number of visits of each name: a handler's state.

    Attributes:
        counts: i32 scalars by name.

    >>> visits, t, rows = VisitCounts.of({"x": 0}), enp.zeros(()).type, enp.array([5.0, 6.0])
    >>> print(visits.row("f", "x", rows, t), visits.after("x").row("f", "x", rows, t))
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

    def join(self, other: Self) -> Self:
        """Returns the state after visits by the replicas of a pmap, which all took the same rows."""
        return type(self)({k: enp.maximum(n, other.counts[k]) for k, n in self.counts.items()})

    def row(self, what: str, name: str, value: Operand, t: ArrayType) -> Array:
        """Returns the value for this visit, of the requested type.

        A visit beyond the last row gets the last row; `effx.library.checkify` reports it.

        Args:
            what: the transformation, for errors.
            name: the name visited.
            value: for all visits; with one more axis it has a row for each.
            t: the requested type.

        Raises:
            ShapeError: the value does not fit the type's shape.
            DTypeError: the value would lose its fraction or imaginary part.
        """
        x = enp.asarray(value)
        extra = x.ndim - len(t.shape)
        if extra < 0 or x.shape[extra:] != t.shape:
            raise ShapeError(f"{what}: the value for {name!r} is {x.type!r}, but {t!r} is wanted")
        if t.kind not in LOSSLESS[x.type.kind]:
            raise DTypeError(f"{what}: the value for {name!r} is {x.type!r}, which does not convert to {t!r}")
        x = x.astype(t.dtype)
        if not extra:
            return x
        rows = enp.reshape(x, (-1, *t.shape))
        n = self.counts[name]
        check(n < rows.shape[0], f"{what}: visit {{}} of {name!r}, which has {{}} rows", n + 1, rows.shape[0])
        return rows[n]
