"""Tridiagonal systems whose matrix may be singular: pivots near zero are replaced."""

from effx import dtypes
from effx.array import Array, arithmetic, reducing
from effx.array.arithmetic import absolute, where
from effx.array.promotion import convert
from effx.array.shaping import concatenate, expand_dims, moveaxis
from effx.families.linalg.tridiagonal import multiply_tridiagonal, shift_last_axis
from effx.lax.control.scans import scan
from effx.lax.control.solves import custom_linear_solve


def solve_perturbed(lower: Array, main: Array, upper: Array, b: Array) -> Array:
    """Returns the x with a x = b for the tridiagonal matrix a, or for one close to it where a is singular.

    Args:
        lower, main, upper: the diagonals `[*batch, n]`. The first element below and the last one above are not read.
        b: `[*batch, n, k]`.

    Derivatives are those of a x = b, with systems of the same matrix.
    """
    transposed = (shift_last_axis(upper, -1), main, shift_last_axis(lower, 1))
    solution: Array = custom_linear_solve(
        lambda x: multiply_tridiagonal(lower, main, upper, x),
        b,
        lambda _, side: _eliminate(lower, main, upper, side),
        lambda _, side: _eliminate(*transposed, side),
    )
    return solution


def _eliminate(lower: Array, main: Array, upper: Array, b: Array) -> Array:
    """Returns the solution by elimination with row exchanges.

    Rows are taken from top to bottom. The current row has elements in columns i and i + 1, and right-hand sides; of it
    and the next row that with the larger element in column i becomes row i of the triangular factor, with elements in
    columns i to i + 2, and the other one, less its multiple, the current row.
    """
    if 0 in b.type.shape:
        return b
    zero = main[..., :1] * 0
    ends = concatenate([upper[..., :-1], zero], -1)
    rows = [moveaxis(x, -1, 0) for x in (lower, main, ends)]
    sides = moveaxis(b, -2, 0)

    def step(
        current: tuple[Array, Array, Array], following: tuple[Array, Array, Array, Array]
    ) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array, Array]]:
        (p, q, side), (below, middle, above, next_side) = current, following
        is_exchanged = absolute(p) < absolute(below)
        pivot, other = where(is_exchanged, below, p), where(is_exchanged, p, below)
        factor = where(pivot == 0, 0, other / where(pivot == 0, 1, pivot))
        first, second = where(is_exchanged, middle, q), where(is_exchanged, q, middle)
        third, fourth = where(is_exchanged, above, 0), where(is_exchanged, 0, above)
        chosen = expand_dims(is_exchanged, -1)
        upper_side, lower_side = where(chosen, next_side, side), where(chosen, side, next_side)
        rest = lower_side - expand_dims(factor, -1) * upper_side
        return (second - factor * first, fourth - factor * third, rest), (pivot, first, third, upper_side)

    last, factors = scan(step, (rows[1][0], rows[2][0], sides[0]), (*[x[1:] for x in rows], sides[1:]))
    pivots, first, third, sides = [
        concatenate([above, expand_dims(below, 0)], 0)
        for above, below in zip(factors, (last[0], last[1], last[0] * 0, last[2]), strict=True)
    ]
    eps = float(dtypes.finfo(pivots.type.dtype).eps)
    largest = reducing.max(
        arithmetic.maximum(arithmetic.maximum(absolute(pivots), absolute(first)), absolute(third)), 0
    )
    least = where(largest == 0, 1, largest) * eps
    pivots = where(absolute(pivots) < least, convert(least, pivots.type.dtype), pivots)

    def substitute(
        known: tuple[Array, Array], row: tuple[Array, Array, Array, Array]
    ) -> tuple[tuple[Array, Array], Array]:
        (one, two), (p, q, r, side) = known, row
        x = (side - expand_dims(q, -1) * one - expand_dims(r, -1) * two) / expand_dims(p, -1)
        return (x, one), x

    nothing = sides[0] * 0
    return moveaxis(
        scan(substitute, (nothing, nothing), (pivots, first, third, sides), reverse=True)[1], 0, -2
    )
