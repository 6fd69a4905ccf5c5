"""Types that say how arrays are cut: what each operation makes of them, errors, transformations, against "
"whole arrays."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import OptionError, ShardingError, TransformError
from effx.ir.text import parse_program
from effx.sharding import AxisType, NamedSharding, auto_axes, explicit_axes
from effx.sharding import PartitionSpec as P
from effx.transforms.placement.out_sharding import apply_with_sharding

MESH = effx.make_mesh((4, 2), ("X", "Y"), AxisType.Explicit)
MIXED = effx.make_mesh((4, 2), ("X", "Y"), (AxisType.Explicit, AxisType.Auto))
RNG = np.random.default_rng(0)
A = RNG.normal(size=(8, 4)).astype(np.float32)
W = RNG.normal(size=(4, 6)).astype(np.float32)
B = RNG.normal(size=6).astype(np.float32)


def put(x: Any, *spec: Any, mesh: effx.sharding.Mesh = MESH) -> effx.Array:
    y: effx.Array = effx.device_put(x, NamedSharding(mesh, P(*spec)))
    return y


def close(got: Any, want: Any) -> None:
    for a, b in zip(effx.tree.leaves(got), effx.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-4, atol=2e-5)


def sine_of_sine(x: Any) -> Any:
    return enp.sin(enp.sin(x))


def sorted_reverse(x: Any) -> Any:
    return enp.sort(x[::-1], 0)


# A function of f32[8@X,4@Y], and the types of its results.
RESULTS: dict[str, tuple[Callable[..., Any], str]] = {
    "elementwise": (lambda x: enp.sin(x) * x + 1, "f32[8@X,4@Y]"),
    "broadcast": (lambda x: x + enp.arange(4.0), "f32[8@X,4@Y]"),
    "convert": (lambda x: x.astype("int32"), "i32[8@X,4@Y]"),
    "select": (lambda x: enp.where(x > 0, x, 0), "f32[8@X,4@Y]"),
    "transpose": (lambda x: x.T, "f32[4@Y,8@X]"),
    "sum": (lambda x: x.sum(0), "f32[4@Y]"),
    "sum of all": (lambda x: x.sum(), "f32[]"),
    "mean": (lambda x: x.mean(1, keepdims=True), "f32[8@X,1]"),
    "argmax": (lambda x: enp.argmax(x, 1), "i32[8@X]"),
    "softmax": (effx.nn.softmax, "f32[8@X,4@Y]"),
    "reverse": (lambda x: x[::-1], "f32[8@X,4@Y]"),
    "slice": (lambda x: x[:4, 2:], "f32[4@X,2@Y]"),
    "pad": (lambda x: enp.pad(x, ((0, 0), (1, 1))), "f32[8@X,6@Y]"),
    "concatenate": (lambda x: enp.concatenate([x, x], 1), "f32[8@X,8@Y]"),
    "stack": (lambda x: enp.stack([x, x]), "f32[2,8@X,4@Y]"),
    "new axis": (lambda x: x[None, :, None], "f32[1,8@X,1,4@Y]"),
    "split axis": (lambda x: x.reshape(4, 2, 4), "f32[4@X,2,4@Y]"),
    "merged axes": (lambda x: effx.reshard(x, P("X")).reshape(32), "f32[32@X]"),
    "two mesh axes": (lambda x: effx.reshard(x, P(("X", "Y"))).reshape(4, 2, 4), "f32[4@X,2@Y,4]"),
    "zeros_like": (enp.zeros_like, "f32[8@X,4@Y]"),
    "full_like": (lambda x: lax.full_like(x, 2.0), "f32[8@X,4@Y]"),
    "zeros": (lambda x: enp.zeros((8, 4)) * x.sum(), "f32[8,4]"),
    "product": (lambda x: x @ W, "f32[8@X,6]"),
    "batched product": (lambda x: enp.einsum("bi,bij->bj", effx.reshard(x, P("X")), enp.ones((8, 4, 3))), "f32[8@X,3]"),
    "reshard": (lambda x: effx.reshard(x, P("Y")), "f32[8@Y,4]"),
    "whole": (lambda x: effx.reshard(x, P()), "f32[8,4]"),
    "gather of rows": (lambda x: effx.reshard(x, P(None, "Y"))[enp.array([1, 0, 1])], "f32[3,4@Y]"),
    "dynamic slice": (lambda x: lax.dynamic_slice_in_dim(effx.reshard(x, P("X")), 1, 2, 1), "f32[8@X,2]"),
    "cumsum": (lambda x: enp.cumsum(effx.reshard(x, P("X")), 1), "f32[8@X,4]"),
    "scan": (
        lambda x: lax.scan(lambda c, r: (c + r, r * 2), enp.zeros(8), effx.reshard(x.T, P(None, "X")))[1], "f32[4,8@X]",
    ),
    "carry": (lambda x: lax.scan(lambda c, r: (c + r, r), enp.zeros(8), effx.reshard(x.T, P(None, "X")))[0], "f32[8@X]"),
    "while": (lambda x: lax.while_loop(lambda c: c.sum() < 10, lambda c: enp.abs(c) + 1, x), "f32[8@X,4@Y]"),
    "fori": (lambda x: lax.fori_loop(0, 3, lambda i, c: enp.tanh(c), x), "f32[8@X,4@Y]"),
    "cond": (lambda x: lax.cond(x.sum() > 0, enp.sin, enp.zeros_like, x), "f32[8@X,4@Y]"),
    "vmap": (lambda x: effx.vmap(lambda r: r * 2 + r.sum())(x), "f32[8@X,4@Y]"),
    "vmap of the other": (lambda x: effx.vmap(enp.cumsum, 1, 1)(effx.reshard(x, P(None, "Y"))), "f32[8,4@Y]"),
    "jit": (lambda x: effx.jit(lambda y: enp.tanh(y).sum(1))(x), "f32[8@X]"),
    "checkpoint": (effx.checkpoint(sine_of_sine), "f32[8@X,4@Y]"),
    "custom rule": (effx.nn.relu, "f32[8@X,4@Y]"),
    "shard_map": (
        lambda x: effx.shard_map(lambda p: p * lax.psum(p.sum(), ("X", "Y")), out_specs=P("X", "Y"))(x), "f32[8@X,4@Y]",
    ),
    "smap": (lambda x: effx.smap(lambda p: p * 2, in_axes=0, out_axes=0, axis_name="X")(x), "f32[8@X,4@Y]"),
    "auto_axes": (auto_axes(sorted_reverse, out_sharding=P("Y")), "f32[8@Y,4]"),
    "random": (lambda x: x * effx.random.normal(effx.random.key(0), (8, 4)), "f32[8@X,4@Y]"),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_types_of_results(name: str) -> None:
    """What is staged, what compiled code gives, and what single operations give lie alike, with whole "
    "arrays' values."""
    f, t = RESULTS[name]
    with effx.set_mesh(effx.make_mesh((4, 2), ("X", "Y"))):  # Auto axes: types say nothing
        want = (
            effx.jit(lambda x: f(x))(effx.device_put(A, P("X", "Y")))
            if name not in ("shard_map", "smap")
            else None
        )
    with effx.set_mesh(MESH):
        x = put(A, "X", "Y")
        assert repr(effx.make_jaxpr(f)(x).out_types[0]) == t
        for got in (effx.jit(lambda x: f(x))(x), f(x)):
            assert repr(got.type) == t
            assert got.sharding.is_equivalent_to(
                NamedSharding(MESH, P() if got.type.sharding is None else got.type.sharding.spec), got.ndim
            )
            if want is not None:
                close(got, want)


