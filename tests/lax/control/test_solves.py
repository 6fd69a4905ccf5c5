"""custom_linear_solve and custom_root: derivatives are those of the solution, not of the solver.

Never: looks at messages; test_errors.py does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import NoRuleError
from effx.handlers.oracle import evaluate
from effx.ir.checker import check_program
from effx.ir.text import parse_program, print_program

RNG = np.random.default_rng(0)
A = (RNG.normal(size=(3, 3)) * 0.3 + 3 * np.eye(3)).astype(np.float32)
S = (A + A.T) / 2
B = np.array([1.0, -2.0, 0.5], np.float32)
BATCH_OF_A, BATCH_OF_B = np.stack([A, A + 0.1]), np.stack([B, 2 * B])


def relax(matvec: Any, b: Any) -> Any:
    """Richardson's iteration by a while loop: reverse mode cannot go through it."""

    def step(s: Any) -> Any:
        return s[0] + 1, effx.tree.map(lambda x, r, y: x + 0.25 * (r - y), s[1], b, matvec(s[1]))

    return lax.while_loop(lambda s: s[0] < 100, step, (0, effx.tree.map(enp.zeros_like, b)))[1]


def solve(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(lambda x: a @ x, b, relax, relax)


def symmetric(a: Any, b: Any) -> Any:
    a = 0.5 * (a + a.T)
    return lax.custom_linear_solve(lambda x: a @ x, b, relax, symmetric=True)


def inverse(a: Any, b: Any) -> Any:
    """By Cramer's rule, for an oracle that is differentiated step by step."""

    def cross(u: Any, v: Any) -> Any:
        return enp.stack([u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]])

    rows = enp.stack([cross(a[1], a[2]), cross(a[2], a[0]), cross(a[0], a[1])], 1)
    return rows @ b / (a[0] @ rows[:, 0])


def direct_symmetric(a: Any, b: Any) -> Any:
    return inverse(0.5 * (a + a.T), b)


pairs = pytest.mark.parametrize(
    ("f", "oracle"), [(solve, inverse), (symmetric, direct_symmetric)], ids=["transpose", "symmetric"]
)


def loss(f: Any) -> Any:
    return lambda a, b: (f(a, b) ** 2).sum() + enp.sin(f(a, b)).sum()


def close(got: Any, want: Any, tolerance: float = 2e-4) -> None:
    effx.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), got, want)


@pairs
def test_linear_solve(f: Any, oracle: Any) -> None:
    """The solution, and its derivative without jit."""
    a, b = enp.asarray(A), enp.asarray(B)
    close(f(a, b), oracle(a, b))
    close(effx.grad(loss(f), 1)(a, b), effx.grad(loss(oracle), 1)(a, b), 1e-3)


@pairs
@pytest.mark.parametrize(
    "derive",
    [
        lambda g: effx.grad(g, (0, 1)),
        lambda g: effx.jacfwd(g, (0, 1)),
        lambda g: effx.hessian(g, (0, 1)),
        lambda g: effx.jacrev(effx.grad(g), 1),
    ],
    ids=["grad", "jacfwd", "hessian", "mixed"],
)
def test_derivatives_of_linear_solves(f: Any, oracle: Any, derive: Any) -> None:
    """In both modes, to second order, under jit."""
    a, b = enp.asarray(A), enp.asarray(B)
    close(effx.jit(derive(loss(f)))(a, b), effx.jit(derive(loss(oracle)))(a, b), 1e-3)


