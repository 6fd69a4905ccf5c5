"""Indexing: masks, lists, ints and modes out of bounds, updates of equal indices, axes of size 0.

Never: tests slices and gathers alone; test_against_numpy.py and tests/ops do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx.errors import EffxError, IndexingError, NonConcreteBooleanIndexError, ShapeError

X = np.arange(12, dtype=np.float32).reshape(3, 4)
nan = np.nan


MASKS: list[tuple[Callable[[], object], tuple[str, str, int, int, int]]] = [
    (lambda: enp.arange(3.0)[enp.array([True, False, False, True])], ("bool[4]", "f32[3]", 0, 3, 4)),
    (lambda: enp.arange(3.0)[enp.array([True, False])], ("bool[2]", "f32[3]", 0, 3, 2)),
    (lambda: enp.array(X)[:, enp.array([True, False])], ("bool[2]", "f32[3,4]", 1, 4, 2)),
    (lambda: enp.array(X)[..., np.ones((3, 3), bool)], ("bool[3,3]", "f32[3,4]", 1, 4, 3)),
    (lambda: enp.array(X)[:, [True, False]], ("bool[2]", "f32[3,4]", 1, 4, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("index", "facts"), MASKS)
def test_masks_of_another_shape_are_refused(
    index: Callable[[], object], facts: tuple[str, str, int, int, int]
) -> None:
    """Whatever would be read."""
    mask, x, axis, size, size_there = facts
    with pytest.raises(IndexingError) as caught:
        index()
    assert caught.value.message == (
        f"getitem: the mask {mask} does not fit {x}: axis {axis} has size {size}, the mask {size_there} there"
    )


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A NumPy index of an array with this shape: ints, slices, None, Ellipsis, lists, arrays, masks, bools."""
    parts: list[Any] = []
    batch = draw(st.sampled_from([(), (2,), (2, 1), (0,)]))
    axis = 0
    while axis < len(shape) and draw(st.integers(0, 4)):
        n = shape[axis]
        kinds = ["slice", "none", "bool"] + ["int"] * (n > 0)
        if not any(type(p) is bool for p in parts):  # whose one index, or none, goes with few others
            kinds += ["mask"] + ["array", "list"] * (n > 0)
        kind = draw(st.sampled_from(kinds))
        if kind == "none":
            parts.append(None)
            continue
        if kind == "bool":
            if not any(isinstance(p, np.ndarray | list) or type(p) is bool for p in parts):
                parts.append(draw(st.booleans()))
            continue
        axis += 1
        if kind == "slice":
            bound = st.none() | st.integers(-n - 1, n + 1)
            parts.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, -1, -2]))))
        elif kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "mask":
            mask = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
            if parts and any(isinstance(p, np.ndarray | list) for p in parts):
                parts.append(slice(None))  # masks beside arrays must have as many true elements as these
                continue
            parts.append(mask)
            batch = (int(mask.sum()),)
        else:
            flat = draw(
                st.lists(st.integers(-n, n - 1), min_size=int(np.prod(batch)), max_size=int(np.prod(batch)))
            )
            array = np.array(flat, np.int32).reshape(batch)
            parts.append(array.tolist() if kind == "list" and batch in [(2,), (0,)] else array)
    if draw(st.booleans()):  # in the middle it may only stand for no axes, which keeps the others' sizes
        taken = sum(p is not None and type(p) is not bool for p in parts)
        parts.insert(draw(st.integers(0, len(parts))) if taken == len(shape) else len(parts), Ellipsis)
    return tuple(parts)


@given(st.data())
def test_reading_is_numpys(data: st.DataObject) -> None:
    """Any index that NumPy takes, inside jit and outside."""
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3)))
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    index = data.draw(indices(shape))
    plain = tuple(np.asarray(p, np.int32) if isinstance(p, list) else p for p in index)
    expected = x[plain]
    np.testing.assert_array_equal(enp.array(x)[index], expected)
    np.testing.assert_array_equal(effx.jit(lambda x: x[index])(x), expected)


