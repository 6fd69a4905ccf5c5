"""`jax.numpy`: what takes more there than in `effx.numpy`."""

import math

import numpy as np

from effx.ir.types import Shape

__all__ = ["ndim", "shape", "size"]


def shape(a: object) -> Shape:
    """The sizes; also of lists, and of None and other objects, which NumPy takes for scalars.

    `effx.numpy.shape` refuses those, as JAX will too: today it warns. Libraries ask it of optional arguments.

    >>> shape([[1, 2], [3, 4]]), shape(None)
    ((2, 2), ())
    """
    known = getattr(a, "shape", None)
    return np.shape(a) if known is None else tuple(known)  # type: ignore[arg-type]  # whatever NumPy takes


def ndim(a: object) -> int:
    """The number of axes, of what `shape` takes.

    >>> ndim([1.0, 2.0])
    1
    """
    return len(shape(a))


def size(a: object, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, or the product of the sizes of some axes, of what `shape` takes.

    >>> size([[1, 2, 3]]), size([[1, 2, 3]], 1)
    (3, 3)
    """
    sizes = shape(a)
    if axis is None:
        return math.prod(sizes)
    axes = axis if isinstance(axis, tuple) else (axis,)
    return math.prod([sizes[i] for i in axes])
