"""`ragged_all_to_all`: the exchange of slices of several sizes between the indices of a named axis."""

from effx import dtypes
from effx.array import Array, Operand, arithmetic
from effx.array.indexing import getitem
from effx.array.promotion import as_operand, convert
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.ir.ops.elementwise import Select
from effx.ir.ops.reduce import ReduceMax
from effx.ir.ops.shape import BroadcastInDim
from effx.ir.values.scalars import scalar
from effx.lax.exchange import all_gather, all_to_all
from effx.lax.named_axes import AxisNames, Groups, axis_names, resolve_index_groups
from effx.lax.shape import iota

__all__ = ["ragged_all_to_all"]


def ragged_all_to_all(
    operand: Operand,
    output: Operand,
    input_offsets: Operand,
    send_sizes: Operand,
    output_offsets: Operand,
    recv_sizes: Operand,
    *,
    axis_name: AxisNames,
    axis_index_groups: Groups = None,
) -> Array:
    """Sends slices of the rows of each index's array to the other indices, which write them into their own arrays.

    Of K slices the first K / n go to index 0, the next to index 1, and so on, n being the size of the named axis. Slice
    k is `operand[input_offsets[k]:input_offsets[k] + send_sizes[k]]`; the receiver writes it at row
    `output_offsets[k]` of its result. Received slices are written in the order of the senders.

    Every index receives all rows of all others and selects those that were sent to it, so that the rows need n times
    their memory. Differentiable by `operand` and `output`, in both modes.

    Args:
        operand: `[n_rows, *s]`, the rows to send from.
        output: `[m_rows, *s]`, of the dtype of `operand`: the result where nothing is received.
        input_offsets: `i32[K]`, where the slices to send begin.
        send_sizes: `i32[K]`, their numbers of rows.
        output_offsets: `i32[K]`, the rows at which the receivers write them.
        recv_sizes: `i32[K]`, the numbers of rows of the slices that are received:
            `all_to_all(send_sizes, axis_name, 0, 0, tiled=True)`. Where the two differ, the smaller number is written.
        axis_name: a name that a surrounding `vmap`, `pmap` or `shard_map` binds, or several, the last fastest.
        axis_index_groups: groups of indices, each of which exchanges by itself.

    Returns:
        `[m_rows, *s]`: `output` with what was received.

    Raises:
        AxisNameError: nothing binds the name.
        ShapeError: rows differ in shape, the offsets and sizes are no vectors of one length, which the axis' size
            divides, or the groups do not name each index once or differ in size.
        DTypeError: `operand` and `output` differ in dtype, or offsets or sizes are no integers.

    >>> import effx, numpy as np
    >>> def exchange(x, starts, sizes, places, received):
    ...     return ragged_all_to_all(x, np.zeros(4, np.int32), starts, sizes, places, received, axis_name="i")
    >>> rows, starts = np.array([[1, 2, 2], [3, 4, 0]]), np.array([[0, 1], [0, 1]])
    >>> sizes, places, received = np.array([[1, 2], [1, 1]]), np.array([[0, 0], [1, 2]]), np.array([[1, 1], [2, 1]])
    >>> effx.vmap(exchange, axis_name="i")(rows, starts, sizes, places, received)
    Array([[1, 3, 0, 0],
           [2, 2, 4, 0]], dtype=int32)
    """
    _, group_size = resolve_index_groups(axis_names(axis_name), axis_index_groups)
    x, out = as_operand(operand), as_operand(output)
    starts, sent, target_offsets, received = [
        _check_index_vector(name, value)
        for name, value in (
            ("input_offsets", input_offsets),
            ("send_sizes", send_sizes),
            ("output_offsets", output_offsets),
            ("recv_sizes", recv_sizes),
        )
    ]
    t, goal = x.type, out.type
    if t.ndim < 1 or goal.ndim < 1 or t.shape[1:] != goal.shape[1:]:
        raise ShapeError(
            f"{name_user_call()}: operand and output must have rows of one shape, got {t!r} and {goal!r}"
        )
    if t.dtype != goal.dtype:
        raise DTypeError(
            f"{name_user_call()}: operand and output must have one dtype, got {t!r} and {goal!r}"
        )
    vectors = [starts, sent, target_offsets, received]
    count = starts.type.shape[0]
    if any([v.type.shape != (count,) for v in vectors]):
        raise ShapeError(
            f"{name_user_call()}: input_offsets, send_sizes, output_offsets and recv_sizes must have one length, got "
            f"{', '.join([repr(v.type) for v in vectors])}"
        )
    if count % group_size:
        raise ShapeError(
            f"{name_user_call()}: the number of slices, {count}, must be divisible by {group_size}, the axis size"
        )
    if not count or not goal.shape[0] or not t.shape[0]:
        return out

    # Slice k that is received comes from index k // (count // group_size), is written at row `places[k]` here, and
    # begins at row `starts[k]` there, so that row m of the result is its row m - places[k] + starts[k].
    starts = all_to_all(starts, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)
    target_offsets = all_to_all(
        target_offsets, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True
    )
    sent = all_to_all(sent, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)
    every = all_gather(x, axis_name, axis_index_groups=axis_index_groups, tiled=True)
    first = iota(dtypes.int32, count) // (count // group_size) * t.shape[0] + starts - target_offsets

    shape = (count, goal.shape[0])
    row = iota(dtypes.int32, goal.shape[0])

    def down(x: Array) -> Array:
        return BroadcastInDim(shape, (0,))(x)

    rows = BroadcastInDim(shape, (1,))(row)
    here = (rows >= down(target_offsets)) & (rows < down(target_offsets + arithmetic.minimum(sent, received)))
    none = BroadcastInDim(shape, ())(scalar(-1, dtypes.int32, False))
    last = ReduceMax((0,))(Select()(here, none, down(iota(dtypes.int32, count))))
    hit = last >= 0
    source = getitem(first, arithmetic.maximum(last, 0)) + row
    mine = getitem(
        every, Select()(hit, BroadcastInDim(row.type.shape, ())(scalar(0, dtypes.int32, False)), source)
    )
    return Select()(BroadcastInDim(goal.shape, (0,))(hit), out, convert(mine, goal.dtype, goal.weak))


def _check_index_vector(name: str, value: Operand) -> Array:
    x = as_operand(value)
    if x.type.kind not in "iu":
        raise DTypeError(f"ragged_all_to_all: {name} must be integers, got {x.type!r}")
    if x.type.ndim != 1:
        raise ShapeError(f"ragged_all_to_all: {name} must be a vector, got {x.type!r}")
    return convert(x, dtypes.int32)
