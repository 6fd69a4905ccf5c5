"""Tangents of integers, of dtype float0, go through every transformation and come out as NumPy arrays, as in JAX."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import export, flags, lax
from effx.dtypes import float0
from effx.errors import DTypeError
from effx.sharding import PartitionSpec as P

X = np.ones(3, np.float32)
N = np.arange(3, dtype=np.int32)
ZERO = np.zeros(3, float0)


def whole(x: Any) -> Any:
    """A function of floats that gives integers."""
    return (x * 2).astype(enp.int32)


def twice(n: Any) -> Any:
    return n * 2


def as_any(f: Any) -> Any:
    """A function whose type takes other tangents than float0."""
    return f


def push(x: Any) -> Any:
    """A value and its tangent of dtype float0."""
    return effx.jvp(whole, (x,), (x,))


def push_integer(n: Any, t: Any) -> Any:
    """A function of integers, whose tangents are float0 too."""
    return effx.jvp(twice, (n,), (t,))


gradients = effx.grad(lambda n, x: enp.sum(n * x), argnums=(0, 1), allow_int=True)
mesh = effx.make_mesh((1,), ("i",), axis_types=(effx.sharding.AxisType.Auto,))


def check(result: Any, expected: Any) -> None:
    """Compares a result with arrays; those of float0 must be NumPy's."""
    got, wanted = effx.tree.leaves(result), effx.tree.leaves(expected)
    assert len(got) == len(wanted)
    for x, y in zip(got, wanted, strict=True):
        assert np.shape(x) == np.shape(y)
        if y.dtype == float0:
            assert type(x) is np.ndarray
            assert x.dtype == float0
        else:
            np.testing.assert_array_equal(x, y)


TWO = np.full(3, 2, np.int32)
BATCH = np.zeros((2, 3), float0)

