"""StableHLO text of calls of foreign functions, and of their attributes."""

from collections.abc import Mapping, Sequence

import numpy as np

from effx import dtypes
from effx.errors import BackendError
from effx.ir.types import ArrayType

__all__ = [
    "STRINGS",
    "TYPED",
    "Attribute",
    "attribute_text",
    "custom_call_text",
    "key_text",
    "number_text",
    "string_text",
]

Attribute = (
    bool
    | int
    | float
    | str
    | np.generic
    | np.ndarray[tuple[int, ...], np.dtype[np.generic]]
    | Sequence[int]
    | Sequence[float]
    | Mapping[str, object]
)
"""The attributes of a foreign function. A NumPy scalar has its own width; Python's numbers have 64 bits. The function
receives a mapping as a structure, and an array row by row."""

TYPED = 4
"""The version of XLA's calls whose functions get the types of their operands."""

STRINGS = 2
"""The version of XLA's calls whose functions, or compilers, get their attributes as one string."""


def number_text(value: object, dtype: "np.dtype[np.generic]") -> str:
    """Returns a number as MLIR writes it in attributes.

    >>> number_text(1e-5, np.dtype("float64")), number_text(np.inf, np.dtype("float32"))
    ('1.0e-05', '0x7F800000')
    """
    scalar = np.asarray(value, dtype)
    if dtype.kind == "b":
        return "true" if scalar else "false"
    if dtype.kind in "iu":
        return str(int(scalar))
    number = float(scalar)
    if np.isfinite(number):
        text = repr(number)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    bits = int.from_bytes(scalar.tobytes(), "little")
    return f"0x{bits:0{2 * dtype.itemsize}X}"


def string_text(value: str) -> str:
    """Returns a string as MLIR writes it: what is not printable ASCII as bytes of UTF-8, in hex.

    >>> print(string_text('a "b" é'))
    "a \\22b\\22 \\C3\\A9"
    """
    return bytes_text(value.encode())


def bytes_text(value: bytes) -> str:
    """Returns bytes as MLIR writes a string of them."""
    plain = [chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in value]
    return f'"{"".join(plain)}"'


def attribute_text(name: str, value: object, function_name: str = "custom_call") -> str:
    """Returns an attribute of a foreign function as MLIR writes it.

    Args:
        name: the attribute's.
        value: a bool, number, string, NumPy scalar or array, sequence of Python's numbers, or mapping of such.
        function_name: the calling function, for errors.

    Raises:
        BackendError: XLA has no such attributes.

    >>> print(attribute_text("a", {"n": 3, "scale": np.float32(0.5), "axes": (0, 1)}))
    {axes = array<i64: 0, 1>, n = 3 : i64, scale = 0.5 : f32}
    """
    match value:
        case bool() | np.bool_():
            return "true" if value else "false"
        case str():
            return string_text(value)
        case np.generic() if _element(value.dtype):
            return f"{number_text(value, value.dtype)} : {_element(value.dtype)}"
        case np.ndarray() if _element(value.dtype):
            if not value.ndim:
                return attribute_text(name, value[()], function_name)
            return _array_text(value)
        case int() if -(2**63) <= value < 2**63:
            return f"{value} : i64"
        case float():
            return f"{number_text(value, np.dtype(np.float64))} : f64"
        case Mapping() if all([isinstance(k, str) for k in value]):
            entries = [
                f"{key_text(k)} = {attribute_text(f'{name}.{k}', v, function_name)}"
                for k, v in sorted(value.items())
            ]
            return f"{{{', '.join(entries)}}}"
        case list() | tuple() | range():
            kinds = {type(v) for v in value}
            for kind, wide in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
                if kinds == {kind} or (kind is int and not kinds):
                    if kind is int and any([not -(2**63) <= v < 2**63 for v in value]):
                        break
                    return _array_text(np.asarray(value, wide))
    raise BackendError(
        f"{function_name}: attribute {name!r} must be a bool, number, string, NumPy array, sequence of ints or of "
        "floats, or a "
        f"mapping of such, got {value!r}"
    )


def key_text(name: str) -> str:
    """Returns a name as MLIR writes it: in quotes where need be."""
    return name if name.isascii() and name.isidentifier() else string_text(name)


def _element(dtype: "np.dtype[np.generic]") -> str:
    """Returns MLIR's name of an element type; "" for those that XLA accepts in no attribute."""
    if dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize in (1, 2, 4, 8)) or dtype.name in _FLOATS:
        return dtypes.mlir_name(dtype)
    return ""


_FLOATS = ("float32", "float64")


def _array_text(value: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> str:
    # Signed elements can be written without a shape. For unsigned ones there is only the form with the shape.
    element = _element(value.dtype)
    items = ", ".join([number_text(v, value.dtype) for v in value.ravel()])
    if value.dtype.kind == "u":
        return f"dense<[{items}]> : tensor<{value.size}x{element}>"
    return f"array<{element}: {items}>" if items else f"array<{element}>"


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
    *,
    attributes: Mapping[str, Attribute] | None = None,
    in_layouts: Sequence[Sequence[int] | None] | None = None,
    out_layouts: Sequence[Sequence[int] | None] | None = None,
    has_side_effect: bool = False,
    aliases: Mapping[int, int] | None = None,
    api_version: int = TYPED,
    config: str | None = None,
    laid_out: bool = True,
    shapes: Sequence[int] = (),
) -> str:
    """Returns the right-hand side of a call of a foreign function.

    Args:
        target: the name under which it is registered.
        inputs: names of the operands.
        in_types, out_types: of the operands and results.
        attributes: the function's attributes.
        in_layouts, out_layouts: for each array its axes, the fastest first; None for row-major.
        has_side_effect: True to keep the call where nothing uses its results.
        aliases: which result is written into which operand's memory.
        api_version: of the function's interface; below 4 it takes memory and a string.
        config: the function's attributes as MLIR's text, instead of `attributes`.
        laid_out: False to leave layouts to XLA.
        shapes: for each result the number of the operand with its sizes, where these are computed.

    >>> from effx.ir.types import array_type
    >>> import effx
    >>> t = array_type(effx.dtypes.float32, (2,))
    >>> print(custom_call_text("twice", ["%a"], [t], [t], attributes={"n": 3})[:71])
    stablehlo.custom_call @twice(%a) {api_version = 4 : i32, backend_config
    """
    if config is None:
        entries = [f"{key_text(k)} = {attribute_text(k, v)}" for k, v in (attributes or {}).items()]
        config = f"{{{', '.join(entries)}}}"
    parts = [f"api_version = {api_version} : i32", f"backend_config = {config}"]
    if laid_out:
        parts.append(f"operand_layouts = {_layouts(in_types, in_layouts)}")
        parts.append(f"result_layouts = {_layouts(out_types, out_layouts)}")
    if has_side_effect:
        parts.append("has_side_effect = true")
    if shapes:
        parts.append(f"indices_of_shape_operands = dense<{list(shapes)}> : tensor<{len(shapes)}xi64>")
    if aliases:
        one = len(out_types) == 1
        alias_texts = [
            "#stablehlo.output_operand_alias<output_tuple_indices = "
            f"[{'' if one else out}], operand_index = {input_index}, operand_tuple_indices = []>"
            for out, input_index in aliases.items()
        ]
        parts.append(f"output_operand_aliases = [{', '.join(alias_texts)}]")
    outs = [t.mlir for t in out_types]
    results = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
    return (
        f"stablehlo.custom_call @{key_text(target)}({', '.join(inputs)}) {{{', '.join(parts)}}} : "
        f"({', '.join([t.mlir for t in in_types])}) -> {results}"
    )
