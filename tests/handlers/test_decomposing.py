"""Decompositions equal the operations, and `decompose` leaves nothing but what was chosen.

Never: compares a decomposition with itself.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.effects import decompositions
from effx.errors import NoRuleError, TransformError
from effx.handlers.staging.stage import stage_form
from effx.handling import (
    ArrayOperation,
    ArrayType,
    BoxHandler,
    Reference,
    Structural,
    coverage,
    decompose,
    handle,
    operation_classes,
    places,
)
from effx.ir.ops import elementwise as e
from effx.ir.ops.base import Elementwise, Linear
from effx.ir.ops.compare import Comparison
from effx.ir.ops.control import HigherOrder, Scan
from effx.ir.ops.convert import Convert
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import ReduceSum
from effx.lower.text.emit import apply_decomposition
from tests.ops.rows import assert_close, host
from tests.ops.table import CASES, Case, name

DECOMPOSING = [case for case in CASES if decompositions.find(case[0].kind) is not None]


@pytest.mark.parametrize("case", DECOMPOSING, ids=name)
@pytest.mark.unguarded
def test_decompositions_equal_the_operations(case: Case) -> None:
    """On every sample of the table: same type, same values up to rounding."""
    _, sample = case
    with sample.settings():
        program = stage_form(apply_decomposition, sample.op, tuple(sample.types))
        assert [t.strong() for t in program.out_types] == [t.strong() for t in sample.inferred()]
        operands = sample.arrays(sample.draw())
        with handle(Reference()), np.errstate(all="ignore"):
            results, expected = sample.op.decompose(*operands), sample.op(*operands)
            pairs = zip(results, expected, strict=True) if sample.op.multiple else [(results, expected)]
            compared = [(host(found), host(want)) for found, want in pairs]
        width = min(
            [x.dtype.itemsize for x in (*sample.types, *sample.inferred()) if x.kind in "fc"], default=8
        )
        for found, want in compared:
            assert_close(found, want, {2: 8e-2, 4: 2e-5}.get(width, 1e-6))


class Product(ArrayOperation):
    """A product that is nothing but its decomposition."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]

    def decompose(self, *operands: Any) -> Any:
        return enp.dot(*operands)


def test_decompositions_of_other_settings() -> None:
    """A program that was lowered before has no part in another one's under settings that change the decomposition."""
    f, x = effx.jit(lambda x: Product()(x, x)), enp.ones((2, 2))
    assert "HIGHEST" not in f.lower(x).as_text()
    with effx.default_matmul_precision("highest"):
        assert "HIGHEST" in f.lower(x).as_text()
    assert "HIGHEST" not in f.lower(x).as_text()


class Shifted(ArrayOperation):
    """An operation that decomposes into another one under another setting."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]

    def decompose(self, *operands: Any) -> Any:
        return operands[0] + (1.0 if effx.default_matmul_precision.value is None else 2.0)


def test_eager_decompositions_of_other_settings() -> None:
    """Nor has a kernel that ran before, in a block and outside of all."""
    x = enp.zeros(3)
    assert Shifted()(x).tolist() == [1.0] * 3
    with effx.default_matmul_precision("highest"):
        assert Shifted()(x).tolist() == [2.0] * 3
    assert Shifted()(x).tolist() == [1.0] * 3
    effx.default_matmul_precision.set("highest")
    try:
        assert Shifted()(x).tolist() == [2.0] * 3
    finally:
        effx.default_matmul_precision.set(None)
    assert Shifted()(x).tolist() == [1.0] * 3


def test_nothing_but_what_was_chosen() -> None:
    """Through jit, a loop and a branch; loops stay."""
    chosen = [e.Exp, e.Log, e.Sin, e.Cos, e.Add, e.Sub, e.Mul, e.Div, e.Neg, e.Sqrt, e.Select]
    kept = [*chosen, Comparison, Convert, Structural, ReduceSum]

    def f(x: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            return enp.tanh(c) + enp.logaddexp(v, c), enp.abs(enp.sinh(v))

        c, ys = effx.jit(lambda x: lax.scan(step, x[0], x))(x)
        return lax.cond(c > 0, lambda y: enp.maximum(y, 0.5) ** 3, lambda y: enp.tan(y), c) + ys @ ys

    x = enp.array([0.3, -0.7, 1.1])
    few = decompose(f, to=kept)
    np.testing.assert_allclose(few(x), f(x), rtol=1e-5)
    np.testing.assert_allclose(effx.grad(few)(x), effx.grad(f)(x), rtol=1e-4)
    kinds = {type(p.op) for p in places(effx.make_jaxpr(few)(x))}
    assert Scan in kinds
    assert all(issubclass(k, (*kept, HigherOrder)) for k in kinds), kinds


@pytest.mark.unguarded
def test_what_cannot_be_expressed() -> None:
    """An operation that is not chosen and does not decompose is an error with the chosen ones."""
    with pytest.raises(NoRuleError, match=r"^decompose: sin is not among the chosen operations \(Add\)"):
        decompose(enp.sin, to=[e.Add])(1.0)
    with pytest.raises(TransformError, match=r"^decompose: expected operation classes or traits, got 'add'"):
        decompose(enp.sin, to=["add"])  # type: ignore[list-item]  # wrong on purpose


@attrs.frozen
class One:
    x: effx.Array


@attrs.frozen
class Partial(BoxHandler[One]):
    def lift(self, x: effx.Array) -> One:
        return One(x)


Partial.rule(Linear)(lambda op, *xs: One(op(*[x.x for x in xs])))
Partial.rule(e.Mul)(lambda op, x, y: One(op(x.x, y.x)))


@pytest.mark.unguarded
def test_coverage() -> None:
    """Every operation has one treatment; the handler acts by the table."""
    table = coverage(Partial())
    assert len(table.treatments) == len(operation_classes())
    assert str(table[e.Mul]) == "rule"
    assert str(table[e.Add]) == "by Linear"
    assert str(table[Scan]) == "recursion"
    assert str(table[e.Square]) == "decomposition"
    assert str(table[e.Sin]) == "refused"
    assert e.Sin in table.refused
    assert "Partial: " in str(table).splitlines()[0]
    assert float(Partial().run(e.Square(), One(enp.float32(3.0))).x) == 9.0
    with pytest.raises(NoRuleError, match=r"^sin: the handler partial has no rule for this operation"):
        Partial().run(enp.sin, One(enp.float32(3.0)))
    with pytest.raises(KeyError):
        table[Elementwise]
    with pytest.raises(TransformError, match=r"^coverage: expected a BoxHandler or InterceptHandler, got 3"):
        coverage(3)  # type: ignore[arg-type]  # wrong on purpose


def test_coverage_of_dot() -> None:
    """A family without rule of its own but with a decomposition is decomposed."""
    assert str(coverage(Partial)[DotGeneral]) == "decomposition"
