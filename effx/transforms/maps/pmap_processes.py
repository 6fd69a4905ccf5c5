"""`pmap` over the devices of several processes: each gives the rows of its own devices, and gets theirs back.

What each process has is made into arrays on the devices of all, of which nothing is copied that lies there already. The
parallel map of these is one program in all processes, as `jit` runs it on a mesh. Under handlers and in functions that are
being staged there are no rows of one process: a parallel map there is one over the devices of this process, or over those
that it names.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import attrs

from effx.array import Array, HostArray
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.effects import current_frame
from effx.errors import BackendError, DeviceCountError, ShapeError
from effx.lower.placement import processes
from effx.lower.placement.backends import devices as devices_of
from effx.lower.placement.backends import is_local
from effx.lower.placement.shardings import Device, NamedSharding, device_name, grid_sharding
from effx.tracing.arguments import abstract
from effx.transforms.jit.function import Function, Jitted
from effx.transforms.jit.options import Options
from effx.transforms.jit.stages import ShapeDtypeStruct, Traced, shape_of
from effx.transforms.maps.mapped_axes import MappedAxes
from effx.transforms.meshes.device_put import device_put
from effx.transforms.meshes.global_arrays import make_array_from_single_device_arrays
from effx.tree.registry import PyTree, flatten

__all__ = ["ParallelFunction"]

# From ids of devices and a number of replicas the function that maps over all of them along first axes.
Widened = Callable[[tuple[int, ...], str, MappedAxes], Callable[..., Any]]


@final
@attrs.frozen
class Across:
    """One parallel map over the devices of several processes.

    Attributes:
        what: the function's name, for errors. everyone: the devices of all. own: those of this process among them.
    """

    what: str
    everyone: tuple[Device, ...]
    own: tuple[Device, ...]

    def _lies(self, devices: tuple[Device, ...], is_cut: bool) -> NamedSharding:
        return grid_sharding(devices, (len(devices),), (0,) if is_cut else ())

    def together(self, x: PyTree, is_cut: bool) -> Array:
        """Makes of the rows that this process has, or of what all have, an array on the devices of all."""
        here: Array = device_put(x, self._lies(self.own, is_cut))
        shape = here.type.shape
        return make_array_from_single_device_arrays(
            (len(self.everyone), *shape[1:]) if is_cut else shape,
            self._lies(self.everyone, is_cut),
            [part.data for part in here.addressable_shards],
        )

    def here(self, x: Array, is_cut: bool) -> Array:
        """Returns the rows of a result that are this process's, or the whole of one that is the same everywhere."""
        placed: Array = device_put(x, self._lies(self.everyone, is_cut))
        shape = placed.type.shape
        return make_array_from_single_device_arrays(
            (len(self.own), *shape[1:]) if is_cut else shape,
            self._lies(self.own, is_cut),
            [part.data for part in placed.addressable_shards],
        )


