"""`Array`, the nominal class of every value, generic in dtype and sizes, and the names for its annotations.

Methods and operators are one-liners. The functions that they call perform operations on arrays: so their
modules are above this one and are bound late.

Overloads distinguish `self` by type variables only: a bare `Array` always matches the first one. All of them are in the one
class: in a base class mypy takes an overload for the dtypes of a kind for every dtype.

Never: import an operation, or a module that performs one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np
from typing_extensions import Unpack

from effx import dtypes
from effx.dtypes import ComplexFloating, DType, Floating, Integer, Narrow, Real
from effx.errors import BackendError, ConversionError, DTypeError
from effx.ir.values.described import ArrayAttributes, HostData, Number, SupportsArray
from effx.ir.values.overloads import with_overloads_of
from effx.ir.values.parameters import DT, D, Dims, F, Fl, I, K, M, N, R, Rest
from effx.ports import array_methods

__all__ = [
    "AnyRank", "Array", "Axis", "HostData", "Index", "IndexUpdate", "IndexUpdater", "MatrixTransposable", "Number",
    "Numeric", "Operand", "Other", "Scalar", "ScalarType", "SupportsArray", "Transposable",
]  # fmt: skip


A = TypeVar("A")
R_co = TypeVar("R_co", covariant=True)

Index: TypeAlias = Any
"""An index as in NumPy: ints, slices, None, Ellipsis, masks, integer arrays, and tuples of these."""


class ArrayFunctions(Protocol):
    """A module whose functions return arrays."""

    def __getattr__(self, name: str) -> Callable[..., Array]: ...


class MethodModules(Protocol):
    """The modules that implement the methods of arrays; they are above this one."""

    arithmetic: ArrayFunctions
    creation: ArrayFunctions
    display: ModuleType
    indexing: ArrayFunctions
    inspection: ModuleType
    numpy: ArrayFunctions  # what methods share with functions of effx.numpy
    operators: ArrayFunctions
    out_sharding: ArrayFunctions
    reducing: ArrayFunctions
    shaping: ArrayFunctions
    sorting: ArrayFunctions


methods = cast("MethodModules", array_methods)


class TextPrinter(Protocol):
    """The printer that IPython passes to an object's print method."""

    def text(self, text: str, /) -> object: ...


