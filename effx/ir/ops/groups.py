"""The operands and results of operations that hold programs, in groups by what they are."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Generic, TypeVar, final

import attrs

T = TypeVar("T")
U = TypeVar("U")


def split_into(values: Sequence[T], *sizes: int) -> list[Sequence[T]]:
    """Returns parts of these sizes, one after another, and what is left as the last part.

    >>> split_into("abcdef", 1, 2)
    ['a', 'bc', 'def']
    """
    parts: list[Sequence[T]] = []
    start = 0
    for size in sizes:
        parts.append(values[start : start + size])
        start += size
    parts.append(values[start:])
    return parts


def place_at(indices: Iterable[int], values: Iterable[T], count: int) -> list[T | None]:
    """Returns `count` entries: values at their indices, and None elsewhere.

    >>> place_at((2, 0), "ab", 4)
    ['b', None, 'a', None]
    """
    placed: list[T | None] = [None] * count
    for i, value in zip(indices, values, strict=True):
        placed[i] = value
    return placed


@final
@attrs.frozen
class LoopOperands(Generic[T]):
    """What a loop takes, in the order of its operands, or data of each.

    Attributes:
        constants: what is the same in each iteration.
        carry: what an iteration hands to the next one, before the first.
        xs: the rest; a scan gives each iteration one slice of it.
    """

    constants: tuple[T, ...] = ()
    carry: tuple[T, ...] = ()
    xs: tuple[T, ...] = ()

    def join(self) -> tuple[T, ...]:
        """Returns all, in the order of the operands."""
        return (*self.constants, *self.carry, *self.xs)

    @staticmethod
    def split(values: Sequence[U], constant_count: int, carry_count: int) -> "LoopOperands[U]":
        """Returns values, in the order of the operands, in groups; what is left is the last one."""
        constants, carry, xs = split_into(values, constant_count, carry_count)
        return LoopOperands(tuple(constants), tuple(carry), tuple(xs))

    def group_like(self, values: Sequence[U]) -> "LoopOperands[U]":
        """Returns other values in groups of the same sizes."""
        grouped = LoopOperands.split(values, len(self.constants), len(self.carry))
        assert len(grouped.xs) == len(self.xs)
        return grouped

    def map(self, function: Callable[[T], U]) -> "LoopOperands[U]":
        """Returns what a function gives for each."""
        return self.group_like([function(x) for x in self.join()])

    def select(self, mask: "LoopOperands[bool]") -> "LoopOperands[T]":
        """Returns the entries where the mask is true."""
        return LoopOperands(
            tuple(compress(self.constants, mask.constants)),
            tuple(compress(self.carry, mask.carry)),
            tuple(compress(self.xs, mask.xs)),
        )

    def select_listed(self, values: Iterable[T]) -> "LoopOperands[T]":
        """Returns the entries that are listed, group by group, in the order of the list."""
        listed = list(values)
        return LoopOperands(*[tuple([x for x in listed if x in group]) for group in self.groups])

    @property
    def groups(self) -> tuple[tuple[T, ...], tuple[T, ...], tuple[T, ...]]:
        """The groups in order."""
        return self.constants, self.carry, self.xs


@final
@attrs.frozen
class LoopResults(Generic[T]):
    """What a loop or its body gives, in the order of the results, or data of each.

    Attributes:
        carry: what an iteration hands to the next one; of the loop, after the last one.
        ys: the rest; a scan stacks it.
    """

    carry: tuple[T, ...]
    ys: tuple[T, ...] = ()

    @staticmethod
    def split(values: Sequence[U], carry_count: int) -> "LoopResults[U]":
        """Returns values, in the order of the results, in groups; what is left is the last one."""
        carry, ys = split_into(values, carry_count)
        return LoopResults(tuple(carry), tuple(ys))

    def join(self) -> tuple[T, ...]:
        """Returns all, in the order of the results."""
        return (*self.carry, *self.ys)
