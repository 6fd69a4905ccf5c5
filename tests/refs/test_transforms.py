"""Mutable references under transformations: what is written, differentiated, batched, seen by handlers, and refused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, ref
from effx.errors import BackendError, RefError, RefGivenError, TreeError
from effx.experimental.serialize_executable import serialize
from effx.handling import InterceptHandler, Reference, RefGet, RefOperation, Site, handle
from effx.ir.refs import Cell
from effx.library.intervals import Interval, Intervals
from effx.test_util import check_grads

X = np.asarray([0.5, -1.0, 2.0], np.float32)


def power(x: Any) -> Any:
    """x to the 4th, by a local reference that a loop writes."""
    r = effx.new_ref(x)
    lax.fori_loop(0, 3, lambda i, c: put(r, r[...] * x, c), 0)
    return r[...]


def put(r: Any, x: Any, result: Any = None) -> Any:
    """Writes, as an expression."""
    r[...] = x
    return result


FORMS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "plain": lambda f: f,
    "jit": lambda f: effx.jit(f),
    "jit of jit": lambda f: effx.jit(effx.jit(f)),
    "checkpoint": lambda f: effx.checkpoint(f),
    "jit of checkpoint": lambda f: effx.jit(effx.checkpoint(f)),
    "cond": lambda f: lambda x: lax.cond(True, f, lambda x: x, x),
}


@pytest.mark.parametrize("form", FORMS)
def test_local_references_are_differentiated_and_batched(form: str) -> None:
    """In both modes, to second order, and element by element."""
    f = FORMS[form](power)
    x = X[2]
    np.testing.assert_allclose(f(x), x**4, rtol=1e-6)
    for gradient in (effx.grad(f), effx.jacfwd(f), effx.jit(effx.grad(f))):
        np.testing.assert_allclose(gradient(x), 4 * x**3, rtol=1e-6)
    np.testing.assert_allclose(effx.grad(effx.grad(f))(x), 12 * x**2, rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(f)(X), X**4, rtol=1e-6)
    np.testing.assert_allclose(effx.vmap(effx.grad(f))(X), 4 * X**3, rtol=1e-6)
    np.testing.assert_allclose(effx.grad(lambda x: effx.vmap(f)(x).sum())(X), 4 * X**3, rtol=1e-6)


def test_gradients_are_those_of_differences() -> None:
    """With indices that repeat, swaps, and views."""

    def f(x: Any) -> Any:
        r = effx.new_ref(enp.stack([x, x * x]))
        ref.addupdate(r, (0, enp.array([0, 0, 2])), enp.sin(x))
        old = ref.swap(r, 1, enp.cos(x))
        r.at[1].at[:2].addupdate(old[1:] * x[0])
        return (r[...] ** 2).sum()

    check_grads(f, (X,), order=2, modes=("fwd", "rev"), atol=2e-2, rtol=2e-2)
    check_grads(effx.jit(f), (X,), order=1, modes=("fwd", "rev"), atol=2e-2, rtol=2e-2)


def test_kinds_without_gradient_lose_tangents() -> None:
    """kind="no_grad_no_remat" holds the value and not its tangent, and takes differentiated values from anywhere."""
    seen = effx.new_ref(0.0, kind="no_grad_no_remat")

    def f(x: Any) -> Any:
        r = effx.new_ref(0.0, kind="no_grad_no_remat")
        r[...] = seen[...] = 2.0 * x
        return r[...] * x

    for gradient in (effx.grad(f), effx.grad(effx.jit(f)), effx.jit(effx.grad(f))):
        seen[...] = 0.0
        assert float(gradient(3.0)) == 6.0
        assert float(seen[...]) == 6.0


def test_reverse_mode_keeps_what_a_loop_only_reads_once() -> None:
    """Not once an iteration: residuals have no further axis for it."""
    weights = effx.new_ref(np.ones(1000, np.float32))
    count = effx.new_ref(0)

    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> tuple[Any, None]:
            count[...] += 1
            return enp.sin(c * weights[...]).sum() / 1000, None

        return lax.scan(step, x, None, length=7)[0]

    _, f_vjp = effx.vjp(f, 1.0)
    assert int(count[...]) == 7
    assert not [x for x in f_vjp.opaque_residuals if x.size == 7000 and (x == 1).all()]


def test_handlers_around_see_operations() -> None:
    """One that intercepts everything sees references of functions that it runs, and those that programs close over."""
    seen: list[str] = []

    @attrs.frozen
    class Watch(InterceptHandler[None]):
        """Writes down what happens to references."""

    @Watch.rule(RefOperation)
    def _(
        site: Site[Watch, None, tuple[effx.Array, ...]], op: RefOperation, *operands: effx.Array
    ) -> tuple[effx.Array, ...]:
        seen.append(op.name)
        return site.forward()

    outside = effx.new_ref(enp.zeros(2))

    def f() -> effx.Array:
        r = effx.new_ref(enp.zeros(2))
        r[0] = 1.0
        ref.swap(r, 0, 2.0)
        r.addupdate(1.0, 1)
        lax.fori_loop(0, 2, lambda i, c: put(r.at[i], 3.0, c), 0)
        outside[0] = 5.0
        return r[...]

    operations = ["ref_new", "ref_set", "ref_swap", "ref_add_update", "ref_set", "ref_set", "ref_get"]
    assert (Watch().run(f).tolist(), seen) == ([3.0, 3.0], operations)
    seen.clear()
    assert (Watch().run(effx.jit(f)).tolist(), seen) == ([3.0, 3.0], ["ref_set"])  # local ones are data there
    assert outside[...].tolist() == [5.0, 0.0]

    @attrs.frozen
    class Zero(InterceptHandler[None]):
        """Reads zeros."""

    @Zero.rule(RefGet)
    def _(site: Site[Zero, None], op: RefGet, *operands: effx.Array) -> tuple[effx.Array, ...]:
        return (enp.zeros(op.part.shape, op.part.dtype),)

    def shifted(x: Any) -> Any:
        return outside[...] + x

    assert Zero().run(effx.jit(shifted), 1).tolist() == [1.0, 1.0]


def test_boxes_of_other_handlers_are_held() -> None:
    """Payloads of users' handlers, and the reference interpreter's values."""

    def f(x: Any) -> Any:
        r = effx.new_ref(x)
        lax.fori_loop(0, 2, lambda i, c: put(r, r[...] * x, c), 0)
        return r[...]

    bounds = Interval(enp.float32(1.0), enp.float32(2.0))
    for run in (f, effx.jit(f)):
        found = Intervals().run(run, bounds)
        np.testing.assert_allclose([found.low, found.high], [1.0, 8.0], rtol=1e-5)
    r = effx.new_ref(1.0)
    with handle(Reference()):
        r[...] += 1.0
        assert float(f(3.0)) == float(effx.jit(f)(3.0)) == 27.0
    assert float(r[...]) == 2.0


def test_batched_loops_and_branches_write_where_they_run() -> None:
    """Iterations and branches that an element does not take leave its references alone; collectives work inside."""

    def f(x: Any) -> Any:
        r = effx.new_ref(enp.zeros(()))
        lax.while_loop(lambda c: c < x, lambda c: put(r, r[...] + c, c + 1.0), 0.0)
        lax.cond(x > 1, lambda: r.addupdate(10.0), lambda: None)
        return r[...]

    batch = enp.arange(4.0)
    assert effx.vmap(f)(batch).tolist() == [float(f(x)) for x in batch] == [0.0, 0.0, 11.0, 13.0]

    def g(x: Any) -> Any:
        r = effx.new_ref(x)
        lax.scan(lambda c, _: put(r, lax.psum(r[...] + c, "i"), (c, None)), x, None, length=2)
        return r[...]

    for run in (effx.vmap(g, axis_name="i"), effx.jit(effx.vmap(g, axis_name="i"))):
        assert run(enp.arange(3.0)).tolist() == [21.0, 21.0, 21.0]


def test_arguments_are_written_back() -> None:
    """Of jit by one program for all refs of a type; mapped ones of vmap along their axes; nested."""
    traces = []

    @effx.jit
    def add(r: ref.Ref, x: Any) -> Any:
        traces.append(1)
        r[...] += x
        return r[0]

    r, s = effx.new_ref(enp.zeros(3)), effx.new_ref(enp.ones(3))
    assert [float(add(r, 1.0)), float(add(s, 1.0)), float(add(r, 2.0))] == [1.0, 2.0, 3.0]
    assert (r[...].tolist(), s[...].tolist(), len(traces)) == ([3.0] * 3, [2.0] * 3, 1)

    @effx.jit
    def twice(refs: dict[str, ref.Ref]) -> None:
        add(refs["a"], 1.0)
        add(refs["b"], refs["a"][1])

    twice({"a": r, "b": s})
    assert (r[...].tolist(), s[...].tolist()) == ([4.0] * 3, [6.0] * 3)

    m = effx.new_ref(enp.zeros((2, 3)))
    effx.vmap(add, in_axes=(1, 0))(m, enp.arange(3.0))
    effx.jit(effx.vmap(add, in_axes=(1, 0)))(m, enp.arange(3.0))
    assert m[...].tolist() == [[0.0, 2.0, 4.0]] * 2
    shared = effx.new_ref(enp.ones(3))
    assert effx.vmap(lambda r, x: r[...] * x, (None, 0))(shared, enp.arange(2.0)).tolist() == [
        [0.0] * 3,
        [1.0] * 3,
    ]
    donating = effx.jit(lambda r, x: put(r.at[0], 7.0, x * 2), donate_argnums=(0, 1))
    assert donating(shared, enp.ones(2)).tolist() == [2.0, 2.0]
    assert shared[...].tolist() == [7.0, 1.0, 1.0]


def test_devices_read_and_make_references() -> None:
    """In a parallel map each replica reads what is outside, and has its own; they cannot write one."""
    r = effx.new_ref(2.0)
    assert effx.pmap(lambda x: power(x) * r[...])(enp.arange(2.0)).tolist() == [0.0, 2.0]
    gradient = effx.grad(lambda x: effx.pmap(power)(x).sum())
    assert gradient(enp.arange(2.0)).tolist() == [0.0, 4.0]
    with pytest.raises(RefError) as caught:
        effx.pmap(lambda x: r.addupdate(x))(enp.arange(2.0))
    assert caught.value.message == (
        "Ref{f32[]}: the devices of pmap run at the same time, so they cannot write one ref; return the values instead"
    )
    assert float(r[...]) == 2.0


def test_operands_of_control_flow_are_written() -> None:
    """Branches, checkpoint, and rows of a scan's inputs."""
    r = effx.new_ref(enp.zeros(3))
    lax.cond(True, lambda r, x: r.addupdate(x), lambda r, x: None, r, 2.0)
    effx.jit(lambda r, i: lax.switch(i, [lambda r: None, lambda r: r.__setitem__(0, 9.0)], r))(r, 1)
    effx.checkpoint(lambda r, x: r.addupdate(x))(r, 1.0)
    assert r[...].tolist() == [10.0, 3.0, 3.0]
    start: Any = 0.0
    total, doubled = lax.scan(lambda c, row: (c + row[0][...], row[1] * 2), start, (r, enp.arange(3)))
    assert (float(total), doubled.tolist()) == (16.0, [0, 2, 4])
    lax.scan(lambda c, row: (c + 1, put(row, c)), start + 5.0, r, reverse=True)
    assert r[...].tolist() == [7.0, 6.0, 5.0]
    empty = effx.new_ref(enp.zeros((0, 2)))
    assert float(lax.scan(lambda c, row: (c + row[...].sum(), put(row, 1.0)), start, empty)[0]) == 0.0


