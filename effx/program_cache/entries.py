"""Serialize a staged and compiled program to bytes, all but the executable, which has a disk entry of its own.

Loading such bytes runs code: anyone who can write them has the rights of the process.
"""

import hashlib
import json
import pickle
import re
from collections.abc import Sequence
from typing import Any, cast, final

import attrs
import numpy as np

from effx.array import Array
from effx.dtypes import from_short_name, short_name
from effx.errors import BackendError
from effx.ir.types import ArrayType, array_type
from effx.ir.values.array import HostData
from effx.lower.compile_options import CompilerOptions
from effx.lower.disk.compile_cache import load_compiled
from effx.lower.placement.concrete import ConcreteArray, buffer_for, place_on_device, to_concrete
from effx.lower.placement.results import make_result_handler
from effx.lower.placement.shardings import (
    Device,
    layout_of_buffer,
    single_device_buffer_sharding,
    user_sharding,
)
from effx.lower.runtime.executables import Executable
from effx.lower.runtime.memory_maps import free_memory_maps
from effx.lower.runtime.warm_up import warm_up
from effx.tree.registry import PyTreeDef, register_classes, users

__all__ = ["RestoredProgram", "deserialize_program", "serialize_program", "uncacheable_reason"]

_MAGIC = b"effx staged 2\n"
_MAX_COPIED_BYTES = 2**20  # bytes of captured arrays in an entry
_CUSTOM_CALL_TARGET = re.compile(r'custom_call @"?([\w.$-]+)')
_ALLOWED_TARGETS = re.compile(r"lapack_\w+_ffi|annotate_device_placement|LayoutConstraint")


@final
@attrs.frozen(eq=False)
class RestoredProgram:
    """A program from disk, ready to run.

    Attributes:
        executable: the compiled program.
        captured: the values that the function closes over.
        out_tree: the structure of the result.
    """

    executable: Executable
    captured: tuple[Array, ...]
    out_tree: PyTreeDef


def uncacheable_reason(executable: Executable, out_tree: PyTreeDef) -> str:
    """Returns why a program cannot be stored; "" if it can."""
    if executable.calls is not None:
        return "it calls Python when it runs"
    if len(executable.devices) != 1:
        return "it runs on several devices"
    if any(
        [
            user_sharding(s).nondefault_memory is not None
            for s in (*executable.in_shardings, *executable.out_shardings)
        ]
    ):
        return "it takes or leaves arrays in another memory than the default one"
    if any([layout_of_buffer(s) is not None for s in (*executable.in_shardings, *executable.out_shardings)]):
        return "it takes or leaves arrays in a layout of their own"
    for target in _CUSTOM_CALL_TARGET.findall(executable.text):
        if _ALLOWED_TARGETS.fullmatch(target) is None:
            return f"it calls the foreign function {target}"
    for _, _, data, cls, *_ in _tree_nodes(out_tree):
        if cls is not None and _import_by_name(cls) is not cls:
            return f"its result holds a {cls.__qualname__}, a class that cannot be imported"
        if not _is_plain(data):
            return f"its result's structure holds {data!r}"
    return ""


def _tree_nodes(tree: PyTreeDef) -> list[tuple[Any, ...]]:
    nodes: list[tuple[Any, ...]] = cast("Any", tree).__getstate__()[1]
    return nodes


def _import_by_name(cls: type) -> object:
    try:
        return pickle.loads(pickle.dumps(cls))
    except Exception:  # noqa: BLE001  local classes, and those of removed modules
        return None


def _is_plain(data: object) -> bool:
    if type(data) in (tuple, list):
        return all(map(_is_plain, cast("Sequence[object]", data)))
    if isinstance(data, type):
        return _import_by_name(data) is data
    return data is None or type(data) in (bool, int, float, complex, str, bytes)


