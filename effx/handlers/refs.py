"""Perform operations on references: they go outward, past frames that intercept them, to the cell's home frame, and
read or write there.

An operation that holds programs which read or write cells is discharged on its way: where a handler would enter its
programs, or at a cell's home, contents become a state that the framework threads through them like any other. So
only handlers that intercept everything see references in programs: derivatives and batches are those of
pure programs.

Discharging before differentiating was chosen over linear references, as jax has them for cotangents: what
reverse mode would save is a copy that XLA elides inside of a program, and `with_refs` adds cotangents at the
end instead.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from functools import lru_cache
from operator import attrgetter
from typing import TypeVar, cast, final

import attrs

from effx import caching
from effx.array import Array, Box
from effx.array.indexing import IndexingMode, getitem, update_at
from effx.effects import (
    Effect,
    Frame,
    Handler,
    Operation,
    Value,
    current_frame,
    describe_stack,
    handle,
    is_in_scope,
    isolated,
    use_frame,
)
from effx.errors import EffxError, RefError, Source, source_of
from effx.handlers.authoring.intercepting import InterceptHandler
from effx.handlers.authoring.site import Site
from effx.handlers.recursion.payloads import PayloadHandler, recur
from effx.handlers.staging.stage import run_program, stage
from effx.ir.ops.control import Call, HigherOrder, Scan
from effx.ir.ops.custom import CustomCall
from effx.ir.program import Program, Staged
from effx.ir.refs import (
    Cell,
    CellEffect,
    EncodedIndex,
    IndexOperand,
    IndexPart,
    IndexSlice,
    RefAddUpdate,
    RefGet,
    RefNew,
    RefOperation,
    RefSet,
    RefSwap,
    WritesCell,
)
from effx.ir.types import ArrayType
from effx.ir.values.array import Index
from effx.tree.registry import PyTree

R = TypeVar("R")

# Descriptions of a value written to an outer ref and of that ref, by the value's handler; and the advice.
_WRITE_ADVICE = {
    "jvp": (
        "a differentiated value",
        "a ref that is not differentiated",
        "write effx.lax.stop_gradient of it, or ",
    ),
    "vmap": ("a batched value", "a ref that is not batched", "pass the ref as a mapped argument, or "),
}


# The cells whose contents a function receives and must not use in another way, each with the error text for misuse.
lent_cells: ContextVar[dict[Cell, str]] = ContextVar("effx_lent_out", default={})  # noqa: B039 - never written to


def effect_cells(row: frozenset[Effect]) -> dict[Cell, bool]:
    """Returns the cells in an effect row, each with whether it is written."""
    cells: dict[Cell, bool] = {}
    for effect in row:
        if isinstance(effect, CellEffect):
            cells[effect.cell] = cells.get(effect.cell, False) or type(effect) is WritesCell
    return cells


def home_for_new_cell() -> Frame | None:
    """Returns the frame to which a cell made now belongs: the innermost whose values it may hold."""
    frame = current_frame()
    while frame is not None and not frame.handler.owns_boxes:
        frame = frame.outer
    return frame


def perform_on_cells(op: Operation[R], operands: tuple[Value, ...]) -> R:
    """Performs an operation on cells, or one that holds programs with cells, under the current handler.

    Raises:
        RefError: a cell has ended, or its home is not in scope.
    """
    effects = op.effects
    cells = effect_cells(effects)
    lent = lent_cells.get()
    for cell in cells:
        reason = cell.end_reason or lent.get(cell)
        if reason:
            raise RefError(f"{cell!r}: {reason}")
    holds_programs = isinstance(op, HigherOrder)
    frame = current_frame()
    while frame is not None:
        if any([cell.home_frame is frame for cell in cells]):
            break
        is_seen = frame.intercepts and _is_interested(frame.handler, op)
        if is_seen or any([x.frame is frame for x in operands]) or frame.handler.takes(effects):
            if is_seen or not frame.handler.owns_boxes or not holds_programs:
                return _let_frame_handle(frame, op, operands)
            break
        frame = frame.outer
    if frame is None:
        for cell in cells:
            if cell.home_frame is not None:
                raise _escaped_cell_error(cell)
    with use_frame(frame):
        if holds_programs:
            return discharge(op, cast("tuple[Array, ...]", operands), cells)
        assert isinstance(op, RefOperation)
        return cast("R", _perform_at_home(op, cast("tuple[Array, ...]", operands)))


def _is_interested(handler: Handler, op: Operation[R]) -> bool:
    """Returns whether an intercepting handler handles an operation without operands of its own.

    A handler with boxes and no rule would express an operation on a cell by others on the cell.
    """
    if not handler.owns_boxes or not isinstance(op, RefOperation) or not isinstance(handler, PayloadHandler):
        return True
    return handler.rules.find(type(op)) is not None


def _let_frame_handle(frame: Frame, op: Operation[R], operands: tuple[Value, ...]) -> R:
    """Lets a frame handle an operation, as `perform` does."""
    entry_frame = current_frame()
    try:
        with use_frame(frame if frame.handler.only_records else frame.outer):
            return frame.handler.handle(frame, op, operands)
    except EffxError as error:
        error.handlers = describe_stack(entry_frame)
        raise


def _escaped_cell_error(cell: Cell) -> RefError:
    home = cell.home_frame
    assert home is not None
    origin_note = f", made at {source_of(cell.source)}," if cell.source else ""
    handler = f"{home.handler.describe()}{f' of {home.origin}' if home.origin else ''}"
    return RefError(
        f"{cell!r}: a ref that belongs to {handler}{origin_note} was used outside of it; return what it holds, "
        "ref[...], instead"
    )


def _perform_at_home(op: RefOperation, operands: tuple[Array, ...]) -> tuple[Array, ...]:
    cell = op.cell
    if type(op) is RefNew:
        cell.content = operands[0]
        return ()
    assert cell.content is not None
    results, content = apply_to_content(op, cell.content, operands)
    if content is not None:
        if not is_in_scope(content.frame):
            raise cast("Box", content).escaped_error()
        cell.content = content
    return results


def discharge(op: Operation[R], operands: tuple[Array, ...], cells: dict[Cell, bool]) -> R:
    """Performs an operation that holds programs on the contents of cells, and writes the final contents."""
    ordered_cells = tuple(
        sorted(cells, key=attrgetter("number"))
    )  # the same in each process, as texts that are cached
    contents = [read_cell(cell) for cell in ordered_cells]
    written = tuple([cells[cell] for cell in ordered_cells])
    with handle(Discharge(ordered_cells, written, current_frame() is None)) as frame:
        frame.state = contents
        results = op(*operands)
    for cell, content in zip(ordered_cells, frame.state, strict=True):
        if not cells[cell]:
            continue
        try:
            RefSet(cell, (), cell.type)(content)
        except RefError as error:
            source = _find_writer(op, cell)
            if source is not None:
                error.at = source_of(source)
            raise
    return results


@final
@attrs.frozen
class DischargedProgram:
    """A program on cells as a function of their contents.

    Attributes:
        staged: the program without effects on cells. Its inputs are those of the program, then the contents of the
            cells; its outputs are the program's results, then the final contents of the written cells.
        cells: the cells in the order of their contents.
        written: the written cells.
    """

    staged: Staged
    cells: tuple[Cell, ...]
    written: tuple[Cell, ...]

    def read(self) -> list[Array]:
        """Returns the contents of the cells."""
        return [read_cell(cell) for cell in self.cells]

    def write(self, contents: Sequence[Array]) -> None:
        """Writes to those cells that the program writes."""
        for cell, x in zip(self.written, contents, strict=True):
            RefSet(cell, (), cell.type)(x)


def discharge_program(program: Program) -> DischargedProgram:
    """Returns a program that reads and writes cells as a function of their contents, staged the first time."""
    cached = program.derived.get("of contents")
    if cached is not None:
        return cast("DischargedProgram", cached)
    cells = effect_cells(program.effects)
    ordered_cells = tuple(sorted(cells, key=attrgetter("number")))
    count = len(program.inputs)

    def run(arrays: Sequence[Array]) -> list[Array]:
        with handle(Discharge(ordered_cells, tuple([cells[cell] for cell in ordered_cells]), True)) as frame:
            frame.state = list(arrays[count:])
            results = run_program(program, arrays[:count])
        return [*results, *[x for cell, x in zip(ordered_cells, frame.state, strict=True) if cells[cell]]]

    with isolated():
        staged = stage(
            run, (*program.in_types, *[cell.type for cell in ordered_cells]), program.name, "lower"
        )
    written = tuple([cell for cell in ordered_cells if cells[cell]])
    result = program.derived["of contents"] = DischargedProgram(staged, ordered_cells, written)
    return result


def _find_writer(op: Operation[R], cell: Cell) -> Source:
    """Returns the source location of the first write of a cell in the programs that an operation holds."""
    for program in op.programs if isinstance(op, HigherOrder) else ():
        for equation in program.equations:
            if WritesCell(cell) in equation.op.effects:
                return _find_writer(equation.op, cell) or equation.source
    return None


def read_cell(cell: Cell) -> Array:
    """Returns the whole contents of a cell."""
    (content,) = RefGet(cell, (), cell.type)()
    return content


@final
@attrs.frozen
class Discharge(InterceptHandler[list[Array]]):
    """Handles effects on cells, with the cells' contents as its state.

    Attributes:
        cells: the cells.
        written: for each cell whether an operation writes it.
        outermost: whether no outer handler could differentiate.
    """

    cells: tuple[Cell, ...]
    written: tuple[bool, ...]
    outermost: bool
    intercepts = False
    watches = False
    effects_only = True
    threads_state = True

    def takes(self, effects: frozenset[Effect]) -> bool:
        """Returns whether an effect is on one of the cells."""
        return any([isinstance(e, CellEffect) and e.cell in self.cells for e in effects])

    def initial(self) -> list[Array]:
        """Returns the present contents."""
        return [read_cell(cell) for cell in self.cells]

    def describe(self) -> str:
        """Returns an empty text: the handler is hidden from users."""
        return ""

    def merge_states(self, a: PyTree, b: PyTree) -> PyTree:
        """Refuses replicas that write.

        Raises:
            RefError: devices run at the same time.
        """
        if not any(self.written):
            return a
        cell = self.cells[self.written.index(True)]
        raise RefError(
            f"{cell!r}: the devices of pmap run at the same time, so they cannot write one ref; return the values instead"
        )


@Discharge.rule(CustomCall)
def _(site: Site[Discharge, list[Array]], op: CustomCall, *operands: Array) -> tuple[Array, ...]:
    rules = op.rules
    if (rules.jvp is None and rules.vjp is None) or site.handler.outermost:
        outputs = recur(site.frame, Call(op.program), operands)
        assert outputs is not None
        return outputs
    cell = next(iter(effect_cells(op.effects)))
    raise RefError(
        f"{rules.transform_name}: {rules.name} reads or writes {cell!r}, which it closes over, so its rule does not "
        "say what that "
        f"does to derivatives; pass what the ref holds as an argument"
    )


@final
@attrs.frozen
class KnownContents(InterceptHandler[None]):
    """Handles reads of cells that nothing writes. Programs capture the contents, so that loops have them as constants: in
    the carry, reverse mode would save them for each iteration.

    Attributes:
        contents: the contents by cell.
    """

    contents: dict[Cell, Array]
    intercepts = False
    watches = False
    effects_only = True

    def takes(self, effects: frozenset[Effect]) -> bool:
        """Returns whether an effect is on one of the cells."""
        return any([isinstance(e, CellEffect) and e.cell in self.contents for e in effects])

    def describe(self) -> str:
        """Returns an empty text: the handler is hidden from users."""
        return ""


@KnownContents.rule(RefGet)
def _(site: Site[KnownContents, None], op: RefGet, *operands: Array) -> tuple[Array, ...]:
    return apply_to_content(op, site.handler.contents[op.cell], operands)[0]


@Discharge.rule(Scan)
def _(site: Site[Discharge, list[Array]], op: Scan, *operands: Array) -> tuple[Array, ...]:
    handler = site.handler
    contents = {
        cell: x
        for cell, x in zip(handler.cells, site.state, strict=True)
        if effect_cells(op.effects).get(cell) is False
    }
    if not contents or site.frame.outer is None:
        outputs = recur(site.frame, op, operands)
        assert outputs is not None
        return outputs
    with use_frame(site.frame), handle(KnownContents(contents)):
        return op(*operands)


@Discharge.rule(RefOperation)
def _(site: Site[Discharge, list[Array]], op: RefOperation, *operands: Array) -> tuple[Array, ...]:
    place = site.handler.cells.index(op.cell)
    results, content = apply_to_content(op, site.state[place], operands)
    if content is not None:
        site.state = [content if i == place else x for i, x in enumerate(site.state)]
    return results


def apply_to_content(
    op: RefOperation, content: Array, operands: tuple[Array, ...]
) -> tuple[tuple[Array, ...], Array | None]:
    """Returns the results of an operation on a cell's content, and the new content; None if it is unchanged."""
    if type(op) is RefGet:
        return (read_at(content, fill_index(op.place, operands)),), None
    value, *rest = operands
    index = fill_index(op.place, rest)
    if type(op) is RefAddUpdate:
        return (), write_at(content, index, value, "add")
    old_value = (read_at(content, index),) if type(op) is RefSwap else ()
    return old_value, write_at(content, index, value, "set")


