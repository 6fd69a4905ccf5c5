"""What effx.numpy takes from NumPy, and what it says of dtypes of objects."""

from __future__ import annotations

import numpy as np
import pytest

import effx.numpy as enp


def test_printing() -> None:
    """The text of an array follows NumPy's options, which are those of effx.numpy."""
    x = enp.array([1.23456, 2.0])
    before = enp.get_printoptions()
    try:
        enp.set_printoptions(precision=2)
        assert np.get_printoptions()["precision"] == 2
        assert enp.array_repr(x) == np.array_repr(np.asarray(x)) == "array([1.23, 2.  ], dtype=float32)"
    finally:
        np.set_printoptions(**before)
    assert enp.array_repr(enp.array([1.5]), precision=1) == "array([1.5], dtype=float32)"


@pytest.mark.parametrize(
    "x", [1.0, 1j, True, np.zeros(2, np.complex64), enp.zeros(2), enp.zeros(0, enp.complex64)]
)
def test_kinds_of_objects(x: object) -> None:
    """By the dtype, whatever the values."""
    assert enp.iscomplexobj(x) == np.iscomplexobj(np.asarray(x))
    assert enp.isrealobj(x) == np.isrealobj(np.asarray(x))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), 4])
def test_empty(shape: int | tuple[int, ...]) -> None:
    """Shape and dtype are what is asked for."""
    x = enp.empty(shape, enp.int8)
    assert x.shape == np.empty(shape).shape
    assert x.dtype == np.int8
    assert enp.empty(shape).dtype == np.float32
