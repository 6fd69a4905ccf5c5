"""The reference of parallel maps: the members one beside the other, as vmap has them.

Never: use more than the host.
"""

from collections.abc import Sequence

from effx.array import Array
from effx.array.indexing import getitem
from effx.handlers.batch import batch
from effx.handlers.reference.control import runs
from effx.handlers.stage import run_program
from effx.handlers.vmap.handler import Vmap, materialize, to_front
from effx.ir.ops.parallel import ParallelMap


@runs(ParallelMap)
def parallel_map(op: ParallelMap, operands: Sequence[Array]) -> tuple[Array, ...]:
    axes = [0 if mapped else None for mapped in op.mapped_in]
    values, places = batch(lambda xs: run_program(op.body, xs), operands, axes, op.size, op.axis_name)
    return tuple(
        [
            materialize(Vmap(op.size), y, axis)
            if mapped
            else y
            if axis is None
            else getitem(to_front(y, axis), 0)
            for y, axis, mapped in zip(values, places, op.mapped_out, strict=True)
        ]
    )