@pytest.mark.parametrize("name", RESULTS)
def test_checks_expect_the_types_of_results(name: str) -> None:
    """Under `enable_checks` single operations and compiled functions give the types that rules expect."""
    f, t = RESULTS[name]
    with effx.set_mesh(MESH), effx.enable_checks(True):
        x = put(A, "X", "Y")
        for result in (f(x), effx.jit(lambda x: f(x))(x)):
            assert repr(result.type) == t


def test_programs_are_shown_and_read() -> None:
    with effx.set_mesh(MESH):
        program = effx.make_jaxpr(lambda x: effx.jit(enp.sin)(x).reshape(4, 2, 4).sum(0))(put(A, ("X",), "Y"))
        two = effx.make_jaxpr(lambda x: x * 2)(put(A, ("X", "Y")))
    assert str(program) == (
        "mesh(X=4, Y=2)\n\n"
        "sin(a: f32[8@X,4@Y]) {\n  b: f32[8@X,4@Y] = sin a\n  return b\n}\n\n"
        "<lambda>(a: f32[8@X,4@Y]) {\n"
        "  b: f32[8@X,4@Y] = call[program=@sin] a\n"
        "  c: f32[4@X,2,4@Y] = reshape[shape=(4, 2, 4)] b\n"
        "  d: f32[2,4@Y] = reduce_sum[axes=(0,)] c\n"
        "  return d\n}"
    )
    assert repr(two.in_types[0]) == "f32[8@(X,Y),4]"
    for p in (program, two):
        again = parse_program(str(p))
        assert str(again) == str(p)
        assert again.in_types == p.in_types
        assert pickle.loads(pickle.dumps(p)).in_types == p.in_types
    with effx.set_mesh(MIXED):
        mixed = effx.make_jaxpr(lambda x: x * 2)(put(A, "X", "Y", mesh=MIXED))
    assert str(mixed).startswith("mesh(X=4, Y=2~)\n\n<lambda>(a: f32[8@X,4])")
    assert parse_program(str(mixed)).in_types == mixed.in_types


