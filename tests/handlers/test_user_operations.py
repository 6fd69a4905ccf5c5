"""Operations that a user defines in one file: by decomposition alone, with rules, and by foreign functions.

Never: edits a table of effx's other than through the public decorators.
"""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import attrs
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.errors import BackendError, DTypeError, NoRuleError
from effx.handling import (
    ArrayOperation,
    ArrayType,
    Atom,
    Binary,
    Body,
    Elementwise,
    Linear,
    PiecewiseConstant,
    Reference,
    TupleOperation,
    Unary,
    Var,
    array_type,
    decomposes,
    emits,
    handle,
    jvp_tuple_rule,
    ops,
    reference_rule,
    reference_tuple_rule,
    register_ffi_target,
    tangent_of,
    transpose_tuple_rule,
    vmap_tuple_rule,
)
from effx.ir.ops.elementwise import Sin
from effx.laws.zoo import IntervalArithmetic, IntervalBounds
from effx.scipy.special import digamma


class Cube(Unary):
    """x³ by decomposition."""

    __slots__ = ()
    kinds = "f"

    def decompose(self, *operands: Any) -> Array:
        x: Array = operands[0]
        return x * x * x


@attrs.frozen
class Weighted(ArrayOperation, Linear):
    """A linear operation without a transpose: n x + y, by a registered decomposition."""

    n: float

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]


@decomposes(Weighted)
def _(op: Weighted, x: Array, y: Array) -> Array:
    return x * op.n + y


@attrs.frozen
class SumAndDifference(TupleOperation):
    """Two results, with every rule."""

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        return types


@emits(SumAndDifference)
def _(body: Body, op: SumAndDifference, inputs: Any, outputs: Any) -> tuple[str, ...]:
    x, y, t = body.name(inputs[0]), body.name(inputs[1]), inputs[0].type
    return (
        body.line(f"stablehlo.add {x}, {y} : {t.mlir}"),
        body.line(f"stablehlo.subtract {x}, {y} : {t.mlir}"),
    )


@jvp_tuple_rule(SumAndDifference)
def _(op: SumAndDifference, xs: Any, dxs: Any) -> Any:
    full = [enp.zeros_like(x) if dx is None else dx for x, dx in zip(xs, dxs, strict=True)]
    return op(*xs), op(*full)


@transpose_tuple_rule(SumAndDifference)
def _(op: SumAndDifference, cts: Any, operands: Any) -> Any:
    a, b = [
        enp.zeros(x.type.shape, x.type.dtype) if ct is None else ct
        for ct, x in zip(cts, operands, strict=True)
    ]
    return list(op(a, b))


@vmap_tuple_rule(SumAndDifference)
def _(handler: Any, op: SumAndDifference, values: Any, axes: Any) -> Any:
    from effx.handling import materialize

    return op(*[materialize(handler, x, a) for x, a in zip(values, axes, strict=True)]), (0, 0)


@reference_tuple_rule(SumAndDifference)
def _(op: SumAndDifference, x: Any, y: Any) -> Any:
    return x + y, x - y


def test_by_decomposition_alone() -> None:
    """Eager, compiled, inside loops, differentiated any number of times, batched, and on NumPy."""
    cube = Cube()
    assert float(cube(enp.float32(3.0))) == 27.0
    assert float(effx.jit(lambda x: cube(x) + 1.0)(3.0)) == 28.0
    f = lambda x: lax.scan(lambda c, _: (cube(c) * 0.5, None), x, None, length=2)[0]  # noqa: E731
    assert float(effx.jit(f)(2.0)) == 32.0
    twice = effx.grad(effx.grad(lambda x: cube(x)))
    assert float(twice(3.0)) == 18.0
    assert effx.jit(effx.vmap(effx.grad(cube)))(enp.arange(3.0)).tolist() == [0.0, 3.0, 12.0]
    with handle(Reference()):
        assert float(cube(enp.float32(3.0))) == 27.0
    assert "stablehlo.multiply" in effx.jit(cube).lower(enp.float32(1.0)).as_text()


