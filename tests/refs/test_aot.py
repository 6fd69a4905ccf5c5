"""References of functions that are compiled ahead of time: what is compiled does what a call of the function does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import errors, lax


def accumulate(r: Any, s: Any, x: Any) -> Any:
    """Reads one, writes to both."""
    before = effx.ref.swap(s, 0, x.sum())
    r[...] += x
    r[1:] *= 2.0
    return before + r[0]


def looped(r: Any, s: Any, x: Any) -> Any:
    """Writes in a loop and in a branch of it."""

    def body(carry: Any, i: Any) -> tuple[Any, Any]:
        effx.ref.addupdate(r, enp.array([0, 0, 1]), x[i])
        lax.cond(i % 2 == 0, lambda: s.addupdate(1.0), lambda: None)
        return carry + r[0], s[0]

    return lax.scan(body, 0.0, enp.arange(3))


def counted_down(r: Any, s: Any, x: Any) -> Any:
    """Reads and writes in a loop with a condition on what it writes."""

    def body(n: Any) -> Any:
        r[0] -= 1.0
        return n + s[0]

    r[0] = x[2] + 3.0
    return lax.while_loop(lambda n: r[0] > 0.0, body, 0.0)


def nested(r: Any, s: Any, x: Any) -> Any:
    """Writes inside of functions of its own, one of them batched."""
    effx.jit(lambda y: r.addupdate(y))(x)
    effx.jit(lambda q, y: q.addupdate(y))(s, x[:2])
    return effx.vmap(lambda y: y * s[1])(x)


def differentiated(r: Any, s: Any, x: Any) -> Any:
    """Writes what is differentiated, and reads it back, inside of `grad`."""

    def loss(y: Any) -> Any:
        mine = effx.new_ref(y)
        mine[0] *= s[1]
        r.addupdate(1.0)
        return (mine[...] ** 2).sum()

    return effx.grad(loss)(x)


def only_read(r: Any, s: Any, x: Any) -> Any:
    """Writes nothing."""
    return {"r": r[::-1] * x, "s": s[...]}


def only_written(r: Any, s: Any, x: Any) -> None:
    """Returns nothing."""
    r[...] = x
    s[-1] = 7


FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    f.__name__: f for f in (accumulate, looped, counted_down, nested, differentiated, only_read, only_written)
}


def refs() -> tuple[Any, Any]:
    """Returns two references that are always the same."""
    return effx.new_ref(enp.array([1.0, 2.0, 3.0])), effx.new_ref(enp.array([0.5, 4.0]))


@attrs.frozen
class Way:
    """How a function gets two references.

    Attributes:
        given: the function of what it takes, made of the function and the references.
        arguments: what it takes of them beside the array.
    """

    given: Callable[[Callable[..., Any], Any, Any], Callable[..., Any]]
    arguments: Callable[[Any, Any], tuple[Any, ...]]


WAYS = {
    "arguments": Way(lambda f, r, s: f, lambda r, s: (r, s)),
    "closed over": Way(lambda f, r, s: lambda x: f(r, s, x), lambda r, s: ()),
    "one of each": Way(lambda f, r, s: lambda r, x: f(r, s, x), lambda r, s: (r,)),
    "tree": Way(
        lambda f, r, s: lambda t, x: f(t["r"][0], t["s"], x), lambda r, s: ({"s": s, "r": [r, 1.0]},)
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("fun", FUNCTIONS.values(), ids=FUNCTIONS)
def test_as_a_call(fun: Callable[..., Any], way: Way) -> None:
    """Two calls of what is compiled give and write what two calls of the function do."""
    found = []
    for compiled in (False, True):
        r, s = refs()
        given = way.arguments(r, s)
        f = way.given(fun, r, s)
        if compiled:
            f = effx.jit(f).lower(*given, enp.ones(3)).compile()
            np.testing.assert_array_equal(r[...], [1.0, 2.0, 3.0])  # to compile writes nothing
        results = [f(*given, enp.arange(3.0) * k) for k in (1.0, 0.5)]
        found.append((results, r[...], s[...]))
    expected, computed = [effx.tree.flatten(x) for x in found]
    assert expected[1] == computed[1]
    for a, b in zip(expected[0], computed[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_each_call_has_its_own() -> None:
    """A compiled function takes any references of the types it was compiled for."""
    compiled = effx.jit(lambda r, x: r.addupdate(x)).lower(effx.new_ref(enp.zeros(2)), 0.0).compile()
    made = [effx.new_ref(enp.full(2, float(i))) for i in range(3)]
    for i, r in enumerate(made):
        assert compiled(r, 10.0 * i) is None
    assert [r[...].tolist() for r in made] == [[0.0, 0.0], [11.0, 11.0], [22.0, 22.0]]


def test_values_at_the_time_of_the_call() -> None:
    """What is written to a reference between calls is seen, and its arrays before that stay as they are."""
    r = effx.new_ref(enp.zeros(2))

    def double() -> Any:
        r[...] *= 2.0
        return r[0]

    compiled = effx.jit(double).lower().compile()
    r[...] = enp.array([3.0, 4.0])
    before = r[...]
    assert float(compiled()) == 6.0
    assert before.tolist() == [3.0, 4.0]
    r[0] = 50.0
    assert float(compiled()) == 100.0
    assert r[...].tolist() == [100.0, 16.0]


@pytest.mark.parametrize("dtype", [enp.int8, enp.bool_, enp.float16, enp.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
def test_dtypes_and_shapes(dtype: Any, shape: tuple[int, ...]) -> None:
    """References of all types, those without elements too."""
    r, s = effx.new_ref(enp.zeros(shape, dtype)), effx.new_ref(enp.ones(shape, dtype))

    def exchange(r: Any) -> Any:
        r[...], s[...] = s[...], r[...]

    compiled = effx.jit(exchange).lower(r).compile()
    compiled(r)
    np.testing.assert_array_equal(r[...], np.ones(shape, r.dtype))
    np.testing.assert_array_equal(s[...], np.zeros(shape, r.dtype))
    assert (s.dtype, s[...].dtype) == (r.dtype, r.dtype)


def test_keys() -> None:
    """A generator's key is a content like any other."""
    r = effx.new_ref(effx.random.key(3))

    def draw() -> Any:
        r[...], key = effx.random.split(r[...])
        return effx.random.uniform(key)

    compiled = effx.jit(draw).lower().compile()
    drawn = [float(compiled()) for _ in range(3)]
    r[...] = effx.random.key(3)
    assert drawn == pytest.approx([float(draw()) for _ in range(3)])
    assert len(set(drawn)) == 3


