"""`jit(in_shardings=, out_shardings=)`: the requested shardings of arguments and results."""

from collections.abc import Sequence
from typing import Any, final

import attrs

from effx.array import Array, Box
from effx.errors import ShardingError, TransformError
from effx.ir.meshes import PartitionSpec
from effx.ir.types import ArrayType
from effx.lower.placement.assignment import ArraySharding, RequestedShardings
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.placement.layouts import NO_LAYOUTS, AutoLayout, Layout, Layouts, RequestedLayout
from effx.lower.placement.meshes import Mesh, ambient
from effx.lower.placement.shardings import (
    Device,
    Format,
    NamedSharding,
    SingleDeviceSharding,
    layout_of_buffer,
    type_sharding_of,
)
from effx.transforms.placement.meshes import (
    broadcast_shardings,
    is_sharding,
    needs_current_mesh,
    sharding_on_current_mesh,
    with_layout,
    with_sharding,
)
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["JitShardings", "argument_shardings", "jit_shardings", "shared_device", "with_shardings"]

Leaf = object


@final
@attrs.frozen
class JitShardings:
    """The `in_shardings` and `out_shardings` of a `jit`, as leaves and structure: hashable, as part of a cache key.

    Attributes:
        inputs, in_tree: the leaves and structure of `in_shardings`; a single None if it was not passed.
        outputs, out_tree: those of `out_shardings`.
        has_contents: whether the function returns `(result, contents of references)`; the shardings are the result's.
    """

    inputs: tuple[Leaf, ...]
    in_tree: PyTreeDef
    outputs: tuple[Leaf, ...]
    out_tree: PyTreeDef
    has_contents: bool = False

    def apply_to_types(
        self, args: tuple[object, ...], named: int, types: tuple[ArrayType, ...]
    ) -> tuple[ArrayType, ...]:
        """Returns the arguments' types, with their shardings over Explicit axes from `in_shardings`.

        Args:
            args: the positional arguments. named: the number of leaves in keyword arguments, which come last.
            types: the types of all leaves.
        """
        if not any([_is_explicit(x) for x in self.inputs]):
            return types
        in_shardings = self.in_tree.unflatten(list(map(_sharding_of, self.inputs)))
        leaf_shardings = broadcast_shardings(
            "jit: in_shardings", tuple(in_shardings) if isinstance(in_shardings, list) else in_shardings, args
        )
        sharded_types: list[ArrayType] = []
        for sharding, t in zip([*leaf_shardings, *[None] * named], types, strict=True):
            if needs_current_mesh(sharding):
                sharding = sharding_on_current_mesh("jit: in_shardings", sharding)
            if t.explicit_sharding is None and _is_explicit(sharding):
                sharding.shard_shape(t.shape)  # refuses unequal parts
                t = t.with_sharding(type_sharding_of(sharding))
            sharded_types.append(t)
        return tuple(sharded_types)

    def resolve_shardings(
        self,
        name: str,
        tree: PyTreeDef,
        in_types: Sequence[ArrayType],
        result: PyTreeDef,
        out_types: Sequence[ArrayType],
    ) -> RequestedShardings:
        """Returns the shardings of all arrays in arguments `(args, kwargs)` and in a result.

        Raises:
            TreeError: the shardings' structure does not match.
            ShardingError: an array cannot be sharded so.
            TransformError: there are keyword arguments.
        """
        args, kwargs = tree.unflatten(in_types)
        in_shardings = self.in_tree.unflatten(self.inputs)
        if flatten(kwargs)[0] and self.inputs != (None,):
            raise TransformError(
                f"jit: {name} has in_shardings, which speak of positional arguments; call it without arguments by name, "
                f"got {', '.join(sorted(kwargs))}"
            )
        if isinstance(in_shardings, list):
            in_shardings = tuple(in_shardings)
        input_shardings = [
            *broadcast_shardings("jit: in_shardings", in_shardings, args),
            *[None] * len(flatten(kwargs)[0]),
        ]
        results = result.unflatten(out_types)
        contents: list[ArrayType] = []
        if self.has_contents:
            results, contents = results[0], flatten(results[1])[0]
        output_shardings = [
            *broadcast_shardings("jit: out_shardings", self.out_tree.unflatten(self.outputs), results),
            *[None] * len(contents),
        ]
        is_single_device = shared_device(self) is not None
        layouts = Layouts(tuple(map(_layout_of, input_shardings)), tuple(map(_layout_of, output_shardings)))
        return RequestedShardings(
            _check_leaf_shardings("in_shardings", input_shardings, in_types, is_single_device),
            _check_leaf_shardings("out_shardings", output_shardings, out_types, is_single_device),
            layouts or NO_LAYOUTS,
        )


def _is_explicit(x: Leaf) -> bool:
    """Returns whether a sharding uses Explicit axes, so that it shows in types."""
    mesh = ambient.value if isinstance(x, PartitionSpec) else x.mesh if isinstance(x, NamedSharding) else None
    return mesh is not None and bool(mesh.explicit_axes)


def _sharding_of(x: Leaf) -> Leaf:
    return x.sharding if isinstance(x, Format) else x


def _layout_of(x: Leaf) -> RequestedLayout:
    return x.layout if isinstance(x, Format) else None


