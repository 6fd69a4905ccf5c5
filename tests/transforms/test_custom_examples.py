"""Worked examples of functions with rules, with the values that documents print or that oracles give.

Never: uses a rule that is wrong on purpose; test_custom_composition does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import (
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    grad,
    jit,
    jvp,
    lax,
    value_and_grad,
    vmap,
)

XS = np.array([-1.0, 0.3, 1.0, 2.0], np.float32)


def close(got: Any, expected: Any, digits: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=digits, atol=digits)


def reference_jvp() -> Any:
    """api-reference-0.2.txt, custom_jvp."""

    @custom_jvp
    def f(x: Any, y: Any) -> Any:
        return enp.sin(x) * y

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        x, y = primals
        x_dot, y_dot = tangents
        primal_out = f(x, y)
        tangent_out = enp.cos(x) * x_dot * y + enp.sin(x) * y_dot
        return primal_out, tangent_out

    return f


def reference_jvps() -> Any:
    """api-reference-0.2.txt, defjvps."""

    @custom_jvp
    def f(x: Any, y: Any) -> Any:
        return enp.sin(x) * y

    f.defjvps(
        lambda x_dot, primal_out, x, y: enp.cos(x) * x_dot * y,
        lambda y_dot, primal_out, x, y: enp.sin(x) * y_dot,
    )
    return f


def reference_vjp() -> Any:
    """api-reference-0.2.txt, custom_vjp."""

    @custom_vjp
    def f(x: Any, y: Any) -> Any:
        return enp.sin(x) * y

    def f_fwd(x: Any, y: Any) -> Any:
        return f(x, y), (enp.cos(x), enp.sin(x), y)

    def f_bwd(res: Any, g: Any) -> Any:
        cos_x, sin_x, y = res
        return (cos_x * g * y, sin_x * g)

    f.defvjp(f_fwd, f_bwd)
    return f


@pytest.mark.parametrize("make", [reference_jvp, reference_jvps, reference_vjp])
@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_api_reference(make: Any, wrap: Any) -> None:
    """The documents' functions have the derivatives that finite differences give."""
    f = wrap(make())
    dx, dy = grad(f, (0, 1))(2.0, 3.0)
    step = 1e-4
    close(dx, 3.0 * (np.sin(2.0 + step) - np.sin(2.0 - step)) / (2 * step))
    close(dy, np.sin(2.0))
    close(vmap(grad(f), (0, None))(XS, 3.0), 3.0 * np.cos(XS))
    if make is not reference_vjp:
        y, dy = jvp(f, (2.0, 3.0), (1.0, 0.5))
        close(y, 3.0 * np.sin(2.0))
        close(dy, 3.0 * np.cos(2.0) + 0.5 * np.sin(2.0))
        close(effx.hessian(f)(2.0, 3.0), -3.0 * np.sin(2.0))


def test_log1pexp() -> None:
    """Where the derivative of the function as written is NaN, the rule's is 1."""

    def plain(x: Any) -> Any:
        return enp.log(1.0 + enp.exp(x))

    log1pexp = custom_jvp(plain)

    @log1pexp.defjvp
    def log1pexp_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return log1pexp(x), (1 - 1 / (1 + enp.exp(x))) * dx

    assert np.isnan(grad(plain)(100.0))
    close(grad(log1pexp)(100.0), 1.0)
    close(jit(grad(log1pexp))(100.0), 1.0)
    close(jit(vmap(grad(log1pexp)))(XS), 1 / (1 + np.exp(-XS)))
    s = 1 / (1 + np.exp(-XS))
    close(vmap(grad(grad(log1pexp)))(XS), s * (1 - s))
    close(effx.hessian(lambda x: log1pexp(x).sum())(XS), np.diag(s * (1 - s)))


def test_clipped_gradients() -> None:
    """The identity, whose backward pass clips; the limits are residuals."""

    @custom_vjp
    def clip_gradient(lo: Any, hi: Any, x: Any) -> Any:
        return x

    clip_gradient.defvjp(
        lambda lo, hi, x: (x, (lo, hi)), lambda res, g: (None, None, enp.clip(g, res[0], res[1]))
    )

    def clip_sin(x: Any) -> Any:
        return enp.sin(clip_gradient(-0.75, 0.75, x))

    t = np.linspace(0, 10, 50).astype("f4")
    for f in (vmap(grad(clip_sin)), jit(vmap(grad(clip_sin))), grad(lambda x: vmap(clip_sin)(x).sum())):
        close(f(t), np.clip(np.cos(t), -0.75, 0.75))


def test_straight_through() -> None:
    """Rounding with the derivative of the identity."""
    round_ste: Any = custom_jvp(lambda x: enp.round(x))
    round_ste.defjvps(lambda dx, y, x: dx)
    close(grad(lambda x: enp.sum(round_ste(x) * x))(XS), np.round(XS) + XS)


