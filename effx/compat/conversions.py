"""The tables in which libraries say how values of their own classes become arrays, and of which type they are."""

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, TypeVar, final

import numpy as np

from effx.array.promotion import as_operand, converters
from effx.tracing.arguments import leaf_type, leaf_type_rules

__all__ = ["canonicalize_dtype_handlers", "pytype_aval_mappings"]

R = TypeVar("R")


@final
class Conversions(MutableMapping[type, Callable[[Any], R]]):
    """Rules by class. Rules that are added here are used for values that effx has no rule for.

    Args:
        rules: effx's own table. own: the rule of effx's own types: NumPy's arrays and scalars, and numbers.
    """

    def __init__(self, rules: dict[type, Callable[[Any], R]], own: Callable[[Any], R]) -> None:
        self._rules, self._own = rules, own

    def __getitem__(self, kind: type) -> Callable[[Any], R]:
        if kind in self._rules:
            return self._rules[kind]
        if issubclass(kind, np.ndarray | np.generic | bool | int | float | complex):
            return self._own
        raise KeyError(kind)

    def __setitem__(self, kind: type, rule: Callable[[Any], R]) -> None:
        self._rules[kind] = rule

    def __delitem__(self, kind: type) -> None:
        del self._rules[kind]

    def __iter__(self) -> Iterator[type]:
        return iter(list(self._rules))

    def __len__(self) -> int:
        return len(self._rules)


canonicalize_dtype_handlers: Conversions[Any] = Conversions(converters, as_operand)
pytype_aval_mappings = Conversions(leaf_type_rules, lambda x: leaf_type("typeof", x))
