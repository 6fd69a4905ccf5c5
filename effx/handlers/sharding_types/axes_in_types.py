"""Infer the axes in types: those of a `shard_map` along which values vary, while its body is staged, and the Explicit
mesh axes that shard them.

The sum of cotangents that the gradient with respect to a replicated value is must be taken where the value is used, so
each linear value has to be known for what it is when a program is transposed.

Families and users' operations need nothing for it: their typing rules are asked for types without axes,
results vary where an operand does, and collectives say what they change.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from effx.array import Array
from effx.array.promotion import zeros
from effx.effects import Operation
from effx.errors import current_source
from effx.flag_kinds import UserContext
from effx.ir.meshes import AbstractMesh
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.collective import PCast, PSum
from effx.ir.ops.sharding import Constrain
from effx.ir.passes import sharding_rules as sharding_rules  # registers the rules
from effx.ir.passes.partial_sums import cotangent_type, has_sums, leave_sums, left_sums, type_sums
from effx.ir.passes.sharding_constraints import make_constraint_operation
from effx.ir.passes.sharding_propagation import mesh_axes_by_dimension, result_shardings
from effx.ir.passes.varying_axes import SPECIAL_VMA_RULES, result_vma
from effx.ir.program import Atom, Equation, Var
from effx.ir.types import INVARIANT, NO_SUMS, ArrayType, Sums, TypeSharding, Vma, type_sharding
from effx.lower.placement.meshes import ambient

__all__ = [
    "cast_to_varying",
    "diverge_along",
    "diverging_axes",
    "infer_result_types",
    "is_tracking",
    "make_tracked_equation",
    "match_cotangent_axes",
    "retype",
    "sharding_operations",
    "tracked_axes",
    "with_sharding_like",
    "with_type_sharding",
    "zeros_of_type",
]

# The operations whose results may have more axes in their types than their operands.
SPECIAL_RULES = (*SPECIAL_VMA_RULES, Constrain)

# The axes that types show; programs staged with other axes are different programs.
tracked_axes: "UserContext[Vma]" = UserContext(INVARIANT)


# The axes along which replicas may run different parts of the program, such as a branch that only some of them take.
# Values from outside vary along these axes there, so that no sum over them runs where not all replicas take part.
diverging_axes: "UserContext[Vma]" = UserContext(INVARIANT)


@contextmanager
def diverge_along(decision: Vma) -> Iterator[None]:
    """Marks a block as run by only some replicas along the axes along which a decision varies."""
    if decision <= diverging_axes.value:
        yield
        return
    with diverging_axes(diverging_axes.value | decision):
        yield


def make_tracked_equation(
    op: Operation[object], inputs: tuple[Atom, ...], types: Sequence[ArrayType], scope: str
) -> Equation:
    """Returns an equation whose results have varying and sharding axes in their types.

    Typing rules know nothing of that: they are asked for the types of values that do not.

    Args:
        op: the operation. inputs: its operands. types: the operands' types. scope: the name stack.
    """
    if left_sums.value:
        op = leave_sums(op, types)
    if not op.multiple and not isinstance(op, SPECIAL_RULES):  # nearly all
        plain_types, vma, is_sharded = [], INVARIANT, False
        for t in types:
            if t.vma:
                vma = vma | t.vma if vma else t.vma
            is_sharded = is_sharded or t.explicit_sharding is not None
            plain_types.append(t.plain())
        if not is_sharded:
            result = cast("ArrayOperation", op).infer(*plain_types)
            return Equation(op, inputs, (Var(result.with_vma(vma)),), current_source(3), scope)
    results = infer_plain_results(op, types)
    e = Equation(op, inputs, tuple([Var(t) for t in results]), current_source(3), scope)
    _annotate_results(e, types, results)
    return e


def retype(e: Equation) -> None:
    """Updates the axes in the types of an equation's results from those of its operands."""
    types = [x.type for x in e.inputs]
    results = infer_plain_results(e.op, types)
    for var, t in zip(e.outputs, results, strict=True):
        var.type = t
    _annotate_results(e, types, results)


def _annotate_results(e: Equation, types: Sequence[ArrayType], results: Sequence[ArrayType]) -> None:
    if tracked_axes.value:
        vmas = result_vma(e, [t.vma for t in types], tracked_axes.value)
        for var, vma in zip(e.outputs, vmas, strict=True):
            var.type = var.type.with_vma(vma)
    for var, sharding in zip(e.outputs, result_shardings(e.op, types, results), strict=True):
        var.type = var.type.with_sharding(sharding)