def test_linear_with_a_transpose_by_decomposition() -> None:
    """What is linear and decomposes needs no transpose."""
    op = Weighted(3.0)
    assert effx.grad(lambda x: enp.sum(op(x, 2 * x)))(enp.ones(2)).tolist() == [5.0, 5.0]
    assert effx.jit(effx.grad(lambda y: enp.sum(op(enp.ones(2), y))))(enp.ones(2)).tolist() == [1.0, 1.0]
    y, f_t = op(enp.ones(2), enp.ones(2)), effx.linear_transpose(lambda x: op(x, x), enp.ones(2))
    assert y.tolist() == [4.0, 4.0]
    assert f_t(enp.ones(2))[0].tolist() == [4.0, 4.0]


def test_with_rules_of_every_kind() -> None:
    """Two results: the sum and the difference, forward, backward, batched, on NumPy."""
    op = SumAndDifference()
    x, y = enp.array([3.0, 4.0]), enp.array([1.0, 1.0])
    assert [z.tolist() for z in effx.jit(lambda x, y: op(x, y))(x, y)] == [[4.0, 5.0], [2.0, 3.0]]
    f = lambda x, y: enp.sum(op(x, y)[0] * op(x, y)[1])  # noqa: E731  x² - y²
    gx, gy = effx.jit(effx.grad(f, (0, 1)))(x, y)
    assert (gx.tolist(), gy.tolist()) == ([6.0, 8.0], [-2.0, -2.0])
    assert effx.vmap(f, (0, None))(enp.stack([x, y]), y).tolist() == [23.0, 0.0]
    with handle(Reference()):
        assert [z.tolist() for z in op(x, y)] == [[4.0, 5.0], [2.0, 3.0]]


class Softsign(Unary):
    """x / (1 + |x|): a derivative and values that the class declares, the rest by decomposition."""

    __slots__ = ()
    kinds = "f"
    reference = staticmethod(lambda x: x / (1 + abs(x)))

    def decompose(self, *operands: Any) -> Array:
        x: Array = operands[0]
        return x / (1.0 + abs(x))

    def tangent(self, dx: Array, x: Array, y: Array) -> Array:
        return dx / (1.0 + abs(x)) ** 2 * 3.0  # three times the slope, to see that it is used


