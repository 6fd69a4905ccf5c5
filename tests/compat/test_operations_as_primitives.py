"""effx's own operations as primitives: names, parameters, and tables of rules that are the handlers' own."""

from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.array import Array
from effx.compat.jaxprs import jaxpr_as_fun, make_jaxpr
from effx.compat.modules import custom_derivatives, lax
from effx.compat.modules._src import ad_util
from effx.compat.modules.extend.core import primitives
from effx.compat.modules.interpreters import ad, batching
from effx.compat.modules.lax import linalg as lax_linalg
from effx.compat.operation_names import LAX, LINALG, PRIMITIVES
from effx.compat.primitives import OperationPrimitive, Primitive, params_of, primitive_named, primitive_of
from effx.effects import Operation
from effx.ir.ops.elementwise import Sin

X = np.array([0.5, -1.0, 2.0], np.float32)


def operations(f: Any, *xs: Any) -> list[Operation[object]]:
    return [e.op for e in effx.make_jaxpr(f)(*xs).equations]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_name_is_an_operation(name: str) -> None:
    p = primitive_named(name)
    assert isinstance(p, OperationPrimitive)
    assert getattr(primitives, f"{name}_p") is p
    assert callable(p.operation.infer)
    assert p.multiple_results == p.operation.multiple
    assert f"{name}_p" in dir(primitives)
    if name in LAX:
        assert getattr(lax, f"{name}_p") is p
        assert f"{name}_p" in dir(lax)
    if name in LINALG:
        assert getattr(lax_linalg, f"{name}_p") is p


def test_names_of_what_is_called_otherwise() -> None:
    assert [lax.scatter_add_p.name, lax.linear_solve_p.name, primitives.remat_p.name, lax.sin_p.name] == [
        "scatter-add",
        "custom_linear_solve",
        "remat2",
        "sin",
    ]
    assert custom_derivatives.custom_jvp_call_p is primitives.custom_jvp_call_p
    assert ad_util.stop_gradient_p is lax.stop_gradient_p


@attrs.frozen
class Own(effx.handling.ArrayOperation):
    """A user's operation."""


def _relu() -> Any:
    f = effx.custom_jvp(lambda x: enp.maximum(x, 0))
    f.defjvp(lambda p, t: (f(*p), t[0]))
    return f


def _cube() -> Any:
    f = effx.custom_vjp(lambda x: x * x * x)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (3 * x * x * ct,))
    return f


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (enp.sin, "sin"),
        (effx.jit(enp.sin), "jit"),
        (_relu(), "custom_jvp_call"),
        (_cube(), "custom_vjp_call"),
        (lambda x: enp.asarray(x).at[0].add(1.0), "scatter-add"),
        (lambda x: enp.asarray(x).at[0].set(1.0), "scatter"),
        (lambda x: effx.lax.scan(lambda c, y: (c + y, c), 0.0, x)[0], "scan"),
        (lambda x: effx.lax.cond(x[0] > 0, enp.sin, enp.cos, x), "cond"),
        (lambda x: effx.lax.round(x), "round"),
        (effx.checkpoint(enp.sin), "remat2"),
        (effx.lax.stop_gradient, "stop_gradient"),
        (lambda x: x.astype(np.int32), "convert_element_type"),
    ],
)
def test_the_primitive_of_an_operation(f: Any, name: str) -> None:
    """It is one object, and with the operation's parameters it performs the operation."""
    found = operations(f, X)
    named = [op for op in found if primitive_of(op).name == name]
    assert named, [primitive_of(op).name for op in found]
    assert primitive_of(named[-1]) is primitive_of(named[-1])
    program = effx.make_jaxpr(f)(X)

    def again(x: Any) -> Any:
        values: dict[Any, Any] = {program.inputs[0]: enp.asarray(x)}

        def read(a: Any) -> Any:
            return a.val if hasattr(a, "val") else values[a]

        for e in program.equations:
            p = primitive_of(e.op)
            result = p.bind(*[read(a) for a in e.inputs], **params_of(e.op))
            values.update(zip(e.outputs, result if p.multiple_results else [result], strict=True))
        return read(program.outputs[0])

    np.testing.assert_array_equal(again(X), f(enp.asarray(X)))
    np.testing.assert_array_equal(effx.jit(again)(X), f(enp.asarray(X)))


