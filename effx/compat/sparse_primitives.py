"""Primitives of sparse arrays, by the arrays that these are made of, as `jax.experimental.sparse` has them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from effx import numpy as enp
from effx.array import Array
from effx.compat.composed import ComposedPrimitive
from effx.experimental import sparse
from effx.tree.registry import PyTree

__all__ = ["SPARSE_PRIMITIVES"]

Parts = tuple[Array, Array, Array]


class Described(Protocol):
    """What primitives are told of an array: JAX's `SparseInfo` or `COOInfo`."""

    @property
    def shape(self) -> Sequence[int]:
        """The shape."""
        ...


def _coordinates(data: Array, indices: Array, info: Described) -> sparse.BCOO:
    """Returns the BCOO array of what it stores; `info` has its shape, and may say how its indices are."""
    is_sorted = getattr(info, "indices_sorted", False)
    is_unique = getattr(info, "unique_indices", False)
    return sparse.BCOO(
        (data, indices), shape=tuple(info.shape), indices_sorted=is_sorted, unique_indices=is_unique
    )


def _rows(parts: Parts, info: Described) -> sparse.BCSR:
    return sparse.BCSR(parts, shape=tuple(info.shape))


def _coo(parts: Parts, info: Described) -> sparse.COO:
    return sparse.COO(parts, shape=tuple(info.shape))


def _csr(parts: Parts, shape: Sequence[int]) -> sparse.CSR:
    return sparse.CSR(parts, shape=tuple(shape))


def _stored(mat: sparse.BCOO) -> list[Array]:
    return [mat.data, mat.indices]


def _extract(indices: Array, dense: Array, *, assume_unique: bool) -> Array:
    pattern = sparse.BCOO((enp.ones(indices.shape[:-1]), indices), shape=dense.shape)
    return sparse.bcoo_extract(pattern, dense, assume_unique=assume_unique).data


def _coo_parts(mat: sparse.COO) -> list[Array]:
    return [mat.data, mat.row, mat.col]


def _csr_parts(mat: sparse.BCSR | sparse.CSR) -> list[Array]:
    return [mat.data, mat.indices, mat.indptr]


_ONE: Mapping[str, Callable[..., PyTree]] = {
    "bcoo_dot_general": lambda data, indices, rhs, *, lhs_spinfo, **options: sparse.bcoo_dot_general(
        _coordinates(data, indices, lhs_spinfo), rhs, **options
    ),
    "bcoo_dot_general_sampled": sparse.bcoo_dot_general_sampled,
    "bcoo_extract": _extract,
    "bcoo_todense": lambda data, indices, *, spinfo: _coordinates(data, indices, spinfo).todense(),
    "bcsr_dot_general": lambda x, y, z, rhs, *, lhs_spinfo, **options: sparse.bcsr_dot_general(
        _rows((x, y, z), lhs_spinfo), rhs, **options
    ),
    "bcsr_extract": sparse.bcsr_extract,
    "bcsr_todense": lambda x, y, z, *, spinfo: _rows((x, y, z), spinfo).todense(),
    "coo_matmat": lambda x, y, z, rhs, *, spinfo, transpose: sparse.coo_matmat(
        _coo((x, y, z), spinfo), rhs, transpose=transpose
    ),
    "coo_matvec": lambda x, y, z, rhs, *, spinfo, transpose: sparse.coo_matvec(
        _coo((x, y, z), spinfo), rhs, transpose
    ),
    "coo_todense": lambda x, y, z, *, spinfo: _coo((x, y, z), spinfo).todense(),
    "csr_matmat": lambda x, y, z, rhs, *, shape, transpose: sparse.csr_matmat(
        _csr((x, y, z), shape), rhs, transpose=transpose
    ),
    "csr_matvec": lambda x, y, z, rhs, *, shape, transpose: sparse.csr_matvec(
        _csr((x, y, z), shape), rhs, transpose
    ),
    "csr_todense": lambda x, y, z, *, shape: _csr((x, y, z), shape).todense(),
}
_SEVERAL: Mapping[str, Callable[..., PyTree]] = {
    "bcoo_fromdense": lambda dense, **options: _stored(sparse.bcoo_fromdense(dense, **options)),
    "bcoo_sort_indices": lambda data, indices, *, spinfo: _stored(
        sparse.bcoo_sort_indices(_coordinates(data, indices, spinfo))
    ),
    "bcoo_spdot_general": lambda x, xi, y, yi, *, lhs_spinfo, rhs_spinfo, **options: _stored(
        sparse.bcoo_dot_general(_coordinates(x, xi, lhs_spinfo), _coordinates(y, yi, rhs_spinfo), **options)
    ),
    "bcoo_sum_duplicates": lambda data, indices, *, spinfo, nse: _stored(
        sparse.bcoo_sum_duplicates(_coordinates(data, indices, spinfo), nse)
    ),
    "bcoo_transpose": lambda data, indices, *, spinfo, permutation: _stored(
        sparse.bcoo_transpose(_coordinates(data, indices, spinfo), permutation=permutation)
    ),
    "bcsr_fromdense": lambda dense, **options: _csr_parts(sparse.bcsr_fromdense(dense, **options)),
    "coo_fromdense": lambda dense, **options: _coo_parts(sparse.coo_fromdense(dense, **options)),
    "csr_fromdense": lambda dense, **options: _csr_parts(sparse.csr_fromdense(dense, **options)),
}

SPARSE_PRIMITIVES: Mapping[str, ComposedPrimitive] = {
    **{f"{name}_p": ComposedPrimitive(name, function) for name, function in _ONE.items()},
    **{f"{name}_p": ComposedPrimitive(name, function, True) for name, function in _SEVERAL.items()},
}
"""By their names in `jax.experimental.sparse`."""
