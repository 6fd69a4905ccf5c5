"""Print arrays as NumPy does, with dtype and weak type."""

import numpy as np

from effx.dtypes import float0, is_integer, is_key, short_name
from effx.ir.values.array import Array, HostData


def array_repr(x: Array) -> str:
    """Returns `Array([1., 2.], dtype=float32)`, as NumPy prints arrays."""
    data = x.host("repr(x)")
    if is_key(x.type.dtype):
        return f"Array({x.type.shape}, dtype={short_name(x.type.dtype)}) overlaying:\n{host_text(x)}"
    name = "float0" if x.type.dtype == float0 else x.type.dtype.name
    suffix = f"dtype={name}{', weak_type=True' if x.type.weak else ''})"
    text = np.array2string(
        _as_printable_dtype(data), separator=", ", prefix="Array(", suffix=",", threshold=1000
    )
    if x.type.size == 0:
        text = f"[], shape={x.type.shape}"
    last = len(text) - (text.rfind("\n") + 1)
    width = np.get_printoptions()["linewidth"]
    joint = ", " if last + len(suffix) + 8 < width else ",\n      "
    return f"Array({text}{joint}{suffix}"


def host_text(x: Array) -> str:
    """Returns the elements as NumPy prints them."""
    data = x.host("str(x)")
    if is_key(x.type.dtype):
        return str(data[short_name(x.type.dtype)])
    return str(_as_printable_dtype(data))


def _as_printable_dtype(data: HostData) -> HostData:
    """Returns data of ml_dtypes' types and float0, which print as records, in a dtype of NumPy's own."""
    if data.dtype.isbuiltin == 1:
        return data
    if data.dtype == float0:
        return np.zeros(data.shape, bool)
    return data.astype(np.int8 if is_integer(data.dtype) else np.float32)
