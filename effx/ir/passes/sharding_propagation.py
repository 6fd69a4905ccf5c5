"""Infer the shardings of operations' results over Explicit mesh axes from those of their operands.

Operations do not depend on it. A rule, found by the operation's class, maps axes of the operands to axes of the
results; the common conditions are checked here: that one mesh axis shards one array axis, into equal parts, and that
operands which must have equal shardings do. Otherwise, or if an operation has no rule, the sharding is ambiguous: an
error names the operation and its operands; under `allow_unresolved`, where the user gives the result's sharding, the
result is replicated.

Sources: the propagation of shardings by factors of Shardy and of GSPMD (Xu et al. 2021); here it only goes forward, and
never guesses.

Batched operations, tangents and cotangents are operations too, so vmap, jvp and transposition have no rules
of their own. Transposition runs under `allow_unresolved` and gives each cotangent the sharding of its
value. What is not sharded may be: carries and branches take the sharding of whoever has one.
"""

from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import Any, TypeVar

from effx.effects import Operation
from effx.errors import ShardingError
from effx.flag_kinds import UserContext
from effx.ir.meshes import AbstractMesh
from effx.ir.ops.control import HigherOrder
from effx.ir.ops.sharding import Constrain
from effx.ir.passes.partial_sums import may_have_sums, result_sums, sums_mesh
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import NO_SUMS, ArrayType, Sums, TypeSharding, type_sharding

MeshAxisNames = tuple[Hashable, ...]
"""The mesh axes that shard an array axis, the first coarsest."""
DimensionShardings = tuple[MeshAxisNames, ...]
"""For each axis of an array the mesh axes that shard it."""
Op = TypeVar("Op")
Rule = Callable[[Any, "OperandShardings"], Sequence[DimensionShardings]]

# While it is on, ambiguous shardings are replicated: the user gives the result's sharding.
allow_unresolved: "UserContext[bool]" = UserContext(False)

_sharding_rules: dict[type[Any], Rule] = {}


class OperandShardings:
    """The shardings of an operation's operands, as rules read them.

    Attributes:
        operation_name: the operation's name. types: the operands' types. results: the results' types, unsharded.
        mesh_axes: for each operand the mesh axes that shard its axes.
    """

    __slots__ = ("mesh", "mesh_axes", "operation_name", "results", "types")

    def __init__(
        self,
        operation_name: str,
        types: Sequence[ArrayType],
        results: Sequence[ArrayType],
        mesh: AbstractMesh,
    ) -> None:
        self.operation_name, self.types, self.results, self.mesh = operation_name, types, results, mesh
        self.mesh_axes = [mesh_axes_by_dimension(t) for t in types]

    def part_count(self, cut: MeshAxisNames) -> int:
        """Returns the number of parts along these mesh axes."""
        return prod([self.mesh.shape[name] for name in cut])

    def refuse(self, why: str) -> None:
        """Raises the error that the result's sharding is ambiguous, unless the user has given it."""
        if allow_unresolved.value:
            return
        shown = ", ".join(map(repr, self.types))
        raise ShardingError(
            f"{self.operation_name} of {shown}: {why}; change an operand's sharding with effx.reshard, or give the "
            "result's with out_sharding= or effx.sharding.auto_axes"
        )

    def merge_axes(self, a: MeshAxisNames, b: MeshAxisNames, at: str) -> MeshAxisNames:
        """Returns the mesh axes that shard a result's axis that is an axis of two operands."""
        if a == b or not b:
            return a
        if not a:
            return b
        self.refuse(f"{at} is sharded over {format_mesh_axes(a)} and over {format_mesh_axes(b)}")
        return ()

    def require_unsharded(self, operand: int, axes: Sequence[int], why: str) -> None:
        """Raises an error if one of these axes of an operand is sharded."""
        for i in axes:
            if self.mesh_axes[operand][i]:
                self.refuse(f"axis {i} is sharded over {format_mesh_axes(self.mesh_axes[operand][i])}, {why}")

    def keep_if_divisible(self, cut: MeshAxisNames, axis: int, size: int) -> MeshAxisNames:
        """Returns the operand's mesh axes for a result's axis of another size, if they divide it into equal parts."""
        if cut and (is_symbolic(size) or size % self.part_count(cut)):
            self.refuse(
                f"axis {axis} is sharded over {format_mesh_axes(cut)} into {self.part_count(cut)} parts, which {size} "
                "elements cannot be"
            )
            return ()
        return cut


