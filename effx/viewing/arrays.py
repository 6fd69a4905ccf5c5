"""Arrays in notebooks: type, size, sharding, and elements as far as they are cheap to get.

Never: perform an operation; an array may be shown while a function is being traced.
"""

from html import escape

import numpy as np

from effx.array import Array
from effx.debug.shardings import draw_sharding
from effx.dtypes import is_key
from effx.errors import ShapeError
from effx.ir.values.boxes import Box
from effx.ir.values.printing import host_text
from effx.library.cost import format_number, size_of
from effx.lower.placement.concrete import ConcreteArray
from effx.lower.placement.shardings import SingleDeviceSharding, device_name

__all__ = ["html", "text"]

# Elements that are brought to the host, or put together from several devices, to show a few of them. On the CPU's own
# memory there is nothing to bring.
FETCHED = 1_000_000


def _unfetched_reason(x: Array) -> str | None:
    """Says why an array's elements are not shown; None if they are."""
    if isinstance(x, Box):
        return f"abstract, under {x.frame.handler.describe()}"
    if not isinstance(x, ConcreteArray):
        return None
    if x.buffer.is_deleted():
        return "gone: donated to a computation, or deleted"
    sharding = x.sharding
    here = isinstance(sharding, SingleDeviceSharding) and sharding.device.platform == "cpu"
    if here or x.type.size <= FETCHED:
        return None
    return "elements are not fetched to be shown; index the array to see some"


def _location_text(x: Array) -> str:
    """Returns the devices and the sharding of an array."""
    if isinstance(x, Box):
        return "no device"
    if not isinstance(x, ConcreteArray):
        return "host"
    sharding = x.sharding
    if isinstance(sharding, SingleDeviceSharding):
        return device_name(sharding.device)
    part = x.type.with_shape(sharding.shard_shape(x.type.shape))
    return f"{sharding.num_devices} devices, {part!r} on each"


def html(x: Array) -> str:
    """Returns an array for a notebook: a line on it, and its elements, of which a large array shows the outermost."""
    t = x.type
    facts = [
        t.dtype.name if not is_key(t.dtype) else "keys",
        f"{format_number(size_of(t))}B",
        _location_text(x),
    ]
    why = _unfetched_reason(x)
    if why is None:
        with np.printoptions(threshold=200, edgeitems=3):
            shown = f"<pre>{escape(host_text(x))}</pre>"
    else:
        shown = f"<p><i>{escape(why)}</i></p>"
    parts = ""
    if isinstance(x, ConcreteArray) and not isinstance(x.sharding, SingleDeviceSharding):
        try:
            sharding_drawing = draw_sharding(t.shape, x.sharding)
            parts = f"<details><summary>parts</summary><pre>{escape(sharding_drawing)}</pre></details>"
        except ShapeError:  # more than two axes are cut
            parts = ""
    return f"<div><b>{escape(repr(t))}</b> {escape(' · '.join(facts))}{parts}{shown}</div>"


def text(x: Array) -> str:
    """Returns an array for a console: as `repr` does, but without elements where these are not at hand."""
    why = None if isinstance(x, Box) else _unfetched_reason(x)
    return repr(x) if why is None else f"Array({x.type!r}, {_location_text(x)}: {why})"
