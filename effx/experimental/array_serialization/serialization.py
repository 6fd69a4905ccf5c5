"""Serialize arrays one by one with tensorstore, for checkpoints of another layout than `pytree_serialization`'s.

Each process writes the shards of an array that it has, each once, and reads those of its devices. An array
on devices of only one process is written by each process that passes one.
"""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.dtypes import DTypeLike
from effx.errors import CheckpointError, ConcretizationError, DistributedError, ShardingError
from effx.experimental.array_serialization.agreement import SaveAgreement, check_no_failure
from effx.experimental.array_serialization.arrays import (
    ArrayToLoad,
    ArrayToSave,
    ByteLimiter,
    describe_array,
    read_array,
    read_arrays,
    run_coroutine,
    write_array,
    write_arrays,
)
from effx.experimental.array_serialization.stores import Spec, complete_spec, display_url, kvstore_spec
from effx.ir.types import Shape
from effx.lazy import list_names
from effx.lower.placement.shardings import Sharding
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.transforms.placement.processes import process_index

if TYPE_CHECKING:
    import tensorstore as ts

__all__ = [
    "AsyncManager",
    "BarrierTimeoutError",
    "GlobalAsyncCheckpointManager",
    "GlobalAsyncCheckpointManagerBase",
    "async_deserialize",
    "async_serialize",
    "get_tensorstore_spec",
    "is_remote_storage",
    "run_deserialization",
    "run_serialization",
]
__dir__ = list_names(__all__)

T = TypeVar("T")
SpecLike: TypeAlias = "Spec | ts.Spec"
_LIMIT = 32  # GiB of the host's memory that are on their way at a time


class BarrierTimeoutError(DistributedError):
    """Another process has not stored its parts in time.

    >>> import effx
    >>> from effx.experimental.array_serialization import serialization
    >>> issubclass(serialization.BarrierTimeoutError, effx.errors.DistributedError)
    True
    """


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str],
    *,
    ocdbt: bool = False,
    process_idx: int | None = None,
    arr: Array | None = None,
    driver: str = "zarr",
) -> dict[str, object]:
    """Returns tensorstore's spec of the array at a path.

    Args:
        ckpt_path: a path, or an address such as `gs://bucket/run/w`.
        ocdbt: whether the folder is one database of many arrays.
        process_idx: of which process the database is; None for one of all.
        arr: an array, whose shape, dtype and shards the spec gets.
        driver: the format: "zarr" or "zarr3".

    Raises:
        DTypeError: the format has no such dtype.

    >>> get_tensorstore_spec("/tmp/w", driver="zarr3")
    {'driver': 'zarr3', 'kvstore': {'driver': 'file', 'path': '/tmp/w/'}}
    >>> get_tensorstore_spec("/tmp/run/w", ocdbt=True)["kvstore"]["base"]
    {'driver': 'file', 'path': '/tmp/run/'}
    """
    path = display_url(ckpt_path)[0]
    folder, _, name = path.rpartition("/")
    own = "" if process_idx is None else f"/process_{process_idx}"
    at: dict[str, object] = kvstore_spec(f"{folder}{own}/{name}")
    if ocdbt:
        at = {"driver": "ocdbt", "base": kvstore_spec(f"{folder}{own}"), "path": f"{name}/"}
    spec: dict[str, object] = {"driver": driver, "kvstore": at}
    if arr is None:
        return spec
    x = describe_array("get_tensorstore_spec", "arr", arr)
    return complete_spec("get_tensorstore_spec", spec, x.dtype, x.shape, x.cut)


def is_remote_storage(tspec: Spec | str) -> bool:
    """Says whether a spec, or an address, is of a store that other machines serve.

    >>> is_remote_storage("gs://bucket/run"), is_remote_storage(get_tensorstore_spec("/tmp/w"))
    (True, False)
    """
    if isinstance(tspec, str):
        return tspec.startswith(("gs://", "s3://"))
    if tspec.get("driver") in ("gcs", "s3"):
        return True
    inner = [tspec[key] for key in ("kvstore", "base") if key in tspec]
    return any([is_remote_storage(cast("Spec | str", x)) for x in inner])


