"""Control flow and custom rules: what goes in and round comes out."""

from collections.abc import Callable
from typing import assert_type

import numpy as np

import effx
import effx.numpy as enp
from effx import Array, Scalar, Size, lax


class L(Size): ...


class N(Size): ...


Carry = tuple[Array[enp.float32, N], Scalar[enp.float32]]

VECTOR = enp.ones(N(3), enp.float32)
ROWS = enp.ones((L(5), N(3)), enp.float32)
TOTAL: Scalar[enp.float32] = enp.float32(0)


def scans() -> None:
    def step(carry: Carry, row: Array[enp.float32, N]) -> tuple[Carry, Scalar[enp.float32]]:
        return (carry[0] + row, carry[1] + 1.0), row.sum()

    carry, sums = lax.scan(step, (VECTOR, TOTAL), ROWS)
    assert_type(carry, Carry)
    assert sums.shape == (5,)

    def count(n: Array, _: None) -> tuple[Array, Array]:
        return n + 1, n

    assert_type(lax.scan(count, enp.asarray(0), None, length=3), tuple[Array, Array])
    assert_type(lax.map(lambda row: row * 2.0, ROWS).shape, tuple[int, ...])


def associative_scans() -> None:
    def plus(a: Array[enp.float32, L, N], b: Array[enp.float32, L, N]) -> Array[enp.float32, L, N]:
        return a + b

    assert_type(lax.associative_scan(plus, ROWS), Array[enp.float32, L, N])
    assert_type(lax.associative_scan(enp.matmul, np.ones((3, 2, 2))), Array)
    assert lax.associative_scan(enp.add, np.arange(4)).tolist() == [0, 1, 3, 6]


def loops() -> None:
    def double(x: Array[enp.float32, N]) -> Array[enp.float32, N]:
        return x * 2.0

    def below(x: Array[enp.float32, N]) -> Scalar[enp.bool_]:
        return (x < 10.0).all()

    assert_type(lax.while_loop(below, double, VECTOR), Array[enp.float32, N])

    def body(i: Array, carry: Carry) -> Carry:
        return carry[0] * 2.0, carry[1] + 1.0

    assert_type(lax.fori_loop(0, 3, body, (VECTOR, TOTAL)), Carry)
    assert lax.while_loop(below, double, VECTOR).tolist() == [16.0] * 3


def branches() -> None:
    def up(x: Array[enp.float32, N]) -> Array[enp.float32, N]:
        return x + 1.0

    def down(x: Array[enp.float32, N]) -> Array[enp.float32, N]:
        return x - 1.0

    assert_type(lax.cond(True, up, down, VECTOR), Array[enp.float32, N])
    assert_type(lax.switch(1, [up, down], VECTOR), Array[enp.float32, N])
    assert lax.switch(1, [up, down], VECTOR).tolist() == [0.0] * 3


def custom_rules() -> None:
    @effx.custom_vjp
    def clip(x: Array) -> Array:
        return x

    def forward(x: Array) -> tuple[Array, tuple[Array, int]]:
        return x, (x, 1)

    def backward(residuals: tuple[Array, int], ct: Array) -> tuple[Array]:
        return (enp.clip(ct, -1.0, 1.0) * residuals[1],)

    clip.defvjp(forward, backward)
    assert_type(clip(VECTOR), Array)

    @effx.custom_vjp
    def limited(x: Array, limit: float) -> Array:
        return x

    limited_rule = effx.custom_vjp(limited.fun, nondiff_argnums=(1,))

    def limited_forward(x: Array, limit: float) -> tuple[Array, Array]:
        return x, x

    def limited_backward(limit: float, residuals: Array, ct: Array) -> tuple[Array]:
        return (enp.clip(ct, -limit, limit),)

    limited_rule.defvjp(limited_forward, limited_backward)
    assert_type(limited_rule(VECTOR, 0.5), Array)

    @effx.custom_jvp
    def log1pexp(x: Array) -> Array:
        return enp.log1p(enp.exp(x))

    @log1pexp.defjvp
    def rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (dx,) = primals, tangents
        return log1pexp(x), dx / (1.0 + enp.exp(-x))

    assert_type(log1pexp(VECTOR), Array)

    @effx.custom_gradient
    def square(x: Array) -> tuple[Array, Callable[[Array], tuple[Array]]]:
        return x * x, lambda g: (g * x,)

    assert_type(square(VECTOR), Array)
    assert effx.grad(lambda x: limited_rule(x, 0.5).sum() * 4.0)(VECTOR).tolist() == [0.5] * 3
    assert effx.grad(lambda x: log1pexp(x).sum())(enp.zeros(2)).tolist() == [0.5, 0.5]
