"""Batching gives what a loop over the batch elements gives, for every operation family but the elementwise one.

Never: compares with anything but the loop, which runs the operation itself on one batch element at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
import pytest

from effx.array import Array, Box
from effx.effects import Operation, handle
from effx.families.sort import Sort
from effx.handlers.staging.stage import stage
from effx.handlers.vmap import Batched, Vmap
from effx.ir.ops.control import Call
from effx.ir.ops.index import Gather, Scatter
from effx.ir.ops.linalg import DotGeneral
from effx.ir.ops.reduce import (
    ArgMax,
    ArgMin,
    CumMax,
    CumMin,
    CumProd,
    CumSum,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceSum,
    ReduceXor,
)
from effx.ir.ops.shape import (
    BroadcastInDim,
    Concatenate,
    DynamicSlice,
    DynamicUpdateSlice,
    Iota,
    Pad,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from tests.handlers.batches import (
    SIZE,
    Case,
    b1,
    bf16,
    boxed,
    c64,
    case,
    f16,
    f32,
    i8,
    i32,
    inferred,
    looped,
    nested_member,
    on_device,
    placements,
    results_of,
    t,
    u8,
    u32,
    unboxed,
)

STARTS = (-2, 9)  # beyond both ends of all axes below

SHAPE = [
    case(BroadcastInDim((4, 2, 5, 3), (1, 3)), t(f32, 2, 3)),
    case(BroadcastInDim((2, 4), (0, 1)), t(i32, 1, 4)),
    case(BroadcastInDim((2,), ()), t(bf16, weak=True)),
    case(BroadcastInDim((0, 2), (1,)), t(b1, 2)),
    case(Reshape((3, 2, 4)), t(f32, 6, 4)),
    case(Reshape((24,)), t(i8, 2, 3, 4)),
    case(Reshape((4, 1, 2)), t(c64, 1, 2, 4)),
    case(Reshape(()), t(f32, 1, 1)),
    case(Reshape((1,)), t(f32, weak=True)),
    case(Reshape((0, 5)), t(f32, 2, 0, 3)),
    case(Transpose((2, 0, 1)), t(f32, 2, 3, 4)),
    case(Transpose(()), t(b1)),
    case(Reverse((0, 2)), t(f32, 2, 3, 4)),
    case(Reverse(()), t(u8)),
    case(Slice((1, 0), (4, 3), (2, 1)), t(f32, 5, 3)),
    case(Slice((), (), ()), t(f32, weak=True)),
    case(Concatenate(1), t(f32, 2, 1), t(f32, 2, 0), t(f32, 2, 3)),
    case(Concatenate(0), t(i32, 2, weak=True), t(i32, 1, weak=True)),
    case(Pad((1, -1), (0, 2), (0, 1)), t(f32, 2, 3), t(f32)),
    case(Pad((2,), (-1,), (2,)), t(b1, 2), t(b1)),
    case(Pad((0,), (2,), (3,)), t(c64, 0), t(c64), note="empty"),
    case(Pad((), (), ()), t(i8), t(i8)),
    case(Pad((1,), (1,), (0,)), t(f32, 2, weak=True), t(f32), note="strong value"),
    case(Pad((1,), (1,), (0,)), t(f32, 2), t(f32, weak=True), note="weak value"),
]
DYNAMIC = [
    case(DynamicSlice((2, 3)), t(f32, 5, 4), t(i32), t(i32), bounds=((-3, 3), STARTS, STARTS)),
    case(DynamicSlice((1, 4)), t(bf16, 5, 4), t(i32), t(i32), bounds=((-3, 3), STARTS, STARTS), note="row"),
    case(DynamicSlice((5,)), t(f32, 5), t(i32), bounds=((-3, 3), STARTS), note="whole"),
    case(DynamicSlice((0, 2)), t(f32, 0, 4), t(i32), t(i32), bounds=((-3, 3), STARTS, STARTS)),
    case(DynamicSlice(()), t(f32, weak=True)),
    case(DynamicSlice((2,)), t(i32, 300), t(i8), bounds=((-3, 3), (-9, 127)), note="narrow"),
    case(DynamicSlice((2,)), t(i32, 300), t(u8), bounds=((-3, 3), (0, 255)), note="narrow unsigned"),
    case(DynamicSlice((2,)), t(i32, 9), t(u32), bounds=((-3, 3), (3, 2**32 - 1)), note="beyond i32"),
    case(
        DynamicUpdateSlice(),
        *(t(f32, 5, 4), t(f32, 2, 3), t(i32), t(i32)),
        bounds=((-3, 3), (4, 9), STARTS, STARTS),
    ),
    case(
        DynamicUpdateSlice(),
        t(c64, 5, 4),
        t(c64, 1, 4),
        t(i32),
        t(i32),
        bounds=((-3, 3), (4, 9), STARTS, STARTS),
    ),
    case(DynamicUpdateSlice(), t(b1, 3), t(b1, 3), t(i32), bounds=((-3, 3), (-3, 3), STARTS), note="whole"),
    case(
        DynamicUpdateSlice(), t(f32, 3), t(f32, 0), t(i32), bounds=((-3, 3), (-3, 3), STARTS), note="nothing"
    ),
    case(DynamicUpdateSlice(), t(i8), t(i8)),
    case(
        DynamicUpdateSlice(), t(i32, 300), t(i32, 2), t(u8), bounds=((-3, 3), (4, 9), (0, 255)), note="narrow"
    ),
    case(DynamicUpdateSlice(), t(i32, 9), t(i32, 2), t(u32), bounds=((-3, 3), (4, 9), (3, 2**32 - 1))),
    case(
        DynamicUpdateSlice(),
        *(t(f32, 4, weak=True), t(f32, 2), t(i32)),
        bounds=((-3, 3), (4, 9), STARTS),
        note="weak x",
    ),
]
REDUCE = [
    case(ReduceSum((0, 2)), t(f32, 2, 3, 4)),
    case(ReduceSum((1,)), t(bf16, 2, 0)),
    case(ReduceSum(()), t(f32, weak=True)),
    case(ReduceProd((0,)), t(c64, 3, 2)),
    case(ReduceMax((0, 1)), t(i8, 2, 3)),
    case(ReduceMin((1,)), t(f16, 2, 3)),
    case(ReduceAnd((1,)), t(b1, 2, 2)),
    case(ReduceOr((0,)), t(i32, 2, 2)),
    case(ReduceXor((0,)), t(u8, 3, 1)),
    case(ArgMax(1, i32), t(f32, 2, 4, 3)),
    case(ArgMin(0, i8), t(i32, 5)),
    case(CumSum(1), t(f32, 2, 3)),
    case(CumSum(0, reverse=True), t(i32, 3, 2)),
    case(CumProd(0), t(f32, 4)),
    case(CumMax(0), t(b1, 3, 2)),
    case(CumMin(1, reverse=True), t(bf16, 2, 3, 1)),
]
LINALG = [
    case(DotGeneral((1,), (0,)), t(f32, 2, 3), t(f32, 3, 4)),
    case(DotGeneral((0,), (0,)), t(i32, 3), t(i32, 3)),
    case(DotGeneral((), ()), t(c64, 2), t(c64)),
    case(DotGeneral((), ()), t(f32, weak=True), t(f32, weak=True)),
    case(DotGeneral((2, 0), (1, 3), (1,), (0,)), t(f32, 2, 3, 4, 5), t(f32, 3, 4, 5, 2)),
    case(DotGeneral((0,), (2,), (2, 1), (0, 1)), t(f32, 2, 3, 4), t(f32, 4, 3, 2)),
    case(DotGeneral((1,), (0,)), t(f32, 2, 0), t(f32, 0, 2)),
    case(DotGeneral((1,), (1,), (), (), ("HIGHEST", "HIGHEST"), f32), t(bf16, 2, 3), t(bf16, 2, 3)),
]
INDEX_BOUNDS = ((-3, 3), STARTS)
WRITE_BOUNDS = ((-3, 3), STARTS, (-3, 3))
INDEX = [
    case(Gather((1,), (0,), (0,), (1, 4)), t(f32, 5, 4), t(i32, 3, 1), bounds=INDEX_BOUNDS, note="rows"),
    case(Gather((0, 2), (1,), (0, 1), (2, 1, 3)), t(i8, 5, 4, 3), t(i32, 2, 2), bounds=INDEX_BOUNDS),
    case(Gather((), (0, 1), (1, 0), (1, 1)), t(f32, 5, 4), t(i32, 2), bounds=INDEX_BOUNDS, note="element"),
    case(Gather((), (), (), ()), t(f32, weak=True), t(i32, 2, 0), note="scalar"),
    case(Gather((0,), (), (0,), (2,)), t(c64, 5), t(u8, 2, 3, 1), bounds=INDEX_BOUNDS, note="offset first"),
    case(
        Gather((1,), (2,), (2,), (1, 2, 1), (0,), (1,)),
        *(t(f32, 3, 2, 4), t(i32, 2, 3, 1)),
        bounds=INDEX_BOUNDS,
        note="batching",
    ),
    case(
        Gather((), (1,), (1,), (1, 1, 1), (0, 2), (1, 0)),
        *(t(f32, 3, 4, 2), t(i32, 2, 3, 1)),
        bounds=INDEX_BOUNDS,
        note="crossed batching",
    ),
    case(
        Gather((1,), (0,), (0,), (1, 4), sorted=True, unique=True),
        *(t(f32, 5, 4), t(i32, 1, 1)),
        bounds=INDEX_BOUNDS,
        note="promises",
    ),
    case(Gather((0,), (), (0,), (0,)), t(f32, 0), t(i32, 1), bounds=INDEX_BOUNDS, note="empty"),
    *[
        case(
            Scatter((1,), (0,), (0,), how), t(dtype, 5, 4), t(i32, 3, 1), t(dtype, 3, 4), bounds=WRITE_BOUNDS
        )
        for how, dtype in [("add", f32), ("mul", c64), ("min", i8), ("max", bf16)]
    ],
    case(
        Scatter((0, 2), (1,), (0, 1), "add"),
        *(t(i32, 5, 4, 3), t(i32, 2, 2), t(i32, 2, 2, 3)),
        bounds=WRITE_BOUNDS,
        note="windows",
    ),
    case(
        Scatter((), (0, 1), (1, 0), "set"),
        t(f32, 5, 4),
        t(i32, 2),
        t(f32),
        bounds=WRITE_BOUNDS,
        note="element",
    ),
    case(Scatter((), (), (), "add"), t(f32, weak=True), t(i32, 0), t(f32), note="scalar"),
    case(
        Scatter((1,), (2,), (2,), "add", (0,), (1,)),
        *(t(f32, 3, 2, 4), t(i32, 2, 3, 1), t(f32, 2, 2, 3)),
        bounds=WRITE_BOUNDS,
        note="batching",
    ),
    case(
        Scatter((1,), (0,), (0,), "set", sorted=True, unique=True),
        *(t(b1, 5, 2), t(i32, 1, 1), t(b1, 1, 2)),
        bounds=WRITE_BOUNDS,
        note="promises",
    ),
]
SORT = [
    case(Sort(0), t(f32, 5)),
    case(Sort(1), t(i32, 2, 4), t(f32, 2, 4)),
    case(Sort(0, num_keys=2), t(i8, 4, 1), t(b1, 4, 1), t(f32, 4, 1)),
    case(Sort(0), t(bf16, 0, 2, weak=True)),
]
# One batch element, and none: axis arithmetic that sizes must not decide.
SIZES = [
    case(op, *types, size=size, bounds=bounds)
    for size in (1, 0)
    for op, types, bounds in [
        (Reshape((6,)), (t(f32, 2, 3),), ()),
        (Concatenate(0), (t(f32, 2), t(f32, 1)), ()),
        (Pad((1,), (1,), (0,)), (t(f32, 2), t(f32)), ()),
        (DynamicSlice((2, 3)), (t(f32, 5, 3), t(i32), t(i32)), ((-3, 3), STARTS, STARTS)),
        (DynamicUpdateSlice(), (t(f32, 5), t(f32, 2), t(i32)), ((-3, 3), (4, 9), STARTS)),
        (ReduceSum((0,)), (t(f32, 2, 3),), ()),
        (DotGeneral((1,), (0,)), (t(f32, 2, 3), t(f32, 3, 2)), ()),
        (Gather((1,), (0,), (0,), (1, 4)), (t(f32, 5, 4), t(i32, 3, 1)), INDEX_BOUNDS),
        (Scatter((1,), (0,), (0,), "add"), (t(f32, 5, 4), t(i32, 3, 1), t(f32, 3, 4)), WRITE_BOUNDS),
        (Sort(0), (t(f32, 4), t(i32, 4)), ()),
    ]
]
CASES = [*SHAPE, *DYNAMIC, *REDUCE, *LINALG, *INDEX, *SORT, *SIZES]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_batched_operation_equals_loop(case: Case) -> None:
    """For any batched operands, and any batch axes."""
    data = case.draw()
    if case.size == 0:
        batched = [d[:0] for d in data]
    else:
        batched = data
    expected: dict[tuple[bool, ...], list[np.ndarray]] = {}
    for axes in placements(case):
        chosen = tuple([a is not None for a in axes])
        if chosen not in expected:
            expected[chosen] = looped(case, data, chosen)
        with handle(Vmap(case.size)) as frame:
            operands = [
                boxed(frame, d if a is None else b, s, a)
                for d, b, s, a in zip(data, batched, case.types, axes, strict=True)
            ]
            results = results_of(case.op, operands)
        for y, want, type in zip(results, expected[chosen], inferred(case), strict=True):
            assert y.type is type, axes
            np.testing.assert_array_equal(unboxed(frame, y, case.size), want, err_msg=str(axes))


def staged_operations(case: Case, axes: tuple[int | None, ...]) -> list[Operation[Any]]:
    """Lists the operations that a batched operation becomes."""
    types = [
        s if a is None else s.with_shape((*s.shape[:a], case.size, *s.shape[a:]))
        for s, a in zip(case.types, axes, strict=True)
    ]

    def function(values: list[Array]) -> Sequence[Array]:
        with handle(Vmap(case.size)) as frame:
            operands = [
                x if a is None else Box(frame, Batched(x, a), s)
                for x, s, a in zip(values, case.types, axes, strict=True)
            ]
            results = results_of(case.op, operands)
        return [y.payload.value if type(y) is Box and y.frame is frame else y for y in results]

    return [e.op for e in stage(function, types).program.equations]


STILL = [
    c for c in [*SHAPE, *REDUCE, *LINALG] if not isinstance(c.op, Reshape | Transpose | Concatenate | Pad)
]


@pytest.mark.parametrize("case", STILL, ids=str)
def test_batch_axes_stay_where_they_are(case: Case) -> None:
    """One operation becomes one operation of its class, without a transpose."""
    for axes in placements(case):
        assert [type(op) for op in staged_operations(case, axes)] == [type(case.op)]


def test_slices_at_one_start_stay_slices() -> None:
    """Starts that are the same for all batch elements, or that clamping makes 0, need no gather."""
    rows = case(DynamicSlice((1, 4)), t(f32, 5, 4), t(i32), t(i32))
    assert [type(op) for op in staged_operations(rows, (1, None, 0))] == [DynamicSlice]
    block = case(DynamicUpdateSlice(), t(f32, 5, 4), t(f32, 2, 4), t(i32), t(i32))
    assert [type(op) for op in staged_operations(block, (1, 1, None, 0))] == [DynamicUpdateSlice]


def test_promises_are_kept_only_where_they_hold() -> None:
    """Start vectors of several batch elements are no longer sorted, and unique only with a batched x."""
    read = case(Gather((1,), (0,), (0,), (1, 4), sorted=True, unique=True), t(f32, 5, 4), t(i32, 2, 1))
    for axes, promised in [((0, None), (True, True)), ((None, 0), (False, False)), ((0, 0), (False, True))]:
        (op,) = staged_operations(read, axes)
        assert isinstance(op, Gather)
        assert (op.sorted, op.unique) == promised
    write = case(
        Scatter((1,), (0,), (0,), "set", sorted=True, unique=True), t(f32, 5, 4), t(i32, 2, 1), t(f32, 2, 4)
    )
    for where, promised in [((0, None, 1), (True, True)), ((0, 0, 0), (False, True))]:
        (op,) = staged_operations(write, where)
        assert isinstance(op, Scatter)
        assert (op.sorted, op.unique) == promised


def test_iota_is_the_same_for_all_batch_elements() -> None:
    """A resumed frame may meet an operation without operands."""
    handler, op = Vmap(3), Iota(t(i32, 2, 4), 1)
    rule = cast("Callable[..., tuple[Array, int | None]]", Vmap.rules.find(Iota))
    y, axis = rule(handler, op, (), ())
    assert axis is None
    np.testing.assert_array_equal(np.asarray(y), np.broadcast_to(np.arange(4), (2, 4)))


NESTED = [
    case(Reshape((6,)), t(f32, 2, 3)),
    case(Pad((1,), (0,), (1,)), t(f32, 2), t(f32)),
    case(DynamicSlice((2, 2)), t(f32, 4, 3), t(i32), t(i32), bounds=((-3, 3), STARTS, STARTS)),
    case(DynamicUpdateSlice(), t(f32, 5), t(f32, 2), t(i32), bounds=((-3, 3), (4, 9), STARTS)),
    case(ReduceSum((0,)), t(f32, 2, 3)),
    case(DotGeneral((1,), (0,)), t(f32, 2, 3), t(f32, 3, 2)),
    case(Gather((1,), (0,), (0,), (1, 4)), t(f32, 5, 4), t(i32, 2, 1), bounds=INDEX_BOUNDS),
    case(Scatter((1,), (0,), (0,), "add"), t(f32, 5, 4), t(i32, 2, 1), t(f32, 2, 4), bounds=WRITE_BOUNDS),
    case(Sort(0), t(f32, 4), t(i32, 4)),
]


@pytest.mark.parametrize("case", NESTED, ids=str)
def test_nested_batches_equal_loops(case: Case) -> None:
    """Each operand has the inner batch, the outer one, or both."""
    inner, outer = 3, 2
    rng = np.random.default_rng(3)
    full = [np.stack([rng.permuted(d, axis=0) for _ in range(outer)]) for d in case.draw()]
    count = len(case.types)
    for choice in range(3):
        # 0: both, 1: inner, 2: outer; a different one for each operand
        kinds = [(choice + k) % 3 for k in range(count)]
        with handle(Vmap(outer)) as outer_frame, handle(Vmap(inner)) as frame:
            operands: list[Array] = []
            for d, s, kind in zip(full, case.types, kinds, strict=True):
                if kind == 1:
                    operands.append(boxed(frame, d[0], s, s.ndim))
                elif kind == 2:
                    operands.append(boxed(outer_frame, d[:, 0], s, 0))
                else:
                    both = s.with_shape((*s.shape, inner))
                    middle = boxed(outer_frame, np.moveaxis(d, 1, -1), both, min(1, s.ndim))
                    operands.append(Box(frame, Batched(middle, s.ndim), s))
            results = results_of(case.op, operands)
        for y, type_ in zip(results, inferred(case), strict=True):
            assert y.type is type_
        for o, i in product(range(outer), range(inner)):
            member = [
                on_device(d[0 if kind == 1 else o, 0 if kind == 2 else i], s)
                for d, s, kind in zip(full, case.types, kinds, strict=True)
            ]
            for y, want in zip(results, results_of(case.op, member), strict=True):
                np.testing.assert_array_equal(nested_member(y, frame, outer_frame, i, o), np.asarray(want))


@pytest.mark.parametrize("case", NESTED, ids=str)
def test_batching_inside_and_around_jit(case: Case) -> None:
    """Staging a batched operation, and batching a staged one, give what the loop gives."""
    data = case.draw()
    want = looped(case, data, [True] * len(data))
    ends = [s.ndim for s in case.types]

    def batched(values: list[Array]) -> Sequence[Array]:
        with handle(Vmap(SIZE)) as frame:
            boxes = [Box(frame, Batched(x, a), s) for x, a, s in zip(values, ends, case.types, strict=True)]
            results = results_of(case.op, boxes)
        moved = []
        for y in results:
            assert type(y) is Box
            moved.append(Transpose(front(y.payload.axis, y.type.ndim + 1))(y.payload.value))
        return moved

    arguments = [
        on_device(np.array(np.moveaxis(d, 0, a), order="C"), s)
        for d, s, a in zip(data, case.types, ends, strict=True)
    ]
    staged = stage(batched, [x.type for x in arguments])
    for y, w in zip(Call(staged.program)(*staged.captured, *arguments), want, strict=True):
        np.testing.assert_array_equal(np.asarray(y), w)

    single = stage(lambda values: results_of(case.op, values), case.types)
    with handle(Vmap(SIZE)) as frame:
        boxes = [Box(frame, Batched(x, a), s) for x, a, s in zip(arguments, ends, case.types, strict=True)]
        results = Call(single.program)(*single.captured, *boxes)
    for y, w in zip(results, want, strict=True):
        np.testing.assert_array_equal(unboxed(frame, y, SIZE), w)


def front(axis: int, ndim: int) -> tuple[int, ...]:
    return (axis, *[i for i in range(ndim) if i != axis])
