"""What caches hand out, keep alive, and take for the same: no result shares a buffer with them."""

from __future__ import annotations

import gc
import itertools
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.caching import WeakStore, exact_key, has_same_bits
from effx.errors import BackendError, DonatedArrayError, TransformError
from effx.handling import ArrayOperation, ArrayType, BoxHandler, Site
from effx.ir.ops.elementwise import Mul
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.runtime import executables as xla
from effx.lower.runtime import memory_maps


@effx.custom_jvp
def constant_rule(x: Any) -> Any:
    return 7.25


@constant_rule.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return 7.25, 7.25 * tangents[0]


@effx.custom_vjp
def constant_back(x: Any) -> Any:
    return 7.25


constant_back.defvjp(lambda x: (7.25, None), lambda _, ct: (7.25,))

# Each gives arrays that do not depend on its argument, or nothing but constants.
RESULTS: list[Callable[[Any], Any]] = [
    lambda x: effx.grad(lambda y: (y * 7.25, 7.25), has_aux=True)(x),
    lambda x: effx.value_and_grad(lambda y: y * 7.25)(x),
    lambda x: effx.vjp(lambda y: 7.25, x),
    lambda x: effx.vjp(lambda y: y * 7.25, x)[1](7.25),
    lambda x: effx.jvp(lambda y: 7.25, (x,), (7.25,)),
    lambda x: effx.jvp(lambda y: y, (7.25,), (7.25,)),
    lambda x: effx.linearize(lambda y: 7.25, x)[0],
    lambda x: effx.linearize(lambda y: y * 7.25, x)[1](1.0),
    lambda x: effx.jacfwd(lambda y: y * 7.25)(x),
    lambda x: effx.jacrev(lambda y: y * 7.25)(x),
    lambda x: effx.hessian(lambda y: 3.625 * y * y)(x),
    lambda x: effx.vmap(lambda y: 7.25, axis_size=1)(enp.ones(1)),
    lambda x: effx.checkpoint(lambda y: 7.25)(x),
    lambda x: effx.jit(lambda y: 7.25)(x),
    lambda x: (constant_rule(x), effx.grad(constant_rule)(x), effx.jvp(constant_rule, (x,), (1.0,))),
    lambda x: (constant_back(x), effx.grad(constant_back)(x)),
    lambda x: lax.cond(True, lambda: 7.25, lambda: 7.25),
    lambda x: lax.scan(lambda c, _: (7.25, 7.25), 7.25, None, length=1),
    lambda x: lax.scan(lambda c, _: (c, c), 7.25, None, length=0),
    lambda x: lax.while_loop(lambda c: c < 0.0, lambda c: c, 7.25),
    lambda x: lax.fori_loop(0, 0, lambda i, c: c, 7.25),
    lambda x: lax.map(lambda y: 7.25, enp.ones(1)),
    lambda x: (enp.asarray(7.25), enp.array(7.25), enp.float32(7.25), enp.full((), 7.25)),
    lambda x: (enp.zeros(()), enp.ones(()), enp.full_like(x, 7.25), enp.where(True, 7.25, 7.25)),
    lambda x: (enp.maximum(7.25, 1.0), enp.sum(7.25), enp.abs(7.25), enp.real(7.25), enp.squeeze(7.25)),
    lambda x: (lax.full((), 7.25), lax.stop_gradient(7.25), lax.convert_element_type(7.25, "float32")),
    lambda x: (effx.device_put(7.25), effx.tree.map(enp.asarray, {"a": 7.25})),
]  # fmt: skip


def arrays_in(result: Any) -> list[ConcreteArray]:
    return [x for x in effx.tree.leaves(result) if isinstance(x, ConcreteArray)]


def still_computes() -> None:
    x = enp.float32(2.0)
    values = [x * 7.25, x + 1.0, x * 0.0, effx.grad(lambda y: y * 7.25)(x), effx.jit(lambda y: y + 3.0)(3.0)]
    assert [float(v) for v in values] == [14.5, 3.0, 0.0, 7.25, 6.0]


