"""What rules for reverse mode log comes out of `f_vjp.with_logs`, through loops, batches, checkpoints and jit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import custom_gradient, custom_vjp, grad, jit, lax, vjp, vmap
from effx.errors import TransformError

XS = np.array([1.0, 2.0, 3.0], np.float32)


def product() -> Any:
    """sin(x) y, whose backward rule logs the cotangent and y."""
    f = custom_vjp(lambda x, y: enp.sin(x) * y)

    def bwd(residuals: Any, ct: Any) -> Any:
        x, y = residuals
        return (enp.cos(x) * ct * y, enp.sin(x) * ct), {"f": {"ct": ct, "y": y}, "g": (2.0 * ct,)}

    f.defvjp_with_logs(lambda x, y: (f(x, y), (x, y)), bwd)
    return f


def check(pair: Any, cotangents: list[Any], ct: Any, y: Any) -> None:
    results, logs = pair
    for got, expected in zip(results, cotangents, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert set(logs) == {"f", "g"}
    np.testing.assert_allclose(logs["f"]["ct"], ct)
    np.testing.assert_allclose(logs["f"]["y"], y)
    np.testing.assert_allclose(logs["g"][0], 2 * np.asarray(ct))


@pytest.mark.parametrize("wrap", [lambda f: f, jit, effx.checkpoint])
def test_logs_come_out(wrap: Any) -> None:
    """Of an eager backward pass, of a compiled one, and of a function that is computed again."""
    f = product()
    slopes = [np.cos(1.0) * 2.0 * 3.0, np.sin(1.0) * 3.0]
    check(vjp(wrap(f), 1.0, 2.0)[1].with_logs(3.0), slopes, 3.0, 2.0)
    check(jit(lambda x, y, ct: vjp(wrap(f), x, y)[1].with_logs(ct))(1.0, 2.0, 3.0), slopes, 3.0, 2.0)
    handed_on = jit(lambda x, y: vjp(wrap(f), x, y)[1].with_logs)(1.0, 2.0)
    check(handed_on(3.0), slopes, 3.0, 2.0)


def test_without_with_logs_they_are_dropped() -> None:
    f = product()
    np.testing.assert_allclose(vjp(f, 1.0, 2.0)[1](1.0)[0], np.cos(1.0) * 2.0, rtol=1e-6)
    np.testing.assert_allclose(grad(f)(1.0, 2.0), np.cos(1.0) * 2.0, rtol=1e-6)
    np.testing.assert_allclose(jit(grad(grad(f)))(1.0, 2.0), -np.sin(1.0) * 2.0, rtol=1e-6)
    np.testing.assert_allclose(
        grad(lambda x: vmap(f, (0, None))(x, 2.0).sum())(XS), np.cos(XS) * 2, rtol=1e-6
    )


def test_loops_and_batches_stack_logs() -> None:
    """A scan those of its iterations in their order, vmap inside and outside those of batch elements."""
    f = product()

    def total(xs: Any) -> Any:
        return lax.scan(lambda c, x: (c + f(x, 2.0), None), 0.0, xs)[0]

    check(vjp(total, XS)[1].with_logs(3.0), [np.cos(XS) * 6.0], np.full(3, 3.0), np.full(3, 2.0))
    inside = vjp(lambda x: vmap(f, (0, None))(x, 2.0), XS)[1].with_logs(XS)
    check(inside, [np.cos(XS) * 2.0 * XS], XS, np.full(3, 2.0))
    outside = vmap(lambda x, y, ct: vjp(f, x, y)[1].with_logs(ct))(XS, 2.0 * XS, XS)
    check(outside, [np.cos(XS) * 2.0 * XS**2, np.sin(XS) * XS], XS, 2.0 * XS)
    branch = vjp(lambda x: lax.cond(x > 0, lambda x: f(x, 2.0), lambda x: x, x), 1.0)[1].with_logs(3.0)
    check(branch, [np.cos(1.0) * 6.0], 3.0, 2.0)


def test_the_last_of_several_values_counts_and_refs_get_cotangents() -> None:
    f = product()
    _, logs = vjp(lambda x: f(f(x, 2.0), 5.0), 1.0)[1].with_logs(1.0)
    assert float(logs["f"]["y"]) == 2.0  # the first operation is the last of the backward pass
    slope = effx.new_ref(enp.zeros(()))
    (given, _), logs = vjp(f, enp.float32(1.0), 2.0)[1].with_logs.with_refs(slope, effx.ad.DontWant())(1.0)
    assert repr(given) == "GradRef()"
    np.testing.assert_allclose(slope[...], np.cos(1.0) * 2.0, rtol=1e-6)
    assert set(logs) == {"f", "g"}


def test_no_logs_and_nondiff_arguments() -> None:
    scale: Any = custom_vjp(lambda n, x: x * n, nondiff_argnums=(0,))
    scale.defvjp_with_logs(
        lambda n, x: (scale(n, x), None), lambda n, res, ct: ((ct * n,), {"ct": ct * n} if n > 2 else None)
    )
    (slope,), logs = vjp(lambda x: scale(3.0, x), 2.0)[1].with_logs(1.0)
    assert (float(slope), float(logs["ct"])) == (3.0, 3.0)
    (slope,), logs = vjp(lambda x: scale(2.0, x), 2.0)[1].with_logs(1.0)
    assert (float(slope), logs) == (2.0, {})
    assert vjp(lambda x: 2 * x, 1.0)[1].with_logs(1.0)[1] == {}


def test_custom_gradient_logs() -> None:
    """Also where the function returns one cotangent alone, and the value is computed under jit."""

    @custom_gradient(with_logs=True)
    def f(x: Any, y: Any) -> Any:
        return x * y, lambda ct: ((ct * y, ct * x), {"x": x, "ct": ct})

    assert float(f(3.0, 4.0)) == 12.0
    assert float(grad(f)(3.0, 4.0)) == 4.0
    for transform in (lambda g: g, jit):
        slopes, logs = transform(lambda x, y, ct: vjp(f, x, y)[1].with_logs(ct))(3.0, 4.0, 2.0)
        assert [float(s) for s in slopes] == [8.0, 6.0]
        assert {name: float(x) for name, x in logs.items()} == {"x": 3.0, "ct": 2.0}

    def square_with_pullback(x: Any) -> Any:
        return x**2, lambda ct: (ct * 2 * x, None)

    square = custom_gradient(square_with_pullback, with_logs=True)
    assert float(grad(square)(3.0)) == 6.0


WRONG: dict[str, tuple[Any, str]] = {
    "one value": (
        lambda _, ct: ct,
        "custom_vjp: bwd must return a pair (cotangents, logs), got Array",
    ),
    "three values": (
        lambda _, ct: (ct, ct, ct),
        "custom_vjp: bwd must return a pair (cotangents, logs), got 3 values",
    ),
    "a list": (
        lambda _, ct: ((ct,), [1.0]),
        "custom_vjp: the logs of bwd must be None or a dict from strings to pytrees of arrays, got [1.0]",
    ),
    "numbers as names": (
        lambda _, ct: ((ct,), {1: 2.0}),
        "custom_vjp: the logs of bwd must be None or a dict from strings to pytrees of arrays, got {1: 2.0}",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_logs(name: str) -> None:
    bwd, text = WRONG[name]
    f: Any = custom_vjp(lambda x: x)
    bwd.__name__ = "bwd"
    f.defvjp_with_logs(lambda x: (f(x), None), bwd)
    with pytest.raises(TransformError) as error:
        grad(f)(1.0)
    assert error.value.message == text
