"""Sparse systems and eigenvalues against SciPy and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError, EffxError, ShapeError
from effx.experimental.sparse import BCOO
from effx.experimental.sparse.linalg import cuthill_mckee, lobpcg_standard, spsolve


def banded(n: int, dtype: str, below: int = 1, above: int = 2, seed: int = 0) -> Any:
    """A matrix that is a band under an unknown order of rows and columns, and needs pivoting."""
    rng = np.random.default_rng(seed)
    offsets = range(-below, above + 1)
    diagonals = [rng.normal(size=n - abs(k)) * (0.1 if k == 0 else 1) for k in offsets]
    a = scipy.sparse.diags(diagonals, offsets).tocsr()
    order = rng.permutation(n)
    a = a[order][:, order].astype("c16" if dtype.startswith("c") else "f8")
    if dtype.startswith("c"):
        a.data = a.data * np.exp(1j * rng.normal(size=a.nnz))
    return a.astype(dtype)


# By reordering and band, without reordering (the band is wide: dense), diagonal, lower triangle, one element.
CASES = [(30, 1, 2, 1), (30, 1, 2, 0), (12, 0, 0, 1), (20, 2, 0, 1), (1, 0, 0, 1), (24, 1, 1, 1)]


@pytest.mark.parametrize(("n", "below", "above", "reorder"), CASES)
def test_spsolve(n: int, below: int, above: int, reorder: int) -> None:
    """Solutions of SciPy's solver, with one and with several right-hand sides, and where the pattern is abstract."""
    with effx.enable_x64(True):
        for dtype in ("float64", "complex128")[: 2 if n == 24 else 1]:
            a = banded(n, dtype, below, above)
            b = np.random.default_rng(1).normal(size=(n, 2)).astype(dtype)
            want = np.linalg.solve(a.toarray(), b)
            found = spsolve(a.data, a.indices, a.indptr, b, tol=0.0, reorder=reorder)
            np.testing.assert_allclose(found, want, rtol=1e-8, atol=1e-9)
            one = effx.jit(spsolve)(a.data, a.indices, a.indptr, b[:, 0], 0.0)
            np.testing.assert_allclose(one, want[:, 0], rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(
                one, scipy.sparse.linalg.spsolve(a.tocsc(), b[:, 0]), rtol=1e-8, atol=1e-9
            )


def test_spsolve_transformations() -> None:
    """Derivatives by both arguments, batches of right-hand sides and of elements; duplicates and padding."""
    with effx.enable_x64(True):
        a = banded(16, "float64", 1, 1)
        b = np.random.default_rng(2).normal(size=16)
        rows = np.repeat(np.arange(16), np.diff(a.indptr))

        def solve(data: Any, b: Any) -> Any:
            return spsolve(data, a.indices, a.indptr, b, 0.0)

        def dense(data: Any, b: Any) -> Any:
            return enp.linalg.solve(enp.zeros((16, 16)).at[rows, a.indices].add(data), b)

        for mode in (effx.jacrev, effx.jacfwd):
            for got, want in zip(mode(solve, (0, 1))(a.data, b), mode(dense, (0, 1))(a.data, b), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-7)
        scaled = np.stack([a.data, 2 * a.data])
        np.testing.assert_allclose(
            effx.vmap(solve, (0, None))(scaled, b), [solve(a.data, b), solve(a.data, b) / 2]
        )
        solved = lax.map(lambda b: solve(a.data, b), np.stack([b, 3 * b]))
        np.testing.assert_allclose(solved, [solve(a.data, b), 3 * solve(a.data, b)])
    data, columns = np.array([1, 1, 4, 9], "f4"), np.array([0, 0, 1, 0], "i4")
    found = spsolve(data, columns, np.array([0, 2, 3], "i4"), np.array([2, 8], "f4"))
    assert found.tolist() == [1, 2]
    assert spsolve(data[:0], columns[:0], np.zeros(1, "i4"), data[:0]).shape == (0,)


@pytest.mark.parametrize("reorder", [0, 1])
def test_singular(reorder: int) -> None:
    """A pivot that is small beside its column is 0; a small column alone is not."""
    index, start, b = np.array([0, 1], "i4"), np.array([0, 1, 2], "i4"), np.ones(2, "f4")
    for solve in (spsolve, effx.jit(spsolve, static_argnums=5)):
        assert np.isnan(solve(np.array([1, 0], "f4"), index, start, b, 1e-6, reorder)).all()
        found = solve(np.array([1, 1e-9], "f4"), index, start, b, 1e-6, reorder)
        np.testing.assert_allclose(found, [1, 1e9], rtol=1e-6)
    data, columns = np.array([1, 1, 1, 1 + 1e-5], "f4"), np.array([0, 1, 0, 1], "i4")
    for tol, singular in ((1e-4, True), (1e-6, False)):
        assert np.isnan(spsolve(data, columns, np.array([0, 2, 4], "i4"), b, tol)).all() == singular


def test_ordering() -> None:
    """The ordering gives the band that SciPy's gives, or a smaller one, and orders parts without connection."""
    for seed in range(4):
        a = banded(40, "float64", 2, 1, seed)
        i, j = a.nonzero()
        found = cuthill_mckee(i, j, 41)
        assert sorted(found.tolist()) == list(range(41))
        theirs = scipy.sparse.csgraph.reverse_cuthill_mckee(a)
        widths = []
        for order in (found, theirs):
            place = np.argsort(order)
            widths.append(np.abs(place[i] - place[j]).max())
        assert widths[0] <= widths[1] + 2


@pytest.mark.parametrize("form", ["dense", "sparse", "function", "complex"])
def test_lobpcg(form: str) -> None:
    """The largest eigenvalues, with orthonormal eigenvectors."""
    rng = np.random.default_rng(3)
    dtype = np.dtype("c8" if form == "complex" else "f4")
    q = np.linalg.qr(
        rng.normal(size=(25, 25)) + (1j * rng.normal(size=(25, 25)) if form == "complex" else 0)
    )[0]
    a = ((q * np.arange(-5, 20)) @ q.conj().T).astype(dtype)
    x = rng.normal(size=(25, 3)).astype(dtype)
    A: Any = {"sparse": BCOO.fromdense(a), "function": lambda v: a @ v}.get(form, a)
    values, vectors, count = effx.jit(lambda x: lobpcg_standard(A, x))(x)
    np.testing.assert_allclose(values, [19, 18, 17], rtol=1e-4)
    np.testing.assert_allclose(a @ vectors, vectors * values, atol=5e-3)
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(3), atol=1e-5)
    assert 1 < int(count) < 60
    assert int(lobpcg_standard(A, x, m=2)[2]) == 2