@pairs
@pytest.mark.parametrize(
    ("axes", "args"),
    [((0, 0), (BATCH_OF_A, BATCH_OF_B)), ((0, None), (BATCH_OF_A, B)), ((None, 1), (A, BATCH_OF_B.T))],
    ids=["both", "matrices", "right-hand sides"],
)
def test_linear_solve_in_batches(f: Any, oracle: Any, axes: Any, args: Any) -> None:
    """Gradients inside and outside."""
    close(effx.jit(effx.vmap(f, axes))(*args), effx.vmap(oracle, axes)(*args))
    inner = effx.jit(effx.vmap(effx.grad(loss(oracle), (0, 1)), axes))(*args)
    close(effx.jit(effx.vmap(effx.grad(loss(f), (0, 1)), axes))(*args), inner, 1e-3)
    outer = effx.grad(lambda a, b: effx.vmap(loss(oracle), axes)(a, b).sum(), (0, 1))
    mine = effx.grad(lambda a, b: effx.vmap(loss(f), axes)(a, b).sum(), (0, 1))
    close(effx.jit(mine)(*args), effx.jit(outer)(*args), 1e-3)


def test_trees_and_auxiliary_data() -> None:
    """x may be a pytree; a solver's auxiliary output passes through, without a derivative."""
    d = {"u": np.float32(2), "v": np.array([4.0, 5.0], np.float32)}
    b = {"u": np.float32(3), "v": np.ones(2, np.float32)}

    def f(d: Any, b: Any) -> Any:
        def matvec(x: Any) -> Any:
            return effx.tree.map(lambda s, t: s * t, d, x)

        def solver(matvec: Any, b: Any) -> Any:
            return effx.tree.map(lambda t, s: t / s, b, d), {"count": enp.int32(7), "size": b["u"] * 1.0}

        return lax.custom_linear_solve(matvec, b, solver, symmetric=True, has_aux=True)

    x, aux = f(d, b)
    close(x, {"u": 1.5, "v": [0.25, 0.2]})
    assert (int(aux["count"]), float(aux["size"])) == (7, 3.0)
    grads = effx.grad(lambda d: f(d, b)[0]["v"].sum() + f(d, b)[1]["size"] * 0.0)(d)
    close(grads, {"u": 0.0, "v": [-1 / 16, -1 / 25]})
    assert float(effx.grad(lambda b: f(d, b)[1]["size"])(b)["u"]) == 0.0


def test_inside_scan() -> None:
    """A solve in each step: its parts are split and transposed with the loop's."""

    def f(g: Any) -> Any:
        def run(a: Any, b: Any) -> Any:
            return lax.scan(lambda c, _: (enp.tanh(g(a, c)) + b, None), b, None, length=3)[0].sum()

        return run

    a, b = enp.asarray(A), enp.asarray(B)
    close(effx.jit(effx.grad(f(solve), (0, 1)))(a, b), effx.jit(effx.grad(f(inverse), (0, 1)))(a, b), 1e-3)


def test_no_reverse_mode_without_a_transposed_solver() -> None:
    """Forward mode needs none."""
    f: Any = lambda b: lax.custom_linear_solve(lambda x: enp.asarray(A) @ x, b, relax).sum()  # noqa: E731
    close(effx.jacfwd(f)(B), np.linalg.inv(A).sum(0))
    with pytest.raises(NoRuleError) as caught:
        effx.grad(f)(B)
    assert caught.value.message == (
        "transpose: linear_solve: nothing solves the transposed system; give custom_linear_solve transpose_solve "
        "or symmetric=True, and custom_root a function whose derivative can be transposed"
    )


def bisection(f: Any, x: Any) -> Any:
    """The root between 0 and 20: nothing of it has a useful derivative."""

    def step(s: Any) -> Any:
        low, high = s
        middle = 0.5 * (low + high)
        inside = f(middle) > 0
        return enp.where(inside, low, middle), enp.where(inside, middle, high)

    low, high = lax.fori_loop(0, 40, lambda i, s: step(s), (0.0 * x, 0.0 * x + 20.0))
    return 0.5 * (low + high)


def cube_root(a: Any) -> Any:
    return lax.custom_root(lambda x: x**3 - a, 1.0 + 0.0 * a, bisection, lambda g, y: y / g(1.0))


