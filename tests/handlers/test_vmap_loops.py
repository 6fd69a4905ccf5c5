"""Loops that members of a batch leave at different times, whatever their conditions are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax

XS = np.abs(np.random.default_rng(0).normal(size=(5, 3))).astype(np.float32) + 0.1

# The first is fused and asked twice a turn; the answers to the others are carried along.
CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda v: v[0][0] * 2.0 < 9.0,
    "a sum": lambda v: v[0].sum() < 20.0,
    "a product": lambda v: v[0] @ v[0] < 50.0,
    "a call": lambda v: effx.jit(lambda x: x.max() < 7.0)(v[0]),
    "the counter": lambda v: v[1] < enp.where(v[0][0] > 2.0, 3, 5),
}


def turn(v: Any) -> Any:
    return v[0] * 1.5 + 0.1 * enp.sin(v[0]), v[1] + 1


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_member_turns_as_often_as_alone(name: str) -> None:
    """Values, counts and tangents, compiled or not."""

    def f(x: Any) -> Any:
        return lax.while_loop(CONDITIONS[name], turn, (x, 0))

    alone = [f(enp.asarray(x)) for x in XS]
    tangents = [effx.jvp(lambda x: f(x)[0], (enp.asarray(x),), (enp.ones(3),))[1] for x in XS]
    assert len({int(n) for _, n in alone}) > 1
    for g in (effx.vmap(f), effx.jit(effx.vmap(f))):
        values, counts = g(XS)
        np.testing.assert_allclose(values, [v for v, _ in alone], rtol=1e-5)
        np.testing.assert_array_equal(counts, [int(n) for _, n in alone])
    moved = effx.jvp(lambda xs: effx.vmap(f)(xs)[0], (XS,), (np.ones_like(XS),))[1]
    np.testing.assert_allclose(moved, tangents, rtol=1e-4)
    nested = effx.vmap(effx.vmap(f))(np.stack([XS, XS[::-1]]))[0]
    np.testing.assert_allclose(nested[1], [v for v, _ in reversed(alone)], rtol=1e-5)
