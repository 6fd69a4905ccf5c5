"""`shard_map`: parts on devices compute what nested batches compute, and gradients are those of the whole."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import AxisNameError, OptionError, ShardingError, TransformError, TreeError
from effx.ir.checker import check_program
from effx.ir.text import parse_program
from effx.sharding import AbstractMesh, Mesh, NamedSharding, use_abstract_mesh
from effx.sharding import PartitionSpec as P

D = effx.devices()
MESHES = {
    "4 x 2": effx.make_mesh((4, 2), ("i", "j")),
    "2 x 4": effx.make_mesh((2, 4), ("i", "j")),
    "1 x 2": effx.make_mesh((1, 2), ("i", "j")),
    "1 x 1": effx.make_mesh((1, 1), ("i", "j")),
    "another order": Mesh(np.array(D)[[3, 1, 0, 2, 7, 6, 5, 4]].reshape(4, 2), ("i", "j")),
}
MESH = MESHES["4 x 2"]
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (8, 8)).astype(np.float32)
W = RNG.uniform(-1, 1, (8,)).astype(np.float32)
M = RNG.uniform(-1, 1, (8, 8)).astype(np.float32)
both = ("i", "j")


def axes_of(spec: P, ndim: int) -> list[tuple[str, ...]]:
    entries = [() if e is None else e if isinstance(e, tuple) else (e,) for e in spec]
    return entries + [()] * (ndim - len(entries))


def model(f: Callable[..., Any], mesh: Any, in_specs: Sequence[P], out_specs: Any) -> Callable[..., Any]:
    """The same by batches over the axes of the mesh, cut and joined by NumPy's rules."""
    sizes = dict(mesh.shape_tuple)

    def cut(x: Any, spec: P) -> tuple[Any, list[str]]:
        shape: list[int] = []
        front: list[int] = []
        back: list[int] = []
        names: list[str] = []
        for n, axes in zip(np.shape(x), axes_of(spec, np.ndim(x)), strict=True):
            k = math.prod([sizes[a] for a in axes])
            front += range(len(shape), len(shape) + len(axes))
            names += axes
            shape += [*[sizes[a] for a in axes], n // k]
            back.append(len(shape) - 1)
        return enp.transpose(enp.reshape(x, shape), (*front, *back)), names

    def joined(y: Any, spec: P) -> Any:
        ndim = y.ndim - len(sizes)
        if ndim < 0:
            return y
        at = {name: a for a, name in enumerate(sizes)}
        order: list[int] = []
        shape: list[int] = []
        for d, axes in enumerate(axes_of(spec, ndim)):
            order += [*[at[a] for a in axes], len(sizes) + d]
            shape.append(math.prod([sizes[a] for a in axes]) * y.shape[len(sizes) + d])
        rest = [at[name] for name in sizes if at[name] not in order]
        y = enp.transpose(y, (*rest, *order))
        for _ in rest:
            y = y[0]
        return y.reshape(shape)

    def run(*xs: Any) -> Any:
        parts, names = zip(*[cut(x, s) for x, s in zip(xs, in_specs, strict=True)], strict=True)
        mapped, left = f, [list(n) for n in names]
        levels = []
        for name in sizes:
            levels.append((name, [n.index(name) if name in n else None for n in left]))
            left = [[a for a in n if a != name] for n in left]
        for name, axes in reversed(levels):
            mapped = effx.vmap(mapped, tuple(axes), axis_name=name, axis_size=sizes[name])
        found = mapped(*parts)
        return effx.tree.map(
            joined,
            found,
            out_specs if not isinstance(out_specs, P) else effx.tree.map(lambda _: out_specs, found),
        )

    return run


def shards(f: Any, mesh: Any, in_specs: Any, out_specs: Any, **named: Any) -> Any:
    return effx.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **named)


RING = {n: [(k, (k + 1) % n) for k in range(n)] for n in (1, 2, 4)}


def ring(x: Any, name: str) -> Any:
    return lax.ppermute(x, name, RING[lax.axis_size(name)])


def summed(w: Any, x: Any) -> Any:
    c, ys = lax.scan(lambda c, row: (enp.sin(c * w + row), (c * row).sum()), enp.zeros(w.shape, w.dtype), x)
    return c.sum() + ys.sum()


def over_i(w: Any, x: Any) -> Any:
    return lax.psum(enp.sin(w) * x, "i")


def squares_over_i(w: Any, x: Any) -> Any:
    return lax.psum(enp.sin(enp.sin(w) * x), "i") ** 2


