"""Taylor jets: equal to nested forward mode, to closed forms, and to solutions of differential equations.

Never: compares a series with one that the same handler computed another way, unless nested forward mode agrees.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.special import factorial

import effx
import effx.numpy as enp
from effx import errors, lax
from effx.handling import ArrayOperation, Body, Reference, Unary, emits, handle, tangent_of
from effx.ir.ops.elementwise import Exp
from effx.library.jets import Jet, Jets, jet, series, solution_series, taylor
from tests.library.functions import defined_at

ORDER = 4
POINT = np.array([0.3, 0.7, 0.5])
CURVE = np.array([[1.0, -0.5, 0.2], [0.3, 0.1, -0.4], [-0.2, 0.6, 0.1], [0.5, 0.5, 0.5]])
Function = Callable[..., Any]


def f4(values: Any) -> np.ndarray[Any, Any]:
    """Single precision."""
    return np.asarray(values, np.float32)


def nested(f: Function, x: Any, derivatives: Any) -> list[list[np.ndarray[Any, Any]]]:
    """The value and the derivatives of f along a curve, by forward mode in forward mode."""

    def along(t: Any) -> list[Any]:
        at = x + sum(enp.asarray(d) * (t**k / math.factorial(k)) for k, d in enumerate(derivatives, 1))
        return effx.tree.leaves(f(at))

    steps: list[Function] = [along]
    for _ in derivatives:
        before = steps[-1]
        steps.append(lambda t, before=before: effx.jvp(before, (t,), (enp.ones_like(t),))[1])
    return [[np.asarray(y) for y in step(enp.asarray(0.0, x.dtype))] for step in steps]


def check(
    f: Function,
    order: int = ORDER,
    dtype: Any = np.float64,
    tolerance: float = 1e-11,
    compiled: bool = False,
) -> None:
    """The law: a jet is nested forward mode. On NumPy, or on XLA."""
    with effx.enable_x64(True), contextlib.nullcontext() if compiled else handle(Reference()):
        x, curve = enp.asarray(POINT.astype(dtype)), [enp.asarray(d.astype(dtype)) for d in CURVE[:order]]
        y, dys = jet(f, (x,), (curve,))
        want = nested(f, x, curve)
        leaves, structure = effx.tree.flatten(y)
        lists = effx.tree.flatten_up_to(structure, dys)
        for i, (value, terms) in enumerate(zip(leaves, lists, strict=True)):
            assert len(terms) == order
            for k, got in enumerate([value, *terms]):
                assert got.dtype == want[k][i].dtype
                np.testing.assert_allclose(np.asarray(got), want[k][i], rtol=tolerance, atol=tolerance)


FUNCTIONS: dict[str, Function] = {
    **defined_at(POINT),
    "power 3": lambda x: x**3,
    "power -2": lambda x: x**-2,
    "power 1.5": lambda x: x**1.5,
    "power of x": lambda x: x**x,
    "power of 2": lambda x: 2.0**x,
    "atan2": lambda x: enp.arctan2(x, x * x + 1.0),
    "rational": lambda x: enp.sin(x) / (1.0 + x * x) - 2.0 / x,
    "maximum": lambda x: enp.maximum(x, 0.4 * x + 0.25),
    "minimum at a tie": lambda x: enp.minimum(x, 2.0 * x - 0.3),
    "clip": lambda x: enp.clip(x * x, 0.1, 0.3),
    "mod": lambda x: enp.mod(x * 3.0, 0.7),
    "where": lambda x: enp.where(x > 0.4, enp.sin(x), x * x),
    "prod": enp.prod,
    "cumprod": enp.cumprod,
    "cummax": lambda x: lax.cummax(x * x),
    "max": enp.max,
    "sort": lambda x: enp.sort(-x * x),
    "argsort": lambda x: x[enp.argsort(-x)],
    "median": enp.median,
    "logsumexp": effx.nn.logsumexp,
    "std": enp.std,
    "matmul": lambda x: x @ enp.outer(x, enp.exp(x)),
    "gather": lambda x: x[enp.array([2, 0])] * x[1],
    "scatter add": lambda x: enp.zeros_like(x).at[enp.array([0, 0, 1])].add(x * x),
    "scatter set": lambda x: x.at[1].set(x[0] * x[2]),
    "scatter mul": lambda x: x.at[1].multiply(x[0]),
    "slices": lambda x: lax.dynamic_update_slice(x, lax.dynamic_slice(x * x, (1,), (2,)), (0,)),
    "shapes": lambda x: enp.pad(enp.stack([x, x * x]).T.reshape(2, 3), 1).sum(0)[::-1],
    "stop": lambda x: x * lax.stop_gradient(x),
    "barrier": lambda x: lax.optimization_barrier((x * x, 3.0))[0],
    "complex": lambda x: enp.abs(enp.exp(1j * x) * (1.0 + x)),
    "several": lambda x: {"a": x * x, "b": (enp.sum(x), enp.ones(2))},
    "activations": lambda x: effx.nn.gelu(x) + effx.nn.softplus(x) * effx.nn.relu(x),
    "dtype": lambda x: x.astype(enp.float32) * x.astype(enp.float32),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nested_forward_mode(name: str) -> None:
    """Each operation's series is what nested tangents give."""
    check(FUNCTIONS[name], tolerance=1e-5 if name == "dtype" else 1e-11)


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, a: (enp.sin(c) * a, c * c), 0.5, x)


