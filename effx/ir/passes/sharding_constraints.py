"""Turn the shardings in a program's types into constraints for the partitioner."""

from collections.abc import Sequence
from typing import cast

import attrs

from effx.ir.meshes import AbstractMesh
from effx.ir.ops.control import HigherOrder, higher_order_operations
from effx.ir.ops.sharding import Constrain, Release
from effx.ir.passes.sharding_propagation import shared_mesh
from effx.ir.passes.varying_axes import replace_programs
from effx.ir.program import Atom, Equation, Program, Var
from effx.ir.types import TypeSharding

__all__ = ["explicit_mesh", "insert_type_constraints", "make_constraint_operation"]


def make_constraint_operation(mesh: AbstractMesh, sharding: TypeSharding | None, ndim: int) -> Constrain:
    """Returns the operation that constrains a sharding over Explicit mesh axes; other axes are unconstrained."""
    axis_number = {name: i for i, name in enumerate(mesh.axis_names)}
    cuts = ((),) * ndim if sharding is None else sharding.mesh_axes(ndim)
    numbers = [tuple([axis_number[name] for name in cut]) for cut in cuts]
    return Constrain(mesh.shape_tuple, tuple(numbers), explicit=mesh.explicit_axes)


def explicit_mesh(program: Program) -> AbstractMesh | None:
    """Returns the mesh in a program's types, including those of nested programs; None if there is none. Cached."""
    if "explicit mesh" not in program.derived:
        program.derived["explicit mesh"] = _find_explicit_mesh(program)
    return cast("AbstractMesh | None", program.derived["explicit mesh"])


def _find_explicit_mesh(program: Program) -> AbstractMesh | None:
    for op in higher_order_operations(program):
        for inner in op.programs:
            mesh = explicit_mesh(inner)
            if mesh is not None:
                return mesh
    types = dict.fromkeys([x.type for e in program.equations for x in e.outputs])
    return shared_mesh(program.name, [*program.in_types, *types])


def insert_type_constraints(program: Program) -> Program:
    """Returns a program with constraints for the shardings over Explicit axes in its types; cached.

    Sharded results are constrained, and so are the program's own results. Replicated intermediate values are left to the
    partitioner, and so are values that are only used by a constraint.
    """
    # The partitioner may find a better sharding for replicated intermediate values.
    constrained_program = program.derived.get("with cuts")
    if constrained_program is None:
        mesh = explicit_mesh(program)
        constrained_program = program.derived["with cuts"] = (
            program if mesh is None else _insert_constraints(program, mesh, True)
        )
    assert isinstance(constrained_program, Program)
    return constrained_program


def _insert_constraints(program: Program, mesh: AbstractMesh, ends: bool) -> Program:
    renamed: dict[Var, Atom] = {}
    equations: list[Equation] = []
    only_constrained = _only_constrained(program)

    def define(x: Var) -> Var:
        variable = Var(x.type.with_sharding(None))
        renamed[x] = variable
        return variable

    def read(x: Atom) -> Atom:
        return renamed[x] if type(x) is Var else x

    def constrain(x: Atom, sharding: TypeSharding | None, like: Equation | None) -> Var:
        variable = Var(x.type.with_sharding(None))
        op = make_constraint_operation(mesh, sharding, x.type.ndim)
        equations.append(
            Equation(op, (x,), (variable,))
            if like is None
            else Equation(op, (x,), (variable,), like.source, like.scope)
        )
        return variable

    inputs = tuple(map(define, program.inputs))
    for e in program.equations:
        op = e.op
        if type(op) is Release:
            renamed[e.outputs[0]] = read(e.inputs[0])
            continue
        if isinstance(op, HigherOrder):
            op = replace_programs(op, {p: _constrain_inner_program(p, mesh) for p in op.programs})
        equations.append(
            attrs.evolve(
                e, op=op, inputs=tuple(map(read, e.inputs)), outputs=tuple([define(x) for x in e.outputs])
            )
        )
        if type(op) is Constrain:
            continue
        for x in e.outputs:
            if x.type.explicit_sharding is not None and x not in only_constrained:
                renamed[x] = constrain(renamed[x], x.type.explicit_sharding, e)
    outputs: Sequence[Atom] = [read(x) for x in program.outputs]
    if ends:
        outputs = [
            x
            if old.type.explicit_sharding is not None and type(x) is Var
            else constrain(x, old.type.explicit_sharding, None)
            for old, x in zip(program.outputs, outputs, strict=True)
        ]
    return attrs.evolve(
        program, inputs=inputs, equations=tuple(equations), outputs=tuple(outputs), derived={}
    )


def _constrain_inner_program(program: Program, mesh: AbstractMesh) -> Program:
    cached = program.derived.get(("inner cuts", mesh))
    if cached is None:
        inner_program = (
            program if explicit_mesh(program) is None else _insert_constraints(program, mesh, False)
        )
        cached = program.derived["inner cuts", mesh] = inner_program
    assert isinstance(cached, Program)
    return cached


def _only_constrained(program: Program) -> set[Var]:
    """Returns the values that are only used by constraints."""
    constrained_values: set[Var] = set()
    other_values = {x for x in program.outputs if type(x) is Var}
    for e in program.equations:
        (constrained_values if type(e.op) is Constrain else other_values).update(
            [x for x in e.inputs if type(x) is Var]
        )
    return constrained_values - other_values
