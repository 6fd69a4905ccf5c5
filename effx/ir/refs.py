"""Operations on mutable references: the cells, encoded indices, and the effects of reading and writing.

A reference is no value. An operation names the cell that it reads or writes, and has a matching effect, which
determines the frame that the cell belongs to. Only indices and written values are operands.
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
# The advice for programs that must not have cells.
RETURN_ADVICE = "make what it holds an argument, and what it holds afterwards a result"


_numbers = itertools.count()


# A cell made in a staged function holds a variable, one made under `grad` a dual number: at the home nothing
# but Python's assignment happens.
@final
class Cell:
    """The mutable state behind a reference; equal only to itself.

    Attributes:
        type: the content's type.
        home_frame: the frame under which it was made; None outside of all frames.
        content: its current value, of the home frame or of an outer frame.
        source: the user's source location that made it.
        end_reason: why it has ended; "" while it may be used.
        number: its number in the order of creation.
        is_lent: whether it replaces a caller's cell, which gets the final content.
        stops_gradient: whether written values lose their tangents.
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
        """Returns the advice to make the content an argument."""
        return f"it closes over a Ref; {RETURN_ADVICE}"

    def carry_out(self, op: Operation[R], operands: tuple[Value, ...]) -> R:  # type: ignore[mutable-override]  # None elsewhere
        """Performs the operation at the frames that intercept it and at the cell's home."""
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
    """A placeholder in an index for an array, which is an operand of the operation."""


IndexPart: TypeAlias = bool | int | EllipsisType | IndexSlice | IndexOperand | None
# One index for each `.at[...]`, then the operation's own; none for the whole.
EncodedIndex: TypeAlias = tuple[tuple[IndexPart, ...], ...]


@attrs.frozen
class RefOperation(TupleOperation):
    """Trait: an operation on one cell.

    Attributes:
        cell: the cell that is read or written.
        place: the index; arrays in it are the last operands.
        part: the type of the indexed part.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import RefOperation, places
    >>> ref = effx.new_ref(enp.zeros(3))
    >>> def f(x):
    ...     ref[0] = x
    ...     return ref[1] + x
    >>> [place.op.name for place in places(effx.make_jaxpr(f)(1.0)) if isinstance(place.op, RefOperation)]
    ['ref_set', 'ref_get']
    """

    cell: Cell
    place: EncodedIndex
    part: ArrayType

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The effect that the cell is written."""
        return frozenset({WritesCell(self.cell)})

    def __call__(self, *operands: Value) -> "tuple[Array, ...]":  # type: ignore[override]  # methods of refs convert
        """Performs the operation under the current handler."""
        return WritesCell(self.cell).carry_out(self, operands)

    def decompose(self, *operands: Value) -> "tuple[Array, ...]":
        """Reads or writes the whole content, for a handler that owns an index or a part."""
        return cast("tuple[Array, ...]", ports.refs.discharge.perform_on_whole(self, operands))


@final
class RefNew(RefOperation):
    """Gives a new cell its first value, the operand.

    >>> import attrs, effx
    >>> from effx.handling import InterceptHandler, RefNew
    >>> @attrs.frozen
    ... class Show(InterceptHandler[None]): ...
    >>> @Show.rule(RefNew)
    ... def _(site, op, x):
    ...     print("a reference that holds", x)
    ...     return site.forward()
    >>> print(Show().run(lambda: effx.freeze(effx.new_ref(2.0))))
    a reference that holds 2.0
    2.0
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No result."""
        return ()


@final
class RefGet(RefOperation):
    """Reads. Its only operands are those of the index.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import RefGet
    >>> ref = effx.new_ref(enp.zeros(3))
    >>> equation, = effx.make_jaxpr(lambda: ref[1])().equations
    >>> isinstance(equation.op, RefGet), equation.op.place, equation.op.part
    (True, ((1,),), f32[])
    """

    __slots__ = ()

    @property
    def effects(self) -> frozenset[Effect]:  # type: ignore[override]  # a class attribute elsewhere
        """The effect that the cell is read."""
        return frozenset({ReadsCell(self.cell)})

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Returns the type of the part."""
        return (self.part,)


@final
class RefSet(RefOperation):
    """Writes the first operand.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import RefSet
    >>> ref = effx.new_ref(enp.zeros(3))
    >>> def write(x):
    ...     ref[1] = x
    >>> equation, = effx.make_jaxpr(write)(enp.float32(5.0)).equations
    >>> isinstance(equation.op, RefSet), equation.op.place, equation.inputs
    (True, ((1,),), (Var(f32[]),))
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No result."""
        return ()


@final
class RefSwap(RefOperation):
    """Writes the first operand, and returns the previous value.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import RefSwap
    >>> ref = effx.new_ref(enp.zeros(3))
    >>> equation, = effx.make_jaxpr(lambda x: effx.ref.swap(ref, 1, x))(enp.float32(5.0)).equations
    >>> isinstance(equation.op, RefSwap), equation.inputs, equation.outputs
    (True, (Var(f32[]),), (Var(f32[]),))
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """Returns the type of the previous value."""
        return (self.part,)


@final
class RefAddUpdate(RefOperation):
    """Adds the first operand to the indexed part; values at repeated indices are all added.

    >>> import effx, effx.numpy as enp
    >>> from effx.handling import RefAddUpdate
    >>> ref = effx.new_ref(enp.zeros(3))
    >>> equation, = effx.make_jaxpr(lambda x: effx.ref.addupdate(ref, 1, x))(enp.float32(5.0)).equations
    >>> isinstance(equation.op, RefAddUpdate), equation.inputs, equation.outputs
    (True, (Var(f32[]),), ())
    """

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        """No result."""
        return ()