@pytest.mark.parametrize("index", range(len(RESULTS)))
def test_results_are_nobody_elses(index: int) -> None:
    """Deleting or donating what the interface gives leaves every other computation as it is."""
    consume = effx.jit(lambda s: s + 1, donate_argnums=0)
    still_computes()
    removals: list[Callable[[ConcreteArray], Any]] = [lambda y: y.delete(), consume]
    for remove in removals:
        first, again = (
            arrays_in(RESULTS[index](enp.float32(2.0))),
            arrays_in(RESULTS[index](enp.float32(2.0))),
        )
        want = [np.asarray(y).copy() for y in again]
        assert first
        for y in first:
            if not y.is_deleted():
                remove(y)
        for y, w in zip(again, want, strict=True):
            np.testing.assert_array_equal(np.array(y + 0), w)
        still_computes()


def test_donated_numbers() -> None:
    """A Python number has no memory to give away: its copy is donated."""
    out = effx.jit(lambda s: {k: v + 1 for k, v in s.items()}, donate_argnums=0)({"step": 0, "m": 0.0})
    assert (int(out["step"]), float(out["m"])) == (1, 1.0)
    still_computes()


def test_random_removals() -> None:
    """Whatever is deleted or donated in whatever order, the rest still computes."""
    rng = random.Random(0)
    consume = effx.jit(lambda s: s * 1, donate_argnums=0)
    alive: list[tuple[ConcreteArray, Any]] = []
    for _ in range(60):
        found = arrays_in(rng.choice(RESULTS)(enp.float32(2.0)))
        alive += [(y, np.asarray(y).copy()) for y in {id(y): y for y in found}.values()]
        y, _ = alive.pop(rng.randrange(len(alive)))
        y.delete() if rng.random() < 0.5 else consume(y)
    for y, value in alive:
        np.testing.assert_array_equal(np.array(y + 0), value)
    still_computes()


def test_closed_over_and_deleted() -> None:
    """A deleted array that a function closes over is an error, in C++ too."""
    c, x = enp.arange(3.0), enp.ones(3)
    f = effx.jit(lambda x: x + c)
    assert str(f(x)) == str(f(x)) == "[1. 2. 3.]"
    c.delete()
    for f_or_fresh in (f, effx.jit(lambda x: x * c)):
        with pytest.raises(DonatedArrayError) as error:
            f_or_fresh(x)
    with pytest.raises(DonatedArrayError) as error:
        f(x)
    assert error.value.message == (
        "jit: <lambda> closes over the array f32[3], which was donated to a computation or deleted; "
        "keep a copy, or pass it as an argument"
    )
    d = enp.arange(3.0)
    g = effx.jit(lambda x: x + d, donate_argnums=0)
    for _ in range(2):  # before and after C++ knows the call
        with pytest.raises(DonatedArrayError) as error:
            g(d)
        assert error.value.message == (
            "jit: <lambda> closes over the array f32[3] that it is given as a donated argument; donate a copy, or "
            "leave it out of donate_argnums"
        )
        assert str(g(enp.ones(3))) == "[1. 2. 3.]"


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("static", [-3, -1, 0, 1])
@pytest.mark.parametrize("donated", [-2, -1, 0, 1, 3])
def test_negative_argument_numbers(count: int, static: int, donated: int) -> None:
    """Numbers count from the end of each call's arguments, for static and donated ones alike."""
    if static == donated:
        return  # refused at once
    f = effx.jit(lambda *a: [x * 1 for x in a], static_argnums=static, donate_argnums=donated)
    args: list[Any] = [enp.ones(2) * i for i in range(count)]
    if not -count <= static < count:
        with pytest.raises(TransformError, match="fewer than static_argnums"):
            f(*args)
        return
    args[static] = 5
    if -count <= donated < count and donated % count == static % count:
        with pytest.raises(TransformError) as error:
            f(*args)
        assert error.value.message == (
            f"jit: arguments cannot be both static and donated: [{static % count}] of the {count} positional "
            f"arguments of <lambda>"
        )
        return
    for _ in range(2):
        given = [x if isinstance(x, int) else x + 0 for x in args]
        f(*given)
        gone = [not isinstance(x, int) and x.is_deleted() for x in given]
        assert gone == [-count <= donated < count and i == donated % count for i in range(count)]


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def test_dropped_functions_free_what_they_held() -> None:
    """A dropped function is freed at once, with what it closed over; collecting cycles is not needed."""
    watched: list[weakref.ref[Any]] = []

    def use(kind: str) -> None:
        big = enp.ones(1000)

        def f(x: Any) -> Any:
            return (x + big).sum()

        x = enp.float32(1.0)
        if kind == "jit":
            effx.jit(f)(x)
        elif kind == "static":
            effx.jit(lambda n, x: f(x), static_argnums=0)(3, x)
        elif kind == "scan":
            lax.scan(lambda c, _: (f(c), None), x, None, length=2)
        elif kind == "grad":
            effx.jit(effx.grad(f))(x)
        elif kind == "signature":
            effx.jit(f, static_argnames="x")
        elif kind == "custom":
            effx.custom_vjp(f).defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
        else:
            with effx.enable_x64(True):
                effx.jit(f)(x)
        watched.extend([weakref.ref(f), weakref.ref(big)])

    gc.collect()
    gc.disable()
    try:
        for kind in ("jit", "static", "scan", "grad", "signature", "flags"):
            use(kind)
            assert [w() is None for w in watched] == [True] * len(watched), kind
        use("custom")  # its rules refer to each other
    finally:
        gc.enable()
    gc.collect()
    assert [w() is None for w in watched] == [True] * len(watched)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's resident memory")
