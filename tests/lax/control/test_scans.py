"""scan, map and associative_scan against loops of NumPy and Python.

Never: looks at messages; test_errors.py does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Box

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3)).astype(np.float32)
W = RNG.normal(size=(3, 3)).astype(np.float32) * 0.5


def numpy_scan(f: Callable[..., Any], init: Any, xs: Any, length: int, reverse: bool = False) -> Any:
    carry, ys = init, []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, None if xs is None else xs[i])
        ys.append(y)
    return carry, np.stack(ys[::-1] if reverse else ys)


@pytest.mark.parametrize("length", [0, 1, 2, 5, 7])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 10, True, False])
def test_any_length_direction_and_unroll(length: int, reverse: bool, unroll: int | bool) -> None:
    xs = RNG.normal(size=(length, 2)).astype(np.float32)
    got = lax.scan(lambda c, x: (c * 0.5 + x, c - x), enp.ones(2), xs, reverse=reverse, unroll=unroll)
    if length == 0:
        assert (got[0].tolist(), got[1].shape) == ([1.0, 1.0], (0, 2))
        return
    want = numpy_scan(lambda c, x: (c * 0.5 + x, c - x), np.ones(2), xs, length, reverse)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_trees() -> None:
    """Carries, inputs and outputs are pytrees, with None anywhere."""

    def f(carry: Any, x: Any) -> Any:
        a, (b, none) = carry["a"], carry["rest"]
        assert none is None
        return {"a": a + x[0], "rest": (b * x[1]["k"], None)}, {"y": (a, None), "z": x[1]["k"]}

    xs = (np.arange(4), {"k": np.full((4, 2), 2.0, np.float32), "none": None})
    carry, ys = lax.scan(f, {"a": 0, "rest": (enp.ones(2), None)}, xs)
    assert (int(carry["a"]), carry["rest"][0].tolist(), carry["rest"][1]) == (6, [16.0, 16.0], None)
    assert (ys["y"][0].tolist(), ys["y"][1], ys["z"].shape) == ([0, 0, 1, 3], None, (4, 2))


def test_without_inputs_or_outputs() -> None:
    assert [int(v) for v in lax.scan(lambda c, x: (c + 1, None), 0, None, length=4)[:1]] == [4]
    doubled: Any = lax.scan(lambda c, x: (c, x * 2), None, enp.arange(3))[1]
    assert doubled.tolist() == [0, 2, 4]
    assert lax.scan(lambda c, x: (c, None), (), np.arange(3)) == ((), None)


@pytest.mark.parametrize(
    ("init", "step", "dtype", "weak"),
    [
        (0, lambda c: c + 1, "int32", True),
        (0, lambda c: c + 1.5, "float32", False),
        (0, lambda c: c + np.float32(1), "float32", False),
        (0, lambda c: c + np.int8(1), "int8", False),
        (0.0, lambda c: c + np.float32(1), "float32", False),
        (0.0, lambda c: c + np.float16(1), "float16", False),
        (np.float32(0), lambda c: 1.0, "float32", False),
        (1j, lambda c: c * np.complex64(2), "complex64", False),
        (True, lambda c: ~c, "bool", False),
    ],
)
def test_numbers_in_the_carry_take_the_type_of_the_body(init: Any, step: Any, dtype: str, weak: bool) -> None:
    """In scan and in while loops; as in JAX."""
    carry, _ = lax.scan(lambda c, _: (step(c), None), init, None, length=3)
    last = lax.while_loop(lambda s: s[1] < 3, lambda s: (step(s[0]), s[1] + 1), (init, 0))[0]
    for x in (carry, last, lax.fori_loop(0, 3, lambda i, c: step(c), init)):
        assert (x.dtype, x.weak_type) == (np.dtype(dtype), weak)
        assert x.tolist() == carry.tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "bfloat16", "float32", "complex64", "bool"])
def test_dtypes(dtype: str) -> None:
    xs = enp.ones((3, 2), dtype)
    combine = enp.logical_xor if dtype == "bool" else enp.add
    carry, ys = lax.scan(lambda c, x: (combine(c, x), c), xs[0], xs)
    assert (carry.dtype, ys.dtype, ys.shape) == (xs.dtype, xs.dtype, (3, 2))


def rnn(w: Any, x: Any, h: Any) -> Any:
    h, ys = lax.scan(lambda h, row: (enp.tanh(w @ h + row), (h * row).sum()), h, x, unroll=2)
    return (h * h).sum() + enp.sin(ys).sum()


def unrolled(w: Any, x: Any, h: Any) -> Any:
    total: Any = 0.0
    for row in x:
        total = total + enp.sin((h * row).sum())
        h = enp.tanh(w @ h + row)
    return (h * h).sum() + total


H = np.array([0.1, -0.2, 0.3], np.float32)


ARGUMENTS = (enp.asarray(W), enp.asarray(X), enp.asarray(H))


@pytest.mark.parametrize(
    "derive",
    [
        lambda f: effx.grad(f, (0, 1, 2)),
        lambda f: effx.jacfwd(f, (0, 1, 2)),
        lambda f: effx.hessian(f, 2),
        lambda f: effx.jacrev(effx.grad(f, 2), 0),
        lambda f: effx.jacfwd(effx.jacrev(f, 1), 1),
    ],
    ids=["grad", "jacfwd", "hessian by the carry", "mixed", "hessian by an input"],
)
def test_derivatives_are_those_of_the_unrolled_loop(derive: Callable[[Any], Any]) -> None:
    """By a constant, an input and the carry; first and second, forward and backward, under jit."""
    want, got = effx.jit(derive(unrolled))(*ARGUMENTS), effx.jit(derive(rnn))(*ARGUMENTS)
    effx.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5), got, want)


def test_eager_derivatives_are_those_under_jit() -> None:
    eager, compiled = effx.grad(rnn)(*ARGUMENTS), effx.jit(effx.grad(rnn))(*ARGUMENTS)
    np.testing.assert_allclose(eager, compiled, rtol=1e-4, atol=1e-6)


def test_linearize_and_jvp() -> None:
    """The linear program runs the loop's linear part; jvp is the slope."""
    with effx.enable_x64(True):
        x, v = enp.asarray(X.astype("f8")), enp.asarray(RNG.normal(size=X.shape))
        f: Any = lambda x: rnn(enp.asarray(W.astype("f8")), x, enp.asarray(H.astype("f8")))  # noqa: E731
        _, push = effx.linearize(f, x)
        h = 1e-6
        slope = (float(f(x + h * v)) - float(f(x - h * v))) / (2 * h)
        np.testing.assert_allclose(float(push(v)), slope, rtol=1e-6)
        np.testing.assert_allclose(float(effx.jvp(f, (x,), (v,))[1]), slope, rtol=1e-6)


