"""Users' handlers and users' rules go into parallel maps as they go into loops.

Never: asks for more than eight devices, which tests/conftest.py provides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.array import Box
from effx.effects import Frame, Operation, Value, handle
from effx.errors import TransformError
from effx.handlers.recursion import PayloadHandler, recur
from effx.ir.ops.elementwise import Mul
from effx.laws.zoo import IntervalArithmetic, IntervalBounds

R = TypeVar("R")
Map = Callable[..., Any]
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def close(got: Any, want: Any) -> None:
    for g, w in zip(effx.tree.leaves(got), effx.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-4, atol=1e-5)


def test_payloads_go_into_replicas() -> None:
    """A box of two arrays becomes two mapped operands; plain and shared operands stay what they are."""

    def f(m: Map, x: Any) -> Any:
        return m(lambda v, w: lax.psum(v * w, "i") + v * 2.0, in_axes=(0, None), axis_name="i")(x, 3.0)

    def bounds(m: Map) -> IntervalBounds:
        with handle(IntervalArithmetic()) as frame:
            x = enp.asarray(X)
            y = f(m, Box(frame, IntervalBounds(x - 1, x + 1), x.type))
            return cast("IntervalBounds", y.payload)

    got = bounds(effx.pmap)
    close(got.low, f(effx.vmap, X - 1))
    close(got.high, f(effx.vmap, X + 1))


# A handler with a state


@attrs.frozen
class Tagged:
    value: Array


@attrs.frozen
class Tally(PayloadHandler):
    """Counts multiplications of boxed values while the program runs."""

    threads_state: ClassVar[bool] = True

    def lift(self, x: Any) -> Tagged:
        return Tagged(x)

    def handle(self, frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
        arrays = cast("tuple[Array, ...]", operands)
        inside = recur(frame, op, arrays)
        if inside is not None:
            return cast("R", inside)
        if isinstance(op, Mul):
            frame.state = cast("Array", frame.state) + 1
        result: Any = op(*[x.payload.value if type(x) is Box and x.frame is frame else x for x in arrays])
        return cast("R", Box(frame, Tagged(result), result.type))


@attrs.frozen
class Merging(Tally):
    """Takes the larger of two counts."""

    def merge_states(self, a: Any, b: Any) -> Any:
        return enp.maximum(a, b)


def count(handler: Tally) -> int:
    with handle(handler) as frame:
        frame.state = enp.int32(5)
        x = enp.asarray(X)
        effx.pmap(lambda v: v * v * 2.0)(Box(frame, Tagged(x), x.type))
        state: Any = frame.state
        return int(state)


def test_states_of_the_replicas_are_merged() -> None:
    """Each replica goes on from the state before; the handler says what stands for all of theirs."""
    assert count(Merging()) == 7
    with pytest.raises(TransformError, match=r"define merge_states\(a, b\)"):
        count(Tally())


# Functions with rules of the user's


@effx.custom_vjp
def with_vjp(x: Any) -> Any:
    return enp.sin(x) * lax.psum(x, "i")


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (ct * 2 + lax.pmean(x, "i"),))


def differentiate(xs: Any, dxs: Any) -> Any:
    return with_jvp(xs[0]), dxs[0] * 3 * lax.pmean(xs[0], "i")


@effx.custom_jvp
def with_jvp(x: Any) -> Any:
    return enp.sin(x)


with_jvp.defjvp(differentiate)


def pushed(x: Any) -> Any:
    """Forward mode by the user's rule."""
    return effx.jvp(with_jvp, (x,), (x,))


def total(x: Any) -> Any:
    """A replica's loss."""
    return with_vjp(x).sum()


def pushed_around(m: Map) -> Any:
    """Forward mode around the map."""
    return effx.jvp(m(with_jvp), (X,), (X,))


MATRIX = np.eye(3, dtype=np.float32) * 3 + 0.1


def solved(b: Any) -> Any:
    """A linear solve with a rule of its own."""
    inverse = np.linalg.inv(MATRIX)
    y = lax.custom_linear_solve(
        lambda v: MATRIX @ v, b, lambda _, c: enp.asarray(inverse) @ c, symmetric=True
    )
    return y + lax.psum(b, "i")


