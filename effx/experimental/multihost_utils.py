"""Values of the host that the processes of a group exchange: barriers, broadcasts, gathering, comparison.

The data go through the store of XLA's coordination service, in process 0, so this is for settings, counts and the like;
what is large is better an array on the devices of all processes. All processes make the same calls in the same order.

Calls are compared before data are exchanged, so different programs are an error and no deadlock.
"""

import hashlib
import json
import textwrap

import numpy as np

from effx.array import Array, Box
from effx.errors import DTypeError, ProcessMismatchError
from effx.ir.meshes import PartitionSpec
from effx.lazy import list_names
from effx.lower.placement.meshes import Mesh
from effx.lower.placement.processes import Group, current_group
from effx.lower.placement.shardings import NamedSharding
from effx.transforms.placement.device_put import device_put
from effx.transforms.placement.global_arrays import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from effx.tree.mapping import leaves, structure, unflatten
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, flatten

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "process_allgather",
    "sync_global_devices",
]
__dir__ = list_names(__all__)

Arrays = list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]


def sync_global_devices(name: str) -> None:
    """Waits until all processes have reached this call.

    Args:
        name: the name of this call, the same in all processes.

    Raises:
        ProcessMismatchError: another process makes another call.
        DistributedError: another process has failed, or has ended.

    >>> sync_global_devices("start")
    """
    if current_group:
        _wait_for_same_call(current_group[0], f"sync_global_devices({name!r})")


def broadcast_one_to_all(in_tree: PyTree, is_source: bool | None = None) -> PyTree:
    """Returns what one process passes, in all of them.

    Args:
        in_tree: a tree of arrays or numbers, of one structure with the same shapes and dtypes in all processes.
        is_source: whether this process is the one; None for process 0.

    Returns:
        The source's tree, with NumPy's arrays as leaves.

    Raises:
        ProcessMismatchError: the processes pass different structures, shapes or dtypes, or not one is the source.
        DistributedError: another process has failed, or has ended.

    >>> broadcast_one_to_all({"step": 3})
    {'step': array(3)}
    """
    function_name = "broadcast_one_to_all"
    arrays = _check_arrays(function_name, in_tree)
    if current_group:
        group = current_group[0]
        mine = group.process_id == 0 if is_source is None else is_source
        key, marks = _wait_for_same_call(
            group, _describe_arrays(function_name, in_tree, arrays), "source" if mine else ""
        )
        sources = [k for k, mark in enumerate(marks) if mark]
        if len(sources) != 1:
            raise ProcessMismatchError(
                f"{function_name}: one process must be the source, got {sources or 'none'}"
            )
        if mine:
            group.put(f"{key}/data", _arrays_to_bytes(arrays))
        else:
            arrays = _arrays_from_bytes(
                group.get(function_name, f"{_process_key(key, sources[0])}/data", sources[0]), arrays
            )
    return unflatten(structure(in_tree), arrays)


def process_allgather(in_tree: PyTree, tiled: bool = False) -> PyTree:
    """Returns the inputs of all processes, in all of them; arrays on devices of several processes as a whole.

    Args:
        in_tree: a tree of arrays or numbers, of one structure with the same shapes and dtypes in all processes.
        tiled: whether arrays are joined along their first axis; else, and for numbers, they are stacked along a new
            one.

    Returns:
        The tree, with NumPy's arrays as leaves: `[num_processes, *shape]`, or `[num_processes * n, *rest]`.

    Raises:
        ProcessMismatchError: the processes pass different structures, shapes or dtypes.
        DistributedError: another process has failed, or has ended.

    >>> process_allgather(np.ones(2))
    array([[1., 1.]])
    """
    function_name = "process_allgather"
    leaf_arrays, form = flatten(in_tree)
    if any([_is_global(x) for x in leaf_arrays]):
        own = iter(leaves(process_allgather([x for x in leaf_arrays if not _is_global(x)], tiled)))
        return form.unflatten(
            [np.asarray(_replicate(x)) if _is_global(x) else next(own) for x in leaf_arrays]
        )
    arrays = _check_arrays(function_name, in_tree)
    everyone = _gather_arrays(function_name, in_tree, arrays)
    if len(everyone) == 1 and tiled:
        return unflatten(structure(in_tree), arrays)
    together = [
        np.concatenate(column) if tiled and column[0].ndim else np.stack(column)
        for column in zip(*everyone, strict=True)
    ]
    return unflatten(structure(in_tree), together)


