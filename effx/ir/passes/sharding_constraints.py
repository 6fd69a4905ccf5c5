"""What types say of how arrays are cut, as constraints that the partitioner reads."""

from collections.abc import Sequence
from typing import cast

import attrs

from effx.ir.meshes import AbstractMesh
from effx.ir.ops.control import HigherOrder, holders
from effx.ir.ops.sharding import Constrain, Release
from effx.ir.passes.sharding_propagation import mesh_of
from effx.ir.passes.varying_axes import with_programs
from effx.ir.program import Atom, Equation, Program, Var
from effx.ir.types import TypeSharding

__all__ = ["constrain_op", "explicit_mesh", "with_cuts"]


def constrain_op(mesh: AbstractMesh, sharding: TypeSharding | None, ndim: int) -> Constrain:
    """Returns the operation whose result is cut so along the Explicit axes of a mesh; what others cut is left as it is."""
    at = {name: i for i, name in enumerate(mesh.axis_names)}
    cuts = ((),) * ndim if sharding is None else sharding.cuts(ndim)
    numbers = [tuple([at[name] for name in cut]) for cut in cuts]
    return Constrain(mesh.shape_tuple, tuple(numbers), explicit=mesh.explicit_axes)


def explicit_mesh(program: Program) -> AbstractMesh | None:
    """Returns the mesh of which a program's types speak, those of the programs in it too; None if none does. Found once."""
    if "explicit mesh" not in program.derived:
        program.derived["explicit mesh"] = _mesh(program)
    return cast("AbstractMesh | None", program.derived["explicit mesh"])


def _mesh(program: Program) -> AbstractMesh | None:
    for op in holders(program):
        for inner in op.programs:
            found = explicit_mesh(inner)
            if found is not None:
                return found
    types = dict.fromkeys([x.type for e in program.equations for x in e.outputs])
    return mesh_of(program.name, [*program.in_types, *types])


def with_cuts(program: Program) -> Program:
    """Returns a program in which constraints say what its types said of Explicit axes; found once.

    Results that are cut are constrained, and so are the program's own results. What is whole in between is left to the
    partitioner, and so is what only goes into a constraint.
    """
    found = program.derived.get("with cuts")
    if found is None:
        mesh = explicit_mesh(program)
        found = program.derived["with cuts"] = program if mesh is None else _constrained(program, mesh, True)
    assert isinstance(found, Program)
    return found


def _constrained(program: Program, mesh: AbstractMesh, ends: bool) -> Program:
    renamed: dict[Var, Atom] = {}
    equations: list[Equation] = []
    settled = _settled(program)

    def define(x: Var) -> Var:
        found = Var(x.type.lying(None))
        renamed[x] = found
        return found

    def read(x: Atom) -> Atom:
        return renamed[x] if type(x) is Var else x

    def constrain(x: Atom, sharding: TypeSharding | None, like: Equation | None) -> Var:
        found = Var(x.type.lying(None))
        op = constrain_op(mesh, sharding, x.type.ndim)
        equations.append(
            Equation(op, (x,), (found,))
            if like is None
            else Equation(op, (x,), (found,), like.source, like.scope)
        )
        return found

    inputs = tuple(map(define, program.inputs))
    for e in program.equations:
        op = e.op
        if type(op) is Release:
            renamed[e.outputs[0]] = read(e.inputs[0])
            continue
        if isinstance(op, HigherOrder):
            op = with_programs(op, {p: _inner(p, mesh) for p in op.programs})
        equations.append(
            attrs.evolve(
                e, op=op, inputs=tuple(map(read, e.inputs)), outputs=tuple([define(x) for x in e.outputs])
            )
        )
        if type(op) is Constrain:
            continue
        for x in e.outputs:
            if x.type.cut is not None and x not in settled:
                renamed[x] = constrain(renamed[x], x.type.cut, e)
    outputs: Sequence[Atom] = [read(x) for x in program.outputs]
    if ends:
        outputs = [
            x if old.type.cut is not None and type(x) is Var else constrain(x, old.type.cut, None)
            for old, x in zip(program.outputs, outputs, strict=True)
        ]
    return attrs.evolve(
        program, inputs=inputs, equations=tuple(equations), outputs=tuple(outputs), derived={}
    )


def _inner(program: Program, mesh: AbstractMesh) -> Program:
    found = program.derived.get(("inner cuts", mesh))
    if found is None:
        made = program if explicit_mesh(program) is None else _constrained(program, mesh, False)
        found = program.derived["inner cuts", mesh] = made
    assert isinstance(found, Program)
    return found


def _settled(program: Program) -> set[Var]:
    """Returns the values that only go into constraints."""
    into: set[Var] = set()
    elsewhere = {x for x in program.outputs if type(x) is Var}
    for e in program.equations:
        (into if type(e.op) is Constrain else elsewhere).update([x for x in e.inputs if type(x) is Var])
    return into - elsewhere
