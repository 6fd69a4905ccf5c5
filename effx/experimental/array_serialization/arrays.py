"""Write the shards of arrays that this process has, and read those of its devices."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array
from effx.dtypes import DType
from effx.errors import CheckpointError, ShapeError
from effx.experimental.array_serialization.stores import (
    Spec,
    StoredForm,
    complete_spec,
    convert_loaded,
    from_stored,
    import_tensorstore,
    merge_specs,
    raise_as_storage_errors,
    shared_context,
    stored_dtype,
    stored_form,
    to_stored,
)
from effx.ir.types import Shape, array_type
from effx.ir.values.array import HostData
from effx.lower.placement.backends import is_local
from effx.lower.placement.concrete import ConcreteArray, device_put
from effx.lower.placement.shardings import Index, Sharding
from effx.transforms.placement.global_arrays import make_array_from_callback

if TYPE_CHECKING:
    import tensorstore as ts

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class StoredPart:
    """A part of an array that this process may write.

    Attributes:
        index: its index in the whole array.
        data: its elements, on a device or on the host.
        replica: how many devices before this one hold the same part.
    """

    index: Index
    data: Array | HostData
    replica: int = 0

    def host(self, function_name: str) -> HostData:
        """Returns the elements."""
        return self.data.host(function_name) if isinstance(self.data, Array) else self.data


@final
@attrs.frozen(eq=False)
class ArrayToSave:
    """An array as it is to be written.

    Attributes:
        where: what errors call it.
        dtype, shape: of the whole array.
        cut: the shape of one device's shard.
        parts: those that this process has.
        processes: those that have a shard of it; () for an array on the host, which each process has whole.
    """

    where: str
    dtype: DType
    shape: Shape
    cut: Shape
    parts: Sequence[StoredPart]
    processes: tuple[int, ...] = ()

    def copy_parts(self, function_name: str) -> "ArrayToSave":
        """Returns the same with copies of the shards that this process writes, which stay valid after donation."""
        parts = [
            StoredPart(p.index, np.array(p.host(function_name)), 0) for p in self.parts if p.replica == 0
        ]
        return attrs.evolve(self, parts=parts)

    @property
    def nbytes(self) -> int:
        """How much this process would write."""
        count = sum([p.replica == 0 for p in self.parts])
        return count * array_type(self.dtype, self.cut).size * self.dtype.itemsize


def describe_array(function_name: str, where: str, x: Array | HostData) -> ArrayToSave:
    """Returns how an array, which is no tracer, is to be written."""
    if not isinstance(x, ConcreteArray):
        data = x.host(function_name) if isinstance(x, Array) else x
        return ArrayToSave(
            where, data.dtype, data.shape, data.shape, [StoredPart((slice(None),) * data.ndim, data)]
        )
    x._check_alive(function_name)
    sharding = x.sharding
    parts = [StoredPart(s.index, s.data, s.replica_id) for s in x.addressable_shards]
    processes = tuple(sorted({d.process_index for d in sharding.ordered_devices}))
    return ArrayToSave(where, x.type.dtype, x.shape, sharding.shard_shape(x.shape), parts, processes)


@final
class ByteLimiter:
    """Limits the bytes in flight at a time; a larger request goes by itself."""

    def __init__(self, limit: int) -> None:
        self._limit = self._free = max(limit, 1)
        self._changed = asyncio.Condition()

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Waits until there is room."""
        granted_bytes = min(requested_bytes, self._limit)
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= granted_bytes)
            self._free -= granted_bytes

    async def release_bytes(self, requested_bytes: int) -> None:
        """Makes room."""
        async with self._changed:
            self._free += min(requested_bytes, self._limit)
            self._changed.notify_all()


