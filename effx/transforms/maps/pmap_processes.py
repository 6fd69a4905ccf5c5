"""`pmap` over the devices of several processes: each passes and receives the rows of its own devices.

The processes' rows become arrays on the devices of all, without copying rows that are on their device already. The
parallel map of these is one program in all processes, as `jit` runs it on a mesh. Under handlers and in functions that
are being staged, a parallel map is over the devices of this process, or over those that it names.

C++ caches nothing of these calls.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import attrs

from effx.array import Array, HostArray
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.effects import current_frame
from effx.errors import BackendError, DeviceCountError, ShapeError
from effx.ir.ops.groups import place_at
from effx.lower.placement import processes
from effx.lower.placement.backends import devices as devices_of
from effx.lower.placement.backends import is_local
from effx.lower.placement.shardings import Device, NamedSharding, device_name, grid_sharding
from effx.tracing.arguments import leaf_type
from effx.transforms.jit.function import Function, Jitted
from effx.transforms.jit.options import Options
from effx.transforms.jit.stages import ShapeDtypeStruct, Traced, shape_struct
from effx.transforms.maps.mapped_axes import MappedAxes
from effx.transforms.placement.device_put import device_put
from effx.transforms.placement.global_arrays import make_array_from_single_device_arrays
from effx.tree.registry import PyTree, flatten

__all__ = ["ParallelFunction"]

# Makes the function that maps over all processes' devices, from their ids, their platform and the mapped axes.
MakeWidened = Callable[[tuple[int, ...], str, MappedAxes], Callable[..., Any]]


@final
@attrs.frozen
class ProcessDevices:
    """One parallel map over the devices of several processes.

    Attributes:
        function_name: the function's name, for errors.
        all_devices: the devices of all processes. own_devices: those of this process.
    """

    function_name: str
    all_devices: tuple[Device, ...]
    own_devices: tuple[Device, ...]

    def _row_sharding(self, devices: tuple[Device, ...], is_cut: bool) -> NamedSharding:
        return grid_sharding(devices, (len(devices),), (0,) if is_cut else ())

    def make_global(self, x: PyTree, is_cut: bool) -> Array:
        """Makes an array on the devices of all processes from this process's rows, or from a replicated array."""
        local: Array = device_put(x, self._row_sharding(self.own_devices, is_cut))
        shape = local.type.shape
        return make_array_from_single_device_arrays(
            (len(self.all_devices), *shape[1:]) if is_cut else shape,
            self._row_sharding(self.all_devices, is_cut),
            [part.data for part in local.addressable_shards],
        )

    def make_local(self, x: Array, is_cut: bool) -> Array:
        """Returns this process's rows of a result, or the whole of a replicated one."""
        global_array: Array = device_put(x, self._row_sharding(self.all_devices, is_cut))
        shape = global_array.type.shape
        return make_array_from_single_device_arrays(
            (len(self.own_devices), *shape[1:]) if is_cut else shape,
            self._row_sharding(self.own_devices, is_cut),
            [part.data for part in global_array.addressable_shards],
        )


