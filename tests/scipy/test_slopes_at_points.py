"""Derivatives at the points where a function is written in two ways: ends of domains, zeros, and removable singularities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma

import effx
import effx.numpy as enp
from effx.scipy import special, stats

INF = math.inf

# Function, point, and the partial derivatives by calculus.
SLOPES: list[tuple[str, Callable[..., Any], tuple[float, ...], tuple[float, ...]]] = [
    ("xlogy", special.xlogy, (0.0, 2.0), (math.log(2.0), 0.0)),
    ("xlogy", special.xlogy, (0.0, 0.0), (-INF, 0.0)),
    ("xlogy", special.xlogy, (1.0, 0.0), (-INF, INF)),
    ("xlogy", special.xlogy, (2.0, 3.0), (math.log(3.0), 2 / 3)),
    ("xlog1py", special.xlog1py, (0.0, 2.0), (math.log(3.0), 0.0)),
    ("xlog1py", special.xlog1py, (0.0, -1.0), (-INF, 0.0)),
    ("xlog1py", special.xlog1py, (2.0, 3.0), (math.log(4.0), 0.5)),
    ("entr", special.entr, (0.0,), (INF,)),
    ("entr", special.entr, (0.5,), (-math.log(0.5) - 1,)),
    ("entr", special.entr, (1.0,), (-1.0,)),
    ("i0", special.i0, (0.0,), (0.0,)),
    ("i1", special.i1, (0.0,), (0.5,)),
    ("numpy.i0", enp.i0, (0.0,), (0.0,)),
    ("poch", special.poch, (1.0, 0.0), (0.0, float(digamma(1.0)))),
    ("poch", special.poch, (3.0, 0.0), (0.0, float(digamma(3.0)))),
    ("poch", special.poch, (0.0, 0.0), (0.0, 0.0)),
    ("spence", special.spence, (1.0,), (-1.0,)),
    ("vonmises", stats.vonmises.logpdf, (0.0, 0.0), (0.0, 1.0)),
    ("vonmises", stats.vonmises.logpdf, (1.0, 0.0), (0.0, math.cos(1.0))),
    ("gennorm", stats.gennorm.cdf, (0.0, 2.0), (1 / math.sqrt(math.pi), 0.0)),
    ("beta", stats.beta.logpdf, (0.3, 1.0, 1.0), (0.0, math.log(0.3) + 1.0, math.log(0.7) + 1.0)),
]


@pytest.mark.parametrize(("name", "f", "point", "slopes"), SLOPES)
def test_slopes(
    name: str, f: Callable[..., Any], point: tuple[float, ...], slopes: tuple[float, ...]
) -> None:
    numbers = tuple(range(len(point)))
    compiled = effx.jit(f)
    # Forward mode would multiply infinite slopes by the zeros of other directions.
    forward = effx.jacfwd if np.isfinite(slopes).all() else effx.jacrev
    for got in (
        effx.grad(f, numbers)(*point),
        effx.grad(compiled, numbers)(*point),
        forward(f, numbers)(*point),
        effx.vmap(effx.grad(f, numbers))(*[enp.full(2, x) for x in point]),
    ):
        np.testing.assert_allclose(
            [float(enp.ravel(g)[0]) for g in got], slopes, rtol=1e-5, atol=1e-6, err_msg=name
        )


@pytest.mark.parametrize(
    ("f", "values"),
    [
        (special.i0, (0.0, 0.5)),
        (special.i1, (0.5, 0.0)),
        (lambda x: stats.gennorm.logpdf(x, 2.0), (0.0, -2.0)),
    ],
)
def test_higher_slopes_of_bessel_functions(f: Callable[..., Any], values: tuple[float, ...]) -> None:
    """At 0, by the power series."""
    g = f
    for value in values:
        g = effx.grad(g)
        np.testing.assert_allclose(g(0.0), value, atol=1e-6)


def test_products_with_logarithms_broadcast() -> None:
    x, y = enp.zeros((2, 1)), enp.asarray([1.0, 2.0, 3.0])
    assert special.xlogy(x, y).shape == (2, 3)
    slopes = effx.grad(lambda x: special.xlogy(x, y).sum())(x)
    np.testing.assert_allclose(slopes, np.full((2, 1), math.log(6.0)), rtol=1e-6)
    mixed = effx.hessian(lambda p: special.xlogy(p[0], p[1]))(enp.asarray([0.0, 2.0]))
    np.testing.assert_allclose(mixed, [[0.0, 0.5], [0.5, 0.0]])
    assert special.xlogy(1, enp.arange(3)).dtype == np.float32
