"""How the results of operations are cut along the Explicit axes of a mesh, from how their operands are.

Operations need not know it. A rule, found by the operation's class, says which axes of the results are which axes of the
operands; what is true of all rules is checked here: that one mesh axis cuts one array axis, into equal parts, and that
operands which must lie alike do. Where that is not so, or an operation has no rule, types cannot say what happens: an
error that names the operation and its operands, or inside `settled`, where the user says how the result shall lie, whole
arrays.

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
from effx.ir.ops.sharding import Constrain
from effx.ir.sizes.dimensions import is_symbolic
from effx.ir.types import ArrayType, TypeSharding, type_sharding

MeshAxisNames = tuple[Hashable, ...]
"""The mesh axes that cut an array axis, the first coarsest."""
DimensionShardings = tuple[MeshAxisNames, ...]
"""For each axis of an array what cuts it."""
Op = TypeVar("Op")
Rule = Callable[[Any, "OperandShardings"], Sequence[DimensionShardings]]

# While it is on, what types cannot say is whole: the user says how the result lies.
allow_unresolved: "UserContext[bool]" = UserContext(False)

_sharding_rules: dict[type[Any], Rule] = {}


class OperandShardings:
    """How an operation's operands lie; what a rule asks.

    Attributes:
        operation_name: the operation's name. types: the operands' types. results: the results' types, without cuts.
        mesh_axes: for each operand what cuts its axes.
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
        """Returns into how many parts mesh axes cut."""
        return prod([self.mesh.shape[name] for name in cut])

    def refuse(self, why: str) -> None:
        """Raises the error that types cannot say how the result lies, unless the user has said how."""
        if allow_unresolved.value:
            return
        shown = ", ".join(map(repr, self.types))
        raise ShardingError(
            f"{self.operation_name} of {shown}: {why}; lay an operand out otherwise with effx.reshard, or say how the "
            "result "
            f"lies with out_sharding= or effx.sharding.auto_axes"
        )

    def merge_axes(self, a: MeshAxisNames, b: MeshAxisNames, at: str) -> MeshAxisNames:
        """Returns what cuts a result's axis that is an axis of two operands."""
        if a == b or not b:
            return a
        if not a:
            return b
        self.refuse(f"{at} is cut by {format_mesh_axes(a)} and by {format_mesh_axes(b)}")
        return ()

    def require_unsharded(self, operand: int, axes: Sequence[int], why: str) -> None:
        """Refuses axes of an operand that are cut."""
        for i in axes:
            if self.mesh_axes[operand][i]:
                self.refuse(f"axis {i} is cut by {format_mesh_axes(self.mesh_axes[operand][i])}, {why}")

    def keep_if_divisible(self, cut: MeshAxisNames, axis: int, size: int) -> MeshAxisNames:
        """Returns what cuts a result's axis of another size than the operand's: the same, into equal parts."""
        if cut and (is_symbolic(size) or size % self.part_count(cut)):
            self.refuse(
                f"axis {axis} is cut by {format_mesh_axes(cut)} into {self.part_count(cut)} parts, which {size} "
                "elements cannot be"
            )
            return ()
        return cut


def sharding_rule(*kinds: type[Any]) -> Callable[[Rule], Rule]:
    """Registers the rule of operations, and of those derived from them."""

    def register(rule: Rule) -> Rule:
        _sharding_rules.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def format_mesh_axes(cut: MeshAxisNames) -> str:
    """Returns mesh axes as errors show them."""
    return repr(cut[0]) if len(cut) == 1 else repr(cut)


def mesh_axes_by_dimension(t: ArrayType) -> DimensionShardings:
    """Returns for each axis of a type what cuts it."""
    return ((),) * t.ndim if t.explicit_sharding is None else t.explicit_sharding.mesh_axes(t.ndim)


def common_mesh(name: str, types: Sequence[ArrayType]) -> AbstractMesh | None:
    """Returns the mesh of which types speak; None if none does.

    Raises:
        ShardingError: they speak of two.
    """
    mesh: AbstractMesh | None = None
    for t in types:
        if t.explicit_sharding is None:
            continue
        if mesh is not None and t.explicit_sharding.mesh != mesh:
            raise ShardingError(
                f"{name}: operands lie on two meshes, {mesh!r} and {t.explicit_sharding.mesh!r}"
            )
        mesh = t.explicit_sharding.mesh
    return mesh


def result_shardings(
    op: Operation[Any], types: Sequence[ArrayType], results: Sequence[ArrayType]
) -> list[TypeSharding | None]:
    """Returns how an operation's results are cut.

    Args:
        op: the operation. types: of its operands. results: of its results, without cuts.

    Raises:
        ShardingError: types cannot say it.
    """
    mesh = common_mesh(op.name, types)
    if type(op) is Constrain and op.explicit:
        mesh = op.abstract_mesh
    if mesh is None:
        return [None] * len(results)
    operands = OperandShardings(op.name, types, results, mesh)
    rule = next(
        (registered for kind in type(op).__mro__ if (registered := _sharding_rules.get(kind)) is not None),
        None,
    )
    if rule is None:
        operands.refuse("nothing says how its results lie")
        return [None] * len(results)
    return [
        _check_result_sharding(operands, cuts, t) for cuts, t in zip(rule(op, operands), results, strict=True)
    ]


def _check_result_sharding(
    operands: OperandShardings, cuts: DimensionShardings, t: ArrayType
) -> TypeSharding | None:
    checked: list[MeshAxisNames] = []
    seen: set[Hashable] = set()
    for i, (cut, size) in enumerate(zip(cuts, t.shape, strict=True)):
        cut = operands.keep_if_divisible(cut, i, size)
        for name in cut:
            if name in seen:
                operands.refuse(f"{name!r} would cut two axes of the result")
                cut = ()
                break
        seen.update(cut)
        checked.append(cut)
    return type_sharding(operands.mesh, checked)
