"""Arrays from and to files, buffers, text, iterators and other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from effx import dtypes
from effx.array import Array
from effx.lower.placement.concrete import from_dlpack as shared
from effx.numpy.creation import asarray

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import IO

    from effx.dtypes import DTypeLike

__all__ = ["from_dlpack", "frombuffer", "fromfile", "fromiter", "fromstring", "load"]


def load(file: IO[bytes] | str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
    """Reads an array from a file that NumPy wrote.

    Args:
        file: a path or an open file.
        *args, **kwargs: as for `numpy.load`.

    Returns:
        An array; what `numpy.load` returns, for an archive of several, and of objects, strings or times, which are no
        elements of arrays here.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, asarray([1.0, 2.0]))
    >>> _ = file.seek(0)
    >>> load(file).tolist()
    [1.0, 2.0]
    """
    result = np.load(file, *args, **kwargs)
    if not isinstance(result, np.ndarray):
        return result
    if result.dtype.kind == "V" and result.dtype.itemsize == 2 and not result.dtype.names:
        result = result.view(dtypes.bfloat16)  # NumPy's format has no name for it
    return result if result.dtype.kind in "OSUmM" else asarray(result)


def from_dlpack(x: object, /, *, device: object = None, copy: bool | None = None) -> Array:
    """Takes over an array of another library through DLPack.

    Args:
        x: an object with `__dlpack__`.
        device: the device of the result; by default the array's own.
        copy: True for a copy; False to refuse one, and None to copy only where it must.

    Raises:
        BackendError: the array cannot be imported, or not without a copy.

    >>> from_dlpack(np.arange(3.0, dtype=np.float32)).tolist()
    [0.0, 1.0, 2.0]
    """
    return shared(x, device=device, copy=copy)


def frombuffer(
    buffer: bytes | bytearray | memoryview, dtype: DTypeLike = float, count: int = -1, offset: int = 0
) -> Array:
    """Reads a vector from the bytes of a buffer.

    Args:
        buffer: bytes, or an object with the buffer protocol.
        dtype: of the elements in the buffer.
        count: how many to read; -1 for all.
        offset: how many bytes to skip.

    >>> frombuffer(b"\\x01\x02", "uint8").tolist()
    [1, 2]
    """
    return asarray(np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset))


def fromfile(
    file: IO[bytes] | str | os.PathLike[str],
    dtype: DTypeLike = float,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
) -> Array:
    """Reads a vector from a file of bare elements, or of text with a separator.

    Args:
        file: a path or an open file.
        dtype: of the elements in the file.
        count: how many to read; -1 for all.
        sep: between the elements of text; the empty one for bytes.
        offset: how many bytes to skip.

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     _ = file.write(b"\\x01\x02")
    ...     _ = file.seek(0)
    ...     fromfile(file, "uint8").tolist()
    [1, 2]
    """
    return asarray(np.fromfile(file, dtypes.as_dtype(dtype), count, sep, offset))


def fromiter(iter: Iterable[complex], dtype: DTypeLike, count: int = -1) -> Array:
    """Reads a vector from an iterator of numbers.

    Args:
        iter: the numbers.
        dtype: of the array.
        count: how many to read; -1 for all.

    >>> fromiter(range(3), "float32").tolist()
    [0.0, 1.0, 2.0]
    """
    return asarray(np.fromiter(iter, dtypes.as_dtype(dtype), count))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """Reads a vector from text.

    Args:
        string: numbers with separators.
        dtype: of the array.
        count: how many to read; -1 for all.
        sep: between them.

    >>> fromstring("1 2", sep=" ").tolist()
    [1.0, 2.0]
    """
    return asarray(np.fromstring(string, dtypes.as_dtype(dtype), count, sep=sep))
