"""Save a tree: all arrays first, then the file that makes them a checkpoint, so that an incomplete one is none.

A folder has `checkpoint.json`, which names the folder of the arrays, and that folder. A save writes arrays into a
folder of its own; `checkpoint.json`, which is replaced in one step, is the commit. So an interrupted save leaves the
checkpoint that was there, or none, and a folder that the next save removes.

Replacing one file is one step on disks and in object stores, where renaming directories would be two, or
none.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Sequence
from typing import cast, final

import attrs
import numpy as np

from effx import dtypes
from effx.array import Array, Box
from effx.array.promotion import as_operand
from effx.errors import (
    CheckpointError,
    ConcretizationError,
    DTypeError,
    EffxError,
    ProcessMismatchError,
    TreeError,
)
from effx.experimental.array_serialization import structures
from effx.experimental.array_serialization.agreement import Message, SaveAgreement, check_no_failure
from effx.experimental.array_serialization.arrays import (
    ArrayToSave,
    describe_array,
    run_coroutine,
    write_arrays,
)
from effx.experimental.array_serialization.folders import CheckpointFolder
from effx.experimental.array_serialization.stores import Spec, import_tensorstore, kvstore_spec, merge_specs
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.tree.mapping import flatten_with_path
from effx.tree.prefixes import broadcast_prefix, keystr
from effx.tree.registry import PyTree

FILE, ARRAYS, BEGAN = "checkpoint.json", "arrays.", "began"
FORMAT, VERSION = "effx checkpoint", 1
LIMIT = 32 << 30  # bytes of the host's memory that are on their way at a time


@final
@attrs.frozen(eq=False)
class SavePlan:
    """What a save does.

    Attributes:
        what: the function, for errors.
        directory: where.
        overwrite: whether a checkpoint may be there.
        paths: of the leaves.
        arrays: what is written.
        specs: for each array the user's spec of how it is stored.
        tree: the structure as JSON.
        stub: the tree, with shapes and dtypes instead of arrays.
        agreement: with the other processes.
    """

    what: str
    directory: "str | os.PathLike[str]"
    overwrite: bool
    paths: Sequence[str]
    arrays: Sequence[ArrayToSave]
    specs: Sequence[Spec]
    tree: structures.JSON
    stub: PyTree
    agreement: SaveAgreement

    @property
    def types(self) -> list[list[object]]:
        """The path, dtype and shape of each array, as JSON."""
        return [
            [path, dtypes.short_name(x.dtype), list(x.shape)]
            for path, x in zip(self.paths, self.arrays, strict=True)
        ]


def is_spec(x: PyTree) -> bool:
    """Says whether something is a leaf in a tree of specs."""
    return x is None or (isinstance(x, dict) and "driver" in x)


def broadcast_specs(function_name: str, spec_prefix: PyTree, tree: PyTree, count: int) -> list[Spec]:
    """Returns the specs of a tree's arrays, from a prefix of the tree.

    Raises:
        TreeError: it is no prefix.
        CheckpointError: a spec has the location of the array.
    """
    if spec_prefix is None:
        return [{"driver": "zarr3"}] * count
    try:
        leaf_specs = broadcast_prefix(spec_prefix, tree, is_spec)
    except TreeError as error:
        reason = error.message.partition(": ")[2]
        raise TreeError(f"{function_name}: ts_specs is no prefix of the tree: {reason}") from None
    for spec in leaf_specs:
        if not is_spec(spec):
            raise CheckpointError(
                f"{function_name}: ts_specs has dicts with a 'driver', and None; got {spec!r}"
            )
        if spec is not None and "kvstore" in spec:
            raise CheckpointError(f"{function_name}: a spec cannot set where arrays are stored; got {spec!r}")
    return [{"driver": "zarr3"} if spec is None else spec for spec in leaf_specs]


def plan_save(
    function_name: str,
    data: PyTree,
    directory: "str | os.PathLike[str]",
    overwrite: bool,
    ts_specs: PyTree,
    copies: bool,
) -> SavePlan:
    """Looks at what is to be saved.

    Args:
        function_name: the function, for errors.
        data, directory, overwrite, ts_specs: its arguments.
        copies: whether arrays are copied to the host now, so that they may be donated.

    Raises:
        DTypeError: a leaf is no array.
        ConcretizationError: a leaf is a tracer.
        TreeError: the structure cannot be written.
        BackendError: tensorstore is not installed.
    """
    import_tensorstore(function_name)
    paths_and_leaves, form = flatten_with_path(data)
    tree = structures.structure_to_json(function_name, form)
    paths = [keystr(path) for path, _ in paths_and_leaves]
    arrays = [
        _check_leaf(function_name, path, x) for path, (_, x) in zip(paths, paths_and_leaves, strict=True)
    ]
    stub = form.unflatten([ShapeDtypeStruct(x.shape, x.dtype) for x in arrays])
    specs = broadcast_specs(function_name, ts_specs, stub, len(arrays))
    if copies:
        arrays = [x.copy_parts(function_name) for x in arrays]
    return SavePlan(
        function_name, directory, overwrite, paths, arrays, specs, tree, stub, SaveAgreement(function_name)
    )


def leaf_name(path: str) -> str:
    """Returns what errors call the leaf at a path."""
    return f"the leaf {path}" if path else "the array"


def _check_leaf(function_name: str, path: str, x: PyTree) -> ArrayToSave:
    where = leaf_name(path)
    if isinstance(x, Box):
        raise ConcretizationError(
            f"{function_name}: {where} is {x.type!r} of a transformation, which has no value yet"
        )
    try:
        # NumPy's arrays keep their 64 bits.
        array = np.asarray(x) if isinstance(x, np.ndarray | np.generic) else as_operand(x)
        dtypes.as_dtype(array.dtype)
    except DTypeError:
        raise DTypeError(
            f"{function_name}: {where} must be an array or a number, got {x!r} of type {type(x).__name__}"
        ) from None
    if array.dtype == dtypes.float0:
        raise DTypeError(f"{function_name}: {where} is float0, of which nothing is stored")
    if isinstance(array, np.ndarray):
        array = array.astype(dtypes.as_dtype(array.dtype), copy=False)
    return describe_array(function_name, where, cast("Array", array))


def run_save(plan: SavePlan) -> None:
    """Carries out a plan, in step with the other processes."""
    function_name, agreement = plan.what, plan.agreement
    # Arrays that each process has for itself are compared by their content.
    alone = {
        str(i): hashlib.sha256(b"".join([p.host(function_name).tobytes() for p in x.parts])).hexdigest()
        for i, x in enumerate(plan.arrays)
        if agreement.count > 1 and x.processes in ((), (agreement.number,))
    }
    described = json.dumps(
        [plan.tree, plan.types, plan.overwrite, [dict(s) for s in plan.specs]], default=str
    )
    mine: Message = {"save": hashlib.sha256(described.encode()).hexdigest(), "alone": alone}
    begun: list[str] = []
    try:
        answer = agreement.settle(mine, lambda everyone: _begin_save(plan, everyone, begun))
        error = _write_parts(plan, cast("str", answer["arrays"]), cast("list[int]", answer["shared"]))
        agreement.settle(
            {"error": error} if error else {}, lambda everyone: _finish_save(plan, everyone, begun)
        )
    except BaseException:
        if begun and agreement.number == 0:
            CheckpointFolder(function_name, plan.directory).remove(begun[0])
        raise


def _begin_save(plan: SavePlan, everyone: Sequence[Message], begun: list[str]) -> Message:
    """Compares what the processes save, and makes the folder of the arrays."""
    function_name = plan.what
    check_no_failure(function_name, everyone)
    shared: list[int] = []
    claims = [cast("dict[str, str]", message["alone"]) for message in everyone]
    for k, message in enumerate(everyone):
        if message["save"] != everyone[0]["save"]:
            raise ProcessMismatchError(
                f"{function_name}: processes 0 and {k} save different trees: structure, paths, shapes, dtypes, "
                "overwrite and "
                f"ts_specs must be equal"
            )
    for i, x in enumerate(plan.arrays):
        marks = [claim.get(str(i)) for claim in claims]
        have = [k for k, mark in enumerate(marks) if mark is not None]
        if len(have) < 2:  # shards of all processes, or of only one
            continue
        other = next((k for k, mark in enumerate(marks) if mark != marks[0]), None)
        if other is not None:
            raise ProcessMismatchError(
                f"{function_name}: {x.where} is on devices of only one process, and processes 0 and {other} have "
                "different ones; "
                f"make one array of all processes, or save what is equal"
            )
        shared.append(i)
    folder = CheckpointFolder(function_name, plan.directory)
    there = read_file(function_name, folder)
    if there is not None and not plan.overwrite:
        raise CheckpointError(f"{function_name}: {folder.shown} has a checkpoint; overwrite=True replaces it")
    _remove_unfinished_saves(folder, None if there is None else str(there["arrays"]))
    begun.append(f"{ARRAYS}{uuid.uuid4().hex}")
    folder.write(f"{begun[0]}/{BEGAN}", b"")
    return {"arrays": begun[0], "shared": shared}


def _remove_unfinished_saves(folder: CheckpointFolder, keep: str | None) -> None:
    """Removes what saves have left that did not end."""
    for name in folder.names():
        if name.startswith(ARRAYS) and name != keep:
            folder.remove(name)


def _write_parts(plan: SavePlan, arrays: str, shared: Sequence[int]) -> str:
    """Writes this process's parts.

    Returns:
        What has failed; "" for nothing.
    """
    function_name, number = plan.what, plan.agreement.number
    try:
        folder = CheckpointFolder(function_name, plan.directory)
        if folder.read(f"{arrays}/{BEGAN}") is None:
            return f"{folder.shown} is not the directory of process 0: all processes must save to one file system"
        writes: list[tuple[ArrayToSave, Spec]] = []
        for i, (x, spec) in enumerate(zip(plan.arrays, plan.specs, strict=True)):
            if number == 0 or i not in shared:
                at = {"kvstore": kvstore_spec(f"{folder.shown}/{arrays}/{i}")}
                writes.append((attrs.evolve(x, where=f"{folder.shown}: {x.where}"), merge_specs(spec, at)))
        run_coroutine(write_arrays(function_name, writes, LIMIT))
    except Exception as error:  # every other process waits for word of it
        if plan.agreement.count == 1:
            raise
        return error.message if isinstance(error, EffxError) else f"{type(error).__name__}: {error}"
    return ""


def _finish_save(plan: SavePlan, everyone: Sequence[Message], begun: list[str]) -> Message:
    """Makes a checkpoint of the arrays, and removes those of the one that was there."""
    try:
        check_no_failure(plan.what, everyone)
    except CheckpointError:
        # Before the others are notified, and save again.
        CheckpointFolder(plan.what, plan.directory).remove(begun.pop())
        raise
    # From here on the arrays stay: where the next line fails, they may or may not be a checkpoint.
    arrays = begun.pop()
    folder = CheckpointFolder(plan.what, plan.directory)
    leaves = [
        {"path": path, "dtype": dtype, "shape": shape, "driver": spec["driver"]}
        for (path, dtype, shape), spec in zip(plan.types, plan.specs, strict=True)
    ]
    text = json.dumps(
        {"format": FORMAT, "version": VERSION, "arrays": arrays, "tree": plan.tree, "leaves": leaves},
        indent=1,
    )
    folder.write(FILE, text.encode())
    _remove_unfinished_saves(folder, arrays)
    return {}


def read_file(function_name: str, folder: CheckpointFolder) -> dict[str, object] | None:
    """Returns the metadata of the checkpoint in a folder; None if there is none.

    Raises:
        CheckpointError: the file is not of effx, is damaged, or of a later version.
    """
    data = folder.read(FILE)
    if data is None:
        return None
    try:
        result: object = json.loads(data)
    except ValueError:
        result = None
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise CheckpointError(f"{function_name}: {folder.shown}: {FILE} is none of effx's, or damaged")
    if result.get("version") != VERSION:
        raise CheckpointError(
            f"{function_name}: {folder.shown}: the checkpoint is of version {result.get('version')}, this effx reads "
            f"{VERSION}"
        )
    return result
