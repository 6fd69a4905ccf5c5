"""ragged_all_to_all does what a loop over its slices does, under vmap and pmap, and its transpose is adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
from effx import lax
from effx.errors import AxisNameError, DTypeError, ShapeError

N, ROWS, GOAL = 4, 9, 12
Data = np.ndarray[Any, Any]


def exchanged(
    x: Data, out: Data, starts: Data, sizes: Data, places: Data, groups: list[list[int]] | None = None
) -> Data:
    """As it is defined: each index sends slices, which the others write in the order of the senders."""
    result = out.copy()
    for members in groups or [list(range(len(x)))]:
        each = starts.shape[1] // len(members)
        for sender in members:
            for k in range(starts.shape[1]):
                a, n, b = starts[sender, k], sizes[sender, k], places[sender, k]
                result[members[k // each], b : b + n] = x[sender, a : a + n]
    return result


def slices(rng: np.random.Generator, count: int, n: int = N) -> tuple[Data, Data, Data, Data]:
    """Draws slices within the rows, some empty and some on top of others."""
    sizes = rng.integers(0, 4, (n, count))
    starts = rng.integers(0, ROWS - sizes + 1)
    places = rng.integers(0, GOAL - sizes + 1)
    received = sizes.reshape(n, n, count // n).swapaxes(0, 1).reshape(n, count)
    return starts, sizes, places, received


def exchange(x: Any, out: Any, starts: Any, sizes: Any, places: Any, received: Any) -> Any:
    return lax.ragged_all_to_all(x, out, starts, sizes, places, received, axis_name="i")


@pytest.mark.parametrize("transform", [effx.vmap, effx.pmap], ids=["vmap", "pmap"])
@pytest.mark.parametrize("count", [N, 3 * N])
@pytest.mark.parametrize("trailing", [(), (2, 3)], ids=str)
def test_does_what_the_loop_does(transform: Any, count: int, trailing: tuple[int, ...]) -> None:
    """For one slice for each index and for several, which may overlap where they are written."""
    rng = np.random.default_rng(count)
    for _ in range(3):
        x = rng.normal(size=(N, ROWS, *trailing)).astype(np.float32)
        out = rng.normal(size=(N, GOAL, *trailing)).astype(np.float32)
        drawn = slices(rng, count)
        got = transform(exchange, axis_name="i")(x, out, *drawn)
        np.testing.assert_array_equal(np.asarray(got), exchanged(x, out, *drawn[:3]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.bool_, effx.dtypes.bfloat16, np.complex64], ids=str)
def test_dtypes(dtype: Any) -> None:
    """Rows are moved as they are, and offsets may have any integer dtype."""
    rng = np.random.default_rng(1)
    x, out = [np.abs(rng.integers(0, 9, (N, n))).astype(dtype) for n in (ROWS, GOAL)]
    drawn = slices(rng, N)
    got = effx.vmap(exchange, axis_name="i")(x, out, *[d.astype(np.uint8) for d in drawn])
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(got), exchanged(x, out, *drawn[:3]))


@pytest.mark.parametrize("transform", [effx.vmap, effx.pmap], ids=["vmap", "pmap"])
def test_groups(transform: Any) -> None:
    """Each group exchanges by itself, in the order of its indices."""
    rng = np.random.default_rng(2)
    groups = [[0, 2], [3, 1]]
    x, out = rng.normal(size=(N, ROWS)).astype(np.float32), np.zeros((N, GOAL), np.float32)
    starts, sizes, places, received = np.zeros((4, N, 2), np.int64)
    for members in groups:
        for a, b in zip((starts, sizes, places, received), slices(rng, 2, 2), strict=True):
            a[members] = b

    def replica(*args: Any) -> Any:
        return lax.ragged_all_to_all(*args, axis_name="i", axis_index_groups=groups)

    got = transform(replica, axis_name="i")(x, out, starts, sizes, places, received)
    np.testing.assert_array_equal(np.asarray(got), exchanged(x, out, starts, sizes, places, groups))


def test_several_names_are_one_axis() -> None:
    """The last name is the fastest, as in the other collectives."""
    rng = np.random.default_rng(3)
    x, out = rng.normal(size=(N, ROWS)).astype(np.float32), np.zeros((N, GOAL), np.float32)
    drawn = slices(rng, N)

    def replica(*args: Any) -> Any:
        return lax.ragged_all_to_all(*args, axis_name=("r", "c"))

    grid = [a.reshape(2, 2, *a.shape[1:]) for a in (x, out, *drawn)]
    got = effx.vmap(effx.vmap(replica, axis_name="c"), axis_name="r")(*grid)
    np.testing.assert_array_equal(np.asarray(got).reshape(N, GOAL), exchanged(x, out, *drawn[:3]))


@pytest.mark.parametrize("transform", [effx.vmap, effx.pmap], ids=["vmap", "pmap"])
def test_transpose_is_adjoint(transform: Any) -> None:
    """<C(x, out), y> = <x, dx> + <out, dout>; forward mode gives the map itself; on either side of the map."""
    rng = np.random.default_rng(4)
    x, out = rng.normal(size=(N, ROWS, 2)), rng.normal(size=(N, GOAL, 2))
    x, out = x.astype(np.float32), out.astype(np.float32)
    y = rng.normal(size=out.shape).astype(np.float32)
    drawn = slices(rng, 2 * N)
    want = np.vdot(exchanged(x, out, *drawn[:3]), y)
    whole = transform(exchange, axis_name="i")

    def pairing(back: Any) -> Any:
        return np.vdot(x, np.asarray(back[0])) + np.vdot(out, np.asarray(back[1]))

    def back(x: Any, out: Any, ct: Any, *rest: Any) -> Any:
        return effx.vjp(lambda x, out: exchange(x, out, *rest), x, out)[1](ct)

    outside = effx.vjp(lambda x, out: whole(x, out, *drawn), x, out)[1](y)
    np.testing.assert_allclose(pairing(outside), want, rtol=1e-4)
    np.testing.assert_allclose(pairing(transform(back, axis_name="i")(x, out, y, *drawn)), want, rtol=1e-4)
    _, moved = effx.jvp(lambda x, out: whole(x, out, *drawn), (0 * x, 0 * out), (x, out))
    np.testing.assert_array_equal(np.asarray(moved), exchanged(x, out, *drawn[:3]))


def test_under_jit_scan_and_shard_map() -> None:
    """On the devices of a mesh, compiled, twice in a scan and with a batch of their own."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(N, GOAL)).astype(np.float32)
    drawn = list(slices(rng, N))
    mesh = effx.make_mesh((N,), ("i",))
    spec = effx.sharding.PartitionSpec("i")

    def replica(x: Any, *rest: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            return exchange(carry, carry, *rest), None

        return lax.scan(step, x[0], None, length=2)[0][None]

    def one(*args: Any) -> Any:
        return effx.shard_map(
            lambda *a: replica(a[0], *[b[0] for b in a[1:]]), mesh=mesh, in_specs=(spec,) * 5, out_specs=spec
        )(*args)

    once = exchanged(x, x, drawn[0], drawn[1], drawn[2])
    want = exchanged(once, once, drawn[0], drawn[1], drawn[2])
    np.testing.assert_array_equal(np.asarray(effx.jit(one)(x, *drawn)), want)
    both = effx.jit(effx.vmap(one, in_axes=(0, *[None] * 4)))(np.stack([x, 0 * x]), *drawn)
    np.testing.assert_array_equal(np.asarray(both), [want, 0 * x])


def test_the_smaller_number_is_written() -> None:
    """Where sender and receiver do not agree on a size."""
    x, out = np.array([[1, 2, 3]]), np.zeros((1, 3), np.int32)
    zero, two, three = [np.full((1, 1), n) for n in (0, 2, 3)]
    for sent, received in ((two, three), (three, two)):
        got = effx.vmap(exchange, axis_name="i")(x, out, zero, sent, zero, received)
        np.testing.assert_array_equal(np.asarray(got), [[1, 2, 0]])


def test_nothing_to_send() -> None:
    """Without slices or rows the result is the output."""
    out = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    for x, count in ((np.ones((4, 3), np.float32), 0), (np.ones((4, 0), np.float32), 4)):
        numbers = [np.zeros((4, count), np.int32)] * 4
        got = effx.vmap(exchange, axis_name="i")(x, out, *numbers)
        np.testing.assert_array_equal(np.asarray(got), out)


I4 = np.zeros(4, np.int32)
F4 = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        (
            (F4, np.zeros((4, 2), np.float32), I4, I4, I4, I4),
            ShapeError,
            "ragged_all_to_all: operand and output must have rows of one shape, got f32[4] and f32[4,2]",
        ),
        (
            (F4, I4, I4, I4, I4, I4),
            DTypeError,
            "ragged_all_to_all: operand and output must have one dtype, got f32[4] and i32[4]",
        ),
        (
            (F4, F4, I4, F4, I4, I4),
            DTypeError,
            "ragged_all_to_all: send_sizes must be integers, got f32[4]",
        ),
        (
            (F4, F4, I4, I4, np.int32(1), I4),
            ShapeError,
            "ragged_all_to_all: output_offsets must be a vector, got i32[]",
        ),
        (
            (F4, F4, I4, I4, I4, I4[:2]),
            ShapeError,
            (
                "ragged_all_to_all: input_offsets, send_sizes, output_offsets and recv_sizes must have one length, got "
                "i32[4], i32[4], i32[4], i32[2]"
            ),
        ),
        (
            (F4, F4, *[I4[:3]] * 4),
            ShapeError,
            "ragged_all_to_all: the number of slices, 3, must be divisible by 4, the axis size",
        ),
    ],
    ids=lambda x: x[:60] if isinstance(x, str) else "",
)
def test_errors(arguments: tuple[Data, ...], kind: type[Exception], text: str) -> None:
    """A mismatch is an error with both types."""
    with pytest.raises(kind) as caught:
        effx.vmap(lambda _: exchange(*arguments), axis_name="i")(np.zeros(N))
    assert str(caught.value).splitlines()[0] == text
    with pytest.raises(AxisNameError):
        exchange(*arguments)
