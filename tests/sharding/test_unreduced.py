"""Sums over a mesh axis that are left to be taken (`unreduced`), and values whose gradients are such sums (`reduced`)."""

import pickle
from collections.abc import Callable
from typing import Any

import jaxlib.version
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import ShardingError
from effx.ir.text import parse_program
from effx.sharding import AxisType, NamedSharding, auto_axes
from effx.sharding import PartitionSpec as P

MESH = effx.make_mesh((2, 2), ("x", "y"), AxisType.Explicit)
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def mesh_in_force() -> Any:
    with effx.set_mesh(MESH):
        yield


def make_terms(shape: tuple[int, ...], dtype: Any = np.float32) -> tuple[effx.Array, np.ndarray[Any, Any]]:
    """Returns an array whose terms along x are two arrays, and their sum."""
    a = (RNG.normal(size=(*shape, 4)) * 3).astype(dtype)
    left, right = effx.device_put(a, P(*[None] * len(shape), "x")), np.ones(4, dtype)

    def contract(a: Any, b: Any) -> Any:
        return lax.dot_general(a, b, (((a.ndim - 1,), (0,)), ((), ())), out_sharding=P(unreduced={"x"}))

    return effx.jit(contract)(left, effx.device_put(right, P("x"))), a.sum(-1)


def total(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(effx.reshard(x, P()))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
@pytest.mark.parametrize("jitted", [True, False])
def test_contraction_leaves_the_terms_on_the_devices(dtype: Any, jitted: bool) -> None:
    """Each device has the product of its parts, and the reshard of these is the product."""
    a, b = RNG.integers(-4, 4, (4, 8)).astype(dtype), RNG.integers(-4, 4, (8, 2)).astype(dtype)

    def multiply(a: Any, b: Any) -> Any:
        return enp.einsum("ij,jk->ik", a, b, out_sharding=P(None, None, unreduced={"x"}))

    c = (effx.jit(multiply) if jitted else multiply)(
        effx.device_put(a, P(None, "x")), effx.device_put(b, P("x"))
    )
    assert c.type.explicit_sharding is not None
    assert c.sharding == NamedSharding(MESH, P(None, None, unreduced={"x"}))
    assert not c.is_fully_replicated
    for shard in c.addressable_shards:
        k = int(np.argwhere(MESH.device_ids == shard.device.id)[0, 0])
        part = slice(4 * k, 4 * k + 4)
        np.testing.assert_array_equal(np.asarray(shard.data), a[:, part] @ b[part])
    np.testing.assert_array_equal(total(c), a @ b)
    np.testing.assert_array_equal(np.asarray(c), a @ b)
    np.testing.assert_array_equal(np.asarray(effx.reshard(c, P("y", "x"))), a @ b)
    np.testing.assert_array_equal(np.asarray(effx.device_put(c, effx.devices()[1])), a @ b)


def test_types_and_specs_show_the_axes() -> None:
    """Types end in U and R; programs with them are read as they are printed; specs keep the axes."""
    z, _ = make_terms((4,))
    r = effx.reshard(enp.arange(4.0), P(reduced={"x", "y"}))
    assert repr(z.type) == "f32[4]{U:x}"
    assert repr(r.type) == "f32[4]{R:x,y}"
    assert pickle.loads(pickle.dumps(z.type)) is z.type
    assert effx.typeof(z).sharding.spec == P(None, unreduced={"x"})
    program = effx.jit(lambda z, r: effx.reshard(z * r, P("x"))).trace(z, r).program
    assert str(parse_program(str(program))) == str(program)
    f = effx.shard_map(lambda z: lax.pcast(lax.psum(z, "x"), "x", to="reduced"), out_specs=P(reduced={"x"}))
    program = effx.jit(f).trace(z).program
    assert "pcast[axis_name='x' to='reduced' mesh=mesh]" in str(program)
    assert str(parse_program(str(program))) == str(program)


def test_partition_specs() -> None:
    """The axes are part of a PartitionSpec: of its text, equality, hash, copies and sums."""
    spec = P("x", None, unreduced={"y"}, reduced={"z"})
    assert repr(spec) == "P('x', None, unreduced={'y'}, reduced={'z'})"
    assert repr(P(unreduced={"b", "a"})) == "P(unreduced={'a', 'b'})"
    assert spec == P("x", None, unreduced={"y"}, reduced={"z"}) != P("x", None)
    assert hash(spec) == hash(pickle.loads(pickle.dumps(spec)))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert (spec.unreduced, spec.reduced) == (frozenset({"y"}), frozenset({"z"}))
    assert spec.partitions == ("x", None)
    assert spec.update(unreduced=set()) == P("x", None, reduced={"z"})
    assert spec.update(["w"]) == P("w", unreduced={"y"}, reduced={"z"})
    assert P("x", unreduced={"y"}) + P("w") == P("x", "w", unreduced={"y"})


SPEC_ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "a list": (
        lambda: P(unreduced=["x"]),  # type: ignore[arg-type]
        "PartitionSpec: unreduced is a set of names of mesh axes, got ['x'] of type list",
    ),
    "None": (lambda: P(reduced={None}), "PartitionSpec: reduced holds names of mesh axes, got None"),
    "twice": (lambda: P("x", unreduced={"x"}), "PartitionSpec: 'x' is in partitions and in unreduced"),
    "both": (lambda: P(reduced={"x"}, unreduced={"x"}), "PartitionSpec: 'x' is in unreduced and in reduced"),
    "entries": (
        lambda: list(P("x", unreduced={"y"})),
        (
            "PartitionSpec: the entries of P('x', unreduced={'y'}) would leave out the axes along which it is unreduced or "
            "reduced; use its partitions"
        ),
    ),
    "an unknown axis": (
        lambda: NamedSharding(MESH, P(unreduced={"w"})),
        "NamedSharding: the mesh has no axis 'w', which P(unreduced={'w'}) names; it has ('x', 'y')",
    ),
    "an Auto axis": (
        lambda: NamedSharding(effx.make_mesh((2,), ("a",)), P(reduced={"a"})),
        (
            "NamedSharding: P(reduced={'a'}) is unreduced or reduced along 'a', an Auto axis, of which types say nothing; "
            "make it an Explicit one"
        ),
    ),
    "Manual axes twice": (
        lambda: effx.sharding.ManualAxisType(varying={"x"}, reduced={"x"}),
        "ManualAxisType: x is in two of varying, unreduced and reduced",
    ),
}


