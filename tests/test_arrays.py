"""`Array` as a value: conversions, printing, pickling, DLPack, indexing and updates, operators."""

from __future__ import annotations

import copy
import logging
import math
import operator
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import errors
from effx.ir.values.boxes import HostArray
from effx.sharding import NamedSharding, PartitionSpec


def test_repr_and_str() -> None:
    assert repr(enp.arange(3)) == "Array([0, 1, 2], dtype=int32)"
    assert repr(enp.arange(3) * 2.0) == "Array([0., 2., 4.], dtype=float32, weak_type=True)"
    assert repr(enp.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert repr(enp.float32(3)) == "Array(3., dtype=float32)"
    assert repr(enp.array(True)) == "Array(True, dtype=bool)"
    assert repr(enp.ones(2, "bfloat16")) == "Array([1., 1.], dtype=bfloat16)"
    assert str(enp.eye(2)) == "[[1. 0.]\n [0. 1.]]"
    assert f"{enp.float32(1.5):.3f}" == "1.500"


def test_python_numbers() -> None:
    x = enp.float32(2.5)
    assert (float(x), int(x), complex(x), bool(x), x.item()) == (2.5, 2, 2.5 + 0j, True, 2.5)
    assert list(range(enp.int32(3))) == [0, 1, 2]
    assert enp.arange(4).tolist() == [0, 1, 2, 3]
    with pytest.raises(errors.ShapeError) as caught:
        bool(enp.ones(2))
    assert caught.value.message == "bool(x): the truth value of f32[2] is ambiguous; use x.any() or x.all()"
    with pytest.raises(TypeError):
        hash(x)
    assert [int(v) for v in enp.arange(3)] == [0, 1, 2]
    assert len(enp.ones((3, 2))) == 3


def test_weak_references() -> None:
    """To values of each kind, as libraries keep what they have computed of arrays."""
    assert weakref.ref(x := enp.arange(3))() is x
    assert weakref.ref(y := HostArray(2.0, effx.typeof(2.0)))() is y
    gone: list[weakref.ref[Any]] = []

    def f(x: Any) -> Any:
        y = x * x
        gone.append(weakref.ref(y))
        assert gone[-1]() is y
        return y

    effx.jit(f)(3.0)
    effx.grad(f)(3.0)
    assert [r() for r in gone] == [None, None]


def test_numpy_protocol() -> None:
    x = enp.arange(6.0).reshape(2, 3)
    host = np.asarray(x)
    assert host.dtype == np.float32
    assert host.shape == (2, 3)
    assert not host.flags.writeable
    assert np.array(x, dtype="f8").dtype == np.float64
    assert isinstance(np.ones(3, "f4") * enp.ones(3), effx.Array)
    np.testing.assert_array_equal(np.sin(enp.zeros(2)), np.zeros(2))
    data = np.arange(4.0, dtype="f4")
    y = enp.asarray(data)
    data[0] = 100.0
    assert float(y[0]) == 0.0  # the array does not see later writes


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"]
)
def test_pickle_and_copy(dtype: str) -> None:
    x = enp.ones((2, 3), dtype)
    for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), x.copy()):
        assert y.dtype == x.dtype
        assert y.shape == x.shape
        np.testing.assert_array_equal(np.asarray(y), np.asarray(x))
    weak = pickle.loads(pickle.dumps(enp.asarray(1.0)))
    assert weak.weak_type


def test_dlpack_with_numpy() -> None:
    x = enp.arange(5.0)
    np.testing.assert_array_equal(np.from_dlpack(x), np.arange(5.0))
    back = effx.dlpack.from_dlpack(np.arange(6, dtype="i4").reshape(2, 3))
    assert repr(back.type) == "i32[2,3]"
    assert int(back.sum()) == 15
    with pytest.raises(errors.DTypeError) as caught:
        effx.dlpack.from_dlpack([1])
    assert (
        caught.value.message
        == "from_dlpack: expected an object with __dlpack__ and __dlpack_device__, got list"
    )


def test_dlpack_with_torch() -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(4, dtype=torch.float32)
    x = effx.dlpack.from_dlpack(t)
    assert str(x * 2.0) == "[0. 2. 4. 6.]"
    assert torch.from_dlpack(enp.ones(3)).sum().item() == 3.0


