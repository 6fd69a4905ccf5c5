"""The parallel map: one program run by many devices at once, each on its own shard of the operands.

`pmap` is the form with one axis, no mesh and no types that speak of axes. `shard_map` reshapes what its specs
split, so that each mapped axis is a leading one. That costs nothing where XLA does it, and the transposes,
slices and stacks that handlers need are those of leading axes.
"""

from math import prod
from typing import final

import attrs

from effx.effects import Effect
from effx.errors import ProgramError, ShapeError
from effx.ir.ops.base import types_text
from effx.ir.ops.collective import AxisEffect, AxisName
from effx.ir.ops.control import HigherOrder, Region, types_match
from effx.ir.program import Program
from effx.ir.types import ArrayType, Vma, axis_name_texts

Cuts = tuple[tuple[int, ...], ...]
NamedSizes = tuple[tuple[AxisName, int], ...]


@final
@attrs.frozen
class ParallelMap(HigherOrder):
    """Runs a program at once for all replicas, the indices along named axes. StableHLO: sdy.manual_computation.

    The leading axes of an operand may be some of these axes, and each replica gets its slice; along the others the operand
    is replicated. So are results along axes that they do not have as leading axes: there they must be equal.

    Attributes:
        body: the program of one replica.
        axes: names and sizes, for the body's collectives; outermost first.
        cuts_in, cuts_out: for each operand and result the numbers of the axes that are its leading axes.
        mesh: names and sizes of the axes of a mesh of devices, `axes` among them; None for replicas on devices that are
            numbered through nested maps.
        devices: ids of the devices; None for the first ones, or with a mesh those of the program.
        backend: the devices' platform; None for the default.
        checked: whether the types of the body have varying axes, which its derivatives need: the gradient
            with respect to a replicated value is a sum. Otherwise gradients inside the body are those of one replica.
    """

    body: Program
    axes: NamedSizes
    cuts_in: Cuts
    cuts_out: Cuts
    mesh: NamedSizes | None = None
    devices: tuple[int, ...] | None = None
    backend: str | None = None
    checked: bool = False

    @property
    def size(self) -> int:
        """The number of replicas."""
        return prod([n for _, n in self.axes])

    @property
    def names(self) -> Vma:
        """The names of the axes."""
        return frozenset([name for name, _ in self.axes])

    @property
    def programs(self) -> tuple[Program, ...]:
        """The body."""
        return (self.body,)

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The body's input types, with the sharding axes leading."""
        return self.global_types(self.body.in_types, self.cuts_in)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The body, which takes slices of sharded operands."""
        return (
            Region(
                program=self.body,
                stacked_in=tuple(map(len, self.cuts_in)),
                stacked_out=tuple(map(len, self.cuts_out)),
            ),
        )

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The body's effects without the axes bound here."""
        return self.body.effects - {AxisEffect(name) for name, _ in self.axes}

    def axis_names_of(self, cut: tuple[int, ...]) -> Vma:
        """Returns the names of the axes with these numbers."""
        return frozenset([self.axes[a][0] for a in cut])

    def axis_sizes_of(self, cut: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the sizes of the axes with these numbers."""
        return tuple([self.axes[a][1] for a in cut])

    def global_types(self, types: tuple[ArrayType, ...], cuts: Cuts) -> tuple[ArrayType, ...]:
        """Returns the types outside the map of the body's values."""
        names = self.names
        return tuple(
            [
                t.with_shape((*self.axis_sizes_of(cut), *t.shape)).with_vma(t.vma - names)
                for t, cut in zip(types, cuts, strict=True)
            ]
        )

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The body's result types, with the sharding axes leading."""
        if len(self.cuts_in) != len(self.body.inputs) or len(self.cuts_out) != len(self.body.outputs):
            raise ProgramError(
                f"parallel_map: {self.body.name} has {len(self.body.inputs)} inputs and "
                f"{len(self.body.outputs)} outputs, but cuts_in has {len(self.cuts_in)} entries and "
                f"cuts_out {len(self.cuts_out)}"
            )
        if not all([a in range(len(self.axes)) for cut in (*self.cuts_in, *self.cuts_out) for a in cut]):
            raise ProgramError(
                f"parallel_map: a cut must hold numbers of the {len(self.axes)} axes, got {self.cuts_in} and {self.cuts_out}"
            )
        expected = self.in_types
        if not types_match(types, expected):
            for t, cut in zip(types, self.cuts_in, strict=False):
                sizes = self.axis_sizes_of(cut)
                if t.shape[: len(sizes)] != sizes:
                    axes = "a leading axis" if len(sizes) == 1 else "leading axes"
                    raise ShapeError(
                        f"parallel_map: a mapped operand must have {axes} of {', '.join(map(str, sizes))}, got {t!r}"
                    )
            raise ProgramError(
                f"parallel_map: {self.body.name} takes ({types_text(expected)}), got ({types_text(types)})"
            )
        if self.checked:
            ends = [*zip(self.body.in_types, self.cuts_in, strict=True)]
            ends += zip(self.body.out_types, self.cuts_out, strict=True)
            for t, cut in ends:
                if t.vma & self.names != self.axis_names_of(cut):
                    raise ProgramError(
                        f"parallel_map: {self.body.name} has {t!r}, which should vary along the axes that shard it: "
                        f"{', '.join(axis_name_texts(self.axis_names_of(cut))) or 'none'}"
                    )
        return self.global_types(self.body.out_types, self.cuts_out)


def parallel_map(
    body: Program,
    size: int,
    mapped_in: tuple[bool, ...],
    mapped_out: tuple[bool, ...],
    *,
    axis_name: AxisName,
    devices: tuple[int, ...] | None = None,
    backend: str | None = None,
) -> ParallelMap:
    """Returns the parallel map over one axis of replicas."""
    cuts = ((), (0,))
    return ParallelMap(
        body,
        ((axis_name, size),),
        tuple([cuts[m] for m in mapped_in]),
        tuple([cuts[m] for m in mapped_out]),
        devices=devices,
        backend=backend,
    )
