"""Names of a module of jaxlib's MLIR binding, for a module of `jax.extend.mlir`."""

from collections.abc import Callable

from effx.lower.text.hlo import mlir_binding

__all__ = ["binding_namespace"]


def binding_namespace(name: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a module that has the names of a module of the binding.

    Args:
        name: the binding's module, which is loaded when a name is asked for: "ir", say.
    """
    return lambda attribute: getattr(mlir_binding(name), attribute), lambda: dir(mlir_binding(name))
