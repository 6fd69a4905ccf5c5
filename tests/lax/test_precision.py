"""How products and functions are to be computed: algorithms, scales of blocks, accuracies."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import BackendError, DTypeError, ShapeError

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 64)).astype(np.float32), RNG.normal(size=(64, 3)).astype(np.float32)
Preset = lax.DotAlgorithmPreset
ON_CPU = (
    "F16_F16_F16",
    "BF16_BF16_F32",
    "BF16_BF16_F32_X3",
    "BF16_BF16_F32_X6",
    "F32_F32_F32",
    "F64_F64_F64",
)


@pytest.mark.parametrize("name", ON_CPU)
def test_algorithms_of_cpus(name: str) -> None:
    """The result keeps the operands' dtype, and has at least the algorithm's precision."""
    exact = A.astype(np.float64) @ B
    tolerance = 0.05 if name == "F16_F16_F16" else 0.2 if name == "BF16_BF16_F32" else 1e-5
    found = lax.dot(A, B, precision=lax.DotAlgorithmPreset(name))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, atol=tolerance)
    text = effx.jit(lambda a, b: enp.matmul(a, b, precision=name)).lower(A, B).as_text()
    assert "algorithm = <lhs_precision_type" in text
    small = A.astype(ml_dtypes.bfloat16)
    assert enp.einsum("ij,kj->ik", small, small, precision=name).dtype == ml_dtypes.bfloat16


def test_algorithms_by_dtypes() -> None:
    """A preset, its name, or its parts; the derivative and the batch are computed in the same way."""
    algorithm = lax.DotAlgorithm(np.float64, "float64", np.float64)
    want = np.asarray(lax.dot(A, B, precision="F64_F64_F64"))
    np.testing.assert_array_equal(lax.dot(A, B, precision=algorithm), want)
    slope = effx.grad(lambda a: lax.dot(a, B, precision=algorithm).sum())
    np.testing.assert_allclose(slope(A), np.broadcast_to(B.sum(1), A.shape), rtol=1e-6)
    assert "algorithm" in effx.jit(slope).lower(A).as_text().split("func.func private")[-1]
    np.testing.assert_allclose(effx.vmap(lambda a: enp.dot(a, B, precision=algorithm))(A), want, rtol=1e-6)
    np.testing.assert_array_equal(lax.dot(A, B, precision=Preset.DEFAULT), lax.dot(A, B))
    assert (
        lax.dot(A, B, precision="F32_F32_F32", preferred_element_type="bfloat16").dtype == ml_dtypes.bfloat16
    )
    np.testing.assert_array_equal(
        lax.dot(np.ones((2, 3), np.int32), np.ones(3, np.int32), precision="F32_F32_F32"), [3, 3]
    )


def test_what_presets_say_of_themselves() -> None:
    names = {"float16", "float32"}
    preset = Preset.F16_F16_F32
    assert preset.accumulation_type == np.float32
    assert preset.supported_lhs_types == preset.supported_rhs_types == (np.dtype(np.float16),)
    assert {d.name for d in preset.supported_output_types("float16", "float16") or ()} == names
    assert Preset.TF32_TF32_F32_X3.supported_lhs_types == (np.dtype(np.float32),)
    assert Preset.BF16_BF16_F32.supported_lhs_types == (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32))
    assert Preset.DEFAULT.accumulation_type is None is Preset.ANY_F8_ANY_F8_ANY.accumulation_type
    assert Preset.ANY_F8_ANY_F8_F32.accumulation_type == np.float32
    assert Preset.ANY_F8_ANY_F8_F32.supported_lhs_types is None


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: lax.dot(A, B, precision="TF32_TF32_F32"),
            BackendError,
            "dot_general: XLA has no algorithm TF32_TF32_F32 on CPUs, only " + ", ".join(ON_CPU),
        ),
        (
            lambda: lax.dot(A, B, precision=lax.DotAlgorithm("float16", "float32", "float32")),
            BackendError,
            "dot_general: XLA has no algorithm ('f16', 'f32', 'f32', 1, 1, 1, False) on CPUs, only "
            + ", ".join(ON_CPU),
        ),
        (
            lambda: lax.conv(np.ones((1, 1, 3)), np.ones((1, 1, 2)), (1,), "SAME", precision="F32_F32_F32"),
            DTypeError,
            "conv: precision must be 'default', 'high' or 'highest', got 'F32_F32_F32'",
        ),
        (
            lambda: lax.scaled_dot(A, B, lhs_scale=A),
            ShapeError,
            (
                "scaled_dot: lhs_scale must have the shape of lhs f32[4,64], but along the contracted axes (1,) the size "
                "divided by at least 2, got f32[4,64]"
            ),
        ),
        (
            lambda: lax.scaled_dot(A[None, None], B),
            ShapeError,
            "scaled_dot: operands must both have two or three axes, got f32[1,1,4,64] and f32[64,3]; give dimension_numbers",
        ),
        (
            lambda: lax.scaled_dot(np.ones((2, 2), np.int8), B[:2]),
            DTypeError,
            "scaled_dot: lhs must be floating, got i8[2,2]",
        ),
        (
            lambda: lax.exp(A, accuracy="highest"),  # type: ignore[call-overload]  # is refused
            DTypeError,
            "exp: accuracy must be a Tolerance, an AccuracyMode or None, got 'highest' of type str",
        ),
        (
            lambda: lax.erfc(A, accuracy=lax.AccuracyMode.HIGHEST),
            BackendError,
            "erfc: StableHLO has no accuracy for it but AccuracyMode.DEFAULT",
        ),
        (lambda: lax.Tolerance(-1.0), DTypeError, "Tolerance: tolerances must not be negative, got -1.0"),
        (lambda: lax.Tolerance(), DTypeError, "Tolerance: one of atol, rtol and ulps must be above 0"),
    ],
)
def test_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).split("\n")[0] == text


def test_scaled_dot() -> None:
    """Scales of blocks of 8-bit floats, with a batch or other axes; what has no scale; the slope in a scale."""
    e4, e8 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    x, y = A.astype(e4), B.astype(e4)
    sx, sy = (2.0 ** RNG.integers(-2, 3, (4, 8))).astype(e8), (2.0 ** RNG.integers(-2, 3, (16, 3))).astype(e8)
    wide = x.astype(float) * np.repeat(sx.astype(float), 8, 1)
    want = wide @ (y.astype(float) * np.repeat(sy.astype(float), 4, 0))
    found = lax.scaled_dot(x, y, lhs_scale=sx, rhs_scale=sy, preferred_element_type=np.float32)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-4)
    rounded = lax.scaled_dot(x, y, lhs_scale=sx, rhs_scale=sy)
    np.testing.assert_array_equal(rounded, np.asarray(found).astype(ml_dtypes.bfloat16))
    stack = lax.scaled_dot(x[None], y[None], lhs_scale=sx[None], preferred_element_type=np.float32)
    np.testing.assert_allclose(stack[0], wide @ y.astype(float), rtol=1e-5, atol=1e-4)
    numbers = (((0,), (0,)), ((), ()))
    turned = lax.scaled_dot(
        x.T, y, lhs_scale=sx.T, dimension_numbers=numbers, preferred_element_type=np.float32
    )
    np.testing.assert_allclose(turned, stack[0], rtol=1e-6)
    slope = effx.grad(lambda s: lax.scaled_dot(A, B, lhs_scale=s, preferred_element_type=np.float32).sum())
    want = (A * B.sum(1)).reshape(4, 8, 8).sum(-1)
    np.testing.assert_allclose(slope(sx.astype(np.float32)), want, rtol=1e-3, atol=1e-4)


FUNCTIONS = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "logistic",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sqrt",
    "rsqrt",
    "cbrt",
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracies(name: str) -> None:
    """It is in XLA's text, of the value's derivative too; the default one is left out."""
    function, x = getattr(lax, name), np.linspace(0.2, 1.5, 5, dtype=np.float32)
    tolerance = lax.Tolerance(atol=1e-3, ulps=4)

    def rough(x: Any) -> Any:
        return function(x, accuracy=tolerance)

    np.testing.assert_allclose(rough(x), function(x), rtol=1e-3)
    derivative = effx.jit(effx.vmap(effx.value_and_grad(rough)))
    _, slope = derivative(x)
    np.testing.assert_allclose(slope, effx.vmap(effx.grad(function))(x), rtol=1e-3)
    text = derivative.lower(x).as_text()
    assert "ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>" in text
    best = effx.jit(lambda x: function(x, accuracy=lax.AccuracyMode.HIGHEST)).lower(x).as_text()
    assert "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>" in best
    usual = effx.jit(lambda x: function(x, accuracy=lax.AccuracyMode.DEFAULT)).lower(x).as_text()
    assert "result_accuracy" not in usual


def test_a_matrix_times_each_of_a_batch_of_vectors_is_one_product_with_the_batch_in_front() -> None:
    """The vectors are its rows, so that nothing is transposed, and each operand keeps its precision."""
    rng = np.random.default_rng(0)
    w, xs = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=(5, 3)).astype(np.float32)
    f = effx.jit(effx.vmap(lambda x: lax.dot(w, x, precision=("high", "highest"))))
    program = f.trace(xs).program
    assert [e.op.name for e in program.equations] == ["dot_general"]
    assert "precision=('HIGHEST', 'HIGH')" in str(program)
    np.testing.assert_allclose(f(xs), xs @ w.T, rtol=1e-5)
    # With a batch of matrices around it that the operands share.
    ws, batch = rng.normal(size=(2, 4, 3)), rng.normal(size=(5, 2, 3))
    inner = effx.vmap(lambda a, x: a @ x)
    got = effx.vmap(inner, in_axes=(None, 0))(ws, batch)
    np.testing.assert_allclose(got, np.einsum("kij,bkj->bki", ws, batch), rtol=1e-4)
