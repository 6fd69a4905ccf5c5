"""Laws of custom rules and rematerialisation: a true rule changes nothing, and rules are used."""

import effx
import effx.numpy as enp
from effx import checkpoint_policies, lax, tree
from effx.array import Array
from effx.laws.areas.forward import tangent
from effx.laws.areas.subjects import (
    FLAT,
    SMALL,
    SMOOTH,
    Function,
    Points,
    loop_over_batch,
    make_batch,
    weighted_sum_loss,
)
from effx.laws.comparing import directions, same
from effx.laws.registry import law
from effx.tree.registry import PyTree

AREA = "custom rules and remat"


def with_jvp(f: Function, factor: float = 1.0) -> Function:
    """Returns a function of one tuple with a rule for forward mode: its derivative, scaled."""
    custom = effx.custom_jvp(lambda xs: f(*xs))

    @custom.defjvp
    def _(primals: PyTree, tangents: PyTree) -> tuple[PyTree, PyTree]:
        (xs,), (dxs,) = primals, tangents
        ys, dys = effx.jvp(lambda *a: f(*a), tuple(xs), tuple(dxs))
        return ys, tree.map(lambda d: d * factor, dys)

    return lambda *xs: custom(xs)


def with_vjp(f: Function, factor: float = 1.0) -> Function:
    """Returns a function of one tuple with a rule for reverse mode: its derivative, scaled."""
    custom = effx.custom_vjp(lambda xs: f(*xs))

    def forward(xs: PyTree) -> tuple[PyTree, PyTree]:
        return f(*xs), xs

    def backward(xs: PyTree, cts: PyTree) -> tuple[PyTree]:
        cotangents = effx.vjp(lambda *a: f(*a), *xs)[1](cts)
        return (tuple([c * factor for c in cotangents]),)

    custom.defvjp(forward, backward)
    return lambda *xs: custom(xs)


def everywhere(xs: Points) -> tuple[int, ...]:
    """Returns the indices of all arguments."""
    return tuple(range(len(xs)))


@law(AREA, "f with its own derivative as jvp rule = f: value, jvp, grad, vmap, jit", SMALL)
def true_forward_rules_change_nothing(f: Function, xs: Points) -> None:
    g, vs = with_jvp(f), directions(xs)
    same(g(*xs), f(*xs))
    same(effx.jvp(g, tuple(xs), vs), effx.jvp(f, tuple(xs), vs))
    same(
        effx.grad(weighted_sum_loss(g), everywhere(xs))(*xs),
        effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs),
    )
    same(effx.vmap(g)(*make_batch(xs)), loop_over_batch(f, make_batch(xs)))
    same(effx.jit(effx.grad(weighted_sum_loss(g)))(*xs), effx.grad(weighted_sum_loss(f))(*xs))


@law(AREA, "f with its own derivative as vjp rule = f: value, grad, vmap, jit", SMALL)
def true_backward_rules_change_nothing(f: Function, xs: Points) -> None:
    g = with_vjp(f)
    same(g(*xs), f(*xs))
    want = effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs)
    same(effx.grad(weighted_sum_loss(g), everywhere(xs))(*xs), want)
    same(effx.jit(effx.grad(weighted_sum_loss(g), everywhere(xs)))(*xs), want)
    bs = make_batch(xs)
    same(
        effx.vmap(effx.grad(weighted_sum_loss(g)))(*bs), loop_over_batch(effx.grad(weighted_sum_loss(f)), bs)
    )
    same(
        effx.grad(weighted_sum_loss(effx.vmap(g)))(*bs),
        effx.grad(weighted_sum_loss(effx.vmap(lambda *a: f(*a))))(*bs),
    )


