"""Find random keys that are used twice, for `debug_key_reuse`.

While the flag is on, a draw passes its key through an operation, the identity, which programs contain as well.
Each element of an array of keys is followed by a number: through what moves elements by moving the numbers alike,
through calls, branches and loops by walking their programs. A loop is walked twice, so that a key that two iterations
share is found. Outside of programs, arrays of keys carry an object for each element that records its use.

A key that cannot be followed, such as an element at a computed index, counts as a new key: nothing is refused that
may be right.

A key is bits to all operations, so a program alone does not show that a draw uses it up; `TakeKey` goes through
vmap, grad and staging like any other. The numbers are moved by the NumPy oracle's own rules, so indexing and
joining need no table here. It is not the engine of `ir/flow.py`, because what is used up is a state of the
walk and not a fact of a value.

Never: be loaded before the flag is on.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast, final

import attrs
import numpy as np
import numpy.typing as npt

from effx.array import Array
from effx.dtypes import is_key
from effx.effects import Operation
from effx.errors import KeyReuseError, Source, current_source, set_error_position, source_of
from effx.handling import ArrayType, Atom, Body, Elementwise, Program, Reference, Var, emits, reference_rule
from effx.ir.ops.base import ArrayOperation
from effx.ir.ops.checkpoint import Checkpoint
from effx.ir.ops.control import HigherOrder, Region
from effx.ir.ops.convert import Bitcast
from effx.ir.ops.parallel import ParallelMap
from effx.ir.program import Equation
from effx.ir.values.described import HostData
from effx.lower.placement.concrete import ConcreteArray

__all__ = ["TakeKey", "watched"]

Ids: TypeAlias = npt.NDArray[np.int64] | None
"""A number for each element of an array of keys; None for other arrays."""


@final
@attrs.frozen
class TakeKey(Elementwise, ArrayOperation):
    """The identity on keys, which are then used up, and whose copies are new ones.

    Attributes:
        user: what draws from them; None for `random.clone`, which uses nothing up.
    """

    user: str | None = None
    kinds = ""

    def infer(self, *types: ArrayType) -> ArrayType:
        """The keys' type."""
        (t,) = types
        return t


