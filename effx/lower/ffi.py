"""Register foreign functions: C and C++ code that XLA calls by name."""

import ctypes
import os
from _ctypes import CFuncPtr
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict, cast

import jaxlib
from jaxlib import _jax

from effx.dtypes import DType, short_name
from effx.errors import BackendError

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

__all__ = [
    "TypeRegistration",
    "include_dir",
    "lapack_target",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
]

# XLA's names for platforms.
_PLATFORMS: Final = {"cpu": "Host", "gpu": "CUDA", "cuda": "CUDA", "rocm": "ROCM", "tpu": "tpu"}
STAGES: Final = ("instantiate", "prepare", "initialize", "execute")
# XLA holds addresses only: what they point to must stay loaded.
_kept_alive: dict[tuple[str, str], object] = {}
_types: dict[tuple[str, str], object] = {}
_functions: dict[int, object] = {}


class TypeRegistration(TypedDict):
    """The description of a type of a foreign function's state for XLA.

    Attributes:
        type_id: a PyCapsule with the address of an `XLA_FFI_TypeId`, into which XLA writes.
        type_info: a PyCapsule with the address of an `XLA_FFI_TypeInfo`, which has the state's deleter.
    """

    type_id: object
    type_info: NotRequired[object]


def pycapsule(funcptr: object) -> object:
    """Returns a function of a `ctypes` library as XLA takes it.

    Args:
        funcptr: the function, or an address as an int.

    Raises:
        BackendError: it is neither, or null.

    >>> import ctypes
    >>> type(pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
    'PyCapsule'
    """
    address = funcptr if type(funcptr) is int else None
    if isinstance(funcptr, CFuncPtr | ctypes.c_void_p):
        address = ctypes.cast(funcptr, ctypes.c_void_p).value
    if not address:
        raise BackendError(f"pycapsule: needs a function of a ctypes library, got {funcptr!r}")
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    _functions[address] = funcptr
    capsule: object = make(address, None, None)
    return capsule


