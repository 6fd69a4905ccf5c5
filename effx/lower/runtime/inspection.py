"""Callbacks of XLA's partitioner with the sharding that it has chosen for a value."""

from collections.abc import Callable, Sequence

from jaxlib import _jax
from jaxlib._hlo import HloSharding

from effx.ir.types import ArrayType
from effx.lower.placement.backends import default_device
from effx.lower.placement.backends import devices as all_devices
from effx.lower.placement.shardings import (
    Device,
    NamedSharding,
    SingleDeviceSharding,
    grid_sharding,
    sharding_from_hlo,
)
from effx.lower.text.emit import Body
from effx.lower.text.foreign_calls import bytes_text, custom_call_text

OPAQUE = 1  # the version of a custom call's interface that takes a string


def emit_sharding_report(
    body: Body, name: str, t: ArrayType, callback: Callable[[NamedSharding | SingleDeviceSharding], object]
) -> Callable[[HloSharding], None] | None:
    """Writes a call by which XLA's partitioner reports a value's sharding; on one device it is reported at once.

    Args:
        name, t: the value's name and type. callback: takes the sharding.

    Returns:
        What must be kept until the text has been compiled: C++ holds no reference to it.
    """
    module = body.module
    by_id = {d.id: d for d in all_devices()}
    devices: Sequence[Device] = [by_id[i] for i in module.ids] or [default_device()]
    if module.devices == 1:
        callback(SingleDeviceSharding(devices[0]))
        return None

    def report(hlo_sharding: HloSharding) -> None:
        is_cut = hlo_sharding.is_tiled()
        callback(
            sharding_from_hlo(hlo_sharding, devices, t.ndim)
            if is_cut
            else grid_sharding(devices, (len(devices),), ())  # whole on each device
        )

    config = bytes_text(_jax.encode_inspect_sharding_callback(report))
    text = custom_call_text(
        "InspectSharding",
        [name],
        [t],
        [t],
        has_side_effect=True,
        api_version=OPAQUE,
        config=config,
        laid_out=False,
    )
    body.line(text)
    return report
