"""Sparse derivatives: patterns hold all entries that are not zero, and few products give them all.

Never: takes a pattern or an entry from the handler as the truth; dense derivatives are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import errors, lax
from effx.handling import Reference, handle
from effx.library import sparsity
from effx.library.colouring import colour_columns, colour_symmetric, count_colours
from effx.library.sparsity import hessian_sparsity, jacobian_sparsity, sparse_hessian, sparse_jacobian

Function = Callable[..., Any]


def f4(values: Any) -> np.ndarray[Any, Any]:
    """Single precision."""
    return np.asarray(values, np.float32)


Data = np.ndarray[Any, Any]
POINT = f4([0.3, 0.7, 0.5])


def dense(f: Function, x: Any, forward: bool = False) -> tuple[Data, Data]:
    """Where the Jacobian, and the Hessians of all results, differ from zero."""
    flat = lambda v: enp.concatenate([enp.ravel(y).astype(float) for y in effx.tree.leaves(f(v))])  # noqa: E731
    twice = effx.jacfwd(effx.jacfwd(flat)) if forward else effx.hessian(flat)
    with handle(Reference()):  # on NumPy there is nothing to compile
        first, second = np.asarray(effx.jacfwd(flat)(x)), np.asarray(twice(x))
    return first != 0, np.any(second != 0, axis=0)


def check(f: Function, x: Data = POINT, forward: bool = False) -> bool:
    """The law: patterns hold what differs from zero. Returns whether they hold nothing else."""
    first, second = jacobian_sparsity(f, x), hessian_sparsity(f, x)
    true_first, true_second = dense(f, enp.asarray(x), forward)
    assert first.shape == true_first.shape
    assert not np.any(true_first & ~first)
    assert not np.any(true_second & ~second)
    assert np.array_equal(second, second.T)
    return np.array_equal(first, true_first) and np.array_equal(second, true_second)


TIGHT: dict[str, Function] = {
    "linear": lambda x: x * 2.0 - x[::-1] + 1.0,
    "unary": lambda x: enp.exp(enp.sin(x)) + enp.sqrt(x),
    "steps": lambda x: enp.floor(x * 3.0) + enp.sign(x) + (x > 0.4),
    "product": lambda x: x[1:] * x[:-1],
    "square": lambda x: x**2 + x**1,
    "quotient": lambda x: x[0] / x[1:],
    "quotient by a number": lambda x: x / 2.0,
    "matrix": lambda x: enp.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]]) @ x,
    "bilinear": lambda x: enp.dot(x, x),
    "outer": lambda x: enp.outer(x, x[:1]),
    "sum": lambda x: enp.sum(enp.exp(x)),
    "cumsum": enp.cumsum,
    "power": lambda x: x ** x[1],
    "gather": lambda x: x[enp.array([2, 0])] * x[1],
    "scatter add": lambda x: enp.zeros_like(x).at[enp.array([0, 0, 1])].add(x * x),
    "scatter set": lambda x: x.at[1].set(x[0] * x[2]),
    "pad": lambda x: enp.pad(x, 2) + enp.pad(x * x, (0, 4)),
    "stack": lambda x: enp.stack([x, x * x]).T.reshape(2, 3).sum(0),
    "stop": lambda x: x * lax.stop_gradient(x),
    "barrier": lambda x: lax.optimization_barrier((x * x, x))[0],
    "integers": lambda x: enp.argmax(x) * 1.0 + x.astype(int),
    "complex": lambda x: enp.abs(enp.exp(1j * x) + x),
    "several": lambda x: {"a": x * x, "b": (x[0], enp.ones(2))},
    "constant": lambda x: enp.ones(2),
    "convolution": lambda x: lax.conv(x[None, None], enp.array([[[1.0, 0.0, -2.0]]]), (1,), "SAME"),
    "window": lambda x: lax.reduce_window(x * x, 0.0, lax.add, (2,), (1,), "SAME"),
}


@pytest.mark.parametrize("name", TIGHT)
def test_exact_patterns(name: str) -> None:
    """Patterns of these functions are those of their derivatives at a point like any other."""
    assert check(TIGHT[name])


LOOSE: dict[str, Function] = {
    "zero factors": lambda x: x * enp.array([1.0, 0.0, 2.0]) * x[0],
    "matrix behind": lambda x: enp.sin(x) @ enp.array([[1.0, 0.0], [0.0, 0.0], [1.0, 5.0]]),
    "where": lambda x: enp.where(enp.array([True, False, True]), x, x[1] * x),
    "atan2": lambda x: enp.arctan2(x, x[0]),
    "prod": enp.prod,
    "cumprod": enp.cumprod,
    "sort": enp.sort,
    "max": enp.max,
    "kernel": lambda x: lax.conv(x[None, None] ** 2, x[None, None, :2], (1,), "VALID"),
    "window max": lambda x: lax.reduce_window(x * x, -enp.inf, lax.max, (2,), (1,), "SAME"),
    "maximum": lambda x: enp.maximum(x, x[::-1]),
    "clip": lambda x: enp.clip(x * x, 0.1, 0.3),
    "cummax": lambda x: lax.cummax(x * x),
    "argmax": lambda x: x[enp.argmax(x)] * x,
    "undecided where": lambda x: enp.where(x > 0.4, x[0], x * x),
    "undecided slice": lambda x: lax.dynamic_slice(x, (enp.argmax(x),), (2,)),
    "undecided update": lambda x: lax.dynamic_update_slice(x, x[:1] * 2.0, (enp.argmin(x),)),
    "undecided scatter": lambda x: x.at[enp.argmin(x)].add(x[1] ** 2),
    "scatter mul": lambda x: x.at[1].multiply(x[0]),
    "std": enp.std,
    "median": enp.median,
    "logsumexp": effx.nn.logsumexp,
}


@pytest.mark.parametrize("name", LOOSE)
def test_patterns_for_all_points(name: str) -> None:
    """Where values decide, the pattern has what any of them may need."""
    check(LOOSE[name])
    check(LOOSE[name], POINT[[1, 0, 2]])


@pytest.mark.parametrize("name", ["matrix", "scatter set", "undecided update"])
def test_compiled_patterns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many inputs: the same patterns from XLA."""
    f = {**TIGHT, **LOOSE}[name]
    want = jacobian_sparsity(f, POINT), hessian_sparsity(f, POINT)
    monkeypatch.setattr(sparsity, "FEW", 0)
    assert np.array_equal(jacobian_sparsity(f, POINT), want[0])
    assert np.array_equal(hessian_sparsity(f, POINT), want[1])


