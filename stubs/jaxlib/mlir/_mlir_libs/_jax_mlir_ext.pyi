# What jaxlib adds to MLIR.

from jaxlib.mlir.ir import DialectRegistry

# Later versions have one parameter more, with a default.
def register_dialects(arg: DialectRegistry, /) -> None: ...