def test_custom_rules_take_references() -> None:
    """The rule for reverse mode writes a cotangent to a reference that is an argument, or is closed over."""

    @effx.custom_vjp
    def stash(r: ref.Ref, x: Any) -> Any:
        return x

    stash.defvjp(lambda r, x: (x, r), lambda r, ct: put(r, ct, (None, ct)))
    r = effx.new_ref(0.0)

    def f(x: Any, r: ref.Ref) -> Any:
        return enp.sin(stash(r, enp.sin(x)))

    runs: tuple[Callable[[Any], Any], ...] = (
        lambda x: effx.grad(f)(x, r),
        lambda x: effx.jit(effx.grad(f))(x, r),
        effx.grad(effx.jit(lambda x: f(x, r))),
    )
    for run in runs:
        r[...] = 0.0
        np.testing.assert_allclose(run(1.0), np.cos(np.sin(1.0)) * np.cos(1.0), rtol=1e-6)
        np.testing.assert_allclose(r[...], np.cos(np.sin(1.0)), rtol=1e-6)


def test_pull_backs_add_to_references() -> None:
    """`with_refs`: cotangents are added, returned or not asked for; also of what a reference held."""
    _, f_vjp = effx.vjp(lambda x, y: enp.sin(x) * y["a"], 1.0, {"a": 2.0})
    total = effx.new_ref(1.0)
    assert f_vjp.with_refs(total, {"a": effx.ad.GradValue()})(1.0)[0] == effx.ad.GradRef()
    np.testing.assert_allclose(total[...], 1 + 2 * np.cos(1.0), rtol=1e-6)
    assert f_vjp.with_refs(effx.ad.DontWant(), {"a": total})(0.0) == (
        effx.ad.DidntWant(),
        {"a": effx.ad.GradRef()},
    )

    def square(r: ref.Ref) -> Any:
        r[...] = r[...] ** 2
        return r[...] * 3

    r, ct = effx.new_ref(2.0), effx.new_ref(5.0)
    y, pull = effx.vjp(square, r)
    assert (float(y), float(r[...])) == (12.0, 4.0)
    assert pull.with_refs(ct)(1.0) == (effx.ad.GradRef(),)
    assert float(ct[...]) == (5 + 3) * 2 * 2
    moved = effx.new_ref(1.0)
    assert [float(x) for x in effx.jvp(square, (r,), (moved,))] == [48.0, 24.0]
    assert [float(r[...]), float(moved[...])] == [16.0, 8.0]

    @effx.jit
    def train(w: Any, total: ref.Ref, x: Any) -> Any:
        y, f_vjp = effx.vjp(lambda w: (w * x).sum(), w)
        f_vjp.with_refs(total)(1.0)
        return y

    sums = effx.new_ref(enp.zeros(3))
    for _ in range(2):
        train(enp.ones(3), sums, enp.asarray(X))
    np.testing.assert_allclose(sums[...], 2 * X)


