"""Loads a tree: each process reads what its devices shall have."""

import os
from collections.abc import Callable, Sequence
from typing import cast, final

import attrs

from effx import dtypes
from effx.array import Array
from effx.dtypes import DType
from effx.errors import CheckpointError, ShapeError, TreeError
from effx.experimental.array_serialization import structures
from effx.experimental.array_serialization.arrays import Wanted, read_all, run
from effx.experimental.array_serialization.folders import Folder
from effx.experimental.array_serialization.saving import FILE, LIMIT, leaf_name, read_file, specs_for
from effx.experimental.array_serialization.stores import Spec, caching_context, kvstore, merged
from effx.ir.meshes import PartitionSpec
from effx.ir.types import Shape
from effx.lower.placement.shardings import Device, Sharding, SingleDeviceSharding
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.transforms.meshes.meshes import in_force
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, PyTreeDef


@final
@attrs.frozen(eq=False)
class Leaf:
    """An array as a checkpoint says that it is stored."""

    where: str
    dtype: DType
    shape: Shape
    driver: str


@final
@attrs.frozen(eq=False)
class Checkpoint:
    """What a checkpoint says of itself.

    Attributes:
        shown: where it is.
        arrays: the folder of the arrays.
        form: the structure.
        leaves: the arrays.
    """

    shown: str
    arrays: str
    form: PyTreeDef
    leaves: Sequence[Leaf]

    def stub(self) -> PyTree:
        """Returns the tree, with shapes and dtypes in place of arrays."""
        return self.form.unflatten([ShapeDtypeStruct(x.shape, x.dtype) for x in self.leaves])


def found_at(what: str, directory: "str | os.PathLike[str]", shardings: PyTree = None) -> Checkpoint:
    """Reads what a checkpoint says of itself.

    Args:
        what: the function, for errors.
        directory: where it is.
        shardings: a tree whose nodes' classes the checkpoint may name.

    Raises:
        CheckpointError: it is not there, or damaged.
        TreeError: it has nodes of classes that are not known here.
        BackendError: tensorstore is not installed.
    """
    folder = Folder(what, directory)
    data = read_file(what, folder)
    if data is None:
        raise CheckpointError(
            f"{what}: there is no checkpoint at {folder.shown}: it has no {FILE}, which a save writes last"
        )
    try:
        leaves = [_leaf(cast("dict[str, object]", x)) for x in cast("list[object]", data["leaves"])]
        arrays, tree = cast("str", data["arrays"]), cast("structures.JSON", data["tree"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{what}: {folder.shown}: {FILE} is damaged") from error
    form = structures.read(what, folder.shown, tree, structures.classes_of(shardings))
    if form.num_leaves != len(leaves):
        raise CheckpointError(
            f"{what}: {folder.shown}: {FILE} is damaged: the structure has {form.num_leaves} leaves, and {len(leaves)} are "
            f"described"
        )
    return Checkpoint(folder.shown, arrays, form, leaves)


def _leaf(x: dict[str, object]) -> Leaf:
    shape = tuple([int(n) for n in cast("list[int]", x["shape"])])
    return Leaf(leaf_name(str(x["path"])), dtypes.from_short_name(str(x["dtype"])), shape, str(x["driver"]))


def planned_load(
    what: str, directory: "str | os.PathLike[str]", shardings: PyTree, mask: PyTree, ts_specs: PyTree
) -> tuple[PyTree, Callable[[], PyTree]]:
    """Looks at what is to be loaded.

    Args:
        what: the function, for errors.
        directory, shardings, mask, ts_specs: its arguments.

    Returns:
        The tree with shapes, dtypes and shardings in place of arrays, and what loads it.

    Raises:
        CheckpointError: there is no checkpoint, or a damaged one.
        ShardingError: an array cannot be cut as asked for.
        ShapeError: a ShapeDtypeStruct has another shape than the array.
        TreeError: `shardings`, `mask` or `ts_specs` is no prefix of the tree, or has something else for leaves.
    """
    there = found_at(what, directory, shardings)
    stub = there.stub()
    lies = _prefix(what, "shardings", shardings, stub, is_place)
    chosen = [True] * len(there.leaves) if mask is None else _prefix(what, "mask", mask, stub)
    for keep in chosen:
        if not isinstance(keep, bool):
            raise TreeError(f"{what}: mask must have bools, got {keep!r} of type {type(keep).__name__}")
    specs = specs_for(what, ts_specs, stub, len(there.leaves))
    wanted: list[tuple[Wanted, Spec]] = []
    stubs: list[PyTree] = []
    for i, (leaf, keep, place, spec) in enumerate(zip(there.leaves, chosen, lies, specs, strict=True)):
        if not keep:
            stubs.append(None)
            continue
        x = wanted_leaf(what, f"{there.shown}: {leaf.where}", leaf, place)
        stubs.append(ShapeDtypeStruct(leaf.shape, x.dtype or leaf.dtype, sharding=x.sharding))
        lies_at = {"driver": leaf.driver, "kvstore": kvstore(f"{there.shown}/{there.arrays}/{i}")}
        wanted.append((x, merged(spec, lies_at)))

    def load() -> PyTree:
        arrays = iter(run(read_all(what, wanted, LIMIT, {"context": caching_context(what)})))
        return there.form.unflatten([next(arrays) if keep else None for keep in chosen])

    return there.form.unflatten(stubs), load


def is_place(x: PyTree) -> bool:
    """Says whether something is a leaf in a tree of shardings or ShapeDtypeStructs."""
    return x is None or isinstance(x, Sharding | ShapeDtypeStruct | PartitionSpec | Device | Array)


def _prefix(
    what: str, name: str, given: PyTree, stub: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> list[PyTree]:
    try:
        return broadcast_prefix(given, stub, is_leaf)
    except TreeError as error:
        reason = error.message.partition(": ")[2]
        raise TreeError(f"{what}: {name} is no prefix of the checkpoint's tree: {reason}") from None


def wanted_leaf(what: str, where: str, leaf: Leaf, place: PyTree) -> Wanted:
    """Returns how an array of a checkpoint is to be read."""
    dtype: DType | None = None
    if isinstance(place, ShapeDtypeStruct | Array):
        if place.shape != leaf.shape:
            raise ShapeError(f"{what}: {where}: expected the shape {place.shape}, {leaf.shape} is stored")
        dtype, place = place.dtype, place.sharding
    if isinstance(place, PartitionSpec):
        place = in_force(what, place)
    if isinstance(place, Device):
        place = SingleDeviceSharding(place)
    if place is not None and not isinstance(place, Sharding):
        raise TreeError(
            f"{what}: {where}: expected a sharding or a ShapeDtypeStruct, got {place!r} of type {type(place).__name__}"
        )
    if place is not None:
        place.shard_shape(leaf.shape)
    target = dtypes.requested(leaf.dtype) if dtype is None else dtype
    return Wanted(where, place, target, leaf.shape, leaf.dtype)