# A body of a row of weights and a matrix; how these are cut and the result joined.
BODIES: dict[str, tuple[Any, tuple[P, P], P]] = {
    "elementwise": (lambda w, x: enp.sin(w * x), (P("j"), P("i", "j")), P("i", "j")),
    "turned": (lambda w, x: (w * x).T, (P("i"), P("j", "i")), P("i", "j")),
    "both along one axis": (lambda w, x: w[:, None] * x, (P(both), P(both)), P(both)),
    "the other way round": (lambda w, x: w[:, None] * x, (P(("j", "i")), P(("j", "i"))), P(("j", "i"))),
    "psum": (lambda w, x: lax.psum(enp.sin(w * x), both), (P("j"), P("i", "j")), P()),
    "psum of one axis": (lambda w, x: lax.psum(w * x, "i"), (P("j"), P("i", "j")), P(None, "j")),
    "of what is equal": (lambda w, x: lax.psum(w, "j") * x, (P(), P("i")), P(both)),
    "pbroadcast": (lambda w, x: lax.pbroadcast((w * x).sum(), both, lax.axis_size(both) - 1), (P("j"), P("i", "j")), P()),
    "pmean": (lambda w, x: lax.pmean((w * x).sum(), both), (P("j"), P("i", "j")), P()),
    "pmax": (lambda w, x: lax.pmax((w * x).max(), both), (P("j"), P("i", "j")), P()),
    "pmin": (lambda w, x: lax.pmin(w * x, "i"), (P("j"), P("i", "j")), P(None, "j")),
    "gather": (lambda w, x: x @ lax.all_gather(w, "j", tiled=True), (P("j"), P("i")), P(both)),
    "gather a new axis": (lambda w, x: lax.all_gather(w * x, "i", axis=1)[:, 0], (P(), P("i")), P("i")),
    "scatter": (
        lambda w, x: lax.psum_scatter(x * w, "i", scatter_dimension=1, tiled=True), (P(), P("i")), P("j", "i"),
    ),
    "all to all": (lambda w, x: lax.all_to_all(x * w[:1], "i", 0, 1, tiled=True), (P(), P(None, "i")), P("i")),
    "permute": (lambda w, x: ring(x * w, "i") + ring(x, "j"), (P("j"), P("i", "j")), P("i", "j")),
    "index": (lambda w, x: x * lax.axis_index("i") + w * lax.axis_index(both), (P("j"), P("i", "j")), P("i", "j")),
    "scan": (lambda w, x: summed(w, x)[None, None], (P("j"), P("i", "j")), P("i", "j")),
    "scan of collectives": (
        lambda w, x: lax.scan(lambda c, r: (lax.psum(c * r, "j"), ring(c, "i")), w, x)[1],
        (P("j"), P("i", "j")), P("i", "j"),
    ),
    "cond": (
        lambda w, x: lax.cond(lax.axis_index("i") > 1, lambda: enp.sin(w * x), lambda: w * x),
        (P("j"), P("i", "j")), P("i", "j"),
    ),
    "while": (
        lambda w, x: lax.while_loop(lambda c: enp.abs(c).max() > 0.2, lambda c: c * 0.7, w * x),
        (P("j"), P("i", "j")), P("i", "j"),
    ),
    "fori": (
        lambda w, x: lax.fori_loop(0, lax.axis_index("i") + 1, lambda i, c: c * w, x), (P("j"), P("i", "j")), P("i", "j"),
    ),
    "matmul": (lambda w, x: lax.psum((x * w) @ x.T, "j"), (P("j"), P("i", "j")), P("i")),
    "sort": (lambda w, x: enp.sort(x * w, 1), (P("j"), P("i", "j")), P("i", "j")),
    "jit": (effx.jit(over_i), (P("j"), P("i", "j")), P(None, "j")),
    "checkpoint": (
        effx.checkpoint(squares_over_i), (P("j"), P("i", "j")), P(None, "j"),
    ),
    "batch": (effx.vmap(lambda w, c: lax.psum(w * c, "i"), (0, 1)), (P("j"), P("i", "j")), P("j")),
    "scalar": (lambda w, x: w[0] * 2 + x.sum() * 0, (P(), P()), P()),
}  # fmt: skip
NO_GRADIENT = {"while", "fori"}


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("name", BODIES)
def test_values_are_those_of_batches(name: str, checked: bool) -> None:
    body, specs, out = BODIES[name]
    for mesh in [MESHES["4 x 2"], MESHES["another order"]] if checked else [MESHES["2 x 4"], MESHES["1 x 1"]]:
        if name == "gather a new axis" and mesh is not MESH:
            continue
        found = shards(body, mesh, specs, out, check_vma=checked)(W, X)
        np.testing.assert_allclose(found, model(body, mesh, specs, out)(W, X), rtol=1e-5, atol=1e-6)
        if mesh.size > 1:
            assert found.sharding.is_equivalent_to(NamedSharding(mesh, out), found.ndim)


def weights(shape: tuple[int, ...]) -> Any:
    return np.linspace(-1, 1, math.prod(shape), dtype=np.float32).reshape(shape)


def slope(f: Any, at: tuple[Any, ...]) -> float:
    """The slope of f along ones, by differences in double precision."""
    with effx.enable_x64():
        up, down = [f(*[np.float64(x) + h for x in at]) for h in (1e-5, -1e-5)]
        return float((np.asarray(up) - np.asarray(down)) / 2e-5)


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("name", [n for n in BODIES if n not in NO_GRADIENT])
def test_gradients_from_outside(name: str, checked: bool) -> None:
    body, specs, out = BODIES[name]
    f = shards(body, MESH, specs, out, check_vma=checked)
    loss = lambda w, x: (f(w, x) * enp.asarray(weights(f(W, X).shape), w.dtype)).sum()  # noqa: E731
    found = effx.jit(effx.grad(loss, (0, 1)))(W, X)
    want = slope(effx.jit(loss), (W, X))
    assert sum([float(g.sum()) for g in found]) == pytest.approx(want, rel=2e-3, abs=2e-3)
    _, tangent = effx.jvp(loss, (W, X), (np.ones_like(W), np.ones_like(X)))
    assert float(tangent) == pytest.approx(want, rel=2e-3, abs=2e-3)


