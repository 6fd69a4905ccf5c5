"""Running programs step by step under a handler, with loops and branches of Python.

Instead of staging a program again under the handler, its operations are performed one after another on
concrete values. The handler sees each operation when it runs, and a debugger can stop there; predicates must
be concrete. State and collected values are those of staging, except that a branch which is not taken collects
nothing, and the replicas of a parallel map run as one batch.
"""

from collections.abc import Callable, Sequence

import attrs

from effx.array import Array
from effx.effects import Frame, resumed
from effx.handlers.evaluate.interpreter import Interpreter, joined
from effx.handlers.recursion.branches import meeting
from effx.handlers.recursion.layout import arrays_of, fit, flatten_boxes, rebuild_boxes
from effx.handlers.recursion.loops import sliced, stacked
from effx.handlers.recursion.payloads import handler_of
from effx.ir.ops.control import HigherOrder, Scan
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.tree.registry import PyTree

Collected = dict[str, PyTree]


def step_through(frame: Frame, op: HigherOrder, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs an operation that holds programs under the frame's handler.

    Raises:
        ConcretizationError: a value that decides is abstract.
    """
    stepper = _Stepper(frame.handler, frame)
    with resumed(frame):
        results = stepper.run(op, operands)
    if isinstance(op, Scan):
        found = [collected for _, collected in stepper.found]
        with resumed(frame.outer):
            _collect(frame, found[::-1] if op.reverse else found)
    else:
        # Of a condition and a body, what each collects last.
        for collected in dict(stepper.found).values():
            for name, value in collected.items():
                handler_of(frame).collect(frame, name, value)
    return results


@attrs.frozen(eq=False)
class _Stepper(Interpreter):
    """An interpreter whose slicing and stacking the handler does not see.

    Attributes:
        frame: the handler's.
        found: what iterations of each program have collected, which the frame does not keep.
    """

    frame: Frame
    found: list[tuple[Program, Collected]] = attrs.field(factory=list)

    def iteration(self, program: Program, operands: Sequence[Array]) -> list[Array]:
        before, self.frame.collected = self.frame.collected, {}
        try:
            results = super().iteration(program, operands)
            self.found.append((program, self.frame.collected))
            return results
        finally:
            self.frame.collected = before

    def slices(self, xs: Sequence[Array], length: int) -> Callable[[int], Sequence[Array]]:
        with resumed(self.frame.outer):
            leaves, layouts = sliced(self.frame, xs, length)
            row = super().slices(leaves, length)

        def at(i: int) -> Sequence[Array]:
            with resumed(self.frame.outer):
                found = rebuild_boxes(self.frame, row(i), layouts)
            for y, x in zip(found, xs, strict=True):
                handler_of(self.frame).moved(y, [x])
            return found

        return at

    def stack(self, rows: Sequence[Sequence[Array]], types: Sequence[ArrayType]) -> list[Array]:
        with resumed(self.frame.outer):
            if not rows:
                return super().stack(rows, types)
            found = [self._stacked([row[k] for row in rows]) for k in range(len(types))]
        for k, y in enumerate(found):
            handler_of(self.frame).moved(y, [row[k] for row in rows])
        return found

    def _stacked(self, rows: Sequence[Array]) -> Array:
        """Stacks one output of all iterations, some of which may be plain and some boxed."""
        frame = self.frame
        layout = meeting(frame, tuple([flatten_boxes(frame, [row])[1][0] for row in rows]))
        parts = zip(*[fit(frame, row, layout) for row in rows], strict=True)
        return stacked(frame, [joined(part) for part in parts], (layout,), len(rows))[0]


def _collect(frame: Frame, found: Sequence[Collected]) -> None:
    """Collects the values of all iterations, a row for each; missing values are filled in."""
    handler = handler_of(frame)
    for name, first in {name: value for step in reversed(found) for name, value in step.items()}.items():
        leaves, tree = arrays_of(first, handler.name)
        like = tree.unflatten(leaves)
        values = [step[name] if name in step else handler.missing(name, like) for step in found]
        parts = zip(*[arrays_of(value, handler.name)[0] for value in values], strict=True)
        handler.collect(frame, name, tree.unflatten([joined(part) for part in parts]))