def infer_plain_results(op: Operation[object], types: Sequence[ArrayType]) -> list[ArrayType]:
    """Returns the types of an operation's results without axes."""
    results = cast("ArrayOperation | TupleOperation", op).infer(*[t.plain() for t in types])
    return [t.plain() for t in (results if isinstance(results, tuple) else (results,))]


def infer_result_types(op: Operation[object], types: Sequence[ArrayType]) -> list[ArrayType]:
    """Returns the types of an operation's results outside of all maps."""
    results = infer_plain_results(op, types)
    shardings = result_shardings(op, types, results)
    return [t.with_sharding(sharding) for t, sharding in zip(results, shardings, strict=True)]


def is_tracking(types: Sequence[ArrayType]) -> bool:
    """Returns whether values staged with inputs of these types have axes in their types."""
    if tracked_axes.value:
        return True
    mesh = ambient.value
    return (mesh is not None and bool(mesh.explicit_axes)) or any(
        [t.explicit_sharding is not None for t in types]
    )


def cast_to_varying(x: Array, axes: Vma) -> Array:
    """Casts a value to one that varies along some axes."""
    for axis in sorted(axes - x.type.vma, key=repr):
        if axis in type_sums(x.type)[0]:
            x = PSum(axis)(x)
        x = PCast(axis)(x)
    return x


def match_cotangent_axes(ct: Array, t: ArrayType) -> Array:
    """Converts a cotangent to vary along the same axes as its primal of this type.

    Along an axis on which the primal is replicated, each replica contributes to the one cotangent, so these are summed;
    where it is reduced, they stay the terms of a sum. A replicated cotangent of a varying primal is equal on all replicas.
    """
    sharding = cotangent_type(t).explicit_sharding
    unreduced = INVARIANT if sharding is None else sharding.spec.unreduced
    for axis in sorted(ct.type.vma - t.vma - diverging_axes.value, key=repr):
        if sharding is not None and axis in unreduced:
            ct = PCast(axis, "unreduced", sharding.mesh)(ct)
        else:
            ct = PSum(axis)(ct)
    return with_type_sharding(cast_to_varying(ct, t.vma), sharding)


def with_type_sharding(x: Array, sharding: TypeSharding | None) -> Array:
    """Converts a value to a sharding in its type."""
    for op in sharding_operations(x.type, sharding):
        x = op(x)
    return x


def zeros_of_type(t: ArrayType) -> Array:
    """Returns zeros of a type; unreduced and reduced as it is."""
    return with_type_sharding(zeros(t), t.explicit_sharding) if has_sums([t]) else zeros(t)


def with_sharding_like(x: Array, like: ArrayType) -> Array:
    """Returns a value with the sharding of a type, if the type shows one and has the same shape."""
    return (
        x
        if like.explicit_sharding is None or like.shape != x.type.shape
        else with_type_sharding(x, like.explicit_sharding)
    )


def sharding_operations(t: ArrayType, sharding: TypeSharding | None) -> list[PCast | PSum | Constrain]:
    """Returns the operations that give a value of a type this sharding, in order."""
    if t.explicit_sharding == sharding:
        return []
    known = t.explicit_sharding if sharding is None else sharding
    assert known is not None
    manual = tracked_axes.value
    operations: list[PCast | PSum | Constrain] = []
    sums, wanted = type_sums(t), NO_SUMS if sharding is None else sharding.sums
    for axis in sorted((sums[0] | sums[1] | wanted[0] | wanted[1]) & manual, key=repr):
        operations += _sum_operations(axis, known.mesh, sums, wanted)
    if sums != wanted or operations:
        outer_sums = sums[0] - manual | wanted[0] & manual, sums[1] - manual | wanted[1] & manual
        cuts = mesh_axes_by_dimension(t)
        if type_sharding(known.mesh, cuts, outer_sums) == sharding:
            return operations
    return [*operations, make_constraint_operation(known.mesh, sharding, t.ndim)]


def _sum_operations(axis: Hashable, mesh: AbstractMesh, sums: Sums, wanted: Sums) -> list[PCast | PSum]:
    """Returns the operations that take a sum over an axis of a `shard_map`, or leave a value unreduced or reduced."""
    (is_unreduced, is_reduced), (unreduced, reduced) = [
        [axis in names for names in s] for s in (sums, wanted)
    ]
    if (is_unreduced, is_reduced) == (unreduced, reduced):
        return []
    if unreduced or reduced:
        cast = PCast(axis, "unreduced" if unreduced else "reduced", mesh)
        return [PSum(axis), cast] if is_unreduced else [cast]
    return [PSum(axis)] if is_unreduced else [PCast(axis, "invarying")]
