"""With sum_match, out axis None is the sum over the batch: the transpose of an argument with in axis None."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx.errors import ShapeError

X = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_the_sum_of_a_loop() -> None:
    """For each leaf on its own; results that are the same for all batch elements stay what they are."""

    def f(x: Any, y: Any) -> Any:
        return {"mapped": x * y, "none": x * y, "shared": y + 1, "number": 3}

    out_axes = {"mapped": 0, "none": None, "shared": None, "number": None}
    got = effx.vmap(f, (0, None), out_axes, sum_match=True)(X, 2.0)
    np.testing.assert_array_equal(np.asarray(got["mapped"]), 2 * X)
    np.testing.assert_array_equal(np.asarray(got["none"]), 2 * X.sum(0))
    assert (float(got["shared"]), got["number"]) == (3.0, 3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_any_axis_and_nesting(axis: int) -> None:
    """The index of the batch axis does not matter, and vmaps nest, compiled or not."""

    def total(x: Any) -> Any:
        return effx.vmap(lambda row: row**2, in_axes=axis, out_axes=None, sum_match=True)(x)

    np.testing.assert_array_equal(np.asarray(effx.jit(total)(X)), (X**2).sum(axis))
    both = effx.vmap(total, out_axes=None, sum_match=True)(np.stack([X, X + 1]))
    np.testing.assert_array_equal(np.asarray(both), (X**2 + (X + 1) ** 2).sum(axis))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "float16", "bfloat16", "complex64"])
def test_dtypes_stay(dtype: str) -> None:
    """The sum has the dtype of what is summed; booleans are counted."""
    x = enp.asarray(X, dtype)
    got = effx.vmap(lambda v: v, out_axes=None, sum_match=True)(x)
    assert got.dtype == enp.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(got, np.complex64), X.sum(0))
    counted = effx.vmap(lambda v: v > 1, out_axes=None, sum_match=True)(x if dtype != "complex64" else X)
    assert counted.dtype == enp.int32
    np.testing.assert_array_equal(np.asarray(counted), (X > 1).sum(0))


def test_it_is_the_transpose_of_broadcasting() -> None:
    """The cotangent of a shared argument is the sum of those of the batch elements."""

    def f(w: Any, x: Any) -> Any:
        return enp.sin(w * x)

    def back(w: Any, x: Any, ct: Any) -> Any:
        return effx.vjp(f, w, x)[1](ct)

    want = effx.vjp(effx.vmap(f, (None, 0)), enp.ones(2), X)[1](X)
    got = effx.vmap(back, (None, 0, 0), (None, 0), sum_match=True)(enp.ones(2), X, X)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)
    along = effx.grad(lambda x: effx.vmap(lambda v: v**3, out_axes=None, sum_match=True)(x).sum())(X)
    np.testing.assert_allclose(np.asarray(along), 3 * X**2)


def test_in_a_scan_and_with_references() -> None:
    """The carry of a scan, and what a reference holds, can be summed over."""

    def step(carry: Any, _: Any) -> Any:
        return carry + effx.vmap(lambda v: v, out_axes=None, sum_match=True)(enp.asarray(X)), None

    final, _ = effx.lax.scan(step, enp.zeros(2), None, length=3)
    np.testing.assert_array_equal(np.asarray(final), 3 * X.sum(0))
    ref = effx.new_ref(enp.asarray(X))
    got = effx.vmap(lambda r: 2 * r[...], out_axes=None, sum_match=True)(ref)
    np.testing.assert_array_equal(np.asarray(got), 2 * X.sum(0))


def test_without_it_that_is_an_error() -> None:
    with pytest.raises(ShapeError) as error:
        effx.vmap(lambda v: v, out_axes=None)(X)
    assert error.value.message == (
        "vmap: out_axes is None for a result of <lambda> that differs between batch elements: f32[3,2] with batch axis 0"
    )