@pytest.mark.parametrize("name", SPEC_ERRORS)
def test_errors_of_specs(name: str) -> None:
    run, text = SPEC_ERRORS[name]
    with pytest.raises(ShardingError) as caught:
        run()
    assert str(caught.value).split("\n")[0] == text


R = np.arange(1, 5, dtype=np.float32)

LINEAR: dict[str, Callable[[Any], Any]] = {
    "add": lambda z: z + z,
    "sub, neg": lambda z: -z - z,
    "scale": lambda z: z * 3,
    "mul by reduced": lambda z: z * effx.reshard(enp.asarray(R), P(reduced={"x"})),
    "mul by replicated": lambda z: z * R,
    "div": lambda z: z / R,
    "sum": lambda z: z.sum(),
    "mean": lambda z: z.mean(),
    "cumsum": enp.cumsum,
    "reshape, transpose": lambda z: z.reshape(2, 2).T,
    "reverse": lambda z: z[::-1],
    "slice": lambda z: z[1:3],
    "index": lambda z: z[2],
    "gather": lambda z: z[enp.array([3, 0, 0])],
    "dynamic_slice": lambda z: lax.dynamic_slice(z, (enp.int32(1),), (2,)),
    "dynamic_update_slice": lambda z: lax.dynamic_update_slice(z, z[:1], (enp.int32(2),)),
    "scatter": lambda z: z.at[enp.array([1, 1])].add(z[:2]),
    "concatenate": lambda z: enp.concatenate([z, z]),
    "stack": lambda z: enp.stack([z, z]),
    "broadcast": lambda z: enp.broadcast_to(z, (3, 4)),
    "dot": lambda z: z @ enp.asarray(R),
    "where": lambda z: enp.where(enp.asarray(R) > 2, z, 2 * z),
    "float16": lambda z: z.astype(enp.float16),
    "reduce_precision": lambda z: lax.reduce_precision(z, 8, 22),
    "complex": lambda z: lax.complex(z, z),
    "jit": effx.jit(lambda z: z + 2 * z),
    "vmap": effx.vmap(lambda z: 2 * z),
    "cond": lambda z: lax.cond(enp.array(True), lambda z: z, lambda z: 2 * z, z),
    "scan over rows": lambda z: lax.scan(lambda c, row: (c + row, row), z[0], z)[0],
    "scan with a constant": lambda z: lax.scan(lambda c, _: (c + z, None), z, None, length=3)[0],
    "fori_loop": lambda z: lax.fori_loop(0, 2, lambda i, c: c + z, z),
    "checkpoint": effx.checkpoint(lambda z: z * 2),
    "zeros_like": lambda z: z + enp.zeros_like(z),
    "optimization_barrier": lambda z: lax.optimization_barrier(z),
    "another axis": lambda z: effx.reshard(z, P("x", unreduced={"y"})),
    "both axes": lambda z: effx.reshard(z, P(unreduced={"x", "y"})),
}


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("name", LINEAR)
def test_linear_operations_work_on_the_terms(name: str, jitted: bool) -> None:
    """A linear function of the terms leaves terms of what it makes of the sum."""
    z, whole = make_terms((4,))
    y = (effx.jit(LINEAR[name]) if jitted else LINEAR[name])(z)
    assert y.type.explicit_sharding is not None
    assert y.type.explicit_sharding.spec.unreduced
    with effx.set_mesh(MESH):
        want = LINEAR[name](enp.asarray(whole))
    # A sum has the roundings of its terms, which are of some 10: eps / 2 of float16 is 5e-4.
    rtol, atol = (2e-3, 1e-2) if name == "float16" else (1e-5, 0.0)
    np.testing.assert_allclose(total(y), np.asarray(want), rtol=rtol, atol=atol)


