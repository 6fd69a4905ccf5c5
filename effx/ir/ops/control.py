"""Operations that hold programs.

Never: run a program; handlers do.
"""

from typing import final

import attrs

from effx.effects import Effect
from effx.errors import ProgramError
from effx.ir.ops.base import TupleOperation, show
from effx.ir.program import Program
from effx.ir.types import ArrayType


@final
@attrs.frozen
class Call(TupleOperation):
    """Calls a program: the jit boundary. StableHLO: func.call.

    Attributes:
        program: what is called; equal only to itself.
        inline: True to put the body in the caller's place when lowering.
    """

    program: Program
    inline: bool = False

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """What the program leaves open."""
        return self.program.effects

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """The program's result types."""
        expected = self.program.in_types
        if len(types) != len(expected) or not all(
            [t is e or t.matches(e) for t, e in zip(types, expected, strict=True)]
        ):
            raise ProgramError(f"call: {self.program.name} takes ({show(expected)}), got ({show(types)})")
        return self.program.out_types
