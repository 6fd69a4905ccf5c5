"""Run operations that hold programs as Python loops and branches: one interpreter for all its users.

The operation's `Region` says which operands are constants, carried or sliced.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TypeVar

import attrs

from effx.array import Array
from effx.array.indexing import getitem
from effx.array.promotion import zeros
from effx.effects import Handler, no_rule_error
from effx.handlers.staging.stage import run_program
from effx.handlers.vmap import Vmap
from effx.handlers.vmap.handler import evaluate_batch, materialize, move_to_front
from effx.ir.ops.control import Cond, HigherOrder, Scan, While
from effx.ir.ops.custom import CustomTangent
from effx.ir.ops.parallel import Cuts, ParallelMap
from effx.ir.ops.shape import BroadcastInDim, Concatenate, Transpose
from effx.ir.ops.solve import LinearSolve, Root
from effx.ir.program import Program
from effx.ir.types import ArrayType

C = TypeVar("C")
Y = TypeVar("Y")


# Loops of `lax` outside jit use it too.
def iterate(
    step: Callable[[int, C], tuple[C, Y]],
    carry: C,
    length: int | None,
    reverse: bool = False,
    condition: Callable[[C], object] | None = None,
) -> tuple[C, list[Y]]:
    """Runs a loop.

    Args:
        step: a function of the iteration's index and the carry; returns the next carry and a row.
        carry: the initial carry.
        length: the maximal number of iterations; None for no bound.
        reverse: True to start with the last index.
        condition: decides before each iteration whether it runs.

    Returns:
        The final carry and the rows by index.
    """
    order: Iterable[int] = count() if length is None else range(length)[:: -1 if reverse else 1]
    rows: list[Y] = []
    for i in order:
        if condition is not None and not condition(carry):
            break
        carry, row = step(i, carry)
        rows.append(row)
    return carry, rows[::-1] if reverse else rows


def stack_arrays(rows: Sequence[Array]) -> Array:
    """Stacks arrays of one shape along a new leading axis."""
    t = rows[0].type
    wide = [BroadcastInDim((1, *t.shape), tuple(range(1, t.ndim + 1)))(row) for row in rows]
    return wide[0] if len(wide) == 1 else Concatenate(0)(*wide)


@attrs.frozen(eq=False)
class Interpreter:
    """Runs operations that hold programs under the current handlers; predicates must be known.

    Attributes:
        handler: the interpreting handler, for errors.
    """

    handler: Handler

    def run_iteration(self, program: Program, operands: Sequence[Array]) -> list[Array]:
        """Runs a loop's body or condition once."""
        return run_program(program, operands)

    def make_slicer(self, xs: Sequence[Array], length: int) -> Callable[[int], Sequence[Array]]:
        """Returns a function from an iteration's index to its slices."""
        return lambda i: [getitem(x, i) for x in xs]

    def stack(self, rows: Sequence[Sequence[Array]], types: Sequence[ArrayType]) -> list[Array]:
        """Stacks the iterations' outputs to results of these types."""
        return [stack_arrays([row[k] for row in rows]) if rows else zeros(t) for k, t in enumerate(types)]

    def run(self, op: HigherOrder, operands: Sequence[Array]) -> tuple[Array, ...]:
        """Runs an operation.

        Raises:
            ConcretizationError: a predicate is abstract.
            NoRuleError: the operation does not describe the inputs and outputs of its programs.
        """
        if isinstance(op, LinearSolve | Root):
            return tuple(run_program(op.solve, operands))
        if isinstance(op, CustomTangent) and op.program is None:
            raise op.backward.no_forward_mode()
        if isinstance(op, ParallelMap):
            return _run_replicas(op, operands)
        if isinstance(op, Cond):
            return tuple(run_program(op.branch_at(int(operands[0])), operands[1:]))
        regions = op.regions
        if len(regions) != 1:
            raise no_rule_error(op, self.handler)
        region = regions[0]
        values = region.group_operands(operands)
        if not isinstance(op, Scan | While):
            return tuple(run_program(region.program, values.join()))
        constants, condition = values.constants, region.condition
        length = op.length if isinstance(op, Scan) else None
        slices_at = self.make_slicer(values.xs, 0 if length is None else length)

        def step(i: int, carry: tuple[Array, ...]) -> tuple[tuple[Array, ...], list[Array]]:
            results = op.group_results(
                self.run_iteration(region.program, (*constants, *carry, *slices_at(i)))
            )
            return results.carry, list(results.ys)

        def does_continue(carry: tuple[Array, ...]) -> bool:
            return condition is None or bool(self.run_iteration(condition, (*constants, *carry))[0])

        carry, rows = iterate(step, values.carry, length, isinstance(op, Scan) and op.reverse, does_continue)
        ys_types = op.group_results(op.infer(*[x.type for x in operands])).ys
        return (*carry, *self.stack(rows, ys_types))


def _run_replicas(op: ParallelMap, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Runs all replicas of a parallel map as batches, one nested vmap for each axis."""

    def run_level(level: int, xs: Sequence[Array], cuts: Cuts) -> Sequence[Array]:
        if level == len(op.axes):
            return run_program(op.body, xs)
        name, size = op.axes[level]
        inner = tuple([tuple([a for a in cut if a != level]) for cut in cuts])
        values, batch_axes = evaluate_batch(
            lambda ys: run_level(level + 1, ys, inner),
            xs,
            [cut.index(level) if level in cut else None for cut in cuts],
            size,
            name,
        )
        return [
            materialize(Vmap(size), y, axis)
            if level in cut
            else y
            if axis is None
            else getitem(move_to_front(y, axis), 0)
            for y, axis, cut in zip(values, batch_axes, op.cuts_out, strict=True)
        ]

    results: list[Array] = []
    for y, cut in zip(run_level(0, operands, op.cuts_in), op.cuts_out, strict=True):
        order = (*[sorted(cut).index(a) for a in cut], *range(len(cut), y.type.ndim))
        results.append(y if order == tuple(range(y.type.ndim)) else Transpose(order)(y))
    return tuple(results)
