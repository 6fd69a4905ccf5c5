"""The examples of the documents that effx reimplements, with the values printed there.

Never: computes an expected value; all stand in the documents.
"""

from __future__ import annotations

import types
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import grad, jit, vmap


def close(got: object, expected: object, digits: float = 1e-6) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=digits, atol=digits)


def tanh(x: Any) -> Any:
    y = enp.exp(-2.0 * x)
    return (1.0 - y) / (1.0 + y)


def test_readme_mlp() -> None:
    def predict(params: Any, inputs: Any) -> Any:
        outputs = inputs
        for w, b in params:
            outputs = enp.dot(inputs, w) + b
            inputs = enp.tanh(outputs)
        return outputs

    def loss(params: Any, inputs: Any, targets: Any) -> Any:
        return enp.sum((predict(params, inputs) - targets) ** 2)

    rng = np.random.default_rng(0)
    params = [(enp.array(rng.normal(size=(m, n)).astype("f4")), enp.zeros(n)) for m, n in [(4, 8), (8, 3)]]
    x, y = rng.normal(size=(5, 4)).astype("f4"), rng.normal(size=(5, 3)).astype("f4")
    grad_loss = jit(grad(loss))
    perex_grads = jit(vmap(grad_loss, in_axes=(None, 0, 0)))
    whole = grad_loss(params, x, y)
    each = perex_grads(params, x, y)
    assert each[0][0].shape == (5, 4, 8)
    for i in range(2):
        for j in range(2):
            close(each[i][j].sum(0), whole[i][j], 1e-4)
    # Against a central difference of the loss itself, in NumPy and double precision.
    w64 = [(np.asarray(w, "f8"), np.asarray(b, "f8")) for w, b in params]

    def loss64(w: Any) -> float:
        h = np.tanh(x @ w + w64[0][1])
        return float(np.sum((h @ w64[1][0] + w64[1][1] - y) ** 2))

    step = np.zeros((4, 8))
    step[1, 2] = 1e-5
    slope = (loss64(w64[0][0] + step) - loss64(w64[0][0] - step)) / 2e-5
    close(whole[0][0][1, 2], slope, 1e-3)


def test_readme_derivatives() -> None:
    close(grad(tanh)(1.0), 0.4199743)
    close(grad(grad(grad(tanh)))(1.0), 0.62162673)
    close(jit(grad(jit(grad(jit(grad(tanh))))))(1.0), 0.62162673)


def test_readme_python_control_flow() -> None:
    def abs_val(x: Any) -> Any:
        if x > 0:
            return x
        return -x

    abs_val_grad = grad(abs_val)
    assert str(abs_val_grad(1.0)) == "1.0"
    assert str(abs_val_grad(-1.0)) == "-1.0"


def test_readme_vmap() -> None:
    def predict(params: Any, input_vec: Any) -> Any:
        assert input_vec.ndim == 1
        activations = outputs = input_vec
        for w, b in params:
            outputs = enp.dot(w, activations) + b
            activations = enp.tanh(outputs)
        return outputs

    rng = np.random.default_rng(1)
    params = [(rng.normal(size=(6, 4)).astype("f4"), rng.normal(size=6).astype("f4"))]
    batch = rng.normal(size=(3, 4)).astype("f4")
    one_by_one = enp.stack(list(map(partial(predict, params), batch)))
    close(vmap(partial(predict, params))(batch), one_by_one, 1e-5)
    close(vmap(predict, in_axes=(None, 0))(params, batch), one_by_one, 1e-5)


def test_selu() -> None:
    @effx.jit
    def selu(x: Any, alpha: float = 1.67, lmbda: float = 1.05) -> Any:
        return lmbda * enp.where(x > 0, x, alpha * enp.exp(x) - alpha)

    x = effx.random.normal(effx.random.PRNGKey(0), (10,))
    host = np.asarray(x, "f8")
    close(selu(x), 1.05 * np.where(host > 0, host, 1.67 * np.exp(host) - 1.67), 1e-6)


def test_disable_jit_shows_values() -> None:
    seen: list[str] = []

    @effx.jit
    def f(x: Any) -> Any:
        y = x * 2
        seen.append(str(y))
        return y + 3

    assert str(f(enp.array([1, 2, 3]))) == "[5 7 9]"
    assert seen == ["Traced<i32[3]>with<jit>"]
    with effx.disable_jit():
        assert str(f(enp.array([1, 2, 3]))) == "[5 7 9]"
    assert seen[1] == "[2 4 6]"