def test_vmap_of_every_part() -> None:
    """Batched inputs, constants, carry, in any axis; a carry that becomes batched late."""
    w, x, h = enp.asarray(W), enp.asarray(X), enp.asarray(H)
    batches = RNG.normal(size=(4, 5, 3)).astype(np.float32)
    for axis in (0, 1, 2):
        xs = np.moveaxis(batches, 0, axis)
        got = effx.vmap(lambda v: rnn(w, v, h), axis)(xs)
        np.testing.assert_allclose(got, [float(rnn(w, enp.asarray(b), h)) for b in batches], rtol=1e-4)
    ws = np.stack([W, 2 * W])
    got = effx.vmap(lambda v: rnn(v, x, h))(ws)
    np.testing.assert_allclose(got, [float(rnn(enp.asarray(v), x, h)) for v in ws], rtol=1e-4)
    hs = np.stack([H, -H], 1)
    np.testing.assert_allclose(
        effx.vmap(lambda v: rnn(w, x, v), 1)(hs), [float(rnn(w, x, enp.asarray(v))) for v in hs.T], rtol=1e-4
    )

    def late(v: Any) -> Any:
        def f(carry: Any, row: Any) -> Any:
            a, b, c = carry
            return (b, c, c + v), a

        return lax.scan(f, (enp.float32(1), enp.float32(2), enp.float32(3)), None, length=5)

    got, ys = effx.vmap(late)(np.array([1.0, 10.0], np.float32))
    assert [y.tolist() for y in got] == [[6.0, 33.0], [7.0, 43.0], [8.0, 53.0]]
    assert ys.tolist() == [[1, 2, 3, 4, 5], [1, 2, 3, 13, 23]]


def test_gradients_in_batches() -> None:
    """vmap(grad) = loop of grads, grad(vmap) = sum of grads."""
    batches = enp.asarray(RNG.normal(size=(3, 5, 3)).astype(np.float32))
    w, h = enp.asarray(W), enp.asarray(H)
    want = enp.stack([effx.grad(rnn)(w, b, h) for b in batches])
    got = effx.jit(effx.vmap(effx.grad(rnn), (None, 0, None)))(w, batches, h)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
    both = effx.grad(lambda w: effx.vmap(lambda b: rnn(w, b, h))(batches).sum())(w)
    np.testing.assert_allclose(both, want.sum(0), rtol=1e-3, atol=1e-5)