PLACES: dict[str, tuple[Callable[[], Any], Any]] = {
    "jvp": (lambda: push(X), (TWO, ZERO)),
    "jit": (lambda: effx.jit(push)(X), (TWO, ZERO)),
    "vmap": (lambda: effx.vmap(push)(X), (TWO, ZERO)),
    "jit of vmap": (lambda: effx.jit(effx.vmap(push))(X), (TWO, ZERO)),
    "vmap of jit": (lambda: effx.vmap(effx.jit(push))(X), (TWO, ZERO)),
    "vmap of a constant result": (
        lambda: effx.vmap(lambda x: effx.jvp(lambda x: 3, (x,), (x,))[1])(X),
        ZERO,
    ),
    "jit of a tangent": (lambda: effx.jit(push_integer)(N, ZERO), (2 * N, ZERO)),
    "vmap of a tangent": (lambda: effx.vmap(push_integer)(N, ZERO), (2 * N, ZERO)),
    "vmap of one tangent": (
        lambda: effx.vmap(push_integer, (0, None))(N, np.zeros((), float0)),
        (2 * N, ZERO),
    ),
    "vmap out of another axis": (lambda: effx.vmap(lambda t: t, 0, 1)(BATCH), np.zeros((3, 2), float0)),
    "vmap without a batch": (
        lambda: effx.vmap(lambda t, x: (t, x), (None, 0))(np.zeros(2, float0), X),
        (np.zeros((3, 2), float0), X),
    ),
    "an empty array": (lambda: effx.jit(lambda t: t)(np.zeros((0, 3), float0)), np.zeros((0, 3), float0)),
    "a captured array": (lambda: effx.jit(lambda x: (x, ZERO))(X), (X, ZERO)),
    "a captured scalar": (
        lambda: effx.jit(lambda x: (x, np.zeros((), float0)))(X),
        (X, np.zeros((), float0)),
    ),
    "vjp of an integer result": (lambda: effx.vjp(whole, X)[1](ZERO), (np.zeros(3),)),
    "jit of a pullback": (lambda: effx.jit(effx.vjp(whole, X)[1])(ZERO), (np.zeros(3),)),
    "jit of a scalar's pullback": (
        lambda: effx.jit(as_any(effx.vjp(lambda x: 3, 1.0)[1]))(np.zeros((), float0)),
        (np.zeros(()),),
    ),
    "vmap of a pullback": (lambda: effx.vmap(effx.vjp(whole, X)[1])(BATCH), (np.zeros((2, 3)),)),
    "jit of an integer's pullback": (lambda: effx.jit(effx.vjp(lambda n: n * 2.0, N)[1])(X), (ZERO,)),
    "vmap of an integer's pullback": (
        lambda: effx.vmap(effx.vjp(lambda n: n * 2.0, N)[1])(np.ones((2, 3), np.float32)),
        (BATCH,),
    ),
    "linearize": (lambda: effx.jit(effx.linearize(whole, X)[1])(X), ZERO),
    "vmap of linearize": (lambda: effx.vmap(as_any(effx.linearize(twice, N)[1]))(BATCH), BATCH),
    "grad": (lambda: gradients(N, X), (ZERO, N)),
    "jit of grad": (lambda: effx.jit(gradients)(N, X), (ZERO, N)),
    "vmap of grad": (
        lambda: effx.vmap(gradients)(np.stack([N, N]), np.stack([X, X])),
        (BATCH, np.stack([N, N])),
    ),
    "vmap of grad by an unbatched argument": (
        lambda: effx.vmap(gradients, (None, 0))(N, np.stack([X, X])),
        (BATCH, np.stack([N, N])),
    ),
    "grad of jit": (
        lambda: effx.grad(effx.jit(lambda n, x: enp.sum(n * x)), (0, 1), allow_int=True)(N, X),
        (ZERO, N),
    ),
    "grad by a key": (
        lambda: effx.vmap(effx.grad(effx.random.uniform, allow_int=True))(
            effx.random.split(effx.random.key(0), 3)
        ),
        ZERO,
    ),
    "jacfwd of an integer result": (lambda: effx.jacfwd(whole)(X), np.zeros((3, 3), float0)),
    "jit of jacfwd": (lambda: effx.jit(effx.jacfwd(whole))(X), np.zeros((3, 3), float0)),
    "jacrev by an integer": (
        lambda: effx.jacrev(lambda n: n * 2.0, allow_int=True)(N),
        np.zeros((3, 3), float0),
    ),
    "scan's outputs": (lambda: lax.scan(lambda c, x: (c, push(x)), 0.0, X)[1], (TWO, ZERO)),
    "scan's inputs": (
        lambda: lax.scan(lambda c, a: (c, push_integer(*a)), 0.0, (N, ZERO))[1],
        (2 * N, ZERO),
    ),
    "scan's carry": (lambda: lax.scan(lambda c, x: (c, x), ZERO, X), (ZERO, X)),
    "map": (lambda: lax.map(push, X), (TWO, ZERO)),
    "while_loop": (
        lambda: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0], c[1] + 1), (ZERO, 0)),
        (ZERO, np.int32(3)),
    ),
    "fori_loop": (lambda: lax.fori_loop(0, 3, lambda i, c: c, ZERO), ZERO),
    "cond": (lambda: lax.cond(True, push, push, X), (TWO, ZERO)),
    "cond's operand": (
        lambda: effx.jit(lambda p: lax.cond(p, lambda t: t, lambda t: t, ZERO))(True),
        ZERO,
    ),
    "switch": (lambda: lax.switch(1, [lambda t: t] * 3, ZERO), ZERO),
    "checkpoint": (lambda: effx.checkpoint(push)(X), (TWO, ZERO)),
    "pmap": (lambda: effx.pmap(push)(X[:1]), (TWO[:1], ZERO[:1])),
    "pmap of a tangent": (lambda: effx.pmap(lambda t: t)(ZERO[:1]), ZERO[:1]),
    "pmap of grad": (lambda: effx.pmap(gradients)(N[None], X[None]), (ZERO[None], N[None])),
    "shard_map": (
        lambda: effx.shard_map(push, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(X),
        (TWO, ZERO),
    ),
    "shard_map of a tangent": (
        lambda: effx.shard_map(lambda t: t, mesh=mesh, in_specs=P(), out_specs=P())(ZERO),
        ZERO,
    ),
    "jit of shard_map of grad": (
        lambda: effx.jit(effx.shard_map(gradients, mesh=mesh, in_specs=P("i"), out_specs=P("i")))(N, X),
        (ZERO, N),
    ),
    "a donated tangent": (lambda: effx.jit(lambda t, n: (t, n), donate_argnums=0)(ZERO, N), (ZERO, N)),
    "a compiled function": (
        lambda: effx.jit(lambda t, x: (t, x)).lower(ZERO, X).compile()(ZERO, X),
        (ZERO, X),
    ),
    "a tangent beside a committed array": (
        lambda: effx.jit(lambda t, x: (t, x))(ZERO, effx.device_put(X, effx.devices()[-1])),
        (ZERO, X),
    ),
    "shape and dtype": (
        lambda: effx.jit(lambda t: (t.reshape(3, 1), enp.concatenate([t, t]), t[0], enp.stack([t, t])))(ZERO),
        (np.zeros((3, 1), float0), np.zeros(6, float0), np.zeros((), float0), BATCH),
    ),
    "asarray": (lambda: (enp.asarray(ZERO), enp.array(ZERO), effx.device_put(ZERO)), (ZERO, ZERO, ZERO)),
    "array_equal": (lambda: enp.array_equal(ZERO, ZERO), np.array(True)),
    "pure_callback": (
        lambda: effx.pure_callback(
            lambda t: np.array(t.dtype == float0), effx.ShapeDtypeStruct((), bool), ZERO
        ),
        np.array(True),
    ),
}


@pytest.mark.unguarded  # outside of programs float0 is NumPy's, which no annotation says
@pytest.mark.parametrize("place", PLACES)
def test_float0_goes_through(place: str) -> None:
    """Wherever integers have tangents, outside of programs these are NumPy arrays of float0 in the right shape."""
    call, expected = PLACES[place]
    check(call(), expected)


