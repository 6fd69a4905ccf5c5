"""while_loop and fori_loop against loops of Python.

Never: looks at messages; test_errors.py does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import NoRuleError


def collatz(n: Any, max_steps: int | None = None) -> Any:
    """The number of steps to 1."""

    def body(s: Any) -> Any:
        n, count = s
        return lax.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), count + 1

    return lax.while_loop(lambda s: s[0] > 1, body, (n, 0), max_steps=max_steps)[1]


def plain_collatz(n: int, most: int = 10**9) -> int:
    count = 0
    while n > 1 and count < most:
        n, count = n // 2 if n % 2 == 0 else 3 * n + 1, count + 1
    return count


@pytest.mark.parametrize("n", [1, 2, 3, 7, 27])
def test_while_is_pythons(n: int) -> None:
    want = plain_collatz(n)
    for f in (collatz, effx.jit(collatz)):
        assert int(f(n)) == want
    with effx.disable_jit():
        assert int(collatz(n)) == want


@pytest.mark.parametrize("most", [1, 2, 3, 4, 7, 8, 9, 10, 16, 50])
def test_bounded_loops_stop(most: int) -> None:
    """After as many iterations as they may take, and not one more; before that they are what unbounded loops are."""
    for n in (1, 2, 3, 7):
        want = plain_collatz(n, most)
        assert int(collatz(n, most)) == want
        with effx.disable_jit():
            assert int(collatz(n, most)) == want
    batch = effx.jit(effx.vmap(lambda n: collatz(n, most)))(np.array([1, 2, 3, 7]))
    assert batch.tolist() == [plain_collatz(n, most) for n in (1, 2, 3, 7)]


@pytest.mark.parametrize("loop", ["while", "fori", "scan"])
def test_numpy_arrays_in_the_first_carry_do_not_change(loop: str) -> None:
    """Python's in-place operators would change them where loops run in Python: the same array twice, and the caller's."""
    first = np.array([1.0, 2.0], np.float32)

    def step(carry: Any) -> Any:
        x, y = carry
        x += 1
        return x, y + x

    def run() -> Any:
        if loop == "while":
            return lax.while_loop(lambda c: c[0][0] < 4, step, (first, first))
        if loop == "fori":
            return lax.fori_loop(0, 3, lambda _, c: step(c), (first, first))
        return lax.scan(lambda c, _: (step(c), None), (first, first), None, length=3)[0]

    for _ in range(2):
        np.testing.assert_array_equal(run(), [[4, 5], [10, 14]])
        with effx.disable_jit():
            np.testing.assert_array_equal(run(), [[4, 5], [10, 14]])
        np.testing.assert_array_equal(first, [1, 2])


def test_vmap_of_while() -> None:
    """Replicas end at different times; nested loops; a mapped limit, a mapped carry, and both."""
    ns = np.array([1, 27, 3, 9])
    want = [plain_collatz(int(n)) for n in ns]
    assert effx.vmap(collatz)(ns).tolist() == want
    assert effx.vmap(effx.vmap(collatz))(np.stack([ns, ns[::-1]])).tolist() == [want, want[::-1]]

    def count(limit: Any, start: Any) -> Any:
        return lax.while_loop(lambda v: v < limit, lambda v: v + 2, start)

    assert effx.vmap(count, (0, None))(np.array([3, 10, 0]), 1).tolist() == [3, 11, 1]
    assert effx.vmap(count, (None, 0))(7, np.array([3, 10, 0])).tolist() == [7, 10, 8]
    assert effx.vmap(count)(np.array([3, 10]), np.array([0, 12])).tolist() == [4, 12]

    def triangle(n: Any) -> Any:
        def inner(i: Any) -> Any:
            return lax.while_loop(lambda s: s[0] < i, lambda s: (s[0] + 1, s[1] + s[0]), (0, 0))[1]

        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + inner(s[0])), (0, 0))[1]

    assert effx.vmap(triangle)(np.arange(6)).tolist() == [
        sum(i * (i - 1) // 2 for i in range(n)) for n in range(6)
    ]


def test_a_part_of_the_carry_becomes_batched_late() -> None:
    """Where all batch elements take as many iterations, only what depends on the batch element is batched."""

    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[2], s[2] + x), (0, 0.0, 1.0))

    n, a, b = effx.vmap(f)(np.array([1.0, 2.0], np.float32))
    assert (n.tolist(), a.tolist(), b.tolist()) == ([3, 3], [3.0, 5.0], [4.0, 7.0])


def newton(a: Any, most: int | None = None) -> Any:
    """sqrt(a) by steps until they are small."""

    def more(s: Any) -> Any:
        return enp.abs(s[0] - s[1]) > 1e-4

    return lax.while_loop(more, lambda s: (0.5 * (s[0] + a / s[0]), s[0]), (a, 0.0 * a), max_steps=most)[0]


def test_forward_mode_through_while() -> None:
    """The slope of a loop whose end depends on the data, alone, in batches and twice."""
    a = np.float32(2)
    np.testing.assert_allclose(effx.jvp(newton, (a,), (np.float32(1),))[1], 0.5 / np.sqrt(2), rtol=1e-4)
    slopes = effx.jit(effx.vmap(effx.jacfwd(newton)))(np.array([2.0, 50.0], np.float32))
    np.testing.assert_allclose(slopes, 0.5 / np.sqrt([2.0, 50.0]), rtol=1e-3)
    np.testing.assert_allclose(effx.jacfwd(effx.jacfwd(newton))(a), -0.25 * 2**-1.5, rtol=1e-2)
    _, push = effx.linearize(newton, a)
    np.testing.assert_allclose(push(np.float32(2)), 1 / np.sqrt(2), rtol=1e-4)


@pytest.mark.parametrize("most", [9, 20])
def test_reverse_mode_through_bounded_loops(most: int) -> None:
    """Gradients, second derivatives and batches; steps after the end leave no trace."""
    a = np.float32(2)
    f: Any = lambda a: newton(a, most)  # noqa: E731
    for g in (effx.grad(f), effx.jit(effx.grad(f)), effx.jacfwd(f)):
        np.testing.assert_allclose(g(a), 0.5 / np.sqrt(2), rtol=1e-4)
    xs = np.array([2.0, 50.0], np.float32)
    np.testing.assert_allclose(effx.vmap(effx.grad(f))(xs), 0.5 / np.sqrt(xs), rtol=1e-3)
    np.testing.assert_allclose(effx.grad(lambda v: effx.vmap(f)(v).sum())(xs), 0.5 / np.sqrt(xs), rtol=1e-3)
    np.testing.assert_allclose(effx.grad(effx.grad(f))(a), -0.25 * 2**-1.5, rtol=1e-2)


def test_turns_after_the_end_leave_no_nan() -> None:
    """The body divides by zero where the loop has ended."""

    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] / s[0]), (3.0, x), max_steps=10)[
            1
        ]

    for value in (effx.grad(f)(2.0), effx.vmap(effx.grad(f))(np.array([2.0], np.float32))[0]):
        np.testing.assert_allclose(value, 1 / 6, rtol=1e-6)


def test_unbounded_loops_have_no_reverse_mode() -> None:
    with pytest.raises(NoRuleError) as caught:
        effx.grad(newton)(2.0)
    assert caught.value.message == (
        "while_loop: reverse-mode differentiation needs a bound of the number of iterations, to store "
        "residuals of each; pass max_steps=N to while_loop or fori_loop, or use scan, or forward mode"
    )


def test_bounded_loops_keep_little() -> None:
    """Reverse mode keeps carries between chunks, not what each of n iterations computes."""
    n, size = 400, 50

    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, enp.sin(s[1])), (0, x), max_steps=n)[
            1
        ].sum()

    _, pull = effx.vjp(f, enp.ones(size))
    kept = sum(x.size for x in effx.tree.leaves(pull))
    assert kept < 3 * 20 * size


@pytest.mark.parametrize(("lower", "upper"), [(0, 0), (0, 5), (-3, 4), (5, 2), (7, 8)])
@pytest.mark.parametrize("unroll", [None, 0, 1, 3, True])
def test_fori_is_range(lower: int, upper: int, unroll: int | bool | None) -> None:
    """With static bounds, bounds known only at run time, and as a Python loop."""
    f: Any = lambda a, b, **o: lax.fori_loop(a, b, lambda i, s: (s[0] + i, s[1] * 3 + 1), (0, 1), **o)  # noqa: E731
    want = [sum(range(lower, upper)), 1]
    for _ in range(lower, upper):
        want[1] = want[1] * 3 + 1
    assert [int(v) for v in f(lower, upper, unroll=unroll)] == want
    assert [int(v) for v in effx.jit(f)(lower, upper)] == want
    assert [int(v) for v in effx.jit(lambda a, b: f(a, b, max_steps=9))(lower, upper)] == want
    with effx.disable_jit():
        assert [int(v) for v in f(lower, upper, unroll=unroll)] == want


@pytest.mark.parametrize(
    ("lower", "upper", "dtype", "weak"),
    [
        (0, 3, "int32", True),
        (np.int8(0), 3, "int8", False),
        (0, np.uint16(3), "uint16", False),
        (np.int32(0), np.int32(3), "int32", False),
    ],
)
def test_the_counters_type(lower: Any, upper: Any, dtype: str, weak: bool) -> None:
    """A Python int takes the other bound's dtype; of known bounds the counter is a Python int, as in JAX."""
    seen: list[Array] = []

    def f(i: Array, v: Any) -> Any:
        seen.append(i)
        return v + i.astype(enp.int32)

    assert int(effx.jit(lambda a, b: lax.fori_loop(a, b, f, np.int32(0)))(lower, upper)) == 3
    assert {(i.dtype, i.weak_type) for i in seen} == {(np.dtype(dtype), weak)}
    seen.clear()
    assert int(lax.fori_loop(lower, upper, f, np.int32(0))) == 3
    with effx.disable_jit():
        assert int(lax.fori_loop(lower, upper, f, np.int32(0))) == 3
    assert {(i.dtype, i.weak_type) for i in seen} == {(np.dtype("int32"), True)}