COMPOSED: list[Callable[[Map], Any]] = [
    lambda m: m(with_vjp)(X),
    lambda m: m(effx.grad(total))(X),
    lambda m: effx.grad(lambda x: m(with_vjp)(x).sum())(X),
    lambda m: effx.jit(effx.grad(lambda x: m(with_vjp)(x).sum()))(X),
    lambda m: m(pushed)(X),
    pushed_around,
    lambda m: effx.grad(lambda x: m(with_jvp)(x).sum())(X),
    lambda m: effx.vmap(effx.grad(lambda x: m(with_jvp)(x).sum()))(np.stack([X, 2 * X])),
    lambda m: effx.grad(lambda x: m(solved)(x).sum())(X),
]


@pytest.mark.parametrize("composed", COMPOSED)
def test_rules_of_users(composed: Callable[[Map], Any]) -> None:
    """They stay in force inside, and may communicate."""
    close(composed(partial(effx.pmap, axis_name="i")), composed(partial(effx.vmap, axis_name="i")))


# Control flow inside and around


LOOPS: list[Callable[[Map], Any]] = [
    lambda m: m(lambda x: lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 0.5, x))(X),
    lambda m: m(
        lambda x: lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + lax.psum(c[1], "i") / 4), (0, x)
        )[1]
    )(X),
    lambda m: m(lambda x: lax.cond(x.sum() > 0, lambda c: c * 2, lambda c: -c, x))(X),
    lambda m: effx.vmap(
        lambda p, x: lax.cond(p, m(lambda v: lax.psum(v, "i")), lambda x: x, x), in_axes=(0, None)
    )(np.array([True, False]), X),
    lambda m: m(lambda k: effx.random.normal(k, (3,)) + lax.axis_index("i"))(
        effx.random.split(effx.random.PRNGKey(1), 4)
    ),
    lambda m: m(lambda x: (enp.sort(x), enp.argmax(x), enp.cumsum(x)))(X),
    lambda m: m(lambda x: (enp.ones(2), 3.0, x, ()))(X),
    lambda m: m(
        lambda x: lax.scan(lambda c, _: (lax.psum(c, "i") / 4, None), lax.psum(x, "i"), None, length=2)[0],
        out_axes=None,
    )(X),
    lambda m: m(lambda x: (lax.psum(x, "i"), x), out_axes=(None, 1))(X),
]


@pytest.mark.parametrize("composed", LOOPS)
def test_control_flow(composed: Callable[[Map], Any]) -> None:
    """Replicas may decide differently where they do not communicate."""
    close(composed(partial(effx.pmap, axis_name="i")), composed(partial(effx.vmap, axis_name="i")))


def test_what_differs_between_replicas() -> None:
    """A result without an axis must be the same for all; loops and branches are looked into."""
    ok = partial(effx.pmap, axis_name="i", out_axes=None)
    for f in (
        lambda x: lax.cond(lax.psum(x.sum(), "i") > 0, lambda: 1.0, lambda: 2.0),
        lambda x: lax.while_loop(lambda c: c < 3.0, lambda c: c + 1, lax.pmax(x.sum(), "i")),
        effx.jit(lambda x: lax.all_gather(x, "i")),
        lambda x: effx.vmap(lambda v: lax.psum(v, "i"))(x),
    ):
        close(ok(f)(X), effx.vmap(f, axis_name="i", out_axes=None)(X))
    for f in (
        lambda x: lax.axis_index("i"),
        lambda x: lax.cond(x.sum() > 0, lambda: 1.0, lambda: 2.0),
        lambda x: lax.scan(lambda c, r: (c + r, None), 0.0, x)[0],
        lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]),
        lambda x: lax.ppermute(x, "i", []),
        lambda x: lax.while_loop(lambda c: c < x.sum(), lambda c: c + 1, 0.0),
    ):
        with pytest.raises(
            effx.errors.ShapeError, match="out_axes is None for a result of <lambda> that differs"
        ):
            ok(f)(X)