@law(AREA, "a jvp rule of 2 Df gives 2 Df, forward, backward, and under jit, vmap and checkpoint", SMALL)
def forward_rules_are_used(f: Function, xs: Points) -> None:
    g, vs = with_jvp(f, 2.0), directions(xs)
    same(g(*xs), f(*xs))
    same(tangent(g, xs, vs), tree.map(lambda d: 2 * d, tangent(f, xs, vs)))
    want = tuple([2 * d for d in effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs)])
    for around in (lambda h: h, effx.jit, effx.checkpoint):
        same(effx.grad(weighted_sum_loss(around(g)), everywhere(xs))(*xs), want)
    got = effx.vmap(effx.grad(weighted_sum_loss(g), everywhere(xs)))(*[x[None] for x in xs])
    same(tree.map(lambda y: y[0], got), want)


@law(AREA, "a vjp rule of 2 Df^T gives 2 grad f, under jit, vmap, scan and checkpoint", SMALL)
def backward_rules_are_used(f: Function, xs: Points) -> None:
    g = with_vjp(f, 2.0)
    want = tuple([2 * d for d in effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs)])
    for around in (lambda h: h, effx.jit, effx.checkpoint):
        same(effx.grad(weighted_sum_loss(around(g)), everywhere(xs))(*xs), want)

    def differentiate_in_scan(*ys: Array) -> Array:
        return lax.scan(lambda c, _: (c, weighted_sum_loss(g)(*ys)), None, None, length=1)[1].sum()

    same(effx.grad(differentiate_in_scan, everywhere(xs))(*xs), want)


@law(AREA, "custom_gradient of (f, pull-back of f) = f", SMALL)
def custom_gradients(f: Function, xs: Points) -> None:
    g: Function = effx.custom_gradient(lambda *ys: effx.vjp(weighted_sum_loss(f), *ys))
    same(
        effx.grad(lambda *ys: g(*ys), everywhere(xs))(*xs),
        effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs),
    )


@law(AREA, "custom_vmap with the loop as rule = f, and its rule is what vmap uses", SMALL)
def custom_batches(f: Function, xs: Points) -> None:
    sequential = effx.custom_batching.sequential_vmap(lambda *ys: f(*ys))
    bs = make_batch(xs)
    same(effx.vmap(lambda *ys: sequential(*ys))(*bs), loop_over_batch(f, bs))
    tripled = effx.custom_batching.custom_vmap(lambda x: enp.sin(x))

    @tripled.def_vmap
    def _(size: int, which: PyTree, x: Array) -> tuple[Array, bool]:
        return 3.0 * enp.sin(x), True

    same(effx.vmap(lambda x: tripled(x))(bs[0]), 3.0 * enp.sin(bs[0]))
    same(tripled(xs[0]), enp.sin(xs[0]))


@law(AREA, "checkpoint f = f, in value, gradient and tangent", SMOOTH)
def checkpoint_changes_nothing(f: Function, xs: Points) -> None:
    g = effx.checkpoint(lambda *ys: f(*ys))
    same(g(*xs), f(*xs))
    same(
        effx.grad(weighted_sum_loss(g), everywhere(xs))(*xs),
        effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs),
    )
    same(effx.jvp(g, tuple(xs), directions(xs)), effx.jvp(f, tuple(xs), directions(xs)))


@law(AREA, "checkpoint with any policy = f: what is saved changes no gradient", SMALL)
def policies_change_nothing(f: Function, xs: Points) -> None:
    want = effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs)
    for policy in (
        checkpoint_policies.everything_saveable,
        checkpoint_policies.nothing_saveable,
        checkpoint_policies.dots_saveable,
    ):
        same(
            effx.grad(weighted_sum_loss(effx.checkpoint(lambda *ys: f(*ys), policy=policy)), everywhere(xs))(
                *xs
            ),
            want,
        )


@law(AREA, "checkpoint(checkpoint f) = f, and grad(checkpoint(grad)) too", SMALL)
def checkpoints_nest(f: Function, xs: Points) -> None:
    g = effx.checkpoint(effx.checkpoint(lambda *ys: f(*ys)))
    same(
        effx.grad(weighted_sum_loss(g), everywhere(xs))(*xs),
        effx.grad(weighted_sum_loss(f), everywhere(xs))(*xs),
    )
    vs = directions(xs)
    inner: Function = lambda *ys: effx.jvp(weighted_sum_loss(f), ys, vs)[1]  # noqa: E731 - a slope
    same(effx.grad(effx.checkpoint(inner), everywhere(xs))(*xs), effx.grad(inner, everywhere(xs))(*xs), 1e-8)