def serialize_program(
    executable: Executable,
    key: str,
    captured: Sequence[Array],
    reachable: Sequence[Array | HostData],
    out_tree: PyTreeDef,
) -> bytes | None:
    """Returns a program as bytes; None if it closes over large arrays that are not reachable from the function.

    Args:
        executable: a cacheable executable. key: the key of its own entry.
        captured: the values that the function closes over. reachable: the arrays that the walk found, among which the
            next process looks for them.
        out_tree: the structure of the result.
    """
    reachable_indices = {id(x): i for i, x in enumerate(reachable)}
    sources: list[object] = []
    copies: list[bytes] = []
    # Captured arrays are stored by their number in the walk; only arrays made by staging are copied.
    for x in captured:
        if id(x) in reachable_indices:
            sources.append(reachable_indices[id(x)])
            continue
        if x.frame is not None or (isinstance(x, ConcreteArray) and x.committed):
            return None
        host = np.ascontiguousarray(to_concrete(x).host("jit"))
        equal_indices = [
            i for i, y in enumerate(reachable) if isinstance(y, np.ndarray) and _is_same_data(y, host)
        ]
        if equal_indices:  # the next process has it too: it is part of the key
            sources.append([_type_text(x.type), equal_indices[0], "met"])
            continue
        copies.append(host.tobytes())
        sources.append([_type_text(x.type), len(copies[-1])])
    if sum(map(len, copies)) > _MAX_COPIED_BYTES:
        return None
    header = {
        "executable": key,
        "name": executable.name,
        "in_types": list(map(_type_text, executable.in_types)),
        "out_types": list(map(_type_text, executable.out_types)),
        "kept": executable.kept_mask,
        "may_fail": executable.may_fail,
        "multiplies": "stablehlo.dot_general" in executable.text,
        "captured": sources,
    }
    header_bytes = json.dumps(header).encode()
    tree = pickle.dumps(_tree_nodes(out_tree))
    sizes = b"".join([len(part).to_bytes(8, "little") for part in (header_bytes, tree)])
    body = b"".join([sizes, header_bytes, tree, *copies])
    return _MAGIC + hashlib.sha256(body).digest() + body


def _is_same_data(x: HostData, y: HostData) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def deserialize_program(
    data: bytes,
    in_types: tuple[ArrayType, ...],
    reachable: Sequence[Array | HostData],
    device: Device,
    committed: bool,
    options: CompilerOptions,
) -> RestoredProgram | None:
    """Returns a program; None if its executable is no longer on disk.

    Args:
        data: the bytes from `serialize_program`. in_types: the types of the arguments.
        reachable: the arrays that this process's walk found.
        device, committed: the device to run on, and whether results are committed to it.
        options: XLA compiler options.

    Raises:
        BackendError: the bytes are damaged.
    """
    start = len(_MAGIC) + 32
    body = data[start:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        raise BackendError("jit: the program is damaged: its checksum is wrong")
    head, tree = [int.from_bytes(body[i : i + 8], "little") for i in (0, 8)]
    header: dict[str, Any] = json.loads(body[16 : 16 + head])
    if header["in_types"] != [json.loads(json.dumps(_type_text(t))) for t in in_types]:
        raise BackendError("jit: the program is one for other arguments")
    if header["multiplies"]:
        warm_up(device)
    free_memory_maps()
    loaded = load_compiled(header["executable"], (device,), options)
    if loaded is None:
        return None
    offset = 16 + head + tree
    captured: list[Array] = []
    for source in header["captured"]:
        if isinstance(source, int):
            captured.append(cast("Array", reachable[source]))
            continue
        t, size = _read_type(source[0]), source[1]
        if len(source) == 3:
            captured.append(
                place_on_device(
                    np.ascontiguousarray(cast("HostData", reachable[size])), t, device, function_name="jit"
                )
            )
            continue
        value = np.frombuffer(body, t.dtype, t.size, offset).reshape(t.shape)
        offset += size
        captured.append(place_on_device(value, t, device, function_name="jit"))
    out_types = tuple(map(_read_type, header["out_types"]))
    device_sharding = single_device_buffer_sharding(device)
    executable = Executable(
        loaded=loaded,
        devices=(device,),
        locations=(device,) * len(in_types),
        in_shardings=(device_sharding,) * (len(captured) + sum(header["kept"])),
        out_shardings=(device_sharding,) * len(out_types),
        in_types=in_types,
        out_types=out_types,
        constants=tuple([buffer_for(to_concrete(x), device) for x in captured]),
        kept_mask=tuple(header["kept"]),
        committed=committed,
        text="",
        options=(),
        name=header["name"],
        calls=None,
        may_fail=header["may_fail"],
        handlers=[make_result_handler(t, device_sharding, committed) for t in out_types],
    )
    return RestoredProgram(executable, tuple(captured), _read_tree(body[16 + head : 16 + head + tree]))


def _read_tree(data: bytes) -> PyTreeDef:
    nodes: list[tuple[Any, ...]] = pickle.loads(data)
    register_classes([node[3] for node in nodes if node[3] is not None])
    tree: PyTreeDef = PyTreeDef.__new__(PyTreeDef)
    cast("Any", tree).__setstate__((users, nodes))
    return tree


def _type_text(t: ArrayType) -> list[object]:
    return [short_name(t.dtype), list(t.shape), t.weak]


def _read_type(text: list[Any]) -> ArrayType:
    return array_type(from_short_name(text[0]), tuple(text[1]), text[2])
