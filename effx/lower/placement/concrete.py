"""Arrays on devices: `ConcreteArray` around jaxlib's buffers, and moves to and from devices and memories.

jaxlib's array class is left as it is; `ConcreteArray` wraps it. In the private dispatch pytree
registry the wrapper is a node, so that jaxlib's C++ takes and returns it without Python.

An array on a device, and how host data become one, are one file: each reads the other's caches.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast, final

import numpy as np
from jaxlib import _jax
from jaxlib._jax import ArrayImpl, Device
from typing_extensions import Unpack

from effx import caching, dtypes
from effx.array import Array, Box, HostArray, Operand
from effx.array.promotion import as_operand
from effx.effects import isolated, perform
from effx.errors import (
    BackendError,
    DonatedArrayError,
    DTypeError,
    ExchangeError,
    OptionError,
    ShardingError,
)
from effx.ir.ops.convert import Bitcast, Convert
from effx.ir.ops.shape import Slice
from effx.ir.types import ArrayType, array_type
from effx.ir.values.array import HostData, Number
from effx.ir.values.parameters import DT, Dims
from effx.ir.values.printing import array_repr, host_text
from effx.lower.placement import transfer_guards
from effx.lower.placement.backends import check_runnable_device, client, default_device, is_local
from effx.lower.placement.host_memory import LEAST_BYTES_TO_SHARE, copy_aligned, is_shareable
from effx.lower.placement.layouts import AutoLayout, Layout, read_layout
from effx.lower.placement.memories import Space, device_name, memory_kind_of_space
from effx.lower.placement.processes import computation_error
from effx.lower.placement.resharding import reshard_buffer, restore_default_layout
from effx.lower.placement.shardings import (
    BufferSharding,
    Format,
    Location,
    NamedSharding,
    SingleDeviceSharding,
    format_of,
    layout_of_buffer,
    make_buffer_sharding,
    make_location,
    mesh_buffer_sharding,
    resolve_device,
    resolve_memory,
    single_device_buffer_sharding,
    user_sharding,
)
from effx.lower.placement.shards import (
    JaxImportBlocker,
    Shard,
    addressable_parts,
    assemble_buffer,
    gather_on_one_device,
    remote_parts,
    reshard_to_mesh,
    start_host_copies,
)
from effx.tree.registry import PyTree, PyTreeDef, dispatch, register_leaf

if TYPE_CHECKING:
    from typing_extensions import CapsuleType


_NOTHING = np.empty(0)


@final
class DeletedBuffer:
    """Replaces the buffer of an array that was donated or deleted.

    jaxlib's C++ does not know the class, so every use reaches Python, which raises the error.
    """

    __slots__ = ("_buffer",)
    _npy_value = None

    def __init__(self, buffer: ArrayImpl) -> None:
        # Only errors read type and sharding; reading them here would be half the cost of a donated leaf.
        self._buffer = buffer
        buffer._npy_value = _NOTHING  # frees a copy on the host; C++ takes no None

    @property
    def aval(self) -> object:
        """The array's type."""
        return self._buffer.aval

    @property
    def _sharding(self) -> _jax.Sharding:
        return self._buffer._sharding

    @property
    def _committed(self) -> bool:
        return self._buffer._committed

    def is_deleted(self) -> bool:
        """True."""
        return True

    def is_ready(self) -> bool:
        """True: there is nothing to wait for."""
        return True

    def delete(self) -> None:
        """Nothing is left to free."""


# Buffers that executables hold as constants, by id, with their number; and what is called when one is deleted.
constant_counts: Counter[int] = Counter()
deletion_listeners: list[Callable[[], None]] = []


