"""Normal vectors have their covariance, orthogonal matrices are orthogonal, and both have JAX's bits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import effx
from effx import random
from effx.errors import DTypeError, ShapeError

KEY = np.array([0, 7], np.uint32)
MEAN, COV = np.array([1.0, -2.0], np.float32), np.array([[2.0, 0.8], [0.8, 1.0]], np.float32)


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_normal_vectors(method: str) -> None:
    """Mean and covariance of many are those asked for, and draws are JAX's."""
    x = np.asarray(effx.jit(lambda k: random.multivariate_normal(k, MEAN, COV, (20000,), method=method))(KEY))
    np.testing.assert_allclose(x.mean(0), MEAN, atol=0.05)
    np.testing.assert_allclose(np.cov(x.T), COV, atol=0.08)
    # Decorrelated, the coordinates are normal and independent: so is every direction, and the distance is chi's.
    z = np.linalg.solve(np.linalg.cholesky(COV), (x - MEAN).T)
    for v in (*z, (z[0] + z[1]) / np.sqrt(2)):
        assert stats.kstest(v, stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest((z**2).sum(0), stats.chi2(2).cdf).pvalue > 1e-3
    jax = pytest.importorskip("jax")
    for shape in ((), (3,), (2, 2), (0,), (1,)):
        want = jax.random.multivariate_normal(KEY, MEAN, COV, shape, method=method)
        found = random.multivariate_normal(KEY, MEAN, COV, shape, method=method)
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-5, atol=1e-6)


def test_batches_of_normal_vectors() -> None:
    """Means and covariances broadcast; a covariance of rank 1 is one for eigh."""
    assert random.multivariate_normal(KEY, np.zeros((3, 1, 2)), np.stack([COV, COV])).shape == (3, 2, 2)
    flat = random.multivariate_normal(KEY, np.zeros(2), np.ones((2, 2)), (5,), method="eigh")
    np.testing.assert_allclose(np.asarray(flat[:, 0]), np.asarray(flat[:, 1]), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("size", [(1, None), (3, None), (4, 2), (2, 4)])
def test_orthogonal(size: tuple[int, int | None], dtype: str) -> None:
    """Rows or columns are orthonormal, whichever are fewer, and the bits are JAX's."""
    n, m = size
    x = np.asarray(random.orthogonal(KEY, n, (2,), dtype, m))
    for q in x:
        small = q @ q.conj().T if q.shape[0] <= q.shape[1] else q.conj().T @ q
        np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-5)
    jax = pytest.importorskip("jax")
    np.testing.assert_allclose(
        x, np.asarray(jax.random.orthogonal(KEY, n, (2,), dtype, m)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_orthogonal_matrices_are_uniform(dtype: str) -> None:
    """The square of an element's size is a beta number, and of the trace's the mean is 1.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups", 2007; Diaconis and
    Shahshahani, "On the eigenvalues of random matrices", 1994, for the trace.
    """
    n = 3
    x = np.asarray(random.orthogonal(KEY, n, (5000,), dtype))
    half = 1.0 if dtype == "complex64" else 0.5
    for i, j in ((0, 0), (0, 2), (2, 1)):
        assert stats.kstest(abs(x[:, i, j]) ** 2, stats.beta(half, half * (n - 1)).cdf).pvalue > 1e-3
    traces = np.trace(x, axis1=1, axis2=2)
    squares = abs(traces) ** 2
    assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(len(squares))
    determinants = np.linalg.det(x)
    if dtype == "float32":
        assert stats.binomtest(int((determinants > 0).sum()), len(x)).pvalue > 1e-3
        assert stats.binomtest(int((x[:, 0, 0] > 0).sum()), len(x)).pvalue > 1e-3
    else:
        for z in (determinants, x[:, 0, 0]):
            assert stats.kstest(np.angle(z), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


def test_refused() -> None:
    """What does not fit is refused."""
    with pytest.raises(
        DTypeError, match="multivariate_normal: method must be 'cholesky', 'eigh' or 'svd', got 'lu'"
    ):
        random.multivariate_normal(KEY, MEAN, COV, method="lu")
    with pytest.raises(
        ShapeError, match=r"multivariate_normal: the mean must be \[..., n\] and the covariance"
    ):
        random.multivariate_normal(KEY, MEAN, COV[:1])
    with pytest.raises(
        ShapeError, match=r"multivariate_normal: the shape \[2\] does not hold the batch \[3\]"
    ):
        random.multivariate_normal(KEY, np.zeros((3, 2)), COV, (2,))
