"""Specs, dtypes, contexts and errors of arrays in tensorstore.

Each part is a file of plain zarr3 with a checksum, not one database (OCDBT): processes need not merge
anything, and JAX reads the files. dtypes that tensorstore does not have are stored as bits, with an
attribute.

Never: decide which parts a process writes or reads; `arrays` does.
"""

import importlib
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.dtypes import DType
from effx.errors import BackendError, CheckpointError, DTypeError, EffxError
from effx.ir.types import Shape
from effx.ir.values.array import HostData

if TYPE_CHECKING:
    import tensorstore as ts

Spec: TypeAlias = Mapping[str, object]
"""A spec of tensorstore as JSON, or a part of one."""

FILE_BYTES = (
    64 << 20
)  # larger shards are split into several files, so that another sharding need not read all of them
CACHE_BYTES = 256 << 20  # of files that several devices read parts of
_ATTRIBUTE = "effx_dtype"
# dtypes that some version of tensorstore since 0.1.76 does not have.
_AS_BITS = frozenset({
    dtypes.uint2, dtypes.uint4, dtypes.float4_e2m1fn, dtypes.float8_e4m3, dtypes.float8_e8m0fnu,
})  # fmt: skip
_contexts: "list[ts.Context]" = []


def import_tensorstore(function_name: str) -> ModuleType:
    """Returns the library.

    Raises:
        BackendError: it is not installed.
    """
    try:
        return importlib.import_module("tensorstore")
    except ImportError:
        raise BackendError(
            f"{function_name}: checkpoints are stored by tensorstore, which is not installed; pip install 'effx[checkpoint]'"
        ) from None


def shared_context(function_name: str) -> "ts.Context":
    """Returns the context in which all stores are opened by default: it bounds how much is done at a time."""
    if not _contexts:
        limits = {"file_io_concurrency": {"limit": 32}, "cache_pool": {"total_bytes_limit": 0}}
        _contexts.append(import_tensorstore(function_name).Context(limits))
    return _contexts[0]


def caching_context(function_name: str) -> "ts.Context":
    """Returns a context for one load, in which a file is read once though several devices need parts of it."""
    cache = {"cache_pool": {"total_bytes_limit": CACHE_BYTES}}
    return cast("ts.Context", import_tensorstore(function_name).Context(cache, shared_context(function_name)))


@contextmanager
def raise_as_storage_errors(function_name: str, where: str) -> Iterator[None]:
    """Says what was done with which array where tensorstore raises."""
    try:
        yield
    except (ValueError, OSError, RuntimeError, IndexError) as error:
        if isinstance(error, EffxError):
            raise
        raise CheckpointError(f"{function_name}: {where}: {error}") from error


# --- dtypes ---------------------------------------------------------------------------------------


@final
@attrs.frozen
class StoredForm:
    """How the elements of a dtype are stored.

    Attributes:
        dtype: of the array in the store.
        words: the sizes of the axes that it has at the end for each element: those of a key's words.
        name: the dtype's name in the store's attribute; "" where it is the store's own dtype.
    """

    dtype: DType
    words: Shape = ()
    name: str = ""

    @property
    def itemsize(self) -> int:
        """The bytes of an element in memory."""
        return self.dtype.itemsize * math.prod(self.words)