@final
class ConcreteArray(Array[DT, Unpack[Dims]]):
    """An array whose elements are in the memory of a device, or of several.

    Attributes:
        buffer: jaxlib's array; its `aval` is the ArrayType.
    """

    __slots__ = ("__weakref__", "buffer")
    frame: ClassVar[None] = None  # type: ignore[misc, mutable-override]  # an instance slot in boxes

    def __init__(self, buffer: ArrayImpl) -> None:
        self.buffer = buffer

    @property
    def type(self) -> ArrayType:  # type: ignore[override]  # an attribute in the base, held by the buffer here
        """The array's type."""
        return self.buffer.aval  # type: ignore[return-value]  # every operation reads it: a cast() costs as much again

    def host(self, asked: str) -> HostData:
        buffer = self.buffer
        value = buffer._npy_value
        if value is None:
            self._check_alive(asked)
            transfer_guards.guard_to_host(asked, self.type, asked == "device_get")
            try:
                value = _fetch(self)
            except (_jax.JaxRuntimeError, BufferError) as error:
                raise runtime_error(self, asked, error) from _shorten_error(error)
            # A view of the buffer that the buffer held would keep both for ever: C++ shows the collector no cycle.
            if not _is_viewed(self):
                buffer._npy_value = value
        return value

    def _check_alive(self, function_name: str) -> None:
        if self.buffer.is_deleted():
            raise DonatedArrayError(
                f"{function_name}: the array {self.type!r} was donated to a computation or deleted; "
                f"keep a copy, or leave it out of donate_argnums"
            )

    @property
    def device(self) -> Device:
        """The device that holds the array.

        Raises:
            BackendError: there are several.
        """
        sharding = self.buffer._sharding
        if type(sharding) is not BufferSharding:
            return cast("_jax.SingleDeviceSharding", sharding)._device
        if sharding.is_on_mesh:
            raise BackendError(
                f"x.device: {self.type!r} is on {sharding.num_devices} devices; use x.devices() or x.sharding"
            )
        return sharding.sharding.ordered_devices[0]

    def devices(self) -> set[Device]:
        """The devices that hold the array."""
        return self.sharding.device_set

    @property
    def sharding(self) -> SingleDeviceSharding | NamedSharding:
        """The sharding of the array over devices."""
        return user_sharding(self.buffer._sharding)

    @property
    def format(self) -> Format:
        """The layout of the array in memory, and its sharding."""
        return format_of(self.sharding, layout_of_buffer(self.buffer._sharding), self.type)

    @property
    def addressable_shards(self) -> list[Shard[Array]]:
        """The shards on the devices of this process."""
        self._check_alive("x.addressable_shards")
        full_buffer = self.buffer
        return [
            Shard(
                p.device, p.sharding, p.global_shape, self if p.data is full_buffer else ConcreteArray(p.data)
            )
            for p in addressable_parts(full_buffer, self.type)
        ]

    @property
    def global_shards(self) -> list[Any]:
        """The shards on all devices, without data on those of other processes."""
        return [*self.addressable_shards, *remote_parts(self.buffer, self.type)]

    @property
    def committed(self) -> bool:
        """Whether the user chose the device, so that computations follow the array there."""
        return self.buffer._committed

    # Private names of JAX's that libraries and programs read.
    _committed = committed

    @property
    def _arrays(self) -> list[Array]:
        return [shard.data for shard in self.addressable_shards]

    def block_until_ready(self) -> Self:
        """Waits until the value has been computed; returns the array."""
        self._check_alive("x.block_until_ready()")
        block_until_ready([self])
        return self

    def is_ready(self) -> bool:
        """Says whether the value has been computed."""
        return self.buffer.is_ready()

    def copy_to_host_async(self) -> None:
        """Starts the copy to the host that a later conversion needs."""
        self._check_alive("x.copy_to_host_async()")
        if self.buffer._npy_value is not None:
            return
        start_host_copies(self.buffer, self.type)

    def is_deleted(self) -> bool:
        """Says whether the array was donated or deleted."""
        return self.buffer.is_deleted()

    def delete(self) -> None:
        """Frees the memory at once."""
        self.buffer.delete()
        self.mark_deleted()

    def mark_deleted(self) -> None:
        """Replaces a buffer that was donated by a `DeletedBuffer`."""
        mark_deleted([self])

    def unsafe_buffer_pointer(self) -> int:
        """Returns the address of the elements on the device."""
        with JaxImportBlocker():
            return self.buffer.unsafe_buffer_pointer()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> "CapsuleType":
        self._check_alive("x.__dlpack__()")
        self._check_has_all_parts()
        here = self.__dlpack_device__()
        if dl_device is not None and tuple(map(int, dl_device)) != here:
            # Other devices but the CPU are the consumer's to copy to.
            if int(dl_device[0]) != 1 or copy is False:
                raise ExchangeError(
                    f"x.__dlpack__(): dl_device must be {here}, or (1, 0) with a copy, got {tuple(map(int, dl_device))}"
                )
            moved = device_put(self, client("cpu").local_devices()[0])
            return _jax.buffer_to_dlpack_managed_tensor(to_concrete(moved).buffer.clone())
        source = (
            restore_default_layout(self.buffer, self.type).clone() if not copy else _copy_buffer(self).buffer
        )
        try:
            return _jax.buffer_to_dlpack_managed_tensor(source, stream=stream)
        except _jax.JaxRuntimeError as error:
            raise ExchangeError(f"x.__dlpack__(): {self.type!r} cannot be shared: {error}") from error

    def _check_has_all_parts(self) -> None:
        if is_on_several_devices(self):
            raise DTypeError(
                f"dlpack: {self.type!r} is on several devices; share x.addressable_shards[i].data"
            )

    def __dlpack_device__(self) -> tuple[int, int]:
        self._check_has_all_parts()
        platform = self.device.platform
        kind = {"cpu": 1, "gpu": 2, "cuda": 2, "rocm": 10}.get(platform)
        if kind is None:
            raise DTypeError(f"dlpack: arrays on {platform} cannot be shared")
        return kind, self.device.local_hardware_id or 0

    def __reduce__(self) -> "tuple[Callable[..., Array], tuple[HostData, bool]]":
        return _unpickle, (self.host("pickle.dumps(x)"), self.type.weak)

    def __str__(self) -> str:
        return host_text(self) if self._is_readable_here() else repr(self)

    def __repr__(self) -> str:
        if self._is_readable_here():
            return array_repr(self)
        return f"Array(shape={self.type.shape}, dtype={self.type.dtype.name}) in parts of {len(self.devices())} devices"

    def _is_readable_here(self) -> bool:
        """Says whether this process can read all elements."""
        return not is_on_several_devices(self) or self.is_fully_addressable or self.is_fully_replicated


