"""Exported functions: one module for all sizes returns the function's results, and a mismatch is an error."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import (
    BackendError,
    EffxError,
    InconclusiveDimensionOperation,
    ShapeError,
    TransformError,
    TreeError,
)
from effx.export import (
    DisabledSafetyCheck,
    Exported,
    deserialize,
    export,
    register_namedtuple_serialization,
    register_pytree_node_serialization,
    symbolic_args_specs,
    symbolic_shape,
)
from effx.ir.text import parse_program

Data = npt.NDArray[Any]
Struct = effx.ShapeDtypeStruct
(B,) = symbolic_shape("b")
F32 = np.float32
ANY: Any = Struct((B,), F32)


def batch(x: effx.Array) -> effx.Array:
    """One matrix for each row: symmetric and positive definite."""
    return x[:, :, None] * x[:, None, :] + enp.eye(4)


def dense(x: effx.Array) -> effx.Array:
    """A small network."""
    return enp.mean(effx.nn.softmax(enp.tanh(x @ enp.ones((4, 3))), -1) ** 2)


# Functions of f32[b,4]. What takes sizes in the text of modules is each in one of them at least.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: enp.sin(x) * 2 + 1,
    "size as a number": lambda x: x / x.shape[0] + enp.asarray(x.shape[0] * 2),
    "mean": lambda x: (enp.mean(x, 0), enp.var(x), enp.std(x, 0), enp.average(x, 0)),
    "softmax": lambda x: effx.nn.softmax(x, 0),
    "products": lambda x: (x.T @ x, x @ x.T, enp.einsum("ij,kj->ik", x, x)),
    "ranges": lambda x: (
        enp.arange(x.shape[0]),
        enp.arange(1, x.shape[0] + 1, 2),
        enp.eye(x.shape[0]),
        enp.zeros(x.shape[0] + 1),
        enp.linspace(0.0, 1.0, x.shape[0]),
        enp.linspace(x[0], 2.0, x.shape[0], endpoint=False),
    ),
    "reductions": lambda x: (x.max(1), enp.argmax(x, 0), x.prod(), enp.nansum(x), enp.linalg.norm(x)),
    "sorting": lambda x: (
        enp.sort(x, 0),
        enp.argsort(x, 0),
        enp.median(x, 0),
        enp.percentile(x, 30.0, axis=0),
    ),
    "running": lambda x: (
        enp.cumsum(x, 0),
        lax.cumsum(x, 0, reverse=True),
        lax.cummax(x, 0),
        lax.cumlogsumexp(x, 0),
    ),
    "slices": lambda x: (x[::-1], x[1:-1, ::2], x[0], x[-1], x[2:], x[-2:], x[::3], x[: x.shape[0] // 2]),
    "indices": lambda x: (
        x[enp.array([0, -1])],
        enp.take(x, enp.arange(2), 0, mode="clip"),
        x.at[0].set(1.0),
        x.at[enp.array([0, 0])].add(x[:1]),
    ),
    "joining": lambda x: (
        enp.concatenate([x, x[:1]]),
        enp.stack([x, x]),
        enp.tile(x, (2, 1)),
        enp.repeat(x, 2, 0),
        enp.roll(x, 1, 0),
    ),
    "padding": lambda x: (
        enp.pad(x, ((1, 2), (0, 0))),
        enp.diff(x, axis=0),
        enp.tril(x @ x.T),
        enp.outer(x[:, 0], x[:, 1]),
    ),
    "reshapes": lambda x: (
        x.reshape(-1),
        x.reshape(x.shape[0], 2, 2),
        x.reshape(2, -1),
        x.swapaxes(0, 1).reshape(4, -1),
    ),
    "scan": lambda x: (
        lax.scan(lambda c, r: (c + r, c * r), enp.zeros(4), x),
        lax.scan(lambda c, r: (c + r, c), enp.zeros(4), x, reverse=True),
    ),
    "map": lambda x: lax.map(enp.sin, x),
    "loops": lambda x: (
        lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], enp.zeros(4)),
        lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
    ),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda y: y + y.shape[0], lambda y: y * 2, x),
    "vmap": effx.vmap(lambda r: r.sum() * r),
    "nested jit": effx.jit(lambda x: effx.jit(lambda y: y * y.shape[0])(enp.sin(x))),
    "grad": effx.grad(dense),
    "hessian times": lambda x: effx.jvp(effx.grad(dense), (x,), (x,))[1],
    "checkpoint": effx.grad(lambda x: effx.checkpoint(lambda y: enp.sin(enp.sin(y)).sum())(x)),
    "random": lambda x: (
        effx.random.normal(effx.random.key(0), x.shape),
        effx.random.bernoulli(effx.random.key(1), 0.5, x.shape),
    ),
    "top": lambda x: lax.top_k(x, 2),
    "convolution": lambda x: lax.conv_general_dilated(x[None, None], enp.ones((1, 1, 3, 3)), (2, 1), "SAME"),
    "pooling": lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 1), (1, 1), "SAME"),
    "strided pooling": lambda x: lax.reduce_window(x, -np.inf, lax.max, (3, 2), (2, 1), "SAME"),
    "fourier": lambda x: enp.fft.fft(x, axis=1),
    "cholesky": lambda x: enp.linalg.cholesky(batch(x)),
    "solving": lambda x: (
        enp.linalg.solve(batch(x), x[:, :, None]),
        enp.linalg.det(batch(x)),
        enp.linalg.inv(batch(x)),
    ),
    "factors": lambda x: (enp.linalg.qr(batch(x))[1], enp.linalg.eigvalsh(batch(x))),
    "searching": lambda x: (
        enp.searchsorted(enp.sort(x[:, 0]), x[:, 1]),
        enp.unique(x, size=4),
        enp.nonzero(x > 0, size=3),
        enp.histogram(x, bins=3)[0],
    ),
    "segments": lambda x: effx.ops.segment_sum(x, enp.zeros(x.shape[0], int), num_segments=2),
    "attention": lambda x: effx.nn.dot_product_attention(
        x[None, :, None], x[None, :, None], x[None, :, None]
    ),
    "where": lambda x: (
        enp.where(x > 0, x, 0.0),
        enp.clip(x, 0, 1),
        enp.broadcast_to(x[:1], x.shape),
        enp.meshgrid(x[:, 0], x[:, 1]),
    ),
    "integrals": lambda x: (
        enp.trapezoid(x, axis=0),
        enp.interp(enp.arange(4.0), enp.arange(x.shape[0] * 1), x[:, 0]),
        enp.cov(x),
    ),
}
# Some read two rows, or sample by rank, and are tried where there are several.
ONE_ROW = ("elementwise", "mean", "running", "reshapes", "scan", "grad", "sorting", "random", "products")
CASES = [(name, 6) for name in FUNCTIONS] + [(name, 1) for name in ONE_ROW]


@pytest.mark.parametrize(("name", "rows"), CASES)
def test_one_module_for_all_sizes(name: str, rows: int) -> None:
    """The module, run for a size, gives what the function gives for arrays of that size."""
    function = FUNCTIONS[name]
    x = enp.asarray(np.random.default_rng(0).normal(size=(rows, 4)).astype(F32))
    exported = _exported(name)
    expected, found = effx.tree.leaves(function(x)), effx.tree.leaves(exported.call(x))
    for t, want, got in zip(exported.out_avals, expected, found, strict=True):
        assert t.dtype == got.dtype
        assert t.ndim == got.ndim
        np.testing.assert_allclose(got, want, rtol=3e-4, atol=3e-4)


_kept: dict[str, Exported] = {}


def _exported(name: str) -> Exported:
    if name not in _kept:
        constraints = ["b >= 2"] if name not in ONE_ROW else []
        spec = Struct((*symbolic_shape("b", constraints=constraints), 4), F32)
        _kept[name] = deserialize(export(effx.jit(FUNCTIONS[name]))(spec).serialize())
    return _kept[name]


@pytest.mark.parametrize(
    "name", ["slices", "joining", "scan", "reshapes", "ranges", "convolution", "random", "cholesky"]
)
def test_programs_with_symbolic_sizes_are_read_back(name: str) -> None:
    """The text of a program gives a program with the same text."""
    text = str(effx.make_jaxpr(FUNCTIONS[name])(Struct((B + 1, 4), F32)))
    assert "b + 1" in text
    assert str(parse_program(text)) == text


def example(x: effx.Array, w: dict[str, effx.Array]) -> dict[str, effx.Array]:
    """The function of most tests below."""
    return {"y": enp.sin(x) @ w["w"], "s": x.sum()}


def exported_example(platforms: tuple[str, ...] = ("cpu", "cuda")) -> Exported:
    """f32[b,4] and f32[4,n]."""
    b, n = symbolic_shape("b, n")
    return export(effx.jit(example), platforms=platforms)(Struct((b, 4), F32), {"w": Struct((4, n), F32)})


X = np.random.default_rng(0).normal(size=(5, 4)).astype(F32)
W = np.random.default_rng(1).normal(size=(4, 3)).astype(F32)


def test_what_is_known_of_it() -> None:
    """Types, structures and platforms are there, before and after a trip through bytes."""
    first = exported_example()
    for e in (first, deserialize(first.serialize())):
        assert list(map(repr, e.in_avals)) == ["f32[b,4]", "f32[4,n]"]
        assert list(map(repr, e.out_avals)) == ["f32[]", "f32[b,n]"]
        assert e.platforms == ("cpu", "cuda")
        assert e.nr_devices == 1
        assert e.fun_name == "example"
        assert e.in_tree == effx.tree.structure(((0, {"w": 0}), {}))
        assert e.out_tree == effx.tree.structure({"s": 0, "y": 0})
        assert e.calling_convention_version == 10
        assert e.module_kept_var_idx == (0, 1)
        assert e.in_shardings_hlo == (None, None)
        mesh = effx.make_mesh((1,), ("x",))
        assert e.in_shardings_jax(mesh) == e.in_shardings_jax() == (None, None)
        assert e.out_shardings_jax(mesh) == (None,) * len(e.out_avals)
        assert e.ordered_effects == () == e.unordered_effects
        assert "func.func public @main" in e.mlir_module()


def test_derivatives_are_exported_along() -> None:
    """Gradients of first and second order are those of NumPy's formula; integers have none."""
    d = deserialize(exported_example().serialize(vjp_order=2))
    gradient = effx.grad(lambda x: d.call(x, {"w": W})["y"].sum())
    np.testing.assert_allclose(gradient(X), np.cos(X) * W.sum(1), rtol=1e-5)
    second = effx.grad(lambda x: gradient(x)[0, 0])(X)
    expected = np.zeros_like(X)
    expected[0, 0] = (-np.sin(X) * W.sum(1))[0, 0]
    np.testing.assert_allclose(second, expected, rtol=1e-5)
    assert list(map(repr, d.vjp().in_avals)) == ["f32[b,4]", "f32[4,n]", "f32[]", "f32[b,n]"]

    def mixed(x: effx.Array, i: effx.Array) -> tuple[effx.Array, effx.Array]:
        return x * 2, i + 1

    e = deserialize(export(effx.jit(mixed))(Struct((B,), F32), Struct((B,), np.int32)).serialize(1))
    assert [t.dtype.names for t in e.vjp().out_avals] == [None, ("float0",)]
    found = effx.grad(lambda x: (e.call(x, np.arange(3, dtype=np.int32))[0] ** 2).sum())(np.ones(3, F32))
    np.testing.assert_allclose(found, [8, 8, 8])


