"""Compiled functions as bytes, for another process on a machine of the same kind.

Loading such bytes runs code: load only what you trust as you trust the program itself.
"""

from collections.abc import Sequence

from effx.errors import BackendError
from effx.ir.refs import RETURN_ADVICE
from effx.lazy import list_names
from effx.lower.placement.backends import local_devices
from effx.lower.placement.shardings import Device
from effx.lower.runtime.executable_files import dump, load, required_devices
from effx.transforms.jit.stages import Compiled, Signature
from effx.tree.registry import PyTreeDef

__all__ = ["deserialize_and_load", "serialize"]
__dir__ = list_names(__all__)


def serialize(compiled: Compiled) -> tuple[bytes, PyTreeDef, PyTreeDef]:
    """Returns a compiled function as bytes, and the structures of its arguments and results.

    Args:
        compiled: as `jit(f).lower(x).compile()` gives it.

    Raises:
        BackendError: it calls Python functions, it has references, or its platform's executables cannot be written.

    >>> import effx, effx.numpy as enp
    >>> compiled = effx.jit(lambda x: enp.sin(x) * 2).lower(1.0).compile()
    >>> data, in_tree, out_tree = serialize(compiled)
    >>> deserialize_and_load(data, in_tree, out_tree)(1.0)
    Array(1.6829419, dtype=float32, weak_type=True)
    """
    if compiled.lent is not None or compiled.contents is not None:
        raise BackendError(
            f"serialize: {compiled.signature.name} takes or closes over a Ref; {RETURN_ADVICE}"
        )
    return dump(compiled.executable), compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    backend: str | None = None,
    execution_devices: Sequence[Device] | None = None,
) -> Compiled:
    """Loads what `serialize` gave.

    Args:
        serialized, in_tree, out_tree: the three of them.
        backend: the platform; None for that for which it was compiled.
        execution_devices: those to run on; None for the first ones of the platform.

    Raises:
        BackendError: the bytes are damaged, or were made for another version of jaxlib, another platform, another
            kind of device or processor, or another number of devices.

    >>> import effx
    >>> from effx.experimental.serialize_executable import deserialize_and_load, serialize
    >>> parts = serialize(effx.jit(lambda x: x * 2.0).lower(1.0).compile())
    >>> print(deserialize_and_load(*parts)(3.0))
    6.0
    """
    platform, count = required_devices(serialized)
    if execution_devices is None:
        there = local_devices(backend or platform)
        if len(there) < count:
            raise BackendError(
                f"deserialize: the executable runs on {count} devices, and {platform} has {len(there)}"
            )
        execution_devices = there[:count]
    executable = load(serialized, execution_devices)
    donated = (False,) * len(executable.in_types)
    types = executable.in_types, executable.out_types
    return Compiled(Signature(executable.name, in_tree, out_tree, *types, donated), executable)
