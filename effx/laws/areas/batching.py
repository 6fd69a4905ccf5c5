"""Laws of vmap: a batch is a loop over its elements, for every index of the batch axis."""

import effx
import effx.numpy as enp
from effx import tree
from effx.array import Array
from effx.laws.areas.subjects import (
    ANY,
    SMALL,
    SMOOTH,
    Function,
    Points,
    compose_smoothly,
    loop_over_batch,
    make_batch,
    weighted_sum_loss,
)
from effx.laws.comparing import directions, leaves, same
from effx.laws.registry import law

AREA = "vmap"


def batched(f: Function, **axes: object) -> Function:
    """Returns the batched form of a function."""
    return effx.vmap(lambda *ys: f(*ys), **axes)  # type: ignore[call-overload, no-any-return]  # in_axes and out_axes


@law(AREA, "vmap f(xs)[m] = f(xs[m])", ANY, share=0.6)
def batches_are_loops(f: Function, xs: Points) -> None:
    bs = make_batch(xs, 3)
    same(batched(f)(*bs), loop_over_batch(f, bs))


@law(AREA, "vmap(vmap f)(xss)[m, n] = f(xss[m, n])", SMALL)
def nested_batches_are_nested_loops(f: Function, xs: Points) -> None:
    bs = make_batch(make_batch(xs))
    same(batched(batched(f))(*bs), loop_over_batch(lambda *ys: loop_over_batch(f, ys), bs))


@law(AREA, "vmap f with x shared = vmap f with x repeated", ANY)
def shared_arguments_are_repeated(f: Function, xs: Points) -> None:
    bs = make_batch(xs, 3)
    for i in range(len(xs)):
        axes = tuple([None if j == i else 0 for j in range(len(xs))])
        if len(xs) == 1:
            return
        repeated = [enp.stack([xs[i]] * 3) if j == i else b for j, b in enumerate(bs)]
        shared = [xs[i] if j == i else b for j, b in enumerate(bs)]
        same(batched(f, in_axes=axes)(*shared), batched(f)(*repeated))


@law(AREA, "vmap f with the batch axis at k = vmap f of the moved axis, in and out", SMALL)
def axes_may_stand_anywhere(f: Function, xs: Points) -> None:
    bs = make_batch(xs)
    want = batched(f)(*bs)
    moved = [enp.moveaxis(b, 0, -1) for b in bs]
    same(batched(f, in_axes=-1)(*moved), want)
    same(tree.map(lambda y: enp.moveaxis(y, -1, 0), batched(f, out_axes=-1)(*bs)), want)


@law(AREA, "vmap f of a batch of one = f of its element", ANY)
def batches_of_one(f: Function, xs: Points) -> None:
    same(batched(f)(*[x[None] for x in xs]), tree.map(lambda y: y[None], f(*xs)))


@law(AREA, "vmap f(p xs) = p(vmap f(xs)) for a permutation p of the batch elements", ANY)
def batch_elements_do_not_see_one_another(f: Function, xs: Points) -> None:
    bs = make_batch(xs, 3)
    order = enp.asarray([2, 0, 1])
    same(batched(f)(*[b[order] for b in bs]), tree.map(lambda y: y[order], batched(f)(*bs)))


@law(AREA, "vmap(g . f) = vmap g . vmap f", SMALL)
def vmap_composes(f: Function, xs: Points) -> None:
    bs = make_batch(xs)
    same(batched(lambda *ys: compose_smoothly(f(*ys)))(*bs), effx.vmap(compose_smoothly)(batched(f)(*bs)))


@law(AREA, "vmap f over axes (a, b) = the transpose of vmap f over (b, a)", SMALL)
def nested_axes_swap(f: Function, xs: Points) -> None:
    bs = make_batch(make_batch(xs), 3)
    swapped = batched(batched(f))(*[enp.swapaxes(b, 0, 1) for b in bs])
    same(tree.map(lambda y: enp.swapaxes(y, 0, 1), swapped), batched(batched(f))(*bs))


@law(AREA, "vmap(jvp f) = jvp(vmap f)", SMALL)
def vmap_and_jvp_commute(f: Function, xs: Points) -> None:
    bs = make_batch(xs)
    vs = directions(bs)
    n = len(xs)
    inner = effx.vmap(lambda *a: effx.jvp(f, a[:n], a[n:]))(*bs, *vs)
    same(inner, effx.jvp(batched(f), bs, vs))


@law(AREA, "vmap(vjp f) = vjp(vmap f)", SMALL)
def vmap_and_vjp_commute(f: Function, xs: Points) -> None:
    bs = make_batch(xs)
    n = len(xs)
    ys, pull = effx.vjp(batched(f), *bs)
    cts = tuple(directions(leaves(ys), 3))
    same(effx.vmap(lambda *a: effx.vjp(f, *a[:n])[1](a[n:]))(*bs, *cts), pull(cts))


@law(AREA, "vmap(grad f)[m] = grad f(xs[m])", SMOOTH)
def per_example_gradients(f: Function, xs: Points) -> None:
    bs = make_batch(xs)
    gradient = effx.grad(weighted_sum_loss(f), tuple(range(len(xs))))
    same(batched(gradient)(*bs), loop_over_batch(gradient, bs))


@law(AREA, "vmap(jit f) = jit(vmap f) = vmap f", SMALL)
def vmap_and_jit_commute(f: Function, xs: Points) -> None:
    bs = make_batch(xs)
    want = batched(f)(*bs)
    same(batched(effx.jit(lambda *ys: f(*ys)))(*bs), want)
    same(effx.jit(batched(f))(*bs), want)


@law(AREA, "vmap(x -> f(c)) = f(c), repeated", SMALL)
def constants_are_repeated(f: Function, xs: Points) -> None:
    got = effx.vmap(lambda _: f(*xs))(enp.arange(3.0))
    same(got, tree.map(lambda y: enp.stack([y] * 3), f(*xs)))


@law(AREA, "vmap f of a pytree = vmap f of its leaves", SMALL)
def batches_of_trees(f: Function, xs: Points) -> None:
    bs = make_batch(xs)

    def g(point: dict[str, Array]) -> object:
        return f(*point.values())

    same(effx.vmap(g)({f"x{i}": b for i, b in enumerate(bs)}), batched(f)(*bs))
