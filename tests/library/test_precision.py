"""Mixed precision, fake quantisation, low-rank weights and remat: values against NumPy, types unchanged.

Never: asserts that something merely runs.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError, ShapeError, TransformError
from effx.handling import places
from effx.ir.ops.elementwise import Sin, Tanh
from effx.ir.ops.linalg import DotGeneral
from effx.library.autocast import autocast
from effx.library.lora import LowRank, adapt, freeze, lora, merge
from effx.library.quantize import Range, calibrate, fake_quantize
from effx.library.remat import remat

RNG = np.random.default_rng(0)
X, W = (RNG.normal(size=s).astype(np.float32) for s in ((4, 8), (8, 8)))


def bf16(x: Any) -> Any:
    return np.asarray(x).astype(ml_dtypes.bfloat16).astype(np.float32)


def deep(w: Any, x: Any) -> Any:
    """Three layers in a scan, jitted."""

    def layer(h: Any, _: None) -> Any:
        return enp.tanh(h @ w), enp.sum(h)

    return effx.jit(lambda x: lax.scan(layer, x, None, length=3)[0])(x)


def test_autocast() -> None:
    """Products of rounded operands are added up in full, in a scan in jit; dtypes stay."""
    want = X
    for _ in range(3):
        want = np.tanh(bf16(want) @ bf16(W))
    for f in (autocast(deep), effx.jit(autocast(deep)), autocast(effx.jit(deep))):
        y = f(W, X)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    assert np.abs(np.asarray(deep(W, X)) - want).max() > 1e-3


def test_autocast_of_gradients() -> None:
    """Inside grad or around it: full-precision gradients near the exact ones, with backward products rounded."""
    loss = lambda w: enp.sum(deep(w, X) ** 2)  # noqa: E731
    exact = effx.grad(loss)(W)
    for g in (effx.grad(autocast(loss))(W), autocast(effx.grad(loss))(W)):
        assert g.dtype == np.float32
        difference = float(enp.max(enp.abs(g - exact)) / enp.max(enp.abs(exact)))
        assert 1e-5 < difference < 0.05
    program = effx.make_jaxpr(autocast(effx.grad(lambda w: enp.sum(X @ w @ w))))(W)
    dots = [p for p in places(program) if type(p.op) is DotGeneral]
    assert len(dots) >= 4
    assert all(t.dtype == ml_dtypes.bfloat16 for p in dots for t in p.types)


def test_autocast_scopes_and_elementwise() -> None:
    """A scope computes in full; elementwise operations are rounded on request; integers, comparisons stay."""

    def f(x: Any) -> Any:
        with effx.named_scope("head"):
            y = x @ W
        return y + (x @ W), enp.exp(x), enp.arange(3) @ enp.arange(3)

    in_full, e, i = autocast(f, full=["head"])(enp.asarray(X))
    np.testing.assert_allclose(in_full, X @ W + bf16(X) @ bf16(W), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(e, np.exp(X), rtol=1e-5)
    assert (int(i), i.dtype) == (5, np.int32)
    rounded = autocast(f, elementwise=True)(enp.asarray(X))[1]
    np.testing.assert_array_equal(rounded, bf16(np.exp(bf16(X))))
    half = autocast(lambda x: x @ x, "float16")(enp.asarray(W))
    np.testing.assert_allclose(half, W.astype(np.float16).astype(np.float32) @ W.astype(np.float16).astype(np.float32), rtol=1e-4, atol=1e-4)
    with pytest.raises(DTypeError, match="^autocast: the dtype must be a floating one, got int32"):
        autocast(f, "int32")


def test_calibration() -> None:
    """The ranges of products' operands over a scan, calls, and several data."""
    ranges, y = calibrate(effx.jit(lambda x: deep(W, x)))(X)
    hidden = [X]
    for _ in range(3):
        hidden.append(np.tanh(hidden[-1] @ W))
    np.testing.assert_allclose(y, hidden[-1], rtol=1e-4, atol=1e-5)
    (lhs, left), (rhs, right) = sorted(ranges.items())
    assert lhs.endswith("in layer lhs")
    assert rhs.endswith("in layer rhs")
    np.testing.assert_allclose([left.low, left.high], [min(h.min() for h in hidden[:3]), max(h.max() for h in hidden[:3])], rtol=1e-5)
    np.testing.assert_allclose([right.low, right.high], [W.min(), W.max()])
    wider, _ = calibrate(effx.jit(lambda x: deep(W, x)), ranges)(10 * X)
    np.testing.assert_allclose(wider[lhs].high, 10 * X.max(), rtol=1e-5)

    def untaken(x: Any) -> Any:
        return lax.cond(x[0, 0] > 1e9, lambda x: x @ x.T, lambda x: enp.zeros((4, 4)), x)

    empty = calibrate(untaken)(enp.asarray(X))[0]
    assert {(float(r.low), float(r.high)) for r in empty.values()} == {(np.inf, -np.inf)}


