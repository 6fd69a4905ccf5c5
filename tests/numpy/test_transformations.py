"""Functions of effx.numpy under jit, vmap and grad: each row is one expression in x.

Never: checks values without a transformation; `test_against_numpy` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from tests.numpy.expressions import agree, leaves, rows, words
from tests.numpy.functions import BINARY, UNARY, inexact, once, taking

X = np.array(
    [[0.31, 0.92, 0.13], [0.22, 0.77, 0.54]], np.float32
)  # distinct, in (0, 1), where no function jumps
B = np.array([1.5, -2.0, 0.45], np.float32)
Q = np.array([[2.0, 1.0, 0.5], [0.25, 3.0, -1.0], [1.0, 0.0, 2.0]], np.float32)
M = np.array([[True, False, True], [False, True, True]])
J = np.array([2, 0, 1], np.int32)

DIFFERENTIABLE = [
    *[f"xp.{f}(x)" for f in once(taking(UNARY, X)) if inexact(f, X)],
    *[f"xp.{f}(x, B)" for f in once(taking(BINARY, X, B)) if inexact(f, X, B)],
    *[
        f"xp.{f}(x)"
        for f in words(
            "nan_to_num sum prod max min mean var std cumsum cumprod ravel transpose flip fliplr flipud rot90 sort "
            "ptp median nansum nanprod nanmax nanmin nanmean nanvar nanstd nanmedian nancumsum nancumprod diff "
            "trapezoid average squeeze atleast_3d tril triu diagflat copy unstack vstack hstack cov corrcoef"
        )
    ],
    *[f"xp.{f}(x, B)" for f in words("dot outer inner vecdot kron cross")],
    *rows(
        "xp.power(x, B); xp.power(x, 3); xp.float_power(x, 1.5); xp.divide(B, x); xp.power(2.0, x); "
        "xp.arctan2(B, x); xp.where(M, x, B); xp.where(x > 0.5, x, 0); "
        "xp.select([x > 0.5, x > 0.2], [x, -x]); xp.clip(x, 0.2, 0.8); xp.round(x, 1) * x; "
        "xp.sum(x, axis=0); xp.prod(x, axis=1); xp.max(x, axis=1, keepdims=True); xp.min(x, axis=0); "
        "xp.mean(x, where=M); xp.var(x, axis=1, ddof=1); xp.sum(x, where=M); xp.cumsum(x, axis=1); "
        "xp.cumprod(x, axis=0); xp.sort(x, axis=0); xp.quantile(x, 0.3); "
        "xp.quantile(x, 0.4, axis=1, method='lower'); xp.percentile(x, 60, axis=0, keepdims=True); "
        "xp.nanquantile(x, 0.3, axis=1); xp.average(x, axis=1, weights=B); xp.trapezoid(x, B); "
        "xp.diff(x, axis=0); xp.reshape(x, (3, 2)); xp.reshape(x, -1, order='F'); xp.swapaxes(x, 0, 1); "
        "xp.moveaxis(x, 0, 1); xp.expand_dims(x, 1); xp.broadcast_to(x, (2, 2, 3)); xp.roll(x, 1); "
        "xp.roll(x, (1, 2), (0, 1)); xp.tile(x, (2, 2)); xp.repeat(x, 2, axis=1); "
        "xp.repeat(x, np.array([1, 2]), axis=0); xp.resize(x, (2, 5)); xp.concatenate([x, x * 2], 1); "
        "xp.stack([x, x * x]); xp.append(x, B); xp.column_stack([x[0], x[1]]); xp.split(x, 3, axis=1); "
        "xp.pad(x, 1); xp.pad(x, ((1, 0), (2, 1)), mode='reflect'); xp.pad(x, 1, mode='wrap'); "
        "xp.delete(x, 1, axis=1); xp.diagonal(x); xp.diag(x[0], 1); xp.trace(x); xp.vander(x[0]); "
        "xp.linspace(x, 2, 4); xp.linspace(0, x, 3, endpoint=False); xp.geomspace(x, 2, 4); "
        "xp.logspace(x, 1, 3); xp.full((2, 3), x[0, 0]); xp.meshgrid(x[0], x[1]); "
        "xp.array([x[0], x[1] * 2]); xp.array([[x[0, 0], 1.0], [2.0, x[1, 1]]]); xp.take(x, J, axis=1); "
        "xp.take_along_axis(x, J[None], 1); xp.matmul(x, Q); xp.matmul(Q, x.T); xp.vdot(x, x); "
        "xp.tensordot(x, Q, 1); xp.einsum('ij,jk->ik', x, Q); xp.einsum('ij,jk,kl->il', x, Q, Q); "
        "xp.einsum('ij,ij->j', x, x); xp.einsum('ij->', x); xp.cov(x, aweights=B * B); "
        "xp.apply_along_axis(xp.cumsum, 0, x); xp.apply_over_axes(xp.sum, x, (0, 1)); "
        "xp.piecewise(x, [x < 0.3, x > 0.6], [lambda v: v * v, xp.sin, 2.0]); xp.convolve(x[0], B); "
        "xp.convolve(x[0], x[1], 'same'); xp.correlate(x[0], x[1], 'full'); "
        "xp.abs(xp.fft.fft(x)) ** 2; xp.fft.irfft(x, 5); xp.abs(xp.fft.rfft2(x)) ** 2; xp.fft.hfft(x); "
        "xp.fft.ifft(x, norm='ortho').imag; xp.frexp(x)[0]; xp.ldexp(x, J); xp.modf(x * 3)[0]; "
        "xp.histogram(x, 3, (0, 1), weights=x)[0]; xp.interp(x, np.float32([0, 0.5, 1]), x[0]); "
        "xp.interp(x[0], np.float32([0, 0.5, 1]), B, period=0.9); xp.gradient(x, axis=1); "
        "xp.gradient(x, np.float32([0, 1, 3]), axis=1, edge_order=2); xp.ediff1d(x, to_end=x[0]); "
        "xp.unwrap(x * 9); xp.poly(x[0]); xp.polyadd(x[0], B); xp.polymul(x[0], x[1]); "
        "xp.polydiv(x[0], B[:2])[0]; xp.polyder(x[0]); xp.polyint(x[0], 2); xp.polyval(x[0], x); "
        "xp.block([[x, x * 2], [B, x[0]]]); xp.insert(x, 1, x[0, 0], axis=1); xp.choose(J % 2, x); "
        "xp.partition(x, 1); xp.r_[x[0], 1.0, x[1]]; xp.c_[x, x]; xp.trim_zeros(B) * x"
    ),
]
CONSTANT = [
    *[f"xp.{f}(x)" for f in once(taking(UNARY, X)) if not inexact(f, X)],
    *[f"xp.{f}(x, B)" for f in once(taking(BINARY, X, B)) if not inexact(f, X, B)],
    *[f"xp.{f}(x)" for f in words("argmax argmin argsort any all count_nonzero")],
    *[f"xp.{f}(x, B)" for f in words("isclose array_equiv")],
    *rows(
        "xp.argpartition(x, 1); xp.histogram(x, 3, (0, 1))[0]; xp.spacing(x); xp.frexp(x)[1]; xp.isin(x, x[0]); "
        "xp.nanargmax(x, axis=1); xp.searchsorted(np.sort(B), x); xp.digitize(x, np.float32([0.2, 0.5])); "
        "xp.isin(x, B); xp.lexsort([x[0], x[1]]); xp.zeros_like(x); xp.ones_like(x); xp.allclose(x, x); "
        "xp.array_equal(x, x); xp.eye(2) * x[0, 0]; xp.tri(3) + x[0]; xp.arange(3) + x; "
        "xp.indices((2, 3)) * x"
    ),
]


def function(row: str, module: Any) -> Callable[[Any], Any]:
    names = {"xp": module, "np": np, "B": B, "Q": Q, "M": M, "J": J}
    compiled = compile(row, row, "eval")
    return lambda x: eval(compiled, {**names, "x": x})


@pytest.mark.parametrize("row", [*DIFFERENTIABLE, *CONSTANT])
def test_jit_and_vmap(row: str) -> None:
    """The compiled function gives what NumPy gives, and the batched one what a loop gives."""
    f = function(row, enp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two = [function(row, np)(x) for x in (X, X[::-1] * 0.5)]
    agree(effx.jit(f)(X), one)
    batched = effx.jit(effx.vmap(f))(np.stack([X, X[::-1] * 0.5]))
    for part, a, b in zip(leaves(batched), leaves(one), leaves(two), strict=True):
        agree(part, np.stack([np.asarray(a), np.asarray(b)]))


@pytest.mark.parametrize("row", DIFFERENTIABLE)
def test_grad(row: str) -> None:
    """The derivative in a direction is NumPy's finite difference in double precision."""
    direction = np.array([[0.5, -1.0, 0.25], [1.0, 0.75, -0.5]])
    f, reference = function(row, enp), function(row, np)

    def weighted(x: Any, module: Any, values: Any) -> Any:
        # Weights that differ, so that no symmetry hides an error.
        return sum(
            [
                module.sum(leaf * module.cos(module.arange(np.size(leaf)) * 1.0).reshape(np.shape(leaf)))
                for leaf in leaves(values(x))
            ]
        )

    step = 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        high, low = [weighted(X.astype(float) + sign * step * direction, np, reference) for sign in (1, -1)]
    want = (high - low) / (2 * step)
    gradient = effx.jit(effx.grad(lambda x: weighted(x, enp, f)))(X)
    agree(np.sum(np.asarray(gradient, float) * direction), want, rtol=2e-4, atol=2e-4)