def test_static_and_named() -> None:
    """Static arguments before a reference, and references by name."""

    def f(n: int, *, r: Any, by: Any) -> Any:
        r[n] = by
        return n

    jitted = effx.jit(f, static_argnums=0)
    r = effx.new_ref(enp.zeros(3))
    compiled = jitted.lower(2, r=r, by=1.0).compile()
    assert int(compiled(r=r, by=5.0)) == 2
    assert r[...].tolist() == [0.0, 0.0, 5.0]


def test_donated() -> None:
    """The memory of a donated reference takes what it holds afterwards."""
    r = effx.new_ref(enp.copy(enp.arange(1000.0)))
    compiled = effx.jit(lambda r: r.addupdate(1.0), donate_argnums=0).lower(r).compile()
    address = r.unsafe_buffer_pointer()
    compiled(r)
    assert r.unsafe_buffer_pointer() == address
    np.testing.assert_array_equal(r[...], np.arange(1000.0) + 1)
    assert compiled.memory_analysis().alias_size_in_bytes == 4000


def test_what_stages_say() -> None:
    """Stages have references as leaves of the arguments, and no contents in the result; the text has both."""
    s = effx.new_ref(enp.zeros(4, enp.int32))

    def f(r: Any, x: Any) -> Any:
        s[...] += 1
        r[...] += x
        return {"y": r[0]}

    traced = effx.jit(f).trace(effx.new_ref(enp.zeros(2)), 1.0)
    lowered = traced.lower()
    compiled = lowered.compile()
    for stage in (traced, lowered, compiled):
        (r, x), named = stage.in_avals
        assert (r.shape, x.shape, named) == ((2,), (), {})
        assert list(stage.out_info) == ["y"]
        assert stage.out_tree == effx.tree.structure({"y": 0})
        assert stage.in_tree == effx.tree.structure(((0, 0), {}))
    assert "func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<f32>, %arg2: tensor<4xi32>)" in (
        lowered.as_text().replace("{{", "").replace("}}", "")
    )
    assert len(effx.tree.leaves(compiled.input_shardings)) == 2
    assert len(effx.tree.leaves(compiled.output_shardings)) == 1
    assert s[...].tolist() == [0] * 4


