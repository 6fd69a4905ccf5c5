# What jaxlib adds to MLIR.

from jaxlib.mlir.ir import DialectRegistry

def register_dialects(arg: DialectRegistry, /, register_pipelines: bool = True) -> None: ...
