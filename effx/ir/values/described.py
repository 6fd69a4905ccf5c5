"""Attributes of arrays, and conversions to Python and NumPy data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np

from effx.dtypes import is_key
from effx.effects import Value
from effx.errors import ConcretizationError, ConversionError, DTypeError, ShapeError, TracerAttributeError
from effx.ir.types import ArrayType
from effx.ir.values.typed import Typed

if TYPE_CHECKING:
    from typing_extensions import CapsuleType


Number = bool | int | float | complex
HostData = np.ndarray[Any, Any]


class SupportsArray(Protocol):
    """Any object that converts itself to a NumPy array."""

    def __array__(self) -> HostData:
        """Returns the NumPy array."""
        ...


class ArrayAttributes(Typed, Value):
    """The part of `Array` that performs no operations: type, memory, conversions to Python."""

    __slots__ = ()

    @property
    def aval(self) -> ArrayType:
        """The array's type."""
        return self.type

    @property
    def weak_type(self) -> bool:
        """True if the dtype came from a bare Python number."""
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
            asked: the conversion, for the error.

        Raises:
            ConcretizationError: the value is abstract.
        """
        raise self._concretization_error(asked)

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if not name.startswith("_") or name.endswith("__")]

    # Python conversions
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostData:
        data = self._host_numbers("numpy.asarray(x)")
        if dtype is not None and data.dtype != dtype:
            return data.astype(dtype)
        return data.copy() if copy else data

    def _host_numbers(self, asked: str) -> HostData:
        """Returns the value as a NumPy array for users; keys are no numbers.

        Raises:
            DTypeError: an array of keys.
        """
        if is_key(self.type.dtype):
            raise DTypeError(
                f"{asked}: an array of random keys has no NumPy form, got {self.type!r}; effx.random.key_data(x) returns "
                "its bits"
            )
        return self.host(asked)

    def _host_scalar(self, asked: str) -> HostData:
        t = self.type
        if t.size != 1:
            raise ConversionError(
                f"{asked}: only arrays of one element convert to Python scalars, got {self.type!r}"
            )
        if t.kind == "V":
            raise ConversionError(f"{asked}: {self.type!r} is no number")
        return self.host(asked).reshape(())

    def __bool__(self) -> bool:
        if self.type.size != 1:
            raise ShapeError(
                f"bool(x): the truth value of {self.type!r} is ambiguous; use x.any() or x.all()"
            )
        return bool(self._host_scalar("bool(x)"))

    def __int__(self) -> int:
        return int(self._host_scalar("int(x)"))

    def __float__(self) -> float:
        return float(self._host_scalar("float(x)"))

    def __complex__(self) -> complex:
        return complex(self._host_scalar("complex(x)"))

    def __index__(self) -> int:
        if self.type.ndim or self.type.kind not in "iu":
            raise ConversionError(
                f"index(x): only integer arrays of rank 0 serve as an index, got {self.type!r}"
            )
        return int(self.host("index(x)"))

    def __hash__(self) -> int:
        raise TypeError(f"unhashable type: arrays compare by elements, got {self.type!r}")

    def __len__(self) -> int:
        if not self.type.shape:
            raise ConversionError(f"len(x): a scalar has no length, got {self.type!r}")
        return self.type.shape[0]

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.type.ndim:
            raise ConversionError(
                f"format(x, {spec!r}): only arrays of rank 0 take a format, got {self.type!r}; "
                f"use numpy.array2string, or format the elements of x.tolist()"
            )
        return format(self.host("format(x)").item(), spec)

    def item(self, *index: int) -> Number:
        """Returns one element as a Python number; without an index the array must have one element."""
        data = self._host_numbers("x.item()")
        result: Number = data.item(*index)
        return result

    def __bytes__(self) -> bytes:
        return self._host_numbers("bytes(x)").tobytes()

    def tobytes(self, order: Literal["C", "F", "A"] | None = "C") -> bytes:
        """Returns the elements' bytes in memory order.

        Args:
            order: "C" for the last axis fastest, "F" for the first one.

        >>> import effx.numpy as enp
        >>> enp.array([1, 256], "int16").tobytes()
        b'\\x01\\x00\\x00\\x01'
        """
        return self._host_numbers("x.tobytes()").tobytes(order)

    def tolist(self) -> Any:
        """Returns nested lists of Python numbers."""
        return self._host_numbers("x.tolist()").tolist()

    # For concrete arrays; a box has no memory of its own
    def block_until_ready(self) -> Self:
        """Blocks until the value is computed; does nothing for a box."""
        return self

    @property
    def device(self) -> Any:
        """The device that holds the array; None for a traced one, which as an argument means any device."""
        return None

    @property
    def sharding(self) -> Any:
        """The array's sharding over devices."""
        raise TracerAttributeError(
            f"x.sharding: only arrays on a device have this, got {self!r}; "
            f"effx.typeof(x).sharding shows its sharding over Explicit axes"
        )

    @property
    def format(self) -> Any:
        """The array's layout in memory, and its sharding."""
        raise self._concretization_error("x.format")

    @property
    def committed(self) -> bool:
        """Whether the user chose the device, so that computations run there."""
        raise self._concretization_error("x.committed")

    @property
    def addressable_shards(self) -> list[Any]:
        """The shards on the devices of this process."""
        raise self._concretization_error("x.addressable_shards")

    @property
    def global_shards(self) -> list[Any]:
        """The shards on all devices, without data for those of other processes."""
        return self.addressable_shards

    def addressable_data(self, index: int) -> Any:
        """Returns the shard on one of the array's devices, by the device's index."""
        return self.addressable_shards[index].data

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all parts."""
        return bool(self.sharding.is_fully_addressable)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device of the array holds all of it."""
        return bool(self.sharding.is_fully_replicated)

    def devices(self) -> set[Any]:
        """The devices that hold the array."""
        raise self._concretization_error("x.devices()")

    def is_ready(self) -> bool:
        """Returns whether the value has been computed."""
        raise self._concretization_error("x.is_ready()")

    def is_deleted(self) -> bool:
        """Returns whether the memory was donated or freed."""
        raise self._concretization_error("x.is_deleted()")

    def delete(self) -> None:
        """Frees the memory at once."""
        raise self._concretization_error("x.delete()")

    def copy_to_host_async(self) -> None:
        """Starts the copy to the host that a later conversion needs."""
        raise self._concretization_error("x.copy_to_host_async()")

    def unsafe_buffer_pointer(self) -> int:
        """Returns the address of the elements on the device."""
        raise self._concretization_error("x.unsafe_buffer_pointer()")

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        raise self._concretization_error("x.__dlpack__()")

    def __dlpack_device__(self) -> tuple[int, int]:
        raise self._concretization_error("x.__dlpack_device__()")

    def _concretization_error(self, asked: str) -> ConcretizationError:
        return ConcretizationError(f"{asked}: only arrays on a device have this, got {self!r}")
