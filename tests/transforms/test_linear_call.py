"""A linear function with a transpose of the user's: reverse mode uses it, and its own transpose is the function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.custom_derivatives import linear_call
from effx.errors import DTypeError, EffxError, ShapeError, TransformError, TreeError

A = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
X = np.arange(4, dtype=np.float32)
Y = np.array([1.0, -2.0, 0.5], np.float32)


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5, atol=1e-6)


def product(a: Any, x: Any) -> Any:
    """A x, with ten times the transpose, so that one sees who is asked."""
    return linear_call(lambda a, x: {"y": a @ x["x"]}, lambda a, ct: {"x": 10 * a.T @ ct["y"]}, a, {"x": x})[
        "y"
    ]


def transposed(f: Any, like: Any) -> Any:
    return lambda ct: effx.linear_transpose(f, like)(ct)[0]


WRAPS = [lambda f: f, effx.jit, effx.checkpoint, lambda f: effx.jit(effx.checkpoint(f))]


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8"])
@pytest.mark.parametrize("wrap", WRAPS, ids=["plain", "jit", "checkpoint", "both"])
def test_linear_functions_of_integers_have_transposes(wrap: Any, dtype: str) -> None:
    """In their own dtype: as the function's matrix on integers, whole numbers throughout."""
    matrix = np.array([[2, 0, 1], [0, 3, 5]], dtype)
    f = wrap(lambda x: {"y": enp.asarray(matrix) @ x[0], "s": enp.cumsum(x[0])[1:]})
    ct = {"y": np.array([1, 4], dtype), "s": np.array([2, 7], dtype)}
    (x,) = effx.linear_transpose(f, [effx.ShapeDtypeStruct((3,), dtype)])(ct)
    assert x[0].dtype == dtype
    np.testing.assert_array_equal(x[0], matrix.T @ ct["y"] + np.array([9, 9, 7], dtype))
    assert effx.linear_transpose(lambda x: 2 * x, 1)(3)[0] == 6


@pytest.mark.parametrize(
    ("primal", "text"),
    [
        (1, "(i32[]~) -> (f32[]~)"),
        (True, "(bool[]) -> (f32[]~)"),
    ],
)
def test_integers_and_floats_are_not_mixed(primal: Any, text: str) -> None:
    with pytest.raises(DTypeError) as caught:
        effx.linear_transpose(lambda x: 2.0 * x, primal)
    assert caught.value.message == (
        f"linear_transpose: all primals and results must be floating or complex, or all integers, got {text}"
    )


@pytest.mark.parametrize("wrap", WRAPS, ids=["plain", "jit", "checkpoint", "both"])
def test_reverse_mode_uses_the_transpose(wrap: Any) -> None:
    """Forward mode and the value do not; by the residuals the function itself is differentiated."""
    f = wrap(product)
    close(f(A, X), A @ X)
    close(effx.jvp(lambda x: f(A, x), (X,), (X + 1,))[1], A @ (X + 1))
    close(effx.vjp(lambda x: f(A, x), X)[1](Y)[0], 10 * A.T @ Y)
    close(effx.linearize(lambda x: f(A, x), X)[1](X + 1), A @ (X + 1))
    da, dx = effx.vjp(f, A, X)[1](Y)
    close(da, np.outer(Y, X))
    close(dx, 10 * A.T @ Y)
    close(effx.jvp(f, (A, X), (2 * A, X + 1))[1], 2 * A @ X + A @ (X + 1))


def test_transposes_alternate() -> None:
    """The transpose of the transpose is the function."""
    f = lambda x: product(A, x)  # noqa: E731
    once = transposed(f, X)
    twice = transposed(once, Y)
    close(once(Y), 10 * A.T @ Y)
    close(twice(X), A @ X)
    close(transposed(twice, X)(Y), 10 * A.T @ Y)
    close(effx.jit(effx.grad(lambda y: (once(y) * X).sum()))(Y), A @ X)


def test_the_examples_of_jax() -> None:
    """A division by a residual, and an identity whose transpose is a number."""

    def div_add(x: Any, denom: Any) -> Any:
        return x + linear_call(lambda r, x: x / r, lambda r, t: t / r, denom, x)

    assert float(div_add(9.0, 3.0)) == 12.0
    assert float(transposed(lambda x: div_add(x, 3.0), 1.0)(18.0)) == 24.0

    def identity(x: Any) -> Any:
        return linear_call(lambda _, x: x, lambda _, t: 7.0, (), x)

    f, seen = identity, []
    for _ in range(4):
        seen.append(float(f(1.0)))
        f = transposed(f, 1.0)
    assert seen == [1.0, 7.0, 1.0, 7.0]