register_leaf(Array)
dispatch.register_dataclass_node(ConcreteArray, ["buffer"], [])


class BufferRecord(NamedTuple):
    """A record of one buffer, for the shape of its node."""

    buffer: object


_NAMED_TUPLE = dispatch.flatten(BufferRecord(0))[1].__getstate__()[1][-1]


def result_structure(
    result: PyTree, first: "Callable[[ArrayImpl], ConcreteArray] | None" = None
) -> PyTreeDef:
    """Returns the pytree structure with which C++ builds results like this one from buffers.

    The array of the first buffer is made by `first`, if it is given.

    A dataclass node is quick to take apart, because C++ reads the attribute, but slow to build, because
    C++ makes a dict of keyword arguments: 350 ns. A named tuple's node calls its class with the children:
    170 ns. So the arrays' nodes are written down as if their class were a named tuple's.
    """
    structure = dispatch.flatten(result)[1]
    registry, nodes = structure.__getstate__()
    as_tuple = (*_NAMED_TUPLE[:2], ConcreteArray, *_NAMED_TUPLE[3:])
    written = [as_tuple if node[3] is ConcreteArray else node for node in nodes]
    if first is not None:
        written[written.index(as_tuple)] = (*_NAMED_TUPLE[:2], first, *_NAMED_TUPLE[3:])
    built: PyTreeDef = PyTreeDef.__new__(PyTreeDef)
    built.__setstate__((registry, written))
    return built


def _is_viewed(x: ConcreteArray) -> bool:
    """Says whether `_fetch` gives a view of the array's own buffer."""
    if type(x.buffer._sharding) is BufferSharding:  # assembled, or copied row by row
        return False
    return x.type.dtype.isbuiltin == 1 and x.device.platform == "cpu"


