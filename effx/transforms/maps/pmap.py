"""`pmap`: runs a function on all replicas at once, each on its own device."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, cast, final

import attrs

from effx.array import Array
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.errors import DeviceCountError, ShapeError, TransformError, check_function
from effx.handlers.staging.parallel_maps import enclosing_replicas, stage_replica
from effx.ir.ops.collective import UNNAMED
from effx.ir.ops.parallel import parallel_map
from effx.ir.passes.varying_axes import find_varying_outputs, replace_shared_sums
from effx.ir.program import Program
from effx.lower.placement.backends import local_devices
from effx.lower.placement.parallel_maps import check_device_count
from effx.lower.placement.shardings import Device, device_name
from effx.tracing.arguments import (
    Arguments,
    FlatFunction,
    adapt_arguments,
    callable_name,
    finalize_results,
    function_origin,
    function_signature,
    normalize_parameter_numbers,
)
from effx.transforms.jit.function import Jitted
from effx.transforms.jit.options import Options, parse_argnums
from effx.transforms.maps.mapped_axes import InAxes, MappedAxes, OutAxes, make_mapped_axes
from effx.transforms.maps.pmap_processes import ParallelFunction
from effx.tree.registry import flatten

__all__ = ["pmap"]

P = ParamSpec("P")
R = TypeVar("R")


def pmap(
    fun: Callable[P, R],
    axis_name: Hashable = None,
    *,
    in_axes: InAxes = 0,
    out_axes: OutAxes = 0,
    static_broadcasted_argnums: "int | Iterable[int]" = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: "int | Iterable[int]" = (),
    global_arg_shapes: object = None,
) -> Jitted[P, R]:
    """Returns a function that runs `fun` on all replicas at once, each on its own device. It computes what
    `vmap` computes. The function is compiled once for all devices, which run it together and communicate in
    collectives such as `effx.lax.psum`. Results stay on the devices, one replica's slice on each, and enter
    the next parallel map without a copy; elsewhere they are gathered. Inside another parallel map, each
    replica of the outer one has as many devices as the inner one has replicas.

    Under `effx.distributed` the replicas are those of all processes, which call the function together: each process
    passes and receives the rows of its own devices, the mapped axis has the rows of all, process by process, and
    collectives run over all. `lower` and `trace` are for the whole, with the mapped axes first. Under a handler or in a
    function that is being staged, so under `jit` and `grad`, the replicas are on this process's devices: use
    `shard_map` on a mesh there.

    Args:
        fun: takes and returns pytrees of arrays.
        axis_name: the axis name, for collectives.
        in_axes: for each positional argument the mapped axis, None for a replicated argument; an int for all,
            or a pytree prefix of the arguments. Negative axes count from the end. Keyword arguments are
            mapped over axis 0.
        out_axes: the same for the results, the index of the replicas' axis. None requires a result that is the same on
            all replicas.
        static_broadcasted_argnums: static arguments, which are part of the program; hashable, and equal for all
            replicas.
        devices: the devices; the first of them, if there are more than replicas. Over several processes the same list
            in all, with one device for each replica.
        backend: the platform to run on, if no devices are given.
        axis_size: the number of replicas, over several processes of all; needed only if no argument is mapped.
        donate_argnums: arguments whose memory results may reuse; using them afterwards is an error.
        global_arg_shapes: not supported: it described arguments that several processes share.

    Returns:
        The parallel function, with `.trace`, `.lower`, `.eval_shape` and `.clear_cache`. Arguments have one
        axis more than `fun`'s where mapped, and so have the results.

    Raises:
        DeviceCountError: there are more replicas than devices; also a ValueError.
        BackendError: none of the devices belongs to this process.
        ProcessMismatchError: another process runs another program.
        TreeError: `in_axes` or `out_axes` is no prefix of the arguments or results.
        ShapeError: an axis is out of range, sizes differ, or a mapped result has out axis None.
        TransformError: nothing is mapped and no size is given, or an option is not supported.

    >>> import effx, effx.numpy as enp
    >>> normalize = effx.pmap(lambda x: x / effx.lax.psum(x, "i"), axis_name="i")
    >>> normalize(enp.array([4.]))
    Array([1.], dtype=float32)
    """
    check_function(fun)
    if global_arg_shapes is not None:
        raise TransformError(
            "pmap: global_arg_shapes is not supported: it described values that are partitioned over several "
            "processes; leave it out"
        )
    mapping = make_mapped_axes("pmap", callable_name(fun), in_axes, out_axes, axis_size)
    own_devices = None if devices is None else tuple(devices)
    if own_devices is not None:
        _check_devices(own_devices, backend)
    static = _parse_argnums("static_broadcasted_argnums", static_broadcasted_argnums, fun)
    donated = _parse_argnums("donate_argnums", donate_argnums, fun)
    if set(static) & set(donated):
        raise TransformError(
            f"pmap: arguments cannot be both static and donated: {sorted(set(static) & set(donated))}"
        )
    if static and isinstance(mapping.in_axes, tuple):
        # A static argument has no leaves, so no axes either.
        unmapped_static = tuple([None if i in static else a for i, a in enumerate(mapping.in_axes)])
        mapping = attrs.evolve(mapping, in_axes=unmapped_static)
    parallel = PmapParameters(
        fun,
        UNNAMED if axis_name is None else axis_name,
        mapping,
        frozenset(static),
        None if own_devices is None else tuple([d.id for d in own_devices]),
        backend if own_devices is None else own_devices[0].platform,
    )
    options = Options(static_argnums=static, donate_argnums=donated)
    function = ParallelFunction(
        parallel.make_function(), options, mapping, parallel.devices, parallel.backend, parallel.make_widened
    )
    return cast("Jitted[P, R]", function.make_jitted())


def _check_devices(devices: tuple[Device, ...], backend: str | None) -> None:
    if not devices:
        raise TransformError("pmap: devices must name at least one device, got none")
    for d in devices:
        if not isinstance(d, Device):
            raise TransformError(f"pmap: devices must hold devices, got {d!r} of type {type(d).__name__}")
    if len(set(devices)) != len(devices):
        raise TransformError(f"pmap: devices repeats a device: {', '.join(map(device_name, devices))}")
    if backend is not None:
        raise TransformError("pmap: give devices or backend, not both")


def _parse_argnums(
    parameter: str, argnums: "int | Iterable[int]", fun: Callable[..., object]
) -> tuple[int, ...]:
    numbers = parse_argnums(f"pmap: {parameter}", argnums)
    signature = function_signature(fun)
    if signature is None:
        return numbers
    kinds = [p.kind for p in signature.parameters.values()]
    if any([k is k.VAR_POSITIONAL for k in kinds]):
        return numbers
    count = len([k for k in kinds if k in (k.POSITIONAL_ONLY, k.POSITIONAL_OR_KEYWORD)])
    return tuple(sorted(set(normalize_parameter_numbers(f"pmap: {parameter}", fun, numbers, count))))


@final
@attrs.frozen(eq=False)
class PmapParameters:
    """The parameters of one parallel map.

    Attributes:
        fun: the function of a replica. axis_name: the name of the replicas' axis.
        mapping: the index of that axis in arguments and results, and its size if the user gave it.
        static: positions of the static arguments.
        devices: the devices' ids; None for the first devices.
        backend: the devices' platform.
    """

    fun: Callable[..., Any]
    axis_name: Hashable
    mapping: MappedAxes
    static: frozenset[int]
    devices: tuple[int, ...] | None
    backend: str | None

    def make_function(self) -> Callable[..., Any]:
        """Returns the function that `jit` stages: it performs the parallel map on whole arrays."""

        def call_mapped(*args: Any, **kwargs: Any) -> Any:
            return self.run(args, kwargs)

        call_mapped.__name__, call_mapped.__doc__ = self.mapping.name, getattr(self.fun, "__doc__", None)
        call_mapped.__wrapped__ = self.fun  # type: ignore[attr-defined]  # for signatures and origins
        return call_mapped

    def make_widened(self, devices: tuple[int, ...], backend: str, mapping: MappedAxes) -> Callable[..., Any]:
        """Returns the same function for all processes' devices, with other axes."""
        return attrs.evolve(self, devices=devices, backend=backend, mapping=mapping).make_function()

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Performs the parallel map."""
        static_args = {i: a for i, a in enumerate(args) if i in self.static}
        # None stands for a static argument, which has no leaves.
        dynamic = tuple([None if i in static_args else a for i, a in enumerate(args)])
        leaves, tree = flatten((dynamic, kwargs))
        indices, arrays, axes, size = self.mapping.find_mapped_inputs(leaves, dynamic, kwargs)
        self.check_devices(size)
        mapped = {i: moveaxis(x, a, 0) if a else x for i, x, a in zip(indices, arrays, axes, strict=True)}
        operands = [mapped[i] if i in mapped else as_operand(x) for i, x in enumerate(leaves)]
        types = [
            x.type.with_shape(x.type.shape[1:]) if i in mapped else x.type for i, x in enumerate(operands)
        ]

        def insert_static(arguments: Arguments) -> Arguments:
            return [static_args.get(i, a) for i, a in enumerate(arguments[0])], arguments[1]

        function = adapt_arguments(self.fun, insert_static) if static_args else self.fun
        replica = FlatFunction("pmap", function, tree, self.mapping.name)
        axes_env = ((self.axis_name, size),)
        staged = stage_replica(replica, types, axes_env, replica.name, function_origin(self.fun))
        mapped_in = (*[False] * len(staged.captured), *[i in mapped for i in range(len(operands))])
        program = replace_shared_sums(staged.program, mapped_in, self.axis_name)
        out_axes = self.mapping.output_axes(replica.out_tree.unflatten(program.out_types))
        self.check_unmapped_results(program, mapped_in, out_axes)
        op = parallel_map(
            program,
            size,
            mapped_in,
            tuple([w is not None for w in out_axes]),
            axis_name=self.axis_name,
            devices=self.devices,
            backend=self.backend,
        )
        results = op(*staged.captured, *operands)
        outputs = [
            x if w is None else self.move_replica_axis(x, w) for x, w in zip(results, out_axes, strict=True)
        ]
        return replica.out_tree.unflatten(finalize_results(outputs))

    def check_devices(self, size: int) -> None:
        """Checks that there is a replica, and a device for each."""
        name = self.mapping.name
        if size < 1:
            raise ShapeError(
                f"pmap: {name} is mapped over an axis of size {size}; it needs at least one replica"
            )
        outer_maps = enclosing_replicas()
        if "shard_map" in outer_maps:
            raise TransformError(
                f"pmap: {name} is inside shard_map, where each device is at work already; use vmap, or another axis of "
                f"the mesh"
            )
        outer_count = outer_maps.get("pmap", 1)
        if self.devices is not None and outer_count > 1:
            raise DeviceCountError(
                f"pmap: {name} has devices of its own inside another parallel map; give devices to the outermost"
            )
        device_count = len(local_devices(self.backend)) if self.devices is None else len(self.devices)
        check_device_count(name, size * outer_count, device_count)

    def check_unmapped_results(
        self, program: Program, mapped_in: tuple[bool, ...], out_axes: Sequence[int | None]
    ) -> None:
        """Raises a ShapeError if a result with `out_axes=None` differs between replicas."""
        if None not in out_axes:
            return
        differs = find_varying_outputs(program, mapped_in, self.axis_name)
        for t, out_axis, differs_here in zip(program.out_types, out_axes, differs, strict=True):
            if out_axis is None and differs_here:
                raise ShapeError(
                    f"pmap: out_axes is None for a result of {self.mapping.name} that differs between replicas: {t!r}"
                )

    def move_replica_axis(self, x: Array, out_axis: int) -> Array:
        """Returns a result with the replicas' axis at its index in `out_axes`."""
        axis = self.mapping.normalize_out_axis(out_axis, x.type.ndim)
        return moveaxis(x, 0, axis) if axis else x
