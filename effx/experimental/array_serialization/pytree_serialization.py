"""Checkpoints of trees of arrays: `save` and `load`, blocking and in the background.

All processes of a group call them, in the same order. Each writes the shards of arrays that it has, and reads those of
its devices.
"""

import os
from concurrent.futures import ThreadPoolExecutor

from effx.errors import EffxError
from effx.experimental.array_serialization.agreement import SaveAgreement, queue
from effx.experimental.array_serialization.futures import PyTreeFuture, start_in_background
from effx.experimental.array_serialization.loading import plan_load, read_checkpoint_info
from effx.experimental.array_serialization.saving import SavePlan, plan_save, run_save
from effx.lazy import list_names
from effx.tree.registry import PyTree

__all__ = ["load", "load_pytreedef", "nonblocking_load", "nonblocking_save", "save"]
__dir__ = list_names(__all__)

_loads = ThreadPoolExecutor(4, "effx-load")


def save(
    data: PyTree,
    directory: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    ts_specs: PyTree = None,
) -> None:
    """Saves a tree of arrays as a checkpoint.

    Args:
        data: arrays, on one device or many, NumPy's arrays and numbers, in dicts, lists, tuples, named tuples,
            registered dataclasses and attrs classes, and classes registered by
            `effx.export.register_pytree_node_serialization`.
        directory: a path, or an address of tensorstore's such as `gs://bucket/run`. All processes reach it.
        overwrite: whether to replace an existing checkpoint. It stays complete until the new one is.
        ts_specs: how arrays are stored, for all or for a prefix of the tree: a dict of tensorstore's with a "driver",
            and None for the default, uncompressed zarr3 with checksums.

    Raises:
        CheckpointError: there is a checkpoint already, or it cannot be written, by this process or another.
        DTypeError: a leaf is no array, or of a dtype that cannot be stored.
        TreeError: the structure has nodes or keys that cannot be written.
        ProcessMismatchError: the processes save different trees.
        DistributedError: another process has failed.
        BackendError: tensorstore is not installed.

    >>> import effx.numpy as enp, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save({"w": enp.ones((2, 3)), "step": 7}, folder)
    >>> load(folder, None)["step"]
    Array(7, dtype=int32)
    """
    plan = _plan_save("save", data, directory, overwrite, ts_specs, False)
    start_in_background(queue, plan.stub, lambda: run_save(plan)).result()


def nonblocking_save(
    data: PyTree,
    directory: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    ts_specs: PyTree = None,
) -> PyTreeFuture[None]:
    """Saves like `save`, in the background; the arrays' values are copied before it returns, so they may be donated.

    Args:
        data, directory, overwrite, ts_specs: as of `save`.

    Returns:
        A future, whose `result()` waits and raises errors, and whose `pytree` has shapes and dtypes.

    Raises:
        DTypeError, TreeError, BackendError: as `save`, at once; other errors come from the future.

    >>> import effx.numpy as enp, tempfile
    >>> future = nonblocking_save([enp.ones(3)], tempfile.mkdtemp())
    >>> future.pytree
    [ShapeDtypeStruct(shape=(3,), dtype=float32)]
    >>> future.result()
    """
    plan = _plan_save("nonblocking_save", data, directory, overwrite, ts_specs, True)
    return start_in_background(queue, plan.stub, lambda: run_save(plan))


def _plan_save(
    function_name: str,
    data: PyTree,
    directory: str | os.PathLike[str],
    overwrite: bool,
    ts_specs: PyTree,
    copies: bool,
) -> SavePlan:
    try:
        return plan_save(function_name, data, directory, overwrite, ts_specs, copies)
    except EffxError as error:
        agreement, reason = SaveAgreement(function_name), error
        queue.submit(lambda: agreement.refuse(reason))
        raise


def load(
    directory: str | os.PathLike[str],
    shardings: PyTree,
    *,
    mask: PyTree = None,
    ts_specs: PyTree = None,
) -> PyTree:
    """Loads a checkpoint, onto the devices that it was saved from or other devices.

    Args:
        directory: where it is.
        shardings: the shardings of the arrays, one for all or a prefix of the tree: shardings, PartitionSpecs of the
            mesh in force, devices, ShapeDtypeStructs with a sharding, whose dtype the elements are converted to and
            whose shape they must have, arrays instead of their ShapeDtypeStructs, and None for the default device.
        mask: a prefix of the tree with bools: False for what is not loaded and becomes None.
        ts_specs: for all or for a prefix of the tree tensorstore's spec besides the location; None for the default.

    Returns:
        The tree.

    Raises:
        CheckpointError: there is no complete checkpoint, or parts of it are missing or damaged.
        ShapeError: an array has another shape than its ShapeDtypeStruct.
        ShardingError: an array cannot be sharded so.
        DTypeError: the elements do not convert, or are too large with 64 bits disabled.
        TreeError: `shardings`, `mask` or `ts_specs` is no prefix of the tree, or the tree has nodes of classes that
            this process does not know.
        BackendError: tensorstore is not installed.

    >>> import effx, effx.numpy as enp, tempfile
    >>> from effx.sharding import NamedSharding, PartitionSpec as P
    >>> folder = tempfile.mkdtemp()
    >>> save({"w": enp.ones((2, 3))}, folder)
    >>> mesh = effx.make_mesh((1,), ("data",))
    >>> load(folder, NamedSharding(mesh, P("data")))["w"].sharding.spec
    P('data')
    """
    return plan_load("load", directory, shardings, mask, ts_specs)[1]()


def nonblocking_load(
    directory: str | os.PathLike[str],
    shardings: PyTree,
    *,
    mask: PyTree = None,
    ts_specs: PyTree = None,
) -> PyTreeFuture[PyTree]:
    """Loads like `load`, in the background.

    Args:
        directory, shardings, mask, ts_specs: as of `load`.

    Returns:
        A future, whose `result()` waits for the tree and raises errors, and whose `pytree` has shapes, dtypes
        and shardings.

    Raises:
        CheckpointError, ShapeError, ShardingError, TreeError, BackendError: as `load`, at once, where no array need be
            read for it; other errors come from the future.

    >>> import effx.numpy as enp, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save([enp.ones(2)], folder)
    >>> nonblocking_load(folder, None).result()
    [Array([1., 1.], dtype=float32)]
    """
    stub, work = plan_load("nonblocking_load", directory, shardings, mask, ts_specs)
    return start_in_background(_loads, stub, work)


def load_pytreedef(directory: str | os.PathLike[str]) -> PyTree:
    """Loads a checkpoint's structure only.

    Args:
        directory: where it is.

    Returns:
        The tree, with a ShapeDtypeStruct instead of each array.

    Raises:
        CheckpointError: there is no checkpoint, or its description is damaged.
        TreeError: the tree has nodes of classes that this process does not know.
        BackendError: tensorstore is not installed.

    >>> import effx.numpy as enp, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save({"w": enp.ones((2, 3)), "b": (None, 1.0)}, folder)
    >>> load_pytreedef(folder)
    {'b': (None, ShapeDtypeStruct(shape=(), dtype=float32)), 'w': ShapeDtypeStruct(shape=(2, 3), dtype=float32)}
    """
    return read_checkpoint_info("load_pytreedef", directory).stub()
