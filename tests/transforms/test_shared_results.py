"""Results that all batch elements share, of functions with rules for reverse mode that ask for generic_batching."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ShapeError

X = np.arange(3, dtype=np.float32)


def plain(x: Any, y: Any) -> Any:
    return x * y, enp.sin(y), 3


def with_rules(**options: Any) -> Any:
    f = effx.custom_vjp(plain)

    def bwd(kept: Any, cts: Any) -> Any:
        (x, y), (first, second, _) = kept, cts
        return first * y, first * x + enp.cos(y) * second

    f.defvjp(lambda x, y: (f(x, y), (x, y)), bwd, **options)
    return f


def loss(f: Any, out_axes: Any) -> Any:
    def whole(x: Any, y: Any) -> Any:
        a, b, n = effx.vmap(f, (0, None), out_axes)(x, y)
        return (a * n).sum() + 10.0 * enp.sum(b)

    return whole


WRAPS = [lambda f: f, effx.jit, effx.checkpoint]


@pytest.mark.parametrize("wrap", WRAPS, ids=["plain", "jit", "checkpoint"])
@pytest.mark.parametrize("out_axes", [(0, None, None), 0, (0, 0, None)], ids=str)
def test_gradients_are_the_functions_own(wrap: Any, out_axes: Any) -> None:
    """A shared result counts once where out_axes is None, and for each batch element where it has the axis."""
    f = with_rules(generic_batching=True)
    np.testing.assert_allclose(loss(wrap(f), out_axes)(X, 2.0), loss(plain, out_axes)(X, 2.0), rtol=1e-6)
    want = effx.grad(loss(plain, out_axes), (0, 1))(X, 2.0)
    for gradient in (
        effx.grad(loss(wrap(f), out_axes), (0, 1)),
        effx.jit(effx.grad(loss(f, out_axes), (0, 1))),
    ):
        for a, b in zip(gradient(X, 2.0), want, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)


def test_in_nested_vmaps_and_a_scan() -> None:
    """Shared by one batch and not by the other, and in the steps of a loop."""
    f, y = with_rules(generic_batching=True), np.array([0.5, 2.0], np.float32)

    def nested(g: Any) -> Any:
        def whole(x: Any, y: Any) -> Any:
            inner = effx.vmap(g, (0, None), (0, None, None))
            a, b, _ = effx.vmap(inner, (None, 0), (0, 0, None))(x, y)
            return (a**2).sum() + (b**2).sum()

        return whole

    def scanned(g: Any) -> Any:
        def step(y: Any, x: Any) -> Any:
            a, b, _ = effx.vmap(g, (0, None), (0, None, None))(x, y)
            return b + a.sum(), b

        return lambda x, y: effx.lax.scan(step, y[0], enp.stack([x, x + 1]))[0]

    for form in (nested, scanned):
        got, want = [effx.grad(form(g), (0, 1))(X, y) for g in (f, plain)]
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)


def test_the_first_of_what_fwd_gives() -> None:
    """Where fwd gives a batched value for a result that the function does not."""
    f = effx.custom_vjp(lambda x: enp.zeros(()))
    f.defvjp(lambda x: (x + 5.0, None), lambda _, ct: (7.0 * ct,), generic_batching=True)
    y, pull = effx.vjp(lambda x: effx.vmap(f, out_axes=None)(x), X)
    assert float(y) == 5.0
    np.testing.assert_array_equal(np.asarray(pull(1.0)[0]), [7.0, 0.0, 0.0])


def test_without_it_a_differentiated_result_has_the_batch_axis() -> None:
    """Which out_axes=None refuses; where nothing is differentiated it has none."""
    f = with_rules()
    assert float(loss(f, (0, None, None))(X, 2.0)) == pytest.approx(
        float(loss(plain, (0, None, None))(X, 2.0))
    )
    with pytest.raises(ShapeError) as error:
        effx.grad(loss(f, (0, None, None)))(X, 2.0)
    assert error.value.message == (
        "vmap: out_axes is None for a result of plain that differs between batch elements: f32[3]~ with batch axis 0"
    )
    got, want = [effx.grad(loss(g, 0), 1)(X, 2.0) for g in (f, plain)]
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


def test_with_a_rule_for_forward_mode() -> None:
    """Tangents of that rule may differ, so that the result has the axis all the same."""
    jvp_too = effx.custom_jvp(lambda x: enp.zeros(()))
    jvp_too.defjvp(lambda p, t: (jvp_too(*p), p[0] * t[0]))
    f = effx.custom_vjp(jvp_too)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (x * ct,), generic_batching=True)
    np.testing.assert_array_equal(np.asarray(effx.jvp(effx.vmap(f), (X,), (X,))[1]), X * X)
    np.testing.assert_array_equal(np.asarray(effx.grad(lambda x: effx.vmap(f)(x).sum())(X)), X)