class LogGamma(Unary):
    """An operation of XLA's, with nothing but declarations."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "chlo.lgamma"
    reference = np.vectorize(math.lgamma, otypes=[float])
    tangent = lambda op, dx, x, y: dx * digamma(x)  # noqa: E731


@attrs.frozen
class Scaled(Unary):
    """scale * x, with a parameter that its declarations read."""

    scale: float

    def reference(self, x: Any) -> Any:
        return x * self.scale

    def decompose(self, *operands: Any) -> Array:
        x: Array = operands[0]
        return x * self.scale

    def tangent(self, dx: Array, x: Array, y: Array) -> Array:
        return self(dx)


class Hypot(Binary):
    """The square root of x² + y², with derivatives by both operands."""

    __slots__ = ()
    kinds = "f"
    reference = np.hypot
    tangent_by_first = lambda op, dx, x, y, z: dx * (x / z)  # noqa: E731
    tangent_by_second = lambda op, dy, x, y, z: dy * (y / z)  # noqa: E731

    def decompose(self, *operands: Any) -> Array:
        x: Array = operands[0]
        y: Array = operands[1]
        return enp.sqrt(x * x + y * y)


class Parity(Unary, PiecewiseConstant):
    """0 for even integer parts and 1 for odd ones: without a derivative."""

    __slots__ = ()
    kinds = "f"

    def decompose(self, *operands: Any) -> Array:
        x: Array = operands[0]
        return enp.floor(x) % 2.0


def test_by_declarations_alone() -> None:
    """Compiled, differentiated, batched and on NumPy, without a decorator."""
    x = enp.array([1.0, -3.0])
    softsign, log_gamma, hypot = Softsign(), LogGamma(), Hypot()
    assert effx.jit(softsign)(x).tolist() == [0.5, -0.75]
    assert effx.jit(effx.vmap(effx.grad(lambda x: softsign(x))))(x).tolist() == [0.75, 0.1875]
    assert "chlo.lgamma" in effx.jit(log_gamma).lower(x).as_text()

    def of_one(x: Array) -> Array:
        return log_gamma(x)

    def of_two(x: Array, y: Array) -> Array:
        return hypot(x, y)

    one, two, three, four = [enp.asarray(n, enp.float32) for n in (1.0, 2.0, 3.0, 4.0)]
    assert float(effx.grad(of_one)(two)) == pytest.approx(1 - np.euler_gamma)
    assert float(effx.jit(effx.grad(effx.grad(of_one)))(one)) == pytest.approx(math.pi**2 / 6)
    by_first, _ = effx.jit(effx.vmap(effx.grad(of_two, (0, 1)), (None, 0)))(three, enp.array([4.0, 0.0]))
    assert by_first.tolist() == pytest.approx([0.6, 1.0])
    assert [float(d) for d in effx.grad(of_two, (0, 1))(three, four)] == pytest.approx([0.6, 0.8])
    assert float(effx.jit(effx.grad(lambda x: Scaled(4.0)(x)))(1.0)) == 4.0
    assert float(effx.grad(lambda x: Parity()(x) * x)(3.5)) == 1.0
    with handle(Reference()):
        assert softsign(enp.asarray(x, enp.bfloat16)).dtype == enp.bfloat16
        assert float(log_gamma(enp.float32(4.0))) == pytest.approx(math.log(6))
        assert float(hypot(enp.float32(3.0), enp.float32(4.0))) == 5.0
        assert float(Scaled(4.0)(enp.float32(2.0))) == 8.0


class Finite(Unary):
    """A declared operation whose result has another type."""

    __slots__ = ()
    kinds = "f"
    stablehlo = "stablehlo.is_finite"
    reference = np.isfinite

    def infer(self, *types: ArrayType) -> ArrayType:
        return array_type(np.dtype(bool), types[0].shape)


@attrs.frozen
class Offset(Elementwise):
    """An operation with a parameter that has the name of a declaration."""

    reference: float  # type: ignore[assignment]  # its users need not know what effx declares
    tangent: float = 1.0  # type: ignore[assignment]  # likewise

    def infer(self, *types: ArrayType) -> ArrayType:
        return types[0]

    def decompose(self, *operands: Any) -> Array:
        x: Array = operands[0]
        return x * self.tangent - self.reference


def test_declarations_of_other_types() -> None:
    """A result of another type, and parameters that only look like declarations."""
    x = enp.array([1.0, np.inf])
    assert effx.jit(lambda x: Finite()(x))(x).tolist() == [True, False]
    assert float(effx.grad(lambda x: Offset(2.0, 3.0)(x))(1.0)) == 3.0
    with handle(Reference()):
        assert Finite()(x).tolist() == [True, False]
        assert float(Offset(2.0)(enp.float32(5.0))) == 3.0


def test_half_a_declaration_is_an_error() -> None:
    """A derivative by one operand alone is not taken for zero by the other."""

    class Half(Binary):
        __slots__ = ()
        kinds = "f"
        stablehlo = "stablehlo.multiply"
        tangent_by_second = lambda op, dy, x, y, z: dy * x  # noqa: E731

    x, y = enp.float32(3.0), enp.float32(4.0)

    def apply(x: Array, y: Array) -> Array:
        return Half()(x, y)

    assert float(effx.grad(apply, 1)(x, y)) == 3.0
    with pytest.raises(NoRuleError, match=r"^half: declares no tangent by the first operand"):
        effx.grad(apply)(x, y)


def test_a_rule_comes_before_a_declaration() -> None:
    """The decorators serve the class of the operation itself."""

    class Cubed(Cube):
        __slots__ = ()
        stablehlo = "stablehlo.sine"
        reference = np.sin

        def tangent(self, dx: Array, x: Array, y: Array) -> Array:
            return dx * 100.0

    tangent_of(Cubed)(lambda op, dx, x, y: dx * (x * x * 3.0))
    emits(Cubed)(lambda body, op, inputs, outputs: body.name(inputs[0]))
    reference_rule(Cubed)(lambda op, x: x + 1)

    def apply(x: Array) -> Array:
        return Cubed()(x)

    two = enp.asarray(2.0, enp.float32)
    assert float(effx.grad(apply)(two)) == 12.0
    assert float(effx.jit(apply)(two)) == 2.0
    with handle(Reference()):
        assert float(apply(two)) == 3.0


class Nothing(Unary):
    """No rule at all."""

    __slots__ = ()


class Lies(Unary):
    """Decomposes into another type than its typing rule's."""

    __slots__ = ()

    def decompose(self, *operands: Any) -> Array:
        return enp.sum(operands[0])


