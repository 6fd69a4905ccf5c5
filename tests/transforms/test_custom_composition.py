"""A rule that is wrong on purpose shows under every composition of transformations that it is the one used.

Never: gives a rule that agrees with the function's own derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import custom_jvp, custom_vjp, grad, jit, jvp, lax, vmap
from effx.ir.checker import check_program

XS = np.array([0.3, 1.0, 2.0], np.float32)
Fun = Callable[..., Any]


def close(got: Any, expected: Any, digits: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=digits, atol=digits)


def forward() -> Fun:
    """sin with twice its derivative, by a rule for forward mode."""

    @custom_jvp
    def f(x: Any) -> Any:
        return enp.sin(x)

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return f(x), 2.0 * enp.cos(x) * dx

    return f


def reverse() -> Fun:
    """sin with twice its derivative, by rules for reverse mode."""

    @custom_vjp
    def f(x: Any) -> Any:
        return enp.sin(x)

    f.defvjp(lambda x: (f(x), enp.cos(x)), lambda c, ct: (2.0 * c * ct,))
    return f


def both() -> Fun:
    """sin with five times its derivative in forward mode, with twice its derivative in reverse mode."""
    inner: custom_jvp[[Any], Any] = custom_jvp(enp.sin)
    inner.defjvp(lambda p, t: (inner(*p), 5.0 * enp.cos(p[0]) * t[0]))
    f = custom_vjp(inner)
    f.defvjp(lambda x: (f(x), enp.cos(x)), lambda c, ct: (2.0 * c * ct,))
    return f


def gradient() -> Fun:
    """sin with twice its derivative, by custom_gradient."""

    @effx.custom_gradient
    def f(x: Any) -> Any:
        return enp.sin(x), lambda ct: 2.0 * enp.cos(x) * ct

    return f


KINDS: dict[str, Callable[[], Fun]] = {"jvp": forward, "vjp": reverse, "both": both, "gradient": gradient}
D = 2.0 * np.cos(XS)


def turns(x: Any, factor: float = 2.0) -> Any:
    """The derivative of sin(sin(sin(x))) where sin's is `factor` times too large."""
    slope = 1.0
    for _ in range(3):
        slope, x = slope * factor * np.cos(x), np.sin(x)
    return slope


def through_scan(f: Fun) -> Fun:
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]


def through_while(f: Fun) -> Fun:
    return lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]