def test_values_do_not_count() -> None:
    """A pattern at a point is the pattern everywhere."""
    f = lambda x: enp.where(x > 0.0, x * x[0], x[2])  # noqa: E731
    assert np.array_equal(jacobian_sparsity(f, POINT), jacobian_sparsity(f, -POINT))
    assert jacobian_sparsity(f, POINT).astype(int).tolist() == [[1, 0, 1], [1, 1, 1], [1, 0, 1]]


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, a: (enp.sin(a) + c * 0.0, a * a), x[0], x)


def chained(x: Any) -> Any:
    return lax.scan(lambda c, a: (c * a, c), 1.0, x)


def branched(x: Any) -> Any:
    return lax.cond(x[0] > 0.0, lambda v: v * 2.0, lambda v: enp.roll(v, 1) * v, x)


def decided(x: Any) -> Any:
    return lax.switch(enp.int32(1), [lambda v: v, lambda v: v * v, lambda v: v[::-1]], x)


def counted(x: Any) -> Any:
    return lax.fori_loop(0, 2, lambda i, v: enp.roll(v, 1) + v * v, x)


def looped(x: Any) -> Any:
    return lax.while_loop(lambda v: enp.sum(v) > 0.5, lambda v: v.at[1:].multiply(v[:-1] * 0.5), x)


def checkpointed(x: Any) -> Any:
    return effx.checkpoint(lambda v: enp.sin(v) * v[0])(x)


def batched(x: Any) -> Any:
    return effx.vmap(lambda a: lax.cond(a > 0.4, enp.sin, enp.cos, a))(x)


def jitted(x: Any) -> Any:
    return effx.jit(lambda v: enp.exp(effx.jit(enp.sin)(v[1:])))(x)


def gradient(x: Any) -> Any:
    return effx.grad(lambda v: enp.sum(enp.sin(v[1:]) * v[:-1]))(x)


PROGRAMS = [scanned, chained, branched, decided, counted, looped, checkpointed, batched, jitted, gradient]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: str(f.__name__))
def test_programs(program: Function) -> None:
    """Loops, branches, calls and transformations inside."""
    tight = check(program, forward=program is looped)
    assert tight == (program not in (branched, looped))
    check(program, -POINT, forward=program is looped)


def test_a_loop_that_values_end() -> None:
    """Any number of iterations: each element depends on all before it, by a fix-point."""
    assert np.array_equal(jacobian_sparsity(looped, np.ones(5, "f4")), np.tril(np.ones((5, 5), bool)))


