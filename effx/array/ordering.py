"""NumPy's order of complex numbers: by the real parts, and if these are equal by the imaginary parts.

Operations order real numbers only; here they are applied to the parts. A number is NaN where a part of it is.
"""

import math

from effx import dtypes
from effx.array.prefixes import combine_prefixes
from effx.array.promotion import broadcast_arrays
from effx.array.shaping import reshape, transpose
from effx.effects import perform
from effx.ir.ops import compare as c
from effx.ir.ops import elementwise as e
from effx.ir.ops import reduce as r
from effx.ir.ops.base import Elementwise
from effx.ir.ops.index import Gather
from effx.ir.ops.shape import BroadcastInDim, Reverse
from effx.ir.values.array import Array
from effx.ir.values.scalars import scalar

EQ, NE, GE, LE = c.Eq(), c.Ne(), c.Ge(), c.Le()
AND, OR, NOT, SELECT = e.And(), e.Or(), e.Not(), e.Select()
# The comparison that decides if the real parts differ.
_STRICT: dict[type[Elementwise], Elementwise] = {c.Lt: c.Lt(), c.Le: c.Lt(), c.Gt: c.Gt(), c.Ge: c.Gt()}


def compare_by_parts(op: Elementwise, x: Array, y: Array) -> Array:
    """Performs a comparison, `Max` or `Min` on complex numbers of one dtype."""
    if isinstance(op, (e.Max, e.Min)):
        # At a tie x passes its tangent on; a NaN is taken as it is.
        first = perform(OR, (compare_by_parts(GE if type(op) is e.Max else LE, x, y), perform(NE, (x, x))))
        return perform(SELECT, tuple(broadcast_arrays([first, y, x])))
    (a, i), (b, j) = _real_and_imaginary(x), _real_and_imaginary(y)
    imaginary_is_nan = perform(AND, (perform(EQ, (i, i)), perform(EQ, (j, j))))
    decided = perform(AND, (perform(_STRICT[type(op)], (a, b)), imaginary_is_nan))
    return perform(OR, (decided, perform(AND, (perform(EQ, (a, b)), perform(op, (i, j))))))


def _real_and_imaginary(x: Array) -> tuple[Array, Array]:
    return perform(e.Real(), (x,)), perform(e.Imag(), (x,))


def arg_extreme(op: r.ArgReduction, x: Array) -> Array:
    """The index along an axis of the first NaN, or else of the first largest (smallest) complex number."""
    largest = type(op) is r.ArgMax
    reduce = r.ReduceMax((op.axis,)) if largest else r.ReduceMin((op.axis,))
    remaining_axes = tuple([i for i in range(x.type.ndim) if i != op.axis])
    re, im = _real_and_imaginary(x)
    nan = perform(NE, (x, x))

    def best(among: Array, part: Array, other: float) -> Array:
        """Returns which elements have the best part among the candidates."""
        chosen = perform(SELECT, (among, scalar(other, part.type.dtype), part))
        return perform(EQ, (part, BroadcastInDim(x.type.shape, remaining_axes)(reduce(chosen))))

    # No real part equals the best one where an element is NaN: then there are no candidates.
    candidates = best(perform(NOT, (nan,)), re, math.nan)
    last = best(candidates, im, -math.inf if largest else math.inf)
    hit = perform(OR, (perform(AND, (candidates, last)), nan))
    return r.ArgMax(op.axis, op.index_dtype)(hit)


def reduce_extreme(op: "r.ReduceMax | r.ReduceMin", x: Array) -> Array:
    """The largest (smallest) complex number over axes; NaN if there is one. Its tangent is the first such element's."""
    t = x.type
    if not op.axes:
        return x
    remaining_axes = tuple([i for i in range(t.ndim) if i not in op.axes])
    shape = tuple([t.shape[i] for i in remaining_axes])
    n = math.prod([t.shape[i] for i in op.axes])
    largest = type(op) is r.ReduceMax
    if 0 in t.shape:  # of no elements the real part decides
        return BroadcastInDim(shape, ())(scalar(-math.inf if largest else math.inf, t.dtype, False))
    rows = reshape(transpose(x, (*remaining_axes, *op.axes)), (math.prod(shape), n))
    pick = r.ArgMax if largest else r.ArgMin
    index = arg_extreme(pick(1, dtypes.canonicalize(dtypes.int64)), rows)
    starts = reshape(index, (rows.type.shape[0], 1))
    return reshape(Gather((), (1,), (1,), (1, 1), (0,), (0,))(rows, starts), shape)


def cumulative_extreme(op: "r.CumMax | r.CumMin", x: Array) -> Array:
    """The largest (smallest) complex numbers so far along an axis; NaN stays."""
    combine = e.Max() if type(op) is r.CumMax else e.Min()
    if op.reverse:
        flip = Reverse((op.axis,))
        return flip(cumulative_extreme(type(op)(op.axis), flip(x)))

    def compare(left: list[Array], right: list[Array]) -> list[Array]:
        return [compare_by_parts(combine, left[0], right[0])]

    return combine_prefixes(compare, [x], [op.axis])[0]