def test_root() -> None:
    """Derivatives up to the third, in any mixture of modes, under jit and vmap."""
    a, third = np.float32(8), 1 / 3
    want = [2.0, third / 4, -2 / 9 * 8 ** (-5 / 3), 10 / 27 * 8 ** (-8 / 3)]
    f = cube_root
    kinds: list[list[Any]] = [
        [
            lambda g: g,
            effx.grad,
            lambda g: effx.grad(effx.grad(g)),
            lambda g: effx.grad(effx.grad(effx.grad(g))),
        ],
        [
            lambda g: g,
            effx.jacfwd,
            lambda g: effx.jacfwd(effx.grad(g)),
            lambda g: effx.grad(effx.jacfwd(effx.grad(g))),
        ],
    ]
    for derive in kinds:
        for d, value in zip(derive, want, strict=True):
            np.testing.assert_allclose(effx.jit(d(f))(a), value, rtol=1e-4)
            batch = effx.jit(effx.vmap(d(f)))(np.array([a, 1.0], np.float32))
            np.testing.assert_allclose(batch[0], value, rtol=1e-4)
    np.testing.assert_allclose(effx.grad(f)(a), third / 4, rtol=1e-4)
    slopes = effx.grad(lambda v: effx.vmap(f)(v).sum())(np.array([8.0, 1.0], np.float32))
    np.testing.assert_allclose(slopes, [third / 4, third], rtol=1e-4)


def test_root_of_a_system() -> None:
    """A vector of unknowns, a solver of linear systems by iteration, and auxiliary data."""

    def root(p: Any) -> Any:
        def f(x: Any) -> Any:
            return {"u": 2.0 * x["u"] + enp.sin(x["v"]) - p[0], "v": 3.0 * x["v"] + x["u"] * 0.5 - p[1]}

        def solver(f: Any, x: Any) -> Any:
            return lax.fori_loop(
                0, 60, lambda i, x: effx.tree.map(lambda a, r: a - 0.3 * r, x, f(x)), x
            ), enp.int32(60)

        guess = {"u": 0.0 * p[0], "v": 0.0 * p[1]}
        return lax.custom_root(f, guess, solver, relax, has_aux=True)

    p = np.array([1.0, 2.0], np.float32)
    x, steps = root(p)
    assert int(steps) == 60
    u, v = float(x["u"]), float(x["v"])
    np.testing.assert_allclose([2 * u + np.sin(v), 3 * v + 0.5 * u], p, rtol=1e-5)
    jacobian = np.linalg.inv(np.array([[2, np.cos(v)], [0.5, 3]]))
    for derive in (effx.jacfwd, effx.jacrev):
        got = derive(lambda p: root(p)[0])(p)
        np.testing.assert_allclose(np.stack([got["u"], got["v"]]), jacobian, rtol=1e-4, atol=1e-5)


def test_the_guess_does_not_matter() -> None:
    f: Any = lambda x0: lax.custom_root(lambda x: x * x - 2.0, x0, bisection, lambda g, y: y / g(1.0))  # noqa: E731
    assert float(effx.grad(f)(1.0)) == 0.0


def test_root_without_transpose_has_forward_mode() -> None:
    """f contains a loop without bound."""

    def root(a: Any) -> Any:
        def f(x: Any) -> Any:
            return lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] * x), (0, x))[1] - a

        return lax.custom_root(f, 1.0 + 0.0 * a, bisection, lambda g, y: y / g(1.0))

    np.testing.assert_allclose(effx.jacfwd(root)(np.float32(8)), 1 / 12, rtol=1e-4)
    with pytest.raises(NoRuleError):
        effx.grad(root)(np.float32(8))


@pytest.mark.parametrize(
    "f", [lambda a: solve(a, B), lambda a: cube_root(a[0, 0] + 1.0)], ids=["linear", "root"]
)
def test_programs_mean_what_they_say(f: Any) -> None:
    """They pass the checker, parse back, and run on NumPy."""
    g = effx.grad(lambda a: f(a).sum())
    program = check_program(effx.make_jaxpr(g)(A))
    text = print_program(program)
    assert print_program(check_program(parse_program(text))) == text
    np.testing.assert_allclose(evaluate(g, A), g(A), rtol=1e-4, atol=1e-5)