def test_asynchronous_results() -> None:
    x = enp.ones((200, 200))
    y = effx.jit(lambda x: x @ x @ x)(x)
    assert y.block_until_ready() is y
    assert y.is_ready()
    assert effx.block_until_ready({"a": y})["a"] is y
    assert float(effx.device_get({"a": y})["a"][0, 0]) == 40000.0


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8"])
def test_operators_against_numpy(function: Any, dtype: str) -> None:
    a = np.array([-7, -3, 0, 1, 5, 9]).astype(dtype)
    b = np.array([2, -2, 3, 4, -5, 3]).astype(dtype)
    if dtype == "uint8":
        b = np.array([2, 1, 3, 4, 5, 3]).astype(dtype)
    expected = function(a, b)
    for x, y in ((enp.asarray(a), enp.asarray(b)), (enp.asarray(a), b), (a, enp.asarray(b))):
        got = function(x, y)
        assert isinstance(got, effx.Array)
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)
    for number in (3, 2):
        np.testing.assert_allclose(
            function(enp.asarray(a), number), function(a, a.dtype.type(number)), rtol=1e-6
        )
        np.testing.assert_allclose(
            function(number, enp.asarray(b)), function(a.dtype.type(number), b), rtol=1e-6
        )


def test_integer_and_bit_operators() -> None:
    a, b = np.array([5, 12, -7], "i4"), np.array([3, 10, 2], "i4")
    x, y = enp.asarray(a), enp.asarray(b)
    for function in (
        operator.and_,
        operator.or_,
        operator.xor,
        operator.lshift,
        operator.rshift,
        operator.pow,
    ):
        np.testing.assert_array_equal(function(x, abs(y)), function(a, abs(b)))
    np.testing.assert_array_equal(~x, ~a)
    np.testing.assert_array_equal(-x, -a)
    np.testing.assert_array_equal(+x, a)
    np.testing.assert_array_equal(divmod(x, y)[0], a // b)
    assert str(enp.array([True, False]) & True) == "[ True False]"


@pytest.mark.unguarded
def test_foreign_operands() -> None:
    x = enp.ones(2)
    with pytest.raises(TypeError):
        x + "a"  # type: ignore[operator]  # the error is the point


class Cursor:
    """Hands on what it does not have itself to an array, as flax's does, and has operators of its own."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getattr__(self, name: str) -> Any:
        return getattr(self.x, name)

    def _answer(self, other: Any) -> str:
        return "mine"

    __radd__ = __rmul__ = __rsub__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rdivmod__ = (
        _answer
    )
    __rmatmul__ = __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _answer


@pytest.mark.unguarded
@pytest.mark.parametrize(
    "name",
    [
        "add",
        "mul",
        "sub",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "and_",
        "or_",
        "xor",
        "lshift",
        "rshift",
        "divmod",
    ],
)
def test_operators_of_foreign_classes(name: str) -> None:
    """What looks like an array only by its attributes gets its own operator called."""
    function = divmod if name == "divmod" else getattr(operator, name)
    for x in (enp.ones(2, "int32"), effx.numpy.float32(1.0)):
        assert function(x, Cursor(enp.ones(2))) == "mine"


INDICES: list[Any] = [
    0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(3, 0, -2), slice(0, 0), None, Ellipsis,
    (0, 1), (slice(None), 2), (Ellipsis, 0), (None, 1, Ellipsis), (slice(1, 3), None, slice(None, None, 2)),
    np.array([0, 2, 1]), np.array([[0, -1], [2, 1]]), (np.array([0, 1]), np.array([2, -1])),
    (slice(None), np.array([1, 1, 0])), (np.array([0, 1]), slice(None), np.array([1, 0])),
    (0, slice(None), np.array([1, 0])), (np.array([[0], [1]]), np.array([0, 2])),
    (slice(0, 2), np.array([2, 0]), slice(None, None, -1)), np.array([True, False, True, True]),
    (slice(None), np.array([False, True, True])), (np.array(1), slice(1, 3)),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_reading_and_writing_against_numpy(index: Any) -> None:
    data = np.arange(4 * 3 * 5, dtype="f4").reshape(4, 3, 5)
    x = enp.asarray(data)
    expected = data[index]
    np.testing.assert_array_equal(x[index], expected)
    np.testing.assert_array_equal(effx.jit(lambda x: x[index])(x), expected)
    methods: dict[str, np.ufunc | None] = {
        "set": None,
        "add": np.add,
        "multiply": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }
    for method, function in methods.items():
        value = np.arange(expected.size, dtype="f4").reshape(expected.shape) - 3
        wanted = data.copy()
        wanted[index] = value if function is None else function(wanted[index], value)
        if _repeats(index):
            if function is None:
                continue  # which one wins is unspecified
            wanted = data.copy()
            function.at(wanted, index, value)  # equal indices count each time
        np.testing.assert_array_equal(getattr(x.at[index], method)(value), wanted)
    assert x.shape == (4, 3, 5)


def _repeats(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(p, np.ndarray) and p.dtype != bool and len(set(p.ravel())) < p.size for p in parts)


@given(
    st.tuples(*[st.slices(n) for n in (4, 3, 5)]),
    st.permutations([0, 1, 2]),
)
def test_slices_against_numpy(index: tuple[slice, ...], perm: list[int]) -> None:
    data = np.arange(60).reshape(4, 3, 5)
    np.testing.assert_array_equal(enp.asarray(data)[index].transpose(perm), data[index].transpose(perm))


def test_out_of_bounds_by_arrays() -> None:
    x = enp.arange(4.0)
    i = enp.array([1, 7, -1, -9])
    assert str(x[i]) == "[1. 3. 3. 0.]"
    assert str(x.at[i].get(mode="fill", fill_value=9.0)) == "[1. 9. 3. 9.]"
    assert str(x.at[i].get(mode="wrap")) == "[1. 3. 3. 3.]"
    assert str(x.at[i].set(5.0)) == "[0. 5. 2. 5.]"
    assert str(x.at[i].add(1.0, mode="clip")) == "[1. 2. 2. 5.]"
    assert str(x.at[x > 1.0].set(0.0)) == "[0. 1. 0. 0.]"
    assert str(effx.jit(lambda x: x.at[x > 1.0].multiply(10.0))(x)) == "[ 0.  1. 20. 30.]"


def test_gradients_of_indexing() -> None:
    x = enp.arange(5.0)
    i = np.array([1, 1, 3])
    assert str(effx.grad(lambda x: (x[i] ** 2).sum())(x)) == "[0. 4. 0. 6. 0.]"
    assert str(effx.grad(lambda x: (x.at[i].add(x[:3]) ** 2).sum())(x)[:2]).startswith("[")
    g = effx.grad(lambda v: (x.at[np.array([0, 2])].set(v) ** 2).sum())(enp.array([3.0, 4.0]))
    assert str(g) == "[6. 8.]"


def test_dtypes_survive() -> None:
    assert (enp.ones(2, "bfloat16") * 2.0).dtype == ml_dtypes.bfloat16
    assert (enp.ones(2, "float16") + enp.ones(2, "float32")).dtype == np.float32
    assert (enp.ones(2, "int8") + 1).dtype == np.int8
    assert (enp.ones(2, "int32") / 2).dtype == np.float32
    assert enp.ones(2).astype("int32").dtype == np.int32
    assert enp.asarray(np.ones(2)).dtype == np.float32
    with effx.enable_x64():
        assert enp.asarray(np.ones(2)).dtype == np.float64
        assert (enp.ones(2, "float32") * 2.0).dtype == np.float32


def test_boxes_have_no_memory() -> None:
    def f(x: Any) -> Any:
        with pytest.raises(errors.ConcretizationError) as caught:
            x.delete()
        assert (
            caught.value.message
            == "x.delete(): only arrays on a device have this, got Traced<f32[]~>with<jit>"
        )
        assert not hasattr(x, "sharding")
        assert getattr(x, "sharding", None) is None
        with pytest.raises(
            errors.TracerAttributeError, match=r"^x.sharding: only arrays .*, got Traced<f32\[\]~>"
        ):
            assert x.sharding
        return x

    effx.jit(f)(1.0)


REDUCTIONS: dict[str, Any] = {
    "sum": lambda f, x: f(x, axis=1, keepdims=True, initial=2, where=x > 1),
    "prod": lambda f, x: f(x, 0, initial=2),
    "max": lambda f, x: f(x, axis=0, initial=-1, where=x < 3),
    "min": lambda f, x: f(x, axis=(0, 1), initial=9, where=x > 2),
    "mean": lambda f, x: f(x, axis=1, keepdims=True, where=x >= 1),
    "std": lambda f, x: f(x, axis=0, ddof=1),
    "var": lambda f, x: f(x, axis=1, where=x >= 1),
    "any": lambda f, x: f(x, axis=1, keepdims=True),
    "all": lambda f, x: f(x, axis=1, where=x > 2),
    "argmax": lambda f, x: f(x, axis=1, keepdims=True),
    "argmin": lambda f, x: f(x, axis=0),
    "cumsum": lambda f, x: f(x, axis=1, dtype=np.float32),
    "cumprod": lambda f, x: f(x, 0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_numpys_reductions_take_arrays(name: str, dtype: Any) -> None:
    """`np.mean(x)` is `x.mean()`, with all of NumPy's options, traced too; so does the method have them."""
    x = np.array([[3, 1, 0], [2, 4, 1]], dtype)
    numpys, options = getattr(np, name), REDUCTIONS[name]
    for f in (lambda f, x: f(x), options):
        want = np.asarray(f(numpys, x))
        for got in (
            f(numpys, enp.asarray(x)),
            f(lambda y, *args, **kwargs: getattr(y, name)(*args, **kwargs), enp.asarray(x)),
            effx.jit(lambda y, f=f: f(numpys, y))(x),
        ):
            assert isinstance(got, effx.Array)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.unguarded
@pytest.mark.parametrize("name", REDUCTIONS)
def test_numpys_reductions_do_not_write(name: str) -> None:
    """NumPy's `out` is there to be None."""
    with pytest.raises(errors.ShapeError, match=rf"^{name}: arrays are immutable, so out= is not supported"):
        getattr(np, name)(enp.ones(2), out=np.zeros(()))


@pytest.mark.unguarded
@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit], ids=["eager", "jit"])
def test_errors_of_methods_come_through_numpys_functions(wrap: Any) -> None:
    """A TypeError NumPy would take for a method that is not there, and compute on a copy of its own."""
    x = enp.ones((3, 4))
    for call, text in (
        (lambda x: np.argmax(x, axis=5), "argmax: axis 5 is out of range"),
        (lambda x: np.reshape(x, (5,)), "reshape: "),
        (lambda x: np.transpose(x, (5,)), "transpose: "),
        (lambda x: np.cumsum(x, axis=2), "cumsum: axis 2 is out of range"),
    ):
        with pytest.raises(errors.ShapeError, match=f"^{text}"):
            wrap(call)(x)


