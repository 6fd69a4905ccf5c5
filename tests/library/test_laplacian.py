"""The forward Laplacian: equal to the trace of the Hessian, and faster.

Never: takes a second derivative from the handler as the truth.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import errors, lax
from effx.handling import Reference, handle
from effx.library.laplacian import Laplacians, laplacian
from tests.library.functions import defined_at

POINT = np.array([0.3, 0.7, 0.5])
Function = Callable[..., Any]


def f4(values: Any) -> np.ndarray[Any, Any]:
    """Single precision."""
    return np.asarray(values, np.float32)


def trace(f: Function, x: Any, forward: bool = False) -> list[np.ndarray[Any, Any]]:
    """The traces of the Hessians of all results."""
    n = np.size(x)
    found = []
    hessian = effx.jacfwd(effx.jacfwd(f)) if forward else effx.hessian(f)
    for y in effx.tree.leaves(hessian(x)):
        square = np.asarray(y).reshape((*np.shape(y)[: np.ndim(y) - 2 * np.ndim(x)], n, n))
        found.append(np.trace(square, axis1=-2, axis2=-1))
    return found


def check(f: Function, forward: bool = False, tolerance: float = 1e-10, compiled: bool = False) -> None:
    """The law: the Laplacian is the trace of the Hessian, and the value is f's. On NumPy, or on XLA."""
    with effx.enable_x64(True), contextlib.nullcontext() if compiled else handle(Reference()):
        x = enp.asarray(POINT)
        value, lap = laplacian(f)(x)
        for got, want in zip(effx.tree.leaves(value), effx.tree.leaves(f(x)), strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12)
        for got, want in zip(effx.tree.leaves(lap), trace(f, x, forward), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


FUNCTIONS: dict[str, Function] = {
    **defined_at(POINT),
    "power 3": lambda x: x**3,
    "power of x": lambda x: x**x,
    "atan2": lambda x: enp.arctan2(x, x[::-1]),
    "rational": lambda x: enp.sum(x) / (1.0 + x * x) - 2.0 / x,
    "maximum": lambda x: enp.maximum(x * x, 0.4 * x + 0.25),
    "clip": lambda x: enp.clip(x * x, 0.1, 0.3),
    "mod": lambda x: enp.mod(x * x * 3.0, 0.7),
    "where": lambda x: enp.where(x > 0.4, enp.sin(x), x * x[0]),
    "prod": enp.prod,
    "cumprod": enp.cumprod,
    "cumsum": lambda x: enp.cumsum(x * x),
    "max": lambda x: enp.max(x * x),
    "sort": lambda x: enp.sort(-x * x),
    "logsumexp": effx.nn.logsumexp,
    "std": enp.std,
    "quadratic form": lambda x: x @ enp.outer(x, enp.exp(x)),
    "batched product": lambda x: enp.einsum(
        "bi,bij->bj", enp.outer(x, x), enp.sin(x)[:, None, None] * enp.ones((3, 3, 2))
    ),
    "gather": lambda x: x[enp.array([2, 0])] * x[1],
    "scatter add": lambda x: enp.zeros_like(x).at[enp.array([0, 0, 1])].add(x * x),
    "scatter mul": lambda x: x.at[1].multiply(x[0]),
    "slices": lambda x: lax.dynamic_update_slice(x, lax.dynamic_slice(x * x, (1,), (2,)), (0,)),
    "stop": lambda x: x * lax.stop_gradient(x) * x,
    "barrier": lambda x: lax.optimization_barrier((x * x, 3.0))[0],
    "several": lambda x: {"a": x * x, "b": (enp.sum(x), enp.prod(x))},
    "activations": lambda x: effx.nn.gelu(x) + effx.nn.softplus(x) * effx.nn.relu(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_trace_of_the_hessian(name: str) -> None:
    """Each operation."""
    check(FUNCTIONS[name])


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, a: (enp.sin(c) * a, c * c), 0.5, x)


def scanned_rows(x: Any) -> Any:
    return lax.scan(lambda c, row: (enp.tanh(row * c + x), row @ c), x, enp.outer(x, x))


def branched(x: Any) -> Any:
    return lax.cond(x[0] > 0.1, lambda v: enp.sin(v), lambda v: enp.ones_like(v), x) * x[1]


def looped(x: Any) -> Any:
    return lax.while_loop(lambda c: c[1][1] > 0.2, lambda c: (c[0] + 1, enp.sin(c[1]) * x), (0, x))[1]


def counted(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, v: v * x[i] + enp.tanh(v), enp.ones(3))


def checkpointed(x: Any) -> Any:
    return effx.checkpoint(lambda v: enp.sin(enp.exp(v) * v[0]))(x)


def batched(x: Any) -> Any:
    return effx.vmap(lambda a: enp.tanh(a) * lax.cond(a > 0.4, enp.sin, enp.cos, a))(x)


def jitted(x: Any) -> Any:
    return effx.jit(lambda v: enp.exp(effx.jit(enp.sin)(v)) * v[2])(x)


def gradient(x: Any) -> Any:
    return effx.grad(lambda v: enp.sum(enp.sin(v) * v[::-1]))(x)


@effx.custom_jvp
def custom(x: Any) -> Any:
    return enp.sin(x)


# Not the sine's derivative, so that it shows which one is used.
custom.defjvp(lambda primals, tangents: (custom(primals[0]), tangents[0] * enp.cos(primals[0]) * 1.5))


def customised(x: Any) -> Any:
    return custom(x * x) * x


PROGRAMS = [
    scanned,
    scanned_rows,
    branched,
    looped,
    counted,
    checkpointed,
    batched,
    jitted,
    gradient,
    customised,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: str(f.__name__))
def test_programs(program: Function) -> None:
    """Loops, branches, calls, transformations and users' rules inside."""
    check(program, forward=program is looped, compiled=True)


@pytest.mark.parametrize("program", [scanned_rows, branched])
def test_transformations_outside(program: Function) -> None:
    """jit, vmap and grad of a Laplacian."""

    def last(x: Any) -> Any:
        return enp.sum(effx.tree.leaves(laplacian(program)(x)[1])[-1])

    with effx.enable_x64(True):
        x = enp.asarray(POINT)
        want = float(last(x))
        np.testing.assert_allclose(float(effx.jit(last)(x)), want, rtol=1e-12)
        rows = np.stack([POINT, POINT + 0.1])
        np.testing.assert_allclose(float(effx.vmap(last)(rows)[0]), want, rtol=1e-12)
        slope = effx.jit(effx.grad(last))(x)
        for i in range(3):
            shift = 1e-6 * np.eye(3)[i]
            difference = (float(last(x + shift)) - float(last(x - shift))) / 2e-6
            np.testing.assert_allclose(float(slope[i]), difference, rtol=1e-6, atol=1e-8)


def test_harmonic_functions() -> None:
    """The real part of a holomorphic function, and 1/r in space, have Laplacian zero; r^2 has twice the dimension."""
    with effx.enable_x64(True):
        plane = enp.asarray(np.array([0.4, 0.9]))
        assert abs(float(laplacian(lambda p: enp.exp(p[0]) * enp.cos(p[1]))(plane)[1])) < 1e-12
        space = enp.asarray(np.array([0.4, 0.9, -0.3]))
        assert abs(float(laplacian(lambda p: 1.0 / enp.sqrt(enp.sum(p * p)))(space)[1])) < 1e-12
        assert float(laplacian(lambda p: enp.sum(p * p))(space)[1]) == 6.0


def test_parallel_replicas() -> None:
    """Inside of pmap and around it, sums over replicas included."""
    x = f4([0.5, 1.5])
    f = lambda v: enp.sin(v) * lax.psum(v, "i")  # noqa: E731
    inside = effx.pmap(lambda v: laplacian(f)(v)[1], axis_name="i")(x)
    # A replica's derivatives are by its own element, but the sum counts each: -sin(x) (x1 + x2) + 2 cos(x) 2.
    np.testing.assert_allclose(np.asarray(inside), -np.sin(x) * 2.0 + 4.0 * np.cos(x), rtol=1e-5)
    outside = laplacian(effx.pmap(f, axis_name="i"))(x)[1]
    np.testing.assert_allclose(np.asarray(outside), -np.sin(x) * 2.0 + 2.0 * np.cos(x), rtol=1e-5)


def test_structures() -> None:
    """Several arguments, each a pytree: derivatives by all elements of all of them."""
    f = lambda d, y: {"r": enp.sum(d["x"] ** 2) * y, "c": enp.ones(2)}  # noqa: E731
    value, lap = laplacian(f)({"x": enp.array([1.0, 2.0])}, enp.float32(3.0))
    assert (float(value["r"]), float(lap["r"])) == (15.0, 12.0)
    assert np.asarray(lap["c"]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(), (1,), (2, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: Any) -> None:
    """Scalars and matrices, in their own dtype."""
    x = enp.asarray(np.full(shape, 0.5, dtype))
    value, lap = laplacian(lambda v: enp.sum(v**3))(x)
    assert value.dtype == lap.dtype == np.dtype(dtype)
    np.testing.assert_allclose(float(lap), 3.0 * x.size, rtol=1e-3)


def test_errors() -> None:
    """What has no Laplacian is refused in words."""
    cases: list[tuple[Any, type[errors.EffxError], str]] = [
        (enp.arange(3), errors.DTypeError, "laplacian: arguments must be floating arrays, got i32[3]"),
        (1j, errors.DTypeError, "laplacian: arguments must be floating arrays, got c64[]~"),
        ((), errors.TransformError, "laplacian: takes at least one element to differentiate by, got none"),
        (
            enp.zeros(0),
            errors.TransformError,
            "laplacian: takes at least one element to differentiate by, got none",
        ),
    ]
    for x, kind, message in cases:
        with pytest.raises(kind) as caught:
            laplacian(lambda v: 1.0)(x)
        assert caught.value.message == message


STEPS: dict[str, Function] = {
    "exp": lambda x, y: enp.exp(enp.tanh(x)) - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (2.0 + enp.sin(y)),
    "pow": lambda x, y: (1.5 + enp.sin(x)) ** enp.cos(y),
    "dot": lambda x, y: x * enp.dot(x, y),
    "sum": lambda x, y: enp.cumsum(x)[::-1] + enp.max(y),
    "prod": lambda x, y: enp.prod(enp.cos(x)) * y,
    "scan": lambda x, y: lax.scan(lambda c, r: (c * r + enp.sin(c), c), 0.3, x)[1] + y,
    "cond": lambda x, y: lax.cond(x[0] > y[0], enp.sin, lambda v: v * v, x) + y,
    "vmap": lambda x, y: effx.vmap(lambda a, b: enp.tanh(a * b))(x, y),
}


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=3,
    )
)
def test_random_programs(steps: list[tuple[str, int, int]]) -> None:
    """Composition: the Laplacian of a random program is the trace of its Hessian."""

    def function(x: Any) -> Any:
        values = [x, x[::-1] * 0.5]
        for name, i, j in steps:
            values.append(STEPS[name](values[i % len(values)], values[j % len(values)]))
        return values[-1]

    check(function, tolerance=1e-8)


def network(layers: Any, x: Any) -> Any:
    for w, b in layers[:-1]:
        x = enp.tanh(x @ w + b)
    w, b = layers[-1]
    return (x @ w + b)[0]


def layers_of(sizes: list[int]) -> Any:
    rng = np.random.default_rng(0)
    return [
        (
            enp.asarray(rng.normal(size=(a, b)).astype("f4") / np.sqrt(a)),
            enp.asarray(rng.normal(size=b).astype("f4")),
        )
        for a, b in itertools.pairwise(sizes)
    ]


def by_hessian(layers: Any, x: Any) -> Any:
    """The other route: forward mode over the gradient, along each basis vector, and of that the diagonal."""
    slope = effx.grad(lambda v: network(layers, v))
    along = lambda v: enp.vdot(v, effx.jvp(slope, (x,), (v,))[1])  # noqa: E731
    return enp.sum(effx.vmap(along)(enp.eye(x.size)))


@pytest.mark.deep
@pytest.mark.parametrize("batch", [1, 64])
def test_faster_than_the_hessian(batch: int) -> None:
    """On a network of 30 inputs the forward Laplacian takes less time than the trace of the Hessian."""
    layers = layers_of([30, 128, 128, 128, 1])
    x = enp.asarray(np.random.default_rng(1).normal(size=(batch, 30)).astype("f4"))
    forward = effx.jit(effx.vmap(lambda p, v: laplacian(lambda u: network(p, u))(v)[1], in_axes=(None, 0)))
    backward = effx.jit(effx.vmap(by_hessian, in_axes=(None, 0)))
    np.testing.assert_allclose(
        np.asarray(forward(layers, x)), np.asarray(backward(layers, x)), rtol=1e-4, atol=1e-4
    )
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(41):
        for i in range(2):
            start = time.perf_counter()
            (forward(layers, x) if i == 0 else backward(layers, x)).block_until_ready()
            times[i].append(time.perf_counter() - start)
    assert np.median(times[0]) < np.median(times[1])


def test_work_is_that_of_one_pass() -> None:
    """A layer costs one product of matrices for the value, one for the gradients, and one for the Laplacian."""
    layers = layers_of([30, 16, 16, 1])
    program = effx.make_jaxpr(lambda x: laplacian(lambda v: network(layers, v))(x))(enp.zeros(30))
    assert str(program).count("dot_general") == 3 * 3 - 1  # the arguments themselves have no Laplacian
    assert Laplacians() == Laplacians()
