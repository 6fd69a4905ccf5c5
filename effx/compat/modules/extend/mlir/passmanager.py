"""`jax.extend.mlir.passmanager`: jaxlib's `mlir.passmanager`."""

from effx.lower.text.hlo import mlir_binding


def __getattr__(name: str) -> object:
    return getattr(mlir_binding("passmanager"), name)


def __dir__() -> list[str]:
    return dir(mlir_binding("passmanager"))