# XLA folds what has no elements into a constant, which jaxlib 0.12 refuses as the terms of a sum, however it is written.
NO_ELEMENTS = pytest.param(
    (0,),
    marks=pytest.mark.skipif(
        jaxlib.version.__version_info__ >= (0, 12), reason="jaxlib 0.12 refuses an empty sum's terms"
    ),
)


@pytest.mark.parametrize("shape", [(), NO_ELEMENTS, (1,), (2, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    """Arrays of all shapes are unreduced, 0-d and of size 0 too."""
    z, whole = make_terms(shape)
    assert z.shape == shape
    np.testing.assert_allclose(total(effx.jit(lambda z: z + z)(z)), 2 * whole, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(z), whole, rtol=1e-5)


def test_replicated_value_becomes_the_first_term() -> None:
    """A value that is made unreduced is its own sum: the first device has it, and the others have zeros."""
    for z in (
        effx.reshard(enp.arange(3.0), P(unreduced={"x"})),
        effx.device_put(np.arange(3.0, dtype=np.float32), P(unreduced={"x"})),
        effx.jit(lambda a: effx.reshard(a, P(unreduced={"x"})))(enp.arange(3.0)),
        effx.jit(lambda a: a, out_shardings=P(unreduced={"x"}))(enp.arange(3.0)),
        effx.jit(lambda a: 2 * a, out_shardings=P(unreduced={"x"}))(enp.arange(3.0) / 2),
    ):
        assert repr(z.type) == "f32[3]{U:x}"
        assert [s.data.tolist() for s in z.addressable_shards] == [[0, 1, 2]] * 2 + [[0, 0, 0]] * 2
    np.testing.assert_array_equal(np.asarray(enp.full_like(z, 3.0)), [3, 3, 3])
    np.testing.assert_array_equal(np.asarray(enp.ones(3, out_sharding=P(unreduced={"x"}))), [1, 1, 1])


ADVICE = "; take the sum first, with effx.reshard, or inside of shard_map with lax.psum"
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "cos": (enp.cos, "cos of f32[4]{U:x}: it is not linear in an operand that is unreduced along x"),
    "max": (enp.max, "reduce_max of f32[4]{U:x}: it is not linear in an operand that is unreduced along x"),
    "square": (
        lambda z: z * z,
        "mul of f32[4]{U:x}, f32[4]{U:x}: a product of two sums that are not taken yet, over x",
    ),
    "divisor": (
        lambda z: R / z,
        "div of f32[4], f32[4]{U:x}: it is not linear in an operand that is unreduced along x",
    ),
    "compare": (
        lambda z: z > z,
        "gt of f32[4]{U:x}, f32[4]{U:x}: it is not linear in an operand that is unreduced along x",
    ),
    "int": (
        lambda z: z.astype(enp.int32),
        "convert of f32[4]{U:x}: it is not linear in an operand that is unreduced along x",
    ),
    "add a constant": (
        lambda z: z + 1,
        "add of f32[4]{U:x}, f32[]~: all operands must be unreduced along the same axes, but only some are along x",
    ),
    "scatter into others": (lambda z: enp.ones(4).at[:2].set(z[:2]), ""),
    "another axis": (
        lambda z: z + effx.reshard(enp.asarray(R), P(unreduced={"y"})),
        "add of f32[4]{U:x}, f32[4]{U:y}: all operands must be unreduced along the same axes, but only some are along x, y",
    ),
    "left to the partitioner": (
        auto_axes(lambda z: z, out_sharding=P()),
        "release of f32[4]{U:x}: the partitioner would not know what is still to be summed",
    ),
}


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_other_operations_are_refused(name: str, jitted: bool) -> None:
    """What is not linear in the terms is an error that says so, with `out_sharding` too."""
    z, _ = make_terms((4,))
    f, text = REFUSED[name]
    for out_sharding in (None, P()):
        run = f if out_sharding is None else lambda z: lax.mul(f(z), 1.0)
        with pytest.raises(ShardingError) as caught:
            (effx.jit(run) if jitted else run)(z)
        if text:
            assert str(caught.value).split("\n")[0] == text + ADVICE


def test_sharded_factor_is_refused() -> None:
    """A factor that the same axis shards would need communication."""
    z, _ = make_terms((4,))
    with pytest.raises(ShardingError) as caught:
        z * effx.device_put(R, P("x"))
    assert str(caught.value).split("\n")[0] == (
        "mul of f32[4]{U:x}, f32[4@x]: 'x' would shard the result, and it would be unreduced along it; take the sum first, "
        "with effx.reshard"
    )


def test_loops_and_branches_keep_the_axes() -> None:
    """A carry or a branch that is unreduced does not meet one that is not."""
    z, _ = make_terms((4,))
    with pytest.raises(ShardingError) as caught:
        lax.cond(enp.array(True), lambda z: z, lambda z: enp.ones(4), z)
    assert str(caught.value).split("\n")[0] == (
        "cond: its branches' results have different shardings: P() and P(unreduced={'x'}) meet; change one of them with "
        "effx.reshard"
    )
    with pytest.raises(
        ShardingError, match="a loop's initial carry and its body's result have different shardings"
    ):
        lax.scan(lambda c, _: (z, None), enp.ones(4), None, length=2)


# Functions of one array with a gradient at R.
SMOOTH: dict[str, Callable[[Any], Any]] = {
    "square": lambda r: (r * r).sum(),
    "sine": lambda r: enp.sin(r).sum(),
    "slice": lambda r: (r[1:3] ** 2).sum(),
    "index": lambda r: r[2] * r[0],
    "gather": lambda r: (r[enp.array([0, 0, 2])] ** 2).sum(),
    "where": lambda r: enp.where(r > 2, r * r, 0).sum(),
    "dynamic_slice": lambda r: (lax.dynamic_slice(r, (enp.int32(1),), (2,)) ** 2).sum(),
    "dynamic_update_slice": lambda r: (lax.dynamic_update_slice(r, r[:2] ** 2, (enp.int32(1),)) ** 2).sum(),
    "pad": lambda r: (enp.pad(r, 1) ** 2).sum(),
    "concatenate": lambda r: (enp.concatenate([r, enp.ones(2)]) ** 2).sum(),
    "dot": lambda r: r @ r,
    "mul by sharded": lambda r: (r * effx.device_put(R, P("x"))).sum(),
    "mul by replicated": lambda r: (r * R * enp.exp(r)).sum(),
    "sharded contraction": lambda r: (effx.device_put(np.outer(R, R), P("x")) @ r).sum(),
    "scan": lambda r: lax.scan(lambda c, row: (c * row, c + row), 1.0, r)[1].sum(),
    "scan with a constant": lambda r: lax.scan(lambda c, _: (enp.sin(c * r), None), r, None, length=3)[
        0
    ].sum(),
    "cond": lambda r: lax.cond(r[0] > 0, lambda r: (r * r).sum(), lambda r: r.sum() * 0, r),
    "cond with a constant branch": lambda r: lax.cond(
        r[0] > 9, lambda r: (r * r).sum(), lambda r: r[0] * 0 + 1, r
    ),
    "checkpoint": effx.checkpoint(lambda r: enp.sin(r * r).sum()),
    "jit": effx.jit(lambda r: enp.cos(r).sum()),
    "custom_jvp": effx.custom_jvp(lambda r: (r * r).sum()),
    "vmap": lambda r: effx.vmap(lambda a: a * a)(r).sum(),
    "zero": lambda r: enp.float32(2),
    "reshard to replicated": lambda r: (effx.reshard(r, P()) ** 2).sum(),
    "reshard to sharded": lambda r: (effx.reshard(r, P("x")) ** 2).sum(),
    "reshard to unreduced": lambda r: effx.reshard(effx.reshard(r, P(unreduced={"x"})) * R, P()).sum(),
    "logsumexp": lambda r: effx.nn.logsumexp(r),
    "softmax": lambda r: effx.nn.softmax(r)[0],
}
SMOOTH["custom_jvp"].defjvp(lambda p, t: ((p[0] * p[0]).sum(), (2 * p[0] * t[0]).sum()))  # type: ignore[attr-defined]


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_reduced_values_are_unreduced(name: str, jitted: bool) -> None:
    """The gradient with respect to a reduced value is unreduced, and the sum is that with respect to a replicated one."""
    f = SMOOTH[name]
    gradient = effx.grad(f)
    ct = (effx.jit(gradient) if jitted else gradient)(effx.reshard(enp.asarray(R), P(reduced={"x"})))
    assert repr(ct.type) == "f32[4]{U:x}"
    np.testing.assert_allclose(total(ct), np.asarray(effx.grad(f)(enp.asarray(R))), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "gradient"),
    [
        (P("x"), P("x")),
        (P(), P()),
        (P(reduced={"x"}), P(unreduced={"x"})),
        (P(unreduced={"x"}), P(reduced={"x"})),
        (P("y", reduced={"x"}), P("y", unreduced={"x"})),
        (P(unreduced={"y"}, reduced={"x"}), P(unreduced={"x"}, reduced={"y"})),
    ],
)
def test_types_of_cotangents(spec: P, gradient: P) -> None:
    """The type of a gradient follows from that of the value: unreduced and reduced change places."""
    x = effx.reshard(enp.asarray(R), spec)
    ct = effx.jit(effx.grad(lambda x: (effx.reshard(x, P()) ** 2).sum()))(x)
    assert ct.sharding == NamedSharding(MESH, gradient)
    np.testing.assert_allclose(total(ct), 2 * R)
    tangent = effx.jvp(lambda x: 3 * x, (x,), (x,))[1]
    assert tangent.type is x.type
    np.testing.assert_allclose(total(tangent), 3 * R)


def test_one_sum_for_all_gradients() -> None:
    """Gradients of a scan of microbatches are accumulated without a sum over devices: there is one behind the loop."""
    layers = np.stack([np.eye(4) / 2] * 3).astype(np.float32)
    batches = RNG.normal(size=(5, 2, 4)).astype(np.float32)

    def loss(ws: Any, batch: Any) -> Any:
        return (lax.scan(lambda xs, w: (enp.tanh(xs @ w), None), batch, ws)[0] ** 2).sum()

    def step(ws: Any, batches: Any) -> Any:
        def add_gradient(total: Any, batch: Any) -> Any:
            gradient = effx.grad(loss)(ws, batch)
            assert effx.typeof(gradient).sharding.spec.unreduced == {"x"}
            return total + gradient, None

        start = effx.reshard(enp.zeros_like(ws), P(unreduced={"x"}))
        return effx.reshard(lax.scan(add_gradient, start, batches)[0], P())

    ws, xs = effx.device_put(layers, P(reduced={"x"})), effx.device_put(batches, P(None, "x"))
    compiled = effx.jit(step).lower(ws, xs).compile()
    assert compiled.as_text().count(" all-reduce(") == 1
    want = effx.grad(lambda ws: sum([loss(ws, b) for b in batches]))(layers)
    np.testing.assert_allclose(np.asarray(compiled(ws, xs)), np.asarray(want), rtol=1e-4, atol=1e-6)


A = RNG.normal(size=(2, 4)).astype(np.float32)
B = RNG.normal(size=(4, 6)).astype(np.float32)


def test_shard_map_passes_terms() -> None:
    """Terms and reduced values go into and out of a shard_map as themselves; `mat` and `typeof` show them."""
    z, whole = make_terms((4,))
    r = effx.reshard(enp.asarray(R), P(reduced={"x"}))

    @effx.jit
    @effx.shard_map(out_specs=(P(unreduced={"x"}), P(reduced={"x"}), P(), P("x")))
    def f(z: Any, r: Any) -> Any:
        assert effx.typeof(z).mat == effx.sharding.ManualAxisType(unreduced={"x"})
        assert effx.typeof(r).mat == effx.sharding.ManualAxisType(reduced={"x"})
        assert effx.typeof(z).sharding.spec.unreduced == frozenset()
        return z * r, enp.sin(r), lax.psum(z, "x"), lax.psum_scatter(z, "x", tiled=True)

    u, s, p, q = f(z, r)
    assert [repr(y.type) for y in (u, s, p, q)] == ["f32[4]{U:x}", "f32[4]{R:x}", "f32[4]", "f32[4@x]"]
    for got, want in ((u, whole * R), (s, np.sin(R)), (p, whole), (q, whole)):
        np.testing.assert_allclose(total(got), want, rtol=1e-5)


@pytest.mark.parametrize("jitted", [True, False])
def test_local_products_are_terms(jitted: bool) -> None:
    """What devices multiply of their parts are the terms of the product; going back communicates only where it is summed."""
    a, b = effx.device_put(A, P(None, "x")), effx.device_put(B, P("x"))

    @effx.shard_map(out_specs=P(None, None, unreduced={"x"}))
    def multiply(a: Any, b: Any) -> Any:
        return lax.pcast(a @ b, "x", to="unreduced")

    c = (effx.jit(multiply) if jitted else multiply)(a, b)
    assert repr(c.type) == "f32[2,6]{U:x}"
    np.testing.assert_allclose(total(c), A @ B, rtol=1e-5)
    gradient = effx.grad(lambda a, b: enp.sin(effx.reshard(multiply(a, b), P())).sum(), argnums=(0, 1))
    got = (effx.jit(gradient) if jitted else gradient)(a, b)
    want = effx.grad(lambda a, b: enp.sin(a @ b).sum(), argnums=(0, 1))(A, B)
    for x, like, y in zip(got, (a, b), want, strict=True):
        assert x.type is like.type
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-4, atol=1e-5)
    assert "psum" not in str(effx.jit(gradient).trace(a, b).program)


