"""The largest and smallest elements, of which a few may be missed: `approx_max_k` and `approx_min_k`.

No platform has a faster way here than sorting, so none is missed.
"""

import math
from operator import index

from effx import dtypes
from effx.array import Array, Operand
from effx.array.promotion import as_operand
from effx.errors import DTypeError, ShapeError
from effx.ir.ops import shape as s
from effx.ir.types import array_type
from effx.lax.operands import check_int, resolve_axis
from effx.lax.sorting import sort_key_val, top_k

__all__ = ["approx_max_k", "approx_min_k"]


def approx_max_k(
    operand: Operand,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """Returns the largest elements along an axis and their indices; the search is exact, whatever `recall_target`
    allows.

    Args:
        operand: floating, with at least one axis.
        k: how many, from 1 to the axis' size.
        reduction_dimension: the axis; negative ones count from the end.
        recall_target: the fraction of the k largest that must be found, above 0 and at most 1.
        reduction_input_size_override: the axis' size in the whole array, of which the operand is a part; -1 for the
            operand's own.
        aggregate_to_topk: False to get as many candidates as parts of several machines need, so that the k
            largest of all are among them with the fraction `recall_target`; see Chern et al., "TPU-KNN", 2022.

    Returns:
        The k largest, or the candidates, in descending order with NaN first, and their i32 indices along the axis.

    Raises:
        DTypeError: the operand is not floating.
        ShapeError: the axis, k, the recall or the size is out of range.

    >>> import numpy as np
    >>> approx_max_k(np.array([3.0, 9.0, 5.0], np.float32), 2)
    (Array([9., 5.], dtype=float32), Array([1, 2], dtype=int32))
    """
    x, axis, count = _check_approx_arguments(
        "approx_max_k",
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
    )
    return top_k(x, count, axis=axis)


def approx_min_k(
    operand: Operand,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """Returns the smallest elements along an axis and their indices; the search is exact, whatever `recall_target`
    allows.

    Args:
        operand: floating, with at least one axis.
        k: how many, from 1 to the axis' size.
        reduction_dimension: the axis; negative ones count from the end.
        recall_target: the fraction of the k smallest that must be found, above 0 and at most 1.
        reduction_input_size_override: the axis' size in the whole array, of which the operand is a part; -1 for the
            operand's own.
        aggregate_to_topk: False to get as many candidates as `approx_max_k` gives.

    Returns:
        The k smallest, or the candidates, in ascending order with NaN last, and their i32 indices along the axis.

    Raises:
        DTypeError: the operand is not floating.
        ShapeError: the axis, k, the recall or the size is out of range.

    >>> import numpy as np
    >>> approx_min_k(np.array([3.0, 9.0, 5.0], np.float32), 2)
    (Array([3., 5.], dtype=float32), Array([0, 2], dtype=int32))
    """
    x, axis, count = _check_approx_arguments(
        "approx_min_k",
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
    )
    t = x.type
    values, indices = sort_key_val(x, s.Iota(array_type(dtypes.int32, t.shape), axis)(), axis)
    limit = tuple([count if i == axis else n for i, n in enumerate(t.shape)])
    cut = s.Slice((0,) * t.ndim, limit, (1,) * t.ndim)
    return cut(values), cut(indices)


def _check_approx_arguments(
    function_name: str,
    operand: Operand,
    k: int,
    dimension: int,
    recall: float,
    override: int,
    aggregate: bool,
) -> tuple[Array, int, int]:
    """Checks the arguments; returns the operand, the axis from the start, and the number of elements to return."""
    x = as_operand(operand, function_name)
    t = x.type
    if t.kind != "f":
        raise DTypeError(f"{function_name}: the operand must be floating, got {t!r}")
    axis = resolve_axis(function_name, dimension, t)
    size, count, full_size = t.shape[axis], check_int(function_name, "k", k), index(override)
    if not 1 <= count <= size:
        raise ShapeError(
            f"{function_name}: k must be from 1 to {size}, the size of axis {axis} of {t!r}, got {count}"
        )
    if not 0 < recall <= 1:
        raise ShapeError(f"{function_name}: recall_target must be above 0 and at most 1, got {recall}")
    if full_size != -1 and full_size < size:
        raise ShapeError(
            f"{function_name}: reduction_input_size_override must be -1 or at least {size}, the size of axis {axis} "
            f"of {t!r}, "
            f"got {full_size}"
        )
    if aggregate:
        return x, axis, count
    # Of L bins of equal size, each with its best element, k in different bins are found with the probability
    # (1 - 1/L)^(k - 1), which exceeds the recall where L >= (1 - k) / log(recall). The operand has its part of the
    # bins.
    bins = math.inf if recall == 1 else (1 - count) / math.log(recall)
    part = 1.0 if full_size == -1 else size / full_size
    return x, axis, size if math.isinf(bins) else min(size, max(count, math.ceil(bins * part)))
