"""Write a program as a whole StableHLO module, with a public `main`."""

from collections.abc import Sequence
from typing import cast

import numpy as np

import effx.lower.text.stablehlo  # noqa: F401  # registers the rules
from effx.dtypes import bits, is_key
from effx.effects import all_optional
from effx.errors import BackendError
from effx.ir.ops.sharding import move_between_memories
from effx.ir.ops.sizes import SizeValue
from effx.ir.program import Program, Scalar
from effx.ir.sizes.dimensions import has_symbolic, is_symbolic
from effx.ir.types import ArrayType
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.placement.layouts import Layouts, layout_attribute
from effx.lower.placement.memories import Memories
from effx.lower.placement.parallel_maps import Partitioning, infer_partitioning
from effx.lower.placement.resharding import restore_default_layout
from effx.lower.placement.shardy import sharding_attribute
from effx.lower.placement.tiling import Tiling
from effx.lower.text.emit import HostedCall, Module, constant_text, function_lines


def _sharding_attributes(module: Module, tilings: Sequence[Tiling | None]) -> list[list[str]]:
    """Returns the sharding attributes of arguments or results of `main`; none where the partitioner decides."""
    return [[] if x is None else [sharding_attribute(module.mesh(x.sizes), x)] for x in tilings]


def module_text(
    program: Program,
    platform: str,
    donated: Sequence[bool] = (),
    *,
    debug_info: bool = True,
    partitioning: Partitioning | None = None,
    memories: Memories | None = None,
    layouts: Layouts | None = None,
    parts_in_place: bool = False,
) -> str:
    """Returns the StableHLO text of a program as a module with a public `main`; see `build_module`."""
    return build_module(
        program,
        platform,
        donated,
        debug_info=debug_info,
        partitioning=partitioning,
        memories=memories,
        layouts=layouts,
        parts_in_place=parts_in_place,
    )[0]


def build_module(
    program: Program,
    platform: str,
    donated: Sequence[bool] = (),
    *,
    debug_info: bool = True,
    partitioning: Partitioning | None = None,
    memories: Memories | None = None,
    constants: Sequence[str] = (),
    layouts: Layouts | None = None,
    parts_in_place: bool = False,
    device_ids: tuple[int, ...] = (),
) -> tuple[str, tuple[HostedCall, ...], bool]:
    """Returns the text, the operations in it that run on the host, each with the types of its results, and whether it
    calls foreign functions.

    Args:
        program: closed: its effect row is empty.
        platform: "cpu", "cuda", "rocm" or "tpu".
        donated: for each input whether its memory may be reused for a result.
        debug_info: True to keep locations.
        partitioning: the tilings over several devices; by default those of its parallel maps.
        memories: those of inputs and outputs; None for the default one throughout.
        constants: the texts of the first inputs' values, which are then no arguments; for one device and memory.
        layouts: those of inputs and outputs; None for the default one throughout.
        device_ids: those of the one device, if there is one and it is known.
        parts_in_place: True to write loops' bodies and branches where they are, so that their locations say so.
    """
    if not all_optional(program.effects):
        advice = "".join(sorted({f"; {e.advice}" for e in program.effects if e.advice}))
        raise BackendError(
            f"lower: {program.name} leaves effects open: {sorted(map(repr, program.effects))}{advice}"
        )
    symbolic = [t for t in (*program.in_types, *program.out_types) if has_symbolic(t.shape)]
    if symbolic or any([type(e.op) is SizeValue and is_symbolic(e.op.size) for e in program.equations]):
        shown = f" ({symbolic[0]!r})" if symbolic else ""
        raise BackendError(
            f"lower: {program.name} has symbolic sizes{shown}, and XLA compiles for known ones; "
            f"effx.export.export makes one module for all sizes"
        )
    partitioning = partitioning or infer_partitioning(program)
    module = (
        Module(platform, 1, debug_info, ids=device_ids)
        if partitioning is None
        else Module(platform, partitioning.count, debug_info, ids=partitioning.ids)
    )
    module.writes_parts_in_place = parts_in_place
    attributes = (
        [[] for _ in program.inputs]
        if partitioning is None
        else _sharding_attributes(module, partitioning.inputs)
    )
    results = [] if partitioning is None else _sharding_attributes(module, partitioning.outputs)
    cuts: tuple[Sequence[object], Sequence[object]] | None = (
        None if partitioning is None else (partitioning.inputs, partitioning.outputs)
    )
    if memories is not None and memories.has_other_memories:
        program = move_between_memories(program, memories.inputs, memories.outputs, memories.usual)
        results = results or [[] for _ in program.outputs]
        for side, kinds in ((attributes, memories.inputs), (results, memories.outputs)):
            for entry, kind in zip(side, kinds, strict=True):
                if kind is not None:
                    entry.append(f'mhlo.memory_kind = "{kind}"')
        cuts = (attributes[:], results[:])
    if layouts:
        results = results or [[] for _ in program.outputs]
        for side, requested_layouts in ((attributes, layouts.inputs), (results, layouts.outputs)):
            for entry, layout in zip(side, requested_layouts, strict=False):  # () for None everywhere
                if layout is not None:
                    entry.append(layout_attribute(layout))
        cuts = (attributes[:], results[:])
    main = main_lines(
        module,
        program,
        attributes[len(constants) :],
        results=results,
        donated=donated,
        cuts=cuts,
        constants=constants,
    )
    return (
        assemble_module_text(module, f"jit_{program.name}", main, 1, module.devices),
        tuple(module.hosted),
        module.is_foreign,
    )


