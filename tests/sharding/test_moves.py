"""`device_put` of values that are differentiated: values go to the target, cotangents back to where the argument lay."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.sharding import NamedSharding
from effx.sharding import PartitionSpec as P

D = effx.devices()
MESH = effx.make_mesh((4,), "x", devices=D[:4])
X = np.arange(1, 5, dtype=np.float32)
PLACES = {
    "device": D[2],
    "single device": effx.sharding.SingleDeviceSharding(D[2]),
    "sharded": NamedSharding(MESH, P("x")),
    "replicated": NamedSharding(MESH, P()),
}


def move(target: Any) -> Callable[[Any], Any]:
    return lambda x: enp.sin(effx.device_put(enp.cos(x), target))


@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("source", ["device", "sharded", "replicated"])
def test_cotangents_go_back(source: str, target: str) -> None:
    """Values and tangents are on the target, cotangents where the argument is, at the hundredth call as at the first."""
    there = D[1] if source == "device" else PLACES[source]
    x: Any = effx.device_put(X, there)
    on_target = effx.device_put(X, PLACES[target]).sharding
    y, ct = x, x
    for _ in range(6):
        y, pull = effx.vjp(move(PLACES[target]), x)
        (ct,) = pull(y)
        assert y.sharding == on_target
        assert ct.sharding == x.sharding
    want, pull = effx.vjp(lambda x: enp.sin(enp.cos(x)), X)
    np.testing.assert_allclose(np.asarray(y), np.asarray(want), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(ct), np.asarray(pull(want)[0]), rtol=1e-5)
    assert effx.jvp(move(PLACES[target]), (x,), (x,))[1].sharding == on_target


def test_moves_compose() -> None:
    """Second derivatives, jit, vmap and uncommitted arguments have moves too; a program has its devices as a whole."""
    f = lambda x: move(D[2])(x).sum()  # noqa: E731
    plain = lambda x: enp.sin(enp.cos(x)).sum()  # noqa: E731
    x = effx.device_put(X, D[1])
    second = effx.grad(lambda x: effx.grad(f)(x).sum())(x)
    np.testing.assert_allclose(
        np.asarray(second), np.asarray(effx.grad(lambda x: effx.grad(plain)(x).sum())(X)), rtol=1e-5
    )
    assert second.devices() == {D[1]}
    gradients: list[Callable[[Any], Any]] = [
        effx.jit(effx.grad(f)),
        effx.grad(effx.jit(f)),
        lambda x: effx.vmap(effx.grad(f))(x[:, None])[:, 0],
    ]
    for gradient in gradients:
        np.testing.assert_allclose(np.asarray(gradient(x)), np.asarray(effx.grad(plain)(X)), rtol=1e-5)
    assert effx.grad(f)(enp.asarray(X)).devices() == {D[2]}