def _is_global(x: PyTree) -> bool:
    return isinstance(x, Array) and not isinstance(x, Box) and not x.is_fully_addressable


def _replicate(x: Array) -> Array:
    """Returns an array replicated on all of its devices."""
    return device_put(x, NamedSharding(x.sharding.mesh, PartitionSpec()))


def host_local_array_to_global_array(local_inputs: PyTree, global_mesh: Mesh, pspecs: PyTree) -> PyTree:
    """Makes arrays on the devices of all processes of what each process has.

    Args:
        local_inputs: a tree of arrays: along a sharded axis, the part of this process's devices.
        global_mesh: of the devices of all processes.
        pspecs: a PartitionSpec for all, or a prefix of the tree.

    Raises:
        ShardingError: an array cannot be sharded so.

    >>> import effx
    >>> mesh = effx.make_mesh((1,), ("data",))
    >>> host_local_array_to_global_array(np.ones(2), mesh, effx.P("data")).shape
    (2,)
    """
    arrays, form = flatten(local_inputs)
    specs = broadcast_prefix(pspecs, local_inputs, lambda x: isinstance(x, PartitionSpec))
    return form.unflatten([
        make_array_from_process_local_data(NamedSharding(global_mesh, spec), x)
        for x, spec in zip(arrays, specs, strict=True)
    ])  # fmt: skip


def global_array_to_host_local_array(global_inputs: PyTree, global_mesh: Mesh, pspecs: PyTree) -> PyTree:
    """Returns what the devices of this process hold of arrays on the devices of all, as arrays on these devices.

    Args:
        global_inputs: a tree of arrays.
        global_mesh: of the devices of all processes.
        pspecs: the arrays' shardings: a PartitionSpec for all, or a prefix of the tree. Arrays with others are moved.

    Raises:
        ShardingError: an array cannot be sharded so.

    >>> import effx
    >>> mesh = effx.make_mesh((1,), ("data",))
    >>> x = effx.device_put(np.ones(2), effx.NamedSharding(mesh, effx.P("data")))
    >>> global_array_to_host_local_array(x, mesh, effx.P("data")).shape
    (2,)
    """
    arrays, form = flatten(global_inputs)
    specs = broadcast_prefix(pspecs, global_inputs, lambda x: isinstance(x, PartitionSpec))
    return form.unflatten([_local_part(x, global_mesh, spec) for x, spec in zip(arrays, specs, strict=True)])


def _local_part(x: PyTree, mesh: Mesh, spec: PartitionSpec) -> Array:
    placed: Array = device_put(x, NamedSharding(mesh, spec))
    here = NamedSharding(mesh.local_mesh, spec)
    parts = placed.addressable_shards
    cut = here.tiling(placed.ndim).parts
    shape = tuple([n * k for n, k in zip(parts[0].data.shape, cut, strict=True)])
    return make_array_from_single_device_arrays(shape, here, [part.data for part in parts])