@final
class ParallelFunction(Function[Any, Any]):
    """The function that `pmap` makes: that of one process, until its devices are those of several.

    Attributes:
        mapping: the mapped axes of arguments and results.
        devices: ids of the devices, None for all. backend: their platform.
        widened: makes the function over the devices of all.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        options: Options,
        mapping: MappedAxes,
        devices: tuple[int, ...] | None,
        backend: str | None,
        widened: Widened,
    ) -> None:
        super().__init__(fun, options, "pmap")
        self.mapping, self.devices, self.backend, self.widened = mapping, devices, backend, widened
        self.made: dict[Hashable, Jitted[Any, Any]] = {}

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """What has been staged is left out."""
        given = (self.fun, self.options, self.mapping, self.devices, self.backend, self.widened)
        return ParallelFunction, given

    def miss(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Runs over the devices of several processes, where the map has such; C++ keeps nothing of that."""
        if not self.is_across():
            return super().miss(*args, **kwargs)
        across, given, named = self.spread(args, kwargs, concrete=True)
        results, form = flatten(self.over_all(across)(*given, **named))
        wanted = self.mapping.outputs(form.unflatten(results))
        found = []
        for y, want in zip(results, wanted, strict=True):
            mine = across.here(y, want is not None)
            axis = 0 if want is None else self.mapping.out_axis(want, mine.type.ndim)
            found.append(moveaxis(mine, 0, axis) if axis else mine)
        return form.unflatten(found), None, False

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Stages the function; over several processes that of all rows, whose mapped axes are the first."""
        if not self.is_across():
            return super().trace(*args, **kwargs)
        across, given, named = self.spread(args, kwargs, concrete=False)
        return self.over_all(across).trace(*given, **named)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns shapes and dtypes of what this process gets."""
        if not self.is_across():
            return super().eval_shape(*args, **kwargs)
        across, given, named = self.spread(args, kwargs, concrete=False)
        results, form = flatten(self.over_all(across).trace(*given, **named).out_info)
        found = []
        for y, want in zip(results, self.mapping.outputs(form.unflatten(results)), strict=True):
            shape = list(y.shape)
            if want is not None:
                shape = shape[1:]
                shape.insert(self.mapping.out_axis(want, len(y.shape)), len(across.own))
            found.append(ShapeDtypeStruct(tuple(shape), y.dtype, weak_type=y.weak_type))
        return form.unflatten(found)

    def is_across(self) -> bool:
        """Says whether the map's devices are those of several processes."""
        if not processes.current or current_frame() is not None:
            return False
        there = self.there()
        return any([not is_local(d) for d in there])

    def there(self) -> tuple[Device, ...]:
        """Returns the devices that the map may have: those of each process stand together, unless they were given."""
        all_ = devices_of(self.backend)
        if self.devices is None:
            return tuple(sorted(all_, key=lambda d: d.process_index))
        by_id = {d.id: d for d in all_}
        return tuple([by_id[i] for i in self.devices if i in by_id])

    def spread(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], concrete: bool
    ) -> tuple[Across, tuple[Any, ...], dict[str, Any]]:
        """Returns the devices of a call, and its arguments on them, or what these look like.

        Raises:
            DeviceCountError: there are more rows than devices, or fewer than were given.
            ShapeError, TreeError, TransformError: as `MappedAxes.inputs`.
        """
        static = frozenset(self.options.static_argnums)
        dynamic = tuple([None if i in static else x for i, x in enumerate(args)])
        leaves, form = flatten((dynamic, kwargs))
        if not concrete:
            leaves = [HostArray(False, abstract("pmap", x)) for x in leaves]  # nobody looks at the values
        across, axes = self.lined_up(leaves, dynamic, kwargs)
        found: list[Any] = []
        for x, axis in zip(leaves, axes, strict=True):
            if concrete:
                rows = moveaxis(as_operand(x, "pmap"), axis, 0) if axis else x
                found.append(across.together(rows, axis is not None))
                continue
            shape = x.type.shape
            if axis is not None:
                shape = (len(across.everyone), *shape[:axis], *shape[axis + 1 :])
            found.append(shape_of(x.type.with_shape(shape)))
        given, named = form.unflatten(found)
        return across, tuple([args[i] if i in static else x for i, x in enumerate(given)]), named

    def lined_up(
        self, leaves: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Across, list[int | None]]:
        """Returns the devices of a call, and the mapped axis of each argument."""
        name, there = self.mapping.name, self.there()
        mine = [d for d in there if is_local(d)]
        if not mine:
            raise BackendError(
                f"pmap: none of the devices {', '.join(map(device_name, there))} of {name} belongs to this process, which "
                f"must not call it"
            )
        wanted = self.mapping.axes_of(args, kwargs)
        whole = self.mapping.axis_size
        count = len({d.process_index for d in there})
        rows = self.mapping
        if any([w is not None for w in wanted]):
            rows = attrs.evolve(rows, axis_size=None)
        elif whole is not None and self.devices is None:
            rows = attrs.evolve(rows, axis_size=whole // count)
        elif whole is not None:
            rows = attrs.evolve(rows, axis_size=len(mine))
        indices, _, axes, n = rows.inputs(leaves, args, kwargs)
        if self.devices is None:
            by_process: dict[int, list[Device]] = {}
            for d in there:
                by_process.setdefault(d.process_index, []).append(d)
            for k, theirs in by_process.items():
                if n > len(theirs):
                    raise DeviceCountError(
                        f"pmap: {name} requires {n} replicas in each process, but process {k} has {len(theirs)} XLA devices"
                    )
            there = tuple([d for theirs in by_process.values() for d in theirs[:n]])
            mine = mine[:n]
        elif n != len(mine):
            raise DeviceCountError(
                f"pmap: {name} is mapped over {n} rows in this process, which has {len(mine)} of the devices that were given"
            )
        if whole is not None and whole != len(there):
            raise ShapeError(
                f"pmap: axis_size of {name} is {whole}, but the processes together have {len(there)} rows"
            )
        found: list[int | None] = [None] * len(leaves)
        for i, axis in zip(indices, axes, strict=True):
            found[i] = axis
        return Across(name, there, tuple(mine)), found

    def over_all(self, across: Across) -> Jitted[Any, Any]:
        """Returns the function of arrays on the devices of all processes."""
        ids = tuple([d.id for d in across.everyone])
        found = self.made.get(ids)
        if found is None:
            mapping = attrs.evolve(
                self.mapping,
                in_axes=_first(self.mapping.in_axes),
                out_axes=_first(self.mapping.out_axes),
                axis_size=len(ids),
            )
            fun = self.widened(ids, across.everyone[0].platform, mapping)
            found = self.made[ids] = Function(fun, self.options, "pmap").public()
        return found


def _first(axes: PyTree) -> PyTree:
    """Returns axes of which all that are mapped are first."""
    found, form = flatten(axes, lambda x: x is None)
    return form.unflatten([None if a is None else 0 for a in found])
