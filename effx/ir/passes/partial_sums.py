"""Infer along which mesh axes the results of operations are unreduced and reduced.

A value that is unreduced along a mesh axis is the sum of what the devices along it have. Only linear operations may be
done on the terms: of the operands that they are linear in together all must be unreduced along the same axes, and of
those that they are linear in one by one (a product) just one may be. Everything else is refused, since it would silently
compute something else.

A value that is reduced along an axis is the same on all devices along it, like a replicated one; its cotangent is
unreduced. What is computed from it is reduced too, unless it is sharded, varies or is unreduced along the axis.
"""

from collections.abc import Callable, Sequence

import attrs

from effx.effects import Operation
from effx.errors import ShardingError
from effx.flag_kinds import UserContext
from effx.ir.meshes import AbstractMesh
from effx.ir.ops.base import Linear
from effx.ir.ops.collective import AllGather, Collective, PCast, PSum, PSumScatter
from effx.ir.ops.control import Calling, Cond, HigherOrder, Scan, While
from effx.ir.ops.convert import Convert, OptimizationBarrier, ReducePrecision
from effx.ir.ops.custom import CustomTangent
from effx.ir.ops.elementwise import Div, Mul, Select
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.parallel import ParallelMap
from effx.ir.ops.reduce import ReduceSum
from effx.ir.ops.shape import DynamicSlice, DynamicUpdateSlice
from effx.ir.ops.sharding import Constrain, Release
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.types import INVARIANT, NO_SUMS, ArrayType, Sums, Vma, axis_name_texts

__all__ = [
    "cotangent_sums",
    "cotangent_type",
    "has_sums",
    "leave_sums",
    "left_sums",
    "may_have_sums",
    "others_are_zeros",
    "result_sums",
    "sums_mesh",
    "type_sums",
]

SumsRule = Callable[..., tuple[int, ...]]

# While it is on, as in transpose rules, what meets terms of sums in operations that are linear in both are zeros.
others_are_zeros: "UserContext[bool]" = UserContext(False)

# The mesh axes over which contractions that are recorded leave their sums.
left_sums: "UserContext[Vma]" = UserContext(INVARIANT)

_jointly_linear: dict[type[object], SumsRule] = {}
# What is linear in each of two operands.
_products = (Mul, DotGeneral)


def _register_linear_operands(*kinds: type[object]) -> Callable[[SumsRule], SumsRule]:
    """Registers which operands operations of some classes are linear in together, by their numbers."""

    def register(rule: SumsRule) -> SumsRule:
        _jointly_linear.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def type_sums(t: ArrayType) -> Sums:
    """Returns the axes along which a type is unreduced and reduced."""
    return NO_SUMS if t.explicit_sharding is None else t.explicit_sharding.sums


def has_sums(types: Sequence[ArrayType]) -> bool:
    """Returns whether one of these types is unreduced or reduced along some axes."""
    return any([t.explicit_sharding is not None and t.explicit_sharding.spec.has_sums for t in types])


def cotangent_sums(t: ArrayType) -> Sums:
    """Returns the axes along which cotangents of a type are unreduced and reduced."""
    unreduced, reduced = type_sums(t)
    return reduced, unreduced


def cotangent_type(t: ArrayType) -> ArrayType:
    """Returns the type of cotangents of values of a type."""
    if t.explicit_sharding is None or not t.explicit_sharding.spec.has_sums:
        return t
    return t.with_sharding(t.explicit_sharding.with_sums(cotangent_sums(t)))


