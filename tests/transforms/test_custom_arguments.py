"""What functions with rules may take and give: trees, None, integers, keywords, nondiff arguments, closures.

Never: checks an error's text; test_custom_errors does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import custom_jvp, custom_vjp, dtypes, grad, jit, jvp, lax, vmap
from effx.custom_derivatives import CustomVJPPrimal, SymbolicZero, custom_vjp_primal_tree_values
from effx.errors import TransformError

XS = np.array([1.0, 2.0, 3.0], np.float32)


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5)


@attrs.frozen
class Pair:
    first: Any
    second: Any


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_trees_and_none(wrap: Any) -> None:
    """Arguments, residuals and results are trees; None is a tree without leaves, and a zero cotangent."""
    f = custom_vjp(lambda d, p: {"y": d["a"] * p.first, "z": None, "w": (p.second, d["b"])})

    def bwd(res: Any, ct: Any) -> Any:
        assert ct["z"] is None
        return {"a": 10.0 * ct["y"], "b": None, "none": None}, Pair(None, 2.0 * ct["w"][0])

    f.defvjp(lambda d, p: (f(d, p), {"all": (d, p), "none": None}), bwd)

    def loss(d: Any, p: Any) -> Any:
        out = f(d, p)
        return out["y"] + enp.sum(out["w"][0]) * 3.0 + enp.sum(out["w"][1])

    d = {"a": 2.0, "b": enp.ones(2), "none": None}
    got_d, got_p = grad(wrap(loss), (0, 1))(d, Pair(5.0, enp.ones(3)))
    close(got_d["a"], 10.0)
    close(got_d["b"], [0.0, 0.0])
    assert got_d["none"] is None
    close(got_p.first, 0.0)
    close(got_p.second, [6.0, 6.0, 6.0])


def test_none_stands_for_a_whole_argument() -> None:
    """A cotangent None is the zeros of all leaves of an argument."""
    f = custom_vjp(lambda x, tree: x * tree["a"][0])
    f.defvjp(lambda x, tree: (f(x, tree), None), lambda _, ct: (ct, None))
    dx, dt = grad(f, (0, 1))(2.0, {"a": (3.0, enp.ones(2))})
    close(dx, 1.0)
    close(dt["a"][0], 0.0)
    close(dt["a"][1], [0.0, 0.0])


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_keywords_and_defaults_become_positional(wrap: Any) -> None:
    """Rules get every argument by position."""

    @custom_jvp
    def f(x: Any, y: Any = 3.0, z: Any = 1.0) -> Any:
        return x * y * z

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        x, y, z = primals
        return f(x, y, z), 10.0 * y * z * tangents[0]

    close(wrap(lambda x: f(x))(2.0), 6.0)
    close(grad(wrap(lambda x: f(x)))(2.0), 30.0)
    close(grad(wrap(lambda x: f(x, z=5.0)))(2.0), 150.0)
    close(grad(wrap(lambda x: f(z=5.0, y=2.0, x=x)))(2.0), 100.0)


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_integers(wrap: Any) -> None:
    """Integers have float0 tangents and None cotangents, as arguments and as results."""
    seen: list[Any] = []
    f = custom_jvp(lambda x, n: (x * n, n))

    def f_jvp(primals: Any, tangents: Any) -> Any:
        seen.append(tangents[1])
        return f(*primals), (10.0 * tangents[0], np.zeros((), dtypes.float0))

    f.defjvp(f_jvp)
    (y, n), (dy, dn) = jvp(wrap(lambda x: f(x, 3)), (2.0,), (1.0,))
    assert (float(y), int(n), float(dy), dn.dtype) == (6.0, 3, 10.0, dtypes.float0)
    assert all(t.dtype == dtypes.float0 for t in seen)

    g = custom_vjp(lambda x, n: (x * n, n))
    cts: list[Any] = []

    def bwd(n: Any, ct: Any) -> Any:
        cts.append(ct[1])
        return ct[0] * 10.0, None

    g.defvjp(lambda x, n: (g(x, n), n), bwd)
    close(grad(wrap(lambda x: g(x, 3)[0]))(2.0), 10.0)
    got = grad(wrap(lambda x, n: g(x, n)[0]), (0, 1), allow_int=True)(2.0, 3)
    assert got[1].dtype == dtypes.float0
    assert all(ct.dtype == dtypes.float0 for ct in cts)


def test_nondiff_arguments_may_be_anything() -> None:
    """Functions and strings pass by; rules get them first, fwd as the function does."""

    @partial(custom_jvp, nondiff_argnums=(0, 2))
    def app(fun: Any, x: Any, mode: str) -> Any:
        return fun(x) if mode == "plain" else -fun(x)

    @app.defjvp
    def app_jvp(fun: Any, mode: str, primals: Any, tangents: Any) -> Any:
        assert mode == "other"
        return app(fun, primals[0], mode), 3.0 * tangents[0]

    for wrap in (lambda f: f, jit):
        close(grad(wrap(lambda x: app(enp.sin, x, "other")))(1.0), 3.0)
    close(app(enp.sin, 1.0, "plain"), np.sin(1.0))

    @partial(custom_vjp, nondiff_argnames="mode")
    def g(x: Any, mode: str = "a", scale: Any = 2.0) -> Any:
        return x * scale

    def bwd(mode: str, scale: Any, ct: Any) -> Any:
        assert mode == "b"
        return 7.0 * ct, None

    g.defvjp(lambda x, mode, scale: (g(x, mode, scale), scale), bwd)
    assert g.nondiff_argnums == (1,)
    for wrap in (lambda f: f, jit):
        close(grad(wrap(lambda x: g(x, mode="b")))(1.0), 7.0)


def make(kind: str) -> Any:
    """x * n, with a hundred times the derivative by x, and n a nondiff argument."""
    if kind == "jvp":
        f: Any = custom_jvp(lambda n, x: x * n, nondiff_argnums=(0,))
        f.defjvp(lambda n, p, t: (f(n, *p), 100.0 * n * t[0]))
        return f
    f = custom_vjp(lambda n, x: x * n, nondiff_argnums=(0,))
    f.defvjp(lambda n, x: (f(n, x), None), lambda n, _, ct: (100.0 * n * ct,))
    return f


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_nondiff_arguments_may_be_boxes(kind: str) -> None:
    """A nondiff argument may belong to jit, vmap, or a scan around; rules see what it is where they run."""
    f = make(kind)
    close(grad(jit(f), 1)(3, 1.0), 300.0)
    close(jit(grad(f, 1))(3, 1.0), 300.0)
    close(vmap(grad(f, 1), (0, None))(XS, 1.0), 100.0 * XS)
    close(vmap(grad(jit(f), 1), (0, None))(XS, 1.0), 100.0 * XS)
    close(grad(lambda x: vmap(f, (0, None))(XS, x).sum())(1.0), 600.0)
    close(grad(lambda x: jit(vmap(f, (0, None)))(XS, x).sum())(1.0), 600.0)
    close(grad(lambda x: lax.scan(lambda c, n: (f(n, c), None), x, XS)[0])(1.0), 6e6)
    close(grad(lambda n: f(n, 1.0))(3.0), 1.0)  # no rule asked for: nothing but n is differentiated by


def closing(kind: str) -> Any:
    """A function of y that gives one with rules, which closes over y."""

    def outer(y: Any) -> Any:
        if kind == "jvp":
            f: Any = custom_jvp(lambda x: x * y)
            f.defjvp(lambda p, t: (f(*p), 100.0 * y * t[0]))
            return f
        f = custom_vjp(lambda x: x * y)
        f.defvjp(lambda x: (f(x), y), lambda res, ct: (100.0 * (y + res) / 2.0 * ct,))
        return f

    return outer


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("inner", [lambda f: f, jit])
@pytest.mark.parametrize("outer", [lambda f: f, jit])
def test_closures_over_boxes(kind: str, inner: Any, outer: Any) -> None:
    """Functions and rules close over values of transformations that may have ended when the rule runs."""
    make = closing(kind)

    def f(y: Any, x: Any) -> Any:
        return inner(make(y))(x)

    close(grad(outer(f), 1)(2.0, 3.0), 200.0)
    close(outer(grad(f, 1))(2.0, 3.0), 200.0)
    close(vmap(outer(grad(f, 1)), (0, None))(XS, 3.0), 100.0 * XS)
    close(vmap(grad(outer(f), 1), (0, None))(XS, 3.0), 100.0 * XS)
    close(grad(lambda x: outer(vmap(lambda y: f(y, x)))(XS).sum())(3.0), 600.0)
    close(grad(lambda x: lax.scan(lambda c, y: (f(y, c), None), x, XS)[0])(3.0), 6e6)
    close(grad(outer(f), 0)(2.0, 3.0), 3.0)  # by the closed-over value alone: the function's own derivative


def test_a_closure_that_a_rule_returns() -> None:
    """A rule may give back what it closes over."""

    def f(y: Any, x: Any) -> Any:
        g: Any = custom_jvp(lambda x: x * y)
        g.defjvp(lambda p, t: (y, y))
        return jit(g)(x)

    got = jit(lambda y: jvp(lambda x: f(y, x), (3.0,), (1.0,)))(4.0)
    assert [float(v) for v in got] == [4.0, 4.0]


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_symbolic_zeros_forward(wrap: Any) -> None:
    """A rule that asks for them sees which tangents are zero."""
    seen: list[Any] = []
    f = custom_jvp(lambda x, y, n: x * enp.sum(y))

    def f_jvp(primals: Any, tangents: Any) -> Any:
        seen[:] = tangents
        return f(*primals), tangents[0]

    f.defjvp(f_jvp, symbolic_zeros=True)
    close(jvp(wrap(lambda x: f(x, enp.ones(3), 2)), (1.0,), (1.0,))[1], 1.0)
    assert not isinstance(seen[0], SymbolicZero)
    assert isinstance(seen[1], SymbolicZero)
    assert (seen[1].shape, seen[1].dtype, seen[1].ndim, seen[1].size) == ((3,), np.dtype("float32"), 1, 3)
    assert isinstance(seen[2], SymbolicZero)
    assert seen[2].dtype == dtypes.float0
    assert [repr(z) for z in seen[1:]] == ["SymbolicZero(float32[3])", "SymbolicZero(float0[])"]


@pytest.mark.parametrize("wrap", [lambda f: f, jit, lambda f: lambda x: vmap(f)(enp.ones(2) * x).sum() / 2])
def test_symbolic_zeros_reverse(wrap: Any) -> None:
    """fwd sees what is differentiated by, bwd which cotangents are zero; it may give such zeros back."""
    seen: dict[str, Any] = {}
    f = custom_vjp(lambda x, y: (x * y, x + y))

    def fwd(x: Any, y: Any) -> Any:
        assert isinstance(x, CustomVJPPrimal)
        seen.update(x=x.perturbed, y=y.perturbed)
        return f(x.value, y.value), y.value

    def bwd(y: Any, ct: Any) -> Any:
        seen.update(ct=ct)
        return 10.0 * y * ct[0], SymbolicZero(effx.typeof(np.float32(0)))

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    close(grad(wrap(lambda x: f(x, 2.0)[0]))(1.0), 20.0)
    assert (seen["x"], seen["y"]) == (True, False)
    assert isinstance(seen["ct"][1], SymbolicZero)
    assert not isinstance(seen["ct"][0], SymbolicZero)


def test_values_of_symbolic_arguments() -> None:
    """A `fwd` with `symbolic_zeros` can pass on the values of its arguments."""
    f = custom_vjp(lambda xs, n: xs["a"] * xs["b"] * n)

    def fwd(*args: Any) -> Any:
        xs, n = custom_vjp_primal_tree_values(args)
        return f(xs, n), (xs, n)

    def bwd(kept: Any, ct: Any) -> Any:
        (xs, n), ten = kept, 10.0
        return {"a": ten * xs["b"] * n * ct, "b": ten * xs["a"] * n * ct}, None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    found = jit(grad(f))({"a": 2.0, "b": 3.0}, 4)
    assert {k: float(v) for k, v in found.items()} == {"a": 120.0, "b": 80.0}
    with pytest.raises(TransformError) as error:
        custom_vjp_primal_tree_values((1.0,))
    assert error.value.message == (
        "custom_vjp_primal_tree_values: leaves must be of type CustomVJPPrimal, got 1.0 of type float"
    )


def test_the_rule_of_custom_jvp_is_shown() -> None:
    """And whether it is told of zeros."""
    f = custom_jvp(lambda x: x)
    assert (f.jvp, f.symbolic_zeros) == (None, False)

    def rule(primals: Any, tangents: Any) -> Any:
        return primals[0], tangents[0]

    f.defjvp(rule, symbolic_zeros=True)
    assert (f.jvp, f.symbolic_zeros) == (rule, True)
    f.defjvp(rule)
    assert (f.jvp, f.symbolic_zeros) == (rule, False)
    f.defjvps(lambda dx, y, x: 3.0 * dx)
    assert f.jvp is not None
    close(f.jvp((1.0,), (2.0,))[1], 6.0)


def test_defjvps() -> None:
    """One rule for each argument; None for one that does not matter. Zero tangents call no rule."""
    calls: list[str] = []
    f = custom_jvp(lambda x, y, n: enp.sin(x) * y)

    def by_x(dx: Any, out: Any, x: Any, y: Any, n: Any) -> Any:
        calls.append("x")
        return enp.cos(x) * dx * y

    def by_y(dy: Any, out: Any, x: Any, y: Any, n: Any) -> Any:
        calls.append("y")
        return enp.sin(x) * dy

    f.defjvps(by_x, by_y, None)
    dx, dy = grad(f, (0, 1))(1.0, 2.0, 5)
    close(dx, 2.0 * np.cos(1.0))
    close(dy, np.sin(1.0))
    calls.clear()
    close(grad(f)(1.0, 2.0, 5), 2.0 * np.cos(1.0))
    assert calls == ["x"]
    g = custom_jvp(lambda x, y: x * 1.0)
    g.defjvps(None, None)
    close(grad(g)(1.0, 1.0), 0.0)


def test_python_control_flow_in_function_and_rule() -> None:
    """Under eager differentiation, rules see concrete values."""

    @custom_jvp
    def f(x: Any) -> Any:
        return enp.sin(x) if x > 0 else enp.cos(x)

    @f.defjvp
    def f_jvp(primals: Any, tangents: Any) -> Any:
        return f(*primals), (2.0 if primals[0] > 0 else 3.0) * tangents[0]

    assert [float(grad(f)(x)) for x in (1.0, -1.0)] == [2.0, 3.0]
    close(f(-1.0), np.cos(1.0))

    g = custom_vjp(lambda x: x if x > 0 else 2.0 * x)
    g.defvjp(
        lambda x: (g(x), "up" if x > 0 else "down"), lambda way, ct: (ct * (5.0 if way == "up" else 6.0),)
    )
    assert [float(grad(g)(x)) for x in (1.0, -1.0)] == [5.0, 6.0]


def test_methods() -> None:
    """As a decorator of a method, the object is a nondiff argument."""

    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @partial(custom_jvp, nondiff_argnums=(0,))
        def apply(self, x: Any) -> Any:
            return x * self.factor

        @apply.defjvp
        def apply_jvp(self, primals: Any, tangents: Any) -> Any:
            return self.apply(*primals), 10.0 * self.factor * tangents[0]

    assert (float(Scale(3.0).apply(2.0)), float(grad(jit(Scale(3.0).apply))(2.0))) == (6.0, 30.0)


def test_looks_like_the_function() -> None:
    """Name, docstring and `__wrapped__` are the function's."""

    @custom_vjp
    def f(x: Any) -> Any:
        """Doc."""
        return x

    assert (f.__name__, f.__doc__, f.__wrapped__(3.0)) == ("f", "Doc.", 3.0)  # type: ignore[attr-defined]  # set by functools


