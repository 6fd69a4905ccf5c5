"""The nominal classes of values: `Array`, boxes, and constants that are still on the host.

Methods and operators of `Array` live here as one-liners; what they do stands in the sibling modules.

Never: import jaxlib; arrays on devices are `effx.lower.concrete`'s.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, final

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple, Unpack

from effx.effects import Frame, Value, current_frame, is_in_scope, perform, stack_of
from effx.errors import ConcretizationError, EscapedBoxError, ShapeError
from effx.ir.types import ArrayType, Shape

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

    from effx.array.indexing import IndexUpdater

__all__ = ["Array", "Box", "HostArray", "Number", "Operand"]

DT = TypeVar("DT", default=Any)
Dims = TypeVarTuple("Dims", default=Unpack[tuple[Any, ...]])

Number = bool | int | float | complex
HostData = np.ndarray[Any, Any]


class SupportsArray(Protocol):
    """Anything that converts itself to a NumPy array."""

    def __array__(self) -> HostData:
        """Returns the NumPy array."""
        ...


class Array(Value, Generic[DT, Unpack[Dims]]):
    """An n-dimensional array: concrete, or a box that stands for one under a transformation.

    The class is generic in its element type and sizes; bare `Array` means any. Values are
    immutable; `x.at[i].set(y)` gives a changed copy.
    """

    __slots__ = ()
    __array_priority__ = 100
    type: ArrayType

    @property
    def shape(self) -> Shape:
        """The sizes, outermost first."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def weak_type(self) -> bool:
        """True where the dtype came from a bare Python number."""
        return self.type.weak

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.type.dtype.itemsize * self.type.size

    def host(self, asked: str) -> HostData:
        """Returns the value as a NumPy array.

        Args:
            asked: what Python wanted, for the error.

        Raises:
            ConcretizationError: the value is abstract.
        """
        raise self._abstract(asked)

    # Python conversions
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostData:
        data = self.host("numpy.asarray(x)")
        if dtype is not None and data.dtype != dtype:
            return data.astype(dtype)
        return data.copy() if copy else data

    def _scalar(self, asked: str) -> HostData:
        if self.type.size != 1:
            raise ShapeError(
                f"{asked}: only arrays of one element convert to Python scalars, got {self.type!r}"
            )
        return self.host(asked).reshape(())

    def __bool__(self) -> bool:
        if self.type.size != 1:
            raise ShapeError(
                f"bool(x): the truth value of {self.type!r} is ambiguous; use x.any() or x.all()"
            )
        return bool(self._scalar("bool(x)"))

    def __int__(self) -> int:
        return int(self._scalar("int(x)"))

    def __float__(self) -> float:
        return float(self._scalar("float(x)"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex(x)"))

    def __index__(self) -> int:
        if self.type.ndim or self.type.kind not in "iu":
            raise ShapeError(f"index(x): only integer arrays of rank 0 serve as an index, got {self.type!r}")
        return int(self.host("index(x)"))

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: arrays compare by elements, got {self.type!r}")

    def __len__(self) -> int:
        if not self.type.shape:
            raise ShapeError(f"len(x): a scalar has no length, got {self.type!r}")
        return self.type.shape[0]

    def __format__(self, spec: str) -> str:
        if self.type.ndim == 0 and spec:
            return format(self.host("format(x)").item(), spec)
        return format(str(self), spec)

    def item(self, *index: int) -> Number:
        """Returns one element as a Python number; without an index the array must hold just one."""
        data = self.host("x.item()")
        result: Number = data.item(*index)
        return result

    def tolist(self) -> Any:
        """Returns nested lists of Python numbers."""
        return self.host("x.tolist()").tolist()

    # Operators
    def __neg__(self) -> "Array[DT, Unpack[Dims]]":
        return arithmetic.negative(self)

    def __pos__(self) -> "Array[DT, Unpack[Dims]]":
        return self

    def __abs__(self) -> "Array":
        return arithmetic.absolute(self)

    def __invert__(self) -> "Array[DT, Unpack[Dims]]":
        return perform(arithmetic.NOT, (self,))

    def __add__(self, other: "Operand") -> "Array":
        return binary(arithmetic.ADD, self, other)

    def __radd__(self, other: "Operand") -> "Array":
        return binary(arithmetic.ADD, other, self)

    def __sub__(self, other: "Operand") -> "Array":
        return binary(arithmetic.SUB, self, other)

    def __rsub__(self, other: "Operand") -> "Array":
        return binary(arithmetic.SUB, other, self)

    def __mul__(self, other: "Operand") -> "Array":
        return binary(arithmetic.MUL, self, other)

    def __rmul__(self, other: "Operand") -> "Array":
        return binary(arithmetic.MUL, other, self)

    def __truediv__(self, other: "Operand") -> "Array":
        return operator(arithmetic.true_divide, self, other)

    def __rtruediv__(self, other: "Operand") -> "Array":
        return operator(arithmetic.true_divide, other, self)

    def __floordiv__(self, other: "Operand") -> "Array":
        return operator(arithmetic.floor_divide, self, other)

    def __rfloordiv__(self, other: "Operand") -> "Array":
        return operator(arithmetic.floor_divide, other, self)

    def __mod__(self, other: "Operand") -> "Array":
        return operator(arithmetic.remainder, self, other)

    def __rmod__(self, other: "Operand") -> "Array":
        return operator(arithmetic.remainder, other, self)

    def __divmod__(self, other: "Operand") -> "tuple[Array, Array]":
        return arithmetic.floor_divide(self, other), arithmetic.remainder(self, other)

    def __rdivmod__(self, other: "Operand") -> "tuple[Array, Array]":
        return arithmetic.floor_divide(other, self), arithmetic.remainder(other, self)

    def __pow__(self, other: "Operand") -> "Array":
        return operator(arithmetic.power, self, other)

    def __rpow__(self, other: "Operand") -> "Array":
        return operator(arithmetic.power, other, self)

    def __matmul__(self, other: "Operand") -> "Array":
        return operator(arithmetic.matmul, self, other)

    def __rmatmul__(self, other: "Operand") -> "Array":
        return operator(arithmetic.matmul, other, self)

    def __and__(self, other: "Operand") -> "Array":
        return binary(arithmetic.AND, self, other)

    def __rand__(self, other: "Operand") -> "Array":
        return binary(arithmetic.AND, other, self)

    def __or__(self, other: "Operand") -> "Array":
        return binary(arithmetic.OR, self, other)

    def __ror__(self, other: "Operand") -> "Array":
        return binary(arithmetic.OR, other, self)

    def __xor__(self, other: "Operand") -> "Array":
        return binary(arithmetic.XOR, self, other)

    def __rxor__(self, other: "Operand") -> "Array":
        return binary(arithmetic.XOR, other, self)

    def __lshift__(self, other: "Operand") -> "Array":
        return binary(arithmetic.SHIFT_LEFT, self, other)

    def __rlshift__(self, other: "Operand") -> "Array":
        return binary(arithmetic.SHIFT_LEFT, other, self)

    def __rshift__(self, other: "Operand") -> "Array":
        return operator(arithmetic.right_shift, self, other)

    def __rrshift__(self, other: "Operand") -> "Array":
        return operator(arithmetic.right_shift, other, self)

    def __eq__(self, other: "Operand") -> "Array":  # type: ignore[override]  # elementwise, as in NumPy
        return binary(arithmetic.EQ, self, other)

    def __ne__(self, other: "Operand") -> "Array":  # type: ignore[override]  # elementwise, as in NumPy
        return binary(arithmetic.NE, self, other)

    def __lt__(self, other: "Operand") -> "Array":
        return binary(arithmetic.LT, self, other)

    def __le__(self, other: "Operand") -> "Array":
        return binary(arithmetic.LE, self, other)

    def __gt__(self, other: "Operand") -> "Array":
        return binary(arithmetic.GT, self, other)

    def __ge__(self, other: "Operand") -> "Array":
        return binary(arithmetic.GE, self, other)

    def __round__(self, ndigits: int | None = None) -> "Array":
        return arithmetic.round_(self, ndigits or 0)

    # Indexing
    def __getitem__(self, index: Any) -> "Array":
        return indexing.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            f"x[i] = y: arrays are immutable, got {self.type!r}; use x = x.at[i].set(y), "
            f"which updates in place inside jit"
        )

    def __iter__(self) -> "Iterator[Array]":
        if not self.type.shape:
            raise ShapeError(f"iter(x): a scalar cannot be iterated over, got {self.type!r}")
        return (indexing.getitem(self, i) for i in range(self.type.shape[0]))

    @property
    def at(self) -> "IndexUpdater":
        """`x.at[i].set(y)`, `.add`, `.multiply`, `.min`, `.max`, `.get`: updates that return a new array."""
        return indexing.IndexUpdater(self)

    # Shape
    @property
    def T(self) -> "Array":
        """The array with its axes reversed."""
        return shaping.transpose(self, None)

    @property
    def mT(self) -> "Array":
        """The array with its last two axes exchanged."""
        return shaping.matrix_transpose(self)

    @property
    def real(self) -> "Array":
        """The real part."""
        return arithmetic.real(self)

    @property
    def imag(self) -> "Array":
        """The imaginary part."""
        return arithmetic.imag(self)

    def conj(self) -> "Array[DT, Unpack[Dims]]":
        """The complex conjugate."""
        return arithmetic.conj(self)

    def conjugate(self) -> "Array[DT, Unpack[Dims]]":
        """The complex conjugate."""
        return arithmetic.conj(self)

    def astype(self, dtype: Any, copy: bool = False) -> "Array":
        """Converts the elements to a dtype; complex numbers lose their imaginary part."""
        return arithmetic.astype(self, dtype)

    def view(self, dtype: Any) -> "Array":
        """Reads the bits of the elements as another dtype."""
        return arithmetic.view(self, dtype)

    def reshape(self, *shape: Any, order: str = "C") -> "Array":
        """The same elements under another shape; one size may be -1."""
        return shaping.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def ravel(self, order: str = "C") -> "Array":
        """The elements as one axis."""
        return shaping.reshape(self, -1, order)

    def flatten(self, order: str = "C") -> "Array":
        """The elements as one axis."""
        return shaping.reshape(self, -1, order)

    def transpose(self, *axes: Any) -> "Array":
        """Permutes the axes; reverses them without arguments."""
        return shaping.transpose(self, None if not axes else axes[0] if len(axes) == 1 else axes)

    def swapaxes(self, axis1: int, axis2: int) -> "Array":
        """Exchanges two axes."""
        return shaping.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: "Axis" = None) -> "Array":
        """Drops axes of size 1."""
        return shaping.squeeze(self, axis)

    def repeat(self, repeats: int, axis: int | None = None) -> "Array":
        """Repeats each element along an axis."""
        return shaping.repeat(self, repeats, axis)

    def copy(self) -> "Array[DT, Unpack[Dims]]":
        """A copy in memory of its own."""
        return perform(arithmetic.COPY, (self,))

    # Reductions
    def sum(
        self, axis: "Axis" = None, dtype: Any = None, keepdims: bool = False, where: "Operand | None" = None
    ) -> "Array":
        """The sum over axes."""
        return reducing.sum(self, axis, dtype, keepdims, where=where)

    def prod(
        self, axis: "Axis" = None, dtype: Any = None, keepdims: bool = False, where: "Operand | None" = None
    ) -> "Array":
        """The product over axes."""
        return reducing.prod(self, axis, dtype, keepdims, where=where)

    def max(self, axis: "Axis" = None, keepdims: bool = False) -> "Array":
        """The largest element over axes."""
        return reducing.max(self, axis, keepdims)

    def min(self, axis: "Axis" = None, keepdims: bool = False) -> "Array":
        """The smallest element over axes."""
        return reducing.min(self, axis, keepdims)

    def all(self, axis: "Axis" = None, keepdims: bool = False) -> "Array":
        """Whether all elements are true."""
        return reducing.all(self, axis, keepdims)

    def any(self, axis: "Axis" = None, keepdims: bool = False) -> "Array":
        """Whether any element is true."""
        return reducing.any(self, axis, keepdims)

    def mean(
        self, axis: "Axis" = None, dtype: Any = None, keepdims: bool = False, where: "Operand | None" = None
    ) -> "Array":
        """The mean over axes."""
        return reducing.mean(self, axis, dtype, keepdims, where=where)

    def var(self, axis: "Axis" = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False) -> "Array":
        """The variance over axes."""
        return reducing.var(self, axis, dtype, ddof, keepdims)

    def std(self, axis: "Axis" = None, dtype: Any = None, ddof: int = 0, keepdims: bool = False) -> "Array":
        """The standard deviation over axes."""
        return reducing.std(self, axis, dtype, ddof, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> "Array":
        """The index of the largest element."""
        return reducing.argmax(self, axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> "Array":
        """The index of the smallest element."""
        return reducing.argmin(self, axis, keepdims)

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> "Array":
        """Running sums along an axis."""
        return reducing.cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> "Array":
        """Running products along an axis."""
        return reducing.cumprod(self, axis, dtype)

    def sort(self, axis: int | None = -1, stable: bool = True, descending: bool = False) -> "Array":
        """Sorted along an axis."""
        return reducing.sort(self, axis, stable, descending)

    def argsort(self, axis: int | None = -1, stable: bool = True, descending: bool = False) -> "Array":
        """The indices that sort along an axis."""
        return reducing.argsort(self, axis, stable, descending)

    def dot(self, other: "Operand") -> "Array":
        """NumPy's dot product."""
        return arithmetic.dot(self, other)

    def clip(self, min: "Operand | None" = None, max: "Operand | None" = None) -> "Array":
        """Bounded to [min, max]."""
        return arithmetic.clip(self, min, max)

    def round(self, decimals: int = 0) -> "Array":
        """Rounded to a number of decimals, halves to even."""
        return arithmetic.round_(self, decimals)

    def take(self, indices: "Operand", axis: int | None = None, mode: str | None = None) -> "Array":
        """Elements along an axis by index."""
        return indexing.take(self, indices, axis, mode)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Array":
        """The diagonal of two axes."""
        return indexing.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> "Array":
        """The sum of the diagonal of two axes."""
        return reducing.sum(indexing.diagonal(self, offset, axis1, axis2), -1)

    # What concrete arrays do; a box has no memory of its own
    def block_until_ready(self) -> "Array[DT, Unpack[Dims]]":
        """Waits until the value has been computed; a box passes."""
        return self

    @property
    def device(self) -> Any:
        """The device that holds the array."""
        raise self._abstract("x.device")

    @property
    def sharding(self) -> Any:
        """How the array lies on devices."""
        raise self._abstract("x.sharding")

    def devices(self) -> set[Any]:
        """The devices that hold the array."""
        raise self._abstract("x.devices()")

    def to_device(self, device: object, *, stream: object = None) -> "Array":
        """Copies the array to another device."""
        raise self._abstract("x.to_device()")

    def is_ready(self) -> bool:
        """Says whether the value has been computed."""
        raise self._abstract("x.is_ready()")

    def is_deleted(self) -> bool:
        """Says whether the memory was given away or freed."""
        raise self._abstract("x.is_deleted()")

    def delete(self) -> None:
        """Frees the memory at once."""
        raise self._abstract("x.delete()")

    def copy_to_host_async(self) -> None:
        """Starts the copy to the host that a later conversion needs."""
        raise self._abstract("x.copy_to_host_async()")

    def unsafe_buffer_pointer(self) -> int:
        """Returns the address of the elements on the device."""
        raise self._abstract("x.unsafe_buffer_pointer()")

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> "CapsuleType":
        raise self._abstract("x.__dlpack__()")

    def __dlpack_device__(self) -> tuple[int, int]:
        raise self._abstract("x.__dlpack_device__()")

    def _abstract(self, asked: str) -> ConcretizationError:
        return ConcretizationError(f"{asked}: only arrays on a device have this, got {self!r}")


Operand: TypeAlias = Array | Number | HostData | np.generic | SupportsArray
Axis: TypeAlias = int | Sequence[int] | None


@final
class Box(Array[DT, Unpack[Dims]]):
    """An array that belongs to one installed handler.

    Attributes:
        frame: the handler's frame.
        payload: what the handler keeps for it: a dual number, a batched value, a variable.
        type: the type that the user's function sees.
    """

    __slots__ = ("frame", "payload", "type")
    frame: Frame  # type: ignore[mutable-override]  # never None in a box, and never assigned again

    def __init__(self, frame: Frame, payload: Any, type: ArrayType) -> None:
        self.frame = frame
        self.payload = payload
        self.type = type

    def __bool__(self) -> bool:
        # Only the truth value may be taken from a box: it chooses a path through the
        # program, and the handler says which plain value decides.
        decide = getattr(self.frame.handler, "primal", None)
        plain = decide(self.payload) if decide is not None and self.type.size == 1 else None
        if plain is not None:
            return bool(plain)
        return super().__bool__()

    def host(self, asked: str) -> HostData:
        handlers = stack_of(current_frame())
        error = ConcretizationError(
            f"{asked}: needs a concrete value, but x is an abstract {self.type!r} under {self.frame.handler.describe()}"
            f"{f' ({self.frame.origin})' if self.frame.origin else ''}; use effx.numpy.where or effx.lax control flow, "
            f"or mark the argument static"
        )
        error.handlers = handlers
        raise error

    def __repr__(self) -> str:
        return f"Traced<{self.type!r}>with<{self.frame.handler.describe()}>"

    def escaped(self) -> EscapedBoxError:
        """Returns the error for the box where its handler is not at work."""
        origin = f" of {self.frame.origin}" if self.frame.origin else ""
        handler = f"{self.frame.handler.describe()}{origin}"
        error = EscapedBoxError(
            f"escaped box: a value {self.type!r} that belongs to {handler} was used after that "
            f"handler had ended; return it from the function instead of keeping it in a variable outside"
            if not self.frame.live or not is_in_scope(self.frame)
            else f"escaped box: a value {self.type!r} of {handler} was used outside that handler"
        )
        error.frame = self.frame
        return error


@final
class HostArray(Array[DT, Unpack[Dims]]):
    """A constant whose data is still on the host: a Python number or NumPy data.

    Attributes:
        value: a Python number for rank 0, or a NumPy array of the type's dtype and shape.
        type: the array type; a number is read as its dtype.
    """

    __slots__ = ("type", "value")
    frame: ClassVar[None] = None  # type: ignore[misc, mutable-override]  # an instance slot in boxes

    def __init__(self, value: Number | HostData, type: ArrayType) -> None:
        self.value = value
        self.type = type

    def host(self, asked: str) -> HostData:
        return np.asarray(self.value, self.type.dtype)

    def __str__(self) -> str:
        return host_text(self)

    def __repr__(self) -> str:
        return array_repr(self)


# The siblings need the classes above, and the methods above need the siblings.
from effx.array import arithmetic, indexing, reducing, shaping  # noqa: E402
from effx.array.operators import binary, operator  # noqa: E402
from effx.array.printing import array_repr, host_text  # noqa: E402