def total(body: Any) -> Any:
    """A loss of parts: what differs between devices counts once for each, what does not once."""

    def loss(w: Any, x: Any) -> Any:
        y = body(w, x)
        return (y * enp.cos(y)).sum()

    return loss


def whole(loss: Any) -> Any:
    """The loss as one value: summed over the axes along which it differs."""

    def summed(w: Any, x: Any) -> Any:
        y = loss(w, x)
        return lax.psum(y, tuple(effx.typeof(y).vma)) if effx.typeof(y).vma else y

    return summed


@pytest.mark.parametrize("name", [n for n in BODIES if n not in NO_GRADIENT])
def test_gradients_inside_are_those_of_the_whole(name: str) -> None:
    body, specs, _ = BODIES[name]
    for mesh in (MESH, MESHES["another order"]) if name in ("psum", "gather", "cond", "scan") else (MESH,):
        inside = shards(effx.grad(total(body), (0, 1)), mesh, specs, specs)(W, X)
        outside = effx.grad(shards(whole(total(body)), mesh, specs, P()), (0, 1))(W, X)
        for found, want in zip(inside, outside, strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-5)


FORMS: dict[str, Any] = {
    "jit": lambda f: effx.jit(f),
    "vmap": lambda f: lambda w, x: effx.vmap(f, (0, None))(enp.stack([w, 2 * w]), x)[0],
    "vmap of the last axis": lambda f: (
        lambda w, x: effx.vmap(f, (None, 2), 2)(w, enp.stack([x, -x], 2))[..., 0]
    ),
    "scan": lambda f: lambda w, x: lax.scan(lambda c, _: (c, f(c, x)), w, None, 2)[1][1],
    "cond": lambda f: lambda w, x: lax.cond(w[0] < 9, f, lambda w, x: 0 * f(w, x), w, x),
    "checkpoint": lambda f: effx.checkpoint(f),
    "jvp": lambda f: lambda w, x: effx.jvp(f, (w, x), (w, x))[0],
    "disable_jit": lambda f: lambda w, x: run_without_jit(f, w, x),
}


def run_without_jit(f: Any, w: Any, x: Any) -> Any:
    with effx.disable_jit():
        return f(w, x)


@pytest.mark.parametrize("form", FORMS)
def test_under_transformations(form: str) -> None:
    specs, out = (P("j"), P("i", "j")), P("i", "j")

    def body(w: Any, x: Any) -> Any:
        return enp.sin(w * x) + effx.grad(lambda w: lax.psum(w * x, "i").sum())(w)

    f = shards(body, MESH, specs, out)
    want = np.sin(W * X) + X.sum(0)
    np.testing.assert_allclose(FORMS[form](f)(W, X), want, rtol=1e-5, atol=1e-5)
    loss = lambda w, x: FORMS[form](f)(w, x).sum()  # noqa: E731
    np.testing.assert_allclose(effx.grad(loss)(W, X), (np.cos(W * X) * X).sum(0), rtol=1e-4, atol=1e-4)


def test_second_derivatives() -> None:
    f = shards(lambda w, x: lax.psum(enp.sin(w * x).sum(), both), MESH, (P("j"), P("i", "j")), P())
    want = np.diag(-(np.sin(W * X) * X**2).sum(0))
    np.testing.assert_allclose(effx.hessian(f)(W, X), want, rtol=1e-4, atol=1e-5)
    inner = shards(lambda w, x: effx.hessian(lambda w: enp.sin(w * x).sum())(w), MESH, (P(), P("i")), P())
    np.testing.assert_allclose(inner(W, X), want, rtol=1e-4, atol=1e-5)
    again = effx.grad(
        lambda w: shards(
            lambda w, x: lax.psum((effx.grad(lambda w: enp.sin(w * x).sum())(w) ** 2).sum(), "j"),
            MESH,
            (P("j"), P("i", "j")),
            P(),
        )(w, X)
    )(W)
    g, h = (np.cos(W * X) * X).sum(0), np.diag(want)
    np.testing.assert_allclose(again, 2 * g * h, rtol=1e-4, atol=1e-5)


