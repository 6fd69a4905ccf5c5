"""How an array lies in memory: `Layout`, and the layouts of a program's inputs and outputs.

Layouts are no part of types, as memories are not: a buffer's layout is in the one object that it carries for its
sharding and rank, so C++ distinguishes layouts as it does devices. A program takes an argument in the layout that it
has, which XLA reads off an attribute of `main`. What is not a program (copies to the host, to other devices, to other
shardings) takes the buffer row by row: `restore_default_layout` in `resharding.py` converts it.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, TypeAlias, final

import attrs
from jaxlib import _jax
from jaxlib._jax import Device

from effx.errors import ShapeError
from effx.ir.types import ArrayType
from effx.tree.registry import register_leaf

__all__ = ["AUTO", "NO_LAYOUTS", "AutoLayout", "Layout", "Layouts", "RequestedLayout"]


def _to_tuple(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(axes)


def _to_tiles(tiling: Sequence[Sequence[int]] | None) -> tuple[tuple[int, ...], ...] | None:
    return None if tiling is None else tuple(map(tuple, tiling))


@final
class AutoLayout:
    """The type of `Layout.AUTO`, by which XLA chooses the layout."""

    def __repr__(self) -> str:
        return "AUTO"


AUTO = AutoLayout()


@final
@register_leaf
@attrs.frozen
class Layout:
    """An order of axes in memory.

    `Layout.AUTO` in a `Format` leaves the choice to XLA.

    Attributes:
        major_to_minor: the axes, the one that runs slowest first; `(0, 1)` is row by row.
        tiling: the sizes of tiles, of tiles in them and so on; None for those that the device gives such arrays, which are
            none but on TPUs.
        sub_byte_element_size_in_bits: of elements that are packed; 0 for as the device has them.

    Raises:
        ShapeError: `major_to_minor` is no permutation of axes.

    >>> Layout((1, 0)).major_to_minor
    (1, 0)
    """

    AUTO: ClassVar[AutoLayout] = AUTO
    major_to_minor: tuple[int, ...] = attrs.field(converter=_to_tuple)
    tiling: tuple[tuple[int, ...], ...] | None = attrs.field(default=None, converter=_to_tiles)
    sub_byte_element_size_in_bits: int = 0

    def __attrs_post_init__(self) -> None:
        if sorted(self.major_to_minor) != list(range(len(self.major_to_minor))):
            raise ShapeError(
                f"Layout: major_to_minor must be a permutation of the axes 0 to n - 1, got {self.major_to_minor}"
            )

    def check_rank(self, function_name: str, t: ArrayType) -> None:
        """Checks that arrays of a type have as many axes as the layout.

        Raises:
            ShapeError: they have not.
        """
        if len(self.major_to_minor) != t.ndim:
            raise ShapeError(
                f"{function_name}: {self!r} is for arrays of {len(self.major_to_minor)} axes, got {t!r}"
            )

    def agrees_with(self, other: "Layout") -> bool:
        """Says whether arrays of a type lie alike by both; what one leaves to the device agrees with all."""
        return (
            self.major_to_minor == other.major_to_minor
            and (None in (self.tiling, other.tiling) or self.tiling == other.tiling)
            and (
                0 in (self.sub_byte_element_size_in_bits, other.sub_byte_element_size_in_bits)
                or self.sub_byte_element_size_in_bits == other.sub_byte_element_size_in_bits
            )
        )

    @property
    def xla_text(self) -> str:
        """The layout in XLA's notation, `{0,1:T(8,128)}`: the axis that runs fastest first."""
        tiles = "".join([f"({','.join(map(str, tile))})" for tile in self.tiling or ()])
        size = self.sub_byte_element_size_in_bits
        rest = (f"T{tiles}" if tiles else "") + (f"E({size})" if size else "")
        return f"{{{','.join(map(str, reversed(self.major_to_minor)))}{':' if rest else ''}{rest}}}"


RequestedLayout: TypeAlias = Layout | AutoLayout | None
"""What is asked of an array's layout; None for nothing."""


_XLA_LAYOUT = re.compile(r"\{([\d,]*)(?::(.*))?\}")


def read_layout(layout: _jax.PjRtLayout) -> Layout:
    """Returns XLA's layout of an array."""
    match = _XLA_LAYOUT.fullmatch(str(layout))
    assert match is not None, str(layout)
    axes, rest = match[1], match[2] or ""
    tiles = re.search(r"T((?:\([\d,*]+\))+)", rest)
    size = re.search(r"E\((\d+)\)", rest)
    tiling = None
    if tiles is not None:
        tiling = [tuple(map(int, tile.split(","))) for tile in re.findall(r"\(([\d,]+)\)", tiles[1])]
    minor_to_major = [int(axis) for axis in axes.split(",") if axis]
    return Layout(minor_to_major[::-1], tiling, int(size[1]) if size is not None else 0)


def default_layout(t: ArrayType, device: Device) -> Layout:
    """Returns the layout that a device gives arrays of a type unless they ask for another one.

    A TPU gives some matrices columns, by which tiles waste less: f32[500,300], say.
    """
    rows = Layout(range(t.ndim))
    if device.platform == "cpu":
        return rows
    try:
        return read_layout(device.client.get_default_layout(t.dtype, t.shape, device))
    except (_jax.JaxRuntimeError, AttributeError, TypeError):  # devices of a topology may not say
        return rows


def is_default_layout(layout: Layout, t: ArrayType, device: Device) -> bool:
    """Says whether a device gives arrays of a type this layout unless they ask for another one."""
    return layout.agrees_with(default_layout(t, device))


@final
@attrs.frozen
class Layouts:
    """The layouts that are asked of a program's inputs and outputs.

    Attributes:
        inputs, outputs: for each the layout; () for None everywhere.
    """

    inputs: tuple[RequestedLayout, ...] = ()
    outputs: tuple[RequestedLayout, ...] = ()

    def __bool__(self) -> bool:
        return any([x is not None for x in (*self.inputs, *self.outputs)])


NO_LAYOUTS = Layouts()
