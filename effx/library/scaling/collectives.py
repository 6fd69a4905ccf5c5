"""Read collectives from compiled text: their groups of devices, mesh axes, and bytes moved.

What a device must send, of n in a group, for b bytes that it has before, or in all for all-gather after:

    all-gather          (n - 1)/n b        each part comes from another device
    reduce-scatter      (n - 1)/n b        its transpose
    all-reduce        2 (n - 1)/n b        a reduce-scatter, then an all-gather
    all-to-all          (n - 1)/n b        all but what stays
    collective-permute           b
    collective-broadcast         b

These are lower bounds for any algorithm, which rings attain. Sources: Chan, Heimlich, Purkayastha and van de Geijn,
"Collective communication: theory, practice, and experience", 2007; Patarasuk and Yuan, "Bandwidth optimal all-reduce
algorithms for clusters of workstations", 2009.
"""

import math
import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from effx.errors import ProgramError
from effx.library.scaling.hlo import Instruction

__all__ = ["KINDS", "axes_of_groups", "groups_of", "sent"]

Groups: TypeAlias = Sequence[Sequence[int]]

# How many times (n - 1)/n of the bytes, of the operands or of the result; None for once, whatever n is.
KINDS: dict[str, int | None] = {
    "all-gather": 1,
    "reduce-scatter": 1,
    "all-reduce": 2,
    "all-to-all": 1,
    "ragged-all-to-all": 1,
    "collective-permute": None,
    "collective-broadcast": None,
}

_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"@?\w*\[([^\]]*)\] *(?:\{(.*)\})?")
_SUBAXIS = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")
_IDS = re.compile(r"\((?:\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))\) *\{(.*)\}")


def _parse_ints(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n]


def groups_of(i: Instruction, count: int) -> Groups:
    """Returns the groups of devices within which a collective runs, as numbers in the program's order.

    Args:
        i: the collective.
        count: of all devices.

    Raises:
        ProgramError: the groups are written in a way that is not known here.
    """
    if "source_target_pairs" in i.attributes:
        numbers = i.numbers("source_target_pairs")
        return [(a, b) for a, b in zip(numbers[::2], numbers[1::2], strict=True) if a != b]
    text = i.attributes.get("replica_groups", "{}")
    iota = _IOTA.fullmatch(text)
    if iota is not None:
        dims = _parse_ints(iota[2])
        ids = np.arange(math.prod(dims)).reshape(dims)
        if iota[3]:
            ids = ids.transpose(_parse_ints(iota[3]))
        return _parse_groups(ids.reshape(_parse_ints(iota[1])))
    if text.startswith("{"):
        results = [_parse_ints(g) for g in re.findall(r"\{([\d,]*)\}", text[1:-1])]
        return results or [range(count)]
    mesh = _MESH.match(text)
    if text.startswith("mesh[") and mesh is not None:
        return _groups_of_mesh(mesh[1], mesh[2], i.attributes.get("device_ids"))
    raise ProgramError(f"plan: the groups of {i.name} are not understood: {text!r}")


def _parse_groups(ids: npt.NDArray[np.int64]) -> Groups:
    result: list[list[int]] = ids.tolist()
    return result


def _groups_of_mesh(axes: str, named: str | None, groups_text: str | None) -> Groups:
    """Returns groups along axes, or parts of axes, of a mesh that the text describes."""
    sizes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", axes)}
    ids = np.arange(math.prod(sizes.values()))
    order = _IDS.fullmatch(groups_text) if groups_text is not None else None
    if order is not None:
        if order[1]:
            ids = ids.reshape(_parse_ints(order[1]))
            ids = ids.transpose(_parse_ints(order[2])) if order[2] else ids
        else:
            ids = np.array(_parse_ints(order[3]))
        named = order[4]
    if named is None:
        raise ProgramError(f"plan: groups on a mesh name no axes: {axes!r}")
    # A part of an axis is written 'x':(n)m: m steps of it, beneath n coarser ones. Each split makes the axis finer.
    axis_parts = [
        (name, int(pre or 1), int(size or sizes[name])) for name, pre, size in _SUBAXIS.findall(named)
    ]
    grid: list[int] = []
    within: list[bool] = []
    for name, size in sizes.items():
        mine = sorted([(pre, n) for other, pre, n in axis_parts if other == name])
        reached = 1
        for pre, n in mine:
            grid += [pre // reached, n]
            within += [False, True]
            reached = pre * n
        grid.append(size // reached)
        within.append(False)
    outer = [a for a, inside in enumerate(within) if not inside]
    inner = [a for a, inside in enumerate(within) if inside]
    n = math.prod([grid[a] for a in inner])
    return _parse_groups(ids.reshape(grid).transpose(outer + inner).reshape(-1, n))


def axes_of_groups(groups: Groups, sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns the numbers of the mesh axes along which the members of some group differ."""
    axes: set[int] = set()
    for group in groups:
        at = np.stack(np.unravel_index(np.asarray(group), tuple(sizes)))
        axes |= {a for a, row in enumerate(at) if row.min() != row.max()}
    return tuple(sorted(axes))


def sent(kind: str, n: int, before: int, after: int) -> float:
    """Returns how many bytes a device sends in one collective.

    Args:
        kind: one of KINDS.
        n: how many devices are in a group.
        before, after: the bytes that it has of all operands, and of the result.

    >>> sent("all-reduce", 4, 1000, 1000), sent("all-gather", 4, 250, 1000)
    (1500.0, 750.0)
    """
    times = KINDS[kind]
    if times is None:
        return float(before)
    return times * (n - 1) / n * (after if kind == "all-gather" else before)
