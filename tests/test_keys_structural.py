"""Whatever moves elements moves random keys: what it does is what NumPy does to the rows of their words."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import ConversionError, DTypeError, ShapeError
from effx.sharding import PartitionSpec as P

KINDS = ("threefry2x32", "rbg", "unsafe_rbg")
MASK = np.array([True, False, True])
ONES = 0xFFFFFFFF


def split_key(kind: str, seed: int, shape: tuple[int, ...]) -> Any:
    return effx.random.split(effx.random.key(seed, impl=kind), shape)


def words(keys: Any) -> np.ndarray[Any, Any]:
    return np.asarray(effx.random.key_data(keys))


def out_of_bounds(a: Any, fill: Any) -> Any:
    """The rows 0 and 5 of three."""
    return np.stack([a[0], np.full_like(a[0], fill)])


# A function of two arrays of three keys and one of 2 x 3, and the same of their words in NumPy.
MOVES: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "select": (
        lambda x, y, z: lax.select(MASK, x, y),
        lambda x, y, z: np.where(MASK[:, None], x, y),
    ),
    "select by one bool": (lambda x, y, z: lax.select(False, x, y), lambda x, y, z: y),
    "select_n": (
        lambda x, y, z: lax.select_n(np.array([0, 1, 0]), x, y),
        lambda x, y, z: np.where(MASK[:, None], x, y),
    ),
    "select_n of three": (
        lambda x, y, z: lax.select_n(np.array([0, 2, 1]), x, y, x[::-1]),
        lambda x, y, z: np.stack([x[0], x[1], y[2]]),
    ),
    "vmap of select": (
        lambda x, y, z: effx.vmap(lax.select)(MASK, x, y),
        lambda x, y, z: np.where(MASK[:, None], x, y),
    ),
    "where": (
        lambda x, y, z: enp.where(MASK, x, y[0]),
        lambda x, y, z: np.where(MASK[:, None], x, y[0]),
    ),
    "numpy.select": (
        lambda x, y, z: enp.select([MASK, ~MASK], [x, y], x[0]),
        lambda x, y, z: np.where(MASK[:, None], x, y),
    ),
    "choose": (
        lambda x, y, z: enp.choose(np.array([0, 1, 0]), [x, y]),
        lambda x, y, z: np.where(MASK[:, None], x, y),
    ),
    "dynamic_update_slice": (
        lambda x, y, z: lax.dynamic_update_slice(x, y[:1], (1,)),
        lambda x, y, z: np.stack([x[0], y[0], x[2]]),
    ),
    "dynamic_update_index_in_dim": (
        lambda x, y, z: lax.dynamic_update_index_in_dim(x, y[2], 0, 0),
        lambda x, y, z: np.stack([y[2], x[1], x[2]]),
    ),
    "vmap of dynamic_update_slice": (
        lambda x, y, z: effx.vmap(lambda a, i: lax.dynamic_update_slice(a, y[:1], (i,)))(z, np.array([0, 2])),
        lambda x, y, z: np.stack([[y[0], z[0, 1], z[0, 2]], [z[1, 0], z[1, 1], y[0]]]),
    ),
    "dynamic_slice": (lambda x, y, z: lax.dynamic_slice(x, (1,), (2,)), lambda x, y, z: x[1:]),
    "concatenate": (lambda x, y, z: lax.concatenate([x, y], 0), lambda x, y, z: np.concatenate([x, y])),
    "stack": (lambda x, y, z: enp.stack([x, y]), lambda x, y, z: np.stack([x, y])),
    "array of a list": (lambda x, y, z: enp.array([x[0], y[1]]), lambda x, y, z: np.stack([x[0], y[1]])),
    "asarray of nested lists": (
        lambda x, y, z: enp.asarray([[x[0]], [y[1]]]),
        lambda x, y, z: np.stack([[x[0]], [y[1]]]),
    ),
    "pad": (
        lambda x, y, z: lax.pad(x, y[0], [(1, 0, 1)]),
        lambda x, y, z: np.stack([y[0], x[0], y[0], x[1], y[0], x[2]]),
    ),
    "numpy.pad": (
        lambda x, y, z: enp.pad(x, 1, mode="wrap"),
        lambda x, y, z: x[[2, 0, 1, 2, 0]],
    ),
    "reshape": (lambda x, y, z: z.reshape(3, 2), lambda x, y, z: z.reshape(3, 2, -1)),
    "transpose": (lambda x, y, z: z.T, lambda x, y, z: z.swapaxes(0, 1)),
    "broadcast_to": (lambda x, y, z: enp.broadcast_to(x, (2, 3)), lambda x, y, z: np.stack([x, x])),
    "rev": (lambda x, y, z: lax.rev(z, (1,)), lambda x, y, z: z[:, ::-1]),
    "flip": (lambda x, y, z: enp.flip(x), lambda x, y, z: x[::-1]),
    "roll": (lambda x, y, z: enp.roll(x, 1), lambda x, y, z: x[[2, 0, 1]]),
    "roll by a traced shift": (lambda x, y, z: enp.roll(x, enp.array(2)), lambda x, y, z: x[[1, 2, 0]]),
    "repeat": (lambda x, y, z: enp.repeat(x, 2), lambda x, y, z: np.repeat(x, 2, 0)),
    "tile": (lambda x, y, z: enp.tile(x, 2), lambda x, y, z: np.tile(x, (2, 1))),
    "index by an array": (lambda x, y, z: x[np.array([2, 0])], lambda x, y, z: x[[2, 0]]),
    "index by a traced number": (lambda x, y, z: x[enp.array(1)], lambda x, y, z: x[1]),
    "index by a mask": (lambda x, y, z: x[MASK], lambda x, y, z: x[MASK]),
    "take": (lambda x, y, z: enp.take(x, np.array([2, 0])), lambda x, y, z: x[[2, 0]]),
    "take out of bounds": (
        lambda x, y, z: enp.take(x, np.array([0, 5]), mode="fill"),
        lambda x, y, z: out_of_bounds(x, ONES),
    ),
    "take clipped": (lambda x, y, z: enp.take(x, np.array([0, 5]), mode="clip"), lambda x, y, z: x[[0, 2]]),
    "take with a fill value": (
        lambda x, y, z: enp.take(x, np.array([0, 5]), fill_value=y[1]),
        lambda x, y, z: np.stack([x[0], y[1]]),
    ),
    "at.get": (
        lambda x, y, z: x.at[np.array([0, 5])].get(mode="fill"),
        lambda x, y, z: out_of_bounds(x, ONES),
    ),
    "at.get with a fill value": (
        lambda x, y, z: x.at[np.array([0, 5])].get(mode="fill", fill_value=y[1]),
        lambda x, y, z: np.stack([x[0], y[1]]),
    ),
    "vmap of take": (
        lambda x, y, z: effx.vmap(lambda a, i: enp.take(a, i, mode="fill"))(z, np.array([1, 5])),
        lambda x, y, z: np.stack([z[0, 1], np.full_like(z[0, 0], ONES)]),
    ),
    "take_along_axis": (
        lambda x, y, z: enp.take_along_axis(x, np.array([2, 0]), 0),
        lambda x, y, z: x[[2, 0]],
    ),
    "gather": (
        lambda x, y, z: lax.gather(
            x, np.array([[0], [5]]), lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill"
        ),
        lambda x, y, z: out_of_bounds(x, ONES),
    ),
    "scatter": (
        lambda x, y, z: lax.scatter(
            x, np.array([[0], [2]]), y[:2], lax.ScatterDimensionNumbers((), (0,), (0,))
        ),
        lambda x, y, z: np.stack([y[0], x[1], y[1]]),
    ),
    "at.set": (
        lambda x, y, z: x.at[np.array([0, 7])].set(y[:2], mode="drop"),
        lambda x, y, z: np.stack([y[0], x[1], x[2]]),
    ),
    "at.apply": (
        lambda x, y, z: x.at[1].apply(lambda k: y[0]),
        lambda x, y, z: np.stack([x[0], y[0], x[2]]),
    ),
    "delete": (lambda x, y, z: enp.delete(x, 1), lambda x, y, z: x[[0, 2]]),
    "insert": (lambda x, y, z: enp.insert(x, 1, y[0]), lambda x, y, z: np.insert(x, 1, y[0], 0)),
    "sorted along with numbers": (
        lambda x, y, z: lax.sort((np.array([2, 0, 1]), x), num_keys=1)[1],
        lambda x, y, z: x[[1, 2, 0]],
    ),
    "reduce": (lambda x, y, z: lax.reduce(x, y[0], lambda a, b: b, (0,)), lambda x, y, z: x[2]),
    "scan": (
        lambda x, y, z: lax.scan(lambda c, k: (k, c), y[0], x)[1],
        lambda x, y, z: np.stack([y[0], x[0], x[1]]),
    ),
    "while_loop": (
        lambda x, y, z: lax.while_loop(lambda c: c[1] < 2, lambda c: (y[c[1]], c[1] + 1), (x[0], 0))[0],
        lambda x, y, z: y[1],
    ),
    "vmap of while_loop": (
        lambda x, y, z: effx.vmap(
            lambda n, k: lax.while_loop(lambda c: c[1] < n, lambda c: (y[c[1]], c[1] + 1), (k, 0))[0]
        )(np.arange(3), x),
        lambda x, y, z: np.stack([x[0], y[0], y[1]]),
    ),
    "fori_loop": (lambda x, y, z: lax.fori_loop(0, 2, lambda i, k: y[i], x[0]), lambda x, y, z: y[1]),
    "cond": (lambda x, y, z: lax.cond(False, lambda: x, lambda: y), lambda x, y, z: y),
    "vmap of cond": (
        lambda x, y, z: effx.vmap(lambda p, a, b: lax.cond(p, lambda: a, lambda: b))(MASK, x, y),
        lambda x, y, z: np.where(MASK[:, None], x, y),
    ),
    "vmap of switch": (
        lambda x, y, z: effx.vmap(lambda i, a, b: lax.switch(i, [lambda: a, lambda: b]))(
            np.array([0, 1, 0]), x, y
        ),
        lambda x, y, z: np.where(MASK[:, None], x, y),
    ),
    "associative_scan": (lambda x, y, z: lax.associative_scan(lambda a, b: b, x), lambda x, y, z: x),
    "all_gather": (
        lambda x, y, z: effx.vmap(lambda k: lax.all_gather(k, "i"), axis_name="i")(x),
        lambda x, y, z: np.stack([x, x, x]),
    ),
    "all_to_all": (
        lambda x, y, z: effx.vmap(lambda k: lax.all_to_all(k, "i", 0, 0), axis_name="i")(enp.stack([x, y, x])),
        lambda x, y, z: np.stack([x, y, x]).swapaxes(0, 1),
    ),
    "ppermute": (
        lambda x, y, z: effx.vmap(lambda k: lax.ppermute(k, "i", [(0, 1), (1, 2)]), axis_name="i")(x),
        lambda x, y, z: np.stack([np.zeros_like(x[0]), x[0], x[1]]),
    ),
    "pshuffle": (
        lambda x, y, z: effx.vmap(lambda k: lax.pshuffle(k, "i", [2, 0, 1]), axis_name="i")(x),
        lambda x, y, z: x[[2, 0, 1]],
    ),
    "pbroadcast": (
        lambda x, y, z: effx.vmap(lambda k: lax.pbroadcast(k, "i", 1), axis_name="i")(x),
        lambda x, y, z: x[[1, 1, 1]],
    ),
    "optimization_barrier": (lambda x, y, z: lax.optimization_barrier(x), lambda x, y, z: x),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("move", MOVES)
def test_operations_move_keys(move: str, kind: str) -> None:
    """A structural operation does to keys what NumPy does to their words, eagerly and in a program."""
    on_keys, on_words = MOVES[move]
    keys = (split_key(kind, 1, (3,)), split_key(kind, 2, (3,)), split_key(kind, 3, (2, 3)))
    expected = on_words(*map(words, keys))
    for result in (on_keys(*keys), effx.jit(on_keys)(*keys)):
        assert result.dtype == keys[0].dtype
        np.testing.assert_array_equal(words(result), expected)


KEY = effx.random.key(9)
W = words(KEY)
COLLECTIVES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "all_gather": (lambda k: lax.all_gather(k, "i"), lambda w: np.stack([w] * 4)),
    "all_gather tiled": (
        lambda k: lax.all_gather(k[None], "i", tiled=True),
        lambda w: np.stack([w] * 4),
    ),
    "ppermute": (
        lambda k: lax.ppermute(k, "i", [(0, 1), (1, 2), (2, 0)]),
        lambda w: np.stack([w[2], w[0], w[1], 0 * w[0]]),
    ),
    "pbroadcast": (lambda k: lax.pbroadcast(k, "i", 2), lambda w: w[[2] * 4]),
    "all_to_all": (
        lambda k: lax.all_to_all(enp.stack([k] * 4), "i", 0, 0),
        lambda w: np.stack([w] * 4),
    ),
    "pcast": (lambda k: enp.where(lax.axis_index("i") == 0, k, KEY), lambda w: np.stack([w[0], *[W] * 3])),
}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_devices_exchange_keys(collective: str) -> None:
    """Collectives move keys between devices, in pmap and in shard_map."""
    on_keys, on_words = COLLECTIVES[collective]
    keys = split_key("threefry2x32", 1, (4,))
    mesh = effx.make_mesh((4,), ("i",), axis_types=(effx.sharding.AxisType.Auto,))

    def on_part(part: Any) -> Any:
        return on_keys(part[0])[None]

    expected = on_words(words(keys))
    np.testing.assert_array_equal(words(effx.pmap(on_keys, "i")(keys)), expected)
    shards = effx.shard_map(on_part, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_array_equal(words(shards(keys)), expected)
    np.testing.assert_array_equal(words(effx.jit(shards)(keys)), expected)


def test_devices_exchange_wide_keys() -> None:
    """Keys of four words move between devices too."""
    keys = split_key("rbg", 1, (4,))
    got = effx.pmap(lambda k: (lax.all_gather(k, "i"), lax.ppermute(k, "i", [(0, 1)])), "i")(keys)
    np.testing.assert_array_equal(words(got[0]), np.stack([words(keys)] * 4))
    zero = np.zeros_like(words(keys)[0])
    np.testing.assert_array_equal(words(got[1]), np.stack([zero, words(keys)[0], zero, zero]))


def test_keys_are_close_where_they_are_equal() -> None:
    """`allclose` and `isclose` of keys compare them, as == does."""
    a, b = effx.random.key(0), effx.random.key(1)
    assert bool(enp.allclose(a, a))
    assert not bool(enp.allclose(a, b))
    assert enp.isclose(enp.stack([a, b]), a).tolist() == [True, False]


FILLS: dict[str, tuple[Callable[[Any], Any], object]] = {
    "an array": (
        lambda v: enp.ones(3).at[np.array([0, 5])].get(mode="fill", fill_value=enp.array(v)),
        [1, 3],
    ),
    "a NumPy scalar": (lambda v: enp.take(enp.ones(3), np.array([0, 5]), fill_value=np.float32(v)), [1, 3]),
    "an int": (lambda v: enp.take(enp.ones(3, int), np.array([0, 5]), fill_value=enp.array(v)), [1, 3]),
    "of an empty axis": (
        lambda v: enp.ones(0).at[np.array([0])].get(mode="fill", fill_value=enp.array(v)),
        [3],
    ),
}


@pytest.mark.parametrize("case", FILLS)
def test_fill_values_are_scalars_of_any_class(case: str) -> None:
    """A fill value may be an array of rank 0, traced too."""
    read, expected = FILLS[case]
    assert read(3.0).tolist() == expected
    if case != "a NumPy scalar":
        assert effx.jit(read)(3.0).tolist() == expected


def one_key() -> Any:
    return effx.random.key(0)


def three_keys() -> Any:
    return split_key("threefry2x32", 0, (3,))


NUMBERS = "boolean, integer, floating or complex"
REFUSALS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "bool": (lambda: bool(one_key()), ConversionError, "bool(x): key<fry>[] is no number"),
    "float": (lambda: float(one_key()), ConversionError, "float(x): key<fry>[] is no number"),
    "int": (lambda: int(one_key()), ConversionError, "int(x): key<fry>[] is no number"),
    "sort": (lambda: enp.sort(three_keys()), DTypeError, f"sort: a key must be {NUMBERS}, got key<fry>[3]"),
    "unique": (
        lambda: enp.unique(three_keys()),
        DTypeError,
        "unique: random keys have no order, got key<fry>[3]",
    ),
    "union1d": (
        lambda: enp.union1d(three_keys(), three_keys()),
        DTypeError,
        "union1d: random keys have no order, got key<fry>[3]",
    ),
    "at.add": (
        lambda: three_keys().at[0].add(one_key()),
        DTypeError,
        f"scatter: x must be {NUMBERS}, got key<fry>[3]",
    ),
    "clamp": (
        lambda: lax.clamp(one_key(), three_keys(), one_key()),
        DTypeError,
        "clamp: operand must be boolean, integer or floating, got key<fry>[]",
    ),
    "select with a number": (
        lambda: lax.select(MASK, three_keys(), 0),
        DTypeError,
        "select: dtypes of the cases differ: i32[]~, key<fry>[3]",
    ),
    "dynamic_update_slice of numbers": (
        lambda: lax.dynamic_update_slice(three_keys(), np.arange(1), (0,)),
        DTypeError,
        "dynamic_update_slice: dtypes differ: x is key<fry>[3], the block is i32[1]",
    ),
    "a fill value that is a number": (
        lambda: enp.take(three_keys(), np.array([5]), fill_value=0),
        DTypeError,
        "take: fill_value of key<fry>[3] must be a key, got 0",
    ),
    "a fill value with axes": (
        lambda: enp.take(enp.ones(3), np.array([5]), fill_value=enp.ones(1)),
        ShapeError,
        "take: fill_value must be a scalar, got f32[1]",
    ),
    "psum": (
        lambda: effx.vmap(lambda k: lax.psum(k, "i"), axis_name="i")(three_keys()),
        DTypeError,
        "reduce_sum: operand must be integer, floating or complex, got key<fry>[3]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_keys_are_no_numbers(case: str) -> None:
    """What needs numbers or an order refuses keys, and says what it takes."""
    call, kind, message = REFUSALS[case]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).splitlines()[0] == message
