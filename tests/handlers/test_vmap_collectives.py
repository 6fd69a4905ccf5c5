"""Collectives along a batch reduce, gather or count it; along another name they go outward.

Never: needs more than one device.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from effx import dtypes
from effx.array import Array, Box
from effx.effects import handle
from effx.errors import EffxError, ShapeError
from effx.handlers.vmap import Batched, Vmap
from effx.ir.ops.collective import AllGather, AxisIndex, Collective, PMax, PMin, PSum
from effx.ir.types import array_type
from effx.lower.placement.concrete import place_on_device
from tests.handlers.batches import SIZE, Data, bf16, boxed, c64, f32, i8, i32, nested_member, t, u8, unboxed


def collect(
    op: Collective, data: Data, axis: int | None, name: str = "i", size: int = SIZE
) -> tuple[Array, Any]:
    x = array_type(data.dtype, data.shape[1:])
    with handle(Vmap(size, name)) as frame:
        return op(boxed(frame, data, x, axis)), frame


DATA = np.random.default_rng(0).integers(-5, 6, (SIZE, 2, 4)).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("op", "reference"), [(PSum, np.sum), (PMax, np.max), (PMin, np.min)])
def test_collectives_reduce_the_batch_axis(
    op: type[Collective], reference: Callable[..., Data], axis: int
) -> None:
    """The result is the same for all replicas, so it is no longer batched."""
    y, _ = collect(op("i"), DATA, axis)
    assert y.type is t(f32, 2, 4)
    np.testing.assert_array_equal(np.asarray(y), reference(DATA, axis=0))


@pytest.mark.parametrize(
    ("dtype", "size"), [(f32, 3), (bf16, 3), (c64, 3), (i32, 3), (i8, 300), (u8, 300), (i32, 0)], ids=str
)
def test_sum_of_an_unbatched_value_counts_replicas(dtype: dtypes.DType, size: int) -> None:
    """Integers wrap around, as adding them up does."""
    value = np.asarray([1, 2, 3], dtype)
    y, _ = collect(PSum("i"), value[None], None, size=size)
    assert y.type is t(dtype, 3)
    want = np.broadcast_to(value, (size, 3)).sum(0, dtype=dtype) if dtype.kind in "iu" else value * size
    np.testing.assert_array_equal(np.asarray(y), want)


def test_weak_values_stay_weak_in_sums() -> None:
    """A bare number summed over the replicas is still a bare number."""
    with handle(Vmap(4, "i")):
        y = PSum("i")(place_on_device(2.0, t(f32, weak=True)))
    assert y.type is t(f32, weak=True)
    assert float(y) == 8.0


@pytest.mark.parametrize("op", [PMax, PMin])
def test_extremes_of_an_unbatched_value_are_itself(op: type[Collective]) -> None:
    """All replicas hold the same."""
    y, _ = collect(op("i"), DATA, None)
    np.testing.assert_array_equal(np.asarray(y), DATA[0])


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_all_gather_stacks_the_replicas(axis: int | None, place: int) -> None:
    """Along a new axis, or joined along an old one."""
    members = DATA if axis is not None else np.broadcast_to(DATA[0], DATA.shape)
    y, _ = collect(AllGather("i", place, SIZE), DATA, axis)
    np.testing.assert_array_equal(np.asarray(y), np.stack(list(members), place))
    if place < 2:
        y, _ = collect(AllGather("i", place, SIZE, tiled=True), DATA, axis)
        np.testing.assert_array_equal(np.asarray(y), np.concatenate(list(members), place))


def test_all_gather_checks_the_size() -> None:
    """The size is part of the operation, so it may disagree with the batch."""
    with pytest.raises(ShapeError) as caught:
        collect(AllGather("i", 0, 4), DATA, 0)
    assert str(caught.value).startswith("all_gather: size is 4, but the axis 'i' has size 3")


def test_axis_index_counts_replicas() -> None:
    """Each replica sees its own index."""
    with handle(Vmap(4, "i")) as frame:
        y = AxisIndex("i")()
    assert y.type is t(i32)
    np.testing.assert_array_equal(unboxed(frame, y, 4), np.arange(4))


OTHER: list[tuple[Collective, Callable[[Data], Data]]] = [
    (PSum("o"), lambda d: np.broadcast_to(d.sum(0), d.shape)),
    (PMax("o"), lambda d: np.broadcast_to(d.max(0), d.shape)),
    (PMin("o"), lambda d: np.broadcast_to(d.min(0), d.shape)),
    *[
        (AllGather("o", place, 2), lambda d, place=place: np.stack([np.stack(list(d), place + 1)] * 2))
        for place in (0, 1, 2)
    ],
    *[
        (
            AllGather("o", place, 2, True),
            lambda d, place=place: np.stack([np.concatenate(list(d), place + 1)] * 2),
        )
        for place in (0, 1)
    ],
]


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize(
    ("op", "reference"), OTHER, ids=lambda v: repr(v) if isinstance(v, Collective) else ""
)
def test_another_name_goes_outward(
    op: Collective, reference: Callable[[Data], Data], axis: int | None
) -> None:
    """The inner batch passes the collective on; `reference` takes data [outer, inner, 2, 4]."""
    data = np.stack([DATA, 10 + DATA[::-1]])
    member = t(f32, 2, 4)
    with handle(Vmap(2, "o")) as outer, handle(Vmap(SIZE, "i")) as frame:
        if axis is None:
            x = boxed(outer, data[:, 0], member, 1)
        else:
            shape = np.moveaxis(data, 1, axis + 1).shape[1:]
            x = Box(
                frame, Batched(boxed(outer, np.moveaxis(data, 1, axis + 1), t(f32, *shape), 2), axis), member
            )
        y = op(x)
        assert y.type is op.infer(member)
    want = reference(data)
    for o, i in product(range(2), range(SIZE)):
        np.testing.assert_array_equal(
            nested_member(y, frame, outer, i, o), want[o, i if axis is not None else 0]
        )


def test_same_name_is_the_innermost() -> None:
    """A name that two batches bind means the inner one."""
    with handle(Vmap(2, "i")) as outer, handle(Vmap(SIZE, "i")):
        y = PSum("i")(boxed(outer, np.asarray([1.0, 2.0], f32), t(f32), 0))
        assert type(y) is Box
        assert y.frame is outer
        np.testing.assert_array_equal(np.asarray(y.payload.value), [3.0, 6.0])


def test_unbound_name_is_an_error() -> None:
    """No batch binds the name, although one is at work."""
    with handle(Vmap(SIZE, "i")) as frame, pytest.raises(EffxError) as caught:
        PSum("z")(boxed(frame, DATA, t(f32, 2, 4), 0))
    assert "axis name 'z' is not bound" in str(caught.value)
