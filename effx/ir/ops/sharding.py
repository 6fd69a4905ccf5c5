"""The operation by which a user tells the partitioner how an array shall lie on a mesh, who names meshes, and in which
memories programs leave their results.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, cast, final

import attrs

from effx.errors import ShardingError
from effx.ir.meshes import AbstractMesh, AxisType
from effx.ir.ops.base import check_arity
from effx.ir.ops.checkpoint import Checkpoint, CheckpointName, Identity, Offload
from effx.ir.ops.control import Call, Calling, HigherOrder, holders
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Equation, Program, Var
from effx.ir.types import ArrayType, type_sharding, without_axes

__all__ = [
    "Constrain",
    "Placing",
    "Release",
    "between_memories",
    "constrained_inputs",
    "memories_of_outputs",
    "places_in",
]


@final
@attrs.frozen
class Constrain(Identity):
    """The identity on an array, which then lies on a mesh as this says. StableHLO: sdy.sharding_constraint.

    Attributes:
        mesh: names and sizes of the mesh's axes.
        cuts: for each array axis the numbers of the mesh axes that cut it; None for one that is left to the partitioner.
        devices: ids of the mesh's devices; None for those on which the program runs.
        platform: theirs.
        explicit: names of mesh axes of which the result's type says how they cut.
    """

    mesh: tuple[tuple[Any, int], ...]
    cuts: tuple[tuple[int, ...] | None, ...]
    devices: tuple[int, ...] | None = None
    platform: str | None = None
    explicit: tuple[Any, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the mesh's axes."""
        return tuple([n for _, n in self.mesh])

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh, with the types of its axes."""
        kinds = [AxisType.Explicit if name in self.explicit else AxisType.Auto for name, _ in self.mesh]
        return AbstractMesh(self.sizes, [name for name, _ in self.mesh], kinds)

    def marks(self, t: ArrayType) -> bool:
        """Says whether an array of this type can lie so."""
        parts = [prod([self.sizes[a] for a in axes or ()]) for axes in self.cuts]
        return len(parts) == t.ndim and not any([n % k for n, k in zip(t.shape, parts, strict=True)])

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type."""
        check_arity(self, types, 1)
        (t,) = types
        if not self.marks(t):
            cuts = ", ".join(
                [
                    "any" if c is None else "x".join([str(self.mesh[a][0]) for a in c]) or "-"
                    for c in self.cuts
                ]
            )
            raise ShardingError(
                f"with_sharding_constraint: {t!r} cannot be cut into equal parts by ({cuts}) of a mesh of {dict(self.mesh)}"
            )
        return t


@final
@attrs.frozen
class Release(Identity):
    """The identity on an array whose type then says nothing of some mesh axes: the partitioner settles how they cut it.

    Attributes:
        axes: the mesh axes.
    """

    axes: tuple[Any, ...]

    def infer(self, *types: ArrayType) -> ArrayType:
        """The operand's type, which says nothing of the axes."""
        check_arity(self, types, 1)
        (t,) = types
        if t.cut is None:
            return t
        return t.lying(type_sharding(t.cut.mesh, without_axes(t.cut.cuts(t.ndim), self.axes)))


Placing = Constrain | ParallelMap
"""An operation that names a mesh."""


def places_in(program: Program) -> tuple[Placing, ...]:
    """Returns the operations of a program, those of its programs too, that name a mesh; found once."""
    found = program.derived.get("places")
    if found is None:
        found = program.derived["places"] = tuple(dict.fromkeys(_places(program)))
    return cast("tuple[Placing, ...]", found)


def _places(program: Program) -> Iterator[Placing]:
    for op in [e.op for e in program.equations] if Constrain in program.kinds else holders(program):
        if type(op) is Constrain:
            yield op
        elif isinstance(op, HigherOrder):
            if type(op) is ParallelMap and op.mesh is not None:
                yield op
            for inner in op.programs:
                yield from places_in(inner)


def constrained_inputs(program: Program) -> tuple[Constrain | None, ...]:
    """Returns for each input of a program the constraint that says how it lies, where that is all it goes into."""
    found = program.derived.get("constrained inputs")
    if found is None:
        found = program.derived["constrained inputs"] = _constrained(program)
    return cast("tuple[Constrain | None, ...]", found)


def _constrained(program: Program) -> tuple[Constrain | None, ...]:
    uses: dict[Var, set[Constrain | None]] = {x: set() for x in program.inputs}
    for e in program.equations:
        inner: tuple[Constrain | None, ...] = (None,) * len(e.inputs)
        if type(e.op) is Constrain and None not in e.op.cuts:
            inner = (e.op,)
        elif type(e.op) is Call:
            inner = constrained_inputs(e.op.program)
        for x, use in zip(e.inputs, inner, strict=True):
            if type(x) is Var and x in uses:
                uses[x].add(use)
    for x in program.outputs:
        if type(x) is Var and x in uses:
            uses[x].add(None)
    return tuple([next(iter(uses[x])) if len(uses[x]) == 1 else None for x in program.inputs])


Left = str | int | None
"""Where a program leaves an output: a kind of memory; where the input of this number lies; None for the default one."""


_PASSING = (Offload, Constrain, CheckpointName, Call, Checkpoint)


def memories_of_outputs(program: Program) -> tuple[Left, ...]:
    """Returns in which memory a program leaves each output; found once."""
    found = program.derived.get("memories of outputs")
    if found is None:
        found = program.derived["memories of outputs"] = _memories(program)
    return cast("tuple[Left, ...]", found)


def _memories(program: Program) -> tuple[Left, ...]:
    left: dict[object, Left] = {x: i for i, x in enumerate(program.inputs)}
    for e in [] if program.kinds.isdisjoint(_PASSING) else program.equations:
        if type(e.op) is Offload:
            left[e.outputs[0]] = None if e.op.back else e.op.dst
        elif type(e.op) in (Constrain, CheckpointName):
            left[e.outputs[0]] = left.get(e.inputs[0])
        elif type(e.op) in (Call, Checkpoint):
            inner = memories_of_outputs(cast("Calling", e.op).program)
            for y, where in zip(e.outputs, inner, strict=True):
                left[y] = left.get(e.inputs[where]) if isinstance(where, int) else where
    return tuple([left.get(x) for x in program.outputs])


def between_memories(
    program: Program, inputs: Sequence[str | None], outputs: Sequence[str | None], usual: str
) -> Program:
    """Returns a program that takes inputs out of other memories than computations use, and leaves outputs in others.

    Args:
        inputs, outputs: for each the kind of memory; None for the usual one. usual: its kind.
    """
    given, results = list(program.inputs), list(program.outputs)
    before: list[Equation] = []
    after: list[Equation] = []
    for i, kind in enumerate(inputs):
        if kind is not None:
            x = given[i]
            given[i] = Var(x.type)
            before.append(Equation(Offload(usual, kind, back=True), (given[i],), (x,)))
    for i, (kind, left) in enumerate(zip(outputs, memories_of_outputs(program), strict=True)):
        if (kind is not None and left != kind) or (kind is None and isinstance(left, str)):
            op = Offload(usual, kind) if kind is not None else Offload(usual, str(left), back=True)
            y = Var(results[i].type)
            after.append(Equation(op, (results[i],), (y,)))
            results[i] = y
    equations = (*before, *program.equations, *after)
    return attrs.evolve(program, inputs=tuple(given), equations=equations, outputs=tuple(results), derived={})