def sharding_rule(*kinds: type[Any]) -> Callable[[Rule], Rule]:
    """Registers the sharding rule of operation classes and their subclasses."""

    def register(rule: Rule) -> Rule:
        _sharding_rules.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def format_mesh_axes(cut: MeshAxisNames) -> str:
    """Returns mesh axes as text for errors."""
    return repr(cut[0]) if len(cut) == 1 else repr(cut)


def mesh_axes_by_dimension(t: ArrayType) -> DimensionShardings:
    """Returns for each axis of a type the mesh axes that shard it."""
    return ((),) * t.ndim if t.explicit_sharding is None else t.explicit_sharding.mesh_axes(t.ndim)


def shared_mesh(name: str, types: Sequence[ArrayType]) -> AbstractMesh | None:
    """Returns the mesh in these types; None if there is none.

    Raises:
        ShardingError: there are two meshes.
    """
    mesh: AbstractMesh | None = None
    for t in types:
        if t.explicit_sharding is None:
            continue
        if mesh is not None and t.explicit_sharding.mesh != mesh:
            raise ShardingError(
                f"{name}: operands are on two meshes, {mesh!r} and {t.explicit_sharding.mesh!r}"
            )
        mesh = t.explicit_sharding.mesh
    return mesh


def result_shardings(
    op: Operation[Any], types: Sequence[ArrayType], results: Sequence[ArrayType]
) -> list[TypeSharding | None]:
    """Returns the shardings of an operation's results.

    Args:
        op: the operation. types: its operands' types. results: its results' types, unsharded.

    Raises:
        ShardingError: they are ambiguous.
    """
    mesh = shared_mesh(op.name, types)
    if type(op) is Constrain and op.explicit:
        mesh = op.abstract_mesh
    mesh = sums_mesh(op) if mesh is None else mesh
    if mesh is None and isinstance(op, HigherOrder):
        mesh = shared_mesh(op.name, [t for p in op.programs for t in p.out_types])
    if mesh is None:
        return [None] * len(results)
    sums = result_sums(op, types, results) if may_have_sums(op, types) else [NO_SUMS] * len(results)
    operands = OperandShardings(op.name, types, results, mesh)
    rule = next(
        (registered for kind in type(op).__mro__ if (registered := _sharding_rules.get(kind)) is not None),
        None,
    )
    if rule is None:
        operands.refuse("the sharding of its results is not defined")
        return [None] * len(results)
    return [
        _check_result_sharding(operands, cuts, t, own_sums)
        for cuts, t, own_sums in zip(rule(op, operands), results, sums, strict=True)
    ]


def _check_result_sharding(
    operands: OperandShardings, cuts: DimensionShardings, t: ArrayType, sums: Sums
) -> TypeSharding | None:
    checked: list[MeshAxisNames] = []
    seen: set[Hashable] = set()
    for i, (cut, size) in enumerate(zip(cuts, t.shape, strict=True)):
        cut = operands.keep_if_divisible(cut, i, size)
        for name in cut:
            if name in seen:
                operands.refuse(f"{name!r} would shard two axes of the result")
                cut = ()
                break
        seen.update(cut)
        checked.append(cut)
    unreduced, reduced = sums
    if unreduced & seen:
        shown = ", ".join(map(repr, operands.types))
        raise ShardingError(
            f"{operands.operation_name} of {shown}: {format_mesh_axes(tuple(unreduced & seen))} would shard the result, and "
            "it would be unreduced along it; take the sum first, with effx.reshard"
        )
    return type_sharding(operands.mesh, checked, (unreduced, reduced - seen))
