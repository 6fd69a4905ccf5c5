"""Functions of effx.numpy give what NumPy's give: each row is one expression, evaluated with both modules.

Never: checks dtypes, which follow rules of their own; `test_result_types` does.
"""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx.numpy as enp
from tests.numpy.breadth import PAIRS, REFUSED, VALUES
from tests.numpy.expressions import agree, rows
from tests.numpy.functions import BINARY, UNARY, inexact, taking

A = np.array([[0.3, -1.5, 2.0], [4.25, 0.75, -0.5]], np.float32)
B = np.array([1.5, -2.0, 0.25], np.float32)
P = np.array([[0.3, 0.9, 0.1], [0.2, 0.75, 0.5]], np.float32)  # in (0, 1)
N = np.array([[math.nan, 1.0, 3.0], [2.0, math.nan, math.nan]], np.float32)
I = np.array([[3, 0, 2], [5, -7, 1]], np.int32)  # noqa: E741 - an integer matrix
J = np.array([2, 1, 3], np.int32)
M = np.array([[True, False, True], [False, False, True]])
C = np.array([[1 + 2j, -1j, 0], [0.5, -2 + 1j, 3]], np.complex64)
T = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
Q = np.array([[2.0, 1.0, 0.5], [0.25, 3.0, -1.0], [1.0, 0.0, 2.0]], np.float32)
E = np.zeros((0, 3), np.float32)
S = np.float32(1.25)
V = np.array([5.0, 1.0, 3.0, 1.0, 4.0], np.float32)
U = np.array([[1, 2, 250], [7, 0, 255]], np.uint8)
NAMES = dict(zip("ABPNIJMCTQESVU", (A, B, P, N, I, J, M, C, T, Q, E, S, V, U), strict=True))

