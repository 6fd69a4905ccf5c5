"""Functions of padded arrays return the results for arrays without padding, whatever the padding holds."""

from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import EffxError, NoRuleError, ShapeError, TransformError, TreeError
from effx.library.padding import mask, shapecheck

Data = npt.NDArray[Any]
F32 = np.float32
SIZE = 7


def batch(x: effx.Array) -> effx.Array:
    """One matrix for each row: symmetric and positive definite."""
    return x[:, :, None] * x[:, None, :] + enp.eye(4)


# Functions of f32[n,4], and the shapes of their results where they are one array.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], str | None]] = {
    "sum": (lambda x: x.sum(), ""),
    "mean": (lambda x: enp.mean(x, 0), "4"),
    "var": (lambda x: enp.var(x), ""),
    "softmax": (lambda x: effx.nn.softmax(x, 0), "(n,4)"),
    "TT": (lambda x: x.T @ x, "(4,4)"),
    "xxT": (lambda x: (x @ x.T).sum(), ""),
    "max": (lambda x: x.max(0), "4"),
    "argmax": (lambda x: enp.argmax(x, 0), "4"),
    "prod": (lambda x: x.prod(), ""),
    "sort": (lambda x: enp.sort(x, 0), "(n,4)"),
    "median": (lambda x: enp.median(x, 0), "4"),
    "cumsum": (lambda x: enp.cumsum(x, 0), "(n,4)"),
    "cumr": (lambda x: lax.cumsum(x, 0, reverse=True), "(n,4)"),
    "flip": (lambda x: x[::-1], "(n,4)"),
    "s1": (lambda x: x[1:], "(n-1,4)"),
    "s2": (lambda x: x[::2], None),
    "last": (lambda x: x[-1], "4"),
    "first": (lambda x: x[0], "4"),
    "cat": (lambda x: enp.concatenate([x, x[:1], x]), "(2*n+1,4)"),
    "stack": (lambda x: enp.stack([x, x]), "(2,n,4)"),
    "resh": (lambda x: x.reshape(-1), "4*n"),
    "reshT": (lambda x: x.T.reshape(-1), "4*n"),
    "resh2": (lambda x: x.T.reshape(2, -1), "(2,2*n)"),
    "pad": (lambda x: enp.pad(x, ((1, 2), (0, 0)), constant_values=9.0), "(n+3,4)"),
    "roll": (lambda x: enp.roll(x, 1, 0), "(n,4)"),
    "diff": (lambda x: enp.diff(x, axis=0), "(n-1,4)"),
    "tile": (lambda x: enp.tile(x, (2, 1)), "(2*n,4)"),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), enp.zeros(4), x), None),
    "scanr": (lambda x: lax.scan(lambda c, r: (c + r, c), enp.zeros(4), x, reverse=True), None),
    "fori": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], enp.zeros(4)), "4"),
    "grad": (effx.grad(lambda x: (enp.sin(x) ** 2).mean()), "(n,4)"),
    "vmap": (lambda x: effx.vmap(lambda r: r.sum() * r)(x), "(n,4)"),
    "jit": (effx.jit(lambda x: x / x.shape[0]), "(n,4)"),
    "cond": (lambda x: lax.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, x), "(n,4)"),
    "gather": (lambda x: x[enp.array([0, -1])], "(2,4)"),
    "set": (lambda x: x.at[-1].set(0.0), "(n,4)"),
    "add": (lambda x: enp.zeros(4).at[enp.argmax(x, 1)].add(1.0), "4"),
    "arange": (lambda x: x * enp.arange(x.shape[0])[:, None], "(n,4)"),
    "conv": (lambda x: lax.conv_general_dilated(x[None, None], enp.ones((1, 1, 3, 3)), (2, 1), "SAME"), None),
    "convv": (
        lambda x: lax.conv_general_dilated(x[None, None], enp.ones((1, 1, 3, 3)), (1, 1), [(1, 1), (0, 0)]),
        None,
    ),
    "pool": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (3, 2), (2, 1), "SAME"), None),
    "logsumexp": (lambda x: effx.scipy.special.logsumexp(x, 0), "4"),
    "attn": (
        lambda x: effx.nn.dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None]),
        None,
    ),
    "random": (lambda x: x + effx.random.normal(effx.random.key(0), x.shape), "(n,4)"),
    "topk": (lambda x: lax.top_k(x.T, 2), None),
    "norm": (lambda x: enp.linalg.norm(x), ""),
    "chol": (lambda x: enp.linalg.cholesky(batch(x)), "(n,4,4)"),
    "dyn": (lambda x: lax.dynamic_slice(x, (3, 0), (2, 4)), "(2,4)"),
    "dus": (lambda x: lax.dynamic_update_slice(x, enp.ones((2, 4)), (5, 0)), "(n,4)"),
    "std": (lambda x: (x - x.mean(0)) / x.std(0), "(n,4)"),
    "where": (lambda x: enp.where(x > 0, x, 0), "(n,4)"),
    "seg": (lambda x: effx.ops.segment_sum(x, enp.arange(x.shape[0]) % 2, num_segments=2), None),
    "checkpoint": (effx.grad(lambda x: effx.checkpoint(lambda y: enp.sin(enp.sin(y)).sum())(x)), None),
    "quant": (lambda x: enp.quantile(x, 0.3, axis=0), None),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)), None),
    "eye": (lambda x: enp.eye(x.shape[0]) @ x, "(n,4)"),
    "trap": (lambda x: enp.trapezoid(x, axis=0), None),
    "outer": (lambda x: enp.outer(x[:, 0], x[:, 1]), "(n,n)"),
    "tril": (lambda x: enp.tril(x @ x.T), "(n,n)"),
    "ss": (lambda x: enp.searchsorted(enp.sort(x[:, 0]), x[:, 1]), "n"),
}


