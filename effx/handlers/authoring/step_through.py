"""Run programs step by step under a handler, with Python loops and branches.

Instead of staging a program again under the handler, its operations are performed one after another on
concrete values. The handler sees each operation when it runs, and a debugger can stop there; predicates must
be concrete. State and collected values are those of staging, except that a branch which is not taken collects
nothing, and the replicas of a parallel map run as one batch.
"""

from collections.abc import Callable, Sequence

import attrs

from effx.array import Array
from effx.effects import Frame, use_frame
from effx.handlers.evaluate.interpreter import Interpreter, stack_arrays
from effx.handlers.recursion.branches import meet_layouts
from effx.handlers.recursion.layout import fit_to_layout, flatten_boxes, flatten_payload, rebuild_boxes
from effx.handlers.recursion.loops import stack_outputs, unstack_inputs
from effx.handlers.recursion.payloads import payload_handler
from effx.ir.ops.control import HigherOrder, Scan
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.tree.registry import PyTree

Collected = dict[str, PyTree]


def step_through(frame: Frame, op: HigherOrder, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs an operation that holds programs under the frame's handler.

    Raises:
        ConcretizationError: a predicate is abstract.
    """
    stepper = _Stepper(frame.handler, frame)
    with use_frame(frame):
        results = stepper.run(op, operands)
    if isinstance(op, Scan):
        iterations = [collected for _, collected in stepper.collected_by_iteration]
        with use_frame(frame.outer):
            _collect_iterations(frame, iterations[::-1] if op.reverse else iterations)
    else:
        # The last values that a condition and a body each collect.
        for collected in dict(stepper.collected_by_iteration).values():
            for name, value in collected.items():
                payload_handler(frame).collect(frame, name, value)
    return results


@attrs.frozen(eq=False)
class _Stepper(Interpreter):
    """An interpreter whose slicing and stacking the handler does not see.

    Attributes:
        frame: the handler's frame.
        collected_by_iteration: the values that the iterations of each program have collected; the frame does not
            have them.
    """

    frame: Frame
    collected_by_iteration: list[tuple[Program, Collected]] = attrs.field(factory=list)

    def run_iteration(self, program: Program, operands: Sequence[Array]) -> list[Array]:
        outer_collected, self.frame.collected = self.frame.collected, {}
        try:
            results = super().run_iteration(program, operands)
            self.collected_by_iteration.append((program, self.frame.collected))
            return results
        finally:
            self.frame.collected = outer_collected

    def make_slicer(self, xs: Sequence[Array], length: int) -> Callable[[int], Sequence[Array]]:
        with use_frame(self.frame.outer):
            leaves, layouts = unstack_inputs(self.frame, xs, length)
            row = super().make_slicer(leaves, length)

        def slices_at(i: int) -> Sequence[Array]:
            with use_frame(self.frame.outer):
                rebuilt = rebuild_boxes(self.frame, row(i), layouts)
            for y, x in zip(rebuilt, xs, strict=True):
                payload_handler(self.frame).moved(y, [x])
            return rebuilt

        return slices_at

    def stack(self, rows: Sequence[Sequence[Array]], types: Sequence[ArrayType]) -> list[Array]:
        with use_frame(self.frame.outer):
            if not rows:
                return super().stack(rows, types)
            stacked_outputs = [self._stack_output([row[k] for row in rows]) for k in range(len(types))]
        for k, y in enumerate(stacked_outputs):
            payload_handler(self.frame).moved(y, [row[k] for row in rows])
        return stacked_outputs

    def _stack_output(self, rows: Sequence[Array]) -> Array:
        """Stacks one output of all iterations, some of which may be plain and some boxed."""
        frame = self.frame
        layout = meet_layouts(frame, tuple([flatten_boxes(frame, [row])[1][0] for row in rows]))
        parts = zip(*[fit_to_layout(frame, row, layout) for row in rows], strict=True)
        return stack_outputs(frame, [stack_arrays(part) for part in parts], (layout,), len(rows))[0]


def _collect_iterations(frame: Frame, iterations: Sequence[Collected]) -> None:
    """Collects the values of all iterations, a row for each; missing values are filled in."""
    handler = payload_handler(frame)
    for name, first in {name: value for step in reversed(iterations) for name, value in step.items()}.items():
        leaves, tree = flatten_payload(first, handler.name)
        like = tree.unflatten(leaves)
        values = [step[name] if name in step else handler.missing(name, like) for step in iterations]
        parts = zip(*[flatten_payload(value, handler.name)[0] for value in values], strict=True)
        handler.collect(frame, name, tree.unflatten([stack_arrays(part) for part in parts]))
