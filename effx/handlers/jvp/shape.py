"""Tangents of operations that move elements at traced indices: the same moves on the tangents."""

from effx.array import Array
from effx.handlers.jvp.handler import Tangent, rule, zeros_like
from effx.ir.ops import shape as s


@rule(s.DynamicSlice)
def jvp_dynamic_slice(
    op: s.DynamicSlice, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    x, *starts = primals
    dx = tangents[0]
    return op(x, *starts), None if dx is None else op(dx, *starts)


@rule(s.DynamicUpdateSlice)
def jvp_dynamic_update_slice(
    op: s.DynamicUpdateSlice, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    x, update, *starts = primals
    dx, du = tangents[:2]
    z = op(x, update, *starts)
    if dx is None and du is None:
        return z, None
    return z, op(zeros_like(x) if dx is None else dx, zeros_like(update) if du is None else du, *starts)