def main_lines(
    module: Module,
    program: Program,
    attributes: Sequence[list[str]],
    *,
    results: Sequence[list[str]],
    donated: Sequence[bool],
    cuts: tuple[Sequence[object], Sequence[object]] | None,
    constants: Sequence[str],
) -> list[str]:
    """Returns the lines of the public `main`.

    Args:
        attributes, donated: for each argument. results: the results' attributes; empty for none.
        cuts: as `_mark_donations` takes them.
        constants: the texts of the first inputs' values, which are no arguments.
    """
    _mark_donations(attributes, donated, program.in_types[len(constants) :], program.out_types, cuts)
    return function_lines(
        module,
        program,
        "main",
        "public",
        attributes=[", ".join(a) for a in attributes],
        result_attributes=[", ".join(a) for a in results],
        constants=constants,
    )


def _mark_donations(
    attributes: Sequence[list[str]],
    donated: Sequence[bool],
    in_types: Sequence[ArrayType],
    out_types: Sequence[ArrayType],
    cuts: tuple[Sequence[object], Sequence[object]] | None,
) -> None:
    """Adds to the attributes of donated arguments of `main` the result that reuses their memory.

    Args:
        attributes: for each argument. donated: for each argument whether its memory may be reused.
        in_types, out_types: of the arguments and results.
        cuts: the tilings over several devices: an argument's memory fits a result with the same one. None for one
            device.
    """
    used_results: set[int] = set()
    for i, t in [
        (i, t)
        for i, (t, input_index_and_type) in enumerate(zip(in_types, donated, strict=False))
        if input_index_and_type
    ]:
        for j, out in enumerate(out_types):
            if j not in used_results and out.matches(t) and (cuts is None or cuts[0][i] == cuts[1][j]):
                used_results.add(j)
                attributes[i].append(f"tf.aliasing_output = {j} : i32")
                break
        else:
            attributes[i].append("jax.buffer_donor = true")


def assemble_module_text(
    module: Module, name: str, main: Sequence[str], replicas: int, partitions: int
) -> str:
    """Returns the text of a module whose functions have been written."""
    shown = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    counts = f"mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = {replicas} : i32"
    parts = [
        f"module @{shown} attributes {{{counts}}} {{",
        *module.mesh_lines(),
        *main,
        *module.functions,
        "}",
        *module.location_lines(),
        "",
    ]
    return "\n".join(parts)


def array_literal_text(x: ConcreteArray) -> str:
    """Returns the text inside `dense<...>` of an array."""
    t = x.type
    if t.size == 0:
        return ""
    if is_key(t.dtype):
        return f'"0x{np.asarray(restore_default_layout(x.buffer, t)).tobytes().hex().upper()}"'
    values = np.asarray(x)
    if t.kind != "b" and bits(t.dtype) >= 8:
        return f'"0x{values.tobytes().hex().upper()}"'
    # MLIR has changed how it packs dtypes smaller than a byte.
    return _nested_text(values.tolist(), t)


def _nested_text(values: object, t: ArrayType) -> str:
    if isinstance(values, list):
        return f"[{', '.join([_nested_text(v, t) for v in values])}]"
    return constant_text(cast("Scalar", values), t)
