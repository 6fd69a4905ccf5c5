"""How pickle and copy see what `jit` gives."""

import sys
from collections.abc import Callable
from typing import Protocol, runtime_checkable


@runtime_checkable
class Owner(Protocol):
    """The Python side of a jitted function; see `effx.transforms.jit.Function`."""

    what: str

    def public(self) -> object:
        """Returns what `jit` gives."""
        ...


def reduced(function: Callable[..., object]) -> "str | tuple[object, ...]":
    """How pickle and copy see C++ functions: by name where they have one, else as what `jit` was given.

    Those of jax are of the same class, and none of effx's business.
    """
    owner = getattr(getattr(function, "trace", None), "__self__", None)
    if not isinstance(owner, Owner):
        return function.__reduce_ex__(2)
    name = getattr(function, "__qualname__", "")  # none where Python looks at static arguments before
    found: object = sys.modules.get(getattr(function, "__module__", ""))
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is function else (again, (owner,))


def again(owner: Owner) -> object:
    """Returns the jitted function of what was pickled."""
    return owner.public()