def padded(x: Data, size: int = SIZE, axis: int = 0) -> Data:
    """An array with NaN beyond its length."""
    edges = [(0, 0)] * x.ndim
    edges[axis] = (0, size - x.shape[axis])
    return np.pad(x, edges, constant_values=np.nan)


def cut(found: Any, like: Any) -> Data:
    """What counts of a result."""
    return np.asarray(found)[tuple([slice(0, k) for k in np.shape(like)])]


@pytest.mark.parametrize(
    ("name", "n"), [(name, 5) for name in FUNCTIONS] + [(name, 7) for name in list(FUNCTIONS)[::4]]
)
def test_padding_changes_nothing(name: str, n: int) -> None:
    """The first elements of the result are those of the function without padding; NaN beyond the length stays out."""
    function, out_shape = FUNCTIONS[name]
    x = np.random.default_rng(0).normal(size=(n, 4)).astype(F32)
    found = mask(function, ["(n, _)"], out_shape, constraints=["n >= 2"])([padded(x)], {"n": n})
    expected = function(enp.asarray(x))
    for want, got in zip(effx.tree.leaves(expected), effx.tree.leaves(found), strict=True):
        np.testing.assert_allclose(cut(got, want), want, rtol=3e-4, atol=3e-4)


def model(w: dict[str, Any], x: Any) -> effx.Array:
    """A recurrent network, its states averaged."""

    def step(h: effx.Array, row: effx.Array) -> tuple[effx.Array, effx.Array]:
        h = enp.tanh(row @ w["in"] + h @ w["rec"])
        return h, h

    _, states = lax.scan(step, enp.zeros(3), x)
    found: effx.Array = (effx.nn.softmax(states, -1) * states).mean()
    return found


W = {
    "in": np.random.default_rng(1).normal(size=(4, 3)).astype(F32),
    "rec": np.random.default_rng(2).normal(size=(3, 3)).astype(F32),
}


