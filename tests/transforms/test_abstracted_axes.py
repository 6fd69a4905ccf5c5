"""Functions whose sizes have names give what they give for known sizes, compiled once for each bucket of sizes."""

from __future__ import annotations

import copy
import functools
import gc
import logging
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import attrs
import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import effx
import effx.numpy as enp
from effx import errors, lax
from effx.errors import EffxError, NoRuleError, ShapeError, TransformError, TreeError

Data = npt.NDArray[Any]
F32 = np.float32
SIZES = (1, 2, 3, 7, 8, 9, 100)
W = np.random.default_rng(1).normal(size=(4, 4)).astype(F32) / 3


def softmax(x: Data) -> Data:
    e = np.exp(x - x.max(0))
    found: Data = e / e.sum(0)
    return found


def recurrence(x: Data) -> tuple[Data, Data]:
    h, states = np.zeros(4, F32), []
    for row in x:
        h = np.tanh(row + h @ W)
        states.append(h)
    return h, np.stack(states)


def recurrent(x: effx.Array) -> Any:
    def step(h: effx.Array, row: effx.Array) -> tuple[effx.Array, effx.Array]:
        h = enp.tanh(row + h @ W)
        return h, h

    return lax.scan(step, enp.zeros(4), x)


# Functions of f32[n,4], with what NumPy gives.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "elementwise": (lambda x: enp.sin(x) * 2, lambda x: np.sin(x) * 2),
    "mean": (lambda x: x.mean(0), lambda x: x.mean(0)),
    "all": (lambda x: {"var": x.var(), "n": x.shape[0]}, lambda x: {"var": x.var(), "n": len(x)}),
    "softmax": (lambda x: effx.nn.softmax(x, 0), softmax),
    "cumsum": (lambda x: enp.cumsum(x, 0), lambda x: np.cumsum(x, 0)),
    "sort": (lambda x: enp.sort(x, 0), lambda x: np.sort(x, 0)),
    "products": (lambda x: (x.T @ x, x @ x.T), lambda x: (x.T @ x, x @ x.T)),
    "scan": (recurrent, recurrence),
    "append": (lambda x: enp.concatenate([x, enp.ones((1, 4))]), lambda x: np.concatenate([x, np.ones((1, 4))])),
    "twice": (lambda x: enp.concatenate([x, -x]), lambda x: np.concatenate([x, -x])),
    "rest": (lambda x: (x[1:], x[:-1]), lambda x: (x[1:], x[:-1])),
    "grad": (effx.grad(lambda x: (x.mean(0) ** 2).sum()), lambda x: np.tile(x.mean(0) * 2 / len(x), (len(x), 1))),
    "vmap": (effx.vmap(lambda r: r / r.sum()), lambda x: x / x.sum(1, keepdims=True)),
    "flat": (lambda x: x.reshape(-1)[::-1], lambda x: x.reshape(-1)[::-1]),
    "without": (lambda x: enp.arange(3), lambda x: np.arange(3)),
}  # fmt: skip


