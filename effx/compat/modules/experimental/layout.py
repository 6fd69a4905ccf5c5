"""`jax.experimental.layout`: the layout of arrays in memory, which in effx is row-major."""

from typing import TypeVar, final

import attrs

from effx.errors import BackendError
from effx.sharding import Sharding

__all__ = ["Format", "Layout", "with_layout_constraint"]

A = TypeVar("A")


@final
@attrs.frozen
class Layout:
    """An order of axes in memory; there is row by row, the last axis running fastest.

    Attributes:
        major_to_minor: the axes, the one that runs slowest first.
        tiling: none, for there are no tiles.
        sub_byte_element_size_in_bits: 0, for elements are not packed.

    Raises:
        BackendError: another order, tiles, or packed elements.

    >>> Layout((0, 1)).major_to_minor
    (0, 1)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    def __attrs_post_init__(self) -> None:
        rows = tuple(self.major_to_minor) == tuple(range(len(self.major_to_minor)))
        if not rows or self.tiling or self.sub_byte_element_size_in_bits:
            raise BackendError(f"{self!r}: effx lays arrays out row by row; transpose the array instead")


@final
@attrs.frozen
class Format:
    """A layout and a sharding.

    Attributes:
        layout: None to leave it open.
        sharding: where the parts are; None to leave it open.
    """

    layout: Layout | None = None
    sharding: Sharding | None = None


def with_layout_constraint(x: A, layout: Layout) -> A:
    """Returns the arrays of a tree as they are: they have the one layout that there is."""
    return x