def test_nested_loops_close_over_outer_values() -> None:
    """A scan in a branch in a while loop in a scan, each reading variables of all around it."""

    def f(x: Any, n: int) -> Any:
        def outer(c: Any, row: Any) -> Any:
            def body(s: Any) -> Any:
                i, v = s
                v = lax.cond(
                    i % 2 == 0,
                    lambda: lax.scan(lambda a, b: (a + b * row * v, None), v, x)[0],
                    lambda: v * 0.5 + c,
                )
                return i + 1, v

            return lax.while_loop(lambda s: s[0] < n, body, (0, c))[1], c

        return lax.scan(outer, x.sum(), x)

    def plain(x: Any, n: int) -> Any:
        c, ys = x.sum(), []
        for row in x:
            ys.append(c)
            v = c
            for i in range(n):
                if i % 2 == 0:
                    a = v
                    for b in x:
                        a = a + b * row * v
                    v = a
                else:
                    v = v * 0.5 + c
            c = v
        return c, enp.stack(ys)

    x = enp.asarray([0.5, -0.25, 0.125])
    for g in (f, effx.jit(f, static_argnums=1)):
        for a, b in zip(g(x, 3), plain(x, 3), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    batch = enp.stack([x, 2 * x])
    np.testing.assert_allclose(effx.vmap(lambda v: f(v, 2)[0])(batch)[1], plain(2 * x, 2)[0], rtol=1e-5)
    tangent = effx.jvp(lambda v: f(v, 3)[0], (x,), (enp.ones(3),))[1]
    np.testing.assert_allclose(tangent, effx.grad(lambda v: plain(v, 3)[0])(x).sum(), rtol=1e-4)


def test_collectives_in_the_body() -> None:
    """psum in a scan under vmap(axis_name): the effect goes through the loop."""

    def f(x: Any) -> Any:
        return lax.scan(lambda c, row: (c + lax.psum(row, "i"), row / lax.psum(row, "i")), 0.0, x)

    x = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    totals, shares = effx.vmap(f, axis_name="i")(x)
    np.testing.assert_allclose(totals, [21, 21])
    np.testing.assert_allclose(shares, x / x.sum(0), rtol=1e-6)
    program = effx.jit(effx.vmap(f, axis_name="i"))
    np.testing.assert_allclose(program(x)[1], x / x.sum(0), rtol=1e-6)


def test_disable_jit_runs_python() -> None:
    """Each step sees concrete slices; length 0 is staged, because nothing else says what f returns."""
    kinds: list[bool] = []

    def f(c: Any, x: Any) -> Any:
        kinds.append(type(x) is Box)
        return c + x, {"y": c * x}

    start = enp.zeros(3)
    want = lax.scan(f, start, X, reverse=True)
    kinds.clear()
    with effx.disable_jit():
        got = lax.scan(f, start, X, reverse=True)
        assert kinds == [False] * 5
        effx.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)
        assert lax.scan(f, start, X[:0])[1]["y"].shape == (0, 3)
        assert lax.map(lambda x: x * 2, np.arange(5), batch_size=2).tolist() == [0, 2, 4, 6, 8]
        np.testing.assert_allclose(
            effx.grad(rnn)(W, X, H), effx.grad(unrolled)(W, X, H), rtol=1e-4, atol=1e-5
        )


