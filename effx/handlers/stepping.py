"""Running programs step by step under a handler, with loops and branches of Python.

In place of staging a program again under the handler, its operations are performed one after another on the values
at hand. The handler sees each operation when it runs, and a debugger can stop there; predicates must be known.

Never: be fast.
"""

from collections.abc import Sequence
from effx.array import Array
from effx.array.indexing import getitem
from effx.array.promotion import zeros
from effx.effects import Frame, entered, resumed
from effx.handlers.reference import control
from effx.handlers.stage import run_program
from effx.ir.ops.control import HigherOrder, Scan
from effx.ir.ops.shape import BroadcastInDim, Concatenate
from effx.ir.types import ArrayType

__all__ = ["step_through"]


def step_through(frame: Frame, op: HigherOrder, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs an operation that holds programs under the frame's handler.

    Raises:
        ConcretizationError: a value that decides is abstract.
    """
    if isinstance(op, Scan):
        return _scan(frame, op, operands)
    with resumed(frame):
        return control.run(op, operands)


def _scan(frame: Frame, op: Scan, operands: Sequence[Array]) -> tuple[Array, ...]:
    # Taking slices and stacking results is the loop's own affair: the handler does not see it.
    n = op.constants + op.carries
    constants, carry, xs = operands[: op.constants], list(operands[op.constants : n]), operands[n:]
    rows: list[list[Array]] = []
    for i in reversed(range(op.length)) if op.reverse else range(op.length):
        with entered(frame.outer):
            slices = [getitem(x, i) for x in xs]
        with resumed(frame):
            results = run_program(op.body, [*constants, *carry, *slices])
        carry = results[: op.carries]
        rows.append(results[op.carries :])
    if op.reverse:
        rows.reverse()
    types = op.infer(*[x.type for x in operands])[op.carries :]
    with entered(frame.outer):
        return (*carry, *[_stacked([row[k] for row in rows], t) for k, t in enumerate(types)])


def _stacked(rows: list[Array], t: ArrayType) -> Array:
    if not rows:
        return zeros(t)
    axes = tuple(range(1, t.ndim))
    wide = [BroadcastInDim((1, *t.shape[1:]), axes)(row) for row in rows]
    return wide[0] if len(wide) == 1 else Concatenate(0)(*wide)
