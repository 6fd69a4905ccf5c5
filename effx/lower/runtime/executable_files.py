"""Whole executables, with the arrays that they hold and where all lies, as bytes and back."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib import _jax

from effx.dtypes import from_short_name, short_name
from effx.errors import BackendError
from effx.ir.meshes import PartitionSpec, cuts_of
from effx.ir.types import ArrayType, array_type
from effx.lower.compile_options import compile_options
from effx.lower.disk.executable_bytes import pack, unpack
from effx.lower.placement.backends import platform_of
from effx.lower.placement.concrete import ConcreteArray, buffer_for, put
from effx.lower.placement.meshes import Mesh
from effx.lower.placement.results import result_handler
from effx.lower.placement.shardings import Device, NamedSharding, SingleDeviceSharding, held_at, sharding_of
from effx.lower.runtime.executables import Executable, Location

__all__ = ["devices_needed", "dump", "load"]

_MAGIC = b"effx program 3\n"


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
        "kept": executable.kept,
        "committed": executable.committed,
        "locations": [_place_text(x, executable.devices) for x in executable.locations],
        "constants": [
            {
                "type": _type_text(ConcreteArray(c).type),
                "place": _place_text(_place(s), executable.devices),
                "size": value.nbytes,
            }
            for c, s, value in zip(executable.constants, inputs, constants, strict=True)
        ],
        "in_places": [_place_text(_place(s), executable.devices) for s in executable.in_shardings],
        "out_places": [_place_text(_place(s), executable.devices) for s in executable.out_shardings],
    }
    head = json.dumps(header).encode()
    arrays = b"".join([value.tobytes() for value in constants])
    body = pack(executable.runnable(), executable.devices, executable.text)
    rest = len(head).to_bytes(8, "little") + head + arrays + body
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def devices_needed(data: bytes) -> tuple[str, int]:
    """Returns for which platform an executable is, and for how many devices.

    Raises:
        BackendError: these bytes are none.
    """
    header, _ = _split(data)
    return str(header["platform"]), int(str(header["devices"]))


def load(data: bytes, devices: Sequence[Device]) -> Executable:
    """Loads an executable.

    Args:
        data: as `dump` gave it. devices: where it shall run, as many as it was compiled for.

    Raises:
        BackendError: the bytes are damaged or no executable, or one for other surroundings.
    """
    header, rest = _split(data)
    listed = tuple(devices)
    if len(listed) != header["devices"]:
        raise BackendError(
            f"deserialize: the executable runs on {header['devices']} devices, got {len(listed)}"
        )
    constants: list[ConcreteArray] = []
    start = 0
    places = [_read_place(entry["place"], listed) for entry in header["constants"]]
    for entry in header["constants"]:
        t = _read_type(entry["type"])
        value = np.frombuffer(rest, t.dtype, t.size, start).reshape(t.shape)
        start += entry["size"]
        constants.append(put(value, t, listed[0], asked="deserialize"))
    loaded = unpack(rest[start:], listed, compile_options(listed))
    in_types = tuple(map(_read_type, header["in_types"]))
    out_types = tuple(map(_read_type, header["out_types"]))
    kept, committed = tuple(header["kept"]), bool(header["committed"])
    taken = [t for t, keep in zip(in_types, kept, strict=True) if keep]
    ranks = [*[x.type.ndim for x in constants], *[t.ndim for t in taken]]
    in_places = [_read_place(x, listed) for x in header["in_places"]]
    out_places = [_read_place(x, listed) for x in header["out_places"]]
    in_shardings = [held_at(x, ndim) for x, ndim in zip(in_places, ranks, strict=True)]
    out_shardings = [held_at(x, t.ndim) for x, t in zip(out_places, out_types, strict=True)]
    return Executable(
        loaded=loaded,
        devices=listed,
        locations=tuple([_read_place(x, listed) for x in header["locations"]]),
        in_shardings=tuple(in_shardings),
        out_shardings=tuple(out_shardings),
        in_types=in_types,
        out_types=out_types,
        constants=tuple([buffer_for(x, place) for x, place in zip(constants, places, strict=True)]),
        kept=kept,
        committed=committed,
        text="",
        options=(),
        name=header["name"],
        calls=None,
        may_fail=True,  # nothing says so, and it is called from Python anyway
        handlers=[result_handler(t, s, committed) for t, s in zip(out_types, out_shardings, strict=True)],
    )


def _split(data: bytes) -> tuple[dict[str, Any], bytes]:
    if not data.startswith(_MAGIC):
        raise BackendError("deserialize: these bytes are no compiled function of this version of effx")
    start = len(_MAGIC) + 32
    rest = data[start:]
    if hashlib.sha256(rest).digest() != data[len(_MAGIC) : start]:
        raise BackendError("deserialize: the compiled function is damaged: its checksum is wrong")
    size = int.from_bytes(rest[:8], "little")
    header: dict[str, Any] = json.loads(rest[8 : 8 + size])
    return header, rest[8 + size :]


def _type_text(t: ArrayType) -> list[object]:
    return [short_name(t.dtype), t.shape, t.weak]


def _read_type(text: list[Any]) -> ArrayType:
    return array_type(from_short_name(text[0]), tuple(text[1]), text[2])


def _place(held: _jax.Sharding) -> Location:
    found = sharding_of(held)
    return found.device if isinstance(found, SingleDeviceSharding) and found.other_memory is None else found


def _place_text(place: Location, devices: tuple[Device, ...]) -> object:
    """Returns a mesh's devices, sizes and names, which axes cut, and the memory; its kind alone for the first device."""
    if isinstance(place, Device):
        return None
    if isinstance(place, SingleDeviceSharding):
        return place.other_memory
    mesh = place.mesh
    order = [devices.index(d) for d in mesh.ordered]
    return [
        order,
        mesh.axis_sizes,
        list(map(str, mesh.axis_names)),
        cuts_of(mesh, place.spec),
        place.other_memory,
    ]


def _read_place(text: list[Any] | str | None, devices: tuple[Device, ...]) -> Location:
    if text is None:
        return devices[0]
    if isinstance(text, str):
        return SingleDeviceSharding(devices[0], memory_kind=text)
    order, sizes, names, cuts, memory = text
    mesh = Mesh(np.array([devices[i] for i in order], object).reshape(sizes), names)
    spec = PartitionSpec(*[tuple([names[a] for a in axes]) for axes in cuts])
    return NamedSharding(mesh, spec, memory_kind=memory)