def test_text_without_a_mesh() -> None:
    with pytest.raises(effx.errors.ProgramError) as caught:
        parse_program("f(a: f32[8@X]) {\n  return a\n}")
    assert str(caught.value).startswith(
        "parse: line 1: expected the mesh before, as in mesh(i=2), got 'f32[8@X]'"
    )


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[P, P, P]]] = {
    "network": (lambda x, w, b: (enp.tanh(x @ w + b) ** 2).sum(), (P("X"), P(None, "Y"), P("Y"))),
    "whole": (lambda x, w, b: (enp.tanh(x @ w + b) ** 2).sum(), (P(), P(), P())),
    "summed in parts": (
        lambda x, w, b: (enp.tanh(apply_with_sharding(P("X"), enp.dot, x, w) + b) ** 2).sum(), (P("X", "Y"), P("Y"), P()),
    ),
    "scan": (
        lambda x, w, b: lax.scan(lambda c, r: (enp.tanh(c * r), c.sum()), enp.ones(4), x)[0].sum() * (w.sum(0) * b).sum(),
        (P(None, "Y"), P(None, "Y"), P("Y")),
    ),
    "loop": (
        lambda x, w, b: lax.fori_loop(0, 3, lambda i, c: enp.tanh(c) * 1.5, x @ w).sum() + b.sum(),
        (P("X"), P(None, "Y"), P("Y")),
    ),
    "cond": (
        lambda x, w, b: lax.cond(x.sum() > 0, enp.sin, lambda x: x * 2, x).sum() + (w * b).sum(),
        (P("X"), P(None, "Y"), P()),
    ),
    "checkpoint": (
        lambda x, w, b: effx.checkpoint(lambda x: enp.sin(enp.sin(x @ w)))(x).sum() * b.sum(), (P("X"), P(None, "Y"), P()),
    ),
    "vmap": (lambda x, w, b: effx.vmap(lambda r: enp.tanh(r @ w + b).sum())(x).sum(), (P("X"), P(None, "Y"), P("Y"))),
    "custom rule": (lambda x, w, b: (effx.nn.relu(x @ w) + effx.nn.gelu(b)).sum(), (P("X"), P(None, "Y"), P("Y"))),
    "logsumexp": (lambda x, w, b: effx.nn.logsumexp(x @ w + b, axis=1).sum(), (P("X"), P(None, "Y"), P("Y"))),
    "norm": (
        lambda x, w, b: (((x - x.mean(1, keepdims=True)) / (x.var(1, keepdims=True) + 1e-2) ** 0.5) @ w + b).sum(),
        (P("X"), P(None, "Y"), P("Y")),
    ),
    "shard_map": (
        lambda x, w, b: (
            effx.shard_map(lambda x, w: lax.psum(x @ w, "Y"), out_specs=P("X"))(x, w) * b if not isinstance(x, np.ndarray)
            and effx.get_mesh().explicit_axes else (x @ w) * b
        ).sum(),
        (P("X", "Y"), P("Y"), P()),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    """Gradients lie as their arguments, and are those of whole arrays; forward over reverse, compiled and not."""
    f, specs = FUNCTIONS[name]
    g = effx.value_and_grad(f, (0, 1, 2))
    with effx.set_mesh(effx.make_mesh((4, 2), ("X", "Y"))):
        want, second = g(A, W, B), effx.jvp(g, (A, W, B), (A, W, B))[1]
    with effx.set_mesh(MESH):
        args = [effx.device_put(x, s) for x, s in zip((A, W, B), specs, strict=True)]
        for derivative in (g, effx.jit(g)):
            got = derivative(*args)
            close(got, want)
            assert [x.type for x in got[1]] == [x.type for x in args]
        close(effx.jit(lambda *a: effx.jvp(g, a, a)[1])(*args), second)


def test_checked_programs() -> None:
    with effx.set_mesh(MESH), effx.enable_checks(True):
        for f, specs in FUNCTIONS.values():
            effx.jit(effx.grad(f))(*[effx.device_put(x, s) for x, s in zip((A, W, B), specs, strict=True)])


SHAPES = st.sampled_from([P(), P("X"), P(None, "Y"), P("X", "Y"), P("Y"), P(("X", "Y")), P("Y", None)])
STEPS: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + 1,
    lambda x, y: enp.sin(x) * 2,
    lambda x, y: enp.concatenate([x, x])[:8] if x.shape[0] == 8 else x,
    lambda x, y: x - x.max(0),
    lambda x, y: x.reshape(-1, 2, x.shape[-1]).reshape(x.shape),
    lambda x, y: x * y.mean(),  # not the sum: its error would grow with each step
    lambda x, y: x[::-1],
    lambda x, y: effx.vmap(lambda r: r / (1 + enp.abs(r).sum()))(x),
]


@given(SHAPES, SHAPES, SHAPES, st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=5))
def test_random_programs(first: P, second: P, third: P, steps: list[int]) -> None:
    """Where types say how results lie, they lie so and are those of whole arrays; elsewhere there is an error."""

    def f(x: Any, y: Any) -> Any:
        for i in steps:
            x = STEPS[i](x, y)
        return x + effx.reshard(y, P() if x.type.sharding is None else x.type.sharding.spec) if on else x + y

    on = False
    want = f(enp.asarray(A), enp.asarray(A * 2))
    on = True
    with effx.set_mesh(MESH):
        x, y = effx.device_put(A, first), effx.device_put(A * 2, second)
        try:
            t = effx.eval_shape(f, x, y)
        except ShardingError:
            with pytest.raises(ShardingError):
                effx.jit(f)(x, y)
            return
        assert t.shape == want.shape
        got = effx.jit(f)(x, y)
        close(got, want)
        assert got.type == effx.make_jaxpr(f)(x, y).out_types[0]


ERRORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "two cuts": (
        lambda x: x + effx.reshard(x, P("Y")),
        "add of f32[8@X,4@Y], f32[8@Y,4]: axis 0 is sharded over 'X' and over 'Y'",
    ),
    "summed on both sides": (
        lambda x: x @ effx.reshard(x, P(None, "Y")).T,
        ("dot_general of f32[8@X,4@Y], f32[4@Y,8]: axes that are summed over, 1 of the first and 0 of the "
        "second, are sharded over "
        "'Y' and 'Y', and the sum may be sharded or replicated"),
    ),
    "one axis twice": (
        lambda x: x @ enp.ones((4, 8)) + (x @ enp.ones((4, 8))).T,
        "add of f32[8@X,8], f32[8,8@X]: 'X' would shard two axes of the result",
    ),
    "unequal parts": (
        lambda x: x[1:],
        "slice of f32[8@X,4@Y]: axis 0 is sharded over 'X' into 4 parts, which 7 elements cannot be",
    ),
    "reshape": (
        lambda x: x.reshape(32),
        "reshape of f32[8@X,4@Y]: [8, 4] becomes [32], of which these parts are not equal parts",
    ),
    "cumulative": (
        lambda x: enp.cumsum(x, 0),
        "cumsum of f32[8@X,4@Y]: axis 0 is sharded over 'X', along which it goes",
    ),
    "scan": (lambda x: lax.scan(lambda c, r: (c, r * 2), 0.0, x), "scan: the scanned axis is sharded over 'X'"),
    "gather": (
        lambda x: x[enp.array([0, 3])],
        "gather of f32[8@X,4@Y], i32[2,1]: axis 0 is sharded over 'X', from which slices are taken",
    ),
    "branches": (
        lambda x: lax.cond(x.sum() > 0, lambda: x, lambda: effx.reshard(x, P("Y"))),
        "cond: its branches' results have different shardings: P('Y') and P('X', 'Y') meet",
    ),
    "carry": (
        lambda x: lax.fori_loop(0, 2, lambda i, c: effx.reshard(c, P("Y")), x),
        "a loop's initial carry and its body's result have different shardings: P('X', 'Y') and P('Y') meet",
    ),
    "shard_map": (
        lambda x: effx.shard_map(lambda p: p, in_specs=P("Y"), out_specs=P("Y"))(x),
        "shard_map: in_specs says P('Y') of argument 0 of <lambda>, but its type is f32[8@X,4@Y]; leave in_specs out",
    ),
    "auto_axes": (
        lambda x: auto_axes(enp.sort)(x),
        "auto_axes: the results' shardings are not specified; give out_sharding, to auto_axes or to the function",
    ),
    "no such axis": (
        lambda x: auto_axes(enp.sort, axes="Z", out_sharding=P())(x),
        "auto_axes: the mesh has no axis 'Z'; it has ('X', 'Y')",
    ),
    "explicit_axes": (
        lambda x: explicit_axes(enp.sin)(x),
        "explicit_axes: the arguments' shardings are not specified; give in_sharding, to explicit_axes or to the function",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    """At the user's line, before anything is compiled; single operations refuse alike."""
    f, text = ERRORS[name]
    with effx.set_mesh(MESH):
        x = put(A, "X", "Y")
        for run in (effx.make_jaxpr(f), f):
            with pytest.raises(ShardingError) as caught:
                run(x)
            assert text in str(caught.value)


def test_two_meshes() -> None:
    other = effx.make_mesh((8,), ("Z",), AxisType.Explicit)
    with pytest.raises(ShardingError, match="add: operands are on two meshes"):
        effx.jit(lambda a, b: a + b)(put(A, "X"), put(A, "Z", mesh=other))


def test_no_mesh_in_force() -> None:
    for f in (auto_axes(enp.sin, out_sharding=P()), explicit_axes(enp.sin, in_sharding=P())):
        with pytest.raises(ShardingError, match=r"there is no mesh in force; use effx\.set_mesh"):
            f(A)


def test_shardings_of_types_are_named_shardings() -> None:
    """They have an entry for each array axis, on the mesh in force where a type says nothing."""
    x = put(A, "X")
    assert effx.typeof(x).sharding == NamedSharding(MESH.abstract_mesh, P("X", None))
    assert isinstance(effx.typeof(x).sharding, NamedSharding)
    assert effx.typeof(x).sharding.spec == P("X", None)
    auto = effx.make_mesh((4, 2), ("X", "Y"))
    with effx.set_mesh(auto):
        assert effx.typeof(A).sharding == NamedSharding(auto.abstract_mesh, P(None, None))
    seen: list[Any] = []

    def note(x: Any) -> Any:
        seen.append(
            (effx.typeof(x).sharding.mesh.axis_types, effx.typeof(x).sharding.spec, effx.typeof(x).mat)
        )
        return x

    with effx.set_mesh(MESH):
        y = effx.jit(effx.shard_map(note, out_specs=P("X"), axis_names={"X"}))(put(A, "X", "Y"))
    assert seen == [
        ((AxisType.Manual, AxisType.Explicit), P(None, "Y"), effx.sharding.ManualAxisType(varying={"X"}))
    ]
    assert y.sharding.spec == P("X", "Y")


def test_shapes_have_the_shardings_of_types() -> None:
    """`eval_shape` shows Explicit axes, whether their mesh is in force or only named inside."""

    def cut() -> Any:
        return 2 * effx.reshard(enp.ones((8, 4)), NamedSharding(MESH, P("X", "Y")))

    for shape in (effx.eval_shape(cut), effx.jit(cut).eval_shape()):
        assert shape.sharding == NamedSharding(MESH.abstract_mesh, P("X", "Y"))
    assert repr(effx.make_jaxpr(cut)().out_types[0]) == "f32[8@X,4@Y]"
    assert effx.eval_shape(lambda: enp.ones(3)).sharding is None
    with effx.set_mesh(MESH):
        shape = effx.eval_shape(lambda x: x.sum(0), put(A, "X", "Y"))
        assert (shape.sharding.spec, effx.ShapeDtypeStruct.like(shape)) == (P("Y"), shape)


def test_types_and_their_shapes_lower() -> None:
    """A function is lowered for types and for structs of them, with the mesh in force and without."""
    f = effx.jit(lambda x: x.sum(0) * 2)
    for where in (effx.make_mesh((4, 2), ("X", "Y")), MESH, None):
        with effx.set_mesh(where):
            t = effx.typeof(enp.ones((8, 4)))
            sharding: Any = t.sharding
            for like in (
                t,
                effx.ShapeDtypeStruct.like(t),
                effx.ShapeDtypeStruct((8, 4), "f4", sharding=sharding),
            ):
                close(f.lower(like).compile()(A), 2 * A.sum(0))
    with effx.set_mesh(MESH):
        struct = effx.eval_shape(lambda x: x * 2, put(A, "X", "Y"))
        compiled = f.lower(struct).compile()
        assert repr(compiled(put(A, "X", "Y")).type) == "f32[4@Y]"


def double_on_host(seen: list[Any], a: Any) -> Any:
    seen.append(a)
    return np.asarray(a) * 2


CALLBACKS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "debug.callback": lambda x, seen: (effx.debug.callback(seen.append, x), x * 2)[1],
    "ordered": lambda x, seen: (effx.debug.callback(seen.append, x, ordered=True), x * 2)[1],
    "pure_callback": lambda x, seen: effx.pure_callback(
        lambda a: double_on_host(seen, a), effx.ShapeDtypeStruct(x.shape, x.dtype), x
    ),
    "scan": lambda x, seen: lax.scan(lambda c, _: (c * 2, effx.debug.callback(seen.append, c)), x, None, length=1)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLBACKS)
