"""Protocols of rules for type checkers, by the number of operands; decorators preserve the rule's own type."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from effx.array import Array
from effx.effects import Operation

O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - the literature's name
O_contra = TypeVar("O_contra", bound=Operation[Any], contravariant=True)
P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
Q = TypeVar("Q")
Q_co = TypeVar("Q_co", covariant=True)
A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)


class Variadic(Protocol[O_contra, P_contra, Q_co]):
    """`(op, *payloads) -> result`, for operations with any number of operands."""

    def __call__(self, op: O_contra, /, *payloads: P_contra) -> Q_co:
        """Returns the result."""
        ...


class VariadicAt(Protocol[A_contra, O_contra, P_contra, Q_co]):
    """`(site, op, *payloads) -> result`, for operations with any number of operands."""

    def __call__(self, site: A_contra, op: O_contra, /, *payloads: P_contra) -> Q_co:
        """Returns the result."""
        ...


# By the kind of result: a payload, a plain array if the result carries none, or a tuple of these.
Payloads: TypeAlias = tuple[P | Array, ...]


class PayloadRule(Protocol[O, P]):
    """A decorator of `(op, *payloads) -> payload` that returns the rule."""

    @overload
    def __call__(self, rule: Variadic[O, P, P]) -> Variadic[O, P, P]: ...  # type: ignore[overload-overlap]  # a payload may itself be a tuple
    @overload
    def __call__(self, rule: Variadic[O, P, P | Array]) -> Variadic[O, P, P | Array]: ...  # type: ignore[overload-overlap]  # as above
    @overload
    def __call__(self, rule: Variadic[O, P, Payloads[P]]) -> Variadic[O, P, Payloads[P]]: ...
    @overload
    def __call__(self, rule: Callable[[O, P], P]) -> Callable[[O, P], P]: ...
    @overload
    def __call__(self, rule: Callable[[O, P, P], P]) -> Callable[[O, P, P], P]: ...
    @overload
    def __call__(self, rule: Callable[[O, P, P, P], P]) -> Callable[[O, P, P, P], P]: ...
    @overload
    def __call__(self, rule: Callable[[O, P, P, P, P], P]) -> Callable[[O, P, P, P, P], P]: ...
    @overload
    def __call__(self, rule: Callable[[O, P], P | Array]) -> Callable[[O, P], P | Array]: ...
    @overload
    def __call__(self, rule: Callable[[O, P, P], P | Array]) -> Callable[[O, P, P], P | Array]: ...
    @overload
    def __call__(self, rule: Callable[[O, P, P, P], P | Array]) -> Callable[[O, P, P, P], P | Array]: ...
    @overload
    def __call__(self, rule: Callable[[O, P], Payloads[P]]) -> Callable[[O, P], Payloads[P]]: ...
    @overload
    def __call__(self, rule: Callable[[O, P, P], Payloads[P]]) -> Callable[[O, P, P], Payloads[P]]: ...
    def __call__(self, rule: Any) -> Any:
        """Registers the rule."""
        ...


class SitePayloadRule(Protocol[A, O, P]):
    """A decorator of `(site, op, *payloads) -> payload` that returns the rule."""

    @overload
    def __call__(self, rule: VariadicAt[A, O, P, P]) -> VariadicAt[A, O, P, P]: ...
    @overload
    def __call__(self, rule: VariadicAt[A, O, P, P | Array]) -> VariadicAt[A, O, P, P | Array]: ...
    @overload
    def __call__(self, rule: VariadicAt[A, O, P, Payloads[P]]) -> VariadicAt[A, O, P, Payloads[P]]: ...
    @overload
    def __call__(self, rule: Callable[[A, O, P], P]) -> Callable[[A, O, P], P]: ...
    @overload
    def __call__(self, rule: Callable[[A, O, P, P], P]) -> Callable[[A, O, P, P], P]: ...
    @overload
    def __call__(self, rule: Callable[[A, O, P, P, P], P]) -> Callable[[A, O, P, P, P], P]: ...
    @overload
    def __call__(self, rule: Callable[[A, O, P], P | Array]) -> Callable[[A, O, P], P | Array]: ...
    @overload
    def __call__(self, rule: Callable[[A, O, P, P], P | Array]) -> Callable[[A, O, P, P], P | Array]: ...
    @overload
    def __call__(
        self, rule: Callable[[A, O, P, P, P], P | Array]
    ) -> Callable[[A, O, P, P, P], P | Array]: ...
    def __call__(self, rule: Any) -> Any:
        """Registers the rule."""
        ...


InterceptResult: TypeAlias = Array | tuple[Array, ...]


class InterceptRule(Protocol[A, O]):
    """A decorator of `(site, op, *operands) -> result` that returns the rule."""

    @overload
    def __call__(
        self, rule: VariadicAt[A, O, Array, InterceptResult]
    ) -> VariadicAt[A, O, Array, InterceptResult]: ...
    @overload
    def __call__(self, rule: Callable[[A, O], InterceptResult]) -> Callable[[A, O], InterceptResult]: ...
    @overload
    def __call__(
        self, rule: Callable[[A, O, Array], InterceptResult]
    ) -> Callable[[A, O, Array], InterceptResult]: ...
    @overload
    def __call__(
        self, rule: Callable[[A, O, Array, Array], InterceptResult]
    ) -> Callable[[A, O, Array, Array], InterceptResult]: ...
    @overload
    def __call__(
        self, rule: Callable[[A, O, Array, Array, Array], InterceptResult]
    ) -> Callable[[A, O, Array, Array, Array], InterceptResult]: ...
    def __call__(self, rule: Any) -> Any:
        """Registers the rule."""
        ...
