"""Serialize and deserialize executables, with their constants and shardings."""

from collections.abc import Sequence
from typing import Any, cast

import attrs
import numpy as np
from jaxlib import _jax

from effx.dtypes import from_short_name, short_name
from effx.errors import BackendError
from effx.ir.meshes import PartitionSpec, spec_axis_numbers
from effx.ir.types import ArrayType, array_type
from effx.lower.compile_options import compile_options
from effx.lower.disk.executable_bytes import join_with_header, pack, split_header, unpack
from effx.lower.placement.backends import platform_of
from effx.lower.placement.concrete import ConcreteArray, buffer_for, place_on_device
from effx.lower.placement.layouts import Layout
from effx.lower.placement.meshes import Mesh
from effx.lower.placement.results import make_result_handler
from effx.lower.placement.shardings import (
    Device,
    Format,
    Location,
    NamedSharding,
    SingleDeviceSharding,
    layout_of_buffer,
    make_buffer_sharding,
    user_sharding,
)
from effx.lower.runtime.executables import Executable

__all__ = ["dump", "load", "required_devices"]

_MAGIC = b"effx program 3\n"
_NOUN = "compiled function"


def dump(executable: Executable) -> bytes:
    """Returns an executable as bytes.

    Raises:
        BackendError: it calls Python functions, or its platform's executables cannot be written.
    """
    if executable.calls is not None:
        raise BackendError(
            f"serialize: {executable.name} calls Python functions, which are not part of the executable"
        )
    constants = [ConcreteArray(c).host("serialize") for c in executable.constants]
    inputs = executable.in_shardings[: len(constants)]
    header = {
        "name": executable.name,
        "devices": len(executable.devices),
        "platform": platform_of(executable.devices[0]),
        "in_types": list(map(_type_text, executable.in_types)),
        "out_types": list(map(_type_text, executable.out_types)),
        "kept": executable.kept_mask,
        "committed": executable.committed,
        "locations": [_sharding_to_json(x, executable.devices) for x in executable.locations],
        "constants": [
            {
                "type": _type_text(ConcreteArray(c).type),
                "place": _sharding_to_json(_sharding_record(s), executable.devices),
                "size": value.nbytes,
            }
            for c, s, value in zip(executable.constants, inputs, constants, strict=True)
        ],
        "in_places": [
            _sharding_to_json(_sharding_record(s), executable.devices) for s in executable.in_shardings
        ],
        "out_places": [
            _sharding_to_json(_sharding_record(s), executable.devices) for s in executable.out_shardings
        ],
    }
    arrays = b"".join([value.tobytes() for value in constants])
    body = pack(executable.runnable(), executable.devices, executable.text)
    return join_with_header(_MAGIC, header, arrays + body)


def required_devices(data: bytes) -> tuple[str, int]:
    """Returns the platform of a serialized executable, and its number of devices.

    Raises:
        BackendError: the bytes are no executable.
    """
    header, _ = split_header(_MAGIC, _NOUN, data)
    return str(header["platform"]), int(str(header["devices"]))