@effx.custom_jvp
def rounded(x: Any) -> Any:
    return enp.round(x)


rounded.defjvp(lambda primals, tangents: (rounded(primals[0]), tangents[0]))


@effx.custom_vjp
def halved(x: Any) -> Any:
    return enp.floor(x)


halved.defvjp(lambda x: (halved(x), x), lambda x, ct: (ct * 0.5 * x,))


def test_rules_of_users() -> None:
    """The derivative that a user gave counts: rounding, whose own derivative is zero, passes a gradient through."""
    x = POINT * 3
    assert np.array_equal(jacobian_sparsity(rounded, x), np.eye(3, dtype=bool))
    matrix = sparse_jacobian(lambda v: rounded(v) * v[0])(x)
    np.testing.assert_allclose(
        np.asarray(matrix.todense()), np.asarray(effx.jacfwd(lambda v: rounded(v) * v[0])(x))
    )
    assert np.array_equal(jacobian_sparsity(halved, x), np.ones((3, 3), bool))
    assert np.array_equal(hessian_sparsity(lambda v: enp.sum(halved(v)), x), np.ones((3, 3), bool))


# Colourings


def banded(n: int, width: int) -> Data:
    return np.asarray(np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= width)


def arrow(n: int) -> Data:
    pattern = np.eye(n, dtype=bool)
    pattern[0] = pattern[:, 0] = True
    return pattern


def blocks(n: int, size: int) -> Data:
    return np.kron(np.eye(n, dtype=bool), np.ones((size, size), bool)) > 0


@pytest.mark.parametrize(
    ("pattern", "columns", "symmetric"),
    [
        (banded(30, 1), 3, 3),
        (banded(30, 2), 5, 5),
        (arrow(20), 20, 2),
        (blocks(6, 4), 4, 4),
        (np.eye(7, dtype=bool), 1, 1),
        (np.ones((5, 5), bool), 5, 5),
        (np.zeros((3, 3), bool), 1, 1),
        (np.zeros((0, 0), bool), 0, 0),
    ],
    ids=["tridiagonal", "pentadiagonal", "arrow", "blocks", "diagonal", "full", "zero", "empty"],
)
def test_known_colourings(pattern: Data, columns: int, symmetric: int) -> None:
    """Patterns for which the least number of colours is known."""
    assert count_colours(colour_columns(pattern)) == columns
    assert count_colours(colour_symmetric(pattern)) == symmetric


@given(st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**16))
def test_random_colourings(n: int, density: float, seed: int) -> None:
    """Columns of one colour never meet; each entry of a symmetric matrix is alone in its sum or in its mirror's."""
    rng = np.random.default_rng(seed)
    pattern = rng.random((n, n)) < density
    colours = colour_columns(pattern)
    for row in pattern:
        assert len(set(colours[row])) == np.count_nonzero(row)
    both = pattern | pattern.T
    stars = colour_symmetric(both)
    for i, j in zip(*np.nonzero(both), strict=True):
        assert 1 in (
            np.count_nonzero(stars[both[i]] == stars[j]),
            np.count_nonzero(stars[both[j]] == stars[i]),
        )


# Sparse derivatives


def burgers(u: Any) -> Any:
    left, right = enp.concatenate([enp.zeros(1), u[:-1]]), enp.concatenate([u[1:], enp.zeros(1)])
    return u * (right - left) + (right - 2.0 * u + left)


def rosenbrock(x: Any) -> Any:
    return enp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def centred(x: Any) -> Any:
    return enp.sum(enp.sin(x[0] * x[1:])) + enp.sum(x**3)


def grouped(x: Any) -> Any:
    return enp.sum(enp.prod(x.reshape((-1, 3)), axis=1))


def waist(x: Any) -> Any:
    return enp.concatenate([enp.sum(enp.sin(x))[None], x[:1] ** 2])


JACOBIANS = [
    (burgers, 3, True),
    (waist, 2, False),
    (lambda x: enp.sin(x) * 2.0, 1, True),
    (lambda x: enp.cumsum(x * x), 8, True),
]


