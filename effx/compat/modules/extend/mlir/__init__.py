"""`jax.extend.mlir`: MLIR's Python binding and StableHLO's bytecode, as jaxlib has them."""

from effx.lower.text.hlo import mlir_functions

__all__ = [
    "deserialize_portable_artifact", "hlo_to_stablehlo", "refine_polymorphic_shapes", "serialize_portable_artifact",
]  # fmt: skip

_functions = mlir_functions()
deserialize_portable_artifact = _functions.deserialize_portable_artifact
hlo_to_stablehlo = _functions.hlo_to_stablehlo
refine_polymorphic_shapes = _functions.refine_polymorphic_shapes
serialize_portable_artifact = _functions.serialize_portable_artifact