ROWS = [
    *rows("xp.arccosh(1 + P); xp.acosh(1 + P); xp.arccosh(np.float32(1.5))"),
    *[f"xp.{f}(P)" for f in taking(UNARY, P)],
    *[f"xp.{f}(S / 2)" for f in taking(UNARY, S / 2)],
    *[f"xp.{f}(A)" for f in taking(UNARY, A)],
    *[f"xp.{f}(N)" for f in taking(UNARY, N)],
    *[f"xp.{f}(C)" for f in taking(UNARY, C)],
    *rows("xp.round(A); xp.round(N); xp.round(C); xp.angle(C); xp.isclose(A, B); xp.isclose(S, A)"),
    *[f"xp.{f}(A, B)" for f in taking(BINARY, A, B)],
    *[f"xp.{f}(S, A)" for f in taking(BINARY, S, A)],
    *[f"xp.{f}(I, J)" for f in taking(BINARY, I, J) if not inexact(f, I, J)],
    *[f"xp.{f}(J[:, None], J)" for f in ("left_shift", "right_shift", "power")],
    *rows(
        "xp.floor_divide(I, -J); xp.remainder(I, -J); xp.fmod(I, -J); xp.floor_divide(A, -B); "
        "xp.remainder(A, -B); xp.remainder(J.astype('uint8'), np.uint8(2)); "
        "xp.floor_divide(J.astype('uint8'), np.uint8(2)); xp.divmod(I, J); xp.divmod(A, B); xp.power(P, B); "
        "xp.power(A, 3); xp.power(A, -2); xp.pow(I, 2); xp.float_power(P, 2.5); xp.invert(I); xp.invert(M); "
        "xp.bitwise_not(I); xp.logical_not(A); xp.bitwise_count(I); xp.bitwise_and(M, M[0]); "
        "xp.maximum(N, 1); xp.fmax(N, 1); xp.fmin(N, 2); xp.copysign(A, -0.0); xp.sinc(np.float32(0)); "
        "xp.logaddexp(np.float32(-np.inf), np.float32(-np.inf)); "
        "xp.logaddexp(np.float32(np.inf), np.float32(np.inf)); "
        "xp.hypot(np.float32(np.inf), np.float32(np.nan)); xp.hypot(np.float32(3e38), np.float32(1.0)); "
        "xp.hypot(np.float32(0), np.float32(0)); xp.heaviside(N, 0.5); xp.nextafter(B, np.float32(0)); "
        "xp.clip(A, -1, 1); xp.clip(A, None, B); xp.clip(I, 0, None); xp.angle(C, deg=True); xp.round(A, 1); "
        "xp.around(A * 100, -1); xp.round(I * 7, -1); xp.nan_to_num(N); xp.nan_to_num(N, nan=7); "
        "xp.nan_to_num(np.array([np.inf, -np.inf], 'f4')); "
        "xp.nan_to_num(np.array([np.inf, -np.inf], 'f4'), posinf=1, neginf=2); "
        "xp.isclose(N, N, equal_nan=True); xp.isclose(A, A + 1e-7); xp.allclose(A, A); xp.allclose(A, B); "
        "xp.array_equal(A, A); xp.array_equal(A, B); xp.array_equal(N, N); "
        "xp.array_equal(N, N, equal_nan=True); xp.array_equiv(A, A[:1]); "
        "xp.array_equiv(B, np.ones(3, 'f4')); xp.where(M, A, B); xp.where(A > 0, A, 0); xp.where(I, 1, 0); "
        "xp.where(True, A, 0); xp.where(M); xp.select([A > 1, A > 0], [A, -A], 5); "
        "xp.select([M, M[0]], [I, J])"
    ),
    *[
        f"xp.{f}(A{axis})"
        for f in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "ptp", "median")
        for axis in ("", ", axis=0", ", axis=-1, keepdims=True")
    ],
    *[
        f"xp.{f}(T, axis=(0, 2))"
        for f in ("sum", "prod", "amax", "amin", "mean", "var", "std", "any", "all", "median")
    ],
    *[
        f"xp.{f}(N{axis})"
        for f in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanmedian")
        for axis in ("", ", axis=1", ", axis=0, keepdims=True")
    ],
    *[
        f"xp.{f}(I)"
        for f in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "nanmax", "nansum")
    ],
    *[f"xp.{f}(C)" for f in ("sum", "prod", "mean", "var", "std", "any", "all")],
    *rows(
        "xp.sum(M); xp.sum(E); xp.prod(E, axis=0); xp.sum(E, axis=1); xp.max(E, axis=0, initial=2); "
        "xp.sum(A, initial=3); xp.prod(A, initial=3); xp.max(A, initial=3); xp.min(A, axis=0, initial=0); "
        "xp.sum(A, where=M); xp.prod(A, where=M); xp.mean(A, where=M); xp.var(A, where=M); "
        "xp.std(A, 0, where=M[:1]); xp.max(A, where=M, initial=-9); xp.min(A, where=M, initial=9); "
        "xp.any(A, where=M); xp.all(A, 1, where=M); xp.var(A, ddof=1); xp.std(A, axis=0, ddof=1); "
        "xp.sum(A, dtype='int32'); xp.mean(I, dtype='float32'); xp.nanvar(N, ddof=1, axis=0); xp.nanmean(I); "
        "xp.nansum(N, where=M); xp.argmax(A); xp.argmin(A, axis=1); xp.argmax(A, axis=0, keepdims=True); "
        "xp.argmax(N); xp.nanargmax(N); xp.nanargmin(N, axis=1); xp.nanargmax(I, axis=0); "
        "xp.count_nonzero(I); xp.count_nonzero(M, axis=0); xp.cumsum(A); xp.cumsum(A, axis=0); "
        "xp.cumprod(A, axis=-1); xp.cumsum(I, 1); xp.nancumsum(N); xp.nancumprod(N, 1); "
        "xp.cumulative_sum(V); xp.cumulative_sum(A, axis=1, include_initial=True); "
        "xp.cumulative_prod(V, include_initial=True); xp.diff(A); xp.diff(A, axis=0); xp.diff(V, 2); "
        "xp.diff(V, prepend=0, append=V); xp.diff(M); xp.diff(V, 0); xp.trapezoid(V); xp.trapezoid(A, B); "
        "xp.trapezoid(A, dx=0.5, axis=0); xp.trapezoid(A, A * 2)"
    ),
    *[f"xp.quantile(A, 0.3, method='{m}')" for m in ("linear", "lower", "higher", "midpoint", "nearest")],
    *rows(
        "xp.quantile(A, np.float32([0.0, 0.25, 1.0]), axis=1); "
        "xp.percentile(T, 40, axis=(0, 2), keepdims=True); xp.quantile(N, 0.5, axis=1); "
        "xp.nanquantile(N, 0.3, axis=1); xp.nanpercentile(N, 75); xp.median(I); xp.median(V); "
        "xp.median(N, axis=0); xp.nanquantile(N, np.float32([0.1, 0.9]), axis=0, keepdims=True); "
        "xp.average(A); xp.average(A, axis=1, weights=B); xp.average(A, weights=P, returned=True); "
        "xp.average(A, axis=0, returned=True); xp.cov(A); xp.cov(A, rowvar=False); xp.cov(V); "
        "xp.cov(V, V * 2 + 1); xp.cov(A, bias=True); xp.cov(A, ddof=0); xp.cov(A, fweights=J); "
        "xp.cov(A, aweights=P[0]); xp.cov(A, fweights=J, aweights=P[0]); xp.cov(C); xp.corrcoef(Q); "
        "xp.corrcoef(V, V[::-1]); xp.corrcoef(V); xp.reshape(A, (3, 2)); xp.reshape(A, -1); "
        "xp.reshape(A, (3, -1), order='F'); xp.ravel(A); xp.ravel(A, 'F'); xp.transpose(T); "
        "xp.transpose(T, (1, 0, 2)); xp.permute_dims(T, (2, 0, 1)); xp.matrix_transpose(T); "
        "xp.swapaxes(T, 0, -1); xp.moveaxis(T, 0, -1); xp.moveaxis(T, (0, 1), (-1, 0)); xp.rollaxis(T, 2); "
        "xp.rollaxis(T, 0, 2); xp.squeeze(A[None]); xp.squeeze(A[None], 0); xp.expand_dims(A, (0, -1)); "
        "xp.broadcast_to(B, (2, 3)); xp.broadcast_arrays(A, B); xp.broadcast_shapes((2, 1), 3, (1,)); "
        "xp.atleast_1d(S); xp.atleast_2d(B); xp.atleast_3d(B); xp.atleast_3d(A); xp.atleast_2d(S, B); "
        "xp.flip(A); xp.flip(T, (0, 2)); xp.fliplr(A); xp.flipud(A)"
    ),
    *[f"xp.rot90(A, {k})" for k in range(-1, 4)],
    *rows(
        "xp.rot90(T, 1, (1, 2)); xp.roll(A, 1); xp.roll(A, -1, 1); xp.roll(T, (1, 2), (0, 2)); "
        "xp.roll(A, 4, 0); xp.roll(A, 1, (0, 1)); xp.tile(A, 2); xp.tile(B, (2, 1, 2)); xp.tile(A, (2, 1)); "
        "xp.repeat(A, 2); xp.repeat(A, 2, axis=1); xp.repeat(A, np.array([1, 0, 2]), axis=1); "
        "xp.resize(B, (2, 4)); xp.resize(A, 2); xp.shape(A); xp.ndim(T); xp.size(T); xp.size(T, 1); "
        "xp.shape(3); xp.isscalar(3); xp.isscalar(A); xp.diagonal(Q, 1); xp.diagonal(T, axis1=1, axis2=2); "
        "xp.diag(B); xp.diag(B, -1); xp.diag(B, 2); xp.diag(A, 1); xp.diagflat(A); xp.diagflat(A, -2); "
        "xp.concatenate([A, A], 1); xp.concatenate([A, B[None]]); xp.concatenate([A, I], axis=None); "
        "xp.concatenate(T); xp.concat([A, A]); xp.stack([A, A], -1); xp.stack([B, J]); "
        "xp.unstack(A, axis=1); xp.vstack([A, B]); xp.hstack([A, A]); xp.hstack([B, J]); xp.dstack([A, A]); "
        "xp.dstack([B, B]); xp.column_stack([B, J]); xp.column_stack([Q, B]); xp.append(A, B); "
        "xp.append(A, A, axis=0); xp.split(V[:4], 2); xp.split(V, [1, 3]); xp.split(A, 3, axis=1); "
        "xp.array_split(V, 3); xp.hsplit(A, 3); xp.hsplit(V, [2]); xp.vsplit(A, 2); xp.dsplit(T, 2); "
        "xp.delete(V, 1); xp.delete(A, [0, 2], 1); xp.delete(V, slice(0, 4, 2))"
    ),
    *[
        f"xp.pad(A, {w}, mode='{m}')"
        for m in ("constant", "edge", "reflect", "symmetric", "wrap")
        for w in ("1", "((1, 0), (2, 1))")
    ],
    *rows(
        "xp.pad(A, 1, constant_values=7); xp.pad(A, 1, constant_values=(1, 2)); "
        "xp.pad(A, 1, constant_values=((1, 2), (3, 4))); xp.pad(V, (7, 9), mode='reflect'); "
        "xp.pad(V, 7, mode='wrap'); xp.pad(I, (0, 2)); xp.arange(5); xp.arange(2, 9, 3); "
        "xp.arange(5, 0, -2); xp.arange(0.5, 2, 0.25); xp.arange(0); xp.linspace(0, 1, 5); "
        "xp.linspace(0, 1, 5, endpoint=False); xp.linspace(0, 1, 1); xp.linspace(0, 1, 0); "
        "xp.linspace(B, 2, 4); xp.linspace(B, A, 3, axis=1); xp.linspace(B, 2, 4, endpoint=False, axis=-1); "
        "xp.linspace(0, 10, 4, dtype='int32'); xp.linspace(0, 1, 5, retstep=True); xp.linspace(S, 4, 3); "
        "xp.logspace(0, 2, 4); xp.logspace(0, 3, 4, base=2); xp.geomspace(1, 1000, 4); "
        "xp.geomspace(P[0], P[1], 3); xp.geomspace(-1, -8, 4); xp.eye(3); xp.eye(2, 3, 1); xp.eye(3, k=-1); "
        "xp.identity(2); xp.tri(3); xp.tri(2, 3, 1); xp.tril(Q); xp.tril(T, -1); xp.triu(Q, 1); xp.triu(T); "
        "xp.tril_indices(3); xp.triu_indices(3, 1, 4); xp.tril_indices_from(Q, -1); xp.triu_indices_from(A); "
        "xp.diag_indices(3); xp.meshgrid(B, V); xp.meshgrid(B, V, indexing='ij'); "
        "xp.meshgrid(B, V, sparse=True); xp.meshgrid(B, V, J); xp.indices((2, 3)); "
        "xp.indices((2, 3), sparse=True); xp.vander(B); xp.vander(B, 4, increasing=True); "
        "xp.fromfunction(lambda i, j: i * 10 + j, (2, 3)); xp.zeros((2, 3)); xp.ones(3); xp.full((2, 2), 7); "
        "xp.full((2, 3), B); xp.zeros_like(A); xp.ones_like(I); xp.full_like(A, 3); xp.full_like(I, 2.7); "
        "xp.zeros_like(A, shape=(2,)); xp.array([[1, 2], [3, 4]]); xp.array([A, A]); "
        "xp.array([1, 2.5, True]); xp.asarray(range(3)); xp.array(3, ndmin=2); xp.copy(A); "
        "xp.astype(A, 'int32'); xp.array([]); xp.array(A.T); xp.take(A, J); "
        "xp.take(A, np.array([[0, -1]]), axis=1); xp.take(A, 1, axis=0); "
        "xp.take(A, np.array([7, -9]), mode='wrap'); xp.take_along_axis(A, np.argsort(A, 1), 1); "
        "xp.take_along_axis(A, np.array([[1, 0, 1]]), 0); xp.take_along_axis(A, np.array([4, 0]), None); "
        "xp.nonzero(I); xp.flatnonzero(I); xp.argwhere(I); "
        "xp.compress(np.array([True, False, True]), A, axis=1); xp.extract(M, A); "
        "xp.unravel_index(np.array([0, 5, 3]), (2, 3)); "
        "xp.ravel_multi_index((np.array([1, 0]), np.array([2, 1])), (2, 3)); xp.sort(A); xp.sort(A, axis=0); "
        "xp.sort(A, axis=None); xp.sort(N); xp.sort(I); xp.sort(M); xp.argsort(A); "
        "xp.argsort(V, stable=True); xp.argsort(I, axis=0); xp.lexsort([V, V[::-1]]); "
        "xp.lexsort([A, I], axis=0); xp.searchsorted(np.sort(V), V); "
        "xp.searchsorted(np.sort(V), V, side='right'); xp.searchsorted(J, 2, sorter=np.argsort(J)); "
        "xp.searchsorted(np.float32([1, 2, np.nan]), np.float32([np.nan, 1.5, 9])); "
        "xp.searchsorted(E[:, 0], A); xp.searchsorted(np.arange(100), np.array([[3, 99], [-1, 200]])); "
        "xp.digitize(A, np.float32([-1, 0, 1])); xp.digitize(A, np.float32([1, 0, -1])); "
        "xp.digitize(A, np.float32([-1.5, 2]), right=True); xp.digitize(I, np.array([2, 1, 1, -1])); "
        "xp.digitize(A, np.float32([-1, 1, np.nan])); xp.digitize(A, np.float32([np.nan, 1, -1])); "
        "xp.digitize(I, np.array([2, 1, -1]), right=True); xp.digitize(I, np.array([-1, 0, 2])); "
        "xp.take(A, np.array([[7, -9], [-1, 0]]), mode='clip'); xp.take(A, np.int8([-1, 1, 5]), 1, mode='clip'); "
        "xp.bincount(J); xp.bincount(J, minlength=6); "
        "xp.bincount(J, weights=B); xp.unique(V); "
        "xp.unique(V, return_index=True, return_inverse=True, return_counts=True); xp.unique(I, axis=0); "
        "xp.unique(N); xp.isin(I, J); xp.isin(I, J, invert=True); xp.isin(I, np.zeros(0, 'i4')); "
        "xp.dot(A, B); xp.dot(A, Q); xp.dot(S, A); xp.dot(T, T[0].T); xp.matmul(A, Q); xp.matmul(T, T[0].T); "
        "xp.matmul(A, np.swapaxes(T, 1, 2)[:, :3, :3]); xp.matmul(B, A.T); "
        "xp.matmul(T[:, None], np.ones((5, 4, 2), 'f4')); xp.vdot(C, C); xp.vdot(A, A); xp.vecdot(A, B); "
        "xp.vecdot(C, C, axis=0); xp.matvec(A, B); xp.vecmat(B, Q); xp.inner(A, Q); xp.inner(B, B); "
        "xp.inner(S, A); xp.outer(A, B); xp.tensordot(A, Q, 1); xp.tensordot(A, B, 0); "
        "xp.tensordot(T, T, ([0, 2], [0, 2])); xp.tensordot(T, A, ((0, 1), (0, 1))); xp.kron(A, B); "
        "xp.kron(B, Q); xp.cross(A, B); "
        "xp.cross(Q, Q.T, axis=0); xp.trace(Q); xp.trace(T, 1, 1, 2); xp.trace(Q, -1)"
    ),
    *[
        f"xp.einsum('{s}')".replace("')", f"', {o})")
        for s, o in [
            ("ij,jk->ik", "A, Q"),
            ("ij,jk", "A, Q"),
            ("ij,j", "A, B"),
            ("ij->ji", "A"),
            ("ii", "Q"),
            ("ii->i", "Q"),
            ("ij->", "A"),
            ("i,j", "B, V"),
            ("i,i->i", "B, B"),
            ("i,i", "B, B"),
            ("ij,ij->j", "A, A"),
            ("...j,jk->...k", "T[:, :, :3], Q"),
            ("bij,bkj->bik", "T, T"),
            ("bij,b->ij", "T, V[:2]"),
            ("ij,jk,kl->il", "A, Q, Q"),
            ("ij,jk,kl,l", "A, Q, Q, B"),
            ("...,...", "A, B"),
            ("i...->...", "T"),
            ("...ii->...i", "np.stack([Q, Q])"),
            ("ijj->i", "np.stack([Q, Q])"),
            ("i,->i", "B, S"),
            ("ij,kj->ik", "A, A[:1]"),
            ("ba", "A"),
            ("i,j,k->kji", "B, J, V"),
            ("ij,j->ij", "A, B"),
            (",", "S, S"),
        ]
    ],
    *rows("xp.einsum(A, [0, 1], Q, [1, 2], [0, 2]); xp.einsum(A, [0, 1], Q, [1, 2])"),
    *VALUES,
]