def test_callbacks_get_whole_arrays(name: str) -> None:
    """Whatever shards their operands; the results of Python functions are whole."""
    seen: list[Any] = []
    with effx.set_mesh(MESH):
        y = effx.jit(lambda x: CALLBACKS[name](x, seen))(put(A, "X", "Y"))
        gradient = effx.grad(lambda x: (effx.debug.callback(seen.append, x), (x * x).sum())[1])(
            put(A, "X", "Y")
        )
    effx.effects_barrier()
    close(y, 2 * A)
    close(gradient, 2 * A)
    assert repr(y.type) == ("f32[8,4]" if name == "pure_callback" else "f32[8@X,4@Y]")
    assert len(seen) == 2 or name == "pure_callback"  # each device may call a pure function
    for value in seen:
        close(value, A)


def test_types_keep_shardings_without_a_mesh_in_force() -> None:
    """Arrays bring their mesh along."""
    x = put(A, "X", "Y")
    assert repr((x * 2).type) == repr(effx.jit(lambda x: x * 2)(x).type) == "f32[8@X,4@Y]"
    assert repr(effx.typeof(x)) == "f32[8@X,4@Y]"
    sharding = x.type.sharding
    assert (sharding.spec, sharding.mesh) == (P("X", "Y"), MESH.abstract_mesh)
    assert not sharding.is_fully_replicated


