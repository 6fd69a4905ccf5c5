"""Python functions that parallel maps call: each device with its own part, between collectives, and what they raise."""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import debug, lax
from effx.errors import BackendError
from effx.experimental import io_callback

SCALAR = effx.ShapeDtypeStruct((), np.float32)
LIMIT = 120  # seconds: what hangs ends the process with the stacks of its threads
X = np.arange(4.0, dtype=np.float32)


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """Nothing here may wait for ever."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def plus_one(v: Any) -> Any:
    """Adds one, on the host."""
    return np.asarray(v) + np.float32(1)


CALLS: dict[str, Callable[[Any], Any]] = {
    "pure_callback": lambda x: effx.pure_callback(plus_one, SCALAR, x),
    "io_callback": lambda x: io_callback(plus_one, SCALAR, x),
}


def scanned(call: Callable[[Any], Any], x: Any) -> Any:
    """Three calls, one after the other."""
    return lax.scan(lambda c, _: (call(c), None), x, None, length=3)[0]


# What each device computes, and what that is.
PROGRAMS: dict[str, tuple[Callable[[Callable[[Any], Any], Any], Any], Any]] = {
    "one": (lambda call, x: call(x), X + 1),
    "two": (lambda call, x: call(x) * call(2 * x), (X + 1) * (2 * X + 1)),
    "before a collective": (lambda call, x: lax.psum(call(x), "i"), np.full(4, 10)),
    "behind a collective": (lambda call, x: call(lax.psum(x, "i")) + x, X + 7),
    "between collectives": (lambda call, x: lax.pmax(call(lax.psum(x, "i") + x), "i"), np.full(4, 10)),
    "by its index": (lambda call, x: call(enp.asarray(lax.axis_index("i"), "float32")), X + 1),
    "scan": (scanned, X + 3),
    "different counts": (lambda call, x: lax.while_loop(lambda c: c < 3, call, x), np.full(4, 3)),
    "some devices": (lambda call, x: lax.cond(x > 1, call, lambda x: -x, x), [0, -1, 3, 4]),
    "checkpoint": (lambda call, x: effx.checkpoint(call)(x), X + 1),
    "jit": (lambda call, x: effx.jit(call)(x), X + 1),
}


@pytest.mark.parametrize("around", ["pmap", "jit of pmap"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_device_calls(name: str, call: Callable[[Any], Any], around: str) -> None:
    """Each device has its own results, in the first call and in later ones."""
    fun, expected = PROGRAMS[name]
    f: Callable[..., Any] = effx.pmap(partial(fun, call), axis_name="i")
    if around == "jit of pmap":
        f = effx.jit(f)
    for result in (f(enp.asarray(X)), f(enp.asarray(X))):
        np.testing.assert_array_equal(result, np.asarray(expected, np.float32))
        assert around != "pmap" or [s.device.id for s in result.addressable_shards] == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "complex64", "float8_e4m3fn", "int4"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
def test_types(dtype: str, shape: tuple[int, ...]) -> None:
    """Parts of all types go there and back."""
    x = enp.asarray(np.arange(4 * int(np.prod(shape))).reshape(4, *shape) % 5).astype(dtype)
    result: Any = effx.pmap(
        lambda x: effx.pure_callback(lambda v: v, effx.ShapeDtypeStruct(shape, x.dtype), x)
    )(x)
    assert (result.dtype, result.shape) == (x.dtype, x.shape)
    np.testing.assert_array_equal(result, x)


def test_several_operands_and_results() -> None:
    """Operands that are mapped and shared, and results of several shapes."""
    out = (effx.ShapeDtypeStruct((2,), np.float32), effx.ShapeDtypeStruct((), np.int32))
    f = effx.pmap(
        lambda x, y: effx.pure_callback(lambda a, b: (np.stack([a, b]), np.int32(a * b)), out, x, y),
        in_axes=(0, None),
    )
    pairs, products = f(X, 3.0)
    np.testing.assert_array_equal(pairs, np.stack([X, np.full(4, 3.0)], 1))
    assert products.tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize("method", ["sequential", "expand_dims", "broadcast_all"])
def test_with_vmap(method: Any) -> None:
    """Batches inside of devices, and devices inside of a batch."""
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)

    def call(x: Any) -> Any:
        return effx.pure_callback(plus_one, effx.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=method)

    np.testing.assert_array_equal(effx.pmap(effx.vmap(call))(x), x + 1)
    np.testing.assert_array_equal(effx.vmap(effx.pmap(call), 1, 1)(x), x + 1)


def test_nested_and_chosen_devices() -> None:
    """Parallel maps in one another, and on devices that are not the first."""
    call = CALLS["pure_callback"]
    np.testing.assert_array_equal(effx.pmap(effx.pmap(call))(X.reshape(2, 2)), (X + 1).reshape(2, 2))
    devices = effx.devices()[2:4]
    result: Any = effx.pmap(call, devices=devices)(X[:2])
    assert result.tolist() == [1.0, 2.0]
    assert [s.device for s in result.addressable_shards] == devices


def test_derivatives() -> None:
    """A callback with a rule of its own, differentiated inside of devices and around them."""

    @effx.custom_jvp
    def cube(x: Any) -> Any:
        return effx.pure_callback(lambda v: np.asarray(v) ** 3, SCALAR, x)

    cube.defjvp(
        lambda p, t: (cube(*p), effx.pure_callback(lambda v: 3 * np.asarray(v) ** 2, SCALAR, *p) * t[0])
    )
    expected = 3 * X**2
    np.testing.assert_allclose(effx.pmap(effx.grad(cube))(X), expected, rtol=1e-6)
    around = effx.grad(lambda x: effx.pmap(cube)(x).sum())
    np.testing.assert_allclose(around(enp.asarray(X)), expected, rtol=1e-6)


@pytest.mark.parametrize("what", ["debug.callback", "debug.print", "io_callback"])
def test_effects_happen_once_on_each_device(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No call is left out because its result is unused, and none happens twice."""
    seen: list[tuple[int, float]] = []

    def note(i: Any, x: Any) -> None:
        seen.append((int(i), float(x)))

    def f(x: Any) -> Any:
        i = lax.axis_index("i")
        if what == "debug.print":
            debug.print("{} {}", i, x)
        elif what == "debug.callback":
            debug.callback(note, i, x)
        else:
            io_callback(note, None, i, x)
        return lax.psum(x, "i")

    mapped = effx.pmap(f, axis_name="i")
    for _ in range(2):
        assert mapped(X).tolist() == [6.0] * 4
    effx.effects_barrier()
    if what == "debug.print":
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        seen = [(int(i), float(x)) for i, x in lines]
    assert sorted(seen) == sorted([(i, float(i)) for i in range(4)] * 2)


