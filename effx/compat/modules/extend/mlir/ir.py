"""`jax.extend.mlir.ir`: jaxlib's `mlir.ir`."""

from effx.lower.text.hlo import mlir_binding


def __getattr__(name: str) -> object:
    return getattr(mlir_binding("ir"), name)


def __dir__() -> list[str]:
    return dir(mlir_binding("ir"))
