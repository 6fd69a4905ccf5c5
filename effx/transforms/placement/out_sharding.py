"""`out_sharding=`: the requested sharding of a function's result.

Half of effx imports this for its signatures, so the functions that shard arrays are imported on first use.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from effx.ir.meshes import PartitionSpec
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.lower.placement.shardings import NamedSharding

__all__ = ["OutSharding", "apply_with_sharding", "apply_with_sharding_as"]

R = TypeVar("R")

OutSharding: TypeAlias = NamedSharding | PartitionSpec | None
"""The requested sharding of a result: a PartitionSpec is on the mesh in force; `typeof(x).sharding` is that of x; None
leaves it to the operands.
"""


def apply_with_sharding(
    out_sharding: NamedSharding | PartitionSpec,
    function: Callable[..., R],
    /,
    *args: Any,
    **kwargs: Any,
) -> R:
    """Returns a function's result with the requested sharding; in between, results whose sharding is ambiguous are no error.

    Args:
        out_sharding: the sharding of the result. function: computes it. args, kwargs: its arguments.

    Raises:
        ShardingError: the result cannot be sharded so, or a PartitionSpec is given and no mesh is in force.
    """
    return apply_with_sharding_as(
        getattr(function, "__name__", "out_sharding"), out_sharding, function, *args, **kwargs
    )


def apply_with_sharding_as(
    function_name: str,
    out_sharding: NamedSharding | PartitionSpec,
    function: Callable[..., R],
    /,
    *args: Any,
    **kwargs: Any,
) -> R:
    """Does what `apply_with_sharding` does, with the function's name in errors given."""
    from effx.transforms.placement.meshes import reshard_as

    with allow_unresolved(True):
        result = function(*args, **kwargs)
    return reshard_as(function_name, result, out_sharding)
