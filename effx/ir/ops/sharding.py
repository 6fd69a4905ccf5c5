"""The operation by which a user tells the partitioner how an array shall lie on a mesh."""

from collections.abc import Iterator
from math import prod
from typing import Any, cast, final

import attrs

from effx.errors import ShardingError
from effx.ir.ops.base import check_arity
from effx.ir.ops.checkpoint import Identity
from effx.ir.ops.control import HigherOrder
from effx.ir.program import Program
from effx.ir.types import ArrayType

__all__ = ["Constrain", "constraints_in"]


@final
@attrs.frozen
class Constrain(Identity):
    """The identity on an array, which then lies on a mesh as this says. StableHLO: sdy.sharding_constraint.

    Attributes:
        mesh: names and sizes of the mesh's axes.
        cuts: for each array axis the numbers of the mesh axes that cut it; None for one that is left to the partitioner.
        devices: ids of the mesh's devices; None for those on which the program runs.
        platform: theirs.
    """

    mesh: tuple[tuple[Any, int], ...]
    cuts: tuple[tuple[int, ...] | None, ...]
    devices: tuple[int, ...] | None = None
    platform: str | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the mesh's axes."""
        return tuple([n for _, n in self.mesh])

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


def constraints_in(program: Program) -> tuple[Constrain, ...]:
    """Returns a program's constraints, those of its programs too; found once."""
    found = program.derived.get("constraints")
    if found is None:
        found = program.derived["constraints"] = tuple(dict.fromkeys(_constraints(program)))
    return cast("tuple[Constrain, ...]", found)


def _constraints(program: Program) -> Iterator[Constrain]:
    for e in program.equations:
        if type(e.op) is Constrain:
            yield e.op
        elif isinstance(e.op, HigherOrder):
            for inner in e.op.programs:
                yield from constraints_in(inner)
