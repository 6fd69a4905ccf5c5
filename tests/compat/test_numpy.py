"""`jax.numpy` where it takes more than `effx.numpy`."""

from __future__ import annotations

from typing import Any

import numpy as np

import effx
import effx.numpy as enp
from effx import lax
from effx.compat.modules.numpy import einsum

X = np.arange(12.0, dtype=np.float32).reshape(3, 4) / 10
Y = np.arange(8.0, dtype=np.float32).reshape(2, 4) / 10


def test_contractions_by_a_users_function() -> None:
    """It gets the arguments of `lax.dot_general`, is called once for each contraction, and is differentiated."""
    calls: list[tuple[Any, ...]] = []

    def contract(x: Any, y: Any, axes: Any, precision: Any = None, preferred_element_type: Any = None) -> Any:
        calls.append((axes, precision, preferred_element_type))
        return 10 * lax.dot_general(x, y, axes, precision, preferred_element_type)

    def f(x: Any, y: Any) -> Any:
        return einsum("ij,kj->ki", enp.sin(x), y, precision="highest", _dot_general=contract)

    want = 10 * np.einsum("ij,kj->ki", np.sin(X), Y)
    np.testing.assert_allclose(f(X, Y), want, rtol=1e-5)
    assert calls == [((((1,), (1,)), ((), ())), "highest", np.dtype("float32"))]
    np.testing.assert_allclose(effx.jit(f)(X, Y), want, rtol=1e-5)
    batched = effx.vmap(f, in_axes=(None, 0))(X, Y[:, None])
    np.testing.assert_allclose(batched, want[:, None], rtol=1e-5)
    slope = effx.grad(lambda x: f(x, Y).sum())(X)
    np.testing.assert_allclose(slope, 10 * np.cos(X) * Y.sum(0), rtol=1e-5)
    calls.clear()
    z = einsum("ij,kj,kl->il", X, Y, np.ones((2, 2), np.float32), _dot_general=contract)
    np.testing.assert_allclose(z, 100 * np.einsum("ij,kj,kl->il", X, Y, np.ones((2, 2))), rtol=1e-5)
    assert len(calls) == 2
