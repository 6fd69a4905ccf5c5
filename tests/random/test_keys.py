"""Typed and raw keys of the three generators: values, arrays of keys, and what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

import effx
import effx.numpy as enp
from effx import dtypes, lax, random
from effx.array import Array
from effx.errors import DTypeError
from effx.handlers.oracle import Reference
from effx.handling import handle
from effx.ir.ops.compare import Eq
from effx.ir.ops.convert import Convert
from effx.ir.text import parse_program, print_program

IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")
each = pytest.mark.parametrize("impl", IMPLEMENTATIONS)
# Words that are NaN, infinite or denormal where two of them are read as a float.
WORDS = np.array([[0, 0x7FF00001, 1, 0xFFF00001], [1, 0, 0xFFFFFFFF, 0xFFFFFFFF]], np.uint32)


def words(x: Array) -> np.ndarray[Any, Any]:
    return np.asarray(random.key_data(x) if dtypes.is_key(x.dtype) else x)


@each
def test_values_are_those_of_jax(impl: str) -> None:
    """Seeds, splits, folds, bits and some samples, of typed and of raw keys."""
    jax = pytest.importorskip("jax")

    def same(ours: Array, theirs: Any) -> None:
        if jax.numpy.issubdtype(theirs.dtype, jax.dtypes.prng_key):
            assert dtypes.short_name(ours.dtype) == str(theirs.dtype)
            assert ours.shape == theirs.shape
            theirs = jax.random.key_data(theirs)
        np.testing.assert_allclose(words(ours), np.asarray(theirs), rtol=3e-5 if theirs.dtype == "f" else 0)
        assert words(ours).dtype == theirs.dtype

    with effx.default_prng_impl(impl), jax.default_prng_impl(impl):  # type: ignore[arg-type]  # one of the names
        for seed in (0, -3, 2**31):
            same(random.key(seed), jax.random.key(seed))
            same(random.PRNGKey(seed), jax.random.PRNGKey(seed))
        for make, other in ((random.key, jax.random.key), (random.PRNGKey, jax.random.PRNGKey)):
            ours, theirs = make(7), other(7)
            for num in (1, 3, (2, 3), ()):
                same(random.split(ours, num), jax.random.split(theirs, num))
            same(random.fold_in(ours, 5), jax.random.fold_in(theirs, 5))
            same(random.permutation(ours, 10), jax.random.permutation(theirs, 10))
            same(random.randint(ours, (10,), 0, 100), jax.random.randint(theirs, (10,), 0, 100))
            for width in (8, 16, 32):
                args = (3, 2), f"uint{width}"
                same(random.bits(ours, *args), jax.random.bits(theirs, *args))
        several = random.split(random.key(7), 4), jax.random.split(jax.random.key(7), 4)
        draw = effx.vmap(lambda k: random.bits(k, (3,)))(several[0])
        same(draw, jax.vmap(lambda k: jax.random.bits(k, (3,)))(several[1]))
        a = np.float32(2.5)
        found = random.gamma(random.key(7), a, (3,)), jax.random.gamma(jax.random.key(7), a, (3,))
        np.testing.assert_allclose(*found, rtol=3e-5)


@each
def test_names(impl: str) -> None:
    key = random.key(1, impl=impl)
    assert random.key_impl(key) == impl
    assert key.dtype == random.key_dtype(impl) == random.key(2, dtype=key.dtype).dtype
    assert random.key_dtype(key) == key.dtype
    assert words(random.wrap_key_data(words(key), dtype=impl)).tolist() == words(key).tolist()
    assert random.clone(key) is key
    assert (key.shape, key.itemsize * 8) == ((), dtypes.bits(key.dtype))
    assert dtypes.issubdtype(key.dtype, dtypes.prng_key)
    assert key.dtype.type is dtypes.prng_key
    assert issubclass(dtypes.prng_key, dtypes.extended)
    assert pickle.loads(pickle.dumps(key.dtype)).type is dtypes.prng_key
    assert not dtypes.issubdtype(key.dtype, np.number)
    with effx.default_prng_impl(impl):  # type: ignore[arg-type]  # one of the names
        assert random.key(1).dtype == random.key_dtype() == key.dtype
        assert random.PRNGKey(1).tolist() == words(key).tolist()
        assert random.key_impl(random.PRNGKey(1)) == impl


@each
def test_arrays_of_keys(impl: str) -> None:
    """Whatever moves elements moves keys, with all their bits."""
    data = np.repeat(WORDS[None, :, : dtypes.KEYS[impl].itemsize // 4], 3, 0)
    data[1:] += np.arange(1, 3, dtype=np.uint32)[:, None, None]
    keys = random.wrap_key_data(data, impl=impl)
    assert keys.type is effx.jit(lambda k: k)(keys).type
    where = np.array([True, False])
    moves: list[tuple[Callable[[Array], Array], np.ndarray[Any, Any]]] = [
        (lambda k: k, data),
        (lambda k: k.T, data.transpose(1, 0, 2)),
        (lambda k: k.reshape(6), data.reshape(6, -1)),
        (lambda k: k[1], data[1]),
        (lambda k: k[:, np.array([1, 1])], data[:, [1, 1]]),
        (lambda k: k[::-1, None], data[::-1, None]),
        (lambda k: enp.stack([k[0], k[2]]), data[[0, 2]]),
        (lambda k: enp.concatenate([k, k[:1]]), np.concatenate([data, data[:1]])),
        (lambda k: enp.where(where, k, k[::-1]), np.where(where[:, None], data, data[::-1])),
        (lambda k: enp.broadcast_to(k, (2, 3, 2)), np.broadcast_to(data, (2, *data.shape))),
        (lambda k: k.at[0].set(k[1]), data[[1, 1, 2]]),
        (lambda k: effx.vmap(lambda x: x[0], in_axes=1)(k), data[0]),
        (lambda k: lax.scan(lambda c, x: (x, c), k[0], k)[1], data[[0, 0, 1]]),
        (lambda k: lax.cond(k.shape[0] == 3, lambda x: x[::-1], lambda x: x, k), data[::-1]),
        (lambda k: lax.dynamic_slice(k, (1, 0), (2, 1)), data[1:, :1]),
        (lambda k: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1][::-1]), (0, k))[1], data),
        (lambda k: effx.device_put(k), data),
        (copy.copy, data),
        (lambda k: lax.stop_gradient(k), data),
    ]
    for move, want in moves:
        np.testing.assert_array_equal(words(move(keys)), want)
        np.testing.assert_array_equal(words(effx.jit(move)(keys)), want)
    np.testing.assert_array_equal(words(pickle.loads(pickle.dumps(keys))), data)
    np.testing.assert_array_equal(keys.host("test")[dtypes.short_name(keys.dtype)], data)


@each
def test_transformations(impl: str) -> None:
    """Keys pass through scans and gradients; each step and batch element has its own."""
    key = random.key(3, impl=impl)
    keys = random.split(key, 3)
    _, drawn = lax.scan(lambda c, k: (random.fold_in(c, 1), random.normal(k)), key, keys)
    assert drawn.tolist() == [random.normal(k).tolist() for k in keys]

    def loss(x: Array, k: Array) -> Array:
        one, two = random.split(k)
        return (random.normal(one, (3,)) * x + random.uniform(two)).sum()

    x = enp.float32(2.0)
    want = random.normal(random.split(key)[0], (3,)).sum()
    np.testing.assert_allclose(effx.grad(loss)(x, key), want, rtol=1e-6)
    np.testing.assert_allclose(effx.jit(effx.grad(loss))(x, key), want, rtol=1e-6)
    # The batch draws at once, but each of its elements something else.
    batched = np.asarray(effx.vmap(lambda k: random.uniform(k, (1000,)))(keys))
    assert stats.kstest(batched.ravel(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(batched) - np.eye(3)).max() < 0.15


def test_programs_with_keys_are_text() -> None:
    program = effx.make_jaxpr(lambda k: random.split(k)[0])(random.key(0, impl="rbg"))
    text = print_program(program)
    assert "key<rbg>[]" in text
    assert print_program(parse_program(text)) == text


def test_compiled_functions_tell_keys_from_numbers() -> None:
    """Numbers as wide as keys, and keys of different generators, do not meet each other's executables."""
    with effx.enable_x64(True):
        same = effx.jit(lambda x: x)
        rbg, unsafe = [random.key(5, impl=impl) for impl in ("rbg", "unsafe_rbg")]
        fry, wide = random.key(5), enp.asarray(5, "uint64")
        weak: list[Any] = [wide.at[()].get(), enp.asarray(1j), Convert(dtypes.uint64, True)(wide)]
        for x in [*weak, rbg, 2j, unsafe, fry, wide] * 3:
            assert same(x).dtype == getattr(x, "dtype", np.complex128)


