"""odeint solves equations to its tolerance, and has their derivatives in both modes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import effx
import effx.numpy as enp
from effx.errors import EffxError
from effx.experimental.ode import odeint

TIMES = np.linspace(0.0, 10.0, 5)


def pendulum(y: Any, t: Any, m: Any, g: Any) -> Any:
    angle, speed = y
    return [speed, -m * speed - g * enp.sin(angle)]


def test_values() -> None:
    """Against SciPy; to the tolerance that is asked for, and with as many trees as come in."""
    want = solve_ivp(
        lambda t, y: [y[1], -0.25 * y[1] - 9.8 * np.sin(y[0])],
        (0, 10),
        [np.pi - 0.1, 0.0],
        "DOP853",
        TIMES,
        rtol=1e-12,
        atol=1e-12,
    ).y
    with effx.enable_x64(True):
        got = odeint(pendulum, [np.pi - 0.1, 0.0], TIMES, 0.25, 9.8)
        np.testing.assert_allclose(got, want, atol=1e-5)
        errors = []
        for tol in (1e-4, 1e-7, 1e-10):
            found = odeint(lambda y, t: -y, 1.0, [0.0, 1.0, 3.0], rtol=tol, atol=tol)
            errors.append(np.abs(np.asarray(found) - np.exp([0, -1, -3])).max())
            assert errors[-1] < 20 * tol
        assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_dtypes_and_directions(dtype: str) -> None:
    with effx.enable_x64(dtype == "float64"):
        turn = 1j if dtype == "complex64" else -1.0
        times = np.array([1.0, 0.5, -1.0], "f4")
        y = odeint(lambda y, t: turn * y, np.ones(2, dtype), times)
        assert (y.dtype.name, y.shape) == (dtype, (3, 2))
        np.testing.assert_allclose(y[:, 1], np.exp(turn * (times - 1)), rtol=1e-5)


def test_edges() -> None:
    """One time; equal times; nothing to integrate; poles and too few steps give no numbers."""
    assert odeint(lambda y, t: -y, 2.0, np.zeros(1)).tolist() == [2.0]
    assert odeint(lambda y, t: -y, 2.0, np.zeros(3)).tolist() == [2.0] * 3
    assert odeint(lambda y, t: y, np.zeros((0, 2)), np.zeros(3)).shape == (3, 0, 2)
    assert odeint(lambda y, t: y, (), np.zeros(3)) == ()
    assert odeint(lambda y, t: 0 * y, 2.0, np.array([0.0, 5.0])).tolist() == [2, 2]
    pole = np.asarray(odeint(lambda y, t: y**2, 1.0, np.array([0.0, 0.5, 2.0]), rtol=1e-5, atol=1e-5))
    np.testing.assert_allclose(pole[:2], [1, 2], rtol=1e-4)
    assert np.isnan(pole[2])
    assert np.isnan(odeint(lambda y, t: -1e3 * y, 1.0, np.array([0.0, 1.0]), mxstep=5)[1])
    steps = odeint(lambda y, t: 0 * y, 1.0, np.array([0.0, 1.0]), hmax=0.01, mxstep=50)
    assert np.isnan(steps[1])


def objective(a: Any, ts: Any, m: Any) -> Any:
    def f(y: Any, t: Any, m: Any) -> Any:
        return enp.stack([y[1], -m * y[1] - 9.8 * enp.sin(y[0]) + enp.cos(t) * a])  # closes over a

    return (odeint(f, enp.stack([a, enp.zeros_like(a)]), ts, m) ** 2).sum()


def test_derivatives() -> None:
    """By first value, times, arguments and what the function closes over, in both modes and to the second order."""
    with effx.enable_x64(True):
        at = (enp.array(1.0), np.linspace(0.1, 2, 4), enp.array(0.25))
        back = effx.jit(effx.grad(objective, (0, 1, 2)))(*at)
        forth = effx.jit(effx.jacfwd(objective, (0, 1, 2)))(*at)
        h = 1e-6

        def difference(k: int, step: Any) -> Any:
            up = [x + step if i == k else x for i, x in enumerate(at)]
            down = [x - step if i == k else x for i, x in enumerate(at)]
            return (float(objective(*up)) - float(objective(*down))) / (2 * h)

        want = [difference(0, h), [difference(1, h * e) for e in np.eye(4)], difference(2, h)]
        for a, b, c in zip(back, forth, want, strict=True):
            np.testing.assert_allclose(a, c, rtol=2e-5)
            np.testing.assert_allclose(b, c, rtol=2e-5)

        def decay(k: Any) -> Any:
            return odeint(lambda y, t, k: -k * y, 1.0, np.array([0.0, 2.0]), k)[1]

        second = [effx.grad(effx.grad(decay)), effx.jacfwd(effx.grad(decay))]
        for order in second:
            np.testing.assert_allclose(order(0.7), 4 * math.exp(-1.4), rtol=1e-5)


def test_arguments_of_any_kind() -> None:
    """Integers among the arguments have no gradient; trees have one like them."""
    with effx.enable_x64(True):

        def end(p: Any) -> Any:
            return odeint(
                lambda y, t, p, n: {"x": -p["k"] * n * y["x"]}, {"x": 1.0}, np.array([0.0, 1.0]), p, 2
            )["x"][1]

        slope = effx.grad(end)({"k": 0.5})
        np.testing.assert_allclose(slope["k"], -2 * math.exp(-1), rtol=1e-6)
        backwards = effx.grad(lambda y: odeint(lambda y, t: -y, y, np.array([1.0, 0.0]))[1])(1.0)
        np.testing.assert_allclose(backwards, math.e, rtol=1e-6)


def test_batches() -> None:
    with effx.enable_x64(True):
        rates, times = np.array([0.5, 1.0, 40.0]), np.array([0.0, 0.5, 1.0])

        def solved(k: Any) -> Any:
            return odeint(lambda y, t: -k * (y - enp.cos(t)), 0.0, times)

        got = effx.jit(effx.vmap(solved))(rates)
        np.testing.assert_allclose(got, [solved(k) for k in rates], atol=1e-7)
        slopes = effx.vmap(effx.grad(lambda k: solved(k)[-1]))(rates)
        np.testing.assert_allclose(slopes[1], effx.grad(lambda k: solved(k)[-1])(1.0), rtol=1e-5)


def test_accurate_in_single_precision() -> None:
    """The default tolerance is below what single precision has; it ends all the same."""
    y = effx.jit(lambda: odeint(lambda y, t: -y, 1.0, np.array([0.0, 0.5, 2.0])))()
    np.testing.assert_allclose(y, np.exp([0, -0.5, -2]), rtol=1e-6)


WRONG: Any = 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: odeint(WRONG, 1.0, TIMES), "odeint: func must be a function, got 3"),
        (lambda: odeint(lambda y, t: y, 1, TIMES), "odeint: y0 must be floating or complex, got i32[]~"),
        (lambda: odeint(lambda y, t: y, 1.0, np.arange(3)), "odeint: t must have a floating dtype, got i32[3]"),
        (lambda: odeint(lambda y, t: y, 1.0, np.zeros((1, 2))),
         "odeint: t must be a vector with elements, got f32[1,2]"),
        (lambda: odeint(lambda y, t: [y, y], 1.0, TIMES),
         "odeint: func must return the structure of y0, PyTreeDef(*), got PyTreeDef([*, *])"),
        (lambda: odeint(lambda y, t: y[:1], np.ones(2), TIMES),
         "odeint: func must return the shapes of y0, f32[2], got f32[1]"),
        (lambda: odeint(lambda y, t: y, 1.0, TIMES, rtol=-1.0), "odeint: rtol must not be negative, got -1.0"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text


def test_slopes_that_end_at_the_last_time() -> None:
    """y' = sqrt(1 - t) is not a number beyond 1, and y' = p sqrt(t) not before 0: no step goes there."""

    def fall(y: Any, t: Any) -> Any:
        return enp.sqrt(1.0 - t)

    def rise(y: Any, t: Any, p: Any) -> Any:
        return p * enp.sqrt(t)

    with effx.enable_x64():
        times = np.array([0.0, 0.5, 1.0])
        want = 2.0 / 3.0 * (1.0 - (1.0 - times) ** 1.5)
        for transform in (lambda f: f, effx.jit):
            result = transform(lambda t: odeint(fall, np.float64(0.0), t))(times)
            np.testing.assert_allclose(result, want, rtol=1e-6)
        batched = effx.vmap(lambda y: odeint(fall, y, times))(np.array([0.0, 1.0]))
        np.testing.assert_allclose(batched, want + np.array([[0.0], [1.0]]), rtol=1e-6)
        ends = np.array([0.0, 1.0])
        np.testing.assert_allclose(odeint(rise, np.float64(0.0), ends, 3.0)[1], 2.0, rtol=1e-6)
        slope = effx.grad(lambda p: odeint(rise, np.float64(0.0), ends, p)[1])(3.0)
        np.testing.assert_allclose(slope, 2.0 / 3.0, rtol=1e-5)
        forward = effx.jvp(lambda p: odeint(rise, np.float64(0.0), ends, p)[1], (3.0,), (1.0,))[1]
        np.testing.assert_allclose(forward, 2.0 / 3.0, rtol=1e-5)
        backwards = odeint(lambda y, t: enp.sqrt(t), np.float64(1.0), np.array([1.0, 0.0]))
        np.testing.assert_allclose(backwards[1], 1.0 / 3.0, rtol=1e-6)


def test_other_containers() -> None:
    """The function may return another container of as many numbers, such as a list for a vector; not derivatives alone."""
    y0 = enp.array([np.pi - 0.1, 0.0])
    expected = odeint(lambda y, t: enp.stack(pendulum(y, t, 0.25, 9.8)), y0, TIMES)
    solution = odeint(pendulum, y0, TIMES, 0.25, 9.8)
    assert solution.shape == (5, 2)
    np.testing.assert_array_equal(solution, expected)
    parts = odeint(lambda y, t: enp.stack(pendulum(y, t, 0.25, 9.8)), [np.pi - 0.1, 0.0], TIMES)
    np.testing.assert_array_equal(enp.stack(parts, 1), expected)
    slopes = [
        effx.grad(lambda g, f=f: odeint(f, y0, TIMES, 0.25, g).sum())(9.8)
        for f in (pendulum, lambda *a: enp.stack(pendulum(*a)))
    ]
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-5)
