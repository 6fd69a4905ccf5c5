"""Laws of linearize and transpose: the recorded linear map is the derivative, and the transpose its adjoint."""

import effx
import effx.numpy as enp
from effx import tree
from effx.array import Array
from effx.handlers.linearize import linearize
from effx.handlers.transpose import backward_pass
from effx.ir.checker import check_program
from effx.laws.areas.forward import tangent
from effx.laws.areas.subjects import SMALL, SMOOTH, Function, Points, compose_smoothly
from effx.laws.comparing import directions, inner_product, leaves, same
from effx.laws.registry import law
from effx.tree.registry import PyTree

AREA = "linearize and transpose"


def linear_map(f: Function, xs: Points) -> Function:
    """Returns a linear function: the derivative of `f` at a point."""
    L: Function = effx.linearize(lambda *ys: f(*ys), *xs)[1]
    return L


@law(AREA, "linearize f(x) gives f(x)", SMOOTH)
def linearize_keeps_the_value(f: Function, xs: Points) -> None:
    same(effx.linearize(f, *xs)[0], f(*xs))


@law(AREA, "linearize f(x)(v) = Df(x) v", SMOOTH)
def linear_maps_are_derivatives(f: Function, xs: Points) -> None:
    vs = directions(xs)
    same(linear_map(f, xs)(*vs), tangent(f, xs, vs))


@law(AREA, "L(a v + b w) = a L v + b L w, for the recorded L, at many directions", SMOOTH)
def linear_maps_are_linear(f: Function, xs: Points) -> None:
    vs, ws = directions(xs, 1), directions(xs, 2)
    L = linear_map(f, xs)
    mixed = [0.7 * v - 1.3 * w for v, w in zip(vs, ws, strict=True)]
    same(L(*mixed), tree.map(lambda a, b: 0.7 * a - 1.3 * b, L(*vs), L(*ws)))


@law(AREA, "check(L) for the recorded linear program, which maps tangents to tangents", SMOOTH)
def linear_programs_check(f: Function, xs: Points) -> None:
    _, linear, dependent = linearize(lambda ys: leaves(f(*ys)), xs, [True] * len(xs))
    program = check_program(linear.program)
    expected_types = [y.type for y, d in zip(leaves(f(*xs)), dependent, strict=True) if d]
    assert all([a.matches(b) for a, b in zip(program.out_types, expected_types, strict=True)])


@law(AREA, "jit, vmap and staging of L = L", SMALL)
def linear_maps_compose(f: Function, xs: Points) -> None:
    vs = directions(xs)
    L = linear_map(f, xs)
    want = L(*vs)
    same(effx.jit(lambda *a: L(*a))(*vs), want)
    batched = effx.vmap(lambda *a: L(*a))(*[enp.stack([v, 2 * v]) for v in vs])
    same(batched, tree.map(lambda y: enp.stack([y, 2 * y]), want))


@law(AREA, "<ct, L v> = <L^T ct, v>", SMOOTH, share=0.6)
def transposes_are_adjoint(f: Function, xs: Points) -> None:
    _, linear, dependent = linearize(lambda ys: leaves(f(*ys)), xs, [True] * len(xs))
    moved = [
        d
        for d, is_dependent in zip(leaves(tangent(f, xs, directions(xs))), dependent, strict=True)
        if is_dependent
    ]
    cts = directions(moved, 3)
    input_cotangents = backward_pass(linear.program, linear.residuals, cts)
    back = [enp.zeros_like(x) if ct is None else ct for ct, x in zip(input_cotangents, xs, strict=True)]
    left, right = inner_product(cts, moved), inner_product(back, directions(xs))
    assert abs(left - right) <= 1e-8 * max(1.0, abs(left)), (left, right)


@law(AREA, "<ct, A v> = <A^T ct, v> for linear_transpose of a function that is linear by itself", SMALL)
def linear_functions_transpose(f: Function, xs: Points) -> None:
    ys = leaves(f(*xs))

    def A(vs: tuple[Array, ...]) -> PyTree:
        return tuple([enp.cumsum((y * vs[0].sum()).reshape(-1)) * 0.5 for y in ys])

    vs = directions(xs)
    moved = A(vs)
    cts = directions(moved, 3)
    (back,) = effx.linear_transpose(A, vs)(cts)
    assert abs(inner_product(cts, moved) - inner_product(back, vs)) <= 1e-9 * max(
        1.0, abs(inner_product(cts, moved))
    )


@law(AREA, "(L^T)^T = L", SMALL)
def transposing_twice(f: Function, xs: Points) -> None:
    ys, vs = f(*xs), directions(xs)
    _, pull = effx.vjp(f, *xs)
    twice = effx.linear_transpose(pull, ys)
    same(twice(tuple(vs))[0], tangent(f, xs, vs))


@law(AREA, "(M L)^T = L^T M^T", SMALL)
def transposes_reverse_order(f: Function, xs: Points) -> None:
    ys = f(*xs)
    zs, pull_next = effx.vjp(compose_smoothly, ys)
    cts = directions(leaves(zs), 3)
    _, pull = effx.vjp(f, *xs)
    _, pull_both = effx.vjp(lambda *a: compose_smoothly(f(*a)), *xs)
    same(pull_both(tuple(cts)), pull(pull_next(tuple(cts))[0]))


@law(AREA, "linearize(jit f) = linearize f", SMALL)
def linearize_enters_calls(f: Function, xs: Points) -> None:
    vs = directions(xs)
    same(linear_map(effx.jit(lambda *ys: f(*ys)), xs)(*vs), linear_map(f, xs)(*vs))


@law(AREA, "D_x (linearize f(x)(v)) w = D^2 f(x)(v, w)", SMALL)
def linearize_can_be_differentiated(f: Function, xs: Points) -> None:
    vs, ws = directions(xs, 1), directions(xs, 2)
    got = tangent(lambda *a: linear_map(f, a)(*vs), xs, ws)
    same(got, tangent(lambda *a: tangent(f, a, vs), xs, ws), 1e-8)