def test_printing() -> None:
    assert repr(random.key(7)) == "Array((), dtype=key<fry>) overlaying:\n[0 7]"
    assert str(random.key(7, impl="rbg")) == "[0 7 0 7]"


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_distribution(impl: str) -> None:
    key = random.key(11, impl=impl)
    assert stats.kstest(np.asarray(random.normal(key, (5000,))), stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(np.asarray(random.gamma(key, 2.5, (2000,))), stats.gamma(2.5).cdf).pvalue > 1e-3
    keys = random.split(key, 2000)
    first = np.asarray(random.key_data(keys))[:, 0] / 2**32
    assert stats.kstest(first, "uniform").pvalue > 1e-3


NAMES = "threefry2x32, rbg, unsafe_rbg"
KEY = random.key(0)
ERRORS: list[tuple[Callable[[], object], str]] = [
    (lambda: random.key(0, impl="x"), f"key: impl must be one of {NAMES}, or a dtype of keys, got 'x'"),
    (lambda: random.key(0, impl="rbg", dtype="rbg"), "key: takes impl or dtype, got both"),
    (
        lambda: random.key_dtype(np.dtype("uint32")),
        f"key_dtype: impl must be one of {NAMES}, or a dtype of keys, got dtype('uint32')",
    ),
    (
        lambda: random.wrap_key_data(np.zeros((3, 4), np.uint32)),
        "wrap_key_data: words of threefry2x32 keys are u32[..., 2], got u32[3,4]",
    ),
    (
        lambda: random.key_data(np.zeros((3, 4), np.uint32)),
        "key_data: takes typed keys, or the words u32[..., 2], got u32[3,4]",
    ),
    (
        lambda: random.split(random.split(KEY)),
        "split: takes one key, got key<fry>[2]; use vmap for many keys",
    ),
    (
        lambda: random.bits(np.zeros(4, np.uint32)),
        "bits: takes a key as random.key gives it, or its words u32[2], got u32[4]",
    ),
    (
        lambda: KEY.astype(np.float32),
        "convert: key<fry>[] does not become f32; keys are made of words by random.wrap_key_data, "  # noqa: ISC004
        "and give them by random.key_data",
    ),
    (lambda: KEY.view(np.uint64), "bitcast: key<fry>[] cannot be read as u64: the words of keys are u32"),
    (
        lambda: -KEY,
        "neg: operand must be integer, floating or complex, got key<fry>[]",
    ),
    (lambda: KEY + 1, "promote: key<fry> is a dtype of random keys, which take no part in arithmetic"),
]


@pytest.mark.parametrize(("call", "text"), ERRORS)
def test_errors(call: Callable[[], object], text: str) -> None:
    with effx.enable_x64(True), pytest.raises(DTypeError) as caught:
        call()
    assert str(caught.value).splitlines()[0] == text


EQUALITIES: list[tuple[Callable[[Any, Any], Array], bool]] = [
    (lambda a, b: a == b, True),
    (lambda a, b: a != b, False),
    (enp.equal, True),
    (enp.not_equal, False),
    (lambda a, b: lax.eq(*enp.broadcast_arrays(a, b)), True),
    (lambda a, b: lax.ne(*enp.broadcast_arrays(a, b)), False),
]


@each
def test_equality(impl: str) -> None:
    """Keys are equal where all their words are, whatever floats these would be; in jit, vmap, loops and NumPy."""
    many = np.concatenate(
        [WORDS, WORDS ^ np.array([1, 0, 0, 0], np.uint32), WORDS ^ np.array([0, 0, 0, 1], np.uint32)]
    )
    data = many if impl != "threefry2x32" else many[:, [0, 3]]
    keys = random.wrap_key_data(data, impl=impl)
    table = (data[:, None] == data[None]).all(-1)
    for compare, same in EQUALITIES:
        expected = table if same else ~table
        for f in (compare, effx.jit(compare)):
            found = f(keys[:, None], keys[None])
            assert found.dtype == bool
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(
            effx.vmap(effx.vmap(compare, (None, 0)), (0, None))(keys, keys), expected
        )
        np.testing.assert_array_equal(lax.map(partial(compare, keys), keys), expected)
        assert compare(keys[0], keys[0]).shape == ()
        assert bool(compare(keys[0], keys[0])) is same
        assert compare(keys[:0], keys[0]).shape == (0,)
        with handle(Reference()):
            np.testing.assert_array_equal(compare(keys[:, None], keys[None]), expected)
    assert bool(enp.array_equal(keys, keys))
    assert bool((random.split(keys[0]) != keys[0]).all())


def test_what_keys_are_not_compared_with() -> None:
    """Keys of other generators, words and numbers are refused; other things are never equal; there is no order."""
    rbg = random.key(0, impl="rbg")
    for other in (rbg, random.key_data(KEY), 0):
        with pytest.raises(DTypeError, match=r"^promote: key<\w+> is a dtype of random keys"):
            other == KEY  # noqa: B015
    with pytest.raises(DTypeError, match=r"^eq: keys of different generators: key<fry>\[\], key<rbg>\[\]"):
        Eq()(KEY, rbg)
    with pytest.raises(DTypeError, match=r"^lt: operand must be boolean, .*, got key<fry>\[\]"):
        KEY < KEY  # noqa: B015
    assert (KEY == "a") is False
    assert (KEY != None) is True  # noqa: E711


@pytest.mark.parametrize("algorithm", list(lax.RandomAlgorithm))
def test_bit_generators(algorithm: lax.RandomAlgorithm) -> None:
    """Bits and the next state are jax's, inside jit as outside; the state goes on where it was."""
    jax = pytest.importorskip("jax")
    state = np.array([1, 2, 3, 4], np.uint32)
    draw = effx.jit(lambda s: lax.rng_bit_generator(s, (3, 2), np.uint32, algorithm))
    ours = draw(state)
    theirs = jax.lax.rng_bit_generator(
        state, (3, 2), algorithm=getattr(jax.lax.RandomAlgorithm, algorithm.name)
    )
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(x, y)
    again = lax.rng_bit_generator(ours[0], (3, 2), np.uint32, algorithm)
    assert not np.array_equal(again[1], ours[1])


def test_numbers_from_a_hidden_state() -> None:
    """Within the bounds, of their dtype, and others each time."""
    low, high = np.float32(2.0), np.float32(3.0)
    first, second = [np.asarray(lax.rng_uniform(low, high, (1000,))) for _ in range(2)]
    assert first.dtype == np.float32
    assert not np.array_equal(first, second)
    assert (
        stats.kstest(first, "uniform", (2, 1)).pvalue > 1e-9
    )  # its state is hidden, so that draws differ from run to run
    assert set(np.asarray(lax.rng_uniform(0, 3, (100,))).tolist()) == {0, 1, 2}


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_that_are_constants(impl: Any) -> None:
    """A key that is made, or closed over, where a function is staged is the same key in the program."""
    outside = random.key(7, impl=impl)

    def made() -> Any:
        return random.key_data(random.key(7, impl=impl)), random.uniform(random.key(7, impl=impl), (3,))

    def closed_over() -> Any:
        return random.key_data(outside), random.uniform(outside, (3,))

    def in_loop() -> Any:
        first, rest = lax.scan(lambda c, _: (c + 0, made()), 0, None, length=2)[1]
        return first[1], rest[1]

    want = [np.asarray(x) for x in made()]
    for f in (
        effx.jit(made),
        effx.jit(closed_over),
        effx.jit(in_loop),
        effx.jit(lambda: lax.cond(True, made, made)),
    ):
        for found, wanted in zip(f(), want, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.unguarded
@pytest.mark.parametrize("make", [random.PRNGKey, lambda seed: random.key_data(random.key(seed))])
@pytest.mark.parametrize("seed", [3, -3, 2**31 + 99, -(2**31) - 101, 2**40 + 3, 2**63 - 1, -(2**63)])
def test_the_lowest_words_of_numpys_seeds_count(make: Callable[..., Any], seed: int) -> None:
    """They are no numbers that 32 bits would change, so that 64 bits are taken, as of a Python int."""
    for x64 in (False, True):
        with effx.enable_x64(x64):
            words = [(seed >> 32) % 2**32 if x64 else 0, seed % 2**32]
            for number in (seed, np.int64(seed), np.asarray(seed), np.uint64(seed % 2**64)):
                np.testing.assert_array_equal(make(number), words)