def test_fixed_point_by_the_implicit_function_theorem() -> None:
    """x = f(a, x) has dx/da = (1 - df/dx)^-1 df/da, solved by a second fixed point going backwards."""

    @partial(custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f: Any, a: Any, x_guess: Any) -> Any:
        def going(carry: Any) -> Any:
            return enp.abs(carry[0] - carry[1]) > 1e-6

        def step(carry: Any) -> Any:
            return carry[1], f(a, carry[1])

        return lax.while_loop(going, step, (x_guess, f(a, x_guess)))[1]

    def fwd(f: Any, a: Any, x_init: Any) -> Any:
        x_star = fixed_point(f, a, x_init)
        return x_star, (a, x_star)

    def bwd(f: Any, res: Any, x_star_bar: Any) -> Any:
        a, x_star = res

        # The function of the second fixed point takes all it depends on as arguments, so that its own
        # derivative is right.
        def going_back(packed: Any, u: Any) -> Any:
            a, x_star, ct = packed
            return ct + effx.vjp(lambda x: f(a, x), x_star)[1](u)[0]

        w = fixed_point(going_back, (a, x_star, x_star_bar), x_star_bar)
        return effx.vjp(lambda a: f(a, x_star), a)[1](w)[0], enp.zeros_like(x_star)

    fixed_point.defvjp(fwd, bwd)

    def newton_sqrt(a: Any) -> Any:
        return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)

    a = np.array([2.0, 3.0, 5.0], np.float32)
    close([newton_sqrt(v) for v in a], np.sqrt(a))
    close(grad(newton_sqrt)(2.0), 0.5 / np.sqrt(2.0), 1e-4)
    close(jit(vmap(newton_sqrt))(a), np.sqrt(a))
    close(jit(vmap(grad(newton_sqrt)))(a), 0.5 / np.sqrt(a), 1e-4)
    close(grad(lambda a: jit(vmap(newton_sqrt))(a).sum())(a), 0.5 / np.sqrt(a), 1e-4)
    close(grad(grad(newton_sqrt))(2.0), -0.25 * 2.0**-1.5, 1e-3)


def test_closures_are_hoisted_for_a_solver() -> None:
    """closure_convert makes what an objective closes over arguments of the solver's rules."""

    def minimize(objective: Any, x0: Any) -> Any:
        converted, consts = closure_convert(objective, x0)
        return inner(converted, x0, *consts)

    @partial(custom_vjp, nondiff_argnums=(0,))
    def inner(objective: Any, x0: Any, *consts: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            slope, curve = grad(objective), grad(grad(objective))
            return x - slope(x, *consts) / curve(x, *consts), None

        return lax.scan(step, x0, None, length=8)[0]

    def fwd(objective: Any, x0: Any, *consts: Any) -> Any:
        x = inner(objective, x0, *consts)
        return x, (x, consts)

    def bwd(objective: Any, res: Any, ct: Any) -> Any:
        x, consts = res
        curve = grad(grad(objective))(x, *consts)
        _, pull = effx.vjp(lambda *c: grad(objective)(x, *c), *consts)
        return (None, *pull(-ct / curve))

    inner.defvjp(fwd, bwd)

    def solution(a: Any, b: Any) -> Any:
        # d/dx (x^2/2 - a b x) = 0 at x = a b
        return minimize(lambda x: 0.5 * x**2 - a * b * x, 0.0)

    for wrap in (lambda f: f, jit):
        value, (da, db) = value_and_grad(wrap(solution), (0, 1))(3.0, 4.0)
        close((value, da, db), (12.0, 4.0, 3.0))
    close(vmap(grad(solution), (0, None))(XS, 4.0), np.full(4, 4.0))


def test_closure_convert() -> None:
    """Floating values of transformations are hoisted, all others stay; trees and results are unchanged."""
    table = enp.arange(3.0)

    def f(a: Any, n: Any) -> Any:
        converted, consts = closure_convert(lambda d: {"y": d["x"] * a + table.sum() * n}, {"x": 1.0})
        assert [c.dtype for c in consts] == [np.dtype("float32")] * len(consts)
        return converted({"x": 2.0}, *[10.0 * c for c in consts])["y"]

    assert float(f(3.0, 2)) == 12.0  # nothing to hoist outside of a transformation
    assert float(jit(f)(3.0, 2)) == 66.0
    value, slope = value_and_grad(f)(3.0, 2)
    assert (float(value), float(slope)) == (66.0, 20.0)
    converted, consts = closure_convert(enp.sin, effx.ShapeDtypeStruct((2,), np.float32))
    assert consts == []
    close(converted(enp.ones(2)), np.sin(np.ones(2)))


def test_custom_gradient() -> None:
    """transformations-api.txt: value and a function of cotangents; what it closes over are residuals."""

    @custom_gradient
    def f(x: Any) -> Any:
        return x**2, lambda g: (g * x,)

    assert (float(f(3.0)), float(grad(f)(3.0))) == (9.0, 3.0)

    @custom_gradient
    def g(x: Any, y: Any) -> Any:
        return x * y, lambda ct: (y, x)

    close(grad(g, (0, 1))(3.0, 4.0), (4.0, 3.0))
    close(jit(grad(g, (0, 1)))(3.0, 4.0), (4.0, 3.0))
    close(vmap(grad(g), (0, None))(XS, 4.0), np.full(4, 4.0))

    @custom_gradient
    def h(d: Any, n: Any = 2, *, flag: bool = True) -> Any:
        return {"y": d["a"] * n, "n": n}, lambda ct: ({"a": ct["y"] * 10.0 * n}, None)

    with pytest.raises(effx.errors.TransformError):
        h({"a": 1.0}, flag=False)

    @custom_gradient
    def tree(d: Any, n: Any = 2) -> Any:
        return {"y": d["a"] * n, "n": n}, lambda ct: ({"a": ct["y"] * 10.0 * n}, None)

    for wrap in (lambda f: f, jit):
        close(grad(wrap(lambda d: tree(d)["y"]))({"a": 3.0})["a"], 20.0)
        close(grad(wrap(lambda d: tree(n=5, d=d)["y"]))({"a": 3.0})["a"], 50.0)


def test_stopping_gradients() -> None:
    """transformations-api.txt: stop_gradient."""
    close(grad(lambda x: lax.stop_gradient(x) * x)(3.0), 3.0)
    close(grad(lambda x: lax.stop_gradient({"a": x, "n": 3})["a"] * x)(3.0), 3.0)
