"""Greedy colourings of sparsity patterns, with which few products determine a sparse matrix.

Columns of one colour can be summed without loss if no two of them have entries in one row. Source:
Gebremedhin, Manne & Pothen, "What color is your Jacobian? Graph coloring for computing derivatives", SIAM
Review 47 (2005).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from effx.errors import ShapeError
from effx.lazy import list_names

__all__ = ["Colours", "Pattern", "colour_columns", "colour_symmetric", "count_colours"]
__dir__ = list_names(__all__)

Pattern = NDArray[np.bool_]
Colours = NDArray[np.intp]


def colour_columns(pattern: Pattern) -> Colours:
    """Colours columns so that two that have an entry in one row differ (a distance-2 colouring).

    Args:
        pattern: bool[m, n].

    Returns:
        For each column its colour, counted from 0.

    Raises:
        ShapeError: the pattern is no matrix.

    >>> import numpy as np
    >>> colour_columns(np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool)).tolist()
    [0, 1, 0, 1]
    """
    _check_pattern(pattern)
    n = pattern.shape[1]
    columns = [np.flatnonzero(pattern[:, j]) for j in range(n)]
    rows = [np.flatnonzero(row) for row in pattern]
    sizes = np.array([len(c) for c in columns])
    # Neither order is better on all patterns; both are cheap.
    results = [
        _greedy_colouring(order, columns, rows)
        for order in (range(n), np.argsort(-sizes, kind="stable").tolist())
    ]
    return min(results, key=count_colours)


def _greedy_colouring(order: Sequence[int], columns: Sequence[Colours], rows: Sequence[Colours]) -> Colours:
    colours = np.full(len(columns), -1)
    for j in order:
        used_colours = {int(c) for i in columns[j] for c in colours[rows[i]]}
        colours[j] = _least_free_colour(used_colours)
    return colours


def _least_free_colour(used_colours: set[int]) -> int:
    colour = 0
    while colour in used_colours:
        colour += 1
    return colour


def count_colours(colours: Colours) -> int:
    """Returns how many colours there are."""
    return max(colours.tolist(), default=-1) + 1


def _check_pattern(pattern: Pattern) -> None:
    if pattern.ndim != 2:
        raise ShapeError(f"colouring: a pattern must be a matrix, got one of {pattern.ndim} axes")


def colour_symmetric(pattern: Pattern) -> Colours:
    """Colours a symmetric pattern's columns so that each entry is the only one in its own or its mirror's sum.

    That is a star colouring of the graph whose edges are the entries: neighbours differ, and each path of four
    vertices has at least three colours. It needs no more colours than `colour_columns`, often fewer.

    Args:
        pattern: bool[n, n], symmetric.

    Returns:
        For each column its colour, counted from 0.

    Raises:
        ShapeError: the pattern is not square or not symmetric.

    >>> import numpy as np
    >>> arrow = np.eye(5, dtype=bool); arrow[0] = arrow[:, 0] = True
    >>> colour_symmetric(arrow).tolist()
    [0, 1, 1, 1, 1]
    """
    _check_pattern(pattern)
    if pattern.shape[0] != pattern.shape[1] or not np.array_equal(pattern, pattern.T):
        raise ShapeError(
            f"colouring: a symmetric pattern must be square and equal its transpose, got {pattern.shape}"
        )
    edges = pattern & ~np.eye(len(pattern), dtype=bool)
    near = [np.flatnonzero(row).tolist() for row in edges]
    sizes = np.array([len(v) for v in near])
    orders: list[Sequence[int]] = [range(len(near)), np.argsort(-sizes, kind="stable").tolist()]
    results = [_star_colouring(order, near) for order in orders]
    return min([*results, colour_columns(pattern | np.eye(len(near), dtype=bool))], key=count_colours)


def _star_colouring(order: Sequence[int], near: Sequence[list[int]]) -> Colours:
    colours = np.full(len(near), -1)
    for v in order:
        used_colours = {int(colours[w]) for w in near[v]}
        known = [w for w in near[v] if colours[w] >= 0]
        for w in known:
            # v at the end of v, w, x, y, where w and y have one colour: v must not have that of x.
            for x in near[w]:
                if x != v and colours[x] >= 0 and any([y != w and colours[y] == colours[w] for y in near[x]]):
                    used_colours.add(int(colours[x]))
        # v inside of w, v, x, y, where w and x have one colour: v must not have that of y.
        seen = [colours[w] for w in known]
        for x in known:
            if seen.count(colours[x]) > 1:
                used_colours |= {int(colours[y]) for y in near[x] if y != v}
        colours[v] = _least_free_colour(used_colours)
    return colours
