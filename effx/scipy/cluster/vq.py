"""Vector quantization."""

from effx.array import Array, Operand, reducing
from effx.array.arithmetic import to_inexact, where
from effx.array.promotion import as_operand, convert, promote_dtypes
from effx.array.shaping import expand_dims, reshape
from effx.dtypes import int32
from effx.errors import DTypeError, ShapeError
from effx.lazy import list_names
from effx.numpy.elementwise import sqrt
from effx.transforms.jit.jit import jit

__all__ = ["vq"]
__dir__ = list_names(__all__)


@jit(inline=True)
def _nearest_code(x: Array, book: Array) -> tuple[Array, Array]:
    gaps = expand_dims(x, -2) - book
    squares = reducing.sum(gaps * gaps, -1)
    codes = convert(reducing.argmin(squares, -1), int32)
    least = reducing.min(squares, -1)
    # The distance has no slope where it is 0.
    apart = least != 0
    return codes, where(apart, sqrt(where(apart, least, 1)), 0)


def vq(obs: Operand, code_book: Operand, check_finite: bool = True) -> tuple[Array, Array]:
    """Finds for each observation the nearest code.

    Args:
        obs: `[m, n]` observations of n features, or `[m]` of one.
        code_book: `[k, n]` or `[k]` codes.
        check_finite: has no effect: values are not checked.

    Returns:
        `i32[m]`, the numbers of the codes, the first of those that are equally near; and `[m]`, the distances.

    Raises:
        ShapeError: the ranks or the numbers of features differ, or there is no code.
        DTypeError: complex numbers.

    >>> import numpy as np
    >>> codes, distances = vq(np.array([[0.0, 1.0], [4.0, 4.0]]), np.array([[0.0, 0.0], [4.0, 1.0]]))
    >>> codes.tolist(), distances.tolist()
    ([0, 1], [1.0, 3.0])
    """
    x, book = [to_inexact(p) for p in promote_dtypes(as_operand(obs), as_operand(code_book))]
    if x.type.kind == "c":
        raise DTypeError(f"vq: takes real numbers, got {x.type!r}")
    if x.type.ndim != book.type.ndim or x.type.ndim not in (1, 2) or x.type.shape[1:] != book.type.shape[1:]:
        raise ShapeError(
            f"vq: obs and code_book must both be [count, features] or [count], got {x.type!r} and {book.type!r}"
        )
    if not book.type.shape[0]:
        raise ShapeError(f"vq: code_book must have a code, got {book.type!r}")
    if x.type.ndim == 1:
        x, book = reshape(x, (-1, 1)), reshape(book, (-1, 1))
    return _nearest_code(x, book)