def test_it_composes() -> None:
    """A call is traced by jit and vmap, within other exported functions, and its sizes flow on."""
    d = deserialize(exported_example().serialize(1))

    def total(x: Any) -> effx.Array:
        found: effx.Array = d.call(x, {"w": W})["s"]
        return found

    np.testing.assert_allclose(effx.jit(total)(X), X.sum(), rtol=1e-5)
    np.testing.assert_allclose(effx.vmap(total)(np.stack([X, 2 * X])), [X.sum(), 2 * X.sum()], rtol=1e-5)
    np.testing.assert_allclose(effx.vmap(effx.grad(total))(np.stack([X, X])), np.ones((2, 5, 4)))
    (c,) = symbolic_shape("c")
    inner = export(effx.jit(lambda x: enp.concatenate([x, x]) * x.shape[0]))(Struct((B,), F32))
    outer = export(effx.jit(lambda y: inner.call(enp.concatenate([y, y[:1]])) + 1))(Struct((c,), F32))
    assert repr(outer.out_avals) == "(f32[2*c + 2],)"
    y = np.arange(3, dtype=F32)
    both = np.concatenate([y, y[:1]])
    found = deserialize(outer.serialize()).call(y)
    np.testing.assert_allclose(found, np.concatenate([both, both]) * 4 + 1)
    assert effx.eval_shape(outer.call, Struct((7,), F32)).shape == (16,)
    assert repr(effx.eval_shape(outer.call, Struct((c + 1,), F32)).shape) == "(2*c + 4,)"