@pytest.mark.parametrize(
    ("read", "wanted"),
    [
        (lambda x, i: x[i], lambda x, i: x[i]),
        (lambda x, i: x[i : i + 5], lambda x, i: x[i : i + 5]),
        (lambda x, i: x[i, 1], lambda x, i: x[i, 1]),
        (lambda x, i: x[:, i % 3], lambda x, i: x[:, i % 3]),
        (lambda x, i: enp.roll(x, i), lambda x, i: np.roll(x, i)),
        (lambda x, i: enp.roll(x, i, 0), lambda x, i: np.roll(x, i, 0)),
    ],
)
def test_indices_share_compiled_code(
    read: Any, wanted: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index is an operand of an eager operation: two hundred of them compile what one does."""
    monkeypatch.setattr(
        "effx.handlers.evaluate.handler.NUMPY_CALLS", 0
    )  # else NumPy answers, and XLA compiles later
    effx.clear_caches()
    host = np.arange(777.0, dtype=np.float32).reshape(259, 3)
    x = enp.asarray(host)
    for i in (1, 254):
        read(x, i)
    caplog.clear()
    with effx.log_compiles(), caplog.at_level(logging.WARNING, "effx"):
        for i in range(2, 202):
            y = read(x, i)
            if i in (2, 201):
                np.testing.assert_array_equal(y, wanted(host, i))
    assert caplog.messages == []


def test_iteration_shares_compiled_code(caplog: pytest.LogCaptureFixture) -> None:
    """Every element is read by the same kernel."""
    x = enp.arange(1009)
    with effx.log_compiles(), caplog.at_level(logging.WARNING, "effx"):
        assert [int(v) for v in x] == list(range(1009))
    assert sum(["Finished XLA compilation" in message for message in caplog.messages]) <= 2


def test_indices_out_of_range_stay_errors() -> None:
    """A Python int outside of an axis is refused, though a computed start would be moved."""
    x = enp.arange(5)
    with pytest.raises(
        errors.IndexingError, match=r"^getitem: index 5 is out of range for axis 0 of i32\[5\] with size 5"
    ):
        x[5]
    with pytest.raises(
        errors.ShapeError, match=r"^slice: axis 0 of i32\[5\] has no slice from 3 to 6 in steps of 1"
    ):
        effx.lax.slice(x, (3,), (6,))


def test_many_arrays_are_joined_in_groups(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of arrays compile a few concatenations of a bounded number of operands."""
    rows = [enp.full((2,), i) for i in range(3001)]
    with effx.log_compiles(), caplog.at_level(logging.WARNING, "effx"):
        y = enp.stack(rows)
        z = enp.concatenate(rows)
    np.testing.assert_array_equal(y, np.repeat(np.arange(3001), 2).reshape(-1, 2))
    np.testing.assert_array_equal(z, np.repeat(np.arange(3001), 2))
    assert sum(["Finished XLA compilation" in message for message in caplog.messages]) < 10


METHODS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "byteswap": (lambda x: x.byteswap(), lambda x: x.byteswap()),
    "choose": (
        lambda x: (x > 3).astype("int32").choose([x, 10 * x], mode="clip"),
        lambda x: (x > 3).astype("int32").choose([x, 10 * x]),
    ),
    "compress": (
        lambda x: x.compress(np.array([True, False, True]), 0, size=2),
        lambda x: x.compress([True, False, True], 0),
    ),
    "dot": (lambda x: x.dot(x.T, precision="highest"), lambda x: x.dot(x.T)),
    "nonzero": (lambda x: x.nonzero(size=11)[1], lambda x: x.nonzero()[1]),
    "ptp": (lambda x: x.ptp(1), lambda x: np.ptp(x, 1)),
    "repeat": (
        lambda x: x.repeat(np.array([2, 0, 1]), 0, total_repeat_length=3),
        lambda x: x.repeat([2, 0, 1], 0),
    ),
    "searchsorted": (lambda x: x.ravel().searchsorted(4.5), lambda x: x.ravel().searchsorted(4.5)),
    "std": (lambda x: x.std(correction=1), lambda x: x.std(ddof=1)),
    "take": (
        lambda x: x.take(np.array([0, 2]), 1, None, "clip", unique_indices=True, indices_are_sorted=True),
        lambda x: x.take([0, 2], 1),
    ),
    "trace": (lambda x: x.trace(dtype="int32"), lambda x: x.trace(dtype="int32")),
    "var": (lambda x: x.var(0, correction=0.5), lambda x: x.var(0, ddof=0.5)),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    """Methods give what NumPy's give, eagerly and under jit."""
    ours, theirs = METHODS[name]
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    want = theirs(data)
    for got in (ours(enp.asarray(data)), effx.jit(ours)(data)):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


def test_members() -> None:
    x = enp.asarray(np.array([3.0, 1.0, 2.0], np.float32))
    assert x.argpartition(0)[0] == 1
    assert (3.0 in x, 9.0 in x) == (True, False)
    assert enp.ones(3, "int8").sum(promote_integers=False).dtype == np.int8
    assert x.view() is x
    assert x.argmax(keepdims=None).shape == ()
    assert x.addressable_data(0).tolist() == x.tolist()
    assert (x.is_fully_addressable, x.is_fully_replicated, len(x.global_shards)) == (True, True, 1)


def test_promises_reach_xla() -> None:
    """Sorted and unique indices are promised to the gather, and to the scatter of its gradient; what is out of bounds is
    dropped there, because it would be moved to an element that another index may have."""

    def total(x: Any, i: Any) -> Any:
        return enp.take(x, i, unique_indices=True, indices_are_sorted=True).sum()

    x, i = enp.arange(3.0), np.array([2, 7])
    assert "indices_are_sorted = true" in effx.jit(total).lower(x, i).as_text()
    slope = effx.jit(effx.grad(total))
    assert "unique_indices = true" in slope.lower(x, i).as_text()
    assert slope(x, i).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: x.flat, "x.flat: arrays are immutable; use x.ravel()"),
        pytest.param(
            lambda x: x.view(type=int),
            "x.view: there are no classes of arrays to choose from, got type=<class 'int'>",
            marks=pytest.mark.unguarded,
        ),
        (
            lambda x: enp.add(x, x, out=x),  # type: ignore[call-arg]  # refused by type checkers too
            "add: out is not supported: arrays are immutable; use effx.numpy.where to choose between results",
        ),
        (
            lambda x: enp.negative(x, where=x > 0),  # type: ignore[call-arg]  # as above
            "negative: where is not supported: arrays are immutable; use effx.numpy.where to choose between results",
        ),
    ],
)
def test_what_arrays_refuse(call: Callable[[Any], object], text: str) -> None:
    with pytest.raises((TypeError, NotImplementedError)) as caught:
        call(enp.ones(2))
    assert str(caught.value).splitlines()[0] == text


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "float16", "bfloat16", "float32", "complex64", "bool", "int4"]
)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 3)])
def test_bytes(dtype: str, shape: tuple[int, ...]) -> None:
    x = enp.asarray(np.arange(math.prod(shape)).reshape(shape) % 7, dtype)
    data = np.asarray(x)
    assert bytes(x) == x.tobytes() == data.tobytes()
    assert x.tobytes("F") == data.tobytes("F")
    np.testing.assert_array_equal(np.frombuffer(x.tobytes(), data.dtype).reshape(shape), data)