@pytest.mark.parametrize("row", dict.fromkeys(ROWS))
def test_value(row: str) -> None:
    """The result has NumPy's shape and values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = eval(row, {"xp": np, "np": np, **NAMES})
    agree(eval(row, {"xp": enp, "np": np, **NAMES}), want)


@pytest.mark.parametrize(("here", "there"), PAIRS, ids=[here for here, _ in PAIRS])
def test_said_otherwise(here: str, there: str) -> None:
    """Parameters that NumPy does not have do what is written out there."""
    agree(eval(here, {"xp": enp, "np": np, **NAMES}), eval(there, {"np": np, **NAMES}))


@pytest.mark.parametrize(("row", "error", "text"), REFUSED, ids=[row for row, _, _ in REFUSED])
def test_refused(row: str, error: str, text: str) -> None:
    """What does not fit is refused, with the whole text."""
    with pytest.raises(Exception, match=re.escape(text)) as caught:
        eval(row, {"xp": enp, "np": np, **NAMES})
    assert type(caught.value).__name__ == error
    assert str(caught.value).split("\n")[0] == text


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize(
    "name", ["exp", "sin", "tanh", "sqrt", "log1p", "floor", "sinc", "square", "signbit", "nan_to_num"]
)
def test_narrow_floats(name: str, dtype: Any) -> None:
    """16-bit floats give what f32 gives, rounded."""
    x = np.asarray([0.25, 0.5, 1.5], dtype)
    got = np.asarray(getattr(enp, name)(x)).astype(np.float32)
    np.testing.assert_allclose(got, getattr(np, name)(x.astype(np.float32)), rtol=1e-2)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_narrow_floats_add_up_in_f32(dtype: Any) -> None:
    """Sums, means and medians of many 16-bit floats keep their precision."""
    x = np.ones((3000,), dtype)
    assert float(enp.sum(x)) == pytest.approx(3000, rel=4e-3)
    assert float(enp.mean(x)) == 1.0
    assert float(enp.var(x)) == 0.0
    assert float(enp.median(x)) == 1.0


def test_cross_of_two_components() -> None:
    """A vector of two components has 0 as its third; two such vectors give one number."""
    flat = np.pad(A[:, :2], ((0, 0), (0, 1)))
    agree(enp.cross(A[:, :2], B), np.cross(flat, B))
    agree(enp.cross(B, A[:, :2]), np.cross(B, flat))
    agree(enp.cross(A[:, :2], B[:2]), np.cross(flat, np.array([1.5, -2.0, 0.0]))[:, 2])
