"""pmap: the reference's examples, composition with every other transformation, options.

Never: asks for more than eight devices, which tests/conftest.py provides.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax, random
from effx.handlers.oracle import evaluate
from effx.ir.checker import check_program
from effx.ir.text import parse_program
from effx.lower.placement.shardings import grid_sharding
from effx.sharding import PartitionSpec

Data = np.ndarray[Any, Any]
DEVICES = effx.devices()


def close(got: Any, want: Any, rtol: float = 2e-5) -> None:
    """Compares two trees of arrays."""
    for g, w in zip(effx.tree.leaves(got), effx.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=rtol, atol=1e-5)


# The reference's examples


def test_map_along_a_leading_axis() -> None:
    """The documented examples of a pure map."""
    assert effx.pmap(lambda x: x**2)(enp.arange(8)).tolist() == [0, 1, 4, 9, 16, 25, 36, 49]
    x = enp.arange(3 * 2 * 2.0).reshape((3, 2, 2))
    y = enp.arange(3 * 2 * 2.0).reshape((3, 2, 2)) ** 2
    assert effx.pmap(enp.dot)(x, y).tolist() == [
        [[4.0, 9.0], [12.0, 29.0]],
        [[244.0, 345.0], [348.0, 493.0]],
        [[1412.0, 1737.0], [1740.0, 2141.0]],
    ]
    a, b = enp.arange(2.0), 4.0
    first, second = effx.pmap(lambda x, y: (x + y, y * 2.0), in_axes=(0, None))(a, b)
    assert (first.tolist(), second.tolist()) == ([4.0, 5.0], [8.0, 8.0])


def test_normalize() -> None:
    """The documented examples of communication."""
    normalize = effx.pmap(lambda x: x / lax.psum(x, axis_name="i"), axis_name="i")
    out = normalize(enp.arange(4.0))
    assert str(out) == "[0.         0.16666667 0.33333334 0.5       ]"
    assert float(out.sum()) == 1.0

    @partial(effx.pmap, axis_name="rows")
    @partial(effx.pmap, axis_name="cols")
    def both(x: Any) -> Any:
        row_normed = x / lax.psum(x, "rows")
        col_normed = x / lax.psum(x, "cols")
        doubly_normed = x / lax.psum(x, ("rows", "cols"))
        return row_normed, col_normed, doubly_normed

    rows, columns, doubly = both(enp.arange(8.0).reshape((4, 2)))
    np.testing.assert_allclose(rows.sum(0), [1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(columns.sum(1), [1.0, 1.0, 1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(float(doubly.sum((0, 1))), 1.0, rtol=1e-6)
    assert rows.sharding == grid_sharding(DEVICES, (4, 2), (0, 1))


def test_devices_can_be_chosen() -> None:
    """Two computations, on the first six devices and on the remaining two."""
    f1 = effx.pmap(lambda x: x / lax.psum(x, axis_name="i"), axis_name="i", devices=DEVICES[:6])
    f2 = effx.pmap(lambda x: lax.psum(x**2, axis_name="i"), axis_name="i", devices=DEVICES[6:])
    y1, y2 = f1(enp.arange(6.0)), f2(enp.array([2.0, 3.0]))
    np.testing.assert_allclose(y1, np.arange(6.0) / 15, rtol=1e-6)
    assert y2.tolist() == [13.0, 13.0]
    assert (y1.devices(), y2.devices()) == (set(DEVICES[:6]), set(DEVICES[6:]))
    assert effx.pmap(lambda x: x + 1, devices=DEVICES[3:4])(enp.ones(1)).devices() == {DEVICES[3]}
    assert effx.pmap(lambda x: x + 1, backend="cpu")(enp.ones(2)).devices() == set(DEVICES[:2])


def test_readme() -> None:
    """Nested parallel maps, differentiated through and inside; the printed values of the reference."""

    @effx.pmap
    def f(x: Any) -> Any:
        y = enp.sin(x)

        @effx.pmap
        def g(z: Any) -> Any:
            return enp.cos(z) * enp.tan(y.sum()) * enp.tanh(x).sum()

        return effx.grad(lambda w: enp.sum(g(w)))(x)

    x = enp.arange(8.0).reshape((4, 2))
    want = [[0, -0.7170853], [-3.1085174, -0.4824318], [10.366636, 13.135289], [0.22163185, -0.52112055]]
    np.testing.assert_allclose(f(x), want, rtol=2e-5)
    back = effx.grad(lambda x: enp.sum(f(x)))(x)
    want = [
        [-3.2369726, -1.6356447],
        [4.7572474, 11.606951],
        [-98.524414, 42.76499],
        [-1.6007166, -1.2568436],
    ]
    np.testing.assert_allclose(back, want, rtol=5e-5)
    keys = random.split(random.PRNGKey(0), 8)
    mats = effx.pmap(lambda key: random.normal(key, (5, 6)))(keys)
    result = effx.pmap(lambda x: enp.dot(x, x.T))(mats)
    close(effx.pmap(enp.mean)(result), np.array([float(enp.mean(m @ m.T)) for m in mats]))


# Composition


def member(x: Any) -> Any:
    """Collectives of several kinds around nonlinear work."""
    shifted = lax.ppermute(enp.sin(x), "i", [(0, 1), (1, 2), (2, 0)])
    total = lax.psum(x * shifted, "i")
    return enp.tanh(total / 10) * x + lax.pmax(x, "i") + lax.all_gather(x, "i").sum(0)


X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
MAPS = {"vmap": partial(effx.vmap, axis_name="i"), "pmap": partial(effx.pmap, axis_name="i")}


def looped(x: Any) -> Any:
    """A scan with a collective in each step."""
    return effx.lax.scan(lambda c, k: (enp.sin(c) + lax.pmean(c, "i") * k, c), x, enp.arange(3.0))


def branched(x: Any) -> Any:
    """A branch that all replicas take alike, and a loop."""
    y = effx.lax.cond(lax.psum(x.sum(), "i") > 0, lambda v: v * 2 + lax.psum(v, "i"), lambda v: v, x)
    return effx.lax.fori_loop(0, 3, lambda k, v: v * 1.5 + k, y)


@pytest.mark.parametrize(
    "compose",
    [
        lambda m: m(member),
        lambda m: effx.jit(m(member)),
        lambda m: m(effx.jit(member)),
        lambda m: effx.jit(lambda x: m(member)(x * 2) + x.sum()),
        lambda m: effx.grad(lambda x: (m(member)(x) ** 2).sum()),
        lambda m: effx.jit(effx.grad(lambda x: (m(member)(x) ** 2).sum())),
        lambda m: m(effx.grad(lambda x: (member(x) ** 2).sum())),
        lambda m: effx.jacfwd(m(member)),
        lambda m: effx.jacrev(m(member)),
        lambda m: effx.hessian(lambda x: (m(member)(x) ** 2).sum()),
        lambda m: effx.vmap(m(member), in_axes=None, out_axes=None, axis_size=2),
        lambda m: lambda x: effx.vmap(m(member))(enp.stack([x, x * 2])),
        lambda m: lambda x: effx.vmap(effx.grad(lambda x: m(member)(x).sum()))(enp.stack([x, x * 2])),
        lambda m: lambda x: m(effx.vmap(member, in_axes=1))(enp.stack([x, x * 2], 2)),
        lambda m: m(looped),
        lambda m: m(branched),
        lambda m: effx.grad(lambda x: m(looped)(x)[0].sum()),
        lambda m: effx.jit(effx.grad(lambda x: m(branched)(x).sum())),
        lambda m: effx.checkpoint(m(member)),
        lambda m: effx.grad(lambda x: effx.checkpoint(m(member))(x).sum()),
        lambda m: m(effx.checkpoint(member)),
        lambda m: lambda x: effx.lax.scan(lambda c, _: (m(member)(c) / 8, c.sum()), x, None, length=3),
        lambda m: lambda x: effx.lax.cond(x.sum() > 9, lambda v: v, m(member), x),
        lambda m: lambda x: effx.linearize(m(member), x)[1](x),
        lambda m: lambda x: effx.linear_transpose(m(lambda v: lax.psum(v, "i") * 3 + v), x)(x),
    ],
)
def test_pmap_composes_as_vmap_does(compose: Any) -> None:
    """Whatever is done to a parallel map, or inside it, gives what it gives with vmap."""
    close(compose(MAPS["pmap"])(X), compose(MAPS["vmap"])(X), 2e-4)


def test_axes() -> None:
    """Axes of arguments and results: trees, negative ones, none."""
    x, w = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4), {"w": np.ones((4, 3), np.float32), "b": 2.0}

    def f(x: Any, p: Any, *, k: Any) -> Any:
        return x @ p["w"] + p["b"], {"k": lax.psum(k, "i"), "x": x * k}

    options: dict[str, Any] = {
        "in_axes": (1, {"w": -1, "b": None}),
        "out_axes": (-1, {"k": None, "x": 1}),
        "axis_name": "i",
    }
    k = np.arange(3.0, dtype=np.float32)
    got, want = effx.pmap(f, **options)(x, w, k=k), effx.vmap(f, **options)(x, w, k=k)
    close(got, want)
    assert [a.shape for a in effx.tree.leaves(got)] == [a.shape for a in effx.tree.leaves(want)]


def test_closed_over_arrays_are_shared() -> None:
    """What the function closes over is the same for all replicas, and is differentiated as such."""
    w = enp.arange(3.0)

    def loss(m: Any, w: Any) -> Any:
        return m(lambda x: enp.sin(x * w) * lax.psum(w, "i"), axis_name="i")(X).sum()

    close(effx.grad(partial(loss, effx.pmap))(w), effx.grad(partial(loss, effx.vmap))(w))


def test_shared_results_and_operands_transpose() -> None:
    """A shared operand's cotangents add up; a shared result's goes to one replica."""

    def f(m: Any, w: Any) -> Any:
        g = m(lambda x, w: lax.psum(x * w, "i"), in_axes=(0, None), out_axes=None, axis_name="i")
        return (g(X, w) ** 2).sum()

    w = np.array([1.0, -2.0, 3.0], np.float32)
    close(effx.grad(partial(f, effx.pmap))(w), effx.grad(partial(f, effx.vmap))(w))


def test_static_arguments_and_sizes() -> None:
    """Static arguments are part of the program; a size is enough where nothing is mapped."""
    f = effx.pmap(lambda x, n, y: x * n + y, static_broadcasted_argnums=1)
    assert f(enp.arange(4), 3, enp.ones(4, int)).tolist() == [1, 4, 7, 10]
    assert f(enp.arange(4), 4, enp.ones(4, int)).tolist() == [1, 5, 9, 13]
    g = effx.pmap(lambda x, n: x * len(n), in_axes=(0, None), static_broadcasted_argnums=-1)
    assert g(enp.arange(2), "abc").tolist() == [0, 3]
    h = effx.pmap(lambda x: x + lax.axis_index("i"), in_axes=None, axis_size=4, axis_name="i")
    assert h(10).tolist() == [10, 11, 12, 13]
    one: Any = effx.pmap(lambda x: lax.psum(x, "i"), axis_name="i", axis_size=1)(enp.ones((1, 2)))
    assert one.devices() == {DEVICES[0]}
    bound = effx.pmap(lambda x: x + 1, devices=DEVICES[5:6])(enp.ones((1, 2)))
    assert (bound * 2).devices() == {DEVICES[5]}
    moved = effx.device_put(np.ones((1, 2)), DEVICES[2])
    assert effx.pmap(lambda x: x + 1)(moved).devices() == {DEVICES[2]}


def test_names_are_shadowed() -> None:
    """A name means the innermost axis that has it, under every handler."""

    def f(m: Any, x: Any) -> Any:
        inner = m(lambda v: lax.psum(v, "i"), axis_name="i")
        return effx.vmap(lambda v: lax.psum(inner(v).sum(), "i") + inner(v), axis_name="i")(x)

    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    close(f(effx.pmap, x), f(effx.vmap, x))
    close(effx.grad(lambda x: f(effx.pmap, x).sum())(x), effx.grad(lambda x: f(effx.vmap, x).sum())(x))


def test_axis_of_vmap_inside() -> None:
    """A collective over vmap's axis inside the parallel map, and one over the parallel map's inside vmap."""
    x = np.arange(24.0, dtype=np.float32).reshape(3, 4, 2)

    def f(m: Any) -> Any:
        inner = m(lambda v: lax.psum(v, "o") + lax.psum(v, "i") * lax.axis_index("o"), axis_name="i")
        return effx.vmap(inner, axis_name="o")(x)

    close(f(effx.pmap), f(effx.vmap))


def test_different_sizes_in_one_program() -> None:
    """Parallel maps of 2, 3 and nested 2 x 3 replicas in one program share its devices."""
    f: Any = effx.pmap(lambda v: lax.psum(v, "i"), axis_name="i")
    nested = effx.pmap(effx.pmap(lambda v: v - lax.pmean(v, ("a", "b")), axis_name="b"), axis_name="a")
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    got = effx.jit(lambda x: (f(x), f(x.T), nested(x), f(x.sum(1)).sum()))(x)
    want = (np.tile(x.sum(0), (2, 1)), np.tile(x.sum(1), (3, 1)), x - x.mean(), 2 * x.sum())
    close(got, want)


def test_imperfect_nest() -> None:
    """Work on both sides of the inner map, and an inner map that takes what the outer closes over."""

    def f(m: Any, x: Any, w: Any) -> Any:
        def outer(row: Any) -> Any:
            scaled = row * lax.psum(row, "a").sum()
            inner = m(
                lambda v, u: v * w[0] + u + lax.psum(v, ("a", "b")) + lax.axis_index("b"), axis_name="b"
            )
            return inner(scaled, enp.flip(row)) - lax.pmax(row, "a")

        return m(outer, axis_name="a")(x)

    x, w = np.arange(8.0, dtype=np.float32).reshape(2, 4), np.ones(3, np.float32)
    close(f(effx.pmap, x, w), f(effx.vmap, x, w))
    loss = lambda m, x, w: (f(m, x, w) ** 2).mean()  # noqa: E731
    close(
        effx.grad(partial(loss, effx.pmap), (0, 1))(x, w), effx.grad(partial(loss, effx.vmap), (0, 1))(x, w)
    )


# What stands in the IR and in StableHLO


def test_program_is_checked_and_parses_back() -> None:
    """The operation's program is well typed, its effect is bound, and its text is read back."""

    def f(x: Any) -> Any:
        return lax.psum(x, "i"), lax.axis_index("i")

    program = check_program(effx.pmap(f, axis_name="i").trace(X).program)
    assert str(program) == (
        """f.2(a: f32[3]) ! AxisEffect(axis='i') {
  b: f32[3] = psum[axis_name='i'] a
  c: i32[] = axis_index[axis_name='i']
  return b, c
}

f(a: f32[4,3]) {
  b: f32[4,3], c: i32[4] = parallel_map[body=@f.2 axes=(('i', 4),) cuts_in=((0,),) cuts_out=((0,), (0,))] a
  return b, c
}"""
    )
    assert str(check_program(parse_program(str(program)))) == str(program)


