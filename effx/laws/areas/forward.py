"""Laws of jvp: the tangent is the slope, linear in the direction, and obeys the rules of calculus."""

from collections.abc import Sequence

import numpy as np

import effx
import effx.numpy as enp
from effx import tree
from effx.array import Array
from effx.laws.areas.subjects import (
    FLAT,
    SMALL,
    SMOOTH,
    Function,
    Points,
    compose_smoothly,
    weighted_sum_loss,
)
from effx.laws.comparing import Data, central_difference, comparable_data, directions, leaves, same
from effx.laws.registry import law

AREA = "jvp"


def tangent(f: Function, xs: Points, vs: Points) -> object:
    """Returns the derivative of a function along a direction."""
    return effx.jvp(lambda *ys: f(*ys), tuple(xs), tuple(vs))[1]


def close(got: object, want: Sequence[Data], tolerance: float) -> None:
    """Compares with a finite difference, up to `tolerance`."""
    for a, b in zip(leaves(got), want, strict=True):
        size = max(1.0, float(np.abs(b).max(initial=0.0)))
        np.testing.assert_allclose(comparable_data(a), b, rtol=tolerance, atol=tolerance * size)


@law(AREA, "jvp f(x, v) = (f(x + h v) - f(x - h v)) / 2h + O(h^2)", SMOOTH, share=0.6)
def tangents_are_slopes(f: Function, xs: Points) -> None:
    vs = directions(xs)
    close(tangent(f, xs, vs), list(central_difference(f, xs, vs)), 1e-5)


@law(AREA, "jvp f(x, v) gives f(x)", SMOOTH)
def jvp_keeps_the_value(f: Function, xs: Points) -> None:
    same(effx.jvp(f, tuple(xs), directions(xs))[0], f(*xs))


@law(AREA, "Df(x)(a v + b w) = a Df(x) v + b Df(x) w", SMOOTH)
def tangents_are_linear(f: Function, xs: Points) -> None:
    vs, ws = directions(xs, 1), directions(xs, 2)
    mixed = [0.7 * v - 1.3 * w for v, w in zip(vs, ws, strict=True)]
    want = tree.map(lambda a, b: 0.7 * a - 1.3 * b, tangent(f, xs, vs), tangent(f, xs, ws))
    same(tangent(f, xs, mixed), want)


@law(AREA, "Df(x) 0 = 0", SMOOTH)
def zero_tangents_stay_zero(f: Function, xs: Points) -> None:
    moved = tangent(f, xs, [enp.zeros_like(x) for x in xs])
    same(moved, tree.map(enp.zeros_like, f(*xs)), 0.0)


@law(AREA, "Df(x)(v1, v2) = Df(x)(v1, 0) + Df(x)(0, v2)", SMOOTH)
def partial_derivatives_add_up(f: Function, xs: Points) -> None:
    vs = directions(xs)
    parts = [
        tangent(f, xs, [v if i == j else enp.zeros_like(v) for j, v in enumerate(vs)]) for i in range(len(xs))
    ]
    same(tangent(f, xs, vs), tree.map(lambda *ys: sum(ys[1:], ys[0]), *parts))


@law(AREA, "D(g . f)(x) v = Dg(f(x)) Df(x) v", SMOOTH)
def forward_chain_rule(f: Function, xs: Points) -> None:
    vs = directions(xs)
    ys, moved = effx.jvp(f, tuple(xs), vs)
    same(tangent(lambda *a: compose_smoothly(f(*a)), xs, vs), effx.jvp(compose_smoothly, (ys,), (moved,))[1])


@law(AREA, "D(f + f^2) v = Df v + 2 f Df v", SMOOTH)
def sum_and_product_rule(f: Function, xs: Points) -> None:
    vs = directions(xs)
    ys, moved = effx.jvp(f, tuple(xs), vs)
    got = tangent(lambda *a: tree.map(lambda y: y + y * y, f(*a)), xs, vs)
    same(got, tree.map(lambda y, d: d + 2 * y * d, ys, moved))


@law(AREA, "jvp(jit f) = jvp f", SMOOTH)
def jvp_enters_calls(f: Function, xs: Points) -> None:
    vs = directions(xs)
    same(effx.jvp(effx.jit(lambda *ys: f(*ys)), tuple(xs), vs), effx.jvp(f, tuple(xs), vs))


@law(AREA, "D^2 f(x)(v, w) = D^2 f(x)(w, v)", SMALL)
def second_tangents_are_symmetric(f: Function, xs: Points) -> None:
    vs, ws = directions(xs, 1), directions(xs, 2)
    one = tangent(lambda *a: tangent(f, a, vs), xs, ws)
    other = tangent(lambda *a: tangent(f, a, ws), xs, vs)
    same(one, other, 1e-8)


@law(AREA, "D^2 f(x)(v, w) = (Df(x + h w) v - Df(x - h w) v) / 2h + O(h^2)", SMALL)
def second_tangents_are_slopes(f: Function, xs: Points) -> None:
    vs, ws = directions(xs, 1), directions(xs, 2)

    def slope(*a: Array) -> object:
        return tangent(f, a, vs)

    close(tangent(slope, xs, ws), list(central_difference(slope, xs, ws)), 3e-5)


@law(AREA, "jacfwd f = the matrix of Df along each coordinate", FLAT)
def jacfwd_has_tangents_as_columns(f: Function, xs: Points) -> None:
    matrix = leaves(effx.jacfwd(f)(*xs))
    x = xs[0]
    for index in range(x.type.size):
        unit = enp.zeros(x.type.size).at[index].set(1.0).reshape(x.shape)
        column = leaves(tangent(lambda y: f(y, *xs[1:]), [x], [unit]))
        for jacobian_block, part in zip(matrix, column, strict=True):
            same(jacobian_block.reshape((*part.shape, x.type.size))[..., index], part)


@law(AREA, "Df v for f of integers and floats: only floats have tangents", FLAT)
def integers_have_no_tangents(f: Function, xs: Points) -> None:
    vs = directions(xs)
    n = enp.arange(3)
    zero = np.zeros(3, effx.dtypes.float0)
    got = effx.jvp(lambda k, *a: (k, f(*a)), (n, *xs), (zero, *vs))[1]
    assert got[0].dtype == effx.dtypes.float0
    same(got[1], tangent(f, xs, vs))


@law(AREA, "d/dt f(x + t v) at 0 = Df(x) v", SMOOTH)
def tangents_are_directional_derivatives(f: Function, xs: Points) -> None:
    vs = directions(xs)
    line: Function = lambda t: weighted_sum_loss(f)(*[x + t * v for x, v in zip(xs, vs, strict=True)])  # noqa: E731 - the curve
    zero = enp.asarray(0.0, enp.float64)
    same(effx.jvp(line, (zero,), (enp.ones_like(zero),))[1], tangent(weighted_sum_loss(f), xs, vs))
