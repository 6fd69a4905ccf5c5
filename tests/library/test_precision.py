"""Mixed precision, fake quantisation, low-rank weights and remat: values against NumPy, types unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.errors import DTypeError, ShapeError, TransformError
from effx.families.sort import Sort
from effx.handling import places
from effx.ir.ops.elementwise import Sin, Tanh
from effx.ir.ops.linalg import DotGeneral
from effx.library.autocast import autocast
from effx.library.lora import LowRank, adapt, freeze, lora, merge
from effx.library.quantize import Range, calibrate, fake_quantize
from effx.library.remat import remat

Model = Callable[..., Any]
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


def test_autocast_of_convolutions() -> None:
    """They are products too."""
    x, k = X[None, None], W[None, None, :2, :2]

    def f(x: Any, k: Any) -> Any:
        return lax.conv(x, k, (1, 1), "VALID")

    y = autocast(f)(x, k)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, f(bf16(x), bf16(k)), rtol=1e-4, atol=1e-5)
    assert np.abs(np.asarray(f(x, k)) - np.asarray(y)).max() > 1e-3


def test_quantized_convolutions() -> None:
    """Their operands are calibrated and rounded as those of matrix products."""
    k = W[None, None, :3, :2]

    def f(x: Any) -> Any:
        return lax.conv(x[None, None], k, (1, 1), "VALID")

    ranges, y = calibrate(f)(enp.asarray(X))
    np.testing.assert_allclose(np.ravel(y), np.ravel(f(X)))
    assert [float(r.high) for _, r in sorted(ranges.items())] == [float(np.max(X)), float(np.max(k))]
    near = np.abs(np.asarray(fake_quantize(f, ranges, 12)(enp.asarray(X)) - y)).max()
    far = np.abs(np.asarray(fake_quantize(f, ranges, 3)(enp.asarray(X)) - y)).max()
    assert 0 < 20 * near < far


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
    narrow = W.astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(half, narrow @ narrow, rtol=1e-4, atol=1e-4)
    with pytest.raises(DTypeError, match=r"^autocast: the dtype must be a floating one, got int32"):
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
    np.testing.assert_allclose(
        [left.low, left.high],
        [min(float(np.min(h)) for h in hidden[:3]), max(float(np.max(h)) for h in hidden[:3])],
        rtol=1e-5,
    )
    np.testing.assert_allclose([right.low, right.high], [np.min(W), np.max(W)])
    wider, _ = calibrate(effx.jit(lambda x: deep(W, x)), ranges)(10 * X)
    np.testing.assert_allclose(wider[lhs].high, 10 * np.max(X), rtol=1e-5)

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

    np.testing.assert_allclose(
        fake_quantize(f, ranges, 4)(enp.asarray(X)), levels(X, 4) @ levels(W, 4), rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(fake_quantize(f, ranges, 16)(enp.asarray(X)), X @ W, rtol=1e-2, atol=1e-3)
    gradient = effx.jit(effx.grad(lambda x: enp.sum(fake_quantize(f, ranges, 8)(x))))
    np.testing.assert_allclose(
        gradient(X * 0.5), np.broadcast_to(levels(W, 8).sum(1), X.shape), rtol=1e-3, atol=1e-4
    )
    # Beyond the range nothing changes any more.
    assert float(enp.sum(enp.abs(gradient(enp.asarray(X * 0 + 100.0))))) == 0.0
    looped, _ = calibrate(lambda x: deep(W, x))(X)
    found = effx.vmap(fake_quantize(lambda x: deep(W, x), looped, 12), in_axes=0)(X[:, None])
    np.testing.assert_allclose(found[:, 0], deep(W, X), atol=2e-2)
    with pytest.raises(TransformError, match=r"^fake_quantize: bits must be an int from 1 to 16, got 0"):
        fake_quantize(f, ranges, 0)
    assert isinstance(next(iter(ranges.values())), Range)


def test_ranges_of_one_jitted_function_in_two_scopes() -> None:
    """Each scope's products have ranges of their own."""
    product = effx.jit(lambda x: x @ x)

    def f(x: Any) -> Any:
        with effx.named_scope("first"):
            x = product(x)
        with effx.named_scope("second"):
            return product(x)

    ranges, _ = calibrate(f)(2.0 * enp.ones((2, 2)))
    found = {(name.split()[0], name.split()[-1]): float(r.high) for name, r in ranges.items()}
    assert found == {
        (s, side): high for s, high in (("first", 2.0), ("second", 8.0)) for side in ("lhs", "rhs")
    }


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
    "rows": lambda w, x: w[enp.array([[1, 3], [0, 7]])],
    "a row": lambda w, x: w[enp.int32(2)] + w[-1] + w[1:3][0],
    "rows one after another": lambda w, x: lax.scan(lambda c, r: (c + r, r), x[0], w),
    "a column": lambda w, x: w[:, enp.array([1, 3])] * w[:, 2:3],
    "in few bits, added up in many": lambda w, x: (
        lax.dot_general(
            x.astype("bfloat16"),
            w.astype("bfloat16"),
            (((1,), (0,)), ((), ())),
            preferred_element_type="float32",
        )
        + 0 * w.astype("float16").astype("float32")[:4]
    ),
    "as integers (16)": lambda w, x: (w * 1000).astype("int32") // 16 + w.astype("int32"),
    "mixed precision (16)": lambda w, x: autocast(lambda w: x @ w)(w),
    "in a branch": lambda w, x: lax.cond(x[0, 0] > 9, lambda v: x @ (v + 1), lambda v: x @ v, w),
    "carried": lambda w, x: lax.fori_loop(0, 3, lambda i, c: (c[0] * 0.5, c[1] + x @ c[0]), (w, x * 0))[1],
    "pmap": lambda w, x: effx.pmap(lambda r: r @ w)(x),
    "checkpoint, grad": lambda w, x: effx.grad(effx.checkpoint(lambda x: enp.sum(enp.tanh(x @ w))))(x),
    "something else": lambda w, x: enp.sum(w * w) + x @ enp.sin(w),
    "in bfloat16": lambda w, x: (x.astype("bfloat16") @ w.astype("bfloat16")).astype("float32"),
}


