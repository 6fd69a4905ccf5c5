"""Elementwise operations on sparse arrays: those whose result is 0 wherever nothing is stored.

Whether it is, is not a table: the operation is evaluated at 0. So `sin`, `max(x, 0)` and `x > 1` are sparse, and `cos`,
`max(x, 1)` and `x < 1` are not. A table lists the operations that give 0 for any dense operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

import effx.numpy as enp
from effx.array import Array, HostArray
from effx.experimental.sparse.bcoo import BCOO, add_sparse, is_stored, unify_layouts
from effx.experimental.sparse.coordinates import append_unit_axes
from effx.experimental.sparse.entries import bcoo_extract, sum_duplicate_entries
from effx.experimental.sparse.handler import Dense, Payload, Sparsify, constant_operand, refuse_operation
from effx.experimental.sparse.layout import match_layouts
from effx.experimental.sparse.products import bcoo_multiply_dense, bcoo_multiply_sparse
from effx.handling import Elementwise, Linear, Operation, Site, array_type, isolated
from effx.ir.ops import elementwise as e
from effx.ir.ops.convert import Convert, StopGradient

Kind = type[Operation[Any]]

# By operation, the operands that make the result 0 where they are, whatever the others are.
ABSORBING: dict[Kind, tuple[int, ...]] = {
    e.Div: (0,), e.Rem: (0,), e.And: (0, 1), e.ShiftLeft: (0,), e.ShiftRightArithmetic: (0,), e.ShiftRightLogical: (0,)
}  # fmt: skip


@lru_cache(maxsize=4096)
def _is_zero(op: Operation[Array], operands: tuple[tuple[np.dtype[Any], bytes], ...]) -> bool:
    """Says whether an operation on numbers, given by dtype and bits, gives 0."""
    with isolated():
        numbers = [np.frombuffer(bits, dtype)[0] for dtype, bits in operands]
        y = op(*[HostArray(np.asarray(x), array_type(x.dtype, ())) for x in numbers])
        return bool(np.all(np.asarray(y) == 0))


def is_zero_preserving(site: Site[Any, Any], op: Operation[Array], xs: Sequence[Payload]) -> bool:
    """Says whether a result is 0 wherever the sparse operands are."""
    sparse = [isinstance(x, BCOO) for x in xs]
    if isinstance(op, e.Select):
        # Without a stored element the predicate of a sparse one is False, and chooses the first case.
        cases = range(1, 2) if sparse[0] else range(1, len(xs))
        return all([sparse[k] or constant_operand(site, k) == 0 for k in cases])
    if any([sparse[k] for k in ABSORBING.get(type(op), ())]) and not all(sparse):
        return True
    known = [
        np.zeros((), x.dtype) if s else constant_operand(site, k)
        for k, (x, s) in enumerate(zip(xs, sparse, strict=True))
    ]
    if any([x is None for x in known]):
        return False
    return _is_zero(op, tuple([(x.dtype, x.tobytes()) for x in known if x is not None]))


@Sparsify.site_rule(Elementwise)
def _(site: Site[Sparsify, None], op: Elementwise, *xs: Payload) -> Payload:
    sparse = [x for x in xs if isinstance(x, BCOO)]
    if not sparse:
        return op(*[x for x in xs if isinstance(x, Array)])
    if not is_zero_preserving(site, op, xs):
        refuse_operation(op, *xs, why="the result is not 0 wherever an operand is")
    at = sparse if _is_additive(op, xs) else align_coordinates(sparse)
    mats = iter(at)
    parts: list[Array] = []
    for x in xs:
        if isinstance(x, BCOO):
            parts.append(next(mats).data)
        else:
            parts.append(_dense_elements_at(at[0], x) if x.ndim else x)
    return at[0].with_data(op(*parts))


def _is_additive(op: Operation[Array], xs: Sequence[Payload]) -> bool:
    """Says whether an operation on elements of equal coordinates gives parts of the result, which are added."""
    if len(xs) == 1:
        t = xs[0].dtype
        if isinstance(op, Convert):
            return t.kind != "b" and not (
                op.dtype.kind == "b" or (op.dtype.kind in "iu" and t.kind not in "iu")
            )
        return isinstance(op, Linear | StopGradient)
    return isinstance(op, e.Div) and not isinstance(xs[1], BCOO) and xs[0].dtype.kind not in "iu"


def _dense_elements_at(m: BCOO, x: Array) -> Array:
    """Returns the elements of a dense array at the coordinates; 1 for padding, so that nothing is divided by 0."""
    dense_elements = bcoo_extract(m, x, assume_unique=True).data
    known = is_stored(m)
    return enp.where(append_unit_axes(known, dense_elements.ndim), dense_elements, enp.ones((), x.dtype))


def align_coordinates(mats: Sequence[BCOO]) -> list[BCOO]:
    """Returns arrays with the same coordinates, which occur once: those of any of them."""
    if len(mats) == 1:
        m = mats[0]
        return [m if m.unique_indices else sum_duplicate_entries(m, m.nse, remove_zeros=False)]
    if all([m.indices is mats[0].indices for m in mats]) and len({m.n_dense for m in mats}) == 1:
        return [one for m in mats for one in align_coordinates([m])]
    same = match_layouts(mats)
    batch = same[0].n_batch
    entries = [m.entries() for m in same]
    dtype = enp.result_type(*[at.dtype for _, at in entries])
    at = enp.concatenate([at.astype(dtype) for _, at in entries], batch)
    counts = [m.nse for m in same]
    nse = min(sum(counts), int(np.prod(same[0].sparse_shape)))
    results = []
    for k, (x, _) in enumerate(entries):
        around = [(sum(counts[:k]), sum(counts[k + 1 :])) if a == batch else (0, 0) for a in range(x.ndim)]
        joined = same[0].with_entries(enp.pad(x, around), at, same[0].sparse_shape)
        results.append(sum_duplicate_entries(joined, nse, remove_zeros=False))
    return results


@Sparsify.rule(Dense)
def _(op: Dense, x: Payload) -> Payload:
    return x.todense() if isinstance(x, BCOO) else x


@Sparsify.rule(e.Add, e.Sub)
def _(op: e.Add | e.Sub, x: Payload, y: Payload) -> Payload:
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return add_sparse(x, y if isinstance(op, e.Add) else y.with_data(-y.data))
    if x.ndim == y.ndim:
        return op(*[m.todense() if isinstance(m, BCOO) else m for m in (x, y)])
    return refuse_operation(
        op, x, y, why="a number is added to what is not stored, too, so that the result is dense"
    )


@Sparsify.rule(e.Mul)
def _(op: e.Mul, x: Payload, y: Payload) -> Payload:
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        return bcoo_multiply_sparse(*unify_layouts(x, y))
    if isinstance(x, BCOO):
        return x.with_data(bcoo_multiply_dense(x, cast("Array", y)))
    return y.with_data(bcoo_multiply_dense(y, x)) if isinstance(y, BCOO) else op(x, y)
