"""Writes the parts of arrays that this process has, and reads those that its devices want."""

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
    Form,
    Spec,
    context,
    converted,
    described,
    errors_of,
    form_of,
    from_stored,
    merged,
    stored_dtype,
    tensorstore,
    to_stored,
)
from effx.ir.types import Shape, array_type
from effx.ir.values.array import HostData
from effx.lower.placement.backends import is_local
from effx.lower.placement.concrete import ConcreteArray, device_put
from effx.lower.placement.shardings import Index, Sharding
from effx.transforms.meshes.global_arrays import make_array_from_callback

if TYPE_CHECKING:
    import tensorstore as ts

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class Part:
    """A part of an array that this process may write.

    Attributes:
        index: which part of the whole it is.
        data: its elements, on a device or on the host.
        replica: how many devices before this one hold the same part.
    """

    index: Index
    data: Array | HostData
    replica: int = 0

    def host(self, what: str) -> HostData:
        """Returns the elements."""
        return self.data.host(what) if isinstance(self.data, Array) else self.data


@final
@attrs.frozen(eq=False)
class Saved:
    """An array as it is to be written.

    Attributes:
        where: what errors call it.
        dtype, shape: of the whole.
        cut: the shape of the part on one device.
        parts: those that this process has.
        processes: those that have a part of it; () for an array of the host, of which each process has the whole.
    """

    where: str
    dtype: DType
    shape: Shape
    cut: Shape
    parts: Sequence[Part]
    processes: tuple[int, ...] = ()

    def copied(self, what: str) -> "Saved":
        """Returns the same with copies of what this process would write, which later computations leave alone."""
        parts = [Part(p.index, np.array(p.host(what)), 0) for p in self.parts if p.replica == 0]
        return attrs.evolve(self, parts=parts)

    @property
    def nbytes(self) -> int:
        """How much this process would write."""
        count = sum([p.replica == 0 for p in self.parts])
        return count * array_type(self.dtype, self.cut).size * self.dtype.itemsize


def described_array(what: str, where: str, x: Array | HostData) -> Saved:
    """Returns how an array, which is no tracer, is to be written."""
    if not isinstance(x, ConcreteArray):
        data = x.host(what) if isinstance(x, Array) else x
        return Saved(where, data.dtype, data.shape, data.shape, [Part((slice(None),) * data.ndim, data)])
    x._check_alive(what)
    lies = x.sharding
    parts = [Part(s.index, s.data, s.replica_id) for s in x.addressable_shards]
    processes = tuple(sorted({d.process_index for d in lies.ordered_devices}))
    return Saved(where, x.type.dtype, x.shape, lies.shard_shape(x.shape), parts, processes)


@final
class ByteLimiter:
    """Lets at most so many bytes be on their way at a time; one that is larger goes alone."""

    def __init__(self, limit: int) -> None:
        self._limit = self._free = max(limit, 1)
        self._changed = asyncio.Condition()

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Waits until there is room."""
        wanted = min(requested_bytes, self._limit)
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= wanted)
            self._free -= wanted

    async def release_bytes(self, requested_bytes: int) -> None:
        """Makes room."""
        async with self._changed:
            self._free += min(requested_bytes, self._limit)
            self._changed.notify_all()


def run(coroutine: Coroutine[object, object, T]) -> T:
    """Runs a coroutine to its end, in a thread of its own where this one runs an event loop: in notebooks say."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    found: list[T] = []
    failed: list[BaseException] = []
    around = contextvars.copy_context()

    def inside() -> None:
        try:
            found.append(around.run(asyncio.run, coroutine))
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            failed.append(error)

    thread = threading.Thread(target=inside, name="effx-checkpoint")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


async def all_of(waiting: Sequence[Awaitable[T]]) -> list[T]:
    """Waits for all; where one fails, the others have come to their end too before its error is raised."""
    found = await asyncio.gather(*waiting, return_exceptions=True)
    for x in found:
        if isinstance(x, BaseException):
            raise x
    return cast("list[T]", found)