def test_inlined_calls() -> None:
    jaxpr = make_jaxpr(lambda x: (enp.sin(x) * enp.asarray(X), x.sum()))(X)
    for way in (lambda f: f, effx.jit):
        y, total = way(lambda x: primitives.call_p.bind(x, call_jaxpr=jaxpr))(X)
        np.testing.assert_allclose(y, np.sin(X) * X, rtol=1e-6)
        np.testing.assert_allclose(total, X.sum())
    found = primitives.closed_call_p.abstract_eval(effx.typeof(X), call_jaxpr=jaxpr)[0]
    assert [t.shape for t in found] == [(3,), ()]
    assert primitives.closed_call_p is primitives.call_p
    with pytest.raises(effx.errors.TransformError) as caught:
        primitives.call_p.bind(X)
    assert (
        str(caught.value).partition("\n")[0] == "eval_jaxpr: call_jaxpr must be a ClosedJaxpr, got NoneType"
    )


def test_operations_with_the_parameters_of_views() -> None:
    """Equations of views have programs as views, under JAX's names."""
    f = effx.jit(lambda x: effx.lax.scan(lambda c, y: (c + y, c), 0.0, x)[0])
    jaxpr = make_jaxpr(f)(X)
    (call,) = jaxpr.eqns
    np.testing.assert_allclose(call.primitive.bind(X, **call.params)[0], X.sum())
    scan = next(e for e in call.params["jaxpr"].eqns if e.primitive is lax.scan_p)
    np.testing.assert_allclose(scan.primitive.bind(0.0, X, **scan.params)[0], X.sum())
    branches = make_jaxpr(lambda x: effx.lax.cond(x[0] > 0, enp.sin, enp.cos, x))(X)
    cond = next(e for e in branches.eqns if e.primitive is lax.cond_p)
    np.testing.assert_allclose(cond.primitive.bind(np.int32(0), X, **cond.params)[0], np.cos(X), rtol=1e-6)


def test_the_exponent_of_an_integer_power_is_y() -> None:
    (power,) = make_jaxpr(lambda x: x**3)(X).eqns
    assert (power.primitive, power.params) == (lax.integer_pow_p, {"y": 3})
    np.testing.assert_allclose(power.primitive.bind(X, **power.params), X**3)
    np.testing.assert_allclose(lax.integer_pow_p.bind(X, y=2), X**2)


def test_functions_with_rules_in_an_equation() -> None:
    """The function stands among what `bind` takes, for those who replace the call by it."""
    (e,) = make_jaxpr(_relu())(X).eqns
    assert e.primitive is custom_derivatives.custom_jvp_call_p
    np.testing.assert_array_equal(jaxpr_as_fun(e.params["call_jaxpr"])(X)[0], np.maximum(X, 0))
    given = e.primitive.get_bind_params(e.params)
    np.testing.assert_array_equal(e.primitive.bind(X, **given)[0], np.maximum(X, 0))
    subfuns: Any = given["subfuns"]
    np.testing.assert_array_equal(subfuns[0].call_wrapped(X)[0], np.maximum(X, 0))
    value, tangent = effx.jvp(lambda x: e.primitive.bind(x, **given)[0], (X,), (X,))
    np.testing.assert_array_equal(value, np.maximum(X, 0))
    np.testing.assert_array_equal(tangent, X)  # its own rule


def test_operations_of_a_user() -> None:
    assert primitive_of(Own()).name == "own"
    assert primitive_of(Own()) is primitive_of(Own())


