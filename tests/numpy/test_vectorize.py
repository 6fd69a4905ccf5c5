"""vectorize against numpy.vectorize, which loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ShapeError, TransformError

not_a_function: Any = 3


def cross(a: Any, b: Any) -> Any:
    assert a.shape == b.shape
    assert a.ndim == b.ndim == 1
    return enp.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def product(m: Any, v: Any) -> Any:
    assert m.ndim == 2
    assert m.shape[1:] == v.shape
    return m @ v


@pytest.mark.parametrize(
    ("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((1, 2, 3), (2, 1, 3)), ((4, 1, 3), (5, 3)), ((0, 3), (3,))]
)
def test_cross_product_broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """The example of the reference."""
    x, y = np.random.default_rng(0).normal(size=a), np.random.default_rng(1).normal(size=b)
    f = enp.vectorize(cross, signature="(k),(k)->(k)")
    np.testing.assert_allclose(f(x.astype("f4"), y.astype("f4")), np.cross(x, y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        effx.jit(f)(x.astype("f4"), y.astype("f4")), np.cross(x, y), rtol=1e-4, atol=1e-5
    )


def test_matrix_vector_product() -> None:
    """The other example of the reference."""
    f = enp.vectorize(product, signature="(n,m),(m)->(n)")
    assert f(enp.ones((2, 3)), enp.ones(3)).shape == (2,)
    assert f(enp.ones((2, 3)), enp.ones((4, 3))).shape == (4, 2)
    assert f(enp.ones((5, 1, 2, 3)), enp.ones((4, 3))).shape == (5, 4, 2)
    with pytest.raises(ShapeError) as error:
        enp.vectorize(product, signature="(n,k),(k)->(n)")(enp.ones(3), enp.ones(3))
    assert error.value.message == (
        "vectorize: input with shape (3,) does not have enough dimensions for all core dimensions ('n', 'k') "
        "on vectorized function with excluded=frozenset() and signature='(n,k),(k)->(n)'"
    )


@pytest.mark.parametrize("shapes", [((), ()), ((3,), ()), ((2, 1), (4,)), ((0,), (1,))])
def test_scalars_without_a_signature(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """As numpy.vectorize; Python control flow is not needed, so all results are compared."""
    x = np.random.default_rng(0).normal(size=shapes[0]).astype("f4")
    y = np.random.default_rng(1).normal(size=shapes[1]).astype("f4")
    f = enp.vectorize(lambda a, b: enp.where(a > b, a - b, a + b))
    np.testing.assert_allclose(f(x, y), np.where(x > y, x - y, x + y), rtol=1e-6)


def test_several_results() -> None:
    """A signature may give several results."""
    f = enp.vectorize(lambda x: (x.sum(), x * 2), signature="(k)->(),(k)")
    total, double = f(enp.ones((4, 3)))
    assert total.shape == (4,)
    assert double.shape == (4, 3)


def test_excluded_and_keyword_arguments() -> None:
    """They are passed on as they are."""
    seen = []

    def f(x: Any, mode: Any, *, scale: Any) -> Any:
        seen.append((mode, scale))
        return x * 2

    g = enp.vectorize(f, excluded={1})
    np.testing.assert_allclose(g(np.ones(3, "f4"), "mode", scale=[1]), 2 * np.ones(3))
    assert seen == [("mode", [1])]


def test_gradients_flow() -> None:
    """It is vmap, so it differentiates."""
    f = enp.vectorize(lambda x, y: (x * y).sum(), signature="(k),(k)->()")
    x, y = np.arange(6, dtype="f4").reshape(2, 3), np.ones(3, "f4")
    np.testing.assert_allclose(effx.grad(lambda y: f(x, y).sum())(y), x.sum(0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: enp.vectorize(cross, signature="(n"),
            "vectorize: the signature must look like '(n,m),(m)->(n)', got '(n'",
        ),
        (lambda: enp.vectorize(not_a_function), "vectorize: expected a function, got 3 of type int"),
        (
            lambda: enp.vectorize(cross, excluded={-1}),
            "vectorize: excluded must hold positions from 0 and names, got -1",
        ),
        (
            lambda: enp.vectorize(product, signature="(n)->(n)")(enp.ones(2), enp.ones(2)),
            "vectorize: the signature '(n)->(n)' has 1 arguments, product got 2 that are not excluded",
        ),
    ],
)
def test_wrong_use(make: Any, message: str) -> None:
    """Each with the whole text."""
    with pytest.raises(TransformError) as error:
        make()
    assert error.value.message == message


def test_core_sizes_agree() -> None:
    """One name, one size."""
    with pytest.raises(ShapeError) as error:
        enp.vectorize(lambda x, y: x, signature="(n),(n)->(n)")(enp.ones(2), enp.ones(3))
    assert error.value.message == (
        "vectorize: input with shape (3,) has n=3, which elsewhere is 2 "
        "on vectorized function with excluded=frozenset() and signature='(n),(n)->(n)'"
    )
    with pytest.raises(ShapeError, match=r"result with shape \(\) does not have the core dimensions"):
        enp.vectorize(lambda x: x.sum(), signature="(n)->(n)")(enp.ones(2))


def test_digits_are_names() -> None:
    """As in NumPy's vectorize."""
    x = np.arange(9.0, dtype="f4").reshape(3, 3)
    f = enp.vectorize(lambda v: v.sum(), signature="(2)->()")
    np.testing.assert_array_equal(f(x), np.vectorize(lambda v: v.sum(), signature="(2)->()")(x))


def test_none_is_passed_on() -> None:
    """Without a signature an argument that is None is passed unchanged."""

    def add_if_any(x: Any, y: Any) -> Any:
        assert x.ndim == 0
        return x if y is None else x + y

    f = enp.vectorize(add_if_any)
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(f(x, None), x)
    np.testing.assert_array_equal(effx.jit(f)(x, None), x)
    np.testing.assert_array_equal(f(x, x[0]), x + x[0])
    with pytest.raises(ShapeError) as error:
        enp.vectorize(cross, signature="(n),(n)->(n)")(enp.ones(3), None)
    assert error.value.message == (
        "vectorize: argument 1 of cross is None, and has no core dimensions on vectorized function with "
        "excluded=frozenset() and signature='(n),(n)->(n)'"
    )


def test_results_of_any_dimensions() -> None:
    """Without a signature results may have dimensions of their own, which come last."""
    f = enp.vectorize(lambda x: (x * enp.arange(4), x))
    rows, same = f(np.arange(3))
    np.testing.assert_array_equal(rows, np.outer(np.arange(3), np.arange(4)))
    np.testing.assert_array_equal(same, np.arange(3))
    assert f(2)[0].tolist() == [0, 2, 4, 6]


def test_excluded_arguments_that_are_left_out() -> None:
    """A position that is excluded may be left out or named, as in NumPy."""

    def combine(x: Any, y: Any, how: Any = enp.add) -> Any:
        assert x.ndim == y.ndim == 0
        return how(x, y)

    f = enp.vectorize(combine, excluded={2, "how"})
    x = np.arange(4)
    np.testing.assert_array_equal(f(x, 2), x + 2)
    np.testing.assert_array_equal(f(x, 2, enp.power), x**2)
    np.testing.assert_array_equal(f(x, 2, how=enp.power), x**2)
