"""Mutable references outside of transformations: what they hold, by all indices, and what ends them."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import ref
from effx.errors import BackendError, DTypeError, IndexingError, RefError, RefGivenError, ShapeError

DTYPES = ("bool", "int8", "uint32", "int32", "float16", "bfloat16", "float32", "complex64")
INDICES: list[Any] = [
    (),
    ...,
    0,
    -1,
    (1, 2),
    (-1, ...),
    slice(1, None),
    (slice(None, None, -1), slice(0, 3, 2)),
    (None, 1),
    np.asarray([2, 0, 2]),
    (np.asarray([0, 1]), np.asarray([3, 1])),
    (slice(1), np.asarray([[0], [1]])),
    np.asarray([True, False, True]),
    [0, 2],
    np.int64(1),
    True,
    (slice(0, 0),),
]


def matrix() -> np.ndarray[Any, Any]:
    return np.arange(12, dtype=np.int32).reshape(3, 4)


def closed_over(f: Callable[[], object]) -> object:
    """Calls a function inside a jitted one."""
    return effx.jit(f)()


@pytest.mark.parametrize("run", [lambda f: f(), closed_over], ids=["eager", "jit"])
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indices_are_numpys(index: Any, run: Callable[[Callable[[], object]], Any]) -> None:
    """Reading, writing and swapping at an index do what NumPy does, eagerly and in a program that closes over the ref."""
    r, x = effx.new_ref(matrix()), matrix()
    if isinstance(index, list):
        index = (index,)  # NumPy and arrays take a list alone, within a tuple both do
    np.testing.assert_array_equal(run(lambda: r[index]), x[index])
    before = x[index].copy()
    np.testing.assert_array_equal(run(lambda: ref.swap(r, index, 50)), before)
    x[index] = 50
    np.testing.assert_array_equal(r[...], x)

    def change() -> None:
        r[index] = enp.arange(before.size, dtype="int32").reshape(before.shape)
        r[index] += 1

    run(change)
    x[index] = np.arange(before.size).reshape(before.shape)
    x[index] += 1
    np.testing.assert_array_equal(r[...], x)


@pytest.mark.parametrize("run", [lambda f: f(), closed_over], ids=["eager", "jit"])
def test_addupdate_adds_where_an_index_comes_twice(run: Callable[[Callable[[], object]], Any]) -> None:
    """As NumPy's add.at."""
    index, r, x = np.asarray([1, 0, 1]), effx.new_ref(np.zeros(3, np.float32)), np.zeros(3, np.float32)
    run(lambda: ref.addupdate(r, index, enp.asarray([1.0, 2.0, 4.0])))
    np.add.at(x, index, [1.0, 2.0, 4.0])
    np.testing.assert_array_equal(r[...], x)
    run(lambda: r.addupdate(10))
    np.testing.assert_array_equal(r[...], x + 10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_contents_keep_their_dtype(dtype: str) -> None:
    """Numbers take the ref's dtype, and the result of reading is strong."""
    r = effx.new_ref(enp.ones((2, 0, 3), dtype))
    assert (r.shape, r.dtype.name, r.ndim, r.size, len(r)) == ((2, 0, 3), dtype, 3, 0, 2)
    s = effx.new_ref(enp.zeros((), dtype))
    s[...] = True if dtype == "bool" else 1
    assert not s[...].weak_type
    assert s[()].dtype == s.dtype == np.dtype(s.dtype)
    assert complex(ref.get(s)) == 1


def test_numbers_become_strong() -> None:
    """A ref made of a Python number has its dtype, as jax's."""
    assert effx.new_ref(1.5).dtype == np.float32
    assert effx.new_ref(1).aval.inner_aval == effx.typeof(enp.int32(0))
    assert not effx.new_ref(1)[...].weak_type


def test_keys_can_be_held() -> None:
    """Keys are arrays."""
    key = effx.random.key(0)
    r = effx.new_ref(key)

    @effx.jit
    def draw() -> effx.Array:
        r[...], mine = effx.random.split(r[...])
        return effx.random.uniform(mine)

    after, first = effx.random.split(key)
    assert float(draw()) == float(effx.random.uniform(first))
    assert float(draw()) == float(effx.random.uniform(effx.random.split(after)[1]))


def test_views_are_parts() -> None:
    """What is written to a view of a view is written to the ref; a view's type is that of its part."""
    r, x = effx.new_ref(matrix()), matrix()
    view = r.at[1:].at[0]
    assert (view.shape, str(view.aval)) == ((4,), "Ref{i32[4]}")
    view[1:3] = 70
    view.at[0].addupdate(5)
    effx.jit(lambda i: view.__setitem__(i, 9))(3)
    x[1] = [x[1, 0] + 5, 70, 70, 9]
    np.testing.assert_array_equal(r[...], x)
    np.testing.assert_array_equal(view[...], x[1])
    assert repr(view) == "Ref{i32[3,4]}.at[slice(1, None, None)].at[0]"


def test_reading_and_making_copy() -> None:
    """An array that was read before a write, or passed to new_ref, does not change."""
    x = enp.arange(3)
    r = effx.new_ref(x)
    before = r[...]
    r[0] = 9
    assert [before.tolist(), x.tolist(), r[...].tolist()] == [[0, 1, 2], [0, 1, 2], [9, 1, 2]]


def test_refs_look_like_what_they_hold() -> None:
    """repr, iteration, types; equality is identity."""
    r = effx.new_ref(matrix())
    assert repr(r) == "Ref([[ 0,  1,  2,  3],\n     [ 4,  5,  6,  7],\n     [ 8,  9, 10, 11]], dtype=int32)"
    assert [row.tolist() for row in r] == matrix().tolist()
    assert repr(r.aval) == "Ref{i32[3,4]}"
    assert (r.aval.shape, r.aval.ndim, r.aval.size, r.aval.dtype.name) == ((3, 4), 2, 12, "int32")
    assert r != effx.new_ref(matrix())
    assert len({r, effx.new_ref(1)}) == 2
    assert r.sharding == r[...].sharding
    assert r.committed is False
    assert r.unsafe_buffer_pointer() == r[...].unsafe_buffer_pointer()
    assert effx.new_ref(0, kind="no_grad_no_remat").aval.kind == "no_grad_no_remat"
    shown = []
    effx.jit(lambda x: shown.append(repr(effx.new_ref(x))))(1.0)
    assert shown == ["Ref{f32[]}"]
    assert effx.empty_ref(effx.ShapeDtypeStruct((2,), "int8"))[...].tolist() == [0, 0]


def test_copies_are_other_references() -> None:
    """By copy and pickle, with what is held now."""
    r = effx.new_ref(enp.arange(2))
    for other in (copy.copy(r), copy.deepcopy(r), pickle.loads(pickle.dumps(r))):
        other[0] = 9
        assert (r[...].tolist(), other[...].tolist()) == ([0, 1], [9, 1])


def test_threads_see_what_others_wrote() -> None:
    """A ref is one thing for all threads."""
    r = effx.new_ref(enp.zeros(4))
    threads = [threading.Thread(target=lambda i=i: r.__setitem__(i, i + 1.0)) for i in range(4)]
    for thread in threads:
        thread.start()
        thread.join()
    assert r[...].tolist() == [1.0, 2.0, 3.0, 4.0]


def made() -> ref.Ref:
    return effx.new_ref(enp.zeros(3, "int32"))


def ended(end: Callable[[ref.Ref], object]) -> ref.Ref:
    r = made()
    end(r)
    return r


REF: ref.Ref = made()
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "lossy": (
        lambda: made().__setitem__(0, 2.5),
        DTypeError,
        "ref: a value f32[]~ does not go into a Ref i32[3] without loss; convert it with astype",
    ),
    "shape": (
        lambda: made().__setitem__(slice(1, None), enp.zeros(3, "int32")),
        ShapeError,
        "setitem: i32[3] does not broadcast to shape [2]",
    ),
    "out of range": (
        lambda: made()[3],
        IndexingError,
        "getitem: index 3 is out of range for axis 0 of i32[3] with size 3",
    ),
    "no index": (
        lambda: effx.jit(lambda: REF[1.5])(),
        IndexingError,
        "ref: an index must be an int, slice, None, Ellipsis or array, got 1.5",
    ),
    "no slice": (
        lambda: effx.jit(lambda: REF[1.5:])(),
        IndexingError,
        "ref: an index must be an int, slice, None, Ellipsis or array, got slice(1.5, None, None)",
    ),
    "frozen": (
        lambda: ended(effx.freeze)[...],
        RefError,
        "Ref{i32[3]}: the ref was frozen; it cannot be used any more",
    ),
    "freed": (
        lambda: ended(effx.free_ref).__setitem__(0, 1),
        RefError,
        "Ref{i32[3]}: the ref was freed; it cannot be used any more",
    ),
    "frozen twice": (
        lambda: effx.freeze(ended(effx.freeze)),
        RefError,
        "Ref{i32[3]}: the ref was frozen; it cannot be used any more",
    ),
    "no ref": (
        lambda: ref.get(enp.zeros(3)),  # type: ignore[arg-type]  # the error is the point
        RefError,
        "get: expected a Ref, got Array([0., 0., 0.], dtype=float32) of type ConcreteArray",
    ),
    "operand": (
        lambda: enp.sin(made()),  # type: ignore[call-overload]  # the error is the point
        RefGivenError,
        "ref: a Ref i32[3] stands where an array is expected; read what it holds with ref[...], or close over it",
    ),
    "numpy": (
        lambda: np.asarray(made()),
        RefError,
        "numpy.asarray(ref): a Ref i32[3] is no array; read it with ref[...]",
    ),
    "truth": (
        lambda: bool(made()),
        RefError,
        "bool(ref): a Ref i32[3] has no truth value; read it with ref[...]",
    ),
    "length": (
        lambda: len(effx.new_ref(1.0)),
        ShapeError,
        "len(ref): a Ref f32[] has no axes, and so no length",
    ),
    "of a ref": (
        lambda: effx.new_ref(made()),  # type: ignore[arg-type]  # the error is the point
        RefGivenError,
        "ref: a Ref i32[3] stands where an array is expected; read what it holds with ref[...], or close over it",
    ),
    "kind": (
        lambda: effx.new_ref(1.0, kind="other"),  # type: ignore[arg-type]  # the error is the point
        RefError,
        "new_ref: kind must be None or 'no_grad_no_remat', got 'other'",
    ),
    "memory": (
        lambda: effx.new_ref(1.0, memory_space="host"),  # type: ignore[arg-type]  # the error is the point
        BackendError,
        "new_ref: memory_space must be None, got 'host'",
    ),
    "pin": (
        lambda: effx.new_ref(1.0, pin=True),
        BackendError,
        "new_ref: contents are arrays, which XLA places; leave out pin=True",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    """By its whole text, at the user's line."""
    call, kind, message = REFUSED[name]
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message  # type: ignore[attr-defined]  # all are EffxErrors
    assert caught.value.at.startswith("test_refs.py:")  # type: ignore[attr-defined]  # as above


def test_the_type_of_a_reference() -> None:
    ref = effx.new_ref(np.zeros(3, "f4"))
    t: Any = effx.typeof(ref)
    assert repr(t) == "Ref{f32[3]}"
    assert t.inner_aval is effx.typeof(np.zeros(3, "f4"))
