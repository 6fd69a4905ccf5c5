"""Moving the parts of an array between the devices on which they lie, by a program that does nothing else."""

from functools import lru_cache
from typing import TYPE_CHECKING, cast

from jaxlib import _jax
from jaxlib._jax import ArrayImpl

from effx.ir.types import ArrayType
from effx.lower.compile_options import compile_options
from effx.lower.placement.processes import current as group
from effx.lower.placement.results import result_handler
from effx.lower.placement.shardy import mesh_line, tiling_text
from effx.lower.process_exit import in_xla

if TYPE_CHECKING:
    from effx.lower.placement.shardings import Placement
    from effx.lower.placement.tiling import Tiling

__all__ = ["rearranged"]


def rearranged(buffer: ArrayImpl, t: ArrayType, wanted: "Placement") -> ArrayImpl:
    """Returns an array that lies otherwise on the same devices in the same order.

    Args:
        buffer, t: with its type; it carries a `Placement`.
        wanted: how the result lies.
    """
    given: Placement = buffer._sharding  # type: ignore[assignment]  # see above
    move, text = _program(t, given, wanted)
    if group:
        from effx.lower.placement.process_agreement import check_agreement  # most processes are alone

        check_agreement("device_put", text, move, given.sharding.ordered_devices, (t,), (t,))
    results = move.execute_sharded([buffer])
    (found,) = results.consume_with_handlers([result_handler(t.lying(wanted.typed), wanted, True)])
    return cast("ArrayImpl", found)


@lru_cache(maxsize=256)
def _program(t: ArrayType, given: "Placement", wanted: "Placement") -> tuple[_jax.LoadedExecutable, str]:
    devices = given.sharding.ordered_devices
    sides = {"from": given.tiling, "to": wanted.tiling}
    lines = [mesh_line(name, tiling.sizes) for name, tiling in sides.items()]
    source, target = [f"{{{attribute(name, tiling)}}}" for name, tiling in sides.items()]
    text = "\n".join(
        [
            f"module @rearrange attributes {{mhlo.num_partitions = {len(devices)} : i32, mhlo.num_replicas = 1 : i32}} {{",
            *lines,
            f"  func.func public @main(%x: {t.mlir} {source}) -> ({t.mlir} {target}) {{",
            f"    return %x : {t.mlir}",
            "  }",
            "}",
        ]
    )
    with in_xla:
        return devices[0].client.compile_and_load(text, list(devices), compile_options(devices)), text


def attribute(mesh: str, tiling: "Tiling") -> str:
    """Returns the attribute of an argument or a result of `main` that says how it lies."""
    return f"sdy.sharding = #sdy.sharding{tiling_text(mesh, tiling.dims)}"
