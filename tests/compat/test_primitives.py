"""Primitives that a library defines: each handler uses the library's rules, and a missing one is an error."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.compat.modules.interpreters import ad, batching, mlir, xla
from effx.compat.primitives import Primitive
from effx.library.intervals import Interval, bounds

RNG = np.random.default_rng(0)
OFFSET = np.array([0.5, -1.5, 2.0], np.float32)


def vector(n: int = 3) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    return RNG.standard_normal(n).astype(np.float32)


# x * y * k + z + OFFSET, with every rule

multiply_add_p = Primitive("multiply_add")


def _multiply_add(x: Any, y: Any, z: Any, *, k: Any) -> Any:
    return x * y * k + z + enp.asarray(OFFSET[: x.size].reshape(x.shape))


def _multiply_add_jvp(primals: Any, tangents: Any, *, k: Any) -> Any:
    x, y, z = primals
    dx, dy, dz = tangents
    parts = [None if type(dx) is ad.Zero else dx * y * k, None if type(dy) is ad.Zero else x * dy * k]
    parts += [None if type(dz) is ad.Zero else dz]
    found = [p for p in parts if p is not None]
    return multiply_add_p.bind(x, y, z, k=k), sum(found[1:], found[0])


def _multiply_add_batch(values: Any, axes: Any, *, k: Any) -> Any:
    size = next(x.shape[a] for x, a in zip(values, axes, strict=True) if a is not batching.not_mapped)
    given = [batching.bdim_at_front(x, a, size) for x, a in zip(values, axes, strict=True)]
    return effx.vmap(lambda *each: _multiply_add(*each, k=k))(*given), 0


multiply_add_p.def_impl(_multiply_add)
multiply_add_p.def_abstract_eval(lambda x, y, z, *, k: effx.ShapeDtypeStruct(x.shape, x.dtype))
ad.primitive_jvps[multiply_add_p] = _multiply_add_jvp
batching.primitive_batchers[multiply_add_p] = _multiply_add_batch
mlir.register_lowering(multiply_add_p, mlir.lower_fun(_multiply_add, multiple_results=False))


def multiply_add(x: Any, y: Any, z: Any) -> Any:
    return multiply_add_p.bind(x, y, z, k=2.0)


def expected(x: Any, y: Any, z: Any) -> Any:
    return x * y * 2 + z + OFFSET[: np.size(x)].reshape(np.shape(x))


# Sine and cosine: two results, a parameter that cannot be hashed, and a rule that asks for the batch's size

sincos_p = Primitive("sincos")
sincos_p.multiple_results = True
sizes: list[tuple[int, object]] = []


def _sincos(x: Any, *, scale: Any) -> Any:
    return [enp.sin(x * scale[0]), enp.cos(x * scale[0])]


def _sincos_jvp(primals: Any, tangents: Any, *, scale: Any) -> Any:
    s, c = sincos_p.bind(*primals, scale=scale)
    (dx,) = tangents
    return [s, c], [c * dx * scale[0], -s * dx * scale[0]]


def _sincos_batch(size: Any, name: Any, trace: Any, values: Any, axes: Any, *, scale: Any) -> Any:
    sizes.append((size, name))
    assert trace is None
    return sincos_p.bind(*values, scale=scale), [axes[0], axes[0]]


sincos_p.def_impl(_sincos)
sincos_p.def_abstract_eval(lambda x, *, scale: [x, x])
ad.primitive_jvps[sincos_p] = _sincos_jvp
batching.axis_primitive_batchers[sincos_p] = _sincos_batch
mlir.register_lowering(sincos_p, mlir.lower_fun(_sincos))


def sincos(x: Any) -> Any:
    return sincos_p.bind(x, scale=[2.0])


# Three times x: linear, and its transpose is only known by its rule, which counts

triple_p = Primitive("triple")
transposed: list[Any] = []


def _triple_transpose(ct: Any, x: Any) -> Any:
    transposed.append(x)
    return [3 * ct]


triple_p.def_impl(lambda x: 3 * x)
triple_p.def_abstract_eval(lambda x: x)
ad.deflinear2(triple_p, _triple_transpose)
batching.defvectorized(triple_p)
mlir.register_lowering(triple_p, mlir.lower_fun(lambda x: 3 * x, multiple_results=False))


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


WAYS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda f: f,
    "jit": effx.jit,
    "jit of jit": lambda f: effx.jit(effx.jit(f)),
    "cond": lambda f: lambda *xs: effx.lax.cond(True, f, lambda *_: xs[0], *xs),
    "scan": lambda f: lambda *xs: effx.lax.scan(lambda c, _: (f(*xs), None), xs[0], length=2)[0],
    "while": lambda f: lambda *xs: effx.lax.fori_loop(0, 2, lambda _, c: f(*xs), xs[0]),
    "checkpoint": effx.checkpoint,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3,)])
def test_values(way: str, shape: tuple[int, ...]) -> None:
    x, y, z = [vector(3)[: int(np.prod(shape))].reshape(shape) for _ in range(3)]
    close(WAYS[way](multiply_add)(*map(enp.asarray, (x, y, z))), expected(x, y, z))


@pytest.mark.parametrize("way", WAYS)
def test_gradients(way: str) -> None:
    x, y, z = vector(), vector(), vector()
    f = WAYS[way](multiply_add)
    for around in (lambda g: g, effx.jit):
        dx, dy, dz = around(effx.grad(lambda *xs: (f(*xs) * OFFSET).sum(), (0, 1, 2)))(x, y, z)
        close(dx, 2 * y * OFFSET)
        close(dy, 2 * x * OFFSET)
        close(dz, OFFSET)
    value, tangent = effx.jvp(lambda y: f(*map(enp.asarray, (x, y, z))), (enp.asarray(y),), (enp.asarray(z),))
    close(value, expected(x, y, z))
    close(tangent, 2 * x * z)


@pytest.mark.parametrize("way", WAYS)
def test_batches(way: str) -> None:
    x, y, z = RNG.standard_normal((3, 4, 3)).astype(np.float32)
    wanted = np.stack([expected(*each) for each in zip(x, y, z, strict=True)])
    close(effx.vmap(WAYS[way](multiply_add))(x, y, z), wanted)
    close(effx.vmap(WAYS[way](multiply_add), (1, None, 0), 1)(x.T, y[0], z), (x * y[0] * 2 + z + OFFSET).T)
    hessians = effx.vmap(effx.hessian(lambda v: (multiply_add(v, v, v) ** 2).sum()))(x)
    assert hessians.shape == (4, 3, 3)
    u, du = 2 * x**2 + x + OFFSET, 4 * x + 1
    close(hessians, np.stack([np.diag(2 * (a * a + b * 4)) for a, b in zip(du, u, strict=True)]))


def test_two_results() -> None:
    x = vector()
    for way in (lambda f: f, effx.jit):
        s, c = way(sincos)(x)
        close(s, np.sin(2 * x))
        close(c, np.cos(2 * x))
        close(way(effx.grad(lambda x: sincos(x)[0].sum()))(x), 2 * np.cos(2 * x))
        close(way(effx.grad(effx.grad(lambda x: sincos(x)[0])))(x[0]), -4 * np.sin(2 * x[0]))
    assert isinstance(sincos(x), list)


def test_a_rule_that_asks_for_the_batch() -> None:
    sizes.clear()
    s, _ = effx.vmap(effx.vmap(sincos, axis_name="i"), in_axes=1)(
        RNG.standard_normal((2, 5)).astype(np.float32)
    )
    assert s.shape == (5, 2)
    assert sizes == [(2, "i"), (5, None)]


def test_linear() -> None:
    transposed.clear()
    x = vector()
    close(effx.grad(lambda x: (triple_p.bind(x) * OFFSET).sum())(x), 3 * OFFSET)
    assert [type(x) for x in transposed] == [ad.UndefinedPrimal]
    assert repr(transposed[0].aval) == "f32[3]"
    assert all(map(ad.is_undefined_primal, transposed))
    close(effx.linear_transpose(triple_p.bind, x)(OFFSET)[0], 3 * OFFSET)
    close(effx.jit(effx.vmap(effx.grad(lambda x: triple_p.bind(x) ** 2)))(x), 18 * x)


def test_bilinear_and_by_operand() -> None:
    product_p, power_p = Primitive("product"), Primitive("power")
    for p, f in ((product_p, lambda x, y: x * y), (power_p, lambda x, y: x**y)):
        p.def_impl(f)
        p.def_abstract_eval(lambda x, y: x)
        batching.defbroadcasting(p)
        mlir.register_lowering(p, mlir.lower_fun(f, multiple_results=False))
    ad.defbilinear(product_p, lambda ct, x, y: product_p.bind(ct, y), lambda ct, x, y: product_p.bind(x, ct))
    ad.defjvp2(power_p, lambda g, z, x, y: g * y * z / x, None)
    x, y = np.abs(vector()) + 1, vector()
    for way in (lambda f: f, effx.jit):
        dx, dy = way(effx.grad(lambda x, y: product_p.bind(x, y).sum(), (0, 1)))(x, y)
        close(dx, y)
        close(dy, x)
        dx, dy = way(effx.grad(lambda x, y: power_p.bind(x, y).sum(), (0, 1)))(x, y)
        np.testing.assert_allclose(dx, y * x ** (y - 1), rtol=1e-5)
        close(dy, np.zeros(3))
    close(effx.vmap(product_p.bind, (0, None))(np.stack([x, y]), y), np.stack([x * y, y * y]))
    close(effx.vmap(product_p.bind, (1, 0))(np.stack([x, y], 1), np.stack([x, y])), np.stack([x * x, y * y]))


def test_symbolic_zeros_come_and_go() -> None:
    seen: list[Any] = []
    p = Primitive("first")
    p.def_impl(lambda x, n: x)
    p.def_abstract_eval(lambda x, n: x)

    def rule(primals: Any, tangents: Any) -> Any:
        seen.extend(tangents)
        return primals[0], ad.Zero.from_primal_value(primals[0])

    ad.primitive_jvps[p] = rule
    close(effx.grad(lambda x: p.bind(x, 3))(1.5), 0)
    assert type(seen[0]) is not ad.Zero
    assert isinstance(seen[1], ad.Zero)
    assert str(seen[1].aval.dtype) == "[('float0', 'V')]"
    close(ad.instantiate_zeros(ad.Zero(effx.typeof(np.ones(2, np.float32)))), np.zeros(2))
    assert effx.tree_util.tree_leaves((ad.Zero(effx.typeof(1.0)), ad.UndefinedPrimal(effx.typeof(1.0)))) == []


def test_what_a_program_shows() -> None:
    x = vector()
    text = str(effx.make_jaxpr(multiply_add)(x, x, x))
    assert text.splitlines()[1] == "  d: f32[3] = multiply_add[primitive=multiply_add params={k=2.0}] a b c"


def test_parameters_are_part_of_an_operation() -> None:
    """Equal parameters share what is compiled; 1, 1.0 and True do not, nor what cannot be hashed."""
    from effx.compat.bound import Bound, Parameters

    def op(**params: object) -> Bound:
        return Bound(triple_p, Parameters(params))

    assert op(k=1) == op(k=1)
    assert hash(op(k=1, j="a")) == hash(op(j="a", k=1))
    assert len({op(k=1), op(k=1.0), op(k=True)}) == 3
    assert op(k=[1]) != op(k=[1])
    assert op(k=0.0) != op(k=-0.0)


def test_known_values_as_they_are_lowered() -> None:
    p = Primitive("sixfold")
    p.def_impl(partial(xla.apply_primitive, p))
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: 6 * x, multiple_results=False))
    close(p.bind(vector(1)[0] * 0 + 2), 12)


def test_functions_of_python_are_checkpointed() -> None:
    """What has no lowering cannot be compiled; checkpointed code runs such primitives one by one, and again backwards."""
    seen: list[str] = []
    p, q = Primitive("seen"), Primitive("seen_back")

    def noted(name: str, x: Any) -> Any:
        seen.append(name)
        return x

    for prim in p, q:
        prim.def_impl(partial(noted, prim.name))
        prim.def_abstract_eval(lambda x: x)
    ad.deflinear(p, lambda ct: [q.bind(ct)])
    ad.deflinear(q, lambda ct: [p.bind(ct)])

    def f(x: Any) -> Any:
        return enp.sin(p.bind(x * x))

    kept = effx.checkpoint(f)
    np.testing.assert_allclose(kept(3.0), np.sin(9), rtol=1e-6)
    assert seen == ["seen"]
    np.testing.assert_allclose(effx.grad(kept)(3.0), effx.grad(f)(3.0), rtol=1e-6)
    assert seen[1:].count("seen_back") == 2
    np.testing.assert_allclose(effx.grad(effx.grad(kept))(3.0), effx.grad(effx.grad(f))(3.0), rtol=1e-6)
    np.testing.assert_allclose(effx.grad(effx.checkpoint(kept))(3.0), effx.grad(f)(3.0), rtol=1e-6)
    with pytest.raises(effx.errors.NoRuleError) as caught:
        effx.jit(kept)(3.0)
    assert caught.value.message == (
        "seen: the primitive has no lowering rule; give it one with "
        "jax.interpreters.mlir.register_lowering(p, jax.interpreters.mlir.lower_fun(function))"
    )


def test_lowering_by_platform() -> None:
    p = Primitive("platform")
    p.def_abstract_eval(lambda x: x)
    for platform, k in ((None, 1), ("cpu", 2), ("gpu", 3)):
        mlir.register_lowering(p, mlir.lower_fun(lambda x, k=k: x * k, multiple_results=False), platform)
    x = vector()
    close(effx.jit(p.bind)(x), (2 if effx.default_backend() == "cpu" else 3) * x)


def test_a_rule_of_lowering_that_calls_python() -> None:
    p = Primitive("on_host")
    p.def_abstract_eval(lambda x: x)

    def rule(ctx: Any, x: Any) -> Any:
        assert ctx.avals_in == ctx.avals_out == (effx.typeof(np.ones(3, np.float32)),)
        found, _, keep = mlir.emit_python_callback(
            ctx, lambda x: (np.sort(x),), None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False
        )
        ctx.module_context.add_keepalive(keep)
        return found

    mlir.register_lowering(p, rule)
    x = vector()
    close(effx.jit(p.bind)(x), np.sort(x))


def bare() -> Primitive:
    p = Primitive("bare")
    p.def_abstract_eval(lambda x: x)
    return p


def wrong_lowering() -> Primitive:
    p = bare()
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x[:1], multiple_results=False))
    return p


def with_mlir() -> Primitive:
    p = bare()
    mlir.register_lowering(p, lambda ctx, x: x.owner)
    return p


def with_jvp(rule: Callable[..., object]) -> Primitive:
    p = bare()
    p.def_impl(lambda x: x)
    ad.primitive_jvps[p] = rule
    return p


def without_transpose() -> Primitive:
    p = with_jvp(lambda x, dx: (p.bind(*x), p.bind(*dx)))
    return p


def with_batcher(rule: Callable[..., object]) -> Primitive:
    p = bare()
    batching.primitive_batchers[p] = rule
    return p


def effectful() -> Primitive:
    p = Primitive("bare")
    p.def_effectful_abstract_eval(lambda x: (x, {"io"}))
    return p


X: Any = np.ones(3, np.float32)

REFUSED: dict[str, tuple[Callable[[], Primitive], Callable[[Primitive], object], str]] = {
    "no impl": (
        bare,
        lambda p: p.bind(X),
        "bare: the primitive has no function for known values; give it one with def_impl",
    ),
    "no abstract evaluation": (
        lambda: Primitive("bare"),
        lambda p: effx.jit(p.bind)(X),
        "bare: the primitive has no rule for abstract evaluation; give it one with def_abstract_eval",
    ),
    "no lowering": (
        bare,
        lambda p: effx.jit(p.bind)(X),
        (
            "bare: the primitive has no lowering rule; give it one with jax.interpreters.mlir.register_lowering(p, "
            "jax.interpreters.mlir.lower_fun(function))"
        ),
    ),
    "a wrong lowering": (
        wrong_lowering,
        lambda p: effx.jit(p.bind)(X),
        "bare: the lowering rule of this primitive gives (f32[1]), but that for abstract evaluation says (f32[3])",
    ),
    "MLIR": (
        with_mlir,
        lambda p: effx.jit(p.bind)(X),
        (
            "bare: the lowering rule of this primitive fails with AttributeError: 'Box' object has no attribute 'owner'. "
            "effx gives rules its own arrays, and those that build MLIR cannot be used; make the rule of a function, with "
            "jax.interpreters.mlir.lower_fun"
        ),
    ),
    "no derivative": (
        bare,
        lambda p: effx.jvp(p.bind, (X,), (X,)),
        "bare: the primitive has no rule for differentiation; write one into jax.interpreters.ad.primitive_jvps",
    ),
    "no transpose": (
        without_transpose,
        lambda p: effx.grad(lambda x: p.bind(x).sum())(X),
        "bare: the primitive has no rule for transposition; write one into jax.interpreters.ad.primitive_transposes",
    ),
    "no batching": (
        bare,
        lambda p: effx.vmap(p.bind)(X),
        "bare: the primitive has no rule for batching; write one into jax.interpreters.batching.primitive_batchers",
    ),
    "a jvp rule without a tangent": (
        lambda: with_jvp(lambda x, dx: x[0]),
        lambda p: effx.jvp(p.bind, (X,), (X,)),
        "bare: the jvp rule of this primitive must give a pair (result, tangent)",
    ),
    "a tangent of another type": (
        lambda: with_jvp(lambda x, dx: (x[0], dx[0][:1])),
        lambda p: effx.jvp(p.bind, (X,), (X,)),
        "bare: the jvp rule of this primitive gives a tangent f32[1] for a result f32[3]",
    ),
    "a batch without an axis": (
        lambda: with_batcher(lambda x, axes: x[0]),
        lambda p: effx.vmap(p.bind)(X),
        "bare: the batching rule of this primitive must give a pair (result, axis)",
    ),
    "an axis that is none": (
        lambda: with_batcher(lambda x, axes: (x[0], 1)),
        lambda p: effx.vmap(p.bind)(X),
        "bare: the batching rule of this primitive must give an axis of its result f32[3], or None, got 1",
    ),
    "effects": (
        effectful,
        lambda p: effx.jit(p.bind)(X),
        (
            "bare: the rule for abstract evaluation gives the effects {'io'}; effx has effects by the class of an "
            "operation, so write one (effx.Operation, effx.Label)"
        ),
    ),
    "a platform": (
        bare,
        lambda p: mlir.register_lowering(p, lambda ctx, x: x, "abacus"),
        "register_lowering: platform must be one of cpu, cuda, rocm, tpu, gpu, got 'abacus'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    make, use, text = REFUSED[case]
    with pytest.raises(effx.errors.EffxError) as caught:
        use(make())
    assert str(caught.value).partition("\n")[0] == text


class Celsius:
    """A library's own number."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees


