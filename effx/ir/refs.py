"""Operations on references: the thing that is read and written, how an index is kept, and the effects.

A reference is no value. An operation names the cell that it reads or writes, and says so in its effects, by which it
finds the frame that the cell belongs to. Only indices and what is written are operands.
"""

import itertools
from types import EllipsisType
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast, final

import attrs

from effx import ports
from effx.effects import Effect, Frame, Operation, Value
from effx.errors import Source
from effx.ir.ops.base import TupleOperation
from effx.ir.types import ArrayType

if TYPE_CHECKING:
    from effx.ir.values.array import Array

R = TypeVar("R")
# What to do where a program is to stand alone.
RETURN_ADVICE = "make what it holds an argument, and what it holds afterwards a result"


_numbers = itertools.count()


# A cell made in a staged function holds a variable, one made under `grad` a dual number: at the home nothing
# but Python's assignment happens.
@final
class Cell:
    """What a reference refers to; equal only to itself.

    Attributes:
        type: of the content.
        home_frame: the frame under which it was made; None outside of all.
        content: its value now, of the home or of a frame around it.
        source: the user's position that made it.
        end_reason: why it may not be used now; "" where it may.
        number: in the order in which cells were made.
        is_lent: whether it stands for one of a caller's, who has it back.
        stops_gradient: whether what is written loses its tangent.
    """

    __slots__ = (
        "__weakref__",
        "content",
        "end_reason",
        "home_frame",
        "is_lent",
        "number",
        "source",
        "stops_gradient",
        "type",
    )

    def __init__(
        self, t: ArrayType, home_frame: Frame | None, source: Source, stops_gradient: bool = False
    ) -> None:
        self.type = t
        self.home_frame = home_frame
        self.content: Array | None = None
        self.source = source
        self.end_reason = ""
        self.is_lent = False
        self.number = next(_numbers)
        self.stops_gradient = stops_gradient

    def __repr__(self) -> str:
        return f"Ref{{{self.type!r}}}"


class CellEffect(Effect):
    """An effect on one cell."""

    __slots__ = ()
    cell: Cell

    @property
    def advice(self) -> str:
        """To make what it holds an argument."""
        return f"it closes over a Ref; {RETURN_ADVICE}"

    def carry_out(self, op: Operation[R], operands: tuple[Value, ...]) -> R:  # type: ignore[mutable-override]  # None elsewhere
        """Takes the operation to the frames that intercept it and to the cell's home."""
        return cast("R", ports.refs.discharge.perform_on_cells(op, operands))


@final
@attrs.frozen(repr=False)
class ReadsCell(CellEffect):
    """The cell is read."""

    cell: Cell

    def __repr__(self) -> str:
        return f"reads {self.cell!r}"


@final
@attrs.frozen(repr=False)
class WritesCell(CellEffect):
    """The cell is written, and maybe read."""

    cell: Cell

    def __repr__(self) -> str:
        return f"writes {self.cell!r}"


@final
@attrs.frozen
class IndexSlice:
    """A slice of an index."""

    start: int | None
    stop: int | None
    step: int | None


@final
@attrs.frozen
class IndexOperand:
    """Stands in an index for an array, which is an operand of the operation."""


IndexPart: TypeAlias = bool | int | EllipsisType | IndexSlice | IndexOperand | None
# One for each `.at[...]`, then that of the operation itself; none for the whole.
EncodedIndex: TypeAlias = tuple[tuple[IndexPart, ...], ...]


@attrs.frozen
class RefOperation(TupleOperation):
    """Trait: an operation on one cell.

    Attributes:
        cell: which is read or written.
        place: the index; arrays in it are the last operands.
        part: the type of what is there.
    """

    cell: Cell
    place: EncodedIndex
    part: ArrayType

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The cell is written."""
        return frozenset({WritesCell(self.cell)})

    def __call__(self, *operands: Value) -> "tuple[Array, ...]":
        """Performs the operation under the current handler."""
        return WritesCell(self.cell).carry_out(self, operands)

    def decompose(self, *operands: Value) -> "tuple[Array, ...]":
        """Reads or writes the whole, for a handler that owns an index or a part."""
        return cast("tuple[Array, ...]", ports.refs.discharge.perform_on_whole(self, operands))


@final
class RefNew(RefOperation):
    """Gives a new cell its first value, the operand."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No result."""
        return ()


@final
class RefGet(RefOperation):
    """Reads. Its only operands are those of the index."""

    __slots__ = ()

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The cell is read."""
        return frozenset({ReadsCell(self.cell)})

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """What is there."""
        return (self.part,)


@final
class RefSet(RefOperation):
    """Writes the first operand."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No result."""
        return ()


@final
class RefSwap(RefOperation):
    """Writes the first operand, and gives what was there."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """What was there."""
        return (self.part,)


@final
class RefAddUpdate(RefOperation):
    """Adds the first operand to what is there; where an index comes twice, both are added."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No result."""
        return ()