@pytest.mark.parametrize(
    "dtype",
    ["bool_", "int4", "int8", "uint32", "float16", "bfloat16", "float8_e4m3fn", "float32", "complex64"],
)
def test_dtypes_and_constants(dtype: str) -> None:
    """Arrays that a function closes over are part of the module, whatever their dtype."""
    t = getattr(enp, dtype)
    constant = enp.asarray(np.array([[0, 1, 0], [1, 1, 0]]), t)
    e = export(effx.jit(lambda x: (x, constant)))(Struct((B, 3), t))
    given = enp.asarray(np.ones((2, 3)), t)
    same, kept = deserialize(e.serialize()).call(given)
    assert same.dtype == kept.dtype == given.dtype
    np.testing.assert_array_equal(np.asarray(kept).astype(complex), [[0, 1, 0], [1, 1, 0]])
    np.testing.assert_array_equal(np.asarray(same).astype(complex), np.ones((2, 3)))


class Pair(NamedTuple):
    """A node of users'."""

    left: Any
    right: Any


register_namedtuple_serialization(Pair, serialized_name="tests.Pair")


class Scaled:
    """A node with data that is no array."""

    def __init__(self, x: Any, by: int) -> None:
        self.x, self.by = x, by


effx.tree_util.register_pytree_node(Scaled, lambda s: ((s.x,), s.by), lambda by, xs: Scaled(xs[0], by))
register_pytree_node_serialization(
    Scaled,
    serialized_name="tests.Scaled",
    serialize_auxdata=lambda by: str(by).encode(),
    deserialize_auxdata=lambda data: int(data),
    from_children=lambda by, xs: Scaled(xs[0], by),
)


