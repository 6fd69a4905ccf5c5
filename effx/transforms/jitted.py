"""What `jit` gives, for type checkers: a function with ways to look inside."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from effx.transforms.stages import Lowered, Traced

__all__ = ["Decorator", "Jitted"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S = TypeVar("S")
Q = ParamSpec("Q")


class Jitted(Protocol[P, R_co]):
    """A function that `jit` compiled: called like the original, with ways to look inside."""

    __name__: str

    @overload
    def __get__(self, instance: None, owner: object = None, /) -> "Jitted[P, R_co]": ...
    @overload
    def __get__(
        self: "Jitted[Concatenate[S, Q], R_co]", instance: S, owner: object = None, /
    ) -> Callable[Q, R_co]: ...
    def __get__(self, instance: object, owner: object = None, /) -> Any:
        """Binds a jitted method to its object."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the compiled function."""
        ...

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced:
        """Stages the function for arguments, or for things with their shapes and dtypes."""
        ...

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """Stages and lowers to StableHLO."""
        ...

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Returns shapes and dtypes of the result without computing."""
        ...

    def clear_cache(self) -> None:
        """Forgets all programs of this function."""
        ...


class Decorator(Protocol):
    """What `jit(...)` without a function returns."""

    def __call__(self, fun: Callable[P, R]) -> Jitted[P, R]:
        """Compiles the function with the options that were given."""
        ...
