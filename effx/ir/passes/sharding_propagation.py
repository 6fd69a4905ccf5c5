"""How the results of operations are cut along the Explicit axes of a mesh, from how their operands are.

Operations need not know it. A rule, found by the operation's class, says which axes of the results are which axes of the
operands; what is true of all rules is checked here: that one mesh axis cuts one array axis, into equal parts, and that
operands which must lie alike do. Where that is not so, or an operation has no rule, types cannot say what happens: an
error that names the operation and its operands, or inside `settled`, where the user says how the result shall lie, whole
arrays.

Sources: the propagation of shardings by factors of Shardy and of GSPMD (Xu et al. 2021); here it only goes forward, and
never guesses.
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

Cut = tuple[Hashable, ...]
"""The mesh axes that cut an array axis, the first coarsest."""
Cuts = tuple[Cut, ...]
"""For each axis of an array what cuts it."""
Op = TypeVar("Op")
Rule = Callable[[Any, "Lies"], Sequence[Cuts]]

# While it is on, what types cannot say is whole: the user says how the result lies.
settled: "UserContext[bool]" = UserContext(False)

_rules: dict[type[Any], Rule] = {}


class Lies:
    """How an operation's operands lie; what a rule asks.

    Attributes:
        what: the operation's name. types: the operands' types. results: the results' types, without cuts.
        cuts: for each operand what cuts its axes.
    """

    __slots__ = ("cuts", "mesh", "results", "types", "what")

    def __init__(
        self, what: str, types: Sequence[ArrayType], results: Sequence[ArrayType], mesh: AbstractMesh
    ) -> None:
        self.what, self.types, self.results, self.mesh = what, types, results, mesh
        self.cuts = [cuts_of(t) for t in types]

    def parts(self, cut: Cut) -> int:
        """Returns into how many parts mesh axes cut."""
        return prod([self.mesh.shape[name] for name in cut])

    def refuse(self, why: str) -> None:
        """Raises the error that types cannot say how the result lies, unless the user has said how."""
        if settled.value:
            return
        shown = ", ".join(map(repr, self.types))
        raise ShardingError(
            f"{self.what} of {shown}: {why}; lay an operand out otherwise with effx.reshard, or say how the result "
            f"lies with out_sharding= or effx.sharding.auto_axes"
        )

    def together(self, a: Cut, b: Cut, at: str) -> Cut:
        """Returns what cuts a result's axis that is an axis of two operands."""
        if a == b or not b:
            return a
        if not a:
            return b
        self.refuse(f"{at} is cut by {shown(a)} and by {shown(b)}")
        return ()

    def whole(self, operand: int, axes: Sequence[int], why: str) -> None:
        """Refuses axes of an operand that are cut."""
        for i in axes:
            if self.cuts[operand][i]:
                self.refuse(f"axis {i} is cut by {shown(self.cuts[operand][i])}, {why}")

    def kept(self, cut: Cut, axis: int, size: int) -> Cut:
        """Returns what cuts a result's axis of another size than the operand's: the same, into equal parts."""
        if cut and (is_symbolic(size) or size % self.parts(cut)):
            self.refuse(
                f"axis {axis} is cut by {shown(cut)} into {self.parts(cut)} parts, which {size} elements cannot be"
            )
            return ()
        return cut


def lies(*kinds: type[Any]) -> Callable[[Rule], Rule]:
    """Registers the rule of operations, and of those derived from them."""

    def register(rule: Rule) -> Rule:
        _rules.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def shown(cut: Cut) -> str:
    """Returns mesh axes as errors show them."""
    return repr(cut[0]) if len(cut) == 1 else repr(cut)


def cuts_of(t: ArrayType) -> Cuts:
    """Returns for each axis of a type what cuts it."""
    return ((),) * t.ndim if t.cut is None else t.cut.cuts(t.ndim)


def mesh_of(what: str, types: Sequence[ArrayType]) -> AbstractMesh | None:
    """Returns the mesh of which types speak; None if none does.

    Raises:
        ShardingError: they speak of two.
    """
    found: AbstractMesh | None = None
    for t in types:
        if t.cut is None:
            continue
        if found is not None and t.cut.mesh != found:
            raise ShardingError(f"{what}: operands lie on two meshes, {found!r} and {t.cut.mesh!r}")
        found = t.cut.mesh
    return found


def shardings_of_results(
    op: Operation[Any], types: Sequence[ArrayType], results: Sequence[ArrayType]
) -> list[TypeSharding | None]:
    """Returns how an operation's results are cut.

    Args:
        op: the operation. types: of its operands. results: of its results, without cuts.

    Raises:
        ShardingError: types cannot say it.
    """
    mesh = mesh_of(op.name, types)
    if type(op) is Constrain and op.explicit:
        mesh = op.abstract_mesh
    if mesh is None:
        return [None] * len(results)
    given = Lies(op.name, types, results, mesh)
    rule = next((found for kind in type(op).__mro__ if (found := _rules.get(kind)) is not None), None)
    if rule is None:
        given.refuse("nothing says how its results lie")
        return [None] * len(results)
    return [_checked(given, cuts, t) for cuts, t in zip(rule(op, given), results, strict=True)]


def _checked(given: Lies, cuts: Cuts, t: ArrayType) -> TypeSharding | None:
    left: list[Cut] = []
    seen: set[Hashable] = set()
    for i, (cut, size) in enumerate(zip(cuts, t.shape, strict=True)):
        cut = given.kept(cut, i, size)
        for name in cut:
            if name in seen:
                given.refuse(f"{name!r} would cut two axes of the result")
                cut = ()
                break
        seen.update(cut)
        left.append(cut)
    return type_sharding(given.mesh, left)
