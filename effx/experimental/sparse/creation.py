"""Sparse arrays from sizes: empty ones, identity matrices, random ones; and dense ones from sparse ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

import effx.numpy as enp
from effx import random
from effx.array import Array, Operand
from effx.dtypes import DTypeLike
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.experimental.sparse.base import JAXSparse
from effx.experimental.sparse.bcoo import BCOO
from effx.experimental.sparse.bcsr import BCSR
from effx.experimental.sparse.compressed import COO, CSC, CSR
from effx.experimental.sparse.entries import unravel_positions
from effx.experimental.sparse.handler import Dense
from effx.lax.operands import check_int

__all__ = ["empty", "eye", "random_bcoo", "todense"]

MATRICES: dict[str, type[COO | CSC | CSR]] = {"coo": COO, "csc": CSC, "csr": CSR}


def todense(arr: JAXSparse | Operand) -> Array:
    """Return a sparse array with its zeros; a dense one as it is.

    In a function under `sparsify`, it makes a sparse array dense.

    >>> import effx.numpy as enp
    >>> todense(BCOO.fromdense(enp.eye(2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    x = enp.asarray(arr)
    # For a handler further out it may be sparse.
    return x if x.frame is None else Dense()(x)


def _fill_positions(
    at: np.ndarray, shape: tuple[int, ...], value: float, dtype: DTypeLike | None,
    index_dtype: DTypeLike, sparse_format: str,
) -> JAXSparse:  # fmt: skip
    """Returns an array with one value at some coordinates, of a format."""
    kind = enp.float32 if dtype is None else dtype
    data = enp.full(len(at), value, kind)
    if sparse_format == "bcoo":
        return BCOO(
            (data, enp.asarray(at.astype(np.dtype(enp.dtype(index_dtype))))),
            shape=shape,
            indices_sorted=True,
            unique_indices=True,
        )
    if sparse_format not in MATRICES:
        raise ShapeError(
            f"{name_user_call()}: sparse_format must be 'bcoo', 'bcsr', 'coo', 'csr' or 'csc', got {sparse_format!r}"
        )
    if len(shape) != 2:
        raise ShapeError(
            f"{name_user_call()}: sparse_format {sparse_format!r} is for matrices, got shape {shape}"
        )
    if sparse_format == "csc":
        at = at[np.lexsort(at.T)]
    coordinates = at.astype(np.dtype(enp.dtype(index_dtype)))
    if sparse_format == "coo":
        return COO(
            (data, enp.asarray(coordinates[:, 0]), enp.asarray(coordinates[:, 1])),
            shape=shape,
            rows_sorted=True,
        )
    by = int(sparse_format == "csc")
    starts = np.concatenate([[0], np.cumsum(np.bincount(at[:, by], minlength=shape[by]))]).astype(
        coordinates.dtype
    )
    return MATRICES[sparse_format](
        (data, enp.asarray(coordinates[:, 1 - by]), enp.asarray(starts)), shape=shape
    )


def empty(
    shape: Sequence[int], dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32", sparse_format: str = "bcoo",
    **kwds: int,
) -> JAXSparse:  # fmt: skip
    """Return a sparse array of zeros.

    Args:
        shape: of the array.
        dtype: of its elements; f32 by default.
        index_dtype: of its coordinates.
        sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
        **kwds: for "bcoo" and "bcsr", `n_batch`, `n_dense` and `nse`, how many elements are stored as padding.

    Raises:
        ShapeError: the format is not known or does not fit the shape.
        DTypeError: another keyword is given.

    >>> empty((2, 3))
    BCOO(float32[2, 3], nse=0)
    """
    if sparse_format == "bcsr":
        sparse_array = empty(shape, dtype, index_dtype, "bcoo", **kwds)
        assert isinstance(sparse_array, BCOO)
        return BCSR.from_bcoo(sparse_array)
    sizes = tuple([check_int("shape", n) for n in shape])
    if not kwds:
        return _fill_positions(np.zeros((0, len(sizes)), int), sizes, 0, dtype, index_dtype, sparse_format)
    _check_keywords(kwds, ("n_batch", "n_dense", "nse"), sparse_format)
    b, d, nse = kwds.get("n_batch", 0), kwds.get("n_dense", 0), kwds.get("nse", 0)
    if b < 0 or d < 0 or b + d > len(sizes):
        raise ShapeError(f"empty: n_batch + n_dense must be from 0 to {len(sizes)}, got {b} + {d}")
    sparse = sizes[b : len(sizes) - d]
    data = enp.zeros((*sizes[:b], nse, *sizes[len(sizes) - d :]), enp.float32 if dtype is None else dtype)
    at = enp.broadcast_to(np.array(sparse, np.dtype(enp.dtype(index_dtype))), (*sizes[:b], nse, len(sparse)))
    return BCOO((data, at), shape=sizes, indices_sorted=True)


def _check_keywords(kwds: dict[str, int], names: Sequence[str], sparse_format: str) -> None:
    unknown = [name for name in kwds if name not in names or sparse_format != "bcoo"]
    if unknown:
        raise DTypeError(f"{name_user_call()}: sparse_format {sparse_format!r} takes no {', '.join(unknown)}")


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
    sparse_format: str = "bcoo", **kwds: int,
) -> JAXSparse:  # fmt: skip
    """Return a sparse matrix with ones on a diagonal.

    Args:
        N: the number of rows.
        M: the number of columns; by default N.
        k: which diagonal; positive ones are above the main one.
        dtype: of its elements; f32 by default.
        index_dtype: of its coordinates.
        sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
        **kwds: for "bcoo" and "bcsr", `n_batch` and `n_dense`.

    Raises:
        ShapeError: the format is not known.
        DTypeError: another keyword is given.

    >>> eye(3, k=1).todense().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    if sparse_format == "bcsr":
        square = eye(N, M, k, dtype, index_dtype, "bcoo", **kwds)
        assert isinstance(square, BCOO)
        return BCSR.from_bcoo(square)
    rows = check_int("N", N)
    columns, shift = rows if M is None else check_int("M", M), check_int("k", k)
    _check_keywords(kwds, ("n_batch", "n_dense"), sparse_format)
    first = np.arange(max(0, -shift), max(min(rows, columns - shift), 0, -shift))
    sparse_array = _fill_positions(
        np.stack([first, first + shift], -1), (rows, columns), 1, dtype, index_dtype, sparse_format
    )
    return (
        sparse_array.update_layout(**kwds, on_inefficient=None)
        if isinstance(sparse_array, BCOO) and kwds
        else sparse_array
    )


def random_bcoo(
    key: Array,
    shape: Sequence[int],
    *,
    dtype: DTypeLike = np.float64,
    indices_dtype: DTypeLike | None = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Array] = random.uniform,
    **kwds: object,
) -> BCOO:
    """Return a sparse array with random elements at random coordinates.

    Args:
        key: of random numbers.
        shape: of the array.
        dtype: of its elements.
        indices_dtype: of its coordinates; i32 by default.
        nse: how many elements to store for each batch element, or the fraction of all elements where it is below 1.
        n_batch: the number of batch axes.
        n_dense: the number of dense axes.
        unique_indices: True for coordinates that differ.
        sorted_indices: True for coordinates in order.
        generator: gives the elements, from a key, a shape and a dtype.
        **kwds: for the generator.

    Raises:
        ShapeError: there are not so many axes or elements.

    >>> import effx
    >>> random_bcoo(effx.random.key(0), (4, 5), dtype="float32")
    BCOO(float32[4, 5], nse=4)
    """
    sizes = tuple([check_int("shape", n) for n in shape])
    if n_batch < 0 or n_dense < 0 or n_batch + n_dense > len(sizes):
        raise ShapeError(
            f"random_bcoo: n_batch + n_dense must be from 0 to {len(sizes)}, got {n_batch} + {n_dense}"
        )
    batch, sparse, dense = (
        sizes[:n_batch],
        sizes[n_batch : len(sizes) - n_dense],
        sizes[len(sizes) - n_dense :],
    )
    n = math.prod(sparse)
    count = math.ceil(nse * n) if nse < 1 else int(nse)
    if count < 0 or (unique_indices and count > n):
        raise ShapeError(f"random_bcoo: nse must be from 0 to {n}, the number of places, got {nse}")
    of_places, of_elements = random.split(key)
    total = math.prod(batch)
    if unique_indices:
        numbers = enp.argsort(random.uniform(of_places, (total, n)), axis=1)[:, :count]
    else:
        numbers = random.randint(of_places, (total, count), 0, max(n, 1))
    at = unravel_positions(numbers.astype(np.int32), sparse).reshape((*batch, count, len(sparse)))
    data = generator(of_elements, shape=(*batch, count, *dense), dtype=dtype, **kwds)
    sparse_array = BCOO(
        (data, at.astype(np.int32 if indices_dtype is None else indices_dtype)),
        shape=sizes,
        unique_indices=unique_indices,
    )
    return sparse_array.sort_indices() if sorted_indices else sparse_array
