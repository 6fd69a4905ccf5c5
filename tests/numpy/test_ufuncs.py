"""Universal functions: their methods give what NumPy's give, inside jit, vmap and grad too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ShapeError
from tests.numpy.expressions import agree, rows, words

A = np.array([[0.3, -1.5, 2.0], [4.25, 0.75, -0.5]], np.float32)
V = np.array([5.0, 1.0, 3.0, 1.0, 4.0], np.float32)
I = np.array([[3, 0, 2], [5, -7, 1]], np.int32)  # noqa: E741 - an integer matrix
M = np.array([[True, False, True], [False, False, True]])
T = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
NAMES = {"A": A, "V": V, "I": I, "M": M, "T": T, "np": np}

OF_FLOATS = words("add subtract multiply maximum minimum logaddexp logaddexp2")
OF_BITS = words("bitwise_and bitwise_or bitwise_xor")
OF_TRUTHS = words("logical_and logical_or logical_xor")
EACH = [*[(f, "A") for f in OF_FLOATS], *[(f, "I") for f in OF_BITS], *[(f, "M") for f in OF_TRUTHS]]

ROWS = [
    *[f"xp.{f}.{call}" for f, x in EACH for call in (f"reduce({x})", f"reduce({x}, 1, keepdims=True)")],
    *[f"xp.{f}.accumulate({x}, 1)" for f, x in EACH],
    *[f"xp.{f}.outer({x}, {x}[0])" for f, x in EACH],
    *[f"xp.{f}.reduceat({x}, np.array([0, 2, 1]), 1)" for f, x in EACH],
    *rows(
        "xp.add.reduce(A, None); xp.add.reduce(T, (0, 2), keepdims=True); xp.minimum.reduce(T, (1, 2)); "
        "xp.add.reduce(A, initial=2.0); xp.add.reduce(A, 0, where=M); xp.multiply.reduce(A, 1, where=M); "
        "xp.maximum.reduce(A, 0, initial=-9.0, where=M); xp.add.reduce(A[:0]); xp.logical_or.reduce(A, 1); "
        "xp.subtract.reduce(I, 0, np.float32); xp.add.accumulate(A[:0]); xp.subtract.accumulate(T, 2); "
        "xp.add.reduceat(V, np.array([0, 3, 1, 2])); xp.maximum.reduceat(T, np.array([0, 2]), 1); "
        "xp.subtract.outer(1.0, V); xp.add.accumulate(I, 1, np.float32)"
    ),
]


@pytest.mark.parametrize("row", dict.fromkeys(ROWS))
def test_methods(row: str) -> None:
    """Reductions, accumulations, slices and outer tables are NumPy's."""
    agree(eval(row, {"xp": enp, **NAMES}), eval(row, {"xp": np, **NAMES}))


@pytest.mark.parametrize("name", [*OF_FLOATS, *OF_BITS, *OF_TRUTHS])
def test_at(name: str) -> None:
    """At equal indices the function is applied once for each, inside jit too."""
    x = {True: V, False: I[0].astype(np.int32)}[name in OF_FLOATS]
    x = x if name not in OF_TRUTHS else M[0]
    at, other = np.array([0, 0, -1, 1]), np.resize(x[::-1], 4)
    want = x.copy()
    f: Any = getattr(enp, name)
    getattr(np, name).at(want, at, other)
    agree(f.at(x, at, other, inplace=False), want)
    agree(effx.jit(lambda v: f.at(v, at, other, inplace=False))(x), want)


def test_at_of_one_operand() -> None:
    """A function of one operand is applied to what is addressed."""
    want = V.copy()
    np.negative.at(want, np.array([0, 2, 2]))
    agree(enp.negative.at(V, np.array([0, 2, 2]), inplace=False), want)


def test_transformations() -> None:
    """What a loop reduces has derivatives and batches."""
    for method in ("reduce", "accumulate"):
        f = getattr(enp.logaddexp, method)
        slope = effx.grad(lambda v, f=f: (f(v) * 2.0).sum())(V)
        step = 1e-2
        for i in range(V.size):
            up, down = [(f(enp.asarray(V).at[i].add(h)) * 2.0).sum() for h in (step, -step)]
            assert float(slope[i]) == pytest.approx(float(up - down) / (2 * step), abs=5e-2)
        agree(effx.vmap(f)(A), np.stack([np.asarray(f(row)) for row in A]))