def test_a_ragged_batch_in_one_call() -> None:
    """vmap over lengths, jit around it, and gradients through it: one compilation for all lengths."""
    masked = mask(model, [{"in": "(4, 3)", "rec": "(3, 3)"}, "(n, 4)"], "")
    lengths = np.array([1, 3, 7], np.int32)
    rows = [np.random.default_rng(i).normal(size=(n, 4)).astype(F32) for i, n in enumerate(lengths)]
    data = np.stack([padded(x) for x in rows])

    def total(w: Any) -> effx.Array:
        found: effx.Array = effx.vmap(lambda x, n: masked([w, x], {"n": n}))(data, lengths).sum()
        return found

    found, slopes = effx.jit(effx.value_and_grad(total))(W)
    expected, wanted = effx.value_and_grad(lambda w: sum([model(w, x) for x in rows]))(W)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for k, slope in slopes.items():
        np.testing.assert_allclose(slope, wanted[k], rtol=2e-4, atol=1e-6)


def test_one_compilation_for_all_lengths() -> None:
    """The lengths are arguments of the compiled program."""
    run = effx.jit(lambda x, n: mask(lambda x: enp.sort(x).mean(), ["n"], "")([x], {"n": n}))
    x = np.arange(7, dtype=F32)[::-1].copy()
    for n in (1, 3, 7):
        np.testing.assert_allclose(run(x, n), x[:n].mean(), rtol=1e-6)
    size: Callable[[], int] = getattr(run, "_cache_size")  # noqa: B009  # a name of JAX's, not in the type
    assert size() == 1


@hypothesis.given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_random_programs(n: int, m: int, steps: list[int], seed: int) -> None:
    """Chains of operations on arrays of two lengths."""
    x = np.random.default_rng(seed).normal(size=(n, m)).astype(F32)
    parts: list[Callable[[Any], Any]] = [
        lambda y: y.T,
        lambda y: enp.concatenate([y, y[:1]], 0),
        lambda y: y - y.mean(0),
        lambda y: enp.cumsum(y[::-1], 0),
        lambda y: y.reshape(-1)[:, None] * enp.ones((1, 2)),
        lambda y: enp.sort(y, 0)[:, ::-1],
    ]

    def program(y: Any) -> Any:
        for k in steps:
            y = parts[k](y)
        return y

    want = program(enp.asarray(x))
    found = mask(program, ["(n, m)"])([padded(padded(x, 6), 5, 1)], {"n": n, "m": m})
    np.testing.assert_allclose(cut(found, want), want, rtol=1e-3, atol=1e-3)


def test_lengths_of_several_variables() -> None:
    """Sizes of arguments that depend on each other give the padded sizes."""
    masked = mask(lambda x, y: (x[:, None] * y).sum(0), ["n", "(n, 2*m)"], "2*m")
    x, y = np.arange(3, dtype=F32), np.arange(12, dtype=F32).reshape(3, 4)
    found = masked([padded(x, 5), padded(padded(y, 5), 6, 1)], {"n": 3, "m": 2})
    np.testing.assert_allclose(found[:4], x @ y)