def test_reference_handler_runs_replicas_side_by_side() -> None:
    """The oracle of the tests knows the operation."""
    f = effx.pmap(member, axis_name="i")
    close(evaluate(f, X), f(X))


def test_lowered_text() -> None:
    """The text of one module for all devices, with the arguments' and results' shardings; for any platform."""
    lowered = effx.pmap(lambda x: lax.psum(x, "i"), axis_name="i").lower(X)
    text = lowered.as_text()
    assert "mhlo.num_partitions = 4" in text
    assert 'sdy.mesh @mesh_4 = <["m0"=4]>' in text
    assert '%arg0: tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh_4, [{"m0"}, {}]>}' in text
    assert "stablehlo.all_reduce" in text
    assert (
        "stablehlo.all_reduce"
        in effx.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
        .trace(X)
        .lower(lowering_platforms=["cuda"])
        .as_text()
    )
    compiled = lowered.compile()
    close(compiled(X), np.tile(X.sum(0), (4, 1)))


def test_eval_shape_and_clear_cache() -> None:
    """A parallel function has what jitted ones have."""
    f = effx.pmap(lambda x: x * 2, out_axes=1)
    assert f.eval_shape(X).shape == (3, 4)
    close(f(X), 2 * X.T)
    f.clear_cache()
    close(f(X), 2 * X.T)


