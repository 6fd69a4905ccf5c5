"""Stage a program again under a handler, with its state and collected values."""

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
    rules_version,
    scope_read_flag,
    scope_within,
    surrounding_scope,
)
from effx.errors import TransformError
from effx.handlers.recursion.layout import (
    ValueLayout,
    flatten_boxes,
    layout_types,
    rebuild_boxes,
    split_by_layouts,
)
from effx.handlers.recursion.payloads import payload_handler
from effx.handlers.sharding_types.axes_in_types import diverging_axes
from effx.handlers.staging.stage import run_program, stage
from effx.ir.program import Program, Staged, Var
from effx.ir.types import ArrayType, array_type
from effx.tree.registry import PyTree, PyTreeDef, flatten

T = TypeVar("T")

SCALAR = array_type(dtypes.float32)


@final
@attrs.frozen
class StateLayout:
    """The layout of a threaded state in a flat list.

    Attributes:
        leaves: plain values, one array each.
        tree: the state's structure; None for a handler without state.
    """

    leaves: tuple[ValueLayout, ...]
    tree: PyTreeDef | None


STATELESS = StateLayout((), None)


def flatten_state(frame: Frame) -> tuple[list[Array], StateLayout]:
    """Returns the arrays of the handler's state and their layout."""
    handler = payload_handler(frame)
    if not handler.threads_state:
        return [], STATELESS
    values, tree = flatten(frame.state)
    arrays = [as_operand(x, handler.name) for x in values]
    return arrays, StateLayout(tuple([ValueLayout(None, (x.type,), x.type) for x in arrays]), tree)


def set_state(frame: Frame, leaves: Sequence[Array], state: StateLayout) -> None:
    """Sets the handler's state from a flat list."""
    if state.tree is not None:
        frame.state = state.tree.unflatten(leaves)


def take_state(frame: Frame, state: StateLayout) -> list[Array]:
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
class CollectedLayouts:
    """The layouts of the values collected inside a program, which follow the program's results.

    Attributes:
        names: the names in order.
        layouts: the layout of each value.
    """

    names: tuple[str, ...] = ()
    layouts: tuple[ValueLayout, ...] = ()

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """The arrays' types."""
        return layout_types(self.layouts)

    def rebuild_values(self, leaves: Sequence[Array]) -> dict[str, PyTree]:
        """Rebuilds the values by name."""
        parts = split_by_layouts(leaves, self.layouts)
        rebuilt: dict[str, PyTree] = {}
        for name, layout, part in zip(self.names, self.layouts, parts, strict=True):
            assert layout.tree is not None
            rebuilt[name] = layout.tree.unflatten(part)
        return rebuilt


NOTHING_COLLECTED = CollectedLayouts()


@final
@attrs.frozen(eq=False)
class HandledProgram:
    """A program staged under a handler.

    Attributes:
        program: from the constants, the state's leaves and the inputs' leaves to the state's leaves, the
            results' leaves and those of collected values.
        constants: values of its first inputs.
        results: the layouts of the results. collected: the layouts of collected values.
        scope: the name stack around the program, if a rule read its scope; else None.
    """

    program: Program
    constants: tuple[Array, ...]
    results: tuple[ValueLayout, ...]
    collected: CollectedLayouts = NOTHING_COLLECTED
    scope: str | None = None


def has_record(frame: Frame) -> bool:
    """Returns whether the handler has a state or collects values, which programs must return."""
    handler = payload_handler(frame)
    return handler.threads_state or handler.collects


def take_collected(frame: Frame) -> tuple[list[Array], CollectedLayouts]:
    """Returns the arrays that a body has collected, and their layouts.

    Raises:
        TransformError: a value is a box of the handler itself.
    """
    if not frame.collected:
        return [], NOTHING_COLLECTED
    leaves: list[Array] = []
    layouts: list[ValueLayout] = []
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
        layouts.append(ValueLayout(tree, types, types[0] if types else SCALAR))
        leaves += arrays
    return leaves, CollectedLayouts(tuple(frame.collected), tuple(layouts))


def collect_values(frame: Frame, leaves: Sequence[Array], collected: CollectedLayouts) -> None:
    """Collects the values that a program has returned."""
    if collected.names:
        for name, value in collected.rebuild_values(leaves).items():
            payload_handler(frame).collect(frame, name, value)


# Brings the results of a body to the arrays that the new program returns: (frame, inputs, outputs) -> values
FlattenOutputs = Callable[[Frame, list[Array], list[Array]], tuple[list[Array], tuple[ValueLayout, ...]]]


def flatten_outputs(
    frame: Frame, inputs: list[Array], outputs: list[Array]
) -> tuple[list[Array], tuple[ValueLayout, ...]]:
    """Returns the outputs unchanged."""
    return flatten_boxes(frame, outputs)


def _version_key(key: Hashable) -> Hashable:
    """Returns the key of a program's cache under which no value from before a change of rules is found."""
    return rules_version[0], key


