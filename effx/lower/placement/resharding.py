"""Change the sharding or the layout of an array on the same devices, by a program that does nothing else."""

from functools import lru_cache
from typing import cast

from jaxlib import _jax
from jaxlib._jax import ArrayImpl, Device

from effx.errors import BackendError
from effx.ir.types import ArrayType
from effx.lower.compile_options import compile_options
from effx.lower.placement.layouts import layout_attribute
from effx.lower.placement.processes import current_group as group
from effx.lower.placement.results import make_result_handler
from effx.lower.placement.shardings import (
    BufferSharding,
    layout_of_buffer,
    make_buffer_sharding,
    type_with_sharding,
    user_sharding,
)
from effx.lower.placement.shardy import mesh_line, sharding_attribute, tiling_text
from effx.lower.process_exit import in_xla

__all__ = ["reshard_buffer", "restore_default_layout"]


def reshard_buffer(buffer: ArrayImpl, t: ArrayType, result_sharding: _jax.Sharding) -> ArrayImpl:
    """Returns the buffer with another sharding or layout over the same devices in the same order, committed.

    Args:
        buffer, t: the buffer, which is in the default memory, and its type.
        result_sharding: the sharding of the result's buffer, with its layout.

    Raises:
        BackendError: XLA has no such layout.
    """
    move, text, devices = _compile_resharding(t, buffer._sharding, result_sharding)
    if group:
        from effx.lower.placement.process_agreement import check_agreement  # most programs run in one process

        check_agreement("device_put", text, move, devices, (t,), (t,))
    results = move.execute_sharded([buffer])
    handler = make_result_handler(type_with_sharding(t, result_sharding), result_sharding, True)
    (resharded,) = results.consume_with_handlers([handler])
    return cast("ArrayImpl", resharded)


def restore_default_layout(buffer: ArrayImpl, t: ArrayType) -> ArrayImpl:
    """Returns a buffer as devices lay it out by default: itself, unless it has a layout of its own."""
    current = buffer._sharding
    if layout_of_buffer(current) is None:
        return buffer
    return reshard_buffer(buffer, t, make_buffer_sharding(user_sharding(current), t.ndim))


@lru_cache(maxsize=256)
def _compile_resharding(
    t: ArrayType, current: _jax.Sharding, result_sharding: _jax.Sharding
) -> tuple[_jax.LoadedExecutable, str, tuple[Device, ...]]:
    """Returns a program that changes the sharding or layout of one array, its text and its devices."""
    devices = user_sharding(current).ordered_devices
    attributes: dict[str, list[str]] = {"from": [], "to": []}
    mesh_lines: list[str] = []
    constraints: list[str] = []
    if len(devices) > 1:
        sides = {
            name: cast("BufferSharding", sharding).tiling
            for name, sharding in (("from", current), ("to", result_sharding))
        }
        for name, tiling in sides.items():
            mesh_lines.append(mesh_line(name, tiling.sizes))
            attributes[name].append(sharding_attribute(name, tiling))
        if any([tiling.unreduced for tiling in sides.values()]):
            # Sums are taken and left between constraints only.
            texts = [tiling_text(name, x.dims, unreduced=x.unreduced) for name, x in sides.items()]
            constraints = [
                f"    %{y} = sdy.sharding_constraint %{x} {text} : {t.mlir}"
                for y, x, text in (("s", "x", texts[0]), ("y", "s", texts[1]))
            ]
    for name, sharding in (("from", current), ("to", result_sharding)):
        layout = layout_of_buffer(sharding)
        if layout is not None:
            attributes[name].append(layout_attribute(layout))
    source, target = [f"{t.mlir} {{{', '.join(texts)}}}" for texts in attributes.values()]
    text = "\n".join(
        [
            f"module @rearrange attributes {{mhlo.num_partitions = {len(devices)} : i32, mhlo.num_replicas = 1 : i32}} {{",
            *mesh_lines,
            f"  func.func public @main(%x: {source}) -> ({target}) {{",
            *constraints,
            f"    return %{'y' if constraints else 'x'} : {t.mlir}",
            "  }",
            "}",
        ]
    )
    try:
        with in_xla:
            loaded = devices[0].client.compile_and_load(text, list(devices), compile_options(devices))
    except _jax.JaxRuntimeError as error:
        layout = layout_of_buffer(result_sharding)
        raise BackendError(f"device_put: XLA does not lay {t!r} out by {layout!r}: {error}") from error
    return loaded, text, devices