def test_gradients_inside_of_shard_map() -> None:
    """psum of terms and a cast to reduced are each other's transposes, and so are psum_scatter and an all_gather."""
    b = effx.device_put(B, P("x"))

    def gathered(b: Any) -> Any:
        return effx.shard_map(
            lambda b: lax.all_gather(b, "x", tiled=True, to="reduced"),
            in_specs=P("x"),
            out_specs=P(reduced={"x"}),
        )(b)

    def loss(b: Any) -> Any:
        return enp.sin(effx.device_put(A.T @ A, P("x")) @ gathered(b)).sum()

    gradient = effx.jit(effx.grad(loss))
    assert repr(gathered(b).type) == "f32[4,6]{R:x}"
    want = np.asarray(effx.grad(lambda b: enp.sin(A.T @ A @ b).sum())(B))
    assert repr(gradient(b).type) == "f32[4@x,6]"
    np.testing.assert_allclose(np.asarray(gradient(b)), want, rtol=1e-4, atol=1e-5)
    text = str(gradient.trace(b).program)
    assert "psum_scatter" in text
    assert "psum[" not in text

    reduce = effx.shard_map(
        lambda b: lax.pcast(b, "x", to="reduced"), in_specs=P(), out_specs=P(reduced={"x"})
    )
    w = enp.asarray(B)
    got = effx.jit(effx.grad(lambda w: enp.sin(effx.device_put(A.T @ A, P("x")) @ reduce(w)).sum()))(w)
    assert repr(got.type) == "f32[4,6]"
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)