@final
class ParallelFunction(Function[Any, Any]):
    """The function that `pmap` returns, on the devices of one process or of several.

    Attributes:
        mapping: the mapped axes of arguments and results.
        devices: the devices' ids; None for all. backend: their platform.
        make_widened: makes the function over the devices of all processes.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        options: Options,
        mapping: MappedAxes,
        devices: tuple[int, ...] | None,
        backend: str | None,
        make_widened: MakeWidened,
    ) -> None:
        super().__init__(fun, options, "pmap", wrapped=getattr(fun, "__wrapped__", fun))
        self.mapping, self.devices, self.backend, self.make_widened = mapping, devices, backend, make_widened
        self.functions: dict[Hashable, Jitted[Any, Any]] = {}

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickles the function without its staged programs."""
        fields = (self.fun, self.options, self.mapping, self.devices, self.backend, self.make_widened)
        return ParallelFunction, fields

    def miss(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Runs over the devices of several processes, if the map has them; C++ caches nothing of that."""
        if not self.is_multiprocess():
            return super().miss(*args, **kwargs)
        devices, global_args, global_kwargs = self.distribute_arguments(args, kwargs, concrete=True)
        results, form = flatten(self.global_function(devices)(*global_args, **global_kwargs))
        out_axes = self.mapping.output_axes(form.unflatten(results))
        outputs = []
        for y, out_axis in zip(results, out_axes, strict=True):
            local = devices.make_local(y, out_axis is not None)
            axis = 0 if out_axis is None else self.mapping.normalize_out_axis(out_axis, local.type.ndim)
            outputs.append(moveaxis(local, 0, axis) if axis else local)
        return form.unflatten(outputs), None, False

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Stages the function; over several processes the function of all rows, with mapped axes first."""
        if not self.is_multiprocess():
            return super().trace(*args, **kwargs)
        devices, global_args, global_kwargs = self.distribute_arguments(args, kwargs, concrete=False)
        return self.global_function(devices).trace(*global_args, **global_kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the shapes and dtypes of this process's results."""
        if not self.is_multiprocess():
            return super().eval_shape(*args, **kwargs)
        devices, global_args, global_kwargs = self.distribute_arguments(args, kwargs, concrete=False)
        results, form = flatten(self.global_function(devices).trace(*global_args, **global_kwargs).out_info)
        outputs = []
        for y, out_axis in zip(results, self.mapping.output_axes(form.unflatten(results)), strict=True):
            shape = list(y.shape)
            if out_axis is not None:
                shape = shape[1:]
                shape.insert(
                    self.mapping.normalize_out_axis(out_axis, len(y.shape)), len(devices.own_devices)
                )
            outputs.append(ShapeDtypeStruct(tuple(shape), y.dtype, weak_type=y.weak_type))
        return form.unflatten(outputs)

    def is_multiprocess(self) -> bool:
        """Returns whether the map's devices belong to several processes."""
        if not processes.current_group or current_frame() is not None:
            return False
        candidates = self.candidate_devices()
        return any([not is_local(d) for d in candidates])

    def candidate_devices(self) -> tuple[Device, ...]:
        """Returns the devices available to the map, ordered by process unless the user gave them."""
        platform_devices = devices_of(self.backend)
        if self.devices is None:
            return tuple(sorted(platform_devices, key=lambda d: d.process_index))
        by_id = {d.id: d for d in platform_devices}
        return tuple([by_id[i] for i in self.devices if i in by_id])

    def distribute_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], concrete: bool
    ) -> tuple[ProcessDevices, tuple[Any, ...], dict[str, Any]]:
        """Returns the devices of a call, and its arguments on them, or their shapes and dtypes.

        Raises:
            DeviceCountError: there are more rows than devices, or fewer than were given.
            ShapeError, TreeError, TransformError: as `MappedAxes.find_mapped_inputs`.
        """
        static = frozenset(self.options.static_argnums)
        dynamic = tuple([None if i in static else x for i, x in enumerate(args)])
        leaves, form = flatten((dynamic, kwargs))
        if not concrete:
            leaves = [HostArray(False, leaf_type("pmap", x)) for x in leaves]  # the values are not read
        devices, axes = self.assign_rows(leaves, dynamic, kwargs)
        global_leaves: list[Any] = []
        for x, axis in zip(leaves, axes, strict=True):
            if concrete:
                rows = moveaxis(as_operand(x), axis, 0) if axis else x
                global_leaves.append(devices.make_global(rows, axis is not None))
                continue
            shape = x.type.shape
            if axis is not None:
                shape = (len(devices.all_devices), *shape[:axis], *shape[axis + 1 :])
            global_leaves.append(shape_struct(x.type.with_shape(shape)))
        global_args, global_kwargs = form.unflatten(global_leaves)
        return (
            devices,
            tuple([args[i] if i in static else x for i, x in enumerate(global_args)]),
            global_kwargs,
        )

    def assign_rows(
        self, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ProcessDevices, list[int | None]]:
        """Returns the devices of a call, and the mapped axis of each argument."""
        name, candidates = self.mapping.name, self.candidate_devices()
        local = [d for d in candidates if is_local(d)]
        if not local:
            raise BackendError(
                f"pmap: none of the devices {', '.join(map(device_name, candidates))} of {name} belongs to this "
                "process, which "
                f"must not call it"
            )
        mapped = self.mapping.input_axes(args, kwargs)
        axis_size = self.mapping.axis_size
        count = len({d.process_index for d in candidates})
        row_mapping = self.mapping
        if any([w is not None for w in mapped]):
            row_mapping = attrs.evolve(row_mapping, axis_size=None)
        elif axis_size is not None and self.devices is None:
            row_mapping = attrs.evolve(row_mapping, axis_size=axis_size // count)
        elif axis_size is not None:
            row_mapping = attrs.evolve(row_mapping, axis_size=len(local))
        indices, _, axes, n = row_mapping.find_mapped_inputs(leaves, args, kwargs)
        if self.devices is None:
            by_process: dict[int, list[Device]] = {}
            for d in candidates:
                by_process.setdefault(d.process_index, []).append(d)
            for k, process_devices in by_process.items():
                if n > len(process_devices):
                    raise DeviceCountError(
                        f"pmap: {name} requires {n} replicas in each process, but process {k} has "
                        f"{len(process_devices)} XLA devices"
                    )
            candidates = tuple([d for process_devices in by_process.values() for d in process_devices[:n]])
            local = local[:n]
        elif n != len(local):
            raise DeviceCountError(
                f"pmap: {name} is mapped over {n} rows in this process, which has {len(local)} of the devices that "
                "were given"
            )
        if axis_size is not None and axis_size != len(candidates):
            raise ShapeError(
                f"pmap: axis_size of {name} is {axis_size}, but the processes together have {len(candidates)} rows"
            )
        return ProcessDevices(name, candidates, tuple(local)), place_at(indices, axes, len(leaves))

    def global_function(self, devices: ProcessDevices) -> Jitted[Any, Any]:
        """Returns the function of arrays on the devices of all processes."""
        ids = tuple([d.id for d in devices.all_devices])
        function = self.functions.get(ids)
        if function is None:
            mapping = attrs.evolve(
                self.mapping,
                in_axes=_move_axes_first(self.mapping.in_axes),
                out_axes=_move_axes_first(self.mapping.out_axes),
                axis_size=len(ids),
            )
            fun = self.make_widened(ids, devices.all_devices[0].platform, mapping)
            function = self.functions[ids] = Function(fun, self.options, "pmap").make_jitted()
        return function


def _move_axes_first(axes: PyTree) -> PyTree:
    """Returns axes with every mapped axis replaced by 0."""
    leaves, form = flatten(axes, lambda x: x is None)
    return form.unflatten([None if a is None else 0 for a in leaves])
