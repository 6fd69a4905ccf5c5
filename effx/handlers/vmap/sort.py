"""Batching of sorting.

Never: sort along the batch axis.
"""

import attrs

from effx.array import Array
from effx.handlers.vmap.handler import Axis, Vmap, materialize, tuple_rule
from effx.ir.ops.sort import Sort


@tuple_rule(Sort)
def sort(
    handler: Vmap, op: Sort, values: tuple[Array, ...], axes: tuple[Axis, ...]
) -> tuple[tuple[Array, ...], tuple[Axis, ...]]:
    place = next(a for a in axes if a is not None)
    aligned = [materialize(handler, x, a, place) for x, a in zip(values, axes, strict=True)]
    return attrs.evolve(op, axis=op.axis + (op.axis >= place))(*aligned), (place,) * len(aligned)
