"""`out_sharding=`: how the result of a function of arrays shall lie.

Half of effx imports this for its signatures: what lays arrays out is imported when it is first needed.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from effx.ir.meshes import PartitionSpec
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.ir.types import TypeSharding
from effx.lower.placement.shardings import NamedSharding

__all__ = ["OutSharding", "apply_with_sharding", "apply_with_sharding_as"]

R = TypeVar("R")

OutSharding: TypeAlias = NamedSharding | PartitionSpec | TypeSharding | None
"""How a result shall lie: a PartitionSpec is one of the mesh in force; `typeof(x).sharding` is as x lies; None where
operands say it.
"""


def apply_with_sharding(
    out_sharding: NamedSharding | PartitionSpec | TypeSharding,
    function: Callable[..., R],
    /,
    *args: Any,
    **kwargs: Any,
) -> R:
    """Returns a function's result, which then lies as the user says; what types cannot say in between is not asked.

    Args:
        out_sharding: how the result shall lie. function: what makes it. args, kwargs: its arguments.

    Raises:
        ShardingError: the result cannot be cut so, or a PartitionSpec is given and no mesh is in force.
    """
    return apply_with_sharding_as(
        getattr(function, "__name__", "out_sharding"), out_sharding, function, *args, **kwargs
    )


def apply_with_sharding_as(
    function_name: str,
    out_sharding: NamedSharding | PartitionSpec | TypeSharding,
    function: Callable[..., R],
    /,
    *args: Any,
    **kwargs: Any,
) -> R:
    """Does what `apply_with_sharding` does for a function that errors name otherwise."""
    from effx.transforms.meshes.meshes import reshard_as

    with allow_unresolved(True):
        result = function(*args, **kwargs)
    return reshard_as(function_name, result, out_sharding)
