"""Load a tree: each process reads the shards of its devices."""

import os
from collections.abc import Callable, Sequence
from typing import cast, final

import attrs

from effx import dtypes
from effx.array import Array
from effx.dtypes import DType, narrow_described
from effx.errors import CheckpointError, ShapeError, TreeError
from effx.experimental.array_serialization import structures
from effx.experimental.array_serialization.arrays import ArrayToLoad, read_arrays, run_coroutine
from effx.experimental.array_serialization.folders import CheckpointFolder
from effx.experimental.array_serialization.saving import FILE, LIMIT, broadcast_specs, leaf_name, read_file
from effx.experimental.array_serialization.stores import Spec, caching_context, kvstore_spec, merge_specs
from effx.ir.meshes import PartitionSpec
from effx.ir.types import Shape
from effx.lower.placement.shardings import Device, Sharding, SingleDeviceSharding
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.transforms.placement.meshes import needs_current_mesh, sharding_on_current_mesh
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, PyTreeDef


@final
@attrs.frozen(eq=False)
class StoredLeaf:
    """The description of a stored array in a checkpoint."""

    where: str
    dtype: DType
    shape: Shape
    driver: str


@final
@attrs.frozen(eq=False)
class CheckpointInfo:
    """The metadata of a checkpoint.

    Attributes:
        shown: where it is.
        arrays: the folder of the arrays.
        form: the structure.
        leaves: the arrays.
    """

    shown: str
    arrays: str
    form: PyTreeDef
    leaves: Sequence[StoredLeaf]

    def stub(self) -> PyTree:
        """Returns the tree, with shapes and dtypes instead of arrays."""
        return self.form.unflatten([ShapeDtypeStruct(x.shape, x.dtype) for x in self.leaves])


