"""Draw the shardings of arrays as boxes."""

import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.errors import ShapeError, TransformError
from effx.families.inspection import InspectSharding
from effx.lower.placement.backends import default_device
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.placement.shardings import Device, SingleDeviceSharding
from effx.tree import PyTree, leaves

__all__ = ["inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"]

Color = Sequence[float] | str
ColorMap = Callable[[float], Color]


class HasDevicesIndicesMap(Protocol):
    """A sharding, which has the shard of each device."""

    def devices_indices_map(self, shape: tuple[int, ...], /) -> Mapping[Device, tuple[slice, ...]]: ...


def rainbow_color(x: float) -> Color:
    """Returns one of the colours of a pale rainbow, for a number from 0 to 1."""
    return tuple([0.55 + 0.35 * math.cos(2 * math.pi * (0.8 * x + k / 3)) for k in range(3)])


def _devices_by_part(
    shape: tuple[int, ...], sharding: HasDevicesIndicesMap
) -> dict[tuple[tuple[int, int], ...], list[Device]]:
    """Returns the devices that hold each part, which is given by its start and end along each axis."""
    entries: dict[tuple[tuple[int, int], ...], list[Device]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        part = tuple([s.indices(n)[:2] for s, n in zip(index, shape, strict=True)])
        entries.setdefault(part, []).append(device)
    return entries


def _device_names(devices: list[Device]) -> str:
    platforms: dict[str, list[str]] = {}
    for d in devices:
        platforms.setdefault(d.platform.upper(), []).append(str(d.id))
    return " ".join([f"{name} {','.join(ids)}" for name, ids in platforms.items()])


def _breakable_text(text: str) -> str:
    """Returns a text that may be broken behind commas."""
    return text.replace(",", ", ")


def _cell_lines(text: str, width: int, height: int) -> list[str]:
    """Returns lines of a box, with a text in the middle."""
    lines = [text] if len(text) <= width else textwrap.wrap(_breakable_text(text), width)
    above = max(height - len(lines), 0) // 2
    filled = [""] * above + lines
    return [line.center(width) for line in filled + [""] * (height - len(filled))]


def _paint_lines(lines: list[str], color: Color | None) -> list[str]:
    if color is None:
        return lines
    if isinstance(color, str):
        red, green, blue = [int(color.removeprefix("#")[i : i + 2], 16) for i in (0, 2, 4)]
    else:
        red, green, blue = [round(255 * min(max(c, 0.0), 1.0)) for c in color[:3]]
    return [f"\x1b[30;48;2;{red};{green};{blue}m{line}\x1b[0m" for line in lines]


def _spread_numbers(n: int) -> Iterator[float]:
    """Yields n numbers from 0 to 1, each far from the one before."""
    stride = next(k for k in range(n // 2 + 1, n + 2) if math.gcd(k, n) == 1)
    for i in range(n):
        yield i * stride % n / max(n - 1, 1)


def draw_sharding(
    shape: Sequence[int],
    sharding: HasDevicesIndicesMap,
    *,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> str:
    """Returns the drawing that `visualize_sharding` prints."""
    sizes = tuple(shape)
    parts = _devices_by_part(sizes, sharding)
    cut = [a for a in range(len(sizes)) if len({p[a] for p in parts}) > 1]
    if len(cut) > 2:
        raise ShapeError(
            f"visualize_sharding: shape {sizes} is sharded along the axes {tuple(cut)}; only two can be drawn"
        )
    # Arrays of rank 1 are drawn as a row; where fewer than two axes are cut, the last ones are drawn along.
    rest = [a for a in reversed(range(len(sizes))) if a not in cut]
    axes = sorted((cut + rest)[:2])
    full_extent = (0, 1)
    rows = sorted({p[axes[0]] for p in parts}) if len(axes) == 2 else [full_extent]
    columns = sorted({p[axes[-1]] for p in parts}) if axes else [full_extent]
    aspect = sizes[axes[1]] / max(sizes[axes[0]], 1) if len(axes) == 2 else 4.0
    height = max(round(10 * scale / len(rows)) if len(axes) == 2 else 1, 1)
    total = min(max(round(25 * scale * aspect), min_width), max_width)
    longest = max([len(word) for d in parts.values() for word in _breakable_text(_device_names(d)).split()])
    width = max((total - len(columns) - 1) // len(columns), min_width - 2, longest)
    values = list(_spread_numbers(len(rows) * len(columns)))
    lines = ["┌" + "┬".join(["─" * width] * len(columns)) + "┐"]
    for i, row in enumerate(rows):
        if i:
            lines.append("├" + "┼".join(["─" * width] * len(columns)) + "┤")
        cells = []
        for j, column in enumerate(columns):
            at = {axes[0]: row, axes[-1]: column} if len(axes) == 2 else dict.fromkeys(axes, column)
            devices = next(d for p, d in parts.items() if all([p[a] == where for a, where in at.items()]))
            color = None if color_map is None else color_map(values[i * len(columns) + j])
            cells.append((_device_names(devices), color))
        tall = max([height, *[len(_cell_lines(text, width, 0)) for text, _ in cells]])
        painted = [_paint_lines(_cell_lines(text, width, tall), color) for text, color in cells]
        lines += ["│" + "│".join(line) + "│" for line in zip(*painted, strict=True)]
    return "\n".join([*lines, "└" + "┴".join(["─" * width] * len(columns)) + "┘"])


def visualize_sharding(
    shape: Sequence[int],
    sharding: HasDevicesIndicesMap,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Prints which part of an array each device holds, as boxes: rows are the first sharded axis, columns the second.

    Args:
        shape: of the array, of any rank.
        sharding: the sharding, such as `x.sharding`.
        use_color: True to fill the boxes with colours, where a terminal shows the drawing.
        scale: of the drawing.
        min_width: of a box, in characters.
        max_width: of the drawing, unless boxes would be narrower than `min_width`.
        color_map: a function from numbers between 0 and 1 to colours: red, green and blue from 0 to 1, or "#rrggbb".

    Raises:
        ShapeError: more than two axes are sharded.
        TransformError: it is no sharding.

    >>> import effx, effx.numpy as enp
    >>> visualize_sharding((4,), enp.ones(4).sharding, min_width=14, scale=0.1)
    ┌────────────┐
    │   CPU 0    │
    └────────────┘
    """
    if not hasattr(sharding, "devices_indices_map"):
        raise TransformError(f"visualize_sharding: expected a sharding, such as x.sharding, got {sharding!r}")
    colored = use_color and sys.stdout.isatty()
    text = draw_sharding(
        shape,
        sharding,
        scale=scale,
        min_width=min_width,
        max_width=max_width,
        color_map=(color_map or rainbow_color) if colored else None,
    )
    print(text)  # noqa: T201  # what it is for


def inspect_array_sharding(value: PyTree, *, callback: Callable[[HasDevicesIndicesMap], object]) -> None:
    """Calls a function with the sharding of each array of a pytree.

    Args:
        value: a pytree of arrays.
        callback: takes a sharding.

    For values of a compiled function it is called when the function is compiled, with what XLA has chosen.

    >>> import effx, effx.numpy as enp
    >>> inspect_array_sharding({"w": enp.ones(3)}, callback=lambda s: print(s.is_fully_replicated))
    True
    >>> @effx.jit
    ... def f(x):
    ...     inspect_array_sharding(2 * x, callback=lambda s: print(len(s.device_set)))
    ...     return x
    >>> x = f(enp.ones(3))
    1
    """
    for x in leaves(value):
        array = as_operand(x)
        if isinstance(array, Box):
            InspectSharding(callback)(array)
        else:
            callback(_concrete_sharding(array))


def visualize_array_sharding(
    arr: Array,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Prints which part of an array each device holds; see `visualize_sharding` for the rest.

    Args:
        arr: an array.
        use_color: True to fill the boxes with colours, where a terminal shows the drawing.
        scale: of the drawing.
        min_width: of a box, in characters.
        max_width: of the drawing, unless boxes would be narrower than `min_width`.
        color_map: a function from numbers between 0 and 1 to colours.

    A value of a compiled function is drawn when the function is compiled.

    Raises:
        ShapeError: more than two axes are sharded.

    >>> import effx.numpy as enp
    >>> visualize_array_sharding(enp.ones((2, 2)), scale=0.3, min_width=14)
    ┌────────────┐
    │            │
    │   CPU 0    │
    │            │
    └────────────┘
    """
    shape = as_operand(arr).type.shape

    def draw(sharding: HasDevicesIndicesMap) -> None:
        visualize_sharding(
            shape,
            sharding,
            use_color=use_color,
            scale=scale,
            min_width=min_width,
            max_width=max_width,
            color_map=color_map,
        )

    inspect_array_sharding(arr, callback=draw)


def _concrete_sharding(array: Array) -> HasDevicesIndicesMap:
    if isinstance(array, ConcreteArray):
        return array.sharding
    return SingleDeviceSharding(default_device())  # a constant that is still on the host
