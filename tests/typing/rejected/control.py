"""Mistakes with loops, branches and rules that a type checker finds. Each wrong line has the expected message."""

import effx
import effx.numpy as enp
from effx import Array, Scalar, Size, lax


class L(Size): ...


class M(Size): ...


class N(Size): ...


def keep(x: Array[enp.float32, N]) -> Array[enp.float32, N]:
    return x


def shrink(x: Array[enp.float32, N]) -> Scalar[enp.float32]:
    return x.sum()


def step(carry: Array[enp.float32, N], row: Array[enp.float32, M]) -> tuple[Array[enp.float32, N], Array]:
    return carry, row


def changes(carry: Array[enp.float32, N], row: Array[enp.float32, M]) -> tuple[Scalar[enp.float32], Array]:
    return carry.sum(), row


def body(i: Array, carry: Array[enp.float32, N]) -> Scalar[enp.float32]:
    return carry.sum()


def below(x: Array[enp.float32, N]) -> Scalar[enp.bool_]:
    return (x < 1.0).all()


def loops(x: Array[enp.float32, N], y: Array[enp.float32, M], rows: Array[enp.float32, L, M]) -> None:
    lax.scan(changes, x, rows)  # expect: arg-type
    lax.scan(step, y, rows)  # expect: arg-type
    lax.while_loop(below, shrink, x)  # expect: arg-type
    lax.while_loop(below, keep, y)  # expect: arg-type arg-type
    lax.fori_loop(0, 3, body, x)  # expect: arg-type
    kept = lax.while_loop(below, keep, x)
    a: Array[enp.float32, M] = kept  # expect: assignment
    print(a)


def branches(x: Array[enp.float32, N]) -> None:
    kept = lax.cond(True, keep, keep, x)
    a: Array[enp.float32, M] = kept  # expect: assignment
    lax.cond(True, keep, 3, x)  # expect: call-overload
    print(a)


@effx.custom_vjp
def clip(x: Array) -> Array:
    return x


def forward(x: Array) -> tuple[Array, tuple[Array, int]]:
    return x, (x, 1)


def wrong_residuals(residuals: tuple[Array, str], ct: Array) -> tuple[Array]:
    return (ct,)


def wrong_count(ct: Array) -> tuple[Array]:
    return (ct,)


def wrong_cotangent(residuals: tuple[Array, int], ct: str) -> tuple[Array]:
    return (residuals[0],)


def wrong_forward(x: Array) -> Array:
    return x


def backward(residuals: tuple[Array, int], ct: Array) -> tuple[Array]:
    return (ct,)


clip.defvjp(forward, wrong_residuals)  # expect: misc
clip.defvjp(forward, wrong_count)  # expect: arg-type
clip.defvjp(forward, wrong_cotangent)  # expect: arg-type "str"
clip.defvjp(wrong_forward, backward)  # expect: arg-type


@effx.custom_jvp
def wave(x: Array) -> Array:
    return enp.sin(x)


@wave.defjvp  # expect: arg-type
def rule(primals: tuple[Array], tangents: tuple[Array]) -> Array:
    return primals[0]


@effx.custom_gradient  # expect: arg-type
def square(x: Array) -> Array:
    return x * x
