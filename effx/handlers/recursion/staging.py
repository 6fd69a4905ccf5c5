"""Staging a program again under a handler."""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar, cast, final

import attrs

from effx import dtypes
from effx.array import Array
from effx.array.promotion import as_operand, convert
from effx.effects import (
    Frame,
    Handler,
    current_scope,
    handle,
    is_in_scope,
    scope_around,
    scope_asked,
    scope_within,
)
from effx.errors import TransformError
from effx.handlers.recursion.layout import Layout, flatten_boxes, rebuild_boxes, types_of
from effx.handlers.recursion.payloads import handler_of
from effx.handlers.sharding_types.axes_in_types import apart
from effx.handlers.staging.stage import run_program, stage
from effx.ir.program import Program, Staged, Var
from effx.ir.types import ArrayType, array_type
from effx.tree.registry import PyTree, PyTreeDef, flatten

T = TypeVar("T")

SCALAR = array_type(dtypes.float32)


@final
@attrs.frozen
class State:
    """The layout of a threaded state in a flat list.

    Attributes:
        leaves: plain values, one array each.
        tree: the state's structure; None for a handler without state.
    """

    leaves: tuple[Layout, ...]
    tree: PyTreeDef | None


STATELESS = State((), None)


def state_of(frame: Frame) -> tuple[list[Array], State]:
    """Returns the arrays of the handler's state and their layout."""
    handler = handler_of(frame)
    if not handler.threads_state:
        return [], STATELESS
    values, tree = flatten(frame.state)
    arrays = [as_operand(x, handler.name) for x in values]
    return arrays, State(tuple([Layout(None, (x.type,), x.type) for x in arrays]), tree)


def put_state(frame: Frame, leaves: Sequence[Array], state: State) -> None:
    """Sets the handler's state from a flat list."""
    if state.tree is not None:
        frame.state = state.tree.unflatten(leaves)


def take_state(frame: Frame, state: State) -> list[Array]:
    """Returns the state's arrays after a body has run, of the types that they had before.

    Raises:
        TransformError: structure, shape or dtype has changed.
    """
    if state.tree is None:
        return []
    values, tree = flatten(frame.state)
    if tree != state.tree:
        raise TransformError(
            f"{frame.handler.name}: the state's structure changed from {state.tree} to {tree} inside a program"
        )
    arrays = [as_operand(x, frame.handler.name) for x in values]
    for x, layout in zip(arrays, state.leaves, strict=True):
        if not x.type.matches(layout.type):
            raise TransformError(
                f"{frame.handler.name}: a part of the state changed from {layout.type!r} to {x.type!r} inside a program"
            )
    return [
        convert(x, layout.type.dtype, layout.type.weak)
        for x, layout in zip(arrays, state.leaves, strict=True)
    ]


@final
@attrs.frozen
class Collected:
    """The layouts of the values collected inside a program, which follow the program's results.

    Attributes:
        names: in order.
        layouts: of the values, one each.
    """

    names: tuple[str, ...] = ()
    layouts: tuple[Layout, ...] = ()

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The arrays' types."""
        return types_of(self.layouts)

    def values(self, leaves: Sequence[Array]) -> dict[str, PyTree]:
        """Rebuilds the values by name."""
        found: dict[str, PyTree] = {}
        start = 0
        for name, layout in zip(self.names, self.layouts, strict=True):
            assert layout.tree is not None
            found[name] = layout.tree.unflatten(leaves[start : start + len(layout.types)])
            start += len(layout.types)
        return found


NOTHING = Collected()


@final
@attrs.frozen(eq=False)
class Handled:
    """A program staged under a handler.

    Attributes:
        program: from the constants, the state's leaves and the inputs' leaves to the state's leaves, the
            results' leaves and those of collected values.
        constants: values of its first inputs.
        results: the layouts of the results. collected: the layouts of collected values.
        around: the scopes around the program, if a rule asked for its scope; else None.
    """

    program: Program
    constants: tuple[Array, ...]
    results: tuple[Layout, ...]
    collected: Collected = NOTHING
    around: str | None = None


def keeps_record(frame: Frame) -> bool:
    """Says whether the handler keeps a state or collects values, which programs must return."""
    handler = handler_of(frame)
    return handler.threads_state or handler.collects


def take_collected(frame: Frame) -> tuple[list[Array], Collected]:
    """Returns the arrays that a body has collected, and their layouts.

    Raises:
        TransformError: a value is a box of the handler itself.
    """
    if not frame.collected:
        return [], NOTHING
    leaves: list[Array] = []
    layouts: list[Layout] = []
    for name, value in frame.collected.items():
        parts, tree = flatten(value)
        arrays = [as_operand(x, frame.handler.name) for x in parts]
        for x in arrays:
            if x.frame is frame:
                raise TransformError(
                    f"{frame.handler.name}: the value collected under {name!r} is a box of the handler itself; "
                    f"collect its payload"
                )
        types = tuple([x.type for x in arrays])
        layouts.append(Layout(tree, types, types[0] if types else SCALAR))
        leaves += arrays
    return leaves, Collected(tuple(frame.collected), tuple(layouts))


