"""Units of measure: results have the right units, and a mismatch is an error that explains it.

Never: computes a unit by the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import Array, lax
from effx.handling import Reference, coverage, handle
from effx.library.units import Quantity, Unit, UnitError, quantity, with_units
from effx.library.units.handler import Units

M, S, KG = (quantity(v, u) for v, u in ((3.0, "m"), (2.0, "s"), (5.0, "kg")))
ROW = quantity(np.array([1.0, 2.0, 4.0], np.float32), "m")

RESULTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float | list[float], str]] = {
    "sum": (lambda a: a + a, (M,), 6.0, "m"),
    "speed": (lambda a, b: a / b, (M, S), 1.5, "m/s"),
    "energy": (lambda m, a, b: 0.5 * m * (a / b) ** 2, (KG, M, S), 5.625, "kg*m^2/s^2"),
    "square root": (lambda a, b: enp.sqrt(a * a / b**4), (M, S), 0.75, "m/s^2"),
    "written power": (lambda a: a**1.5, (M,), 3.0**1.5, "m^(3/2)"),
    "reciprocal": (lambda a: 1.0 / a, (S,), 0.5, "1/s"),
    "ratio": (lambda a: enp.exp(a / a), (M,), np.e, "1"),
    "mean": (lambda a: a.mean(), (ROW,), 7 / 3, "m"),
    "variance": (lambda a: enp.sum((a - a.mean()) ** 2), (ROW,), 14 / 3, "m^2"),
    "product": (lambda a: enp.prod(a), (ROW,), 8.0, "m^3"),
    "dot": (lambda a, b: a @ (a * b), (ROW, S), 42.0, "m^2*s"),
    "convolution": (
        lambda a, b: lax.conv(a[None, None], (a * b)[None, None, 1:], (1,), "VALID")[0, 0],
        (ROW, S),
        [20.0, 40.0],
        "m^2*s",
    ),
    "pooling": (
        lambda a: -enp.sum(effx.grad(lambda v: lax.reduce_window(-v * v, -np.inf, lax.max, (2,)).sum())(a)),
        (ROW,),
        6.0,
        "m",
    ),
    "sort": (lambda a: enp.sort(-a), (ROW,), [-4.0, -2.0, -1.0], "m"),
    "index": (lambda a: a[enp.array([2, 0])], (ROW,), [4.0, 1.0], "m"),
    "where": (lambda a: enp.where(a > a.mean(), a, 0.0), (ROW,), [0.0, 0.0, 4.0], "m"),
    "running sum": (lambda a: enp.cumsum(a), (ROW,), [1.0, 3.0, 7.0], "m"),
    "at": (lambda a: a.at[0].set(a[2]), (ROW,), [4.0, 2.0, 4.0], "m"),
    "concatenate": (lambda a: enp.concatenate([a, a])[2:4], (ROW,), [4.0, 1.0], "m"),
    "plain stays plain": (lambda a, x: x + 1.0, (M, 2.0), 3.0, "1"),
    "scan from zero": (lambda a: lax.scan(lambda c, v: (c + v, None), 0.0, a)[0], (ROW,), 7.0, "m"),
    "cond": (lambda a: lax.cond(a[0] > a[1], lambda v: v.sum(), lambda v: v.max(), a), (ROW,), 4.0, "m"),
    "branch of zero": (lambda a: lax.cond(True, lambda v: v, lambda v: 0.0, a), (M,), 3.0, "m"),
    "while": (
        lambda a, b: lax.while_loop(lambda c: c < b, lambda c: c + c, a),
        (M, quantity(20.0, "m")),
        24.0,
        "m",
    ),
    "jit": (lambda a, b: effx.jit(lambda x, y: x * y)(a, b), (M, S), 6.0, "m*s"),
    "vmap inside": (lambda a: effx.vmap(lambda v: v * v)(a), (ROW,), [1.0, 4.0, 16.0], "m^2"),
    # The derivative by metres of a square has metres.
    "checkpoint": (lambda a: effx.checkpoint(lambda v: v * v)(a), (M,), 9.0, "m^2"),
    "sum of zeros made inside": (
        lambda a: effx.jit(lambda a: enp.zeros(3).at[0].add(a[0]) + enp.zeros(3))(a),
        (ROW,),
        [1.0, 0.0, 0.0],
        "m",
    ),
    "least with a start": (lambda a: enp.min(a, initial=enp.inf), (ROW,), 1.0, "m"),
    "filled": (
        lambda a: effx.jit(lambda a: enp.take(a, enp.array([1, 7]), fill_value=enp.nan)[:1])(a),
        (ROW,),
        [2.0],
        "m",
    ),
    "anything to the power of 0": (lambda a: (0.0 * a) ** 0 + a**0, (M,), 2.0, "1"),
    "powers of a plain array": (
        lambda a: a ** enp.array([1.0, 2.0, 3.0]),
        (quantity(2.0, ""),),
        [2.0, 4.0, 8.0],
        "1",
    ),
    "one power for all": (lambda a: a ** np.array([2.0, 2.0, 2.0]), (ROW,), [1.0, 4.0, 16.0], "m^2"),
    "product along an axis": (
        lambda a: enp.prod(a[None] * a[:2, None], axis=0),
        (ROW,),
        [2.0, 8.0, 32.0],
        "m^4",
    ),
    "product of nothing": (lambda a: enp.prod(a[:0]), (ROW,), 1.0, "1"),
    "whole part": (lambda a: a // a[0] + a % a[0] / a[0], (ROW,), [1.0, 2.0, 4.0], "1"),
    "angle": (lambda a: enp.arctan2(a, a), (M,), np.pi / 4, "1"),
    "index of the largest": (lambda a: enp.argmax(a), (ROW,), 2, "1"),
    "median": (lambda a: enp.median(a), (ROW,), 2.0, "m"),
    "einsum": (lambda a, b: enp.einsum("i,j->j", a, a) / b, (ROW, S), [3.5, 7.0, 14.0], "m^2/s"),
    "factors of rows": (lambda a: a.at[1].multiply(2.0), (ROW,), [1.0, 4.0, 4.0], "m"),
    "complex": (lambda a: abs(lax.complex(a, a * 0.0)), (M,), 3.0, "m"),
    "noise": (lambda a: a + 0.0 * effx.random.normal(effx.random.key(0)) * a, (M,), 3.0, "m"),
    "counter": (lambda a: lax.fori_loop(0, 3, lambda i, c: c + a * i, 0.0), (M,), 9.0, "m"),
    "gradient": (lambda a: effx.grad(effx.checkpoint(lambda v: v**3))(a), (M,), 27.0, "m^2"),
    "second derivative": (lambda a: effx.grad(effx.grad(lambda v: v**3))(a), (M,), 18.0, "m"),
    "gradient of a loop": (
        lambda a: effx.grad(effx.jit(lambda v: lax.scan(lambda c, w: (c + w * w, None), 0.0, v)[0]))(a),
        (ROW,),
        [2.0, 4.0, 8.0],
        "m",
    ),
    "scan in vmap": (
        lambda a: effx.vmap(lambda v: lax.scan(lambda c, _: (c + v, None), 0.0, None, length=3)[0])(a),
        (ROW,),
        [3.0, 6.0, 12.0],
        "m",
    ),
    "replicas": (
        lambda a: effx.pmap(lambda v: v * lax.psum(v, "i"), axis_name="i")(a),
        (ROW,),
        [7.0, 14.0, 28.0],
        "m^2",
    ),
    "barrier": (lambda a: lax.optimization_barrier((a, a * a))[1], (M,), 9.0, "m^2"),
    "abs, min, clip": (lambda a: enp.clip(abs(-a), 0.0, a.max()), (ROW,), [1.0, 2.0, 4.0], "m"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    """Values are the function's, and units are those found by thinking."""
    f, args, value, unit = RESULTS[name]
    found: Quantity = with_units(f)(*args)
    np.testing.assert_allclose(found.value, value, rtol=1e-6)
    assert found.unit == Unit.parse(unit)