def assert_equal(in_tree: PyTree, fail_message: str = "") -> None:
    """Checks that all processes pass equal values; NaN is equal to itself.

    Args:
        in_tree: a tree of arrays or numbers.
        fail_message: what the error begins with.

    Raises:
        ProcessMismatchError: they differ, in structure, shapes, dtypes or values. It is an AssertionError too.
        DistributedError: another process has failed, or has ended.

    >>> assert_equal({"step": 3})
    """
    function_name = "assert_equal"
    arrays = _check_arrays(function_name, in_tree)
    everyone = _gather_arrays(function_name, in_tree, arrays)
    for k, others in enumerate(everyone):
        for first, other in zip(everyone[0], others, strict=True):
            # Bytes would distinguish 0.0 from -0.0.
            if not np.all((first == other) | ((first != first) & (other != other))):
                raise ProcessMismatchError(
                    f"{function_name}: {fail_message}{': ' * bool(fail_message)}process 0 has {_shorten(str(first))}, "
                    f"process {k} "
                    f"has {_shorten(str(other))}"
                )


def _check_arrays(function_name: str, tree: PyTree) -> Arrays:
    results = [np.asarray(leaf) for leaf in leaves(tree)]
    for array in results:
        if array.dtype.hasobject or array.dtype.kind in "SUMm":
            raise DTypeError(f"{function_name}: expected arrays and numbers, got {array.dtype}")
    return results


def _describe_arrays(function_name: str, tree: PyTree, arrays: Arrays) -> str:
    types = [f"{a.dtype.name}[{','.join(map(str, a.shape))}]" for a in arrays]
    return f"{function_name} of {structure(tree)} with {', '.join(types)}"


def _gather_arrays(function_name: str, tree: PyTree, arrays: Arrays) -> list[Arrays]:
    """Returns the arrays of all processes."""
    if not current_group or current_group[0].num_processes == 1:
        return [arrays]
    group = current_group[0]
    key, _ = _wait_for_same_call(group, _describe_arrays(function_name, tree, arrays))
    group.put(f"{key}/data", _arrays_to_bytes(arrays))
    return [
        arrays
        if k == group.process_id
        else _arrays_from_bytes(group.get(function_name, f"{_process_key(key, k)}/data", k), arrays)
        for k in range(group.num_processes)
    ]


def _process_key(key: str, process: int) -> str:
    return f"{key.rpartition('/')[0]}/{process}"


def _wait_for_same_call(group: Group, call: str, mark: str = "") -> tuple[str, list[str]]:
    """Waits until all processes make the same call.

    Returns:
        The key under which this process puts its data, and the marks of all processes.
    """
    function_name = call.partition("(")[0].partition(" ")[0]
    number = group.exchanges = group.exchanges + 1
    key, together = f"effx/{number}/{group.process_id}", f"effx/{number}/all"
    # Calls are compared in full and shown abbreviated.
    mine = [_shorten(call), hashlib.sha256(call.encode()).hexdigest(), mark]
    if group.process_id == 0:
        others = [
            json.loads(group.get(function_name, f"effx/{number}/{k}", k))
            for k in range(1, group.num_processes)
        ]
        calls: list[list[str]] = [mine, *others]
        group.put(together, json.dumps(calls).encode())
    else:
        group.put(key, json.dumps(mine).encode())
        calls = json.loads(group.get(function_name, together, 0))
    # Whoever is here has read all of the call before.
    group.delete(f"effx/{number - 1}/{group.process_id}")
    if group.process_id == 0:
        group.delete(f"effx/{number - 1}/all")
    for k, other in enumerate(calls):
        if other[1] != calls[0][1]:
            raise ProcessMismatchError(
                f"{function_name}: the processes make different calls: process 0 {calls[0][0]}, process {k} {other[0]}"
            )
    return key, [other[2] for other in calls]


def _shorten(text: str) -> str:
    return textwrap.shorten(text, 200, placeholder=" ...")


def _arrays_to_bytes(arrays: Arrays) -> bytes:
    return b"".join([a.tobytes() for a in arrays])


def _arrays_from_bytes(data: bytes, like: Arrays) -> Arrays:
    """Returns arrays of the same shapes and dtypes from their bytes."""
    arrays, start = [], 0
    for a in like:
        arrays.append(np.frombuffer(data, a.dtype, a.size, start).reshape(a.shape).copy())
        start += a.nbytes
    return arrays
