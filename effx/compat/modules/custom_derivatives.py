"""`jax.custom_derivatives`: the primitives that functions with derivatives of their own perform."""

from effx.compat.primitives import Primitive, primitive_named

names = ["custom_jvp_call_p", "custom_vjp_call_p"]


def __getattr__(name: str) -> Primitive:
    if name not in names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return primitive_named(name[:-2])


def __dir__() -> list[str]:
    return names
