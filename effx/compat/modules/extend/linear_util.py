"""`jax.extend.linear_util`: functions wrapped by transformations, each a generator that is resumed with the result."""

from effx.compat.wrapped import (
    StoreException,
    WrappedFun,
    transformation,
    transformation2,
    transformation_with_aux,
    transformation_with_aux2,
    wrap_init,
)

__all__ = [
    "StoreException", "WrappedFun", "transformation", "transformation2", "transformation_with_aux",
    "transformation_with_aux2", "wrap_init",
]  # fmt: skip
