"""What is compiled holds only what results and effects need: loops, branches and calls are looked into."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.handlers.staging.stage import stage
from effx.ir.passes import drop_unneeded
from effx.ir.program import Program
from effx.sharding import PartitionSpec as P

X = enp.asarray(np.array([0.5, -1.0, 2.0], np.float32))
Function = Callable[[Array], Array]


def carried(f: Function, *args: Any) -> list[int]:
    """Returns how many values each loop of the StableHLO carries."""
    text = effx.jit(f).lower(*args).as_text()
    return [line.count("tensor<") for line in re.findall(r"stablehlo\.while.*", text)]


def counting(x: Array) -> Array:
    """The sums need the squares, and these each other; the result needs neither."""

    def body(s: tuple[Array, ...]) -> tuple[Array, ...]:
        i, y, squares, sums = s
        return i + 1, y * 2, squares * squares + sums, sums + squares

    return lax.while_loop(lambda s: s[0] < 3, body, (0, x, x, x))[1]


def by_the_condition(x: Array) -> Array:
    """The condition reads what the result does not."""
    y: Array = lax.while_loop(
        lambda s: s[1].sum() < 10, lambda s: (s[0] + 1, s[1] * s[2], s[2] * 1.5), (x, x, x)
    )[0]
    return y


def scanned(x: Array) -> Array:
    def body(s: Any, t: Array) -> Any:
        y, unused = s
        return (y + t, unused * t), (enp.sin(unused), y * t)

    products: Array = lax.scan(body, (x, x), enp.stack([x, x]))[1][1]
    return products.sum(0)


def nested(x: Array) -> Array:
    def outer(i: Array, s: tuple[Array, Array]) -> tuple[Array, Array]:
        y, z = lax.fori_loop(0, 2, lambda j, t: (t[0] + 1, t[1] * t[0]), s)
        return y, z

    return lax.fori_loop(0, 3, outer, (x, x))[0]


def test_loops_carry_what_results_depend_on() -> None:
    assert carried(counting, X) == [2]
    np.testing.assert_array_equal(effx.jit(counting)(X), X * 8)
    # The step's sum, and the product and the factor that the condition needs.
    assert carried(by_the_condition, X) == [3]
    # The index, the sum, the products, and what is scanned; neither the unused carry nor its sines.
    assert carried(scanned, X) == [4]
    np.testing.assert_allclose(effx.jit(scanned)(X), X * X + 2 * X * X, rtol=1e-6)
    assert all(n <= 3 for n in carried(nested, X))
    np.testing.assert_array_equal(effx.jit(nested)(X), X + 6)


def test_the_condition_s_values() -> None:
    y, z, f = np.asarray(X), np.asarray(X), np.asarray(X)
    while z.sum() < 10:
        y, z, f = y + 1, z * f, f * np.float32(1.5)
        if not np.isfinite(z).all():
            break
    np.testing.assert_allclose(effx.jit(by_the_condition)(X), y, rtol=1e-5)


def program_of(f: Callable[..., Any], *args: Any) -> Program:
    return drop_unneeded(stage(lambda xs: [f(*xs)], [effx.typeof(x) for x in args], "f").program)


def test_calls_and_branches() -> None:
    def both(x: Array) -> tuple[Array, Array]:
        return enp.sin(x), enp.exp(x)

    @effx.custom_jvp
    def ruled(x: Array) -> tuple[Array, Array]:
        return both(x)

    ruled.defjvp(lambda xs, ds: (ruled(*xs), ruled(*xs)))
    for f in (
        lambda x: effx.jit(both)(x)[0],
        lambda x: effx.checkpoint(both)(x)[0],
        lambda x: ruled(x)[0],
        lambda x: lax.cond(x[0] > 0, both, lambda x: (enp.exp(x), x), x)[1],
        lambda x: effx.jit(lambda x: effx.jit(both)(x))(x)[0],
    ):
        text = effx.jit(f).lower(X).as_text()
        assert ("stablehlo.exponential" in text) + ("stablehlo.sine" in text) == 1, text
        np.testing.assert_array_equal(effx.jit(f)(X), f(X))


def test_solvers_and_maps() -> None:
    def solved(x: Array) -> Array:
        y: Array = lax.custom_linear_solve(
            lambda v: v * 2, x, lambda _, b: (b / 2, enp.exp(b)), symmetric=True, has_aux=True
        )[0]
        return y

    assert "exponential" not in effx.jit(solved).lower(X).as_text()
    np.testing.assert_array_equal(effx.jit(solved)(X), X / 2)
    mesh = effx.make_mesh((1,), ("d",))

    def mapped(x: Array, y: Array) -> Array:
        found: tuple[Array, Array] = effx.shard_map(
            lambda x, y: (x * 2, enp.exp(y)), mesh=mesh, in_specs=(P("d"), P("d")), out_specs=(P("d"), P("d"))
        )(x, y)
        return found[0]

    assert "exponential" not in effx.jit(mapped).lower(X, X).as_text()
    np.testing.assert_array_equal(effx.jit(mapped)(X, X), X * 2)


def test_arguments_that_only_dead_code_reads_are_not_taken() -> None:
    def f(x: Array, y: Array) -> Array:
        found: Array = lax.fori_loop(0, 3, lambda i, s: (s[0] * 2, s[1] + y), (x, y))[0]
        return found

    compiled = effx.jit(f).lower(X, X).compile()
    assert compiled.as_text().count(" parameter(0)") >= 1
    assert "f32[3]{0}, f32[3]{0})->" not in compiled.as_text()
    np.testing.assert_array_equal(compiled(X, X), X * 8)
    kept = effx.jit(f, keep_unused=True).lower(X, X).compile()
    assert "f32[3]{0}, f32[3]{0})->" in kept.as_text()
    np.testing.assert_array_equal(kept(X, X), X * 8)


def test_effects_stay(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Array) -> Array:
        def body(i: Array, s: tuple[Array, Array]) -> tuple[Array, Array]:
            effx.debug.print("{}", s[1][0], ordered=True)
            return s[0] + 1, s[1] * 2

        return lax.fori_loop(0, 3, body, (x, x))[0]

    np.testing.assert_array_equal(effx.jit(f)(X), X + 3)
    effx.effects_barrier()
    assert capfd.readouterr().out.split() == ["0.5", "1.0", "2.0"]


def test_a_shared_program_is_written_once() -> None:
    g = effx.jit(lambda x: (enp.sin(x), enp.exp(x)))
    text = effx.jit(lambda x: g(x)[0] + g(x * 2)[0] + g(x * 3)[0]).lower(X).as_text()
    assert text.count("stablehlo.sine") == 1


def test_what_is_needed_whole_is_the_same_program() -> None:
    program = stage(lambda xs: [lax.fori_loop(0, 3, lambda i, y: y * 2, *xs)], [effx.typeof(X)], "f").program
    once = drop_unneeded(program)
    assert drop_unneeded(once) is once
    assert program_of(enp.sin, X).equations[-1].op.name == "sin"


@pytest.mark.parametrize("f", [scanned, nested])
@pytest.mark.parametrize("size", [0, 1, 4])
def test_derivatives_and_batches(f: Function, size: int) -> None:
    x = enp.linspace(-1, 1, size)
    with effx.disable_jit():
        want = np.asarray(f(x))
    np.testing.assert_allclose(effx.jit(f)(x), want, rtol=1e-6)
    np.testing.assert_allclose(effx.jit(effx.vmap(f))(x[:, None])[:, 0], want, rtol=1e-6)
    grad = effx.jit(effx.grad(lambda x: f(x).sum()))(x)
    tangent = effx.jit(lambda x: effx.jvp(f, (x,), (enp.ones_like(x),))[1])(x)
    np.testing.assert_allclose(grad, tangent, rtol=1e-5)
