"""The tables of rules that libraries write: by primitive, and for effx's own operations into the handlers' tables."""

from collections.abc import Callable, Iterator, MutableMapping
from typing import Generic, TypeVar, final

from effx.errors import TransformError

__all__ = ["Table"]

K = TypeVar("K")
R = TypeVar("R")


@final
class Table(MutableMapping[K, R], Generic[K, R]):
    """The rules of one kind.

    Args:
        install: called for each rule that is set; registers it with handlers that have tables of their own.
        derived: gives the rule that effx has for a primitive of its own; None for no such.
    """

    __slots__ = ("_derived", "_given", "_install")

    def __init__(self, install: Callable[[K, R], None], derived: Callable[[K], R | None]) -> None:
        self._given: dict[K, R] = {}
        self._install, self._derived = install, derived

    def __getitem__(self, primitive: K) -> R:
        entry = self._given.get(primitive)
        if entry is None:
            entry = self._derived(primitive)
        if entry is None:
            raise KeyError(primitive)
        return entry

    def given(self, primitive: K) -> R | None:
        """Returns the rule that was written; None if there is none."""
        return self._given.get(primitive)

    def __setitem__(self, primitive: K, rule: R) -> None:
        self._given[primitive] = rule
        self._install(primitive, rule)

    def __delitem__(self, primitive: K) -> None:
        if getattr(primitive, "operation", None) is not None:
            raise TransformError(
                f"{primitive}: is an operation of effx, whose rule can be replaced, but not taken away"
            )
        del self._given[primitive]

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._given))

    def __len__(self) -> int:
        return len(self._given)
