"""Sharding constraints (`Constrain`), the operations that name meshes, and the memories of programs' inputs and
outputs.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, cast, final

import attrs

from effx.errors import ShardingError
from effx.ir.meshes import AbstractMesh, AxisType
from effx.ir.ops.base import check_arity
from effx.ir.ops.checkpoint import Checkpoint, CheckpointName, Identity, Offload, Unpinned
from effx.ir.ops.control import Call, Calling, HigherOrder, higher_order_operations
from effx.ir.ops.layout import ConstrainLayout
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Equation, Program, Var
from effx.ir.types import ArrayType, drop_mesh_axes, type_sharding

__all__ = [
    "Constrain",
    "MeshOperation",
    "Move",
    "Release",
    "has_unequal_parts",
    "input_constraints",
    "mesh_operations",
    "move_between_memories",
    "output_memories",
]


@final
@attrs.frozen
class Constrain(Identity):
    """The identity on an array, with a sharding over a mesh. StableHLO: sdy.sharding_constraint.

    Attributes:
        mesh: names and sizes of the mesh's axes.
        cuts: for each array axis the numbers of the mesh axes that shard it; None leaves it to the partitioner.
        devices: ids of the mesh's devices; None for those of the program.
        platform: the devices' platform.
        explicit: names of the mesh axes in the result's type.
        unreduced, reduced: the numbers of the mesh axes along which the result is so: see `PartitionSpec`.
    """

    mesh: tuple[tuple[Any, int], ...]
    cuts: tuple[tuple[int, ...] | None, ...]
    devices: tuple[int, ...] | None = None
    platform: str | None = None
    explicit: tuple[Any, ...] = ()
    unreduced: tuple[int, ...] = ()
    reduced: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the mesh's axes."""
        return tuple([n for _, n in self.mesh])

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh, with the types of its axes."""
        kinds = [AxisType.Explicit if name in self.explicit else AxisType.Auto for name, _ in self.mesh]
        return AbstractMesh(self.sizes, [name for name, _ in self.mesh], kinds)

    def applies_to(self, t: ArrayType) -> bool:
        """Returns whether an array of this type can have the sharding."""
        parts = [prod([self.sizes[a] for a in axes or ()]) for axes in self.cuts]
        return len(parts) == t.ndim and not any([n % k for n, k in zip(t.shape, parts, strict=True)])

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type. Inside of programs XLA pads parts that are not equal."""
        check_arity(self, types, 1)
        (t,) = types
        if len(self.cuts) != t.ndim:
            raise ShardingError(
                f"with_sharding_constraint: {t!r} has {t.ndim} axes, but the constraint is for {len(self.cuts)}"
            )
        return t

    def check_equal_parts(self, t: ArrayType) -> None:
        """Checks that an array of a type, which is no value inside of a program, can have the sharding.

        Raises:
            ShardingError: its parts would not be equal.
        """
        if not self.applies_to(t):
            cuts = ", ".join(
                [
                    "any" if c is None else "x".join([str(self.mesh[a][0]) for a in c]) or "-"
                    for c in self.cuts
                ]
            )
            raise ShardingError(
                f"with_sharding_constraint: {t!r} cannot be sharded into equal parts by ({cuts}) of a mesh of "
                f"{dict(self.mesh)}"
            )