def put_collected(frame: Frame, leaves: Sequence[Array], collected: Collected) -> None:
    """Collects the values that a program has returned."""
    if collected.names:
        for name, value in collected.values(leaves).items():
            handler_of(frame).collect(frame, name, value)


# Brings the results of a body to the arrays that the new program returns: (frame, inputs, outputs) -> values
Settle = Callable[[Frame, list[Array], list[Array]], tuple[list[Array], tuple[Layout, ...]]]


def plainly(
    frame: Frame, inputs: list[Array], outputs: list[Array]
) -> tuple[list[Array], tuple[Layout, ...]]:
    """Does not change the results."""
    return flatten_boxes(frame, outputs)


def cached(program: Program, key: Hashable, make: Callable[[], T]) -> T:
    """Returns the cached value of a program under a key, made the first time. Under a key that cannot be
    hashed, as of a handler that holds arrays, it is made each time.
    """
    try:
        found = program.derived.get(key)
    except TypeError:
        return make()
    if found is None:
        found = program.derived[key] = make()
    return cast("T", found)


def stage_under(
    program: Program,
    handler: Handler,
    layouts: tuple[Layout, ...],
    state: State,
    settle: Settle = plainly,
    key: Hashable = (),
) -> Handled:
    """Stages a program again under a handler; cached by (program, handler, structure of the inputs), and by the scopes
    around where a rule asks for its scope.

    Args:
        program: the body.
        handler: installed around it. layouts: of the inputs in the flat list. state: the layout of the
            handler's state. settle: converts the results; `key` must identify it.
        key: part of the cache's key.
    """

    around = scope_within(scope_around.get(), current_scope.get())

    def make() -> Handled:
        results: tuple[Layout, ...] = ()
        collected = NOTHING
        n = len(state.leaves)
        asked = [False]

        def body(leaves: list[Array]) -> list[Array]:
            nonlocal results, collected
            scope_around.set(around)  # `stage` puts both back
            scope_asked.set(asked)
            with handle(handler) as frame:
                put_state(frame, leaves[:n], state)
                inputs = rebuild_boxes(frame, leaves[n:], layouts)
                outputs = run_program(program, inputs)
            # Lifting and joining run under the outer handlers, as its rules do.
            flat, results = settle(frame, inputs, outputs)
            gathered, collected = take_collected(frame)
            return [*take_state(frame, state), *flat, *gathered]

        types = (*types_of(state.leaves), *types_of(layouts))
        staged = stage(body, types, f"{handler.name}_{program.name}", handler.name)
        return Handled(staged.program, staged.captured, results, collected, around if asked[0] else None)

    whole: tuple[Hashable, ...] = ("stage_under", handler, layouts, state, key, apart.value)
    found = cached(program, whole, make)
    if found.around is not None:
        # The one kept without its scopes says that there are more; it may be of others.
        first, whole = found, (*whole, around)
        found = cached(program, whole, lambda: first if first.around == around else make())
        if (outer := scope_asked.get()) is not None:
            outer[0] = True
    if all([x.frame is None or (x.frame.live and is_in_scope(x.frame)) for x in found.constants]):
        return found
    # A user's rule that ran while staging closed over boxes of a handler that has ended since.
    program.derived.pop(whole, None)
    return cached(program, whole, make)


def aligned(parts: Sequence[Handled | Staged]) -> tuple[list[Program], list[Array]]:
    """Gives programs with the same parameters one list of constants.

    Returns:
        The programs, each taking the constants of all before its other inputs; and the constants.
    """
    constants: list[Array] = []
    places: dict[int, int] = {}
    taken: list[tuple[int, ...]] = []
    for part in parts:
        own = part.constants if isinstance(part, Handled) else part.captured
        for x in own:
            if id(x) not in places:
                places[id(x)] = len(constants)
                constants.append(x)
        taken.append(tuple([places[id(x)] for x in own]))
    types = tuple([x.type for x in constants])
    programs: list[Program] = []
    for part, mine in zip(parts, taken, strict=True):
        program = part.program
        if mine == tuple(range(len(constants))):
            programs.append(program)
            continue

        # Kept, so that what is compiled from the new form is found again.
        def extended(program: Program = program, mine: tuple[int, ...] = mine) -> Program:
            variables = [Var(t) for t in types]
            for place, var in zip(mine, program.inputs, strict=False):
                variables[place] = var
            return attrs.evolve(program, inputs=(*variables, *program.inputs[len(mine) :]), derived={})

        programs.append(cached(program, ("aligned", mine, types), extended))
    return programs, constants