@_register_linear_operands(Linear)
def _find_all(op: object, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """Returns all operands' numbers."""
    return tuple(range(len(types)))


@_register_linear_operands(DynamicSlice, Gather, Div, ReducePrecision)
def _find_first(op: object, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """Returns the first operand, to rounding; the others are indices or a divisor."""
    return (0,)


@_register_linear_operands(DynamicUpdateSlice)
def _find_written_arrays(op: object, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """Returns the array and what is written into it."""
    return (0, 1)


@_register_linear_operands(Scatter)
def _find_scattered_arrays(op: Scatter, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """Returns the array and the updates, which are added or written."""
    return (0, 2) if op.combiner in ("add", "set") else ()


@_register_linear_operands(Select)
def _find_cases(op: object, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """Returns the values that are chosen from."""
    return (1, 2)


@_register_linear_operands(Convert)
def _find_converted_array(op: Convert, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """Returns the operand, if no value is lost but to rounding."""
    return (0,) if op.infer(types[0].plain()).kind in "fc" else ()


def result_sums(
    op: Operation[object], types: Sequence[ArrayType], results: Sequence[ArrayType]
) -> list[Sums]:
    """Returns the axes along which an operation's results are unreduced and reduced.

    Args:
        op: the operation. types: its operands' types. results: its results' types, unsharded.

    Raises:
        ShardingError: the operation is not linear in an operand that is unreduced.
    """
    if isinstance(op, HigherOrder):
        return _program_sums(op, results)
    if type(op) is Constrain and op.explicit:
        return [_constrained_sums(op)]
    operand_sums = [type_sums(t) for t in types]
    if type(op) is OptimizationBarrier:
        return operand_sums
    reduced = INVARIANT.union(*[r for _, r in operand_sums])
    if isinstance(op, Collective):
        return [_collective_sums(op, types)]
    unreduced = INVARIANT.union(*[u for u, _ in operand_sums])
    if unreduced:
        if type(op) is Release and not unreduced.isdisjoint(op.axes):
            raise _error(op, types, "the partitioner would not know what is still to be summed")
        _check_linear(op, types, unreduced)
    if isinstance(op, DotGeneral | ReduceSum) and op.unreduced:
        unreduced |= _find_contracted_axes(op, types).intersection(op.unreduced)
    if not reduced:
        return [(unreduced, reduced)] * len(results)
    if type(op) is DotGeneral:  # contractions may sum over the axes, elementwise products keep them
        reduced = INVARIANT
    varying = INVARIANT.union(*[t.vma for t in types])
    return [(unreduced, reduced - unreduced - varying)] * len(results)


def _error(op: Operation[object], types: Sequence[ArrayType], why: str) -> ShardingError:
    return ShardingError(
        f"{op.name} of {', '.join(map(repr, types))}: {why}; take the sum first, with effx.reshard, or inside of "
        "shard_map with lax.psum"
    )


def _check_linear(op: Operation[object], types: Sequence[ArrayType], unreduced: Vma) -> None:
    """Checks that an operation may be done on the terms of the sums that some of its operands are.

    Raises:
        ShardingError: it may not.
    """
    unreduced_operands = [i for i, t in enumerate(types) if type_sums(t)[0]]
    shown = ", ".join(axis_name_texts(unreduced))
    if type(op) in _products:
        if len(unreduced_operands) > 1:
            raise _error(op, types, f"a product of two sums that are not taken yet, over {shown}")
        other = types[1 - unreduced_operands[0]]
        if other.vma & unreduced:
            raise _error(op, types, f"one operand is unreduced along {shown}, along which the other varies")
        return
    rule = next((_jointly_linear[kind] for kind in type(op).__mro__ if kind in _jointly_linear), None)
    linear_operands = () if rule is None else rule(op, types)
    if not set(unreduced_operands) <= set(linear_operands):
        raise _error(op, types, f"it is not linear in an operand that is unreduced along {shown}")
    others = [t for i, t in enumerate(types) if i not in linear_operands]
    if any([t.vma & unreduced for t in others]):
        # Each term would be divided, or taken, by another value.
        raise _error(
            op,
            types,
            f"one operand is unreduced along {shown}, along which another varies in which it is not linear",
        )
    allowed = (unreduced, INVARIANT) if others_are_zeros.value else (unreduced,)
    if any([type_sums(types[i])[0] not in allowed for i in linear_operands]):
        raise _error(
            op, types, f"all operands must be unreduced along the same axes, but only some are along {shown}"
        )


def _constrained_sums(op: Constrain) -> Sums:
    """Returns the axes along which a constrained value is unreduced and reduced: those that the constraint names."""
    names = [name for name, _ in op.mesh]
    unreduced, reduced = [frozenset([names[a] for a in axes]) for axes in (op.unreduced, op.reduced)]
    return unreduced, reduced


def _collective_sums(op: Collective, types: Sequence[ArrayType]) -> Sums:
    """Returns the sums of a collective's result, which may take the sum over its axis or leave it."""
    axis: Vma = frozenset([op.axis_name])
    unreduced = INVARIANT.union(*[type_sums(t)[0] for t in types])
    reduced = INVARIANT.union(*[type_sums(t)[1] for t in types])
    if unreduced:
        takes_sum = isinstance(op, PSum | PSumScatter) and op.groups is None
        if axis <= unreduced and not takes_sum and type(op) is not PCast:
            raise _error(
                op, types, f"it does not sum over {axis_name_texts(axis)[0]}, along which x is unreduced"
            )
        if unreduced - axis and not isinstance(op, Linear):
            raise _error(
                op, types, f"it is not linear in x, which is unreduced along {axis_name_texts(unreduced)[0]}"
            )
    unreduced, reduced = unreduced - axis, reduced - axis
    if type(op) is PCast and op.to == "unreduced":
        return unreduced | axis, reduced
    if (type(op) is PCast and op.to == "reduced") or (type(op) is AllGather and op.mesh is not None):
        return unreduced, reduced | axis
    return unreduced, reduced


def _program_sums(op: HigherOrder, results: Sequence[ArrayType]) -> list[Sums]:
    """Returns the sums of the results of the programs that an operation holds."""
    if isinstance(op, Cond):
        types = op.branches[0].out_types
    elif isinstance(op, Scan | While | ParallelMap):
        types = op.body.out_types
    elif isinstance(op, Calling):
        types = op.program.out_types
    elif isinstance(op, LinearSolve | Root):
        types = op.solve.out_types
    elif isinstance(op, CustomTangent):
        types = tuple(op.out_types)
    else:
        return [NO_SUMS] * len(results)
    return [type_sums(t) for t in types]


def _find_contracted_axes(op: Operation[object], types: Sequence[ArrayType]) -> Vma:
    """Returns the mesh axes over which a contraction sums: those that shard the contracted axes, of both factors alike."""
    cuts = [() if t.explicit_sharding is None else t.explicit_sharding.mesh_axes(t.ndim) for t in types]
    if type(op) is ReduceSum and cuts[0]:
        return frozenset([name for i in op.axes for name in cuts[0][i]])
    if type(op) is DotGeneral and all(cuts):
        pairs = [(cuts[0][i], cuts[1][j]) for i, j in zip(op.lhs_contract, op.rhs_contract, strict=True)]
        return frozenset([name for lhs, rhs in pairs if lhs == rhs for name in lhs])
    return INVARIANT


def leave_sums(op: Operation[object], types: Sequence[ArrayType]) -> Operation[object]:
    """Returns a contraction that leaves the sums over the axes of `left_sums`; other operations as they are."""
    if not isinstance(op, DotGeneral | ReduceSum):
        return op
    if any([type_sums(t)[0] for t in types]):
        return op
    names = _find_contracted_axes(op, types) & left_sums.value
    return attrs.evolve(op, unreduced=tuple(sorted(names, key=repr))) if names else op


def may_have_sums(op: Operation[object], types: Sequence[ArrayType]) -> bool:
    """Returns whether results of an operation may be unreduced or reduced."""
    return (
        isinstance(op, HigherOrder)
        or (type(op) is Constrain and bool(op.unreduced or op.reduced))
        or sums_mesh(op) is not None
        or (isinstance(op, DotGeneral | ReduceSum) and bool(op.unreduced))
        or has_sums(types)
    )


def sums_mesh(op: Operation[object]) -> AbstractMesh | None:
    """Returns the mesh in the type of a collective's result; None where it is that of the operands."""
    return op.mesh if isinstance(op, PCast | AllGather) else None
