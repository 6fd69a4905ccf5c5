"""Programs on several devices: they compute what they compute on one, and results lie as asked."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import BackendError, DonatedArrayError, ShardingError, TransformError, TreeError
from effx.lower.runtime.executables import Executable
from effx.sharding import Mesh, NamedSharding, SingleDeviceSharding
from effx.sharding import PartitionSpec as P

D = effx.devices()
MESH = effx.make_mesh((4, 2), ("x", "y"))
X = np.linspace(-0.9, 1, 128, dtype=np.float32).reshape(16, 8)


def on(*entries: Any) -> NamedSharding:
    return NamedSharding(MESH, P(*entries))


def spread(x: Any, *entries: Any) -> Any:
    return effx.device_put(x, on(*entries))


def step(w: Any, x: Any) -> Any:
    return enp.mean(enp.tanh(x @ w) ** 2)


CASES: dict[str, Any] = {
    "elementwise": lambda x: enp.sin(x) * 2,
    "matmul": lambda x: x @ x.T,
    "reductions": lambda x: (x.sum(0), x.max(), enp.argmax(x, 1)),
    "shapes": lambda x: enp.concatenate([x.reshape(-1), x.T.ravel()])[::2],
    "sort": lambda x: enp.sort(x, 0),
    "cumsum": lambda x: enp.cumsum(x, 1),
    "gather": lambda x: x[enp.asarray([3, 0, 15, 3])],
    "scatter": lambda x: x.at[enp.asarray([1, 5])].add(1.0),
    "scan": lambda x: lax.scan(lambda c, row: (c + row, c * row), enp.zeros(8), x),
    "while": lambda x: lax.while_loop(lambda c: enp.sum(c) < 1e3, lambda c: c * 1.5 + 1, x),
    "cond": lambda x: lax.cond(x.sum() > 0, enp.sin, enp.cos, x),
    "gradient": lambda x: effx.grad(step, (0, 1))(x.T, x),
    "vmap": lambda x: effx.vmap(lambda r: r / enp.linalg.norm(r))(x),
    "fft": lambda x: enp.abs(enp.fft.fft(x)),
    "conv": lambda x: enp.convolve(x[:, 0], x[0]),
    "random": lambda x: x + effx.random.normal(effx.random.key(0), x.shape),
    "solve": lambda x: enp.linalg.solve(x.T @ x + enp.eye(8), x.T),
    "hessian": lambda x: effx.hessian(lambda v: enp.sum(v**3))(x[0]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("spec", [("x", "y"), (None, "y"), (("y", "x"),)], ids=str)
def test_sharded_is_unsharded(name: str, spec: tuple[Any, ...]) -> None:
    """The partitioner changes where things are computed, and nothing else."""
    f = CASES[name]
    found, want = effx.jit(f)(spread(X, *spec)), effx.jit(f)(enp.asarray(X))
    for a, b in zip(effx.tree.leaves(found), effx.tree.leaves(want), strict=True):
        assert a.sharding.device_set == set(D)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=2e-5)


def test_eager_operations_run_on_their_operands_devices() -> None:
    """One kernel for each sharding; other operands that nothing binds come along."""
    x = spread(X, "x", "y")
    assert (x + 1).sharding == x.sharding
    assert enp.exp(x).sharding == x.sharding
    assert x.T.sharding.spec == P("y", "x")
    assert x.sum(1).sharding.spec == P("x")
    assert (x * X).sharding == x.sharding
    np.testing.assert_allclose(np.asarray(effx.grad(lambda v: (v**3).sum())(x)), 3 * X**2, rtol=1e-6)
    assert effx.grad(lambda v: (v**3).sum())(x).sharding == x.sharding
    assert float(x[3, 2]) == X[3, 2]


def test_asked_shardings() -> None:
    """For arguments and results, for all or for some, given as NamedShardings or by the mesh in force."""
    f = effx.jit(
        lambda w, x: {"loss": step(w, x), "out": x @ w},
        in_shardings=(on(None, "y"), on("x")),
        out_shardings={"loss": None, "out": on("x", "y")},
    )
    found = f(X.T, X)
    assert found["out"].sharding == on("x", "y")
    np.testing.assert_allclose(np.asarray(found["out"]), X @ X.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(float(found["loss"]), np.mean(np.tanh(X @ X.T) ** 2), rtol=1e-5)
    with effx.set_mesh(MESH):
        g = effx.jit(lambda x: x + 1, in_shardings=P("x"), out_shardings=P(None, "y"))
        assert g(X).sharding == on(None, "y")
    h = effx.jit(lambda x: x + 1, out_shardings=on("y"))
    assert h(X).sharding == on("y")
    assert h(spread(X, "x")).sharding == on("y")
    assert effx.jit(lambda x: x + 1, in_shardings=SingleDeviceSharding(D[2]))(X).devices() == {D[2]}
    one = effx.make_mesh((1,), ("i",), devices=D[3:])
    assert effx.jit(lambda x: x + 1, out_shardings=NamedSharding(one, P("i")))(X).sharding.spec == P("i")


def test_inside_of_other_transformations() -> None:
    """There they are constraints: values, derivatives and batches are the same."""
    f = effx.jit(lambda x: enp.sin(x) * x, in_shardings=on("x"), out_shardings=on(None, "y"))
    want = effx.jit(lambda x: enp.sin(x) * x)
    assert effx.jit(lambda x: f(x) * 2)(X).shape == X.shape
    text = effx.jit(lambda x: f(x) * 2).lower(X).as_text()
    assert text.count("sdy.sharding_constraint") == 2
    x, both = enp.asarray(X), enp.stack([X, 2 * X])
    for found, expected in (
        (effx.grad(lambda v: f(v).sum())(x), effx.grad(lambda v: want(v).sum())(x)),
        (effx.vmap(f)(both), effx.vmap(want)(both)),
        (effx.jvp(f, (x,), (x,))[1], effx.jvp(want, (x,), (x,))[1]),
    ):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6)
    scanned = lax.scan(lambda c, _: (f(c), None), enp.asarray(X), None, length=2)[0]
    np.testing.assert_allclose(np.asarray(scanned), np.asarray(want(want(X))), rtol=1e-5, atol=1e-6)


def test_constraints() -> None:
    """At a point in a program, with its derivative, under vmap, in loops; without a mesh they name no devices."""

    def f(x: Any) -> Any:
        with effx.set_mesh(MESH):
            return lax.with_sharding_constraint(x * 2, P("y", P.UNCONSTRAINED))

    x = spread(X, "x")
    assert f(x).sharding.spec[0] == "y"
    assert effx.jit(f)(X).sharding.spec[0] == "y"
    np.testing.assert_array_equal(np.asarray(effx.grad(lambda v: f(v).sum())(X)), np.full_like(X, 2))
    np.testing.assert_array_equal(np.asarray(effx.vmap(f, 1, 1)(enp.stack([X, X], 1)))[:, 1], 2 * X)
    program = effx.make_jaxpr(f)(X)
    assert "constrain[mesh=(('x', 4), ('y', 2)) cuts=((1,), None)" in str(program)
    assert str(effx.ir.parse_program(str(program))) == str(program)
    tree = lax.with_sharding_constraint({"a": X, "b": X[0]}, {"a": on("x"), "b": None})
    assert tree["a"].sharding == on("x")
    assert isinstance(tree["b"], np.ndarray)
    with pytest.raises(
        BackendError,
        match="inside pmap, and inside shard_map over all axes of a mesh, each device has its own part",
    ):
        effx.pmap(lambda v: lax.with_sharding_constraint(v, on()))(X[:8])


def test_ahead_of_time() -> None:
    """Shardings of descriptions, of arrays and of `jit` are in the text, and the compiled function wants them."""
    f = effx.jit(lambda w, x: x @ w, in_shardings=(None, on("x")))
    lowered = f.lower(
        effx.ShapeDtypeStruct((8, 4), np.float32, sharding=on(None, "y")),
        effx.ShapeDtypeStruct((16, 8), np.float32),
    )
    assert '[{}, {"m1"}]' in lowered.as_text()
    assert '[{"m0"}, {}]' in lowered.as_text()
    compiled = lowered.compile()
    assert compiled.input_shardings == ((on(None, "y"), on("x")), {})
    assert compiled.output_shardings == on("x", "y")
    y = compiled(X[:8, :4], X)
    assert y.sharding == on("x", "y")
    np.testing.assert_allclose(np.asarray(y), X @ X[:8, :4], rtol=1e-5, atol=1e-6)
    held = spread(X, "x")
    assert effx.jit(lambda v: v + held).lower(X).compile().output_shardings == on("x")
    assert repr(effx.ShapeDtypeStruct((2,), np.float32, sharding=on())) == (
        f"ShapeDtypeStruct(shape=(2,), dtype=float32, sharding={on()!r})"
    )


def test_closed_over_arrays_decide_too() -> None:
    """A function that closes over parameters on a mesh runs there."""
    w = spread(X, "x", "y")
    f = effx.jit(lambda v: v @ w.T)
    y = f(X)
    assert y.sharding.device_set == set(D)
    np.testing.assert_allclose(np.asarray(y), X @ X.T, rtol=1e-5, atol=1e-6)


def test_repeated_calls_need_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """C++ knows arguments that lie as before."""
    f = effx.jit(lambda w, x: (w - 0.1 * effx.grad(step)(w, x), x))
    w, x = spread(X.T.copy(), None, "y"), spread(X, "x")
    w, x = f(w, x)
    w, x = f(w, x)
    with monkeypatch.context() as patch:
        patch.setattr(Executable, "run", None)
        for _ in range(3):
            w, x = f(w, x)
    assert f._cache_size() <= 2  # type: ignore[attr-defined]  # of jaxlib's C++ functions


def test_meshes_of_one_device_need_no_python_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same script runs on one device, with arrays on its mesh and beside it, and C++ knows them too."""
    one = NamedSharding(effx.make_mesh((1,), ("x",), devices=D[2:3]), P("x"))
    f = effx.jit(lambda x, y: (x + y, y), donate_argnums=0, out_shardings=one)
    x, y = effx.device_put(X, one), enp.ones(8)
    x, _ = f(x, y)
    x, y = f(x, y)
    x, y = f(x, y)
    with monkeypatch.context() as patch:
        patch.setattr(Executable, "run", None)
        gone = x
        x, y = f(x, y)
        assert gone.is_deleted()
    assert x.sharding == one
    assert x.devices() == y.devices() == {D[2]}
    np.testing.assert_array_equal(np.asarray(x), X + 1 + 1 + 1 + 1)
    with pytest.raises(BackendError, match=r"different devices, cpu:3 and the mesh Mesh\('x': 1"):
        f(x, effx.device_put(y, D[3]))