def test_make_jaxpr() -> None:
    def f(x: Any) -> Any:
        return enp.sin(enp.cos(x))

    close(f(3.0), -0.83602, 1e-5)
    assert (
        str(effx.make_jaxpr(f)(3.0))
        == "f(a: f32[]~) {\n  b: f32[]~ = cos a\n  c: f32[]~ = sin b\n  return c\n}"
    )
    operations = [e.op.name for e in effx.make_jaxpr(grad(f))(3.0).equations]
    assert operations[:2] == ["cos", "sin"]
    assert set(operations) == {"cos", "sin", "neg", "mul"}


def test_eval_shape() -> None:
    class MyArgArray:
        def __init__(self, shape: Any, dtype: Any) -> None:
            self.shape = shape
            self.dtype = dtype

    out = effx.eval_shape(
        lambda a, x: enp.tanh(enp.dot(a, x)),
        MyArgArray((2000, 3000), enp.float32),
        MyArgArray((3000, 1000), enp.float32),
    )
    assert out.shape == (2000, 1000)
    assert str(out.dtype) == "float32"


def test_grad_tanh() -> None:
    close(effx.grad(effx.numpy.tanh)(0.2), 0.961043)


EXPECTED_JACOBIAN = [[1.0, 0.0, 0.0], [0.0, 0.0, 5.0], [0.0, 16.0, -2.0], [1.6209, 0.0, 0.84147]]


@pytest.mark.parametrize("jacobian", [effx.jacfwd, effx.jacrev])
def test_jacobians(jacobian: Any) -> None:
    def f(x: Any) -> Any:
        return enp.asarray([x[0], 5 * x[2], 4 * x[1] ** 2 - 2 * x[2], x[2] * enp.sin(x[0])])

    close(jacobian(f)(enp.array([1.0, 2.0, 3.0])), EXPECTED_JACOBIAN, 1e-5)


def test_hessian() -> None:
    g = lambda x: x[0] ** 3 - 2 * x[0] * x[1] - x[1] ** 6  # noqa: E731 - as in the document
    assert str(effx.hessian(g)(enp.array([1.0, 2.0]))) == "[[   6.   -2.]\n [  -2. -480.]]"


def test_hessian_of_trees() -> None:
    f = lambda dct: {"c": enp.power(dct["a"], dct["b"])}  # noqa: E731 - as in the document
    h = effx.hessian(f)({"a": enp.arange(2.0) + 1.0, "b": enp.arange(2.0) + 2.0})["c"]
    close(h["a"]["a"], [[[2, 0], [0, 0]], [[0, 0], [0, 12]]])
    close(h["a"]["b"], [[[1, 0], [0, 0]], [[0, 0], [0, 12.317766]]])
    close(h["b"]["a"], [[[1, 0], [0, 0]], [[0, 0], [0, 12.317766]]])
    close(h["b"]["b"], [[[0, 0], [0, 0]], [[0, 0], [0, 3.843624]]])


def test_jvp() -> None:
    y, v = effx.jvp(enp.sin, (0.1,), (0.2,))
    close(y, 0.09983342)
    close(v, 0.19900084)


def test_linearize() -> None:
    def f(x: Any) -> Any:
        return 3.0 * enp.sin(x) + enp.cos(x / 2.0)

    value, tangent = effx.jvp(f, (2.0,), (3.0,))
    close(value, 3.26819, 1e-5)
    close(tangent, -5.00753, 1e-5)
    y, f_jvp = effx.linearize(f, 2.0)
    close(y, 3.2681944)
    close(f_jvp(3.0), -5.007528)
    close(f_jvp(4.0), -6.676704)


def test_linear_transpose() -> None:
    scalar = types.SimpleNamespace(shape=(), dtype=np.float32)
    f_transpose = effx.linear_transpose(lambda x, y: 0.5 * x - 0.5 * y, scalar, scalar)
    assert repr(f_transpose(1.0)) == "(Array(0.5, dtype=float32), Array(-0.5, dtype=float32))"


def test_vjp() -> None:
    _primals, f_vjp = effx.vjp(lambda x, y: (enp.sin(x), enp.cos(y)), 0.5, 1.0)
    xbar, ybar = f_vjp((0.7, 0.3))
    close(xbar, 0.61430776)
    close(ybar, -0.2524413)


