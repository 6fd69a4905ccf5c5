"""`ds`: slices of static size whose start may be an array, `x[ds(i, 3)]`."""

from operator import index as as_int
from typing import Any, final

import attrs
import numpy as np

from effx.array.promotion import as_operand
from effx.errors import IndexingError
from effx.ir.values.array import Array

__all__ = ["Window", "ds"]


@final
@attrs.frozen(eq=False)
class Window:
    """An index: `size` elements from `start` in steps of `stride`.

    Attributes:
        start: a number, or an integer array of rank 0.
        size, stride: numbers.
    """

    start: int | Array
    size: int
    stride: int = 1


def ds(start: Any, size: int | None = None, stride: int | None = None) -> "slice | Window":
    """Returns an index for `size` elements from a start, which may be an array: the size is static in any case.

    Args:
        start: the first element, an int or an integer array of rank 0; negative ones count from the end. Without `size`, the
            number of elements from 0 on, and None for all. None with a size for 0.
        size: the number of elements.
        stride: the step between elements; None for 1.

    Returns:
        An index for `x[...]` and `x.at[...]`. A start that is an array is clamped for reading so that all elements are
        inside the axis; writing drops elements outside. A start that is a number is that of a slice.

    Raises:
        IndexingError: the start is no integer, the size is negative, or the stride is not positive.

    >>> import effx, effx.numpy as enp
    >>> x = enp.arange(10)
    >>> x[effx.ds(4, 2)], effx.jit(lambda i: x[effx.ds(i, 3, 2)])(1)
    (Array([4, 5], dtype=int32), Array([1, 3, 5], dtype=int32))
    """
    if start is None and size is None:
        return slice(None, None, stride)
    if start is None or size is None:
        start, size = 0, start if size is None else size
    try:
        count, step = as_int(size), 1 if stride is None else as_int(stride)
    except TypeError:
        raise IndexingError(f"ds: size and stride must be ints, got {size!r} and {stride!r}") from None
    if count < 0 or step < 1:
        raise IndexingError(f"ds: size must be 0 or more and stride 1 or more, got {count} and {step}")
    if not isinstance(start, Array | np.ndarray):
        try:
            return Window(as_int(start), count, step)
        except TypeError:
            raise IndexingError(f"ds: start must be an int or an integer array, got {start!r}") from None
    start_array = as_operand(start)
    if start_array.type.kind not in "iu" or start_array.type.shape:
        raise IndexingError(
            f"ds: start must be an int or an integer array of rank 0, got {start_array.type!r}"
        )
    return Window(start_array, count, step)
