"""The handler of sparse arrays: its payloads are `BCOO`, and what has no sparse axes is an array as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias, cast, final

import attrs
import numpy as np

import effx.numpy as enp
from effx.array import Array, Box
from effx.dtypes import DTypeLike
from effx.errors import NoRuleError
from effx.experimental.sparse.base import JAXSparse
from effx.experimental.sparse.bcoo import BCOO, as_bcoo
from effx.experimental.sparse.layout import bcoo_update_layout
from effx.handling import ArrayType, Atom, Body, BoxHandler, Frame, Operation, Site, Var, array_type, emits
from effx.ir.ops.checkpoint import Identity
from effx.tracing.wrapping import wraps
from effx.tree.registry import PyTree, flatten

Payload: TypeAlias = BCOO | Array
"""A sparse array; or one that became dense, where a branch or another iteration of a loop gives a dense one."""


@final
@attrs.frozen
class Dense(Identity):
    """The identity, which makes sparse arrays dense."""


@emits(Dense)
def _(body: Body, op: Dense, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    return body.name(inputs[0])


@final
@attrs.frozen
class Sparsify(BoxHandler[Payload]):
    """Computes with sparse arrays. An operation whose result would not be sparse is an error.

    >>> import effx.numpy as enp
    >>> from effx.experimental.sparse import BCOO, Sparsify
    >>> Sparsify().run(lambda m: 2.0 * m, BCOO.fromdense(enp.eye(2))).todense().tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    def lift(self, x: Array) -> Payload:
        """A dense array is its own payload."""
        return x

    def type_of(self, payload: Payload) -> ArrayType:
        """The type of the dense array that is stood for."""
        return payload.type if isinstance(payload, Array) else array_type(payload.dtype, payload.shape)

    def primal(self, payload: Payload) -> Array | None:
        """What is dense decides."""
        return payload if isinstance(payload, Array) else None

    def widen(self, a: Payload, b: Payload) -> Payload:
        """What is dense once stays dense; else there are as many elements, and as few batch and dense axes, as in
        either.
        """
        if not isinstance(a, BCOO) or not isinstance(b, BCOO):
            return b if isinstance(a, BCOO) else a
        batch, dense = min(a.n_batch, b.n_batch), min(a.n_dense, b.n_dense)
        x, y = [bcoo_update_layout(m, n_batch=batch, n_dense=dense, on_inefficient=None) for m in (a, b)]
        return _pad_entries(
            x, max(x.nse, y.nse), enp.result_type(x.indices.dtype, y.indices.dtype), False, False
        )

    def conform(self, payload: Payload, like: Payload) -> Payload:
        """Stores padding, changes the layout, or makes it dense."""
        if not isinstance(payload, BCOO):
            return payload
        if not isinstance(like, BCOO):
            return payload.todense()
        m = bcoo_update_layout(payload, n_batch=like.n_batch, n_dense=like.n_dense, on_inefficient=None)
        return _pad_entries(
            m, like.nse, like.indices.dtype, like.indices_sorted and m.indices_sorted,
            like.unique_indices and m.unique_indices,
        )  # fmt: skip

    def unstack(self, payload: Payload) -> Payload:
        """The scanned axis becomes the first batch axis."""
        if not isinstance(payload, BCOO):
            return payload
        m = payload if payload.n_batch else bcoo_update_layout(payload, n_batch=1, on_inefficient=None)
        return m.with_entries(*m.entries(), m.sparse_shape, ordered=m.indices_sorted, unique=m.unique_indices)

    def without_rule(self, frame: Frame, op: Operation[Any], operands: tuple[Array, ...]) -> Any:
        """Goes into programs, decomposes, or refuses.

        Raises:
            NoRuleError: there is no sparse form of the operation.
        """
        result = self.otherwise(frame, op, operands)
        if result is not None:
            return result
        if not op.can_decompose():
            refuse_operation(op, *[cast("Box", x).payload if x.frame is frame else x for x in operands])
        return super().without_rule(frame, op, operands)


def refuse_operation(op: Operation[Any], *operands: Payload, why: str = "has no sparse form") -> NoReturn:
    """Raises the error of an operation that sparse arrays do not have.

    Raises:
        NoRuleError: always.
    """
    shown = ", ".join([repr(x) if isinstance(x, BCOO) else repr(x.type) for x in operands])
    raise NoRuleError(f"{op.name}: {why}, got {shown}; sparse.todense makes an operand dense")


def constant_operand(site: Site[Any, Any], k: int) -> np.ndarray[Any, Any] | None:
    """Returns the one number that a dense operand consists of; None if it is not known."""
    x = site.operands[k]
    if x.type.size != 1 or x.type.shape:
        return None
    value = site.constants[k]
    return None if value is None else value.reshape(())


def _pad_entries(m: BCOO, nse: int, index_dtype: DTypeLike, ordered: bool, unique: bool) -> BCOO:
    """Returns an array with padding behind its elements."""
    data, indices = m.entries()
    more, b = nse - m.nse, m.n_batch
    at = indices.astype(index_dtype)
    if more > 0:
        data = enp.pad(data, [(0, more if k == b else 0) for k in range(data.ndim)])
        ends = np.asarray(m.sparse_shape, at.dtype)
        at = enp.concatenate([at, enp.broadcast_to(ends, (*at.shape[:-2], more, at.shape[-1]))], b)
    return m.with_entries(data, at, m.sparse_shape, ordered=ordered, unique=unique)


def is_sparse(x: object) -> bool:
    """Says whether something is a sparse array."""
    return isinstance(x, JAXSparse)


def on_sparse(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """Returns a function that runs under the handler, for which sparse arguments are arrays."""

    @wraps(function)
    def run(*args: PyTree, **named: PyTree) -> PyTree:
        handler = Sparsify()
        leaves, tree = flatten((args, named), is_leaf=is_sparse)
        with handler.installed() as frame:
            boxed: list[PyTree] = []
            for x in leaves:
                m = as_bcoo(x) if isinstance(x, JAXSparse) else x
                boxed.append(Box(frame, m, handler.type_of(m)) if isinstance(m, BCOO) else m)
            positional, keywords = tree.unflatten(boxed)
            result_leaves, out = flatten(function(*positional, **keywords), is_leaf=is_sparse)
            return out.unflatten([_unbox(frame, y) for y in result_leaves])

    return run


def _unbox(frame: Frame, y: PyTree) -> PyTree:
    if isinstance(y, JAXSparse):  # that the function has made; its arrays are dense
        children, static = y.tree_flatten()
        parts = [_unbox(frame, x) for x in children]
        return type(y).tree_unflatten(static, [x.todense() if is_sparse(x) else x for x in parts])
    return y.payload if type(y) is Box and y.frame is frame else y