def test_structures() -> None:
    """Named tuples, users' nodes, None, lists and dicts come through."""

    def function(p: Pair, *, s: Scaled, n: None) -> tuple[Scaled, list[effx.Array], None]:
        return Scaled(s.x * s.by, s.by), [p.left, p.right], n

    e = export(effx.jit(function))(
        Pair(Struct((), F32), Struct((B,), F32)), s=Scaled(Struct((B,), F32), 3), n=None
    )
    d = deserialize(e.serialize())
    scaled, pair, nothing = d.call(Pair(1.0, np.ones(2, F32)), s=Scaled(np.ones(2, F32), 3), n=None)
    assert type(scaled) is Scaled
    assert scaled.by == 3
    assert nothing is None
    np.testing.assert_array_equal(scaled.x, [3, 3])
    np.testing.assert_array_equal(pair[1], [1, 1])


def test_specifications_of_arguments() -> None:
    """One text may stand for all arrays below it; `_` and `...` take what is there."""
    args = ({"a": np.ones((2, 3)), "b": np.ones((4, 3), np.int32)}, 1.5)
    specs = symbolic_args_specs(args, ("m, _", None), constraints=["m >= 2"])
    assert repr(specs[0]["a"].shape) == repr(specs[0]["b"].shape) == "(m, 3)"
    assert specs[1].shape == ()
    assert specs[0]["b"].dtype == np.int32
    assert specs[0]["a"].shape[0] >= 2
    with pytest.raises(
        TreeError, match="symbolic_args_specs: the shapes must have the structure of the arguments"
    ):
        symbolic_args_specs(args, ("m, _",))


