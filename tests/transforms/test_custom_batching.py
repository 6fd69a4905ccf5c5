"""custom_vmap's rule is the one used, and sequential_vmap is a loop.

Never: gives a rule that agrees with the function, where it shows which of them ran.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import grad, jit, jvp, lax, vmap
from effx.custom_batching import custom_vmap, sequential_vmap
from effx.ir.checker import check_program
from effx.ir.ops.control import Scan
from effx.laws.zoo import IntervalArithmetic, IntervalBounds

XS = np.array([0.3, 1.0, 2.0], np.float32)


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5, atol=1e-6)


def ten_times() -> Any:
    """exp(x) * y, ten times as much under vmap."""

    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return enp.exp(x) * y

    @f.def_vmap
    def f_vmap(axis_size: int, in_batched: list[bool], x: Any, y: Any) -> Any:
        assert axis_size == 3
        assert in_batched == [True, False]
        assert (x.shape, y.shape) == ((3,), ())
        return 10.0 * enp.exp(x) * y, True

    return f


E = 20.0 * np.exp(XS)


def test_rule_is_used() -> None:
    """Under vmap inside and outside of jit, and inside loops."""
    f = ten_times()
    close(f(1.0, 2.0), 2.0 * np.exp(1.0))
    close(jit(f)(1.0, 2.0), 2.0 * np.exp(1.0))
    close(vmap(f, (0, None))(XS, 2.0), E)
    close(vmap(jit(f), (0, None))(XS, 2.0), E)
    close(jit(vmap(f, (0, None)))(XS, 2.0), E)
    close(vmap(lambda x: lax.scan(lambda c, _: (f(c, 2.0), None), x, None, length=1)[0])(XS), E)
    close(vmap(lambda x: lax.cond(True, lambda: f(x, 2.0), lambda: x))(XS), E)
    close(vmap(f, (None, None), axis_size=2)(1.0, 2.0), [2.0 * np.exp(1.0)] * 2)


def test_differentiation_goes_through_function_and_rule() -> None:
    """The derivative of vmap is the rule's; the batch of forward-mode derivatives is the rule's tangent."""
    f = ten_times()
    close(grad(lambda x: vmap(f, (0, None))(x, 2.0).sum())(XS), E)
    close(grad(lambda x: jit(vmap(f, (0, None)))(x, 2.0).sum())(XS), E)
    close(grad(f)(1.0, 2.0), 2.0 * np.exp(1.0))
    close(vmap(grad(f), (0, None))(XS, 2.0), 2.0 * np.exp(XS))
    y, dy = vmap(lambda x: jvp(f, (x, 2.0), (1.0, 0.0)))(XS)
    close(y, E)
    close(dy, E)
    _, second = vmap(lambda x: jvp(lambda x: jvp(f, (x, 2.0), (1.0, 0.0))[1], (x,), (1.0,)))(XS)
    close(second, E)


def test_trees() -> None:
    """in_batched and out_batched have the structures of arguments and result; a bool stands for all."""

    @custom_vmap
    def f(d: Any, n: Any) -> Any:
        return {"y": d["a"] * n, "n": n}

    @f.def_vmap
    def f_vmap(size: int, in_batched: Any, d: Any, n: Any) -> Any:
        assert in_batched == [{"a": True, "none": None}, False]
        return {"y": d["a"] + n, "n": n}, {"y": True, "n": False}

    for g in (f, jit(f)):
        out = vmap(g, ({"a": 0, "none": None}, None), out_axes={"y": 0, "n": None})(
            {"a": XS, "none": None}, 3
        )
        close(out["y"], XS + 3)
        assert int(out["n"]) == 3


def test_closed_over_batches_are_refused() -> None:
    """A rule knows nothing of a batched value that the function closes over."""

    def outer(x: Any, y: Any) -> Any:
        f: Any = custom_vmap(lambda x: x * y)
        f.def_vmap(lambda n, b, x: (x * y, True))
        return f(x)

    with pytest.raises(effx.errors.TransformError) as info:
        vmap(jit(outer))(XS, XS)
    assert info.value.message == (
        "custom_vmap: <lambda> depends on a value that is being batched and of which its rules know nothing: it closes "
        "over it, or has it as a nondiff argument; make it an ordinary argument, by hand or with closure_convert"
    )
    close(vmap(outer, (0, None))(XS, 2.0), 2.0 * XS)
    close(vmap(jit(outer), (0, None))(XS, 2.0), 2.0 * XS)
    close(grad(lambda y: vmap(outer, (0, None))(XS, y).sum())(2.0), XS.sum())


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_tangents_alone_are_no_batch_to_the_rule(wrap: Any) -> None:
    """The rule sees the one primal, whose result is not batched; a batch of primals is one, with one tangent or many."""
    seen: list[Any] = []

    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return enp.sin(x) * y

    @f.def_vmap
    def rule(size: int, in_batched: Any, x: Any, y: Any) -> Any:
        seen.append((size, in_batched, x.shape))
        return enp.cos(x) * y, in_batched[0]

    push = lambda x, dx: effx.jvp(wrap(f), (x, 2.0), (dx, 0.0))  # noqa: E731
    y, dy = vmap(push, (None, 0), (None, 0))(0.5, XS)
    close(y, 2 * np.cos(0.5))
    close(dy, -2 * np.sin(0.5) * XS)
    close(effx.jacfwd(lambda x: wrap(f)(x, 2.0))(XS), -2 * np.diag(np.sin(XS)))
    assert {(size, tuple(flags)) for size, flags, _ in seen} == {(3, (False, False))}
    assert {shape for _, _, shape in seen} == {(), (3,)}
    seen.clear()
    close(vmap(push)(XS, XS)[1], -2 * np.sin(XS) * XS)
    close(vmap(push, (0, None))(XS, 3.0)[1], -6 * np.sin(XS))
    assert {tuple(flags) for _, flags, _ in seen} == {(True, False)}

    linear: Any = custom_vmap(lambda x: 7.0 * x)
    linear.def_vmap(lambda size, in_batched, x: (11.0 * x, in_batched[0]))
    y, dy = vmap(lambda x, dx: effx.jvp(wrap(linear), (x,), (dx,)), (None, 0), (None, 0))(4.0, XS)
    close(y, 44.0)
    close(dy, 11 * XS)
    always: Any = custom_vmap(lambda x: 7.0 * x)
    always.def_vmap(lambda size, in_batched, x: (enp.arange(size) * x, True))
    y, dy = vmap(lambda x, dx: effx.jvp(wrap(always), (x,), (dx,)), (None, 0))(4.0, XS)
    close(y, np.arange(3) * 4.0)
    close(dy, np.arange(3) * XS)
    second = effx.jacfwd(effx.jacfwd(lambda x: wrap(f)(x, 2.0)))(XS)
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = -2 * np.cos(XS)
    close(second, expected)


def test_functions_with_rules_without_arguments() -> None:
    """All that they depend on is closed over; under every handler, in turn."""
    f: Any = effx.custom_jvp(lambda: enp.float32(2.0))
    f.defjvp(lambda primals, tangents: (f(), 0.0))
    g: Any = custom_vmap(lambda: enp.float32(3.0))
    g.def_vmap(lambda size, in_batched: (enp.float32(3.0), False))
    for h in (f, g):
        value = float(h())
        close(jit(h)(), value)
        close(vmap(lambda x, h=h: h() * x)(XS), value * XS)
        close(vmap(jit(lambda x, h=h: h() * x))(XS), value * XS)
        close(vmap(grad(lambda x, h=h: h() * x))(XS), value + 0 * XS)


def test_without_arguments_what_is_closed_over_is_batched() -> None:
    """The function takes nothing, and gives a batch."""

    def nested(y: Any) -> Any:
        f: Any = effx.custom_jvp(lambda: 2.0 * y)
        f.defjvp(lambda primals, tangents: (2.0 * y, 0.0 * y))
        return jit(lambda w: w + f())(y)

    close(vmap(nested)(XS), 3 * XS)
    close(vmap(jit(nested))(XS), 3 * XS)


def test_sequential_vmap() -> None:
    """The batch is a scan: of functions with several results, nested, differentiated, compiled."""
    f = sequential_vmap(lambda x, y: (enp.sum(x) * y, {"y": y}))
    xs = np.arange(6, dtype=np.float32).reshape(3, 2)
    for g in (vmap(f, (0, None)), jit(vmap(f, (0, None))), vmap(jit(f), (0, None))):
        total, rest = g(xs, 2.0)
        close(total, 2.0 * xs.sum(1))
        close(rest["y"], [2.0] * 3)
    program = check_program(effx.make_jaxpr(vmap(f, (0, None)))(xs, 2.0))
    assert [type(e.op) for e in program.equations] == [Scan]
    close(vmap(vmap(f, (0, None)), (None, 0))(xs, XS)[0], XS[:, None] * xs.sum(1))
    close(grad(lambda x: (vmap(f, (0, None))(x, 2.0)[0] ** 2).sum())(xs), 8.0 * xs.sum(1)[:, None] + 0.0 * xs)
    close(vmap(grad(lambda x, y: f(x, y)[0], 1), (0, None))(xs, 2.0), xs.sum(1))


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_rule_under_a_users_handler(wrap: Any) -> None:
    """A batch of intervals is an interval of batches: the rule runs under the handler."""
    f = wrap(ten_times())

    def bounds(x: Any) -> IntervalBounds:
        found: IntervalBounds = IntervalArithmetic().run(
            lambda x: f(x, 2.0), IntervalBounds(x, x + 1.0), like=1.0
        )
        return found

    got = vmap(bounds)(XS)
    close(got.low, E)
    close(got.high, 20.0 * np.exp(XS + 1.0))
    slow = vmap(
        lambda x: IntervalArithmetic().run(
            sequential_vmap(lambda x: enp.exp(x) * 2.0), IntervalBounds(x, x + 1.0), like=1.0
        )
    )
    close(slow(XS).high, 2.0 * np.exp(XS + 1.0))
