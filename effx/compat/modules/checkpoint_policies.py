"""`jax.checkpoint_policies`: effx's policies, which policies of users may ask in JAX's form."""

from collections.abc import Callable
from functools import cache

from effx import checkpoint_policies
from effx.compat.policies import wrap_policy


@cache
def __getattr__(name: str) -> Callable[..., object]:
    value: Callable[..., object] = getattr(checkpoint_policies, name)
    return value if isinstance(value, type) else wrap_policy(value)


def __dir__() -> list[str]:
    return dir(checkpoint_policies)