def test_functions_of_ones_own() -> None:
    """frompyfunc makes a universal function of any function of numbers that can be traced."""
    both = enp.frompyfunc(lambda x, y: 10 * x + y, 2, 1)
    assert both.reduce(enp.array([1, 2, 3])).tolist() == 123
    assert both.accumulate(enp.array([1, 2, 3])).tolist() == [1, 12, 123]
    assert both.outer(enp.array([1, 2]), enp.array([3, 4])).tolist() == [[13, 14], [23, 24]]
    assert both(enp.array([[1], [2]]), enp.array([3, 4])).tolist() == [[13, 14], [23, 24]]
    assert enp.frompyfunc(max, 2, 1, identity=0).identity == 0
    assert [(f.nin, f.nout, f.nargs) for f in (both, enp.negative)] == [(2, 1, 2), (1, 1, 1)]
    assert enp.add.identity == np.add.identity
    assert repr(enp.add) == "<ufunc 'add'>"
    assert isinstance(enp.add, enp.ufunc)


def test_refused() -> None:
    """What a function cannot do is refused with its name."""
    calls: list[tuple[Any, type[Exception], str]] = [
        (
            lambda: enp.maximum.reduce(A, where=M),
            ShapeError,
            r"maximum.reduce: f32\[2,3\] over axes \(0,\) needs initial=: maximum has no identity",
        ),
        (lambda: enp.negative.reduce(A), TypeError, "negative.reduce: only for functions of two operands"),
        (lambda: enp.negative.outer(A, A), TypeError, "negative.outer: only for functions of two operands"),
        (lambda: enp.add.at(V, 0, 1), TypeError, "add.at: arrays are immutable; pass inplace=False"),
        (
            lambda: enp.add.at(V, 0, inplace=False),
            TypeError,
            "add.at: add takes 2 operands and has 1 results",
        ),
        (
            lambda: enp.add.reduceat(V, A),
            ShapeError,
            r"add.reduceat: indices must be a vector of integers, got f32\[2,3\]",
        ),
        (lambda: enp.add.reduce(V, out=V), ShapeError, "add.reduce: arrays are immutable, so out= is not"),  # type: ignore[arg-type]  # is refused
        (lambda: enp.frompyfunc(max, 0, 1), ShapeError, "frompyfunc: takes at least one operand and result"),
    ]
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize(
    "name", [*words("add multiply maximum minimum logaddexp logical_and logical_or"), "subtract"]
)
@pytest.mark.parametrize("initial", [None, 2.0])
def test_reductions_of_masked_elements(name: str, initial: float | None) -> None:
    """They have the dtype of the reduction without a mask, and its value of the chosen elements."""
    mine, numpys = getattr(enp, name), getattr(np, name)
    if initial is None and (mine.identity is None or numpys.identity is None):
        return
    options = {} if initial is None else {"initial": initial}
    for x in (A, A > 0) if name not in ("subtract", "logaddexp") else (A,):
        for axis in (0, 1, None) if name != "subtract" else (0, 1):
            result = mine.reduce(x, axis, where=M, **options)
            np.testing.assert_allclose(result, numpys.reduce(x, axis, where=M, **options), rtol=1e-6)
            assert result.dtype == mine.reduce(x, axis).dtype


def test_outer_products_under_strict_ranks() -> None:
    """Operands of any ranks: outer itself gives them equal ones."""
    with effx.numpy_rank_promotion("raise"):
        f = enp.frompyfunc(lambda x, y: x * y, 2, 1)
        np.testing.assert_allclose(f.outer(A[:, 0], A), np.multiply.outer(A[:, 0], A))
        np.testing.assert_allclose(enp.multiply.outer(A, A[0]), np.multiply.outer(A, A[0]))


def test_functions_of_one_function_are_equal() -> None:
    """Two universal functions are equal if they are made of the same function with the same numbers."""

    def f(x: Any, y: Any) -> Any:
        return x + y

    first, second = enp.frompyfunc(f, 2, 1), enp.frompyfunc(f, 2, 1)
    assert first == second
    assert {first: 1}[second] == 1
    assert first != enp.frompyfunc(f, 2, 1, identity=0)
    assert first != enp.frompyfunc(lambda x, y: x + y, 2, 1)
    assert enp.add == enp.add
    assert enp.add != enp.subtract
