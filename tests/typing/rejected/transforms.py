"""Mistakes with transformed functions that a type checker finds. Each wrong line has the expected message."""

from dataclasses import dataclass

import effx
import effx.numpy as enp
from effx import Array, Scalar, Size


class B(Size): ...


class M(Size): ...


class N(Size): ...


@dataclass
class Params:
    w: Array
    b: Array


def loss(x: Array[enp.float32, N]) -> Scalar[enp.float32]:
    return x.sum()


def outer(x: Array[enp.float32, N]) -> Array[enp.float32, M]:
    return enp.zeros(M(2), enp.float32)


def model(params: Params, x: Array) -> Array:
    return (x @ params.w + params.b).sum()


def with_aux(params: Params, x: Array) -> tuple[Array, int]:
    return model(params, x), 1


def jitted(x: Array[enp.float32, N], y: Array[enp.float32, M], params: Params) -> None:
    f = effx.jit(loss)
    f(y)  # expect: arg-type
    f()  # expect: call-arg
    f(x, x)  # expect: call-arg
    f.lower(y)  # expect: arg-type
    f.lowered(x)  # expect: attr-defined
    a: Array[enp.float32, N] = f(x)  # expect: assignment
    b: int = effx.jit(model)(params, x)  # expect: assignment
    effx.jit(model, static_argnum=0)  # expect: call-overload call-overload "did you mean"
    effx.jit(3)  # expect: call-overload
    print(a, b)


def gradients(x: Array[enp.float32, N], y: Array[enp.float32, M], params: Params) -> None:
    effx.grad(outer)  # expect: arg-type "Array[float32, M]"
    effx.grad(with_aux)  # expect: arg-type
    effx.grad(model, has_aux=True)  # expect: call-overload
    effx.grad(loss)(y)  # expect: arg-type
    effx.grad(loss)()  # expect: call-overload
    effx.grad(model)(x, x)  # expect: call-overload
    a: Array[enp.float32, M] = effx.grad(loss)(x)  # expect: assignment
    b: Array = effx.grad(model)(params, x)  # expect: assignment "Params"
    c: Params = effx.grad(model, 1)(params, x)  # expect: assignment
    effx.grad(model)(params, x).ww  # expect: attr-defined
    value, gradient = effx.value_and_grad(model)(params, x)
    d: Array = gradient  # expect: assignment
    e: Params = value  # expect: assignment
    print(a, b, c, d, e)


def batches(x: Array[enp.float32, B, N], y: Array[enp.float32, B, M]) -> None:
    effx.vmap(loss)(y)  # expect: arg-type "Array[float32, B, M]"
    a: Scalar[enp.float32] = effx.vmap(loss)(x)  # expect: assignment "Array[float32, B]"
    each = effx.vmap(outer)(x)
    b: Array[enp.float32, M, B] = each  # expect: assignment "Array[float32, B, M]"
    effx.vmap(loss, in_axis=0)  # expect: call-overload call-overload
    effx.vmap(loss, axis_size="4")  # expect: call-overload
    print(a, b)


def derivatives(x: Array[enp.float32, N], y: Array[enp.float32, M]) -> None:
    effx.vjp(loss, y)  # expect: arg-type
    result, pull = effx.vjp(outer, x)
    pull(x)  # expect: arg-type
    a: tuple[Array[enp.float32, M]] = pull(result)  # expect: assignment
    effx.jvp(outer, (y,), (y,))  # expect: arg-type
    effx.jvp(outer, (x,), (y,))  # expect: arg-type
    _, push = effx.linearize(outer, x)
    push(y)  # expect: arg-type
    b: Array[enp.float32, N, M] = effx.jacfwd(outer)(x)  # expect: assignment "Array[float32, M, N]"
    c: Array[enp.float32, N] = effx.hessian(loss)(x)  # expect: assignment
    effx.checkpoint(loss)(y)  # expect: arg-type
    effx.tree.map(loss, Params(x, x)).ww  # expect: attr-defined
    print(a, b, c)
