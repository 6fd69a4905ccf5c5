"""Derivatives of singular vectors scale with the matrix: those of c m are those of m, over c."""

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp


def weigh_vectors(m: effx.Array) -> effx.Array:
    u, _, vh = enp.linalg.svd(m, full_matrices=False)
    weights = enp.arange(3.0)
    return (abs(u) * weights).sum() + (abs(vh) * weights[:, None]).sum()


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1.0, 1e18])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_scale(scale: float, shape: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(1)
    m = rng.normal(size=shape) + 1j * (dtype == "complex64") * rng.normal(size=shape)
    m = (m if dtype == "complex64" else m.real).astype(dtype)

    gradient: Any = effx.grad(weigh_vectors)
    with effx.enable_x64():
        exact = np.asarray(gradient(m.astype("complex128" if dtype == "complex64" else "float64")))
    scaled = np.asarray(gradient(m * np.float32(scale))) * scale
    np.testing.assert_allclose(scaled, exact, rtol=1e-3, atol=1e-4 * np.abs(exact).max())
