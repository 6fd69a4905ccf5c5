"""Comparison of results, directions, pairings, and finite differences, for all laws.

Never: compute by a transformation; this is the oracles' side.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from effx import dtypes, tree
from effx.array import Array
from effx.array.promotion import as_operand
from effx.numpy import asarray
from effx.tree.registry import PyTree

Data = np.ndarray[Any, Any]
STEP = 1e-6  # a central difference has an error of about STEP ** 2, rounding one of 1e-16 / STEP


def comparable_data(x: object) -> Data:
    """Returns the data of an array; 16-bit floats in f32, which NumPy can compare."""
    data = np.asarray(x)
    return data.astype(np.float32) if data.dtype.kind == "V" and data.dtype != dtypes.float0 else data


def leaves(value: PyTree) -> list[Array]:
    """Returns the arrays of a pytree; numbers become arrays, tangents of dtype float0 are left out."""
    return [as_operand(x) for x in tree.leaves(value) if getattr(x, "dtype", None) != dtypes.float0]


def same(got: PyTree, want: PyTree, tolerance: float = 1e-9, note: str = "") -> None:
    """Compares two pytrees of arrays: shapes, dtypes, and values relative to the largest.

    Raises:
        AssertionError: they differ.

    >>> import effx.numpy as enp
    >>> from effx.laws import same
    >>> same([enp.array(1.0)], [enp.array(1.0)])
    >>> same([enp.zeros(2)], [enp.zeros(3)])
    Traceback (most recent call last):
    ...
    AssertionError: ...array 0: f32[2] against f32[3]...
    """
    left, right = leaves(got), leaves(want)
    assert len(left) == len(right), f"{note} {len(left)} arrays against {len(right)}"
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        where = f"{note} array {index}"
        assert a.type.matches(b.type), f"{where}: {a.type!r} against {b.type!r}"
        x, y = comparable_data(a), comparable_data(b)
        if tolerance == 0.0 or x.dtype.kind in "biuV":
            np.testing.assert_array_equal(x, y, err_msg=where)
            continue
        finite = np.abs(y[np.isfinite(y)])
        size = max(1.0, float(finite.max())) if finite.size else 1.0
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * size, err_msg=where)


def arrays(data: Sequence[Data], like: Sequence[Array]) -> tuple[Array, ...]:
    """Returns arrays with the dtypes of others."""
    return tuple([asarray(d, x.type.dtype) for d, x in zip(data, like, strict=True)])


def directions(xs: Sequence[Array], seed: int = 1) -> tuple[Array, ...]:
    """Draws a tangent or cotangent for each floating array; the same ones each time."""
    rng = np.random.default_rng(seed)
    tangents: list[Array] = []
    for x in xs:
        data = np.asarray(np.round(rng.uniform(-1, 1, x.type.shape), 3))
        if x.type.kind == "c":
            data = data + 1j * np.round(rng.uniform(-1, 1, x.type.shape), 3)
        tangents.append(asarray(data, x.type.dtype))
    return tuple(tangents)


def inner_product(a: Sequence[object], b: Sequence[object]) -> float:
    """Returns the pairing of cotangents and tangents: the real part of the sum of products, unconjugated."""
    products = [np.real((comparable_data(x) * comparable_data(y)).sum()) for x, y in zip(a, b, strict=True)]
    return float(sum(products, 0.0))


def central_difference(
    f: Callable[..., PyTree], xs: Sequence[Array], along: Sequence[Array], step: float = STEP
) -> list[Data]:
    """Returns the central difference of a function's results along directions; 0 where they stay, infinite ones too."""
    ends: list[list[Data]] = []
    for sign in (1.0, -1.0):
        moved = [
            comparable_data(x) + sign * step * comparable_data(v) for x, v in zip(xs, along, strict=True)
        ]
        ends.append([comparable_data(y) for y in leaves(f(*arrays(moved, xs)))])
    slopes = []
    for a, b in zip(*ends, strict=True):
        slope = np.zeros(a.shape, a.dtype if a.dtype.kind in "fc" else np.float64)
        if a.dtype.kind in "fc":
            np.subtract(a, b, out=slope, where=a != b)
        slopes.append(slope / (2 * step))
    return slopes