def test_fake_quantisation() -> None:
    """Operands stand on evenly spaced levels; with many bits little changes; gradients go straight through."""
    f = lambda x: x @ W  # noqa: E731
    ranges, _ = calibrate(f)(enp.asarray(X))

    def levels(x: Any, bits: int) -> Any:
        low, high = min(x.min(), 0.0), max(x.max(), 0.0)
        step = np.float32(high - low) / (2**bits - 1)
        start = np.round(low / step) * step
        return np.round(np.clip(x, start, start + step * (2**bits - 1)) / step) * step

    np.testing.assert_allclose(fake_quantize(f, ranges, 4)(enp.asarray(X)), levels(X, 4) @ levels(W, 4), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(fake_quantize(f, ranges, 16)(enp.asarray(X)), X @ W, rtol=1e-2, atol=1e-3)
    gradient = effx.jit(effx.grad(lambda x: enp.sum(fake_quantize(f, ranges, 8)(x))))
    np.testing.assert_allclose(gradient(X * 0.5), np.broadcast_to(levels(W, 8).sum(1), X.shape), rtol=1e-3, atol=1e-4)
    # Beyond the range nothing changes any more.
    assert float(enp.sum(enp.abs(gradient(enp.asarray(X * 0 + 100.0))))) == 0.0
    looped, _ = calibrate(lambda x: deep(W, x))(X)
    found = effx.vmap(fake_quantize(lambda x: deep(W, x), looped, 12), in_axes=0)(X[:, None])
    np.testing.assert_allclose(found[:, 0], deep(W, X), atol=2e-2)
    with pytest.raises(TransformError, match="^fake_quantize: bits must be an int from 1 to 16, got 0"):
        fake_quantize(f, ranges, 0)
    assert isinstance(next(iter(ranges.values())), Range)


KEY = effx.random.key(0)


def corrected() -> LowRank:
    w = adapt(enp.asarray(W), KEY, rank=2, alpha=3.0)
    return LowRank(w.weight, w.a, enp.asarray(RNG.normal(size=(2, 8)).astype(np.float32)), w.scale)


MODELS: dict[str, Any] = {
    "x w": lambda w, x: x @ w,
    "x w transposed": lambda w, x: x @ w.T,
    "w x": lambda w, x: w @ x.T,
    "batch of x": lambda w, x: enp.stack([x, x]) @ w,
    "jit, scan": deep,
    "vmap": lambda w, x: effx.vmap(lambda r: enp.tanh(r @ w))(x),
    "einsum": lambda w, x: enp.einsum("bi,ij->bj", x, w),
    "something else": lambda w, x: enp.sum(w * w) + x @ enp.sin(w),
    "in bfloat16": lambda w, x: (x.astype("bfloat16") @ w.astype("bfloat16")).astype("float32"),
}


@pytest.mark.parametrize("name", MODELS)
def test_lora_is_the_merged_weight(name: str) -> None:
    """An unchanged model with low-rank weights equals the model with their sums."""
    w = corrected()
    want = MODELS[name](w.weight + 1.5 * w.a @ w.b, enp.asarray(X))
    tolerance = 5e-2 if "16" in name else 1e-3
    np.testing.assert_allclose(lora(MODELS[name])(w, enp.asarray(X)), want, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(effx.jit(lora(MODELS[name]))(w, enp.asarray(X)), want, rtol=tolerance, atol=tolerance)


def test_lora_never_forms_the_sum() -> None:
    """Products have the rank as one of their sizes; no product of a and b is made."""
    program = effx.make_jaxpr(lora(lambda w, x: x @ w))(corrected(), X)
    shapes = [tuple(t.shape for t in p.types) for p in places(program) if type(p.op) is DotGeneral]
    assert ((8, 2), (2, 8)) not in shapes
    assert len(shapes) == 3


def test_lora_training() -> None:
    """Gradients reach the corrections only, also for weights stacked along a scan."""
    stack = enp.stack([enp.asarray(W)] * 3)
    w = adapt(stack, KEY, rank=2)
    assert (w.a.shape, w.b.shape, w.scale.shape) == ((3, 8, 2), (3, 2, 8), (3,))

    def model(w: Any, x: Any) -> Any:
        return lax.scan(lambda h, v: (enp.tanh(h @ v), None), x, w)[0]

    np.testing.assert_allclose(lora(model)(w, X), model(stack, X), rtol=1e-5)
    gradient = effx.jit(effx.grad(lambda w: enp.sum(lora(model)(freeze(w), X))))(w)
    assert float(enp.max(enp.abs(gradient.weight))) == 0.0
    assert float(enp.max(enp.abs(gradient.a))) == 0.0  # b is zero
    bumped = lambda t: enp.sum(model(stack + enp.zeros_like(stack).at[1].add(t * (w.a[1] @ enp.ones((2, 8))) * 0.5), X))  # noqa: E731
    np.testing.assert_allclose(enp.sum(gradient.b[1]), effx.grad(bumped)(0.0), rtol=1e-3)
    np.testing.assert_allclose(merge({"w": w, "b": X})["w"], stack)
    with pytest.raises(ShapeError, match=r"^lora: a weight has two axes and a rank of at least 1, got f32\[3\] and 1"):
        adapt(enp.zeros(3), KEY, 1)


def test_remat() -> None:
    """Gradients are those of the function; what is kept is what was asked for, by class, scope and size."""

    def f(w: Any) -> Any:
        with effx.named_scope("first"):
            h = enp.tanh(X @ w)
        with effx.named_scope("second"):
            h = enp.sin(h @ w)
        return enp.sum(h)

    exact = effx.grad(f)(W)

    def kept(**options: Any) -> list[str]:
        g = remat(f, **options)
        np.testing.assert_allclose(effx.jit(effx.grad(g))(W), exact, rtol=1e-4, atol=1e-5)
        program = effx.make_jaxpr(effx.grad(g))(W)
        return [p.op.name for p in places(program) if type(p.op) in (DotGeneral, Sin, Tanh)]

    nothing, dots = kept(keep=[]), kept()
    # Two products forward, three backward; without keeping, the forward ones are done again.
    assert dots.count("dot_general") == 5
    assert nothing.count("dot_general") > dots.count("dot_general")
    assert dots.count("tanh") == 2
    assert kept(keep=[DotGeneral, Tanh]).count("tanh") == 1
    assert kept(scopes=["second"]).count("dot_general") == 6
    assert kept(at_most=16).count("dot_general") == nothing.count("dot_general")
    np.testing.assert_allclose(effx.grad(remat(f, offload=True))(W), exact, rtol=1e-4, atol=1e-5)
    with pytest.raises(TransformError, match="^remat: keep takes operation classes or traits, got 'dot'"):
        remat(f, keep=["dot"])  # type: ignore[list-item]  # wrong on purpose
