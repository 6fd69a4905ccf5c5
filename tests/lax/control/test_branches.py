"""cond and switch: which branch runs, under every transformation.

Never: looks at messages; test_errors.py does.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.array import Box
from effx.effects import handle
from effx.handlers.oracle import Reference
from effx.handling import Forward, InterceptHandler
from effx.ir.ops.control import Cond

A = np.arange(3, dtype=np.float32)


@pytest.mark.parametrize("pred", [True, False, np.True_, 0, 3, -1.5, 0.0, np.float16(2), np.uint8(0)])
def test_pred_chooses(pred: Any) -> None:
    """A bool, or any real number that is not 0."""
    got = lax.cond(pred, lambda x: x + 1.0, lambda x: x * 5.0, A)
    np.testing.assert_array_equal(got, A + 1 if pred else A * 5)
    traced = effx.jit(lambda p: lax.cond(p, lambda x: x + 1.0, lambda x: x * 5.0, A))(pred)
    np.testing.assert_array_equal(traced, got)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_index_is_clamped(dtype: str) -> None:
    """Negative ones to the first, large ones to the last branch, as int32s: the largest uint32 is -1 there."""
    info = np.iinfo(dtype)
    for i in {info.min, -1 if info.min else 0, 0, 1, 2, 3, info.max}:
        got = lax.switch(np.asarray(i, dtype), [lambda: 10, lambda: 11, lambda: 12])
        assert int(got) == 10 + min(max(int(np.asarray(i).astype(np.int32)), 0), 2)


def test_index_of_many_branches_in_a_small_dtype() -> None:
    """The number of branches need not fit the dtype."""
    branches = [lambda n=n: n for n in range(300)]
    assert int(lax.switch(np.int8(127), branches)) == 127
    assert int(lax.switch(np.int8(-3), branches)) == 0


def test_sixty_four_bits() -> None:
    """The index is read as an int32, as in JAX."""
    with effx.enable_x64(True):
        for i, want in ((2**40, 0), (2**40 + 1, 1), (2**31 - 1, 1), (2**31, 0), (-1, 0)):
            assert int(lax.switch(np.int64(i), [lambda: 0, lambda: 1])) == want


def test_one_branch_takes_every_index() -> None:
    assert float(lax.switch(7, [enp.sin], 0.5)) == float(enp.sin(0.5))


def test_older_forms() -> None:
    """An operand for each branch; one by keyword; None as the operand."""
    for pred in (True, False):
        want = 2.0 if pred else 10.0
        assert float(lax.cond(pred, 1.0, lambda x: x + 1.0, (2.0,), lambda x: x[0] * 5.0)) == want
        assert float(lax.cond(pred, lambda x: x * 2.0, lambda x: x * 10.0, operand=1.0)) == want
        assert float(lax.cond(pred, lambda _: 2.0, lambda _: 10.0, operand=None)) == want
        assert float(lax.cond(pred, lambda: 2.0, lambda: 10.0)) == want
    assert float(lax.switch(1, [enp.sin, enp.cos], operand=0.0)) == 1.0


def test_constants_keep_their_positions() -> None:
    """Branches may close over the same arrays in different orders, or over different ones."""
    a, b, c = enp.float32(2), enp.asarray(A), enp.ones(3)
    branches = [lambda x: a * b + x, lambda x: b - a * x, lambda x: c + x, lambda x: c * b * a]
    want = [2 * A + 3, A - 6, 1 + 3 + 0 * A, A * 2]
    for _ in range(2):
        for i, w in enumerate(want):
            np.testing.assert_array_equal(lax.switch(i, branches, np.float32(3)), w)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64", "bfloat16"])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    x = enp.ones(shape, dtype)
    other: Any = enp.logical_not if dtype == "bool" else enp.negative
    for pred in (True, False):
        y, z = lax.cond(
            pred, lambda v: {"a": (v, enp.zeros(2))}, lambda v: {"a": (other(v), enp.ones(2))}, x
        )["a"]
        assert (y.shape, y.dtype, z.tolist()) == (shape, x.dtype, [0.0, 0.0] if pred else [1.0, 1.0])


def test_as_weak_as_the_first_branch() -> None:
    """Of `cond`'s that is the function for False, whichever runs."""
    functions: list[Callable[[], Any]] = [lambda: enp.asarray(1.0), lambda: enp.float32(2)]
    for pred in (True, False, np.array(True)):
        for for_true in functions:
            assert [
                effx.jit(partial(lax.cond, true_fun=for_true, false_fun=f))(pred).weak_type for f in functions
            ] == [True, False]
            assert [lax.cond(pred, for_true, f).weak_type for f in functions] == [True, False]
    assert [lax.switch(1, [f, *functions]).weak_type for f in functions] == [True, False]
    y = effx.jit(lambda p: lax.cond(p, functions[1], functions[0]) * enp.ones(2, "bfloat16"))(True)
    assert y.dtype == "bfloat16"