async def write_array(
    what: str,
    x: Saved,
    spec: Spec,
    *,
    replica: int = 0,
    commits: "list[ts.Future[None]] | None" = None,
    options: Mapping[str, object] | None = None,
    creates: bool = True,
) -> None:
    """Writes the parts of an array that this process has.

    Args:
        what: the function, for errors.
        x: the array.
        spec: where.
        replica: which of equal parts is written.
        commits: takes what is to be waited for once the parts are copied; None to wait here until they are stored.
        options: for `tensorstore.open`.
        creates: whether to make what describes the array in the store; else another process does.
    """
    library, form = tensorstore(what), form_of(x.dtype)
    # A file of zeros is written too: what is not there is known to be missing.
    layout = described(f"{what}: {x.where}", spec, x.dtype, x.shape, x.cut)
    full = merged({"store_data_equal_to_fill_value": True}, layout)
    given = {"context": context(what), **(options or {})}
    with errors_of(what, x.where):
        store = await library.open(full, open=True, create=creates, assume_metadata=not creates, **given)
        futures = [
            store[p.index].write(
                to_stored(p.host(what), form), can_reference_source_data_indefinitely=commits is None
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


async def write_all(what: str, pairs: Sequence[tuple[Saved, Spec]], limit: int) -> None:
    """Writes arrays, a limited number of bytes at a time."""
    limiter = ByteLimiter(limit)

    async def one(x: Saved, spec: Spec) -> None:
        await limiter.wait_for_bytes(x.nbytes)
        try:
            await write_array(what, x, spec)
        finally:
            await limiter.release_bytes(x.nbytes)

    await all_of([one(x, spec) for x, spec in pairs])


@final
@attrs.frozen(eq=False)
class Wanted:
    """An array as it is to be read.

    Attributes:
        where: what errors call it.
        sharding: how it shall lie; None for the default device, to which nothing is bound.
        dtype: what its elements shall become; None for that of the store.
        shape: that it must have; None for any.
        stored: the dtype that the store must have; None for any.
    """

    where: str
    sharding: Sharding | None
    dtype: DType | None = None
    shape: Shape | None = None
    stored: DType | None = None


async def read_array(
    what: str,
    wanted: Wanted,
    spec: Spec,
    limiter: ByteLimiter | None = None,
    *,
    options: Mapping[str, object] | None = None,
) -> Array:
    """Reads of an array what the devices of this process shall have, and puts it there."""
    library = tensorstore(what)
    full = merged({"fill_missing_data_reads": False}, spec)
    given = {"context": context(what), **(options or {})}
    with errors_of(what, wanted.where):
        store = await library.open(full, open=True, read=True, **given)
        dtype = stored_dtype(store)
    form = form_of(dtype)
    shape = tuple(store.shape[: store.rank - len(form.words)])
    if wanted.stored is not None and wanted.stored != dtype:
        raise CheckpointError(
            f"{what}: {wanted.where}: expected {array_type(wanted.stored, shape)!r}, {array_type(dtype, shape)!r} is stored"
        )
    if wanted.shape is not None and wanted.shape != shape:
        raise ShapeError(f"{what}: {wanted.where}: expected the shape {wanted.shape}, {shape} is stored")
    target = dtypes.requested(dtype) if wanted.dtype is None else wanted.dtype
    read = _Reader(what, wanted, store, dtype, form, target)
    lies = wanted.sharding
    if lies is None:
        whole = (slice(None),) * len(shape)
        part = await read.some(limiter, [whole])
        return device_put(part(whole))
    lies.shard_shape(shape)
    own = [lies.index(k, shape) for k, d in enumerate(lies.ordered_devices) if is_local(d)]
    return make_array_from_callback(shape, lies, await read.some(limiter, own), target)


@final
@attrs.frozen(eq=False)
class _Reader:
    what: str
    wanted: Wanted
    store: "ts.TensorStore"
    dtype: DType
    form: Form
    target: DType

    async def some(
        self, limiter: ByteLimiter | None, indices: Sequence[Index]
    ) -> Callable[[Index], HostData]:
        """Reads parts of the array, each of them once, and returns what gives them."""
        different = {str(index): index for index in indices}
        domains = [self.store[index] for index in different.values()]
        nbytes = sum([d.size * self.form.dtype.itemsize for d in domains])
        if limiter is not None:
            await limiter.wait_for_bytes(nbytes)
        try:
            with errors_of(self.what, self.wanted.where):
                found = await all_of([d.read() for d in domains])
        finally:
            if limiter is not None:
                await limiter.release_bytes(nbytes)
        parts = {key: self._part(data) for key, data in zip(different, found, strict=True)}
        return lambda index: parts[str(index)]

    def _part(self, data: HostData) -> HostData:
        found = from_stored(np.asarray(data), self.dtype, self.form)
        return converted(self.what, self.wanted.where, found, self.target)


async def read_all(
    what: str,
    pairs: Sequence[tuple[Wanted, Spec]],
    limit: int,
    options: Mapping[str, object] | None = None,
) -> list[Array]:
    """Reads arrays, a limited number of bytes at a time."""
    limiter = ByteLimiter(limit)
    return await all_of([
        read_array(what, wanted, spec, limiter, options=options) for wanted, spec in pairs
    ])  # fmt: skip