def test_ordered_effects() -> None:
    """Ordered callbacks and writes in one program."""
    seen: list[float] = []
    r = effx.new_ref(0.0)

    def f(x: Any) -> None:
        effx.debug.callback(lambda y: seen.append(float(y)), r[...], ordered=True)
        r[...] += x
        effx.debug.callback(lambda y: seen.append(float(y)), r[...], ordered=True)

    compiled = effx.jit(f).lower(1.0).compile()
    compiled(2.0)
    compiled(3.0)
    effx.effects_barrier()
    assert seen == [0.0, 2.0, 2.0, 5.0]


R = effx.new_ref(enp.zeros(2))


def both(r: Any, x: Any) -> None:
    """Closes over a reference, and takes one."""
    R[0] += 1.0
    r[0] += x


def freed() -> Any:
    """Returns a compiled function of a reference that is deleted."""
    r = effx.new_ref(1.0)
    compiled = effx.jit(lambda: r[...] * 2).lower().compile()
    effx.freeze(r)
    return compiled()


def compiled_both() -> Any:
    """Returns `both`, compiled."""
    return effx.jit(both).lower(effx.new_ref(enp.zeros(2)), 1.0).compile()


REFUSED: dict[str, tuple[Callable[[], object], type[errors.EffxError], str]] = {
    "array for a ref": (
        lambda: compiled_both()(enp.zeros(2), 1.0),
        errors.TreeError,
        "both: compiled for a Ref as argument 0, got an array",
    ),
    "ref for an array": (
        lambda: compiled_both()(effx.new_ref(enp.zeros(2)), effx.new_ref(1.0)),
        errors.TreeError,
        "both: compiled for an array as argument 1, got a Ref",
    ),
    "ref where none was": (
        lambda: effx.jit(lambda x: x).lower(enp.zeros(2)).compile()(R),
        errors.RefGivenError,
        "ref: a Ref f32[2] stands where an array is expected; read what it holds with ref[...], or close over it",
    ),
    "another type": (
        lambda: compiled_both()(effx.new_ref(enp.zeros(3)), 1.0),
        errors.ShapeError,
        "both: compiled for f32[2] as argument 0, got f32[3]",
    ),
    "closed over and given": (
        lambda: compiled_both()(R, 1.0),
        errors.RefError,
        "Ref{f32[2]}: both uses the ref in another way than as its argument 0, by closing over it; use the argument",
    ),
    "closed over and given to be staged": (
        lambda: effx.jit(both).trace(R, 1.0),
        errors.RefError,
        "Ref{f32[2]}: both uses the ref in another way than as its argument 0, by closing over it; use the argument",
    ),
    "twice": (
        lambda: effx.jit(lambda a, b: None).lower(R, R),
        errors.RefError,
        "jit: argument 0 and argument 1 of <lambda> are one Ref f32[2]; pass it once",
    ),
    "view": (
        lambda: effx.jit(lambda a: None).lower(R.at[0]),
        errors.RefError,
        "jit: argument 0 of <lambda> is a view of a ref; pass the ref",
    ),
    "frozen": (
        freed,
        errors.RefError,
        "Ref{f32[]}: the ref was frozen; it cannot be used any more",
    ),
}


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(
    call: Callable[[], object], kind: type[errors.EffxError], message: str
) -> None:
    """By its whole text, and references are as they were."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
    assert R[...].tolist() == [0.0, 0.0]


def test_another_structure() -> None:
    """Arguments in another structure are refused before references are looked for."""
    with pytest.raises(errors.TreeError, match="both: compiled for arguments of structure"):
        compiled_both()(effx.new_ref(enp.zeros(2)), [1.0])