def root(x: Any) -> Any:
    """sqrt with a slope of 0 at and below 0: the branch not taken has an infinite slope there."""
    return lax.cond(x > 0, enp.sqrt, lambda v: v * 0.0, x)


def closing(x: Any) -> Any:
    return lax.cond(x > 0, lambda: enp.log(x) * enp.sqrt(x), lambda: 0.0 * x)


@pytest.mark.parametrize("f", [root, closing])
def test_branches_not_taken_leave_no_nan(f: Any) -> None:
    """Not in reverse mode, forward mode or second derivatives, with and without vmap."""
    xs = np.array([0.0, 4.0, -1.0], np.float32)
    for derivative in (effx.grad(f), effx.jacfwd(f), effx.grad(effx.grad(f)), effx.jacfwd(effx.grad(f))):
        want = [float(derivative(x)) for x in xs]
        assert np.isfinite(want).all()
        for got in (effx.vmap(derivative)(xs), effx.jit(effx.vmap(derivative))(xs)):
            np.testing.assert_allclose(got, want, rtol=1e-6)
    got = effx.grad(lambda v: effx.vmap(f)(v).sum())(xs)
    np.testing.assert_allclose(got, [float(effx.grad(f)(x)) for x in xs], rtol=1e-6)


def test_vmap_in_axes() -> None:
    """Batched predicate, batched operands, both, and constants that are batched."""
    ps, xs, c = np.array([True, False, True]), np.arange(6.0, dtype=np.float32).reshape(2, 3), np.float32(5)

    def f(p: Any, x: Any) -> Any:
        return lax.cond(p, lambda v: v * c, lambda v: v + x.sum(), x)

    np.testing.assert_array_equal(effx.vmap(f, (0, None))(ps, A), [A * 5, A + 3, A * 5])
    np.testing.assert_array_equal(effx.vmap(f, (None, 1), 1)(False, xs), xs + xs.sum(0))
    np.testing.assert_array_equal(
        effx.vmap(f, (0, 1))(ps, xs), np.where(ps[:, None], xs.T * 5, xs.T + xs.sum(0)[:, None])
    )
    every = effx.vmap(effx.vmap(f, (None, 1)), (0, None))(ps, xs)
    np.testing.assert_array_equal(every[1], xs.T + xs.sum(0)[:, None])
    np.testing.assert_array_equal(every[0], xs.T * 5)


def test_only_one_branch_runs() -> None:
    """The other may be a loop without end."""

    def endless(x: Any) -> Any:
        return lax.while_loop(lambda v: v < 1.0, lambda v: v * 1.0, x)

    f = effx.jit(lambda p, x: lax.cond(p, endless, lambda v: v + 1.0, x))
    assert float(f(False, 0.0)) == 1.0


def test_staged_once_for_a_function() -> None:
    """Calls with the same functions and types stage nothing again; other types and settings do."""
    runs = []

    def f(x: Any) -> Any:
        runs.append(x.type)
        return x * 2

    for _ in range(3):
        lax.cond(True, f, f, A)
    assert len(runs) == 1
    lax.cond(True, f, f, A[:2])
    assert len(runs) == 2
    with effx.numpy_rank_promotion("raise"):
        lax.cond(True, f, f, A)
    assert len(runs) == 3


def test_cache_keeps_nothing_alive() -> None:
    """What was staged goes with the function."""

    def f(x: Any) -> Any:
        return x * 2

    lax.cond(True, f, f, A)
    seen = weakref.ref(f)
    del f
    gc.collect()
    assert seen() is None