MODES: list[tuple[str, Callable[[Any], Any], object]] = [
    ("get fill", lambda x: x.at[11].get(mode="fill"), nan),
    ("get fill value", lambda x: x.at[-11].get(mode="fill", fill_value=7), 7.0),
    ("get clip", lambda x: x.at[11].get(mode="clip"), 2.0),
    ("get clip below", lambda x: x.at[-11].get(mode="clip"), 0.0),
    ("get wrap", lambda x: x.at[-11].get(mode="wrap"), 1.0),
    ("get promise", lambda x: x.at[11].get(mode="promise_in_bounds"), 2.0),
    ("set drop", lambda x: x.at[11].set(9, mode="drop"), [0.0, 1.0, 2.0]),
    ("set drop huge", lambda x: x.at[2**40].set(9, mode="drop"), [0.0, 1.0, 2.0]),
    ("set fill", lambda x: x.at[-11].set(9, mode="fill"), [0.0, 1.0, 2.0]),
    ("set clip", lambda x: x.at[11].set(9, mode="clip"), [0.0, 1.0, 9.0]),
    ("add wrap", lambda x: x.at[11].add(9, mode="wrap"), [0.0, 1.0, 11.0]),
    ("of a slice beside", lambda x: enp.stack([x, x]).at[5, 1:].set(9, mode="drop"), [[0.0, 1, 2]] * 2),
    ("of an array beside", lambda x: enp.stack([x, x]).at[5, enp.array([0, 1])].get(mode="fill"), [nan, nan]),
]


@pytest.mark.parametrize("case", MODES, ids=lambda case: case[0])
def test_modes_say_what_becomes_of_ints_out_of_range(case: tuple[str, Callable[[Any], Any], object]) -> None:
    """As of arrays out of range; without a mode an int out of range is an error."""
    _, f, expected = case
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(f(enp.array(x)), expected)
    np.testing.assert_array_equal(effx.jit(f)(x), expected)
    refusals: list[Callable[[], object]] = [
        lambda: enp.array(x).at[11].set(9),
        lambda: enp.array(x).at[11].get(),
    ]
    for refused in refusals:
        with pytest.raises(
            IndexingError, match=r"^getitem: index 11 is out of range for axis 0 of f32\[3\] with size 3"
        ):
            refused()


@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint8", "int8", "uint64", "int64"])
@pytest.mark.parametrize("mode", ["clip", "fill", "wrap"])
def test_indices_of_all_integer_dtypes(dtype: str, mode: str) -> None:
    """The largest and smallest values of a dtype are what NumPy's integers of any size would be."""
    with effx.enable_x64(dtype.endswith("64")):
        info = np.iinfo(dtype)
        given = np.array([0, 3, info.max, info.max - 1, info.min, 2], dtype)
        which = [int(i) for i in given]
        if mode == "wrap":
            expected = [float(i % 5) for i in which]
        elif mode == "clip":
            counted = [i + 5 if i < 0 else i for i in which]
            expected = [float(min(max(i, 0), 4)) for i in counted]
        else:
            expected = [float(i % 5) if -5 <= i < 5 else nan for i in which]
        for array in (given, enp.array(given)):
            got = enp.take(enp.arange(5.0, dtype="float32"), array, mode=mode)
            np.testing.assert_array_equal(got, np.array(expected, np.float32))


@given(st.data(), st.sampled_from(["float32", "int32", "uint8"]))
def test_updates_take_every_index_as_often_as_it_stands_there(data: st.DataObject, dtype: str) -> None:
    """`numpy.ufunc.at` is the oracle, for functions a loop; indices out of range change nothing."""
    x = np.array(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5)), dtype)
    which = np.array(data.draw(st.lists(st.integers(-len(x), len(x) + 2), max_size=4)), np.int32)
    inside = which[which < len(x)]
    at = enp.array(x).at[which]
    values = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(which), max_size=len(which))), dtype)
    kept = values[which < len(x)]
    for ufunc, got in [
        (np.add, at.add(values)), (np.subtract, at.subtract(values)), (np.multiply, at.multiply(values)),
        (np.minimum, at.min(values)), (np.maximum, at.max(values)), (np.power, at.power(values)),
    ]:  # fmt: skip
        expected = x.copy()
        ufunc.at(expected, inside, kept)
        np.testing.assert_allclose(got, expected, rtol=1e-5)
        assert got.dtype == x.dtype
    expected = x.copy()
    for i in inside:
        expected[i] = expected[i] * expected[i] + 1
    square = lambda v: v * v + 1  # noqa: E731 - as users write it
    np.testing.assert_array_equal(at.apply(square), expected)
    np.testing.assert_array_equal(effx.jit(lambda x, i: x.at[i].apply(square))(x, which), expected)