def _to_spec(function_name: str, spec: SpecLike) -> Spec:
    """Returns a spec as JSON.

    Raises:
        CheckpointError: it has no format.
    """
    result: Spec = spec if isinstance(spec, dict) else cast("ts.Spec", spec).to_json()
    if "driver" not in result:
        raise CheckpointError(f"{function_name}: a spec of tensorstore has a 'driver', got {result!r}")
    return result


def _check_array(function_name: str, x: object, spec: Spec) -> ArrayToSave:
    if isinstance(x, Box):
        raise ConcretizationError(
            f"{function_name}: got {x.type!r} of a transformation, which has no value yet"
        )
    return describe_array(function_name, _check_location(spec), as_operand(cast("Array", x), function_name))


def _check_location(spec: Spec) -> str:
    at = spec.get("kvstore")
    if isinstance(at, dict):
        base = at.get("base")
        inside = f"{_check_location({'kvstore': base})}" if base is not None else str(at.get("bucket", ""))
        return "/".join([x for x in (inside.rstrip("/"), str(at.get("path", ""))) if x]).rstrip("/")
    return str(at)


def _open_options(
    context: "ts.Context | None", layout: "ts.ChunkLayout | None", transaction: "ts.Transaction | None" = None
) -> dict[str, object]:
    option_values = {"context": context, "chunk_layout": layout, "transaction": transaction}
    return {key: x for key, x in option_values.items() if x is not None}


async def async_serialize(
    arr_inp: Array,
    tensorstore_spec: SpecLike,
    commit_future: "list[ts.Future[None]] | None" = None,
    context: "ts.Context | None" = None,
    chunk_layout: "ts.ChunkLayout | None" = None,
    primary_host: int | None = None,
    replica_id: int = 0,
    transaction: "ts.Transaction | None" = None,
) -> None:
    """Writes the parts of an array that this process has.

    Args:
        arr_inp: the array.
        tensorstore_spec: the location; shape, dtype and files that it lacks come from the array.
        commit_future: takes futures of what is stored; then this returns when the parts are copied. None to wait until
            they are stored.
        context: tensorstore's; None for that of effx.
        chunk_layout: of the files; None for the spec's.
        primary_host: the process that describes the array in the store; None for all.
        replica_id: which one of equal parts is written.
        transaction: of which this is a part; whoever has it commits it.

    Raises:
        CheckpointError: it cannot be stored.
        DTypeError: the format has no such dtype.
        BackendError: tensorstore is not installed.

    >>> import asyncio, tempfile, effx.numpy as enp
    >>> from effx.experimental.array_serialization import serialization
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec = serialization.get_tensorstore_spec(folder + "/w", driver="zarr3")
    ...     asyncio.run(serialization.async_serialize(enp.arange(3), spec))
    ...     sharding = enp.arange(3).sharding
    ...     print(asyncio.run(serialization.async_deserialize(sharding, spec)))
    [0 1 2]
    """
    spec = _to_spec("async_serialize", tensorstore_spec)
    # A transaction's writes are stored when it is committed, so they cannot be awaited here.
    commits = [] if commit_future is None and transaction is not None else commit_future
    await write_array(
        "async_serialize",
        _check_array("async_serialize", arr_inp, spec),
        spec,
        replica=replica_id,
        commits=commits,
        options=_open_options(context, chunk_layout, transaction),
        creates=primary_host is None or primary_host == process_index(),
    )