def test_replicated_types_show_it() -> None:
    """They lie on a mesh without axes, as in JAX, and lying so is no change."""
    t = effx.typeof(A)
    assert t.explicit_sharding is None
    assert t.sharding.is_fully_replicated
    assert (t.sharding.mesh.axis_names, t.sharding.spec) == ((), P(None, None))
    row = t.sharding.update(spec=P(*t.sharding.spec[1:]))
    assert (row.spec, row.mesh) == (P(None), t.sharding.mesh)
    assert effx.ir.ArrayType(t.shape, t.dtype, sharding=t.sharding) is t
    assert effx.eval_shape(lambda x: x * 2, effx.typeof(put(A, "X", "Y"))).shape == A.shape


@pytest.mark.parametrize("names", [(), ("X",), ("X", "Y")])
def test_results_have_the_sharding_of_an_arrays_type(names: tuple[str, ...]) -> None:
    """`out_sharding=typeof(x).sharding`, as libraries write it, whether anything cuts `x` or not."""
    x = put(A, *names) if names else enp.asarray(A)
    key, cut = effx.random.key(0), effx.typeof(x).sharding
    makes: dict[str, Callable[[Any], Any]] = {
        "random": lambda s: effx.random.normal(key, A.shape, out_sharding=s),
        "zeros": lambda s: enp.zeros(A.shape, out_sharding=s),
        "einsum": lambda s: enp.einsum("ij,jk->ik", A, np.eye(A.shape[1], dtype=A.dtype), out_sharding=s),
        "constraint": lambda s: effx.lax.with_sharding_constraint(enp.asarray(A), s),
    }
    for name, make in makes.items():
        for made in (make(cut), effx.jit(lambda y, make=make: make(effx.typeof(y).sharding))(x)):
            assert made.type.explicit_sharding == x.type.explicit_sharding, name
            np.testing.assert_allclose(made, make(None), rtol=1e-6)


