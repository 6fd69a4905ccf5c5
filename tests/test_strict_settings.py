"""Settings that refuse implicit promotion are about what users write: effx's own functions never run into them."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
import effx.scipy.special as special
from effx import lax, random
from tools.differences import values
from tools.differences.evaluate import evaluate, load_namespace
from tools.differences.expressions import all_expressions

NAMES = re.compile(r"\b[A-Z][A-Z0-9]?\b")
PARTS = re.compile(r"\b[A-Z][A-Z0-9]?\[")
FLOATS = re.compile(r"\d\.|[(, ]\.\d|0j")


def passes_alike(text: str) -> bool:
    """Whether all that an expression passes has one dtype and one rank, so that nothing is promoted."""
    arrays = [np.asarray(getattr(values, name)) for name in NAMES.findall(text) if hasattr(values, name)]
    if len({(x.dtype, x.ndim) for x in arrays}) > 1 or (arrays and PARTS.search(text)):
        return False
    return not FLOATS.search(text) or all([x.dtype.kind in "fc" for x in arrays])


EXPRESSIONS = [text for text in all_expressions() if passes_alike(text)]
EVERY = 40
MIXED = [
    "np.array([True,2])", "np.array_equiv(M,M[None])", "np.result_type('int8',2.0)", "np.promote_types('int8','uint8')",
    "np.r_[1:4,W]", "jax.hessian(lambda x:x)(W)+W",
]  # fmt: skip
"""Expressions that mix dtypes or ranks themselves, in functions that they pass."""


def find_differences(texts: list[str]) -> dict[str, Any]:
    """Returns the expressions that give something else under the strict settings, with what they give."""
    namespace = load_namespace("effx", {})
    differences = {}
    for text in texts:
        result = evaluate(text, namespace)
        with effx.numpy_rank_promotion("raise"), effx.numpy_dtype_promotion("strict"):
            strict_result = evaluate(text, namespace)
        if strict_result != result and not (isinstance(result, dict) and "error" in result):
            differences[text] = strict_result
    return differences


def test_a_part_of_all_expressions() -> None:
    """Values, derivatives and batches of public functions, whose operands are alike, are as without the settings."""
    assert len(EXPRESSIONS) > 4000
    assert find_differences([text for text in EXPRESSIONS[::EVERY] if text not in MIXED]) == {}


@pytest.mark.deep
@pytest.mark.parametrize("first", range(1, EVERY))
def test_all_expressions(first: int) -> None:
    assert find_differences([text for text in EXPRESSIONS[first::EVERY] if text not in MIXED]) == {}


X = np.arange(6.0, dtype="f4").reshape(2, 3)
V = np.arange(3.0, dtype="f4")
I = np.arange(3, dtype="i4")  # noqa: E741 - integers
TRUE = np.array([True, False, True])
KEY = random.key(0)


@pytest.fixture
def strict() -> Iterator[None]:
    with effx.numpy_rank_promotion("raise"), effx.numpy_dtype_promotion("strict"):
        yield


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    "f",
    [
        enp.add, enp.subtract, enp.multiply, enp.divide, enp.power, enp.arctan2, enp.hypot, enp.logaddexp, enp.fmod,
        enp.maximum, enp.less, special.betaln, special.xlogy, lambda a, b: enp.asarray(a) + b,
        lambda a, b: a * enp.asarray(b), lambda a, b: enp.asarray(a) ** b,
        effx.jit(enp.add), effx.jit(lambda a, b: a * b),
        lambda a, b: lax.cond(True, lambda: enp.asarray(a) - b, lambda: enp.asarray(a)),
        effx.vmap(enp.add, axis_size=1, in_axes=None),
    ],
)  # fmt: skip
def test_what_users_mix_is_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(effx.errors.ShapeError, match=r"operands of different rank: .*f32.*raise"):
        f(X, V)
    with pytest.raises(effx.errors.TypePromotionError, match=r"i32 and f32 have no implicit .*strict"):
        f(enp.asarray(I), V)


@pytest.mark.usefixtures("strict")
def test_choices_take_any_ranks() -> None:
    """`where` and `choose` pick elements and compute nothing: as in JAX, the rule about ranks is not theirs."""
    for chosen in (enp.where(X > 1, X, V), enp.where(V > 1, X, X), enp.choose(TRUE.astype(int), [X, V])):
        assert chosen.shape == X.shape


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    "f",
    [
        enp.dot, enp.matmul, enp.convolve, enp.searchsorted, enp.isclose, enp.polyval, enp.result_type,
        lambda a, b: enp.concatenate([a, b]), lambda a, b: enp.stack([a, b]), lambda a, b: enp.einsum("i,i", a, b),
        lambda a, b: enp.asarray(a).dot(b), lambda a, b: enp.average(a, weights=b), lambda a, b: enp.clip(a, b, None),
        lambda a, b: enp.select([TRUE], [a], b), lambda a, b: enp.choose(I, [a, a, b]),
        effx.vmap(lambda a, b: a + b), enp.outer, enp.kron, enp.inner, enp.cross, enp.corrcoef, enp.cov, enp.allclose,
        enp.digitize, enp.trapezoid, enp.gradient, enp.multiply.outer,
        lambda a, b: special.logsumexp(a, b=b), lambda a, b: enp.histogram(a, 3, weights=b),
        lambda a, b: enp.linalg.solve(np.eye(3, dtype="f4"), a) + b, lambda a, b: random.beta(KEY, a + 1, b + 1),
        lambda a, b: random.multivariate_normal(KEY, b, np.eye(3, dtype="f2")), lambda a, b: enp.asarray(b).at[0].set(a[0]),
    ],
)  # fmt: skip
def test_what_users_mix_in_dtype_is_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(effx.errors.TypePromotionError, match=r"have no implicit promotion .*strict"):
        f(I, V)


@pytest.mark.usefixtures("strict")
def test_what_users_mix_in_a_library_function_is_named_at_their_line() -> None:
    with pytest.raises(effx.errors.ShapeError, match="vectorize: operands of different rank"):
        enp.vectorize(lambda a, b: a * b)(X, V)
    with pytest.raises(effx.errors.ShapeError, match="different rank"):
        effx.grad(lambda x: enp.sum(x + V))(X)
    with pytest.raises(effx.errors.ShapeError, match="different rank"):
        effx.jvp(enp.multiply, (X, V), (X, V))
    with pytest.raises(effx.errors.ShapeError, match="different rank"):
        lax.scan(lambda c, _: (c, c * V), X, None, 2)


@pytest.mark.usefixtures("strict")
def test_numbers_and_scalars_promote() -> None:
    x = enp.asarray(X)
    for y in (x + 1, x * np.float32(2), x / enp.asarray(V)[0], 1 - x, enp.where(x > 2, x, 0)):
        assert y.dtype == np.float32
        assert y.shape == (2, 3)
    assert (enp.asarray(I) + 1).dtype == np.int32


def test_indices_of_several_dtypes() -> None:
    """How positions are counted is no promotion that a user writes."""
    x = np.arange(12.0).reshape(3, 4)
    rows = np.arange(3)
    with effx.enable_x64(), effx.numpy_rank_promotion("raise"), effx.numpy_dtype_promotion("strict"):
        a, i, j = enp.asarray(x), enp.asarray(rows), enp.asarray(rows, "int32")
        for indices in ((i, j), (j, i), (i.astype("uint8"), i), (i[:, None], j), (1, j), (j, slice(1, 3))):
            host = tuple([np.asarray(k) if isinstance(k, effx.Array) else k for k in indices])
            want = x.copy()
            want[host] = 0.0
            np.testing.assert_array_equal(a[indices], x[host])
            np.testing.assert_array_equal(a.at[indices].set(0.0), want)
            np.testing.assert_array_equal(a.at[indices].set(0.0, mode="clip"), want)
            np.testing.assert_array_equal(a.at[indices].get(wrap_negative_indices=False), x[host])
            np.testing.assert_array_equal(a.at[indices].multiply(0.0, wrap_negative_indices=False), want)


def test_a_warning_at_the_users_line() -> None:
    with effx.numpy_rank_promotion("warn"):
        with pytest.warns(UserWarning, match="operands of different rank") as record:
            enp.add(X, V)
        assert record[0].filename == __file__
        np.testing.assert_allclose(enp.average(X, axis=1, weights=V), np.average(X, axis=1, weights=V))


@pytest.mark.usefixtures("strict")
def test_derivatives_and_batches_of_library_functions() -> None:
    """Rules of operations promote what users do not see."""
    hessian = effx.hessian(lambda x: special.logsumexp(x * x))(X)
    flat = X.reshape(-1).astype("f8")
    p = np.exp(flat**2 - np.max(flat**2))
    p /= p.sum()
    slope = 2 * flat * p
    want = np.diag(2 * p + 4 * flat**2 * p) - np.outer(slope, slope)
    np.testing.assert_allclose(np.asarray(hessian).reshape(6, 6), want, rtol=1e-4, atol=1e-4)
    spectrum = effx.jacobian(lambda x: enp.fft.rfft(x).real)(V)
    np.testing.assert_allclose(spectrum, np.fft.fft(np.eye(3))[:2].real, atol=1e-6)
    a = (np.eye(3) + 0.1 * np.ones((3, 3))).astype("f4")
    r = effx.vmap(effx.grad(lambda m: enp.sum(enp.linalg.qr(m)[1])))(np.stack([a, 2 * a]))
    np.testing.assert_allclose(r[0], r[1], rtol=1e-4, atol=1e-5)  # R is homogeneous of degree 1


@pytest.mark.parametrize(
    "name",
    "sum prod max min mean std var any all nansum nanprod nanmax nanmin nanmean nanstd nanvar".split(),  # noqa: SIM905
)
def test_masks_of_fewer_axes(name: str) -> None:
    """What `where=` leaves out is no operand."""
    x = np.arange(24.0, dtype="f4").reshape(2, 3, 4)
    if name.startswith("nan"):
        x[0, 0, 0] = np.nan
    start = {"initial": 1.0} if name.endswith(("max", "min")) else {}
    for mask in (TRUE[[0, 1, 2, 2]], TRUE[:, None], np.array(True)):
        for axis in (None, 1, -1):
            want = getattr(np, name)(x, axis=axis, where=mask, **start)
            with effx.numpy_rank_promotion("raise"), effx.numpy_dtype_promotion("strict"):
                result = getattr(enp, name)(x, axis=axis, where=mask, **start)
            np.testing.assert_allclose(result, want, rtol=1e-5)