def test_several_platforms() -> None:
    """A function whose form differs between platforms has one for each, and runs the one of the platform."""

    def function(x: effx.Array) -> effx.Array:
        return lax.platform_dependent(x, cpu=lambda y: y + 1, default=lambda y: y + 100)

    e = deserialize(export(effx.jit(function), platforms=["tpu", "cpu"])(Struct((B,), F32)).serialize())
    np.testing.assert_array_equal(e.call(np.zeros(2, F32)), [1, 1])
    fixed = export(effx.jit(function), platforms=["cuda", "cpu"])(Struct((3,), F32))
    np.testing.assert_array_equal(fixed.call(np.zeros(3, F32)), [1, 1, 1])
    assert (
        export(effx.jit(enp.cumsum), platforms=["cuda", "cpu"])(Struct((3000,), F32))
        .mlir_module()
        .count("@main")
        == 1
    )


def _run(spec: Struct, function: Callable[[Any], Any] = enp.sin) -> Exported:
    return export(effx.jit(function))(spec)


def _two(b: Any, n: Any) -> Any:
    return export(effx.jit(lambda x, y: x + y))(Struct((b,), F32), Struct((n,), F32))


ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (lambda: export(enp.sin)(1.0), TransformError, "export: the function must be what effx.jit gives, got <"),
    (
        lambda: export(effx.jit(enp.sin), platforms="cpu"),
        TransformError,
        "export: platforms must be a sequence of names, got the string 'cpu'",
    ),
    (
        lambda: export(effx.jit(enp.sin), platforms=["gpu"]),
        BackendError,
        "export: platform must be one of cpu, cuda, rocm, tpu, got 'gpu'",
    ),
    (
        lambda: export(effx.jit(enp.sin), platforms=["cpu", "cpu"]),
        BackendError,
        "export: platforms must differ, got ('cpu', 'cpu')",
    ),
    (
        lambda: export(effx.jit(enp.sin), platforms=[]),
        BackendError,
        "export: platforms must name at least one platform",
    ),
    (
        lambda: _run(Struct((B * B,), F32)),
        ShapeError,
        (
            "export: no size gives the value of the dimension variable b; a variable must stand in a size that "
            "is linear in it, such as 2*b + 1, got argument 0.shape[0] = b^2"
        ),
    ),
    (lambda: _two(*symbolic_shape("b, n")), ShapeError, "add: shapes do not fit: ["),
    (
        lambda: _two(B, symbolic_shape("n", constraints=["n >= 2"])[0]),
        ShapeError,
        "add: shapes do not fit: [",
    ),
    (
        lambda: _run(Struct((B,), F32), lambda x: [x for _ in range(x.shape[0])]),
        InconclusiveDimensionOperation,
        (
            "symbolic size: b has no value while tracing; a loop over it is a scan or fori_loop, and an array of "
            "it comes from asarray"
        ),
    ),
    (
        lambda: _run(Struct((B,), F32), lambda x: effx.debug.print("{}", x)),
        BackendError,
        (
            "export: <lambda> calls Python functions, which another process does not have; leave callbacks and "
            "prints out of what is exported"
        ),
    ),
    (lambda: _run(Struct((8, 2), F32), effx.pmap(lambda x: x + 1)), BackendError, "export: "),
    (
        lambda: exported_example().call(X[:, :3], {"w": W}),
        ShapeError,
        "exported function example: argument 0 axis 1 has size 3, which must be 4",
    ),
    (
        lambda: exported_example().call(X.astype(np.int32), {"w": W}),
        ShapeError,
        "exported function example: argument 0 must be f32[b,4], got i32[5,4]",
    ),
    (
        lambda: exported_example().call(X),
        TreeError,
        "exported function example: the arguments must have the structure ",
    ),
    (
        lambda: exported_example(("tpu",)).call(X, {"w": W}),
        BackendError,
        "exported function example: is for tpu, and this program runs on cpu; export it with platforms=[..., 'cpu']",
    ),
    (
        lambda: deserialize(exported_example().serialize()).vjp(),
        TransformError,
        (
            "exported function example: no vjp was exported along; serialize it with vjp_order=1, or a larger "
            "one for higher derivatives"
        ),
    ),
    (
        lambda: exported_example().serialize(-1),
        TransformError,
        "serialize: vjp_order must be an int of at least 0, got -1",
    ),
    (
        lambda: deserialize(b"no artifact at all"),
        BackendError,
        "deserialize: the bytes are no artifact, or damaged: ",
    ),
    (
        lambda: deserialize(exported_example().serialize()[:-200]),
        BackendError,
        "deserialize: the bytes are no artifact, or damaged: ",
    ),
    (lambda: deserialize("text"), BackendError, "deserialize: an artifact is bytes, got 'text' of type str"),  # type: ignore[arg-type]  # the mistake
    (
        lambda: effx.jit(enp.sin).lower(ANY).as_text(),
        BackendError,
        (
            "lower: sin has symbolic sizes (f32[b]), and XLA compiles for known ones; effx.export.export makes "
            "one module for all sizes"
        ),
    ),
    (
        lambda: enp.zeros(B),
        BackendError,
        (
            "zeros: broadcast_in_dim has symbolic sizes (f32[b]), and XLA compiles for known ones; "
            "effx.export.export makes one module for all sizes"
        ),
    ),
]


