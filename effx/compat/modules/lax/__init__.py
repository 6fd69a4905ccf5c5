"""`jax.lax`: effx's operations as primitives, `sin_p` and the like, and what takes more there than in `effx.lax`."""

from collections.abc import Callable

from effx import lax
from effx.compat.composed import COMPOSED
from effx.compat.operation_names import LAX
from effx.compat.primitives import namespace
from effx.compat.tokens import after_all, create_token
from effx.errors import CompatError
from effx.tree.registry import PyTree

__all__ = ["after_all", "create_token", "map", "scan"]


def scan(
    f: Callable[..., tuple[PyTree, PyTree]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[PyTree, PyTree]:
    """`effx.lax.scan` with the parameter for its transpose that flax passes.

    Args:
        f, init, xs, length, reverse, unroll: as for `effx.lax.scan`.
        _split_transpose: False.

    Raises:
        CompatError: the transposed loop is to be two.

    >>> import numpy as np
    >>> print(scan(lambda c, x: (c + x, c), 0.0, np.array([1.0, 2.0]))[1])
    [0. 1.]
    """
    if _split_transpose:
        raise CompatError("scan: effx transposes a loop to one loop; leave _split_transpose=False")
    return lax.scan(f, init, xs, length, reverse, unroll)


def map(  # noqa: A001  # JAX's name
    f: Callable[[PyTree], PyTree], xs: PyTree, *, batch_size: int | None = None
) -> PyTree:
    """`effx.lax.map`, for which a `batch_size` of 0 is none.

    Args:
        f, xs, batch_size: as for `effx.lax.map`.

    >>> import numpy as np
    >>> map(lambda x: x * x, np.arange(3), batch_size=0)
    Array([0, 1, 4], dtype=int32)
    """
    return lax.map(f, xs, batch_size=None if batch_size == 0 else batch_size)


__getattr__, __dir__ = namespace(__name__, [*LAX, *COMPOSED], *__all__)
