"""Set operations with a size: NumPy's sets, cropped or padded, inside jit and vmap too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx.errors import ConcretizationError

SETS = ("union1d", "intersect1d", "setdiff1d", "setxor1d")
DTYPES = ("int32", "float32", "bool", "complex64", "uint8")


def padded(found: Any, size: int, fill: Any) -> Any:
    """Cuts or pads a vector."""
    rest = np.full(max(size - len(found), 0), fill, found.dtype)
    return np.concatenate([found[:size], rest])


vectors = st.lists(st.integers(0, 5), max_size=7).map(np.array)


@given(vectors, vectors, st.integers(0, 9), st.sampled_from(DTYPES))
def test_sets_of_a_size(first: Any, second: Any, size: int, dtype: str) -> None:
    """With a size and a value to fill, under jit as well, they are NumPy's sets."""
    x, y = first.astype(dtype), second.astype(dtype)
    for name in SETS:
        want = padded(getattr(np, name)(x, y), size, 1)
        f = getattr(enp, name)
        np.testing.assert_array_equal(np.asarray(f(x, y, size=size, fill_value=1)), want, err_msg=name)
        np.testing.assert_array_equal(np.asarray(f(x, y)), getattr(np, name)(x, y), err_msg=name)
        assert f(x, y, size=size, fill_value=0).dtype == np.dtype(dtype)


@given(vectors, st.integers(1, 9), st.sampled_from(DTYPES), st.booleans())
def test_unique_of_a_size(data: Any, size: int, dtype: str, nan: bool) -> None:
    """Elements, first indices, inverse and counts are NumPy's, and the padding counts 0."""
    x = data.astype(dtype)
    if nan and dtype == "float32":
        x = np.where(x > 3, np.nan, x)
    if not x.size:
        return
    values, index, inverse, counts = np.unique(x, True, True, True)
    found = enp.unique(x, True, True, True, size=size)
    for got, want in zip(
        found,
        (padded(values, size, values[0]), padded(index, size, index[0]), inverse, padded(counts, size, 0)),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_sets_inside_jit_and_vmap() -> None:
    """One program for all values; a batch gives each element's set."""
    x = np.array([[3, 1, 3, 2], [0, 0, 0, 5]], np.int32)
    y = np.array([3, 5], np.int32)
    for name in SETS:

        def of(row: Any, name: str = name) -> Any:
            return getattr(enp, name)(row, y, size=5, fill_value=-1)

        want = np.stack([padded(getattr(np, name)(row, y), 5, -1) for row in x])
        np.testing.assert_array_equal(np.asarray(effx.jit(effx.vmap(of))(x)), want, err_msg=name)
    unique = effx.jit(lambda v: enp.unique(v, size=3, fill_value=9))
    assert unique(x[0]).tolist() == [1, 2, 3]
    assert unique(x[1]).tolist() == [0, 5, 9]


def test_unique_slices() -> None:
    """Along an axis whole slices are compared."""
    x = np.array([[1, 0, 1], [0, 2, 0], [1, 0, 1]], np.int32)
    for axis in (0, 1):
        want = np.unique(x, axis=axis)
        found = effx.jit(lambda v, axis=axis: enp.unique(v, axis=axis, size=2))(x)
        np.testing.assert_array_equal(np.asarray(found), want)


def test_intersection_with_indices() -> None:
    """The first indices of what is common; the padding is the size of the array."""
    x, y = np.array([4, 1, 1, 3, 4]), np.array([0, 3, 4, 3])
    for found in (enp.intersect1d(x, y, return_indices=True), np.intersect1d(x, y, return_indices=True)):
        assert [np.asarray(part).tolist() for part in found] == [[3, 4], [3, 0], [1, 2]]
    sized = enp.intersect1d(x, y, return_indices=True, size=3, fill_value=-1)
    assert [part.tolist() for part in sized] == [[3, 4, -1], [3, 0, 5], [1, 2, 4]]


@pytest.mark.parametrize("method", ["auto", "compare_all", "binary_search", "sort"])
def test_isin(method: str) -> None:
    """All methods find the same, and NaN nowhere."""
    x, y = np.array([[1.0, np.nan], [3.0, 4.0]], np.float32), np.array([3.0, np.nan, 1.0, 9.0], np.float32)
    assert enp.isin(x, y, method=method).tolist() == np.isin(x, y).tolist()
    assert enp.isin(x, y, invert=True, method=method).tolist() == np.isin(x, y, invert=True).tolist()


def test_array_api_functions() -> None:
    """Their results have names; each NaN is distinct."""
    x = np.array([2.0, np.nan, 2.0, np.nan], np.float32)
    found = enp.unique_all(x)
    assert found.indices.tolist() == [0, 1, 3]
    assert found.counts.tolist() == [2, 1, 1]
    assert found.inverse_indices.shape == (4,)
    assert enp.unique_counts(x, size=2).counts.tolist() == [2, 1]
    assert enp.unique_inverse(x[:1]).inverse_indices.tolist() == [0]
    assert enp.unique_values(x).shape == (3,)


def test_sizes_must_be_known() -> None:
    """Without a size, sets of what is traced are refused."""
    for name in ("unique", *SETS):
        arguments = [np.ones(2, np.float32)] * (1 if name == "unique" else 2)
        with pytest.raises(
            ConcretizationError, match=f"{name}: the number of distinct elements of the abstract f32"
        ):
            effx.jit(getattr(enp, name))(*arguments)
    with pytest.raises(effx.errors.DTypeError, match="isin: method must be one of auto, compare_all"):
        enp.isin(1, 2, method="hash")
    with pytest.raises(
        effx.errors.ShapeError, match=r"unique: f32\[0\] has no element to fill 2 with; give fill_value="
    ):
        enp.unique(np.zeros(0, np.float32), size=2)