def _fetch(x: ConcreteArray) -> HostData:
    """Copies elements to the host; on a CPU the result is a read-only view of the array's memory."""
    buffer, t = x.buffer, x.type
    if type(buffer._sharding) is BufferSharding:
        return (
            _assemble_on_host(x)
            if buffer._sharding.is_on_mesh
            else _fetch(ConcreteArray(restore_default_layout(buffer, t)))
        )
    # jaxlib's own conversion imports jax where it is installed and nothing keeps it from that; the buffer protocol does
    # not, but it exists on CPUs only and has no ml_dtypes.
    if t.dtype == dtypes.float0:
        return np.zeros(t.shape, dtypes.float0)
    if dtypes.is_key(t.dtype):
        stored = array_type(dtypes.storage(t.dtype), t.shape)
        words = _fetch(ConcreteArray(buffer._rewrap_with_aval_and_sharding(stored, buffer._sharding)))
        return words.view(t.dtype)
    if x.device.platform != "cpu":
        with JaxImportBlocker():
            value = buffer._single_device_array_to_np_array_did_copy()[0]
        value.flags.writeable = False
        return value
    if t.dtype.isbuiltin == 1:
        return np.asarray(memoryview(buffer))
    # A copy, which does not keep the buffer: see `_is_viewed`.
    with JaxImportBlocker():
        value = np.array(buffer._single_device_array_to_np_array_did_copy()[0])
    value.flags.writeable = False
    return value


def fetch_to_host(x: ConcreteArray) -> HostData:
    """Returns the elements of an array on one CPU, to be read at once: the array may be donated afterwards."""
    return _fetch(x)


def place_result(data: HostData, type: ArrayType) -> ConcreteArray:
    """Returns an uncommitted array of a result that was computed on the host."""
    return _place_on_device(data, type)


def _assemble_on_host(x: ConcreteArray) -> HostData:
    """Assembles the shards of an array on the host."""
    parts = x.addressable_shards
    if x.is_fully_replicated and parts:
        return parts[0].data.host("numpy.asarray(x)")
    if not x.is_fully_addressable:
        raise ShardingError(
            f"numpy.asarray(x): other processes hold parts of {x.type!r}, whose sharding is {x.sharding!r}; "
            f"take what is here from x.addressable_shards, or gather it with multihost_utils.process_allgather"
        )
    if isinstance(x.sharding, NamedSharding) and x.sharding.spec.unreduced:
        total = ConcreteArray(buffer_for(x, x.sharding.without_unreduced()))
        return total.host("numpy.asarray(x)")
    result = np.empty(x.type.shape, x.type.dtype)
    start_host_copies(x.buffer, x.type)
    for part in parts if result.size else ():  # jaxlib 0.10 has parts without elements in the whole's shape
        if part.replica_id == 0:
            result[part.index] = part.data.host("numpy.asarray(x)")
    result.flags.writeable = False
    return result


def committed_device(x: ConcreteArray) -> Device | None:
    """Returns the device that computations follow the array to; None where they need not.

    An array on several devices is gathered wherever it is needed.
    """
    return None if not x.buffer._committed or is_on_several_devices(x) else x.device


def mark_deleted(values: Iterable[object]) -> None:
    """Marks the arrays among the values deleted whose buffers were donated."""
    for x in values:
        if type(x) is not ConcreteArray:
            continue
        buffer: object = x.buffer
        if type(buffer) is DeletedBuffer or not x.buffer.is_deleted():
            continue
        if constant_counts and id(buffer) in constant_counts:
            for listener in deletion_listeners:
                listener()
        x.buffer = cast("ArrayImpl", DeletedBuffer(x.buffer))


def is_on_several_devices(x: ConcreteArray) -> bool:
    """Says whether an array is on several devices, or on a mesh of one."""
    sharding = x.buffer._sharding
    return type(sharding) is BufferSharding and sharding.is_on_mesh


def has_own_layout(x: ConcreteArray) -> bool:
    """Says whether an array does not lie as its devices have arrays by default."""
    return layout_of_buffer(x.buffer._sharding) is not None


def _copy_buffer(x: ConcreteArray) -> ConcreteArray:
    return place_on_device(np.array(x.host("copy")), x.type, x.device, x.committed, memory=memory_kind_of(x))


def _unpickle(data: HostData, weak: bool) -> Array:
    return place_on_device(data, array_type(data.dtype, data.shape, weak))


def is_immutable(data: HostData) -> bool:
    """Says whether an array's memory is read-only, through the array and through what it is a view of."""
    owner: object = data
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    # Anything else that owns memory, a mapped file say, may change it; arrays on devices may be donated.
    return owner is None or type(owner) is bytes


