"""Reductions over windows, against NumPy's windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.array import Array
from effx.errors import DTypeError, EffxError, ShapeError, TransformError, TreeError
from effx.laws.samples import Data

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 7)).astype(np.float32)
KINDS: list[tuple[Callable[..., Array], Callable[..., Any], float]] = [
    (lax.add, np.sum, 0.0),
    (lax.mul, np.prod, 1.0),
    (lax.max, np.max, -np.inf),
    (lax.min, np.min, np.inf),
    (lambda a, b: a + b, np.sum, 0.0),
]
every_kind = pytest.mark.parametrize(
    ("f", "reference", "start"), KINDS, ids=["add", "mul", "max", "min", "own"]
)


def windows(x: Data, window: tuple[int, ...], strides: tuple[int, ...]) -> Data:
    """What the window covers, at each position, on the last axis."""
    found = np.lib.stride_tricks.sliding_window_view(x, window)[
        tuple([slice(None, None, s) for s in strides])
    ]
    return found.reshape(*found.shape[: x.ndim], -1)


@every_kind
def test_values(f: Callable[..., Array], reference: Callable[..., Any], start: float) -> None:
    """With strides, padding that is not counted, and dilations."""
    want = reference(windows(X, (3, 2), (2, 1)), -1)
    np.testing.assert_allclose(lax.reduce_window(X, start, f, (3, 2), (2, 1)), want, rtol=1e-4, atol=1e-5)
    padded = np.pad(X, ((1, 1), (0, 1)), constant_values=start)
    got = lax.reduce_window(X, start, f, (3, 2), padding="SAME")
    np.testing.assert_allclose(got, reference(windows(padded, (3, 2), (1, 1)), -1), rtol=1e-4, atol=1e-5)
    spread = np.full((11, 6), start, np.float32)
    spread[::2] = X[:, 1:]
    got = lax.reduce_window(X, start, f, (2, 3), None, [(0, 0), (-1, 0)], (2, 1), (3, 1))
    full = windows(spread, (4, 3), (1, 1)).reshape(8, 4, 4, 3)[:, :, ::3].reshape(8, 4, 6)
    np.testing.assert_allclose(got, reference(full, -1), rtol=1e-4, atol=1e-5)


@every_kind
def test_a_window_of_many_elements(
    f: Callable[..., Array], reference: Callable[..., Any], start: float
) -> None:
    """Above the size at which the loop over its elements is written out."""
    x = RNG.uniform(0.5, 1.5, (80,)).astype(np.float32)
    np.testing.assert_allclose(
        lax.reduce_window(x, start, f, (50,), (7,), [(3, 5)]),
        reference(windows(np.pad(x, (3, 5), constant_values=start), (50,), (7,)), -1),
        rtol=1e-4,
    )


def test_the_initial_value_counts_once() -> None:
    """At each position, however much padding the window covers."""
    for f in (lax.add, lambda a, b: a + b):
        assert lax.reduce_window(np.ones(3, np.float32), 10.0, f, (2,), None, [(2, 1)]).tolist() == [
            10,
            11,
            12,
            12,
            11,
        ]
    assert lax.reduce_window(np.arange(3), 1, lax.max, (1,)).tolist() == [1, 1, 2]


@every_kind
def test_gradients(f: Callable[..., Array], reference: Callable[..., Any], start: float) -> None:
    """Against differences."""
    del reference
    with effx.enable_x64(True):
        effx.test_util.check_grads(
            lambda x: lax.reduce_window(x, start, f, (3, 2), (2, 1), [(1, 0), (0, 1)], None, (1, 2)),
            (X.astype(np.float64),),
            2,
        )


def test_the_first_of_equal_elements_has_the_gradient() -> None:
    """As in JAX: of a plateau, one element; none in the padding, NaN before numbers."""
    x = enp.array([0.0, 0.0, 0.0, 1.0, np.nan, np.nan])
    got = effx.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (2,)).sum())(x)
    assert got.tolist() == [1, 0, 0, 1, 1, 0]
    got = effx.grad(lambda x: lax.reduce_window(x, np.inf, lax.min, (2,), (2,), [(2, 0)]).sum())(x)
    assert got.tolist() == [1, 0, 1, 0, 1, 0]


def test_pytrees() -> None:
    """The largest element with its index, by a function of pairs."""

    def larger(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
        taken = b[0] > a[0]
        return enp.where(taken, b[0], a[0]), enp.where(taken, b[1], a[1])

    index: Data = np.arange(X.size, dtype=np.int32).reshape(X.shape)
    best, where = lax.reduce_window((X, index), (-np.inf, 0), larger, (2, 3), (1, 2))
    view = windows(X, (2, 3), (1, 2))
    np.testing.assert_array_equal(best, view.max(-1))
    at = view.argmax(-1)[..., None]
    np.testing.assert_array_equal(where, np.take_along_axis(windows(index, (2, 3), (1, 2)), at, -1)[..., 0])


@pytest.mark.parametrize("f", [lax.max, lambda a, b: a * b + a], ids=["operation", "own"])
def test_batches_and_jit(f: Callable[..., Array]) -> None:
    """A batch is a loop, compiled or not, of no elements too."""

    def one(x: Any) -> Any:
        return lax.reduce_window(x, 1.0, f, (2,), (1,), "SAME_LOWER")

    want = np.stack([one(x) for x in X])
    np.testing.assert_allclose(effx.vmap(one)(X), want, rtol=1e-6)
    np.testing.assert_allclose(effx.jit(effx.vmap(one, -1, -1))(X.T), want.T, rtol=1e-6)
    assert one(np.zeros(0, np.float32)).shape == (0,)


def test_shapes() -> None:
    """The function of shapes has the shapes of reductions."""
    for strides, padding in (((1, 2), "SAME"), (None, "VALID"), ((3, 1), [(1, 0), (-2, 2)])):
        y = lax.reduce_window(X, 0.0, lax.add, (2, 3), strides, padding, (1, 2), (2, 1))
        assert lax.reduce_window_shape_tuple(X.shape, (2, 3), strides, padding, (1, 2), (2, 1)) == y.shape


ERRORS: list[tuple[Callable[[], object], type[EffxError], str]] = [
    (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2,)),
        ShapeError,
        "reduce_window: window_dimensions must have one entry for each of the 2 axes of the operand, got (2,)",
    ),
    (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1,)),
        ShapeError,
        "reduce_window: window_strides must have one entry for each of the 2 axes of the operand, got (1,)",
    ),
    (
        lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), padding=[(0, 0)]),
        ShapeError,
        "reduce_window: padding must have one entry for each of the 2 axes of the operand, got [(0, 0)]",
    ),
    (
        lambda: lax.reduce_window(X, np.zeros(2, np.float32), lax.add, (2, 2)),
        ShapeError,
        "reduce_window: an initial value must be a scalar, got f32[2]",
    ),
    (
        lambda: lax.reduce_window(X, np.int32(1), lax.add, (2, 2)),
        DTypeError,
        "reduce_window: dtypes differ: the operand is f32[6,7], its initial value i32[]",
    ),
    (
        lambda: lax.reduce_window((X, X[:2]), (0.0, 0.0), lambda a, b: a, (2, 2)),
        ShapeError,
        "reduce_window: operand shapes differ: f32[6,7] and f32[2,7]",
    ),
    (
        lambda: lax.reduce_window((X,), 0.0, lambda a, b: a, (2, 2)),
        TreeError,
        "reduce_window: init_value must have the structure of operand, PyTreeDef((*,)), got PyTreeDef(*)",
    ),
    (
        lambda: lax.reduce_window(X, 0.0, lambda a, b: (a, b), (2, 2)),
        TreeError,
        "reduce_window: <lambda> must return the structure of operand, PyTreeDef(*), got PyTreeDef((*, *))",
    ),
    (
        lambda: lax.reduce_window(X, 0.0, lambda a, b: a > b, (2, 2)),
        DTypeError,
        "reduce_window: <lambda> must return a scalar of the operand's dtype, f32[], got bool[]",
    ),
    (
        lambda: lax.reduce_window((), (), lambda a, b: a, ()),
        TransformError,
        "reduce_window: operand must hold at least one array",
    ),
]


@pytest.mark.parametrize(("wrong", "error", "text"), ERRORS, ids=[text for _, _, text in ERRORS])
def test_errors(wrong: Callable[[], object], error: type[EffxError], text: str) -> None:
    """The whole sentence."""
    with pytest.raises(EffxError) as caught:
        wrong()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == text