def test_under_vmap_and_scan() -> None:
    """Batches of either argument, before or after differentiation, and steps of a loop."""
    back = lambda a, x: effx.vjp(lambda x: product(a, x), x)[1](Y)[0]  # noqa: E731
    many = np.stack([A, 2 * A])
    close(effx.vmap(back, (0, None))(many, X), 10 * np.stack([A.T @ Y, 2 * A.T @ Y]))
    close(effx.vmap(back, (None, 0))(A, np.stack([X, X])), 10 * np.stack([A.T @ Y] * 2))
    xs = np.stack([X, X + 1])
    total = lambda xs: (effx.vmap(product, (None, 0))(A, xs) @ Y).sum()  # noqa: E731
    close(effx.grad(total)(xs), 10 * np.stack([A.T @ Y] * 2))
    square = A[:, :3]

    def chained(x: Any) -> Any:
        return effx.lax.scan(lambda c, _: (product(square, c), None), x, None, length=3)[0]

    close(effx.jit(chained)(Y), np.linalg.matrix_power(square, 3) @ Y)
    close(effx.vjp(chained, Y)[1](Y)[0], 1000 * np.linalg.matrix_power(square.T, 3) @ Y)


def test_closures() -> None:
    """Both functions may close over arrays, of which the derivative is that of the function."""

    def f(a: Any, x: Any) -> Any:
        return linear_call(lambda _, x: a @ x, lambda _, ct: 10 * a.T @ ct, (), x)

    da, dx = effx.jit(lambda a, x: effx.vjp(f, a, x)[1](Y))(A, X)
    close(da, np.outer(Y, X))
    close(dx, 10 * A.T @ Y)


def test_second_derivatives() -> None:
    """x . A(r) x has the gradient of both parts, again and again."""

    def f(r: Any, x: Any) -> Any:
        return x * linear_call(lambda r, x: r**2 * x, lambda r, ct: r**2 * ct, r, x)

    close(effx.grad(f, (0, 1))(3.0, 2.0), (24.0, 36.0))
    close(effx.hessian(f, (0, 1))(3.0, 2.0), ((8.0, 24.0), (24.0, 18.0)))


def test_dtypes() -> None:
    """Complex numbers and narrow floats; integers may be residuals."""
    z = np.array([1 + 2j, 3 - 1j], np.complex64)
    f = lambda x: linear_call(lambda n, x: n * x, lambda n, ct: n * ct, 3, x)  # noqa: E731
    close(effx.vjp(f, z)[1](z)[0], 3 * z)
    half = enp.ones(2, "bfloat16")
    assert effx.vjp(f, half)[1](half)[0].dtype == enp.bfloat16


untyped: Any = linear_call
ERRORS: list[tuple[Any, type[EffxError], str]] = [
    (
        lambda: untyped(3, lambda r, ct: ct, (), X),
        TransformError,
        "linear_call: fun must be a function, got 3 of type int",
    ),
    (
        lambda: untyped(lambda r, x: x, lambda r, ct: ct, (), {"a": 3}),
        DTypeError,
        "linear_call: linear_args['a'] must be floating or complex, got i32[]~",
    ),
    (
        lambda: untyped(lambda r, x: (x > 1,), lambda r, ct: ct, (), X),
        DTypeError,
        "linear_call: the result of <lambda>[0] must be floating or complex, got bool[4]",
    ),
    (
        lambda: untyped(lambda r, x: x, lambda r, ct: (ct, ct), (), X),
        TreeError,
        (
            "linear_call: <lambda> must return the structure of linear_args, PyTreeDef(*), got PyTreeDef((*, *))"
        ),
    ),
    (
        lambda: untyped(lambda r, x: x[:2], lambda r, ct: ct, (), X),
        ShapeError,
        "linear_call: <lambda> must return the types of linear_args: linear_args is f32[4], got f32[2]",
    ),
    (
        lambda: untyped(lambda r, x: x, lambda r, ct: ct.astype("float16"), (), X),
        DTypeError,
        "linear_call: <lambda> must return the types of linear_args: linear_args is f32[4], got f16[4]",
    ),
]


@pytest.mark.unguarded  # no annotation allows some of these
@pytest.mark.parametrize(("call", "kind", "text"), ERRORS, ids=[e[2][:40] for e in ERRORS])
def test_errors(call: Any, kind: type[EffxError], text: str) -> None:
    """A mismatch is an error when the function is called, not when it is transposed."""
    with pytest.raises(kind) as error:
        call()
    assert error.value.message == text