@emits(TakeKey)
def _(body: Body, op: TakeKey, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
    return body.name(inputs[0])


@reference_rule(TakeKey)
def _(op: TakeKey, keys: HostData) -> HostData:
    return keys


Took = tuple[str, Source]


@final
@attrs.frozen(eq=False)
class KeyUses:
    """What a program does with keys.

    Attributes:
        taken: which elements of the inputs it uses up, counted through all of them, by what and where.
        again: those of which this may be the second time, in a checkpoint.
        outputs: for each output which elements of the inputs its elements are; others have higher numbers.
    """

    taken: dict[int, Took]
    again: frozenset[int]
    outputs: tuple[Ids, ...]


def key_uses(program: Program) -> KeyUses:
    """Returns what a program does with keys.

    Raises:
        KeyReuseError: it uses one twice.
    """
    cached = program.derived.get("uses of keys")
    if cached is None:
        walk = _KeyUseWalker()
        inputs = tuple([walk.new_ids(t) for t in program.in_types])
        count = walk.count
        outputs = walk.walk_program(program, inputs)
        used_inputs = {i: took for i, took in walk.taken.items() if i < count}
        cached = program.derived["uses of keys"] = KeyUses(used_inputs, frozenset(walk.repeatable), outputs)
    return cast("KeyUses", cached)


def _uses_keys(program: Program) -> bool:
    """Says whether a program takes a key, or those that it holds do."""
    cached = program.derived.get("takes keys")
    if cached is None:
        cached = program.derived["takes keys"] = any(
            [
                type(e.op) is TakeKey
                or (
                    e.op.multiple
                    and isinstance(e.op, HigherOrder)
                    and any([_uses_keys(p) for p in e.op.programs])
                )
                for e in program.equations
            ]
        )
    return bool(cached)


class _KeyUseWalker:
    """Goes through programs in order.

    Attributes:
        count: the next number. taken: the keys that are used up.
        again: whether the equations may be computed for the second time, in a checkpoint. repeatable: what these take.
    """

    def __init__(self) -> None:
        self.count = 0
        self.taken: dict[int, Took] = {}
        self.again = False
        self.repeatable: set[int] = set()

    def new_ids(self, t: ArrayType) -> Ids:
        """Returns new numbers for an array of keys."""
        if not is_key(t.dtype):
            return None
        start, self.count = self.count, self.count + t.size
        return np.arange(start, self.count).reshape(t.shape)

    def walk_program(self, program: Program, inputs: Sequence[Ids]) -> tuple[Ids, ...]:
        """Walks through a program."""
        known = dict(zip(program.inputs, inputs, strict=True))
        for e in program.equations:
            operand_ids = [known.get(x) if type(x) is Var else None for x in e.inputs]
            known.update(zip(e.outputs, self.walk_equation(e, operand_ids), strict=True))
        return tuple([known.get(x) if type(x) is Var else None for x in program.outputs])

    def walk_equation(
        self, e: Equation, operand_ids: Sequence[Ids], values: Sequence[HostData | None] = ()
    ) -> Sequence[Ids]:
        """Walks through an equation; `values` are those of operands that are no keys, if they are known."""
        op = e.op
        if type(op) is TakeKey:
            if op.user is not None:
                self.mark_used(operand_ids[0], e.inputs[0].type, (op.user, e.source))
        elif isinstance(op, HigherOrder):
            makes = any([is_key(v.type.dtype) for v in e.outputs])
            if makes or any([_uses_keys(p) for p in op.programs]):
                return self.walk_inner_programs(e, op, operand_ids)
        elif len(e.outputs) == 1 and is_key(e.outputs[0].type.dtype):
            return [self.move_ids(op, e.outputs[0].type, operand_ids, values)]
        return [self.new_ids(v.type) for v in e.outputs]

    def mark_used(self, ids: Ids, t: ArrayType, took: Took) -> None:
        """Uses keys up."""
        assert ids is not None
        for i in ids.ravel().tolist():
            before = self.taken.get(i)
            if before is not None and not (self.again and before == took):
                raise _reuse_error(t, took, before)
            self.taken[i] = took
            if self.again:
                self.repeatable.add(i)

    def move_ids(
        self,
        op: Operation[object],
        t: ArrayType,
        operand_ids: Sequence[Ids],
        values: Sequence[HostData | None],
    ) -> Ids:
        """Returns the numbers of what an operation makes by moving elements; new ones where that is not known."""
        key_ids = [x for x in operand_ids if x is not None]
        rule = Reference.rules.find(type(op))
        operands = [
            x if x is not None else v for x, v in zip(operand_ids, values or operand_ids, strict=True)
        ]
        if not key_ids or rule is None or type(op) is Bitcast or any([x is None for x in operands]):
            return self.new_ids(t)
        try:
            moved_ids = np.asarray(rule(op, *operands))
        except Exception:  # noqa: BLE001 - a rule for real keys may not take numbers
            return self.new_ids(t)
        if (
            moved_ids.shape != t.shape
            or not np.isin(moved_ids, np.concatenate([x.ravel() for x in key_ids])).all()
        ):
            return self.new_ids(t)
        return moved_ids.astype(np.int64)

    def walk_inner_programs(self, e: Equation, op: HigherOrder, operand_ids: Sequence[Ids]) -> Sequence[Ids]:
        """Walks through the programs that an operation holds."""
        n, m = len(e.inputs), len(e.outputs)
        regions = [
            r for r in op.regions if r.skipped + len(r.program.inputs) == n and len(r.program.outputs) == m
        ]
        if not regions or len(regions) != len(op.regions):
            return [self.new_ids(v.type) for v in e.outputs]
        if type(op) is Checkpoint:
            around, self.again = self.again, True
            found_again = self.walk_iterations(e, op, regions[0], operand_ids)
            self.again = around
            return found_again
        if len(regions) == 1:
            return self.walk_iterations(e, op, regions[0], operand_ids)
        # One branch runs: what any of them uses up is used up.
        before, after, branch_ids = self.taken, dict(self.taken), []
        for region in regions:
            self.taken = dict(before)
            branch_ids.append(self.walk_iterations(e, op, region, operand_ids))
            after.update(self.taken)
        self.taken = after
        return [self.join_ids(v.type, ids) for v, *ids in zip(e.outputs, *branch_ids, strict=True)]

    def join_ids(self, t: ArrayType, branch_ids: Sequence[Ids]) -> Ids:
        """Returns the numbers that branches agree on."""
        first = branch_ids[0]
        agreed = first is not None and all([x is not None and np.array_equal(x, first) for x in branch_ids])
        return first if agreed else self.new_ids(t)

    def walk_iterations(
        self, e: Equation, op: HigherOrder, r: Region, operand_ids: Sequence[Ids]
    ) -> Sequence[Ids]:
        """Walks through a program once, or twice where it runs in iterations."""
        operands = e.inputs[r.skipped :]
        lengths = [math.prod(x.type.shape[:s]) for x, s in zip(operands, r.stacked_in, strict=True) if s]
        length = lengths[0] if lengths else getattr(op, "length", None)
        loops = (r.carries > 0 or any(r.stacked_in) or any(r.stacked_out)) and type(op) is not ParallelMap
        if length == 0:
            return [self.new_ids(v.type) for v in e.outputs]
        start, end = r.constants, r.constants + r.carries
        inputs, slices = list(operand_ids[r.skipped :]), []
        for i, stacked in enumerate(r.stacked_in):
            ids = inputs[i]
            if stacked and ids is not None:
                ids = ids.reshape(-1, *ids.shape[stacked:])
                slices.append((ids, operands[i].type))
                inputs[i] = ids[0]
        # What was used up before was so for all rows alike, or by one row's own element.
        unused = [[i not in self.taken for i in ids[0].ravel().tolist()] for ids, _ in slices]
        output_ids: tuple[Ids, ...] = ()
        for iteration in range(2 if loops and length != 1 else 1):
            if iteration:
                inputs = [
                    output_ids[i - start] if start <= i < end else self.new_ids(t) if s else x
                    for i, (x, t, s) in enumerate(zip(inputs, r.program.in_types, r.stacked_in, strict=True))
                ]
            if r.condition is not None:
                self.walk_program(r.condition, inputs[:end])
            output_ids = self.walk_program(r.program, inputs)
            if not iteration:
                for (ids, t), free in zip(slices, unused, strict=True):
                    self.mark_used_in_rows(ids.reshape(len(ids), -1)[:, free], t)
        return [
            self.new_ids(v.type) if s else x
            for v, x, s in zip(e.outputs, output_ids, r.stacked_out, strict=True)
        ]

    def mark_used_in_rows(self, ids: npt.NDArray[np.int64], t: ArrayType) -> None:
        """Uses up in all rows what the first one's iteration did."""
        for column in ids.T:
            took = self.taken.get(int(column[0]))
            if took is not None:
                self.mark_used(column[1:], t, took)


def _reuse_error(t: ArrayType, took: Took, before: Took) -> KeyReuseError:
    (user, source), (earlier, at) = took, before
    if took == before and source is not None:
        reason = "the same key is used here each time"
    else:
        reason = f"the key was used by {earlier} at {source_of(at)}"
    error = KeyReuseError(
        f"{user}: {reason}, {t!r}; split it, or copy it by random.clone to mean the same numbers"
    )
    set_error_position(error, source)
    return error


@final
@attrs.define(eq=False)
class TrackedKey:
    """One key of an array on a device, and of those that its elements were moved to.

    Attributes:
        took: what used it up.
    """

    took: Took | None = None


def _tracked_elements(x: Array) -> "list[TrackedKey]":
    if not is_key(x.type.dtype):
        return []
    if type(x) is not ConcreteArray:  # a constant on the host, which is not shared
        return [TrackedKey() for _ in range(x.type.size)]
    result: list[TrackedKey] | None = getattr(x.buffer, "_keys_used", None)
    if result is None:
        result = x.buffer._keys_used = [TrackedKey() for _ in range(x.type.size)]
    return result


def watched(program: Program, arrays: Sequence[Array], run: Callable[[], Sequence[Array]]) -> Sequence[Array]:
    """Runs a program, after a check of the keys that it uses.

    Args:
        program: what runs. arrays: its inputs.
        run: does it.

    Raises:
        KeyReuseError: it uses one that has been used before.
    """
    return _run_with_tracking(key_uses(program), arrays, run)


def run_watched(
    op: Operation[object], program: Program, arrays: Sequence[Array], run: Callable[[], Sequence[Array]]
) -> Sequence[Array]:
    """Runs one operation on arrays on devices, of whose values which elements are moved may depend; see `watched`."""
    (e,) = program.equations
    walk = _KeyUseWalker()
    operand_ids = [walk.new_ids(x.type) for x in arrays]
    values = [None if is_key(x.type.dtype) else x.host("debug_key_reuse") for x in arrays]
    count = walk.count
    outputs = tuple(walk.walk_equation(attrs.evolve(e, source=current_source()), operand_ids, values))
    return _run_with_tracking(
        KeyUses({i: t for i, t in walk.taken.items() if i < count}, frozenset(), outputs), arrays, run
    )


def _run_with_tracking(
    uses: KeyUses, arrays: Sequence[Array], run: Callable[[], Sequence[Array]]
) -> Sequence[Array]:
    elements = [element for x in arrays for element in _tracked_elements(x)]
    keys = [x.type for x in arrays if is_key(x.type.dtype)]
    for i, took in uses.taken.items():
        before = elements[i].took
        if before is not None and not (i in uses.again and before == took):
            raise _reuse_error(keys[0], took, before)
        elements[i].took = took
    results = run()
    for y, ids in zip(results, uses.outputs, strict=True):
        if ids is not None and type(y) is ConcreteArray:
            known = [elements[i] if i < len(elements) else TrackedKey() for i in ids.ravel().tolist()]
            y.buffer._keys_used = known
    return results
