"""`pmap`: runs a function on all replicas at once, each on its own device."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import index
from typing import Any, ParamSpec, TypeVar, cast, final

import attrs

from effx.array import Array
from effx.array.promotion import as_operand
from effx.array.shaping import moveaxis
from effx.errors import DeviceCountError, ShapeError, TransformError, TreeError, check_function
from effx.handlers.parallel import replicas_around, stage_replica
from effx.ir.ops.collective import UNNAMED
from effx.ir.ops.parallel import ParallelMap
from effx.ir.passes.varying import varying, with_plain_sums
from effx.ir.program import Program
from effx.ir.types import ArrayType
from effx.lower.backends import local_devices
from effx.lower.parallel import check_count
from effx.lower.sharding import Device, device_name
from effx.transforms.arguments import argument_place, as_results, name_of, origin_of, signature_of
from effx.transforms.jit import Function, Jitted
from effx.transforms.options import Options, numbers_of
from effx.transforms.vmap import AxisTree
from effx.tree import unflatten
from effx.tree.prefixes import broadcast_prefix
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["pmap"]

P = ParamSpec("P")
R = TypeVar("R")


def pmap(
    fun: Callable[P, R],
    axis_name: Hashable = None,
    *,
    in_axes: AxisTree = 0,
    out_axes: AxisTree = 0,
    static_broadcasted_argnums: "int | Iterable[int]" = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: "int | Iterable[int]" = (),
    global_arg_shapes: object = None,
) -> Jitted[P, R]:
    """Returns a function that runs `fun` on all replicas at once, each on its own device. It computes what
    `vmap` computes. The function is compiled once for all devices, which run it together and communicate in
    collectives such as `effx.lax.psum`. Results stay on the devices, one replica's slice on each, and go into
    the next parallel map without a copy; elsewhere they are gathered. Inside another parallel map, each
    replica of the outer one has as many devices as the inner one has replicas.

    Args:
        fun: takes and returns pytrees of arrays.
        axis_name: the axis name, for collectives.
        in_axes: for each positional argument the mapped axis, None for a replicated argument; an int for all,
            or a pytree prefix of the arguments. Negative axes count from the end. Keyword arguments are
            mapped over axis 0.
        out_axes: likewise for the results, where the members' axis shall stand. None asks for a result that
            does not depend on the member.
        static_broadcasted_argnums: arguments that are part of the program; hashable, and the same for all.
        devices: where to run; the first of them, if there are more than members.
        backend: the platform to run on, if no devices are given.
        axis_size: the number of members; needed only if no argument is mapped.
        donate_argnums: arguments whose memory results may reuse; using them afterwards is an error.
        global_arg_shapes: not supported: it described arguments that several processes share.

    Returns:
        The parallel function, with `.trace`, `.lower`, `.eval_shape` and `.clear_cache`. Arguments have one
        axis more than `fun`'s where mapped, and so have the results.

    Raises:
        DeviceCountError: there are more members than devices; also a ValueError.
        TreeError: `in_axes` or `out_axes` is no prefix of the arguments or results.
        ShapeError: an axis is out of range, sizes differ, or a mapped result has out axis None.
        TransformError: nothing is mapped and no size is given, or an option that is not supported.

    >>> import effx, effx.numpy as enp
    >>> normalize = effx.pmap(lambda x: x / effx.lax.psum(x, "i"), axis_name="i")
    >>> normalize(enp.array([4.]))
    Array([1.], dtype=float32)
    """
    check_function("pmap", fun)
    if global_arg_shapes is not None:
        raise TransformError(
            "pmap: global_arg_shapes is not supported: it described values that are partitioned over several "
            "processes; leave it out"
        )
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not (in_axes is None or isinstance(in_axes, int | tuple)):
        raise TransformError(
            f"pmap: in_axes must be an int, None, or a tuple with an entry for each argument, got {in_axes!r}"
        )
    chosen = None if devices is None else tuple(devices)
    if chosen is not None:
        _check_devices(chosen, backend)
    static = _numbers("static_broadcasted_argnums", static_broadcasted_argnums, fun)
    donated = _numbers("donate_argnums", donate_argnums, fun)
    if set(static) & set(donated):
        raise TransformError(
            f"pmap: arguments cannot be both static and donated: {sorted(set(static) & set(donated))}"
        )
    mapping = Mapping(
        fun,
        UNNAMED if axis_name is None else axis_name,
        in_axes,
        out_axes,
        frozenset(static),
        None if chosen is None else tuple([d.id for d in chosen]),
        backend if chosen is None else chosen[0].platform,
        axis_size,
        name_of(fun),
        origin_of(fun),
    )
    options = Options(static, (), donated, (), False, False, None)
    return Function(cast("Callable[P, R]", mapping.function()), options, "pmap").public()


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


def _numbers(what: str, given: "int | Iterable[int]", fun: Callable[..., object]) -> tuple[int, ...]:
    numbers = numbers_of(f"pmap: {what}", given)
    signature = signature_of(fun)
    if signature is None:
        return numbers
    kinds = [p.kind for p in signature.parameters.values()]
    if any([k is k.VAR_POSITIONAL for k in kinds]):
        return numbers
    count = len([k for k in kinds if k in (k.POSITIONAL_ONLY, k.POSITIONAL_OR_KEYWORD)])
    for n in numbers:
        if not -count <= n < count:
            raise TransformError(
                f"pmap: {what} names argument {n}, but {name_of(fun)} takes {count} positional arguments"
            )
    return tuple(sorted({n % count for n in numbers}))


def _is_axis(x: object) -> bool:
    return x is None


@final
@attrs.frozen(eq=False)
class Mapping:
    """The parameters of one parallel map.

    Attributes:
        fun: the function of a replica. axis_name: the name of the replicas' axis. in_axes, out_axes: the
            index of that axis.
        static: numbers of the arguments that are no arrays.
        devices: ids of the devices, None for the first ones.
        backend: their platform.
        axis_size: the number of replicas, if the user gave it.
        name, origin: of the function, for errors.
    """

    fun: Callable[..., Any]
    axis_name: Hashable
    in_axes: AxisTree
    out_axes: AxisTree
    static: frozenset[int]
    devices: tuple[int, ...] | None
    backend: str | None
    axis_size: int | None
    name: str
    origin: str

    def function(self) -> Callable[..., Any]:
        """Returns the function that `jit` stages: it performs the parallel map on whole arrays."""

        def mapped(*args: Any, **kwargs: Any) -> Any:
            return self.run(args, kwargs)

        mapped.__name__ = self.name
        mapped.__wrapped__ = self.fun  # type: ignore[attr-defined]  # for signatures and origins
        return mapped

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Performs the parallel map."""
        if isinstance(self.in_axes, tuple) and len(self.in_axes) != len(args):
            raise TransformError(
                f"pmap: in_axes has {len(self.in_axes)} entries, but {self.name} got {len(args)} positional arguments"
            )
        held = {i: a for i, a in enumerate(args) if i in self.static}
        # A static argument has no leaves, so no axes either.
        dynamic = tuple([None if i in held else a for i, a in enumerate(args)])
        leaves, tree = flatten((dynamic, kwargs))
        axes = [*self.axes("in_axes", self._dynamic_axes(), dynamic), *[0] * len(flatten(kwargs)[0])]
        arrays = [as_operand(x, "pmap") for x in leaves]
        places = self.places(arrays, axes, (dynamic, kwargs))
        size = self.size(arrays, places, (dynamic, kwargs))
        operands = [
            x if p is None else moveaxis(x, p, 0) if p else x for x, p in zip(arrays, places, strict=True)
        ]
        mapped_in = tuple([p is not None for p in places])
        types = [
            x.type.with_shape(x.type.shape[1:]) if m else x.type
            for x, m in zip(operands, mapped_in, strict=True)
        ]
        program, captured, out_tree = self.member(types, tree, held, size)
        mapped_in = (*[False] * len(captured), *mapped_in)
        program = with_plain_sums(program, mapped_in, self.axis_name)
        wanted = self.axes("out_axes", self.out_axes, unflatten(out_tree, list(program.out_types)))
        self.check_shared(program, mapped_in, wanted)
        op = ParallelMap(
            program,
            size,
            mapped_in,
            tuple([w is not None for w in wanted]),
            self.axis_name,
            self.devices,
            self.backend,
        )
        results = op(*captured, *operands)
        return out_tree.unflatten([self.placed(x, w) for x, w in zip(results, wanted, strict=True)])

    def _dynamic_axes(self) -> AxisTree:
        if not isinstance(self.in_axes, tuple):
            return self.in_axes
        return tuple([None if i in self.static else a for i, a in enumerate(self.in_axes)])

    def axes(self, what: str, prefix: AxisTree, full: PyTree) -> list[int | None]:
        """Returns the axis of each leaf."""
        try:
            found = broadcast_prefix(prefix, full, is_leaf=_is_axis)
        except TreeError as error:
            raise TreeError(
                f"pmap: {what} must be an int, None, or a pytree prefix of the "
                f"{'arguments' if what == 'in_axes' else 'results'}: {error.message}"
            ) from None
        axes: list[int | None] = []
        for axis in found:
            try:
                axes.append(None if axis is None else index(axis))
            except TypeError:
                raise TransformError(f"pmap: {what} must hold ints and None, got {axis!r}") from None
        return axes

    def places(self, arrays: Sequence[Array], axes: Sequence[int | None], tree: PyTree) -> list[int | None]:
        """Returns the mapped axes counted from 0."""
        places: list[int | None] = []
        for i, (x, axis) in enumerate(zip(arrays, axes, strict=True)):
            ndim = x.type.ndim
            if axis is not None and not -ndim <= axis < ndim:
                why = (
                    f"{x.type!r} with {ndim} axes"
                    if ndim
                    else f"a scalar {x.type!r}; use in_axes=None for it"
                )
                raise ShapeError(
                    f"pmap: in_axes asks for axis {axis} of {argument_place(tree, i)} of {self.name}, which is {why}"
                )
            places.append(None if axis is None else axis % ndim)
        return places

    def size(self, arrays: Sequence[Array], places: Sequence[int | None], tree: PyTree) -> int:
        """Returns the number of replicas, for which there must be devices."""
        mapped = [(i, x, p) for i, (x, p) in enumerate(zip(arrays, places, strict=True)) if p is not None]
        if not mapped and self.axis_size is None:
            raise TransformError(
                f"pmap: no argument of {self.name} is mapped; give axis_size, or an axis in in_axes for at least one"
            )
        sizes = [x.type.shape[p] for _, x, p in mapped]
        size = sizes[0] if self.axis_size is None else index(self.axis_size)
        if any([n != size for n in sizes]):
            parts = [
                f"{argument_place(tree, i)} {x.type!r} axis {p} is {n}"
                for (i, x, p), n in zip(mapped, sizes, strict=True)
            ]
            given = "" if self.axis_size is None else f", axis_size is {self.axis_size}"
            raise ShapeError(
                f"pmap: sizes of the mapped axes of {self.name} differ: {', '.join(parts)}{given}"
            )
        if size < 1:
            raise ShapeError(
                f"pmap: {self.name} is mapped over an axis of size {size}; it needs at least one replica"
            )
        around = replicas_around()
        if self.devices is not None and around > 1:
            raise DeviceCountError(
                f"pmap: {self.name} has devices of its own inside another parallel map; give devices to the outermost"
            )
        there = len(local_devices(self.backend)) if self.devices is None else len(self.devices)
        check_count(self.name, size * around, there)
        return size

    def member(
        self, types: Sequence[ArrayType], tree: PyTreeDef, held: dict[int, Any], size: int
    ) -> tuple[Program, tuple[Array, ...], PyTreeDef]:
        """Stages the program of a replica."""
        out_tree: PyTreeDef | None = None

        def flat(arrays: list[Array]) -> Sequence[Array]:
            nonlocal out_tree
            args, kwargs = tree.unflatten(arrays)
            full = [held.get(i, a) for i, a in enumerate(args)]
            leaves, out_tree = flatten(self.fun(*full, **kwargs))
            return as_results("pmap", self.name, leaves)

        staged = stage_replica(flat, types, size, self.axis_name, self.name, self.origin)
        assert out_tree is not None
        return staged.program, staged.captured, out_tree

    def check_shared(
        self, program: Program, mapped_in: tuple[bool, ...], wanted: Sequence[int | None]
    ) -> None:
        """Raises a ShapeError if a result with `out_axes=None` differs between replicas."""
        if None not in wanted:
            return
        differs = varying(program, mapped_in, self.axis_name)
        for t, want, d in zip(program.out_types, wanted, differs, strict=True):
            if want is None and d:
                raise ShapeError(
                    f"pmap: out_axes is None for a result of {self.name} that differs between replicas: {t!r}"
                )

    def placed(self, x: Array, want: int | None) -> Array:
        """Returns a result with the replicas' axis at its index in `out_axes`."""
        if want is None:
            return x
        ndim = x.type.ndim
        if not -ndim <= want < ndim:
            raise ShapeError(
                f"pmap: out_axes asks for axis {want} of a result of {self.name} with {ndim} axes"
            )
        return moveaxis(x, 0, want % ndim) if want % ndim else x