def test_memory_stays_flat() -> None:
    """Functions made, called and dropped in a loop leave the memory as it was."""

    def step(i: int) -> None:
        big = enp.full(250_000, float(i))  # 1 MB
        effx.jit(lambda x: (x + big).sum())(1.0)

    for i in range(30):
        step(i)
    before = resident()
    for i in range(150):
        step(i)
    assert resident() - before < 50.0  # 150 MB where each is kept


def test_compiled_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of compiled text is bounded by the number of texts and by their length."""
    kept: Any = type(xla._compiled_texts)()
    monkeypatch.setattr(xla, "_compiled_texts", kept)
    monkeypatch.setattr(xla, "_MOST_TEXT_LENGTH", 2000)
    for i in range(12):
        effx.jit(lambda x, i=i: enp.sin(x) * (i + 0.125))(1.0)
        assert kept
        assert sum(len(text) for text, *_ in kept) <= 2000
    monkeypatch.setattr(xla, "_MOST_TEXT_LENGTH", 1)
    effx.jit(lambda x: enp.sin(x) * 99.125)(1.0)
    assert len(kept) == 1


def test_jit_written_anew_stages_once() -> None:
    """`jit(f)(x)` stages f once, whatever the options and whoever else stages f; by identity, not by equality."""
    traces: list[str] = []

    @attrs.frozen
    class Scale:
        by: float

        def __call__(self, x: Any) -> Any:
            traces.append(f"scale {self.by}")
            return x * self.by

    def f(x: Any) -> Any:
        traces.append("f")
        return x * 2.0

    for _ in range(3):
        assert float(effx.jit(f)(1.0)) == 2.0
    assert traces == ["f"]
    assert float(effx.jit(f, donate_argnums=0)(enp.float32(3.0))) == 6.0
    assert float(effx.jit(f, keep_unused=True)(enp.float32(4.0))) == 8.0
    assert float(lax.cond(True, f, f, enp.float32(5.0))) == 10.0
    assert traces == ["f"] * 2  # of a weak type and of a strong one
    effx.jit(f)(enp.ones(2))
    effx.jit(f, static_argnums=0)(1.0)
    assert traces == ["f"] * 4
    effx.jit(f).clear_cache()
    effx.jit(f)(1.0)
    assert traces == ["f"] * 5
    assert str(1.0 / effx.jit(Scale(0.0))(1.0)) == "inf"
    assert str(1.0 / effx.jit(Scale(-0.0))(1.0)) == "-inf"


def test_weak_store() -> None:
    """A value lives as long as its key; keys go by identity, and an object without weak references is not cached."""
    store: WeakStore[Any, list[int]] = WeakStore()
    numbers = itertools.count()

    class Key:
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    a, b = Key(), Key()
    made = [store.get(k, lambda: [next(numbers)]) for k in (a, b, a, 3, 3)]
    assert made == [[0], [1], [0], [2], [3]]
    assert len(store) == 2
    del a
    assert len(store) == 1


VALUES: list[Any] = [0.0, -0.0, 0, False, 1, 1.0, True, float("nan"), 0j, complex(0.0, -0.0), "1", None]
VALUES += [
    np.float32(1),
    np.float64(-0.0),
    (0.0,),
    (-0.0,),
    (1,),
    (True,),
    ((1.0,),),
    frozenset({1}),
    frozenset({1.0}),
]


def test_exact_keys() -> None:
    """Keys are equal for the same type and bits, and for nothing else."""
    for (i, x), (j, y) in itertools.product(enumerate(VALUES), enumerate(VALUES)):
        assert (exact_key(x) == exact_key(y)) == (i == j), (x, y)
        assert has_same_bits(x, y) == (i == j), (x, y)
        if i == j:
            assert hash(exact_key(x)) == hash(exact_key(y))
    assert exact_key(float("nan")) == exact_key(-float("nan") * -1)


@attrs.frozen
class Over(ArrayOperation):
    """y / x for a number y of any kind, of which the program shows the type and the bits."""

    y: Any

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        x: Array = operands[0]
        return x * 0.0 + seen_as(self.y)


@attrs.define(slots=False, frozen=True)
class OverDict(ArrayOperation):
    """The same with a `__dict__`."""

    y: Any

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        x: Array = operands[0]
        return x * 0.0 + seen_as(self.y)


@attrs.frozen
class Replaced(BoxHandler[Array]):
    """Gives a number for each product."""

    y: Any

    def lift(self, x: Array) -> Array:
        return x

    def lower(self, payload: Array) -> Array:
        return payload


@Replaced.site_rule(Mul)
def _(site: Site[Replaced, None], op: Mul, *payloads: Array) -> Array:
    return payloads[0] * 0.0 + seen_as(site.handler.y)


STATIC: list[Any] = [0.0, -0.0, 0, False, 1, 1.0, True, float("nan"), (0.0,), (-0.0,), (1,), (True,)]


def seen_as(y: Any) -> float:
    """Numbers the values by type and bits."""
    return float([exact_key(v) for v in STATIC].index(exact_key(y)))


KEYED: dict[str, Callable[[Any], Any]] = {
    "operation": lambda y: Over(y)(enp.ones(2)),
    "operation with a dict": lambda y: OverDict(y)(enp.ones(2)),
    "operation in jit": lambda y: effx.jit(lambda x: Over(y)(x))(enp.ones(2)),
    "operation under vmap": lambda y: effx.vmap(Over(y))(enp.ones(2)),
    "operation in scan": lambda y: lax.scan(lambda c, _: (Over(y)(c), None), enp.ones(2), None, length=1)[0],
    "static argument": lambda y: static(y, enp.ones(2)),
    "static keyword": lambda y: static_keyword(enp.ones(2), y=y),
    "nondiff argument": lambda y: effx.grad(lambda x: nondiff(y, x).sum())(enp.ones(2)),
    "handler": lambda y: Replaced(y).run(lambda x: x * x, enp.ones(2)),
    "handler in scan": lambda y: Replaced(y).run(
        lambda x: lax.scan(squares, x, None, length=2)[0], enp.ones(2)
    ),
}


def squares(c: Any, _: None) -> Any:
    return c * c, None


def shown(y: Any, x: Any) -> Any:
    return x * 0.0 + seen_as(y)


static: Any = effx.jit(shown, static_argnums=0)
static_keyword: Any = effx.jit(lambda x, y: shown(y, x), static_argnames="y")


def _nondiff(y: Any, x: Any) -> Any:
    return x


nondiff: Any = effx.custom_vjp(_nondiff, nondiff_argnums=(0,))
nondiff.defvjp(lambda y, x: (x, None), lambda y, _, ct: (ct * 0.0 + seen_as(y),))


@pytest.mark.parametrize("cache", KEYED)
def test_caches_tell_values_apart(cache: str) -> None:
    """0.0 is not -0.0, and 1, 1.0 and True are three values, in whatever order they come."""
    rng = random.Random(cache)
    for y in rng.sample(STATIC, len(STATIC)) + rng.sample(STATIC, len(STATIC)):
        assert str(KEYED[cache](y)) == str(enp.full(2, seen_as(y))), y


def test_map_sees_what_changed() -> None:
    """`map` reads anew what a function reads; loops and branches keep what they staged, as in JAX."""
    kept = [2.0]

    def f(x: Any) -> Any:
        return x * kept[0]

    x = enp.ones(4)
    assert str(lax.map(f, x)) == str(lax.map(f, x, batch_size=2)) == "[2. 2. 2. 2.]"
    kept[0] = 3.0
    assert str(lax.map(f, x)) == str(lax.map(f, x, batch_size=2)) == "[3. 3. 3. 3.]"


def test_clear_caches() -> None:
    """Everything is staged again, computes the same, and what a user holds stays usable."""
    staged: list[str] = []

    def f(x: Any, n: int = 2) -> Any:
        staged.append("f")
        return (x**n).sum()

    x = enp.arange(3.0)
    calls: list[Callable[[Any], Any]] = [
        effx.jit(f),
        effx.jit(f, static_argnames="n"),
        effx.grad(effx.jit(f)),
        effx.vmap(effx.jit(f)),
    ]
    held = effx.jit(f).lower(x).compile()
    before = [np.asarray(call(x)) for call in calls]
    count = len(staged)
    assert [np.asarray(call(x)).tolist() for call in calls] == [b.tolist() for b in before]
    assert len(staged) == count
    effx.clear_caches()
    assert not xla._compiled_texts
    assert calls[0]._cache_size() == 0  # type: ignore[attr-defined]  # of C++
    assert [np.asarray(call(x)).tolist() for call in calls] == [b.tolist() for b in before]
    assert len(staged) > count
    assert float(held(x)) == 5.0


def test_clear_caches_inside() -> None:
    """A function may clear all caches while it is staged, or compiled."""

    @effx.jit
    def f(x: Any) -> Any:
        effx.clear_caches()
        return effx.jit(lambda y: y + 1)(x) * 2

    assert [float(f(1.0)), float(f(1.0)), float(effx.grad(f)(1.0))] == [4.0, 4.0, 2.0]


@pytest.mark.skipif(
    not memory_maps.count_memory_maps(), reason="only Linux says how many memory maps there are"
)
def test_room_for_executables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels make room for other executables before the system has no more, and what is held is an error."""
    effx.clear_caches()
    gc.collect()  # what goes later would make room
    room = memory_maps.MemoryMapBudget()
    room.most, room.enough = memory_maps.count_memory_maps() + 400, memory_maps.count_memory_maps() + 200
    monkeypatch.setattr(memory_maps, "_budget", room)
    for n in range(200, 300):
        assert float((enp.ones(n) * 2.0).sum()) == 2.0 * n
    assert memory_maps.count_memory_maps() < room.most
    held: list[Any] = []
    with pytest.raises(BackendError) as error:
        held.extend([effx.jit(lambda x, n=n: x * n).lower(1.0).compile() for n in range(1000)])
    assert error.value.message.startswith("compile: this process has ")
    assert error.value.message.endswith(
        "nearly all for compiled programs; drop some, or raise vm.max_map_count"
    )
    del held, error
    assert float(enp.ones(1234).sum()) == 1234.0


@pytest.mark.parametrize(
    "read", [np.asarray, lambda x: x.tolist(), effx.device_get, lambda x: x.host("test")]
)
def test_arrays_that_were_read_are_freed(read: Callable[[Any], Any]) -> None:
    """The host's view of an array does not keep the array."""
    make = effx.jit(lambda i: enp.ones((200, 1000)) * i)
    read(make(1.0))
    before = resident()
    for i in range(160):
        read(make(float(i)))  # 0.8 MB each
    gc.collect()
    # What allocators keep for themselves is not nothing: 17 MB were seen.
    assert resident() - before < 64.0
