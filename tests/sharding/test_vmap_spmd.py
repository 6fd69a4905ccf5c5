"""`vmap(spmd_axis_name=)`: the batch is cut along axes of the mesh that a function names; values are those without."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ShardingError
from effx.sharding import Mesh, NamedSharding
from effx.sharding import PartitionSpec as P

X = np.sin(np.arange(8 * 4 * 3, dtype=np.float32)).reshape(8, 4, 3)
W = np.arange(1, 4, dtype=np.float32)


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return effx.make_mesh((2, 4), ("data", "model"))


def wished(mesh: Mesh) -> Callable[..., effx.Array]:
    def f(x: effx.Array, w: effx.Array) -> effx.Array:
        y = enp.sin(x) @ w
        return effx.lax.with_sharding_constraint(y, NamedSharding(mesh, P("model")))

    return f


def mapped(mesh: Mesh, **options: Any) -> Callable[..., Any]:
    """Results that differ between elements, one that does not, and one that is cut."""

    def body(x: effx.Array, w: effx.Array) -> tuple[effx.Array, ...]:
        y, _ = effx.lax.scan(lambda c, row: (enp.tanh(c + row @ w), row), 0.5, x)
        return effx.lax.psum(y, "model"), w * 2, enp.sort(x, axis=0)

    def f(x: effx.Array, w: effx.Array) -> Any:
        out = (P(), P(), P("model"))
        return effx.shard_map(body, mesh=mesh, in_specs=(P("model"), P()), out_specs=out, **options)(x, w)

    return f


def test_a_constraint_shards_the_batch(mesh: Mesh) -> None:
    f = effx.jit(effx.vmap(wished(mesh), in_axes=(0, None), spmd_axis_name="data"))
    y = f(X, W)
    np.testing.assert_allclose(y, np.sin(X) @ W, rtol=1e-5)
    assert y.sharding == NamedSharding(mesh, P("data", "model"))
    text = f.lower(X, W).as_text()
    assert '[{"m0"}, {"m1"}]' in text


def test_without_a_name_the_batch_is_left_to_the_partitioner(mesh: Mesh) -> None:
    text = effx.jit(effx.vmap(wished(mesh), in_axes=(0, None))).lower(X, W).as_text()
    assert '[{?}, {"m1"}]' in text


def test_constraints_of_explicit_axes_say_it_in_types() -> None:
    mesh = effx.make_mesh((2, 4), ("data", "model"), effx.sharding.AxisType.Explicit)
    with effx.set_mesh(mesh):
        program = effx.make_jaxpr(effx.vmap(wished(mesh), in_axes=(0, None), spmd_axis_name="data"))(X, W)
    assert repr(program.out_types[0]) == "f32[8@data,4@model]"


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"check_vma": False}])
def test_a_shard_map_runs_a_part_of_the_batch_on_each_device(
    mesh: Mesh, staged: bool, axis: int, options: dict[str, Any]
) -> None:
    f = mapped(mesh, **options)
    x = np.moveaxis(X, 0, axis)
    given = effx.vmap(f, in_axes=(axis, None), out_axes=(0, None, 1), spmd_axis_name="data")
    y, w, rows = (effx.jit(given) if staged else given)(x, W)
    expected = effx.vmap(f, in_axes=(axis, None), out_axes=(0, None, 1))(x, W)
    for found, e in zip((y, w, rows), expected, strict=True):
        np.testing.assert_allclose(found, e, rtol=1e-5)
    assert y.sharding.spec == P("data")
    assert rows.sharding.spec == P("model", "data")
    np.testing.assert_allclose(w, W * 2)


def test_gradients_are_those_without(mesh: Mesh) -> None:
    def loss(spmd: object) -> Callable[..., effx.Array]:
        def total(w: effx.Array, x: effx.Array) -> effx.Array:
            y, _, rows = effx.vmap(
                mapped(mesh), in_axes=(0, None), out_axes=(0, None, 0), spmd_axis_name=spmd
            )(x, w)
            return enp.sum(y**2) + enp.sum(enp.sin(rows))

        return total

    expected = effx.grad(loss(None), argnums=(0, 1))(W, X)
    for transform in (lambda f: f, effx.jit):
        found = transform(effx.grad(loss("data"), argnums=(0, 1)))(W, X)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    tangents = effx.jvp(loss("data"), (W, X), (W, X))[1]
    np.testing.assert_allclose(tangents, effx.jvp(loss(None), (W, X), (W, X))[1], rtol=1e-5)


def test_nested_batches_are_cut_along_two_axes() -> None:
    mesh = effx.make_mesh((2, 2, 2), ("a", "b", "c"))

    def f(x: effx.Array) -> Any:
        return effx.shard_map(lambda x: effx.lax.psum(x**2, "c"), mesh=mesh, in_specs=P("c"), out_specs=P())(
            x
        )

    x = np.arange(4 * 6 * 2, dtype=np.float32).reshape(4, 6, 2)
    y = effx.jit(effx.vmap(effx.vmap(f, spmd_axis_name="b"), spmd_axis_name="a"))(x)
    np.testing.assert_allclose(y[..., 0], (x**2).sum(-1))
    assert y.sharding.spec == P("a", "b")
    both = effx.jit(effx.vmap(f, spmd_axis_name=("a", "b")))(x.reshape(24, 2))
    np.testing.assert_allclose(both[..., 0], (x**2).sum(-1).reshape(24))
    assert both.sharding.spec == P(("a", "b"))


def test_axes_that_a_map_leaves_to_the_partitioner_cut_inside_of_it(mesh: Mesh) -> None:
    def body(x: effx.Array) -> effx.Array:
        return effx.lax.with_sharding_constraint(x * 2, P())

    def f(x: effx.Array) -> Any:
        return effx.shard_map(
            body, mesh=mesh, in_specs=P("model"), out_specs=P("model"), axis_names={"model"}
        )(x)

    with effx.set_mesh(mesh):
        g = effx.jit(effx.vmap(f, spmd_axis_name="data"))
        np.testing.assert_allclose(g(X), X * 2)
        assert '{"m0"}' in g.lower(X).as_text()


def test_named_functions_keep_it(mesh: Mesh) -> None:
    f = effx.jit(wished(mesh))
    y = effx.jit(effx.vmap(effx.checkpoint(f), in_axes=(0, None), spmd_axis_name="data"))(X, W)
    assert y.sharding.spec == P("data", "model")


@pytest.mark.parametrize("make", [wished, mapped])
def test_an_axis_that_shards_already_is_refused(
    mesh: Mesh, make: Callable[[Mesh], Callable[..., Any]]
) -> None:
    with pytest.raises(ShardingError, match="vmap: spmd_axis_name is 'model', which shards an array"):
        effx.vmap(make(mesh), in_axes=(0, None), spmd_axis_name="model")(X, W)


def test_an_axis_that_no_mesh_has_is_refused(mesh: Mesh) -> None:
    with pytest.raises(
        ShardingError, match="'rows', but with_sharding_constraint is over axes 'data', 'model'"
    ):
        effx.vmap(wished(mesh), in_axes=(0, None), spmd_axis_name="rows")(X, W)


def test_a_batch_that_has_no_equal_parts_is_refused(mesh: Mesh) -> None:
    for make in (wished, mapped):
        with pytest.raises(ShardingError, match="batch of 3 cannot be sharded into 2 equal parts"):
            effx.vmap(make(mesh), in_axes=(0, None), out_axes=None, spmd_axis_name="data")(X[:3], W)


def test_collectives_along_the_axis_or_the_batch_are_refused(mesh: Mesh) -> None:
    def over(name: str) -> Callable[[effx.Array], Any]:
        def f(x: effx.Array) -> Any:
            return effx.shard_map(
                lambda x: x * effx.lax.axis_index(name), mesh=mesh, in_specs=P("model"),
                out_specs=P("model"), check_vma=False,
            )(x)  # fmt: skip

        return f

    with pytest.raises(ShardingError, match="'data', along which a collective of shard_map runs"):
        effx.vmap(over("data"), spmd_axis_name="data")(X)
    with pytest.raises(ShardingError, match="shards the batch 'rows', along which a collective"):
        effx.vmap(over("rows"), axis_name="rows", spmd_axis_name="data")(X)