def test_sizes_that_shrink() -> None:
    """A size that is largest for the padded ones is right, whatever it does between; see the errors for others."""
    masked = mask(lambda x: x[: x.shape[0] - x.shape[0] % 3].sum(), ["n"], "")
    x = np.arange(1, 9, dtype=F32)
    for n in range(1, 9):
        np.testing.assert_allclose(masked([x], {"n": n}), x[: n - n % 3].sum())


ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: mask(lambda x: x[x.shape[0] // 4 * 4 :].sum(), ["n"])([np.ones(8, F32)], {"n": 7}),
        NoRuleError,
        "mask: the size -4*floordiv(n, 4) + n is 0 for the padded n = 8, and larger for smaller lengths",
    ),
    (
        lambda: mask(lambda x: enp.ones(10 - x.shape[0]), ["n"], constraints=["n <= 8"])(
            [np.ones(8, F32)], {"n": 7}
        ),
        NoRuleError,
        "mask: the size -n + 10 is 2 for the padded n = 8, and larger for smaller lengths",
    ),
    (
        lambda: mask(enp.sum, ["n"])([np.ones(5, F32)], {}),
        TransformError,
        "mask: the shapes name n, of which no length is given; got []",
    ),
    (
        lambda: mask(enp.sum, ["n"])([np.ones(5, F32)], {"n": 3, "m": 2}),
        TransformError,
        "mask: a length of m is given, which no shape names; they name ['n']",
    ),
    (
        lambda: mask(enp.sum, ["n"])([np.ones(5, F32)], {"n": 6}),
        ShapeError,
        "mask: the length of n must lie between 1 and the padded size 5, got 6",
    ),
    (
        lambda: mask(enp.sum, ["n"])([np.ones(5, F32)], {"n": 2.5}),
        TransformError,
        "mask: the length of n must be an int, got ",
    ),
    (
        lambda: mask(enp.sum, ["n", "n"])([np.ones(5, F32)], {"n": 3}),
        TransformError,
        "mask: 2 shapes are given for 1 arguments",
    ),
    (
        lambda: mask(enp.add, ["n", "n"])([np.ones(5, F32), np.ones(4, F32)], {"n": 3}),
        ShapeError,
        "mask: argument 1 axis 0 has size 4, which must be n, that is 5, with n = 5",
    ),
    (
        lambda: mask(enp.add, ["n", "m"])([np.ones(5, F32), np.ones(5, F32)], {"n": 3, "m": 3}),
        ShapeError,
        "add: shapes do not fit: [",
    ),
    (
        lambda: mask(enp.sum, ["n"], "n")([np.ones(5, F32)], {"n": 3}),
        ShapeError,
        "mask: the result of sum has the shape (), not (n,)",
    ),
    (
        lambda: mask(enp.fft.fft, ["n"])([np.ones(5, F32)], {"n": 3}),
        NoRuleError,
        "mask: fft of a padded axis has no meaning that one compilation could have",
    ),
    (lambda: mask(enp.linalg.inv, ["(n, n)"])([np.ones((5, 5), F32)], {"n": 3}), NoRuleError, "mask: "),
    (
        lambda: mask(enp.sum, [("n", "m")])([[np.ones(5, F32)]], {"n": 3}),
        TreeError,
        "mask: the shapes must have the structure of the arguments, or its beginning: ",
    ),
    (
        lambda: shapecheck(["(m, n)", "n"], "n")(enp.dot),
        ShapeError,
        "shapecheck: the result of dot has the shape (m,), not (n,)",
    ),
    (lambda: shapecheck(["n", "m"], "n")(enp.add), ShapeError, "add: shapes do not fit: ["),
]


@pytest.mark.parametrize(("bad", "kind", "text"), ERRORS)
def test_errors(bad: Callable[[], object], kind: type[EffxError], text: str) -> None:
    """Each mistake has its words."""
    with pytest.raises(kind) as caught:
        bad()
    assert str(caught.value).splitlines()[0].startswith(text)


def test_shapecheck_gives_the_function_back() -> None:
    """A function whose shape is proved is left as it is."""

    @shapecheck(["(n, 3)", "(m, 3)"], "(n + m, 3)")
    def both(x: effx.Array, y: effx.Array) -> effx.Array:
        return enp.concatenate([x, y])

    assert both(enp.ones((2, 3)), enp.ones((1, 3))).shape == (3, 3)

    @shapecheck([{"a": "(n, m)"}], ("n", "m"))
    def sums(x: dict[str, effx.Array]) -> tuple[effx.Array, effx.Array]:
        return x["a"].sum(1), x["a"].sum(0)

    assert sums.__name__ == "sums"
