"""Laws of vjp and grad: the adjoint of the tangent, in every arrangement of modes."""

import effx
import effx.numpy as enp
from effx import tree
from effx.array import Array
from effx.laws.areas.forward import close, tangent
from effx.laws.areas.subjects import FLAT, SMALL, SMOOTH, Function, Points, weighted_sum_loss
from effx.laws.comparing import central_difference, directions, inner_product, leaves, same
from effx.laws.registry import law

AREA = "vjp"


def everywhere(xs: Points) -> tuple[int, ...]:
    """Returns the indices of all arguments."""
    return tuple(range(len(xs)))


@law(AREA, "vjp f(x) gives f(x)", SMOOTH)
def vjp_keeps_the_value(f: Function, xs: Points) -> None:
    same(effx.vjp(f, *xs)[0], f(*xs))


@law(AREA, "<ct, Df(x) v> = <Df(x)^T ct, v>", SMOOTH, share=0.6)
def vjp_is_the_adjoint_of_jvp(f: Function, xs: Points) -> None:
    vs = directions(xs)
    ys, pull = effx.vjp(f, *xs)
    cts = directions(leaves(ys), 3)
    left = inner_product(cts, leaves(tangent(f, xs, vs)))
    right = inner_product(pull(tuple(cts)), vs)
    assert abs(left - right) <= 1e-8 * max(1.0, abs(left)), (left, right)


@law(AREA, "<grad f(x), v> = (f(x + h v) - f(x - h v)) / 2h + O(h^2)", SMOOTH)
def gradients_are_slopes(f: Function, xs: Points) -> None:
    vs = directions(xs)
    along = inner_product(effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs), vs)
    close(enp.asarray(along), list(central_difference(weighted_sum_loss(f), xs, vs)), 1e-5)


@law(AREA, "Df(x)^T (a ct + b du) = a Df(x)^T ct + b Df(x)^T du", SMOOTH)
def cotangents_are_linear(f: Function, xs: Points) -> None:
    ys, pull = effx.vjp(f, *xs)
    cts, dus = directions(leaves(ys), 3), directions(leaves(ys), 4)
    mixed = tuple([0.7 * a - 1.3 * b for a, b in zip(cts, dus, strict=True)])
    same(pull(mixed), tree.map(lambda a, b: 0.7 * a - 1.3 * b, pull(tuple(cts)), pull(tuple(dus))))


@law(AREA, "grad f = vjp f at 1, and value_and_grad f = (f, grad f)", SMOOTH)
def gradients_pull_back_one(f: Function, xs: Points) -> None:
    g = weighted_sum_loss(f)
    value, gradient = effx.value_and_grad(g, everywhere(xs))(*xs)
    y, pull = effx.vjp(g, *xs)
    same(gradient, pull(enp.ones_like(y)))
    same(gradient, effx.grad(g, everywhere(xs))(*xs))
    same(value, y)


@law(AREA, "grad f by (x, y) = (grad f by x, grad f by y)", SMOOTH)
def gradients_by_each_argument(f: Function, xs: Points) -> None:
    all_gradients = effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs)
    for i in range(len(xs)):
        same(effx.grad(weighted_sum_loss(f), i)(*xs), all_gradients[i])


@law(AREA, "grad of f of a pytree has the pytree's structure, and its leaves are the gradients", SMALL)
def gradients_of_trees(f: Function, xs: Points) -> None:
    point = {"a": [xs[0]], "b": tuple(xs[1:])}
    got = effx.grad(lambda p: weighted_sum_loss(f)(p["a"][0], *p["b"]))(point)
    assert tree.structure(got) == tree.structure(point)
    same(got, effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs))


@law(AREA, "jacrev f = jacfwd f", FLAT)
def jacobians_agree(f: Function, xs: Points) -> None:
    same(effx.jacrev(f)(*xs), effx.jacfwd(f)(*xs))


@law(AREA, "forward over backward = backward over forward = backward over backward", SMALL)
def second_derivatives_do_not_depend_on_the_way(f: Function, xs: Points) -> None:
    g, vs, indices = weighted_sum_loss(f), directions(xs), everywhere(xs)

    def along(*a: Array) -> Array:
        total = enp.zeros((), enp.float64)
        for d, v in zip(effx.grad(g, indices)(*a), vs, strict=True):
            total = total + (d * v).sum()
        return total

    over_backward = tangent(effx.grad(g, indices), xs, vs)
    over_forward = effx.grad(lambda *a: effx.jvp(g, a, vs)[1], indices)(*xs)
    same(over_backward, over_forward, 1e-8)
    same(effx.grad(along, indices)(*xs), over_forward, 1e-8)


@law(AREA, "hessian f = (hessian f)^T, and <w, H v> = D^2 f(x)(v, w)", FLAT)
def hessians_are_symmetric(f: Function, xs: Points) -> None:
    x = xs[0]
    g: Function = lambda y: weighted_sum_loss(f)(y, *xs[1:])  # noqa: E731 - a section of f
    n = x.type.size
    H = effx.hessian(g)(x).reshape((n, n))
    same(H, H.T, 1e-8)
    (v,), (w,) = directions([x], 1), directions([x], 2)
    twice = tangent(lambda y: tangent(g, [y], [v]), [x], [w])
    same(enp.dot(w.reshape(n), enp.dot(H, v.reshape(n))), twice, 1e-8)


@law(AREA, "x used twice: D(f, f)^T (ct, du) = Df^T (ct + du)", SMOOTH)
def uses_add_up(f: Function, xs: Points) -> None:
    ys, pull = effx.vjp(f, *xs)
    cts, dus = directions(leaves(ys), 3), directions(leaves(ys), 4)
    both = effx.vjp(lambda *a: (f(*a), f(*a)), *xs)[1]((tuple(cts), tuple(dus)))
    same(both, pull(tuple([a + b for a, b in zip(cts, dus, strict=True)])))


@law(AREA, "Df(x)^T ct by a jitted f = by f; a jitted pull-back = the pull-back", SMALL)
def jit_keeps_pull_backs(f: Function, xs: Points) -> None:
    ys, pull = effx.vjp(f, *xs)
    cts = tuple(directions(leaves(ys), 3))
    want = pull(cts)
    same(effx.vjp(effx.jit(lambda *a: f(*a)), *xs)[1](cts), want)
    same(effx.jit(lambda c: pull(c))(cts), want)


@law(AREA, "auxiliary values pass through: grad(f, has_aux) = (grad f, aux)", SMALL)
def auxiliary_values_pass_through(f: Function, xs: Points) -> None:
    g = weighted_sum_loss(f)
    gradient, extra = effx.grad(lambda *a: (g(*a), f(*a)), has_aux=True)(*xs)
    same(gradient, effx.grad(g)(*xs))
    same(extra, f(*xs))


@law(AREA, "grad of f of constants = 0", SMOOTH)
def constants_have_no_gradient(f: Function, xs: Points) -> None:
    constants = [enp.asarray(x.host("law"), x.dtype) for x in xs]
    got = effx.grad(lambda *a: weighted_sum_loss(f)(*constants), everywhere(xs))(*xs)
    same(got, tuple([enp.zeros_like(x) for x in xs]), 0.0)