def with_shardings(
    arrays: Sequence[Array],
    shardings: Sequence[ArraySharding | None],
    layouts: Sequence[RequestedLayout] = (),
) -> list[Array]:
    """Constrains the shardings and layouts of arrays in a program that is being staged, or under another handler."""
    pairs = zip(arrays, shardings, strict=True)
    results = [x if sharding is None else with_sharding("jit", sharding, x) for x, sharding in pairs]
    for i, layout in enumerate(layouts):
        if isinstance(layout, Layout):
            results[i] = with_layout("jit", layout, results[i])
    return results


def _check_leaf_shardings(
    parameter: str, shardings: Sequence[Any], types: Sequence[ArrayType], is_single_device: bool
) -> tuple[ArraySharding | None, ...]:
    checked: list[ArraySharding | None] = []
    for sharding, t in zip(map(_sharding_of, shardings), types, strict=True):
        if needs_current_mesh(sharding):
            sharding = sharding_on_current_mesh(f"jit: {parameter}", sharding)
        if is_single_device and isinstance(sharding, SingleDeviceSharding):
            checked.append(sharding)
            continue
        if sharding is not None and not isinstance(sharding, NamedSharding):
            raise ShardingError(
                f"jit: {parameter} must hold NamedShardings, PartitionSpecs and None, got {sharding!r} of type "
                f"{type(sharding).__name__}; for one device use `device`"
            )
        if sharding is not None:
            sharding.shard_shape(t.shape)
        checked.append(sharding)
    return tuple(checked)


def jit_shardings(in_shardings: PyTree, out_shardings: PyTree) -> JitShardings | None:
    """Returns the flattened `in_shardings` and `out_shardings`; None if both are None.

    Raises:
        ShardingError: a leaf is no sharding.
    """
    if in_shardings is None and out_shardings is None:
        return None
    (inputs, in_tree), (outputs, out_tree) = (
        flatten(in_shardings, is_sharding),
        flatten(out_shardings, is_sharding),
    )
    for parameter, leaves in (("in_shardings", inputs), ("out_shardings", outputs)):
        for x in leaves:
            if not is_sharding(x):
                raise ShardingError(
                    f"jit: {parameter} must hold NamedShardings, PartitionSpecs and None, got {x!r} of type "
                    f"{type(x).__name__}"
                )
    return JitShardings(tuple(inputs), in_tree, tuple(outputs), out_tree)


def shared_device(shardings: JitShardings | None) -> Device | None:
    """Returns the device, if all shardings are of one and the same single device; otherwise None."""
    given = () if shardings is None else map(_sharding_of, (*shardings.inputs, *shardings.outputs))
    leaves = [x for x in given if x is not None]
    devices = {x.device if isinstance(x, SingleDeviceSharding) else None for x in leaves}
    return devices.pop() if len(devices) == 1 else None


def argument_shardings(
    leaves: Sequence[PyTree], shardings: RequestedShardings | None
) -> RequestedShardings | None:
    """Returns the requested shardings, completed by the shardings of the arguments themselves."""
    leaf_shardings = [
        None if isinstance(x, Box) else _placed_sharding(getattr(x, "sharding", None)) for x in leaves
    ]
    # An array that nobody put on its device goes wherever the others are. The sharding of a struct was asked for.
    significant: list[ArraySharding | None] = [
        s if isinstance(s, NamedSharding | SingleDeviceSharding) and getattr(x, "committed", True) else None
        for x, s in zip(leaves, leaf_shardings, strict=True)
    ]
    layouts: list[RequestedLayout] = [None if isinstance(x, Box) else _own_layout(x) for x in leaves]
    if shardings is not None:
        requested = shardings.layouts
        asked_layouts = requested.inputs or (None,) * len(layouts)
        layouts = [asked or own for asked, own in zip(asked_layouts, layouts, strict=True)]
        return attrs.evolve(
            shardings,
            inputs=tuple([asked or s for asked, s in zip(shardings.inputs, significant, strict=True)]),
            layouts=Layouts(tuple(layouts), requested.outputs) or NO_LAYOUTS,
        )
    own_layouts = Layouts(tuple(layouts)) or NO_LAYOUTS
    if not own_layouts and not any([s is not None for s in significant]):
        return None
    return RequestedShardings(tuple(significant), layouts=own_layouts)


def _own_layout(x: PyTree) -> RequestedLayout:
    """Returns the layout that an array has, if it is not the default one, or that a struct asks for."""
    if type(x) is ConcreteArray:
        return layout_of_buffer(x.buffer._sharding)
    layout: object = getattr(x, "layout", None)
    return layout if isinstance(layout, Layout | AutoLayout) else None


def _placed_sharding(sharding: ArraySharding | None) -> ArraySharding | None:
    """Returns the sharding of an array or a struct over devices; None if no mesh with its axes is in force."""
    if not isinstance(sharding, NamedSharding) or isinstance(sharding.mesh, Mesh):
        return sharding
    mesh = ambient.value
    if not isinstance(mesh, Mesh) or sharding.mesh.empty or mesh.shape_tuple != sharding.mesh.shape_tuple:
        return None
    return sharding_on_current_mesh("jit", sharding)
