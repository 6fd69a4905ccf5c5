"""`jax.extend.mlir.dialects`: the dialects of jaxlib's `mlir`, such as `stablehlo`."""

from types import ModuleType

from effx.lower.text.hlo import mlir_binding


def __getattr__(name: str) -> ModuleType:
    try:
        return mlir_binding(f"dialects.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
