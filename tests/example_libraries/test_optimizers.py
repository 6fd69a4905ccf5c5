"""Optimizers move parameters as their papers say, in pytrees of any structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
from effx.errors import EffxError
from effx.example_libraries import optimizers
from effx.example_libraries.optimizers import Optimizer

START = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]])
RNG = np.random.default_rng(0)
GRADIENTS = [np.where(RNG.random((2, 3)) < 0.3, 0.0, RNG.normal(size=(2, 3))) for _ in range(4)]


def over_root(g: np.ndarray, squares: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.divide(g, np.sqrt(squares), out=np.zeros_like(g), where=squares > 0)
    return found


def sgd(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    return x - 0.1 * g


def momentum(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    s["v"] = 0.9 * s.get("v", 0) + g
    return x - 0.1 * s["v"]


def nesterov(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    s["v"] = 0.9 * s.get("v", 0) + g
    return x - 0.1 * (g + 0.9 * s["v"])


def adagrad(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    s["n"] = s.get("n", 0) + g**2
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * over_root(g, s["n"])
    return x - 0.1 * s["m"]


def rmsprop(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    s["n"] = 0.9 * s.get("n", 0) + 0.1 * g**2
    return x - 0.1 * g / np.sqrt(s["n"] + 1e-8)


def rmsprop_momentum(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    s["n"] = 0.9 * s.get("n", 0) + 0.1 * g**2
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g / np.sqrt(s["n"] + 1e-8)
    return x - s["m"]


def adam(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["n"] = 0.999 * s.get("n", 0) + 0.001 * g**2
    m, n = s["m"] / (1 - 0.9 ** (i + 1)), s["n"] / (1 - 0.999 ** (i + 1))
    return x - 0.1 * m / (np.sqrt(n) + 1e-8)


def adamax(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * g
    s["u"] = np.maximum(0.999 * s.get("u", 0), abs(g))
    return x - 0.1 / (1 - 0.9 ** (i + 1)) * s["m"] / (s["u"] + 1e-8)


def sm3(x: Any, s: dict[str, Any], i: int, g: Any) -> Any:
    rows, columns = s.get("rows", np.zeros(2)), s.get("columns", np.zeros(3))
    n = np.minimum(rows[:, None], columns) + g**2
    s["rows"], s["columns"] = n.max(1), n.max(0)
    s["m"] = 0.9 * s.get("m", 0) + 0.1 * over_root(g, n)
    return x - 0.1 * s["m"]


RULES: dict[str, tuple[Callable[..., Any], Callable[..., Optimizer]]] = {
    "sgd": (sgd, lambda: optimizers.sgd(0.1)),
    "momentum": (momentum, lambda: optimizers.momentum(0.1, 0.9)),
    "nesterov": (nesterov, lambda: optimizers.nesterov(0.1, mass=0.9)),
    "adagrad": (adagrad, lambda: optimizers.adagrad(0.1)),
    "rmsprop": (rmsprop, lambda: optimizers.rmsprop(0.1)),
    "rmsprop_momentum": (rmsprop_momentum, lambda: optimizers.rmsprop_momentum(0.1)),
    "adam": (adam, lambda: optimizers.adam(0.1)),
    "adamax": (adamax, lambda: optimizers.adamax(0.1)),
    "sm3": (sm3, lambda: optimizers.sm3(0.1)),
}


@pytest.mark.parametrize("name", RULES)
def test_steps(name: str) -> None:
    """As written in NumPy; compiled, with the number of the step as an argument; with a slope of the result."""
    rule, make = RULES[name]
    init, update, params = make()
    with effx.enable_x64(True):
        state = init({"a": START, "b": [START[0, 0]]})
        step = effx.jit(update)
        x, seen, y = START, dict[str, Any](), START[:1, :1]
        single: dict[str, Any] = {}
        for i, g in enumerate(GRADIENTS):
            state = step(i, {"a": g, "b": [g[0, 0]]}, state)
            x = rule(x, seen, i, g)
            if name != "sm3":
                y = rule(y, single, i, g[:1, :1])
        np.testing.assert_allclose(params(state)["a"], x, rtol=1e-12)
        if name != "sm3":
            np.testing.assert_allclose(params(state)["b"][0], y[0, 0], rtol=1e-12)

        def moved(x: Any) -> Any:
            return params(update(1, GRADIENTS[0], init(x))).sum()

        np.testing.assert_allclose(effx.grad(moved)(START), np.ones((2, 3)))
        many = effx.vmap(lambda x: params(update(0, 2 * x, init(x))))(START)
        np.testing.assert_allclose(many[1], params(update(0, 2 * START[1], init(START[1]))), rtol=1e-12)


def test_adaptive_steps_of_a_number() -> None:
    """A parameter without axes has one bound of its own."""
    init, update, params = optimizers.sm3(0.1, momentum=0.0)
    state = init(1.0)
    for i in range(2):
        state = update(i, 2.0, state)
    np.testing.assert_allclose(params(state), 1 - 0.1 - 0.1 / np.sqrt(2), rtol=1e-6)
    assert params(state).shape == ()


@pytest.mark.parametrize(
    ("schedule", "want"),
    [
        (optimizers.constant(0.3), [0.3] * 4),
        (optimizers.make_schedule(0.3), [0.3] * 4),
        (optimizers.make_schedule(effx.numpy.array(0.5)), [0.5] * 4),
        (optimizers.exponential_decay(0.4, 2, 0.25), 0.4 * 0.25 ** (np.arange(4) / 2)),
        (optimizers.inverse_time_decay(0.4, 2, 0.5), 0.4 / (1 + np.arange(4) / 4)),
        (optimizers.inverse_time_decay(0.4, 2, 0.5, staircase=True), [0.4, 0.4, 0.4 / 1.5, 0.4 / 1.5]),
        (optimizers.polynomial_decay(0.4, 2, 0.1, power=2.0), [0.4, 0.175, 0.1, 0.1]),
        (optimizers.piecewise_constant([0, 2], [0.3, 0.2, 0.1]), [0.3, 0.2, 0.2, 0.1]),
    ],
)
def test_step_sizes(schedule: Any, want: Any) -> None:
    np.testing.assert_allclose([float(schedule(i)) for i in range(4)], want, rtol=1e-6)
    np.testing.assert_allclose(
        effx.vmap(lambda i: effx.numpy.asarray(schedule(i), float) + 0 * i)(np.arange(4)), want, rtol=1e-6
    )


def test_norms() -> None:
    tree = {"a": np.array([3.0, 0.0]), "b": (4.0, np.array([12j]))}
    assert float(optimizers.l2_norm(tree)) == 13
    clipped = optimizers.clip_grads(tree, 6.5)
    assert clipped["a"].tolist() == [1.5, 0]
    assert clipped["b"][1].tolist() == [6j]
    same = optimizers.clip_grads(tree, 14.0)
    assert same["a"].tolist() == [3, 0]
    assert np.isfinite(effx.grad(lambda g: optimizers.clip_grads(g, 1.0).sum())(np.ones(3))).all()
    assert np.all(np.asarray(optimizers.clip_grads(np.zeros(2), 0.0)) == 0)


def test_states_and_marked_trees() -> None:
    """A state goes through a pytree with its parameters' structure, and through jit."""
    init, update, params = optimizers.adam(0.1)
    state = update(0, {"w": np.ones(2), "b": 2.0}, init({"w": np.ones(2), "b": 1.0}))
    marked = optimizers.unpack_optimizer_state(state)
    (subtree,) = marked["w"]
    assert subtree is marked["w"].subtree
    back = optimizers.pack_optimizer_state(marked)
    assert back.tree_def == state.tree_def
    assert params(back)["w"].tolist() == params(state)["w"].tolist()
    assert effx.tree.structure(effx.jit(lambda s: s)(state)) == effx.tree.structure(state)