def test_fori_is_differentiable() -> None:
    """With static bounds in both modes; with a bound that is traced, through max_steps."""
    power: Any = lambda x, n, **o: lax.fori_loop(0, n, lambda i, y: y * x, 1.0, **o)  # noqa: E731
    assert float(effx.grad(power)(2.0, 5)) == 80.0
    assert float(effx.grad(effx.grad(power))(2.0, 5)) == 160.0
    assert float(effx.jit(effx.grad(lambda x, n: power(x, n, max_steps=7)))(2.0, 5)) == 80.0
    grads = effx.vmap(effx.grad(lambda x, n: power(x, n, max_steps=7)), (None, 0))(2.0, np.arange(6))
    assert grads.tolist() == [0.0, 1.0, 4.0, 12.0, 32.0, 80.0]
    assert float(effx.jvp(lambda x: effx.jit(power)(x, 5), (2.0,), (1.0,))[1]) == 80.0


def test_staged_once_for_the_same_functions() -> None:
    """Eager loops in Python stage nothing twice, also under vmap."""
    runs = {"cond": 0, "body": 0}

    def more(v: Any) -> Any:
        runs["cond"] += 1
        return v < 10.0

    def body(v: Any) -> Any:
        runs["body"] += 1
        return v * 2.0

    for start in (1.0, 2.0, 3.0):
        lax.while_loop(more, body, np.float32(start))
        effx.vmap(lambda v: lax.while_loop(more, body, v))(np.array([start, 1.0], np.float32))
    assert runs == {"cond": 1, "body": 1}