@law(AREA, "vmap(checkpoint f) = checkpoint(vmap f) = vmap f", SMALL)
def checkpoints_batch(f: Function, xs: Points) -> None:
    bs = make_batch(xs)
    want = effx.grad(weighted_sum_loss(effx.vmap(lambda *ys: f(*ys))), everywhere(xs))(*bs)
    same(
        effx.grad(weighted_sum_loss(effx.vmap(effx.checkpoint(lambda *ys: f(*ys)))), everywhere(xs))(*bs),
        want,
    )
    same(
        effx.grad(weighted_sum_loss(effx.checkpoint(effx.vmap(lambda *ys: f(*ys)))), everywhere(xs))(*bs),
        want,
    )


@law(AREA, "stop_gradient f = f, and its derivative is 0", SMOOTH)
def stopped_gradients(f: Function, xs: Points) -> None:
    stopped: Function = lambda *ys: tree.map(lax.stop_gradient, f(*ys))  # noqa: E731 - a composition
    same(stopped(*xs), f(*xs), 0.0)
    same(tangent(stopped, xs, directions(xs)), tree.map(enp.zeros_like, f(*xs)), 0.0)
    straight: Function = lambda *ys: tree.map(lambda y: y + lax.stop_gradient(enp.floor(y) - y), f(*ys))  # noqa: E731
    same(tangent(straight, xs, directions(xs)), tangent(f, xs, directions(xs)))


@law(AREA, "named_scope, named_call and closure_convert change nothing", SMALL)
def names_change_nothing(f: Function, xs: Points) -> None:
    want = effx.grad(weighted_sum_loss(f))(*xs)
    named = effx.named_call(lambda *ys: f(*ys), name="law")
    same(effx.grad(weighted_sum_loss(named))(*xs), want)
    closed, constants = effx.closure_convert(lambda y: weighted_sum_loss(f)(y, *xs[1:]), xs[0])
    same(effx.grad(lambda y: closed(y, *constants))(xs[0]), want)


@law(AREA, "linear solve: A x = b, and its derivative is that of inv(A) b", FLAT)
def solves_differentiate(f: Function, xs: Points) -> None:
    scale = 2.0 + enp.tanh(enp.concatenate([y.reshape(-1) for y in f(*xs)])[:3])
    if scale.type.size == 0:
        return
    b = enp.linspace(0.5, 1.5, scale.type.size)

    def solved(a: Array, b: Array) -> Array:
        result: Array = lax.custom_linear_solve(
            lambda x: a * x,
            b,
            lambda matvec, b: b / lax.stop_gradient(a),
            transpose_solve=lambda vecmat, b: b / a,
        )
        return result

    same(scale * solved(scale, b), b)
    same(
        effx.grad(weighted_sum_loss(solved), (0, 1))(scale, b),
        effx.grad(weighted_sum_loss(lambda a, b: b / a), (0, 1))(scale, b),
    )


@law(AREA, "root: g(x*, a) = 0, and dx*/da = -(dg/dx)^-1 dg/da", FLAT)
def roots_differentiate(f: Function, xs: Points) -> None:
    a = 2.0 + enp.tanh(enp.concatenate([y.reshape(-1) for y in f(*xs)])[:3])

    def root(a: Array) -> Array:
        result: Array = lax.custom_root(
            lambda x: x * x - a,
            enp.ones_like(a),
            lambda g, x: enp.sqrt(lax.stop_gradient(a)),
            lambda g, y: y / g(enp.ones_like(y)),
        )
        return result

    same(root(a) ** 2, a)
    same(effx.grad(weighted_sum_loss(root))(a), effx.grad(weighted_sum_loss(enp.sqrt))(a))