def run_coroutine(coroutine: Coroutine[object, object, T]) -> T:
    """Runs a coroutine to its end, in a thread of its own where this one runs an event loop: in notebooks say."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    results: list[T] = []
    failed: list[BaseException] = []
    around = contextvars.copy_context()

    def inside() -> None:
        try:
            results.append(around.run(asyncio.run, coroutine))
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            failed.append(error)

    thread = threading.Thread(target=inside, name="effx-checkpoint")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return results[0]


async def gather_all(waiting: Sequence[Awaitable[T]]) -> list[T]:
    """Waits for all; where one fails, its error is raised after the others have ended."""
    results = await asyncio.gather(*waiting, return_exceptions=True)
    for x in results:
        if isinstance(x, BaseException):
            raise x
    return cast("list[T]", results)


async def write_array(
    function_name: str,
    x: ArrayToSave,
    spec: Spec,
    *,
    replica: int = 0,
    commits: "list[ts.Future[None]] | None" = None,
    options: Mapping[str, object] | None = None,
    creates: bool = True,
) -> None:
    """Writes the parts of an array that this process has.

    Args:
        function_name: the function, for errors.
        x: the array.
        spec: where.
        replica: which of equal parts is written.
        commits: takes what is to be waited for once the parts are copied; None to wait here until they are stored.
        options: for `tensorstore.open`.
        creates: whether to make what describes the array in the store; else another process does.
    """
    library, form = import_tensorstore(function_name), stored_form(x.dtype)
    # A file of zeros is written too: what is not there is known to be missing.
    layout = complete_spec(f"{function_name}: {x.where}", spec, x.dtype, x.shape, x.cut)
    # Read without one, the format's fill value would be a silent zero.
    full = merge_specs({"store_data_equal_to_fill_value": True}, layout)
    open_options = {"context": shared_context(function_name), **(options or {})}
    with raise_as_storage_errors(function_name, x.where):
        store = await library.open(
            full, open=True, create=creates, assume_metadata=not creates, **open_options
        )
        futures = [
            store[p.index].write(
                to_stored(p.host(function_name), form), can_reference_source_data_indefinitely=commits is None
            )
            for p in x.parts
            if p.replica == replica
        ]
        for f in futures:
            await f.copy
        if commits is not None:
            commits.extend([f.commit for f in futures])
            return
        for f in futures:
            await f


async def write_arrays(function_name: str, pairs: Sequence[tuple[ArrayToSave, Spec]], limit: int) -> None:
    """Writes arrays, a limited number of bytes at a time."""
    limiter = ByteLimiter(limit)

    async def one(x: ArrayToSave, spec: Spec) -> None:
        await limiter.wait_for_bytes(x.nbytes)
        try:
            await write_array(function_name, x, spec)
        finally:
            await limiter.release_bytes(x.nbytes)

    await gather_all([one(x, spec) for x, spec in pairs])


@final
@attrs.frozen(eq=False)
class ArrayToLoad:
    """An array as it is to be read.

    Attributes:
        where: what errors call it.
        sharding: the sharding of the result; None for the default device, uncommitted.
        dtype: the dtype of the result; None for that of the store.
        shape: that it must have; None for any.
        stored: the dtype that the store must have; None for any.
    """

    where: str
    sharding: Sharding | None
    dtype: DType | None = None
    shape: Shape | None = None
    stored: DType | None = None


async def read_array(
    function_name: str,
    load_target: ArrayToLoad,
    spec: Spec,
    limiter: ByteLimiter | None = None,
    *,
    options: Mapping[str, object] | None = None,
) -> Array:
    """Reads the shards of an array for the devices of this process, and puts them there."""
    library = import_tensorstore(function_name)
    full = merge_specs({"fill_missing_data_reads": False}, spec)
    open_options = {"context": shared_context(function_name), **(options or {})}
    with raise_as_storage_errors(function_name, load_target.where):
        store = await library.open(full, open=True, read=True, **open_options)
        dtype = stored_dtype(store)
    form = stored_form(dtype)
    shape = tuple(store.shape[: store.rank - len(form.words)])
    if load_target.stored is not None and load_target.stored != dtype:
        raise CheckpointError(
            f"{function_name}: {load_target.where}: expected {array_type(load_target.stored, shape)!r}, "
            f"{array_type(dtype, shape)!r} is stored"
        )
    if load_target.shape is not None and load_target.shape != shape:
        raise ShapeError(
            f"{function_name}: {load_target.where}: expected the shape {load_target.shape}, {shape} is stored"
        )
    target = dtypes.canonicalize_requested(dtype) if load_target.dtype is None else load_target.dtype
    read = _PartsReader(function_name, load_target, store, dtype, form, target)
    sharding = load_target.sharding
    if sharding is None:
        full_index = (slice(None),) * len(shape)
        part = await read.read_parts(limiter, [full_index])
        return device_put(part(full_index))
    sharding.shard_shape(shape)
    own = [sharding.index(k, shape) for k, d in enumerate(sharding.ordered_devices) if is_local(d)]
    return make_array_from_callback(shape, sharding, await read.read_parts(limiter, own), target)


@final
@attrs.frozen(eq=False)
class _PartsReader:
    what: str
    wanted: ArrayToLoad
    store: "ts.TensorStore"
    dtype: DType
    form: StoredForm
    target: DType

    async def read_parts(
        self, limiter: ByteLimiter | None, indices: Sequence[Index]
    ) -> Callable[[Index], HostData]:
        """Reads parts of the array, each of them once, and returns what gives them."""
        different = {str(index): index for index in indices}
        domains = [self.store[index] for index in different.values()]
        nbytes = sum([d.size * self.form.dtype.itemsize for d in domains])
        if limiter is not None:
            await limiter.wait_for_bytes(nbytes)
        try:
            with raise_as_storage_errors(self.what, self.wanted.where):
                part_data = await gather_all([d.read() for d in domains])
        finally:
            if limiter is not None:
                await limiter.release_bytes(nbytes)
        parts = {key: self._decode_part(data) for key, data in zip(different, part_data, strict=True)}
        return lambda index: parts[str(index)]

    def _decode_part(self, data: HostData) -> HostData:
        decoded = from_stored(np.asarray(data), self.dtype, self.form)
        return convert_loaded(self.what, self.wanted.where, decoded, self.target)


async def read_arrays(
    function_name: str,
    pairs: Sequence[tuple[ArrayToLoad, Spec]],
    limit: int,
    options: Mapping[str, object] | None = None,
) -> list[Array]:
    """Reads arrays, a limited number of bytes at a time."""
    limiter = ByteLimiter(limit)
    return await gather_all([
        read_array(function_name, target, spec, limiter, options=options) for target, spec in pairs
    ])  # fmt: skip