def test_complex_numbers() -> None:
    """The conventions are grad's: no conjugation."""
    f: Any = custom_jvp(lambda z: z * z)
    f.defjvp(lambda p, t: (f(*p), 2.0 * p[0] * t[0]))
    z = 1.0 + 2.0j
    close(grad(lambda z: f(z).real)(z), grad(lambda z: (z * z).real)(z))
    close(grad(f, holomorphic=True)(z), 2.0 * z)


def test_stop_gradient_takes_trees_and_integers() -> None:
    """Leaves that have no derivative come back as they are."""
    tree = lax.stop_gradient({"n": 1, "x": enp.ones(2), "i": enp.arange(2), "none": None})
    assert tree["n"] == 1
    assert tree["none"] is None
    close(grad(lambda x: sum(lax.stop_gradient((x, 2.0, enp.arange(2)))[:2]) * x)(3.0), 5.0)


def test_dtypes_of_tangents_follow_their_primals() -> None:
    """A Python number is as wide as the result it is a tangent of."""
    f: Any = custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], 1.0))
    assert grad(f)(enp.asarray(1.0, "bfloat16")).dtype == enp.bfloat16
    g = custom_vjp(lambda x: x)
    g.defvjp(lambda x: (x, None), lambda _, ct: (2.0,))
    assert grad(g)(enp.asarray(1.0, "float16")).dtype == np.dtype("float16")
    with effx.enable_x64():
        assert grad(f)(enp.asarray(1.0)).dtype == np.dtype("float64")