def test_eager_grad_and_vmap_need_no_jit() -> None:
    """Transformations of composite functions run without jit as well."""
    agree(effx.grad(lambda x: enp.quantile(x, 0.5))(X[0]), np.array([1.0, 0.0, 0.0]))
    agree(effx.vmap(lambda x: enp.median(x))(X), np.median(X, 1))
    agree(effx.vmap(lambda a, v: enp.searchsorted(a, v))(np.sort(X, 1), X[:, 0]), np.array([1, 0]))


def test_size_makes_shapes_known_under_jit() -> None:
    """With size= the indices of elements can be asked for while tracing."""
    f = effx.jit(lambda x: enp.nonzero(x, size=4, fill_value=-1))
    agree(f(np.array([[0, 5], [6, 0]])), (np.array([0, 1, -1, -1]), np.array([1, 0, -1, -1])))
    agree(effx.jit(lambda x: enp.flatnonzero(x, size=2))(np.array([0, 1, 1, 1])), np.array([1, 2]))
    agree(
        effx.jit(lambda x: enp.where(x, size=3, fill_value=9))(np.array([True, False])),
        (np.array([0, 9, 9]),),
    )
    agree(effx.jit(lambda x: enp.argwhere(x, size=2))(np.eye(2)), np.array([[0, 0], [1, 1]]))
    agree(effx.jit(lambda x: enp.bincount(x, length=4))(np.array([0, 2, 2, 9])), np.array([1, 0, 2, 0]))
    agree(
        effx.jit(lambda n: enp.repeat(np.arange(3), n, total_repeat_length=4))(np.array([2, 0, 1])),
        np.array([0, 0, 2, 2]),
    )
    agree(effx.jit(lambda s: enp.roll(np.arange(4), s))(1), np.array([3, 0, 1, 2]))