def test_updates_are_computed_in_the_common_dtype() -> None:
    """And then cropped to the array's."""
    x = enp.array([-7, 7])
    assert [int(v) for v in x.at[0].add(0.9)] == [-6, 7]
    assert [int(v) for v in x.at[0].multiply(1.9)] == [-13, 7]
    assert [int(v) for v in x.at[1].subtract(0.5)] == [-7, 6]
    assert [int(v) for v in x.at[1].min(2.5)] == [-7, 2]
    assert [int(v) for v in x.at[1].set(9.9)] == [-7, 9]
    assert [int(v) for v in x.at[np.array([True, False])].add(0.9)] == [-6, 7]
    assert x.at[0].add(0.9).dtype == np.int32


def test_applied_functions_have_derivatives() -> None:
    """In reverse where each element is reached once, forward always."""
    x = enp.array([1.0, 2.0, 3.0])
    got = effx.grad(lambda x: x.at[1:].apply(enp.sin).sum())(x)
    np.testing.assert_allclose(got, [1.0, np.cos(2.0), np.cos(3.0)], rtol=1e-6)
    i = enp.array([2, 0])
    got = effx.grad(lambda x: x.at[i].apply(enp.sin, unique_indices=True).sum())(x)
    np.testing.assert_allclose(got, [np.cos(1.0), 1.0, np.cos(3.0)], rtol=1e-6)
    i = enp.array([2, 2])
    _, got = effx.jvp(lambda x: x.at[i].apply(enp.sin), (x,), (enp.ones(3),))
    np.testing.assert_allclose(got, [1.0, 1.0, np.cos(np.sin(3.0)) * np.cos(3.0)], rtol=1e-6)
    rows = effx.vmap(lambda x, i: x.at[i].apply(enp.sin))(enp.ones((2, 3)), enp.array([[0, 0], [1, 2]]))
    once, twice = np.sin(1.0), np.sin(np.sin(1.0))
    np.testing.assert_allclose(rows, [[twice, 1.0, 1.0], [1.0, once, once]], rtol=1e-6)


EMPTY: list[tuple[str, Callable[[], Any], object]] = [
    (
        "along, empty",
        lambda: enp.take_along_axis(enp.ones((0, 2)), np.zeros((0, 2), int), 0),
        np.ones((0, 2)),
    ),
    (
        "along, fills",
        lambda: enp.take_along_axis(enp.ones((0, 2)), np.zeros((3, 2), int), 0),
        np.full((3, 2), nan),
    ),
    (
        "along, other axis",
        lambda: enp.take_along_axis(enp.ones((2, 0)), np.zeros((3, 0), int), 0),
        np.ones((3, 0)),
    ),
    ("get fills", lambda: enp.ones(0).at[np.zeros(3, int)].get(mode="fill"), [nan] * 3),
    ("get fills an int", lambda: enp.ones(0).at[4].get(mode="fill", fill_value=2), 2.0),
    ("set drops", lambda: enp.ones(0).at[0].set(1.0, mode="drop"), []),
    ("add drops", lambda: enp.ones((0, 3)).at[np.zeros(2, int)].add(1.0), np.ones((0, 3))),
    ("get fills several", lambda: enp.ones(0).at[np.zeros(3, int)].get(mode="fill"), [nan] * 3),
    ("take of nothing", lambda: enp.take(enp.ones(0), np.zeros(0, int)), []),
    ("nothing of nothing", lambda: enp.ones((0, 2))[np.zeros(0, int)], np.ones((0, 2))),
]


@pytest.mark.parametrize("case", EMPTY, ids=lambda case: case[0])
def test_axes_of_size_0(case: tuple[str, Callable[[], Any], object]) -> None:
    """Nothing is in bounds there."""
    got = case[1]()
    np.testing.assert_array_equal(got, np.asarray(case[2], np.float32))
    assert not got.weak_type