ORDERED: dict[str, Callable[[Any], Any]] = {
    "io_callback": lambda x: io_callback(plus_one, SCALAR, x, ordered=True),
    "debug.callback": lambda x: debug.callback(plus_one, x, ordered=True),
    "debug.print": lambda x: debug.print("{}", x, ordered=True),
    "in a loop": lambda x: lax.fori_loop(
        0, 2, lambda i, c: io_callback(plus_one, SCALAR, c, ordered=True), x
    ),
}


@pytest.mark.parametrize("fun", ORDERED.values(), ids=ORDERED)
@pytest.mark.parametrize("wrap", [lambda f: f, effx.jit], ids=["pmap", "jit of pmap"])
def test_ordered_ones_are_refused(wrap: Callable[..., Any], fun: Callable[[Any], Any]) -> None:
    """Devices that run at the same time have no order."""
    with pytest.raises(BackendError) as caught:
        wrap(effx.pmap(fun))(X)
    assert caught.value.message == (
        "pmap: the devices run at the same time, so there is no order for their effects; use ordered=False"
    )


def failing(at: float, error: BaseException) -> Callable[[Any], Any]:
    """Returns a function that raises for one value, on the host."""

    def host(v: Any) -> Any:
        if float(v) == at:
            raise error
        return plus_one(v)

    return host


# What waits for other devices behind the call, or goes on by its result.
WAITING: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "nothing": lambda call, x: call(x),
    "a collective": lambda call, x: lax.psum(call(x), "i"),
    "collectives in a loop": lambda call, x: lax.fori_loop(
        0, 3, lambda i, c: lax.pmean(call(c), "i"), lax.psum(x, "i") * 0 + x
    ),
    "a loop for the result": lambda call, x: lax.while_loop(lambda c: c < 5, call, x),
}


@pytest.mark.parametrize("error", [KeyError("two"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("name", WAITING)
def test_one_device_raises(name: str, error: BaseException) -> None:
    """It comes out as it is, though others wait for that device; and the next call works."""
    armed = [True]
    host = failing(2.0, error)

    def call(x: Any) -> Any:
        return io_callback(lambda v: host(v) if armed[0] else plus_one(v), SCALAR, x)

    f = effx.pmap(partial(WAITING[name], call), axis_name="i")
    with pytest.raises(type(error)) as caught:
        f(X)
    assert caught.value is error
    armed[0] = False
    again = f(X)
    armed[0] = True
    with pytest.raises(type(error)):
        f(X)
    armed[0] = False
    np.testing.assert_array_equal(f(X), again)


def test_all_devices_raise() -> None:
    """One of the errors comes out, and nothing is called after it on that device."""
    called: list[float] = []
    lock = threading.Lock()

    def host(v: Any) -> Any:
        with lock:
            called.append(float(v))
        raise ValueError(float(v))

    def f(x: Any) -> Any:
        return lax.psum(lax.fori_loop(0, 10, lambda i, c: io_callback(host, SCALAR, c), x), "i")

    with pytest.raises(ValueError, match=r"^\d\.0$") as caught:
        effx.pmap(f, axis_name="i")(X)
    assert caught.value.args[0] in called
    assert len(called) <= 4
    assert set(called) <= set(X.tolist())