def cache_on_program(program: Program, key: Hashable, make: Callable[[], T]) -> T:
    """Returns the cached value of a program under a key, made the first time. Under a key that cannot be
    hashed, as of a handler that holds arrays, it is made each time.
    """
    key = _version_key(key)
    try:
        cached_value = program.derived.get(key)
    except TypeError:
        # A cache by identity would keep one program for each array that the handler has held: one more at
        # each training step.
        return make()
    if cached_value is None:
        cached_value = program.derived[key] = make()
    return cast("T", cached_value)


def stage_under(
    program: Program,
    handler: Handler,
    layouts: tuple[ValueLayout, ...],
    state: StateLayout,
    settle: FlattenOutputs = flatten_outputs,
    key: Hashable = (),
) -> HandledProgram:
    """Stages a program again under a handler; cached by (program, handler, structure of the inputs), and by the outer
    name stack if a rule reads its scope.

    Args:
        program: the body.
        handler: installed around it. layouts: of the inputs in the flat list. state: the layout of the
            handler's state. settle: converts the results; `key` must identify it.
        key: part of the cache key.
    """

    # A program's operations have the scopes within it alone, since it may be performed anywhere. Most rules
    # do not ask for their scope, so one staged program serves all scopes; only where one has asked
    # (`full_scope`) are the scopes around part of the key.
    scope = scope_within(surrounding_scope.get(), current_scope.get())

    def make() -> HandledProgram:
        results: tuple[ValueLayout, ...] = ()
        collected = NOTHING_COLLECTED
        n = len(state.leaves)
        scope_read = [False]

        def body(leaves: list[Array]) -> list[Array]:
            nonlocal results, collected
            surrounding_scope.set(scope)  # `stage` restores both
            scope_read_flag.set(scope_read)
            with handle(handler) as frame:
                set_state(frame, leaves[:n], state)
                inputs = rebuild_boxes(frame, leaves[n:], layouts)
                outputs = run_program(program, inputs)
            # Lifting and joining run under the outer handlers, as its rules do.
            flat, results = settle(frame, inputs, outputs)
            collected_leaves, collected = take_collected(frame)
            return [*take_state(frame, state), *flat, *collected_leaves]

        types = (*layout_types(state.leaves), *layout_types(layouts))
        staged = stage(body, types, f"{handler.name}_{program.name}", handler.name)
        return HandledProgram(
            staged.program, staged.captured, results, collected, scope if scope_read[0] else None
        )

    full_key: tuple[Hashable, ...] = (
        "stage_under",
        handler.cache_key(),
        layouts,
        state,
        key,
        diverging_axes.value,
    )
    handled = cache_on_program(program, full_key, make)
    if handled.scope is not None:
        # The entry without a scope shows that others exist; it may be for another scope.
        handled_here, full_key = handled, (*full_key, scope)
        handled = cache_on_program(
            program, full_key, lambda: handled_here if handled_here.scope == scope else make()
        )
        if (outer_scope_read := scope_read_flag.get()) is not None:
            outer_scope_read[0] = True
    if all([x.frame is None or (x.frame.live and is_in_scope(x.frame)) for x in handled.constants]):
        return handled
    # A user's rule that ran while staging closed over boxes of a handler that has ended since.
    program.derived.pop(_version_key(full_key), None)
    return cache_on_program(program, full_key, make)


def align_constants(parts: Sequence[HandledProgram | Staged]) -> tuple[list[Program], list[Array]]:
    """Rewrites programs with the same parameters to share one list of constants.

    Returns:
        The programs, each taking the constants of all before its other inputs; and the constants.
    """
    constants: list[Array] = []
    constant_indices: dict[int, int] = {}
    indices_by_part: list[tuple[int, ...]] = []
    for part in parts:
        part_constants = part.constants if isinstance(part, HandledProgram) else part.captured
        for x in part_constants:
            if id(x) not in constant_indices:
                constant_indices[id(x)] = len(constants)
                constants.append(x)
        indices_by_part.append(tuple([constant_indices[id(x)] for x in part_constants]))
    types = tuple([x.type for x in constants])
    programs: list[Program] = []
    for part, part_indices in zip(parts, indices_by_part, strict=True):
        program = part.program
        if part_indices == tuple(range(len(constants))):
            programs.append(program)
            continue

        # Cached, so that executables of the new form are found again.
        def extend_program(
            program: Program = program, part_indices: tuple[int, ...] = part_indices
        ) -> Program:
            variables = [Var(t) for t in types]
            for index, var in zip(part_indices, program.inputs, strict=False):
                variables[index] = var
            return attrs.evolve(
                program, inputs=(*variables, *program.inputs[len(part_indices) :]), derived={}
            )

        programs.append(cache_on_program(program, ("aligned", part_indices, types), extend_program))
    return programs, constants