@pytest.mark.parametrize(("bad", "kind", "text"), ERRORS)
def test_errors(bad: Callable[[], object], kind: type[EffxError], text: str) -> None:
    """Each mistake has its words, and names the argument and the variable."""
    with pytest.raises(kind) as caught:
        bad()
    assert str(caught.value).splitlines()[0].startswith(text)


def test_unregistered_nodes_are_refused() -> None:
    """A class without registered serialization is named, with what to call."""

    class Other(NamedTuple):
        x: Any

    e = export(effx.jit(lambda o: o.x))(Other(Struct((), F32)))
    with pytest.raises(
        TreeError,
        match=r"nodes of Other, and nothing says how to write them; call effx.export.register_namedtuple",
    ):
        e.serialize()


@pytest.mark.parametrize("name", ["QrMine", "Eigh2", "my_kernel"])
def test_foreign_functions_are_refused(name: str) -> None:
    call = effx.ffi.ffi_call(name, Struct((3,), F32))
    with pytest.raises(BackendError, match=f"calls the foreign function {name},"):
        export(effx.jit(lambda x: call(x)))(Struct((3,), F32))


def test_checks_that_are_left_out() -> None:
    """Foreign functions that are none of jaxlib's are refused unless the caller disables the check."""
    call = effx.ffi.ffi_call("my_kernel", Struct((3,), F32))
    with pytest.raises(
        BackendError,
        match=r"calls the foreign function my_kernel.*DisabledSafetyCheck.custom_call\('my_kernel'\)",
    ):
        export(effx.jit(lambda x: call(x)))(Struct((3,), F32))
    e = export(effx.jit(lambda x: call(x)), disabled_checks=[DisabledSafetyCheck.custom_call("my_kernel")])(
        Struct((3,), F32)
    )
    again = deserialize(e.serialize())
    assert [repr(c) for c in again.disabled_safety_checks] == ["DisabledSafetyCheck.custom_call('my_kernel')"]
    assert again.disabled_safety_checks[0].is_custom_call() == "my_kernel"
    e = export(effx.jit(enp.sin), platforms=["tpu"], disabled_checks=[DisabledSafetyCheck.platform()])(
        Struct((3,), F32)
    )
    np.testing.assert_allclose(e.call(np.zeros(3, F32)), 0)


JAX_READS = """
import sys
import numpy as np, jax
from jax import export
d = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
assert [str(a.shape) for a in d.in_avals] == ["(b, 4)", "(4, n)"], d.in_avals
x = np.random.default_rng(0).normal(size=(5, 4)).astype("f")
w = np.random.default_rng(1).normal(size=(4, 3)).astype("f")
np.testing.assert_allclose(d.call(x, {"w": w})["y"], np.sin(x) @ w, rtol=1e-4, atol=1e-5)
g = jax.grad(lambda x: d.call(x, {"w": w})["y"].sum())(x)
np.testing.assert_allclose(g, np.cos(x) * w.sum(1), rtol=1e-4, atol=1e-5)
"""

