"""Running programs step by step under a handler, with loops and branches of Python.

In place of staging a program again under the handler, its operations are performed one after another on the values
at hand. The handler sees each operation when it runs, and a debugger can stop there; predicates must be known.
State and collected values are what staging makes them, but that a branch which is not taken collects nothing, and
the members of a parallel map are stepped through together, as a batch.

Never: be fast.
"""

from collections.abc import Sequence

from effx.array import Array
from effx.array.indexing import getitem
from effx.array.promotion import zeros
from effx.effects import Frame, resumed
from effx.handlers.recursion.branches import meeting
from effx.handlers.recursion.layout import arrays_of, fit, flatten_boxes, handler_of, rebuild_boxes
from effx.handlers.recursion.loops import sliced, stacked
from effx.handlers.reference import control
from effx.handlers.stage import run_program
from effx.ir.ops.control import HigherOrder, Scan, While
from effx.ir.ops.shape import BroadcastInDim, Concatenate
from effx.ir.program import Program
from effx.tree.registry import PyTree

__all__ = ["step_through"]

Collected = dict[str, PyTree]


def step_through(frame: Frame, op: HigherOrder, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs an operation that holds programs under the frame's handler.

    Raises:
        ConcretizationError: a value that decides is abstract.
    """
    if isinstance(op, Scan):
        return _scan(frame, op, operands)
    if isinstance(op, While):
        return _while(frame, op, operands)
    with resumed(frame):
        return control.run(op, operands)


def _turn(frame: Frame, body: Program, operands: Sequence[Array]) -> tuple[list[Array], Collected]:
    """Runs a loop's body; returns its results and what it collects, which the frame does not keep."""
    before, frame.collected = frame.collected, {}
    try:
        with resumed(frame):
            results = run_program(body, operands)
        return results, frame.collected
    finally:
        frame.collected = before


def _while(frame: Frame, op: While, operands: Sequence[Array]) -> tuple[Array, ...]:
    constants, carry = operands[: op.constants], operands[op.constants :]
    last: Collected = {}
    while True:
        (goes_on,), asked = _turn(frame, op.condition, [*constants, *carry])
        if not goes_on:
            break
        carry, last = _turn(frame, op.body, [*constants, *carry])
    for name, value in (*asked.items(), *last.items()):
        handler_of(frame).collect(frame, name, value)
    return tuple(carry)


def _scan(frame: Frame, op: Scan, operands: Sequence[Array]) -> tuple[Array, ...]:
    # Taking slices and stacking results is the loop's own affair: the handler does not see it.
    n = op.constants + op.carries
    constants, carry = operands[: op.constants], list(operands[op.constants : n])
    with resumed(frame.outer):
        leaves, layouts = sliced(frame, operands[n:], op.length)
    rows: list[list[Array]] = []
    found: list[Collected] = []
    for i in reversed(range(op.length)) if op.reverse else range(op.length):
        with resumed(frame.outer):
            slices = rebuild_boxes(frame, [getitem(x, i) for x in leaves], layouts)
        results, collected = _turn(frame, op.body, [*constants, *carry, *slices])
        carry = results[: op.carries]
        rows.append(results[op.carries :])
        found.append(collected)
    if op.reverse:
        rows.reverse()
        found.reverse()
    types = op.infer(*[x.type for x in operands])[op.carries :]
    with resumed(frame.outer):
        _collect(frame, found)
        if not rows:
            return (*carry, *[zeros(t) for t in types])
        return (*carry, *[_stacked(frame, [row[k] for row in rows]) for k in range(len(types))])


def _stacked(frame: Frame, rows: Sequence[Array]) -> Array:
    """Stacks one output of all steps, some of which may be plain and some boxed."""
    layout = meeting(frame, tuple([flatten_boxes(frame, [row])[1][0] for row in rows]))
    parts = zip(*[fit(frame, row, layout) for row in rows], strict=True)
    return stacked(frame, [_joined(part) for part in parts], (layout,), len(rows))[0]


def _joined(rows: Sequence[Array]) -> Array:
    t = rows[0].type
    wide = [BroadcastInDim((1, *t.shape), tuple(range(1, t.ndim + 1)))(row) for row in rows]
    return wide[0] if len(wide) == 1 else Concatenate(0)(*wide)


def _collect(frame: Frame, found: Sequence[Collected]) -> None:
    """Hands out what all steps have collected, a row for each; a step without a value has a missing one."""
    handler = handler_of(frame)
    for name, first in {name: value for step in reversed(found) for name, value in step.items()}.items():
        leaves, tree = arrays_of(first, handler.name)
        like = tree.unflatten(leaves)
        values = [step[name] if name in step else handler.missing(name, like) for step in found]
        parts = zip(*[arrays_of(value, handler.name)[0] for value in values], strict=True)
        handler.collect(frame, name, tree.unflatten([_joined(part) for part in parts]))