def test_without_rules() -> None:
    """Each missing rule is an error that names the operation and who wanted it."""
    with pytest.raises(NoRuleError, match=r"^nothing: has no StableHLO form for cpu"):
        Nothing()(enp.ones(2))
    with pytest.raises(NoRuleError, match=r"^nothing: the handler jvp has no rule"):
        effx.grad(Nothing())(enp.float32(1.0))
    with pytest.raises(
        NoRuleError, match=r"^lies: decomposes into \(f32\[\]\), but its typing rule gives \(f32\[2\]\)"
    ):
        Lies()(enp.ones(2))


class Potrf(TupleOperation):
    """LAPACK's Cholesky factorisation: a foreign function that ships with jaxlib."""

    __slots__ = ()

    def infer(self, *types: ArrayType) -> tuple[ArrayType, ...]:
        return types[0], array_type(np.dtype("int32"), types[0].shape[:-2])


@emits(Potrf)
def _(body: Body, op: Potrf, inputs: Any, outputs: Any) -> tuple[str, ...]:
    n = inputs[0].type.ndim
    order = [n - 2, n - 1, *range(n - 3, -1, -1)]
    return body.custom_call(
        "effx_test_potrf",
        inputs,
        [v.type for v in outputs],
        {"uplo": np.uint8(ord("L"))},
        [order],
        [order, None],
        aliases={0: 0},
    )


def capsule(name: str) -> object:
    lapack: Any = pytest.importorskip("jaxlib.cpu._lapack")
    lapack.initialize()
    found: object = lapack.registrations()[name]
    return found


@pytest.mark.parametrize("batch", [(), (3,)])
def test_foreign_functions(batch: tuple[int, ...]) -> None:
    """A C function through XLA's typed FFI, with attributes, layouts and an alias, equals NumPy's."""
    register_ffi_target("effx_test_potrf", capsule("lapack_spotrf_ffi"))
    a = np.random.default_rng(0).normal(size=(*batch, 4, 4)).astype(np.float32)
    a = a @ np.swapaxes(a, -1, -2) + 4 * np.eye(4, dtype=np.float32)
    factor = effx.jit(lambda x: enp.tril(Potrf()(x)[0]) * 1.0)(a)
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), rtol=1e-5, atol=1e-5)


@pytest.mark.unguarded
def test_wrong_foreign_functions() -> None:
    """A target that is no function, a name that is taken, a layout that does not fit."""
    with pytest.raises(BackendError, match=r"^register_ffi_target: the target must be a PyCapsule"):
        register_ffi_target("x", 3)
    register_ffi_target("effx_test_potrf", capsule("lapack_spotrf_ffi"))
    with pytest.raises(BackendError, match=r"^register_ffi_target: 'effx_test_potrf' is the name of another"):
        register_ffi_target("effx_test_potrf", capsule("lapack_dpotrf_ffi"))
    from effx.lower.text.foreign_calls import custom_call_text

    t = array_type(np.dtype("float32"), (2, 3))
    with pytest.raises(
        BackendError, match=r"^custom_call: a layout of f32\[2,3\] lists its 2 axes, got \(0, 0\)"
    ):
        custom_call_text("f", ["%a"], [t], [t], in_layouts=[(0, 0)])
    with pytest.raises(BackendError, match=r"^custom_call: attribute 'a' must be a bool, number, string"):
        custom_call_text("f", ["%a"], [t], [t], attributes={"a": object()})  # type: ignore[dict-item]  # wrong on purpose
    assert '{a = true, b = 1.5 : f64, c = "x", d = array<i64: 1, 2>, e = 3 : ui8}' in custom_call_text(
        "f",
        ["%a"],
        [t],
        [t],
        attributes={"a": True, "b": 1.5, "c": "x", "d": [1, 2], "e": np.uint8(3)},
        has_side_effect=True,
    )


@attrs.frozen
class Swish(Unary):
    """x / (1 + exp(-beta x))."""

    beta: float = 1.0
    kinds = "f"

    def decompose(self, *operands: Any) -> Any:
        (x,) = operands
        return x / (1.0 + enp.exp(-self.beta * x))