def test_an_element_of_nothing_is_refused() -> None:
    """Without a mode that says what to give."""
    with pytest.raises(IndexingError, match=r"^getitem: cannot index an axis of size 0 of f32\[0\]"):
        enp.ones(0)[np.zeros(3, int)]
    with pytest.raises(NonConcreteBooleanIndexError, match=r"^x\[mask\]: the shape would depend"):
        effx.jit(lambda x, b: x[b])(X, True)


@pytest.mark.parametrize("mode", ["clip", "drop", "fill"])
@pytest.mark.parametrize(
    "index", [np.array([-1, 1, 7, -9], np.int8), -1, 9, (slice(None), np.array([-2, 0]))]
)
def test_negative_indices_out_of_bounds(mode: str, index: Any) -> None:
    """With wrap_negative_indices=False they do not count from the end; every method takes it, as jax's do."""
    jnp = pytest.importorskip("jax.numpy")
    x = np.arange(1.0, 13.0, dtype=np.float32).reshape(4, 3)
    ours, theirs = enp.asarray(x).at[index], jnp.asarray(x).at[index]
    options: dict[str, Any] = {"mode": mode, "wrap_negative_indices": False}
    np.testing.assert_array_equal(ours.get(**options), theirs.get(**options))
    for name in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max"):
        found, want = [getattr(at, name)(np.float32(2.0), **options) for at in (ours, theirs)]
        np.testing.assert_allclose(found, want, rtol=1e-6)
    np.testing.assert_array_equal(ours.apply(enp.negative, **options), theirs.apply(jnp.negative, **options))
    if isinstance(index, np.ndarray):
        jitted = effx.jit(lambda x, i: x.at[i].set(0.0, **options))
        np.testing.assert_array_equal(jitted(x, index), theirs.set(0.0, **options))
        along = np.array([[-1, 0, 5]])
        for kind in ("clip", "fill"):
            found = enp.take_along_axis(x, along, 0, kind, wrap_negative_indices=False)
            want = jnp.take_along_axis(x, along, 0, kind, wrap_negative_indices=False)
            np.testing.assert_array_equal(found, want)


def test_the_users_line_of_a_wrong_mode() -> None:
    """Methods that attrs writes are no line of the user's."""
    with pytest.raises(
        IndexingError, match=r"at: mode must be one of .*, got 'dorp'\n  at   test_indexing\.py:\d+ in"
    ):
        enp.arange(3).at[7].set(1, mode="dorp")


@pytest.mark.parametrize("value", [2.0, np.arange(3.0, dtype=np.float32) + 7], ids=["scalar", "array"])
@pytest.mark.parametrize("combiner", ["set", "add", "min"])
def test_a_mask_without_axes_selects_all_or_nothing(combiner: str, value: Any) -> None:
    """So does a traced one, for each batch element apart."""
    x = np.arange(3, dtype=np.float32)
    combined = {"set": lambda: x * 0 + value, "add": lambda: x + value, "min": lambda: np.minimum(x, value)}
    chosen = [x, combined[combiner]()]

    def f(mask: Any) -> Any:
        return getattr(enp.array(x).at[mask], combiner)(value)

    for mask in (True, False):
        for given_as in (mask, np.asarray(mask), enp.array(mask)):
            np.testing.assert_array_equal(f(given_as), chosen[mask])
        np.testing.assert_array_equal(effx.jit(f)(mask), chosen[mask])
    np.testing.assert_array_equal(effx.vmap(f)(enp.array([True, False])), [chosen[1], chosen[0]])