def test_staged_once_for_a_function() -> None:
    """An eager loop in Python stages and compiles the body once."""
    runs = 0

    def f(c: Any, x: Any) -> Any:
        nonlocal runs
        runs += 1
        return c + x, None

    for n in range(5):
        assert float(lax.scan(f, np.float32(n), X[:, 0])[0]) == pytest.approx(
            n + float(X[:, 0].sum()), rel=1e-5
        )
    assert runs == 1


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("batch_size", [None, 1, 2, 3, 10])
def test_map(n: int, batch_size: int | None) -> None:
    """Over whole batches, what is left, and both."""
    xs: Any = {"a": np.arange(n), "b": RNG.normal(size=(n, 2)).astype(np.float32)}
    y, z = lax.map(lambda x: (x["a"] + 1, enp.sin(x["b"]).sum()), xs, batch_size=batch_size)
    np.testing.assert_array_equal(y, xs["a"] + 1)
    np.testing.assert_allclose(z, np.sin(xs["b"]).sum(-1), rtol=1e-5, atol=1e-6)
    slope = effx.grad(lambda b: lax.map(lambda r: (r * r).sum(), b, batch_size=batch_size).sum())(xs["b"])
    np.testing.assert_allclose(slope, 2 * xs["b"], rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_sums(n: int, axis: int, reverse: bool) -> None:
    """Along any axis, in both directions."""
    x = RNG.integers(-9, 9, (3, 2, 2) if n == 3 else (n, n, n)).astype(np.int32)
    flipped: Any = (lambda v: np.flip(v, axis)) if reverse else (lambda v: v)
    want = flipped(np.cumsum(flipped(x), axis, dtype=np.int32))
    np.testing.assert_array_equal(lax.associative_scan(enp.add, x, reverse, axis), want)


def test_associative_scan_keeps_the_order() -> None:
    """Matrix products do not commute; reverse puts later elements first, as JAX does."""
    m = RNG.integers(-2, 3, (7, 2, 2))
    want = list(accumulate(m, operator.matmul))
    np.testing.assert_array_equal(lax.associative_scan(enp.matmul, m), want)
    back = list(accumulate(m[::-1], operator.matmul))[::-1]
    np.testing.assert_array_equal(lax.associative_scan(enp.matmul, m, reverse=True), back)


def test_associative_scan_of_trees() -> None:
    """Affine maps x -> a x + b, under jit, vmap and grad."""
    a, b = RNG.normal(size=6).astype(np.float32), RNG.normal(size=6).astype(np.float32)

    def compose(f: Any, g: Any) -> Any:
        return {"a": g["a"] * f["a"], "b": g["a"] * f["b"] + g["b"]}

    def f(a: Any, b: Any) -> Any:
        return lax.associative_scan(compose, {"a": a, "b": b})["b"]

    want, x = [], 0.0
    for i in range(6):
        x = a[i] * x + b[i]
        want.append(x)
    for got in (f(a, b), effx.jit(f)(a, b), effx.vmap(f)(a[None], b[None])[0]):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    loop: Any = lambda a, b: lax.scan(lambda c, e: (e[0] * c + e[1],) * 2, 0.0, (a, b))[1].sum()  # noqa: E731
    np.testing.assert_allclose(
        effx.grad(lambda a: f(a, b).sum())(a), effx.grad(loop)(a, b), rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("length", [0, 1, 4])
@pytest.mark.parametrize("reverse", [False, True])
def test_what_a_loop_does_not_change_is_not_carried(length: int, reverse: bool) -> None:
    """A carry that is handed on is a constant, an output that is the input's slice is the input; values do not change."""
    xs, w = np.arange(3.0 * length, dtype=np.float32).reshape(length, 3), np.float32(2.0)

    def body(carry: Any, x: Any) -> Any:
        total, scale, same = carry
        return (total + scale * x.sum(), scale, same), (x, scale * x, same)

    def f(w: Any, xs: Any) -> Any:
        return lax.scan(body, (0.0, w, {"a": xs[:0]}), xs, reverse=reverse)

    expected = ((2 * xs.sum(), 2.0, {"a": xs[:0]}), (xs, 2 * xs, {"a": np.zeros((length, 0, 3))}))
    for g in (f, effx.jit(f)):
        for a, b in zip(effx.tree.leaves(g(w, xs)), effx.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    program: Any = effx.make_jaxpr(f)(w, xs)
    (scan,) = [e for e in program.equations if e.op.name == "scan"]
    assert (scan.op.constants, scan.op.carries, len(scan.outputs)) == (2, 1, 3)
    loss = lambda w, xs: f(w, xs)[0][0] + (f(w, xs)[1][1] * f(w, xs)[1][0]).sum()  # noqa: E731
    by_w, by_xs = effx.grad(loss, (0, 1))(w, enp.asarray(xs))
    np.testing.assert_allclose(by_w, xs.sum() + (xs**2).sum(), rtol=1e-6)
    np.testing.assert_allclose(by_xs, 2 + 4 * xs, rtol=1e-6)
    batched = effx.vmap(f, (0, None), ((0, 0, {"a": None}), (None, 0, {"a": None})))(np.array([w, 3 * w]), xs)
    np.testing.assert_allclose(batched[0][0], [2 * xs.sum(), 6 * xs.sum()], rtol=1e-6)


def test_results_that_are_operands_have_memory_of_their_own() -> None:
    """Outside of programs they may be donated; a loop and a branch that only hand on give a copy."""
    x = enp.arange(3.0)
    for y in (
        lax.scan(lambda c, _: (c, None), x, None, length=2)[0],
        lax.scan(lambda c, x: (c, x), 0.0, x)[1],
        lax.cond(True, lambda x: x, lambda x: x, x),
    ):
        effx.jit(lambda y: y + 1, donate_argnums=0)(y)
        np.testing.assert_array_equal(x, [0, 1, 2])


def test_loops_that_hand_on_everything_still_have_effects() -> None:
    """A print in a body without other use happens in each iteration."""
    seen: list[float] = []

    def body(c: Any, x: Any) -> Any:
        effx.debug.callback(lambda x: seen.append(float(x)), x, ordered=True)
        return c, x

    effx.jit(lambda xs: lax.scan(body, 1.0, xs))(enp.arange(3.0))
    effx.effects_barrier()
    assert seen == [0.0, 1.0, 2.0]
