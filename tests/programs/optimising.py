# mypy: disable-error-code="no-any-return,no-untyped-call"
"""Minima by gradients: line search, conjugate gradients, BFGS, least squares, constraints, equations."""

from __future__ import annotations

from collections.abc import Callable

import effx
import effx.numpy as enp
from effx import lax

Objective = Callable[[effx.Array], effx.Array]


def rosenbrock(x: effx.Array) -> effx.Array:
    return enp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def backtracked(f: Objective, x: effx.Array, direction: effx.Array, slope: effx.Array) -> effx.Array:
    """A step by halving until the function falls enough (Armijo, 1966)."""
    value = f(x)

    def too_long(t: effx.Array) -> effx.Array:
        return (f(x + t * direction) > value + 1e-4 * t * enp.dot(slope, direction)) & (t > 1e-8)

    return lax.while_loop(too_long, lambda t: 0.5 * t, enp.array(1.0))


def bfgs(f: Objective, x: effx.Array, steps: int) -> tuple[effx.Array, effx.Array]:
    """The Broyden-Fletcher-Goldfarb-Shanno method; returns the end and the values on the way."""

    def step(
        state: tuple[effx.Array, effx.Array, effx.Array], _: None
    ) -> tuple[tuple[effx.Array, effx.Array, effx.Array], effx.Array]:
        x, slope, inverse = state
        direction = -inverse @ slope
        s = backtracked(f, x, direction, slope) * direction
        new = effx.grad(f)(x + s)
        y = new - slope
        curvature = enp.dot(s, y)
        rho = enp.where(curvature > 1e-10, 1 / enp.where(curvature > 1e-10, curvature, 1.0), 0.0)
        left = enp.eye(x.size) - rho * enp.outer(s, y)
        updated = left @ inverse @ left.T + rho * enp.outer(s, s)
        return (x + s, new, enp.where(rho > 0, updated, inverse)), f(x)

    (x, _, _), values = lax.scan(step, (x, effx.grad(f)(x), enp.eye(x.size)), None, length=steps)
    return x, values


def conjugate(
    apply: Callable[[effx.Array], effx.Array], b: effx.Array, tolerance: float
) -> tuple[effx.Array, effx.Array]:
    """Conjugate gradients; returns the solution and the number of steps."""

    def unsolved(state: tuple[effx.Array, ...]) -> effx.Array:
        return (enp.vdot(state[1], state[1]) > tolerance**2) & (state[3] < 50)

    def step(state: tuple[effx.Array, ...]) -> tuple[effx.Array, ...]:
        x, r, p, count = state
        image, square = apply(p), enp.vdot(r, r)
        alpha = square / enp.vdot(p, image)
        x, r = x + alpha * p, r - alpha * image
        return x, r, r + enp.vdot(r, r) / square * p, count + 1

    x, _, _, count = lax.while_loop(unsolved, step, (enp.zeros_like(b), b, b, enp.array(0)))
    return x, count


def decay(p: effx.Array, t: effx.Array) -> effx.Array:
    return p[0] * enp.exp(-p[1] * t) + p[2]


def fitted(residual: Objective, p: effx.Array, steps: int) -> tuple[effx.Array, effx.Array]:
    """Levenberg's and Marquardt's least squares with a damping that follows success."""

    def step(
        state: tuple[effx.Array, effx.Array], _: None
    ) -> tuple[tuple[effx.Array, effx.Array], effx.Array]:
        p, damping = state
        r, j = residual(p), effx.jacfwd(residual)(p)
        trial = p - enp.linalg.solve(j.T @ j + damping * enp.eye(p.size), j.T @ r)
        better = enp.sum(residual(trial) ** 2) < enp.sum(r**2)
        p = enp.where(better, trial, p)
        return (p, enp.where(better, 0.3 * damping, 4.0 * damping)), enp.sum(r**2)

    (p, _), values = lax.scan(step, (p, enp.array(1.0)), None, length=steps)
    return p, values


def results() -> dict[str, object]:
    x = enp.array([-1.2, 1.0, 0.8])
    found: dict[str, object] = {}
    found["slope"] = rosenbrock(x), effx.grad(rosenbrock)(x), effx.hessian(rosenbrock)(x)
    found["line"] = backtracked(rosenbrock, x, -effx.grad(rosenbrock)(x), effx.grad(rosenbrock)(x))
    end, values = effx.jit(lambda v: bfgs(rosenbrock, v, 45))(x)
    found["bfgs"] = values[:12], enp.round(end, 2)
    found["newton"] = lax.fori_loop(
        0,
        10,
        lambda _, v: v - enp.linalg.solve(effx.hessian(rosenbrock)(v), effx.grad(rosenbrock)(v)),
        enp.array([1.2, 1.3, 1.6]),
    )

    def curvature(v: effx.Array) -> effx.Array:
        return effx.jvp(effx.grad(rosenbrock), (enp.ones(3),), (v,))[1]

    found["conjugate"] = conjugate(curvature, x, 1e-2)[0]
    times = enp.linspace(0.0, 4.0, 15)
    measured = decay(enp.array([2.0, 0.9, 0.3]), times) + 0.02 * enp.sin(17 * times)
    found["decay"] = effx.jit(lambda p: fitted(lambda q: decay(q, times) - measured, p, 15))(
        enp.array([1.0, 0.3, 0.0])
    )

    # The nearest point of a simplex, by projected steps.
    def project(v: effx.Array) -> effx.Array:
        falling = -enp.sort(-v)
        excess = (enp.cumsum(falling) - 1) / enp.arange(1, v.size + 1)
        last = enp.sum(falling > excess) - 1
        return enp.maximum(v - excess[last], 0.0)

    goal = enp.array([0.9, 0.5, -0.2])
    found["simplex"] = (
        lax.fori_loop(0, 30, lambda _, v: project(v - 0.2 * 2 * (v - goal)), enp.full(3, 1 / 3)),
        effx.jacrev(project)(goal),
    )

    # How the best x moves with a parameter, by the implicit function theorem.
    def best(a: effx.Array) -> effx.Array:
        def slope(v: effx.Array) -> effx.Array:
            return enp.sin(v) + v - a

        return lax.custom_root(
            slope,
            a / 2,
            lambda f, v: lax.fori_loop(0, 12, lambda _, u: u - f(u) / effx.grad(f)(u), v),
            lambda g, y: y / g(enp.ones_like(y)),
        )

    found["sensitivity"] = effx.vmap(effx.value_and_grad(best))(enp.array([0.5, 1.0, 2.0]))
    return found
