"""Laws of the parallel map on random programs: pmap f = vmap f, grad(pmap f) = grad(vmap f), for any size that fits.

Never: asks for more than eight devices, which tests/conftest.py provides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax

Step = Callable[[Any], Any]

# Each keeps the shape f32[4], is smooth, and does not grow.
STEPS: dict[str, Step] = {
    "sin": enp.sin,
    "mean": lambda x: x - lax.pmean(x, "i"),
    "sum": lambda x: x * enp.tanh(lax.psum(x, "i")),
    "index": lambda x: x * enp.cos(lax.axis_index("i").astype(x.dtype)),
    "gather": lambda x: x + enp.cos(lax.all_gather(x, "i")).mean(0),
    "gather tiled": lambda x: enp.sin(lax.all_gather(x, "i", tiled=True)[-4:]) + x,
    "rotate": lambda x: lax.ppermute(
        x, "i", [(k, (k + 1) % lax.axis_size("i")) for k in range(lax.axis_size("i"))]
    ),
    "send one": lambda x: x - lax.ppermute(x, "i", [(0, lax.axis_size("i") - 1)]),
    "scatter": lambda x: x + enp.sin(lax.psum_scatter(enp.outer(enp.arange(lax.axis_size("i")), x), "i") / 8),
    "exchange": lambda x: lax.all_to_all(enp.outer(enp.ones(lax.axis_size("i")), x), "i", 0, 0).mean(0),
    "jit": effx.jit(lambda x: enp.cos(x) * lax.pmean(x, "i")),
    "scan": lambda x: effx.lax.scan(lambda c, _: (enp.sin(c + lax.pmean(c, "i")), None), x, None, length=2)[
        0
    ],
    "inner vmap": lambda x: effx.vmap(lambda a: a * lax.psum(a, "j") / 4 + lax.pmean(a, "i"), axis_name="j")(
        x
    ),
}
PROGRAMS = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4)


def build(names: list[str]) -> Step:
    """Composes steps."""

    def run(x: Any) -> Any:
        for name in names:
            x = STEPS[name](x)
        return x

    return run


def data(size: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(size).normal(size=(size, 4)).astype(np.float32)


@settings(max_examples=12)
@given(PROGRAMS, st.integers(1, 8))
def test_pmap_is_vmap(names: list[str], size: int) -> None:
    """Replicas on devices of their own compute what a batch computes."""
    f, x = build(names), data(size)
    got, want = effx.pmap(f, axis_name="i")(x), effx.vmap(f, axis_name="i")(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=1e-5)


@settings(max_examples=8)
@given(PROGRAMS, st.integers(1, 8))
def test_gradients_agree(names: list[str], size: int) -> None:
    """On either side of the map."""
    f, x = build(names), data(size)

    def outside(transform: Any) -> Any:
        return effx.grad(lambda x: (transform(f, axis_name="i")(x) ** 2).sum())(x)

    got, want = outside(effx.pmap), outside(effx.vmap)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-3, atol=1e-4)
    # The transposes of collectives make a replica's gradient that of the sum of all replicas' losses.
    inside = effx.pmap(effx.grad(lambda x: (f(x) ** 2).sum()), axis_name="i")(x)
    np.testing.assert_allclose(np.asarray(inside), np.asarray(want), rtol=1e-3, atol=1e-4)


@settings(max_examples=6)
@given(PROGRAMS, PROGRAMS, st.sampled_from([(2, 2), (4, 2), (2, 3), (1, 4), (3, 1)]))
def test_nested_maps_agree(outer: list[str], inner: list[str], sizes: tuple[int, int]) -> None:
    """A parallel map inside another is a batch inside a batch."""
    f, g = build(outer), build(inner)

    def nested(transform: Any) -> Any:
        def member(row: Any) -> Any:
            within = transform(lambda v: g(v) + f(v).sum(), axis_name="i")(row)
            return within * lax.psum(within, "o") + lax.axis_index("o")

        return transform(member, axis_name="o")

    x = np.stack([data(sizes[1]) * (k + 1) for k in range(sizes[0])])
    got, want = nested(effx.pmap)(x), nested(effx.vmap)(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-3, atol=1e-4)