def stored_form(dtype: DType) -> StoredForm:
    """Returns how a dtype is stored: as itself, or as its bits where tensorstore does not have it."""
    if dtypes.is_key(dtype):
        return StoredForm(dtypes.uint32, (dtype.itemsize // 4,), dtypes.short_name(dtype))
    if dtype in _AS_BITS:
        return StoredForm(dtypes.uint8, (), dtypes.short_name(dtype))
    return StoredForm(dtype)


def to_stored(data: HostData, form: StoredForm) -> HostData:
    """Returns the elements as they are stored."""
    if not form.name:
        return data
    return np.ascontiguousarray(data).view(form.dtype).reshape(data.shape + form.words)


def from_stored(data: HostData, dtype: DType, form: StoredForm) -> HostData:
    """Returns the elements of what was stored."""
    if not form.name:
        return data
    shape = data.shape[: data.ndim - len(form.words)]
    return np.ascontiguousarray(data).view(dtype).reshape(shape)


def convert_loaded(function_name: str, where: str, data: HostData, dtype: DType) -> HostData:
    """Converts elements that were read; integers that become other ones stay what they are.

    Args:
        function_name, where: for errors.
        data: the elements.
        dtype: the dtype of the result.

    Raises:
        DTypeError: complex numbers would lose their imaginary parts, or keys would be numbers, or integers are too
            large.
    """
    if data.dtype == dtype:
        return data
    actual_name, expected_name = [dtypes.short_name(d) for d in (data.dtype, dtype)]
    if dtypes.is_key(data.dtype) or dtypes.is_key(dtype):
        raise DTypeError(
            f"{function_name}: {where}: {actual_name} is stored, which does not convert to {expected_name}"
        )
    if dtypes.is_complex(data.dtype) and not dtypes.is_complex(dtype):
        raise DTypeError(
            f"{function_name}: {where}: {actual_name} is stored, which does not convert to the real {expected_name}"
        )
    converted_data = data.astype(dtype)
    if dtypes.is_integer(data.dtype) and dtypes.is_integer(dtype) and (converted_data != data).any():
        raise DTypeError(
            f"{function_name}: {where}: {actual_name} is stored, with numbers that {expected_name} does not hold"
        )
    return cast("HostData", converted_data)


# --- specs ----------------------------------------------------------------------------------------


def chunk_shape(part: Shape, itemsize: int, limit: int = FILE_BYTES) -> tuple[int, ...]:
    """Returns the shape of one file: a shard of an array, or an equal part of one.

    Files never cross the borders of shards, so that no two processes write one.

    >>> chunk_shape((6, 8), 4), chunk_shape((6, 8), 4, limit=64), chunk_shape((0, 3), 4)
    ((6, 8), (2, 8), (1, 3))
    """
    chunk = [max(n, 1) for n in part]
    for axis, n in enumerate(part):
        rest = math.prod(chunk[axis + 1 :]) * itemsize
        if n * rest <= limit:
            break
        # The coarsest equal split of this axis that is small enough; if there is none, the next one is split too.
        small = [k for k in range(1, math.isqrt(n) + 1) if n % k == 0]
        chunk[axis] = max([k for d in small for k in (d, n // d) if k == 1 or k * rest <= limit])
    return tuple(chunk)


def complete_spec(who: str, spec: Spec, dtype: DType, shape: Shape, part: Shape) -> dict[str, object]:
    """Adds to a spec how an array is to be stored, where the spec does not say so itself.

    Args:
        who: the function and the array, for errors.
        spec: with a driver.
        dtype, shape: of the array.
        part: the shape of the part on one device.

    Raises:
        DTypeError: the driver has no such dtype.
    """
    form = stored_form(dtype)
    chunk = [*chunk_shape(part, form.itemsize), *form.words]
    stored_shape = [*shape, *form.words]
    if spec["driver"] == "zarr3":
        metadata: dict[str, object] = {
            "shape": stored_shape,
            "data_type": form.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            # What a disk or a network changed is an error and not a number.
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        }
        if form.name:
            metadata["attributes"] = {_ATTRIBUTE: form.name}
        return merge_specs({"metadata": metadata}, spec)
    if form.name:
        raise DTypeError(f"{who}: the driver {spec['driver']!r} does not store {form.name}; 'zarr3' does")
    if "metadata" in spec or "schema" in spec:
        return dict(spec)
    layout = {"write_chunk": {"shape": chunk}, "read_chunk": {"shape": chunk}}
    schema = {"dtype": form.dtype.name, "domain": {"shape": stored_shape}, "chunk_layout": layout}
    return merge_specs({"schema": schema}, spec)


def merge_specs(base: Spec, over: Spec) -> dict[str, object]:
    """Returns a merged spec; the second wins where both have a value.

    >>> merge_specs({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}})
    {'a': 1, 'b': {'c': 4, 'd': 3}}
    """
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = (
            merge_specs(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return result


def stored_dtype(store: "ts.TensorStore") -> DType:
    """Returns the dtype of the array in an open store."""
    spec: Mapping[str, Mapping[str, Mapping[str, str]]] = store.spec().to_json()
    name = spec.get("metadata", {}).get("attributes", {}).get(_ATTRIBUTE)
    return dtypes.as_dtype(store.dtype.numpy_dtype) if name is None else dtypes.from_short_name(name)


def display_url(path: "str | os.PathLike[str]") -> tuple[str, bool]:
    """Returns a path as it is shown, absolute if it is a local one, and whether it is an address such as `gs://…`."""
    text = os.fspath(path)
    return (text.rstrip("/"), True) if "://" in text else (os.path.abspath(text), False)


def kvstore_spec(path: "str | os.PathLike[str]") -> dict[str, object]:
    """Returns tensorstore's spec of a folder."""
    text, is_url = display_url(path)
    if not is_url:
        return {"driver": "file", "path": f"{text}/"}
    scheme, _, rest = text.partition("://")
    bucket, _, inside = rest.partition("/")
    if scheme in ("gs", "s3"):
        return {"driver": "gcs" if scheme == "gs" else scheme, "bucket": bucket, "path": f"{inside}/"}
    if scheme == "file":
        return {"driver": "file", "path": f"{rest}/"}
    return {"driver": scheme, "path": f"{rest}/"}
