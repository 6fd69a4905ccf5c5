"""The parallel map: one program run by many replicas at once, each on its own device."""

from typing import final

import attrs

from effx.effects import Effect
from effx.errors import ProgramError, ShapeError
from effx.ir.ops.base import is_int, show
from effx.ir.ops.collective import UNNAMED, AxisEffect, AxisName
from effx.ir.ops.control import HigherOrder, Region, fits
from effx.ir.program import Program
from effx.ir.types import ArrayType


@final
@attrs.frozen
class ParallelMap(HigherOrder):
    """Runs a program once for each replica along a named axis. StableHLO: sdy.manual_computation.

    A mapped operand has the replicas' axis in front, and each replica gets its slice; the others are
    replicated. So are results that are not mapped, which must be equal on all replicas.

    Attributes:
        body: the program of a replica.
        size: the number of replicas.
        axis_name: the axis of the body's collectives.
        mapped_in, mapped_out: for each operand and result whether it is mapped.
        devices: ids of the replicas' devices; None for the first ones.
        backend: the devices' platform; None for the default.
    """

    body: Program
    size: int = attrs.field(validator=is_int)
    mapped_in: tuple[bool, ...]
    mapped_out: tuple[bool, ...]
    axis_name: AxisName = UNNAMED
    devices: tuple[int, ...] | None = None
    backend: str | None = None

    @property
    def programs(self) -> tuple[Program, ...]:
        """The body."""
        return (self.body,)

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The body's input types, with the replicas' axis where mapped."""
        return self._whole(self.body.in_types, self.mapped_in)

    @property
    def regions(self) -> tuple[Region, ...]:
        """The body, of which what is mapped is slices."""
        return (Region(program=self.body, stacked_in=self.mapped_in, stacked_out=self.mapped_out),)

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The body's effects without the axis bound here."""
        return self.body.effects - {AxisEffect(self.axis_name)}

    def _whole(self, types: tuple[ArrayType, ...], mapped: tuple[bool, ...]) -> tuple[ArrayType, ...]:
        return tuple(
            [t.with_shape((self.size, *t.shape)) if m else t for t, m in zip(types, mapped, strict=True)]
        )

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The body's result types, with the replicas' axis where mapped."""
        if len(self.mapped_in) != len(self.body.inputs) or len(self.mapped_out) != len(self.body.outputs):
            raise ProgramError(
                f"parallel_map: {self.body.name} has {len(self.body.inputs)} inputs and "
                f"{len(self.body.outputs)} outputs, but mapped_in has {len(self.mapped_in)} entries and "
                f"mapped_out {len(self.mapped_out)}"
            )
        expected = self.in_types
        if not fits(types, expected):
            for t, mapped in zip(types, self.mapped_in, strict=False):
                if mapped and (not t.shape or t.shape[0] != self.size):
                    raise ShapeError(
                        f"parallel_map: a mapped operand must have a leading axis of {self.size}, got {t!r}"
                    )
            raise ProgramError(
                f"parallel_map: {self.body.name} takes ({show(expected)}), got ({show(types)})"
            )
        return self._whole(self.body.out_types, self.mapped_out)