def test_a_linearised_function_computes_what_its_tangents_need() -> None:
    """A function with a reverse rule alone may be called for values that no tangent depends on."""

    @custom_vjp
    def norm(x: Any) -> Any:
        return enp.tanh(x)

    norm.defvjp(lambda x: (norm(x), x), lambda x, ct: (ct,))

    def f(x: Any) -> Any:
        return x * 3 + lax.stop_gradient(norm(x)), (norm(x) > 0.5)

    (y, large), push = effx.linearize(f, 1.0)
    close(y, 3 + np.tanh(1.0))
    assert bool(large)
    close(push(1.0)[0], 3.0)
    close(vmap(lambda x: effx.linearize(f, x)[1](x)[0])(XS), 3 * XS)
    with pytest.raises(TransformError, match="has only rules for reverse mode"):
        effx.linearize(norm, 1.0)[1](1.0)


def test_an_array_is_the_cotangent_of_a_node_of_one_array() -> None:
    """The rule need not know the class that a library wraps an array in."""

    @attrs.frozen
    class Parameter:
        value: Any

    @custom_vjp
    def double(p: Any, x: Any) -> Any:
        return p.value * x

    double.defvjp(
        lambda p, x: (double(p, x), (p, x)), lambda residuals, g: (g * residuals[1], g * residuals[0].value)
    )
    for transform in (lambda f: f, jit):
        slopes = transform(grad(double, (0, 1)))(Parameter(enp.asarray(3.0)), 2.0)
        assert isinstance(slopes[0], Parameter)
        assert (float(slopes[0].value), float(slopes[1])) == (2.0, 3.0)


