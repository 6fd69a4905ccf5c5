"""Turn the shardings in a program's types into constraints for the partitioner."""

from collections.abc import Sequence
from typing import TypeGuard, cast

import attrs

from effx.effects import Operation
from effx.ir.meshes import AbstractMesh
from effx.ir.ops.control import HigherOrder, higher_order_operations
from effx.ir.ops.parallel import ParallelMap
from effx.ir.ops.sharding import Constrain, Release
from effx.ir.passes.partial_sums import type_sums
from effx.ir.passes.sharding_propagation import shared_mesh
from effx.ir.passes.varying_axes import replace_programs
from effx.ir.program import Atom, Equation, Program, Var, effect_row
from effx.ir.types import INVARIANT, NO_SUMS, ArrayType, TypeSharding, Vma, type_sharding

__all__ = ["explicit_mesh", "insert_type_constraints", "make_constraint_operation"]


def make_constraint_operation(mesh: AbstractMesh, sharding: TypeSharding | None, ndim: int) -> Constrain:
    """Returns the operation that constrains a sharding over Explicit mesh axes; other axes are unconstrained."""
    axis_number = {name: i for i, name in enumerate(mesh.axis_names)}
    cuts = ((),) * ndim if sharding is None else sharding.mesh_axes(ndim)
    numbers = [tuple([axis_number[name] for name in cut]) for cut in cuts]
    unreduced, reduced = NO_SUMS if sharding is None else sharding.sums
    return Constrain(
        mesh.shape_tuple,
        tuple(numbers),
        explicit=mesh.explicit_axes,
        unreduced=tuple(sorted([axis_number[name] for name in unreduced])),
        reduced=tuple(sorted([axis_number[name] for name in reduced])),
    )


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

    Sharded and unreduced results are constrained, and so are the program's own results. Replicated intermediate values are
    left to the partitioner, and so are values that are only used by a constraint. Inside of a parallel map, types keep the
    map's axes along which values are unreduced.
    """
    # The partitioner may find a better sharding for replicated intermediate values.
    constrained_program = program.derived.get("with cuts")
    if constrained_program is None:
        mesh = explicit_mesh(program)
        constrained_program = program.derived["with cuts"] = (
            program if mesh is None else _insert_constraints(program, mesh, INVARIANT, True)
        )
    assert isinstance(constrained_program, Program)
    return constrained_program


def _shown_when_lowered(sharding: TypeSharding | None, manual: Vma) -> TypeSharding | None:
    """Returns what types keep of a sharding: that of unreduced values, and of these inside of a parallel map the axes."""
    if sharding is None:
        return None
    unreduced, reduced = sharding.sums
    if manual:
        return type_sharding(sharding.mesh, (), (unreduced & manual, reduced & manual))
    return sharding if unreduced else None


def _is_constrained(sharding: TypeSharding | None, manual: Vma) -> TypeGuard[TypeSharding]:
    """Returns whether a sharding says more than that values are replicated along axes that no parallel map maps over."""
    return sharding is not None and (bool(sharding.spec.partitions) or not sharding.spec.unreduced <= manual)


def _insert_constraints(program: Program, mesh: AbstractMesh, manual: Vma, ends: bool) -> Program:
    renamed: dict[Var, Atom] = {}
    equations: list[Equation] = []
    only_constrained = _only_constrained(program)

    def define(x: Var) -> Var:
        variable = Var(x.type.with_sharding(_shown_when_lowered(x.type.explicit_sharding, manual)))
        renamed[x] = variable
        return variable

    def read(x: Atom) -> Atom:
        return renamed[x] if type(x) is Var else x

    def constrain(x: Atom, sharding: TypeSharding | None, like: Equation | None) -> Var:
        variable = Var(x.type.with_sharding(_shown_when_lowered(sharding, manual)))
        op = make_constraint_operation(mesh, sharding, x.type.ndim)
        equations.append(
            Equation(op, (x,), (variable,))
            if like is None
            else Equation(op, (x,), (variable,), like.source, like.scope)
        )
        return variable

    inputs = tuple(map(define, program.inputs))
    for (
        x
    ) in program.inputs:  # the partitioner does not see from outside that a loop's constants are unreduced
        if x.type.explicit_sharding is not None and not type_sums(x.type)[0] <= manual:
            renamed[x] = constrain(renamed[x], x.type.explicit_sharding, None)
    for e in program.equations:
        op = e.op
        if type(op) is Release:
            renamed[e.outputs[0]] = read(e.inputs[0])
            continue
        operands = tuple(map(read, e.inputs))
        if type(op) is Constrain and _leaves_sums(op, e.inputs[0].type):
            operands = (constrain(operands[0], _sharding_before(op, e.inputs[0].type), e),)
        if isinstance(op, HigherOrder):
            inner_manual = manual | op.names if isinstance(op, ParallelMap) else manual
            op = replace_programs(
                op, {p: _constrain_inner_program(p, mesh, inner_manual) for p in op.programs}
            )
        elif type(op) is not Constrain and not all([type_sums(x.type)[0] <= manual for x in e.inputs]):
            op, operands = _map_over_terms(op, operands, [x.type for x in e.outputs])
        equations.append(
            attrs.evolve(e, op=op, inputs=operands, outputs=tuple([define(x) for x in e.outputs]))
        )
        if type(op) is Constrain:
            continue
        for x in e.outputs:
            if _is_constrained(x.type.explicit_sharding, manual) and x not in only_constrained:
                renamed[x] = constrain(renamed[x], x.type.explicit_sharding, e)
    outputs: Sequence[Atom] = [read(x) for x in program.outputs]
    if ends:
        outputs = [
            x
            if _is_constrained(old.type.explicit_sharding, manual) and type(x) is Var
            else constrain(x, old.type.explicit_sharding, None)
            for old, x in zip(program.outputs, outputs, strict=True)
        ]
    return attrs.evolve(
        program, inputs=inputs, equations=tuple(equations), outputs=tuple(outputs), derived={}
    )


def _map_over_terms(
    op: Operation[object], operands: Sequence[Atom], results: Sequence[ArrayType]
) -> tuple[ParallelMap, tuple[Atom, ...]]:
    """Returns the parallel map of an operation over the axes along which its operands are unreduced, and its operands.

    An operation becomes several of StableHLO's, of whose results the partitioner would not know that they are terms.
    """
    unreduced = INVARIANT.union(*[type_sums(x.type)[0] for x in operands])
    sharding = next(x.type.explicit_sharding for x in operands if type_sums(x.type)[0])
    assert sharding is not None
    mesh = sharding.mesh

    def local(t: ArrayType) -> Var:
        return Var(t.with_sharding(type_sharding(mesh, (), (type_sums(t)[0] & unreduced, INVARIANT))))

    variables = [x for x in operands if type(x) is Var]
    inside = {x: local(x.type) for x in variables}
    outputs = tuple([local(t) for t in results])
    equation = Equation(op, tuple([inside[x] if type(x) is Var else x for x in operands]), outputs)
    program = Program(tuple(inside.values()), (equation,), outputs, op.name, effect_row([equation]))
    axes = tuple([(name, n) for name, n in mesh.shape_tuple if name in unreduced])
    terms_map = ParallelMap(
        program, axes, ((),) * len(inside), ((),) * len(outputs), mesh.shape_tuple, checked=True
    )
    return terms_map, tuple(inside)


def _leaves_sums(op: Constrain, t: ArrayType) -> bool:
    """Returns whether a value of a type becomes unreduced along axes along which it is not."""
    return not type_sums(t)[0].issuperset([op.mesh[a][0] for a in op.unreduced])


def _sharding_before(op: Constrain, t: ArrayType) -> TypeSharding | None:
    """Returns the sharding that a value of a type has when it becomes unreduced along other axes.

    Without a constraint to it the partitioner would take what computes the value for a computation of terms. It takes sums
    or leaves them, not both at once.
    """
    if t.explicit_sharding is None:
        return None
    kept = type_sums(t)[0].intersection([op.mesh[a][0] for a in op.unreduced])
    return t.explicit_sharding.with_sums((kept, INVARIANT))


def _constrain_inner_program(program: Program, mesh: AbstractMesh, manual: Vma) -> Program:
    cached = program.derived.get(("inner cuts", mesh, manual))
    if cached is None:
        inner_program = (
            program if explicit_mesh(program) is None else _insert_constraints(program, mesh, manual, False)
        )
        cached = program.derived["inner cuts", mesh, manual] = inner_program
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
