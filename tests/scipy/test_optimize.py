"""minimize finds minima of smooth functions, and reports how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize as scipy

import effx
import effx.numpy as enp
from effx.errors import EffxError
from effx.scipy.optimize import OptimizeResults, minimize

LIMITED = "l-bfgs-experimental-do-not-rely-on-this"
METHODS = ("BFGS", LIMITED)


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def himmelblau(x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def matyas(x: Any) -> Any:
    return 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


def steep(x: Any) -> Any:
    return (enp.exp(x) - x).sum() + (x**2 * np.logspace(0, 4, 5)).sum()


def barrier(x: Any) -> Any:
    return x.sum() - enp.log(x).sum()


ROWS: list[tuple[Callable[[Any], Any], np.ndarray, np.ndarray, float]] = [
    (rosenbrock, np.zeros(2), np.ones(2), 1e-5),
    (rosenbrock, np.full(8, -1.0), np.ones(8), 1e-4),
    (himmelblau, np.ones(2), np.array([3.0, 2.0]), 1e-6),
    (matyas, np.full(2, 6.0), np.zeros(2), 1e-4),
    (steep, np.full(5, 5.0), np.zeros(5), 1e-4),
    (barrier, np.full(3, 0.01), np.ones(3), 1e-4),  # NaN on the far side of a step
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("fun", "x0", "want", "near"), ROWS)
def test_minima(fun: Any, x0: np.ndarray, want: np.ndarray, near: float, method: str) -> None:
    with effx.enable_x64(True):
        got = minimize(fun, x0, method=method)
        assert isinstance(got, OptimizeResults)
        assert (bool(got.success), int(got.status)) == (True, 0)
        np.testing.assert_allclose(got.x, want, atol=near)
        np.testing.assert_allclose(got.fun, fun(got.x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(got.jac, effx.grad(fun)(got.x), atol=1e-7)
        assert int(got.nit) <= int(got.nfev) == int(got.njev)
        assert (got.hess_inv is None) == (method == LIMITED)
    got = minimize(fun, x0.astype("f4"), method=method)
    assert got.success or int(got.status) == 5  # rounding leaves no step that makes the value smaller
    assert got.x.dtype == np.float32
    np.testing.assert_allclose(got.x, want, atol=max(near, 1e-3))


def test_as_many_steps_as_scipy() -> None:
    """About: the searches along lines differ."""
    with effx.enable_x64(True):
        for method, there in (("BFGS", "BFGS"), (LIMITED, "L-BFGS-B")):
            for fun, x0, *_ in ROWS[:3]:
                want = scipy.minimize(fun, x0, jac=effx.grad(fun), method=there)
                assert minimize(fun, x0, method=method).nfev <= 2 * want.nfev


def test_inverse_of_the_hessian() -> None:
    A = np.array([[3.0, 1.0], [1.0, 2.0]])
    with effx.enable_x64(True):
        found = minimize(lambda x: x @ A @ x / 2 + x.sum(), np.ones(2), method="bfgs", tol=1e-12)
        np.testing.assert_allclose(found.x, np.linalg.solve(A, -np.ones(2)), rtol=1e-10)
        assert found.hess_inv is not None
        np.testing.assert_allclose(found.hess_inv, np.linalg.inv(A), rtol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_options(method: str) -> None:
    """Every option does something."""
    short = minimize(rosenbrock, np.zeros(2), method=method, options={"maxiter": 3})
    assert (bool(short.success), int(short.status), int(short.nit)) == (False, 1, 3)
    rough = minimize(rosenbrock, np.zeros(2), method=method, tol=1.0)
    fine = minimize(rosenbrock, np.zeros(2), method=method, options={"gtol": 1e-3})
    assert rough.nit < fine.nit
    mean = minimize(lambda x: (x**4).sum(), np.ones(50), method=method, options={"norm": 1, "gtol": 1e-2})
    most = minimize(lambda x: (x**4).sum(), np.ones(50), method=method, options={"gtol": 1e-2})
    assert mean.nit > most.nit
    tries = "line_search_maxiter" if method == "BFGS" else "maxls"
    none = minimize(lambda x: (1e4 * x**2).sum(), np.ones(2), method=method, options={tries: 1})
    assert int(none.status) in (0, 5)
    if method == LIMITED:
        calls = minimize(rosenbrock, np.zeros(2), method=method, options={"maxfun": 5})
        slopes = minimize(rosenbrock, np.zeros(2), method=method, options={"maxgrad": 5})
        assert (int(calls.status), int(slopes.status)) == (2, 3)
        assert minimize(rosenbrock, np.zeros(2), method=method, options={"ftol": 1e-1}).nit < fine.nit
        one = minimize(rosenbrock, np.full(6, -1.0), method=method, options={"maxcor": 1, "ftol": 0.0})
        many = minimize(rosenbrock, np.full(6, -1.0), method=method, options={"maxcor": 12, "ftol": 0.0})
        assert many.nit < one.nit


def test_no_step_makes_the_value_smaller() -> None:
    """A kink whose gradient never is small."""
    found = minimize(lambda x: enp.abs(x).sum(), np.zeros(2) + 1e-30, method="BFGS")
    assert (bool(found.success), int(found.status)) == (False, 5) or found.success
    begun = minimize(lambda x: (x**2).sum(), np.zeros(3), method="BFGS")
    assert (bool(begun.success), int(begun.nit)) == (True, 0)


@pytest.mark.parametrize("method", METHODS)
def test_transformations(method: str) -> None:
    """Compiled, batched, with arguments; and the implicit derivative by custom_root."""
    with effx.enable_x64(True):

        def nearest(a: Any) -> Any:
            return minimize(
                lambda x, a: ((x - a) ** 4).sum() + (x**2).sum(), enp.zeros(2), (a,), method=method
            ).x

        centres = np.array([[1.0, -2.0], [0.0, 5.0], [3.0, 3.0]])
        got = effx.jit(effx.vmap(nearest))(centres)
        np.testing.assert_allclose(got, [nearest(a) for a in centres], atol=1e-5)
        np.testing.assert_allclose(4 * (got - centres) ** 3 + 2 * got, np.zeros((3, 2)), atol=1e-4)


WRONG: Any = [1.0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: minimize(rosenbrock, np.zeros((2, 2)), method="BFGS"),
         "minimize: x0 must be a vector, got f32[2,2]"),
        (lambda: minimize(rosenbrock, np.zeros(2) * 1j, method="BFGS"),
         "minimize: x0 must be real, got c64[2]"),
        (lambda: minimize(rosenbrock, np.zeros(2), WRONG, method="BFGS"),
         "minimize: args must be a tuple, got [1.0]"),
        (lambda: minimize(rosenbrock, np.zeros(2), method="Newton"),
         "minimize: method must be 'BFGS' or 'l-bfgs-experimental-do-not-rely-on-this', got 'Newton'"),
        (lambda: minimize(rosenbrock, np.zeros(2), method="BFGS", options={"eps": 1}),
         "minimize: options of BFGS are maxiter, norm, gtol, line_search_maxiter, got 'eps'"),
    ],
)  # fmt: skip
def test_refused(call: Any, text: str) -> None:
    with pytest.raises(EffxError) as caught:
        call()
    assert str(caught.value).partition("\n")[0] == text


@pytest.mark.parametrize("x64", [False, True])
def test_counts_are_weak_integers(x64: bool) -> None:
    """As in JAX, of the default width."""
    with effx.enable_x64(x64):
        for method in ("BFGS", "l-bfgs-experimental-do-not-rely-on-this"):
            found = minimize(lambda x: ((x - 3.0) ** 2).sum(), enp.ones(2), method=method)
            for count in (found.status, found.nfev, found.njev, found.nit):
                assert isinstance(count, effx.Array)
                assert (count.dtype.itemsize, count.weak_type) == (8 if x64 else 4, True)