def test_descriptions_and_wishes_are_typed() -> None:
    """`ShapeDtypeStruct(sharding=)` and `in_shardings` say how arguments lie before these are there."""
    lies, seen = NamedSharding(MESH, P("X", "Y")), []
    struct = effx.ShapeDtypeStruct(A.shape, np.dtype("float32"), sharding=lies)
    assert repr(effx.make_jaxpr(lambda x: x.T)(struct).out_types[0]) == "f32[4@Y,8@X]"
    compiled = effx.jit(lambda x: x.sum(0)).lower(struct).compile()
    assert repr(compiled(put(A, "X", "Y")).type) == "f32[4@Y]"

    def f(x: Any, by: Any = 2.0) -> Any:
        seen.append(repr(x.type))
        return x * by

    g = effx.jit(f, in_shardings=lies)
    for x in (A, put(A, "X", "Y"), enp.asarray(A)):
        assert repr(g(x).type) == "f32[8@X,4@Y]"
    with effx.set_mesh(MESH):
        assert repr(effx.jit(lambda x: g(x) + 1)(A).type) == "f32[8@X,4@Y]"
    assert set(seen) == {"f32[8@X,4@Y]"}
    with effx.set_mesh(MESH):
        assert repr(effx.jit(f, in_shardings=P("Y"))(A).type) == "f32[8@Y,4]"
        assert repr(effx.jit(f, out_shardings=P("Y"))(put(A, "X")).type) == "f32[8@Y,4]"
    with pytest.raises(ShardingError, match=r"cannot split into 4 equal parts"):
        g(A[:6])
    with pytest.raises(ShardingError, match="argument 0 of type f32"):
        g(put(A, "Y"))


