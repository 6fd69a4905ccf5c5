"""Tangents of sorting: the tangents sorted as their values were.

Never: sort twice by the keys.
"""

from effx import dtypes
from effx.array import Array
from effx.handlers.jvp.handler import Tangent, tuple_rule
from effx.handlers.jvp.reduce import along_axis
from effx.ir.ops.shape import Iota
from effx.ir.ops.sort import Sort
from effx.ir.types import array_type


@tuple_rule(Sort)
def sort(
    op: Sort, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[tuple[Array, ...], tuple[Tangent, ...]]:
    places = Iota(array_type(dtypes.int32, primals[0].type.shape), op.axis)()
    *results, order = op(*primals, places)
    moved = [None if d is None else along_axis(d, order, op.axis) for d in tangents]
    return tuple(results), tuple(moved)