JAX_WRITES = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax import export
a, b = export.symbolic_shape("a, 2*b")
def f(x, y, *, k):
    rows = jax.lax.scan(lambda c, r: (c + r, c), jnp.zeros(x.shape[1]), x)[1]
    return {"s": x.sum(0) + k, "c": jnp.cumsum(y)}, [rows, x.reshape(-1), y[1:], jnp.sort(x, 0)]
spec = jax.ShapeDtypeStruct
e = export.export(jax.jit(f), platforms=["cuda", "cpu"])(spec((a, b), "f"), spec((a,), "f"), k=spec((), "i"))
open(sys.argv[1], "wb").write(e.serialize(vjp_order=1))
"""


def _jax(code: str, path: Path) -> None:
    pytest.importorskip("jax")
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_jax_runs_what_effx_wrote(tmp_path: Path) -> None:
    """`jax.export` reads the artifact, runs it for the sizes of its arguments, and differentiates it."""
    path = tmp_path / "artifact"
    path.write_bytes(exported_example().serialize(vjp_order=1))
    _jax(JAX_READS, path)


def test_effx_runs_what_jax_wrote(tmp_path: Path) -> None:
    """`effx.export` reads JAX's artifact, checks sizes by it, runs it, and differentiates it."""
    path = tmp_path / "artifact"
    _jax(JAX_WRITES, path)
    e = deserialize(path.read_bytes())
    x, y = np.arange(24, dtype=F32).reshape(3, 8), np.arange(3, dtype=F32)
    named, (rows, flat, rest, ordered) = e.call(x, y, k=np.int32(2))
    np.testing.assert_allclose(named["s"], x.sum(0) + 2)
    np.testing.assert_allclose(named["c"], np.cumsum(y))
    np.testing.assert_allclose(rows, np.cumsum(np.concatenate([np.zeros((1, 8), F32), x[:-1]]), 0))
    np.testing.assert_allclose(flat, x.reshape(-1))
    np.testing.assert_allclose(rest, y[1:])
    np.testing.assert_allclose(ordered, x)
    np.testing.assert_allclose(
        effx.grad(lambda x: e.call(x, y, k=np.int32(2))[0]["s"].sum())(x), np.ones((3, 8))
    )
    with pytest.raises(
        ShapeError,
        match=r"argument 0 axis 1 has size 7, which must be 2\*b with a = 3: 7 is not divisible by 2",
    ):
        e.call(x[:, :7], y, k=np.int32(2))


KERNELS: dict[str, Callable[[Any], Any]] = {
    "qr": lambda a: enp.linalg.qr(a)[1],
    "eigh": lambda a: enp.linalg.eigh(a)[1],
    "svd": lambda a: enp.linalg.svd(a)[0],
    "solve": lambda a: enp.linalg.solve(a, a),
    "eig": lambda a: enp.linalg.eig(a)[0],
    "expm": effx.scipy.linalg.expm,
    "pivoted qr": lambda a: effx.scipy.linalg.qr(a, pivoting=True),
    "tridiagonal solve": lambda a: lax.linalg.tridiagonal_solve(a[0], a[1], a[2], a),
    "top_k": lambda a: lax.top_k(a, 2),
    "approximate top_k": lambda a: lax.approx_max_k(a, 2),
    "wide keys": lambda a: effx.random.randint(
        effx.random.wrap_key_data(a[0].astype(np.uint32), impl="rbg"), (3,), 0, 9
    ),
    "host memory": lambda a: effx.device_put(a, effx.memory.Space.Host) * 1,
}


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm", "tpu"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_all_platforms(name: str, platform: str) -> None:
    """What XLA and jaxlib's plugins bring is exported without a word."""
    e = export(effx.jit(KERNELS[name]), platforms=[platform])(Struct((4, 4), F32))
    assert e.platforms == (platform,)
    assert deserialize(e.serialize()).mlir_module() == e.mlir_module()