def read_checkpoint_info(
    function_name: str, directory: "str | os.PathLike[str]", shardings: PyTree = None
) -> CheckpointInfo:
    """Reads the metadata of a checkpoint.

    Args:
        function_name: the function, for errors.
        directory: where it is.
        shardings: a tree whose nodes' classes the checkpoint may name.

    Raises:
        CheckpointError: it is not there, or damaged.
        TreeError: it has nodes of classes that are not known here.
        BackendError: tensorstore is not installed.
    """
    folder = CheckpointFolder(function_name, directory)
    data = read_file(function_name, folder)
    if data is None:
        raise CheckpointError(
            f"{function_name}: there is no checkpoint at {folder.shown}: it has no {FILE}, which a save writes last"
        )
    try:
        leaves = [_parse_leaf(cast("dict[str, object]", x)) for x in cast("list[object]", data["leaves"])]
        arrays, tree = cast("str", data["arrays"]), cast("structures.JSON", data["tree"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{function_name}: {folder.shown}: {FILE} is damaged") from error
    form = structures.structure_from_json(
        function_name, folder.shown, tree, structures.node_classes(shardings)
    )
    if form.num_leaves != len(leaves):
        raise CheckpointError(
            f"{function_name}: {folder.shown}: {FILE} is damaged: the structure has {form.num_leaves} leaves, and "
            f"{len(leaves)} are "
            f"described"
        )
    return CheckpointInfo(folder.shown, arrays, form, leaves)


def _parse_leaf(x: dict[str, object]) -> StoredLeaf:
    shape = tuple([int(n) for n in cast("list[int]", x["shape"])])
    return StoredLeaf(
        leaf_name(str(x["path"])), dtypes.from_short_name(str(x["dtype"])), shape, str(x["driver"])
    )


def plan_load(
    function_name: str, directory: "str | os.PathLike[str]", shardings: PyTree, mask: PyTree, ts_specs: PyTree
) -> tuple[PyTree, Callable[[], PyTree]]:
    """Looks at what is to be loaded.

    Args:
        function_name: the function, for errors.
        directory, shardings, mask, ts_specs: its arguments.

    Returns:
        The tree with shapes, dtypes and shardings instead of arrays, and a coroutine that loads it.

    Raises:
        CheckpointError: there is no checkpoint, or a damaged one.
        ShardingError: an array cannot be sharded as requested.
        ShapeError: a ShapeDtypeStruct has another shape than the array.
        TreeError: `shardings`, `mask` or `ts_specs` is no prefix of the tree, or has something else for leaves.
    """
    there = read_checkpoint_info(function_name, directory, shardings)
    stub = there.stub()
    target_shardings = _broadcast_load_prefix(function_name, "shardings", shardings, stub, is_load_target)
    chosen = (
        [True] * len(there.leaves)
        if mask is None
        else _broadcast_load_prefix(function_name, "mask", mask, stub)
    )
    for keep in chosen:
        if not isinstance(keep, bool):
            raise TreeError(
                f"{function_name}: mask must have bools, got {keep!r} of type {type(keep).__name__}"
            )
    specs = broadcast_specs(function_name, ts_specs, stub, len(there.leaves))
    planned_arrays: list[tuple[ArrayToLoad, Spec]] = []
    stubs: list[PyTree] = []
    for i, (leaf, keep, target, spec) in enumerate(
        zip(there.leaves, chosen, target_shardings, specs, strict=True)
    ):
        if not keep:
            stubs.append(None)
            continue
        x = plan_leaf(function_name, f"{there.shown}: {leaf.where}", leaf, target)
        dtype = narrow_described(x.dtype or leaf.dtype)
        stubs.append(ShapeDtypeStruct(leaf.shape, dtype, sharding=x.sharding))
        lies_at = {"driver": leaf.driver, "kvstore": kvstore_spec(f"{there.shown}/{there.arrays}/{i}")}
        planned_arrays.append((x, merge_specs(spec, lies_at)))

    def load() -> PyTree:
        arrays = iter(
            run_coroutine(
                read_arrays(function_name, planned_arrays, LIMIT, {"context": caching_context(function_name)})
            )
        )
        return there.form.unflatten([next(arrays) if keep else None for keep in chosen])

    return there.form.unflatten(stubs), load


def is_load_target(x: PyTree) -> bool:
    """Says whether something is a leaf in a tree of shardings or ShapeDtypeStructs."""
    return x is None or isinstance(x, Sharding | ShapeDtypeStruct | PartitionSpec | Device | Array)


def _broadcast_load_prefix(
    function_name: str,
    name: str,
    prefix_tree: PyTree,
    stub: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> list[PyTree]:
    try:
        return broadcast_prefix(prefix_tree, stub, is_leaf)
    except TreeError as error:
        reason = error.message.partition(": ")[2]
        raise TreeError(f"{function_name}: {name} is no prefix of the checkpoint's tree: {reason}") from None


def plan_leaf(function_name: str, where: str, leaf: StoredLeaf, load_target: PyTree) -> ArrayToLoad:
    """Returns how an array of a checkpoint is to be read."""
    dtype: DType | None = None
    if isinstance(load_target, ShapeDtypeStruct | Array):
        if load_target.shape != leaf.shape:
            raise ShapeError(
                f"{function_name}: {where}: expected the shape {load_target.shape}, {leaf.shape} is stored"
            )
        dtype, load_target = load_target.dtype, load_target.sharding
    if needs_current_mesh(load_target):
        load_target = sharding_on_current_mesh(function_name, load_target)
    if isinstance(load_target, Device):
        load_target = SingleDeviceSharding(load_target)
    if load_target is not None and not isinstance(load_target, Sharding):
        raise TreeError(
            f"{function_name}: {where}: expected a sharding or a ShapeDtypeStruct, got {load_target!r} of type "
            f"{type(load_target).__name__}"
        )
    if load_target is not None:
        load_target.shard_shape(leaf.shape)
    target = dtypes.canonicalize_requested(leaf.dtype) if dtype is None else dtype
    return ArrayToLoad(where, load_target, target, leaf.shape, leaf.dtype)
