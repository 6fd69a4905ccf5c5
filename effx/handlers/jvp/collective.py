"""Tangents of collectives."""

from effx.array import Array
from effx.handlers.jvp.handler import Tangent, jvp_piecewise_constant, rule
from effx.ir.ops import collective as k
from effx.ir.ops import compare as c
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import Convert


@rule(k.PSumShared)
def jvp_psum_shared(
    op: k.PSumShared, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    y, x = primals
    return op(y, x), None if tangents[0] is None else op(tangents[0], x)


@rule(k.PMax, k.PMin)
def jvp_pmax_pmin(
    op: k.Grouped, primals: tuple[Array, ...], tangents: tuple[Tangent, ...]
) -> tuple[Array, Tangent]:
    # The indices that attain the extreme share the tangent evenly.
    (x,), (dx,) = primals, tangents
    y = op(x)
    if dx is None:
        return y, None
    hit = Convert(x.type.dtype)(c.Eq()(x, y))
    add = k.PSum(op.axis_name, groups=op.groups)
    return y, e.Div()(add(e.Mul()(dx, hit)), add(hit))


rule(k.AxisIndex)(jvp_piecewise_constant)
