"""Costs: arithmetic equals counting by hand and XLA's own count, memory equals what must live at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import TransformError
from effx.library.cost import cost, format_number

F32 = 4


def spec(*shape: int) -> Any:
    return effx.ShapeDtypeStruct(shape, "float32")


def test_products() -> None:
    """Two operations for each term, four times as many for complex numbers; traffic is operands and results."""
    report = cost(lambda x, y: x @ y)(spec(3, 5), spec(5, 7))
    assert report.flops == 2 * 3 * 5 * 7
    assert report.traffic == F32 * (15 + 35 + 21)
    assert report.peak == F32 * (15 + 35 + 21)
    assert report.intensity == report.flops / report.traffic

    def product(x: Any, y: Any) -> Any:
        return x @ y

    batched = cost(effx.vmap(product))(spec(2, 3, 5), spec(2, 5, 7))
    assert batched.flops == 2 * report.flops
    z = effx.ShapeDtypeStruct((3, 5), "complex64")
    w = effx.ShapeDtypeStruct((5, 7), "complex64")
    assert cost(lambda x, y: x @ y)(z, w).flops == 4 * report.flops


@pytest.mark.parametrize("n", [8, 64])
def test_near_xlas_count(n: int) -> None:
    """For products and elementwise operations it is XLA's count, up to what XLA fuses or folds."""
    f = lambda x, w: enp.sum(enp.maximum(x @ w, 0.0) * 2.0)  # noqa: E731
    x, w = enp.ones((n, n)), enp.ones((n, n))
    analysis: Any = effx.jit(f).lower(x, w).compile().cost_analysis()
    if isinstance(analysis, list):
        analysis = analysis[0]
    assert cost(f)(x, w).flops == pytest.approx(analysis["flops"], rel=0.1)


def test_trip_counts() -> None:
    """Loops count by their lengths, nested ones by the product; branches by share; while loops by guess."""

    def inner(c: Any, _: None) -> Any:
        return enp.sin(c), None

    def outer(c: Any, _: None) -> Any:
        return effx.jit(lambda c: lax.scan(inner, c, None, length=3)[0])(c), None

    x = spec(10)
    nested = cost(lambda x: lax.scan(outer, x, None, length=4)[0])(x)
    assert (nested.count, nested.flops) == (12, 120)
    branches = cost(lambda x: lax.cond(x[0] > 0, enp.sin, lambda y: enp.cos(enp.cos(y)), x))(x)
    by_name = {line.name: line for line in branches.operations}
    assert (by_name["sin"].count, by_name["cos"].flops) == (0.5, 10.0)
    loop = lambda x: lax.while_loop(lambda c: c[0] < 1.0, lambda c: c * 2.0, x)  # noqa: E731
    assert cost(loop, iterations=7)(x).flops - cost(loop, iterations=6)(x).flops == 10 + 1
    assert cost(loop)(x).unbounded
    replicas = cost(effx.pmap(enp.sin))(spec(8, 10))
    assert replicas.flops == 80


def test_gradients_cost() -> None:
    """The gradient of a product costs two more of it."""
    f = lambda w, x: enp.sum(enp.tanh(x @ w))  # noqa: E731
    w, x = spec(16, 16), spec(4, 16)
    by_name = {line.name: line for line in cost(effx.grad(f, (0, 1)))(w, x).operations}
    assert by_name["dot_general"].flops == 3 * 2 * 4 * 16 * 16


def test_convolutions_cost() -> None:
    """Two for each position, feature and element of the kernel that a group of features takes."""
    f = lambda x, k: lax.conv_general_dilated(x, k, (2, 1), "VALID", feature_group_count=2)  # noqa: E731
    found = cost(f)(spec(3, 8, 9, 10), spec(6, 4, 3, 2))
    assert found.flops == 2 * (3 * 6 * 4 * 9) * (4 * 3 * 2)
    assert cost(f)(spec(0, 8, 9, 10), spec(6, 4, 3, 2)).flops == 0


def test_windows_cost() -> None:
    """One for each position and element of the window."""
    f = lambda x: lax.reduce_window(x, -np.inf, lax.max, (3, 2), (2, 1))  # noqa: E731
    assert cost(f)(spec(9, 10)).flops == 4 * 9 * 6


def test_peak_memory() -> None:
    """A chain keeps two arrays at a time, a fan all of its parts; a checkpointed gradient less than a plain one."""
    x = spec(1000)
    chain = cost(lambda x: enp.cos(enp.sin(enp.exp(x))))(x)
    assert chain.peak == 3 * 1000 * F32  # the argument lives on
    fan = cost(lambda x: enp.exp(x) + enp.sin(x) + enp.cos(x) * 1.0)(x)
    assert fan.peak == 4 * 1000 * F32

    def deep(x: Any) -> Any:
        for _ in range(6):
            x = enp.sin(enp.sin(enp.sin(x)))
        return enp.sum(x)

    def thrifty(x: Any) -> Any:
        for _ in range(6):
            x = effx.checkpoint(lambda y: enp.sin(enp.sin(enp.sin(y))))(x)
        return enp.sum(x)

    assert cost(effx.grad(thrifty))(x).peak < 0.6 * cost(effx.grad(deep))(x).peak
    stacked = cost(lambda x: lax.scan(lambda c, _: (enp.sin(c), c), x, None, length=5))(x)
    assert stacked.peak >= 7 * 1000 * F32


