"""Tables of associated Legendre functions, against SciPy."""

import math

import numpy as np
import pytest
from scipy import special

import effx
from effx.compat.modules.scipy.special import lpmn, lpmn_values
from effx.errors import DTypeError, ShapeError, TransformError

Z = np.array([-1.0, -0.9, -0.3, 0.0, 0.5, 0.99, 1.0])


@pytest.mark.parametrize("n", [0, 1, 2, 7, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values(n: int, dtype: str) -> None:
    """Values by order and degree, plain and normalised; 0 above the degree."""
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    orders, degrees = np.mgrid[: n + 1, : n + 1]
    plain = special.lpmv(orders[..., None], degrees[..., None], Z.astype(dtype).astype(float))
    factor = np.zeros((n + 1, n + 1))
    for m, degree in zip(*np.nonzero(orders <= degrees), strict=True):
        ratio = math.lgamma(degree - m + 1) - math.lgamma(degree + m + 1)
        factor[m, degree] = math.sqrt((2 * degree + 1) / (4 * math.pi)) * math.exp(ratio / 2)
    with effx.enable_x64(dtype == "float64"):
        normalized = np.asarray(lpmn_values(n, n, Z.astype(dtype), True))
        np.testing.assert_allclose(normalized, plain * factor[..., None], rtol=tolerance, atol=tolerance)
        if n < 10:  # those of degree 20 do not fit into f32
            values = np.asarray(lpmn_values(n, n, Z.astype(dtype), False))
            scale = np.maximum(np.abs(plain).max(axis=2, keepdims=True), 1)
            np.testing.assert_allclose(values / scale, plain / scale, rtol=tolerance, atol=tolerance)


def test_derivatives() -> None:
    """(z^2 - 1) P' = l z P_l - (l + m) P_(l-1), inside the interval."""
    n, z = 6, Z[1:-1]
    with effx.enable_x64(True):
        values, slopes = map(np.asarray, lpmn(n, n, z))
    for m in range(n + 1):
        for k in range(max(m, 1), n + 1):
            expected = (k * z * values[m, k] - (k + m) * values[m, k - 1]) / (z * z - 1)
            np.testing.assert_allclose(slopes[m, k], expected, rtol=1e-9, atol=1e-9)


def test_refusals() -> None:
    """Orders other than the degree, dtypes and shapes."""
    with pytest.raises(
        TransformError, match=r"^lpmn_values: the largest order must be the largest degree, got 1 and 2"
    ):
        lpmn_values(1, 2, np.ones(3, np.float32), True)
    with pytest.raises(DTypeError, match=r"^lpmn_values: z must be f32 or f64, got i32\[3\]"):
        lpmn_values(1, 1, np.ones(3, np.int32), True)
    with pytest.raises(ShapeError, match=r"^lpmn_values: z must be a vector, got f32\[\]"):
        lpmn_values(1, 1, np.float32(1), True)