def test_bytes_of_what_is_abstract() -> None:
    with pytest.raises(effx.errors.ConcretizationError, match=r"x\.tobytes\(\)"):
        effx.jit(lambda x: x.tobytes())(1.0)
    with pytest.raises(effx.errors.ConcretizationError, match=r"bytes\(x\)"):
        effx.jit(bytes)(enp.arange(3))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "float16", "bfloat16", "float32"])
def test_round(dtype: str) -> None:
    """As of Python's numbers: integers where no digits are asked for, the dtype where they are."""
    x = enp.asarray([0.5, 1.5, 2.25, 7.0], dtype)
    given = np.asarray(x, np.float64)
    for f in (round, effx.jit(round), effx.vmap(round)):
        rounded = f(x)
        assert rounded.dtype == np.int32
        np.testing.assert_array_equal(rounded, [round(v) for v in given])
    assert round(x, 0).dtype == round(x, 1).dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(round(x, 0), np.float64), np.round(given))
    with effx.enable_x64():
        assert round(x).dtype == np.int64


def test_copies_to_the_host_start_for_other_leaves_that_can() -> None:
    """A library's own array with the method takes part; what has none, and values of transformations, stay as they are."""

    class Lazy:
        started = 0

        def copy_to_host_async(self) -> None:
            self.started += 1

    lazy, other = Lazy(), object()
    tree = [other, 1, lazy, enp.ones(2)]
    assert effx.copy_to_host_async(tree) is tree
    assert lazy.started == 1
    assert effx.jit(effx.copy_to_host_async)(enp.ones(2)).tolist() == [1.0, 1.0]


def test_device_put_to_where_an_array_is_gives_the_array() -> None:
    mesh = effx.make_mesh((2,), ("x",))
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    x = effx.device_put(enp.arange(4), sharding)
    assert effx.device_put(x, sharding) is x
    assert effx.device_put(x, NamedSharding(mesh, PartitionSpec())) is not x
    assert effx.device_put(x) is x
