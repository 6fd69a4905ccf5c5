"""Transformations: signatures that they keep, and how they change them."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_type

import attrs

import effx
import effx.numpy as enp
from effx import Array, Scalar, Size


class B(Size): ...


class M(Size): ...


class N(Size): ...


@effx.tree_util.register_dataclass
@dataclass
class Params:
    w: Array
    b: Array


@attrs.frozen
class State:
    x: Array
    v: Array


Both = tuple[Array, Params]

VECTOR = enp.ones(N(3), enp.float32)
MATRIX = enp.ones((M(2), N(3)), enp.float32)
ROWS = enp.ones((B(4), N(3)), enp.float32)
UNKNOWN: Array = enp.asarray([1.0, 2.0, 3.0])
PARAMS = Params(enp.ones((3, 2)), enp.zeros(2))


def loss(x: Array[enp.float32, N]) -> Scalar[enp.float32]:
    return (x * x).sum()


def plain(x: Array, scale: float = 1.0) -> Array:
    return (x * scale).sum()


def model(params: Params, x: Array) -> Array:
    return ((x @ params.w + params.b) ** 2).sum()


def with_aux(params: Params, x: Array) -> tuple[Array, dict[str, Array]]:
    return model(params, x), {"x": x}


def both(x: Array[enp.float32, N], y: Array[enp.float32, M]) -> Scalar[enp.float32]:
    return x.sum() * y.sum()


def of_number(x: float) -> Array:
    return enp.sin(x)


def outer(x: Array[enp.float32, N]) -> Array[enp.float32, M]:
    return MATRIX @ x


class Layer:
    """Methods are transformed bound, and decorated."""

    def __init__(self, w: Array) -> None:
        self.w = w

    def __call__(self, x: Array) -> Array:
        return (x * self.w).sum()

    def apply(self, x: Array, *, shift: float = 0.0) -> Array:
        return x * self.w + shift

    @functools.partial(effx.jit, static_argnums=0)
    def compiled(self, x: Array) -> Array:
        return x * self.w


LAYER = Layer(enp.ones(3))


def jit_keeps_signatures() -> None:
    assert_type(effx.jit(loss)(VECTOR), Scalar[enp.float32])
    assert_type(effx.jit(plain)(UNKNOWN, scale=2.0), Array)
    assert_type(effx.jit(with_aux)(PARAMS, UNKNOWN), tuple[Array, dict[str, Array]])
    assert_type(effx.jit(LAYER.apply)(UNKNOWN, shift=1.0), Array)
    assert_type(effx.jit(LAYER)(UNKNOWN), Array)
    assert_type(effx.jit(functools.partial(plain, scale=3.0))(UNKNOWN), Array)
    assert_type(effx.jit(enp.sin)(VECTOR), Array[enp.float32, N])
    assert_type(effx.jit(plain, abstracted_axes={0: "n"})(UNKNOWN), Array)
    assert_type(effx.jit(abstracted_axes=({0: "n"},))(loss)(VECTOR), Scalar[enp.float32])
    effx.jit(loss).lower(VECTOR).as_text()

    @effx.jit(static_argnames="n")
    def power(x: Array, n: int) -> Array:
        return x**n

    assert_type(power(UNKNOWN, n=3), Array)
    assert power(UNKNOWN, n=3).shape == (3,)


def gradients() -> None:
    assert_type(effx.grad(loss)(VECTOR), Array[enp.float32, N])
    assert_type(effx.grad(plain)(UNKNOWN, scale=2.0), Array)
    assert_type(effx.grad(model)(PARAMS, UNKNOWN), Params)
    assert_type(effx.grad(model, argnums=1)(PARAMS, UNKNOWN), Array)
    assert_type(
        effx.grad(both, argnums=(0, 1))(VECTOR, MATRIX[:, 0]),
        tuple[Array[enp.float32, N], Array[enp.float32, M]],
    )
    assert_type(effx.grad(with_aux, has_aux=True)(PARAMS, UNKNOWN), tuple[Params, dict[str, Array]])
    assert_type(effx.value_and_grad(model)(PARAMS, UNKNOWN), tuple[Array, Params])
    assert_type(
        effx.value_and_grad(with_aux, has_aux=True)(PARAMS, UNKNOWN),
        tuple[tuple[Array, dict[str, Array]], Params],
    )
    # What takes a Python number is given an array, and so is its gradient.
    assert_type(effx.grad(of_number)(2.0), Array)
    assert_type(effx.grad(effx.grad(of_number))(2.0), Array)
    assert_type(effx.grad(LAYER)(UNKNOWN), Array)
    # A partial's `__call__` takes anything.
    assert_type(effx.grad(functools.partial(plain, scale=2.0))(UNKNOWN), Any)  # basedpyright: differs
    assert isinstance(effx.grad(model)(PARAMS, UNKNOWN), Params)
    assert effx.grad(loss)(VECTOR).shape == (3,)
    assert effx.grad(model, argnums=1)(PARAMS, UNKNOWN).shape == (3,)


def compositions() -> None:
    assert_type(effx.jit(effx.grad(model))(PARAMS, UNKNOWN), Params)  # basedpyright: differs
    both_of = effx.jit(effx.value_and_grad(model))
    assert_type(both_of(PARAMS, UNKNOWN), Both)  # basedpyright: differs
    assert_type(effx.grad(effx.jit(loss))(VECTOR), Array[enp.float32, N])
    assert_type(effx.jit(effx.grad(loss))(VECTOR), Array[enp.float32, N])  # basedpyright: differs
    assert_type(effx.vmap(effx.jit(loss))(ROWS), Array[enp.float32, B])
    assert_type(effx.jit(effx.vmap(loss))(ROWS), Array[enp.float32, B])
    assert effx.jit(effx.vmap(loss))(ROWS).shape == (4,)


def batches() -> None:
    assert_type(effx.vmap(loss)(ROWS), Array[enp.float32, B])
    assert_type(effx.vmap(outer)(ROWS), Array[enp.float32, B, M])
    assert_type(effx.vmap(both)(ROWS, enp.ones((B(4), M(2)), enp.float32)), Array[enp.float32, B])
    assert_type(effx.vmap(enp.sin)(ROWS), Array[enp.float32, B, N])
    assert_type(effx.vmap(outer, in_axes=1)(ROWS.T), Array[enp.float32, *tuple[Any, ...]])
    assert_type(effx.vmap(plain)(UNKNOWN), Array)  # basedpyright: differs

    def split(x: Array[enp.float32, N]) -> tuple[Scalar[enp.float32], Array[enp.float32, N]]:
        return x.sum(), x

    assert_type(effx.vmap(split)(ROWS), tuple[Array[enp.float32, B], Array[enp.float32, B, N]])
    assert effx.vmap(outer)(ROWS).shape == (4, 2)
    assert effx.vmap(effx.vmap(plain))(ROWS).shape == (4, 3)


def forward_and_reverse() -> None:
    y, dy = effx.jvp(outer, (VECTOR,), (VECTOR,))
    assert_type(y, Array[enp.float32, M])
    assert_type(dy, Array[enp.float32, M])
    y, pull = effx.vjp(outer, VECTOR)
    assert_type(pull(y), tuple[Array[enp.float32, N]])
    value, pull_both = effx.vjp(both, VECTOR, y)
    assert_type(value, Scalar[enp.float32])
    assert_type(pull_both(value), tuple[Array[enp.float32, N], Array[enp.float32, M]])
    assert_type(pull_both(1.0), tuple[Array[enp.float32, N], Array[enp.float32, M]])
    result, pull_params, aux = effx.vjp(with_aux, PARAMS, UNKNOWN, has_aux=True)
    assert_type(aux, dict[str, Array])
    assert_type(pull_params(result), tuple[Params, Array])
    y, push = effx.linearize(outer, VECTOR)
    assert_type(push(VECTOR), Array[enp.float32, M])
    transposed = effx.linear_transpose(outer, VECTOR)
    assert_type(transposed(y), tuple[Array[enp.float32, N]])
    _, dz, extra = effx.jvp(with_aux, (PARAMS, UNKNOWN), (PARAMS, UNKNOWN), has_aux=True)
    assert_type(dz, Array)
    assert_type(extra, dict[str, Array])
    assert pull(y)[0].shape == (3,)


def jacobians() -> None:
    assert_type(effx.jacfwd(outer)(VECTOR), Array[enp.float32, M, N])
    assert_type(effx.jacrev(outer)(VECTOR), Array[enp.float32, M, N])
    assert_type(effx.jacrev(loss)(VECTOR), Array[enp.float32, N])
    assert_type(effx.hessian(loss)(VECTOR), Array[enp.float32, N, N])
    assert effx.jacfwd(outer)(VECTOR).shape == (2, 3)
    assert effx.hessian(loss)(VECTOR).shape == (3, 3)


def other_transforms() -> None:
    assert_type(effx.checkpoint(model)(PARAMS, UNKNOWN), Array)
    assert_type(effx.named_call(model, name="model")(PARAMS, UNKNOWN), Array)
    assert_type(effx.pmap(plain)(UNKNOWN[:1]), Array)

    @effx.checkpoint(static_argnums=1)
    def wave(x: Array, n: int) -> Array:
        return enp.sin(x) * n

    assert_type(wave(UNKNOWN, 2), Array)
    converted, constants = effx.closure_convert(model, PARAMS, UNKNOWN)
    assert_type(constants, list[Array])
    assert_type(converted(PARAMS, UNKNOWN, *constants), Array)
    assert wave(UNKNOWN, 2).shape == (3,)


def trees() -> None:
    def double(x: Array) -> Array:
        return x * 2.0

    assert_type(effx.tree.map(double, PARAMS), Params)
    assert_type(effx.tree.map(double, State(VECTOR, VECTOR)), State)
    assert_type(effx.tree.map(double, [VECTOR]), list[Array])
    assert_type(effx.tree.map(float, {"a": VECTOR.sum()}), dict[str, float])
    assert isinstance(effx.tree.map(double, PARAMS), Params)


def as_arguments() -> None:
    """Transformed functions go where functions are wanted."""

    def apply(f: Callable[[Array], Array], x: Array) -> Array:
        return f(x)

    assert_type(apply(effx.vmap(enp.sin), UNKNOWN), Array)
    assert_type(apply(effx.grad(plain), UNKNOWN), Array)
    assert_type(apply(effx.jit(enp.sin), UNKNOWN), Array)