@pytest.mark.parametrize(
    ("f", "colours", "forward"), JACOBIANS, ids=["tridiagonal", "wide", "diagonal", "triangle"]
)
def test_sparse_jacobians(f: Function, colours: int, forward: bool) -> None:
    """The dense Jacobian by as many products as there are colours, forward or backward, whichever are fewer."""
    x = enp.asarray(np.random.default_rng(0).normal(size=8).astype("f4"))
    jacobian = sparse_jacobian(f)
    matrix = jacobian(x)
    assert (jacobian.plan(x).products, jacobian.plan(x).forward) == (colours, forward)
    want = np.asarray(effx.jacfwd(f)(x))
    assert matrix.shape == want.shape
    np.testing.assert_allclose(np.asarray(matrix.todense()), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(matrix.convert(scipy.sparse.coo_matrix).toarray(), want, rtol=1e-5, atol=1e-6)
    staged = effx.jit(jacobian)(x)
    np.testing.assert_allclose(np.asarray(staged.values), np.asarray(matrix.values), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("f", "colours"), [(rosenbrock, 3), (centred, 2), (grouped, 3)], ids=["chain", "arrow", "blocks"]
)
def test_sparse_hessians(f: Function, colours: int) -> None:
    """The dense Hessian by as many products as a star colouring has colours."""
    x = enp.asarray(np.random.default_rng(0).normal(size=9).astype("f4"))
    hessian = sparse_hessian(f)
    matrix = hessian(x)
    assert hessian.plan(x).products == colours
    want = np.asarray(effx.hessian(f)(x))
    np.testing.assert_allclose(np.asarray(matrix.todense()), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.asarray(effx.jit(hessian)(x).todense()), want, rtol=1e-4, atol=1e-4)


def test_the_number_of_products() -> None:
    """What runs is a batch of as many tangents as there are colours: no array has the size of the matrix."""
    n = 50
    text = str(effx.make_jaxpr(sparse_jacobian(burgers))(enp.ones(n)))
    assert f"f32[3,{n}]" in text
    assert f"f32[{n},{n}]" not in text
    second = str(effx.make_jaxpr(sparse_hessian(rosenbrock))(enp.ones(n)))
    assert f"f32[3,{n}]" in second
    assert f"f32[{n},{n}]" not in second


def test_inside_transformations() -> None:
    """A batch of sparse Jacobians, and a loop of Newton's steps with one in each."""
    xs = enp.asarray(np.random.default_rng(1).normal(size=(3, 6)).astype("f4"))
    jacobian = sparse_jacobian(burgers)
    batch = effx.vmap(lambda x: jacobian(x).todense())(xs)
    np.testing.assert_allclose(
        np.asarray(batch), np.asarray(effx.vmap(effx.jacfwd(burgers))(xs)), rtol=1e-5, atol=1e-6
    )

    def step(x: Any, _: Any) -> tuple[Any, None]:
        m = jacobian(x)
        diagonal = enp.zeros(6).at[m.rows].add(enp.where(m.rows == m.cols, m.values, 0.0))
        return x - 0.1 * burgers(x) / diagonal, None

    looped = lax.scan(step, xs[0], None, length=3)[0]
    x = xs[0]
    for _ in range(3):
        x = x - 0.1 * burgers(x) / enp.diagonal(effx.jacfwd(burgers)(x))
    np.testing.assert_allclose(np.asarray(looped), np.asarray(x), rtol=1e-4)
    slope = effx.grad(lambda x: enp.sum(jacobian(x).values ** 2))(xs[0])
    want = effx.grad(lambda x: enp.sum(effx.jacfwd(burgers)(x) ** 2))(xs[0])
    np.testing.assert_allclose(np.asarray(slope), np.asarray(want), rtol=1e-4, atol=1e-4)


def test_structures() -> None:
    """Pytrees: rows and columns in the order of the leaves."""
    f = lambda d, y: (d["a"] * y, enp.sum(d["b"]))  # noqa: E731
    arguments = ({"a": enp.array([1.0, 2.0]), "b": enp.array([[3.0], [4.0]])}, enp.float32(5.0))
    want = [[5, 0, 0, 0, 1], [0, 5, 0, 0, 2], [0, 0, 1, 1, 0]]
    assert np.asarray(sparse_jacobian(f)(*arguments).todense()).tolist() == want
    assert jacobian_sparsity(f, *arguments).tolist() == (np.array(want) != 0).tolist()
    second = sparse_hessian(lambda d, y: enp.sum(d["a"]) * y**2)(*arguments).todense()
    assert np.asarray(second)[4].tolist() == [10.0, 10.0, 0.0, 0.0, 6.0]


def test_a_pattern_that_is_known() -> None:
    """A pattern may be given; a constant function has no entries."""
    x = enp.ones(4)
    matrix = sparse_jacobian(burgers, banded(4, 1))(x)
    np.testing.assert_allclose(np.asarray(matrix.todense()), np.asarray(effx.jacfwd(burgers)(x)))
    nothing = sparse_jacobian(lambda x: enp.zeros(2))(x)
    assert nothing.values.shape == (0,)
    assert np.asarray(nothing.todense()).tolist() == np.zeros((2, 4)).tolist()
    assert sparse_jacobian(lambda x: x * x)(enp.float32(3.0)).values.tolist() == [6.0]


def summed(x: Any) -> Any:
    return lax.psum(x, "i")


ERRORS: list[tuple[Function, type[errors.EffxError], str]] = [
    (
        lambda: jacobian_sparsity(enp.sin, 1),
        errors.DTypeError,
        "jacobian_sparsity: arguments must be floating arrays, got i32[]~",
    ),
    (
        lambda: hessian_sparsity(enp.sin, 1j),
        errors.DTypeError,
        "hessian_sparsity: arguments must be floating arrays, got c64[]~",
    ),
    (
        lambda: sparse_jacobian(enp.sin)(1),
        errors.DTypeError,
        "sparse_jacobian: arguments must be floating arrays, got i32[]~",
    ),
    (
        lambda: jacobian_sparsity(enp.sin, enp.ones(0)),
        errors.TransformError,
        "jacobian_sparsity: takes at least one element to differentiate by, got none",
    ),
    (
        lambda: sparse_hessian(enp.sin)(enp.ones(2)),
        errors.ShapeError,
        "sparse_hessian: the function must give 1 elements, gives 2",
    ),
    (
        lambda: sparse_jacobian(enp.sin, np.ones((3, 2), bool))(enp.ones(3)),
        errors.ShapeError,
        "sparse_jacobian: the pattern must have a column for each of 3 elements, got shape (3, 2)",
    ),
    (
        lambda: sparse_jacobian(enp.sin, np.ones((2, 3), bool))(enp.ones(3)),
        errors.ShapeError,
        "sparse_jacobian: the function must give 2 elements, gives 3",
    ),
    (
        lambda: sparse_hessian(enp.sum, np.triu(np.ones((2, 2), bool)))(enp.ones(2)),
        errors.ShapeError,
        "colouring: a symmetric pattern must be square and equal its transpose, got (2, 2)",
    ),
    (
        lambda: colour_columns(np.ones(3, bool)),
        errors.ShapeError,
        "colouring: a pattern must be a matrix, got one of 1 axes",
    ),
    (
        lambda: jacobian_sparsity(effx.pmap(summed, axis_name="i"), enp.ones(2)),
        errors.TransformError,
        "sparsity: psum communicates along a named axis, which does not belong to the function",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Function, kind: type[errors.EffxError], message: str) -> None:
    """What does not fit is refused in words."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message


STEPS: dict[str, Function] = {
    "exp": lambda x, y: enp.exp(enp.tanh(x)) - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (2.0 + enp.sin(y)),
    "shift": lambda x, y: enp.roll(x, 1) + y[::-1],
    "mask": lambda x, y: x * enp.array([1.0, 0.0, 2.0, 0.0]) + y,
    "dot": lambda x, y: enp.tril(enp.ones((4, 4)), -1) @ x + y * y,
    "max": lambda x, y: enp.maximum(x, y),
    "sort": lambda x, y: enp.sort(x[:2])[0] * y,
    "pick": lambda x, y: x[enp.argmax(y)] * y,
    "put": lambda x, y: x.at[enp.array([0, 2])].set(y[:2]),
    "cumsum": lambda x, y: enp.cumsum(x) - y,
    "scan": lambda x, y: lax.scan(lambda c, r: (c * 0.5 + enp.sin(r), c), x[0] * 0.0, x)[1] + y,
    "cond": lambda x, y: lax.cond(x[0] > y[0], enp.sin, lambda v: v * y, x),
    "while": lambda x, y: lax.fori_loop(0, 2, lambda i, v: enp.roll(v, 1) * v, x) + y,
    "vmap": lambda x, y: effx.vmap(lambda a, b: enp.tanh(a * b))(x, y),
}


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=4,
    )
)
def test_random_programs(steps: list[tuple[str, int, int]]) -> None:
    """Patterns of random programs hold all that differs from zero, and sparse derivatives are the dense ones."""

    def function(x: Any) -> Any:
        values = [x, x[::-1] * 0.5]
        for name, i, j in steps:
            values.append(STEPS[name](values[i % len(values)], values[j % len(values)]))
        return values[-1]

    point = f4([0.3, -0.7, 0.5, 1.1])
    check(function, point)
    with handle(Reference()):
        matrix = np.asarray(sparse_jacobian(function)(point).todense())
        want = np.asarray(effx.jacfwd(function)(point))
    np.testing.assert_allclose(matrix, want, rtol=1e-4, atol=1e-5)
