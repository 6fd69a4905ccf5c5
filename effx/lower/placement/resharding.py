"""Reshard an array over the same devices, by a program that does nothing else."""

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from jaxlib import _jax
from jaxlib._jax import ArrayImpl

from effx.ir.types import ArrayType
from effx.lower.compile_options import compile_options
from effx.lower.placement.processes import current_group as group
from effx.lower.placement.results import make_result_handler
from effx.lower.placement.shardy import mesh_line, sharding_attribute, tiling_text
from effx.lower.process_exit import in_xla

if TYPE_CHECKING:
    from effx.lower.placement.shardings import BufferSharding

__all__ = ["reshard_buffer"]


def reshard_buffer(buffer: ArrayImpl, t: ArrayType, result_sharding: "BufferSharding") -> ArrayImpl:
    """Returns the buffer with another sharding over the same devices in the same order.

    Args:
        buffer, t: the buffer, which has a `BufferSharding`, and its type.
        result_sharding: the sharding of the result.
    """
    current: BufferSharding = buffer._sharding  # type: ignore[assignment]  # see above
    move, text = _compile_resharding(t, current, result_sharding)
    if group:
        from effx.lower.placement.process_agreement import check_agreement  # most programs run in one process

        check_agreement("device_put", text, move, current.sharding.ordered_devices, (t,), (t,))
    results = move.execute_sharded([buffer])
    (resharded,) = results.consume_with_handlers(
        [make_result_handler(t.with_sharding(result_sharding.type_sharding), result_sharding, True)]
    )
    return cast("ArrayImpl", resharded)


@lru_cache(maxsize=256)
def _compile_resharding(
    t: ArrayType, current: "BufferSharding", result_sharding: "BufferSharding"
) -> tuple[_jax.LoadedExecutable, str]:
    devices = current.sharding.ordered_devices
    sides = {"from": current.tiling, "to": result_sharding.tiling}
    mesh_lines = [mesh_line(name, tiling.sizes) for name, tiling in sides.items()]
    source, target = [f"{{{sharding_attribute(name, tiling)}}}" for name, tiling in sides.items()]
    constraints: list[str] = []
    if current.tiling.unreduced or result_sharding.tiling.unreduced:
        # Sums are taken and left between constraints only.
        texts = [tiling_text(name, x.dims, unreduced=x.unreduced) for name, x in sides.items()]
        constraints = [
            f"    %{y} = sdy.sharding_constraint %{x} {text} : {t.mlir}"
            for y, x, text in (("s", "x", texts[0]), ("y", "s", texts[1]))
        ]
    text = "\n".join(
        [
            f"module @rearrange attributes {{mhlo.num_partitions = {len(devices)} : i32, mhlo.num_replicas = 1 : i32}} {{",
            *mesh_lines,
            f"  func.func public @main(%x: {t.mlir} {source}) -> ({t.mlir} {target}) {{",
            *constraints,
            f"    return %{'y' if constraints else 'x'} : {t.mlir}",
            "  }",
            "}",
        ]
    )
    with in_xla:
        return devices[0].client.compile_and_load(text, list(devices), compile_options(devices)), text
