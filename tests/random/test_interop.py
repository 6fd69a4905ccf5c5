"""The first draws of every sampler are JAX's: five shapes, raw and typed keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
from effx import random

SHAPES: tuple[tuple[int, ...], ...] = ((), (10,), (2, 5), (3, 1, 3), (0, 2))
THREE = np.array([0.2, 0.3, 0.5], np.float32)
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)
MEAN, COVARIANCE = np.array([1.0, -1.0], np.float32), np.array([[2.0, 0.3], [0.3, 1.0]], np.float32)
# Samplers by rejection take seconds to compile for each shape: their rows are among the deep tests, and
# test_distributions.py compares a shape of each.
BY_REJECTION = {
    "ball", "beta", "binomial", "chisquare", "dirichlet", "f", "gamma", "generalized_normal", "loggamma", "multinomial",
    "poisson", "t",
}  # fmt: skip
# Each row: a sampler, and its arguments, where SHAPE stands for each of the shapes.
SHAPE = object()
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("ball", {"d": 3, "p": 1.5, "shape": SHAPE}),
    ("bernoulli", {"p": np.float32(0.3), "shape": SHAPE}),
    ("bernoulli", {"p": np.float32(1e-3), "shape": SHAPE, "mode": "high"}),
    ("beta", {"a": 0.5, "b": 2.0, "shape": SHAPE}),
    ("binomial", {"n": 9.0, "p": 0.3, "shape": SHAPE}),
    ("bits", {"shape": SHAPE}),
    ("categorical", {"logits": np.zeros(4, np.float32), "shape": SHAPE}),
    ("categorical", {"logits": np.zeros(4, np.float32), "shape": SHAPE, "mode": "high"}),
    ("cauchy", {"shape": SHAPE}),
    ("chisquare", {"df": 3.0, "shape": SHAPE}),
    ("choice", {"a": 10, "shape": SHAPE}),
    (
        "choice",
        {"a": 12, "shape": SHAPE, "replace": False, "p": np.full(12, 1 / 12, np.float32), "mode": "high"},
    ),
    ("dirichlet", {"alpha": 2 * THREE, "shape": SHAPE}),
    ("double_sided_maxwell", {"loc": 1.0, "scale": 2.0, "shape": SHAPE}),
    ("exponential", {"shape": SHAPE}),
    ("f", {"dfnum": 3.0, "dfden": 5.0, "shape": SHAPE}),
    ("gamma", {"a": 2.5, "shape": SHAPE}),
    ("generalized_normal", {"p": 1.5, "shape": SHAPE}),
    ("geometric", {"p": 0.3, "shape": SHAPE}),
    ("gumbel", {"shape": SHAPE}),
    ("gumbel", {"shape": SHAPE, "mode": "high"}),
    ("laplace", {"shape": SHAPE}),
    ("loggamma", {"a": 0.3, "shape": SHAPE}),
    ("logistic", {"shape": SHAPE}),
    ("lognormal", {"sigma": 0.7, "shape": SHAPE}),
    ("maxwell", {"shape": SHAPE}),
    ("multinomial", {"n": 9.0, "p": THREE, "shape": SHAPE}),
    ("multivariate_normal", {"mean": MEAN, "cov": COVARIANCE, "shape": SHAPE}),
    ("normal", {"shape": SHAPE}),
    ("normal", {"shape": SHAPE, "dtype": "complex64"}),
    ("orthogonal", {"n": 2, "shape": SHAPE}),
    ("pareto", {"b": 2.5, "shape": SHAPE}),
    ("permutation", {"x": TABLE}),
    ("permutation", {"x": TABLE, "axis": 1, "independent": True}),
    ("poisson", {"lam": 3.0, "shape": SHAPE}),
    ("rademacher", {"shape": SHAPE}),
    ("randint", {"shape": SHAPE, "minval": -5, "maxval": 100}),
    ("rayleigh", {"scale": 2.0, "shape": SHAPE}),
    ("split", {"num": SHAPE}),
    ("t", {"df": 3.0, "shape": SHAPE}),
    ("triangular", {"left": -1.0, "mode": 0.5, "right": 3.0, "shape": SHAPE}),
    ("truncated_normal", {"lower": -1.0, "upper": 2.0, "shape": SHAPE}),
    ("uniform", {"shape": SHAPE, "minval": -2.5, "maxval": 7.0}),
    ("wald", {"mean": 2.0, "shape": SHAPE}),
    ("weibull_min", {"scale": 2.0, "concentration": 1.5, "shape": SHAPE}),
]


def calls(arguments: dict[str, Any]) -> list[dict[str, Any]]:
    named = [n for n, v in arguments.items() if v is SHAPE]
    return [arguments | dict.fromkeys(named, shape) for shape in (SHAPES if named else SHAPES[:1])]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param(n, a, id=f"{i}-{n}", marks=[pytest.mark.deep] if n in BY_REJECTION else [])
        for i, (n, a) in enumerate(ROWS)
    ],
)
def test_draws(name: str, arguments: dict[str, Any]) -> None:
    """To the rounding of logarithms and powers; integers exactly. the two forms of keys take turns."""
    jax = pytest.importorskip("jax")
    given = calls(arguments)
    words = np.array([0, 42], np.uint32)

    def other(raw: Any) -> list[Any]:
        typed = jax.random.wrap_key_data(raw)
        found = [getattr(jax.random, name)((raw, typed)[i % 2], **a) for i, a in enumerate(given)]
        return [
            jax.random.key_data(x) if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in found
        ]

    def ours(raw: Any) -> list[Any]:
        typed = random.wrap_key_data(raw)
        pairs = [(raw, typed) if i in (1, 3) else (raw,) for i in range(len(SHAPES))]
        found = [[getattr(random, name)(k, **a) for k in keys] for a, keys in zip(given, pairs, strict=False)]
        return [[random.key_data(x) if name == "split" else x for x in pair] for pair in found]

    for want, pair in zip(jax.jit(other)(words), effx.jit(ours)(words), strict=True):
        for got in pair:
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            first, theirs = np.asarray(got).ravel()[:10], np.asarray(want).ravel()[:10]
            if first.dtype.kind in "biu" or name in ("poisson", "binomial", "geometric", "multinomial"):
                np.testing.assert_array_equal(first, theirs)
            else:
                np.testing.assert_allclose(first, theirs, rtol=2e-5, atol=1e-6)