def test_reduced_weights_of_shard_map() -> None:
    """A reduced argument meets a varying one without a cast, and its gradient is unreduced."""
    x, w = effx.device_put(A.T, P("x")), effx.device_put(A, P(reduced={"x"}))
    apply = effx.shard_map(lambda x, w: enp.tanh(x @ w), out_specs=P("x"))
    np.testing.assert_allclose(np.asarray(apply(x, w)), np.tanh(A.T @ A), rtol=1e-5)
    got = effx.jit(effx.grad(lambda w: (apply(x, w) ** 2).sum()))(w)
    assert repr(got.type) == "f32[2,4]{U:x}"
    want = effx.grad(lambda w: (enp.tanh(A.T @ w) ** 2).sum())(A)
    np.testing.assert_allclose(total(got), np.asarray(want), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("jitted", [True, False])
def test_terms_without_check_vma(jitted: bool) -> None:
    """Without `check_vma` terms are values inside of the function, and values are terms outside."""
    wrap = effx.jit if jitted else lambda f: f
    a = effx.device_put(np.arange(4, dtype=np.float32), P("x"))
    leave = effx.shard_map(lambda x: 2 * x, in_specs=P("x"), out_specs=P(unreduced={"x"}), check_vma=False)
    show = effx.shard_map(lambda x: x, in_specs=P(unreduced={"x"}), out_specs=P("x"), check_vma=False)
    z = wrap(leave)(a)
    assert repr(z.type) == "f32[2]{U:x}"
    assert [s.data.tolist() for s in z.addressable_shards] == [[0, 2]] * 2 + [[4, 6]] * 2
    copies = effx.shard_map(lambda x: x, in_specs=P(), out_specs=P(unreduced={"x"}), check_vma=False)
    twice = wrap(copies)(effx.device_put(np.arange(2.0), P()))
    assert [s.data.tolist() for s in twice.addressable_shards] == [[0, 1]] * 4
    assert repr(wrap(show)(z).type) == "f32[4@x]"
    np.testing.assert_array_equal(np.asarray(wrap(show)(z)), [0, 2, 4, 6])
    got = wrap(effx.grad(lambda a: (effx.reshard(leave(a), P()) * enp.array([1.0, 5.0])).sum()))(a)
    np.testing.assert_array_equal(np.asarray(got), [2, 10, 2, 10])
    assert repr(wrap(effx.grad(lambda z: show(z).sum()))(z).type) == "f32[2]{R:x}"
    weigh = effx.shard_map(
        lambda w, x: w * x, in_specs=(P(reduced={"x"}), P("x")), out_specs=P("x"), check_vma=False
    )
    w = effx.reshard(enp.array([3.0, 4.0]), P(reduced={"x"}))
    ct = wrap(effx.grad(lambda w: weigh(w, a).sum()))(w)
    assert repr(ct.type) == "f32[2]{U:x}"
    np.testing.assert_array_equal(total(ct), [2, 4])


ADDS_UP = effx.shard_map(lambda x: x, in_specs=P(unreduced={"x"}), out_specs=P())
MAP_ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "terms as a value": (
        lambda: ADDS_UP(make_terms((4,))[0]),
        (
            "shard_map: out_specs says P() of result of <lambda>, but its parts are f32[4]{U:x}; take what is still to be "
            "summed by psum or psum_scatter, or name it in out_specs, as unreduced"
        ),
    ),
    "a value as terms": (
        lambda: effx.shard_map(lambda x: x, in_specs=P(), out_specs=P(unreduced={"x"}))(R),
        (
            "shard_map: out_specs says P(unreduced={'x'}) of result of <lambda>, but its parts f32[4] are equal along x, so "
            "they are no terms of a sum; name them in out_specs where they are"
        ),
    ),
    "another type": (
        lambda: ADDS_UP(R),
        (
            "shard_map: in_specs says P(unreduced={'x'}) of argument 0 of <lambda>, but its type is f32[4]; change what it "
            "is unreduced along with effx.reshard"
        ),
    ),
    "some axes": (
        lambda: effx.shard_map(lambda x: x, in_specs=P(reduced={"x"}), out_specs=P(), axis_names={"x"})(R),
        (
            "shard_map: in_specs of <lambda> has P(reduced={'x'}), but it maps over 'x' only; what is unreduced or reduced "
            "is for maps over all axes of the mesh"
        ),
    ),
    "a collective that does not sum": (
        lambda: effx.shard_map(lambda x: lax.pmax(x, "x"), out_specs=P())(make_terms((4,))[0]),
        "pmax of f32[4]{U:x}: it does not sum over x, along which x is unreduced" + ADVICE,
    ),
    "a constraint": (
        lambda: effx.shard_map(lambda x: effx.reshard(x, P(reduced={"x"})), in_specs=P(), out_specs=P())(R),
        (
            "reshard: P(reduced={'x'}) is unreduced or reduced along 'x', over which an outer shard_map maps; inside of it "
            "use lax.pcast"
        ),
    ),
}


