"""Parameters made where they are used: init and apply agree, in loops and jitted layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, nn
from effx.errors import DTypeError, NoRuleError, ShapeError, TransformError
from effx.library.parameters import param, transform

KEY = effx.random.key(1)
normal = nn.initializers.normal(0.3)


def linear(x: Any, n: int) -> Any:
    return x @ param("w", (x.shape[-1], n), normal) + param("b", (n,), nn.initializers.zeros)


@effx.jit
def net(x: Any) -> Any:
    with effx.named_scope("in"):
        h = enp.tanh(linear(x, 3))

    def layer(h: Any, _: None) -> Any:
        with effx.named_scope("layer"):
            return enp.tanh(linear(h, 3)), None

    h, _ = lax.scan(layer, h, None, length=4)
    with effx.named_scope("out"):
        return linear(h, 1)


X = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)


def by_hand(params: Any, x: Any) -> Any:
    p = {k: np.asarray(v) for k, v in params.items()}
    h = np.tanh(x @ p["in/w"] + p["in/b"])
    for w, b in zip(p["layer/w"], p["layer/b"], strict=True):
        h = np.tanh(h @ w + b)
    return h @ p["out/w"] + p["out/b"]


def test_init_and_apply() -> None:
    """Names have scopes, layers of a scan are stacked and differ, and apply equals NumPy."""
    model = transform(net)
    params = effx.jit(model.init)(KEY, X)
    shapes = {k: v.shape for k, v in params.items()}
    assert shapes == {
        "in/w": (2, 3), "in/b": (3,), "layer/w": (4, 3, 3), "layer/b": (4, 3), "out/w": (3, 1), "out/b": (1,),
    }  # fmt: skip
    assert len({float(w[0, 0]) for w in params["layer/w"]}) == 4
    for apply in (model.apply, effx.jit(model.apply)):
        np.testing.assert_allclose(apply(params, X), by_hand(params, X), rtol=1e-4, atol=1e-6)


def test_one_jitted_function_in_two_scopes() -> None:
    """Its program is one, its parameters are those of each scope."""
    layer = effx.jit(lambda x: enp.tanh(linear(x, 2)))

    def twice(x: Any) -> Any:
        with effx.named_scope("first"):
            x = layer(x)
        with effx.named_scope("second"):
            return layer(x)

    params = transform(twice).init(KEY, X)
    assert set(params) == {"first/w", "first/b", "second/w", "second/b"}
    h = X
    for name in ("first", "second"):
        h = np.tanh(h @ np.asarray(params[f"{name}/w"]) + np.asarray(params[f"{name}/b"]))
    np.testing.assert_allclose(transform(twice).apply(params, X), h, rtol=1e-4, atol=1e-6)


def test_gradients() -> None:
    """Gradients by parameters, through the scan, equal finite differences; per-example ones by vmap."""
    model = transform(net)
    params = model.init(KEY, X)
    loss = lambda p, x: enp.sum(model.apply(p, x) ** 2)  # noqa: E731
    gradient = effx.jit(effx.grad(loss))(params, X)
    with effx.enable_x64():
        wide = {k: np.asarray(v, np.float64) for k, v in params.items()}
        for name, at in (("layer/w", (2, 0, 1)), ("in/b", (1,)), ("out/w", (0, 0))):
            up, down = (dict(wide) for _ in range(2))
            up[name], down[name] = wide[name].copy(), wide[name].copy()
            up[name][at] += 1e-6
            down[name][at] -= 1e-6
            slope = ((by_hand(up, X) ** 2).sum() - (by_hand(down, X) ** 2).sum()) / 2e-6
            np.testing.assert_allclose(gradient[name][at], slope, rtol=1e-3)
    rows = effx.vmap(effx.grad(loss), (None, 0))(params, X[:, None])
    np.testing.assert_allclose(rows["in/w"].sum(0), gradient["in/w"], rtol=1e-3, atol=1e-5)


def test_sharing() -> None:
    """A name asked for twice in one program is one parameter; under vmap batch elements share it."""

    def f(x: Any) -> Any:
        return linear(linear(x, 2), 2)

    model = transform(f)
    params = model.init(KEY, X)
    w, b = np.asarray(params["w"]), np.asarray(params["b"])
    np.testing.assert_allclose(model.apply(params, X), (X @ w + b) @ w + b, rtol=1e-5)
    batched = transform(effx.vmap(f))
    assert {k: v.shape for k, v in batched.init(KEY, X).items()} == {"w": (2, 2), "b": (2,)}
    np.testing.assert_allclose(batched.apply(params, X), (X @ w + b) @ w + b, rtol=1e-5)


def test_errors() -> None:
    """No handler; a missing parameter; another shape; one made twice in programs apart; an initialiser's shape."""
    with pytest.raises(NoRuleError, match=r"^param: no handler takes the effect 'param'"):
        param("w", (2,), normal)
    model = transform(lambda x: linear(x, 2))
    params = model.init(KEY, X)
    with pytest.raises(TransformError, match=r"^param: there is no parameter 'b'; known are 'w'"):
        model.apply({"w": params["w"]}, X)
    with pytest.raises(
        ShapeError, match=r"^param: the value for 'w' is f32\[3,3\], but f32\[2,2\] is wanted"
    ):
        model.apply({**params, "w": enp.zeros((3, 3))}, X)
    layer = effx.jit(lambda x: linear(x, 2))
    with pytest.raises(TransformError, match=r"^param: 'w' is made twice, in programs"):
        transform(lambda x: layer(layer(x))).init(KEY, X)
    with pytest.raises(TransformError, match=r"^param: 'w' shall be f32\[2\], but init gives f32\[3\]"):
        transform(lambda: param("w", (2,), lambda key, shape, dtype: enp.zeros(3))).init(KEY)