def place_on_device(
    data: HostData | Number | np.generic,
    type: ArrayType,
    device: Device | None = None,
    committed: bool | None = None,
    function_name: str = "",
    memory: str | None = None,
) -> ConcreteArray:
    """Moves host data to a device.

    Args:
        data: of the type's dtype and shape.
        type: the array's type.
        device: None for the default device.
        committed: whether computations follow the array to its device; by default, if one was named.
        function_name: the function that the user called, for errors and guards; "" for none.
        memory: the kind of the device's memory, where that is not the default one.
    """
    transfer_guards.guard_to_device(function_name or "array", type, bool(function_name))
    return _place_on_device(data, type, device, committed, memory)


def place_computed_data(data: HostData | Number | np.generic, type: ArrayType) -> ConcreteArray:
    """Moves data that effx computed itself, such as those of `arange`, to the default device: guards are about users'."""
    return _place_on_device(data, type, None, None, None)


def _place_on_device(
    data: HostData | Number | np.generic,
    type: ArrayType,
    device: Device | None = None,
    committed: bool | None = None,
    memory: str | None = None,
) -> ConcreteArray:
    target = default_device() if device is None else device
    sharding = single_device_buffer_sharding(target, memory)
    value = np.asarray(data, type.dtype)
    # The runtime may use the host memory as the array's own, so data that may still be written to is copied.
    is_constant = (value is not data and value.base is None) or is_immutable(value)
    if target.platform == "cpu" and value.nbytes >= LEAST_BYTES_TO_SHARE:
        if not (is_constant and is_shareable(value)):
            value = copy_aligned(value)
    elif not is_constant:
        value = value.copy()
    chosen = device is not None if committed is None else committed
    if dtypes.is_stored_as_other(type.dtype) and not chosen:
        return _place_uncommitted(value, type, target)
    return ConcreteArray(assemble_buffer(type, sharding, [value], [target], chosen))