def test_pull_backs_show_what_they_keep() -> None:
    """Arguments by their places, other values, and arguments that were replaced; as pytrees through jit."""
    weights: dict[str, Any] = {"a": enp.asarray(X), "b": 1.0}
    _, f_vjp = effx.vjp(lambda w, x: enp.sin(enp.dot(w["a"], x)), weights, enp.ones(3))
    assert effx.tree.structure(f_vjp.args_res[0]) == effx.tree.structure({"a": 0, "b": effx.ad.NotNeeded()})
    np.testing.assert_array_equal(f_vjp.args_res[0]["a"], X)
    assert [x.shape for x in f_vjp.opaque_residuals] == [()]
    assert len(effx.tree.leaves(f_vjp)) == 3
    cos = np.cos(X.sum())
    np.testing.assert_allclose(f_vjp(1.0)[1], cos * X, rtol=1e-6)
    f_vjp.args_res[0]["a"] = enp.asarray(2 * X)
    np.testing.assert_allclose(f_vjp(1.0)[1], cos * 2 * X, rtol=1e-6)
    f_vjp.args_res[0]["a"] = enp.ones(2)
    with pytest.raises(effx.errors.TransformError) as caught:
        f_vjp(1.0)
    assert caught.value.message == (
        "vjp: going back needs args[0]['a'] of <lambda>, f32[3], but args_res has Array([1., 1.], dtype=float32) there"
    )
    assert float(effx.jit(lambda x: effx.vjp(enp.sin, x)[1])(0.0)(1.0)[0]) == 1.0


