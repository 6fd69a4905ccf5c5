"""Foreign functions: C and C++ code that XLA calls, and how a call of one looks in StableHLO."""

import ctypes
import json
from _ctypes import CFuncPtr
from collections.abc import Mapping, Sequence

import numpy as np
from jaxlib import _jax

from effx.dtypes import DType, short_name
from effx.errors import BackendError
from effx.ir.types import ArrayType

Attribute = bool | int | float | str | np.generic | Sequence[int]
"""What a foreign function is given besides arrays. A NumPy scalar has its own width; an int has 64 bits."""

_CAPSULE = b"xla._CUSTOM_CALL_TARGET"
_kept: dict[str, object] = {}
_libraries: list[object] = []


def register_ffi_target(name: str, target: object) -> None:
    """Makes a foreign function known to XLA on CPUs under a name, for `Body.custom_call` in a StableHLO rule.

    Plugins for other platforms bring their own functions; `custom_call` names those as well.

    Args:
        name: by which StableHLO calls it.
        target: a function of XLA's typed FFI, as a PyCapsule or as a function of a `ctypes` library.

    Raises:
        BackendError: the target is no function, or the name is taken by another one.

    >>> import ctypes
    >>> register_ffi_target("no_such_thing", 3)
    Traceback (most recent call last):
    ...
    effx.errors.BackendError: register_ffi_target: the target must be a PyCapsule or a function of a ctypes library, got 3
    ...
    """
    if isinstance(target, CFuncPtr):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        capsule = make(ctypes.cast(target, ctypes.c_void_p), _CAPSULE, None)
    elif type(target).__name__ == "PyCapsule":
        capsule = target
    else:
        raise BackendError(
            f"register_ffi_target: the target must be a PyCapsule or a function of a ctypes library, got {target!r}"
        )
    known = _kept.get(name)
    if known is not None and _address(known) == _address(capsule):
        return
    if known is not None:
        raise BackendError(f"register_ffi_target: {name!r} is the name of another function already")
    _jax.register_custom_call_target(name, capsule, "cpu", 1)
    _kept[name] = capsule
    _libraries.append(target)  # a library must stay loaded


def lapack_target(function: str, dtype: DType) -> str:
    """Makes one of the LAPACK functions that come with jaxlib known to XLA on CPUs.

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
    if name not in _kept:
        found = {known: capsule for known, capsule, _ in lapack.registrations()["cpu"]}
        if name not in found:
            raise BackendError(f"lapack_target: jaxlib has no {function} of {short_name(dtype)}")
        lapack.prepare_lapack_call(f"{function}_ffi", dtype)
        register_ffi_target(name, found[name])
    return name


def _address(capsule: object) -> int | None:
    """Returns where a capsule points."""
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype = ctypes.c_void_p
    read.argtypes = (ctypes.py_object, ctypes.c_char_p)
    found: int | None = read(capsule, _CAPSULE)
    return found


def _attribute(name: str, value: Attribute) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, np.integer):
        sign = "u" if value.dtype.kind == "u" else "i" if value.dtype.kind == "i" else ""
        width = value.dtype.itemsize * 8
        return f"{int(value)} : {'ui' if sign == 'u' else 'i'}{width}"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, np.floating):
        return f"{float(value)!r} : f{value.dtype.itemsize * 8}"
    if isinstance(value, float):
        return f"{value!r} : f64"
    if isinstance(value, Sequence) and all([type(v) is int for v in value]):
        return f"array<i64: {', '.join(map(str, value))}>" if value else "array<i64>"
    raise BackendError(
        f"custom_call: attribute {name!r} must be a bool, number, string or sequence of ints, got {value!r}"
    )


def _layouts(types: Sequence[ArrayType], layouts: Sequence[Sequence[int] | None] | None) -> str:
    texts: list[str] = []
    for i, t in enumerate(types):
        order = None if layouts is None else layouts[i]
        axes = list(range(t.ndim - 1, -1, -1)) if order is None else list(order)
        if sorted(axes) != list(range(t.ndim)):
            raise BackendError(f"custom_call: a layout of {t!r} lists its {t.ndim} axes, got {tuple(axes)}")
        texts.append(f"dense<{axes}> : tensor<{len(axes)}xindex>" if axes else "dense<> : tensor<0xindex>")
    return f"[{', '.join(texts)}]"


def custom_call_text(
    target: str,
    inputs: Sequence[str],
    in_types: Sequence[ArrayType],
    out_types: Sequence[ArrayType],
    attributes: Mapping[str, Attribute] | None = None,
    in_layouts: Sequence[Sequence[int] | None] | None = None,
    out_layouts: Sequence[Sequence[int] | None] | None = None,
    has_side_effect: bool = False,
    aliases: Mapping[int, int] | None = None,
) -> str:
    """Returns the right-hand side of a call of a foreign function.

    Args:
        target: the name under which it is registered.
        inputs: names of the operands.
        in_types, out_types: of the operands and results.
        attributes: what else it is given.
        in_layouts, out_layouts: for each array its axes, the one that runs fastest first; None for row by row.
        has_side_effect: True to keep the call where nothing uses its results.
        aliases: which result is written into which operand's memory.

    >>> from effx.ir.types import array_type
    >>> import effx
    >>> t = array_type(effx.dtypes.float32, (2,))
    >>> print(custom_call_text("twice", ["%a"], [t], [t], {"n": 3})[:71])
    stablehlo.custom_call @twice(%a) {api_version = 4 : i32, backend_config
    """
    config = ", ".join([f"{k} = {_attribute(k, v)}" for k, v in (attributes or {}).items()])
    parts = [
        "api_version = 4 : i32",
        f"backend_config = {{{config}}}",
        f"operand_layouts = {_layouts(in_types, in_layouts)}",
        f"result_layouts = {_layouts(out_types, out_layouts)}",
    ]
    if has_side_effect:
        parts.append("has_side_effect = true")
    if aliases:
        one = len(out_types) == 1
        places = [
            "#stablehlo.output_operand_alias<output_tuple_indices = "
            f"[{'' if one else out}], operand_index = {given}, operand_tuple_indices = []>"
            for out, given in aliases.items()
        ]
        parts.append(f"output_operand_aliases = [{', '.join(places)}]")
    outs = [t.mlir for t in out_types]
    results = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
    return (
        f"stablehlo.custom_call @{target}({', '.join(inputs)}) {{{', '.join(parts)}}} : "
        f"({', '.join([t.mlir for t in in_types])}) -> {results}"
    )
