"""Declarations that a primitive works element by element, or along some axes, so that a batch is one more axis."""

from collections.abc import Sequence

from effx.array import Array
from effx.array.promotion import as_operand
from effx.array.shaping import reshape
from effx.compat.bound_rules import Axis, primitive_batchers
from effx.compat.defined import Primitive
from effx.handlers.vmap.handler import Vmap, materialize
from effx.tree.registry import PyTree

__all__ = ["bdim_at_front", "broadcast", "defbroadcasting", "defreducer", "defvectorized"]


def broadcast(x: PyTree, sz: int, axis: int) -> Array:
    """Returns `sz` times the same array along a new axis."""
    return materialize(Vmap(sz), as_operand(x), None, axis)


def bdim_at_front(x: PyTree, bdim: Axis, size: int) -> Array:
    """Returns a batch with its axis in front, where an array without one is repeated."""
    return materialize(Vmap(size), as_operand(x), bdim)


def defvectorized(prim: Primitive) -> None:
    """Says that a primitive works element by element on operands of one shape."""
    primitive_batchers[prim] = lambda args, dims, /, **params: _batch_together(
        prim, args, dims, params, repeat=True
    )


def defbroadcasting(prim: Primitive) -> None:
    """Declares that a primitive works element by element on operands whose shapes broadcast, as NumPy's do."""
    primitive_batchers[prim] = lambda args, dims, /, **params: _batch_together(
        prim, args, dims, params, repeat=False
    )


def defreducer(prim: Primitive, ident: object = None) -> None:
    """Declares that a primitive reduces one array along the axes of its parameter `axes`.

    Args:
        prim: the primitive.
        ident: what reducing nothing gives; not needed, since a batch has one size.
    """

    def batch(
        args: Sequence[Array], dims: Sequence[Axis], /, *, axes: Sequence[int], **params: object
    ) -> tuple[PyTree, PyTree]:
        (x,), (dim,) = args, dims
        assert dim is not None
        results = prim.bind(x, axes=tuple([a + (a >= dim) for a in axes]), **params)
        axis = dim - sum([a < dim for a in axes])
        return results, [axis] * len(results) if prim.multiple_results else axis

    primitive_batchers[prim] = batch


def _batch_together(
    prim: Primitive, args: Sequence[Array], dims: Sequence[Axis], params: dict[str, object], *, repeat: bool
) -> PyTree:
    if len({(x.type.ndim, d) for x, d in zip(args, dims, strict=True)}) == 1:
        results, axis = prim.bind(*args, **params), dims[0]
    else:
        size = next(x.type.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        rank = max([x.type.ndim - (d is not None) for x, d in zip(args, dims, strict=True)])
        batched_operands = [
            x if d is None and not repeat else _move_batch_to_front(x, d, size, rank)
            for x, d in zip(args, dims, strict=True)
        ]
        results, axis = prim.bind(*batched_operands, **params), 0
    return results, [axis] * len(results) if prim.multiple_results else axis


def _move_batch_to_front(x: Array, axis: Axis, size: int, rank: int) -> Array:
    """Returns a batch with its axis in front of elements of some rank."""
    fronted = bdim_at_front(x, axis, size)
    sizes = fronted.type.shape[1:]
    return reshape(fronted, (size, *[1] * (rank - len(sizes)), *sizes))