def test_stale_programs_are_staged_again() -> None:
    """A function that finds its reference in a variable is staged anew where that belongs to a caller that has ended."""
    held: list[ref.Ref] = []

    def step(c: Any, _: None) -> tuple[Any, None]:
        held[-1][...] += 1.0
        return c + held[-1][...], None

    def f(x: Any) -> Any:
        held.append(effx.new_ref(x))
        return lax.scan(step, x, None, length=3)[0]

    assert [float(effx.jit(f)(1.0)), float(effx.jit(lambda x: f(x))(2.0)), float(effx.grad(f)(1.0))] == [
        10.0,
        14.0,
        4.0,
    ]


def test_no_ref_is_kept_alive() -> None:
    """A jitted function that is dropped frees the content of the reference that it closes over."""

    def called() -> weakref.ref[Cell]:
        r = effx.new_ref(enp.zeros(3))
        effx.jit(lambda x: r.addupdate(x))(1.0)
        return weakref.ref(r._cell)

    cell = called()
    gc.collect()
    assert cell() is None


R, S = effx.new_ref(enp.zeros(3)), effx.new_ref(enp.zeros(3))
WRITE = "write effx.lax.stop_gradient of it, or make the ref inside the function"
RETURNED = "return what it holds, ref[...], or pass the ref as an argument and write to it"


