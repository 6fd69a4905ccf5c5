"""Known values inside of functions that are being staged, types of arrays as results, and zeros of values."""

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import DTypeError

X = np.array([0.5, -1.0, 2.0], np.float32)


def test_known_values_run_at_once_and_others_are_staged() -> None:
    known: list[Any] = []

    def f(x: Any) -> Any:
        with effx.ensure_compile_time_eval():
            k = enp.sum(enp.asarray(X)) * 2
            known.append(float(k))  # concrete here
            return enp.sin(x) * k

    np.testing.assert_allclose(effx.jit(f)(X), np.sin(X) * 3, rtol=1e-6)
    assert known == [3.0]
    assert [e.op.name for e in effx.make_jaxpr(f)(X).equations] == ["sin", "mul"]
    np.testing.assert_allclose(effx.jit(effx.grad(lambda x: f(x).sum()))(X), np.cos(X) * 3, rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(effx.jit(f))(X), np.sin(X) * 3, rtol=1e-6)
    np.testing.assert_allclose(f(X), np.sin(X) * 3, rtol=1e-6)


def test_numbers_made_while_staging_are_values_of_the_staged_function() -> None:
    """They stand as literals where they are used, and as closed-over values in functions that are staged inside."""
    inner: list[effx.ir.Program] = []

    def f(x: Any) -> Any:
        number = enp.array(2)
        with pytest.raises(effx.errors.ConcretizationError, match=r"int\(x\): needs a concrete value"):
            int(number)
        inner.append(effx.make_jaxpr(lambda y: y * number)(1.0))
        return x * number + enp.float32(0.5)

    assert [len(e.inputs) for e in effx.make_jaxpr(f)(X).equations] == [2, 2]
    assert [x.shape for x in inner[0].constants] == [()]
    np.testing.assert_allclose(effx.jit(f)(X), X * 2 + 0.5, rtol=1e-6)
    np.testing.assert_allclose(effx.jit(effx.vmap(f))(X), X * 2 + 0.5, rtol=1e-6)


def test_arrays_have_one_class_where_they_are_known() -> None:
    """Numbers too, in functions that are differentiated or mapped without being staged."""
    classes: list[type] = []

    def f(x: Any) -> Any:
        classes.extend([type(enp.array(2)), type(enp.float32(2.0)), type(enp.full((), 2.0))])
        with effx.ensure_compile_time_eval():
            classes.extend([type(enp.array(2)), type(enp.ones(3))])
        return x

    effx.grad(f)(1.0)
    effx.vmap(f)(X)
    assert set(classes) == {type(enp.ones(3))}


@pytest.mark.parametrize("kind", ["jvp", "vjp", "vmap"])
def test_functions_with_rules_of_known_values(kind: str) -> None:
    """The function itself runs, on values that Python may read; where an argument is not known it is staged."""
    seen: list[bool] = []

    def f(x: Any) -> Any:
        seen.append(not isinstance(x, effx.array.Box))
        return x * 2

    g: Any
    if kind == "jvp":
        g = effx.custom_jvp(f)
        g.defjvp(lambda p, t: (p[0] * 2, t[0] * 3))
    elif kind == "vjp":
        g = effx.custom_vjp(f)
        g.defvjp(lambda x: (x * 2, None), lambda _, ct: (ct * 3,))
    else:
        g = effx.custom_batching.custom_vmap(f)
        g.def_vmap(lambda size, in_batched, x: (x * 2, in_batched[0]))

    @effx.jit
    def h(x: Any) -> Any:
        with effx.ensure_compile_time_eval():
            return g(3.0) + g(x)

    assert float(h(1.0)) == 8.0
    assert seen[0]
    assert not any(seen[1:])


def test_transformations_of_known_values() -> None:
    """Loops, compiled functions and transformations run at once too."""
    found: list[Any] = []

    @effx.jit
    def f(x: Any) -> Any:
        with effx.ensure_compile_time_eval():
            found.append(float(effx.grad(enp.sin)(1.0)))
            found.append(np.asarray(effx.vmap(effx.jit(lambda a: a * 2))(X)).tolist())
            found.append(int(effx.lax.fori_loop(0, 5, lambda i, c: c + i, 0)))
            found.append(float(effx.lax.cond(enp.asarray(True), lambda: 1.0, lambda: 2.0)))
        return x

    f(1.0)
    assert found == [float(np.cos(np.float32(1))), (X * 2).tolist(), 10, 1.0]


def test_collectives_go_on_to_their_axis() -> None:
    def f(x: Any) -> Any:
        with effx.ensure_compile_time_eval():
            return effx.lax.psum(x, "i") + effx.lax.axis_index("i")

    np.testing.assert_allclose(effx.vmap(f, axis_name="i")(X), X.sum() + np.arange(3), rtol=1e-6)


def test_zeros_of_values() -> None:
    tree = {"a": X, "b": (1, 2.5)}
    found = effx.custom_derivatives.zero_from_primal(tree)
    np.testing.assert_array_equal(found["a"], np.zeros(3))
    assert found["b"][0].dtype == effx.dtypes.float0
    assert found["b"][1] == 0
    symbolic = effx.custom_derivatives.zero_from_primal(tree, symbolic_zeros=True)
    assert str(symbolic) == (
        "{'a': SymbolicZero(float32[3]), 'b': (SymbolicZero(float0[]), SymbolicZero(float32[]))}"
    )
    assert [symbolic["a"].aval, symbolic["a"].ndim, symbolic["a"].size] == [effx.typeof(X), 1, 3]
    assert symbolic["b"][1].weak_type
    one = effx.custom_derivatives.SymbolicZero.from_primal_value(X)
    assert (one.aval, repr(one)) == (effx.typeof(X), "SymbolicZero(float32[3])")


@pytest.mark.unguarded  # no annotation allows it
def test_zero_of_what_is_no_array() -> None:
    """The error names who asked."""
    with pytest.raises(DTypeError) as error:
        effx.custom_derivatives.SymbolicZero.from_primal_value("a")
    assert error.value.message == ("from_primal_value: expected an array or a number, got 'a' of type str")
