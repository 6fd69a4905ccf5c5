"""Wrapped functions take what they can of a callable's name, docstring and annotations."""

from typing import Any

import numpy as np

import effx


class Layer:
    """A layer whose attributes are of other types than a function's."""

    __name__ = 3
    __annotations__ = ["no dict"]  # type: ignore[assignment]  # what is tested

    def __call__(self, x: Any) -> Any:
        return x + 1


def test_attributes_of_other_types_are_left_out() -> None:
    """A name that is no string and annotations that are no dict stay away; the docstring comes along."""
    assert effx.vmap(Layer()).__doc__ == Layer.__doc__
    np.testing.assert_array_equal(effx.vmap(Layer())(np.zeros(3, np.float32)), [1, 1, 1])
    for transform in (effx.jit, effx.checkpoint):
        assert float(transform(Layer())(1.0)) == 2
    assert float(effx.grad(Layer())(1.0)) == 1