def test_table() -> None:
    """The table has scopes, operations, shares and a total."""

    def f(x: Any) -> Any:
        with effx.named_scope("block"), effx.named_scope("mix"):
            y = x @ x
        return effx.jit(enp.tanh)(y)

    report = cost(f)(spec(20, 20))
    lines = str(report).splitlines()
    assert lines[0].split() == ["operations", "flops", "bytes", "share"]
    assert lines[1].split() == ["block/mix", "1", "16k", "4.8k", "97.6%"]
    assert lines[2].split()[:2] == ["(no", "scope)"]
    assert lines[-2].split()[0] == "total"
    assert lines[-1] == "peak memory 4.8kB"
    outer = cost(f, by_scope=lambda s: s.split("/")[0])(spec(20, 20))
    assert {line.name for line in outer.scopes} == {"block", "(no scope)"}
    assert report.seconds(1e9, 1e9) == pytest.approx(max(report.flops, report.traffic) / 1e9)
    assert [format_number(x) for x in (0, 999, 1000, 2.5e10, 1e16)] == ["0", "999", "1k", "25G", "10P"]


def test_gradients_are_booked_under_the_scopes_of_the_model() -> None:
    """A product of matrices costs three of them with its gradients."""

    def loss(a: Any, b: Any) -> Any:
        with effx.named_scope("dense"):
            y = a @ b
        return enp.sum(y)

    forward, both = [cost(f)(spec(20, 20), spec(20, 20)) for f in (loss, effx.value_and_grad(loss, (0, 1)))]
    flops = [{line.name: line.flops for line in report.scopes} for report in (forward, both)]
    assert flops[0]["dense"] == 2 * 20**3
    assert flops[1]["dense"] == 3 * 2 * 20**3


def test_sizes_zero_and_one() -> None:
    """Empty arrays cost nothing; scalars count."""
    assert cost(lambda x: enp.sin(x))(spec(0)).flops == 0
    assert cost(lambda x: enp.sort(x))(spec(0)).flops == 0
    assert cost(lambda x: enp.sin(x))(np.float32(1)).flops == 1
    with pytest.raises(
        TransformError, match=r"^cost: iterations must be a number that is not negative, got -1"
    ):
        cost(enp.sin, iterations=-1)


def test_what_nothing_uses_costs_nothing() -> None:
    """As XLA drops it: the value of a gradient, the first pass of a checkpointed one, in jitted functions too."""
    w = spec(16, 16)
    loss = lambda w: enp.sum(enp.tanh(enp.ones((4, 16)) @ w))  # noqa: E731
    product = 2 * 4 * 16 * 16

    def products(f: Any) -> float:
        return {line.name: line.flops for line in cost(f)(w).operations}["dot_general"]

    assert products(loss) == product
    assert products(effx.grad(loss)) == 2 * product
    for f in (effx.grad(effx.checkpoint(loss)), effx.jit(effx.grad(effx.checkpoint(loss)))):
        assert products(f) == 2 * product  # one again, one back; the first is not needed
    dead = lambda w: (w @ w, w + 1.0)[1]  # noqa: E731
    report = cost(effx.jit(dead))(w)
    assert (report.count, report.flops, report.peak) == (1, 256, 2 * 256 * F32)


@pytest.mark.parametrize("iterations", [0, 1, 3, 2.5])
def test_while_loops_in_while_loops(iterations: float) -> None:
    """A guess counts for each loop, and for their conditions."""

    def f(x: Any) -> Any:
        inner = lambda c: lax.while_loop(lambda d: d < 1.0, lambda d: enp.sin(d), c)  # noqa: E731
        return lax.fori_loop(0, 2, lambda i, c: lax.while_loop(lambda c: c > 5.0, inner, c), x)

    by_name = {line.name: line.count for line in cost(f, iterations=iterations)(spec()).operations}
    assert by_name["sin"] == 2 * iterations * iterations
    assert by_name["gt"] == 2 * iterations


def test_peak_is_near_xlas() -> None:
    """Without fusion at least what XLA allocates, and no more than twice that."""

    def f(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = enp.tanh(x @ w)
        return enp.sum(x)

    x, w = enp.ones((64, 64)), enp.ones((64, 64))
    for g in (f, effx.grad(f, (0, 1))):
        memory: Any = effx.jit(g).lower(x, w).compile().memory_analysis()
        xla = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
        assert 0.9 < cost(g)(x, w).peak / xla < 2.1


@pytest.mark.unguarded
def test_wrong_turns() -> None:
    """A number of iterations is a number."""
    with pytest.raises(
        TransformError, match=r"^cost: iterations must be a number that is not negative, got 'a'"
    ):
        cost(enp.sin, iterations="a")  # type: ignore[arg-type]  # wrong on purpose


def test_fused_attention() -> None:
    """Two products of all pairs, and five more for the gradient."""
    x = effx.ShapeDtypeStruct((2, 16, 4, 8), np.float16)

    def f(q: effx.Array) -> effx.Array:
        return effx.nn.dot_product_attention(q, q, q, implementation="cudnn")

    def total(q: effx.Array) -> effx.Array:
        result: effx.Array = f(q).sum()
        return result

    product = 2 * 2 * 4 * 16 * 16 * 8
    assert cost(f)(x).flops == 2 * product
    found = {line.name: line.flops for line in cost(effx.grad(total))(x).operations}
    assert (found["fused_attention"], found["fused_attention_gradient"]) == (2 * product, 5 * product)
