"""`out_sharding=`: the requested sharding of a function's result.

Half of effx imports this for its signatures, so the functions that shard arrays are imported on first use.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeAlias, TypeVar

from effx.array import Array
from effx.effects import current_frame
from effx.ir.meshes import PartitionSpec
from effx.ir.ops.control import Call
from effx.ir.passes.partial_sums import left_sums
from effx.ir.passes.sharding_propagation import allow_unresolved
from effx.ir.types import INVARIANT, Vma
from effx.lower.placement.shardings import NamedSharding
from effx.tree.registry import PyTreeDef, flatten

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

    spec = out_sharding.spec if isinstance(out_sharding, NamedSharding) else out_sharding
    unreduced: Vma = getattr(spec, "unreduced", INVARIANT)

    def apply() -> R:
        with allow_unresolved(True), left_sums(unreduced) if unreduced else nullcontext():
            result = function(*args, **kwargs)
        return reshard_as(function_name, result, out_sharding)

    if unreduced and current_frame() is None:
        return _run_as_program(function_name, apply)
    return apply()


def _run_as_program(name: str, function: Callable[[], R]) -> R:
    """Runs a function of no arguments as one program, in which sums that a later operation leaves are not taken."""
    from effx.handlers.staging.stage import stage

    trees: list[PyTreeDef] = []

    def run(_: list[Array]) -> list[Array]:
        leaves, tree = flatten(function())
        trees.append(tree)
        return leaves

    staged = stage(run, [], name)
    result: R = trees[0].unflatten(Call(staged.program)(*staged.captured))
    return result