def load(data: bytes, devices: Sequence[Device]) -> Executable:
    """Loads an executable.

    Args:
        data: from `dump`. devices: those to run on, as many as it was compiled for.

    Raises:
        BackendError: the bytes are damaged or no executable, or one for another environment.
    """
    header, rest = split_header(_MAGIC, _NOUN, data)
    listed = tuple(devices)
    if len(listed) != header["devices"]:
        raise BackendError(
            f"deserialize: the executable runs on {header['devices']} devices, got {len(listed)}"
        )
    constants: list[ConcreteArray] = []
    start = 0
    constant_locations = [_sharding_from_json(entry["place"], listed) for entry in header["constants"]]
    for entry in header["constants"]:
        t = _read_type(entry["type"])
        value = np.frombuffer(rest, t.dtype, t.size, start).reshape(t.shape)
        start += entry["size"]
        constants.append(place_on_device(value, t, listed[0], function_name="deserialize"))
    loaded = unpack(rest[start:], listed, compile_options(listed))
    in_types = tuple(map(_read_type, header["in_types"]))
    out_types = tuple(map(_read_type, header["out_types"]))
    kept_mask, committed = tuple(header["kept"]), bool(header["committed"])
    kept_types = [t for t, keep in zip(in_types, kept_mask, strict=True) if keep]
    ranks = [*[x.type.ndim for x in constants], *[t.ndim for t in kept_types]]
    in_places = [_sharding_from_json(x, listed) for x in header["in_places"]]
    out_places = [_sharding_from_json(x, listed) for x in header["out_places"]]
    in_shardings = [make_buffer_sharding(x, ndim) for x, ndim in zip(in_places, ranks, strict=True)]
    out_shardings = [make_buffer_sharding(x, t.ndim) for x, t in zip(out_places, out_types, strict=True)]
    return Executable(
        loaded=loaded,
        devices=listed,
        locations=tuple([_sharding_from_json(x, listed) for x in header["locations"]]),
        in_shardings=tuple(in_shardings),
        out_shardings=tuple(out_shardings),
        in_types=in_types,
        out_types=out_types,
        constants=tuple(
            [buffer_for(x, location) for x, location in zip(constants, constant_locations, strict=True)]
        ),
        kept_mask=kept_mask,
        committed=committed,
        text="",
        options=(),
        name=header["name"],
        calls=None,
        may_fail=True,  # the file does not record it, and it is called from Python anyway
        handlers=[
            make_result_handler(t, s, committed) for t, s in zip(out_types, out_shardings, strict=True)
        ],
    )


def _type_text(t: ArrayType) -> list[object]:
    return [short_name(t.dtype), t.shape, t.weak]


def _read_type(text: list[Any]) -> ArrayType:
    return array_type(from_short_name(text[0]), tuple(text[1]), text[2])


def _sharding_record(buffer_sharding: _jax.Sharding) -> Location:
    sharding = user_sharding(buffer_sharding)
    layout = layout_of_buffer(buffer_sharding)
    if layout is not None:
        return Format(layout, sharding)
    return (
        sharding.device
        if isinstance(sharding, SingleDeviceSharding) and sharding.nondefault_memory is None
        else sharding
    )


def _sharding_to_json(location: Location, devices: tuple[Device, ...]) -> object:
    """Returns a mesh's devices, sizes and names, the spec and the memory; only the memory for the first device.

    For a location with a layout a dict with both.
    """
    if isinstance(location, Format):
        sharding = cast("NamedSharding | SingleDeviceSharding", location.sharding)
        return {
            "layout": attrs.asdict(cast("Layout", location.layout)),
            "place": _sharding_to_json(sharding, devices),
        }
    if isinstance(location, Device):
        return None
    if isinstance(location, SingleDeviceSharding):
        return location.nondefault_memory
    mesh = location.device_mesh
    order = [devices.index(d) for d in mesh.ordered]
    return [
        order,
        mesh.axis_sizes,
        list(map(str, mesh.axis_names)),
        spec_axis_numbers(mesh, location.spec),
        location.nondefault_memory,
        *[sorted(map(str, names)) for names in (location.spec.unreduced, location.spec.reduced)],
    ]


def _sharding_from_json(text: object, devices: tuple[Device, ...]) -> Location:
    """Returns the location that `_sharding_to_json` wrote."""
    if isinstance(text, dict):
        place = _sharding_from_json(text["place"], devices)
        sharding = SingleDeviceSharding(place) if isinstance(place, Device) else place
        return Format(Layout(**text["layout"]), cast("NamedSharding | SingleDeviceSharding", sharding))
    if text is None:
        return devices[0]
    if isinstance(text, str):
        return SingleDeviceSharding(devices[0], memory_kind=text)
    order, sizes, names, cuts, memory, *sums = cast("list[Any]", text)
    unreduced, reduced = sums or ((), ())  # files of earlier versions have none
    mesh = Mesh(np.array([devices[i] for i in order], object).reshape(sizes), names)
    entries = [tuple([names[a] for a in axes]) for axes in cuts]
    spec = PartitionSpec(*entries, unreduced=set(unreduced), reduced=set(reduced))
    return NamedSharding(mesh, spec, memory_kind=memory)