@pytest.mark.unguarded
@pytest.mark.parametrize(
    ("update", "want"),
    [
        (lambda at: at[:2].set([5.0, 9.0]), [5, 9, 2, 3]), (lambda at: at[:2].set((7, 8)), [7, 8, 2, 3]),
        (lambda at: at[:2].add([1.0, 2.0]), [1, 3, 2, 3]), (lambda at: at[2:].multiply([2, 3]), [0, 1, 4, 9]),
        (lambda at: at[2:].divide([2.0, 4.0]), [0, 1, 1, 0.75]), (lambda at: at[:2].min([0.5, 0.5]), [0, 0.5, 2, 3]),
        (lambda at: at[:2].max([0.5, 0.5]), [0.5, 1, 2, 3]), (lambda at: at[2:].power([2.0, 3.0]), [0, 1, 4, 27]),
        (lambda at: at[:2].subtract([1, 1]), [-1, 0, 2, 3]), (lambda at: at[:0].set([]), [0, 1, 2, 3]),
    ],
)  # fmt: skip
def test_lists_of_updates(update: Callable[[Any], Any], want: list[float]) -> None:
    x = np.arange(4.0, dtype="f4")
    for f in (update, lambda at: effx.jit(lambda x: update(x.at))(x)):
        np.testing.assert_array_equal(f(enp.asarray(x).at), want)


def test_unsigned_numbers_are_subtracted() -> None:
    x = enp.arange(3)
    assert x.at[0].subtract(np.uint8(1)).tolist() == [-1, 1, 2]
    assert x.at[enp.array([0, 0])].subtract(np.array([1, 2], "u2")).tolist() == [-3, 1, 2]
    assert enp.array([5, 7], "uint8").at[1].subtract(3).tolist() == [5, 4]


# Lists are taken, but are no operands for type checkers.
UNTYPED: Any = enp
UNTYPED_NN: Any = effx.nn
UNTYPED_NDIMAGE: Any = effx.scipy.ndimage
UNTYPED_LINALG: Any = effx.scipy.linalg


def test_lists_of_traced_updates() -> None:
    f = effx.jit(lambda a: UNTYPED.zeros(3).at[:2].set([a, a + 1]))
    assert f(5.0).tolist() == [5, 6, 0]
    assert effx.grad(lambda a: f(a).sum())(1.0) == 2
    assert effx.vmap(f)(np.arange(2.0)).tolist() == [[0, 1, 0], [1, 2, 0]]


def test_functions_that_take_lists() -> None:
    assert UNTYPED_NN.one_hot([0, 1], 2).tolist() == [[1, 0], [0, 1]]
    assert UNTYPED_NN.one_hot([], 2).shape == (0, 2)
    assert UNTYPED.array_equal([1, 2], np.array([1, 2]))
    assert not UNTYPED.array_equal([1, 2], (1, 3))
    assert UNTYPED.array_equiv([1, 1], 1)
    assert UNTYPED.iscomplexobj([1, 2j])
    assert UNTYPED.isrealobj([1.0])
    points = UNTYPED_NDIMAGE.map_coordinates(np.arange(4.0).reshape(2, 2), [[0.5, 1], (0.5, 0)], 1)
    assert points.tolist() == [1.5, 2]
    assert UNTYPED_LINALG.cho_solve((np.eye(2), True), [1.0, 2.0]).tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_masks_of_size_zero(shape: tuple[int, ...]) -> None:
    """As in NumPy, they take nothing of an axis of any size, and write nothing."""
    mask = np.zeros(shape, bool)
    x = enp.array(X)
    np.testing.assert_array_equal(x[mask], X[mask])
    np.testing.assert_array_equal(effx.jit(lambda x: x[mask])(x), X[mask])
    np.testing.assert_array_equal(x.at[mask].set(7.0), X)
    np.testing.assert_array_equal(x.at[mask].add(np.ones(4)[:0] if len(shape) > 1 else 1.0), X)


def test_masks_of_size_zero_and_others_that_do_not_fit() -> None:
    """Each axis is compared by itself."""
    with pytest.raises(IndexingError) as caught:
        enp.array(X)[np.zeros((2, 0), bool)]
    assert caught.value.message == (
        "getitem: the mask bool[2,0] does not fit f32[3,4]: axis 0 has size 3, the mask 2 there"
    )


