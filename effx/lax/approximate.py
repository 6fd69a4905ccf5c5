"""The largest and smallest elements, of which a few may be missed: `approx_max_k` and `approx_min_k`.

TPUs have a faster way than sorting, by which a few are missed.
"""

import math
from operator import index

from effx.array import Array, Operand
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.errors import DTypeError, ShapeError, name_user_call
from effx.families.topk import ApproximateTopK
from effx.lax.operands import check_int, resolve_axis

__all__ = ["approx_max_k", "approx_min_k"]


def approx_max_k(
    operand: Operand,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """Returns the largest elements along an axis and their indices. On TPUs some are missed, as `recall_target` allows;
    elsewhere the search is exact.

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
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
    )
    return _choose(x, axis, count, recall_target, reduction_input_size_override, aggregate_to_topk, False)


def approx_min_k(
    operand: Operand,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """Returns the smallest elements along an axis and their indices. On TPUs some are missed, as `recall_target` allows;
    elsewhere the search is exact.

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
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
    )
    return _choose(x, axis, count, recall_target, reduction_input_size_override, aggregate_to_topk, True)


def _choose(
    x: Array, axis: int, count: int, recall: float, size: int, aggregate: bool, smallest: bool
) -> tuple[Array, Array]:
    last = x.type.ndim - 1
    # How many candidates a TPU gives each machine is XLA's to say, so those are exact.
    op = ApproximateTopK(count, float(recall) if aggregate else 1.0, index(size), smallest)
    values, indices = op(moveaxis(x, axis, last))
    return moveaxis(values, last, axis), moveaxis(indices, last, axis)


def _check_approx_arguments(
    operand: Operand,
    k: int,
    dimension: int,
    recall: float,
    override: int,
    aggregate: bool,
) -> tuple[Array, int, int]:
    """Checks the arguments; returns the operand, the axis from the start, and the number of elements to return."""
    x = as_operand(operand)
    t = x.type
    if t.kind != "f":
        raise DTypeError(f"{name_user_call()}: the operand must be floating, got {t!r}")
    axis = resolve_axis(dimension, t)
    size, count, full_size = t.shape[axis], check_int("k", k), index(override)
    if not 1 <= count <= size:
        raise ShapeError(
            f"{name_user_call()}: k must be from 1 to {size}, the size of axis {axis} of {t!r}, got {count}"
        )
    if not 0 < recall <= 1:
        raise ShapeError(f"{name_user_call()}: recall_target must be above 0 and at most 1, got {recall}")
    if full_size != -1 and full_size < size:
        raise ShapeError(
            f"{name_user_call()}: reduction_input_size_override must be -1 or at least {size}, the size of axis {axis} "
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
