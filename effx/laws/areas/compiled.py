"""Laws of jit: compiled or not, nested or not, the function is the same."""

import numpy as np

import effx
from effx import tree
from effx.array import Array
from effx.handlers.oracle import evaluate
from effx.laws.areas.calculus import with_stack
from effx.laws.areas.subjects import (
    COMPILED,
    FLAT,
    SMALL,
    Function,
    Points,
    compose_smoothly,
    weighted_sum_loss,
)
from effx.laws.comparing import comparable_data, directions, same
from effx.laws.registry import law
from effx.laws.stacks import Stack

AREA = "jit"


@law(AREA, "jit f(x) = f(x) on NumPy: XLA agrees with the reference", COMPILED, compiles=True, share=0.3)
def compiled_is_interpreted(f: Function, xs: Points) -> None:
    same(effx.jit(lambda *ys: f(*ys))(*xs), evaluate(f, *xs))


@law(AREA, "jit f(x) = f(x), one operation after the other on XLA", COMPILED, compiles=True)
def compiled_is_eager(f: Function, xs: Points) -> None:
    same(effx.jit(lambda *ys: f(*ys))(*xs), f(*xs))


@law(AREA, "jit(jit f) = jit f", COMPILED, compiles=True)
def jit_is_idempotent(f: Function, xs: Points) -> None:
    once = effx.jit(lambda *ys: f(*ys))
    same(effx.jit(lambda *ys: once(*ys))(*xs), once(*xs))


@law(
    AREA,
    "jit f(x), again: the second call, which takes the fast path, gives the same bits",
    COMPILED,
    compiles=True,
)
def calls_repeat(f: Function, xs: Points) -> None:
    compiled = effx.jit(lambda *ys: f(*ys))
    want = compiled(*xs)
    for _ in range(2):
        same(compiled(*xs), want, 0.0)
    same(compiled(*directions(xs)), evaluate(f, *directions(xs)))


@law(AREA, "jit f on NumPy arrays = jit f on arrays", COMPILED, compiles=True)
def numpy_arguments_are_arrays(f: Function, xs: Points) -> None:
    compiled = effx.jit(lambda *ys: f(*ys))
    same(compiled(*[np.asarray(x) for x in xs]), compiled(*xs), 0.0)


@law(AREA, "jit(g . f) = jit g . jit f", SMALL)
def jit_composes(f: Function, xs: Points) -> None:
    composed = effx.jit(lambda *ys: compose_smoothly(f(*ys)))
    same(composed(*xs), effx.jit(compose_smoothly)(effx.jit(lambda *ys: f(*ys))(*xs)))


@law(AREA, "jit g(k, x) with k static = jit(x -> g(k, x))(x), for pytrees and keywords too", FLAT)
def static_arguments_are_partial_application(f: Function, xs: Points) -> None:
    def g(k: int, point: dict[str, Array], *, shift: Array) -> object:
        return tree.map(lambda y: y * k + shift.sum(), f(*point.values()))

    point = {f"x{i}": x for i, x in enumerate(xs)}
    for k in (1, 3):
        got = effx.jit(g, static_argnums=0)(k, point, shift=xs[0])
        same(got, effx.jit(lambda p, s, k=k: g(k, p, shift=s))(point, xs[0]))


@law(AREA, "with jit switched off: jit f(x) = f(x)", SMALL)
def switched_off_is_the_same(f: Function, xs: Points) -> None:
    want = f(*xs)
    with effx.disable_jit():
        same(effx.jit(lambda *ys: f(*ys))(*xs), want)


@law(AREA, "jit(grad f) = grad(jit f) = grad f", SMALL)
def jit_and_grad_commute(f: Function, xs: Points) -> None:
    indices = tuple(range(len(xs)))
    want = effx.grad(weighted_sum_loss(f), indices)(*xs)
    same(effx.jit(effx.grad(weighted_sum_loss(f), indices))(*xs), want)
    same(effx.grad(effx.jit(weighted_sum_loss(f)), indices)(*xs), want)


@law(AREA, "jit(jvp f), on XLA = jvp f on NumPy", COMPILED, compiles=True)
def compiled_tangents(f: Function, xs: Points) -> None:
    vs = directions(xs)
    got = effx.jit(lambda *ys: effx.jvp(f, ys, vs))(*xs)
    same(got, evaluate(lambda *ys: effx.jvp(f, ys, vs), *xs))


@law(AREA, "jit(grad f), on XLA = grad f on NumPy", COMPILED, compiles=True)
def compiled_gradients(f: Function, xs: Points) -> None:
    indices = tuple(range(len(xs)))
    gradient = effx.grad(weighted_sum_loss(f), indices)
    same(effx.jit(gradient)(*xs), evaluate(gradient, *xs))


@law(AREA, "jit(vmap f), on XLA = vmap f on NumPy", COMPILED, compiles=True)
def compiled_batches(f: Function, xs: Points) -> None:
    batches = [np.stack([comparable_data(x), -comparable_data(x)]) for x in xs]
    batched = effx.vmap(lambda *ys: f(*ys))
    same(effx.jit(batched)(*batches), evaluate(batched, *batches))


@law(AREA, "jit(S f) = f for every stack S that changes no value, on XLA", with_stack(), compiles=True)
def compiled_stacks(stack: Stack, f: Function, xs: Points) -> None:
    same(effx.jit(stack(f))(*xs), evaluate(f, *xs))