async def async_deserialize(
    in_type: Sharding | ShapeDtypeStruct,
    tensorstore_spec: SpecLike,
    global_shape: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    byte_limiter: ByteLimiter | None = None,
    context: "ts.Context | None" = None,
    chunk_layout: "ts.ChunkLayout | None" = None,
    assume_metadata: bool = False,
) -> Array:
    """Reads the shards of an array for the devices of this process.

    Args:
        in_type: the result's type: a sharding, or a ShapeDtypeStruct with one, whose shape and dtype hold where the
            next arguments say nothing.
        tensorstore_spec: where it is.
        global_shape: the shape that it must have; None for any.
        dtype: what the elements are converted to; None for the stored one.
        byte_limiter: of the bytes that are on their way; None for no limit.
        context: tensorstore's; None for that of effx.
        chunk_layout: of the files; None for any.
        assume_metadata: whether the spec describes the array completely, so that its description is not read.

    Raises:
        CheckpointError: it is not there, or parts of it are missing or damaged.
        ShapeError: it has another shape.
        ShardingError: it cannot be sharded so.
        DTypeError: the elements do not convert.
        BackendError: tensorstore is not installed.

    >>> import asyncio, tempfile, effx.numpy as enp
    >>> from effx.experimental.array_serialization import serialization
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec = serialization.get_tensorstore_spec(folder + "/w", driver="zarr3")
    ...     serialization.run_serialization([enp.arange(3)], [spec])
    ...     print(asyncio.run(serialization.async_deserialize(enp.arange(3).sharding, spec, dtype=enp.float32)))
    [0. 1. 2.]
    """
    function_name = "async_deserialize"
    spec = _to_spec(function_name, tensorstore_spec)
    options = _open_options(context, chunk_layout) | ({"assume_metadata": True} if assume_metadata else {})
    target = _array_to_load(function_name, in_type, spec, global_shape, dtype)
    return await read_array(function_name, target, spec, byte_limiter, options=options)


def _array_to_load(
    function_name: str,
    in_type: Sharding | ShapeDtypeStruct,
    spec: Spec,
    shape: Sequence[int] | None,
    dtype: DTypeLike | None,
) -> ArrayToLoad:
    sharding: Sharding | None
    if isinstance(in_type, ShapeDtypeStruct):
        sharding = in_type.sharding
        shape = in_type.shape if shape is None else shape
        dtype = in_type.dtype if dtype is None else dtype
    elif isinstance(in_type, Sharding):
        sharding = in_type
    else:
        raise ShardingError(
            f"{function_name}: expected a sharding or a ShapeDtypeStruct, got {in_type!r} of type {type(in_type).__name__}"
        )
    target = None if dtype is None else dtypes.canonicalize(dtype)
    return ArrayToLoad(_check_location(spec), sharding, target, None if shape is None else tuple(shape))


def run_serialization(arrays: Sequence[Array], tensorstore_specs: Sequence[SpecLike]) -> None:
    """Writes the parts of arrays that this process has, and waits until they are stored.

    Args:
        arrays: the arrays.
        tensorstore_specs: where; one for each.

    Raises:
        CheckpointError: one cannot be stored, or there are not as many specs as arrays.
        DTypeError: the format has no such dtype.
        BackendError: tensorstore is not installed.

    >>> import effx, effx.numpy as enp, tempfile
    >>> spec = get_tensorstore_spec(tempfile.mkdtemp() + "/w", driver="zarr3")
    >>> run_serialization([enp.arange(3)], [spec])
    >>> run_deserialization([effx.sharding.SingleDeviceSharding(effx.devices()[0])], [spec])
    [Array([0, 1, 2], dtype=int32)]
    """
    function_name = "run_serialization"
    _check_count(function_name, "arrays", arrays, "tensorstore_specs", tensorstore_specs)
    specs = [_to_spec(function_name, s) for s in tensorstore_specs]
    pairs = [(_check_array(function_name, x, s), s) for x, s in zip(arrays, specs, strict=True)]
    run_coroutine(write_arrays(function_name, pairs, _LIMIT << 30))


