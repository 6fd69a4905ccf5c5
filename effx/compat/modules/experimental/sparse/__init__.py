"""`jax.experimental.sparse`: the primitives that effx's functions of sparse arrays are not."""

from effx.compat.composed import ComposedPrimitive
from effx.compat.sparse_primitives import SPARSE_PRIMITIVES


def __getattr__(name: str) -> ComposedPrimitive:
    if name not in SPARSE_PRIMITIVES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return SPARSE_PRIMITIVES[name]


def __dir__() -> list[str]:
    return sorted(SPARSE_PRIMITIVES)
