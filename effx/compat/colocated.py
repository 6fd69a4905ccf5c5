"""`jax.experimental.colocated_python`: Python functions that run on the host of their arguments' devices.

Where the devices are this process's CPUs, such a function is called here. JAX can hand it to other hosts, by a backend
that effx has not, Pathways: devices of other kinds and other processes are refused, as JAX's other backends refuse
them.
"""

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, final, overload

import attrs
import numpy as np

from effx.array import Array
from effx.effects import isolated
from effx.errors import BackendError, ShardingError, TransformError
from effx.flags import default_device
from effx.lower.placement.backends import devices, is_local
from effx.lower.placement.shardings import Device, Sharding, device_name
from effx.sharding import Mesh
from effx.tracing.arguments import callable_name
from effx.tracing.wrapping import wraps
from effx.transforms.jit.stages import ShapeDtypeStruct
from effx.tree.registry import PyTree, flatten
from effx.tree_util import tree_map

__all__ = ["ColocatedFunction", "colocated_cpu_devices", "colocated_python", "colocated_python_class"]

P = ParamSpec("P")
R = TypeVar("R")


@overload
def colocated_cpu_devices(devices_or_mesh: Sequence[Device]) -> Sequence[Device]: ...
@overload
def colocated_cpu_devices(devices_or_mesh: Mesh) -> Mesh: ...
def colocated_cpu_devices(devices_or_mesh: Sequence[Device] | Mesh) -> Sequence[Device] | Mesh:
    """Returns the CPU devices on the hosts of devices: a CPU device itself, or one of the same process for each other.

    Args:
        devices_or_mesh: devices, in order; or a mesh, for which a mesh of the same shape is given.

    Raises:
        BackendError: a process has fewer CPU devices than others here.

    >>> import effx
    >>> colocated_cpu_devices(effx.devices("cpu")) == effx.devices("cpu")
    True
    """
    if not isinstance(devices_or_mesh, Mesh):
        return _matching_cpu_devices(devices_or_mesh)
    mesh = devices_or_mesh
    cpu_devices = np.array(_matching_cpu_devices(list(mesh.devices.flat)), dtype=object)
    return Mesh(cpu_devices.reshape(mesh.devices.shape), mesh.axis_names, mesh.axis_types)


def _matching_cpu_devices(accelerator_devices: Sequence[Any]) -> list[Device]:
    left: dict[int, list[Device]] = {}
    for cpu in reversed(devices("cpu")):
        left.setdefault(cpu.process_index, []).append(cpu)
    return [
        d if d.platform == "cpu" else _next_cpu_device(left.get(d.process_index, []), d)
        for d in accelerator_devices
    ]


def _next_cpu_device(left: list[Device], device: Device) -> Device:
    if not left:
        raise BackendError(
            f"colocated_cpu_devices: process {device.process_index} has no CPU device left for {device_name(device)}; "
            f"num_cpu_devices gives it more"
        )
    return left.pop()