def test_operations_of_one_operand_may_have_parameters() -> None:
    """A class with fields has an instance for each value of them, which copies and pickles; one without has one."""
    assert Swish() == Swish(1.0) != Swish(2.0)
    assert repr(Swish(2.0)) == "Swish(beta=2.0)"
    for op in (Swish(2.0), Swish(), Sin()):
        for twin in (copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
            assert twin == op
            assert (twin is op) == (type(op) is Sin)
    with pytest.raises(
        TypeError, match=r"^Sin\(\) takes no parameters; those of an operation are attrs fields"
    ):
        Sin(2.0)  # type: ignore[call-arg]  # wrong on purpose
    x = np.array([-1.0, 0.0, 2.0], np.float32)
    for beta in (1.0, 2.0):
        want = x / (1 + np.exp(-beta * x))
        np.testing.assert_allclose(effx.jit(Swish(beta))(enp.asarray(x)), want, rtol=1e-6)
        got = effx.jit(effx.vmap(effx.grad(Swish(beta))))(enp.asarray(x))
        s = 1 / (1 + np.exp(-beta * x))
        np.testing.assert_allclose(got, s + beta * x * s * (1 - s), rtol=1e-5)
    text = str(effx.make_jaxpr(lambda v: Swish(1.0)(v) + Swish(2.0)(v) + Swish(1.0)(v))(1.0))
    assert "swish" in text
    assert "2.0" in text


def test_a_platform_has_a_form_of_its_own() -> None:
    """The form for all serves the others; a platform that does not exist is refused."""

    class Twice(Unary):
        __slots__ = ()
        kinds = "f"

    @emits(Twice)
    def added(body: Body, op: Twice, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
        x = body.name(inputs[0])
        return body.line(f"stablehlo.add {x}, {x} : {inputs[0].type.mlir}")

    @emits(Twice, platform="cuda")
    def multiplied(body: Body, op: Twice, inputs: tuple[Atom, ...], outputs: tuple[Var, ...]) -> str:
        t = inputs[0].type
        return body.line(f"stablehlo.multiply {body.name(inputs[0])}, {body.constant(2.0, t)} : {t.mlir}")

    traced = effx.jit(lambda x: Twice()(x)).trace(enp.float32(3.0))
    for platform, line in (
        ("cpu", "stablehlo.add"),
        ("cuda", "stablehlo.multiply"),
        ("tpu", "stablehlo.add"),
    ):
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert line in text
        assert ("stablehlo.add" in text) != ("stablehlo.multiply" in text)
    assert float(Twice()(enp.float32(3.0))) == 6.0
    with pytest.raises(
        BackendError, match=r"^emits: platform must be one of cpu, cuda, rocm, tpu, got 'vulkan'"
    ):
        emits(Twice, platform="vulkan")


@pytest.mark.unguarded  # typeguard refuses the text
def test_operands_are_numbers_and_numpy_arrays_too() -> None:
    """As those of functions are, under transformations and handlers too; what is no array is refused by name."""
    pair = np.ones(2, np.float32)
    np.testing.assert_allclose(ops.Sin()(2.0), np.sin(2.0), rtol=1e-6)
    np.testing.assert_array_equal(ops.Add()(pair, 1.0), [2.0, 2.0])
    assert float(effx.jit(lambda x: ops.Mul()(x, 3.0))(2.0)) == 6.0
    assert float(effx.grad(lambda x: ops.Mul()(np.float32(3.0), x))(2.0)) == 3.0
    np.testing.assert_array_equal(effx.vmap(lambda x: ops.Add()(x, np.float32(2.0)))(pair), [3.0, 3.0])
    high = (
        IntervalArithmetic()
        .run(lambda x: ops.Mul()(2.0, x), IntervalBounds(enp.float32(1.0), enp.float32(3.0)), like=1.0)
        .high
    )
    assert float(high) == 6.0
    with pytest.raises(DTypeError, match=r"^sin: expected an array or a number, got 'a' of type str"):
        ops.Sin()("a")  # type: ignore[arg-type]  # the error is the point
    with pytest.raises(DTypeError, match=r"^add: operand dtypes differ"):
        ops.Add()(pair, np.int32(1))
