"""Convert StableHLO text to jaxlib's objects: XLA computations and MLIR modules."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from jaxlib import _jax
from jaxlib._hlo import HloPrintOptions, XlaComputation
from jaxlib._jax import LoadedExecutable

from effx.errors import BackendError

if TYPE_CHECKING:
    from jaxlib.mlir.ir import Context
    from jaxlib.mlir.ir import Module as Module

__all__ = [
    "LoadedExecutable", "XlaComputation", "hlo_computation", "hlo_text", "mlir_binding", "mlir_functions", "mlir_module",
    "print_as_mlir",
]  # fmt: skip


def hlo_computation(text: str, tuple_args: bool = False, return_tuple: bool = False) -> XlaComputation:
    """Returns the XLA computation of a StableHLO module, not optimized.

    Args:
        text: of the module.
        tuple_args: True for one argument, a tuple of all.
        return_tuple: True for a tuple where there is one result only.

    Raises:
        BackendError: XLA refuses the text.
    """
    try:
        return _jax.mlir.mlir_module_to_xla_computation(text, tuple_args, return_tuple)
    except _jax.JaxRuntimeError as error:
        raise BackendError(f"lower: XLA refused the program: {error}") from error


def hlo_text(text: str, debug_info: bool) -> str:
    """Returns a StableHLO module as HLO, not optimized, with or without the locations that it has."""
    if not debug_info:
        return hlo_computation(text).as_hlo_text()
    options = HloPrintOptions()
    options.print_metadata = True
    return hlo_computation(text).get_hlo_module().to_string(options)


def mlir_module(text: "str | bytes") -> "Module":
    """Returns a StableHLO module, as text or bytecode, as an object of MLIR's Python binding, in a context of its own."""
    from jaxlib.mlir import ir

    return ir.Module.parse(text, mlir_context())


def print_as_mlir(text: str, debug_info: bool) -> str:
    """Returns a StableHLO module as MLIR itself prints it, with or without the locations that it has."""
    return str(mlir_module(text).operation.get_asm(enable_debug_info=debug_info))


def mlir_binding(name: str) -> ModuleType:
    """Returns a module of MLIR's Python binding, "ir" or "dialects.stablehlo", say.

    Raises:
        ModuleNotFoundError: jaxlib has no such module.
    """
    return import_module(f"jaxlib.mlir.{name}")


def mlir_functions() -> ModuleType:
    """Returns jaxlib's module of functions of MLIR modules: StableHLO's bytecode, and conversions from and to HLO."""
    return _jax.mlir


def mlir_context() -> "Context":
    """Returns an MLIR context with the dialects of StableHLO modules."""
    from jaxlib.mlir import ir  # 20 ms, needed rarely
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    context, registry = ir.Context(), ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    return context
