"""Reductions that skip NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from effx.array import Array, arithmetic, reducing
from effx.array.promotion import as_operand
from effx.array.reducing import refuse_out
from effx.dtypes import DTypeLike
from effx.effects import perform
from effx.ir.values.scalars import scalar
from effx.numpy.logic import isnan

if TYPE_CHECKING:
    from effx.array import Number, Operand
    from effx.ir.values.array import Axis

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar",
]  # fmt: skip


def _replace_nan(a: Operand, fill: Number) -> tuple[Array, Array | None]:
    """Returns the array with NaN replaced, and where it was not NaN; None if the dtype has no NaN."""
    x = as_operand(a)
    if x.type.kind not in "fc":
        return x, None
    missing = isnan(x)
    return arithmetic.where(missing, scalar(fill, x.type.dtype), x), perform(arithmetic.NOT, (missing,))


def nansum(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The sum over axes, NaN left out. Arguments as for `sum`.

    >>> import numpy as np
    >>> float(nansum(np.array([1.0, math.nan])))
    1.0
    """
    refuse_out(out)
    return reducing.sum(_replace_nan(a, 0)[0], axis, dtype, keepdims, initial, where)


def nanprod(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The product over axes, NaN left out. Arguments as for `sum`.

    >>> import numpy as np
    >>> float(nanprod(np.array([2.0, math.nan])))
    2.0
    """
    refuse_out(out)
    return reducing.prod(_replace_nan(a, 1)[0], axis, dtype, keepdims, initial, where)


def _nan_extreme(
    a: Operand,
    fill: float,
    axis: Axis,
    keepdims: bool,
    initial: Operand | None,
    where: Operand | None,
) -> Array:
    x, present = _replace_nan(a, fill)
    reduce = reducing.max if fill < 0 else reducing.min
    result = reduce(x, axis, keepdims, initial, where)
    if present is None:
        return result
    # Where all are NaN, so is the result, unless there is an initial value.
    has_number = reducing.any(present, axis, keepdims, where)
    return (
        result
        if initial is not None
        else arithmetic.where(has_number, result, scalar(math.nan, result.type.dtype))
    )


def nanmax(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The largest element over axes, NaN left out; NaN where all are NaN.

    >>> import numpy as np
    >>> float(nanmax(np.array([1.0, math.nan])))
    1.0
    """
    refuse_out(out)
    return _nan_extreme(a, -math.inf, axis, keepdims, initial, where)


def nanmin(
    a: Operand,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Operand | None = None,
    where: Operand | None = None,
) -> Array:
    """The smallest element over axes, NaN left out; NaN where all are NaN.

    >>> import numpy as np
    >>> float(nanmin(np.array([1.0, math.nan])))
    1.0
    """
    refuse_out(out)
    return _nan_extreme(a, math.inf, axis, keepdims, initial, where)


def _nan_arg_reduction(a: Operand, fill: float, axis: int | None, keepdims: bool) -> Array:
    x, present = _replace_nan(a, fill)
    pick = reducing.argmax if fill < 0 else reducing.argmin
    result = pick(x, axis, keepdims)
    if present is None:
        return result
    return arithmetic.where(reducing.any(present, axis, keepdims), result, scalar(-1, result.type.dtype))


def nanargmax(a: Operand, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the largest element that is not NaN; -1 where all are NaN.

    >>> import numpy as np
    >>> int(nanargmax(np.array([1.0, math.nan])))
    0
    """
    refuse_out(out)
    return _nan_arg_reduction(a, -math.inf, axis, bool(keepdims))


def nanargmin(a: Operand, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
    """The index of the smallest element that is not NaN; -1 where all are NaN.

    >>> import numpy as np
    >>> int(nanargmin(np.array([math.nan, 1.0])))
    1
    """
    refuse_out(out)
    return _nan_arg_reduction(a, math.inf, axis, bool(keepdims))


def _count_present(a: Operand, where: Operand | None) -> tuple[Array, Array | None]:
    x, present = _replace_nan(a, 0)
    if present is None:
        return x, None if where is None else reducing.as_mask(where)
    return x, present if where is None else present & reducing.as_mask(where, present.type.ndim)


def nanmean(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    where: Operand | None = None,
) -> Array:
    """The mean over axes of the elements that are not NaN.

    >>> import numpy as np
    >>> float(nanmean(np.array([1.0, 3.0, math.nan])))
    2.0
    """
    refuse_out(out)
    x, present = _count_present(a, where)
    return reducing.mean(x, axis, dtype, keepdims, present)


def nanvar(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Operand | None = None,
    mean: Operand | None = None,
) -> Array:
    """The variance over axes of the elements that are not NaN; NaN where there are too few.

    >>> import numpy as np
    >>> float(nanvar(np.array([1.0, 3.0, math.nan])))
    1.0
    """
    refuse_out(out)
    x, present = _count_present(a, where)
    return reducing.var(x, axis, dtype, ddof, keepdims, where=present, around=mean)


def nanstd(
    a: Operand,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Operand | None = None,
    mean: Operand | None = None,
) -> Array:
    """The standard deviation over axes of the elements that are not NaN.

    >>> import numpy as np
    >>> float(nanstd(np.array([1.0, 3.0, math.nan])))
    1.0
    """
    refuse_out(out)
    x, present = _count_present(a, where)
    return reducing.std(x, axis, dtype, ddof, keepdims, where=present, around=mean)


def nancumsum(a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Running sums along an axis, NaN left out.

    >>> import numpy as np
    >>> nancumsum(np.array([1.0, math.nan, 2.0])).tolist()
    [1.0, 1.0, 3.0]
    """
    refuse_out(out)
    return reducing.cumsum(_replace_nan(a, 0)[0], axis, dtype)


def nancumprod(
    a: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None
) -> Array:
    """Running products along an axis, NaN left out.

    >>> import numpy as np
    >>> nancumprod(np.array([2.0, math.nan, 3.0])).tolist()
    [2.0, 2.0, 6.0]
    """
    refuse_out(out)
    return reducing.cumprod(_replace_nan(a, 1)[0], axis, dtype)