@final
@attrs.frozen
class Release(Identity):
    """The identity on an array, without some mesh axes in its type: the partitioner chooses its sharding over them.

    Attributes:
        axes: the mesh axes.
    """

    axes: tuple[Any, ...]

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type without the axes."""
        check_arity(self, types, 1)
        (t,) = types
        if t.explicit_sharding is None:
            return t
        kept = drop_mesh_axes(t.explicit_sharding.mesh_axes(t.ndim), self.axes)
        unreduced, reduced = t.explicit_sharding.sums
        return t.with_sharding(
            type_sharding(t.explicit_sharding.mesh, kept, (unreduced, reduced.difference(self.axes)))
        )


@final
@attrs.frozen
class Move(Identity):
    """The identity, on other devices. It is performed on values of arrays outside of programs only: the devices of a program
    are chosen for all of it.

    Attributes:
        target: the device or sharding of the result. source: that of the operand, to which cotangents are moved back; None
            for those of what they are computed from.
    """

    name = "device_put"
    target: object
    source: object = None


MeshOperation = Constrain | ParallelMap
"""An operation that names a mesh."""


def mesh_operations(program: Program) -> tuple[MeshOperation, ...]:
    """Returns the operations that name a mesh, in a program and its nested programs; cached."""
    operations = program.derived.get("places")
    if operations is None:
        operations = program.derived["places"] = tuple(dict.fromkeys(_iterate_mesh_operations(program)))
    return cast("tuple[MeshOperation, ...]", operations)


def _iterate_mesh_operations(program: Program) -> Iterator[MeshOperation]:
    for op in (
        [e.op for e in program.equations] if Constrain in program.kinds else higher_order_operations(program)
    ):
        if type(op) is Constrain:
            yield op
        elif isinstance(op, HigherOrder):
            if type(op) is ParallelMap and op.mesh is not None:
                yield op
            for inner in op.programs:
                yield from mesh_operations(inner)


def has_unequal_parts(program: Program) -> bool:
    """Returns whether a constraint in a program, or in its nested programs, is to unequal parts; cached."""
    if "unequal parts" not in program.derived:
        program.derived["unequal parts"] = any(
            [type(e.op) is Constrain and not e.op.applies_to(e.inputs[0].type) for e in program.equations]
        ) or any(
            [has_unequal_parts(inner) for op in higher_order_operations(program) for inner in op.programs]
        )
    return cast("bool", program.derived["unequal parts"])


def input_constraints(program: Program) -> tuple[Constrain | None, ...]:
    """Returns for each input of a program its sharding constraint, if that is its only use."""
    constraints = program.derived.get("constrained inputs")
    if constraints is None:
        constraints = program.derived["constrained inputs"] = _find_input_constraints(program)
    return cast("tuple[Constrain | None, ...]", constraints)


def _find_input_constraints(program: Program) -> tuple[Constrain | None, ...]:
    uses: dict[Var, set[Constrain | None]] = {x: set() for x in program.inputs}
    for e in program.equations:
        inner: tuple[Constrain | None, ...] = (None,) * len(e.inputs)
        op = e.op
        if (
            type(op) is Constrain
            and not op.unreduced
            and None not in op.cuts
            and op.applies_to(e.inputs[0].type)
        ):
            inner = (op,)
        elif type(e.op) is Call:
            inner = input_constraints(e.op.program)
        for x, use in zip(e.inputs, inner, strict=True):
            if type(x) is Var and x in uses:
                uses[x].add(use)
    for x in program.outputs:
        if type(x) is Var and x in uses:
            uses[x].add(None)
    return tuple([next(iter(uses[x])) if len(uses[x]) == 1 else None for x in program.inputs])


OutputMemory = str | int | None
"""The memory of a program's output: a kind of memory; that of the input of this number; None for the default."""


_MEMORY_PRESERVING = (Offload, Constrain, ConstrainLayout, CheckpointName, Unpinned, Call, Checkpoint)


def output_memories(program: Program) -> tuple[OutputMemory, ...]:
    """Returns the memory of each output of a program; cached."""
    memories = program.derived.get("memories of outputs")
    if memories is None:
        memories = program.derived["memories of outputs"] = _find_output_memories(program)
    return cast("tuple[OutputMemory, ...]", memories)


def _find_output_memories(program: Program) -> tuple[OutputMemory, ...]:
    memory_by_value: dict[object, OutputMemory] = {x: i for i, x in enumerate(program.inputs)}
    for e in [] if program.kinds.isdisjoint(_MEMORY_PRESERVING) else program.equations:
        if type(e.op) is Offload:
            memory_by_value[e.outputs[0]] = None if e.op.back else e.op.dst
        elif type(e.op) in (Constrain, ConstrainLayout, CheckpointName, Unpinned):
            memory_by_value[e.outputs[0]] = memory_by_value.get(e.inputs[0])
        elif type(e.op) in (Call, Checkpoint):
            inner = output_memories(cast("Calling", e.op).program)
            for y, memory in zip(e.outputs, inner, strict=True):
                memory_by_value[y] = (
                    memory_by_value.get(e.inputs[memory]) if isinstance(memory, int) else memory
                )
    return tuple([memory_by_value.get(x) for x in program.outputs])


def move_between_memories(
    program: Program, inputs: Sequence[str | None], outputs: Sequence[str | None], default_memory: str
) -> Program:
    """Returns a program with inputs and outputs in other memories than computations use.

    Args:
        inputs, outputs: for each the kind of memory; None for the default one. default_memory: the default kind.
    """
    program_inputs, results = list(program.inputs), list(program.outputs)
    input_moves: list[Equation] = []
    output_moves: list[Equation] = []
    for i, kind in enumerate(inputs):
        if kind is not None:
            x = program_inputs[i]
            program_inputs[i] = Var(x.type)
            input_moves.append(Equation(Offload(default_memory, kind, back=True), (program_inputs[i],), (x,)))
    for i, (kind, memory) in enumerate(zip(outputs, output_memories(program), strict=True)):
        if (kind is not None and memory != kind) or (kind is None and isinstance(memory, str)):
            op = (
                Offload(default_memory, kind)
                if kind is not None
                else Offload(default_memory, str(memory), back=True)
            )
            y = Var(results[i].type)
            output_moves.append(Equation(op, (results[i],), (y,)))
            results[i] = y
    equations = (*input_moves, *program.equations, *output_moves)
    return attrs.evolve(
        program, inputs=tuple(program_inputs), equations=equations, outputs=tuple(results), derived={}
    )
