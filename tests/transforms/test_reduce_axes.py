"""Gradients by what all replicas of an axis share: their sum where reduce_axes asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import AxisNameError, TransformError

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=3).astype(np.float32)


def loss(w: Any, x: Any) -> Any:
    return enp.tanh(w @ x)


def members(w: Any, axes: Any, **options: Any) -> Any:
    return effx.vmap(
        lambda x: effx.grad(loss, (0, 1), reduce_axes=axes)(w, x),
        axis_name="batch",
        out_axes=(None if axes else 0, 0),
        **options,
    )(X)


def test_shared_arguments_are_added_up() -> None:
    """And no other."""
    each_w, each_x = members(W, ())
    total_w, own_x = members(W, "batch")
    assert each_w.shape == (5, 3)
    np.testing.assert_allclose(total_w, each_w.sum(0), rtol=1e-5)
    np.testing.assert_allclose(own_x, each_x, rtol=1e-6)


@pytest.mark.parametrize("wrap", [effx.jit, effx.checkpoint, lambda f: f])
def test_inside_and_around_jit(wrap: Any) -> None:
    """What is shared is known when the batch is there, not when the gradient is taken."""
    gradient = wrap(effx.grad(loss, (0, 1), reduce_axes=("batch",)))
    total, own = effx.jit(effx.vmap(gradient, in_axes=(None, 0), out_axes=(None, 0), axis_name="batch"))(W, X)
    each = effx.vmap(effx.grad(loss, (0, 1)), in_axes=(None, 0))(W, X)
    np.testing.assert_allclose(total, each[0].sum(0), rtol=1e-5)
    np.testing.assert_allclose(own, each[1], rtol=1e-5)


def test_vjp_and_several_axes() -> None:
    """Axis by axis."""

    def member(x: Any) -> Any:
        _, pull = effx.vjp(lambda w: loss(w, x), W, reduce_axes=("i", "j"))
        return pull(enp.float32(1.0))[0]

    xs = np.stack([X, -2 * X])
    f = effx.vmap(effx.vmap(member, axis_name="j", out_axes=None), axis_name="i", out_axes=None)
    each = effx.vmap(effx.vmap(effx.grad(loss), in_axes=(None, 0)), in_axes=(None, 0))(W, xs)
    np.testing.assert_allclose(f(xs), each.sum((0, 1)), rtol=1e-4, atol=1e-5)


def test_second_derivatives() -> None:
    """The sum is linear, so it differentiates."""

    def total(w: Any) -> Any:
        g = effx.vmap(lambda x: effx.grad(loss, reduce_axes=("i",))(w, x), axis_name="i", out_axes=None)(X)
        return (g * g).sum()

    def plain(w: Any) -> Any:
        g = effx.vmap(effx.grad(loss), in_axes=(None, 0))(w, X).sum(0)
        return (g * g).sum()

    np.testing.assert_allclose(effx.grad(total)(W), effx.grad(plain)(W), rtol=1e-4, atol=1e-5)


def test_parallel_replicas() -> None:
    """A program for devices settles it when it is staged."""
    f = effx.pmap(
        lambda w, x: effx.jit(effx.grad(loss, reduce_axes=("i",)))(w, x),
        axis_name="i",
        in_axes=(None, 0),
        out_axes=None,
    )
    np.testing.assert_allclose(f(W, X[:1]), effx.grad(loss)(W, X[0]), rtol=1e-5)


@pytest.mark.unguarded  # no annotation allows what is no name
def test_wrong_names() -> None:
    """A name that nothing binds, and what is no name."""
    with pytest.raises(AxisNameError, match="axis name 'nowhere' is not bound by vmap, pmap or shard_map"):
        effx.grad(loss, reduce_axes=("nowhere",))(W, X[0])
    with pytest.raises(TransformError) as error:
        effx.grad(loss, reduce_axes=([],))
    assert error.value.message == "grad: reduce_axes must hold names of axes, got []"