def test_elements_of_batches_are_typed() -> None:
    """Without a mesh in force too: what is jitted inside sees them."""
    seen: list[str] = []

    def f(r: Any) -> Any:
        seen.append(repr(r.type))
        return effx.jit(inner)(r)

    def inner(r: Any) -> Any:
        seen.append(repr(r.type))
        return enp.cumsum(r * 2)

    got = effx.vmap(f, 1, 1)(put(A, None, "Y"))
    assert repr(got.type) == "f32[8,4@Y]"
    got = effx.vmap(effx.jit(lambda r: r / r.sum()))(put(A, "X", "Y"))
    assert repr(got.type) == "f32[8@X,4@Y]"
    close(got, A / A.sum(1, keepdims=True))
    effx.vmap(f)(effx.reshard(put(A, "X", "Y"), NamedSharding(MESH, P("X"))))
    with pytest.raises(ShardingError, match="cumsum"):
        effx.vmap(f)(put(A, "X", "Y"))
    assert seen == ["f32[8]", "f32[8]", "f32[4]", "f32[4]", "f32[4@Y]", "f32[4@Y]"]


def test_each_sharding_is_another_type() -> None:
    seen: list[str] = []

    def double(x: Any) -> Any:
        seen.append(repr(x.type))
        return x * 2

    f = effx.jit(double)
    for spec in ((), ("X",), ("Y",), ("X",)):
        assert f(put(A, *spec)).sharding.spec == P(*spec)
    assert seen == ["f32[8,4]", "f32[8@X,4]", "f32[8@Y,4]"]


def test_mixed_meshes() -> None:
    """The partitioner settles how Auto axes cut; types speak of the others."""
    with effx.set_mesh(MIXED):
        x = put(A, "X", "Y", mesh=MIXED)
        assert repr(x.type) == "f32[8@X,4]"
        for y in (x * 2, effx.jit(lambda x: x * 2)(x)):
            assert repr(y.type) == "f32[8@X,4]"
            assert y.sharding.spec == P("X", "Y")
            close(y, A * 2)
        close(effx.jit(lambda x: x @ x.T)(effx.reshard(x, P())), A @ A.T)
        with pytest.raises(OptionError, match="must say how the arguments of <lambda> are sharded along 'Y'"):
            effx.shard_map(lambda p: p, out_specs=P())(x)


def test_explicit_axes() -> None:
    seen = []

    @explicit_axes(in_sharding=(P("X"), P()))
    def f(x: effx.Array, y: effx.Array) -> effx.Array:
        seen.extend([x.type, y.type, (x + y).type])
        return x + y

    with effx.set_mesh(effx.make_mesh((4, 2), ("X", "Y"))):
        got = effx.jit(f)(enp.asarray(A), enp.asarray(A))
    assert list(map(repr, seen)) == ["f32[8@X,4]", "f32[8,4]", "f32[8@X,4]"]
    close(got, A + A)
    assert repr(got.type) == "f32[8,4]"


def test_auto_axes_of_some() -> None:
    with effx.set_mesh(MESH):
        f = auto_axes(lambda x: enp.cumsum(x, 1), axes="Y", out_sharding=P("X", "Y"))
        got = effx.jit(f)(put(A, "X", "Y"))
        assert repr(got.type) == "f32[8@X,4@Y]"
        close(got, np.cumsum(A, 1))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (8, 0), (1, 8)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16"])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    x = np.ones(shape, enp.dtype(dtype))
    spec = ["X" if n % 4 == 0 and n else None for n in shape]
    with effx.set_mesh(MESH):
        y = put(x, *spec)
        got = effx.jit(lambda y: enp.stack([y, y]).reshape((2, *shape)))(y)
        assert got.sharding.spec == P(*trimmed([None, *spec]))
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(got), np.stack([x, x]))


def trimmed(spec: list[Any]) -> list[Any]:
    while spec and spec[-1] is None:
        spec = spec[:-1]
    return spec


def test_users_operations_need_no_rule() -> None:
    """Elementwise ones lie as their operands; others are refused, or done inside auto_axes."""
    from effx.families import sort

    with effx.set_mesh(MESH), pytest.raises((ShardingError, TransformError)):
        sort.Sort(0)(put(A, "X"))
