"""What depends on closed-over arrays alone is computed once, as a function is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.ir.passes.constant_parts import LARGEST_VALUE, split_constant_part
from effx.ir.text import parse_program

IDS = np.array([3, 1, 2, 0, 1], np.int32)
MASK = IDS % 2 == 1
TABLE = np.linspace(0.0, 1.0, 25, dtype=np.float32).reshape(5, 5)
X = np.arange(5.0, dtype=np.float32) + 1

# Functions of x and of closed-over arrays, and what NumPy gives for them.
FUNCTIONS: dict[str, tuple[Callable[[Array, Array, Array, Array], Array], np.ndarray]] = {
    "argsort": (lambda x, ids, mask, table: x[enp.argsort(ids)], X[np.argsort(IDS, kind="stable")]),
    "nonzero": (lambda x, ids, mask, table: x[enp.nonzero(mask, size=3)[0]], X[np.nonzero(MASK)[0]]),
    "cumsum": (lambda x, ids, mask, table: x * enp.cumsum(ids), X * np.cumsum(IDS)),
    "bincount": (lambda x, ids, mask, table: x * enp.bincount(ids, length=5), X * np.bincount(IDS, minlength=5)),
    "product": (lambda x, ids, mask, table: table @ table.T @ x, TABLE @ TABLE.T @ X),
    "sum of an expansion": (
        lambda x, ids, mask, table: x + (ids[:, None] * ids[None, :]).sum(0),
        X + (IDS[:, None] * IDS[None, :]).sum(0),
    ),
    "the value itself": (lambda x, ids, mask, table: enp.sort(ids), np.sort(IDS)),
    "in a call": (lambda x, ids, mask, table: effx.jit(lambda y: y[enp.argsort(ids)])(x), X[np.argsort(IDS, kind="stable")]),
    "in a scan": (
        lambda x, ids, mask, table: lax.scan(lambda c, i: (c + x[enp.argsort(ids)][i], None), 0.0 * x[0], enp.arange(5))[0],
        np.asarray(X.sum()),
    ),
    "a loop": (lambda x, ids, mask, table: x * lax.fori_loop(0, 3, lambda i, t: t + ids, ids), X * 4 * IDS),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_numpy(name: str) -> None:
    """Under jit, vmap of jit and jit of vmap."""
    function, expected = FUNCTIONS[name]
    closed_over = [enp.asarray(a) for a in (IDS, MASK, TABLE)]
    jitted = effx.jit(lambda x: function(x, *closed_over))
    x = enp.asarray(X)
    for _ in range(2):
        np.testing.assert_allclose(np.asarray(jitted(x)), expected, 1e-6)
    rows = enp.stack([x, x])
    batched = np.stack([expected, expected])
    np.testing.assert_allclose(np.asarray(effx.vmap(jitted)(rows)), batched, 1e-6)
    np.testing.assert_allclose(
        np.asarray(effx.jit(effx.vmap(lambda x: function(x, *closed_over)))(rows)), batched, 1e-6
    )


@pytest.mark.parametrize("size", [5, 3000])
def test_a_sort_of_constants_is_no_part_of_what_runs(size: int) -> None:
    """Neither where XLA folds it nor where it is compiled, also inside of calls and of a gradient."""
    rng = np.random.RandomState(0)
    ids = rng.randint(0, size, size)
    order, x = enp.asarray(ids), enp.asarray(rng.randn(size).astype(np.float32))
    inner = effx.jit(lambda x: x[enp.argsort(order)] ** 2)
    for function in (inner, effx.grad(lambda x: inner(x).sum()), lambda x: inner(x) + 1):
        assert "sort(" not in str(effx.jit(function).lower(x).compile().as_text())
    gradient = effx.jit(effx.grad(lambda x: (x[enp.argsort(order)] * enp.arange(size)).sum()))(x)
    expected = np.zeros(size)
    expected[np.argsort(ids, kind="stable")] = np.arange(size)
    np.testing.assert_allclose(np.asarray(gradient), expected)


def test_what_is_cheap_or_large_is_computed_at_each_call() -> None:
    """Elementwise operations and moves alone are XLA's to fuse; large values would take memory."""
    cheap = parse_program("f(a: f32[2], b: f32[2]) { c: f32[2] = sin a\n d: f32[2] = mul b c\n return d }")
    assert split_constant_part(cheap, 1) is None
    for n, is_split in ((8, True), (LARGEST_VALUE // 4 + 1, False)):
        t = f"i32[{n}]"
        program = parse_program(
            f"f(a: {t}, b: {t}) {{ c: {t} = cumsum[axis=0] a\n d: {t} = mul b c\n return d }}"
        )
        assert (split_constant_part(program, 1) is not None) == is_split
        assert split_constant_part(program, 0) is None


def test_what_computes_with_floats_is_rounded_as_ever() -> None:
    """A sum of floats alone would be rounded otherwise than within its program; sorts and comparisons are exact."""
    table = enp.asarray(TABLE)
    for function, is_split in (
        (lambda x: x * enp.sum(table), False),
        (lambda x: x * (table @ table)[0], False),
        (lambda x: x * enp.sort(table[0]), True),
        (lambda x: x[enp.argsort(table[0])], True),
        (lambda x: x * enp.sum(table > 0.5), True),
        (
            lambda x: x * effx.random.bits(effx.random.wrap_key_data(enp.asarray([1, 2], enp.uint32)), (5,)),
            True,
        ),
    ):
        program = effx.make_jaxpr(function)(X)
        assert (split_constant_part(program, len(program.constants)) is not None) == (
            is_split and bool(program.constants)
        )


def test_python_functions_run_at_each_call() -> None:
    calls: list[int] = []

    def count(ids: np.ndarray) -> np.ndarray:
        calls.append(1)
        return np.cumsum(ids, dtype=np.int32)

    ids = enp.asarray(IDS)
    shape = effx.ShapeDtypeStruct((5,), np.int32)
    jitted = effx.jit(lambda x: x * enp.sort(effx.pure_callback(count, shape, ids)))
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(jitted(enp.asarray(X))), X * np.cumsum(IDS))
    assert len(calls) == 3


def test_what_is_printed_is_printed_at_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    """An operation without results stays, of values that are computed once too, in calls as well."""
    ids = enp.asarray(IDS)

    @effx.jit
    def inner(x: Array) -> Array:
        order = enp.argsort(ids)
        effx.debug.print("{}", order)
        return x[order]

    for jitted in (inner, effx.jit(lambda x: inner(x) + 1)):
        for _ in range(2):
            jitted(enp.asarray(X)).block_until_ready()
        effx.effects_barrier()
        assert capsys.readouterr().out == 2 * f"{np.argsort(IDS, kind='stable')}\n"


def test_a_barrier_keeps_constants_where_they_are() -> None:
    ids = enp.asarray(IDS)
    jitted = effx.jit(lambda x: x[enp.argsort(lax.optimization_barrier(ids))])
    assert "sort(" in str(jitted.lower(X).compile().as_text())


def test_functions_that_differ_in_constants_give_values_of_their_own() -> None:
    """Though they share what was compiled."""
    for seed in range(3):
        ids = np.random.RandomState(seed).permutation(600).astype(np.int32)
        table = enp.asarray(ids)
        order_plus = effx.jit(lambda x, table=table: x + enp.argsort(table))
        np.testing.assert_array_equal(np.asarray(order_plus(1)), np.argsort(ids) + 1)


def test_a_deleted_constant_is_still_refused() -> None:
    ids = enp.asarray(IDS)
    jitted = effx.jit(lambda x: x[enp.argsort(ids)] + ids)
    jitted(enp.asarray(X))
    ids.delete()
    with pytest.raises(effx.errors.DonatedArrayError, match="was donated to a computation or deleted"):
        jitted(enp.asarray(X))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
@pytest.mark.parametrize("shape", [(3,), (0,), (2, 1)])
def test_numpy_data_that_are_used_again_are_one_constant(dtype: str, shape: tuple[int, ...]) -> None:
    """However often; data of another array are another one, though equal."""
    table, equal = np.ones(shape, dtype), np.ones(shape, dtype)

    def f(x: Any) -> Any:
        return enp.where(x == table, table, x) + x * table, x * equal

    program = effx.make_jaxpr(f)(table)
    assert [id(c) for c in program.constants] == list({id(c): None for c in program.constants})
    assert len(program.constants) == 2
    for transformed in (f, effx.jit(f), lambda x: effx.lax.cond(True, f, f, x)):
        first, second = transformed(table)
        np.testing.assert_array_equal(first, table.astype(first.dtype) * (1 if dtype == "bool" else 2))
        np.testing.assert_array_equal(second, table)