def test_matrix_products_by_vmap() -> None:
    vv = lambda x, y: enp.vdot(x, y)  # noqa: E731 - as in the document
    mv = vmap(vv, (0, None), 0)
    mm = vmap(mv, (None, 1), 1)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3)).astype("f4"), rng.normal(size=(3, 4)).astype("f4")
    close(mm(a, b), a @ b, 1e-5)
    mv2 = vmap(vv, (0, 1), 0)
    c, d = rng.normal(size=(2, 5, 3)).astype("f4"), rng.normal(size=(3, 5, 2)).astype("f4")
    close(vmap(mv2, (1, 1), 0)(c, d), np.einsum("bca,acb->cb", c, d), 1e-5)


def test_container_axes() -> None:
    a, b, c, d, k = 2, 3, 4, 5, 6

    def foo(tree_arg: Any) -> Any:
        x, (y, z) = tree_arg
        return enp.dot(x, enp.dot(y, z))

    tree: Any = (enp.ones((a, b)), (enp.ones((b, c)), enp.ones((c, d))))
    assert str(foo(tree)) == "[[12. 12. 12. 12. 12.]\n [12. 12. 12. 12. 12.]]"
    tree = (enp.ones((k, a, b)), (enp.ones((b, k, c)), enp.ones((c, d, k))))
    assert vmap(foo, in_axes=((0, (1, 2)),))(tree).shape == (6, 2, 5)


def test_dictionary_axes() -> None:
    dct = {"a": 0.0, "b": enp.arange(5.0)}
    out = vmap(lambda dct, x: dct["a"] + dct["b"] + x, in_axes=({"a": None, "b": 0}, None))(dct, 1.0)
    assert str(out) == "[1. 2. 3. 4. 5.]"


def test_unmapped_results() -> None:
    f = lambda x, y: (x + y, y * 2.0)  # noqa: E731 - as in the document
    assert repr(vmap(f, in_axes=(0, None), out_axes=(0, None))(enp.arange(2.0), 4.0)) == (
        "(Array([4., 5.], dtype=float32), 8.0)"
    )
    assert repr(vmap(f, in_axes=(0, None), out_axes=0)(enp.arange(2.0), 4.0)) == (
        "(Array([4., 5.], dtype=float32), Array([8., 8.], dtype=float32, weak_type=True))"
    )


def test_collective_in_vmap() -> None:
    xs = enp.arange(3.0 * 4.0).reshape(3, 4)
    out = vmap(lambda x: effx.lax.psum(x, "i"), axis_name="i")(xs)
    assert str(out) == "[[12. 15. 18. 21.]\n [12. 15. 18. 21.]\n [12. 15. 18. 21.]]"


def test_transformations_api_jit() -> None:
    @effx.jit
    def fast_computation(x: Any, y: Any) -> Any:
        return enp.sum(x**2 + y**2)

    close(fast_computation(enp.arange(3.0), enp.ones(3)), 8.0)

    @effx.jit(static_argnums=(1,))
    def dynamic_slice(x: Any, size: int) -> Any:
        return x[:size]

    assert str(dynamic_slice(enp.arange(5), 2)) == "[0 1]"


def test_transformations_api_gradients() -> None:
    def loss_fn(params: Any, x: Any, y: Any) -> Any:
        predictions = params[0] * x + params[1]
        return enp.mean((predictions - y) ** 2)

    params, x, y = (enp.array(2.0), enp.array(1.0)), enp.array([1.0, 2.0]), enp.array([0.0, 1.0])
    # residuals 3, 4: d/dp0 = mean(2 r x) = 11, d/dp1 = mean(2 r) = 7, value 12.5
    value, grads = effx.value_and_grad(loss_fn)(params, x, y)
    close(value, 12.5)
    close(grads[0], 11.0)
    close(grads[1], 7.0)
    by_params, by_x, by_y = effx.grad(loss_fn, argnums=(0, 1, 2))(params, x, y)
    close(by_params[0], 11.0)
    close(by_x, [6.0, 8.0])
    close(by_y, [-3.0, -4.0])

    def hvp(v: Any) -> Any:
        return effx.jvp(effx.grad(loss_fn), (params, x, y), (v, 0.0 * x, 0.0 * y))[1]

    close(hvp((enp.array(1.0), enp.array(0.0)))[0], 5.0)  # mean(2 x x)