def test_a_step_of_training_by_both_axes() -> None:
    """Batches along i, hidden units along j: gradients are those of the whole network."""
    a, b = M[:, :4] * 0.5, M[:4] * 0.5

    def loss(ws: Any, x: Any) -> Any:
        first, second = ws
        return ((lax.psum(enp.tanh(x @ first) @ second, "j") - x) ** 2).sum()

    specs = ((P(None, "j"), P("j")), P("i"))
    found = shards(lambda ws, x: effx.grad(loss)(ws, x), MESH, specs, specs[0])((a, b), X)
    want = effx.grad(lambda ws: ((enp.tanh(X @ ws[0]) @ ws[1] - X) ** 2).sum())((a, b))
    for got, wanted, spec in zip(found, want, specs[0], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        assert got.sharding.is_equivalent_to(NamedSharding(MESH, spec), 2)


def test_gathered_parameters_have_scattered_gradients() -> None:
    f = shards(
        effx.grad(lambda w, x: enp.sin(x @ lax.all_gather(w, both, tiled=True)).sum()),
        MESH,
        (P(both), P(both)),
        P(both),
    )
    want = X.T @ np.cos(X @ W)
    np.testing.assert_allclose(f(W, X), want, rtol=1e-4, atol=1e-5)
    text = effx.jit(f).lower(W, X).compile().as_text()
    assert "reduce-scatter" in text
    assert "all-reduce" not in text


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_of_what_is_broadcast_are_summed_in_its_size(inside: bool) -> None:
    """Devices send one another as many elements as the bias has, not as many as a batch; of several uses each once."""

    def loss(b: effx.Array, x: effx.Array) -> effx.Array:
        def f(b: effx.Array) -> effx.Array:
            wide = enp.broadcast_to(b, x.shape)
            return lax.psum(enp.sum(enp.sin(x + b) * wide + wide * wide), "i")

        return effx.grad(f)(b) if inside else f(b)

    outer = effx.shard_map(loss, mesh=MESH, in_specs=(P(), P("i")), out_specs=P())
    slope = outer if inside else effx.grad(outer)
    wanted = np.sum(np.cos(X + W) * W + np.sin(X + W) + 2 * W, axis=0)
    given = enp.asarray(W), enp.asarray(X)
    np.testing.assert_allclose(np.asarray(slope(*given)), wanted, rtol=1e-5)
    text = effx.jit(slope).lower(*given).compile().as_text()
    sums = re.findall(r"= (.+?) all-reduce\(", text)
    assert sums
    assert not [s for s in sums if "f32[2,8]" in s], sums


def test_types_say_what_varies() -> None:
    found: list[str] = []

    def body(w: Any, x: Any) -> Any:
        y = lax.psum(w * x, "i")
        z = lax.pcast(w, "i", to="varying")
        found.extend(
            [
                repr(effx.typeof(v))
                for v in (w, x, w * x, y, z, lax.axis_index("i"), lax.pcast(z, "i", to="varying"))
            ]
        )
        found.append(repr(effx.typeof(lax.scan(lambda c, r: (c + r, None), enp.zeros(4), x)[0])))
        found.append(repr(effx.typeof(effx.vmap(lambda r: r.sum())(x))))
        return y

    shards(body, MESH, (P("j"), P("i", "j")), P(None, "j"))(W, X)
    assert found == [
        "f32[4]{V:j}", "f32[2,4]{V:i,j}", "f32[2,4]{V:i,j}", "f32[2,4]{V:j}", "f32[4]{V:i,j}", "i32[]{V:i}",
        "f32[4]{V:i,j}", "f32[4]{V:i,j}", "f32[2]{V:i,j}",
    ]  # fmt: skip
    assert (
        effx.typeof(effx.vmap(lambda x: lax.pcast(x, "b", to="varying"), axis_name="b")(X)).vma == frozenset()
    )


@pytest.mark.parametrize("name", ["psum", "scan", "cond", "checkpoint", "batch"])
def test_programs_are_checked_and_print_and_parse(name: str) -> None:
    body, specs, _ = BODIES[name]
    f = shards(effx.grad(total(body), (0, 1)), MESH, specs, specs)
    program = effx.make_jaxpr(f)(W, X)
    check_program(program)
    assert str(parse_program(str(program))) == str(program)


def test_some_axes_are_left_to_the_partitioner() -> None:
    seen: list[Any] = []

    def body(w: Any, x: Any) -> Any:
        seen.append(
            (
                x.shape,
                effx.sharding.get_abstract_mesh().manual_axes,
                effx.sharding.get_abstract_mesh().auto_axes,
            )
        )
        x = lax.with_sharding_constraint(x, P(None, "j"))
        return lax.psum(enp.sin(w * x) * (1 + lax.axis_index("i")), "i")

    f = effx.jit(shards(body, MESH, (P(), P("i")), P(), axis_names={"i"}))
    want = (np.sin(W * X).reshape(4, 2, 8) * np.arange(1, 5)[:, None, None]).sum(0)
    np.testing.assert_allclose(f(W, X), want, rtol=1e-5)
    assert seen == [((2, 8), ("i",), ("j",))]
    np.testing.assert_allclose(
        effx.grad(lambda w: f(w, X).sum())(W),
        (np.cos(W * X) * X * np.repeat(np.arange(1, 5), 2)[:, None]).sum(0),
        rtol=1e-4,
        atol=1e-5,
    )


def test_nested() -> None:
    def inner(w: Any, x: Any) -> Any:
        return lax.psum(enp.sin(w * x) * (1 + lax.axis_index("j")), "i")

    def body(w: Any, x: Any) -> Any:
        return effx.shard_map(
            inner, in_specs=(P("j"), P(None, "j")), out_specs=P(None, "j"), axis_names={"j"}
        )(w, x)

    f = shards(body, MESH, (P(), P("i")), P(), axis_names={"i"})
    want = (np.sin(W * X).reshape(4, 2, 2, 4) * np.arange(1, 3)[:, None]).sum(0).reshape(2, 8)
    np.testing.assert_allclose(f(W, X), want, rtol=1e-5)
    slopes = effx.grad(lambda w: f(w, X).sum())(W)
    np.testing.assert_allclose(
        slopes, (np.cos(W * X) * X).sum(0) * np.repeat([1, 2], 4), rtol=1e-4, atol=1e-5
    )


def test_meshes_in_force_and_without_devices() -> None:
    f = effx.shard_map(lambda x: lax.psum(x, "i"), in_specs=P("i"), out_specs=P())
    want = X.reshape(4, 2, 8).sum(0)
    with effx.set_mesh(MESH):
        np.testing.assert_allclose(f(X), want, rtol=1e-5)
    with use_abstract_mesh(AbstractMesh((4, 2), ("i", "j"))):
        np.testing.assert_allclose(f(X), want, rtol=1e-5)
        spread = effx.device_put(X, NamedSharding(MESHES["another order"], P("i")))
        np.testing.assert_allclose(effx.jit(f)(spread), want, rtol=1e-5)
        assert "psum" in str(effx.make_jaxpr(f)(X))


def test_smap() -> None:
    with effx.set_mesh(MESH):
        f = effx.smap(
            lambda w, x: (x * w + lax.axis_index("i"), lax.psum(x, "i")),
            in_axes=(None, 0),
            out_axes=(0, None),
            axis_name="i",
        )
        y, z = f(W, X)
        np.testing.assert_allclose(y, X * W + np.repeat(np.arange(4), 2)[:, None], rtol=1e-6)
        np.testing.assert_allclose(z, X.reshape(4, 2, 8).sum(0), rtol=1e-5)
        np.testing.assert_allclose(effx.smap(lambda x: x.T, in_axes=1, out_axes=0, axis_name="j")(X), X.T)


def test_trees_and_the_decorator() -> None:
    @effx.shard_map(
        mesh=MESH, in_specs=({"a": P("i"), "b": P()}, P("j")), out_specs={"sum": P(), "rest": P(None, "j")}
    )
    def f(given: Any, x: Any) -> Any:
        return {"sum": lax.psum(given["a"], "i") * given["b"][0], "rest": [x[None], 2 * x[None]]}

    got = f({"a": X, "b": (2, 3)}, W)
    np.testing.assert_allclose(got["sum"], 2 * X.reshape(4, 2, 8).sum(0), rtol=1e-5)
    np.testing.assert_array_equal(got["rest"][1], 2 * W[None])
    assert f.__name__ == "f"


def test_other_dtypes_and_sizes() -> None:
    double = shards(lambda x: x + x, MESH, P("i"), P("i"))
    for x in (
        np.arange(8),
        np.arange(8) > 3,
        X.astype(enp.bfloat16),
        X + 1j * X,
        np.zeros((0, 3), np.float32),
    ):
        np.testing.assert_array_equal(np.asarray(double(x)), np.asarray(enp.asarray(x) + enp.asarray(x)))
    keys = effx.random.split(effx.random.key(0), 8)
    draw = shards(lambda k: effx.vmap(lambda k: effx.random.normal(k, (2,)))(k), MESH, P(both), P(both))
    np.testing.assert_array_equal(draw(keys), effx.vmap(lambda k: effx.random.normal(k, (2,)))(keys))
    here = shards(
        lambda k: effx.random.normal(effx.random.fold_in(k, lax.axis_index("i")), (1,)), MESH, P(), P("i")
    )
    assert len(set(np.asarray(here(effx.random.key(1))).tolist())) == 4


def test_closed_over_arrays_and_ahead_of_time() -> None:
    held = enp.asarray(W)
    f = effx.jit(lambda x: shards(lambda x: lax.psum(x * held, "i"), MESH, P("i"), P())(x))
    want = (X * W).reshape(4, 2, 8).sum(0)
    np.testing.assert_allclose(f(X), want, rtol=1e-5)
    compiled = f.lower(X).compile()
    np.testing.assert_allclose(compiled(X), want, rtol=1e-5)


def test_arguments_go_to_devices_in_parts() -> None:
    f = effx.jit(shards(lambda x: x * 2, MESH, P("i", "j"), P("i", "j")))
    text = f.lower(X).compile().as_text()
    assert "f32[2,4]" in text.split("\n")[0]
    for collective in ("all-gather", "all-reduce", "collective-permute", "all-to-all"):
        assert collective not in text


def test_branches_that_some_take_have_no_sum_inside() -> None:
    """The gradient inside a branch would wait for devices that are in the other one."""

    def body(w: Any, x: Any) -> Any:
        return lax.cond(
            lax.axis_index("i") > 1,
            lambda: effx.grad(lambda w: enp.sin(w * x).sum())(w),
            lambda: enp.ones(4) * w,
        )

    f = shards(body, MESH, (P("j"), P("i", "j")), P("i", "j"))
    with pytest.raises(
        ShardingError, match=r"P\('i', 'j'\) speaks of 2 axes, but result of body is f32\[4\]"
    ):
        f(W, X)
    f = shards(lambda w, x: body(w, x)[None], MESH, (P("j"), P("i", "j")), P("i", "j"))
    parts = X.reshape(4, 2, 8)
    want = np.where(np.arange(4)[:, None] > 1, (np.cos(W * parts) * parts).sum(1), W)
    np.testing.assert_allclose(f(W, X), want, rtol=1e-5)
    with effx.enable_checks(
        True
    ):  # what varies along i only inside the branch is of the type that rules expect
        np.testing.assert_allclose(f(W, X), want, rtol=1e-5)


def raises(run: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        run()
    assert str(caught.value).split("\n")[0] == text


def f(x: Any, *_: Any) -> Any:
    return x


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no in_specs": (
        lambda: effx.shard_map(f, mesh=MESH, out_specs=P())(X),
        OptionError,
        (
            "shard_map: in_specs must say how the arguments of f are sharded along 'i': it is an Auto axis, "
            "of which types say nothing; use P() for an argument that each device gets whole"
        ),
    ),
    "no mesh": (
        lambda: effx.shard_map(f, in_specs=P(), out_specs=P())(X),
        ShardingError,
        "shard_map: f has no mesh, and none is in force; give mesh, or use effx.set_mesh",
    ),
    "another thing for a mesh": (
        lambda: effx.shard_map(f, mesh="i", in_specs=P(), out_specs=P()),  # type: ignore[call-overload]  # wrong on purpose
        ShardingError,
        "shard_map: mesh must be a Mesh, got 'i' of type str",
    ),
    "another thing for a spec": (
        lambda: shards(f, MESH, ("i",), P()),
        ShardingError,
        (
            "shard_map: in_specs must hold PartitionSpecs, got 'i' of type str; "
            "P() is for an array that is whole on each device"
        ),
    ),
    "unconstrained": (
        lambda: shards(f, MESH, P(P.UNCONSTRAINED), P()),
        ShardingError,
        (
            "shard_map: in_specs: P(UNCONSTRAINED): inside, each axis is sharded or whole, so UNCONSTRAINED says nothing; "
            "leave mesh "
            "axes out of axis_names for the partitioner"
        ),
    ),
    "no such axis": (
        lambda: shards(f, MESH, P("k"), P())(X),
        ShardingError,
        "shard_map: in_specs: the mesh has no axis 'k', which P('k') names; it has ('i', 'j')",
    ),
    "no such name": (
        lambda: shards(f, MESH, P(), P(), axis_names={"k"})(X),
        ShardingError,
        "shard_map: the mesh has no axis 'k', which axis_names names; it has ('i', 'j')",
    ),
    "names as a string": (
        lambda: shards(f, MESH, P(), P(), axis_names="ij"),
        ShardingError,
        "shard_map: axis_names must be a set of names of mesh axes, got 'ij'; write {'ij'}",
    ),
    "an axis of the partitioner's": (
        lambda: shards(f, MESH, P("j"), P(), axis_names={"i"})(X),
        ShardingError,
        "shard_map: in_specs of f names 'j', which is none of the axes that it maps over: 'i'",
    ),
    "unequal parts": (
        lambda: shards(f, MESH, (P(), P(None, both)), P())(X, np.ones((2, 6))),
        ShardingError,
        "shard_map: axis 1 of argument 1 of f, f32[2,6], cannot be sharded into 8 equal parts along 'i' x 'j'",
    ),
    "too few axes": (
        lambda: shards(f, MESH, P(None, None, "i"), P())(X),
        ShardingError,
        "shard_map: P(None, None, 'i') speaks of 3 axes, but argument 0 of f is f32[8,8]",
    ),
    "results differ": (
        lambda: shards(lambda x: {"a": x * 2}, MESH, P("i"), P())(X),
        ShardingError,
        (
            "shard_map: out_specs says P() of result['a'] of <lambda>, but its parts f32[2,8]{V:i} may differ along "
            "i; name the "
            "axis in out_specs, combine the parts by psum or pmax, or give check_vma=False if they are equal"
        ),
    ),
    "not as many arguments": (
        lambda: shards(f, MESH, (P(), P()), P())(X),
        TreeError,
        (
            "shard_map: in_specs of f must be a PartitionSpec or a pytree prefix of the arguments: "
            "tree.broadcast_prefix: the "
            "prefix is a tuple of length 2, the full tree a tuple of length 1"
        ),
    ),
    "by name": (
        lambda: shards(lambda x: x, MESH, P(), P())(x=X),
        TransformError,
        "shard_map: <lambda> takes arguments by position, as in_specs says how each is sharded; got x by name",
    ),
    "inside pmap": (
        lambda: effx.pmap(shards(f, MESH, P(), P()))(X[:2]),
        TransformError,
        "shard_map: f is inside pmap, whose replicas are on no mesh; map over two mesh axes instead",
    ),
    "pmap inside": (
        lambda: shards(lambda x: effx.pmap(f)(x), MESH, P("i"), P("i"))(X),
        TransformError,
        "pmap: f is inside shard_map, where each device is at work already; use vmap, or another axis of the mesh",
    ),
    "twice over one axis": (
        lambda: shards(lambda x: shards(f, MESH, P(), P(), axis_names={"i"})(x), MESH, P(), P())(X),
        ShardingError,
        "shard_map: f maps over the mesh axis 'i', over which a shard_map around it maps",
    ),
    "a constraint of a part": (
        lambda: shards(lambda x: lax.with_sharding_constraint(x, P("i")), MESH, P("i"), P("i"))(X),
        ShardingError,
        (
            "with_sharding_constraint: P('i') shards along 'i', over which an outer shard_map maps: each device has its "
            "own part "
            "already"
        ),
    ),
    "a name that nothing binds": (
        lambda: shards(lambda x: lax.psum(x, "k"), MESH, P("i"), P())(X),
        AxisNameError,
        "psum: axis name 'k' is not bound by vmap, pmap or shard_map; names in scope: 'j', 'i'",
    ),
    "pcast to another kind": (
        lambda: shards(lambda x: lax.pcast(x, "i", to="equal"), MESH, P(), P())(X),
        TransformError,
        "pcast: to must be 'varying', 'reduced' or 'unreduced', got 'equal'",
    ),
    "all_gather to another kind": (
        lambda: shards(lambda x: lax.all_gather(x, "i", to="equal"), MESH, P(), P())(X),
        TransformError,
        "all_gather: to must be 'varying', 'invarying' or 'reduced', got 'equal'",
    ),
    "pcast of what is equal to a term": (
        lambda: shards(lambda x: lax.pcast(x, "i", to="unreduced"), MESH, P(), P())(X),
        TransformError,
        "pcast: f32[8,8] is invarying along 'i', and only what is varying becomes unreduced",
    ),
    "unreduced along an Auto axis": (
        lambda: shards(f, MESH, P(unreduced={"i"}), P())(X),
        ShardingError,
        (
            "shard_map: in_specs: P(unreduced={'i'}) is unreduced or reduced along 'i', an Auto axis, of which types say "
            "nothing; make it an Explicit one"
        ),
    ),
    "smap of a negative axis": (
        lambda: effx.smap(f, in_axes=-1, out_axes=0, axis_name="i"),
        TransformError,
        "smap: in_axes and out_axes hold ints from 0 and None, got -1",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    raises(*ERRORS[name])


PAIRS = [[0, 5], [1, 4], [2, 7], [3, 6]]  # of indices of both axes, j fastest
PARTS = X.reshape(8, 1, 8)
IN_GROUPS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, int], Any]]] = {
    "psum": (lambda x: lax.psum(x, both, axis_index_groups=PAIRS), lambda g, k: g.sum(0)),
    "pmax": (lambda x: lax.pmax(x, both, axis_index_groups=PAIRS), lambda g, k: g.max(0)),
    "pmean": (lambda x: lax.pmean(x, both, axis_index_groups=PAIRS), lambda g, k: g.mean(0)),
    "all_gather": (lambda x: lax.all_gather(x, both, axis_index_groups=PAIRS, axis=1), lambda g, k: np.stack([*g], 1)),
    "all_gather tiled": (
        lambda x: lax.all_gather(x, both, axis_index_groups=PAIRS, axis=1, tiled=True),
        lambda g, k: np.concatenate([*g], 1),
    ),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x, both, scatter_dimension=1, axis_index_groups=PAIRS, tiled=True),
        lambda g, k: g.sum(0)[:, 4 * k : 4 * k + 4],
    ),
    "all_to_all": (
        lambda x: lax.all_to_all(x, both, 1, 0, axis_index_groups=PAIRS, tiled=True),
        lambda g, k: np.concatenate([p[:, 4 * k : 4 * k + 4] for p in g], 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "unchecked"])
