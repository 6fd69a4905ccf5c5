"""Signatures of elementwise functions, and of functions that make arrays, as far as type checkers can follow.

For a function passed to `vmap`, say, checkers take the first overload; so that overload takes numbers too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast, overload

from effx.array import Array, Scalar
from effx.dtypes import DTypeLike
from effx.ir.values.array import Numeric, Operand, bool_
from effx.ir.values.holding import AF, AN, AR, A, OfOperand
from effx.ir.values.parameters import S1, S2, S3, D, Dims
from effx.transforms.placement.out_sharding import OutSharding


class InexactFunction(OfOperand, Protocol):
    """A function that keeps floating and complex dtypes, and turns integers into floats."""

    @overload
    def __call__(self, x: AF | Numeric, /) -> AF: ...  # type: ignore[overload-overlap]  # only arrays hold dtypes
    @overload
    def __call__(self, x: Operand, /) -> Array: ...


class NumericFunction(OfOperand, Protocol):
    """A function that keeps every dtype but bool."""

    @overload
    def __call__(self, x: AN | Numeric, /) -> AN: ...  # type: ignore[overload-overlap]  # only arrays hold dtypes
    @overload
    def __call__(self, x: Operand, /) -> Array: ...


class RealFunction(OfOperand, Protocol):
    """A function that keeps real dtypes, and makes complex numbers real."""

    @overload
    def __call__(self, x: AR | Numeric, /) -> AR: ...  # type: ignore[overload-overlap]  # only arrays hold dtypes
    @overload
    def __call__(self, x: Operand, /) -> Array: ...


class TypePreservingFunction(OfOperand, Protocol):
    """A function that keeps dtype and shape."""

    @overload
    def __call__(self, x: A | Numeric, /) -> A: ...
    @overload
    def __call__(self, x: Operand, /) -> Array: ...


class Predicate(OfOperand, Protocol):
    """A function that returns a bool for each element."""

    @overload
    def __call__(self, x: Array | Numeric, /) -> Array[bool_, *tuple[Any, ...]]: ...
    @overload
    def __call__(self, x: Operand, /) -> Array[bool_, *tuple[Any, ...]]: ...


class CreationFunction(Protocol):
    """`zeros`, `ones`, `empty`: sizes are known if they are `Size`s, the rank if the shape is a literal."""

    @overload
    def __call__(
        self, shape: tuple[()], dtype: type[D], *, device: object = None, out_sharding: OutSharding = None
    ) -> Scalar[D]: ...
    @overload
    def __call__(
        self,
        shape: S1 | tuple[S1],
        dtype: type[D],
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> Array[D, S1]: ...
    @overload
    def __call__(
        self, shape: tuple[S1, S2], dtype: type[D], *, device: object = None, out_sharding: OutSharding = None
    ) -> Array[D, S1, S2]: ...
    @overload
    def __call__(
        self,
        shape: tuple[S1, S2, S3],
        dtype: type[D],
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> Array[D, S1, S2, S3]: ...
    @overload
    def __call__(
        self,
        shape: int | tuple[int],
        dtype: type[D],
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> Array[D, Any]: ...
    @overload
    def __call__(
        self,
        shape: tuple[int, int],
        dtype: type[D],
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> Array[D, Any, Any]: ...
    @overload
    def __call__(
        self,
        shape: tuple[int, int, int],
        dtype: type[D],
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> Array[D, Any, Any, Any]: ...
    @overload
    def __call__(
        self,
        shape: object,
        dtype: DTypeLike | None = None,
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> Array: ...


class LikeFunction(Protocol):
    """`zeros_like`, `ones_like`, `empty_like`: of the given array's dtype and shape."""

    @overload
    def __call__(
        self,
        a: A,
        dtype: None = None,
        shape: None = None,
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> A: ...
    @overload
    def __call__(
        self,
        a: Array[Any, *Dims],
        dtype: type[D],
        shape: None = None,
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> Array[D, *Dims]: ...
    @overload
    def __call__(
        self,
        a: object,
        dtype: DTypeLike | None = None,
        shape: object = None,
        *,
        device: object = None,
        out_sharding: OutSharding = None,
    ) -> Array: ...


def typed_as_creation(function: Callable[..., Array]) -> CreationFunction:
    """Says to type checkers that a function makes an array of a shape and a dtype."""
    return cast("CreationFunction", function)


def typed_as_like(function: Callable[..., Array]) -> LikeFunction:
    """Says to type checkers that a function makes an array like another."""
    return cast("LikeFunction", function)


def typed_as_inexact(function: Callable[[Operand], Array]) -> InexactFunction:
    """Says to type checkers that a function keeps floating and complex dtypes."""
    return cast("InexactFunction", function)


def typed_as_numeric(function: Callable[[Operand], Array]) -> NumericFunction:
    """Says to type checkers that a function keeps every dtype but bool."""
    return cast("NumericFunction", function)


def typed_as_real(function: Callable[[Operand], Array]) -> RealFunction:
    """Says to type checkers that a function keeps real dtypes."""
    return cast("RealFunction", function)


def typed_as_type_preserving(function: Callable[[Operand], Array]) -> TypePreservingFunction:
    """Says to type checkers that a function keeps dtype and shape."""
    return cast("TypePreservingFunction", function)


def typed_as_predicate(function: Callable[[Operand], Array]) -> Predicate:
    """Says to type checkers that a function returns booleans."""
    return cast("Predicate", function)