ERRORS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "sum": (lambda a, b: a + b, (M, S), "add: units differ: m, s"),
    "comparison": (lambda a, b: a < b, (M, S), "lt: units differ: m, s"),
    "function": (lambda a: enp.sin(a), (M,), "sin: takes plain numbers, got m"),
    "plain number": (lambda a: a + 1.0, (M,), "add: units differ: m, 1"),
    "power": (lambda a, n: a**n, (M, 2.0), "pow: m to a power that is not written down has no unit"),
    "select": (lambda a, b: enp.where(True, a, b), (M, S), "select: units differ: s, m"),
    "loop": (
        lambda a: lax.fori_loop(0, 3, lambda i, c: c * a, a),
        (M,),
        "a loop, branch or solver: units differ",
    ),
    "branches": (
        lambda a, b: lax.cond(True, lambda x, y: x, lambda x, y: y, a, b),
        (M, S),
        "a loop, branch or solver: units differ",
    ),
    "factors with units": (
        lambda a, b: a.at[0].multiply(b),
        (ROW, S),
        "scatter: factors: units differ: s, 1",
    ),
    "running product": (lambda a: enp.cumprod(a), (ROW,), "cumprod: takes plain numbers, got m"),
    "bits": (lambda a: lax.bitcast_convert_type(a, "int32"), (M,), "bitcast: takes plain numbers, got m"),
    "exponent": (lambda a: 2.0**a, (M,), "pow: units differ: m, 1"),
    "index": (lambda a, b: b[a.astype("int32")], (M, ROW), "add: units differ: m, 1"),
    "while": (
        lambda a, b: lax.while_loop(lambda c: c < b, lambda c: c + a, a),
        (M, S),
        "lt: units differ: m, s",
    ),
    "scatter": (lambda a, b: a.at[0].set(b), (ROW, S), "scatter: units differ: m, s"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    """A mismatch is an error with the units and the user's line."""
    f, args, text = ERRORS[name]
    with pytest.raises(UnitError) as caught:
        with_units(effx.jit(f) if name != "loop" else f)(*args)
    assert str(caught.value).startswith(text)
    assert "test_units.py:" in str(caught.value)


def test_under_transformations() -> None:
    """Quantities are pytrees: functions of them are jitted, batched and differentiated."""
    f = with_units(lambda a, b: a / b)
    found = effx.jit(f)(M, S)
    assert (float(found.value), found.unit) == (1.5, Unit.parse("m/s"))
    rows = effx.vmap(lambda v: f(Quantity(v, M.unit), S).value)(ROW.value)
    assert rows.tolist() == [0.5, 1.0, 2.0]
    slope = effx.grad(lambda v: f(M, Quantity(v, S.unit)).value)(2.0)
    assert float(slope) == -0.75


@pytest.mark.unguarded
def test_parsing() -> None:
    """Units are products and quotients of powers; they print as one product."""
    assert str(Unit.parse("kg * m / s^2")) == "kg*m*s^-2"
    assert str(Unit.parse("m/m")) == "1"
    assert str(Unit.parse("m^(1/2)")) == "m^(1/2)"
    assert str(quantity(2.0, "1/s")) == "2.0 s^-1"
    with pytest.raises(UnitError, match=r"^units: '3m' is no unit; write products and quotients"):
        Unit.parse("3m")
    for text in ("m*", "*m", "/s", "m m", "m2", "11", " ", "m^(1/0)", "kg.m", 3):
        with pytest.raises(UnitError, match=r"^units: .* is no unit"):
            Unit.parse(text)  # type: ignore[arg-type]  # wrong on purpose
    assert str(Unit.parse("µm^0.5 * Ω/%")) == "%^-1*µm^(1/2)*Ω"
    assert Unit.parse(str(Unit.parse("kg*m^(1/2)/s^2"))) == Unit.parse("kg*m^(1/2)/s^2")


def test_every_operation_has_a_unit() -> None:
    """No operation of effx is refused, or passed on with its units forgotten."""
    treatments = coverage(Units).treatments
    others = {t.operation.name: t.how for t in treatments if t.how not in ("rule", "trait", "recursion")}
    # A composite's program says what becomes of units; what a Python or foreign function makes of them nobody knows.
    assert others == {
        "composite": "decomposition",
        "exported_call": "refused",
        "foreign_call": "refused",
        "inspect_sharding": "refused",
        "python_callback": "refused",
    }


def test_units_of_newer_operations() -> None:
    """Ragged products multiply units, the largest elements keep theirs, roots of a given accuracy take half of them."""
    meters = quantity(np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2), "m")
    grams = quantity(np.ones((2, 2, 3), np.float32), "g")
    product = Units().run(lambda x, y: lax.ragged_dot(x, y, np.array([1, 3])), meters, grams)
    assert str(product.unit) == "g*m"
    values, indices = Units().run(lambda x: lax.top_k(x, 1), meters)
    assert (str(values.unit), indices.unit) == ("m", quantity(1.0, "1").unit)
    root = Units().run(lambda x: lax.sqrt(x, accuracy=lax.Tolerance(ulps=4)), quantity(4.0, "m^2"))
    assert str(root) == "2.0 m"
    with pytest.raises(UnitError, match="exp"):
        Units().run(lambda x: lax.exp(x), meters)