def test_values_of_a_class_that_a_library_knows() -> None:
    with pytest.raises(effx.errors.DTypeError, match="expected an array"):
        enp.add(Celsius(3.0), 1.0)  # type: ignore[arg-type]  # not an array
    xla.canonicalize_dtype_handlers[Celsius] = lambda x: np.float32(x.degrees)
    xla.pytype_aval_mappings[Celsius] = lambda x: effx.typeof(np.float32(0))
    try:
        close(triple_p.bind(Celsius(3.0)), 9)
        close(effx.jit(lambda x: x + 1)(Celsius(3.0)), 4)
        assert repr(effx.typeof(Celsius(3.0))) == "f32[]"
        assert list(xla.pytype_aval_mappings) == [Celsius]
    finally:
        del xla.canonicalize_dtype_handlers[Celsius], xla.pytype_aval_mappings[Celsius]
    assert Celsius not in xla.canonicalize_dtype_handlers
    close(xla.canonicalize_dtype_handlers[np.ndarray](OFFSET), OFFSET)
    assert repr(xla.pytype_aval_mappings[np.ndarray](OFFSET)) == "f32[3]"


def test_handlers_without_a_form_for_libraries_rules() -> None:
    """They see what the primitive is made of: here bounds of intervals."""
    found = bounds(triple_p.bind, Interval(enp.asarray(X), enp.asarray(2 * X)))
    close(found.low, 3 * X)
    close(found.high, 6 * X)


def test_explicit_axes_of_meshes() -> None:
    """The rule for abstract evaluation has the shardings of results, and results are resharded so."""
    mesh = effx.make_mesh((1,), ("i",), axis_types=(effx.sharding.AxisType.Explicit,))
    cut = effx.device_put(X, effx.sharding.NamedSharding(mesh, effx.sharding.PartitionSpec("i")))
    assert repr(effx.jit(triple_p.bind)(cut).type) == "f32[3@i]"
    whole = Primitive("whole")
    whole.def_abstract_eval(lambda x: effx.ShapeDtypeStruct(x.shape, x.dtype))
    mlir.register_lowering(whole, mlir.lower_fun(lambda x: x * 2, multiple_results=False))
    found = effx.jit(whole.bind)(cut)
    assert repr(found.type) == "f32[3]"
    close(found, 2 * X)
