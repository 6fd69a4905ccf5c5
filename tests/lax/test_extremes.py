"""The greatest and the smallest element: NaN where there is one, in every form that they are lowered to."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import effx
import effx.numpy as enp
from effx import lax
from effx.laws.samples import Data

# From 2,048 elements on XLA:CPU hands plain reductions to a library that loses NaN.
SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((1,), 0),
    ((63,), 0),
    ((64,), 0),
    ((2047,), 0),
    ((2048,), 0),
    ((5000,), 0),
    ((300, 7), 0),
    ((300, 7), 1),
    ((7, 300), 1),
    ((65, 65), None),
    ((20, 3, 100), (0, 2)),
    ((3, 1, 1000), (1, 2)),
]
DTYPES = ["f4", "f8", "f2", ml_dtypes.bfloat16]


def place_nan(shape: tuple[int, ...], dtype: Any) -> Data:
    """Returns numbers of both signs, some of them NaN or infinite; the first and the last too."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=shape)
    x[rng.random(shape) < 0.002] = np.nan
    x[rng.random(shape) < 0.01] = np.inf
    x.flat[0] = x.flat[-1] = np.nan
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_nan_stays(shape: tuple[int, ...], axis: Any, dtype: Any) -> None:
    """As in NumPy; without NaN too."""
    with effx.enable_x64(dtype == "f8"):
        for x in (place_nan(shape, dtype), np.nan_to_num(place_nan(shape, dtype), nan=-1.5)):
            wide = x.astype("f8")
            largest, smallest = effx.jit(lambda x: (enp.max(x, axis), enp.min(x, axis)))(x)
            np.testing.assert_array_equal(np.asarray(largest).astype("f8"), wide.max(axis))
            np.testing.assert_array_equal(np.asarray(smallest).astype("f8"), wide.min(axis))
            np.testing.assert_array_equal(
                np.asarray(enp.ptp(x, axis)).astype("f8"), np.ptp(x, axis).astype("f8")
            )


@pytest.mark.parametrize("position", [0, 1, 1023, 1024, 4998, 4999])
def test_one_nan_of_many(position: int) -> None:
    """Wherever it is: in the middle of the halves that are compared, and at both ends."""
    x = np.arange(5000, dtype="f4")
    x[position] = np.nan
    for function in (enp.max, enp.min, effx.jit(lambda x: enp.max(2 * x)), lambda x: lax.reduce_max(x, [0])):
        assert np.isnan(function(x))
    assert enp.argmax(x) == enp.argmin(x) == position


def test_batches_and_compositions() -> None:
    """Under vmap and in loops; softmax and logsumexp, which need not look for NaN themselves."""
    x = place_nan((40, 100), "f4")
    np.testing.assert_array_equal(effx.vmap(enp.max)(x), x.max(1))
    np.testing.assert_array_equal(effx.vmap(enp.min, 1)(x), x.min(0))
    np.testing.assert_array_equal(lax.map(enp.max, np.tile(x, (1, 30))), x.max(1))
    np.testing.assert_array_equal(
        np.isnan(effx.nn.softmax(x)), np.repeat(np.any(~np.isfinite(x), 1, keepdims=True), 100, 1)
    )
    np.testing.assert_array_equal(np.isnan(effx.nn.logsumexp(x, 1)), np.isnan(x).any(1))


@pytest.mark.parametrize("window", [(1, 4), (5, 1), (5, 4)])
def test_windows(window: tuple[int, int]) -> None:
    """Windows beside each other, which XLA makes one reduction."""
    x = place_nan((50, 60), "f4")
    m, n = window
    expected = x.reshape(50 // m, m, 60 // n, n)
    for combine, initial, reduce in ((lax.max, -np.inf, np.max), (lax.min, np.inf, np.min)):
        y = lax.reduce_window(x, initial, combine, window, window, "VALID")
        np.testing.assert_array_equal(y, reduce(expected, (1, 3)))


def test_sharded_arrays() -> None:
    """Each device reduces its part, and whether there is a NaN."""
    mesh = effx.make_mesh((len(effx.devices()),), ("i",))
    x = place_nan((64, 128), "f4")
    for spec in (effx.sharding.PartitionSpec("i"), effx.sharding.PartitionSpec(None, "i")):
        placed = effx.device_put(x, effx.NamedSharding(mesh, spec))
        for axis in (0, 1, None):
            y = effx.jit(lambda x, axis=axis: (enp.max(x, axis), enp.min(x, axis)))(placed)
            np.testing.assert_array_equal(y[0], x.max(axis))
            np.testing.assert_array_equal(y[1], x.min(axis))


def test_symbolic_sizes() -> None:
    """A size that is not known when the program is written."""
    (n,) = effx.export.symbolic_shape("n")
    exported = effx.export.export(effx.jit(lambda x: enp.max(x)))(effx.ShapeDtypeStruct((n, 3), np.float32))
    x = place_nan((1000, 3), "f4")
    assert np.isnan(exported.call(x))
    assert exported.call(np.where(np.isnan(x), 0, x)) == np.inf