def test_float0_under_a_custom_vjp() -> None:
    """A rule may give float0 for an integer, under vmap and jit too."""

    @effx.custom_vjp
    def times(x: Any, n: Any) -> Any:
        return x * n

    times.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n, np.zeros((), float0)))
    batched = effx.vmap(effx.grad(times, argnums=(0, 1), allow_int=True))
    check(batched(X, N), (N.astype(np.float32), ZERO))
    check(effx.jit(batched)(X, N), (N.astype(np.float32), ZERO))


def test_float0_on_several_devices() -> None:
    """Each device has a part of the shape: parallel maps and shardings take and give float0."""
    many = effx.make_mesh((4,), ("i",), axis_types=(effx.sharding.AxisType.Auto,))
    x, zero = np.arange(8, dtype=np.float32), np.zeros(8, float0)
    pair = effx.shard_map(lambda t, y: (t, push(y)), mesh=many, in_specs=P("i"), out_specs=P("i"))
    for call in (pair, effx.jit(pair)):
        check(call(zero, x), (zero, (2 * np.arange(8, dtype=np.int32), zero)))
    check(
        effx.pmap(lambda t, y: (t, y))(zero.reshape(4, 2), x.reshape(4, 2)),
        (zero.reshape(4, 2), x.reshape(4, 2)),
    )
    sharding = effx.NamedSharding(many, P("i"))
    check(effx.jit(lambda t: t, out_shardings=sharding)(zero), zero)
    check(effx.jit(push)(effx.device_put(x, sharding))[1], zero)


SETTINGS: dict[str, Callable[[], Any]] = {
    "disable_jit": effx.disable_jit,
    "enable_checks": lambda: flags.enable_checks(True),
    "debug_nans": lambda: flags.debug_nans(True),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_float0_under_settings(setting: str) -> None:
    """The checks of results let float0 pass."""
    with SETTINGS[setting]():
        check(effx.jit(gradients)(N, X), (ZERO, N))
        check(effx.vmap(gradients)(N[None], X[None]), (ZERO[None], N[None]))
        check(lax.scan(lambda c, t: (c, t), ZERO, ZERO), (ZERO, ZERO))
        check(lax.fori_loop(0, 3, lambda i, c: c, ZERO), ZERO)
        check(lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0], c[1] + 1), (ZERO, 0))[0], ZERO)
        check(lax.map(lambda t: t, ZERO), ZERO)


def test_float0_is_exported() -> None:
    """Results, operands and constants of float0 go through an exported program and its bytes."""
    for f, args, expected in (
        (gradients, (N, X), (ZERO, N)),
        (lambda t, x: (t, x), (ZERO, X), (ZERO, X)),
        (lambda x: (x, ZERO), (X,), (X, ZERO)),
    ):
        exported = export.export(effx.jit(f))(*args)
        check(exported.call(*args), expected)
        check(export.deserialize(exported.serialize()).call(*args), expected)


def test_bool_and_float0_are_other_signatures() -> None:
    """C++, which sees that both are stored as bool, runs no program of one on the other."""
    kinds = []

    def count(x: Any) -> Any:
        kinds.append(x.dtype == float0)
        return x.shape[0]

    f = effx.jit(count)
    for x in (ZERO, np.zeros(3, bool), enp.zeros(3, bool), enp.concatenate([ZERO, ZERO])[:3], ZERO):
        assert int(f(x)) == 3
    assert kinds == [True, False]


def test_float0_of_several_calls() -> None:
    """A second call of a function gives the same as the first."""
    f = effx.jit(gradients)
    for _ in range(3):
        check(f(N, X), (ZERO, N))


def test_arrays_of_float0_print() -> None:
    """They print their dtype by name."""
    assert repr(enp.concatenate([ZERO[:1], ZERO[:1]])) == "Array([False, False], dtype=float0)"


ARITHMETIC = (
    "promote: float0, the dtype of tangents of integers, takes no part in arithmetic; "
    "make zeros of the same shape of another dtype"
)
REFUSALS: dict[str, tuple[Callable[[], object], str]] = {
    "add": (lambda: enp.add(ZERO, 1), ARITHMETIC),
    "add in jit": (lambda: effx.jit(lambda t: t + 1)(ZERO), ARITHMETIC),
    "sum": (
        lambda: effx.jit(enp.sum)(ZERO),
        "reduce_sum: operand must be integer, floating or complex, got float0[3]",
    ),
    "order": (
        lambda: effx.jit(lambda t: lax.lt(t, t))(ZERO),
        "lt: operand must be boolean, integer or floating, got float0[3]",
    ),
    "callback": (
        lambda: effx.pure_callback(lambda: ZERO, effx.ShapeDtypeStruct((3,), float0)),
        "pure_callback: a Python function cannot give float0, which has no values; make it by numpy.zeros",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_float0_takes_no_part_in_arithmetic(case: str) -> None:
    """What needs values refuses float0, a TypeError as in JAX."""
    call, message = REFUSALS[case]
    with pytest.raises(DTypeError) as caught:
        call()
    assert caught.value.message == message