def test_types_and_values() -> None:
    assert lax.sin_p.abstract_eval(effx.typeof(X)) == (effx.typeof(X), frozenset())
    assert lax.reduce_sum_p.abstract_eval(effx.typeof(X), axes=(0,))[0].shape == ()
    np.testing.assert_allclose(lax.sin_p.impl(X), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(lax.add_p.bind(X, 1.0), X + 1)
    assert lax.sin_p.get_bind_params({"k": 1}) == {"k": 1}
    assert not lax.sin_p.is_effectful({})


def test_rules_that_effx_has() -> None:
    """Libraries take rules from the tables to build their own on."""
    y, dy = ad.primitive_jvps[lax.sin_p]((X,), (2 * X,))
    np.testing.assert_allclose(y, np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(dy, 2 * X * np.cos(X), rtol=1e-6)
    assert isinstance(
        ad.primitive_jvps[lax.sin_p]((X,), (ad.Zero.from_primal_value(enp.asarray(X)),))[1], ad.Zero
    )
    ct, nothing = ad.primitive_transposes[lax.mul_p](X, ad.UndefinedPrimal(effx.typeof(X)), enp.asarray(X))
    np.testing.assert_allclose(ct, X * X)
    assert nothing is None
    y, axis = batching.primitive_batchers[lax.reduce_sum_p]((np.ones((3, 4), np.float32),), (1,), axes=(0,))
    assert (y.shape, axis) == ((4,), 0)
    np.testing.assert_allclose(y, 3 * np.ones(4))
    assert ad.get_primitive_transpose(lax.neg_p) is not None
    own = Primitive("own")
    for table in (ad.primitive_jvps, ad.primitive_transposes, batching.primitive_batchers):
        assert own not in table
        with pytest.raises(KeyError):
            table[own]


class Twice(effx.handling.ArrayOperation):
    """An operation of effx without rules, for rules to be written to."""

    def infer(self, *types: effx.handling.ArrayType) -> effx.handling.ArrayType:
        """The operand's type."""
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        """Twice."""
        return effx.lax.mul(operands[0], 2.0)


def test_rules_for_operations_of_effx() -> None:
    """What is written into a table is what handlers use."""
    asked: list[str] = []
    p = primitive_of(Twice())

    def pushed(primals: Any, tangents: Any) -> Any:
        asked.append("jvp")
        return p.bind(*primals), p.bind(*tangents)

    def pulled(ct: Any, x: Any) -> Any:
        asked.append("transpose")
        assert ad.is_undefined_primal(x)
        return (ct * 2,)

    def batched(values: Any, axes: Any) -> Any:
        asked.append("batch")
        return p.bind(*values), axes[0]

    ad.primitive_jvps[p] = pushed
    ad.primitive_transposes[p] = pulled
    batching.primitive_batchers[p] = batched
    np.testing.assert_allclose(effx.vmap(effx.grad(lambda x: p.bind(x) * x))(X), 4 * X)
    assert asked.count("jvp") == asked.count("transpose") == 1
    assert asked.count("batch") >= 1
    assert list(ad.primitive_jvps).count(p) == 1


def test_rules_of_effx_operations_are_fixed() -> None:
    scan_p = primitive_named("scan")
    for define, text in (
        (scan_p.def_impl, "scan: effx runs the operation's programs; def_impl cannot replace it"),
        (
            lax.sin_p.def_abstract_eval,
            "sin: is an operation of effx; def_abstract_eval is for primitives of one's own",
        ),
    ):
        with pytest.raises(effx.errors.TransformError) as caught:
            define(lambda x: x)
        assert str(caught.value).partition("\n")[0] == text
    with pytest.raises(effx.errors.TransformError) as caught:
        del ad.primitive_jvps[lax.sin_p]
    assert str(caught.value).partition("\n")[0] == (
        "sin: is an operation of effx, whose rule can be replaced, but not taken away"
    )
    with pytest.raises(AttributeError, match="has no attribute 'custom_lin_p'"):
        _ = primitives.custom_lin_p
    assert Sin().name == lax.sin_p.name


def test_an_operation_may_be_computed_by_a_function_of_ones_own() -> None:
    """Outside of jit, and in a checkpoint there; compiled code does not change. The former function puts it back."""
    calls: list[Any] = []
    own = lax.sin_p.impl

    def count(x: Any, **params: Any) -> Any:
        calls.append(x)
        return own(x, **params)

    f = effx.checkpoint(lambda x: enp.sin(enp.sin(x)))
    g = effx.jit(lambda x: enp.sin(x) + 1)
    x = enp.asarray(X)
    assert lax.sin_p.def_impl(count) is count
    try:
        assert lax.sin_p.impl is count
        for function, expected, count_after in (
            (enp.sin, np.sin(X), 1),
            (f, np.sin(np.sin(X)), 3),
            (g, np.sin(X) + 1, 3),
            (effx.vmap(enp.sin), np.sin(X), 4),
            (lambda x: effx.jvp(enp.sin, (x,), (x,))[1], X * np.cos(X), 5),
        ):
            np.testing.assert_allclose(function(x), expected, rtol=1e-6)
            assert len(calls) == count_after
        assert all([isinstance(x, Array) for x in calls])
    finally:
        lax.sin_p.def_impl(own)
    np.testing.assert_allclose(f(x), np.sin(np.sin(X)), rtol=1e-6)
    assert (len(calls), lax.sin_p.impl == own) == (5, True)
    np.testing.assert_allclose(effx.vmap(lax.sin_p.impl)(x), np.sin(X), rtol=1e-6)


def test_tracers_of_forward_mode() -> None:
    seen: list[bool] = []

    def f(x: Any) -> Any:
        seen.append(isinstance(x, ad.JVPTracer))
        return x

    effx.jvp(f, (1.0,), (1.0,))
    effx.vmap(f)(X)
    f(1.0)
    assert seen == [True, False, False]
