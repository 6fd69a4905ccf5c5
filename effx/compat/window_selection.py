"""Windows that choose an element each: what derivatives of pooling are in JAX, as primitives of their own.

`select_and_gather_add` picks the tangents of windows' extrema, `select_and_scatter_add` returns cotangents to them, and
`select_and_scatter` does so with any choice and any combination.
"""

import itertools
from collections.abc import Callable, Sequence

from effx import jvp, lax, vjp
from effx.array import Array
from effx.array.arithmetic import where
from effx.compat.defined import Evaluable, Primitive
from effx.ir.types import highest_value, lowest_value

__all__ = ["select_and_gather_add", "select_and_scatter", "select_and_scatter_add"]

Padding = Sequence[tuple[int, int]]


def _pool(
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Callable[[Array], Array]:
    """Returns the function that takes the extremum of each window: the largest for `ge_p`, the smallest for `le_p`."""
    is_max = select_prim.name in ("ge", "gt")

    def pool(x: Array) -> Array:
        initial, extremum = (lowest_value(x.type), lax.max) if is_max else (highest_value(x.type), lax.min)
        windows = window_dimensions, window_strides, padding, base_dilation, window_dilation
        result: Array = lax.reduce_window(x, initial, extremum, *windows)
        return result

    return pool


def select_and_gather_add(
    tangents: Array,
    operand: Array,
    *,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Array:
    """Returns the tangent of each window's extremum."""
    pool = _pool(select_prim, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    result: Array = jvp(pool, (operand,), (tangents,))[1]
    return result


def select_and_scatter_add(
    source: Array,
    operand: Array,
    *,
    select_prim: Primitive,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
) -> Array:
    """Returns, for each element, the sum of the source over the windows of which it is the extremum."""
    pool = _pool(select_prim, window_dimensions, window_strides, padding)
    result: Array = vjp(pool, operand)[1](source)[0]
    return result


def select_and_scatter(
    operand: Array,
    source: Array,
    init_value: Array,
    *,
    select_jaxpr: Evaluable,
    select_consts: Sequence[Array] = (),
    scatter_jaxpr: Evaluable,
    scatter_consts: Sequence[Array] = (),
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
) -> Array:
    """Returns the initial value with an element of the source scattered to what each window chose.

    Args:
        operand: what windows choose from. source: an element for each window. init_value: of the result.
        select_jaxpr: of two elements, True to keep the first. scatter_jaxpr: of a result's and a source's element.
    """
    low, high = [p[0] for p in padding], [p[1] for p in padding]
    extents = [n + a + b for n, (a, b) in zip(operand.shape, padding, strict=True)]
    padded = lax.pad(operand, operand.dtype.type(0), [(a, b, 0) for a, b in padding])
    inside = lax.pad(lax.full_like(operand, True, bool), False, [(a, b, 0) for a, b in padding])

    def slice_at(x: Array, offset: tuple[int, ...]) -> tuple[Array, tuple[slice, ...]]:
        steps = tuple(
            [
                slice(k, k + (n - 1) * s + 1, s)
                for k, n, s in zip(offset, source.shape, window_strides, strict=True)
            ]
        )
        return x[steps], steps

    offsets = list(itertools.product(*map(range, window_dimensions)))
    best, winner = slice_at(padded, offsets[0])[0], lax.full(source.shape, 0)
    has_winner = slice_at(inside, offsets[0])[0]
    for k, offset in enumerate(offsets[1:], 1):
        x, is_inside = slice_at(padded, offset)[0], slice_at(inside, offset)[0]
        keeps = select_jaxpr.evaluate(select_consts, (best, x))[0]
        moves = is_inside & ~(has_winner & keeps)
        best, winner, has_winner = where(moves, x, best), where(moves, k, winner), has_winner | is_inside
    result = lax.full(extents, init_value)
    for k, offset in enumerate(offsets):
        part, steps = slice_at(result, offset)
        combined = scatter_jaxpr.evaluate(scatter_consts, (part, source))[0]
        result = result.at[steps].set(where((winner == k) & has_winner, combined, part))
    return result[tuple([slice(a, n - b) for a, b, n in zip(low, high, extents, strict=True)])]
