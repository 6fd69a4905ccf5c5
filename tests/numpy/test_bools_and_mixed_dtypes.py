"""Sums with dtype=bool, sets of mixed dtypes, shapes of results with one variable, part or axis: as NumPy has them."""

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import effx
import effx.numpy as enp
from effx.scipy import linalg

COUNTS = np.array([[0, 2, 0], [1, 0, 3]])


@pytest.mark.parametrize(
    "name", ["sum", "prod", "nansum", "nanprod", "cumsum", "cumprod", "nancumsum", "nancumprod"]
)
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", ["int32", "float32", "bool", "complex64"])
def test_of_bools(name: str, axis: int | None, dtype: str) -> None:
    for x in (COUNTS.astype(dtype), COUNTS[:, :1].astype(dtype), COUNTS[:, :0].astype(dtype)):
        want = getattr(np, name)(x, axis, dtype=bool)
        for transform in (lambda f: f, effx.jit):
            result = transform(lambda x: getattr(enp, name)(x, axis, dtype=bool))(x)
            assert result.dtype == bool
            np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("include_initial", [False, True])
def test_cumulative_of_bools(name: str, include_initial: bool) -> None:
    options: dict[str, Any] = {"axis": 1, "dtype": bool, "include_initial": include_initial}
    np.testing.assert_array_equal(getattr(enp, name)(COUNTS, **options), getattr(np, name)(COUNTS, **options))


def test_sums_of_bools_with_where_and_initial() -> None:
    mask = COUNTS < 2
    for name in ("sum", "prod"):
        for initial in (0, 1):
            options: dict[str, Any] = {
                "axis": 1,
                "dtype": bool,
                "initial": initial,
                "where": mask,
                "keepdims": True,
            }
            np.testing.assert_array_equal(
                getattr(enp, name)(COUNTS, **options), getattr(np, name)(COUNTS, **options)
            )


@pytest.mark.parametrize(
    ("first", "second"), [("int32", "float32"), ("int8", "int32"), ("float32", "int32"), ("bool", "int8")]
)
@pytest.mark.parametrize("assume_unique", [False, True])
def test_setdiff1d_keeps_the_dtype(first: str, second: str, assume_unique: bool) -> None:
    x, y = np.array([5, 1, 3, 1, 0, 3]).astype(first), np.array([3.0, 2.5, 1.0]).astype(second)
    x = np.unique(x) if assume_unique else x
    want = np.setdiff1d(x, y, assume_unique)
    result = enp.setdiff1d(x, y, assume_unique)
    assert result.dtype == first
    np.testing.assert_array_equal(result, want)
    padded = effx.jit(lambda x, y: enp.setdiff1d(x, y, assume_unique, size=4))(x, y)
    assert padded.dtype == first
    np.testing.assert_array_equal(padded, np.concatenate([want, np.zeros(4)])[:4].astype(first))


def test_setdiff1d_of_integers_that_floats_do_not_hold() -> None:
    x, y = np.array([2**24 + 1, 7]), np.array([7.5])
    for result in (enp.setdiff1d(x, y), enp.setdiff1d(x, y, size=2)):
        assert result.tolist() == [7, 2**24 + 1]
    nan = np.array([1.5, np.nan, np.nan], "f4")
    np.testing.assert_array_equal(enp.setdiff1d(nan, np.array([1]), size=3), [1.5, np.nan, 0.0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["cov", "corrcoef"])
@pytest.mark.parametrize("rowvar", [False, True])
def test_one_variable_or_observation(name: str, rowvar: bool) -> None:
    for x in (np.array([[1.0, 2.0, 4.0]]), np.array([1.0, 2.0, 4.0]), np.array([[1.0], [2.0]])):
        result, want = getattr(enp, name)(x, rowvar=rowvar), getattr(np, name)(x, rowvar=rowvar)
        assert result.shape == want.shape
        np.testing.assert_allclose(result, want, rtol=1e-6)


def test_joined_with_a_letter() -> None:
    a, b = np.array([1, 2]), np.array([3, 4])
    for letter in ("r", "c"):
        np.testing.assert_array_equal(enp.r_[letter, a, b], np.asarray(np.r_[letter, a, b]))
        np.testing.assert_array_equal(enp.c_[letter, a, b], np.asarray(np.c_[letter, a, b]))
        np.testing.assert_array_equal(
            enp.r_[letter, COUNTS, COUNTS], np.asarray(np.r_[letter, COUNTS, COUNTS])
        )


def test_gradient_along_one_axis_is_an_array() -> None:
    x = np.arange(12.0).reshape(3, 4) ** 2
    for axis in (0, (0,), [1], -1):
        result = enp.gradient(x, axis=axis)
        assert isinstance(result, effx.Array)
        np.testing.assert_allclose(result, np.gradient(x, axis=axis), rtol=1e-6)
    assert len(enp.gradient(x, axis=(0, 1))) == 2


def test_fiedler_companion_of_few_coefficients() -> None:
    assert linalg.fiedler_companion(np.array([2.0])).shape == (0, 0)  # as of SciPy 1.18
    for n in (2, 3, 4, 5):
        a = np.arange(1.0, n + 1)
        np.testing.assert_allclose(linalg.fiedler_companion(a), scipy.linalg.fiedler_companion(a), rtol=1e-6)
