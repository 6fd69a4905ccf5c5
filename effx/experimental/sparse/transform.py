"""`sparsify`: functions of arrays become functions of sparse arrays; and what the handler makes of `lax`'s functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from effx import lax
from effx.array import Array, Operand
from effx.dtypes import DTypeLike
from effx.errors import TransformError, check_function
from effx.experimental.sparse import moving, pointwise  # noqa: F401  # their rules register themselves
from effx.experimental.sparse.bcoo import BCOO
from effx.experimental.sparse.handler import Sparsify
from effx.experimental.sparse.handler import on_sparse as on_sparse
from effx.lax.conv_shapes import ConvDimensionNumbers
from effx.lax.index import GatherDimensionNumbers, GatherScatterMode
from effx.lax.products import PrecisionLike
from effx.tracing.wrapping import wraps
from effx.transforms.jit.jit import jit
from effx.tree.registry import PyTree

__all__ = ["Sparsify", "bcoo_conv_general_dilated", "bcoo_gather", "sparsify"]


def sparsify(f: Callable[..., PyTree], use_tracer: bool = False) -> Callable[..., PyTree]:
    """Return a function that takes sparse arrays where a function takes arrays.

    The function computes with what is stored: with `lax` and `effx.numpy`, derivatives, batches, loops and branches in
    it, and needs no code for sparse arrays. Sparse operands of elementwise operations must give 0 where nothing
    is stored; products, sums, and operations that move elements are sparse by nature. An operation whose result would
    be dense is refused, and so is one without a sparse form: `sparse.todense` in the function makes an array dense.

    Where branches or iterations give a sparse and a dense array, the result is dense; of sparse ones it stores as many
    elements as the one with most; a loop whose body stores more in each iteration, as `x + m` does, is refused. Results
    without sparse axes are arrays.

    Args:
        f: a function of arrays.
        use_tracer: False to stage the function and compile it as a whole, as `jit` does; True to perform operation by
            operation as it runs, so that it may read the values of dense arrays, and take arguments that are no arrays.

    Returns:
        A function that takes sparse arrays of any format, in pytrees, too, and gives `BCOO` and arrays. It may be
        differentiated, batched and jitted.

    Raises:
        TransformError: `f` is no function, or `use_tracer` is no bool.
        NoRuleError: from the function, for an operation that is refused.

    >>> import effx.numpy as enp
    >>> f = sparsify(lambda m, v: 2 * enp.dot(enp.log1p(m.T), v) + 1)
    >>> f(BCOO.fromdense(enp.array([[0.0, 1.0], [3.0, 0.0]])), enp.array([1.0, 2.0]))
    Array([6.5451775, 2.3862944], dtype=float32)
    """
    check_function(f)
    if not isinstance(use_tracer, bool):
        raise TransformError(f"sparsify: use_tracer must be a bool, got {use_tracer!r}")
    sparse_function = on_sparse(f)
    return sparse_function if use_tracer else wraps(f)(jit(sparse_function))


def bcoo_gather(
    operand: BCOO,
    start_indices: Array,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: complex | None = None,
) -> BCOO | Array:
    """Collect slices of an array at computed starts, as `lax.gather`.

    Args:
        operand: a sparse array.
        start_indices: i32[*b, k], vectors of k starts.
        dimension_numbers: the roles of the axes.
        slice_sizes: the size of a slice along each axis of the operand.
        unique_indices: True to promise starts that differ.
        indices_are_sorted: True to promise sorted starts.
        mode: for starts out of range: "clip" (the default), "fill" or "promise_in_bounds".
        fill_value: for "fill"; only 0 keeps the result sparse.

    Returns:
        A sparse array whose first axes `*b` are batch axes where the slices' axes are behind them; an array where
        slices have one element each and no axes.

    Raises:
        ShapeError: shapes and dimension numbers do not fit.
        NoRuleError: what is filled in is not 0.

    >>> import effx.numpy as enp
    >>> numbers = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> bcoo_gather(BCOO.fromdense(enp.eye(3)), enp.array([[2], [0]]), numbers, (1, 3)).todense().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    def gathered(x: Array) -> Array:
        return lax.gather(
            x, start_indices, dimension_numbers, slice_sizes, unique_indices=unique_indices,
            indices_are_sorted=indices_are_sorted, mode=mode, fill_value=fill_value,
        )  # fmt: skip

    return cast("BCOO | Array", on_sparse(gathered)(operand))


def bcoo_conv_general_dilated(
    lhs: BCOO | Operand,
    rhs: BCOO | Operand,
    *,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: ConvDimensionNumbers | tuple[str, str, str] | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> BCOO:
    """Convolve a sparse array with a kernel, which is not reversed, along any number of axes.

    Args:
        lhs: [n, c, *space], or with axes in the order of `dimension_numbers`.
        rhs: [o, c / feature_group_count, *window]; of the two arrays one may be dense.
        window_strides: by how much the kernel moves along each spatial axis.
        padding: "VALID", "SAME" or "SAME_LOWER", or a pair of amounts for each spatial axis.
        lhs_dilation: the distance of neighbouring elements along each spatial axis; 1 by default.
        rhs_dilation: likewise, of the kernel.
        dimension_numbers: as in `lax.conv_general_dilated`.
        feature_group_count: in how many groups the features are convolved.
        batch_group_count: in how many groups the batch of lhs and the features of the result are.
        precision: checked; products of elements are computed in full.
        preferred_element_type: the dtype of the sums and of the result.

    Returns:
        A sparse array [n / batch_group_count, o, *positions], which stores at most a product for each pair of elements.

    Raises:
        ShapeError: ranks or sizes do not fit.

    >>> import effx.numpy as enp
    >>> x, kernel = BCOO.fromdense(enp.array([[[0.0, 1.0, 0.0, 0.0, 2.0]]])), enp.array([[[1.0, 10.0]]])
    >>> y = bcoo_conv_general_dilated(x, kernel, window_strides=[1], padding="VALID")
    >>> y.todense().tolist()
    [[[10.0, 1.0, 0.0, 20.0]]]
    """

    def convolved(x: Array, kernel: Array) -> Array:
        return lax.conv_general_dilated(
            x, kernel, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, feature_group_count,
            batch_group_count, precision, preferred_element_type,
        )  # fmt: skip

    if not isinstance(lhs, BCOO) and not isinstance(rhs, BCOO):
        raise TransformError("bcoo_conv_general_dilated: one operand must be sparse")
    return cast("BCOO", on_sparse(convolved)(lhs, rhs))
