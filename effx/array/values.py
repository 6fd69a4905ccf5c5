"""`Array`, the nominal class of every value, generic in dtype and sizes: its methods and operators.

Methods and operators are one-liners here and in `effx.array.computed`; the sibling modules implement them.
Overloads distinguish `self` by type variables only: a bare `Array` always matches the first one.

Never: import jaxlib; arrays on devices are `effx.lower.concrete`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from typing_extensions import Unpack

from effx.array.computed import Computed
from effx.array.described import HostData, Number, SupportsArray
from effx.array.parameters import DT, D, Dims, F, Fl, I, K, M, N, R, Rest
from effx.effects import perform
from effx.errors import ConversionError

if TYPE_CHECKING:
    from effx.array.indexing import IndexUpdater
    from effx.array.scalars import bool_

__all__ = [
    "AnyRank", "Array", "Axis", "HostData", "Number", "Numeric", "Operand", "Other", "Scalar", "SupportsArray",
]  # fmt: skip


A = TypeVar("A")


class Array(Computed[DT, Unpack[Dims]], Generic[DT, Unpack[Dims]]):
    """An n-dimensional array: concrete, or a box that stands for one under a transformation.

    The class is generic in its element type and sizes; bare `Array` means any. Values are immutable;
    `x.at[i].set(y)` returns a changed copy.
    """

    __slots__ = ()
    __array_priority__ = 100

    # Operators
    def __neg__(self) -> Array[DT, *Dims]:
        return arithmetic.negative(self)

    def __pos__(self) -> Array[DT, *Dims]:
        return self

    @overload
    def __abs__(self: Array[R, *Dims]) -> Array[R, *Dims]: ...
    @overload
    def __abs__(self) -> Array[Any, *Dims]: ...
    def __abs__(self) -> Array:
        return arithmetic.absolute(self)

    def __invert__(self) -> Array[DT, *Dims]:
        return perform(arithmetic.NOT, (self,))

    @overload
    def __add__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __add__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __add__(self, other: Operand) -> Array: ...
    def __add__(self, other: Operand) -> Array:
        return binary(arithmetic.ADD, self, other)

    @overload
    def __radd__(self: Array[F, *Dims], other: float) -> Array[F, *Dims]: ...
    @overload
    def __radd__(self: Array[I, *Dims], other: int) -> Array[I, *Dims]: ...
    @overload
    def __radd__(self, other: Operand) -> Array: ...
    def __radd__(self, other: Operand) -> Array:
        return binary(arithmetic.ADD, other, self)

    @overload
    def __sub__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __sub__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __sub__(self, other: Operand) -> Array: ...
    def __sub__(self, other: Operand) -> Array:
        return binary(arithmetic.SUB, self, other)

    @overload
    def __rsub__(self: Array[F, *Dims], other: float) -> Array[F, *Dims]: ...
    @overload
    def __rsub__(self: Array[I, *Dims], other: int) -> Array[I, *Dims]: ...
    @overload
    def __rsub__(self, other: Operand) -> Array: ...
    def __rsub__(self, other: Operand) -> Array:
        return binary(arithmetic.SUB, other, self)

    @overload
    def __mul__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __mul__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __mul__(self, other: Operand) -> Array: ...
    def __mul__(self, other: Operand) -> Array:
        return binary(arithmetic.MUL, self, other)

    @overload
    def __rmul__(self: Array[F, *Dims], other: float) -> Array[F, *Dims]: ...
    @overload
    def __rmul__(self: Array[I, *Dims], other: int) -> Array[I, *Dims]: ...
    @overload
    def __rmul__(self, other: Operand) -> Array: ...
    def __rmul__(self, other: Operand) -> Array:
        return binary(arithmetic.MUL, other, self)

    @overload
    def __truediv__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __truediv__(self, other: Operand) -> Array: ...
    def __truediv__(self, other: Operand) -> Array:
        return operator(arithmetic.true_divide, self, other)

    @overload
    def __rtruediv__(self: Array[F, *Dims], other: float) -> Array[F, *Dims]: ...
    @overload
    def __rtruediv__(self, other: Operand) -> Array: ...
    def __rtruediv__(self, other: Operand) -> Array:
        return operator(arithmetic.true_divide, other, self)

    @overload
    def __floordiv__(
        self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float
    ) -> Array[F, *Dims]: ...
    @overload
    def __floordiv__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __floordiv__(self, other: Operand) -> Array: ...
    def __floordiv__(self, other: Operand) -> Array:
        return operator(arithmetic.floor_divide, self, other)

    def __rfloordiv__(self, other: Operand) -> Array:
        return operator(arithmetic.floor_divide, other, self)

    @overload
    def __mod__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __mod__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __mod__(self, other: Operand) -> Array: ...
    def __mod__(self, other: Operand) -> Array:
        return operator(arithmetic.remainder, self, other)

    def __rmod__(self, other: Operand) -> Array:
        return operator(arithmetic.remainder, other, self)

    @overload
    def __pow__(self: Array[F, *Dims], other: Array[F, *Dims] | Scalar[F] | float) -> Array[F, *Dims]: ...
    @overload
    def __pow__(self: Array[I, *Dims], other: Array[I, *Dims] | Scalar[I] | int) -> Array[I, *Dims]: ...
    @overload
    def __pow__(self, other: Operand) -> Array: ...
    def __pow__(self, other: Operand) -> Array:
        return operator(arithmetic.power, self, other)

    def __rpow__(self, other: Operand) -> Array:
        return operator(arithmetic.power, other, self)

    def __divmod__(self, other: Operand) -> tuple[Array, Array]:
        return arithmetic.floor_divide(self, other), arithmetic.remainder(self, other)

    def __rdivmod__(self, other: Operand) -> tuple[Array, Array]:
        return arithmetic.floor_divide(other, self), arithmetic.remainder(other, self)

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
        return operator(arithmetic.matmul, self, other)

    def __rmatmul__(self, other: Numeric) -> Array:
        return operator(arithmetic.matmul, other, self)

    @overload
    def __and__(self, other: Array[DT, *Dims] | Scalar[DT]) -> Array[DT, *Dims]: ...
    @overload
    def __and__(self, other: Operand) -> Array: ...
    def __and__(self, other: Operand) -> Array:
        return binary(arithmetic.AND, self, other)

    def __rand__(self, other: Operand) -> Array:
        return binary(arithmetic.AND, other, self)

    @overload
    def __or__(self, other: Array[DT, *Dims] | Scalar[DT]) -> Array[DT, *Dims]: ...
    @overload
    def __or__(self, other: Operand) -> Array: ...
    def __or__(self, other: Operand) -> Array:
        return binary(arithmetic.OR, self, other)

    def __ror__(self, other: Operand) -> Array:
        return binary(arithmetic.OR, other, self)

    @overload
    def __xor__(self, other: Array[DT, *Dims] | Scalar[DT]) -> Array[DT, *Dims]: ...
    @overload
    def __xor__(self, other: Operand) -> Array: ...
    def __xor__(self, other: Operand) -> Array:
        return binary(arithmetic.XOR, self, other)

    def __rxor__(self, other: Operand) -> Array:
        return binary(arithmetic.XOR, other, self)

    def __lshift__(self, other: Operand) -> Array:
        return binary(arithmetic.SHIFT_LEFT, self, other)

    def __rlshift__(self, other: Operand) -> Array:
        return binary(arithmetic.SHIFT_LEFT, other, self)

    def __rshift__(self, other: Operand) -> Array:
        return operator(arithmetic.right_shift, self, other)

    def __rrshift__(self, other: Operand) -> Array:
        return operator(arithmetic.right_shift, other, self)

    @overload  # type: ignore[override]  # elementwise, as in NumPy
    def __eq__(self, other: Array[Any, *Dims] | Scalar[Any] | Number) -> Array[bool_, *Dims]: ...
    @overload
    def __eq__(self, other: Operand) -> Array[bool_, *tuple[Any, ...]]: ...
    def __eq__(self, other: Operand) -> Array:
        return binary(arithmetic.EQ, self, other)

    @overload  # type: ignore[override]  # elementwise, as in NumPy
    def __ne__(self, other: Array[Any, *Dims] | Scalar[Any] | Number) -> Array[bool_, *Dims]: ...
    @overload
    def __ne__(self, other: Operand) -> Array[bool_, *tuple[Any, ...]]: ...
    def __ne__(self, other: Operand) -> Array:
        return binary(arithmetic.NE, self, other)

    @overload
    def __lt__(self, other: Array[Any, *Dims] | Scalar[Any] | Number) -> Array[bool_, *Dims]: ...
    @overload
    def __lt__(self, other: Operand) -> Array[bool_, *tuple[Any, ...]]: ...
    def __lt__(self, other: Operand) -> Array:
        return ordered(arithmetic.LT, self, other)

    @overload
    def __le__(self, other: Array[Any, *Dims] | Scalar[Any] | Number) -> Array[bool_, *Dims]: ...
    @overload
    def __le__(self, other: Operand) -> Array[bool_, *tuple[Any, ...]]: ...
    def __le__(self, other: Operand) -> Array:
        return ordered(arithmetic.LE, self, other)

    @overload
    def __gt__(self, other: Array[Any, *Dims] | Scalar[Any] | Number) -> Array[bool_, *Dims]: ...
    @overload
    def __gt__(self, other: Operand) -> Array[bool_, *tuple[Any, ...]]: ...
    def __gt__(self, other: Operand) -> Array:
        return ordered(arithmetic.GT, self, other)

    @overload
    def __ge__(self, other: Array[Any, *Dims] | Scalar[Any] | Number) -> Array[bool_, *Dims]: ...
    @overload
    def __ge__(self, other: Operand) -> Array[bool_, *tuple[Any, ...]]: ...
    def __ge__(self, other: Operand) -> Array:
        return ordered(arithmetic.GE, self, other)

    def __round__(self, ndigits: int | None = None) -> Array[DT, *Dims]:
        return arithmetic.round_(self, ndigits or 0)

    # Indexing
    @overload
    def __getitem__(self, index: bool) -> Array[DT, *tuple[Any, ...]]: ...
    @overload
    def __getitem__(self: Array[DT, N, *Rest], index: int) -> Array[DT, *Rest]: ...
    @overload
    def __getitem__(self, index: Any) -> Array[DT, *tuple[Any, ...]]: ...
    def __getitem__(self, index: Any) -> Array:
        return indexing.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        update = "use x = x.at[i].set(y), which updates in place inside jit"
        raise TypeError(f"x[i] = y: arrays are immutable, got {self.type!r}; {update}")

    def __iter__(self: Array[DT, N, *Rest]) -> Iterator[Array[DT, *Rest]]:
        if not self.type.shape:
            raise ConversionError(f"iter(x): a scalar cannot be iterated over, got {self.type!r}")
        return (indexing.getitem(self, i) for i in range(self.type.shape[0]))

    @property
    def at(self) -> IndexUpdater[DT, *Dims]:
        """`x.at[i].set(y)`, `.add`, `.multiply`, `.min`, `.max`, `.get`: updates that return a new array."""
        return indexing.IndexUpdater(self)

    # Shape
    if TYPE_CHECKING:  # for effx.array.holding, and for the properties below, which cannot be overloaded

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
        return shaping.transpose(self, None)  # type: ignore[arg-type, return-value]  # `self` is an array

    @property
    def mT(self: MatrixTransposable[A]) -> A:
        """The array with its last two axes exchanged."""
        return shaping.matrix_transpose(self)  # type: ignore[arg-type, return-value]  # as above

    @property
    def real(self: Array[DT, *Dims]) -> Array[Any, *Dims]:
        """The real part."""
        return arithmetic.real(self)

    @property
    def imag(self) -> Array[Any, *Dims]:
        """The imaginary part."""
        return arithmetic.imag(self)

    def conj(self) -> Array[DT, *Dims]:
        """The complex conjugate."""
        return arithmetic.conj(self)

    conjugate = conj

    @overload
    def astype(self, dtype: type[D], copy: bool = False) -> Array[D, *Dims]: ...
    @overload
    def astype(self, dtype: Any, copy: bool = False) -> Array[Any, *Dims]: ...
    def astype(self, dtype: Any, copy: bool = False) -> Array:
        """Converts the elements to a dtype; complex numbers lose their imaginary part."""
        return arithmetic.astype(self, dtype)

    def view(self, dtype: Any) -> Array:
        """Reads the bits of the elements as another dtype."""
        return arithmetic.view(self, dtype)

    def reshape(self, *shape: Any, order: str = "C") -> Array[DT, *tuple[Any, ...]]:
        """The same elements under another shape; one size may be -1."""
        return shaping.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def ravel(self, order: str = "C") -> Array[DT, Any]:
        """The elements as one axis."""
        return shaping.reshape(self, -1, order)

    flatten = ravel

    def transpose(self, *axes: Any) -> Array[DT, *tuple[Any, ...]]:
        """Permutes the axes; reverses them without arguments."""
        return shaping.transpose(self, None if not axes else axes[0] if len(axes) == 1 else axes)

    def swapaxes(self, axis1: int, axis2: int) -> Array[DT, *tuple[Any, ...]]:
        """Exchanges two axes."""
        return shaping.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axis = None) -> Array[DT, *tuple[Any, ...]]:
        """Drops axes of size 1."""
        return shaping.squeeze(self, axis)

    def repeat(self, repeats: int, axis: int | None = None) -> Array[DT, *tuple[Any, ...]]:
        """Repeats each element along an axis."""
        return shaping.repeat(self, repeats, axis)

    def copy(self) -> Array[DT, *Dims]:
        """A copy in memory of its own."""
        return perform(arithmetic.COPY, (self,))

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
    ) -> Array: ...
    def sum(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Array:
        """The sum over axes."""
        reducing.no_out("sum", out)
        return reducing.sum(self, axis, dtype, keepdims, initial, where)

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
    ) -> Array: ...
    def prod(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Operand | None = None,
        where: Operand | None = None,
    ) -> Array:
        """The product over axes."""
        reducing.no_out("prod", out)
        return reducing.prod(self, axis, dtype, keepdims, initial, where)

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
        where: Operand | None = None,
    ) -> Array: ...
    def mean(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        where: Operand | None = None,
    ) -> Array:
        """The mean over axes."""
        reducing.no_out("mean", out)
        return reducing.mean(self, axis, dtype, keepdims, where)

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
        where: Operand | None = None,
    ) -> Array: ...
    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        where: Operand | None = None,
    ) -> Array:
        """The variance over axes."""
        reducing.no_out("var", out)
        return reducing.var(self, axis, dtype, ddof, keepdims, where)

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
        where: Operand | None = None,
    ) -> Array: ...
    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        where: Operand | None = None,
    ) -> Array:
        """The standard deviation over axes."""
        reducing.no_out("std", out)
        return reducing.std(self, axis, dtype, ddof, keepdims, where)

    def to_device(self, device: object, *, stream: object = None) -> Array[DT, *Dims]:
        """Copies the array to another device."""
        raise self._abstract("x.to_device()")


# The siblings need the classes above, and the methods above need the siblings.
# isort: off
from effx.array.aliases import (  # noqa: E402
    AnyRank,
    Axis,
    MatrixTransposable,
    Numeric,
    Operand,
    Other,
    Scalar,
    Transposable,
)
from effx.array import arithmetic, indexing, reducing, shaping  # noqa: E402
from effx.array.operators import binary, operator, ordered  # noqa: E402
