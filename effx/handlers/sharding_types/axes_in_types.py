"""Infer the axes in types: those of a `shard_map` along which values vary, while its body is staged, and the Explicit
mesh axes that shard them.

The sum of cotangents that the gradient with respect to a replicated value is must be taken where the value is used, so
each linear value has to be known for what it is when a program is transposed.

Families and users' operations need nothing for it: their typing rules are asked for types without axes,
results vary where an operand does, and collectives say what they change.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from effx.array import Array
from effx.effects import Operation
from effx.errors import current_source
from effx.flag_kinds import UserContext
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.ops.collective import PCast, PSum
from effx.ir.ops.sharding import Constrain
from effx.ir.passes.sharding_constraints import make_constraint_operation
from effx.ir.passes.sharding_propagation import result_shardings
from effx.ir.passes.varying_axes import SPECIAL_VMA_RULES, result_vma
from effx.ir.program import Atom, Equation, Var
from effx.ir.types import INVARIANT, ArrayType, TypeSharding, Vma
from effx.lower.placement.meshes import ambient

__all__ = [
    "cast_to_varying",
    "diverge_along",
    "diverging_axes",
    "infer_result_types",
    "is_tracking",
    "make_sharding_operation",
    "make_tracked_equation",
    "match_cotangent_axes",
    "retype",
    "tracked_axes",
    "with_sharding_like",
    "with_type_sharding",
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
        x = PCast(axis)(x)
    return x


def match_cotangent_axes(ct: Array, t: ArrayType) -> Array:
    """Converts a cotangent to vary along the same axes as its primal of this type.

    Along an axis on which the primal is replicated, each replica contributes to the one cotangent, so these are summed. A
    replicated cotangent of a varying primal is equal on all replicas.
    """
    for axis in sorted(ct.type.vma - t.vma - diverging_axes.value, key=repr):
        ct = PSum(axis)(ct)
    return with_type_sharding(cast_to_varying(ct, t.vma), t.explicit_sharding)


def with_type_sharding(x: Array, sharding: TypeSharding | None) -> Array:
    """Converts a value to a sharding in its type."""
    op = make_sharding_operation(x.type, sharding)
    return x if op is None else op(x)


def with_sharding_like(x: Array, like: ArrayType) -> Array:
    """Returns a value with the sharding of a type, if the type shows one and has the same shape."""
    return (
        x
        if like.explicit_sharding is None or like.shape != x.type.shape
        else with_type_sharding(x, like.explicit_sharding)
    )


def make_sharding_operation(t: ArrayType, sharding: TypeSharding | None) -> Constrain | None:
    """Returns the operation that gives a value of a type this sharding; None if it has it."""
    if t.explicit_sharding == sharding:
        return None
    known = t.explicit_sharding if sharding is None else sharding
    assert known is not None
    return make_constraint_operation(known.mesh, sharding, t.ndim)
