"""Auxiliary data go by differentiation: arrays as values, everything else as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import RefError, TransformError

Aux = Callable[[Callable[[Any], Any], Any], Any]

WAYS: dict[str, Aux] = {
    "grad": lambda f, x: effx.grad(f, has_aux=True)(x)[1],
    "value_and_grad": lambda f, x: effx.value_and_grad(f, has_aux=True)(x)[0][1],
    "jvp": lambda f, x: effx.jvp(f, (x,), (1.0,), has_aux=True)[2],
    "vjp": lambda f, x: effx.vjp(f, x, has_aux=True)[2],
    "linearize": lambda f, x: effx.linearize(f, x, has_aux=True)[2],
    "jacfwd": lambda f, x: effx.jacfwd(f, has_aux=True)(x)[1],
    "jacrev": lambda f, x: effx.jacrev(f, has_aux=True)(x)[1],
    "hessian": lambda f, x: effx.hessian(f, has_aux=True)(x)[1],
    "grad of grad": lambda f, x: effx.grad(
        lambda y: effx.grad(f, has_aux=True)(y), has_aux=True
    )(x)[1],
}  # fmt: skip


@pytest.fixture(params=WAYS)
def aux_of(request: pytest.FixtureRequest) -> Aux:
    return WAYS[request.param]


def test_what_is_no_array_stays_as_it_is(aux_of: Aux) -> None:
    """Objects, texts, numbers and NumPy arrays come back themselves, where they stood among arrays."""
    thing, data = object(), np.ones(2)
    aux = aux_of(lambda x: (x**3, {"o": thing, "s": "text", "n": 3, "x": [x + 1.0, None], "a": data}), 2.0)
    assert aux["o"] is thing
    assert aux["a"] is data
    assert (aux["s"], type(aux["n"]), aux["n"], aux["x"][1]) == ("text", int, 3, None)
    assert isinstance(aux["x"][0], effx.Array)
    assert float(aux["x"][0]) == 3.0


def test_data_without_arrays(aux_of: Aux) -> None:
    """One leaf that is no array, and no leaf at all."""
    assert aux_of(lambda x: (x * x, "text"), 2.0) == "text"
    assert aux_of(lambda x: (x * x, ()), 2.0) == ()


def test_arrays_go_by_inside_jit_vmap_and_scan(aux_of: Aux) -> None:
    """Texts do not: the function in jit takes them off."""

    def square(x: Any) -> Any:
        return x * x, ("text", enp.sin(x))

    def sine(x: Any) -> Any:
        text, y = aux_of(square, x)
        assert text == "text"
        return y

    xs = np.array([0.5, 2.0], np.float32)
    np.testing.assert_allclose(effx.jit(sine)(xs[1]), np.sin(xs[1]), rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(sine)(xs), np.sin(xs), rtol=1e-6)
    np.testing.assert_allclose(effx.lax.scan(lambda c, x: (c, sine(x)), 0, xs)[1], np.sin(xs), rtol=1e-6)
    np.testing.assert_allclose(effx.grad(sine)(xs[1]), np.cos(xs[1]), rtol=1e-6)


def test_errors(aux_of: Aux) -> None:
    """A reference is refused, and so is what is no pair."""
    with pytest.raises(RefError, match=r"returned a Ref .*; return what it holds, ref\[\.\.\.\]"):
        aux_of(lambda x: (x * x, {"r": effx.new_ref(1.0)}), 2.0)
    with pytest.raises(TransformError, match=r"with has_aux=True .* must return a pair \(result, aux\), got"):
        aux_of(lambda x: x * x, 2.0)
