"""Primitives of sparse arrays, against products of the dense matrices."""

from typing import Any

import numpy as np
import pytest

import effx
from effx.compat.modules.experimental.sparse.coo import COOInfo
from effx.compat.modules.experimental.sparse.util import SparseInfo
from effx.compat.sparse_primitives import SPARSE_PRIMITIVES

DENSE = np.array([[1, 0, 4], [2, 3, 0]], np.float32)
SQUARE = np.array([[1, 0], [2, 3]], np.float32)
VECTOR = np.array([1, 10, 100], np.float32)
INFO = SparseInfo((2, 3), indices_sorted=True, unique_indices=True)
PRODUCT = (((1,), (0,)), ((), ()))


def bind(name: str, *operands: Any, **parameters: Any) -> Any:
    return SPARSE_PRIMITIVES[f"{name}_p"].bind(*operands, **parameters)


def test_coordinates() -> None:
    """What is stored, its order, products and samples."""
    data, indices = parts = bind("bcoo_fromdense", DENSE, nse=4, n_batch=0, n_dense=0, index_dtype=np.int32)
    assert data.tolist() == [1, 4, 2, 3]
    assert indices.tolist() == [[0, 0], [0, 2], [1, 0], [1, 1]]
    np.testing.assert_array_equal(bind("bcoo_todense", *parts, spinfo=INFO), DENSE)
    turned = bind("bcoo_transpose", *parts, spinfo=INFO, permutation=(1, 0))
    np.testing.assert_array_equal(bind("bcoo_todense", *turned, spinfo=SparseInfo((3, 2))), DENSE.T)
    product = {"dimension_numbers": PRODUCT, "preferred_element_type": None}
    multiplied = bind("bcoo_dot_general", *parts, VECTOR, lhs_spinfo=INFO, **product)
    np.testing.assert_array_equal(multiplied, DENSE @ VECTOR)
    both = bind(
        "bcoo_spdot_general", *parts, *turned, lhs_spinfo=INFO, rhs_spinfo=SparseInfo((3, 2)), **product
    )
    np.testing.assert_array_equal(bind("bcoo_todense", *both, spinfo=SparseInfo((2, 2))), DENSE @ DENSE.T)
    np.testing.assert_array_equal(bind("bcoo_extract", indices, DENSE, assume_unique=True), data)
    sampled = bind(
        "bcoo_dot_general_sampled", DENSE, DENSE.T, np.array([[0, 1], [1, 1]]), dimension_numbers=PRODUCT
    )
    np.testing.assert_array_equal(sampled, (DENSE @ DENSE.T)[[0, 1], [1, 1]])
    backwards = SparseInfo((2, 3))
    ordered = bind("bcoo_sort_indices", data[::-1], indices[::-1], spinfo=backwards)
    assert ordered[0].tolist() == [1, 4, 2, 3]
    twice = np.concatenate([data, data]), np.concatenate([indices, indices])
    assert bind("bcoo_sum_duplicates", *twice, spinfo=backwards, nse=4)[0].tolist() == [2, 8, 4, 6]


def test_rows() -> None:
    """Compressed rows."""
    parts = bind("bcsr_fromdense", DENSE, nse=4, n_batch=0, n_dense=0, index_dtype=np.int32)
    assert [x.tolist() for x in parts] == [[1, 4, 2, 3], [0, 2, 0, 1], [0, 2, 4]]
    np.testing.assert_array_equal(bind("bcsr_todense", *parts, spinfo=INFO), DENSE)
    product = {"dimension_numbers": PRODUCT, "preferred_element_type": None, "lhs_spinfo": INFO}
    np.testing.assert_array_equal(bind("bcsr_dot_general", *parts, VECTOR, **product), DENSE @ VECTOR)
    np.testing.assert_array_equal(bind("bcsr_extract", *parts[1:], DENSE), parts[0])


@pytest.mark.parametrize(
    ("form", "about"), [("coo", {"spinfo": COOInfo((2, 2))}), ("csr", {"shape": (2, 2)})]
)
def test_matrices(form: str, about: dict[str, Any]) -> None:
    """COO and CSR, by vectors and matrices, transposed and not."""
    parts = bind(f"{form}_fromdense", SQUARE, nse=3, index_dtype=np.int32)
    np.testing.assert_array_equal(bind(f"{form}_todense", *parts, **about), SQUARE)
    for transpose, matrix in ((False, SQUARE), (True, SQUARE.T)):
        options = {**about, "transpose": transpose}
        np.testing.assert_array_equal(
            bind(f"{form}_matvec", *parts, VECTOR[:2], **options), matrix @ VECTOR[:2]
        )
        np.testing.assert_array_equal(bind(f"{form}_matmat", *parts, SQUARE, **options), matrix @ SQUARE)


def test_derivatives_go_through() -> None:
    """A primitive is a function of effx's operations: its derivative is theirs."""
    data, indices = bind("bcoo_fromdense", DENSE, nse=4, n_batch=0, n_dense=0, index_dtype=np.int32)
    slope = effx.grad(lambda d: (bind("bcoo_todense", d, indices, spinfo=INFO) ** 2).sum())(data)
    np.testing.assert_array_equal(slope, 2 * data)