def test_keywords_and_static_arguments() -> None:
    """Quantities may stand in keywords; what is no array is passed on."""
    f = with_units(lambda a, *, b, n, name: a * b**n if name == "product" else a)
    assert f(M, b=S, n=2, name="product").unit == Unit.parse("m*s^2")


def test_low_precision_and_integers() -> None:
    """Zeros of any dtype fit any unit."""
    for dtype in ("bfloat16", "float16", "int8", "complex64"):
        x = Quantity(enp.ones(2, dtype), Unit.parse("m"))
        found = with_units(lambda a: effx.jit(lambda a: a + enp.zeros(2, a.dtype))(a))(x)
        assert (found.unit, found.value.dtype) == (x.unit, x.value.dtype)


def test_linear_algebra() -> None:
    """Systems divide by the matrix' unit, factors share it out, transforms keep it."""
    a = quantity(np.array([[2.0, 1.0], [1.0, 3.0]]), "kg")
    b = quantity(np.array([1.0, 2.0]), "N")

    def unit(f: Any, *xs: Any) -> str:
        return str(with_units(f)(*xs).unit)

    linalg = enp.linalg
    assert unit(linalg.solve, a, b) == str(quantity(1.0, "N/kg").unit)
    assert unit(linalg.inv, a) == unit(linalg.pinv, a) == str(quantity(1.0, "kg^-1").unit)
    assert (
        unit(linalg.det, a) == unit(lambda x: linalg.cholesky(x) ** 4, a) == str(quantity(1.0, "kg^2").unit)
    )
    assert unit(lambda x: linalg.svd(x)[1], a) == unit(lambda x: linalg.eigh(x)[0], a) == "kg"
    assert unit(lambda x: linalg.qr(x)[1], a) == unit(enp.fft.fft, a) == "kg"
    with pytest.raises(UnitError, match="slogdet: takes plain numbers, got kg"):
        with_units(linalg.slogdet)(a)