WRONG: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: spsolve(np.ones(2, "f4"), np.zeros(2, "i4"), np.zeros(3, "i4"), np.ones(3, "f4")), ShapeError,
        ("spsolve: needs data [nse], indices [nse], indptr [n + 1] and b [n] or [n, k], got f32[2], i32[2], i32[3] and "
        "f32[3]"),
    ),
    (
        lambda: spsolve(np.ones(2, "i4"), np.zeros(2, "i4"), np.zeros(3, "i4"), np.ones(2, "f4")), DTypeError,
        ("spsolve: needs data and b of one floating dtype and integer indices, got i32[2], i32[2], i32[3] and f32[2]"),
    ),
    (
        lambda: spsolve(np.ones(2, "f4"), np.zeros(2, "i4"), np.zeros(3, "i4"), np.ones(2, "f4"), reorder=2), ShapeError,
        "spsolve: reorder must be 0 (none) or 1 (reverse Cuthill-McKee), got 2",
    ),
    (
        lambda: lobpcg_standard(np.eye(10, dtype="f4"), np.ones((10, 2), "f4")), ShapeError,
        "lobpcg_standard: X must have shape (n, k) with 0 < 5 k < n, got f32[10,2]",
    ),
    (
        lambda: lobpcg_standard(np.ones((3, 10), "f4"), np.ones((10, 1), "f4")), ShapeError,
        "lobpcg_standard: A times X must have X's shape, got f32[3,1] for f32[10,1]",
    ),
    (
        lambda: lobpcg_standard(np.eye(10, dtype="c8"), np.ones((10, 1), "f4")), DTypeError,
        "lobpcg_standard: A times X must have X's dtype, got c64[10,1] for f32[10,1]",
    ),
    (
        lambda: lobpcg_standard(np.eye(10, dtype="i4"), np.ones((10, 1), "i4")), DTypeError,
        "lobpcg_standard: X must be floating or complex, got i32[10,1]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG)
def test_wrong_inputs(call: Callable[[], object], error: type[EffxError], text: str) -> None:
    """The whole text of errors."""
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).split("\n")[0] == text