def reading(r: Any) -> Any:
    return r[0]


def write(x: Any) -> Any:
    R[0] = x
    return x


@effx.custom_jvp
def counted(x: Any) -> Any:
    R[0] += 1.0
    return x


counted.defjvp(lambda primals, tangents: (counted(*primals), tangents[0]))


def escaped() -> effx.Array:
    kept: list[ref.Ref] = []
    effx.jit(lambda: kept.append(effx.new_ref(1.0)))()
    return kept[0][...]


REFUSED: dict[str, tuple[Callable[[], object], type[RefError | BackendError], str]] = {
    "twice": (
        lambda: effx.jit(lambda a, b: None)(R, R),
        RefError,
        "jit: argument 0 and argument 1 of <lambda> are one Ref f32[3]; pass it once",
    ),
    "closed over too": (
        lambda: effx.jit(lambda a: a[...] + R[...])(R),
        RefError,
        "Ref{f32[3]}: <lambda> uses the ref in another way than as its argument 0, by closing over it; use the argument",
    ),
    "view": (
        lambda: effx.jit(lambda a: a[...])(R.at[0]),
        RefError,
        "jit: argument 0 of <lambda> is a view of a ref; pass the ref",
    ),
    "returned": (lambda: effx.jit(lambda: R)(), RefError, f"jit: <lambda> returned a Ref f32[3]; {RETURNED}"),
    "returned argument": (
        lambda: effx.jit(lambda a: a)(R),
        RefError,
        f"jit: <lambda> returned a Ref f32[3]; {RETURNED}",
    ),
    "returned from vmap": (
        lambda: effx.vmap(effx.new_ref)(enp.arange(3.0)),
        RefError,
        f"vmap: new_ref returned a Ref f32[]; {RETURNED}",
    ),
    "batched": (
        lambda: effx.vmap(write)(enp.arange(3.0)),
        RefError,
        (
            "ref: a batched value f32[3] is written to a ref that is not batched; pass the ref as a mapped argument, or "
            "make the ref inside the function"
        ),
    ),
    "differentiated": (
        lambda: effx.grad(write)(1.0),
        RefError,
        f"ref: a differentiated value f32[3] is written to a ref that is not differentiated; {WRITE}",
    ),
    "differentiated in jit": (
        lambda: effx.grad(effx.jit(write))(1.0),
        RefError,
        f"ref: a differentiated value f32[3] is written to a ref that is not differentiated; {WRITE}",
    ),
    "other handler": (
        lambda: Intervals().run(write, Interval(enp.float32(0.0), enp.float32(1.0))),
        RefError,
        (
            "ref: a value of intervals f32[3] is written to a ref that was made outside of it, Ref{f32[3]}; make the ref "
            "inside the function"
        ),
    ),
    "gradient": (
        lambda: effx.grad(lambda r: r[0])(R),
        RefError,
        (
            "grad: an argument that is a Ref has no gradient that could be returned; use effx.vjp and f_vjp.with_refs, or "
            "leave it out of argnums"
        ),
    ),
    "no ref for a cotangent": (
        lambda: effx.vjp(lambda r: r[0], R)[1](1.0),
        RefError,
        (
            "vjp: args[0] of <lambda> is a Ref, whose cotangent needs one too: f_vjp.with_refs(ref)(cotangent); or "
            "effx.ad.DontWant() for it"
        ),
    ),
    "a cotangent's value for a ref": (
        lambda: effx.vjp(lambda r: r[0], R)[1].with_refs(effx.ad.GradValue()),
        RefError,
        (
            "vjp: args[0] of <lambda> is a Ref, whose cotangent needs one too: f_vjp.with_refs(ref)(cotangent); or "
            "effx.ad.DontWant() for it"
        ),
    ),
    "no ref for a tangent": (
        lambda: effx.jvp(reading, (R,), (enp.zeros(3),)),
        RefError,
        "jvp: a primal of reading that is a Ref needs a tangent that is one, and no other primal does",
    ),
    "carried": (
        lambda: lax.fori_loop(0, 3, lambda i, r: r, R),
        RefGivenError,
        "ref: a Ref f32[3] stands where an array is expected; read what it holds with ref[...], or close over it",
    ),
    "frozen inside": (
        lambda: effx.jit(lambda: effx.freeze(R))(),
        RefError,
        (
            "freeze: Ref{f32[3]} was made outside of the function that jit stages, which may run again; call freeze where "
            "it was made"
        ),
    ),
    "frozen argument": (
        lambda: effx.jit(effx.free_ref)(R),
        RefError,
        "free_ref: Ref{f32[3]} is an argument, and its caller has it; call free_ref there",
    ),
    "custom rule": (
        lambda: effx.grad(effx.jit(counted))(1.0),
        RefError,
        (
            "custom_jvp: counted reads or writes Ref{f32[3]}, which it closes over, so its rule does not say what that does "
            "to derivatives; pass what the ref holds as an argument"
        ),
    ),
    "exported": (
        lambda: effx.export.export(effx.jit(lambda: R.addupdate(1.0)))(),
        BackendError,
        (
            "export: <lambda> takes or closes over a Ref; make what it holds an argument, and what it holds afterwards a "
            "result"
        ),
    ),
    "exported with an argument": (
        lambda: effx.export.export(effx.jit(lambda r: r[0]))(R),
        BackendError,
        (
            "export: <lambda> takes or closes over a Ref; make what it holds an argument, and what it holds afterwards a "
            "result"
        ),
    ),
    "serialized": (
        lambda: serialize(effx.jit(lambda r: r[0]).lower(R).compile()),
        BackendError,
        (
            "serialize: <lambda> takes or closes over a Ref; make what it holds an argument, and what it holds afterwards a "
            "result"
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    """By its whole text, at the user's line, and the references are as they were."""
    call, kind, message = REFUSED[name]
    R[...] = 0.0
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message
    assert caught.value.at is not None
    assert caught.value.at.startswith("test_transforms.py:")
    assert R[...].tolist() == [0.0, 0.0, 0.0]


def test_escaped_references_are_refused() -> None:
    """The error of one that escapes a jitted function names the function and the line."""
    with pytest.raises(
        RefError,
        match=r"^Ref\{f32\[\]\}: a ref that belongs to jit of <lambda> at test_transforms.py:\d+, made at "
        r"test_transforms.py:\d+ in <lambda>, was used outside of it; return what it holds, ref\[...\], instead\n",
    ):
        escaped()


def test_programs_say_what_they_read_and_write() -> None:
    """In their effect rows; what a staged function takes as a ref is what that holds."""
    program = effx.make_jaxpr(lambda x: R.__setitem__(0, S[1] * x))(1.0)
    assert str(program).splitlines()[0] == "<lambda>(a: f32[]~) ! reads Ref{f32[3]}, writes Ref{f32[3]} {"
    program = effx.make_jaxpr(lambda r: r.__setitem__(0, 1.0))(S)
    assert ([repr(t) for t in program.in_types], [repr(t) for t in program.out_types]) == (
        ["f32[3]"],
        ["f32[3]"],
    )
    assert effx.eval_shape(lambda r: r[...] * 2, S).shape == (3,)
    assert effx.jit(lambda r: r[0]).eval_shape(S).shape == ()


def test_shardings_of_results_beside_references() -> None:
    """`out_shardings` speaks of the results alone, and `in_shardings` of the references' contents too."""
    device = effx.sharding.SingleDeviceSharding(effx.devices()[0])

    def f(r: Any, x: Any) -> Any:
        r[...] += x
        return x, {"a": x + 1}, x

    choices: list[Any] = [(None, None, None), device, (device, {"a": None}, device)]
    for shardings in choices:
        r = effx.new_ref(enp.ones(3))
        y, z, _ = effx.jit(f, out_shardings=shardings)(r, 2.0)
        assert (float(y), float(z["a"]), r[...].tolist()) == (2.0, 3.0, [3.0] * 3)
        effx.jit(f, in_shardings=(device, device), out_shardings=device)(r, 2.0)
        assert r[...].tolist() == [5.0] * 3
        effx.jit(f, out_shardings=shardings).lower(r, 1.0).compile()(r, 1.0)
        assert r[...].tolist() == [6.0] * 3
    with pytest.raises(TreeError, match=r"no prefix of the arrays: at \[2\] the prefix is a dict"):
        effx.jit(f, out_shardings=(device, None, {}))(effx.new_ref(enp.ones(3)), 2.0)
