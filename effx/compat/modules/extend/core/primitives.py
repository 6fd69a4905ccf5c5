"""`jax.extend.core.primitives`: effx's operations as primitives."""

from effx.compat.operation_names import PRIMITIVES
from effx.compat.primitives import Primitive, primitive_named
from effx.compat.primitives import call_p as call_p

closed_call_p = call_p
names = ["call_p", "closed_call_p", *[f"{name}_p" for name in PRIMITIVES]]


def __getattr__(name: str) -> Primitive:
    if not name.endswith("_p") or name[:-2] not in PRIMITIVES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return primitive_named(name[:-2])


def __dir__() -> list[str]:
    return sorted(names)