def branched(x: Any) -> Any:
    return lax.cond(x[0] > 0.1, lambda v: enp.sin(v), lambda v: enp.ones_like(v), x) + lax.switch(
        enp.argmax(x), [enp.exp, enp.cos], x
    )


def looped(x: Any) -> Any:
    return lax.while_loop(lambda c: c[1][1] > 0.2, lambda c: (c[0] + 1, enp.sin(c[1]) * x), (0, x))[1]


def counted(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, v: v * x[i] + enp.tanh(v), enp.ones(3))


def checkpointed(x: Any) -> Any:
    return effx.checkpoint(lambda v: enp.sin(enp.exp(v)))(x)


def batched(x: Any) -> Any:
    return effx.vmap(lambda a: enp.tanh(a) * lax.cond(a > 0.4, enp.sin, enp.cos, a))(x)


def jitted(x: Any) -> Any:
    return effx.jit(lambda v: enp.exp(effx.jit(enp.sin)(v)))(x)


def gradient(x: Any) -> Any:
    return effx.grad(lambda v: enp.sum(enp.sin(v) * v[::-1]))(x)


@effx.custom_jvp
def custom(x: Any) -> Any:
    return enp.sin(x)


# Not the sine's derivative, so that it shows which one is used.
custom.defjvp(lambda primals, tangents: (custom(primals[0]), tangents[0] * enp.cos(primals[0]) * 1.5))

PROGRAMS: list[Function] = [
    scanned,
    branched,
    looped,
    counted,
    checkpointed,
    batched,
    jitted,
    gradient,
    custom,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: str(getattr(f, "__name__", "custom")))
def test_programs(program: Function) -> None:
    """Loops, branches, calls, transformations and users' rules inside."""
    check(program, compiled=True)
    check(effx.jit(program), order=1)


@pytest.mark.parametrize("program", [scanned, branched, jitted])
def test_transformations_outside(program: Function) -> None:
    """jit, vmap and grad of a jet."""

    def last(x: Any) -> Any:
        return effx.tree.leaves(jet(program, (x,), ([enp.ones_like(x), x],)))[-1]

    with effx.enable_x64(True):
        x = enp.asarray(POINT)
        want = np.asarray(last(x))
        np.testing.assert_allclose(np.asarray(effx.jit(last)(x)), want, rtol=1e-12)
        rows = np.stack([POINT, POINT + 0.1])
        np.testing.assert_allclose(np.asarray(effx.vmap(last)(rows))[0], want, rtol=1e-12)
        slope = effx.jit(effx.grad(lambda x: enp.sum(last(x))))(x)
        for i in range(3):
            shift = 1e-6 * np.eye(3)[i]
            difference = float(enp.sum(last(x + shift)) - enp.sum(last(x - shift))) / 2e-6
            np.testing.assert_allclose(float(slope[i]), difference, rtol=1e-6, atol=1e-8)


