"""What `jit(in_shardings=, out_shardings=)` asks for: how arguments and results lie on several devices."""

from collections.abc import Sequence
from typing import Any, final

import attrs

from effx.array import Array, Box
from effx.errors import ShardingError, TransformError
from effx.ir.meshes import PartitionSpec
from effx.ir.types import ArrayType
from effx.lower.placement.assignment import Place, Wanted
from effx.lower.placement.meshes import ambient
from effx.lower.placement.shardings import Device, NamedSharding, SingleDeviceSharding, said_by_types
from effx.transforms.meshes.meshes import in_force, is_sharding, laid_out, shardings_for
from effx.tree.registry import PyTree, PyTreeDef, flatten

__all__ = ["JitShardings", "constrained", "jit_shardings", "lying", "one_device"]

Leaf = object


@final
@attrs.frozen
class JitShardings:
    """What a user gave to `jit`: the leaves and the structure of both trees, so that it can be part of a key.

    Attributes:
        inputs, in_tree: of `in_shardings`; a single None where nothing was said.
        outputs, out_tree: of `out_shardings`.
    """

    inputs: tuple[Leaf, ...]
    in_tree: PyTreeDef
    outputs: tuple[Leaf, ...]
    out_tree: PyTreeDef

    def said(
        self, args: tuple[object, ...], named: int, types: tuple[ArrayType, ...]
    ) -> tuple[ArrayType, ...]:
        """Returns the types of arguments where `in_shardings` say how Explicit axes cut them.

        Args:
            args: the positional arguments. named: the number of leaves in those by name, which come last. types: of all.
        """
        if not any([_is_explicit(x) for x in self.inputs]):
            return types
        given = self.in_tree.unflatten(self.inputs)
        asked = shardings_for("jit: in_shardings", tuple(given) if isinstance(given, list) else given, args)
        found: list[ArrayType] = []
        for s, t in zip([*asked, *[None] * named], types, strict=True):
            if isinstance(s, PartitionSpec):
                s = in_force("jit: in_shardings", s)
            if t.cut is None and _is_explicit(s):
                s.shard_shape(t.shape)  # refuses unequal parts
                t = t.lying(said_by_types(s))
            found.append(t)
        return tuple(found)

    def wanted(
        self,
        name: str,
        tree: PyTreeDef,
        in_types: Sequence[ArrayType],
        result: PyTreeDef,
        out_types: Sequence[ArrayType],
    ) -> Wanted:
        """Returns the shardings of all arrays in arguments `(args, kwargs)` and in a result.

        Raises:
            TreeError: they do not fit these.
            ShardingError: an array cannot be cut so.
            TransformError: there are arguments by name.
        """
        args, kwargs = tree.unflatten(in_types)
        given = self.in_tree.unflatten(self.inputs)
        if flatten(kwargs)[0] and self.inputs != (None,):
            raise TransformError(
                f"jit: {name} has in_shardings, which speak of positional arguments; call it without arguments by name, "
                f"got {', '.join(sorted(kwargs))}"
            )
        if isinstance(given, list):
            given = tuple(given)
        asked = [*shardings_for("jit: in_shardings", given, args), *[None] * len(flatten(kwargs)[0])]
        returned = shardings_for(
            "jit: out_shardings", self.out_tree.unflatten(self.outputs), result.unflatten(out_types)
        )
        alone = one_device(self) is not None
        return Wanted(
            _settled("in_shardings", asked, in_types, alone),
            _settled("out_shardings", returned, out_types, alone),
        )


def _is_explicit(x: Leaf) -> bool:
    """Says whether types speak of what lies so."""
    mesh = ambient.value if isinstance(x, PartitionSpec) else x.mesh if isinstance(x, NamedSharding) else None
    return mesh is not None and bool(mesh.explicit_axes)


def constrained(arrays: Sequence[Array], shardings: Sequence[Place | None]) -> list[Array]:
    """Says how arrays lie in a program that is being staged, or under another handler."""
    pairs = zip(arrays, shardings, strict=True)
    return [x if sharding is None else laid_out("jit", sharding, x) for x, sharding in pairs]


def _settled(
    what: str, shardings: Sequence[Any], types: Sequence[ArrayType], alone: bool
) -> tuple[Place | None, ...]:
    found: list[Place | None] = []
    for sharding, t in zip(shardings, types, strict=True):
        if isinstance(sharding, PartitionSpec):
            sharding = in_force(f"jit: {what}", sharding)
        if alone and isinstance(sharding, SingleDeviceSharding):
            found.append(sharding)
            continue
        if sharding is not None and not isinstance(sharding, NamedSharding):
            raise ShardingError(
                f"jit: {what} must hold NamedShardings, PartitionSpecs and None, got {sharding!r} of type "
                f"{type(sharding).__name__}; for one device use `device`"
            )
        if sharding is not None:
            sharding.shard_shape(t.shape)
        found.append(sharding)
    return tuple(found)


def jit_shardings(in_shardings: PyTree, out_shardings: PyTree) -> JitShardings | None:
    """Returns what a user gave; None where nothing was said.

    Raises:
        ShardingError: something in it is no sharding.
    """
    if in_shardings is None and out_shardings is None:
        return None
    (inputs, in_tree), (outputs, out_tree) = (
        flatten(in_shardings, is_sharding),
        flatten(out_shardings, is_sharding),
    )
    for what, leaves in (("in_shardings", inputs), ("out_shardings", outputs)):
        for x in leaves:
            if not is_sharding(x):
                raise ShardingError(
                    f"jit: {what} must hold NamedShardings, PartitionSpecs and None, got {x!r} of type {type(x).__name__}"
                )
    return JitShardings(tuple(inputs), in_tree, tuple(outputs), out_tree)


def one_device(given: JitShardings | None) -> Device | None:
    """Returns the device where everything that was said names one and the same."""
    said = () if given is None else [x for x in (*given.inputs, *given.outputs) if x is not None]
    found = {x.device if isinstance(x, SingleDeviceSharding) else None for x in said}
    return found.pop() if len(found) == 1 else None


def lying(leaves: Sequence[PyTree], wanted: Wanted | None) -> Wanted | None:
    """Returns how arguments lie that are arrays, or descriptions with a sharding, where nothing else was asked for."""
    found = [getattr(x, "sharding", None) if not isinstance(x, Box) else None for x in leaves]
    own: list[Place | None] = [s if _says_more(s) else None for s in found]
    if wanted is not None:
        return attrs.evolve(wanted, inputs=tuple([w or s for w, s in zip(wanted.inputs, own, strict=True)]))
    return Wanted(tuple(own)) if any([s is not None for s in own]) else None


def _says_more(s: object) -> bool:
    """Says whether a sharding is more than a device."""
    return isinstance(s, NamedSharding) or (
        isinstance(s, SingleDeviceSharding) and s.other_memory is not None
    )