def test_units_of_fused_attention() -> None:
    """Averages have the unit of values, cotangents and tangents follow, and logits are plain numbers."""

    def attend(q: Array, k: Array, v: Array, bias: Array) -> Array:
        return effx.nn.dot_product_attention(q, k, v, bias, implementation="cudnn")

    def differentiate(*xs: Array) -> tuple[Array, Array]:
        gradient: Array = effx.grad(lambda *ys: attend(*ys).sum(), (0, 1, 2, 3))(*xs)
        return gradient, effx.jvp(attend, list(xs), list(xs))[1]

    per_meter, meter, gram = [
        quantity(np.ones((1, 2, 1, 8), np.float16), unit) for unit in ("m^-1", "m", "g")
    ]
    bias = quantity(np.ones((1, 1, 2, 2), np.float16), "1")
    with handle(Reference()):
        assert str(Units().run(attend, per_meter, meter, gram, bias).unit) == "g"
        cotangents, tangent = Units().run(differentiate, per_meter, meter, gram, bias)
        assert [str(ct.unit) for ct in cotangents] == ["g*m", "g*m^-1", "1", "g"]
        assert str(tangent.unit) == "g"
        with pytest.raises(UnitError, match="fused_attention: the softmax takes plain numbers, got g\\^2"):
            Units().run(attend, gram, gram, gram, bias)
