"""Operations on batches, and what a loop over the batch elements makes of them: shared by the tests of vmap.

Never: holds a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, cast

import attrs
import numpy as np

import effx.handlers.evaluate.handler
import effx.lower.text.stablehlo  # noqa: F401  # the outermost handler and its kernels
from effx import dtypes
from effx.array import Array, Box
from effx.effects import Operation
from effx.handlers.vmap import Batched
from effx.ir.ops.base import ArrayOperation, TupleOperation
from effx.ir.types import ArrayType, array_type
from effx.lower.placement.concrete import place_on_device

Data = np.ndarray[Any, Any]
f32, f16, bf16, f64 = dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64
i8, i32, u8, u32, b1, c64 = (
    dtypes.int8,
    dtypes.int32,
    dtypes.uint8,
    dtypes.uint32,
    dtypes.bool_,
    dtypes.complex64,
)
SIZE = 3


def t(dtype: dtypes.DType, *shape: int, weak: bool = False) -> ArrayType:
    return array_type(dtype, shape, weak)


@attrs.frozen
class Case:
    """An operation with the types of one batch element's operands.

    Attributes:
        bounds: for each operand the integers to draw from, both ends included; by default -3 to 3.
    """

    op: Operation[Any]
    types: tuple[ArrayType, ...]
    bounds: tuple[tuple[int, int], ...] = ()
    size: int = SIZE
    note: str = ""

    def __str__(self) -> str:
        of = ",".join(map(repr, self.types))
        size = "" if self.size == SIZE else f"size{self.size}"
        return "-".join(filter(None, [self.op.name, of, self.note, size]))

    def draw(self) -> list[Data]:
        """Gives each operand different data for each batch element, small integers, so that sums are exact."""
        rng = np.random.default_rng(7)
        result = []
        for i, type in enumerate(self.types):
            low, high = self.bounds[i] if self.bounds else (-3, 3)
            if type.kind == "u":
                low = max(low, 0)
            shape = (max(self.size, 1), *type.shape)
            data = rng.integers(low, high, shape, endpoint=True).astype(np.float64)
            if type.kind == "c":
                data = data + 1j * rng.integers(low, high, shape)
            result.append((data > 0).astype(type.dtype) if type.kind == "b" else data.astype(type.dtype))
        return result


def case(op: Operation[Any], *types: ArrayType, **rest: Any) -> Case:
    return Case(op, types, **rest)


def placements(case: Case) -> Iterator[tuple[int | None, ...]]:
    """Every choice of which operands are batched, with every index of each batch axis at least once."""
    for chosen in product([False, True], repeat=len(case.types)):
        ends = [type.ndim for type, is_batched in zip(case.types, chosen, strict=True) if is_batched]
        if not ends:
            continue
        all_places = list(product(*[range(end + 1) for end in ends]))
        if len(all_places) > 9:
            # Two sweeps in opposite directions; the order of axes is what could matter.
            steps = range(max(ends) + 1)
            all_places = [tuple([min(i, end) for end in ends]) for i in steps]
            all_places += [
                tuple([min(i, end) if k % 2 else max(end - i, 0) for k, end in enumerate(ends)])
                for i in steps
            ]
        for places in dict.fromkeys(all_places):
            rest = iter(places)
            yield tuple([next(rest) if is_batched else None for is_batched in chosen])


def on_device(data: Data, type: ArrayType) -> Array:
    return place_on_device(data, array_type(type.dtype, data.shape, type.weak))


def boxed(frame: Any, data: Data, type: ArrayType, axis: int | None) -> Array:
    """Boxes stacked data with the batch elements along `axis`; takes the first batch element where there is no axis."""
    if axis is None:
        return on_device(np.array(data[0], order="C"), type)
    return Box(frame, Batched(on_device(np.array(np.moveaxis(data, 0, axis), order="C"), type), axis), type)


def results_of(op: Operation[Any], operands: Sequence[Array]) -> list[Array]:
    result = op(*operands)
    return list(result) if op.multiple else [result]


def inferred(case: Case) -> list[ArrayType]:
    if case.op.multiple:
        return list(cast("TupleOperation", case.op).infer(*case.types))
    return [cast("ArrayOperation", case.op).infer(*case.types)]


def looped(case: Case, data: list[Data], is_batched: Sequence[bool]) -> list[Data]:
    """Runs the operation on one batch element after the other."""
    members = [
        results_of(
            case.op,
            [on_device(d[m if b else 0], s) for d, s, b in zip(data, case.types, is_batched, strict=True)],
        )
        for m in range(case.size)
    ]
    return [
        np.stack([np.asarray(member[i]) for member in members])
        if members
        else np.zeros((0, *s.shape), s.dtype)
        for i, s in enumerate(inferred(case))
    ]


def unboxed(frame: Any, y: Array, size: int) -> Data:
    """Returns a result's data with the batch elements in front, repeating what is the same for all."""
    if type(y) is Box and y.frame is frame:
        payload: Batched = y.payload
        value = np.asarray(payload.value)
        assert value.shape[payload.axis] == size
        return np.moveaxis(value, payload.axis, 0)
    value = np.asarray(y)
    return np.broadcast_to(value, (size, *value.shape))


def nested_member(y: Array, frame: Any, outer_frame: Any, i: int, o: int) -> Data:
    """Takes one batch element out of a result of two batches."""
    inner_axis = None
    if type(y) is Box and y.frame is frame:
        payload: Batched = y.payload
        y, inner_axis = payload.value, payload.axis
    outer_axis = None
    if type(y) is Box and y.frame is outer_frame:
        payload = y.payload
        y, outer_axis = payload.value, payload.axis
    data = np.asarray(y)
    if outer_axis is not None:
        data = np.take(data, o, outer_axis)
    return data if inner_axis is None else np.take(data, i, inner_axis)