@pytest.mark.parametrize("name", MODELS)
def test_lora_is_the_merged_weight(name: str) -> None:
    """An unchanged model with low-rank weights equals the model with their sums."""
    w = corrected()
    want = MODELS[name](w.weight + 1.5 * w.a @ w.b, enp.asarray(X))
    tolerance = 1e-1 if "16" in name or "bits" in name else 1e-3
    for f in (lora(MODELS[name]), effx.jit(lora(MODELS[name]))):
        found, structure = effx.tree.flatten(f(w, enp.asarray(X)))
        assert structure == effx.tree.structure(want)
        for x, y in zip(found, effx.tree.leaves(want), strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def test_lora_never_forms_the_sum() -> None:
    """Products have the rank as one of their sizes; no product of a and b is made."""
    program = effx.make_jaxpr(lora(lambda w, x: x @ w))(corrected(), X)
    shapes = [tuple(t.shape for t in p.types) for p in places(program) if type(p.op) is DotGeneral]
    assert ((8, 2), (2, 8)) not in shapes
    assert len(shapes) == 3


def heads(inputs: int) -> LowRank:
    """A weight f[2,4,3] with one or two axes of inputs, and a correction of rank 2."""
    w = adapt(RNG.normal(size=(2, 4, 3)).astype(np.float32), KEY, rank=2, alpha=3.0, inputs=inputs)
    return w.mapped(w.weight, w.a, enp.asarray(RNG.normal(size=w.b.shape).astype(np.float32)))


# By the numbers of inputs: a product with the weight's axes named i, j and k, and of whatever shape.
THROUGH: dict[str, tuple[int, Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "to heads": (1, lambda w, x: enp.einsum("bi,ijk->bjk", x, w), (5, 2)),
    "to heads, left": (1, lambda w, x: enp.einsum("ijk,ib->jkb", w, x), (2, 5)),
    "from heads": (2, lambda w, x: enp.einsum("bij,ijk->bk", x, w), (5, 2, 4)),
    "from heads, turned": (2, lambda w, x: enp.einsum("bji,ijk->bk", x, w), (5, 4, 2)),
    "back from heads": (1, lambda w, x: enp.einsum("bjk,ijk->bi", x, w), (5, 4, 3)),
    "back to heads": (2, lambda w, x: enp.einsum("ijk,bk->ijb", w, x), (5, 3)),
    "heads as one axis": (1, lambda w, x: x @ w.reshape(2, 12), (5, 2)),
    "one axis from heads": (2, lambda w, x: x @ w.reshape(8, 3), (5, 8)),
    "transposed": (1, lambda w, x: enp.tensordot(x, w.transpose(2, 1, 0), 2), (5, 3, 4)),
    "transposed within": (2, lambda w, x: enp.tensordot(x, w.transpose(1, 0, 2), 2), (5, 4, 2)),
    "in float16 and back": (1, lambda w, x: enp.tensordot(x, w.astype("float32"), 1), (5, 2)),
}
# These get the sum.
SUMMED: dict[str, tuple[int, Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "some of the axes": (1, lambda w, x: enp.einsum("bik,ijk->bj", x, w), (5, 2, 3)),
    "other sizes": (1, lambda w, x: w.reshape(3, 8) @ x, (8, 5)),
    "mixed": (2, lambda w, x: w.transpose(0, 2, 1) @ x, (2, 4, 5)),
    "batched": (1, lambda w, x: enp.einsum("ib,ijk->ibjk", x, w), (2, 5)),
    "by rows": (1, lambda w, x: lax.scan(lambda c, r: (c, r @ x), 0.0, w)[1], (3, 5)),
    "carried": (1, lambda w, x: lax.fori_loop(0, 2, lambda i, c: c * 0.5 + x, w), (2, 4, 3)),
    "a row": (1, lambda w, x: w[1] * x + w[lax.max(1, 0)], (4, 3)),
}


@pytest.mark.parametrize("name", [*THROUGH, *SUMMED])
def test_lora_of_several_axes(name: str) -> None:
    """A weight of heads with its correction is the sum, which products never form."""
    inputs, f, shape = {**THROUGH, **SUMMED}[name]
    w, x = heads(inputs), RNG.normal(size=shape).astype(np.float32)
    assert (w.inputs, w.b.ndim) == (inputs, 4 - inputs)
    whole = w.weight + 1.5 * enp.tensordot(w.a, w.b, 1)
    np.testing.assert_allclose(lora(f)(w, x), f(whole, x), rtol=1e-4, atol=1e-4)
    program = effx.make_jaxpr(lora(f))(w, x)
    made = {t.size for p in places(program) if type(p.op) is DotGeneral for t in p.result_types}
    assert (name in SUMMED) == (24 in made)


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

    def bumped(t: Any) -> Any:
        change = t * (w.a[1] @ enp.ones((2, 8))) * 0.5
        return enp.sum(model(stack + enp.zeros_like(stack).at[1].add(change), X))

    np.testing.assert_allclose(enp.sum(gradient.b[1]), effx.grad(bumped)(0.0), rtol=1e-3)
    np.testing.assert_allclose(merge({"w": w, "b": X})["w"], stack)
    with pytest.raises(
        ShapeError, match=r"^lora: a weight has two axes and a rank of at least 1, got f32\[3\] and 1"
    ):
        adapt(enp.zeros(3), KEY, 1)


def test_remat() -> None:
    """Gradients are those of the function; the residuals are the requested ones, by class, scope and size."""

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
    with pytest.raises(TransformError, match=r"^remat: keep takes operation classes or traits, got 'dot'"):
        remat(f, keep=["dot"])  # type: ignore[list-item]  # wrong on purpose


def test_lora_takes_rows_of_the_factors() -> None:
    """Rows of a weight are looked up without forming the sum: nothing has its size but the weight itself."""
    for f in (
        lambda w, i: w[i],
        lambda w, i: w[i[0]],
        lambda w, i: w[2:4],
        lambda w, i: enp.take(w, i, axis=0),
    ):
        program = effx.make_jaxpr(lora(f))(corrected(), enp.array([1, 3]))
        assert all(t.shape != W.shape for p in places(program) for t in p.result_types)


def test_lora_is_traced_once() -> None:
    """A jitted model under low-rank weights is not traced again for each call."""
    count: list[int] = []

    def model(w: Any, x: Any) -> Any:
        count.append(1)
        return x @ w

    for f in (lora(effx.jit(model)), effx.jit(lora(model))):
        count.clear()
        for _ in range(3):
            f(corrected(), x=enp.asarray(X))
        assert len(count) == 1


def test_many_adapters() -> None:
    """A batch of corrections shares one weight."""
    w = corrected()
    many = LowRank(w.weight, enp.stack([w.a, 2 * w.a]), enp.stack([w.b, w.b]), w.scale)
    axes: Any = LowRank(None, 0, 0, None)  # type: ignore[arg-type]  # axes in the place of arrays
    found = effx.vmap(lora(lambda w, x: x @ w), (axes, None))(many, X)
    for row, factor in zip(found, (1.5, 3.0), strict=True):
        np.testing.assert_allclose(row, X @ np.asarray(w.weight + factor * w.a @ w.b), rtol=1e-3, atol=1e-3)


@pytest.mark.unguarded
def test_wrong_adapters() -> None:
    """Ranks are ints, weights floating."""
    with pytest.raises(ShapeError, match=r"got f32\[8,8\] and 2.5"):
        adapt(W, KEY, 2.5)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(DTypeError, match=r"^lora: a weight must be floating, got i32\[2,2\]"):
        adapt(np.ones((2, 2), np.int32), KEY, 1)
    with pytest.raises(ShapeError, match=r"^lora: inputs must be from 1 to 1 axes of f32\[8,8\], got 2"):
        adapt(W, KEY, 1, inputs=2)


def test_autocast_leaves_what_is_narrow_or_computes_nothing() -> None:
    """Inputs in few bits, complex numbers, 64-bit sums; choices, neighbours and predicates are those of full precision."""
    f = autocast(lambda x: x @ x, "float16")
    for dtype in ("bfloat16", "float16", "complex64", "int32"):
        x = enp.ones((2, 2), dtype)
        (dot,) = places(effx.make_jaxpr(f)(x))
        assert [t.dtype for t in (*dot.types, *dot.result_types)] == [x.dtype] * 3
    with effx.enable_x64():
        assert autocast(lambda x: enp.einsum("bij,bjk->bik", x, x))(np.ones((1, 2, 2))).dtype == np.float64
    x = enp.array([1.001, 2.002])
    g = autocast(
        lambda x: (enp.nextafter(x, x + 1), enp.maximum(x, 0), lax.complex(x, x), x == x[0]), elementwise=True
    )
    for y, z in zip(
        g(x), (np.nextafter(x, np.float32(9)), x, np.asarray(x) * (1 + 1j), [True, False]), strict=True
    ):
        np.testing.assert_array_equal(y, z)
    assert autocast(lambda x: x @ x, full="head")(enp.eye(2)).dtype == np.float32
    for wrong in (None, "nothing"):
        with pytest.raises(
            DTypeError, match=r"^autocast: the dtype must be a floating one, got (None|'nothing')"
        ):
            autocast(f, wrong)


def test_ranges_of_all_turns() -> None:
    """While loops, functions called twice, batches in and around: ranges are those of everything that was seen."""
    shrink: Model = lambda x: x @ (enp.eye(8) * 0.1)  # noqa: E731
    loop: Model = lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, shrink(c[1])), (0, x))[1]  # noqa: E731
    jitted = effx.jit(shrink)
    thrice: Model = lambda x: jitted(jitted(jitted(x)))  # noqa: E731
    forms: list[Model] = [loop, thrice, effx.vmap(loop), effx.pmap(loop), effx.checkpoint(loop)]
    for f in forms:
        x = enp.asarray(X[:, None] if f is not loop else X)
        found = calibrate(f)(x)[0]
        left, right = (found[k] for k in sorted(found))
        np.testing.assert_allclose([left.low, left.high], [np.min(X), np.max(X)], rtol=1e-6)
        np.testing.assert_allclose([right.low, right.high], [0.0, 0.1], rtol=1e-6)
    rows = effx.vmap(calibrate(loop))(enp.asarray(X[:, None]))[0]
    low = rows[min(rows)].low
    np.testing.assert_allclose(low, [min(r.min(), (0.01 * r).min()) for r in X], rtol=1e-5)
    quantized = fake_quantize(loop, rows, 16)(enp.asarray(X))  # of all batch elements together
    np.testing.assert_allclose(quantized, loop(enp.asarray(X)), atol=1e-4)


@pytest.mark.unguarded
def test_empty_and_unseen_ranges() -> None:
    """What was never seen stays as it is; what was zero is zero; negative ranges reach up to zero."""
    f: Model = lambda x: lax.cond(x[0, 0] > 1e6, lambda x: x @ (W * 1e-3), lambda x: x, x)  # noqa: E731
    ranges = calibrate(f)(enp.asarray(X))[0]
    far = enp.asarray(X).at[0, 0].set(1e7)
    np.testing.assert_allclose(fake_quantize(f, ranges)(far), f(far))
    nothing = calibrate(lambda x: x @ W)(enp.zeros((0, 8)))[0]
    np.testing.assert_allclose(
        fake_quantize(lambda x: x @ W, {k: v for k, v in nothing.items() if "lhs" in k})(X), X @ W, rtol=1e-4
    )
    one = lambda x: x @ enp.ones((8, 1))  # noqa: E731
    zero = {k: Range(enp.zeros(()), enp.zeros(())) for k in calibrate(one)(enp.asarray(X))[0] if "lhs" in k}
    assert fake_quantize(one, zero)(enp.asarray(X)).ravel().tolist() == [0.0] * 4
    negative = {k: Range(enp.float32(-3.0), enp.float32(-1.0)) for k in zero}
    levels = fake_quantize(one, negative, bits=2)(enp.array([[-2.9] + [0.0] * 7, [5.0] + [-1.2] * 7]))
    np.testing.assert_allclose(levels.ravel(), [-3.0, -7.0])
    with pytest.raises(TransformError, match=r"^fake_quantize: expected ranges by name, got 3 for 'a'"):
        fake_quantize(one, {"a": 3})  # type: ignore[dict-item]  # wrong on purpose


def test_remat_saves_memory() -> None:
    """In a loop whose body is rematerialised, an iteration saves the requested residuals."""
    x, w = enp.ones((256, 16)), enp.eye(16)

    def used(wrap: Any) -> int:
        body = wrap(lambda c, _: (enp.sin(enp.cos(enp.sin(c @ w))), None))
        f = effx.grad(lambda x: enp.sum(lax.scan(body, x, None, length=8)[0]))
        np.testing.assert_allclose(f(x), exact, rtol=1e-4, atol=1e-6) if exact is not None else None
        memory: Any = effx.jit(f).lower(x).compile().memory_analysis()
        return int(memory.temp_size_in_bytes)

    exact = None
    exact = effx.grad(
        lambda x: enp.sum(lax.fori_loop(0, 8, lambda i, c: enp.sin(enp.cos(enp.sin(c @ w))), x))
    )(x)
    plain, dots, nothing = used(lambda f: f), used(remat), used(lambda f: remat(f, keep=[]))
    assert dots < 0.75 * plain
    assert nothing < 0.75 * plain


def test_remat_of_several_results() -> None:
    """Operations with several results are saved too; one class and one scope need no list."""
    f = lambda x: enp.sum(lax.sort((x, x * 2.0), num_keys=1)[1] ** 2)  # noqa: E731
    x = enp.array([3.0, 1.0, 2.0])

    def named(**options: Any) -> int:
        g = remat(f, **options)
        assert effx.grad(g)(x).tolist() == [24.0, 8.0, 16.0]
        return [p.op.name for p in places(effx.make_jaxpr(g)(x))].count("checkpoint_name")

    assert [named(keep=Sort), named(keep=[]), named(keep=Sort, scopes="elsewhere")] == [2, 0, 0]