@pytest.mark.parametrize("name", IN_GROUPS)
def test_groups_of_indices_of_several_axes(name: str, checked: bool) -> None:
    """Each index communicates with its group alone, and derivatives do; with and without types that say what varies."""
    collective, reference = IN_GROUPS[name]
    f = shards(lambda x: collective(x)[None], MESH, P(both), P(both), check_vma=checked)
    group_of = {i: group for group in PAIRS for i in group}
    expected = [reference(PARTS[group_of[i]], group_of[i].index(i)) for i in range(8)]
    np.testing.assert_allclose(f(X), np.stack(expected), rtol=1e-6)
    weights = RNG.normal(size=np.shape(f(X))).astype(np.float32)
    gradient = effx.grad(lambda x: (weights * f(x)).sum())(X)
    direction = RNG.normal(size=X.shape).astype(np.float32)
    tangent = effx.jvp(f, (X,), (direction,))[1]
    np.testing.assert_allclose((gradient * direction).sum(), (weights * tangent).sum(), rtol=1e-4)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("tiled", [False, True])
def test_gathered_arrays_that_types_show_as_equal(axis: int, tiled: bool) -> None:
    """`to='invarying'`: one array with one cotangent, of which each device gets its part."""
    types: list[str] = []

    def body(x: Any) -> Any:
        y = lax.all_gather(x, "i", axis=axis, tiled=tiled, to="invarying")
        types.append(repr(y.type.vma))
        return y

    f = shards(body, MESH, P("i"), P())
    parts = np.split(X, 4)
    expected = np.concatenate(parts, axis) if tiled else np.stack(parts, axis)
    np.testing.assert_array_equal(f(X), expected)
    assert set(types) == {"frozenset()"}
    weights = RNG.normal(size=expected.shape).astype(np.float32)
    gradient = effx.jit(effx.grad(lambda x: (weights * f(x)).sum()))(X)
    pieces = np.split(weights, 4, axis) if tiled else [np.take(weights, i, axis) for i in range(4)]
    np.testing.assert_allclose(gradient, np.concatenate(pieces, 0), rtol=1e-6)
    unchecked = shards(body, MESH, P("i"), P(), check_vma=False)
    np.testing.assert_array_equal(unchecked(X), expected)
    batched = effx.vmap(lambda x: lax.all_gather(x, "i", to="invarying"), axis_name="i", out_axes=None)(X)
    np.testing.assert_array_equal(batched, X)