@pytest.mark.parametrize("name", MAP_ERRORS)
def test_errors_of_maps(name: str) -> None:
    run, text = MAP_ERRORS[name]
    with pytest.raises(ShardingError) as caught:
        run()
    assert str(caught.value).split("\n")[0] == text


def test_mixed_meshes() -> None:
    """Explicit axes of a mesh with Auto axes are unreduced too, also where the partitioner chooses the result's sharding."""
    with effx.set_mesh(effx.make_mesh((2, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))):
        z = effx.reshard(enp.asarray(R), P(unreduced={"x"}))
        y = effx.jit(lambda z: 2 * z)(z)
        assert repr(y.type) == "f32[4]{U:x}"
        np.testing.assert_array_equal(np.asarray(effx.reshard(y, P("x"))), 2 * R)


def test_checks_are_silent() -> None:
    """`enable_checks` finds the types that the rules give."""
    with effx.enable_checks(True):
        z, whole = make_terms((4,))
        np.testing.assert_allclose(total(effx.jit(lambda z: 2 * z)(z)), 2 * whole, rtol=1e-5)
        got = effx.jit(effx.grad(lambda r: (r * r)[1:3].sum()))(
            effx.reshard(enp.asarray(R), P(reduced={"x"}))
        )
        np.testing.assert_array_equal(total(got), [0, 4, 6, 0])


VARYING: dict[str, Callable[[Any, Any], Any]] = {
    "div": lambda z, d: z / d,
    "dynamic_slice": lambda z, d: lax.dynamic_slice(z, (d[0].astype(int),), (2,)),
    "gather": lambda z, d: z[d.astype(int)],
    "select_n": lambda z, d: enp.where(d > 3, z, z),
}


@pytest.mark.parametrize("name", VARYING)
def test_operands_that_vary_where_the_sum_is_left_are_refused(name: str) -> None:
    """Each term would be divided, or taken, by another value: the sum of such terms is no function of the sum."""
    z, _ = make_terms((4,))
    d = effx.device_put(enp.arange(8.0), P("x"))

    @effx.shard_map(in_specs=(P(unreduced={"x"}), P("x")), out_specs=P())
    def f(z: Any, d: Any) -> Any:
        return lax.psum(VARYING[name](z, d[:4]), "x")

    with pytest.raises(ShardingError) as caught:
        f(z, d)
    why = "one operand is unreduced along x, along which another varies in which it is not linear"
    assert str(caught.value).split("\n")[0].endswith(why + ADVICE)
