"""`out_sharding=`: the same values as without it, which lie as it says, wherever axes are Explicit or Auto."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, nn, ops, random
from effx.errors import ShardingError
from effx.experimental import sparse
from effx.lax import RandomAlgorithm
from effx.sharding import AxisType, NamedSharding
from effx.sharding import PartitionSpec as P

EXPLICIT = effx.make_mesh((4, 2), ("X", "Y"), AxisType.Explicit)
AUTO = effx.make_mesh((4, 2), ("X", "Y"), AxisType.Auto)

DATA = np.arange(32, dtype=np.float32).reshape(8, 4)
IDS = np.array([0, 3, 1, 2, 0, 1, 3, 3], np.int32)
DIAG = sparse.BCOO.fromdense(enp.eye(8))
ROWS_OF = sparse.BCSR.fromdense(enp.eye(8))

Call = Callable[..., Any]
# What is called with an array [8, 4] that is cut by both axes, a key, and `out_sharding`; and how the result lies.
CALLS: dict[str, tuple[Call, P]] = {
    # effx.lax
    "lax.broadcast": (lambda x, k, **s: lax.broadcast(x, (4,), **s), P("X")),
    "lax.broadcast_in_dim": (lambda x, k, **s: lax.broadcast_in_dim(x, (8, 2, 4), (0, 2), **s), P("X", "Y")),
    "lax.broadcasted_iota": (lambda x, k, **s: lax.broadcasted_iota(int, (4, 8), 1, **s), P("Y", "X")),
    "lax.conv_general_dilated": (
        lambda x, k, **s: lax.conv_general_dilated(x[None], enp.ones((4, 8, 3)), (1,), "SAME", **s),
        P(None, "X"),
    ),
    "lax.dot": (lambda x, k, **s: lax.dot(x.T, x, **s), P("X", "Y")),
    "lax.dot_general": (lambda x, k, **s: lax.dot_general(x, x, (((0,), (0,)), ((), ())), **s), P(None, "Y")),
    "lax.empty": (lambda x, k, **s: lax.empty((8, 2), float, **s), P("X", "Y")),
    "lax.full": (lambda x, k, out_sharding=None: lax.full((8, 2), 3, sharding=out_sharding), P("X", "Y")),
    "lax.full_like": (
        lambda x, k, out_sharding=None: lax.full_like(x, 3, sharding=out_sharding),
        P("Y", "X"),
    ),
    "lax.ragged_dot": (
        lambda x, k, **s: lax.ragged_dot(x, enp.ones((2, 4, 6)), enp.array([3, 5]), **s),
        P("X", "Y"),
    ),
    "lax.ragged_dot_general": (
        lambda x, k, **s: lax.ragged_dot_general(
            x,
            enp.ones((2, 4, 6)),
            enp.array([3, 5]),
            lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]),
            **s,
        ),
        P("X", "Y"),
    ),
    "lax.reduce": (lambda x, k, **s: lax.reduce(x, 0.0, lax.add, (0,), **s), P("X")),
    "lax.reduce_max": (lambda x, k, **s: lax.reduce_max(x, (0,), **s), P("X")),
    "lax.reduce_min": (lambda x, k, **s: lax.reduce_min(x, (1,), **s), P(("Y", "X"))),
    "lax.reduce_sum": (lambda x, k, **s: lax.reduce_sum(x, (1,), **s), P("Y")),
    "lax.reshape": (lambda x, k, **s: lax.reshape(x, (4, 8), **s), P("X", "Y")),
    "lax.rng_bit_generator": (
        lambda x, k, **s: lax.rng_bit_generator(
            enp.array([1, 2, 3, 4], "uint32"), (8, 2), algorithm=RandomAlgorithm.RNG_PHILOX, **s
        )[1],
        P("X", "Y"),
    ),
    # effx.nn
    "nn.one_hot": (lambda x, k, **s: nn.one_hot(IDS, 4, **s), P("X", "Y")),
    "nn.initializers.ones": (lambda x, k, **s: nn.initializers.ones(k, (8, 2), **s), P("X", "Y")),
    "nn.initializers.zeros": (lambda x, k, **s: nn.initializers.zeros(k, (8, 2), **s), P("X", "Y")),
    # effx.numpy
    "arange": (lambda x, k, **s: enp.arange(8, **s), P("X")),
    "array": (lambda x, k, **s: enp.array(DATA, **s), P("X", "Y")),
    "asarray": (lambda x, k, **s: enp.asarray(x, **s), P("Y", "X")),
    "bincount": (lambda x, k, **s: enp.bincount(IDS, length=8, **s), P("X")),
    "broadcast_to": (lambda x, k, **s: enp.broadcast_to(x, (2, 8, 4), **s), P("Y", "X")),
    "dot": (lambda x, k, **s: enp.dot(x.T, x, **s), P("X", "Y")),
    "einsum": (lambda x, k, **s: enp.einsum("ij,ik->jk", x, x, **s), P("X", "Y")),
    "empty": (lambda x, k, **s: enp.empty((8, 2), **s), P("X", "Y")),
    "empty_like": (lambda x, k, **s: enp.empty_like(x, **s), P("X", "Y")),
    "full": (lambda x, k, **s: enp.full((8, 2), 3, **s), P("X", "Y")),
    "full_like": (lambda x, k, **s: enp.full_like(x, 3, **s), P("X", "Y")),
    "histogram": (lambda x, k, **s: enp.histogram(x, 4, **s)[0], P("X")),
    "matmul": (lambda x, k, **s: enp.matmul(x.T, x, **s), P("X", "Y")),
    "ones": (lambda x, k, **s: enp.ones((8, 2), **s), P("X", "Y")),
    "ones_like": (lambda x, k, **s: enp.ones_like(x, **s), P("X", "Y")),
    "percentile": (lambda x, k, **s: enp.percentile(x, 30, 1, **s), P("X")),
    "ravel": (lambda x, k, **s: enp.ravel(x, **s), P(("X", "Y"))),
    "repeat": (lambda x, k, **s: enp.repeat(x, 2, 0, **s), P("X", "Y")),
    "reshape": (lambda x, k, **s: enp.reshape(x, (4, 8), **s), P("X", "Y")),
    "tensordot": (lambda x, k, **s: enp.tensordot(x, x, 2, **s), P()),
    "zeros": (lambda x, k, **s: enp.zeros((8, 2), **s), P("X", "Y")),
    "zeros_like": (lambda x, k, **s: enp.zeros_like(x, **s), P("X", "Y")),
    "linalg.tensordot": (lambda x, k, **s: enp.linalg.tensordot(x.T, x, axes=1, **s), P("X", "Y")),
    # Methods
    "x.flatten": (lambda x, k, **s: x.flatten(**s), P(("X", "Y"))),
    "x.ravel": (lambda x, k, **s: x.ravel("F", **s), P(("X", "Y"))),
    "x.repeat": (lambda x, k, **s: x.repeat(2, 1, **s), P("X", "Y")),
    "x.reshape": (lambda x, k, **s: x.reshape(4, -1, **s), P("X", "Y")),
    "x.at.get": (lambda x, k, **s: x.at[IDS].get(**s), P("X", "Y")),
    "x.at.get fill": (lambda x, k, **s: x.at[IDS + 6].get(mode="fill", fill_value=7, **s), P("X", "Y")),
    "x.at.set": (lambda x, k, **s: x.at[2:4].set(7, **s), P("X", "Y")),
    "x.at.add": (lambda x, k, **s: x.at[IDS].add(7, **s), P("X", "Y")),
    "x.at.subtract": (lambda x, k, **s: x.at[IDS].subtract(7, **s), P("X", "Y")),
    "x.at.multiply": (lambda x, k, **s: x.at[IDS].multiply(7, **s), P("X", "Y")),
    "x.at.mul": (lambda x, k, **s: x.at[-IDS].mul(2, wrap_negative_indices=False, **s), P("X", "Y")),
    "x.at.divide": (lambda x, k, **s: x.at[1].divide(7, **s), P("X", "Y")),
    "x.at.power": (lambda x, k, **s: x.at[1].power(2, **s), P("X", "Y")),
    "x.at.min": (lambda x, k, **s: x.at[IDS].min(7, **s), P("X", "Y")),
    "x.at.max": (lambda x, k, **s: x.at[IDS].max(7, **s), P("X", "Y")),
    # effx.ops
    "ops.segment_max": (lambda x, k, **s: ops.segment_max(x, IDS, 4, **s), P("X", "Y")),
    "ops.segment_min": (lambda x, k, **s: ops.segment_min(x, IDS, 4, **s), P("X", "Y")),
    "ops.segment_prod": (lambda x, k, **s: ops.segment_prod(x, IDS, 4, **s), P("X", "Y")),
    "ops.segment_sum": (lambda x, k, **s: ops.segment_sum(x, IDS, 4, **s), P("X", "Y")),
    # effx.random
    "random.ball": (lambda x, k, **s: random.ball(k, 2, shape=(8,), **s), P("X", "Y")),
    "random.bernoulli": (lambda x, k, **s: random.bernoulli(k, 0.3, (8, 2), **s), P("X", "Y")),
    "random.beta": (lambda x, k, **s: random.beta(k, 2.0, 3.0, (8, 2), **s), P("X", "Y")),
    "random.bits": (lambda x, k, **s: random.bits(k, (8, 2), **s), P("X", "Y")),
    "random.categorical": (lambda x, k, **s: random.categorical(k, x, **s), P("X")),
    "random.cauchy": (lambda x, k, **s: random.cauchy(k, (8, 2), **s), P("X", "Y")),
    "random.chisquare": (lambda x, k, **s: random.chisquare(k, 3.0, (8, 2), **s), P("X", "Y")),
    "random.dirichlet": (lambda x, k, **s: random.dirichlet(k, np.ones(2, "f"), (8,), **s), P("X", "Y")),
    "random.exponential": (lambda x, k, **s: random.exponential(k, (8, 2), **s), P("X", "Y")),
    "random.f": (lambda x, k, **s: random.f(k, 3.0, 2.0, (8, 2), **s), P("X", "Y")),
    "random.gamma": (lambda x, k, **s: random.gamma(k, 2.0, (8, 2), **s), P("X", "Y")),
    "random.generalized_normal": (
        lambda x, k, **s: random.generalized_normal(k, 2.0, (8, 2), **s),
        P("X", "Y"),
    ),
    "random.geometric": (lambda x, k, **s: random.geometric(k, 0.3, (8, 2), **s), P("X", "Y")),
    "random.gumbel": (lambda x, k, **s: random.gumbel(k, (8, 2), **s), P("X", "Y")),
    "random.laplace": (lambda x, k, **s: random.laplace(k, (8, 2), **s), P("X", "Y")),
    "random.loggamma": (lambda x, k, **s: random.loggamma(k, 2.0, (8, 2), **s), P("X", "Y")),
    "random.logistic": (lambda x, k, **s: random.logistic(k, (8, 2), **s), P("X", "Y")),
    "random.lognormal": (lambda x, k, **s: random.lognormal(k, 2.0, (8, 2), **s), P("X", "Y")),
    "random.maxwell": (lambda x, k, **s: random.maxwell(k, (8, 2), **s), P("X", "Y")),
    "random.multivariate_normal": (
        lambda x, k, **s: random.multivariate_normal(k, np.ones(2, "f"), np.eye(2, dtype="f"), (8,), **s),
        P("X", "Y"),
    ),
    "random.normal": (lambda x, k, **s: random.normal(k, (8, 2), **s), P("X", "Y")),
    "random.orthogonal": (lambda x, k, **s: random.orthogonal(k, 2, (4,), **s), P("X", None, "Y")),
    "random.pareto": (lambda x, k, **s: random.pareto(k, 2.0, (8, 2), **s), P("X", "Y")),
    "random.permutation": (lambda x, k, **s: random.permutation(k, x, **s), P("X", "Y")),
    "random.poisson": (lambda x, k, **s: random.poisson(k, 2.0, (8, 2), **s), P("X", "Y")),
    "random.rademacher": (lambda x, k, **s: random.rademacher(k, (8, 2), **s), P("X", "Y")),
    "random.randint": (lambda x, k, **s: random.randint(k, (8, 2), 0, 9, **s), P("X", "Y")),
    "random.rayleigh": (lambda x, k, **s: random.rayleigh(k, 2.0, (8, 2), **s), P("X", "Y")),
    "random.t": (lambda x, k, **s: random.t(k, 2.0, (8, 2), **s), P("X", "Y")),
    "random.triangular": (lambda x, k, **s: random.triangular(k, 0.0, 1.0, 3.0, (8, 2), **s), P("X", "Y")),
    "random.truncated_normal": (
        lambda x, k, **s: random.truncated_normal(k, -1.0, 1.0, (8, 2), **s),
        P("X", "Y"),
    ),
    "random.uniform": (lambda x, k, **s: random.uniform(k, (8, 2), **s), P("X", "Y")),
    "random.wald": (lambda x, k, **s: random.wald(k, 2.0, (8, 2), **s), P("X", "Y")),
    # effx.experimental.sparse
    "sparse.bcoo_dot_general": (
        lambda x, k, **s: sparse.bcoo_dot_general(
            DIAG, x, dimension_numbers=(((1,), (0,)), ((), ())), **s
        ),
        P("X", "Y"),
    ),
    "sparse.bcsr_dot_general": (
        lambda x, k, **s: sparse.bcsr_dot_general(
            ROWS_OF, x, dimension_numbers=(((1,), (0,)), ((), ())), **s
        ),
        P("X", "Y"),
    ),
}  # fmt: skip
# Programs of a function that is one for many others are compiled once.
ALONE = [
    n for n in CALLS if not n.startswith(("random.", "x.at", "sparse")) or n in ("random.normal", "x.at.add")
]


@pytest.mark.parametrize("name", CALLS)
def test_a_result_has_its_out_sharding(name: str) -> None:
    """Results are sharded as asked for, and their types are those that `enable_checks` expects."""
    call, spec = CALLS[name]
    key = random.key(0)
    expected = np.asarray(call(enp.asarray(DATA), key))
    with effx.set_mesh(EXPLICIT), effx.enable_checks(True):
        x = effx.device_put(DATA, P("X", "Y"))
        result = call(x, key, out_sharding=spec)
        assert result.sharding.spec == spec
        assert effx.typeof(result).sharding.spec == P(*spec, *[None] * (result.ndim - len(spec)))
        np.testing.assert_allclose(result, expected, rtol=1e-6)
        if name in ALONE:
            inside = effx.jit(lambda x: call(x, key, out_sharding=spec))(x)
            assert inside.sharding.is_equivalent_to(NamedSharding(EXPLICIT, spec), inside.ndim)
            np.testing.assert_allclose(inside, expected, rtol=1e-6)
    if name.startswith("random.") and name not in ALONE:
        return
    with effx.set_mesh(AUTO):
        result = call(enp.asarray(DATA), key, out_sharding=spec)
        assert result.sharding.spec == spec
        np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["dot", "zeros", "random.uniform", "x.at.set", "ops.segment_sum"])
def test_inside_programs_out_sharding_is_a_constraint(name: str) -> None:
    call, spec = CALLS[name]
    key = random.key(0)
    with effx.set_mesh(AUTO):
        result = effx.jit(lambda x: call(x, key, out_sharding=spec))(DATA)
    assert result.sharding.is_equivalent_to(NamedSharding(AUTO, spec), result.ndim)
    np.testing.assert_allclose(result, call(enp.asarray(DATA), key), rtol=1e-6)


def test_types_say_it() -> None:
    with effx.set_mesh(EXPLICIT):
        x = effx.device_put(DATA, P("X", "Y"))
        assert repr(enp.dot(x.T, x, out_sharding=P("Y")).type) == "f32[4@Y,4]"
        assert repr(enp.zeros((8, 2), out_sharding=P(None, "Y")).type) == "f32[8,2@Y]"


def test_only_the_counts_of_a_histogram_are_sharded() -> None:
    with effx.set_mesh(EXPLICIT):
        counts, edges = enp.histogram(DATA, 4, out_sharding=P("X"))
    assert counts.sharding.spec == P("X")
    assert edges.shape == (5,)
    assert edges.sharding.is_fully_replicated


def test_derivatives_go_through() -> None:
    spec = NamedSharding(EXPLICIT, P("X"))
    x = effx.device_put(DATA, NamedSharding(EXPLICIT, P("X", "Y")))

    def f(x: effx.Array) -> effx.Array:
        return enp.matmul(x.T, x, out_sharding=spec)

    assert effx.jvp(f, (x,), (x,))[1].type == f(x).type
    found = effx.grad(lambda x: (f(x) ** 2).sum())(x)
    assert found.type == x.type
    a = DATA.astype(np.float64)
    np.testing.assert_allclose(found, 4 * a @ (a.T @ a), rtol=1e-5)


COMPILED = effx.jit(lambda x: enp.matmul(x.T, x, out_sharding=NamedSharding(EXPLICIT, P("X"))))


def total(x: effx.Array) -> effx.Array:
    return COMPILED(x).sum()


@effx.checkpoint
def kept(x: effx.Array) -> effx.Array:
    return COMPILED(x).sum()


# What is done with a compiled function, and the same in NumPy for an array and a cotangent of ones.
TRANSFORMED: dict[str, tuple[Call, Call, str]] = {
    "jvp": (lambda x: effx.jvp(COMPILED, (x,), (x,))[1], lambda a: 2 * a.T @ a, "f32[4@X,4]"),
    "linearize": (lambda x: effx.linearize(COMPILED, x)[1](x), lambda a: 2 * a.T @ a, "f32[4@X,4]"),
    "vjp": (
        lambda x: effx.vjp(COMPILED, x)[1](enp.ones((4, 4)))[0],
        lambda a: 2 * a @ np.ones((4, 4)),
        "f32[8@X,4@Y]",
    ),
    "grad": (
        effx.jit(effx.grad(total)),
        lambda a: 2 * a @ np.ones((4, 4)),
        "f32[8@X,4@Y]",
    ),
    "checkpoint": (
        effx.grad(kept),
        lambda a: 2 * a @ np.ones((4, 4)),
        "f32[8@X,4@Y]",
    ),
    "scan": (
        lambda x: lax.scan(lambda c, _: (c + COMPILED(x), None), COMPILED(x), None, length=2)[0],
        lambda a: 3 * a.T @ a,
        "f32[4@X,4]",
    ),
    "vmap": (
        lambda x: effx.vmap(COMPILED)(enp.stack([x, x]))[1],
        lambda a: a.T @ a,
        "f32[4@X,4]",
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_compiled_functions_have_out_shardings_too(name: str) -> None:
    call, expected, shown = TRANSFORMED[name]
    with effx.set_mesh(EXPLICIT):
        found = call(effx.device_put(DATA, P("X", "Y")))
    assert repr(found.type) == shown
    np.testing.assert_allclose(found, expected(DATA.astype(np.float64)), rtol=1e-5)


def test_without_a_mesh() -> None:
    with pytest.raises(ShardingError) as caught:
        enp.zeros(8, out_sharding=P("X"))
    assert caught.value.message == (
        "zeros: P('X') alone means a sharding on the mesh in force, and there is none; use effx.set_mesh, or give a "
        "NamedSharding"
    )


def test_too_many_axes() -> None:
    with effx.set_mesh(EXPLICIT), pytest.raises(ShardingError) as caught:
        enp.matmul(DATA, DATA.T, out_sharding=P("X", None, "Y"))
    assert caught.value.message == "matmul: P('X', None, 'Y') speaks of 3 axes, but the array has 2"


def test_what_is_no_sharding() -> None:
    with pytest.raises(ShardingError) as caught:
        enp.asarray(DATA).reshape(-1, out_sharding="X")
    assert caught.value.message == (
        "reshape: expected a NamedSharding or a PartitionSpec, got 'X' of type str"
    )


def test_sparse_results_cannot_be_sharded() -> None:
    with effx.set_mesh(EXPLICIT), pytest.raises(ShardingError) as caught:
        sparse.bcoo_dot_general(DIAG, DIAG, dimension_numbers=(((1,), (0,)), ((), ())), out_sharding=P("X"))
    assert caught.value.message == (
        "bcoo_dot_general: out_sharding is for dense results, and the product of two sparse arrays is sparse"
    )
