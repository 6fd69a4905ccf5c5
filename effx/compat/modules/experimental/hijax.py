"""`jax.experimental.hijax`: primitives and types of a library's own, from which flax.nnx derives some.

They can be derived from, so that flax.nnx loads. What uses them is refused: in effx these are operations and handlers.
"""

from typing import Any, NoReturn

from effx.compat.avals import AbstractValue
from effx.compat.modules.interpreters.ad import Zero, instantiate_zeros, is_undefined_primal
from effx.errors import TransformError

__all__ = [
    "AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrim", "HiType", "Zero", "aval_method", "aval_property",
    "control_flow_allowed_effects", "instantiate_zeros", "is_undefined_primal", "register_hitype",
]  # fmt: skip


def _refuse(what: str) -> NoReturn:
    raise TransformError(
        f"{what}: jax.experimental.hijax is not in effx; write an operation or a handler (effx.handling)"
    )


class HiPrim:
    """What primitives of a library's own derive from."""

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *operands: Any, **params: Any) -> NoReturn:
        """Raises a TransformError."""
        _refuse(self.name)


class HiType:
    """What types of a library's own derive from."""


class AvalQDD:
    """A type and what is known of a value's content."""

    def __init__(self, *parts: Any) -> None:
        _refuse("AvalQDD")


class AvalMutableQDD(AvalQDD):
    """One that changes."""


class aval_property:  # JAX's name
    """A property that values take from their type."""

    def __init__(self, fget: Any) -> None:
        self.fget = fget


class aval_method:  # JAX's name
    """A method that values take from their type."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun


def register_hitype(cls: type[object], typeof: Any) -> None:
    """Says how values of a library's own have types. None of them comes to be in effx: their primitives are refused."""


class _Allowed:
    """The effects that loops and branches may have: in effx all."""

    def add_type(self, effect: type[object]) -> None:
        """Allows an effect, which is so already."""


control_flow_allowed_effects = _Allowed()