def test_parallel_replicas() -> None:
    """Inside of pmap and around it, sums over replicas included."""

    def shared(x: Any) -> Any:
        return enp.sin(x) * lax.psum(x, "i")

    def replica(x: Any) -> Any:
        return jet(shared, (x,), ([enp.ones_like(x)],))[1][0]

    x = f4([0.5, 1.5])
    want = np.cos(x) * 2.0 + np.sin(x) * 2.0  # cos(x) (x1 + x2) + sin(x) (1 + 1)
    np.testing.assert_allclose(np.asarray(effx.pmap(replica, axis_name="i")(x)), want, rtol=1e-5)
    outside = jet(effx.pmap(shared, axis_name="i"), (x,), ([enp.ones(2)],))
    np.testing.assert_allclose(np.asarray(outside[1][0]), want, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_dtypes(dtype: Any) -> None:
    """Single precision, and holomorphic functions of complex numbers."""
    check(
        lambda x: enp.exp(x) / (1.0 + x * x) * enp.sin(x),
        dtype=dtype,
        tolerance=1e-4 if dtype == np.float32 else 1e-11,
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_orders(order: int) -> None:
    """Each order by itself."""
    check(lambda x: enp.exp(enp.sin(x)) / enp.cumsum(x), order)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.0])
def test_powers_at_zero(exponent: float) -> None:
    """A power with an integer value has all derivatives at 0, though it is not written as one."""
    got = taylor(lambda x: lax.pow(x, exponent), 0.0, 4)
    np.testing.assert_allclose([float(c) for c in got], np.eye(5)[int(exponent)])


# Closed forms

