"""How an array lies in memory: `Layout`, and `Format`, a layout and a sharding."""

from collections.abc import Sequence
from typing import final

import attrs

from effx.errors import BackendError
from effx.ir.types import ArrayType
from effx.lower.placement.shardings import Sharding
from effx.tree.registry import register_leaf

__all__ = ["Format", "Layout", "row_major_format"]


def _to_tuple(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axes)


@final
@register_leaf
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

    major_to_minor: tuple[int, ...] = attrs.field(converter=_to_tuple)
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    def __attrs_post_init__(self) -> None:
        rows = self.major_to_minor == tuple(range(len(self.major_to_minor)))
        if not rows or self.tiling or self.sub_byte_element_size_in_bits:
            raise BackendError(f"{self!r}: effx lays arrays out row by row; transpose the array instead")


@final
@register_leaf
@attrs.frozen
class Format:
    """A layout and a sharding.

    Attributes:
        layout: None to leave it open.
        sharding: where the parts are; None to leave it open.

    >>> Format(Layout((0,)))
    Format(layout=Layout(major_to_minor=(0,), tiling=None, sub_byte_element_size_in_bits=0), sharding=None)
    """

    layout: Layout | None = None
    sharding: Sharding | None = None


def row_major_format(t: ArrayType, sharding: Sharding | None) -> Format:
    """Returns the format of an array of a type and a sharding."""
    return Format(Layout(range(t.ndim)), sharding)