def test_derivatives_at_special_points() -> None:
    """Where a formula is undefined, its derivative is the limit's."""
    assert float(effx.grad(enp.sinc)(0.0)) == 0.0
    assert float(effx.grad(lambda x: enp.hypot(x, 0.0))(0.0)) == 0.0
    assert float(effx.grad(lambda x: enp.logaddexp(x, -np.inf))(1.0)) == 1.0
    assert np.isfinite(float(effx.grad(lambda x: enp.logaddexp(x, x))(-np.inf)))
    assert float(effx.grad(effx.grad(lambda x: enp.power(x, 2)))(0.0)) == 2.0


def test_extremes_start_at_a_traced_number() -> None:
    """`initial` takes part as one more element, each batch element's own, and has a gradient where it is the largest."""
    starts = np.array([2, -1, 9], np.int32)
    np.testing.assert_array_equal(
        effx.vmap(lambda x, i: x.min(initial=i))(enp.zeros((3, 0)), enp.array(starts)), starts
    )
    for f, g in ((enp.max, np.max), (enp.min, np.min), (enp.nanmax, np.nanmax)):
        got = effx.jit(effx.vmap(lambda i, f=f: f(enp.array(X), axis=0, initial=i, where=enp.array(M))))(
            enp.array([0.5, -1.0])
        )
        padded = M if X.shape == M.shape else np.resize(M, X.shape)
        expected = [g(X, axis=0, initial=i, where=padded) for i in (0.5, -1.0)]
        np.testing.assert_allclose(got, expected)
    assert float(effx.grad(lambda i: enp.max(enp.array(X), initial=i))(5.0)) == 1.0
    assert float(effx.grad(lambda i: enp.max(enp.array(X), initial=i))(-5.0)) == 0.0
    with pytest.raises(effx.errors.ShapeError, match=r"max: initial must be a scalar, got f32\[3\]"):
        enp.max(X, initial=enp.ones(3))