def test_donation() -> None:
    """Memory of an argument goes to a result that lies alike."""
    f = effx.jit(lambda x: x + 1, donate_argnums=0)
    x = spread(X, "x")
    text = f.lower(x).compile().as_text()
    assert "input_output_alias={ {}: (0, {}, " in text
    np.asarray(x)
    buffer: Any = x.buffer
    copy = weakref.ref(buffer._npy_value)
    y = f(x)
    assert x.is_deleted()
    assert copy() is None
    assert x.shape == (16, 8)
    assert x.sharding == y.sharding == on("x")
    with pytest.raises(DonatedArrayError, match=r"^add: the array f32\[16,8\] was donated "):
        x + 1
    np.testing.assert_array_equal(np.asarray(y), X + 1)


def test_errors() -> None:
    """What does not fit is refused before XLA sees it."""
    f = effx.jit(lambda x: x, in_shardings=on("y"))
    calls: list[tuple[Any, type[Exception], str]] = [
        (
            lambda: f(spread(X, "x")),
            ShardingError,
            (
                "<lambda>: argument 0 of type f32[16,8] is sharded as P('x') on Mesh('x': 4, 'y': 2, axis_types=(Auto, "
                "Auto)), but "
                "in_shardings asks for P('y') on Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)); move it with device_put, or "
                "leave in_shardings out"
            ),
        ),
        (
            lambda: f(X[:3]),
            ShardingError,
            "NamedSharding: axis 0 of the shape (3, 8) is 3, which P('y') cannot split into 2 equal parts",
        ),
        (
            lambda: effx.jit(lambda x: x, in_shardings=(on("y"), on("y")))(X),
            TreeError,
            (
                "jit: in_shardings: the shardings are no prefix of the arrays: the prefix is a tuple of length 2, "
                "the full tree "
                "a tuple of length 1"
            ),
        ),
        (
            lambda: effx.jit(lambda x: x, in_shardings="x"),
            ShardingError,
            "jit: in_shardings must hold NamedShardings, PartitionSpecs and None, got 'x' of type str",
        ),
        (
            lambda: effx.jit(lambda x: x, in_shardings=on("y"), device=D[0]),
            TransformError,
            "jit: give shardings or a device, not both",
        ),
        (
            lambda: f(x=X),
            TransformError,
            "jit: <lambda> has in_shardings, which speak of positional arguments; call it without arguments by name, got x",
        ),
        (
            lambda: spread(X, "x") + effx.device_put(X, D[1]),
            BackendError,
            (
                "add: arrays are committed to different devices, cpu:1 and the mesh Mesh('x': 4, 'y': 2, axis_types=(Auto, "
                "Auto)); move them with device_put"
            ),
        ),
        (
            lambda: spread(X, "x") + effx.device_put(X, NamedSharding(Mesh(D[:4], "x"), P("x"))),
            BackendError,
            (
                "add: arrays are committed to different devices, the mesh Mesh('x': 4, 'y': 2, axis_types=(Auto, "
                "Auto)) and the "
                "mesh Mesh('x': 4, axis_types=(Auto)); move them with device_put"
            ),
        ),
    ]
    for call, kind, text in calls:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value).splitlines()[0] == text


def test_adjacent_parallel_maps() -> None:
    """A parallel map runs on the devices of a mesh if their number allows it."""
    f = effx.jit(lambda v: effx.pmap(lambda r: r * 2)(v[:4]) + lax.with_sharding_constraint(v[4:8], on("x")))
    np.testing.assert_allclose(np.asarray(f(X)), X[:4] * 2 + X[4:8], rtol=1e-6)
    two = effx.make_mesh((2,), ("i",))
    g = effx.jit(
        lambda v: effx.pmap(lambda r: r * 2)(lax.with_sharding_constraint(v, NamedSharding(two, P("i"))))
    )
    with pytest.raises(
        BackendError, match=r"a parallel map wants 4 devices in a program that runs on the 2 of the mesh"
    ):
        g(X[:4])