@pytest.mark.parametrize("transform", [lambda f: f, jit])
def test_cotangents_of_other_precision_are_converted_and_those_of_integers_count_for_nothing(
    transform: Any,
) -> None:
    """A rule that computes in half precision gives what its argument has; what it gives for an integer is dropped."""

    @custom_vjp
    def scale(x: Any, n: Any) -> Any:
        return x * n

    def bwd(n: Any, g: Any) -> Any:
        return g.astype(enp.bfloat16) * n, 7.0

    scale.defvjp(lambda x, n: (scale(x, n), n), bwd)
    slope = transform(grad(scale))(2.0, 3)
    assert slope.dtype == dtypes.float32
    assert float(slope) == 3.0
    half = transform(grad(lambda x: scale(x, 3).astype(enp.float32)))(enp.asarray(2.0, enp.float16))
    assert half.dtype == dtypes.float16
    assert float(half) == 3.0
    scale.defvjp(lambda x, n: (scale(x, n), n), lambda n, g: (2, enp.ones(5)))
    assert float(transform(grad(scale))(2.0, 3)) == 2.0
    nothing: Any = effx.vjp(scale, 2.0, 3)[1](1.0)[1]
    assert nothing.dtype == dtypes.float0


def test_parameters_by_name_keep_their_defaults() -> None:
    """Those of a partial function too: rules get what is passed by position."""
    fun: Any = partial(lambda x, y, a: x + y * a, a=0.5)
    f = custom_jvp(fun)
    f.defjvp(lambda primals, tangents: (f(*primals), 2.0 * jvp(fun, primals, tangents)[1]))
    slopes = grad(f, (0, 1))(1.0, 2.0)
    close(slopes[0], 2.0)
    close(slopes[1], 1.0)

    @custom_vjp
    def g(x: Any, *, power: int = 3) -> Any:
        return x**power

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * x,))
    close(g(2.0), 8.0)
    close(grad(g)(2.0), 2.0)
    close(jit(grad(g))(2.0), 2.0)


def test_rules_of_several_kinds_are_defined_on_the_outermost_function() -> None:
    """A method for rules of another kind is that of the function inside; there is none where nothing inside has it."""
    f: Any = custom_vjp(effx.custom_batching.custom_vmap(enp.sin))

    def batch(size: int, batched: Any, x: Any) -> Any:
        return 5.0 * x, batched[0]

    f.def_vmap(batch)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2.0,))
    close(vmap(f)(XS), 5.0 * XS)
    close(grad(f)(1.0), 2.0)
    g: Any = effx.custom_batching.custom_vmap(custom_jvp(enp.sin))
    g.def_vmap(batch)
    g.defjvp(lambda primals, tangents: (g(*primals), 3.0 * tangents[0]))
    close(jvp(g, (1.0,), (1.0,))[1], 3.0)
    close(vmap(g)(XS), 5.0 * XS)
    assert not hasattr(custom_jvp(enp.sin), "def_vmap")
    assert not hasattr(effx.custom_batching.custom_vmap(enp.sin), "defvjp")