def _place_uncommitted(value: HostData, t: ArrayType, where: Device) -> ConcreteArray:
    """Moves keys or float0 to a device, uncommitted: jaxlib commits arrays that it retypes, but not results of programs."""
    if t.dtype == dtypes.float0:
        with isolated():
            falses = _place_on_device(
                np.zeros(t.shape, bool), array_type(dtypes.bool_, t.shape), where, False
            )
            return cast("ConcreteArray", perform(Convert(t.dtype), (falses,)))
    words = value.reshape(-1).view(dtypes.uint32).reshape((*t.shape, t.dtype.itemsize // 4))
    with isolated():
        bits = _place_on_device(words, array_type(dtypes.uint32, words.shape), where, False)
        return cast("ConcreteArray", perform(Bitcast(t.dtype), (bits,)))


def memory_kind_of(x: ConcreteArray) -> str | None:
    """Returns the memory kind of an array on one device; None for the default one."""
    sharding = x.buffer._sharding
    if type(sharding) is BufferSharding:
        return sharding.sharding.nondefault_memory
    single_sharding = cast("_jax.SingleDeviceSharding", sharding)
    default_sharding = single_device_buffer_sharding(single_sharding._device)
    return (
        None
        if single_sharding is default_sharding
        or single_sharding._memory_kind == default_sharding._memory_kind
        else single_sharding._memory_kind
    )


def copy_to_device(
    x: ConcreteArray, device: Device, function_name: str = "", memory: str | None = None
) -> ConcreteArray:
    """Returns a copy of the array on another device, or in another of its memories.

    `function_name` is as for `place_on_device`.
    """
    transfer_guards.guard_device_to_device(function_name or "array", x.type, bool(function_name))
    full_buffer = gather_on_one_device(x.buffer, x.type)
    return ConcreteArray(
        assemble_buffer(x.type, single_device_buffer_sharding(device, memory), [full_buffer], [device], True)
    )


def buffer_on(x: ConcreteArray, device: Device, memory: str | None = None) -> ArrayImpl:
    """Returns the array's buffer on a device, in its default memory or another; copies it from elsewhere."""
    sharding = x.buffer._sharding
    if type(sharding) is BufferSharding:
        if sharding.layout is not None:
            return buffer_on(ConcreteArray(restore_default_layout(x.buffer, x.type)), device, memory)
        if sharding.is_fully_replicated and sharding.sharding.nondefault_memory == memory:
            for part in addressable_parts(x.buffer, x.type):
                if part.device == device:
                    return part.data
    elif sharding is single_device_buffer_sharding(device, memory) or (
        x.device == device and memory_kind_of(x) == memory
    ):
        return x.buffer
    return copy_to_device(x, device, "", memory).buffer


def buffer_for(x: ConcreteArray, location: Location) -> ArrayImpl:
    """Returns the array's buffer at a location; copies it where it has another one."""
    if isinstance(location, Format):
        target = make_buffer_sharding(location, x.type.ndim)
        if x.buffer._sharding is target:
            return x.buffer
        rows = buffer_for(x, cast("SingleDeviceSharding | NamedSharding", location.sharding))
        return reshard_buffer(rows, x.type, target)
    if isinstance(location, NamedSharding):
        return reshard_to_mesh(x.buffer, x.type, lambda: x.host("move"), _slice_buffer, location)
    if isinstance(location, SingleDeviceSharding):
        return buffer_on(x, location.device, location.nondefault_memory)
    return buffer_on(x, location)


def _slice_buffer(buffer: ArrayImpl, index: tuple[slice, ...]) -> ArrayImpl:
    """Slices a buffer on its own device."""
    array = ConcreteArray(buffer)
    bounds = [s.indices(n) for s, n in zip(index, array.type.shape, strict=True)]
    op = Slice(tuple([b[0] for b in bounds]), tuple([b[1] for b in bounds]), (1,) * len(bounds))
    with isolated():
        return cast("ConcreteArray", perform(op, (array,))).buffer


def join_shards(t: ArrayType, sharding: NamedSharding, parts: Sequence[ConcreteArray]) -> ConcreteArray:
    """Makes one array of shards, one for each device; shards on other devices are moved."""
    devices = list(sharding.ordered_devices)
    part = t.with_shape(sharding.shard_shape(t.shape))
    if sharding.num_devices == 1:
        return place_on_device(parts[0].host("move").reshape(t.shape), t, devices[0])
    buffers = [p.host("move").reshape(part.shape) for p in parts]
    buffer_sharding = mesh_buffer_sharding(sharding, t.ndim)
    return ConcreteArray(assemble_buffer(t, buffer_sharding, buffers, devices, True))


_scalars: dict[tuple[Number | str, ArrayType], ConcreteArray] = {}
caching.other_caches.append(_scalars.clear)


def to_concrete(x: Array) -> ConcreteArray:
    """Returns the array on a device: concrete arrays as they are, host data moved.

    Raises:
        EscapedBoxError: `x` is a box that no handler took.
    """
    if type(x) is ConcreteArray:
        return x
    if type(x) is HostArray:
        return place_on_device(x.value, x.type)
    assert isinstance(x, Box)
    raise x.escaped_error()


def to_device_operand(x: Array) -> ConcreteArray:
    """Returns the array on a device, for use only as an operand of a computation: Python scalars are cached.

    Raises:
        EscapedBoxError: `x` is a box that no handler took.
    """
    if type(x) is not HostArray or isinstance(x.value, np.ndarray):
        return to_concrete(x)
    value = x.value
    # A number in a loop is the same number each time: keep it on the device. Zeros and complex
    # numbers are looked up by their text, because 0.0 == -0.0; the type distinguishes 1 from True.
    key = (value if value and type(value) is not complex else repr(value), x.type)
    scalar = _scalars.get(key)
    if scalar is None:
        if len(_scalars) >= 4096:
            _scalars.clear()
        scalar = _scalars[key] = _place_on_device(
            value, x.type
        )  # a number is no data that a guard would look at
    return scalar


def device_put(x: Operand, device: object = None) -> Array:
    """Moves one array or number to a device, or to one of its memories; boxes stay what they are."""
    array = as_operand(x)
    if isinstance(device, Space) and not isinstance(array, Box):
        device = _sharding_in_space(array, device)
    if isinstance(device, Format):
        if device.layout is not None and not isinstance(array, Box):
            return _put_in_format(array, device)
        device = device.sharding
    if isinstance(device, NamedSharding):
        if isinstance(array, Box):
            return array
        check_runnable_device("device_put", device.ordered_devices[0])
        array = to_concrete(array)
        array._check_alive("device_put")
        if array.committed and array.sharding == device:
            return array
        return ConcreteArray(buffer_for(array, device))
    target, memory = (
        (None, None) if isinstance(device, Space) else (resolve_device(device), resolve_memory(device))
    )
    if isinstance(array, Box):
        return array
    if target is not None and not is_local(target):
        check_runnable_device("device_put", target)
        raise BackendError(
            f"device_put: {device_name(target)} belongs to process {target.process_index}; put the array on a mesh, or on "
            f"one of effx.local_devices()"
        )
    if type(array) is ConcreteArray:
        if is_on_several_devices(array):
            if target is None:
                return array
            array._check_alive("device_put")
            return ConcreteArray(buffer_on(array, target, memory))
        if target is None:
            return array
        same = array.device == target and memory_kind_of(array) == memory
        if same and array.committed:
            return array
        array._check_alive("device_put")
        if not same:
            return copy_to_device(array, target, "device_put", memory)
        return ConcreteArray(
            assemble_buffer(
                array.type,
                single_device_buffer_sharding(target, memory),
                [restore_default_layout(array.buffer, array.type)],
                [target],
                True,
            )
        )
    assert type(array) is HostArray
    value = array.value if isinstance(array.value, np.ndarray) else np.asarray(array.value, array.type.dtype)
    return place_on_device(value, array.type, target, function_name="device_put", memory=memory)


def _put_in_format(array: Array, format: Format) -> ConcreteArray:
    """Moves an array to a format's devices, and lays it out by the format's layout."""
    sharding = cast("SingleDeviceSharding | NamedSharding", format.sharding)
    if isinstance(format.layout, AutoLayout):
        raise OptionError(
            "device_put: Layout.AUTO is for a compiler to choose; take the layout from "
            "jit(f, in_shardings=Format(Layout.AUTO)).lower(...).compile().input_formats"
        )
    location = make_location("device_put", sharding, cast("Layout", format.layout), array.type)
    moved = to_concrete(device_put(array, sharding))
    target = make_buffer_sharding(location, array.type.ndim)
    return moved if moved.buffer._sharding is target else ConcreteArray(buffer_for(moved, location))


def _sharding_in_space(array: Array, space: Space) -> Device | SingleDeviceSharding | NamedSharding | None:
    """Returns the sharding of an array after a move to another memory of its devices; None for no move."""
    if type(array) is not ConcreteArray:
        where = default_device()
        kind = memory_kind_of_space("device_put", space, where)
        there = SingleDeviceSharding(where, memory_kind=kind)
        return None if there.nondefault_memory is None else there
    sharding = array.sharding
    kind = memory_kind_of_space("device_put", space, sharding.ordered_devices[0])
    return None if kind == sharding.memory_kind else sharding.with_memory_kind(kind)


def device_get(x: Operand) -> HostData:
    """Copies one array to the host."""
    return as_operand(x).host("device_get")


def block_until_ready(arrays: Sequence[object]) -> None:
    """Waits for all concrete arrays among `arrays`."""
    concrete = [x for x in arrays if type(x) is ConcreteArray]
    try:
        _jax.batched_block_until_ready([x.buffer for x in concrete])
    except _jax.JaxRuntimeError as error:
        raise _first_failure(concrete, error) from _shorten_error(error)


def _first_failure(arrays: Sequence[ConcreteArray], error: Exception) -> Exception:
    for x in arrays:
        try:
            x.buffer.block_until_ready()
        except _jax.JaxRuntimeError as own:
            return runtime_error(x, "block_until_ready", own)
    return error


# What XLA writes before an error once more for each run that was to use the results of one that has failed.
_PASSED_ON = "Error dispatching computation: "


def _shorten_error(error: Exception) -> Exception:
    first, passed_on, remaining_text = str(error).partition(_PASSED_ON)
    return _jax.JaxRuntimeError(first + remaining_text.replace(_PASSED_ON, "")) if passed_on else error


def runtime_error(x: ConcreteArray, function_name: str, error: Exception) -> Exception:
    """Returns the error that users see where XLA fails while an array's value is awaited."""
    made_by = getattr(x.buffer, "_made_by", None)
    if made_by is not None:
        converted: Exception = made_by(error)
        return converted
    return computation_error(f"{function_name}: computing {x.type!r} failed", _shorten_error(error))


def shares_memory(x: ConcreteArray, y: ConcreteArray) -> bool:
    """Says whether two arrays are in the same memory of the same devices."""
    if is_on_several_devices(x) or is_on_several_devices(y):
        return x.buffer is y.buffer
    return x.device == y.device and x.unsafe_buffer_pointer() == y.unsafe_buffer_pointer()


def copy_array(x: ConcreteArray) -> ConcreteArray:
    """Returns a copy in memory of its own, with the same sharding and layout."""
    sharding, layout = x.sharding, layout_of_buffer(x.buffer._sharding)
    if is_on_several_devices(x):
        parts = [np.array(p.data.host("copy")) for p in x.addressable_shards]
        rows = make_buffer_sharding(sharding, x.type.ndim)
        copy = ConcreteArray(assemble_buffer(x.type, rows, parts, list(sharding.ordered_devices), True))
    else:
        copy = _copy_buffer(x)
    return copy if layout is None else ConcreteArray(buffer_for(copy, Format(layout, sharding)))


def live_arrays(platform: str | None) -> list[Array]:
    """Returns the arrays of effx whose memory on a platform is not freed."""
    buffers = client(platform).live_arrays()
    return [ConcreteArray(b) for b in buffers if type(b.aval) is ArrayType and not b.is_deleted()]


def from_dlpack(external_array: Any, device: object = None, copy: bool | None = None) -> Array:
    """Imports an array of another library through DLPack, without a copy where possible.

    Args:
        external_array: anything with `__dlpack__` and `__dlpack_device__`.
        device: the device of the result; None for the array's own.
        copy: True to copy.

    Raises:
        DTypeError: the object does not speak DLPack, or its device or dtype is not supported.

    >>> import numpy as np
    >>> from_dlpack(np.arange(3, dtype="int32"))
    Array([0, 1, 2], dtype=int32)
    """
    if not hasattr(external_array, "__dlpack__") or not hasattr(external_array, "__dlpack_device__"):
        raise DTypeError(
            f"from_dlpack: expected an object with __dlpack__ and __dlpack_device__, got {type(external_array).__name__}"
        )
    kind, index = external_array.__dlpack_device__()
    platform = {1: "cpu", 2: "cuda", 10: "rocm"}.get(int(kind))
    if platform is None:
        raise DTypeError(
            f"from_dlpack: device type {int(kind)} is not supported; only cpu, cuda and rocm are"
        )
    if platform == "cpu":
        # NumPy takes the memory over; a view that XLA may alias keeps the exporter alive.
        try:
            view = np.from_dlpack(external_array)
        except (RuntimeError, BufferError, TypeError) as error:
            raise DTypeError(
                f"from_dlpack: {type(external_array).__name__} gave data that cannot be taken over: {error}"
            ) from None
        dtype = dtypes.canonicalize(view.dtype)
        if dtype != view.dtype:
            raise DTypeError(f"from_dlpack: dtype {view.dtype} needs enable_x64")
        where = default_device() if default_device().platform == "cpu" else client("cpu").local_devices()[0]
        result = (
            _adopt(view, array_type(dtype, view.shape), where)
            if not copy
            else place_on_device(np.array(view), array_type(dtype, view.shape), where)
        )
        return result if device is None else device_put(result, device)
    where = client(platform).local_devices()[int(index)]
    buffer = _jax.dlpack_managed_tensor_to_buffer(external_array.__dlpack__(), where, None)
    imported_type = array_type(np.dtype(buffer.aval.dtype), buffer.aval.shape)
    # The exporter's memory is taken as it lies.
    layout = read_layout(buffer._pjrt_layout)
    location = make_location("from_dlpack", SingleDeviceSharding(where), layout, imported_type)
    result = ConcreteArray(
        buffer._rewrap_with_aval_and_sharding(
            imported_type, make_buffer_sharding(location, imported_type.ndim)
        )
    )
    if copy:
        result = _copy_buffer(result)
    return result if device is None else device_put(result, device)


def _adopt(data: HostData, t: ArrayType, device: Device) -> ConcreteArray:
    """Makes an array that uses host memory as its own where alignment allows."""
    buffer = _jax.batched_device_put(
        t,
        single_device_buffer_sharding(device),
        [data],
        [device],
        False,
        host_buffer_semantics=_jax.HostBufferSemantics.ZERO_COPY,
        enable_x64=True,
    )
    return ConcreteArray(buffer)