def test_a_function_used_in_and_out_of_a_transformation() -> None:
    """Its cached form is not used where it closes over a value of a handler that has ended."""
    held: list[Array] = []

    def f(x: Any) -> Any:
        return x * held[-1]

    def outer(scale: Any) -> Any:
        held.append(scale)
        return lax.cond(True, f, f, A).sum()

    for s in (2.0, 3.0):
        assert float(effx.jit(lambda s: outer(s))(s)) == 3 * s
        assert float(effx.grad(outer)(s)) == 3.0
        assert float(effx.vmap(outer)(np.array([s], np.float32))[0]) == 3 * s


def test_disable_jit_runs_python() -> None:
    """The branch sees concrete values, also under grad; a mapped predicate is staged as ever."""
    seen: list[bool] = []

    def f(x: Any) -> Any:
        seen.append(type(x) is Box)
        return x * 2.0

    with effx.disable_jit():
        assert float(lax.cond(enp.float32(1) > 0, f, f, enp.float32(3))) == 6.0
        assert seen == [False]
        assert float(lax.switch(enp.int32(9), [enp.sin, f], enp.float32(3))) == 6.0
        assert float(effx.grad(lambda x: lax.cond(x > 0, enp.sin, f, x))(-1.0)) == 2.0
        assert effx.vmap(lambda x: lax.cond(x > 0, enp.negative, f, x))(np.array([-1.0, 1.0])).tolist() == [
            -2.0,
            -1.0,
        ]


def test_collectives_in_branches() -> None:
    """An axis name is bound around the branch."""

    def f(x: Any) -> Any:
        return lax.cond(lax.axis_size("i") > 2, lambda v: v / lax.psum(v, "i"), lambda v: v, x)

    np.testing.assert_allclose(effx.vmap(f, axis_name="i")(A + 1), (A + 1) / 6, rtol=1e-6)


class Decided(Forward[int]):
    """Integers that are known."""

    def literal(self, value: Any, type: Any) -> int:
        return int(value)

    def join(self, a: int, b: int) -> int:
        raise AssertionError("the index is known")

    def decides(self, fact: int) -> int:
        return fact


class Steps(InterceptHandler[None]):
    """Runs what programs hold step by step."""

    steps = True


@pytest.mark.parametrize("index", [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1])
def test_all_interpreters_run_one_branch(index: int) -> None:
    """The operation's last, where none has the index: compiled, on NumPy, step by step, batched, and analysed."""
    branches = tuple([effx.make_jaxpr(lambda n=n: np.int32(10 + n))() for n in range(3)])
    op, i = Cond(branches), np.int32(index)
    want = 10 + (index if 0 <= index < 3 else 2)
    assert int(op(enp.asarray(i))[0]) == want
    with handle(Reference()):
        assert int(op(enp.asarray(i))[0]) == want
    assert int(Steps().run(lambda x: op(x)[0], enp.asarray(i))) == want
    assert effx.vmap(lambda x: op(x)[0])(np.asarray([i, i])).tolist() == [want, want]
    assert Decided().run(effx.make_jaxpr(lambda x: op(x)[0])(i), index) == (want,)


def test_what_no_branch_changes_is_the_operand() -> None:
    """Its result is not chosen: a batch of predicates leaves it unbatched, and it has the operand's derivative."""

    def f(pred: Any, x: Any, y: Any) -> Any:
        return lax.cond(pred, lambda x, y: (y, x * 2, 1.0), lambda x, y: (y, x, 1.0), x, y)

    preds = np.array([True, False])
    for g in (f, effx.jit(f)):
        y, x, one = effx.vmap(g, (0, None, None), (None, 0, 0))(preds, 3.0, 4.0)
        assert (float(y), np.asarray(x).tolist(), np.asarray(one).tolist()) == (4.0, [6.0, 3.0], [1.0, 1.0])
        assert float(effx.grad(lambda y, g=g: g(True, 3.0, y)[0] ** 2)(4.0)) == 8.0
        assert [float(v) for v in g(True, 3.0, 4.0)] == [4.0, 6.0, 1.0]
    only = effx.make_jaxpr(lambda p, x: lax.switch(p, [lambda x: x] * 3, x))(1, 2.0)
    assert "cond" not in str(only)
    swapped = effx.jit(lambda p, x, y: lax.cond(p, lambda x, y: (x, y), lambda x, y: (y, x), x, y))
    assert [float(v) for v in swapped(False, 1.0, 2.0)] == [2.0, 1.0]
    assert [float(v) for v in swapped(True, 1.0, 2.0)] == [1.0, 2.0]
