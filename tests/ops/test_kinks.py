"""Derivatives where a function has a kink, a jump or an infinite slope: what JAX says there, unless a comment says why not.

Never: looks at smooth points; test_derivatives.py does.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, nn
from effx.effects import handle
from effx.handlers.oracle import Reference

# (function, point, gradient by each argument)
CASES: list[tuple[Any, tuple[float, ...], tuple[float, ...]]] = [
    (enp.abs, (0.0,), (1.0,)),
    (enp.abs, (-0.0,), (1.0,)),
    (enp.fabs, (0.0,), (1.0,)),
    (enp.sign, (0.0,), (0.0,)),
    (enp.floor, (1.0,), (0.0,)),
    (enp.round, (0.5,), (0.0,)),
    (enp.sqrt, (0.0,), (inf,)),
    (enp.cbrt, (0.0,), (inf,)),
    (enp.cbrt, (-0.0,), (inf,)),
    (enp.cbrt, (inf,), (0.0,)),
    (enp.cbrt, (-inf,), (0.0,)),
    (enp.log1p, (-1.0,), (inf,)),
    (enp.maximum, (1.0, 1.0), (0.5, 0.5)),
    (enp.minimum, (1.0, 1.0), (0.5, 0.5)),
    (enp.arctan2, (0.0, 0.0), (nan, nan)),
    # JAX's hypot is NaN at the origin; 0 is the smallest subgradient.
    (enp.hypot, (0.0, 0.0), (0.0, 0.0)),
    (enp.hypot, (0.0, 1.0), (0.0, 1.0)),
    (enp.hypot, (1.0, 1.0), (0.5**0.5, 0.5**0.5)),
    (lambda x, y: enp.linalg.norm(enp.stack([x, y])), (0.0, 0.0), (0.0, 0.0)),
    (lambda x, y: enp.linalg.norm(enp.stack([x, y]), 3), (0.0, 0.0), (0.0, 0.0)),
    (enp.logaddexp, (1.0, 1.0), (0.5, 0.5)),
    (enp.logaddexp, (-inf, -inf), (1.0, 1.0)),
    # x**0 is 1 for every x, so that its derivative is 0; JAX's is NaN at 0.
    (enp.power, (0.0, 0.0), (0.0, 0.0)),
    (enp.power, (inf, 0.0), (0.0, inf)),
    (enp.power, (0.0, 1.0), (1.0, 0.0)),
    (enp.power, (0.0, 2.0), (0.0, 0.0)),
    (lambda x: enp.clip(x, 0.0, 1.0), (0.0,), (0.5,)),
    (lambda x: enp.clip(x, 0.0, 1.0), (1.0,), (0.5,)),
    (lambda low, x, high: lax.clamp(low, x, high), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)),
    (lambda low, x, high: lax.clamp(low, x, high), (0.0, 1.0, 1.0), (0.0, 0.0, 0.0)),
    (lambda low, x, high: lax.clamp(low, x, high), (0.0, 0.5, 1.0), (0.0, 1.0, 0.0)),
    (lambda low, x, high: lax.clamp(low, x, high), (0.0, -1.0, 1.0), (1.0, 0.0, 0.0)),
    (lambda low, x, high: lax.clamp(low, x, high), (0.0, 2.0, 1.0), (0.0, 0.0, 1.0)),
    (lambda low, x, high: lax.clamp(low, x, high), (1.0, 0.0, 1.0), (0.0, 0.0, 0.0)),
    (nn.relu, (0.0,), (0.0,)),
    (nn.relu6, (6.0,), (0.0,)),
    (nn.hard_tanh, (1.0,), (1.0,)),
    (nn.softplus, (0.0,), (0.5,)),
    (nn.log_sigmoid, (0.0,), (0.5,)),
    (nn.soft_sign, (0.0,), (1.0,)),
    (nn.leaky_relu, (0.0,), (1.0,)),
    (nn.elu, (0.0,), (1.0,)),
    (lambda x, y: enp.max(enp.stack([x, y, y])), (1.0, 2.0), (0.0, 1.0)),
    (lambda x, y: enp.max(enp.stack([x, y, y])), (2.0, 2.0), (1 / 3, 2 / 3)),
    (lambda x, y: enp.sort(enp.stack([x, y]))[0], (2.0, 2.0), (1.0, 0.0)),
    (lambda x, y: enp.prod(enp.stack([x, y])), (0.0, 0.0), (0.0, 0.0)),
]


@pytest.mark.parametrize(("f", "point", "want"), CASES)
def test_derivatives_at_kinks(f: Any, point: tuple[float, ...], want: tuple[float, ...]) -> None:
    xs = tuple([enp.asarray(np.float32(x)) for x in point])
    with handle(Reference()), np.errstate(all="ignore"):
        got = effx.grad(f, tuple(range(len(xs))))(*xs)
        np.testing.assert_allclose([float(g) for g in got], want, rtol=1e-6)
        for i, slope in enumerate(want):
            along = tuple([enp.asarray(np.float32(i == k)) for k in range(len(xs))])
            if not any(np.isinf(want)):  # infinity times a tangent of 0
                np.testing.assert_allclose(float(effx.jvp(f, xs, along)[1]), slope, rtol=1e-6)


INDEX = np.array([0, 0, 9, -4])


@pytest.mark.parametrize(
    ("mode", "want"), [(None, [3.0, 0.0, 0.0]), ("clip", [7.0, 0.0, 3.0]), ("fill", [3.0, 0.0, 0.0])]
)
def test_gradients_of_indices_out_of_range(mode: Any, want: list[float]) -> None:
    """An element that stands for what is out of range gets its cotangent only where clipping was asked for."""
    weights = enp.arange(1.0, 5.0)

    def f(x: Any, i: Any) -> Any:
        return enp.nansum(weights * x.at[i].get(mode=mode))

    x = enp.arange(3.0)
    for g in (effx.grad(f), effx.jit(effx.grad(f))):
        assert g(x, INDEX).tolist() == want
    assert effx.vmap(effx.grad(f), (None, 0))(x, np.stack([INDEX, INDEX])).tolist() == [want, want]
    assert effx.vmap(effx.grad(f), (0, None))(enp.stack([x, x]), INDEX).tolist() == [want, want]
    assert effx.vmap(effx.grad(f))(enp.stack([x, x]), np.stack([INDEX, INDEX])).tolist() == [want, want]
    if mode is None:
        assert effx.grad(lambda x: enp.sum(weights * x[INDEX]))(x).tolist() == want


def test_kinks_are_jaxs() -> None:
    """Of operations that both have under one name, where no comment above says why not."""
    jax = pytest.importorskip("jax")
    for name, points in (("abs", (0.0, -0.0)), ("cbrt", (0.0, inf)), ("sqrt", (0.0,)), ("sign", (0.0,))):
        f, g = getattr(enp, name), getattr(jax.numpy, name)
        for x in points:
            assert float(effx.grad(f)(np.float32(x))) == float(jax.grad(g)(np.float32(x)))
