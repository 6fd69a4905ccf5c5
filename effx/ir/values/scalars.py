"""Constants of rank 0 on the host, and the numbers that a dtype of integers holds."""

from effx import dtypes
from effx.dtypes import DType
from effx.errors import name_user_call
from effx.ir.types import array_type
from effx.ir.values.boxes import HostArray
from effx.ir.values.described import Number

_INT_RANGE: dict[DType, tuple[int, int]] = {}


def int_range(dtype: DType) -> tuple[int, int]:
    """Returns the least and the greatest number of a dtype of integers."""
    entry = _INT_RANGE.get(dtype)
    if entry is None:
        info = dtypes.iinfo(dtype)
        entry = _INT_RANGE[dtype] = (int(info.min), int(info.max))
    return entry


def scalar(value: Number, dtype: DType, weak: bool = True) -> HostArray:
    """Returns a rank-0 host array of `dtype`.

    Raises:
        OverflowError: an int that does not fit the dtype.
    """
    if type(value) is int and dtypes.is_integer(dtype):
        low, high = int_range(dtype)
        if not low <= value <= high:
            check_fits(value, dtype)
    return HostArray(value, array_type(dtype, (), weak))


def check_fits(value: int, dtype: DType) -> None:
    """Refuses an int that a dtype of integers cannot hold.

    Raises:
        OverflowError: it does not fit.
    """
    low, high = int_range(dtype)
    if not low <= value <= high:
        raise OverflowError(
            f"{name_user_call()}: python int {value} is out of bounds for {dtypes.short_name(dtype)}"
        )