def one(x: Any) -> Any:
    return enp.sum(x * param("w", (2,), normal))


def test_under_everything() -> None:
    """Parameters are asked for in a checkpoint, nested loops, a gradient and, when applied, by replicas of a pmap."""
    w = {"w": enp.array([1.0, 2.0])}
    assert float(effx.grad(transform(effx.checkpoint(one)).apply, argnums=1)(w, 2.0)) == 3.0
    assert float(transform(effx.grad(one)).apply(w, 2.0)) == 3.0
    assert transform(effx.pmap(one)).apply(w, enp.arange(3.0)).tolist() == [0.0, 3.0, 6.0]
    inner: Callable[..., Any] = lambda x: lax.scan(lambda d, v: (d, one(v)), 0.0, x)[1]  # noqa: E731
    nested = transform(lambda x: lax.scan(lambda c, _: (c, inner(x)), 0.0, None, length=2)[1])
    params = nested.init(KEY, enp.arange(3.0))
    assert params["w"].shape == (2, 3, 2)
    want = np.asarray(params["w"]).sum(-1) * np.arange(3.0)
    np.testing.assert_allclose(effx.jit(nested.apply)(params, enp.arange(3.0)), want, rtol=1e-6)
    with pytest.raises(TransformError, match=r"^init: a pmap inside asks for parameters"):
        transform(effx.pmap(one)).init(KEY, enp.arange(3.0))


def test_branches_that_are_not_taken_make_parameters_too() -> None:
    """They may be taken when the parameters are applied; a loop inside makes one for each step."""

    def f(x: Any) -> Any:
        deep = lambda x: lax.scan(lambda c, _: (one(c), None), x, None, length=3)[0]  # noqa: E731
        return lax.cond(x > 0, deep, lambda x: x * param("v", (), nn.initializers.ones), x)

    taken, other = (transform(f).init(KEY, x) for x in (1.0, -1.0))
    assert (
        {k: v.shape for k, v in taken.items()}
        == {k: v.shape for k, v in other.items()}
        == {"w": (3, 2), "v": ()}
    )
    assert float(taken["v"]) == 1.0
    assert len({float(v) for v in np.ravel(other["w"])}) == 6


@pytest.mark.unguarded
def test_wrong_parameters() -> None:
    """Two types for one name, a kind that does not fit, no dict, no name; superfluous ones are ignored."""
    ones = nn.initializers.ones
    two = transform(lambda: (param("w", (2,), ones), param("w", (3,), ones)))
    with pytest.raises(ShapeError, match=r"^param: 'w' is f32\[2\] in one call and f32\[3\] in another"):
        two.init(KEY)
    with pytest.raises(ShapeError, match=r"^param: 'w' is f32\[2\] in one call and f32\[3\] in another"):
        two.apply({"w": enp.ones(2)})
    with pytest.raises(
        DTypeError, match=r"^param: the value for 'w' is f32\[2\], which does not convert to i32\[2\]"
    ):
        transform(lambda: param("w", (2,), ones, "int32")).apply({"w": enp.ones(2)})
    with pytest.raises(TransformError, match=r"^param: 'w' shall be f32\[\], but init gives c64\[\]"):
        transform(lambda: param("w", (), lambda key, shape, dtype: enp.complex64(1j))).init(KEY)
    with pytest.raises(TransformError, match=r"^apply: expected parameters by name, got \[1.0\]"):
        transform(one).apply([1.0], 1.0)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TransformError, match=r"^param: expected a name, a shape and an initialiser, got 3"):
        param(3, (2,), ones)  # type: ignore[arg-type]  # wrong on purpose
    assert float(transform(one).apply({"w": np.ones(2), "other": np.ones(7)}, 1.0)) == 2.0