class Array(ArrayAttributes, Generic[DT, Unpack[Dims]]):
    """An n-dimensional array: concrete, or a box that stands for one under a transformation.

    The class is generic in its element type and sizes; bare `Array` means any. Values are immutable;
    `x.at[i].set(y)` returns a changed copy.

    >>> import effx, effx.numpy as enp
    >>> x = enp.array([1.0, 2.0])
    >>> isinstance(x, effx.Array), x.shape, x.dtype
    (True, (2,), dtype('float32'))
    >>> print(x.at[0].set(5.0) @ x, x)
    9.0 [1. 2.]
    """

    __slots__ = ()
    __array_priority__ = 100

    # Operators
    def __neg__(self) -> Array[DT, *Dims]:
        return methods.arithmetic.negative(self)

    def __pos__(self) -> Array[DT, *Dims]:
        return self

    @overload
    def __abs__(self: Array[R, *Dims]) -> Array[R, *Dims]: ...
    @overload
    def __abs__(self) -> Array[Any, *Dims]: ...
    def __abs__(self) -> Array:
        return methods.arithmetic.absolute(self)

    def __invert__(self) -> Array[DT, *Dims]:
        return methods.arithmetic.invert(self)

    @overload
    def __add__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __add__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __add__(self, other: Operand) -> Array: ...
    def __add__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.ADD, self, other)

    @overload
    def __radd__(self: Array[F, *Dims], other: float) -> Array[F, *Dims]: ...
    @overload
    def __radd__(self: Array[I, *Dims], other: int) -> Array[I, *Dims]: ...
    @overload
    def __radd__(self, other: Operand) -> Array: ...
    def __radd__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.ADD, other, self)

    @overload
    def __sub__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __sub__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __sub__(self, other: Operand) -> Array: ...
    def __sub__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.SUB, self, other)

    @overload
    def __rsub__(self: Array[F, *Dims], other: float) -> Array[F, *Dims]: ...
    @overload
    def __rsub__(self: Array[I, *Dims], other: int) -> Array[I, *Dims]: ...
    @overload
    def __rsub__(self, other: Operand) -> Array: ...
    def __rsub__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.SUB, other, self)

    @overload
    def __mul__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __mul__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __mul__(self, other: Operand) -> Array: ...
    def __mul__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.MUL, self, other)

    @overload
    def __rmul__(self: Array[F, *Dims], other: float) -> Array[F, *Dims]: ...
    @overload
    def __rmul__(self: Array[I, *Dims], other: int) -> Array[I, *Dims]: ...
    @overload
    def __rmul__(self, other: Operand) -> Array: ...
    def __rmul__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.MUL, other, self)

    @overload
    def __truediv__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __truediv__(self, other: Operand) -> Array: ...
    def __truediv__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.true_divide, self, other)

    @overload
    def __rtruediv__(self: Array[F, *Dims], other: float) -> Array[F, *Dims]: ...
    @overload
    def __rtruediv__(self, other: Operand) -> Array: ...
    def __rtruediv__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.true_divide, other, self)

    @overload
    def __floordiv__(
        self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float
    ) -> Array[F, *Dims]: ...
    @overload
    def __floordiv__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __floordiv__(self, other: Operand) -> Array: ...
    def __floordiv__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.floor_divide, self, other)

    def __rfloordiv__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.floor_divide, other, self)

    @overload
    def __mod__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __mod__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __mod__(self, other: Operand) -> Array: ...
    def __mod__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.remainder, self, other)

    def __rmod__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.remainder, other, self)

    @overload
    def __pow__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __pow__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __pow__(self, other: Operand) -> Array: ...
    def __pow__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.power, self, other)

    def __rpow__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.power, other, self)

    def __divmod__(self, other: Operand) -> tuple[Array, Array]:
        return methods.operators.call_operator(methods.arithmetic.divmod, self, other)  # type: ignore[return-value]  # a pair

    def __rdivmod__(self, other: Operand) -> tuple[Array, Array]:
        return methods.operators.call_operator(methods.arithmetic.divmod, other, self)  # type: ignore[return-value]  # a pair

    @overload
    def __matmul__(self: AnyRank, other: Operand) -> Array: ...
    @overload
    def __matmul__(self: Array[DT, N, K], other: Array[DT, K, M]) -> Array[DT, N, M]: ...
    @overload
    def __matmul__(self: Array[DT, N, K], other: Array[DT, K]) -> Array[DT, N]: ...
    @overload
    def __matmul__(self: Array[DT, K], other: Array[DT, K, M]) -> Array[DT, M]: ...
    @overload
    def __matmul__(self: Array[DT, K], other: Array[DT, K]) -> Scalar[DT]: ...
    @overload
    def __matmul__(self, other: AnyRank | HostData) -> Array: ...
    def __matmul__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.matmul, self, other)

    def __rmatmul__(self, other: Numeric) -> Array:
        return methods.operators.call_operator(methods.arithmetic.matmul, other, self)

    @overload
    def __and__(self, other: Array[DT, *Dims] | Scalar[DT]) -> Array[DT, *Dims]: ...
    @overload
    def __and__(self, other: Operand) -> Array: ...
    def __and__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.AND, self, other)

    def __rand__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.AND, other, self)

    @with_overloads_of(__and__)
    def __or__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.OR, self, other)

    def __ror__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.OR, other, self)

    @with_overloads_of(__and__)
    def __xor__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.XOR, self, other)

    def __rxor__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.XOR, other, self)

    def __lshift__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.SHIFT_LEFT, self, other)

    def __rlshift__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.SHIFT_LEFT, other, self)

    def __rshift__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.right_shift, self, other)

    def __rrshift__(self, other: Operand) -> Array:
        return methods.operators.call_operator(methods.arithmetic.right_shift, other, self)

    @overload  # type: ignore[override]  # elementwise, as in NumPy
    def __eq__(self, other: Array[Any, *Dims] | Scalar[Any] | Number) -> Array[bool_, *Dims]: ...
    @overload
    def __eq__(self, other: Operand) -> Array[bool_, *tuple[Any, ...]]: ...
    def __eq__(self, other: Operand) -> Array:
        return methods.operators.perform_binary(methods.arithmetic.EQ, self, other)

    @with_overloads_of(__eq__)
    def __ne__(self, other: Operand) -> Array:  # type: ignore[override]  # elementwise, as in NumPy
        return methods.operators.perform_binary(methods.arithmetic.NE, self, other)

    @with_overloads_of(__eq__)
    def __lt__(self, other: Operand) -> Array:
        return methods.operators.perform_ordered(methods.arithmetic.LT, self, other)

    @with_overloads_of(__eq__)
    def __le__(self, other: Operand) -> Array:
        return methods.operators.perform_ordered(methods.arithmetic.LE, self, other)

    @with_overloads_of(__eq__)
    def __gt__(self, other: Operand) -> Array:
        return methods.operators.perform_ordered(methods.arithmetic.GT, self, other)

    @with_overloads_of(__eq__)
    def __ge__(self, other: Operand) -> Array:
        return methods.operators.perform_ordered(methods.arithmetic.GE, self, other)

    @overload
    def __round__(self, ndigits: int) -> Array[DT, *Dims]: ...
    @overload
    def __round__(self, ndigits: None = None) -> Array[Any, *Dims]: ...
    def __round__(self, ndigits: int | None = None) -> Array[Any, *Dims]:
        # Without digits the result is an integer, as for Python's own numbers.
        rounded = methods.arithmetic.round_(self, ndigits or 0)
        return rounded.astype(int) if ndigits is None else rounded

    # Indexing
    @overload
    def __getitem__(self, index: bool) -> Array[DT, *tuple[Any, ...]]: ...
    @overload
    def __getitem__(self: Array[DT, N, *Rest], index: int) -> Array[DT, *Rest]: ...
    @overload
    def __getitem__(self, index: Index) -> Array[DT, *tuple[Any, ...]]: ...
    def __getitem__(self, index: Index) -> Array:
        return methods.indexing.getitem(self, index)

    def __setitem__(self, index: Index, value: Any) -> None:
        update = "use x = x.at[i].set(y), which updates in place inside jit"
        raise TypeError(f"x[i] = y: arrays are immutable, got {self.type!r}; {update}")

    def __iter__(self: Array[DT, N, *Rest]) -> Iterator[Array[DT, *Rest]]:
        if not self.type.shape:
            raise ConversionError(f"iter(x): a scalar cannot be iterated over, got {self.type!r}")
        return (methods.indexing.getitem(self, i) for i in range(self.type.shape[0]))

    @property
    def at(self) -> IndexUpdater[DT, *Dims]:
        """`x.at[i].set(y)`, `.add`, `.multiply`, `.min`, `.max`, `.get`: updates that return a new array."""
        return IndexUpdater(self)

    # Shape
    if TYPE_CHECKING:  # for effx.ir.values.holding, and for the properties below, which cannot be overloaded

        def _element(self) -> DT: ...
        @overload
        def _turned(self: AnyRank) -> Array: ...
        @overload
        def _turned(self: Array[DT, N]) -> Array[DT, N]: ...
        @overload
        def _turned(self: Array[DT, N, M]) -> Array[DT, M, N]: ...
        @overload
        def _turned(self: Array[DT, *tuple[Any, ...]]) -> Array[DT, *tuple[Any, ...]]: ...
        def _turned(self) -> Array: ...
        @overload
        def _matrix_turned(self: AnyRank) -> Array: ...
        @overload
        def _matrix_turned(self: Array[DT, N, M]) -> Array[DT, M, N]: ...
        @overload
        def _matrix_turned(self: Array[DT, *tuple[Any, ...]]) -> Array[DT, *tuple[Any, ...]]: ...
        def _matrix_turned(self) -> Array: ...

    @property
    def T(self: Transposable[A]) -> A:
        """The array with its axes reversed."""
        return methods.shaping.transpose(self, None)  # type: ignore[return-value]  # `self` is an array

    @property
    def mT(self: MatrixTransposable[A]) -> A:
        """The array with its last two axes exchanged."""
        return methods.shaping.matrix_transpose(self)  # type: ignore[return-value]  # as above

    @property
    def real(self: Array[DT, *Dims]) -> Array[Any, *Dims]:
        """The real part."""
        return methods.arithmetic.real(self)

    @property
    def imag(self) -> Array[Any, *Dims]:
        """The imaginary part."""
        return methods.arithmetic.imag(self)

    def conj(self) -> Array[DT, *Dims]:
        """The complex conjugate."""
        return methods.arithmetic.conj(self)

    conjugate = conj

    @overload
    def astype(self, dtype: type[D], copy: bool = False, device: object = None) -> Array[D, *Dims]: ...
    @overload
    def astype(self, dtype: Any, copy: bool = False, device: object = None) -> Array[Any, *Dims]: ...
    def astype(self, dtype: Any, copy: bool = False, device: object = None) -> Array:
        """Converts the elements to a dtype; complex numbers lose their imaginary part."""
        if device is not None or dtype is None or copy:
            return methods.creation.astype(self, dtype, copy=copy, device=device)
        return methods.arithmetic.astype(self, dtype)

    def view(self, dtype: Any = None, type: None = None) -> Array:
        """Reads the bits of the elements as another dtype."""
        if type is not None:
            raise TypeError(f"x.view: there are no classes of arrays to choose from, got type={type!r}")
        return self if dtype is None else methods.arithmetic.view(self, dtype)

    def reshape(
        self, *shape: Any, order: str = "C", out_sharding: object = None
    ) -> Array[DT, *tuple[Any, ...]]:
        """The same elements under another shape; one size may be -1."""
        if out_sharding is not None:
            return methods.out_sharding.apply_with_sharding(out_sharding, self.reshape, *shape, order=order)
        return methods.shaping.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def ravel(self, order: str = "C", *, out_sharding: object = None) -> Array[DT, Any]:
        """The elements as one axis."""
        if out_sharding is not None:
            return methods.out_sharding.apply_with_sharding(out_sharding, self.ravel, order)
        return methods.shaping.reshape(self, -1, order)

    flatten = ravel

    def transpose(self, *axes: Any) -> Array[DT, *tuple[Any, ...]]:
        """Permutes the axes; reverses them without arguments."""
        return methods.shaping.transpose(self, None if not axes else axes[0] if len(axes) == 1 else axes)

    def swapaxes(self, axis1: int, axis2: int) -> Array[DT, *tuple[Any, ...]]:
        """Exchanges two axes."""
        return methods.shaping.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axis = None) -> Array[DT, *tuple[Any, ...]]:
        """Drops axes of size 1."""
        return methods.shaping.squeeze(self, axis)

    def repeat(
        self,
        repeats: Operand,
        axis: int | None = None,
        *,
        total_repeat_length: int | None = None,
        out_sharding: object = None,
    ) -> Array[DT, *tuple[Any, ...]]:
        """Repeats each element along an axis."""
        if out_sharding is not None:
            return methods.out_sharding.apply_with_sharding(
                out_sharding, self.repeat, repeats, axis, total_repeat_length=total_repeat_length
            )
        if type(repeats) is int and total_repeat_length is None:
            return methods.shaping.repeat(self, repeats, axis)
        return methods.numpy.repeat(self, repeats, axis, total_repeat_length=total_repeat_length)

    def copy(self) -> Array[DT, *Dims]:
        """A copy in separate memory."""
        return methods.arithmetic.copy(self)

    def __copy__(self) -> Array[DT, *Dims]:
        return methods.arithmetic.copy(self)

    def __deepcopy__(self, memo: object) -> Array[DT, *Dims]:
        return methods.arithmetic.copy(self)

    def __contains__(self, value: Operand) -> bool:
        equal = self == value
        if not isinstance(equal, Array):
            raise DTypeError(
                f"in: expected a number or an array, got {value!r} of type {type(value).__name__}"
            )
        return bool(equal.any())

    @property
    def flat(self) -> Array:
        """Refused: arrays are immutable, and have no iterator that writes."""
        raise NotImplementedError("x.flat: arrays are immutable; use x.ravel()")

    # Reductions
    @overload
    def sum(
        self: Array[F, *Dims],
        axis: None = None,
        dtype: None = None,
        *,
        keepdims: Literal[False] = False,
        where: Operand | None = None,
    ) -> Scalar[F]: ...
    @overload
    def sum(
        self,
        axis: None = None,
        dtype: None = None,
        *,
        keepdims: Literal[False] = False,
        where: Operand | None = None,
    ) -> Scalar[Any]: ...
    @overload
    def sum(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
        promote_integers: bool = True,
    ) -> Array: ...
    def sum(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
        promote_integers: bool = True,
    ) -> Array:
        """The sum over axes."""
        methods.reducing.refuse_out(out)
        if not promote_integers:
            return methods.numpy.sum(self, axis, dtype, None, keepdims, initial, where, False)
        return methods.reducing.sum(self, axis, dtype, keepdims, initial, where)

    @overload
    def prod(
        self: Array[F, *Dims],
        axis: None = None,
        dtype: None = None,
        *,
        keepdims: Literal[False] = False,
        where: Operand | None = None,
    ) -> Scalar[F]: ...
    @overload
    def prod(
        self,
        axis: None = None,
        dtype: None = None,
        *,
        keepdims: Literal[False] = False,
        where: Operand | None = None,
    ) -> Scalar[Any]: ...
    @overload
    def prod(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
        promote_integers: bool = True,
    ) -> Array: ...
    def prod(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
        promote_integers: bool = True,
    ) -> Array:
        """The product over axes."""
        methods.reducing.refuse_out(out)
        if not promote_integers:
            return methods.numpy.prod(self, axis, dtype, None, keepdims, initial, where, False)
        return methods.reducing.prod(self, axis, dtype, keepdims, initial, where)

    @overload
    def mean(
        self: Array[F, *Dims],
        axis: None = None,
        dtype: None = None,
        *,
        keepdims: Literal[False] = False,
        where: Operand | None = None,
    ) -> Scalar[F]: ...
    @overload
    def mean(
        self,
        axis: None = None,
        dtype: None = None,
        *,
        keepdims: Literal[False] = False,
        where: Operand | None = None,
    ) -> Scalar[Any]: ...
    @overload
    def mean(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Operand | None = None,
    ) -> Array: ...
    def mean(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Operand | None = None,
    ) -> Array:
        """The mean over axes."""
        methods.reducing.refuse_out(out)
        return methods.reducing.mean(self, axis, dtype, keepdims, where)

    @overload
    def var(
        self: Array[Fl, *Dims],
        axis: None = None,
        dtype: None = None,
        *,
        ddof: float = 0,
        keepdims: Literal[False] = False,
        where: Operand | None = None,
    ) -> Scalar[Fl]: ...
    @overload
    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Operand | None = None,
        correction: float | None = None,
    ) -> Array: ...
    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Operand | None = None,
        correction: float | None = None,
    ) -> Array:
        """The variance over axes."""
        methods.reducing.refuse_out(out)
        if correction is not None:
            return methods.numpy.var(
                self, axis, dtype, None, ddof, keepdims, where=where, correction=correction
            )
        return methods.reducing.var(self, axis, dtype, ddof, keepdims, where=where)

    @overload
    def std(
        self: Array[Fl, *Dims],
        axis: None = None,
        dtype: None = None,
        *,
        ddof: float = 0,
        keepdims: Literal[False] = False,
        where: Operand | None = None,
    ) -> Scalar[Fl]: ...
    @overload
    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Operand | None = None,
        correction: float | None = None,
    ) -> Array: ...
    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Operand | None = None,
        correction: float | None = None,
    ) -> Array:
        """The standard deviation over axes."""
        methods.reducing.refuse_out(out)
        if correction is not None:
            return methods.numpy.std(
                self, axis, dtype, None, ddof, keepdims, where=where, correction=correction
            )
        return methods.reducing.std(self, axis, dtype, ddof, keepdims, where=where)

    @overload
    def max(
        self, axis: None = None, *, keepdims: Literal[False] = False, where: Operand | None = None
    ) -> Scalar[DT]: ...
    @overload
    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Array[DT, *tuple[Any, ...]]: ...
    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Array:
        """The largest element over axes; NaN if there is one."""
        methods.reducing.refuse_out(out)
        return methods.reducing.max(self, axis, keepdims, initial, where)

    @with_overloads_of(max)
    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Array:
        """The smallest element over axes; NaN if there is one."""
        methods.reducing.refuse_out(out)
        return methods.reducing.min(self, axis, keepdims, initial, where)

    @overload
    def all(
        self, axis: None = None, *, keepdims: Literal[False] = False, where: Operand | None = None
    ) -> Scalar[bool_]: ...
    @overload
    def all(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Operand | None = None
    ) -> Array[bool_, *tuple[Any, ...]]: ...
    def all(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Operand | None = None
    ) -> Array:
        """Whether all elements are true."""
        methods.reducing.refuse_out(out)
        return methods.reducing.all(self, axis, keepdims, where)

    @with_overloads_of(all)
    def any(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: Operand | None = None
    ) -> Array:
        """Whether any element is true."""
        methods.reducing.refuse_out(out)
        return methods.reducing.any(self, axis, keepdims, where)

    @overload
    def argmax(self, axis: None = None, *, keepdims: Literal[False] = False) -> Scalar[Any]: ...
    @overload
    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array: ...
    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        """The index of the largest element."""
        methods.reducing.refuse_out(out)
        return methods.reducing.argmax(self, axis, bool(keepdims))

    @with_overloads_of(argmax)
    def argmin(self, axis: int | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        """The index of the smallest element."""
        methods.reducing.refuse_out(out)
        return methods.reducing.argmin(self, axis, bool(keepdims))

    @overload
    def sort(
        self,
        axis: int = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array[DT, *Dims]: ...
    @overload
    def sort(
        self,
        axis: None,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array[DT, Any]: ...
    def sort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        """Sorted along an axis."""
        return methods.sorting.sort(self, axis, kind=kind, order=order, stable=stable, descending=descending)

    def argsort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        """The indices that sort along an axis."""
        return methods.sorting.argsort(
            self, axis, kind=kind, order=order, stable=stable, descending=descending
        )

    def argpartition(self, kth: int, axis: int = -1) -> Array:
        """The indices that put the k-th element of a sorted axis in its place, smaller ones before."""
        return methods.sorting.argpartition(self, kth, axis)

    def searchsorted(
        self, v: Operand, side: str = "left", sorter: Operand | None = None, *, method: str = "scan"
    ) -> Array:
        """The indices at which values would be inserted in this sorted vector."""
        return methods.sorting.searchsorted(self, v, side, sorter, method=method)

    def ptp(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
        """The difference of the largest and the smallest element over axes."""
        return methods.numpy.ptp(self, axis, out, keepdims)

    def nonzero(self, *, fill_value: Any = None, size: int | None = None) -> tuple[Array, ...]:
        """The indices of the elements that are not zero, an array for each axis; under jit `size` is needed."""
        indices: Any = methods.numpy.nonzero(self, size=size, fill_value=fill_value)
        return indices  # type: ignore[no-any-return]  # a tuple of arrays

    def compress(
        self,
        condition: Operand,
        axis: int | None = None,
        *,
        out: None = None,
        size: int | None = None,
        fill_value: Operand = 0,
    ) -> Array:
        """The slices along an axis where a condition holds; under jit `size` is needed."""
        return methods.numpy.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)

    def choose(
        self, choices: Array | Sequence[Operand], out: None = None, mode: str = "raise"
    ) -> Array[Any, *tuple[Any, ...]]:
        """The elements of several arrays that these indices choose."""
        return methods.numpy.choose(self, choices, out, mode)

    def byteswap(self) -> Array[DT, *Dims]:
        """The elements with their bytes in the opposite order."""
        return methods.arithmetic.byteswap(self)

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Cumulative sums along an axis."""
        methods.reducing.refuse_out(out)
        return methods.reducing.cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Cumulative products along an axis."""
        methods.reducing.refuse_out(out)
        return methods.reducing.cumprod(self, axis, dtype)

    def dot(self, b: Operand, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
        """NumPy's dot product."""
        return methods.arithmetic.dot(self, b, precision, preferred_element_type)

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Array:
        """Bounded to [min, max]."""
        return methods.arithmetic.clip(self, min, max)

    def round(self, decimals: int = 0, out: None = None) -> Array[DT, *Dims]:
        """Rounded to a number of decimals, halves to even."""
        methods.reducing.refuse_out(out)
        return methods.arithmetic.round_(self, decimals)

    def take(
        self,
        indices: Operand,
        axis: int | None = None,
        out: None = None,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: Operand | None = None,
    ) -> Array[DT, *tuple[Any, ...]]:
        """Elements along an axis by index."""
        methods.reducing.refuse_out(out)
        return methods.indexing.take(
            self,
            indices,
            axis,
            mode,
            fill_value,
            ordered=bool(indices_are_sorted),
            unique=bool(unique_indices),
        )

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array[DT, *tuple[Any, ...]]:
        """The diagonal of two axes."""
        return methods.indexing.diagonal(self, offset, axis1, axis2)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
    ) -> Array:
        """The sum of the diagonal of two axes."""
        methods.reducing.refuse_out(out)
        return methods.reducing.sum(methods.indexing.diagonal(self, offset, axis1, axis2), -1, dtype)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The module `effx.numpy`, which follows the array API standard."""
        namespace: ModuleType = methods.inspection.namespace(api_version)
        return namespace

    # Notebooks
    def _repr_html_(self) -> str:
        shown: str = methods.display.html(self)
        return shown

    def _repr_pretty_(self, printer: TextPrinter, cycle: bool) -> None:
        printer.text(methods.display.text(self))

    def to_device(self, device: object, *, stream: object = None) -> Array[DT, *Dims]:
        """Copies the array to another device; a traced one is returned unchanged. There are no streams to choose from."""
        if stream is not None:
            raise BackendError(f"x.to_device(): stream must be None, got {stream!r}")
        return methods.creation.to_device(self, device)


class IndexUpdater(Generic[DT, *Dims]):
    """`x.at`: index it, then call a method."""

    __slots__ = ("array",)

    def __init__(self, array: Array[DT, *Dims]) -> None:
        self.array = array

    def __getitem__(self, index: Index) -> IndexUpdate[DT, *Dims]:
        return IndexUpdate(self.array, index)

    def __repr__(self) -> str:
        return f"{self.array!r}.at"


class IndexUpdate(Generic[DT, *Dims]):
    """`x.at[i]`: each method returns a new array.

    Every method takes `mode` ("drop", "clip", "wrap", "fill", "promise_in_bounds"; for indices out of bounds), the
    promises `indices_are_sorted` and `unique_indices`, and `wrap_negative_indices`: False where negative indices are out
    of bounds. All but `apply` take `out_sharding`: the result's sharding; by default from the operands.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array[DT, *Dims], index: Index) -> None:
        self.array = array
        self.index = index

    def set(
        self,
        value: Operand,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array[DT, *Dims]:
        """Returns x with the elements replaced; of equal indices an unspecified one wins."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(out_sharding, "set", methods.indexing.update_at, value, "set", how)

    def add(
        self,
        value: Operand,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array[DT, *Dims]:
        """Returns x with the values added; values at equal indices are summed."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(out_sharding, "add", methods.indexing.update_at, value, "add", how)

    def subtract(
        self,
        value: Operand,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Returns x with the values subtracted."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(out_sharding, "subtract", methods.indexing.subtract_at, value, how)

    def multiply(
        self,
        value: Operand,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array[DT, *Dims]:
        """Returns x with the values multiplied in."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(
            out_sharding, "multiply", methods.indexing.update_at, value, "mul", how
        )

    mul = multiply

    def divide(
        self,
        value: Operand,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Returns x divided by the values; equal indices divide one after the other."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(out_sharding, "divide", methods.indexing.divide_at, value, how)

    def power(
        self,
        value: Operand,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Returns x with the elements raised to the values; equal indices raise one after the other."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(out_sharding, "power", methods.indexing.power_at, value, how)

    def min(
        self,
        value: Operand,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array[DT, *Dims]:
        """Returns x with the smaller of element and value."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(out_sharding, "min", methods.indexing.update_at, value, "min", how)

    def max(
        self,
        value: Operand,
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array[DT, *Dims]:
        """Returns x with the larger of element and value."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(out_sharding, "max", methods.indexing.update_at, value, "max", how)

    def apply(
        self,
        function: Callable[[Array], Array],
        *,
        mode: str | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array[DT, *Dims]:
        """Returns x with an elementwise function applied to the elements, to each as often as it is indexed.

        Reverse mode needs an index without arrays, or the promise `unique_indices`; else the count is found
        by a loop.
        """
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return methods.indexing.apply_at(self.array, self.index, function, how)

    def get(
        self,
        *,
        mode: str | None = None,
        fill_value: Operand | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        out_sharding: object = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Reads `x[i]`; out of bounds the nearest element, or with mode "fill" `fill_value` or NaN."""
        how = methods.indexing.IndexingMode(mode, indices_are_sorted, unique_indices, wrap_negative_indices)
        return self._call_with_sharding(out_sharding, "get", methods.indexing.get_at, how, fill_value)

    def _call_with_sharding(
        self, out_sharding: object, function_name: str, function: Callable[..., Array], *arguments: object
    ) -> Array:
        """Calls a function of the array and the index, with the result in the user's sharding."""
        if out_sharding is None:
            return function(self.array, self.index, *arguments)
        result: Array = methods.out_sharding.apply_with_sharding_as(
            function_name, out_sharding, function, self.array, self.index, *arguments
        )
        return result


class _NoSize:
    """A size that no array has: only arrays of unknown rank match `AnyRank`."""


Scalar: TypeAlias = Array[DT, Unpack[tuple[()]]]
"""An array of rank 0."""

AnyRank: TypeAlias = Array[
    Any, _NoSize, _NoSize, _NoSize, _NoSize, _NoSize, _NoSize, _NoSize, _NoSize, _NoSize
]
"""Arrays of unknown rank. An overload for it stands before those for ranks, all of which a bare `Array` matches."""

Numeric: TypeAlias = Number | HostData | np.generic
"""Numbers and NumPy data. Not objects with `__array__`: for type checkers these include arrays."""

Other: TypeAlias = Numeric | SupportsArray
Operand: TypeAlias = Array | Other
Axis: TypeAlias = int | Sequence[int] | None


class Transposable(Protocol[R_co]):
    """The type of `x.T`: a property cannot be overloaded, but this method can."""

    if TYPE_CHECKING:  # at run time arrays have no such method

        def _turned(self) -> R_co: ...


class MatrixTransposable(Protocol[R_co]):
    """The type of `x.mT`."""

    if TYPE_CHECKING:

        def _matrix_turned(self) -> R_co: ...


# Scalar classes
class ScalarType(type):
    """The metaclass of the dtype classes, which are callable like NumPy's scalar types and equal to the
    dtype.

    Attributes:
        dtype: the NumPy dtype.

    >>> import numpy as np
    >>> from effx.numpy import float32
    >>> float32(3), float32 == np.dtype("float32"), isinstance(np.float32(3), float32)
    (Array(3., dtype=float32), True, True)
    """

    dtype: DType

    if not TYPE_CHECKING:  # checkers read the class that is called

        def __call__(cls, x):
            """Converts a number or an array to this dtype."""
            return methods.creation.array(x, cls.dtype)

    def __instancecheck__(cls, x: object) -> bool:
        # As of the NumPy class that this stands for; an array is no instance of its dtype.
        return isinstance(x, cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        if isinstance(other, ScalarType) or not hasattr(cls, "dtype"):  # the base class has none
            return cls is other
        try:
            return bool(cls.dtype == other)
        except TypeError:
            return False

    def __hash__(cls) -> int:
        # NumPy's dtypes and scalar classes are equal but differ in their hashes, so a set can find one of the two only:
        # the class, which this stands for, as in JAX.
        return hash(cls.dtype.type) if hasattr(cls, "dtype") else type.__hash__(cls)

    def __repr__(cls) -> str:
        return f"effx.numpy.{cls.__name__}"


if TYPE_CHECKING:

    class _Scalar(Array[DT, *tuple[()]], metaclass=ScalarType):
        dtype: DType  # for the metaclass too

        def __init__(self, x: Operand) -> None: ...
else:

    class _Scalar(metaclass=ScalarType):
        """What type checkers take for the class of a call's result, an array of rank 0; here a dtype."""

        __slots__ = ()
        __class_getitem__ = classmethod(lambda cls, _: cls)

        def __init_subclass__(cls):
            cls.dtype = getattr(dtypes, cls.__name__)


class bool_(_Scalar["bool_"], Real, Narrow): ...


bool_.__name__ = "bool"  # as NumPy's and JAX's is called


if dtypes.has_int1:

    class int1(_Scalar["int1"], Integer, Narrow): ...

    class uint1(_Scalar["uint1"], Integer, Narrow): ...


class int2(_Scalar["int2"], Integer, Narrow): ...


class int4(_Scalar["int4"], Integer, Narrow): ...


class int8(_Scalar["int8"], Integer, Narrow): ...


class int16(_Scalar["int16"], Integer, Narrow): ...


class int32(_Scalar["int32"], Integer, Narrow): ...


class int64(_Scalar["int64"], Integer): ...


class uint2(_Scalar["uint2"], Integer, Narrow): ...


class uint4(_Scalar["uint4"], Integer, Narrow): ...


class uint8(_Scalar["uint8"], Integer, Narrow): ...


class uint16(_Scalar["uint16"], Integer, Narrow): ...


class uint32(_Scalar["uint32"], Integer, Narrow): ...


class uint64(_Scalar["uint64"], Integer): ...


class float4_e2m1fn(_Scalar["float4_e2m1fn"], Floating, Narrow): ...


class float6_e2m3fn(_Scalar["float6_e2m3fn"], Floating, Narrow): ...


class float6_e3m2fn(_Scalar["float6_e3m2fn"], Floating, Narrow): ...


class float8_e3m4(_Scalar["float8_e3m4"], Floating, Narrow): ...


class float8_e4m3(_Scalar["float8_e4m3"], Floating, Narrow): ...


class float8_e4m3b11fnuz(_Scalar["float8_e4m3b11fnuz"], Floating, Narrow): ...


class float8_e4m3fn(_Scalar["float8_e4m3fn"], Floating, Narrow): ...


class float8_e4m3fnuz(_Scalar["float8_e4m3fnuz"], Floating, Narrow): ...


class float8_e5m2(_Scalar["float8_e5m2"], Floating, Narrow): ...


class float8_e5m2fnuz(_Scalar["float8_e5m2fnuz"], Floating, Narrow): ...


class float8_e8m0fnu(_Scalar["float8_e8m0fnu"], Floating, Narrow): ...


class bfloat16(_Scalar["bfloat16"], Floating, Narrow): ...


class float16(_Scalar["float16"], Floating, Narrow): ...


class float32(_Scalar["float32"], Floating, Narrow): ...


class float64(_Scalar["float64"], Floating): ...


class complex64(_Scalar["complex64"], ComplexFloating, Narrow): ...


class complex128(_Scalar["complex128"], ComplexFloating): ...