def test_slices_with_abstract_bounds() -> None:
    """They are an IndexError that names what has a fixed size."""
    for f in (
        lambda i: enp.zeros(4)[:i],
        lambda i: enp.zeros(4)[i : i + 2],
        lambda i: enp.zeros(4).at[i:].set(1),
    ):
        with pytest.raises(IndexingError) as caught:
            effx.jit(f)(2)
        assert re.fullmatch(
            r"getitem: slice bounds decide the result's shape and must be known while tracing, got slice\(.*\); "
            r"use ds\(start, size\) or lax.dynamic_slice where the size is fixed, or effx.numpy.where",
            caught.value.message,
        )


@pytest.mark.parametrize(
    ("dtype", "value"), [("uint32", 2**32 - 1), ("uint32", 2**31), ("uint8", 255), ("int8", -128)]
)
def test_ints_at_the_end_of_a_dtype(dtype: str, value: int) -> None:
    """An int that the array's dtype holds is written as it is, whether the default integer holds it or not."""
    x = enp.zeros(2, dtype)
    assert x.at[0].set(value).tolist() == [value, 0]
    assert effx.jit(lambda x: x.at[1].set(value))(x).tolist() == [0, value]
    assert x.at[0].max(value).tolist() == [max(value, 0), 0]
    assert x.at[0].add(value).tolist() == [value, 0]
    assert x.at[np.array([True, False])].set(value).tolist() == [value, 0]


UNRAVELLED = [
    (7, (3, 4)),
    (np.array([[-1, 0], [100, 5]]), (3, 4)),
    (np.int8(3), 5),
    (np.arange(3), (1, 2, 3)),
]


@pytest.mark.parametrize(("indices", "shape"), UNRAVELLED)
def test_unravel_index_of_an_abstract_shape(indices: Any, shape: Any) -> None:
    """It gives what the same shape gives when it is known."""
    total = int(np.prod(shape))
    expected = np.unravel_index(
        np.clip(np.where(np.asarray(indices) < 0, indices + total, indices), 0, total - 1), shape
    )
    for results in (enp.unravel_index(indices, shape), effx.jit(enp.unravel_index)(indices, shape)):
        assert len(results) == len(expected)
        for x, y in zip(results, expected, strict=True):
            np.testing.assert_array_equal(x, y)
            assert x.dtype == enp.asarray(indices).dtype


def test_unravel_index_of_wrong_sizes() -> None:
    """Sizes are integers of rank 0."""
    with pytest.raises(ShapeError) as caught:
        effx.jit(enp.unravel_index)(3, (2.0, 3))
    assert caught.value.message == "unravel_index: a size must be an integer of rank 0, got f32[]~"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("mode", ["clip", "wrap", "ignore", "raise"])
def test_dtypes_of_flat_indices(mode: str, dtype: str) -> None:
    """They have the indices' dtype, or the one that is asked for; "ignore" takes abstract indices as they are."""
    pair = (np.array([0, 1], dtype), np.array([2, 1], dtype))
    flat = enp.ravel_multi_index(pair, (2, 3), mode)
    assert flat.dtype == dtype
    assert flat.tolist() == [2, 4]
    assert enp.ravel_multi_index(pair, (2, 3), mode, "F", dtype="int16").dtype == "int16"
    if mode != "raise":
        jitted = effx.jit(lambda *pair: enp.ravel_multi_index(pair, (2, 3), mode))
        np.testing.assert_array_equal(jitted(*pair), flat)


def test_flat_indices_that_do_not_fit() -> None:
    """A dtype that does not hold the largest index is refused, and so is one that is no integer."""
    pair = (np.ones(1, np.int8), np.ones(1, np.int8))
    calls: list[tuple[Callable[[], object], str]] = [
        (
            lambda: enp.ravel_multi_index(pair, (20, 20)),
            "ravel_multi_index: int8 does not hold the index 399 of shape [20, 20]; give a wider dtype",
        ),
        (
            lambda: enp.ravel_multi_index(pair, (2, 2), dtype="float32"),
            "ravel_multi_index: the dtype must be an integer one, got float32",
        ),
        (
            lambda: enp.ravel_multi_index(pair, (2, 2), "no"),
            "ravel_multi_index: mode must be 'raise', 'clip', 'wrap' or 'ignore' and order 'C' or 'F', got 'no' and 'C'",
        ),
    ]
    for call, text in calls:
        with pytest.raises(EffxError) as caught:
            call()
        assert caught.value.message == text