def check(found: Any, expected: Any, tolerance: float = 3e-5) -> None:
    """The same structure, shapes and values."""
    leaves, form = effx.tree.flatten(expected)
    got, of_found = effx.tree.flatten(found)
    assert of_found == form
    for y, want in zip(got, leaves, strict=True):
        assert isinstance(y, effx.Array)
        assert y.shape == np.shape(want)
        np.testing.assert_allclose(np.asarray(y), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_for_all_sizes(name: str) -> None:
    """The values of NumPy, and one compilation for each of the three buckets."""
    function, oracle = FUNCTIONS[name]
    f = effx.jit(function, abstracted_axes={0: "n"})
    for n in SIZES:
        x = np.random.default_rng(n).normal(size=(n, 4)).astype(F32)
        check(f(x), oracle(x))
    assert cache_size(f) == 3


def cache_size(f: Callable[..., object]) -> int:
    """How many kinds of calls C++ knows."""
    size: Callable[[], int] = getattr(f, "_cache_size")  # noqa: B009  # a name of JAX's, not in the type
    return size()


DTYPES: tuple[npt.DTypeLike, ...] = (
    np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int32, np.uint8, np.bool_, np.complex64,
    ml_dtypes.int4,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_dtypes(dtype: npt.DTypeLike) -> None:
    """Elements are copied bit by bit, there and back."""
    f = effx.jit(lambda x: (x[::-1], enp.concatenate([x, x]), x.shape[0]), abstracted_axes=("n",))
    for n in (3, 8):
        x = (np.random.default_rng(n).normal(size=n) * 3).astype(dtype)
        back, both, count = f(enp.asarray(x))
        assert back.dtype == both.dtype == x.dtype
        assert np.asarray(back).tobytes() == x[::-1].tobytes()
        assert np.asarray(both).tobytes() == np.concatenate([x, x]).tobytes()
        assert int(count) == n


def test_keys() -> None:
    """Arrays of random keys, and draws of varying sizes."""
    f = effx.jit(lambda keys: (keys[::-1], effx.vmap(effx.random.uniform)(keys)), abstracted_axes=("n",))
    for n in (3, 5):
        keys = effx.random.split(effx.random.key(1), n)
        back, draws = f(keys)
        np.testing.assert_array_equal(effx.random.key_data(back), effx.random.key_data(keys)[::-1])
        np.testing.assert_array_equal(draws, effx.vmap(effx.random.uniform)(keys))
    assert cache_size(f) == 1
    draw = effx.jit(lambda key, x: x + effx.random.normal(key, x.shape), abstracted_axes=(None, ("n",)))
    for n in (3, 5):
        wanted = effx.random.normal(effx.random.key(0), (n,))
        np.testing.assert_array_equal(draw(effx.random.key(0), np.zeros(n, F32)), wanted)
    permuted = effx.jit(lambda x: effx.random.permutation(effx.random.key(2), x), abstracted_axes=("n",))
    for n in (5, 1625, 1626):  # which are sorted once, once and twice
        x = np.arange(n)
        np.testing.assert_array_equal(permuted(x), effx.random.permutation(effx.random.key(2), x))


def test_one_compilation_for_each_bucket(caplog: pytest.LogCaptureFixture) -> None:
    """Five programs for the sizes from 1 to 100, whatever kind of array comes."""
    traces = 0

    @effx.jit(abstracted_axes={0: "n"})
    def mean(x: Any) -> Any:
        nonlocal traces
        traces += 1
        return x.mean()

    with effx.log_compiles(), caplog.at_level(logging.WARNING, "effx"):
        for n in range(1, 101):
            x = np.arange(n, dtype=F32)
            assert float(mean(x if n % 2 else enp.asarray(x))) == (n - 1) / 2
    assert sum(["compilation of jit(mean)" in record.message for record in caplog.records]) == traces == 5
    assert cache_size(mean) == 5
    mean.clear_cache()
    assert cache_size(mean) == 0
    mean(enp.ones(4))
    assert traces == 6


def test_two_names() -> None:
    """A product of matrices; the shared size is checked, and each pair of buckets is compiled once."""
    dot = effx.jit(lambda x, y: x @ y, abstracted_axes=(("n", "k"), {0: "k", -1: "m"}))
    for n, k, m in [(1, 2, 3), (8, 8, 8), (3, 1, 7), (9, 2, 1), (12, 5, 3)]:
        x, y = [np.random.default_rng(n).normal(size=shape).astype(F32) for shape in ((n, k), (k, m))]
        check(dot(x, y), x @ y)
    assert cache_size(dot) == 2


random_program = effx.jit(
    lambda x, y: {
        "a": [enp.concatenate([x.mean(0), y]), x.T - y[:, None]],
        "b": (enp.sort(x.reshape(-1)), x.sum(), y[::2]),
    },
    abstracted_axes=(("n", "m"), ("m",)),
)


@hypothesis.given(st.integers(1, 18), st.integers(0, 12))
def test_random_sizes(n: int, m: int) -> None:
    """Two sizes, 0 among them, in a tree of results."""
    x, y = np.random.default_rng(n).normal(size=(n, m)).astype(F32), np.arange(m, dtype=F32)
    found = random_program(x, y)
    check(
        found,
        {
            "a": [np.concatenate([x.mean(0), y]), x.T - y[:, None]],
            "b": (np.sort(x.reshape(-1)), x.sum(), y[::2]),
        },
        1e-4,
    )


def test_sizes_of_zero() -> None:
    """They are compiled as they are: a mask has at least one element."""
    f = effx.jit(lambda x: (x.sum(), x + 1), abstracted_axes={0: "n"})
    check(f(np.zeros((0, 2), F32)), (np.float32(0), np.zeros((0, 2), F32)))
    with pytest.raises(
        ShapeError, match="n is 0 by argument 0 of two axis 0, and 2 by argument 1 of two axis 0"
    ):
        effx.jit(two, abstracted_axes={0: "n"})(enp.ones(0), enp.ones(2))


def test_texts_of_sizes() -> None:
    """A name may be the text of a size."""
    f = effx.jit(lambda x, y: x.reshape(2, -1).sum(0) + y, abstracted_axes=(("2*n",), ("n",)))
    for n in (1, 3, 9):
        x, y = np.arange(2 * n, dtype=F32), np.ones(n, F32)
        check(f(x, y), x.reshape(2, -1).sum(0) + y)
    assert cache_size(f) == 2


def test_what_is_known_in_a_bucket() -> None:
    """Sizes of a bucket are larger than half of the padded one, so that choices between them are made."""

    @effx.jit(abstracted_axes={0: "n"})
    def f(x: Any) -> Any:
        return x[5] if x.shape[0] > 8 else x[0]

    assert [float(f(np.arange(n, dtype=F32))) for n in (1, 8, 9, 40)] == [0, 0, 5, 5]


def test_small_sizes_on_which_a_program_depends() -> None:
    """Where the smallest bucket knows too little of its sizes, there are smaller ones."""
    traced = []

    @effx.jit(abstracted_axes={0: "n"})
    def f(x: Any) -> Any:
        traced.append(x.shape[0] * 1 >= 2)
        return lax.top_k(x, 2)[0] if x.shape[0] > 1 else x

    for n in (20, 8, 1, 2, 3, 4, 5, 7, 30):
        x = np.arange(n, dtype=F32)
        check(f(x), x[::-1][:2])
    assert traced == [True, True, False, True, True]
    with pytest.raises(errors.IndexingError):
        effx.jit(lambda x: x[5], abstracted_axes={0: "n"})(np.ones(3, F32))


@attrs.frozen
class Layer:
    """A node of a tree."""

    w: Any
    b: Any

    @effx.jit(abstracted_axes=(None, {0: "n"}))
    def apply(self, x: Any) -> Any:
        """Binds as functions do."""
        return x @ self.w + self.b


def test_methods_and_trees() -> None:
    """Prefixes of the arguments, down to single arrays."""
    layer = Layer(W, np.ones(4, F32))
    for n in (2, 5):
        x = np.random.default_rng(n).normal(size=(n, 4)).astype(F32)
        check(layer.apply(x), x @ W + 1)
    f = effx.jit(
        lambda d, k: {"sum": d["x"][0] + d["x"][1], "y": d["y"] * k},
        abstracted_axes=({"x": {0: "n"}, "y": (None, "m")}, None),
    )
    for n, m in [(2, 3), (7, 1)]:
        x, y = np.arange(n, dtype=F32), np.ones((2, m), F32)
        check(f({"x": (x, x), "y": y}, 2.0), {"sum": 2 * x, "y": 2 * y})
    assert cache_size(f) == 1
    one: Any = effx.jit(lambda x, y: x + y, abstracted_axes=[["n"], ["n"]])
    check(one(np.ones(3, F32), np.ones(3, F32)), np.full(3, 2, F32))


def test_static_arguments() -> None:
    """By number and name; the entry of one is None."""

    @functools.partial(effx.jit, static_argnums=0, static_argnames="scale", abstracted_axes=(None, {0: "n"}))
    def f(axis: int, x: effx.Array, scale: float = 1.0) -> effx.Array:
        assert type(axis) is int
        return x.sum(axis) * scale

    for n in (2, 6):
        x = np.arange(3 * n, dtype=F32).reshape(n, 3)
        check(f(0, x), x.sum(0))
        check(f(1, x, scale=2.0), x.sum(1) * 2)
    assert cache_size(f) == 2


def test_types_are_those_of_known_sizes() -> None:
    """Dtypes and weakness too."""

    def f(x: effx.Array, k: Any) -> Any:
        return x.shape[0], x * k, 3, x.sum(), x * x.shape[0]

    x = enp.ones(3, "float16")
    padded, exact = effx.jit(f, abstracted_axes=(("n",), None))(x, 2.0), effx.jit(f)(x, 2.0)
    assert [effx.typeof(y) for y in padded] == [effx.typeof(y) for y in exact]


def test_under_handlers_sizes_are_known() -> None:
    """Derivatives, batches and programs of a function with named sizes are those of the function."""

    def f(x: Any) -> Any:
        return (enp.sort(x) * enp.arange(x.shape[0])).mean()

    g = effx.jit(f, abstracted_axes={0: "n"})
    x = np.asarray([3.0, 1.0, 2.0], F32)
    check(effx.grad(g)(x), np.asarray([2, 0, 1], F32) / 3)
    check(effx.vmap(g)(np.stack([x, x])), np.full(2, 8 / 3, F32))
    check(effx.jit(lambda x: g(x) + 1)(x), F32(8 / 3 + 1))
    assert str(effx.make_jaxpr(g)(x)) == str(effx.make_jaxpr(effx.jit(f))(x))
    assert cache_size(g) == 0
    with effx.disable_jit():
        check(g(x), F32(8 / 3))


def test_flags_that_look_at_values() -> None:
    """Padding is never read."""
    f = effx.jit(lambda x: 1 / x, abstracted_axes={0: "n"})
    x = np.ones(3, F32)
    with effx.debug_infs(True):
        check(f(enp.asarray(x)), x)
    given = enp.asarray(x)
    with effx.transfer_guard("disallow"):
        f(given)


def test_devices() -> None:
    """Results are on the device that arguments are committed to."""
    device = effx.devices()[-1]
    f = effx.jit(lambda x: x * 2, abstracted_axes={0: "n"})
    y = f(effx.device_put(np.ones(3, F32), device))
    assert (y.device, y.committed) == (device, True)
    assert not f(np.ones(3, F32)).committed


def test_references() -> None:
    """A call with a mutable reference is one of known sizes."""
    f = effx.jit(lambda r, x: r.addupdate(x.sum()), abstracted_axes=(None, ("n",)))
    r = effx.new_ref(enp.zeros(()))
    f(r, np.ones(3, F32))
    assert float(r[...]) == 3


def test_programs() -> None:
    """They have the names in their types."""
    f = effx.jit(lambda x, k: enp.concatenate([x, x]) * k, abstracted_axes=(("n",), None))
    expected = """<lambda>(a: f32[n], b: f32[]~) {
  c: f32[2*n] = concatenate[axis=0] a a
  d: f32[2*n] = mul c b
  return d
}"""
    traced = f.trace(enp.ones(3), 2.0)
    assert str(traced.program).strip() == expected
    assert str(traced.out_info) == "ShapeDtypeStruct(shape=(2*n,), dtype=float32)"
    assert f.eval_shape(effx.ShapeDtypeStruct((3,), F32), 2.0).shape == (6,)
    with pytest.raises(errors.BackendError) as caught:
        f.lower(enp.ones(3), 2.0).compile()
    assert caught.value.message == (
        "lower: <lambda> has symbolic sizes (f32[n]), and XLA compiles for known ones; effx.export.export makes one module "
        "for all sizes"
    )
    staged = effx.make_jaxpr(lambda x, k: enp.concatenate([x, x]) * k, abstracted_axes=(("n",), None))
    assert str(staged(enp.ones(3), 2.0)).strip() == expected
    program, shape = effx.stage(two, (0,), return_shape=True, abstracted_axes=(None, {0: "n"}))(
        2, np.ones((3, 2))
    )
    assert str(program).splitlines()[0] == "two(a: f32[n,2]) {"
    assert shape.shape == effx.typeof(shape).shape


@effx.jit(abstracted_axes={0: "n"})
def doubled(x: effx.Array) -> effx.Array:
    """Two for one."""
    return x * 2


def test_functions_stay_functions() -> None:
    """Names, pickles and copies; a dropped function is freed."""
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Two for one.")
    assert pickle.loads(pickle.dumps(doubled)) is doubled is copy.deepcopy(doubled)
    held: Any = lambda x: x + 1  # noqa: E731
    f = effx.jit(held, abstracted_axes={0: "n"})
    assert f.__wrapped__ is held
    f(enp.ones(3))
    there = weakref.ref(held)
    del f, held
    gc.collect()
    assert there() is None


def two(x: Any, y: Any) -> Any:
    """A sum."""
    return x + y


KINDS = "a dict {axis: name}, a tuple of names and None, None"
NOTE = (
    "jit: abstracted_axes runs f for many sizes at once, on arrays padded to n = 8; a size without a name is known, and f "
    "compiled for each of its values"
)
ONES = np.ones((3, 4), F32)


def axes(names: Any, *args: Any, **options: Any) -> Callable[[], object]:
    def f(x: Any = 1.0, y: Any = 2.0) -> Any:
        return x + y

    return lambda: effx.jit(f, abstracted_axes=names, **options)(*args)


def padded(f: Callable[[Any], Any], x: Any = ONES) -> Callable[[], object]:
    f.__name__ = "f"
    return lambda: effx.jit(f, abstracted_axes={0: "n"})(x)


ERRORS: list[tuple[Callable[[], object], type[EffxError], str, str]] = [
    (
        axes({0: "n"}, ONES, np.ones((5, 4), F32)),
        ShapeError,
        "jit: n is 3 by argument 0 of f axis 0, and 5 by argument 1 of f axis 0",
        "",
    ),
    (
        axes(({0: "n"}, {1: "2*n + 1"}), ONES, ONES),
        ShapeError,
        "jit: argument 1 of f axis 1 has size 4, which must be 2*n + 1, that is 7, with n = 3",
        "",
    ),
    (
        axes(({0: "2*n"}, None), ONES, ONES),
        ShapeError,
        "jit: argument 0 of f axis 0 has size 3, which must be 2*n: 3 is not divisible by 2, so no n gives it",
        "",
    ),
    (
        axes(({2: "n"}, None), {"a": ONES}, 1.0),
        ShapeError,
        "jit: abstracted_axes names axis 2 of argument 0['a'] of f, which is f32[3,4] with 2 axes",
        "",
    ),
    (
        axes({0: 5}, ONES),
        TransformError,
        "jit: abstracted_axes names sizes by strings, got 5 of type int for axis 0 of argument 0 of f",
        "",
    ),
    (
        axes({0: "n-"}, ONES),
        TransformError,
        (
            "jit: abstracted_axes has 'n-' for axis 0 of argument 0 of f: symbolic size: expected a number, a variable or a "
            "function, got 'the end', at position 2 of 'n-'"
        ),
        "",
    ),
    (
        axes({0: "n", -2: "m"}, ONES),
        TransformError,
        "jit: abstracted_axes has two names for axis -2 of argument 0 of f: {0: 'n', -2: 'm'}",
        "",
    ),
    (
        axes("n", ONES),
        TransformError,
        f"jit: abstracted_axes must be {KINDS}, or a tuple with an entry for each argument, got 'n'",
        "",
    ),
    (
        axes(({0: "n"}, "m"), ONES, ONES),
        TransformError,
        f"jit: abstracted_axes must be {KINDS}, got 'm' for argument 1 of f",
        "",
    ),
    (
        axes(({0: "n"},), ONES, ONES),
        TransformError,
        "jit: abstracted_axes has 1 entries, but f got 2 positional arguments",
        "",
    ),
    (
        axes(([{0: "n"}], None), (ONES, ONES), 1.0),
        TreeError,
        (
            f"jit: abstracted_axes must be {KINDS}, or a pytree prefix of the arguments: tree.broadcast_prefix: at [0] the "
            f"prefix is a list, the full tree a tuple"
        ),
        "",
    ),
    (
        axes(({0: "n"}, {0: "n"}), ONES, 2, static_argnums=1),
        TransformError,
        "jit: abstracted_axes must be None for a static argument, got {0: 'n'} for argument 1 of f",
        "",
    ),
    (
        lambda: effx.jit(two, abstracted_axes={0: "n"})(ONES, y=ONES),
        TransformError,
        (
            "jit: abstracted_axes is for positional arguments, and two got the keyword argument y; pass by position "
            "what is not static"
        ),
        "",
    ),
    (
        lambda: effx.make_jaxpr(two, abstracted_axes={0: "n"})(x=ONES, y=ONES),
        TransformError,
        (
            "make_jaxpr: abstracted_axes is for positional arguments, and two got the keyword arguments x, y; pass by "
            "position what is not static"
        ),
        "",
    ),
    (
        axes({0: "n"}, ONES, donate_argnums=0),
        TransformError,
        (
            "jit: f has both donated arguments and abstracted_axes, for which arguments are copied to padded arrays, so "
            "that no result could have their memory; leave out one of them"
        ),
        "",
    ),
    (
        padded(lambda x: "x"),
        errors.DTypeError,
        "jit: f must return arrays, numbers, or pytrees of them, got 'x' of type str",
        "",
    ),
    (
        padded(lambda x: enp.fft.fft(x, axis=0)),
        NoRuleError,
        "mask: fft of a padded axis has no meaning that one compilation could have",
        NOTE,
    ),
    (
        padded(lambda x: x[5], np.ones(6, F32)),
        errors.InconclusiveDimensionOperation,
        (
            "symbolic size: whether n > 5 depends on the values of n; a constraint may say it: symbolic_shape(..., "
            "constraints=['n >= 6'])"
        ),
        NOTE,
    ),
    (
        padded(lambda x: enp.ones((5, 3)) @ x),
        ShapeError,
        "matmul: contracting sizes differ: lhs f32[5,3] axis 1 is 3, rhs f32[n,4] axis 0 is n",
        NOTE,
    ),
    (
        padded(lambda x: x[x.shape[0] - x.shape[0] % 4 :]),
        NoRuleError,
        (
            "mask: the size -4*floordiv(n, 4) + n is 0 for the padded n = 8, and larger for smaller lengths; only sizes "
            "that grow with the lengths fit padded arrays"
        ),
        NOTE,
    ),
]  # fmt: skip


@pytest.mark.unguarded  # no annotation allows some of these
@pytest.mark.parametrize(("bad", "kind", "text", "note"), ERRORS)
def test_errors(bad: Callable[[], object], kind: type[EffxError], text: str, note: str) -> None:
    """Each names the mistake and its source line."""
    with pytest.raises(kind) as caught:
        bad()
    assert caught.value.message == text
    assert getattr(caught.value, "__notes__", []) == ([note] if note else [])
