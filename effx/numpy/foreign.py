"""NumPy's own objects that serve effx arrays as they are: printing, casting rules, slices, warnings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from effx.numpy.einsums import contraction_order

if TYPE_CHECKING:
    from effx.array import Operand

__all__ = [
    "ComplexWarning", "array_repr", "array_str", "can_cast", "character", "einsum_path", "flexible",
    "get_printoptions", "index_exp", "iterable", "object_", "printoptions", "s_", "save", "savez",
    "set_printoptions",
]  # fmt: skip

ComplexWarning = np.exceptions.ComplexWarning
can_cast = np.can_cast
character = np.character
flexible = np.flexible
get_printoptions = np.get_printoptions
index_exp = np.index_exp
iterable = np.iterable
object_ = np.object_
printoptions = np.printoptions
s_ = np.s_
save = np.save
savez = np.savez
set_printoptions = np.set_printoptions


def array_repr(
    arr: "Operand",
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of an array with its class and dtype, by NumPy; as it is printed under `printoptions`.

    >>> array_repr(np.arange(2.0, dtype=np.float32))
    'array([0., 1.], dtype=float32)'
    """
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


def array_str(
    a: "Operand",
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of an array's elements, by NumPy.

    >>> array_str(np.arange(2.0))
    '[0. 1.]'
    """
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)


def einsum_path(
    subscripts: str, /, *operands: "Operand", optimize: bool | str | Sequence[str | Sequence[int]] = "auto"
) -> tuple[list[tuple[int, ...]], str]:
    """The order in which `einsum` had best contract its operands, and a report, by NumPy.

    Args:
        subscripts: as for `einsum`.
        *operands: arrays, of which only the shapes are read.
        optimize: "auto", "greedy" or "optimal", a bool, or a path.

    >>> einsum_path("ij,jk->ik", np.ones((2, 3)), np.ones((3, 2)))[0]
    [(0, 1)]
    """
    shapes = [np.broadcast_to(np.zeros(()), np.shape(x)) for x in operands]
    # NumPy's search and paths: a path has a word before it.
    how: bool | str | list[str | tuple[int, ...]]
    if isinstance(optimize, bool | str):
        how = "greedy" if optimize == "auto" else optimize
    else:
        how = ["einsum_path", *contraction_order(optimize, len(operands))]
    path, report = np.einsum_path(subscripts, *shapes, optimize=how)
    return path[1:], report  # without the word that NumPy has before it