def test_types_show_how_arrays_vary() -> None:
    """`typeof(x).mat` is JAX's name: the axes along which devices have different values, and those along which not."""
    seen: list[Any] = []

    def body(x: Any) -> Any:
        mat = effx.typeof(x).mat
        seen.append((mat.varying, mat.invarying(effx.sharding.get_abstract_mesh()), mat.empty))
        shape = effx.eval_shape(lambda x: x * 2, x)
        assert effx.typeof(shape).mat == effx.typeof(lax.full_like(shape, 1)).mat == mat
        assert effx.typeof(enp.zeros_like(x)).mat == mat
        return lax.psum(x, "i")

    shards(body, MESH, P("i"), P())(X)
    assert seen[0] == ({"i"}, {"j"}, False)
    assert effx.typeof(X).mat == effx.sharding.ManualAxisType()
    assert effx.typeof(X).mat.update(varying={"i"}).varying == {"i"}


def test_values_that_are_no_arrays_pass_where_the_spec_is_none() -> None:
    """They are the caller's objects inside, and ints are known there; a program is staged once for equal ints."""
    x, thing, staged = np.arange(8.0, dtype="f4"), object(), []

    def body(o: Any, x: Any, n: Any) -> Any:
        assert o["thing"] is thing
        staged.append(n)
        return x * enp.ones(n) if n else x

    f = shards(body, MESH, (None, P("i"), None), P("i"))
    for n in (2, 2, 0):
        np.testing.assert_array_equal(f({"thing": thing}, x, n), x)
    assert staged == [2, 0]
    np.testing.assert_array_equal(effx.jit(lambda x: f({"thing": thing}, x, 2))(x), x)
    with pytest.raises(ShardingError, match="cannot be sharded into 4 equal parts"):
        f({"thing": thing}, x[:6], 2)