REVERSE: dict[str, tuple[Callable[[Fun], Any], Any]] = {
    "grad": (lambda f: [grad(f)(x) for x in XS], D),
    "grad jit": (lambda f: grad(jit(f))(XS[1]), D[1]),
    "jit grad": (lambda f: jit(grad(f))(XS[1]), D[1]),
    "jit grad jit": (lambda f: jit(grad(jit(f)))(XS[1]), D[1]),
    "vmap grad": (lambda f: vmap(grad(f))(XS), D),
    "jit vmap grad": (lambda f: jit(vmap(grad(f)))(XS), D),
    "vmap grad jit": (lambda f: vmap(grad(jit(f)))(XS), D),
    "grad vmap": (lambda f: grad(lambda x: vmap(f)(x).sum())(XS), D),
    "jit grad vmap": (lambda f: jit(grad(lambda x: vmap(f)(x).sum()))(XS), D),
    "grad jit vmap": (lambda f: grad(lambda x: jit(vmap(f))(x).sum())(XS), D),
    "grad vmap jit": (lambda f: grad(lambda x: vmap(jit(f))(x).sum())(XS), D),
    "grad vmap vmap": (lambda f: grad(lambda x: vmap(vmap(f))(x).sum())(XS[:, None]), D[:, None]),
    "vmap grad vmap": (lambda f: vmap(grad(lambda x: vmap(f)(x).sum()))(XS[:, None]), D[:, None]),
    "grad vmap, one for all": (lambda f: grad(lambda x: vmap(lambda y: f(x) * y)(XS).sum())(1.0), 3.3 * D[1]),
    "grad scan": (lambda f: grad(through_scan(f))(1.0), turns(1.0)),
    "grad jit scan": (lambda f: grad(jit(through_scan(f)))(1.0), turns(1.0)),
    "vmap grad scan": (lambda f: vmap(grad(through_scan(f)))(XS), turns(XS)),
    "grad vmap scan": (lambda f: grad(lambda x: vmap(through_scan(f))(x).sum())(XS), turns(XS)),
    "grad scan over slices": (
        lambda f: grad(lambda x: lax.scan(lambda c, a: (c + f(a), None), 0.0, x)[0])(XS),
        D,
    ),
    "grad cond": (lambda f: grad(lambda x: lax.cond(x > 0, f, enp.cos, x))(1.0), D[1]),
    "vmap grad cond": (
        lambda f: vmap(grad(lambda x: lax.cond(x > 0.5, f, enp.cos, x)))(XS),
        [-np.sin(XS[0]), D[1], D[2]],
    ),
    "grad checkpoint": (lambda f: grad(effx.checkpoint(lambda x: 3.0 * f(x)))(1.0), 3.0 * D[1]),
    "grad checkpoint scan": (lambda f: grad(effx.checkpoint(through_scan(f)))(1.0), turns(1.0)),
    "jacrev": (lambda f: effx.jacrev(f)(1.0), D[1]),
    "vjp": (lambda f: effx.vjp(f, 1.0)[1](3.0)[0], 3.0 * D[1]),
    "vmap of vjp's function": (lambda f: vmap(effx.vjp(f, 1.0)[1])(XS)[0], XS * D[1]),
    "grad grad": (lambda f: grad(grad(f))(1.0), -2.0 * np.sin(1.0)),
    "grad grad jit": (lambda f: grad(grad(jit(f)))(1.0), -2.0 * np.sin(1.0)),
    "grad jit grad": (lambda f: grad(jit(grad(f)))(1.0), -2.0 * np.sin(1.0)),
    "vmap grad grad": (lambda f: vmap(grad(grad(f)))(XS), -2.0 * np.sin(XS)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REVERSE)
def test_reverse_mode_uses_the_rule(name: str, kind: str) -> None:
    """Twice the derivative comes out, wherever reverse mode meets the function."""
    function, expected = REVERSE[name]
    close(function(KINDS[kind]()), expected)


FORWARD: dict[str, tuple[Callable[[Fun], Any], Callable[[float], Any]]] = {
    "jvp": (lambda f: jvp(f, (1.0,), (1.0,))[1], lambda k: k * np.cos(1.0)),
    "jvp jit": (lambda f: jvp(jit(f), (1.0,), (1.0,))[1], lambda k: k * np.cos(1.0)),
    "jit jvp": (lambda f: jit(lambda x: jvp(f, (x,), (1.0,))[1])(1.0), lambda k: k * np.cos(1.0)),
    "vmap jvp": (lambda f: vmap(lambda x: jvp(f, (x,), (1.0,))[1])(XS), lambda k: k * np.cos(XS)),
    "jvp vmap": (lambda f: jvp(vmap(f), (XS,), (XS,))[1], lambda k: k * np.cos(XS) * XS),
    "jvp jit vmap": (lambda f: jvp(jit(vmap(f)), (XS,), (XS,))[1], lambda k: k * np.cos(XS) * XS),
    "jvp scan": (lambda f: jvp(through_scan(f), (1.0,), (1.0,))[1], lambda k: turns(1.0, k)),
    "jvp while": (
        lambda f: jvp(through_while(f), (1.0,), (1.0,))[1],
        lambda k: turns(1.0, k),
    ),
    "jvp cond": (
        lambda f: jvp(lambda x: lax.cond(x > 0, f, enp.cos, x), (1.0,), (1.0,))[1],
        lambda k: k * np.cos(1.0),
    ),
    "jacfwd": (lambda f: effx.jacfwd(vmap(f))(XS), lambda k: np.diag(k * np.cos(XS))),
    "linearize": (lambda f: effx.linearize(f, 1.0)[1](1.0), lambda k: k * np.cos(1.0)),
    "linearize jit": (lambda f: effx.linearize(jit(f), 1.0)[1](1.0), lambda k: k * np.cos(1.0)),
    "jvp jvp": (
        lambda f: jvp(lambda x: jvp(f, (x,), (1.0,))[1], (1.0,), (1.0,))[1],
        lambda k: -k * np.sin(1.0),
    ),
}


@pytest.mark.parametrize(("kind", "factor"), [("jvp", 2.0), ("both", 5.0)])
@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_uses_its_own_rule(name: str, kind: str, factor: float) -> None:
    """A function with rules for both modes takes the rule of each: five times the derivative forward."""
    function, expected = FORWARD[name]
    close(function(KINDS[kind]()), expected(factor))


def test_order_of_the_two_kinds_does_not_matter() -> None:
    """custom_jvp around custom_vjp has both rules too, also when they are defined afterwards."""
    sine: Callable[[Any], effx.Array] = enp.sin
    inner = custom_vjp(sine)
    f = custom_jvp(inner)
    inner.defvjp(lambda x: (enp.sin(x), None), lambda _, ct: (7.0 * ct,))
    f.defjvp(lambda p, t: (f(*p), 5.0 * t[0]))
    close(grad(f)(1.0), 7.0)
    close(jvp(f, (1.0,), (1.0,))[1], 5.0)


def test_hessian() -> None:
    """Forward over reverse goes through a rule for forward mode twice."""
    close(effx.hessian(forward())(1.0), -2.0 * np.sin(1.0))
    close(effx.hessian(lambda x: forward()(x).sum())(XS), np.diag(-2.0 * np.sin(XS)))


def test_hessian_of_rules_that_do_not_call_the_function() -> None:
    """The rules for reverse mode are differentiated forward themselves."""
    f = custom_vjp(enp.sin)
    f.defvjp(lambda x: (enp.sin(x), x), lambda x, ct: (2.0 * enp.cos(x) * ct,))
    close(effx.hessian(f)(1.0), -2.0 * np.sin(1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_the_value_is_the_functions_own(kind: str) -> None:
    """Without differentiation, a function with rules is the function."""
    f = KINDS[kind]()
    close(f(XS[1]), np.sin(XS[1]))
    close(jit(f)(XS[1]), np.sin(XS[1]))
    close(vmap(f)(XS), np.sin(XS))
    close(jit(vmap(f))(XS), np.sin(XS))


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_the_function_without_rules(kind: str) -> None:
    """With the factor taken out, what comes out is what no rules would give, in a larger function."""

    def loss(f: Fun, scale: float) -> Fun:
        def inner(x: Any, w: Any) -> Any:
            return enp.sum((f(w @ x) * scale) ** 2)

        return inner

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=3).astype("f4"), rng.normal(size=(4, 3)).astype("f4")
    mine = grad(jit(loss(KINDS[kind](), 1.0)), (0, 1))(x, w)
    plain = grad(loss(enp.sin, 1.0), (0, 1))(x, w)
    close(mine[0], 2.0 * plain[0], 1e-4)
    close(mine[1], 2.0 * plain[1], 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_programs_pass_the_checker(kind: str) -> None:
    """What handlers make of a function with rules is a well-formed program."""
    f = KINDS[kind]()
    for g in (f, grad(f), grad(grad(f)), grad(through_scan(f)), effx.checkpoint(f)):
        check_program(effx.make_jaxpr(g)(1.0))
    for g in (vmap(f), vmap(grad(f)), grad(lambda x: vmap(f)(x).sum())):
        check_program(effx.make_jaxpr(g)(XS))


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_rules_with_collectives(rule: str) -> None:
    """A rule may sum along an axis that vmap around it binds."""
    f: Any
    if rule == "jvp":
        f = custom_jvp(lambda x: lax.psum(x, "i"))
        f.defjvp(lambda p, t: (f(*p), 2.0 * lax.psum(t[0], "i")))
    else:
        f = custom_vjp(lambda x: lax.psum(x, "i"))
        f.defvjp(lambda x: (f(x), None), lambda _, ct: (2.0 * lax.psum(ct, "i"),))
    plain = vmap(grad(lambda x: lax.psum(x, "i")), axis_name="i")(XS)
    close(vmap(grad(f), axis_name="i")(XS), 2.0 * np.asarray(plain))
    close(vmap(jit(grad(jit(f))), axis_name="i")(XS), 2.0 * np.asarray(plain))
    close(vmap(f, axis_name="i", out_axes=None)(XS), XS.sum())


def test_a_batched_value_meets_a_shared_one() -> None:
    """The cotangent of an argument that all batch elements share is the sum; a batched one has one for each."""
    f = custom_vjp(lambda x, w: x * w)
    f.defvjp(lambda x, w: (x * w, (x, w)), lambda r, ct: (2.0 * ct * r[1], 3.0 * ct * r[0]))
    for g in (f, jit(f)):
        dx, dw = grad(lambda x, w: vmap(g, (0, None))(x, w).sum(), (0, 1))(XS, 4.0)  # noqa: B023
        close(dx, np.full(3, 8.0))
        close(dw, 3.0 * XS.sum())


def test_results_of_another_batching_than_the_functions() -> None:
    """A tangent may differ between batch elements where the result does not."""
    f: Any = custom_jvp(lambda x: enp.zeros(()))
    f.defjvp(lambda p, t: (f(*p), p[0] * t[0]))
    close(jvp(vmap(f), (XS,), (np.ones_like(XS),))[1], XS)
    close(grad(lambda x: jit(vmap(f))(x).sum())(XS), XS)


def keep_statistics() -> Fun:
    """Doubles x; the "cotangent" of the statistics are new ones, as layers with 8-bit products have it."""

    @custom_vjp
    def f(x: Any, statistics: Any) -> Any:
        return 2 * x, statistics

    f.defvjp(lambda x, s: (f(x, s), (x, s)), lambda r, ct: (ct[0], r[1] + abs(r[0])))
    return f


def without_cotangents(takes: int) -> Fun:
    """Its first argument, with a rule that gives None."""

    @custom_vjp
    def g(*xs: Any) -> Any:
        return xs[0]

    g.defvjp(lambda *xs: (g(*xs), None), lambda _, ct: (None,) * takes)
    return g


AFTER: dict[str, Fun] = {
    "at once": lambda f, x, s: without_cotangents(2)(*f(x, s)),
    "after operations": lambda f, x, s: without_cotangents(1)(enp.sin(f(x, s)[0]) * 3) + x,
    "in jit": lambda f, x, s: without_cotangents(1)(jit(lambda x: f(x, s)[0])(x)) + x,
    "in a branch": lambda f, x, s: without_cotangents(1)(
        lax.cond(x > 0, lambda: f(x, s)[0], lambda: f(x, s)[0] * 3)
    ),
    "twice": lambda f, x, s: without_cotangents(1)(f(f(x, 0.0)[0] / 2, s)[0]),
    "beside others": lambda f, x, s: (lambda pair: without_cotangents(1)(pair[0]) + 0 * pair[1])(
        jit(lambda x: (f(x, s)[0], x * x))(x)
    ),
    "beside others of its own": lambda f, x, s: (lambda pair: without_cotangents(1)(pair[0]) + pair[1] * 0)(
        jit(lambda s: (f(x, s)[0], 2 * s))(s)
    ),
    "in checkpoint": lambda f, x, s: without_cotangents(1)(effx.checkpoint(lambda x: f(x, s)[0])(x)),
}


@pytest.mark.parametrize("name", AFTER)
def test_rules_run_before_rules_that_give_none(name: str) -> None:
    """As in JAX: a backward rule runs where another gave None to its results, though all its cotangents are zero."""
    f = keep_statistics()

    def loss(x: Any, s: Any) -> Any:
        return AFTER[name](f, x, s)

    for gradient in (grad(loss, argnums=1), jit(grad(loss, argnums=1)), grad(jit(loss), argnums=1)):
        close(gradient(1.5, 5.0), 6.5)
    close(vmap(grad(loss, argnums=1))(enp.array([1.5, 2.5]), enp.array([5.0, 6.0])), [6.5, 8.5])


def test_rules_of_what_is_not_used_do_not_run() -> None:
    f = keep_statistics()

    def loss(x: Any, s: Any) -> Any:
        f(x, s)
        return x + lax.stop_gradient(f(x, s)[0])

    close(grad(loss, argnums=1)(1.5, 5.0), 0.0)


def test_keys_as_residuals_of_some_branches() -> None:
    """The other branches give a key of zeros in its place."""

    @effx.custom_vjp
    def perturb(x: Any, key: Any) -> Any:
        return x * effx.random.normal(key)

    perturb.defvjp(
        lambda x, key: (perturb(x, key), (key,)), lambda keys, ct: (ct * effx.random.normal(keys[0]), None)
    )

    def f(index: Any, x: Any, key: Any) -> Any:
        branches: list[Callable[[Any, Any], Any]] = [
            lambda x, key: x * 2.0,
            perturb,
            lambda x, key: perturb(x, effx.random.fold_in(key, 3)) * x,
        ]
        return effx.lax.switch(index, branches, x, key)

    for key in (effx.random.key(7), effx.random.key(7, impl="rbg")):
        noise = [float(effx.random.normal(k)) for k in (key, effx.random.fold_in(key, 3))]
        expected = [2.0, noise[0], 3.0 * noise[1]]
        gradient = effx.grad(f, argnums=1)
        for transformed in (gradient, effx.jit(gradient)):
            np.testing.assert_allclose([transformed(i, 1.5, key) for i in range(3)], expected, rtol=1e-6)
        if key.dtype == effx.random.key(0).dtype:  # a batch of rbg keys draws numbers of its own
            batched = effx.vmap(gradient, (0, None, None))(np.arange(3), 1.5, key)
            np.testing.assert_allclose(batched, expected, rtol=1e-6)
        keys = effx.random.split(key, 2)
        for i in range(3):
            mapped = effx.lax.map(partial(gradient, i, 1.5), keys)
            np.testing.assert_allclose(mapped, [gradient(i, 1.5, k) for k in keys], rtol=1e-6)
