"""`jax.lax`: effx's operations as primitives, `sin_p` and the like."""

from effx.compat.operation_names import LAX
from effx.compat.primitives import Primitive, primitive_named

names = [f"{name}_p" for name in LAX]


def __getattr__(name: str) -> Primitive:
    if not name.endswith("_p") or name[:-2] not in LAX:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return primitive_named(name[:-2])


def __dir__() -> list[str]:
    return sorted(names)