def test_sequences() -> None:
    assert optimizers.map(lambda x, y: x * y, [1, 2], (3, 4)) == [3, 8]
    assert optimizers.zip([1, 2], "ab") == [(1, "a"), (2, "b")]


@optimizers.optimizer
def growing() -> Any:
    return lambda x: (), lambda i, g, s: (*s, g), lambda s: s


WRONG: Any = "fast"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: optimizers.sgd(0.1).update_fn(0, [1.0], optimizers.sgd(0.1).init_fn((1.0,))),
         "sgd: gradients must have the structure of the parameters, PyTreeDef((*,)), got PyTreeDef([*])"),
        (lambda: growing().update_fn(0, 1.0, growing().init_fn(1.0)),
         "growing: the state of a parameter must keep its structure, PyTreeDef(()), got PyTreeDef((*,))"),
        (lambda: optimizers.make_schedule(WRONG),
         "make_schedule: expected a number or a function of the step, got 'fast'"),
        (lambda: optimizers.piecewise_constant([1, 2], [0.1, 0.2]),
         "piecewise_constant: values must be one more than boundaries, got f32[2] for i32[2]"),
        (lambda: optimizers.pack_optimizer_state([1.0]),
         "pack_optimizer_state: each leaf must be a JoinPoint, got 1.0"),
        (lambda: optimizers.zip([1], []), "zip: sequences must have one length, got [1, 0]"),
        (lambda: optimizers.map(abs, [1], []), "map: sequences must have one length, got [1, 0]"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text
