# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Derivatives by rules of one's own: stable tails, clipped and implicit gradients, solvers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import effx
import effx.numpy as enp
from effx import lax


@effx.custom_jvp
def softplus(x: effx.Array) -> effx.Array:
    """log(1 + exp(x)), whose own derivative is inf / inf far out."""
    return enp.log(1.0 + enp.exp(x))


@softplus.defjvp
def softplus_jvp(primals: tuple[effx.Array], tangents: tuple[effx.Array]) -> tuple[effx.Array, effx.Array]:
    (x,), (dx,) = primals, tangents
    return softplus(x), (1 - 1 / (1 + enp.exp(x))) * dx


@effx.custom_jvp
def product(x: effx.Array, y: effx.Array) -> effx.Array:
    return enp.sin(x) * y


product.defjvps(lambda dx, out, x, y: enp.cos(x) * dx * y, lambda dy, out, x, y: enp.sin(x) * dy)


@effx.custom_vjp
def clipped(low: float, high: float, x: effx.Array) -> effx.Array:
    """x itself; cotangents are clipped."""
    return x


def clipped_forward(low: float, high: float, x: effx.Array) -> tuple[effx.Array, tuple[float, float]]:
    return x, (low, high)


def clipped_backward(residuals: tuple[float, float], ct: effx.Array) -> tuple[None, None, effx.Array]:
    low, high = residuals
    return None, None, enp.clip(ct, low, high)


clipped.defvjp(clipped_forward, clipped_backward)

Step = Callable[[effx.Array, effx.Array], effx.Array]


@partial(effx.custom_vjp, nondiff_argnums=(0,))
def fixed_point(step: Step, a: effx.Array, guess: effx.Array) -> effx.Array:
    """Where step(a, x) = x."""

    def moving(pair: tuple[effx.Array, effx.Array]) -> effx.Array:
        return enp.max(enp.abs(pair[0] - pair[1])) > 1e-6

    def advance(pair: tuple[effx.Array, effx.Array]) -> tuple[effx.Array, effx.Array]:
        return pair[1], step(a, pair[1])

    return lax.while_loop(moving, advance, (guess, step(a, guess)))[1]


def fixed_point_forward(
    step: Step, a: effx.Array, guess: effx.Array
) -> tuple[effx.Array, tuple[effx.Array, effx.Array]]:
    x = fixed_point(step, a, guess)
    return x, (a, x)


def fixed_point_backward(
    step: Step, residuals: tuple[effx.Array, effx.Array], ct: effx.Array
) -> tuple[effx.Array, effx.Array]:
    # w = ct + w dstep/dx is a fixed point too.
    a, x = residuals
    pull_a = effx.vjp(lambda a: step(a, x), a)[1]
    pull_x = effx.vjp(lambda x: step(a, x), x)[1]
    w = fixed_point(lambda c, w: c + pull_x(w)[0], ct, enp.zeros_like(ct))
    return pull_a(w)[0], enp.zeros_like(x)


fixed_point.defvjp(fixed_point_forward, fixed_point_backward)


def babylonian(a: effx.Array, x: effx.Array) -> effx.Array:
    """A step towards the square root of a."""
    return 0.5 * (x + a / x)


def root(a: effx.Array) -> effx.Array:
    return fixed_point(babylonian, a, enp.ones_like(a))


def cube_root(a: effx.Array) -> effx.Array:
    """By Newton's method; the derivative is that of the equation."""

    def newton(f: Callable[[effx.Array], effx.Array], x: effx.Array) -> effx.Array:
        return lax.fori_loop(0, 20, lambda _, x: x - f(x) / effx.grad(f)(x), x)

    def tangent(g: Callable[[effx.Array], effx.Array], y: effx.Array) -> effx.Array:
        return y / g(enp.ones_like(y))

    return lax.custom_root(lambda x: x**3 - a, enp.ones_like(a), newton, tangent)


def solution(matrix: effx.Array, b: effx.Array) -> effx.Array:
    """By some steps of Richardson's iteration; derivatives solve again."""

    def solver(apply: Callable[[effx.Array], effx.Array], b: effx.Array) -> effx.Array:
        return lax.fori_loop(0, 60, lambda _, x: x + 0.3 * (b - apply(x)), enp.zeros_like(b))

    return lax.custom_linear_solve(lambda v: matrix @ v, b, solver, symmetric=True)


def results() -> dict[str, object]:
    x = enp.array([-3.0, 0.0, 2.0, 90.0])
    found: dict[str, object] = {}
    found["far out"] = (
        softplus(enp.array(100.0)),
        effx.grad(softplus)(enp.array(100.0)),
        effx.vmap(effx.grad(softplus))(x),
    )
    found["second"] = effx.vmap(effx.grad(effx.grad(softplus)))(x[:3])
    found["compiled"] = effx.jit(effx.vmap(effx.grad(softplus)))(x)
    found["each argument"] = (
        effx.grad(product, argnums=(0, 1))(enp.array(0.5), enp.array(2.0)),
        effx.jvp(product, (0.5, 2.0), (1.0, 3.0)),
    )
    found["clipped"] = effx.grad(lambda v: enp.sum(clipped(-1.0, 1.0, v) ** 3))(x[:3])
    found["clipped in a batch"] = effx.vmap(effx.grad(lambda v: clipped(-0.5, 0.5, enp.sin(4.0 * v))))(x)

    a = enp.array([2.0, 9.0])
    found["fixed point"] = root(a), effx.jacrev(root)(a), effx.jit(effx.vmap(effx.grad(root)))(a)
    found["cube root"] = (
        cube_root(enp.array(5.0)),
        effx.grad(cube_root)(enp.array(5.0)),
        effx.vmap(effx.grad(effx.grad(cube_root)))(a),
    )

    matrix, b = enp.array([[2.0, 0.5], [0.5, 1.0]]), enp.array([1.0, -2.0])
    found["solved"] = (
        solution(matrix, b),
        effx.jacfwd(solution, 1)(matrix, b),
        effx.jacrev(solution)(matrix, b),
    )
    found["recomputed"] = effx.grad(effx.checkpoint(lambda v: enp.sum(enp.sin(enp.sin(v)) * v)))(x)
    return found
