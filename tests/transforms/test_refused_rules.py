"""Rules and tangents of another structure, shape or dtype than the function's are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.custom_derivatives import zero_from_primal
from effx.errors import DTypeError, ShapeError, TreeError
from effx.sharding import AbstractMesh


@pytest.mark.parametrize("transform", [lambda f: f, effx.jit], ids=["eager", "jit"])
def test_structure_of_a_batching_rule(transform: Callable[[Any], Any]) -> None:
    @effx.custom_batching.custom_vmap
    def pair(x: Any) -> Any:
        return x, 2.0 * x

    rules: dict[str, Callable[..., Any]] = {
        "a dict": lambda size, batched, x: ({"a": x, "b": x}, {"a": True, "b": True}),
        "one array": lambda size, batched, x: (x, True),
        "three arrays": lambda size, batched, x: ((x, x, x), True),
    }
    for rule in rules.values():
        pair.def_vmap(rule)
        with pytest.raises(
            TreeError, match=r"custom_vmap: <lambda> gives a result of structure .*, but pair gives"
        ):
            transform(effx.vmap(pair))(enp.ones(3))

    pair.def_vmap(lambda size, batched, x: ((x, x[:, None]), True))
    with pytest.raises(
        ShapeError, match=r"gives result\[1\] of type f32\[3,1\], marked as batched, but pair gives f32\[\]"
    ):
        transform(effx.vmap(pair))(enp.ones(3))
    pair.def_vmap(lambda size, batched, x: ((x, 2.0 * x), True))
    np.testing.assert_array_equal(transform(effx.vmap(pair))(enp.ones(3))[1], [2.0, 2.0, 2.0])


@pytest.mark.parametrize("transform", [lambda f: f, effx.jit], ids=["eager", "jit"])
def test_symbolic_zeros_of_another_shape(transform: Callable[[Any], Any]) -> None:
    def differentiate(backward: Callable[..., Any]) -> Any:
        @effx.custom_vjp
        def double(x: Any, y: Any) -> Any:
            return 2.0 * x, 2.0 * y

        double.defvjp(
            lambda x, y: (double(x.value, y.value), (x.value, y.value)), backward, symbolic_zeros=True
        )
        gradient = effx.grad(lambda x, y: double(x, y)[0].sum(), (0, 1))
        return transform(gradient)(enp.ones(2), enp.ones(3))

    with pytest.raises(
        ShapeError, match=r"argument 0 that <lambda> gives is SymbolicZero\(float32\[3\]\), but .* f32\[2\]"
    ):
        differentiate(lambda residuals, cts: (cts[1], cts[0]))
    with pytest.raises(ShapeError, match=r"argument 1 that <lambda> gives is SymbolicZero\(float32\[2\]\)"):
        differentiate(lambda residuals, cts: (cts[0], zero_from_primal(residuals[0], symbolic_zeros=True)))
    x, y = differentiate(lambda residuals, cts: (2.0 * cts[0], cts[1]))
    np.testing.assert_array_equal(x, [2.0, 2.0])
    np.testing.assert_array_equal(y, np.zeros(3))


@pytest.mark.parametrize("tangent", [1, True, np.int32(1), 1j])
def test_tangents_of_another_kind(tangent: Any) -> None:
    sine: Any = enp.sin
    applications: dict[str, Callable[[], Any]] = {
        "jvp": lambda: effx.jvp(sine, (1.0,), (tangent,)),
        "linearize": lambda: effx.linearize(sine, 1.0)[1](tangent),
        "vjp": lambda: effx.vjp(sine, 1.0)[1](tangent),
    }
    for name, apply in applications.items():
        with pytest.raises(
            DTypeError, match=rf"{name}: the (co)?tangent of f32\[\]~? must have its dtype, got "
        ):
            apply()


def test_tangents_that_are_weak_floats() -> None:
    assert float(effx.jvp(enp.sin, (np.float16(0.0),), (1.0,))[1]) == 1.0
    assert complex(effx.jvp(lambda z: 2.0 * z, (np.complex64(1.0),), (1.0,))[1]) == 2.0


def test_a_mesh_without_axes_has_axes_of_no_type() -> None:
    mesh = AbstractMesh((), ())
    assert mesh.empty
    assert not mesh.are_all_axes_auto
    assert not mesh.are_all_axes_explicit
    assert not mesh.are_all_axes_manual
    assert not mesh.are_all_axes_explicit_or_manual
    assert not effx.sharding.get_abstract_mesh().are_all_axes_explicit