def test_eager_batched_loops_compile_once() -> None:
    """The loop that vmap makes is cached with the loop's body."""
    from effx.lower.runtime import executables

    f = effx.vmap(lambda v: lax.while_loop(_below_ten, _twice, v))
    f(np.array([1.0, 3.0], np.float32))
    compiled = 0
    original = executables.compile_program

    def counting(*args: Any, **kwargs: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return original(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("effx.handlers.evaluate.handler.compile_program", counting)
        assert f(np.array([2.0, 9.0], np.float32)).tolist() == [16.0, 18.0]
    assert compiled == 0


def _below_ten(v: Any) -> Any:
    return v < 10.0


def _twice(v: Any) -> Any:
    return v * 2.0


def test_collectives_in_loops() -> None:
    """Replicas of an axis run their iterations together."""

    def f(x: Any) -> Any:
        return lax.while_loop(lambda v: lax.psum(v, "i") < 100.0, lambda v: v + lax.pmax(v, "i"), x)

    got = effx.vmap(f, axis_name="i")(np.array([1.0, 2.0], np.float32))
    a, b = 1.0, 2.0
    while a + b < 100:
        a, b = a + max(a, b), b + max(a, b)
    assert got.tolist() == [a, b]


@pytest.mark.parametrize(("lower", "upper"), [(0.5, 3.0), (0.0, 3.0), (3.0, 0.0), (-1.25, 1.0), (2.0, 2.0)])
def test_float_bounds(lower: float, upper: float) -> None:
    """The index goes up from the lower bound in steps of 1, whether the bounds are known or not."""
    expected = float(np.arange(lower, upper).sum())

    def total(lower: Any, upper: Any) -> Any:
        return lax.fori_loop(lower, upper, lambda i, total: total + i, 0.0)

    assert total(lower, upper).item() == expected
    assert effx.jit(total)(lower, upper).item() == expected
    assert total(np.float16(lower), np.float16(upper)).item() == expected
    with effx.disable_jit():
        assert float(total(lower, upper)) == expected