def register_ffi_target(
    name: str, fn: object, platform: str = "cpu", api_version: int = 1, traits: int = 0
) -> None:
    """Registers a foreign function with XLA under a name, for `effx.ffi.ffi_call` and `Body.custom_call`.

    A function for another platform than CPUs is registered with the platform's plugin, by `jaxlib.xla_client`.

    Args:
        name: its name in StableHLO.
        fn: the function, as a PyCapsule or a function of a `ctypes` library; or a dict of such, from the stages
            "instantiate", "prepare", "initialize" and "execute", of which a function of XLA's typed FFI may have
            several.
        platform: "cpu", "gpu", "cuda", "rocm" or "tpu".
        api_version: 1 for XLA's typed FFI, 0 for functions of memory and a string (`custom_call_api_version` below 4).
        traits: flags of XLA's; 1 for functions that may be a part of a CUDA graph.

    Raises:
        BackendError: the target is no function, or the name is taken by another one; the platform or version is
            unknown.

    >>> register_ffi_target("no_such_thing", 3)
    Traceback (most recent call last):
    ...
    effx.errors.BackendError: register_ffi_target: the target must be a PyCapsule or a function of a ctypes library, got 3
    ...
    """
    function_name = "register_ffi_target"
    where = _xla_platform(function_name, platform)
    if api_version not in (0, 1):
        raise BackendError(f"{function_name}: api_version must be 0 or 1, got {api_version!r}")
    target: object
    if isinstance(fn, Mapping):
        unknown = [stage for stage in fn if stage not in STAGES]
        if unknown or "execute" not in fn or not api_version:
            raise BackendError(
                f"{function_name}: stages are those of XLA's typed FFI: execute, and before it {', '.join(STAGES[:-1])}; "
                f"got {', '.join(map(str, fn))} with api_version={api_version}"
            )
        target = {str(stage): _check_capsule(function_name, f) for stage, f in fn.items()}
    else:
        target = _check_capsule(function_name, fn)
    known = _kept_alive.get((where, name))
    if known is not None and _addresses(known) == _addresses(target):
        return
    if known is not None:
        raise BackendError(f"{function_name}: {name!r} is the name of another function already")
    capsule = cast("CapsuleType", target)
    try:
        if where == "Host":
            _jax.register_custom_call_target(name, capsule, where, api_version, traits)
        else:
            from jaxlib import xla_client

            flags = xla_client.CustomCallTargetTraits(traits)
            xla_client.register_custom_call_target(name, capsule, where, api_version, flags)
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"{function_name}: XLA refused {name!r}: {error}") from error
    _kept_alive[where, name] = target


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Declares to XLA that a foreign function of a batch is the function of each part of the batch.

    XLA's partitioner then calls it on each device for that device's part of the leading axes, whose number the call has
    (`mhlo.frontend_attributes = {num_batch_dims = "1"}`); else it gathers all of the operands on each
    device. Inside `pmap` and `shard_map` each device calls the function for its own part in any case.

    Args:
        name: of the target.

    >>> from effx.ffi import register_ffi_target_as_batch_partitionable
    >>> register_ffi_target_as_batch_partitionable("example_of_a_function_of_batches")
    """
    _jax.register_custom_call_as_batch_partitionable(name)


def register_ffi_type(name: str, type_registration: TypeRegistration, platform: str = "cpu") -> None:
    """Registers a C++ type with XLA, for foreign functions that pass a state from one stage to the next.

    Args:
        name: of the type, the only one of the name in the process.
        type_registration: `{"type_id": ..., "type_info": ...}`, PyCapsules with the addresses.
        platform: "cpu", "gpu", "cuda", "rocm" or "tpu".

    Raises:
        BackendError: an entry is no PyCapsule; XLA has another type of that name, or has none of this platform.

    >>> register_ffi_type("state", {"type_id": 3})
    Traceback (most recent call last):
    ...
    effx.errors.BackendError: register_ffi_type: type_id must be a PyCapsule, got 3
    ...
    """
    _register_type("register_ffi_type", name, type_registration, platform)


def register_ffi_type_id(name: str, obj: object, platform: str = "cpu") -> None:
    """Registers a C++ type with XLA by its id alone: one whose states need no deletion.

    Args:
        name: of the type, the only one of the name in the process.
        obj: a PyCapsule with the address of an `XLA_FFI_TypeId`.
        platform: "cpu", "gpu", "cuda", "rocm" or "tpu".

    Raises:
        BackendError: it is no PyCapsule; XLA has another type of that name, or has none of this platform.

    >>> from effx.ffi import register_ffi_type_id
    >>> register_ffi_type_id("state", 3)
    Traceback (most recent call last):
    ...
    effx.errors.BackendError: register_ffi_type_id: type_id must be a PyCapsule, got 3
    ...
    """
    _register_type("register_ffi_type_id", name, {"type_id": obj}, platform)


def include_dir() -> str:
    """Returns the directory of XLA's C++ headers for foreign functions, which come with jaxlib.

    >>> import os
    >>> os.path.exists(os.path.join(include_dir(), "xla", "ffi", "api", "ffi.h"))
    True
    """
    return os.path.join(os.path.abspath(next(iter(jaxlib.__path__))), "include")


def lapack_target(function: str, dtype: DType) -> str:
    """Registers one of the LAPACK functions that come with jaxlib with XLA on CPUs.

    Args:
        function: its name without the letter of the dtype, as "potrf".
        dtype: f32, f64, c64 or c128.

    Returns:
        The name for `Body.custom_call`.

    Raises:
        BackendError: jaxlib has no such function.

    >>> import effx
    >>> lapack_target("potrf", effx.dtypes.float64)
    'lapack_dpotrf_ffi'
    """
    from jaxlib import lapack  # it loads SciPy's

    letters = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
    name = f"lapack_{letters.get(dtype.name, '?')}{function}_ffi"
    if ("Host", name) not in _kept_alive:
        registrations = {known: capsule for known, capsule, _ in lapack.registrations()["cpu"]}
        if name not in registrations:
            raise BackendError(f"lapack_target: jaxlib has no {function} of {short_name(dtype)}")
        lapack.prepare_lapack_call(f"{function}_ffi", dtype)
        register_ffi_target(name, registrations[name])
    return name


def _xla_platform(function_name: str, platform: str) -> str:
    xla_platform = _PLATFORMS.get(str(platform).lower())
    if xla_platform is None:
        raise BackendError(
            f"{function_name}: platform must be one of {', '.join(_PLATFORMS)}, got {platform!r}"
        )
    return xla_platform


def _register_type(function_name: str, name: str, registration: TypeRegistration, platform: str) -> None:
    where = _xla_platform(function_name, platform)
    for entry, capsule in registration.items():
        if type(capsule).__name__ != "PyCapsule":
            raise BackendError(f"{function_name}: {entry} must be a PyCapsule, got {capsule!r}")
    if set(registration) - {"type_id", "type_info"} or "type_id" not in registration:
        raise BackendError(
            f"{function_name}: a type has a type_id and a type_info, got {', '.join(map(repr, registration)) or 'nothing'}"
        )
    fields = dict(registration)
    known = _types.get((where, name))
    if known is not None and _addresses(known) == _addresses(fields):
        return
    capsules = cast("dict[str, CapsuleType]", fields)
    try:
        if where == "Host":
            _jax.register_custom_type(name, capsules)
        else:
            from jaxlib import xla_client

            xla_client.register_custom_type(name, capsules, where)
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"{function_name}: XLA refused the type {name!r}: {error}") from error
    _types[where, name] = fields


def _check_capsule(function_name: str, fn: object) -> object:
    if isinstance(fn, CFuncPtr):
        return pycapsule(fn)
    if type(fn).__name__ == "PyCapsule":
        return fn
    raise BackendError(
        f"{function_name}: the target must be a PyCapsule or a function of a ctypes library, got {fn!r}"
    )


def _addresses(target: object) -> dict[str, int | None]:
    """Returns the addresses in capsules."""
    if isinstance(target, dict):
        return {stage: _address(capsule) for stage, capsule in target.items()}
    return {"execute": _address(target)}


def _address(capsule: object) -> int | None:
    # A capsule is read by the name that it has, which is none at times.
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyCapsule_GetName", api))(capsule)
    read = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCapsule_GetPointer", api)
    )
    address: int | None = read(capsule, name)
    return address