COEFFICIENTS: list[tuple[str, Function, float, Callable[[np.ndarray[Any, Any]], Any]]] = [
    ("exp", enp.exp, 0.0, lambda k: 1 / factorial(k)),
    ("geometric", lambda x: 1.0 / (1.0 - x), 0.0, lambda k: np.ones_like(k)),
    ("log", enp.log, 1.0, lambda k: np.where(k == 0, 0.0, -((-1.0) ** k) / np.maximum(k, 1))),
    ("sin", enp.sin, 0.0, lambda k: np.where(k % 2 == 1, (-1.0) ** ((k - 1) // 2), 0.0) / factorial(k)),
    (
        "atan",
        enp.arctan,
        0.0,
        lambda k: np.where(k % 2 == 1, (-1.0) ** ((k - 1) // 2), 0.0) / np.maximum(k, 1),
    ),
    (
        "square root",
        enp.sqrt,
        1.0,
        lambda k: np.cumprod([1.0, *[(0.5 - j) / (j + 1) for j in range(len(k) - 1)]]),
    ),
]


@pytest.mark.parametrize(("name", "f", "at", "truth"), COEFFICIENTS, ids=[row[0] for row in COEFFICIENTS])
def test_closed_forms(name: str, f: Function, at: float, truth: Callable[..., Any]) -> None:
    """Coefficients that are known for all orders, up to the tenth."""
    with effx.enable_x64(True):
        got = effx.jit(lambda x: taylor(f, x, 10))(enp.float64(at))
        np.testing.assert_allclose([float(c) for c in got], truth(np.arange(11.0)), rtol=1e-12, atol=1e-14)


def test_tangent_numbers() -> None:
    """tan at 0, order 9: the tangent numbers 1, 2, 16, 272, 7936."""
    with effx.enable_x64(True):
        _, derivatives = jet(enp.tan, (0.0,), ([1.0, *[0.0] * 8],))
    assert [round(float(d)) for d in derivatives] == [1, 0, 2, 0, 16, 0, 272, 0, 7936]


def test_cost_is_a_polynomial() -> None:
    """The rule for any operation performs no more than the cube of the order: nested tangents double with it."""

    def count(order: int) -> int:
        program = effx.make_jaxpr(lambda x: taylor(lax.erf, x, order))(1.0)
        return str(program).count(" = ")

    assert count(12) < 30 * count(4)


# Differential equations


def test_pendulum() -> None:
    """A step of order 20 of a pendulum agrees with SciPy's integrator to eleven digits."""

    def slope(state: Any, t: Any) -> Any:
        angle, speed = state
        return speed, -enp.sin(angle) + 0.1 * enp.cos(t)

    with effx.enable_x64(True):
        coefficients = effx.jit(lambda a, v, t: solution_series(slope, (a, v), t, 20))(1.0, 0.5, 0.25)
        step = 0.3
        got = [sum(float(c[i]) * step**k for k, c in enumerate(coefficients)) for i in range(2)]
    right: Callable[..., Any] = lambda t, s: [s[1], -np.sin(s[0]) + 0.1 * np.cos(t)]  # noqa: E731
    want = solve_ivp(right, (0.25, 0.25 + step), [1.0, 0.5], method="DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
    np.testing.assert_allclose(got, want, rtol=1e-11)


def test_vector_field() -> None:
    """Lorenz's system, whose first two derivatives are written down by hand."""

    def slope(x: Any, t: Any) -> Any:
        return enp.stack([10.0 * (x[1] - x[0]), x[0] * (28.0 - x[2]) - x[1], x[0] * x[1] - 8.0 / 3.0 * x[2]])

    with effx.enable_x64(True):
        start = enp.asarray(np.array([1.0, 2.0, 3.0]))
        c = [np.asarray(v) for v in solution_series(slope, start, 0.0, 3)]
        first = np.asarray(slope(start, 0.0))
        jacobian = np.asarray(effx.jacfwd(lambda x: slope(x, 0.0))(start))
    np.testing.assert_allclose(c[0], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(c[1], first)
    np.testing.assert_allclose(c[2], jacobian @ first / 2)
    assert c[3].shape == (3,)


# Structures and errors


def test_structures() -> None:
    """Pytrees of primals with lists in the place of leaves, and results of the same form."""
    y, dy = jet(lambda d, c: {"p": d["x"] * c, "q": 2.0}, ({"x": 3.0}, 2.0), ({"x": [1.0, 0.0]}, [0.5, 4.0]))
    assert float(y["p"]) == 6.0
    # (x c)' = x' c + x c', (x c)'' = 2 x' c' + x c''
    assert [float(v) for v in dy["p"]] == [2.0 + 1.5, 1.0 + 12.0]
    assert [float(v) for v in dy["q"]] == [0.0, 0.0]
    integer, none = jet(lambda x: enp.argmax(x), (enp.ones(2),), ([enp.ones(2)],))
    assert (int(integer), int(none[0])) == (0, 0)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    """Scalars, and arrays of one element or none."""
    x = enp.full(shape, 0.5)
    y, (first, second) = jet(lambda v: enp.sum(enp.exp(v)), (x,), ([enp.ones(shape), enp.zeros(shape)],))
    want = math.exp(0.5) * np.ones(shape).sum()
    np.testing.assert_allclose([float(y), float(first), float(second)], [want] * 3, rtol=1e-6)


class Softsign(Unary):
    """x / (1 + |x|), an operation of a user's with no rule for jets."""

    __slots__ = ()
    kinds = "f"


@emits(Softsign)
def _(body: Body, op: Softsign, inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    x, t = body.name(inputs[0]), inputs[0].type
    below = body.line(
        f"stablehlo.add {body.line(f'stablehlo.abs {x} : {t.mlir}')}, {body.constant(1.0, t)} : {t.mlir}"
    )
    return body.line(f"stablehlo.divide {x}, {below} : {t.mlir}")


tangent_of(Softsign)(lambda op, dx, x, y: dx / (1.0 + abs(x)) ** 2)


def test_operations_of_users() -> None:
    """An operation that has a tangent needs no more."""
    assert Jets.rules.origin(Softsign) is ArrayOperation
    check(lambda x: Softsign()(x * x) * x, compiled=True)
    # exp(0.5 + t + 2 t^2) has the second coefficient exp(0.5) (1/2 + 2), by whichever rule.
    alone = series.integrated(Exp(), Jet(enp.float32(0.5), (enp.float32(1.0), enp.float32(2.0))))
    assert isinstance(alone, Jet)
    np.testing.assert_allclose(float(alone.terms[1]), math.exp(0.5) * 2.5, rtol=1e-6)


ERRORS: list[tuple[Function, type[errors.EffxError], str]] = [
    (
        lambda: jet(enp.sin, (1.0,), ([],)),
        errors.TransformError,
        "jet: a series must be a list of at least one derivative",
    ),
    (lambda: jet(enp.sin, (1.0,), ()), errors.TransformError, "jet: got 1 primals and 0 series"),
    (
        lambda: jet(enp.add, (1.0, 2.0), ([1.0], [1.0, 2.0])),
        errors.ShapeError,
        "jet: all series must have one length, got [1, 2]",
    ),
    (
        lambda: jet(enp.sin, (enp.ones(2),), ([1.0],)),
        errors.ShapeError,
        "jet: derivative 1 must have the primal's shape: the primal is f32[2], got f32[]~",
    ),
    (
        lambda: jet(enp.sin, (1,), ([1],)),
        errors.DTypeError,
        "jet: a series needs a floating or complex value, got i32[]~",
    ),
    (
        lambda: taylor(enp.sin, 1.0, 0),
        errors.TransformError,
        "jets: order must be an int of at least 1, got 0",
    ),
    (
        lambda: taylor(enp.sin, enp.ones(2), 1),
        errors.ShapeError,
        "taylor: x must be a scalar, got f32[2]; see jet for curves",
    ),
    (
        lambda: solution_series(lambda x, t: (x, x), 1.0, 0.0, 2),
        errors.TreeError,
        "solution_series: f returns PyTreeDef((*, *)) for a state PyTreeDef(*)",
    ),
    (
        lambda: solution_series(lambda x, t: enp.ones(2), 1.0, 0.0, 2),
        errors.ShapeError,
        "solution_series: f returns f32[2] for a state f32[]~",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Function, kind: type[errors.EffxError], message: str) -> None:
    """What does not fit is refused in words."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.message == message


@pytest.mark.unguarded
def test_arguments_are_sequences() -> None:
    """One bare argument is refused in words."""
    with pytest.raises(errors.TransformError) as caught:
        jet(enp.sin, 1.0, [1.0])  # type: ignore[arg-type]  # what is refused
    assert caught.value.message == (
        "jet: primals and series must be tuples or lists, with an entry for each argument"
    )


def test_structure_of_the_series() -> None:
    """A list of derivatives for each leaf, no less."""
    with pytest.raises(errors.TreeError) as caught:
        jet(lambda d: d["x"], ({"x": 1.0},), ({"y": [1.0]},))
    assert caught.value.message.startswith("jet: the series must have the structure of the primals")


STEPS: dict[str, Function] = {
    "exp": lambda x, y: enp.exp(enp.tanh(x)) - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (2.0 + enp.sin(y)),
    "root": lambda x, y: enp.sqrt(1.0 + x * x) + y,
    "pow": lambda x, y: (1.5 + enp.sin(x)) ** enp.cos(y),
    "dot": lambda x, y: x * enp.dot(x, y),
    "atan": lambda x, y: enp.arctan2(x, 2.0 + y * y),
    "erf": lambda x, y: lax.erf(x) + enp.arcsinh(y),
    "prod": lambda x, y: enp.prod(enp.cos(x)) * y,
    "scan": lambda x, y: lax.scan(lambda c, r: (c * r + enp.sin(c), c), 0.3, x)[1] + y,
    "cond": lambda x, y: lax.cond(x[0] > y[0], enp.sin, lambda v: v * v, x) + y,
    "vmap": lambda x, y: effx.vmap(lambda a, b: enp.tanh(a * b))(x, y),
}


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=3,
    )
)
def test_random_programs(steps: list[tuple[str, int, int]]) -> None:
    """Composition: a jet of a random program is nested forward mode."""

    def function(x: Any) -> Any:
        values = [x, x[::-1]]
        for name, i, j in steps:
            values.append(STEPS[name](values[i % len(values)], values[j % len(values)]))
        return values[-1]

    check(function, order=3, tolerance=1e-9)


def test_taylor_coefficients_in_place_of_derivatives() -> None:
    """The k-th derivative is k! times the k-th coefficient, on both sides; effx.experimental has the same function."""
    from effx.experimental.jet import jet as experimental

    def f(v: effx.Array) -> effx.Array:
        return enp.sin(v) * enp.exp(v)

    x, curve = 0.3, [0.5, -1.0, 2.0, 0.7]
    y, derivatives = jet(f, (x,), (curve,))
    coefficients = [c / math.factorial(k) for k, c in enumerate(curve, 1)]
    z, found = experimental(f, (x,), (coefficients,), factorial_scaled=False)
    assert float(y) == float(z)
    for k, (derivative, coefficient) in enumerate(zip(derivatives, found, strict=True), 1):
        np.testing.assert_allclose(derivative, coefficient * math.factorial(k), rtol=1e-5)