def test_disable_jit() -> None:
    """With jit off the map itself still runs in parallel."""
    with effx.disable_jit():
        y = effx.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(X)
    close(y, np.tile(X.sum(0), (4, 1)))


def test_methods_and_decorators() -> None:
    """A parallel method is bound to its object."""

    class Model:
        scale = 3.0

        @partial(effx.pmap, static_broadcasted_argnums=0)
        def apply(self, x: Any) -> Any:
            return x * self.scale

    assert Model().apply(enp.arange(2.0)).tolist() == [0.0, 3.0]


def test_documentation_is_the_function_s() -> None:
    """Name, signature and docstring are those of the function that is mapped."""

    def scaled(x: Any, y: Any = 2) -> Any:
        """Scales."""
        return x * y

    mapped = effx.pmap(scaled)
    assert (mapped.__name__, mapped.__doc__) == ("scaled", "Scales.")
    assert str(inspect.signature(mapped)) == str(inspect.signature(scaled))


def test_wrapped_is_the_users_function() -> None:
    """`__wrapped__` is what was passed, not what is staged."""
    f: Any = effx.pmap(close)
    assert f.__wrapped__ is close
    mesh = effx.make_mesh((1,), ("i",))
    g: Any = effx.shard_map(close, mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec())
    assert g.__wrapped__ is close
