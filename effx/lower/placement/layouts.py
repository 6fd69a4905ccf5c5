"""How an array lies in memory: `Layout`, and the layouts of a program's inputs and outputs.

Types do not contain layouts, as they do not contain memories: a buffer's layout is in the one object that it carries for its
sharding and rank, so C++ distinguishes layouts as it does devices. A program takes an argument in the layout that it
has, which XLA reads off an attribute of `main`. What is not a program (copies to the host, to other devices, to other
shardings) takes the buffer in the default layout, nearly always row by row: `restore_default_layout` converts it.
"""

import re
from collections.abc import Sequence
from operator import index
from typing import ClassVar, TypeAlias, final

import attrs
from jaxlib import _jax
from jaxlib._jax import Device

from effx.errors import ShapeError
from effx.ir.types import ArrayType, Shape
from effx.tree.registry import register_leaf

__all__ = ["AUTO", "NO_LAYOUTS", "AutoLayout", "Layout", "Layouts", "RequestedLayout"]


def _to_integers(values: Sequence[int]) -> tuple[int, ...]:
    return tuple([index(n) for n in values])


def _to_tiles(tiling: Sequence[Sequence[int]] | None) -> tuple[tuple[int, ...], ...] | None:
    return None if tiling is None else tuple([_to_integers(tile) for tile in tiling])


@final
@attrs.frozen(repr=False)
class AutoLayout:
    """A layout that XLA chooses: `Layout.AUTO`.

    >>> from effx.experimental.layout import AutoLayout, Layout
    >>> Layout.AUTO, isinstance(Layout.AUTO, AutoLayout)
    (AUTO, True)
    """

    def __repr__(self) -> str:
        return "AUTO"


AUTO = AutoLayout()


@final
@register_leaf
@attrs.frozen
class Layout:
    """An order of axes in memory, with tiles and the size of packed elements.

    `Layout.AUTO` in a `Format` leaves the choice to XLA.

    Attributes:
        major_to_minor: the axes, the one that runs slowest first; `(0, 1)` is row by row.
        tiling: the sizes of tiles, of tiles inside of them and so on; None lets the device choose: TPUs use tiles, CPUs and
            GPUs do not.
        sub_byte_element_size_in_bits: the size of packed elements; 0 lets the device choose.

    Raises:
        ShapeError: `major_to_minor` is no permutation of axes, or a size is negative or no integer.

    >>> Layout((1, 0)).major_to_minor
    (1, 0)
    """

    AUTO: ClassVar[AutoLayout] = AUTO
    major_to_minor: tuple[int, ...] = attrs.field(converter=_to_integers)
    tiling: tuple[tuple[int, ...], ...] | None = attrs.field(default=None, converter=_to_tiles)
    sub_byte_element_size_in_bits: int = attrs.field(default=0, converter=index)

    def __attrs_post_init__(self) -> None:
        sizes = [*[n for tile in self.tiling or () for n in tile], self.sub_byte_element_size_in_bits or 1]
        if min(sizes) <= 0:
            raise ShapeError(f"Layout: sizes of tiles and of elements must be positive, got {self!r}")
        if sorted(self.major_to_minor) != list(range(len(self.major_to_minor))):
            raise ShapeError(
                f"Layout: major_to_minor must be a permutation of the axes 0 to n - 1, got {self.major_to_minor}"
            )

    def check_rank(self, function_name: str, t: ArrayType | Shape) -> None:
        """Checks that arrays of a type or shape have as many axes as the layout.

        Raises:
            ShapeError: they have not.
        """
        ndim = len(self.major_to_minor)
        if ndim != (t.ndim if isinstance(t, ArrayType) else len(t)):
            axes = "1 axis" if ndim == 1 else f"{ndim} axes"
            raise ShapeError(f"{function_name}: {self!r} is for arrays of {axes}, got {t!r}")

    def agrees_with(self, other: "Layout") -> bool:
        """Says whether arrays may lie by both: what one lets the device choose agrees with all choices."""
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


def layout_attribute(layout: Layout | AutoLayout) -> str:
    """Returns the attribute of an argument or a result of `main` that lies so."""
    return f'mhlo.layout_mode = "{layout.xla_text if isinstance(layout, Layout) else "auto"}"'


_XLA_LAYOUT = re.compile(r"\{([\d,]*)(?::(.*))?\}")


def read_layout(layout: _jax.PjRtLayout) -> Layout:
    """Returns the `Layout` of XLA's; of what it has not, such as tiles of combined axes, nothing."""
    match = _XLA_LAYOUT.fullmatch(str(layout))
    assert match is not None, str(layout)
    axes, rest = match[1], match[2] or ""
    tiles = re.search(r"T((?:\([\d,*]+\))+)", rest)
    size = re.search(r"E\((\d+)\)", rest)
    tiling = None
    if tiles is not None and "*" not in tiles[1]:
        tiling = [tuple(map(int, tile.split(","))) for tile in re.findall(r"\(([\d,]+)\)", tiles[1])]
    minor_to_major = [int(axis) for axis in axes.split(",") if axis]
    return Layout(minor_to_major[::-1], tiling, int(size[1]) if size is not None else 0)


def default_layout(t: ArrayType, device: Device) -> Layout:
    """Returns the layout that a device gives arrays of a type unless they ask for another one.

    A TPU lays some matrices out column by column, where tiles then waste less memory: f32[500,300], say.
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
    usual = default_layout(t, device)
    return (
        layout.major_to_minor == usual.major_to_minor
        and layout.tiling in (None, usual.tiling or ())
        and layout.sub_byte_element_size_in_bits in (0, usual.sub_byte_element_size_in_bits)
    )


@final
@attrs.frozen
class Layouts:
    """The layouts that are asked of a program's inputs and outputs.

    Attributes:
        inputs, outputs: for each the layout; () for None everywhere.

    It is true where any is not None, be it AUTO.
    """

    inputs: tuple[RequestedLayout, ...] = ()
    outputs: tuple[RequestedLayout, ...] = ()

    def __bool__(self) -> bool:
        return any([x is not None for x in (*self.inputs, *self.outputs)])


NO_LAYOUTS = Layouts()