def read_at(x: Array, index: tuple[Index, ...]) -> Array:
    """Reads at a path of indices, each within the previous one."""
    for part in index:
        x = getitem(x, part)
    return x


def write_at(x: Array, index: tuple[Index, ...], value: Array, combiner: str) -> Array:
    """Returns x with a value set or added at a path of indices, each within the previous one."""
    if not index:
        return value if combiner == "set" else x + value
    if len(index) == 1:
        return update_at(x, index[0], value, combiner, IndexingMode())
    inner = write_at(getitem(x, index[0]), index[1:], value, combiner)
    return update_at(x, index[0], inner, "set", IndexingMode())


def fill_index(encoded: EncodedIndex, operands: Sequence[Array]) -> tuple[Index, ...]:
    """Returns an index with its arrays filled in."""
    remaining = iter(operands)

    def fill_part(p: IndexPart) -> object:
        if type(p) is IndexSlice:
            return slice(p.start, p.stop, p.step)
        return next(remaining) if type(p) is IndexOperand else p

    return tuple([tuple([fill_part(p) for p in parts]) for parts in encoded])


@lru_cache(maxsize=1024)
def indexed_type(t: ArrayType, encoded: EncodedIndex, types: tuple[ArrayType, ...]) -> ArrayType:
    """Returns the type of an indexed part of an array; `types` are the types of the arrays in the index."""
    staged = stage(lambda xs: [read_at(xs[0], fill_index(encoded, xs[1:]))], (t, *types), "part", "ref")
    return staged.program.out_types[0]


caching.other_caches.append(indexed_type.cache_clear)


def perform_on_whole(op: RefOperation, operands: tuple[Value, ...]) -> tuple[Array, ...]:
    """Performs an operation by reading and writing the whole contents, for the current handler.

    Raises:
        RefError: the new contents would be a value of that handler, and the cell's home is further out.
    """
    cell = op.cell
    arrays = cast("tuple[Array, ...]", operands)
    if type(op) is RefSet and not op.place:
        frame = arrays[0].frame
        assert frame is not None
        handler = frame.handler
        default_advice = (
            f"a value of {handler.describe()}",
            f"a ref that was made outside of it, {cell!r}",
            "",
        )
        value, target, advice = _WRITE_ADVICE.get(handler.name, default_advice)
        # In an outer cell the value would outlive its frame.
        raise RefError(
            f"ref: {value} {arrays[0].type!r} is written to {target}; {advice}make the ref inside the function"
        )
    results, content = apply_to_content(op, read_cell(cell), arrays)
    if content is not None:
        RefSet(cell, (), cell.type)(content)
    return results