def run_deserialization(
    shardings: Sequence[Sharding | ShapeDtypeStruct],
    tensorstore_specs: Sequence[SpecLike],
    global_shapes: Sequence[Shape] | None = None,
    dtypes: Sequence[DTypeLike | None] | None = None,
    concurrent_gb: int = 32,
) -> list[Array]:
    """Reads the shards of arrays for the devices of this process.

    Args:
        shardings: those of the results.
        tensorstore_specs: where they are.
        global_shapes: the shapes that they must have; None for any.
        dtypes: what the elements are converted to; None for the stored ones.
        concurrent_gb: GiB of the host's memory that may be on their way at a time.

    Raises:
        CheckpointError: one is not there, or parts of it are missing or damaged; or the arguments' lengths differ.
        ShapeError: one has another shape.
        ShardingError: one cannot be sharded so.
        DTypeError: elements do not convert.
        BackendError: tensorstore is not installed.

    >>> import tempfile, effx.numpy as enp
    >>> from effx.experimental.array_serialization import serialization
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     spec = serialization.get_tensorstore_spec(folder + "/w", driver="zarr3")
    ...     serialization.run_serialization([enp.arange(3)], [spec])
    ...     print(*serialization.run_deserialization([enp.arange(3).sharding], [spec], dtypes=[enp.float32]))
    [0. 1. 2.]
    """
    function_name = "run_deserialization"
    _check_count(function_name, "shardings", shardings, "tensorstore_specs", tensorstore_specs)
    shapes: Sequence[Shape | None] = [None] * len(shardings) if global_shapes is None else global_shapes
    targets: Sequence[DTypeLike | None] = [None] * len(shardings) if dtypes is None else dtypes
    _check_count(function_name, "shardings", shardings, "global_shapes", shapes)
    _check_count(function_name, "shardings", shardings, "dtypes", targets)
    pairs: list[tuple[ArrayToLoad, Spec]] = []
    for sharding, array_spec, shape, dtype in zip(shardings, tensorstore_specs, shapes, targets, strict=True):
        spec = _to_spec(function_name, array_spec)
        pairs.append((_array_to_load(function_name, sharding, spec, shape, dtype), spec))
    return run_coroutine(read_arrays(function_name, pairs, concurrent_gb << 30))


def _check_count(
    function_name: str, name: str, first: Sequence[object], other: str, second: Sequence[object]
) -> None:
    if len(first) != len(second):
        raise CheckpointError(f"{function_name}: {len(first)} {name} have {len(second)} {other}")


class AsyncManager:
    """Waits in the background until the parts of all processes are stored.

    Args:
        timeout_secs: how long a process waits for the others.

    >>> from effx.experimental.array_serialization import serialization
    >>> manager = serialization.GlobalAsyncCheckpointManager(timeout_secs=60)
    >>> isinstance(manager, serialization.AsyncManager)
    True
    >>> manager.wait_until_finished()                    # at once: nothing is being stored
    """

    def __init__(self, timeout_secs: int = 300) -> None:
        self._timeout_secs = timeout_secs
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def check_for_errors(self) -> None:
        """Raises what has failed in the background, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_until_finished(self) -> None:
        """Waits for what is done in the background, and raises what has failed.

        Raises:
            CheckpointError: parts could not be stored, by this process or another.
            BarrierTimeoutError: another process has not stored its parts in time.
            DistributedError: another process has failed.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        self.check_for_errors()

    def _start(self, work: Callable[[], None]) -> None:
        def do() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  raised where the result is read
                self._error = error

        self._thread = threading.Thread(target=do, name="effx-checkpoint")
        self._thread.start()