@final
@attrs.frozen(eq=False)
class ColocatedFunction(Generic[P, R]):
    """A function that runs on the host of its arguments' devices.

    Attributes:
        fun: the function, of pytrees of arrays.
        in_specs: what `(args, kwargs)` must be; None for anything.
        out_specs_fn: from the arguments as `ShapeDtypeStruct`s to those of the results, which must be so.
        devices: where it runs; None for where the arguments are.
    """

    fun: Callable[P, R]
    in_specs: PyTree = None
    out_specs_fn: Callable[..., PyTree] | None = None
    devices: Sequence[Device] | None = None

    def specialize(
        self,
        in_specs: PyTree = None,
        out_specs_fn: Callable[..., PyTree] | None = None,
        devices: Sequence[Device] | None = None,
    ) -> "ColocatedFunction[P, R]":
        """Returns the function specialized for arguments, results and devices.

        Args:
            in_specs: `(args, kwargs)`, as `ShapeDtypeStruct`s. None for what it was.
            out_specs_fn: gives the results, as `ShapeDtypeStruct`s, from the arguments so. None for what it was.
            devices: where to run; needed where there are no arguments. None for what it was.
        """
        return ColocatedFunction(
            self.fun,
            self.in_specs if in_specs is None else in_specs,
            self.out_specs_fn if out_specs_fn is None else out_specs_fn,
            self.devices if devices is None else tuple(devices),
        )

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function.

        Returns:
            Its result, on the same devices.

        Raises:
            TransformError: an argument or a result is no array, or not as declared; there are no devices to run on.
            ShardingError: the arguments are on different devices, or a result is elsewhere.
            BackendError: a device is no CPU of this process.
        """
        name = callable_name(self.fun)
        if self.in_specs is not None:
            _check_specs(name, "takes", self.in_specs, (args, kwargs))
        run_devices = self._place(name, flatten((args, kwargs))[0])
        with isolated(), default_device(run_devices[0]):
            results = self.fun(*args, **kwargs)
        result_devices = _devices_of(name, flatten(results)[0])
        if not set(result_devices) <= set(run_devices):
            raise ShardingError(
                f"{name}: ran on {_devices_text(run_devices)}, and gives arrays on {_devices_text(result_devices)}"
            )
        if self.out_specs_fn is not None:
            positional_specs, named = tree_map(_spec_of, (args, kwargs))
            _check_specs(name, "gives", self.out_specs_fn(*positional_specs, **named), results)
        return results

    def _place(self, name: str, leaves: Sequence[object]) -> tuple[Device, ...]:
        run_devices = self.devices if self.devices is not None else _devices_of(name, leaves)
        if not run_devices:
            raise TransformError(
                f"{name}: a function of colocated_python without arguments runs where specialize(devices=) says"
            )
        for d in run_devices:
            if d.platform != "cpu" or not is_local(d):
                raise BackendError(
                    f"{name}: effx runs Python beside the CPU devices of its own process, got {device_name(d)} of process "
                    f"{d.process_index}; JAX's backend for others, Pathways, is not in effx"
                )
        return tuple(run_devices)


def _spec_of(x: Array) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def _devices_text(device_list: Sequence[Device]) -> str:
    return ", ".join([device_name(d) for d in device_list])


def _devices_of(name: str, leaves: Sequence[object]) -> tuple[Device, ...]:
    """Returns the devices on which arrays are; none for no arrays."""
    devices_of_arrays: dict[tuple[Device, ...], None] = {}
    for x in leaves:
        sharding = getattr(x, "sharding", None) if isinstance(x, Array) else None
        if not isinstance(sharding, Sharding):
            raise TransformError(f"{name}: a function of colocated_python takes and gives arrays, got {x!r}")
        devices_of_arrays[sharding.ordered_devices] = None
    if len(devices_of_arrays) > 1:
        raise ShardingError(
            f"{name}: arguments, and results, must be on the same devices, got "
            f"{' and '.join([_devices_text(array_devices) for array_devices in devices_of_arrays])}"
        )
    return next(iter(devices_of_arrays), ())


def _check_specs(name: str, message_start: str, expected: PyTree, actual: PyTree) -> None:
    """Checks arrays against their declared types."""
    specs, tree = flatten(expected)
    leaves, structure = flatten(actual)
    if tree != structure:
        raise TransformError(f"{name}: {message_start} {structure}, and was said to take or give {tree}")
    for x, spec in zip(leaves, specs, strict=True):
        if x.shape != spec.shape or x.dtype != spec.dtype:
            raise TransformError(f"{name}: {message_start} {x.type!r}, and was said to take or give {spec!r}")


def colocated_python(fun: Callable[P, R]) -> ColocatedFunction[P, R]:
    """Returns a function that runs on the host of its arguments' devices.

    Args:
        fun: takes and returns pytrees of arrays.

    >>> import effx.numpy as enp
    >>> colocated_python(lambda x: x + 1)(enp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    return ColocatedFunction(fun)


def colocated_python_class(cls: type[object]) -> type[object]:
    """Returns a class whose methods run on the host of their arguments' devices.

    An instance of `cls` is made when a method is called first, where it is called.

    Args:
        cls: its methods take and return pytrees of arrays. Nothing but its methods can be reached.

    >>> import effx.numpy as enp
    >>> class Sum:
    ...     def __init__(self):
    ...         self.total = 0
    ...     def add(self, x):
    ...         self.total += x
    ...         return self.total
    >>> total = colocated_python_class(Sum)()
    >>> print(total.add(enp.ones(2)), total.add(enp.ones(2)))
    [1. 1.] [2. 2.]
    """

    class Colocated:
        def __init__(self, *args: object, **kwargs: object) -> None:
            there = _RemoteObject(lambda: cls(*args, **kwargs))
            for name, member in inspect.getmembers(cls, inspect.isfunction):
                if name not in ("__init__", "__del__", "__reduce__", "__reduce_ex__"):
                    setattr(self, name, ColocatedFunction(there.get_method(name, member)))

    Colocated.__name__, Colocated.__qualname__, Colocated.__doc__ = (
        cls.__name__,
        cls.__qualname__,
        cls.__doc__,
    )
    return Colocated


@final
class _RemoteObject:
    """An object that is made when it is first needed."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make, self._made, self._lock = make, list[object](), threading.Lock()

    def get_method(self, name: str, member: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method of the object."""

        @wraps(member)
        def call(*args: object, **kwargs: object) -> Any:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
            return getattr(self._made[0], name)(*args, **kwargs)

        return call
