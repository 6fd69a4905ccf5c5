"""The layout of an artifact: the numbers of fields in its FlatBuffers tables, and of kinds.

The layout is that of files of `jax.export` (serialization version 11 and later, which add fields at the end).

The calling convention and this layout are formats, learnt from files and printed modules; interop tests hold
them.
"""

from typing import Final

from effx import dtypes
from effx.dtypes import DType

VERSION: Final = 11
# Versions whose fields have the meanings below; later ones add fields.
READ: Final = range(2, 13)

# pytree
KIND, CHILDREN, CHILDREN_NAMES, CUSTOM_NAME, CUSTOM_DATA = range(5)
PYTREE_FIELDS: Final = 5
LEAF, NONE, TUPLE, LIST, DICT, CUSTOM = range(6)

# abstract value; kind 0 is an array
ARRAY_KIND, ARRAY_SHAPE, ARRAY_DTYPE, ARRAY_MEMORY = range(4)
ARRAY_FIELDS: Final = 4
DEVICE_MEMORY: Final = 1

# sharding; kind 0 is none
SHARDING_FIELDS: Final = 3

# disabled check
CHECK_KIND, CHECK_TARGET = range(2)
CHECK_FIELDS: Final = 2
CHECKS: Final = ("platform", "custom_call", "shape_assertions")

# exported
(
    SERIALIZATION_VERSION, FUNCTION_NAME, IN_TREE, IN_TYPES, OUT_TREE, OUT_TYPES, DEVICES_SHORT, IN_SHARDINGS, OUT_SHARDINGS,
    PLATFORMS, ORDERED_EFFECTS, UNORDERED_EFFECTS, DISABLED_CHECKS, MODULE, CALLING_CONVENTION, KEPT, GLOBAL_CONSTANTS, VJP,
    DEVICES, UNIQUE_TYPES, UNIQUE_MESHES, UNIQUE_SHARDINGS, IN_TYPES_AT, OUT_TYPES_AT, IN_SHARDINGS_AT, OUT_SHARDINGS_AT,
) = range(26)  # fmt: skip
EXPORTED_FIELDS: Final = 26

_NAMES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", "bfloat16", "int4", "uint4", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float0", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip


def _stored_dtype(name: str) -> DType:
    result: DType = getattr(dtypes, "bool_" if name == "bool" else name)
    return result


DTYPES: Final[tuple[DType, ...]] = (
    *[_stored_dtype(name) for name in _NAMES],
    dtypes.KEYS["threefry2x32"],
    dtypes.KEYS["rbg"],
    dtypes.KEYS["unsafe_rbg"],
)
"""The dtypes by their numbers in artifacts."""
