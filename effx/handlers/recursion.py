"""Handlers inside programs: an operation that holds a program is staged again under the handler.

Written once for every handler: boxes are flattened into the leaves of their payloads, the body is
staged with boxes of a new frame of the same handler rebuilt from these leaves, and what comes
out is flattened again. A handler's author writes nothing for it.

Never: know a particular handler.
"""

from collections.abc import Sequence
from typing import Any, cast, final

import attrs

from effx.array import Array, Box
from effx.effects import Frame, Handler, handle
from effx.handlers.stage import run_program, stage
from effx.ir.ops.control import Call
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.tree.registry import PyTreeDef, flatten

__all__ = ["Layout", "flatten_boxes", "handle_call", "rebuild_boxes"]


@final
@attrs.frozen
class Layout:
    """How one value lies in a flat list of arrays.

    Attributes:
        tree: the structure of the payload; None for a plain value, which is one array.
        count: the number of arrays.
        type: the type that the boxed function sees.
    """

    tree: PyTreeDef | None
    count: int
    type: ArrayType


def flatten_boxes(frame: Frame, values: Sequence[Array]) -> tuple[list[Array], tuple[Layout, ...]]:
    """Splits values into plain arrays and what is needed to rebuild them."""
    leaves: list[Array] = []
    layouts: list[Layout] = []
    for x in values:
        if type(x) is Box and x.frame is frame:
            parts, tree = flatten(x.payload)
            leaves += parts
            layouts.append(Layout(tree, len(parts), x.type))
        else:
            leaves.append(x)
            layouts.append(Layout(None, 1, x.type))
    return leaves, tuple(layouts)


def rebuild_boxes(frame: Frame, leaves: Sequence[Array], layouts: Sequence[Layout]) -> list[Array]:
    """Makes boxes of `frame` from plain arrays; the inverse of `flatten_boxes`."""
    values: list[Array] = []
    start = 0
    for layout in layouts:
        if layout.tree is None:
            values.append(leaves[start])
        else:
            payload: Any = layout.tree.unflatten(leaves[start : start + layout.count])
            values.append(Box(frame, payload, layout.type))
        start += layout.count
    return values


@final
@attrs.frozen(eq=False)
class Handled:
    """A program staged under a handler: the new program, its constants, and how its results lie."""

    program: Program
    constants: tuple[Array, ...]
    results: tuple[Layout, ...]


def under(
    program: Program, handler: Handler, layouts: tuple[Layout, ...], types: tuple[ArrayType, ...]
) -> Handled:
    """Stages a program again under a handler; cached by (program, handler, structure of the inputs).

    Args:
        program: the body.
        handler: what to install around it.
        layouts: how the inputs lie in the flat list.
        types: the types of the flat list.
    """
    key = (handler, layouts, types)
    found = program.derived.get(key)
    if found is None:
        results: tuple[Layout, ...] = ()

        def body(leaves: list[Array]) -> list[Array]:
            nonlocal results
            with handle(handler) as frame:
                outputs = run_program(program, rebuild_boxes(frame, leaves, layouts))
                flat, results = flatten_boxes(frame, outputs)
            return flat

        name = f"{handler.name}_{program.name}"
        staged = stage(body, types, name, handler.name)
        found = program.derived[key] = Handled(staged.program, staged.captured, results)
    return cast("Handled", found)


def handle_call(frame: Frame, op: Call, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Interprets a call under the frame's handler: one call of the staged body, outward."""
    leaves, layouts = flatten_boxes(frame, operands)
    handled = under(op.program, frame.handler, layouts, tuple([x.type for x in leaves]))
    results = Call(handled.program, op.inline)(*handled.constants, *leaves)
    return tuple(rebuild_boxes(frame, results, handled.results))