class GlobalAsyncCheckpointManagerBase(ABC):
    """What writes arrays in the background, one set of them after another.

    >>> from effx.experimental.array_serialization import serialization
    >>> base = serialization.GlobalAsyncCheckpointManagerBase
    >>> isinstance(serialization.GlobalAsyncCheckpointManager(), base)
    True
    """

    @abstractmethod
    def check_for_errors(self) -> None:
        """Raises what has failed in the background."""

    @abstractmethod
    def wait_until_finished(self) -> None:
        """Waits for what is done in the background, and raises what has failed."""

    @abstractmethod
    def serialize(
        self,
        arrays: Sequence[Array],
        tensorstore_specs: Sequence[SpecLike],
        *,
        on_commit_callback: Callable[[], None],
    ) -> None:
        """Writes arrays in the background, and calls a function when all are stored."""

    @abstractmethod
    def deserialize(
        self,
        shardings: Sequence[Sharding | ShapeDtypeStruct],
        tensorstore_specs: Sequence[SpecLike],
        global_shapes: Sequence[Shape] | None = None,
        dtypes: Sequence[DTypeLike | None] | None = None,
    ) -> list[Array]:
        """Reads arrays."""


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Writes arrays through tensorstore in the background.

    Args:
        timeout_secs: how long a process waits for the others.

    >>> import effx.numpy as enp, tempfile
    >>> manager, path, stored = GlobalAsyncCheckpointManager(), tempfile.mkdtemp() + "/w", []
    >>> manager.serialize_with_paths([enp.ones(2)], [path], on_commit_callback=lambda: stored.append(path))
    >>> manager.wait_until_finished()
    >>> stored == [path]
    True
    """

    def serialize(
        self,
        arrays: Sequence[Array],
        tensorstore_specs: Sequence[SpecLike],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: "ts.Transaction | None" = None,
    ) -> None:
        """Writes arrays in the background; returns when their elements are copied, so that they may be donated.

        Args:
            arrays: the arrays; all processes call this with parts of the same ones.
            tensorstore_specs: where; one for each.
            on_commit_callback: called in process 0 when the parts of all processes are stored; the others wait for it.
            transaction: tensorstore's, in which all is written, and which is committed in the background.

        Raises:
            CheckpointError: what was to be written before has failed, or an array cannot be written.
            DTypeError: the format has no such dtype.
            BackendError: tensorstore is not installed.
        """
        function_name = "serialize"
        _check_count(function_name, "arrays", arrays, "tensorstore_specs", tensorstore_specs)
        self.wait_until_finished()
        specs = [_to_spec(function_name, s) for s in tensorstore_specs]
        pairs = [(_check_array(function_name, x, s), s) for x, s in zip(arrays, specs, strict=True)]
        commits: list[ts.Future[None]] = []

        async def copy() -> None:
            for x, s in pairs:
                await write_array(
                    function_name, x, s, commits=commits, options=_open_options(None, None, transaction)
                )

        run_coroutine(copy())
        agreement = SaveAgreement(function_name, self._timeout_secs)

        def decide(everyone: Sequence[dict[str, object]]) -> dict[str, object]:
            check_no_failure(function_name, everyone)
            if on_commit_callback is not None:
                on_commit_callback()
            return {}

        def finish() -> None:
            error = _wait_until_stored(function_name, pairs, commits, transaction)
            try:
                agreement.settle({} if error is None else {"error": error.message}, decide)
            except TimeoutError:
                raise BarrierTimeoutError(
                    f"{function_name}: not all processes have stored their parts within {self._timeout_secs} s"
                ) from None
            finally:
                if error is not None:
                    raise error

        self._start(finish)

    def serialize_with_paths(
        self,
        arrays: Sequence[Array],
        paths: Sequence[str],
        *,
        on_commit_callback: Callable[[], None] | None = None,
        transaction: "ts.Transaction | None" = None,
    ) -> None:
        """Writes arrays in the background, each to a path of its own.

        Args:
            arrays: the arrays.
            paths: where; one for each.
            on_commit_callback, transaction: as of `serialize`.

        Raises:
            CheckpointError: as of `serialize`.
        """
        specs = [get_tensorstore_spec(path, driver="zarr3") for path in paths]
        self.serialize(arrays, specs, on_commit_callback=on_commit_callback, transaction=transaction)

    def deserialize(
        self,
        shardings: Sequence[Sharding | ShapeDtypeStruct],
        tensorstore_specs: Sequence[SpecLike],
        global_shapes: Sequence[Shape] | None = None,
        dtypes: Sequence[DTypeLike | None] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Array]:
        """Reads arrays, when what is written in the background is stored; arguments are those of `run_deserialization`."""
        self.wait_until_finished()
        return run_deserialization(shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb)

    def deserialize_with_paths(
        self,
        shardings: Sequence[Sharding | ShapeDtypeStruct],
        paths: Sequence[str],
        global_shapes: Sequence[Shape] | None = None,
        dtypes: Sequence[DTypeLike | None] | None = None,
        concurrent_gb: int = 32,
    ) -> list[Array]:
        """Reads what `serialize_with_paths` wrote; the other arguments are those of `run_deserialization`."""
        specs = [get_tensorstore_spec(path, driver="zarr3") for path in paths]
        return self.deserialize(shardings, specs, global_shapes, dtypes, concurrent_gb)


def _wait_until_stored(
    function_name: str,
    pairs: Sequence[tuple[ArrayToSave, Spec]],
    commits: "Sequence[ts.Future[None]]",
    transaction: "ts.Transaction | None",
) -> CheckpointError | None:
    """Waits until all is stored, and returns what has failed."""
    try:
        if transaction is not None:
            transaction.commit_async().result()
        for f in commits:
            f.result()
    except (ValueError, OSError, RuntimeError) as error:
        array_names = ", ".join([x.where for x, _ in pairs][:3])
        return CheckpointError(f"{function_name}: {array_names}: {error}")
    return None