def test_none_among_specs() -> None:
    """It is P(), and what stands for a part without arrays."""
    x = np.arange(8.0, dtype="f4")
    y, nothing = shards(lambda x: (2 * x, None), MESH, P("i"), (P("i"), None))(x)
    np.testing.assert_array_equal(y, 2 * x)
    assert nothing is None
    assert shards(lambda x: None, MESH, P("i"), None)(x) is None
    np.testing.assert_array_equal(shards(lambda x, y: x + y, MESH, (P("i"), None), P("i"))(x, 1.0), x + 1)
    np.testing.assert_array_equal(shards(lambda x: lax.psum(x.sum(), "i"), MESH, P("i"), None)(x), x.sum())
    np.testing.assert_array_equal(shards(lambda x: x, MESH, None, P())(x), x)


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("checked", [False, True])
def test_refs_as_arguments(staged: bool, checked: bool) -> None:
    """Each device reads and writes its shard; afterwards the caller's reference has the shards joined."""

    def f(r: Any, x: Any) -> Any:
        r[...] += x * 2
        r[0] = lax.axis_index("i") * 100.0
        return r[...].sum()[None]

    mapped = effx.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"), check_vma=checked)
    run = effx.jit(mapped) if staged else mapped
    for start in (0.0, 5.0):  # the second call runs in C++
        content = np.arange(16, dtype=np.float32) + start
        ref = effx.new_ref(content)
        sums = run(ref, np.ones(16, np.float32))
        want = content + 2
        want[:: 16 // 4] = np.arange(4) * 100
        np.testing.assert_array_equal(ref[...], want)
        np.testing.assert_array_equal(sums, want.reshape(4, -1).sum(1))


def test_refs_of_enclosing_functions() -> None:
    """A reference that a differentiated function makes is written by all devices, and gradients go through it."""

    def f(x: Any) -> Any:
        r = effx.new_ref(x)

        def square(r: Any) -> None:
            r[...] = r[...] ** 2

        effx.shard_map(square, mesh=MESH, in_specs=P("i"), out_specs=None)(r)
        return r[...].sum()

    np.testing.assert_array_equal(effx.grad(f)(np.arange(8.0, dtype=np.float32)), np.arange(8.0) * 2)


def test_refs_that_differ_between_devices() -> None:
    """A reference that is whole on each device must be left equal on all; a result keeps its name in errors."""

    def f(r: Any) -> Any:
        r[...] += lax.axis_index("i")
        return 1.0

    def g(r: Any) -> Any:
        return {"a": lax.axis_index("i")}

    ref = effx.new_ref(np.zeros(4, np.float32))
    for fun, text in (
        (f, "what f leaves in the ref argument 0, but its parts f32[4]{V:i}"),
        (g, "result['a'] of g, but its parts i32[]{V:i}"),
    ):
        with pytest.raises(ShardingError) as caught:
            effx.shard_map(fun, mesh=MESH, in_specs=P(), out_specs=P())(ref)
        assert str(caught.value).split("\n")[0] == (
            f"shard_map: out_specs says P() of {text} may differ along i; name the axis in out_specs, combine the parts by "
            "psum or pmax, or give check_vma=False if they are equal"
        )
